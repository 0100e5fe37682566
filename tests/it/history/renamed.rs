//! What was renamed at the source is not written again at the output, and is never taken for what it is not.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Mount, Run, Scene, Strace, content, long, need, shell, states_of};

const MIB: usize = 1 << 20;

/// Calls by which content comes to a file.
const CONTENT: &str = "write,pwrite64,writev,pwritev,pwritev2,copy_file_range,sendfile,splice";

/// A large file and a directory of `number` small ones, copied once.
fn fill(scene: &Scene, number: usize, args: &[&str]) {
    for i in 0..number {
        scene.src.file(format!("dir/sub {}/{i}", i % 7), format!("content of {i}"));
    }
    scene.src.file("film", content(3 * MIB + 5)).file("stays", "stays").mode("film", 0o640);
    scene.src.mtime("film", 1_500_000_000, 123_456_789);
    // The clock of the file system moves on, so that what is recorded is beyond doubt.
    std::thread::sleep(std::time::Duration::from_millis(30));
    scene.copy(args).assert_code(0);
}

fn rename(scene: &Scene) {
    shell(scene, "cd src && mv dir other && mkdir new && mv film new/movie");
}

/// Runs, and sums the bytes that were written to files of users at the output.
fn written(scene: &Scene, args: &[&str]) -> (Run, usize) {
    let strace = Strace::watch(scene, CONTENT);
    let run = strace.run(scene.command(args));
    let of_users = |call: &&String| {
        let path = call.split('<').nth(1).and_then(|rest| rest.split('>').next());
        // Manifests, side files and private records have other names.
        path.is_some_and(|path| {
            let own = ["/dircopy-2", "/.dircopy/"].iter().any(|own| path.contains(own));
            path.contains("/dst/") && !own
        })
    };
    let bytes = |call: &String| call.rsplit_once("= ").unwrap().1.trim().parse::<usize>().unwrap();
    let sum = strace.calls().iter().filter(of_users).map(bytes).sum();
    (run, sum)
}

