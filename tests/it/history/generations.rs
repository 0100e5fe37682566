//! Generations: each good night's tree is that night's source, and no night changes an older one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::harness::{Mount, Run, Scene, Strace, content, ctimes, long, need, shell};

/// What a user sees of a tree, modes and times included; not of what dircopy keeps there.
fn seen(root: &Path) -> String {
    let script = "cd \"$0\" && find . -mindepth 1 \\( -name .dircopy -o -path './dircopy-*' \\) -prune -o \
                  \\( -type l -printf '%P %y %l\\n' -o -type d -printf '%P %y %m %T@\\n' \
                  -o -printf '%P %y %m %T@ %s ' -exec sha256sum -b {} \\; \\) | sort";
    let output =
        std::process::Command::new("bash").args(["-ec", script]).arg(root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The generations that are there, by their names.
fn generations(scene: &Scene) -> Vec<PathBuf> {
    let Ok(entries) = scene.dst.read_dir() else { return Vec::new() };
    let is_date = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.len() == 18 && name.starts_with("20") && name.ends_with('Z')
    };
    let mut all: Vec<_> = entries.map(|entry| entry.unwrap().path()).filter(is_date).collect();
    all.sort();
    all
}

/// What each generation is, told by its content, and that all of its manifest holds.
fn digests(scene: &Scene) -> BTreeMap<PathBuf, String> {
    let look = |path: PathBuf| {
        let check =
            format!("cd {} && sha256sum -c --strict --quiet dircopy-*.sha256sum", path.display());
        shell(scene, &check);
        let seen = seen(&path);
        (path, seen)
    };
    generations(scene).into_iter().map(look).collect()
}

/// Runs a night that ends with `code`; older generations stay as they are, and `latest` leads to a complete one.
#[track_caller]
fn night(scene: &Scene, args: &[&str], code: i32) -> Run {
    let before = digests(scene);
    let mut all = vec!["--generations"];
    all.extend(args);
    let run = scene.copy(&all);
    run.assert_code(code);
    is_as_before(scene, &before, &run);
    if code == 0 {
        let newest = generations(scene).pop().unwrap();
        assert_eq!(seen(&newest), seen(scene.src.root()), "{}{}", run.out(), run.err());
        let latest = std::fs::read_link(scene.dst.join("latest")).unwrap();
        assert_eq!(scene.dst.join(latest), newest);
    }
    run
}

#[track_caller]
fn is_as_before(scene: &Scene, before: &BTreeMap<PathBuf, String>, run: &Run) {
    let after = digests(scene);
    for (path, seen) in before {
        if let Some(now) = after.get(path) {
            assert_eq!(now, seen, "{}: {}", path.display(), run.err());
        } else {
            assert!(run.err().contains("moved the generation"), "{} is gone", path.display());
        }
    }
}

#[test]
fn what_did_not_change_costs_no_room() {
    let scene = Scene::on_disk();
    for i in 0..10 {
        scene.src.file(format!("d/{i}"), content(100_000));
    }
    std::thread::sleep(std::time::Duration::from_millis(30));
    night(&scene, &[], 0);
    scene.src.file("d/3", content(50_000));
    let run = night(&scene, &[], 0);
    run.assert_prints(&["unchanged", "9 files"]);
    run.assert_prints(&["copied", "1 file, 48.83 KiB"]);
    let used = shell(&scene, "du -sk --exclude=.dircopy dst | cut -f1");
    assert!(used.trim().parse::<u64>().unwrap() < 1_150, "{used}");
    // A change of attributes is of the new one alone.
    scene.src.mode("d/5", 0o600);
    night(&scene, &[], 0);
    // A dry run makes nothing.
    let before = ctimes(&scene.dst);
    scene.copy(&["--generations", "-n"]).assert_code(0).assert_prints(&["unchanged", "10 files"]);
    assert_eq!(ctimes(&scene.dst), before);
}

/// Kills a night that shares renamed files, ends, leads `latest` on, moves a generation to the trash and removes an
/// older one, at each such call.
fn kills(kind: Option<&str>, step: usize) {
    let mut when = 1;
    loop {
        let scene = Scene::on_disk();
        let mount = |kind| {
            Mount::of_size(
                kind,
                if kind == "xfs" { 320 } else { 150 },
                &scene.path("image"),
                &scene.dst,
            )
        };
        let _mount = kind.map(mount);
        scene.src.file("a", content(100)).file("d/b", content(200)).file("d/e", content(3000));
        night(&scene, &[], 0);
        night(&scene, &["--keep", "last=1"], 0);
        shell(&scene, "cd dst/.dircopy-trash && mv 2* 2001-01-01T000000Z");
        night(&scene, &[], 0);
        scene.src.file("c", "c").remove("a");
        shell(&scene, "mv src/d src/new");
        let before = digests(&scene);
        let fault = format!("signal=KILL:when={when}");
        let calls = "renameat,renameat2,symlinkat,linkat,unlinkat,mkdirat,ioctl";
        let strace = Strace::inject(&scene, calls, &fault);
        let args = ["--generations", "--keep", "last=2", "--keep-trash", "1d"];
        let run = strace.run(scene.command(args));
        let killed = run.code != Some(0);
        let latest = scene.dst.join(std::fs::read_link(scene.dst.join("latest")).unwrap());
        let now = digests(&scene);
        assert!(now.contains_key(&latest), "after {when}: {latest:?}");
        // The newest that was there is there, and none is another.
        assert!(now.contains_key(before.keys().next_back().unwrap()), "after {when}");
        for (path, seen) in now {
            assert!(before.get(&path).is_none_or(|old| *old == seen), "after {when}: {path:?}");
        }
        night(&scene, &["--keep", "last=2", "--keep-trash", "1d"], 0);
        assert_eq!(generations(&scene).len(), 2);
        assert!(!scene.dst.join(".dircopy-trash/2001-01-01T000000Z").exists(), "after {when}");
        if !killed {
            assert!(when > 5, "only {when} calls were tried");
            break;
        }
        when += step;
    }
}

#[test]
fn kills_at_the_end_leave_a_complete_one() {
    need!(Strace, Kinds);
    if !long() {
        return kills(None, 9);
    }
    Mount::privately();
    [None, Some("btrfs"), Some("xfs")].into_iter().for_each(|kind| kills(kind, 1));
}

#[test]
fn generations_are_listed_and_removed() {
    let scene = Scene::new();
    scene.src.file("a", content(1000));
    for _ in 0..3 {
        night(&scene, &[], 0);
    }
    // A directory of the user with such a name is none.
    shell(&scene, "mkdir dst/2001-01-01T000000Z");
    let list = scene.bare(["generations", "dst"]).run();
    list.assert_code(0).assert_prints(&["complete", "1 file, 1000 B", "0 B of them new"]);
    assert_eq!(list.out().lines().count(), 3, "{}", list.out());
    let json = scene.bare(["generations", "dst", "--json"]).run();
    for line in json.out().lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["state"], &line["files"]), (&"complete".into(), &1.into()));
    }
    let all = generations(&scene);
    let name = |at: usize| all[at].file_name().unwrap().to_str().unwrap().to_owned();
    let all = [name(1), name(2), name(3)];
    scene.bare(["generations", "dst", "--remove", &all[2]]).run().assert_code(2);
    scene.bare(["generations", "dst", "--remove", "2001-01-01T000000Z"]).run().assert_code(2);
    let removed = scene.bare(["generations", "dst", "--remove", &all[0]]).run();
    let source = scene.src.path("").canonicalize().unwrap();
    let of = format!("moved {} to the trash: the generation of {}", all[0], source.display());
    removed.assert_code(0).assert_prints(&[&of]);
    assert_eq!(generations(&scene).len(), 3);
    shell(&scene, &format!("test -e dst/.dircopy-trash/*/{}/a", all[0]));
    // One night is brought back as any copy.
    let restore = format!("dst/{}", all[1]);
    let run = scene.bare(["-i", &restore, "-o", "back", "--exclude", "/dircopy-*.sha256sum"]).run();
    run.assert_code(0);
    assert_eq!(seen(&scene.path("back")), seen(scene.src.root()));
}

