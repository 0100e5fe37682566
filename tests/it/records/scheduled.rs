//! Runs that nobody watches: how they give way, when they end, how they wait for each other, what they
//! clear away, and whether the examples in `contrib/` are what they say.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{
    Mount, Need, Running, SOON, Scene, Strace, content, have, names_below, need, noon_in, shell,
};

fn seconds(scene: &Scene, report: &str) -> f64 {
    let report = std::fs::read(scene.path(report)).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    report["elapsed_seconds"].as_f64().unwrap()
}

/// The names of finished copies, in order.
fn finished(scene: &Scene) -> Vec<Vec<u8>> {
    let mut names: Vec<_> = names_below(&scene.dst, "f").into_iter().collect();
    names.retain(|name| !name.starts_with(b".") && !name.starts_with(b"dircopy-"));
    names
}

/// Ten seconds, large files and small ones, several lanes.
#[test]
fn a_rate_is_held() {
    let scene = Scene::new();
    for i in 0..6 {
        scene.src.file(format!("large-{i}"), content(3_000_000));
    }
    for i in 0..400 {
        scene.src.file(format!("small/{i}"), content(5_000));
    }
    let args = ["--limit-rate", "2MB", "--report", "report", "--workers", "3"];
    let run = scene.copy(&args);
    scene.judge(&run).complete();
    let took = seconds(&scene, "report");
    // A busy machine may be late, never early.
    assert!((9.5..20.0).contains(&took), "20 MB at 2 MB/s took {took} s");
}

#[test]
fn a_run_at_a_low_rate_stops_at_once() {
    let scene = Scene::new();
    scene.src.file("a", content(100_000)).file("b", content(3_000_000));
    let mut running = scene.command(["--limit-rate", "1K"]).spawn();
    running.until("a part file", || !names_below(&scene.dst, "f").is_empty());
    std::thread::sleep(Duration::from_millis(300));
    let since = Instant::now();
    running.signal(Signal::INT);
    let run = running.wait();
    run.assert_code(130);
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    scene.judge(&run).no_temp_files();
}

/// The files in hand are finished, no more are begun, what is finished is recorded, and the next run
/// goes on.
#[test]
fn a_run_ends_when_its_time_is_up() {
    for block in ["4096", "1M"] {
        let scene = Scene::new();
        for i in 0..30 {
            scene.src.file(format!("{i:02}"), content(300_000));
        }
        // Its time is up in the middle of the first file.
        let args = ["--limit-rate", "50K", "--workers", "1", "--block-size", block];
        let run = scene.command(args.into_iter().chain(["--max-duration", "3s"])).run();
        run.assert_code(6).assert_says("time is up").assert_prints(&["TIME IS UP"]);
        let judge = scene.judge(&run);
        judge.no_temp_files();
        assert!(judge.manifests().is_empty());
        let done = finished(&scene);
        // In a run of small files too, not all of the run is in hand.
        assert_eq!(done.len(), 1, "{done:?}");
        assert_eq!(std::fs::read(scene.dst.join("00")).unwrap(), content(300_000));
        let list = judge.newest().unwrap();
        judge.list_verifies(&list);
        assert_eq!(judge.lines(&list).len(), 1);
        let run = scene.copy(&[]);
        scene.judge(&run).complete();
        run.assert_prints(&["copied", "29 files"]);
    }
}

/// A file in hand is given up when the grace is over too: zeros alone can take hours.
#[test]
fn a_file_in_hand_ends_after_a_grace() {
    let scene = Scene::new();
    scene.src.file("good", "good");
    shell(&scene, "truncate -s 7T src/zeros");
    let since = Instant::now();
    let run = scene.copy(&["--max-duration", "1s", "--grace", "1s", "--workers", "2"]);
    run.assert_code(6).assert_says("the time is up").assert_says("the grace is over too");
    run.assert_says("src/zeros: 7 TiB of it are holes").assert_prints(&["TIME IS UP"]);
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    let judge = scene.judge(&run);
    judge.lacks("zeros").has("good");
}

