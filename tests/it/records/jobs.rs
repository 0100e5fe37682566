//! Jobs that are kept in files: where they are found, what wins, what is wrong with them, and what they
//! would run.

use crate::harness::{Mount, Run, Scene, names_below, need, shell};

/// A job from `src` to `dst` with more lines, and the scene's paths for `{}`.
fn job(scene: &Scene, more: &str) -> String {
    let root = scene.root().display().to_string();
    let text =
        format!("input = '{root}/src'\noutput = '{root}/dst'\n{}\n", more.replace("{}", &root));
    scene.tree(".").file("job.toml", &text);
    text
}

fn run(scene: &Scene, args: &[&str]) -> Run {
    scene.bare(args).run()
}

#[test]
fn a_job_runs_and_the_command_line_wins() {
    let scene = Scene::new();
    scene.src.file("a", "1").file("b.tmp", "2").file("c.log", "3");
    job(
        &scene,
        "exclude = '*.tmp'\nquiet = true\nno-sync = true\nreport = '{}/report'\nmetrics = '{}/m'",
    );
    run(&scene, &["--job", "job.toml"]).assert_code(0);
    let names = |dir: &str| -> Vec<String> {
        let names = names_below(&scene.path(dir), "f").into_iter();
        let names = names.filter_map(|name| String::from_utf8(name).ok());
        names.filter(|name| !name.starts_with("dircopy-")).collect()
    };
    assert_eq!(names("dst"), ["a", "c.log"]);
    let report = std::fs::read(scene.path("report")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report["job"]["path"], "job.toml");
    assert_eq!(report["job"]["arguments"][2], "--exclude=*.tmp");

    // An output takes the place of the file's, a filter is added, and -v gives way to no `quiet`.
    let other = run(&scene, &["--job", "job.toml", "-o", "other", "--exclude", "*.log", "-v"]);
    other.assert_code(0).assert_prints(&["copied a"]);
    assert_eq!(names("other"), ["a"]);
    let back = run(&scene, &["--job", "job.toml", "-o", "back", "--include", "b.tmp"]);
    back.assert_code(0);
    assert_eq!(names("back"), ["a", "b.tmp", "c.log"]);

    // A trial leaves the last night's report alone.
    std::fs::write(scene.path("report"), "of the last night").unwrap();
    run(&scene, &["--job", "job.toml", "--dry-run"])
        .assert_code(0)
        .assert_prints(&["unchanged", "2 files"]);
    assert_eq!(std::fs::read(scene.path("report")).unwrap(), b"of the last night");
}

#[test]
fn a_job_is_found_by_its_name() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    let text = job(&scene, "");
    scene.tree("config").file("dircopy/jobs/nightly.toml", &text);
    scene.tree("home").file(".config/dircopy/jobs/weekly.toml", &text);
    let config = format!("XDG_CONFIG_HOME={}", scene.path("config").display());
    let home = format!("HOME={}", scene.path("home").display());
    scene.bare(["--job", "nightly"]).under(["env", &config]).run().assert_code(0);
    assert!(scene.output().has("a"));
    let command = scene.bare(["--job", "weekly"]).under(["env", "-u", "XDG_CONFIG_HOME", &home]);
    command.run().assert_code(0);
    let none = scene.bare(["--job", "monthly"]).under(["env", &config]).run();
    none.assert_code(2)
        .assert_says("there is no monthly.toml in ")
        .assert_says("/etc/dircopy/jobs");
    run(&scene, &["--job", "./nightly"])
        .assert_code(2)
        .assert_says("cannot read the job ./nightly");
}

#[test]
fn what_is_wrong_in_a_job_is_told_with_its_line() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    for (line, said) in [
        ("exlude = 'x'", "there is no key exlude; did you mean exclude?"),
        ("overwrite_policy = 'update'", "did you mean overwrite-policy?"),
        ("overwrite-policy = 'updat'", "expected one of default, update, never, always"),
        ("limit-rate = 5.0", "limit-rate: expected a number"),
        ("stop-at = '25:00'", "stop-at: expected a time of the day"),
        ("verify = 'yes'", "verify: expected one of all, new"),
        ("no-sync = 'yes'", "no-sync: expected true or false"),
        ("exclude = ['a', 'b[']", "exclude: the pattern"),
        ("jobs = 0", "jobs: 0 is not in 1..=256"),
        ("report = 4", "report: expected a string in quotes"),
        ("report = ''", "report: a value is needed"),
        ("dry-run = true", "dry-run can only be given on the command line"),
        ("[filters]", "there is no key filters"),
        ("no-sync = ", "line 3: "),
        ("output = 'x'", "duplicate key"),
    ] {
        job(&scene, line);
        for args in [&["--job", "job.toml"][..], &["jobs", "check", "job.toml"]] {
            let run = run(&scene, args);
            run.assert_code(2)
                .assert_says("cannot use the job job.toml: line 3: ")
                .assert_says(said);
        }
        assert!(!scene.dst.exists(), "{line}");
    }
    // Two faults are told at once; what does not go together has no line.
    job(&scene, "a = 1\nb = 2");
    run(&scene, &["--job", "job.toml"]).assert_code(2).assert_says("line 3").assert_says("line 4");
    job(&scene, "expect-all = true");
    run(&scene, &["--job", "job.toml"]).assert_code(2).assert_says("with the job job.toml");
    std::fs::write(scene.path("job.toml"), "input = 'src'").unwrap();
    run(&scene, &["--job", "job.toml"]).assert_code(2).assert_says("gives --output");
}