/// Each was replaced by the link to the new generation, and nothing said so.
/// A plain run that forgets `--generations` is no night, and changes none.
#[test]
fn a_plain_run_goes_neither_beside_generations_nor_into_one() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    night(&scene, &[], 0);
    scene.src.file("a", "22");
    let before = digests(&scene);
    let generation = generations(&scene).pop().unwrap();
    let within = ["dst", "dst/latest", "dst/latest/new", generation.to_str().unwrap()];
    for (output, options) in within.iter().flat_map(|it| [(it, ""), (it, "-n"), (it, "--mirror")]) {
        let run =
            scene.bare(["src", output].into_iter().chain(options.split_terminator(' '))).run();
        run.assert_code(2).assert_says("--generations");
        is_as_before(&scene, &before, &run);
    }
    let run = scene.bare(["--generations", "src", "dst/latest"]).run();
    run.assert_code(2).assert_says("it is in the generation");
    is_as_before(&scene, &before, &run);
    // A copy of them is a tree like any other.
    scene.bare(["dst", "copy"]).run().assert_code(0);
    scene.bare(["dst", "copy"]).run().assert_code(0);
}

#[test]
fn what_else_is_called_latest_stays() {
    for make in [
        "echo notes >dst/latest",
        "echo -n 2026-11-21T020000Z and more >dst/latest",
        "ln -s ../elsewhere dst/latest",
        "ln -s 2026-11-21T020000Z/a dst/latest",
        "mkfifo dst/latest",
        "mkdir dst/latest",
    ] {
        let scene = Scene::new();
        scene.src.file("a", "a");
        shell(&scene, &format!("mkdir dst; {make}"));
        let state = "stat -c '%i %F %Z' dst/latest; readlink dst/latest || true";
        let before = shell(&scene, state);
        for _ in 0..2 {
            let run = scene.copy(&["--generations", "--keep=last=1"]);
            run.assert_code(0).assert_says("latest: no run made it, so it stays");
            assert_eq!(shell(&scene, state), before, "{make}: {}", run.err());
            // The rule of --keep does not depend on it.
            assert_eq!(generations(&scene).len(), 1, "{make}");
        }
    }
    // One that runs made gives way, in both of its forms.
    for make in ["ln -s 2020-11-21T020000Z dst/latest", "echo 2020-11-21T020000Z >dst/latest"] {
        let scene = Scene::new();
        scene.src.file("a", "a");
        shell(&scene, &format!("mkdir dst; {make}"));
        night(&scene, &[], 0);
    }
}