#[test]
fn a_run_ends_when_the_clock_says_so() {
    let scene = Scene::new();
    for i in 0..30 {
        scene.src.file(format!("{i:02}"), content(200_000));
    }
    let zone = noon_in(&scene, 8);
    let args = ["--limit-rate", "200K", "--workers", "1", "--stop-at"];
    let run = scene.command(args.into_iter().chain(["12:00"])).under(["env", &zone]).run();
    run.assert_code(6);
    assert!((1..29).contains(&finished(&scene).len()));
    // A minute that was is tomorrow's.
    let run = scene.command(["--stop-at", "11:59"]).under(["env", &zone]).run();
    scene.judge(&run).complete();
    for wrong in ["24:00", "noon", "1:00", ""] {
        scene.copy(&["--stop-at", wrong]).assert_code(2);
    }
}

/// In a container nothing says what the local time is, and names of time zones are not known.
#[test]
fn where_there_is_no_local_time_it_is_utc() {
    need!(Mount);
    let scene = Scene::new();
    scene.src.file("a", "x");
    let bare = "mount -t tmpfs none /etc && mount -t tmpfs none /usr/share/zoneinfo && exec \"$@\"";
    let run = |set: &[&str]| {
        let command = scene.command(["--stop-at", "06:00"]).under(["env"].iter().chain(set));
        command.in_shell(bare).under(["unshare", "-m"]).run()
    };
    run(&["-u", "TZ"]).assert_code(0);
    run(&["TZ=CET-1CEST,M3.5.0,M10.5.0/3"]).assert_code(0);
    run(&["TZ=Europe/Berlin"]).assert_code(2).assert_says("or a rule");
}

#[test]
fn a_run_gives_way() {
    need!(Root, Setpriv);
    let scene = Scene::new();
    scene.src.file("a", content(600_000));
    let args =
        ["--limit-rate", "60K", "--nice", "19", "--ionice", "best-effort:6", "--workers", "2"];
    let look = "\"$@\" >/dev/null & pid=$!; until ls -A dst | grep -q dircopy-part; do sleep 0.01; done \
                2>/dev/null; sleep 0.5; for t in /proc/$pid/task/*; do sed 's/.*) //' $t/stat | \
                cut -d' ' -f17; ionice -p ${t##*/}; done; wait $pid";
    let run = scene.command(args).in_shell(look).run();
    run.assert_code(0);
    let said = run.out();
    let threads = said.lines().filter(|line| *line == "19").count();
    // A lane at least; the others are done. The main thread may have been made nicer from outside.
    assert!(threads >= 3, "{said}");
    let prios = said.matches("best-effort: prio 6").count();
    assert!(prios > threads.min(3) && 2 * prios == said.lines().count(), "{said}");

    shell(&scene, "chown -R nobody .");
    let run = scene.command(["--nice", "-5"]).under_nobody().run();
    run.assert_code(0).assert_says("warning: cannot set the niceness");
    for wrong in [["--nice", "20"], ["--ionice", "realtime"], ["--ionice", "best-effort:8"]] {
        scene.copy(&wrong).assert_code(2);
    }
}

fn slow(scene: &Scene) -> Running {
    let mut running = scene.command(["--limit-rate", "100K", "--workers", "1"]).spawn();
    running.until("a part file", || !names_below(&scene.dst, "f").is_empty());
    running
}

#[test]
fn a_second_run_says_who_is_first_or_waits() {
    let scene = Scene::new();
    scene.src.file("a", content(500_000)).file("b", content(400_000));
    let mut first = slow(&scene);
    let refused = scene.copy(&[]);
    refused.assert_code(2).assert_says("another dircopy (process ");
    refused.assert_says("dircopy, since ").assert_says("--wait");
    let said = refused.err();
    let since = said.split_once("since ").unwrap().1.split_once(')').unwrap().0;
    let ago = shell(&scene, &format!("echo $(($(date +%s) - $(date -d {since} +%s)))"));
    assert!((-2..300).contains(&ago.trim().parse::<i64>().unwrap()), "{said}");
    // Waiting ends by a signal, or when the time is up, and then nothing was touched.
    let mut waiting = scene.command(["--wait"]).spawn();
    waiting.until_it_listens();
    std::thread::sleep(Duration::from_millis(500));
    assert!(!waiting.is_over());
    waiting.signal(Signal::TERM);
    waiting.wait().assert_code(143);
    scene.copy(&["--wait", "--max-duration", "300ms"]).assert_code(6);
    assert!(!first.is_over());
    let second = scene.copy(&["--wait"]);
    let first = first.wait();
    first.assert_code(0);
    scene.judge(&second).complete();
    second
        .assert_says("waiting: another dircopy (process ")
        .assert_prints(&["unchanged", "2 files"]);
    // Nobody to wait for.
    scene.judge(&scene.copy(&["--wait"])).complete();
}

