//! The catalogue: judged by a model in Python over random shelves and by other programs' SQLite, and by what deceives.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use crate::harness::{Mount, Need, Run, Scene, Strace, have, long, need, shell};

#[track_caller]
fn catalog(scene: &Scene, args: &[&str], code: i32) -> Run {
    let named = [&["catalog", args[0], "--catalog", "c.sqlite"], &args[1..]].concat();
    let run = scene.bare(named).run();
    run.assert_no_crash();
    run.assert_code(code);
    run
}

/// The answer of another program's SQLite to what docs/guide/catalog.md has people ask, or anything else.
fn asked(scene: &Scene, sql: &str) -> String {
    let script = "import sqlite3, sys\n\
                  connection = sqlite3.connect('c.sqlite')\n\
                  connection.text_factory = bytes\n\
                  for row in connection.execute(sys.argv[1]): print(*row)\n\
                  connection.commit()";
    let output =
        Command::new("python3").args(["-c", script, sql]).current_dir(scene.root()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_model_agrees_on_random_shelves() {
    need!(Root, Mount);
    if !have(&[Need::Program("python3")]) {
        return;
    }
    let scene = Scene::new();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/records/catalog.py");
    let program =
        std::env::var_os("DIRCOPY_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_dircopy").into());
    let seed = std::env::var("DIRCOPY_TEST_SEED").unwrap_or_else(|_| "1".into());
    let ran = Command::new("unshare")
        .args(["-m", "python3", model])
        .args([&program, scene.root().as_os_str()])
        .args([seed.as_str(), if long() { "2000" } else { "60" }])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{text}{}", String::from_utf8_lossy(&ran.stderr));
}

/// By its UUID a disk is known again wherever it is mounted, and where it is now is said.
#[test]
fn a_disk_is_known_again_by_its_uuid() {
    need!(Root, Mount, Loop, Kinds);
    Mount::privately();
    let scene = Scene::new();
    scene.src.file("d/x.mov", "one").file("y", "two");
    for name in ["here", "there"] {
        fs::create_dir(scene.path(name)).unwrap();
    }
    let mounted = Mount::ext4(&scene.path("disk.img"), 16, &scene.path("here"));
    scene.bare(["-q", "src", "here/films", "--catalog=c.sqlite"]).run().assert_code(0);
    let found = catalog(&scene, &["find", "x.mov"], 0);
    let here = scene.path("here").display().to_string();
    let mut place = found.out().split(": films/d/x.mov (3 B, recorded ").next().unwrap().to_owned();
    assert!(!found.out().contains('\n') || found.out().lines().count() == 1, "{}", found.out());
    drop(mounted);
    let found = catalog(&scene, &["find", "x.mov"], 0);
    assert!(found.out().contains(&format!("was at {here} on ")), "{}", found.out());
    let _mounted = Mount::device(&scene.path("disk.img"), &scene.path("there"), "loop").unwrap();
    scene.src.file("z", "three");
    scene.bare(["-q", "src", "there/films", "--catalog=c.sqlite"]).run().assert_code(0);
    let places: Vec<Value> = (catalog(&scene, &["export"], 0).out().lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(places.len(), 3, "{places:?}");
    assert!(places.iter().all(|it| it["uuid"] == places[0]["uuid"] && it["place"] == place));
    // It may be given a name, by which it is forgotten.
    catalog(&scene, &["add", "there/films", "--place", "disk 7"], 0)
        .assert_prints(&["disk 7: 3 files of there/films"]);
    place = "disk 7".into();
    catalog(&scene, &["forget", &place], 0);
    catalog(&scene, &["find", "x.mov"], 4).assert_says("not in the catalogue: x.mov");
    catalog(&scene, &["forget", &place], 2).assert_says("none of this name or UUID");
}

/// Labels are changed, and exchanged: the newest one is what is written on the disk that is to be fetched.
#[test]
fn a_disk_is_called_by_the_label_that_it_has_now() {
    need!(Root, Mount, Loop);
    Mount::privately();
    let scene = Scene::new();
    scene.src.file("x", "one");
    let images = ["one", "two", "three"];
    let added = |image: &str, label: &str, args: &[&str]| {
        let at = scene.path("at").join(image);
        let image = scene.path(&format!("{image}.img"));
        shell(&scene, &format!("e2label {} {label}", image.display()));
        let _mounted = Mount::device(&image, &at, "loop").unwrap();
        scene.bare(["-q", "src", &format!("{}/x", at.display())]).run().assert_code(0);
        catalog(&scene, &[&["add", &format!("{}/x", at.display())], args].concat(), 0);
    };
    for image in images {
        fs::create_dir_all(scene.path("at").join(image)).unwrap();
        drop(Mount::ext4(&scene.path(&format!("{image}.img")), 16, &scene.path("at").join(image)));
    }
    let called = |names: [&str; 3]| {
        let sql = "SELECT replace(name, coalesce(uuid, ''), 'UUID') FROM place ORDER BY mount";
        // In the order of where they are mounted: one, three, two.
        let expected = [names[0], names[2], names[1]].map(|name| format!("b'{name}'\n")).concat();
        assert_eq!(asked(&scene, sql), expected);
    };
    added("one", "dk1", &[]);
    added("two", "dk2", &[]);
    added("three", "dk3", &["--place", "shelf"]);
    called(["dk1", "dk2", "shelf"]);
    // The first one may have that label, or another one.
    added("two", "dk1", &[]);
    called(["dk1 UUID", "dk1 UUID", "shelf"]);
    added("two", "dk1", &[]);
    added("one", "dk1", &[]);
    called(["dk1 UUID", "dk1 UUID", "shelf"]);
    added("one", "dk2", &[]);
    called(["dk2", "dk1", "shelf"]);
    catalog(&scene, &["find", "x"], 0).assert_prints(&["dk2: x/x"]).assert_prints(&["dk1: x/x"]);
    // What has the name that is given to it keeps it.
    added("three", "dk1", &[]);
    called(["dk2", "dk1", "shelf"]);
    added("two", "dk3", &[]);
    called(["dk2", "dk3", "shelf"]);
}

/// A btrfs has no device of its own by which it would be known.
#[test]
fn two_disks_of_btrfs_are_two() {
    need!(Root, Mount, Loop, Kinds);
    Mount::privately();
    let scene = Scene::new();
    fs::create_dir(scene.path("at")).unwrap();
    for name in ["one", "two"] {
        let _disk = Mount::of_kind("btrfs", &scene.path(name), &scene.path("at"));
        scene.src.file(name, name);
        scene.bare(["-q", "src", "at/x", "--catalog=c.sqlite"]).run().assert_code(0);
        scene.src.remove(name);
    }
    catalog(&scene, &["find", "one", "two"], 0);
    assert_eq!(asked(&scene, "SELECT count(DISTINCT uuid) FROM place").trim(), "2");
}

/// A bind mount begins elsewhere than at the top of its disk.
#[test]
fn two_parts_of_a_disk_that_are_mounted_in_turn_are_two() {
    need!(Root, Mount, Loop);
    Mount::privately();
    let scene = Scene::new();
    shell(&scene, "mkdir disk at");
    let _disk = Mount::ext4(&scene.path("disk.img"), 16, &scene.path("disk"));
    for name in ["one", "two"] {
        fs::create_dir(scene.path(&format!("disk/{name}"))).unwrap();
        let _part = Mount::bind(&scene.path(&format!("disk/{name}")), &scene.path("at"));
        scene.src.file(name, name);
        scene.bare(["-q", "src", "at", "--catalog=c.sqlite"]).run().assert_code(0);
        scene.src.remove(name);
    }
    let run = catalog(&scene, &["find", "one", "two"], 0);
    assert!(
        run.out().contains(": one/one (") && run.out().contains(": two/two ("),
        "{}",
        run.out()
    );
}

/// Contents by digest, by another file, and by lists of other programs; what is too old or has too few copies.
#[test]
fn what_is_looked_for_is_found_by_whatever_is_known_of_it() {
    if !have(&[Need::Program("python3"), Need::Program("md5sum")]) {
        return;
    }
    let scene = Scene::new();
    scene.src.file("d/x.mov", "one").file("y", "two").file(b"un\xff", "three");
    shell(&scene, "cd src && sha256sum d/x.mov y > ../a.sha256sum && md5sum y un* > ../b.md5");
    catalog(&scene, &["find", "y"], 2).assert_says("there is none yet");
    catalog(&scene, &["add", "a.sha256sum", "b.md5"], 0);
    let mode = fs::metadata(scene.path("c.sqlite")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    catalog(&scene, &["find", "y"], 0)
        .assert_prints(&["a.sha256sum: y (listed"])
        .assert_prints(&["b.md5: y (listed"]);
    let by_content = catalog(&scene, &["find", "src/y"], 0);
    by_content.assert_prints(&["a.sha256sum: y"]).assert_prints(&["b.md5: y"]);
    let digest = shell(&scene, "md5sum < src/un*");
    let found = catalog(&scene, &["find", &digest[..32]], 0);
    assert_eq!(found.out().lines().count(), 1);
    found.assert_prints(&["b.md5: \"un\\xff\""]);
    catalog(&scene, &["find", "d/*.mov", "nothing"], 4).assert_prints(&["a.sha256sum: d/x.mov"]);
    // By MD5 alone it is not known that it is the same.
    let status = catalog(&scene, &["status"], 4);
    status.assert_says("4 of 4 contents at fewer than 2 places; 4 files not known to be verified");
    status.assert_prints(&["fetch next: "]);
    assert_eq!(
        asked(&scene, "SELECT count(*) FROM file f JOIN algorithm a ON a.id = f.algorithm"),
        "4\n"
    );
    // A line that cannot be read is told, and the rest is taken.
    shell(&scene, "printf '\\001 no line\\n' >> a.sha256sum");
    catalog(&scene, &["add", "a.sha256sum"], 5).assert_says("left out 1 line or list");
    assert_eq!(asked(&scene, "SELECT count(*) FROM file"), "4\n");
    // The place has another name from now on, and two may not have one.
    catalog(&scene, &["add", "b.md5", "--place", "drawer"], 0);
    assert_eq!(asked(&scene, "SELECT count(*) FROM place"), "3\n");
    fs::write(scene.path("empty"), "").unwrap();
    catalog(&scene, &["add", "empty"], 2).assert_says("it lists no file that can be added");
    scene.src.file("z", "not copied");
    catalog(&scene, &["add", "src"], 2).assert_says("no record of yours says what is there");
    assert_eq!(asked(&scene, "SELECT count(*) FROM place"), "3\n");
}

/// Names of files, labels and databases are data: nothing of them acts, and none reaches a terminal raw.
#[test]
fn planted_names_and_databases_are_data() {
    if !have(&[Need::Program("python3")]) {
        return;
    }
    let scene = Scene::new();
    let name = b"\x1b[31m\xe2\x80\xae'; DROP TABLE file; --\n\"%\r";
    scene.src.file(name, "x").file("ok", "y");
    scene.copy(&["-q", "--catalog=c.sqlite"]).assert_code(0);
    let all = [
        catalog(&scene, &["find", "*"], 0),
        catalog(&scene, &["status"], 4),
        catalog(&scene, &["export"], 0),
        catalog(&scene, &["find", "\u{1b}[31m"], 4),
    ];
    for run in &all {
        let said = format!("{}{}", run.out(), run.err());
        assert!(!said.contains(['\u{1b}', '\u{202e}', '\r']), "{said:?}");
    }
    assert_eq!(all[2].out().lines().count(), 2);
    let place = "\u{1b}[2J\u{202e}x";
    catalog(&scene, &["add", scene.dst.to_str().unwrap(), "--place", place], 0);
    let run = catalog(&scene, &["status"], 4);
    assert!(!run.out().contains(['\u{1b}', '\u{202e}']), "{:?}", run.out());

    // What acts by itself, tables of another kind, and values that no catalogue has.
    let kept = fs::read(scene.path("c.sqlite")).unwrap();
    for (sql, said) in [
        ("CREATE TRIGGER t AFTER INSERT ON file BEGIN DELETE FROM place; END", "other tables"),
        ("CREATE VIEW v AS SELECT load_extension('/tmp/x')", "other tables"),
        ("DROP INDEX file_name", "other tables"),
        ("PRAGMA user_version = 2", "it is of version 2 and this dircopy knows 1"),
        ("PRAGMA application_id = 7", "it is another file"),
        ("UPDATE file SET name = 17", "it has what no catalogue has"),
        ("UPDATE directory SET path = CAST(x'6100' AS TEXT)", "it has what no catalogue has"),
    ] {
        fs::write(scene.path("c.sqlite"), &kept).unwrap();
        asked(&scene, sql);
        let before = fs::read(scene.path("c.sqlite")).unwrap();
        catalog(&scene, &["find", "*"], 2).assert_says(said);
        if !sql.starts_with("UPDATE") {
            catalog(&scene, &["add", scene.dst.to_str().unwrap()], 2).assert_says(said);
            assert!(
                fs::read(scene.path("c.sqlite")).unwrap() == before,
                "{sql}: it was written to"
            );
        }
    }
    for damage in [
        "printf 'no database, and longer than its mark' > c.sqlite",
        "mkfifo c.sqlite",
        "mkdir c.sqlite",
    ] {
        shell(&scene, &format!("rm -rf c.sqlite; {damage}"));
        catalog(&scene, &["find", "*"], 2);
        catalog(&scene, &["add", scene.dst.to_str().unwrap()], 2);
    }
}

/// A damaged page anywhere is told or does no harm, and is never written over as a whole.
#[test]
fn damaged_databases_are_told() {
    let scene = Scene::new();
    for number in 0..300 {
        scene.src.file(format!("d{}/{number}", number % 7), number.to_string());
    }
    scene.copy(&["-q", "--catalog=c.sqlite"]).assert_code(0);
    let kept = fs::read(scene.path("c.sqlite")).unwrap();
    let mut refused = 0;
    let mut random = crate::harness::Random::new(7);
    for _ in 0..if long() { 2000 } else { 60 } {
        let mut bytes = kept.clone();
        for _ in 0..=random.below(20) {
            let at = random.below(bytes.len());
            bytes[at] = random.below(256) as u8;
        }
        bytes.truncate(if random.below(4) == 0 { random.below(bytes.len()) } else { bytes.len() });
        fs::write(scene.path("c.sqlite"), &bytes).unwrap();
        for args in [&["find", "d3/*"][..], &["status"], &["export"]] {
            let named = [&["catalog", args[0], "--catalog", "c.sqlite"], &args[1..]].concat();
            let run = scene.bare(named).run();
            run.assert_no_crash();
            assert!([0, 2, 4].contains(&run.code.unwrap()), "{:?} {}", run.code, run.err());
            refused += u32::from(run.code == Some(2));
        }
    }
    assert!(refused > 10, "{refused}");
}

/// Two programs at once: one waits for the other. A run that cannot add says so, and has copied everything.
#[test]
fn two_at_once_wait_and_a_run_that_cannot_add_says_so() {
    need!(Root);
    let scene = Scene::new();
    for number in 0..50 {
        scene.src.file(number.to_string(), number.to_string());
    }
    scene.bare(["-q", "src", "a", "--catalog=c.sqlite"]).run().assert_code(0);
    scene.bare(["-q", "src", "b"]).run().assert_code(0);
    let adds: Vec<_> = (0..4)
        .map(|at| {
            let tree = if at % 2 == 0 { "a" } else { "b" };
            scene.bare(["catalog", "add", "--catalog", "c.sqlite", tree]).spawn()
        })
        .collect();
    for add in adds {
        add.wait().assert_code(0);
    }
    assert_eq!(catalog(&scene, &["export"], 0).out().lines().count(), 100);

    fs::write(scene.path("other"), "not a database, but somebody's").unwrap();
    scene.src.file("new", "new");
    let run = scene.bare(["src", "a", "--catalog=other"]).run();
    run.assert_code(1);
    run.assert_says("cannot use the catalogue other");
    assert_eq!(fs::read(scene.path("other")).unwrap(), b"not a database, but somebody's");
    assert!(scene.path("a/new").exists());
    for inside in ["--catalog=src/c", "--catalog=a/new"] {
        scene.bare(["src", "a", inside]).run().assert_code(2);
    }
    for (catalog, code) in [("never", 0), ("none/catalog", 1), ("other", 1)] {
        let dry = ["src", "a", "--dry-run", &format!("--catalog={catalog}")];
        assert_eq!(scene.bare(dry).run().assert_code(code).err().contains("cannot use"), code == 1);
    }
    assert_eq!(fs::read(scene.path("other")).unwrap(), b"not a database, but somebody's");
    assert!(!scene.path("never").exists());
}

/// What the record has and the tree has not is taken out, also if that is all.
#[test]
fn a_tree_that_has_lost_all_is_known_to_have_nothing() {
    let scene = Scene::new();
    scene.src.file("x", "one").file("y", "two");
    for to in ["a", "b"] {
        scene.bare(["-q", "src", to]).run().assert_code(0);
        catalog(&scene, &["add", to, "--place", to], 0);
    }
    shell(&scene, "rm a/x a/y");
    let run = catalog(&scene, &["add", "a", "--place", "a"], 1);
    run.assert_says("left out 2 files that your record has and that are not there: x, y");
    assert_eq!(catalog(&scene, &["find", "x"], 0).out().matches("x (").count(), 1);
    catalog(&scene, &["status"], 4).assert_says("2 of 2 contents at fewer than 2 places");
}

/// A manifest that lies in its tree is of that, and the index of a span is of no place.
#[test]
fn a_list_on_its_disk_is_no_further_place() {
    let scene = Scene::new();
    scene.src.file("x", "one").file("y", "two");
    scene.bare(["-q", "src", "a"]).run().assert_code(0);
    let manifest = shell(&scene, "ls a/dircopy-*sum").trim().to_owned();
    let lacking = |scene: &Scene| {
        catalog(scene, &["status"], 4).assert_says("2 of 2 contents at fewer than 2 places");
    };
    catalog(&scene, &["add", &manifest], 0);
    lacking(&scene);
    // What is known of a tree is as of a second.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    catalog(&scene, &["add", "a"], 0);
    lacking(&scene);
    // The record says more.
    catalog(&scene, &["add", &manifest], 2).assert_says("is newer than the list");
    catalog(&scene, &["find", "x"], 0).assert_prints(&["recorded"]);
    lacking(&scene);
    // Whoever names the place knows more.
    catalog(&scene, &["add", &manifest, "--place", "disk 7"], 0);
    catalog(&scene, &["status"], 0);

    // One that was copied from its disk may be of any, also of one that is known; with the record, but not its files, too.
    catalog(&scene, &["forget", "disk 7"], 0);
    shell(&scene, "mkdir c && cp -a a/.dircopy a/dircopy-*sum c/");
    catalog(&scene, &["add", "c"], 2).assert_says("no record of yours says what is there");
    let there = manifest.replacen("a/", "c/", 1);
    catalog(&scene, &["add", &there], 0).assert_prints(&["which disk it is of is not known"]);
    lacking(&scene);
    catalog(&scene, &["forget", there.trim_start_matches("c/")], 0);
    shell(&scene, &format!("mkdir lists && cp {manifest} lists/"));
    let copied = shell(&scene, "ls lists/dircopy-*sum").trim().to_owned();
    catalog(&scene, &["add", &copied], 0).assert_prints(&["which disk it is of is not known"]);
    lacking(&scene);
    catalog(&scene, &["status", "--copies", "1"], 0);

    // So may one of another disk that is kept in an output, whatever it is called.
    catalog(&scene, &["forget", copied.trim_start_matches("lists/")], 0);
    scene.src.file("z", "three");
    scene.bare(["-q", "src", "b"]).run().assert_code(0);
    shell(&scene, "cp b/dircopy-*sum a/");
    let theirs = shell(&scene, "basename b/dircopy-*sum").trim().to_owned();
    let run = catalog(&scene, &["add", &format!("a/{theirs}")], 0);
    run.assert_prints(&["which disk it is of is not known"]);
    let run = catalog(&scene, &["find", "z"], 0);
    run.assert_prints(&[&format!("{theirs}: z")]);
    catalog(&scene, &["find", "x"], 0).assert_prints(&["recorded"]);

    fs::write(scene.path("films"), format!("# dircopy span: 1 disk\n{}  1/x\n", "a".repeat(64)))
        .unwrap();
    catalog(&scene, &["add", "films"], 2).assert_says("it is the index of a span");
}

/// Whoever may make files beside a catalogue can plant a journal, which is played into it by whoever opens it.
#[test]
fn a_catalogue_that_others_may_change_is_refused() {
    need!(Root);
    let scene = Scene::new();
    for number in 0..100 {
        scene.src.file(number.to_string(), number.to_string());
    }
    fs::create_dir(scene.path("cat")).unwrap();
    scene.bare(["-q", "src", "a", "--catalog=cat/c.sqlite"]).run().assert_code(0);
    shell(&scene, "ln -s cat/c.sqlite c.sqlite");
    catalog(&scene, &["find", "7"], 0);
    let kept = fs::read(scene.path("cat/c.sqlite")).unwrap();
    // It says that there was one page before.
    let mut journal = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7".to_vec();
    for number in [0_u32, 0, 1, 512, 4096] {
        journal.extend(number.to_be_bytes());
    }
    journal.resize(512, 0);
    let uses: [&[&str]; 5] =
        [&["find", "7"], &["status"], &["export"], &["forget", "x"], &["add", "a"]];
    let refused = |name: &str| {
        for args in uses {
            let named = [&["catalog", args[0], "--catalog", name], &args[1..]].concat();
            let run = scene.bare(named).run();
            run.assert_code(2).assert_says("another user may change ");
        }
        assert!(fs::read(scene.path("cat/c.sqlite")).unwrap() == kept, "it was written to");
    };
    for (open, close) in [
        ("chmod 777 cat", "chmod 755 cat"),
        ("chmod 1777 cat", "chmod 755 cat"),
        ("chown nobody cat", "chown root cat"),
        ("chgrp nogroup cat; chmod 775 cat", "chgrp root cat; chmod 755 cat"),
        ("chown nobody cat/c.sqlite", "chown root cat/c.sqlite"),
        ("chmod 666 cat/c.sqlite", "chmod 600 cat/c.sqlite"),
    ] {
        shell(&scene, open);
        let is_dir = !open.contains("c.sqlite");
        if is_dir {
            fs::write(scene.path("cat/c.sqlite-journal"), &journal).unwrap();
        }
        refused("cat/c.sqlite");
        shell(&scene, close);
        if is_dir {
            fs::remove_file(scene.path("cat/c.sqlite-journal")).unwrap();
        }
        catalog(&scene, &["find", "7"], 0);
    }
    // Who may write above it can put another directory there.
    shell(&scene, "mkdir -m 755 up; mv cat up/; chown nobody up");
    for at in [&["find", "7"][..], &["add", "a"], &["status"]] {
        let named = [&["catalog", at[0], "--catalog", "up/cat/c.sqlite"], &at[1..]].concat();
        let run = scene.bare(named).run();
        run.assert_code(2).assert_says("another user may change ").assert_says("/up: ");
    }
    shell(&scene, "mv up/cat .");
    // The usual directory is made so that it can be used, whatever new ones get.
    shell(&scene, "chgrp nogroup . && chmod g+s .");
    let add = scene.bare(["catalog", "add", "a"]);
    add.under(["sh", "-c", "umask 002; XDG_DATA_HOME=$PWD/data exec \"$@\"", "sh"])
        .run()
        .assert_code(0);
    // By a link, and where none is yet: nothing is made there.
    shell(&scene, "chmod 777 cat");
    catalog(&scene, &["find", "7"], 2).assert_says("another user may change ");
    let add = scene.bare(["catalog", "add", "--catalog", "cat/new", "a"]).run();
    add.assert_code(2).assert_says("another user may change ");
    assert!(!scene.path("cat/new").exists());
}

/// What a kill at the first add leaves is none yet, whenever it comes.
#[test]
fn a_first_add_that_is_killed_is_as_if_it_never_was() {
    need!(Strace);
    let scene = Scene::new();
    fs::write(scene.path("list"), format!("{}  x\n", "a".repeat(64))).unwrap();
    let mut halves = 0;
    for when in (1..).step_by(2) {
        shell(&scene, "rm -f c.sqlite*");
        let strace = Strace::inject(&scene, "pwrite64", &format!("signal=KILL:when={when}"));
        let run = strace.run(scene.bare(["catalog", "add", "--catalog", "c.sqlite", "list"]));
        if run.code == Some(0) {
            break;
        }
        let has_journal = scene.path("c.sqlite-journal").exists();
        halves += u32::from(has_journal && fs::metadata(scene.path("c.sqlite")).unwrap().len() > 0);
        let found = scene.bare(["catalog", "find", "--catalog", "c.sqlite", "x"]).run();
        assert!(
            [2, 4].contains(&found.code.unwrap()) && !found.err().contains("another file"),
            "{when}: {}",
            found.err()
        );
        catalog(&scene, &["add", "list"], 0);
        catalog(&scene, &["find", "x"], 0);
    }
    assert!(halves > 0, "nothing was killed in between");
    fs::write(scene.path("c.sqlite"), "").unwrap();
    catalog(&scene, &["find", "x"], 2).assert_says("there is none yet");
    catalog(&scene, &["add", "list"], 0);
}

/// What is refused does not keep the others out, each is named, and the worst counts.
#[test]
fn an_add_goes_on_after_what_is_refused() {
    let scene = Scene::new();
    let line = |name: &str| format!("{}  {name}\n", "a".repeat(64));
    fs::write(scene.path("one.sha256sum"), line("one")).unwrap();
    fs::write(scene.path("two.sha256sum"), line("two")).unwrap();
    fs::write(scene.path("torn.sha256sum"), line("torn") + "no line\n").unwrap();
    fs::create_dir(scene.path("bare")).unwrap();
    let run = catalog(&scene, &["add", "one.sha256sum", "bare", "gone", "two.sha256sum"], 2);
    run.assert_says("cannot add to the catalogue bare").assert_says("cannot open the list gone");
    catalog(&scene, &["find", "one", "two"], 0);
    let run = catalog(&scene, &["add", "gone", "torn.sha256sum"], 2);
    run.assert_says("torn.sha256sum: left out 1 line");
    catalog(&scene, &["add", "torn.sha256sum", "one.sha256sum"], 5);
    catalog(&scene, &["find", "torn"], 0);
}

/// The text files of a bag say what is in it, as manifests do.
#[test]
fn a_bag_is_added_as_any_output() {
    let scene = Scene::new();
    scene.src.file("a", "one").file("dir/b", "two");
    scene.copy(&["--bag", "--hash", "sha256,md5"]).assert_code(0);
    let run = catalog(&scene, &["add", "dst"], 0);
    assert!(run.stderr.is_empty(), "{}", run.err());
    catalog(&scene, &["find", "a"], 0).assert_prints(&["dst/data/a"]);
    // What the runs did not leave there is told, whatever it is called.
    scene.output().file("manifest-of/x.txt", "").file("note.txt", "");
    let run = catalog(&scene, &["add", "dst"], 1);
    run.assert_says("dst: left out 2 files of which no record of yours says anything: ");
    run.assert_says("manifest-of/x.txt").assert_says("note.txt");
    shell(&scene, "rm -r dst/manifest-of dst/note.txt; chmod 600 dst/data/a");
    (0..7).for_each(|file| _ = scene.output().file(format!("{file}"), ""));
    let run = catalog(&scene, &["add", "dst"], 1);
    run.assert_says("left out 1 file that may have changed since they were copied: data/a");
    run.assert_says("left out 7 files").assert_says(" and 2 more");
}

/// What an add takes out is many rows in one statement: that ends too when a signal asks for it.
/// What cannot be read may be there still, and what is gone is said.
#[test]
fn what_is_not_seen_is_not_left_out_in_silence() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("a/1", "1").file("c/2", "two").file("c/3", "three");
    scene.copy(&[]).assert_code(0);
    catalog(&scene, &["add", "dst"], 0);
    let known = || asked(&scene, "SELECT count(*) FROM file").trim().to_owned();
    assert_eq!(known(), "3");
    let strace = Strace::inject(&scene, "getdents64", "error=EIO").exactly_on(scene.dst.join("c"));
    let run = strace.run(scene.bare(["catalog", "add", "--catalog", "c.sqlite", "dst"]));
    strace.fired(&run);
    run.assert_code(2).assert_says("cannot add to the catalogue dst/c: Input/output error");
    assert_eq!(known(), "3");
    shell(&scene, "rm -r dst/c");
    let run = catalog(&scene, &["add", "dst"], 1);
    run.assert_says("left out 2 files that your record has and that are not there: c/2, c/3");
    assert_eq!(known(), "1");
}

#[test]
fn an_interrupted_add_ends_at_once() {
    if !long() || !have(&[Need::Program("python3")]) {
        return;
    }
    let scene = Scene::new();
    let made = "import hashlib\n\
                with open('many.sha256sum', 'w') as out:\n\
                \x20for at in range(1000000):\n\
                \x20 out.write(f'{hashlib.sha256(str(at).encode()).hexdigest()}  {at // 500}/{at}\\n')";
    fs::write(scene.path("make.py"), made).unwrap();
    shell(&scene, "python3 make.py");
    catalog(&scene, &["add", "many.sha256sum"], 0);
    let mut add = scene.bare(["catalog", "add", "--catalog", "c.sqlite", "many.sha256sum"]).spawn();
    add.until_it_listens();
    std::thread::sleep(std::time::Duration::from_secs(1));
    let asked = std::time::Instant::now();
    add.signal(rustix::process::Signal::TERM);
    let run = add.wait();
    run.assert_code(143).assert_says("nothing of it is added");
    assert!(asked.elapsed().as_secs() < 2, "{:?}", asked.elapsed());
    catalog(&scene, &["find", "777777"], 0);
}

/// A million files: seconds and bytes are told, and the bounds are wide, for machines that do much else.
#[test]
fn a_million_files_are_added_and_found() {
    if !long() || !have(&[Need::Program("python3")]) {
        return;
    }
    let scene = Scene::new();
    let made = "import hashlib\n\
                with open('million.sha256sum', 'w') as out:\n\
                \x20for at in range(1000000):\n\
                \x20 name = f'card{at // 50000:02}/DCIM/{at // 500:05}/IMG_{at:07}.CR3'\n\
                \x20 out.write(f'{hashlib.sha256(name.encode()).hexdigest()}  {name}\\n')";
    fs::write(scene.path("make.py"), made).unwrap();
    shell(&scene, "python3 make.py");
    let timed = |args: &[&str], code| {
        let begun = std::time::Instant::now();
        let run = catalog(&scene, args, code);
        println!("{args:?}: {:?}", begun.elapsed());
        run
    };
    timed(&["add", "million.sha256sum"], 0);
    let bytes = fs::metadata(scene.path("c.sqlite")).unwrap().len();
    println!("{} bytes a file", bytes / 1_000_000);
    assert!(bytes < 250 * 1_000_000, "{bytes}");
    timed(&["find", "IMG_0777777.CR3"], 0).assert_prints(&["card15/DCIM/01555/IMG_0777777.CR3"]);
    let digest = shell(&scene, "grep IMG_0777777 million.sha256sum | cut -c1-64");
    timed(&["find", digest.trim()], 0).assert_prints(&["IMG_0777777.CR3"]);
    timed(&["find", "IMG_07777?7.CR3"], 0).assert_prints(&["IMG_0777777.CR3"]);
    timed(&["find", "01555/*7.CR3"], 0).assert_prints(&["IMG_0777777.CR3"]);
    timed(&["status", "-q"], 4);
    timed(&["add", "million.sha256sum"], 0);
    timed(&["forget", "million.sha256sum"], 0);
}

/// The record has it: it is not what the record has.
#[test]
fn a_file_that_was_edited_is_not_one_of_which_nothing_is_known() {
    let scene = Scene::new();
    scene.src.file("a", "one").file("dir/b", "two");
    scene.copy(&[]).assert_code(0);
    scene.output().append("dir/b", b"edited").file("new", "");
    let run = catalog(&scene, &["add", "dst"], 1);
    run.assert_says("left out 1 file that may have changed since they were copied: dir/b");
    run.assert_says("left out 1 file of which no record of yours says anything: new");
}

/// What `heal` made whole is another file than the record has, until a run records it again.
#[test]
fn a_tree_that_was_healed_is_recorded_by_a_copy() {
    let scene = Scene::new();
    scene.src.file("a", "one and more");
    scene.bare(["src", "dst", "other"]).run().assert_code(0);
    shell(&scene, "printf X | dd of=dst/a conv=notrunc status=none");
    scene.bare(["heal", "dst", "other"]).run().assert_code(0);
    let run = catalog(&scene, &["add", "dst"], 2);
    run.assert_says("may have changed since, or was made whole by heal (a): run the copy again");
    assert!(!run.err().contains("exFAT"), "{}", run.err());
    scene.copy(&[]).assert_code(0);
    catalog(&scene, &["add", "dst"], 0);
}