#[test]
fn a_check_of_a_job_tells_what_it_would_run_and_touches_nothing() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    let text =
        job(&scene, "exclude = [\"*.tmp\", \"x\"]\ninclude = \"y\"\nnice = 5\nhard-links = true");
    let before = names_below(scene.root(), "f");
    let good = run(&scene, &["jobs", "check", "job.toml"]);
    good.assert_code(0).assert_prints(&["# nothing is in its way"]);
    good.assert_prints(&["whether there is room says a dry run: dircopy --job "]);
    assert_eq!(names_below(scene.root(), "f"), before);
    assert!(!scene.dst.exists());
    let said = good.out();
    let set: Vec<&str> = said.lines().filter(|line| !line.starts_with('#')).collect();
    let expected = text.replace('\'', "\"").replace("nice = 5", "nice = \"5\"");
    assert_eq!(set, expected.lines().collect::<Vec<_>>());
    let is_default = |line: &str| {
        line.starts_with("# by default: ") && line.contains("overwrite-policy = \"default\"")
    };
    assert!(said.lines().any(is_default), "{said}");
    // A switch with a value is off by false, as any other.
    job(&scene, "verify = false\nmirror = false");
    let off = run(&scene, &["jobs", "check", "job.toml"]);
    off.assert_code(0);
    assert!(
        off.out().lines().all(|line| !line.starts_with("verify") && !line.starts_with("mirror"))
    );
    // What it tells is itself the job.
    scene.tree(".").file("again.toml", &said);
    assert_eq!(
        run(&scene, &["jobs", "check", "again.toml"]).out().lines().count(),
        said.lines().count()
    );

    let bad =
        "input = '/no/such'\noutput = 'no/such/place'\nreport = '/no/such/r'\nlog = '/no/such/l'";
    scene.tree(".").file("bad.toml", bad);
    let bad = run(&scene, &["jobs", "check", "bad.toml"]);
    bad.assert_code(1).assert_says("cannot copy /no/such: there is no such file");
    bad.assert_says("cannot write the report").assert_says("cannot open the log");
    bad.assert_says("no/such/place: it is relative");
    job(&scene, "");
    let inside = format!("input = '{0}/src'\noutput = '{0}/src/dst'", scene.root().display());
    scene.tree(".").file("inside.toml", inside);
    run(&scene, &["jobs", "check", "inside.toml"]).assert_code(1).assert_says("inside the source");
}