/// Between looking for the output and making it, and between making and locking it, another run may be
/// quicker.
#[test]
fn two_runs_that_make_the_output_at_once_follow_each_other() {
    need!(Strace);
    for call in ["mkdir,mkdirat", "flock"] {
        let scene = Scene::new();
        scene.src.file("a", content(5000)).file("dir/b", content(400));
        let strace = Strace::inject(&scene, call, "delay_enter=1500ms:when=1");
        let mut late = strace.spawn(scene.command(["--wait"]));
        late.until("the delay", || !strace.log().is_empty());
        let quick = scene.copy(&["--wait"]);
        quick.assert_code(0);
        let late = late.wait();
        strace.fired(&late);
        late.assert_code(0).assert_prints(&["unchanged", "2 files"]);
        scene.judge(&late).same_bytes().lists_all().verifies().no_temp_files();
    }
}

#[test]
fn old_manifests_go_and_nothing_else() {
    let scene = Scene::new();
    let line = |name: &str| format!("{:064}  {name}\n", 0);
    let name = |year: u32| format!("dircopy-{year}0101T000000Z.sha256sum");
    scene
        .src
        .file("a", "xyz")
        .file(name(2001), line("of the source"))
        .file(name(2002), line("gone"));
    scene.src.file(name(2005), line("gone"));
    scene.src.mtime(name(2002), 1_010_000_000, 0);
    scene.copy(&[]).assert_code(0);
    // Now there is a manifest that is later than what it lists.
    scene.copy(&[]).assert_code(0);
    // Two that were copied and have left the source since. One of them was touched, which costs a
    // reading and no line.
    scene.src.remove(name(2002)).remove(name(2005));
    let output = scene.output();
    output.mode(name(2002), 0o600);
    for year in 2010..2015 {
        output.file(name(year), line("a"));
    }
    output
        .file("dircopy-notes.sha256sum", "mine")
        .file("dir/dircopy-20100101T000000Z.sha256sum", "x");
    // One that only has the name.
    output.file(name(2009), "deadbeef");
    output.dir(name(2003)).symlink(name(2004), "a").file("dircopy-20100101T000000Z.sha256sum~", "");
    let others = |kept: &[u32]| {
        let mut names: Vec<String> = kept.iter().map(|year| name(*year)).collect();
        names.sort();
        names
    };
    let old = || {
        let names =
            names_below(&scene.dst, "f").into_iter().filter_map(|n| String::from_utf8(n).ok());
        names
            .filter(|name| name.starts_with("dircopy-201") && name.ends_with("sum"))
            .collect::<Vec<_>>()
    };
    // A run in which something is amiss removes nothing.
    scene.src.file("a", "y");
    scene.copy(&["--keep-manifests", "1"]).assert_code(1);
    assert_eq!(old(), others(&[2010, 2011, 2012, 2013, 2014]));
    scene.src.file("a", "xyz");
    scene.copy(&["--overwrite-policy", "always", "--keep-manifests", "5"]).assert_code(0);
    // Three by the runs before, this one's, and one of the old.
    assert_eq!(old(), others(&[2014]));
    let run = scene.copy(&["--keep-manifests", "1"]);
    run.assert_code(0).assert_says("newer manifests are there");
    assert_eq!(old(), others(&[]));
    let there: Vec<Vec<u8>> = names_below(&scene.dst, "f").into_iter().collect();
    let judge = scene.judge(&run);
    let newest = judge.manifests().pop().unwrap();
    let newest = newest.file_name().unwrap().to_str().unwrap();
    let mut expected = vec!["a".to_owned(), "dir/dircopy-20100101T000000Z.sha256sum".into()];
    expected
        .extend(["dircopy-notes.sha256sum".into(), "dircopy-20100101T000000Z.sha256sum~".into()]);
    expected.extend([name(2001), name(2002), name(2005), name(2009), newest.to_owned()]);
    expected.sort();
    let there: Vec<String> =
        there.into_iter().map(|name| String::from_utf8(name).unwrap()).collect();
    assert_eq!(there, expected);
    assert!(output.has(name(2003)) && output.has(name(2004)));
    judge.list_verifies(&scene.dst.join(newest));
    let listed = judge.lines(&scene.dst.join(newest));
    assert!(listed.contains_key(name(2005).as_bytes()));
    assert!(listed.contains_key(name(2002).as_bytes()));
    scene.copy(&["--keep-manifests", "0"]).assert_code(2);
}