/// How many files came by each method, as the report has it.
fn methods(scene: &Scene) -> BTreeMap<String, u64> {
    let report = std::fs::read(scene.path("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    let methods = report["outputs"][0]["methods"].as_object().unwrap().clone();
    methods.into_iter().map(|(name, tally)| (name, tally["files"].as_u64().unwrap())).collect()
}

#[track_caller]
fn verifies(scene: &Scene, tree: &str) {
    let line = "sha256sum -c --strict --quiet $(ls dircopy-*.sha256sum | sort | tail -1)";
    shell(scene, &format!("cd {tree} && {line}"));
}

#[track_caller]
fn is_there(scene: &Scene, tree: &str) {
    shell(scene, &format!("for it in other new stays; do diff -r src/$it {tree}/$it; done"));
    let seen = |root: &str| {
        let find = "find other new stays -type d -printf '%P %m %T@\n' -o -printf '%P %m %T@ %s\n'";
        shell(scene, &format!("cd {root} && {find} | sort"))
    };
    assert_eq!(seen("src"), seen(tree));
    verifies(scene, tree);
}

#[test]
fn a_large_renamed_directory_is_not_written_again() {
    need!(Strace);
    let scene = Scene::new();
    let files: usize = if long() { 10_000 } else { 1000 };
    fill(&scene, files, &["-q"]);
    rename(&scene);
    let (run, bytes) = written(&scene, &["--renamed=link", "--report", "report.json"]);
    run.assert_code(0).assert_prints(&["renamed", &format!("{} files", files + 1)]);
    assert_eq!(bytes, 0, "{}", run.err());
    assert_eq!(methods(&scene), BTreeMap::from([("renamed".to_owned(), files as u64 + 1)]));
    is_there(&scene, "dst");
    // What is left of the old names is listed as before.
    let lines = 2 * files + 3;
    shell(
        &scene,
        &format!("cd dst && test $(cat $(ls dircopy-*.sha256sum | tail -1) | wc -l) = {lines}"),
    );
    let said = run.err().matches("hard links to those of the old names").count();
    assert_eq!(said, 1, "{}", run.err());
    // A further run finds everything in place.
    let run = scene.copy(&[]);
    run.assert_code(0).assert_prints(&["unchanged", &format!("{} files", files + 2)]);
}

#[test]
fn a_mirror_moves_what_was_renamed() {
    need!(Strace);
    let scene = Scene::on_disk();
    fill(&scene, 40, &["-q", "--mirror"]);
    rename(&scene);
    let (run, bytes) = written(&scene, &["--mirror", "--max-delete=99%", "--report=report.json"]);
    run.assert_code(0);
    assert_eq!(bytes, 0, "{}", run.err());
    assert_eq!(methods(&scene)["renamed"], 41);
    is_there(&scene, "dst");
    shell(
        &scene,
        "test ! -e dst/dir -a ! -e dst/film; cmp src/new/movie dst/.dircopy-trash/*/film",
    );
    scene.copy(&["--mirror"]).assert_code(0).assert_prints(&["unchanged", "42 files"]);
    scene.bare(["verify", "dst", "--complete"]).run().assert_code(0);
}

#[test]
fn a_generation_shares_what_was_renamed() {
    need!(Strace);
    let scene = Scene::on_disk();
    fill(&scene, 40, &["-q", "--generations"]);
    rename(&scene);
    let before = shell(
        &scene,
        "cd dst/latest && find . -type f ! -path './.dircopy*' -exec sha256sum {} + | sort",
    );
    let old = std::fs::read_link(scene.dst.join("latest")).unwrap();
    let (run, bytes) =
        written(&scene, &["--generations", "--max-delete=99%", "--report=report.json"]);
    run.assert_code(0);
    assert_eq!(bytes, 0, "{}", run.err());
    assert_eq!(methods(&scene)["renamed"], 41);
    is_there(&scene, "dst/latest");
    let line = format!(
        "cd dst/{} && find . -type f ! -path './.dircopy*' -exec sha256sum {{}} + | sort",
        old.display()
    );
    assert_eq!(shell(&scene, &line), before);
    // A list of generations tells what is new of each.
    let list = scene.bare(["generations", "dst"]).run();
    list.assert_code(0).assert_prints(&["0 B of them new"]);
    // The states of the large file went over with it, and with the next night.
    for _ in 0..2 {
        let side = shell(&scene, "ls dst/latest/*.states");
        let states = states_of(scene.path(side.trim()), &scene.dst.join("latest"));
        assert_eq!(states, ["new/movie 3"]);
        scene.src.file("more", "more");
        scene.copy(&["-q", "--generations"]).assert_code(0);
    }
}

/// Where data can be shared, the new file is one of its own.
#[test]
fn where_clones_are_to_be_had_it_is_a_clone() {
    need!(Root, Kinds, Strace);
    for kind in ["xfs", "btrfs"] {
        let scene = Scene::on_disk();
        let _mount = Mount::of_kind(kind, &scene.path("image"), &scene.dst);
        fill(&scene, 20, &["-q"]);
        rename(&scene);
        scene.src.mode("new/movie", 0o600);
        let (run, bytes) = written(&scene, &["--report=report.json"]);
        run.assert_code(0);
        assert_eq!((bytes, methods(&scene)["renamed"]), (0, 21), "{kind}: {}", run.err());
        is_there(&scene, "dst");
        let meta = |name: &str| std::fs::metadata(scene.dst.join(name)).unwrap();
        assert_eq!((meta("film").nlink(), meta("film").mode() & 0o777), (1, 0o640));
        assert_eq!((meta("new/movie").nlink(), meta("new/movie").mode() & 0o777), (1, 0o600));
        assert!(!run.err().contains("hard links"), "{}", run.err());
        scene.copy(&[]).assert_code(0).assert_prints(&["unchanged", "22 files"]);
        verifies(&scene, "dst");
    }
}

/// Size and time are no proof: what looks like a file that is gone costs a reading, and is what it is.
#[test]
fn what_only_looks_like_it_is_copied() {
    let scene = Scene::new();
    fill(&scene, 5, &["-q"]);
    let spoilt = |len: usize| content(len + 1)[1..].to_vec();
    shell(&scene, "cp -p src/film kept; rm src/film");
    scene.src.file("look-alike", spoilt(3 * MIB + 5)).mode("look-alike", 0o640);
    scene.src.mtime("look-alike", 1_500_000_000, 123_456_789);
    // The same content with another time is another version.
    shell(&scene, "cp kept src/other-time");
    let run = scene.copy(&["--renamed=link", "--report", "report.json"]);
    run.assert_code(0);
    assert_eq!(methods(&scene), BTreeMap::from([("read_write".to_owned(), 2)]));
    shell(&scene, "cmp src/look-alike dst/look-alike; cmp dst/film kept; cmp dst/other-time kept");
    verifies(&scene, "dst");
}

/// A file at the output that is not as it was left gives nothing, whatever its size and time say.
#[test]
fn what_changed_at_the_output_gives_nothing() {
    for spoil in [
        // The same size and time.
        "printf evil | dd of=dst/film bs=1 seek=5 conv=notrunc status=none; touch -r src/new/movie dst/film",
        "cp -p dst/film evil; printf evil | dd of=evil bs=1 conv=notrunc status=none; touch -r src/new/movie evil; \
         mv evil dst/film",
        "rm dst/film; mkfifo dst/film",
        "mv dst/film elsewhere; ln -s ../elsewhere dst/film",
        "rm dst/film",
        "chmod 600 dst/film; chmod 640 dst/film",
        "mv dst/.dircopy/record evil; sed 's/^\\(s\\)=/\\1=/' evil > dst/.dircopy/record; printf x >> dst/.dircopy/record",
    ] {
        let scene = Scene::new();
        fill(&scene, 3, &["-q"]);
        shell(&scene, "cd src && mkdir new && mv film new/movie");
        shell(&scene, spoil);
        let run = scene.copy(&["--renamed=link", "--report", "report.json"]);
        // That the old one is not what it was is told by itself.
        run.assert_code_in(&[0, 1, 4]);
        shell(&scene, "cmp src/new/movie dst/new/movie");
        let listed = shell(
            &scene,
            "cd dst && grep -h new/movie $(ls dircopy-*.sha256sum | tail -1) | sha256sum -c --strict",
        );
        assert_eq!(listed, "new/movie: OK\n", "{spoil}");
        if !spoil.contains("record") {
            assert_eq!(methods(&scene), BTreeMap::from([("read_write".to_owned(), 1)]), "{spoil}");
        }
    }
}

/// Other labels are no reason to change those of the old name.
#[test]
fn other_permissions_are_of_the_new_name_alone() {
    let scene = Scene::new();
    fill(&scene, 3, &["-q"]);
    shell(&scene, "cd src && mkdir new && mv film new/movie && chmod 600 new/movie");
    scene.copy(&["--renamed=link"]).assert_code(0);
    assert_eq!(shell(&scene, "stat -c %a dst/film dst/new/movie"), "640\n600\n");
    // … and neither are those that it gets later.
    shell(&scene, "cd src && mv stays stays2");
    scene.copy(&["--renamed=link"]).assert_code(0);
    assert_eq!(shell(&scene, "stat -c %h dst/stays2").trim(), "2");
    shell(&scene, "chmod 600 src/stays2");
    scene.copy(&["--overwrite-policy=update"]).assert_code(0);
    assert_eq!(shell(&scene, "stat -c %a dst/stays2 && stat -c %h dst/stays").trim(), "600\n1");
}

/// One old name is linked to one new name: two files of the source are two at the output.
#[test]
fn copies_of_it_are_files_of_their_own() {
    let scene = Scene::new();
    fill(&scene, 3, &["-q"]);
    shell(&scene, "cd src && cp -p film film1 && cp -p film film2 && rm film");
    scene.copy(&["--renamed=link", "--report", "report.json"]).assert_code(0);
    let expected = [("read_write".to_owned(), 1), ("renamed".to_owned(), 1)];
    assert_eq!(methods(&scene), BTreeMap::from(expected));
    shell(
        &scene,
        "cmp src/film1 dst/film1; cmp src/film2 dst/film2; ! test dst/film1 -ef dst/film2",
    );
    verifies(&scene, "dst");
}

#[test]
fn who_wants_it_copied_gets_a_copy() {
    for args in [
        &[][..],
        &["--renamed=copy"],
        &["--renamed=clone"],
        &["--renamed=link", "--reflink=never"],
        &["--renamed=link", "--sparse=never"],
    ] {
        let scene = Scene::new();
        fill(&scene, 3, &["-q"]);
        rename(&scene);
        scene.copy(&[args, &["--report=report.json"]].concat()).assert_code(0);
        assert_eq!(methods(&scene), BTreeMap::from([("read_write".to_owned(), 4)]), "{args:?}");
        is_there(&scene, "dst");
    }
}

#[test]
fn it_is_read_back_where_that_is_asked_for() {
    let scene = Scene::on_disk();
    fill(&scene, 3, &["-q"]);
    rename(&scene);
    let run = scene.copy(&["--renamed=link", "--verify", "--report=report.json"]);
    run.assert_code(0);
    assert_eq!(methods(&scene)["renamed"], 4);
    run.assert_prints(&["read back", "5 files"]);
    is_there(&scene, "dst");
}

/// Every further list has it, and what is expected of the source is held against what was read.
#[test]
fn lists_and_expectations_hold_for_it() {
    let scene = Scene::new();
    fill(&scene, 3, &["-q", "--hash=sha256,blake3"]);
    rename(&scene);
    shell(&scene, "cd src && sha256sum new/movie > ../expected");
    let args = ["--hash=sha256,blake3", "--expect=expected", "--report=report.json"];
    scene.copy(&[&args[..], &["--renamed=link"]].concat()).assert_code(0);
    assert_eq!(methods(&scene)["renamed"], 4);
    shell(
        &scene,
        "cd dst && for list in $(ls dircopy-*.blake3* | tail -1); do grep -q new/movie $list; done",
    );
    // Rotten: it is not what is expected, and not shared either.
    let scene = Scene::new();
    fill(&scene, 3, &["-q"]);
    rename(&scene);
    shell(&scene, "cd src && sha256sum new/movie | tr 0-9 1-90 > ../expected; touch expected");
    let run = scene.copy(&["--renamed=link", "--expect=expected"]);
    run.assert_code(4).assert_says("not what expected lists");
    assert!(!scene.dst.join("new/movie").exists(), "{}", run.err());
    assert_eq!(shell(&scene, "find dst -name '*.dircopy-part'"), "");
}

/// At whatever call a run ends, a file is there under its old name or its new one, and whole.
#[test]
fn a_kill_leaves_one_name_or_the_other() {
    need!(Strace);
    let calls = "linkat,renameat,renameat2,unlinkat,fsync,fdatasync,syncfs,mkdirat";
    for args in [&["--mirror", "--max-delete=99%"][..], &["--renamed=link"]] {
        let every = if long() { 1 } else { 4 };
        for when in (1..).step_by(every) {
            let scene = Scene::new();
            fill(&scene, 4, &[args, &["-q"]].concat());
            let names = ["dir/sub 0/0", "dir/sub 3/3", "film"];
            let new = ["other/sub 0/0", "other/sub 3/3", "new/movie"];
            rename(&scene);
            let strace = Strace::inject(&scene, calls, &format!("signal=KILL:when={when}"));
            let run = strace.run(scene.command(args));
            for (old, new) in names.iter().zip(new) {
                let right = scene.src.read(new);
                let is_right = |path: &Path| std::fs::read(path).is_ok_and(|it| it == right);
                let at = |name: &str| scene.dst.join(name);
                let trash = shell(&scene, "ls -d dst/.dircopy-trash/* 2>/dev/null || true");
                let in_trash = scene.path(trash.trim()).join(old);
                let is_there = is_right(&at(old)) || is_right(&at(new)) || is_right(&in_trash);
                assert!(is_there, "{old} after {when}: {}", run.err());
                assert!(!at(new).exists() || is_right(&at(new)), "{new} after {when}");
                assert!(is_right(&at(old)) || is_right(&at(new)), "{old} after {when}");
            }
            if scene
                .dst
                .read_dir()
                .unwrap()
                .any(|it| it.unwrap().file_name().to_string_lossy().ends_with(".sha256sum"))
            {
                verifies(&scene, "dst");
            }
            scene.copy(&[args, &["-q"]].concat()).assert_code(0);
            is_there(&scene, "dst");
            assert_eq!(shell(&scene, "find dst -name '*.dircopy-part'"), "", "{when}");
            if run.code == Some(0) {
                assert!(when > every, "nothing was killed");
                break;
            }
        }
    }
}