/// What the check passes, the run does not refuse for what it was asked, and the other way round.
#[test]
fn a_check_of_a_job_refuses_what_the_run_would() {
    let scene = Scene::new();
    scene.src.file("a", "1").file("b", "2");
    scene.tree(".").file("list", "").fifo("pipe").dir("reports");
    for (ends, said) in [
        ("input = ['{}/src', '{}/src']\noutput = '{}/dst/'", "this names a directory"),
        ("input = ['{}/src/a', '{}/src/b']\noutput = '{}/src'", "this is a directory"),
        ("input = ['{}/src/a', '{}/src/b']\noutput = '{}/src/a'", "is an output file"),
        ("input = ['{}/src/a', '{}/src/b']\noutput = ['{}/x', '{}/x']", "a file of its own"),
        ("input = ['{}/src/a', '{}/none']\noutput = '{}/x'\nstrict = true", "none"),
        ("input = '{}/src'\noutput = ['{}/dst', '{}/dst']", "same directory as the output"),
        ("input = '{}/src'\noutput = '{}/dst'\nexpect = '{}/list'", "no line with"),
        ("input = '{}/src'\noutput = '{}/dst'\nexpect = '{}/none'", "expected manifest"),
        (
            "input = '{}/src'\noutput = '{}/dst'\nreport = '{}/r'\nlog = '{}/r'",
            "a file of their own",
        ),
        (
            "input = '{}/src'\noutput = '{}/dst'\nreport = '{}/r'\nkeep-reports = 3",
            "is for a directory",
        ),
        ("input = '{}/src'\noutput = '{}/dst'\nreport = '{}/none/'", "cannot write the report"),
        ("input = '{}/src'\noutput = '{}/dst'\non-end = '{}/none'", "the command of --on-end"),
        ("input = '{}/src'\noutput = '{}/dst'\nfiles-from = '{}/none'", "the list of names"),
        (
            "input = '{}/src'\noutput = '{}/dst'\nreport = '{}/r'\nsign = '{}/none'",
            "cannot sign with",
        ),
        ("input = '{}/src/a'\noutput = '{}/dst'\nlog = '{}/src/a'", "it is what is to be copied"),
        ("input = '{}/src'\noutput = '{}/dst'\nstate = '{}/none'", "for private records"),
        ("input = '{}/src'\noutput = '{}/dst'\nstate = '{}/src'", "is inside the source"),
        ("input = '{}/src'\noutput = '{}/dst'\ncatalog = '{}/src/c'", "is inside the source"),
        ("input = '{}/src'\noutput = ['{}/dst', '{}/x']\nspan = true", "on the same file system"),
        ("input = '{}/src/a'\noutput = '{}/dst'\nmirror = true", "it is one file, and a mirror"),
        ("input = '{}/src/a'\noutput = '{}/dst'\ngenerations = true", "and generations are of"),
        (
            "input = '{}/src/a'\noutput = '{}/dst'\nfiles-from = '{}/list'",
            "names below a directory",
        ),
    ] {
        let text = ends.replace("{}", &scene.root().display().to_string());
        scene.tree(".").file("job.toml", text);
        let before = names_below(scene.root(), "f");
        let check = run(&scene, &["jobs", "check", "job.toml"]);
        check.assert_code(1).assert_says(said);
        assert_eq!(names_below(scene.root(), "f"), before, "{ends}");
        run(&scene, &["--job", "job.toml"]).assert_code(2).assert_says(said);
        assert!(!scene.dst.exists(), "{ends}");
    }
    // A run copies without a catalogue, and without what is to be told how it ended, and says so.
    for (line, said) in [
        ("catalog = '{}/none/c'", "cannot use the catalogue"),
        ("on-end = '{}/list'", "cannot run the command of --on-end"),
    ] {
        job(&scene, line);
        for args in [&["jobs", "check", "job.toml"][..], &["--job", "job.toml"]] {
            run(&scene, args).assert_code(1).assert_says(said);
        }
    }
    // What is only opened when it runs is left alone, or the check would wait for somebody to read.
    let text = "input = '{}/src/a'\noutput = '{}/pipe'\nreport = '{}/reports'\nkeep-reports = 3";
    scene.tree(".").file("job.toml", text.replace("{}", &scene.root().display().to_string()));
    run(&scene, &["jobs", "check", "job.toml"]).assert_code(0);
}

/// What earlier runs left at the output, and somebody changed since: the check reads what the run goes on with.
#[test]
fn a_check_of_a_job_looks_at_what_the_run_goes_on_with() {
    for (option, file, said) in [
        ("bag = true", "bag-info.txt", "cannot keep the tags in"),
        ("format = 'mhl'", "ascmhl/0001_*.mhl", "the history was touched or is damaged"),
    ] {
        let scene = Scene::new();
        scene.src.file("a", "1");
        job(&scene, option);
        run(&scene, &["--job", "job.toml"]).assert_code(0);
        run(&scene, &["jobs", "check", "job.toml"]).assert_code(0);
        shell(&scene, &format!("echo more >> dst/{file}"));
        let before = names_below(scene.root(), "f");
        run(&scene, &["jobs", "check", "job.toml"]).assert_code(1).assert_says(said);
        run(&scene, &["--job", "job.toml", "--dry-run"]).assert_code(2).assert_says(said);
        assert_eq!(names_below(scene.root(), "f"), before, "{option}");
        run(&scene, &["--job", "job.toml"]).assert_code(2).assert_says(said);
    }
}