/// Of a source that is a copy itself: what leaves it goes into the trash of the mirror, and stays there.
#[test]
fn manifests_that_came_from_the_source_are_not_ours_to_remove() {
    let scene = Scene::new();
    scene.src.file("a", "a");
    shell(&scene, "cd src && sha256sum a > dircopy-20200101T000000Z.sha256sum");
    let keep = ["--mirror", "--max-delete", "100%", "--keep-manifests", "1"];
    scene.copy(&keep).assert_code(0);
    scene.copy(&keep).assert_code(0);
    assert!(scene.output().has("dircopy-20200101T000000Z.sha256sum"));
    shell(&scene, "rm src/dircopy-20200101T000000Z.sha256sum");
    let run = scene.copy(&keep);
    run.assert_code(0).assert_prints(&["removed", "1 entry"]);
    let trash =
        "find dst/.dircopy-trash -type f -name 'dircopy-20200101T000000Z.sha256sum' | wc -l";
    assert_eq!(shell(&scene, trash), "1\n");
    assert_eq!(shell(&scene, "ls dst | grep -c dircopy-"), "1\n");
}

/// The units are accepted by systemd as they are, but for where the program is, and are as hardened as
/// they say.
#[test]
fn the_units_are_good() {
    need!(SystemdAnalyze);
    let scene = Scene::new();
    let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/systemd");
    for unit in std::fs::read_dir(&contrib).unwrap() {
        let unit = unit.unwrap().file_name().into_string().unwrap();
        let text = std::fs::read_to_string(contrib.join(&unit)).unwrap();
        let text =
            text.replace("ExecStart=dircopy", concat!("ExecStart=", env!("CARGO_BIN_EXE_dircopy")));
        scene.tree("units").file(unit, text);
    }
    let analyze = |args: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        let output = command.args(args).current_dir(scene.path("units")).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    for unit in
        ["./dircopy-nightly.service", "./dircopy-nightly.timer", "./dircopy-card@loop0.service"]
    {
        let (good, said) = analyze(&["verify", "--man=no", unit]);
        let about_us = said.lines().any(|line| line.contains("dircopy"));
        assert!(good && !about_us, "{unit}: {said}");
    }
    let (good, said) =
        analyze(&["security", "--offline=true", "--threshold=25", "./dircopy-nightly.service"]);
    assert!(good, "{said}");
    let unit = std::fs::read_to_string(contrib.join("dircopy-nightly.service")).unwrap();
    assert!(unit.lines().any(|line| line == "ExecStart=dircopy --job nightly"));
}