#[test]
fn what_cannot_be_a_generation_is_refused() {
    let scene = Scene::new();
    scene.src.file("a", "a").file("names", "a");
    let refused = |args: &[&str], text: &str| {
        let mut all = vec!["--generations"];
        all.extend(args);
        scene.copy(&all).assert_code(2).assert_says(text);
        assert!(!scene.dst.exists());
    };
    refused(&["--mirror"], "--mirror");
    refused(&["--keep=last=0"], "keep nothing");
    refused(&["--hash=none"], "--hash none");
    refused(&["--no-sync"], "--no-sync");
    refused(&["--files-from=src/names"], "--files-from");
    refused(&["--overwrite-policy=never"], "--overwrite-policy");
    refused(&["-o", "other"], "generations are of one output");
}

/// An administrator is told of a user's generations, which are checked, and not that there are none.
#[test]
fn generations_of_another_user_are_told() {
    need!(Setpriv);
    let scene = Scene::new();
    scene.src.file("a", "1");
    shell(&scene, "chmod 755 . src && chmod 644 src/a && install -d -o 65534 -g 65534 of");
    let args = ["src", "of/nights", "--generations"];
    scene.bare(args).under_nobody().run().assert_code(0);
    let name = shell(&scene, "readlink of/nights/latest").trim().to_owned();
    let run = scene.bare(["generations", "of/nights"]).run();
    run.assert_code(2).assert_says("another user's").assert_says(&name);
    let run = scene.bare(["verify", "of/nights"]).run();
    run.assert_code(0).assert_says(&name).assert_prints(&["good: every listed file is as listed"]);
    shell(&scene, "printf 2 >of/nights/latest/a");
    scene.bare(["verify", "of/nights"]).run().assert_code(4);
}

/// One file that cannot be copied keeps every generation away, and a quiet run says so too.
#[test]
fn a_run_that_makes_no_generation_says_so() {
    need!(Setpriv);
    let scene = Scene::new();
    scene.src.file("a", "1").file("secret", "2").mode("secret", 0o600);
    shell(&scene, "chmod 755 . src && chmod 644 src/a && install -d -o 65534 -g 65534 of");
    let told = "no generation was made: mend what is named, or leave it out with --exclude";
    let args = ["src", "of/nights", "--generations"];
    let run = scene.bare(args).under_nobody().run();
    run.assert_code(1).assert_prints(&["NOT COMPLETE (exit 1): 1 entry", told]);
    let run = scene.bare(args.iter().chain(&["-q"])).under_nobody().run();
    run.assert_code(1).assert_says(told);
    // A check of what is there says what that is.
    shell(&scene, "chown -R 0:0 of");
    let run = scene.bare(["verify", "of/nights"]).run();
    run.assert_says("its run did not complete it, and there is no generation");
}