/// `sudo` and `su` may leave another user's HOME, and a directory that others may write to may hold anybody's job.
#[test]
fn a_job_that_others_may_change_is_not_run() {
    need!(Root);
    let scene = Scene::new();
    scene.src.file("a", "1");
    let text = job(&scene, "on-end = 'touch {}/obeyed'");
    let home = scene.tree("home");
    home.file(".config/dircopy/jobs/nightly.toml", &text);
    let named = || {
        let home = format!("HOME={}", scene.path("home").display());
        scene.bare(["--job", "nightly"]).under(["env", "-u", "XDG_CONFIG_HOME", &home]).run()
    };
    let refused = |run: Run, by: &str| {
        run.assert_code(2).assert_says("another user may change").assert_says(by);
        run.assert_says("chmod go-w").assert_says("/etc/dircopy/jobs");
        assert!(!scene.path("obeyed").exists() && !scene.dst.exists());
    };
    let jobs = "home/.config/dircopy/jobs";
    for (way, back, by) in [
        ("chown nobody", "chown root", "jobs/nightly.toml"),
        ("chmod o+w", "chmod o-w", "jobs/nightly.toml"),
        ("chmod g+w", "chmod g-w", "jobs/nightly.toml"),
    ] {
        shell(&scene, &format!("{way} {jobs}/nightly.toml"));
        refused(named(), by);
        shell(&scene, &format!("{back} {jobs}/nightly.toml"));
    }
    for (way, back, by) in
        [("chown nobody", "chown root", "home"), ("chmod g+w", "chmod g-w", "home")]
    {
        for dir in ["home", "home/.config", jobs] {
            shell(&scene, &format!("{way} {dir}"));
            refused(named(), by);
            refused(run(&scene, &["--job", &format!("{jobs}/nightly.toml")]), by);
            refused(run(&scene, &["jobs", "check", &format!("{jobs}/nightly.toml")]), by);
            shell(&scene, &format!("{back} {dir}"));
        }
    }
    // A link of theirs says which of this user's jobs is run.
    shell(
        &scene,
        "mkdir theirs; ln -s ../job.toml theirs/j.toml; chown -h nobody theirs theirs/j.toml",
    );
    refused(run(&scene, &["--job", "theirs/j.toml"]), "theirs");
    // One of root's own is obeyed, also in a directory where only owners replace what is theirs.
    shell(&scene, &format!("chmod 1777 {jobs}"));
    named().assert_code(0);
    assert!(scene.path("obeyed").exists());
    // A user obeys root, and oneself.
    shell(&scene, "rm -r obeyed dst; chmod go+rx .; chown nobody .; chmod a+rX -R home src");
    let args = ["--job", "./job.toml", "--dry-run"];
    scene.bare(args).under_nobody().run().assert_code(0);
}

/// A run that could not leave its report, figures or log is refused before anything, and the check says so.
#[test]
fn records_on_a_read_only_disk_are_refused_before_anything() {
    need!(Mount);
    let scene = Scene::new();
    scene.src.file("a", "1");
    scene.tree("place").dir("reports");
    scene.tree("seen").dir("reports");
    let _mount = Mount::read_only(&scene.path("place"), &scene.path("seen"));
    for (line, said) in [
        ("report = '{}/seen/r.json'", "cannot write the report"),
        ("report = '{}/seen/r.html'", "cannot write the report"),
        ("report = '{}/seen/reports/'", "cannot write the report"),
        ("metrics = '{}/seen/m'", "cannot write the metrics"),
        ("log = '{}/seen/l'", "cannot open the log"),
    ] {
        job(&scene, line);
        let said = format!("{said} {}", scene.path("seen").display());
        let check = run(&scene, &["jobs", "check", "job.toml"]);
        check.assert_code(1).assert_says(&said).assert_says("Read-only file system");
        run(&scene, &["--job", "job.toml"]).assert_code(2).assert_says(&said);
        assert!(!scene.dst.exists(), "{line}");
    }
}

/// What the dry run of a job passes, its options do not forbid the run, and none is named that there cannot be.
#[test]
fn the_dry_run_of_a_job_has_its_options() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    shell(&scene, "mkdir reports; cd src; sha256sum a >../list");
    for (line, said) in [
        ("expect-all = true", "--expect"),
        ("keep-reports = 4", "--keep-reports wants --report"),
        ("sign = '{}/list'", "--sign wants --report"),
    ] {
        job(&scene, line);
        for more in [&[][..], &["--dry-run"]] {
            let args = [&["--job", "job.toml"][..], more].concat();
            run(&scene, &args).assert_code(2).assert_says(said);
        }
    }
    scene.copy(&["--expect-all", "--dry-run"]).assert_code(2);
    job(&scene, "report = '{}/reports/'\nkeep-reports = 4\nsign = '{}/none'");
    run(&scene, &["--job", "job.toml", "--dry-run"]).assert_code(0);
    job(&scene, "expect = '{}/list'");
    run(&scene, &["--job", "job.toml", "--dry-run"]).assert_code(2);
    let check = run(&scene, &["jobs", "check", "job.toml"]);
    check.assert_code(0).assert_prints(&["whether there is room shows when it runs"]);
    assert!(!check.out().contains("--dry-run"), "{}", check.out());
}