#[test]
fn the_examples_start_a_job_that_the_program_takes() {
    let scene = Scene::new();
    let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib");
    let read = |name: &str| std::fs::read_to_string(contrib.join(name)).unwrap();
    let starts = |text: &str| text.matches("--job nightly").count();
    let cron = read("cron/dircopy-nightly");
    let line = cron.lines().find(|line| line.contains(" dircopy ")).unwrap();
    assert_eq!(line.split_whitespace().nth(6), Some("dircopy"));
    let task = read("windows/dircopy-nightly.xml");
    let container = read("container/dircopy-nightly.sh");
    assert_eq!([&*cron, &task, &container].map(starts), [1, 1, 1]);
    for job in ["jobs/nightly.toml", "windows/nightly.toml"] {
        let config = format!("config/dircopy/{}", job.replace("windows", "jobs"));
        scene.tree(".").file(config, read(job));
        let config = format!("XDG_CONFIG_HOME={}", scene.path("config").display());
        let run = scene.bare(["jobs", "check", "nightly"]).under(["env", &config]).run();
        // Its paths are not here; everything else is as it has to be.
        run.assert_code_in(&[0, 1]).assert_prints(&["keep-reports = \"30\""]);
        for problem in run.err().lines() {
            let absent = ["/srv/data", "/mnt/archive", "/var/lib/dircopy", "D:", "E:", "C:"];
            assert!(absent.iter().any(|path| problem.contains(path)), "{problem}");
        }
    }
    // What the container sees is what the job names.
    for path in ["/srv/data", "/mnt/archive", "/var/lib/dircopy"] {
        assert!(read("jobs/nightly.toml").contains(&format!("= \"{path}")), "{path}");
        assert!(container.contains(&format!("--volume {path}:{path}")), "{path}");
    }
    // A directory on the disk is a mount point in a container, with the disk or without.
    let jobs = ["jobs/nightly.toml", "windows/nightly.toml"].map(read);
    assert!(jobs.iter().all(|job| job.contains("require-mount = true")));
    let parse = "import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])";
    let xml = contrib.join("windows/dircopy-nightly.xml");
    if have(&[Need::Program("python3")]) {
        let parsed = Command::new("python3").args(["-c", parse]).arg(xml).status().unwrap();
        assert!(parsed.success(), "the task is no XML");
    }
}

/// The commands by which the pages make the job one's own, as they stand, on a machine that has only the disk and the
/// data. Without the disk they say so.
#[test]
fn the_documented_steps_end_with_a_good_check() {
    need!(Mount);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let (readme, guide) = (read("contrib/README.md"), read("docs/guide/scheduled.md"));
    let steps = |page: &str| -> String {
        let commands = page.lines().filter_map(|line| line.strip_prefix("    "));
        let mut commands = commands.skip_while(|line| !line.starts_with("install -D "));
        let mut steps = String::new();
        while !steps.contains("jobs check") {
            steps += &format!("{}\n", commands.next().unwrap());
        }
        steps
    };
    for (dir, steps) in [("contrib", steps(&readme)), ("", steps(&guide))] {
        let run = |disk: &str| {
            let scene = Scene::new();
            let line = format!(
                "set -e; for place in /etc /var/lib /srv /mnt; do mount -t tmpfs none $place; done
                 mkdir -p /srv/data /mnt/archive; {disk}
                 ln -s \"$1\" /srv/dircopy; export PATH=/srv:$PATH; unset XDG_CONFIG_HOME; HOME=/srv
                 cd '{}'; {steps}",
                root.join(dir).display()
            );
            let command = scene.bare([""]).in_shell(&line);
            command.under(["unshare", "-m"]).run()
        };
        let good = run("mount -t tmpfs none /mnt/archive");
        good.assert_code(0).assert_prints(&["require-mount = true"]);
        let bad = run("mount --bind /mnt/archive /mnt/archive");
        bad.assert_code(1).assert_says("its disk is not mounted");
    }
}

/// What is read is the clone, but the device is the source's.
#[test]
fn a_rate_is_held_for_clones_that_are_hashed() {
    need!(Kinds);
    let scene = Scene::on_disk();
    let _mount = Mount::of_kind("xfs", &scene.path("image"), &scene.path("xfs"));
    let source = scene.tree("xfs/src");
    source.file("large", content(3_000_000));
    let args = ["--reflink", "always", "--limit-rate", "2MB", "--report", "report"];
    scene.command_to(source.root(), scene.path("xfs/dst"), args).run().assert_code(0);
    let took = seconds(&scene, "report");
    assert!((1.2..20.0).contains(&took), "3 MB at 2 MB/s took {took} s");
}