/// A file that has left the source is in an older generation, and the command that brings it back is told.
#[test]
fn a_restore_names_the_generation_that_has_the_file() {
    let scene = Scene::new();
    scene.src.file("keep", "1").file("Docs/thesis", "2");
    night(&scene, &[], 0);
    let older = generations(&scene).pop().unwrap();
    scene.src.remove("Docs/thesis");
    night(&scene, &[], 0);
    let include = ["--include", "/Docs/thesis"];
    let run = scene.bare(["restore", "dst", "back"].iter().chain(&include)).run();
    let older = older.file_name().unwrap().to_str().unwrap();
    run.assert_code(2).assert_says(&format!(
        "the newest that has it: dircopy restore dst/{older} DST --include /Docs/thesis"
    ));
    let run = scene.bare(["restore", "dst", "all"]).run();
    let newest = generations(&scene).pop().unwrap();
    let newest = newest.file_name().unwrap().to_str().unwrap().to_owned();
    run.assert_code(0).assert_prints(&["from", &format!("dst/{newest}")]);
    let run = scene.bare(["restore", "dst", "none", "--include", "/Docs/never"]).run();
    run.assert_code(2).assert_says("none of its generations has");
}

/// The newest one may be closed, or on a bad sector: an older one is not taken for it, nor left out of a check.
#[test]
fn a_generation_that_cannot_be_looked_at_is_named() {
    need!(Root, Setpriv);
    let scene = Scene::new();
    scene.src.file("a", "one");
    shell(&scene, "chown -R nobody .; chmod 755 .");
    let night = || {
        let run = scene.command(["--generations", "--allow-empty"]).under_nobody().run();
        run.assert_code(0);
    };
    night();
    scene.src.file("a", "two");
    shell(&scene, "sleep 1.1; chown nobody src/a");
    night();
    let names = shell(&scene, "ls -d dst/20*Z");
    let (old, new) = names.trim().split_once('\n').unwrap();
    shell(&scene, &format!("chmod 000 {new}"));
    let run = scene.bare(["restore", "dst", "back"]).under_nobody().run();
    run.assert_code(2).assert_says("may be the newest, and cannot be taken for it");
    run.assert_says(&format!("dircopy restore {old} DST"));
    let run = scene.bare(["verify", "dst"]).under_nobody().run();
    assert_ne!(run.code, Some(0));
    run.assert_says(new);
    let run = scene.bare(["generations", "dst"]).under_nobody().run();
    run.assert_code(1).assert_says(new);
    scene.bare(["restore", old, "back"]).under_nobody().run().assert_code(0);
    assert_eq!(shell(&scene, "cat back/a"), "one");
    shell(&scene, &format!("rm -r {old} back"));
    let run = scene.bare(["restore", "dst", "back"]).under_nobody().run();
    run.assert_code(2).assert_says("may be the newest, and cannot be taken for it");
}

/// What somebody puts beside the generations under a name of theirs neither counts nor stands in the way.
#[test]
fn what_others_put_beside_generations_stands_in_no_way() {
    need!(Root, Setpriv);
    let planted = [
        "ln -s /etc $P",
        "ln -s nowhere $P",
        "mkfifo $P",
        "mkdir -m 700 $P",
        "mkdir $P; mkdir -m 700 $P/.dircopy",
        "mkdir $P; touch $P/.dircopy",
        "mkdir $P; ln -s nowhere $P/.dircopy",
    ];
    for plant in planted {
        let scene = Scene::new();
        scene.src.file("a", "one");
        shell(&scene, "mkdir dst back; chmod 755 .; chown -R nobody src dst back");
        let copy = || scene.command(["--generations"]).under_nobody().run();
        copy().assert_code(0);
        shell(&scene, &format!("P=dst/2099-01-01T000000Z; {plant}"));
        scene.bare(["generations", "dst"]).under_nobody().run().assert_code(0);
        scene.bare(["restore", "dst", "back"]).under_nobody().run().assert_code(0);
        shell(&scene, "cmp src/a back/a");
        copy().assert_code(0);
    }
}

/// A generation that `latest` leads to is the newest, and none that is older is brought back for it.
#[test]
fn no_older_generation_is_restored_for_the_newest() {
    for loss in ["rm -r $G/.dircopy", "rm $G/.dircopy/record*", "mv $G away"] {
        let scene = Scene::new();
        for content in ["one", "two"] {
            scene.src.file("a", content);
            night(&scene, &[], 0);
        }
        let newest = generations(&scene).pop().unwrap();
        shell(&scene, &format!("G={}; {loss}", newest.display()));
        let run = scene.bare(["restore", "dst", "back"]).run();
        run.assert_code(2).assert_says("may be the newest").assert_says("brought back by its name");
        assert!(!scene.path("back").exists());
        let run = scene.bare(["verify", "dst"]).run();
        run.assert_code(5).assert_says("latest leads there");
    }
}

/// Behind a name of the future all names are a second apart, and no dates to go by.
#[test]
fn generations_of_the_future_are_told_and_not_thinned_by() {
    let scene = Scene::new();
    scene.src.file("a", "one");
    night(&scene, &[], 0);
    let first = generations(&scene).pop().unwrap();
    // As a run left it whose clock was wrong.
    let note = "dst/2099*/.dircopy/generation";
    let named = format!("sed -i 's/^name .*/name 2099-12-31T000000Z/' {note} && rm dst/latest");
    shell(&scene, &format!("mv {} dst/2099-12-31T000000Z && {named}", first.display()));
    for content in ["two", "three"] {
        scene.src.file("a", content);
        let run = scene.copy(&["--generations", "--keep", "daily=2"]);
        run.assert_code(0).assert_says("its name is of the future");
    }
    assert_eq!(generations(&scene).len(), 3);
    shell(&scene, "mv dst/2099* .; rm dst/latest");
    let run = scene.copy(&["--generations", "--keep", "daily=2"]);
    assert!(!run.assert_code(0).err().contains("future"), "{}", run.err());
}

/// That a link cannot be made now does not mean that there are none: what leads through it would lead nowhere.
#[test]
fn a_latest_that_cannot_be_renewed_is_not_made_a_file() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("a", "1");
    scene.copy(&["--generations"]).assert_code(0);
    let before = shell(&scene, "readlink dst/latest");
    scene.src.file("b", "2");
    let strace = Strace::inject(&scene, "symlinkat", "error=EIO:when=1+");
    let run = strace.run(scene.command(["--generations"]));
    assert!(!strace.injected().is_empty());
    run.assert_code(1).assert_says("latest");
    assert_eq!(shell(&scene, "readlink dst/latest"), before);
}

#[test]
fn a_source_that_was_emptied_is_a_generation_by_hand_alone() {
    let (scene, _) = super::nights(&["one"]);
    scene.src.remove("file");
    let run = scene.copy(&["--generations"]);
    run.assert_code(2).assert_says("the output has 1 file or link that would go");
    run.assert_says("give --allow-empty and --max-delete 1 by hand");
    scene.copy(&["--generations", "--allow-empty"]).assert_code(2);
    assert_eq!(super::names(&scene).len(), 1);
    scene.copy(&["--generations", "--allow-empty", "--max-delete", "1"]).assert_code(0);
    let names = super::names(&scene);
    assert_eq!(names.len(), 2);
    assert!(!scene.dst.join(&names[1]).join("file").exists());
}

/// A generation of nothing is one: which older one has something is told.
#[test]
fn a_newest_generation_that_is_empty_is_told_as_that() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    night(&scene, &[], 0);
    let older = generations(&scene).pop().unwrap();
    scene.src.remove("a");
    scene.copy(&["--generations", "--allow-empty", "--max-delete", "1"]);
    let run = scene.bare(["restore", "dst", "back"]).run();
    let older = older.file_name().unwrap().to_str().unwrap();
    run.assert_code(2).assert_says("its newest generation lists no file").assert_says(&format!(
        "an older one is brought back by its name: dircopy restore dst/{older} DST"
    ));
    scene.bare(["restore", &format!("dst/{older}"), "back"]).run().assert_code(0);
}
