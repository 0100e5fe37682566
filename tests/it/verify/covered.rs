//! Whether a source may be erased: judged by a model in Python over random shelves, and by what has deceived.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use rustix::process::Signal;

use crate::harness::{Act, Habit, Mirror, Mount, Need, Run, Scene, have, long, need, shell};

/// A card, two disks and a third, each a file system of its own for as long as the mounts are held.
fn shelf() -> (Scene, Vec<Mount>) {
    Mount::privately();
    let scene = Scene::new();
    let mount = |name: &str| {
        fs::create_dir_all(scene.path(name)).unwrap();
        Mount::tmpfs(&scene.path(name), "64m")
    };
    let mounts = ["src", "a", "b", "c"].map(mount).into();
    scene.src.file("x", "one").file("d/y", "two").file("d/e/empty", "").symlink("l", "x");
    (scene, mounts)
}

fn copied(scene: &Scene, to: &[&str]) {
    for to in to {
        scene.bare(["-q", "src", to]).run().assert_code(0);
    }
}

#[track_caller]
fn covered(scene: &Scene, args: &[&str], code: i32) -> Run {
    let run = scene.bare([&["covered", "src", "--count-memory"], args].concat()).run();
    run.assert_no_crash();
    run.assert_code(code);
    let is_told = run.out().contains("covered: every file is at");
    assert_eq!(is_told, code == 0 && !args.contains(&"-q"), "{}{}", run.out(), run.err());
    run
}

#[test]
fn the_model_agrees_on_random_shelves() {
    need!(Root, Mount);
    if !have(&[Need::Program("python3"), Need::Program("b3sum")]) {
        return;
    }
    let scene = Scene::new();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/verify/covered.py");
    let program =
        std::env::var_os("DIRCOPY_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_dircopy").into());
    let seed = std::env::var("DIRCOPY_TEST_SEED").unwrap_or_else(|_| "1".into());
    let ran = Command::new("unshare")
        .args(["-m", "python3", model])
        .args([&program, scene.root().as_os_str()])
        .args([seed.as_str(), if long() { "2000" } else { "40" }])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{text}{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn what_is_at_two_disks_may_be_erased_and_what_is_missing_is_named() {
    need!(Root, Mount);
    let (scene, _mounts) = shelf();
    copied(&scene, &["a", "b"]);
    let run = covered(&scene, &["a", "b"], 0);
    run.assert_prints(&["a: 3 of 3 files: recorded and untouched"]);
    run.assert_prints(&["3 files, 6 B, read at src; 1 link or special file not looked at"]);
    run.assert_prints(&["covered: every file is at 2 places or more; this card may be erased"]);
    covered(&scene, &["a", "b", "-q"], 0);
    covered(&scene, &["a", "b", "--copies", "3"], 4);
    covered(&scene, &["a", "--copies", "1"], 0).assert_prints(&["at 1 place or more"]);
    covered(&scene, &["a", "b", "--copies", "0"], 2);

    // A new file, one with another name, and one that rotted with its time set back.
    scene.src.file("new", "three");
    shell(&scene, "mv src/d/y src/d/z; touch -r b/x kept; printf oNe > b/x; touch -r kept b/x");
    let run = covered(&scene, &["a", "b"], 4);
    run.assert_prints(&["at 0 of 2 places: new (not at a; not at b)"]);
    run.assert_prints(&["at 1 of 2 places: x (at a; in doubt at b)"]);
    run.assert_prints(&["a lacks files: dircopy src a"]);
    run.assert_prints(&["b has files that no record of yours proves so: add --read"]);
    run.assert_says("not covered: not at 2 places: 2 of 4 files; do not erase src");
    assert!(!run.out().contains("places: d/z"), "{}", run.out());
    covered(&scene, &["a", "b", "--read"], 4)
        .assert_prints(&["at 1 of 2 places: x (at a; no longer the same at b)"]);

    // Nothing to erase is no yes, and a place that is not there is none.
    shell(&scene, "rm -r src/*");
    covered(&scene, &["a", "b"], 2).assert_says("it has no file: is its disk mounted?");
    scene.src.file("x", "one");
    covered(&scene, &["a", "gone"], 2).assert_says("gone");
}

/// What runs moved to their trash on a card is on it, and no copy takes it: the way out is another.
#[test]
fn the_trash_of_a_card_is_named_with_what_to_do() {
    need!(Root, Mount);
    let (scene, _mounts) = shelf();
    copied(&scene, &["a", "b"]);
    scene.src.file(".dircopy-trash/2026-01-01T000000Z/z", "three");
    let run = covered(&scene, &["a", "b"], 4);
    run.assert_prints(&["src/.dircopy-trash has 1 file of these"]);
    assert!(!run.out().contains("lacks files"), "{}", run.out());
    // What a copy does take is for that to do.
    scene.src.file("new", "four");
    let run = covered(&scene, &["a", "b"], 4);
    run.assert_prints(&["src/.dircopy-trash has 1 file of these"]);
    run.assert_prints(&["a lacks files: dircopy src a"]);
    // As it says.
    copied(&scene, &["a", "b"]);
    shell(&scene, "mv src/.dircopy-trash src/old-trash");
    copied(&scene, &["a", "b"]);
    covered(&scene, &["a", "b"], 0);
}

/// So is what runs keep elsewhere on it, or what is called so.
#[test]
fn what_runs_keep_on_a_card_is_named_with_what_to_do() {
    need!(Root, Mount);
    for (kept, other) in [
        ("cards/.dircopy-trash", "old-dircopy-trash"),
        ("2026-12-01T044402Z.part", "old-2026-12-01T044402Z.part"),
        (".0ib3eRSCfJ.dircopy-part", "old-0ib3eRSCfJ.dircopy-part"),
        (".dircopy", "old-dircopy"),
    ] {
        let (scene, _mounts) = shelf();
        let file = if kept.ends_with("dircopy-part") { kept.into() } else { format!("{kept}/f") };
        // As what runs write begins.
        scene.src.file(file, "dircopy kept");
        copied(&scene, &["a", "b"]);
        let run = covered(&scene, &["a", "b"], 4);
        assert!(!run.out().contains("lacks files"), "{}", run.out());
        let other = std::path::Path::new("src").join(kept).with_file_name(other);
        let rename = format!("mv src/{kept} {}", other.display());
        run.assert_prints(&[&format!("src/{kept} has 1 file of these"), &rename]);
        shell(&scene, &rename);
        copied(&scene, &["a", "b"]);
        covered(&scene, &["a", "b"], 0);
    }
}

/// Of many the first are told.
#[test]
fn what_runs_keep_is_told_in_few_lines() {
    need!(Root, Mount);
    let (scene, _mounts) = shelf();
    for part in 0..9 {
        scene.src.file(format!(".a1B2c3D4e{part}.dircopy-part"), "part");
    }
    copied(&scene, &["a", "b"]);
    let run = covered(&scene, &["a", "b"], 4);
    assert_eq!(run.out().matches("has 1 file of these").count(), 5, "{}", run.out());
    run.assert_prints(&["4 more files of these are in others of the kind"]);
}

/// A copy that has rotted where no time tells is not what a plain copy would look at.
#[test]
fn what_helps_a_rotten_place_is_said() {
    need!(Root, Mount, Loop);
    let (scene, _mounts) = shelf();
    shell(&scene, "truncate -s 8M image; mkfs.ext4 -q -F -b 1024 image");
    let mounted = Mount::device(&scene.path("image"), &scene.path("c"), "loop").unwrap();
    shell(&scene, "rm -d c/lost+found");
    scene.src.file("rotten", "content of this very size");
    copied(&scene, &["a", "c/o"]);
    shell(
        &scene,
        "sync; block=$(debugfs -R 'blocks /o/rotten' image 2>/dev/null | cut -d' ' -f1)
         printf ROT | dd of=image bs=1 seek=$((block * 1024)) conv=notrunc status=none",
    );
    let run = covered(&scene, &["a", "c/o", "--read"], 4);
    run.assert_prints(&[
        "c/o has files that are not as they were copied: dircopy --verify src c/o",
    ]);
    scene.bare(["--verify", "src", "c/o"]).run().assert_code(0);
    covered(&scene, &["a", "c/o", "--read"], 0);
    drop(mounted);
}

#[test]
fn two_ways_to_one_disk_are_one_place_and_the_disk_of_the_source_is_none() {
    need!(Root, Mount);
    let (scene, _mounts) = shelf();
    copied(&scene, &["a/one", "a/two", "b"]);
    symlink(scene.path("a/one"), scene.path("link")).unwrap();
    for name in ["bound", "over", "c/upper", "c/work", "again"] {
        fs::create_dir_all(scene.path(name)).unwrap();
    }
    let _bound = Mount::bind(&scene.path("a"), &scene.path("bound"));
    for other in ["a/one", "a/two", "link", "bound/two"] {
        let run = covered(&scene, &["a/one", other], 4);
        run.assert_prints(&["it is one place with a/one, on one disk"]);
    }
    covered(&scene, &["a/one", "link", "b", "bound/two"], 0);

    // What shows the source itself, also to who reads it again.
    scene.bare(["-q", "src", "src/copy"]).run().assert_code(2);
    fs::create_dir(scene.path("src/inside")).unwrap();
    let path = |name: &str| scene.path(name);
    let _over = Mount::overlay(&path("src"), &path("c/upper"), &path("c/work"), &path("over"));
    let _single = Mount::bind(&path("src"), &path("again"));
    for other in ["src", "src/inside", "again", "over"] {
        let run = covered(&scene, &["b", other, "--read"], 4);
        run.assert_prints(&["it is on the disk of SRC, or may be, and does not count"]);
    }
    // A file of the source in the place of one of a copy.
    shell(&scene, "printf other > b/x");
    shell(&scene, "mount --bind src/x b/x");
    let run = covered(&scene, &["a/one", "b", "--read"], 4);
    shell(&scene, "umount b/x");
    run.assert_prints(&["at 1 of 2 places: x (at a/one; not at b)"]);
}

#[test]
fn partitions_images_and_subvolumes_of_one_disk_are_one_place() {
    need!(Root, Mount, Loop, Kinds);
    let (scene, _mounts) = shelf();
    let path = |name: &str| scene.path(name);
    for name in ["one", "two", "three", "four"] {
        fs::create_dir(path(name)).unwrap();
    }
    let _one = Mount::ext4(&path("a/one.img"), 16, &path("one"));
    let _two = Mount::ext4(&path("a/two.img"), 16, &path("two"));
    let _three = Mount::ext4(&path("b/three.img"), 16, &path("three"));
    let _four = Mount::ext4(&path("src/four.img"), 16, &path("four"));
    for to in ["one", "two", "three", "four"] {
        scene.bare(["-q", "src", to, "--exclude", "*.img"]).run().assert_code(0);
    }
    // The images are not at any place, and everything else is judged.
    let x = |args: &[&str]| covered(&scene, args, 4);
    x(&["one", "two"]).assert_prints(&["at 1 of 2 places: x (at one; at two, on the disk of one)"]);
    x(&["one", "four"])
        .assert_prints(&["at 1 of 2 places: x (at one; at four, on the disk of SRC)"]);
    assert!(!x(&["one", "three"]).out().contains("places: x "));

    // The same partition, by way of a loop device over it.
    let sector = |line: &str| shell(&scene, line).trim().to_owned();
    shell(&scene, "mkdir p1 p2");
    // Two entries of a table of partitions (MBR), each with its first sector and its length.
    let mut table = vec![0; 512];
    for (entry, first) in [(446, 2048_u32), (462, 34_816)] {
        table[entry + 4] = 0x83;
        table[entry + 8..][..4].copy_from_slice(&first.to_le_bytes());
        table[entry + 12..][..4].copy_from_slice(&30_000_u32.to_le_bytes());
    }
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    fs::write(path("c/disk"), table).unwrap();
    fs::File::options().write(true).open(path("c/disk")).unwrap().set_len(40 << 20).unwrap();
    let disk = sector("losetup -f --show -P c/disk");
    shell(
        &scene,
        &format!(
            "partx -a {disk} 2>/dev/null || true; mkfs.ext4 -q {disk}p1; mkfs.ext4 -q {disk}p2"
        ),
    );
    let over = sector(&format!("losetup -f --show {disk}p2"));
    shell(&scene, &format!("mount {disk}p1 p1; mount {over} p2"));
    for to in ["p1/x", "p2/x"] {
        scene.bare(["-q", "src", to, "--exclude", "*.img"]).run().assert_code(0);
    }
    let run = scene.bare(["covered", "src", "--count-memory", "p1/x", "p2/x"]).run();
    shell(&scene, &format!("umount p1 p2; losetup -d {over}; losetup -d {disk}"));
    run.assert_code(4)
        .assert_prints(&["at 1 of 2 places: x (at p1/x; at p2/x, on the disk of p1/x)"]);
}

/// Whoever keeps the list of each disk in a drawer gives both.
#[test]
fn the_list_of_a_place_that_is_given_is_none_whatever_it_is_called() {
    need!(Root, Mount);
    let (scene, _mounts) = shelf();
    // A Media Hash List can hold no link.
    shell(&scene, "mkdir drawer; rm src/l");
    let is_one = |place: &str, list: &str, more: &[&str]| {
        let list = shell(&scene, &format!("cp {list} drawer; ls drawer/$(basename {list})"));
        let args = [&[place, list.trim(), "--trust-lists"], more].concat();
        let told = format!("it is one place with {place}");
        let run = covered(&scene, &args, 4);
        run.assert_prints(&[&told]).assert_prints(&["add --lists-apart"]);
        covered(&scene, &[&args[..], &["--lists-apart"]].concat(), 0);
    };
    for (options, list) in [
        ("--format bsd", "a/*.bsd"),
        ("--format hashdeep --hash sha256,md5", "a/*.hashdeep"),
        ("--format mhl1 --hash sha256,md5", "a/*.mhl"),
        ("--format mhl --hash sha256,md5", "a/ascmhl/0001_*.mhl"),
        ("--bag", "a/manifest-sha256.txt"),
    ] {
        shell(&scene, "rm -rf a/* a/.dircopy drawer/*");
        let args: Vec<&str> = options.split(' ').collect();
        for _ in 0..2 {
            scene.bare([&["-q", "src", "a"], &args[..]].concat()).run().assert_code(0);
        }
        is_one("a", list, &[]);
    }
    // Cards have all that they have in one directory, and so have lists beside it.
    shell(&scene, "rm -rf a/* a/.dircopy drawer/*; mv src/x src/d");
    scene.bare(["-q", "src", "a", "--format", "dirs"]).run().assert_code(0);
    shell(&scene, "sha256sum a/d/e/empty | sed 's/ a.d/ ./' >> a/d/SHA256SUMS");
    is_one("a", "a/d/SHA256SUMS", &[]);
    shell(&scene, "mv src/d/x src");
    // Somebody's copy is read, and has the list of somebody.
    shell(
        &scene,
        "cp -a src/. b; cd b; find d x -type f -exec md5sum {} + > ../sums; mv ../sums .",
    );
    is_one("b", "b/sums", &["--read"]);
    // One that the card has is of the card.
    copied(&scene, &["c"]);
    shell(&scene, "cp b/sums seen; cp seen src/any");
    covered(&scene, &["c", "seen", "--trust-lists"], 4)
        .assert_prints(&["it is on the disk of SRC, or may be, and does not count"]);
}

#[test]
fn lists_that_one_run_made_may_be_of_one_disk() {
    need!(Root, Mount);
    let (scene, _mounts) = shelf();
    fs::create_dir(scene.path("drawer")).unwrap();
    let endings = [("gnu", "*.md5sum"), ("bsd", "*.bsd"), ("hashdeep", "*.hashdeep")];
    for (format, other) in endings {
        shell(&scene, "rm -rf a/* a/.dircopy drawer/*");
        let args = ["-q", "src", "a", "--hash", "sha256,md5", "--format", format];
        scene.bare(args).run().assert_code(0);
        let lists = shell(&scene, &format!("mv a/{other} a/*.sha256sum drawer; ls drawer/*"));
        let both: Vec<&str> = lists.split_whitespace().chain(["--trust-lists"]).collect();
        assert_eq!(both.len(), 3, "{lists}");
        let run = covered(&scene, &both, 4);
        run.assert_prints(&["it is one place with"]).assert_prints(&["add --lists-apart"]);
        covered(&scene, &[&both[..], &["--lists-apart"]].concat(), 0);
        // Of another run they are of another disk, or nobody knows better.
        shell(&scene, "mv drawer/*.sha256sum drawer/dircopy-20260102T030405Z.sha256sum");
        let both = shell(&scene, "ls drawer/*");
        let both: Vec<&str> = both.split_whitespace().chain(["--trust-lists"]).collect();
        covered(&scene, &both, 0);
    }
}

#[test]
fn a_list_counts_only_where_its_user_says_so_and_a_copy_of_it_is_no_second_disk() {
    need!(Root, Mount);
    let (scene, _mounts) = shelf();
    copied(&scene, &["a", "b"]);
    shell(
        &scene,
        "cp b/dircopy-*sum drawer; cp drawer again; (cd src; find . -type f -exec sha256sum {} +) > own",
    );
    // The lines of two copies of three files may have any order.
    shell(&scene, "(cat drawer; echo '# disk 7') > seven; sort -r drawer > eight");
    covered(&scene, &["a", "seven"], 4)
        .assert_prints(&["at 1 of 2 places: x (at a; only listed in seven)"]);
    covered(&scene, &["a", "seven", "--trust-lists"], 0);
    covered(&scene, &["seven", "eight", "--trust-lists"], 0);
    for pair in [["drawer", "again"], ["drawer", "drawer"]] {
        let run = covered(&scene, &[pair[0], pair[1], "--trust-lists"], 4);
        run.assert_prints(&["add --lists-apart"]);
    }
    covered(&scene, &["drawer", "again", "--trust-lists", "--lists-apart"], 0);
    covered(&scene, &["drawer", "drawer", "--trust-lists", "--lists-apart"], 4);
    shell(&scene, "ln drawer linked; ln -s drawer pointed");
    covered(&scene, &["drawer", "linked", "--trust-lists", "--lists-apart"], 4);
    covered(&scene, &["drawer", "pointed", "--trust-lists", "--lists-apart"], 4);
    // The list of a place that is given, too, is that place, and one on the card is of the card.
    shell(&scene, "cp a/dircopy-*sum of_a; cp own src/own; cp drawer src/drawer");
    covered(&scene, &["a", "of_a", "--trust-lists"], 4);
    let manifest = shell(&scene, "ls a/dircopy-*sum").trim().to_owned();
    covered(&scene, &["a", &manifest, "--trust-lists", "--lists-apart"], 4)
        .assert_prints(&["it is one place with a"]);
    covered(&scene, &["a", "src/own", "--trust-lists", "--lists-apart"], 4)
        .assert_prints(&["it is on the disk of SRC, or may be, and does not count"]);
    shell(&scene, "rm src/own src/drawer");

    // Later runs remove trash and parts of killed runs, which a list of all that is there has too.
    for gone in
        [".dircopy-trash/20260101T000000Z/x", "of/.dircopy-trash/x", "d/.a1B2c3D4e5.dircopy-part"]
    {
        shell(&scene, &format!("sed 's|  x$|  {gone}|' seven > with_gone"));
        covered(&scene, &["a", "with_gone", "--trust-lists"], 4)
            .assert_prints(&["at 1 of 2 places: x (at a; not at with_gone)"]);
    }

    // What is wrong with a list is an error, whatever the rest says; digests that are too short do not count.
    shell(
        &scene,
        "(cat seven; echo nonsense) > torn; (cat seven; echo \"$(head -c 64 seven)  ../../x\") > out",
    );
    covered(&scene, &["a", "b", "torn", "--trust-lists"], 5)
        .assert_says("1 line or list could not");
    covered(&scene, &["a", "b", "out", "--trust-lists"], 5);
    shell(&scene, ": > nothing; printf 'x 7A6C86F1\\n' > short.sfv");
    covered(&scene, &["a", "b", "nothing", "--trust-lists"], 5);
    covered(&scene, &["a", "short.sfv", "--trust-lists"], 4);
    // How old a list is, its name says.
    for (name, code) in [("20991231T000000Z", 4), ("20200101T000000Z", 4), ("20200101T000000", 4)] {
        fs::copy(scene.path("seven"), scene.path(&format!("dircopy-{name}.sha256sum"))).unwrap();
        let list = format!("dircopy-{name}.sha256sum");
        covered(&scene, &["a", &list, "--trust-lists"], 0);
        covered(&scene, &["a", &list, "--trust-lists", "--not-older", "90d"], code);
    }
    covered(&scene, &["a", "b", "--not-older", "1d"], 0);
}

#[test]
fn nothing_that_somebody_planted_counts() {
    need!(Root, Mount, Setpriv);
    let (scene, _mounts) = shelf();
    copied(&scene, &["a"]);
    // A manifest without a record, a record that was copied, and one of another user.
    shell(
        &scene,
        "mkdir b/n; (cd src; sha256sum x d/y d/e/empty) > b/dircopy-20261101T000000Z.sha256sum",
    );
    shell(&scene, "cp -a a/.dircopy b/; cp -a a/x a/d b/; printf One > b/x");
    covered(&scene, &["a", "b"], 4).assert_prints(&["at 1 of 2 places: d/y (at a;"]);
    covered(&scene, &["a", "b", "--read"], 4).assert_prints(&["at 1 of 2 places: x (at a;"]);
    fs::set_permissions(scene.path("c"), fs::Permissions::from_mode(0o777)).unwrap();
    scene.bare(["-q", "src", "c/copy"]).under_nobody().run().assert_code(0);
    covered(&scene, &["a", "c/copy"], 4)
        .assert_prints(&["at 1 of 2 places: x (at a; not at c/copy)"]);
    covered(&scene, &["a", "c/copy", "--read"], 0);
    // What nobody can read of a card is not covered, wherever it is.
    scene.bare(["-q", "src", "c/two"]).under_nobody().run().assert_code(0);
    scene.src.mode("x", 0o000);
    let asked = scene
        .bare(["covered", "src", "--count-memory", "c/copy", "--copies", "1"])
        .under_nobody()
        .run();
    asked.assert_code(1).assert_says("src/x").assert_says("1 entry of it could not be read");
    assert!(!asked.out().contains("may be erased"), "{}", asked.out());
}

/// Asks about a card with a large file, and makes this change while that is read.
fn asked_meanwhile(change: &str) -> Run {
    let (scene, _mounts) = shelf();
    shell(&scene, "truncate -s 300M src/d/large");
    for to in ["a", "b"] {
        scene.bare(["-q", "src", to]).run().assert_code(0);
    }
    let mut running = scene.bare(["covered", "src", "--count-memory", "a", "b"]).spawn();
    let large = scene.path("src/d/large");
    let is_open = |pid: u32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.filter_map(|it| fs::read_link(it.path()).ok()).any(|it| it == large)
    };
    let pid = running.id();
    running.until("the large file is read", || is_open(pid));
    running.signal(Signal::STOP);
    shell(&scene, change);
    running.signal(Signal::CONT);
    running.wait()
}

#[test]
fn a_card_that_changes_meanwhile_is_not_covered() {
    need!(Root, Mount);
    for change in ["printf more >> src/x", "printf new > src/new", "rm src/d/y", "mv src/x src/z"] {
        let run = asked_meanwhile(change);
        run.assert_code_in(&[1, 4]);
        assert!(!run.out().contains("may be erased"), "{change}: {}", run.out());
    }
}

/// Whoever may write above a card can give its name to another directory while it is read, and back.
#[test]
fn another_card_at_its_path_is_not_covered() {
    need!(Root, Mount);
    let change = "umount -l src; echo only >src/take";
    let run = asked_meanwhile(change);
    run.assert_code(1)
        .assert_says("cannot take for covered src: it was unmounted, moved or replaced meanwhile");
    assert!(!run.out().contains("may be erased"), "{}", run.out());
}

/// A place was looked at first, and the card is read for hours after it.
#[test]
fn a_place_that_changes_meanwhile_makes_nothing_covered() {
    need!(Root, Mount);
    for change in ["rm a/x", "printf One > b/x", "printf new > b/new"] {
        let run = asked_meanwhile(change);
        run.assert_code(1).assert_says("something changed at a place meanwhile");
        run.assert_says("since it was looked at");
    }
}

/// A disk that was copied as a whole looks like a second one, whatever is added to its record since.
#[test]
fn an_image_of_a_disk_is_no_second_place() {
    need!(Root, Mount, Loop);
    let (scene, _mounts) = shelf();
    let path = |name: &str| scene.path(name);
    let one = Mount::ext4(&path("a/image"), 16, &path("one"));
    copied(&scene, &["one"]);
    drop(one);
    // Now and then the system is not done with a disk when `umount` is: its loop device goes last.
    let gone = "for i in $(seq 200); do losetup -j a/image | grep -q . || break; sleep 0.05; done";
    shell(&scene, &format!("{gone}; cp a/image b/image; tune2fs -U random b/image 2>&1"));
    let mount = |image: &str, at: &str| Mount::device(&path(image), &path(at), "loop").unwrap();
    let (_one, _two) = (mount("a/image", "one"), mount("b/image", "two"));
    let x = "at 1 of 2 places: x (at one; at two, on the disk of one)";
    covered(&scene, &["one", "two"], 4).assert_prints(&[x]);
    shell(&scene, "printf more > src/more");
    copied(&scene, &["one"]);
    covered(&scene, &["one", "two"], 4).assert_prints(&[x]);
}

#[test]
fn how_far_a_file_is_proven_is_asked_of_the_device() {
    need!(Root, Mount, Loop);
    let (scene, _mounts) = shelf();
    let path = |name: &str| scene.path(name);
    let disk = |name: &str| {
        fs::create_dir(path(name)).unwrap();
        let at = &name[..1];
        Mount::ext4(&path(&format!("{at}/{name}.img")), 16, &path(name))
    };
    let _disks = ["a1", "b1"].map(disk);
    copied(&scene, &["a1", "b1"]);
    for rung in ["read-back", "replugged", "read"] {
        covered(&scene, &["a1", "b1", "--at-least", rung], 4).assert_prints(&[
            "at 0 of 2 places: x (not proven so far at a1; not proven so far at b1)",
        ]);
    }
    for rung in ["read-back", "read"] {
        let run = covered(&scene, &["a1", "b1", "--read", "--at-least", rung], 0);
        run.assert_prints(&["a1: 3 of 3 files: read; proven"]);
    }
    covered(&scene, &["a1", "b1", "--read", "--at-least", "replugged"], 4)
        .assert_prints(&["a1 cannot be read from its device, or was not away since"]);
}

/// A real disk below the image, which tmpfs is not.
#[test]
fn what_was_read_after_its_disk_was_away_is_known_file_by_file() {
    need!(Root, Mount, Loop);
    Mount::privately();
    let scene = Scene::on_disk();
    let path = |name: &str| scene.path(name);
    fs::create_dir_all(path("src")).unwrap();
    let _card = Mount::tmpfs(&path("src"), "1m");
    scene.src.file("x", "one").file("y", "two");
    let disk = Mount::ext4(&path("image"), 16, &path("disk"));
    copied(&scene, &["disk/out"]);
    let asked = ["disk/out", "--copies", "1", "--at-least", "replugged"];
    let read = [&asked[..], &["--read"]].concat();
    covered(&scene, &asked, 4);
    covered(&scene, &read, 4);
    drop(disk);
    shell(
        &scene,
        "for i in $(seq 400); do [ -z \"$(losetup -j image)\" ] && exit; sleep 0.02; done; exit 1",
    );
    let _disk = Mount::device(&path("image"), &path("disk"), "loop").unwrap();
    covered(&scene, &asked, 4).assert_prints(&["not proven so far at disk/out"]);
    covered(&scene, &read, 0).assert_prints(&["disk/out: 2 of 2 files: read after it was away"]);
    scene.bare(["verify", "disk/out"]).run().assert_code(0).assert_prints(&["replugged"]);
    covered(&scene, &asked, 0).assert_prints(&["disk/out: 2 of 2 files: replugged"]);
    covered(&scene, &["disk/out", "--copies", "1", "--at-least", "read-back"], 0);
    covered(&scene, &["disk/out", "--copies", "1", "--at-least", "read"], 4);
    scene.src.file("x", "three");
    scene.bare(["-q", "src", "disk/out", "--overwrite-policy", "update"]).run().assert_code(0);
    let run = covered(&scene, &asked, 4);
    run.assert_prints(&["at 0 of 1 place: x (not proven so far at disk/out)"]);
    assert!(!run.out().contains("place: y"), "{}", run.out());
}

/// Of generations the newest proves what all share, and what only an older one has is there too.
#[test]
fn any_generation_counts_for_one_place_and_what_they_share_is_read_once() {
    need!(Root, Mount, Strace);
    let (scene, _mounts) = shelf();
    let night = || _ = scene.bare(["-q", "src", "a", "--generations"]).run().assert_code(0);
    night();
    shell(&scene, "mv src/x kept; printf three > src/z");
    night();
    shell(&scene, "mv kept src/x");
    let asked = ["a", "--copies", "1"];
    // The link in the second night changed what the record of the first says of y; that of x it did not.
    covered(&scene, &asked, 0).assert_prints(&["a: 4 of 4 files: recorded and untouched"]);
    covered(&scene, &["a", "a/latest"], 4);
    let opened = scene.bare(["covered", "src", "--count-memory", "a", "--copies", "1", "--read"]);
    let opened = opened.under(["strace", "-f", "-e", "trace=openat", "-o", "opened"]).run();
    opened.assert_code(0);
    let trace = fs::read_to_string(scene.path("opened")).unwrap();
    // Once at the source, and once at the place.
    assert_eq!(trace.lines().filter(|line| line.contains("\"y\"")).count(), 2, "{trace}");
}

/// What lies beside the generations is not looked at, and not said to be nowhere there. The loss of a file outweighs that
/// of a generation.
#[test]
fn what_lies_beside_generations_is_in_none_of_them() {
    need!(Root, Mount);
    let (scene, _mounts) = shelf();
    let night = || _ = scene.bare(["-q", "src", "a", "--generations"]).run().assert_code(0);
    night();
    shell(&scene, "printf three > src/z; cp src/z a/z");
    let asked = ["a", "--copies", "1", "--read"];
    covered(&scene, &asked, 4).assert_prints(&["at 0 of 1 place: z (in no generation at a)"]);
    night();
    covered(&scene, &asked, 0);
    shell(&scene, "cd a && mv $(readlink latest) b");
    covered(&scene, &asked, 4).assert_says("your last run made it");
    shell(&scene, "rm src/z");
    covered(&scene, &asked, 5);
}

/// Trash, a generation that is not finished and private directories lie below the directories that people give.
#[test]
fn what_a_later_run_takes_away_counts_nowhere_below_a_place() {
    need!(Root, Mount);
    let (scene, _mounts) = shelf();
    copied(&scene, &["a/cards"]);
    shell(
        &scene,
        "rm -r src/d && printf three >src/left && mkdir -p a/gen && \
         cp -r src a/gen/2026-01-02T030405Z.part && cp src/left a/cards/.dircopy/",
    );
    let lacks = |place: &str| {
        let run = covered(&scene, &[place, "--copies", "1", "--read"], 4);
        run.assert_prints(&["at 0 of 1 place: left (not at a"]);
    };
    // Nothing is finished there, and the next run removes what the card has no more.
    lacks("a/gen");
    lacks("a");
    shell(&scene, "mkdir -p a/cards/.dircopy-trash/x && cp src/left a/cards/.dircopy-trash/x/");
    lacks("a/cards");
    lacks("a");
    for place in
        ["a/gen/2026-01-02T030405Z.part", "a/cards/.dircopy-trash", "a/cards/.dircopy-trash/x"]
    {
        let run = covered(&scene, &[place, "--copies", "1", "--read"], 2);
        run.assert_says("out of which the next run takes what it likes");
    }
    shell(&scene, "cp src/left a/");
    covered(&scene, &["a", "--copies", "1", "--read"], 0);
}

/// A run may not have waited for the disk; what is read is waited for file by file.
#[test]
fn what_was_not_waited_for_is_waited_for_before_the_answer() {
    need!(Root, Mount, Strace);
    let (scene, _mounts) = shelf();
    scene.bare(["-q", "--no-sync", "src", "a"]).run().assert_code(0);
    let asked = ["covered", "src", "--count-memory", "a", "--copies", "1"];
    let asked = |inject: &[&str]| {
        let strace = [&["strace", "-f", "-o", "calls", "-e", "trace=syncfs"], inject].concat();
        scene.bare(asked).under(strace).run()
    };
    asked(&[]).assert_code(0);
    let trace = fs::read_to_string(scene.path("calls")).unwrap();
    assert_eq!(trace.lines().filter(|line| line.contains("syncfs(")).count(), 1, "{trace}");
    let run = asked(&["-e", "inject=syncfs:error=EIO"]);
    run.assert_code(2).assert_says("cannot make durable a: Input/output error");
}

/// Where the modification time is told for a change time, nothing shows that a file was edited and its time set back.
#[test]
fn a_place_without_change_times_counts_only_where_it_is_read() {
    need!(Root, Fuse);
    for habit in [Habit::HasNoChangeTimes, Habit::HasNoChangeTimesButSeconds] {
        let scene = Scene::new();
        scene.src.file("x", "one").file("y", "two");
        let (back, at) = (scene.tree("back"), scene.path("place"));
        let _shown = Mirror::with_habits(back.root(), &at, &[habit], |_| Act::Pass);
        scene.bare(["src", "place/x"]).run().assert_code(0);
        let covered = |more: &[&str]| {
            let asked = ["covered", "src", "place/x", "--copies", "1", "--count-memory"];
            scene.bare([&asked[..], more].concat()).run()
        };
        covered(&[])
            .assert_code(4)
            .assert_prints(&["place/x has files that no record of yours proves so: add --read"]);
        covered(&["--read"]).assert_code(0);
    }
}

/// A bag and generations are refused as the output of a plain copy, and what options they take is not known.
#[test]
fn what_a_place_lacks_is_copied_as_the_place_was_made() {
    need!(Root, Mount);
    let (scene, _mounts) = shelf();
    shell(&scene, "rm src/l; mkdir state");
    scene.bare(["-q", "--bag", "src", "a/bag"]).run().assert_code(0);
    scene.bare(["-q", "--generations", "src", "b"]).run().assert_code(0);
    scene.bare(["-q", "--state", "state", "src", "c"]).run().assert_code(0);
    shell(&scene, "printf more > src/more");
    for place in ["a/bag", "b", "b/latest"] {
        let run = scene
            .bare(["covered", "src", "--count-memory", place, "--copies", "1", "--read"])
            .run();
        run.assert_code(4).assert_prints(&["lacks files: run the copy that made it again"]);
    }
    let asked = ["covered", "src", "--count-memory", "c", "--copies", "1", "--state", "state"];
    let run = scene.bare(asked).run();
    run.assert_code(4).assert_prints(&["lacks files: dircopy src c --state state"]);
    scene.bare(["src", "c", "--state", "state"]).run().assert_code(0);
    scene.bare(asked).run().assert_code(0);
}

/// What is mounted on a directory of the card hides what the card has there.
#[test]
fn a_card_with_something_mounted_on_it_is_refused() {
    need!(Mount);
    Mount::privately();
    let scene = Scene::new();
    scene.src.file("a", "a").file("sub/only-here", "b");
    scene.copy(&[]).assert_code(0);
    let mount = Mount::tmpfs(&scene.src.path("sub"), "1m");
    let run = scene.bare(["covered", "src", "--count-memory", "dst", "--copies", "1"]).run();
    run.assert_code(2).assert_says("something is mounted below it");
    mount.detach();
}

/// What the index of a span has is on the disks of the span, wherever the index lies.
#[test]
fn the_index_of_a_span_is_no_place() {
    need!(Root, Mount);
    let (scene, _mounts) = shelf();
    scene.bare(["-q", "src", "--span", "a", "b"]).run().assert_code(0);
    shell(&scene, "cp a/dircopy-*.span films; cp a/dircopy-*sum of_a");
    let on_b = shell(&scene, "ls b/dircopy-*.span").trim().to_owned();
    shell(
        &scene,
        r"(printf '\357\273\277'; cat films) >marked; iconv -t UTF-16 films >wide; (echo '# copied'; cat films) >noted; cat of_a films >both",
    );
    for index in ["films", &on_b, "marked", "wide", "noted", "both"] {
        covered(&scene, &["a", index, "--trust-lists"], 2)
            .assert_says("it is the index of a span, which says what is on other disks");
    }
    covered(&scene, &["a", "of_a", "--trust-lists"], 4);
    covered(&scene, &["a", "--copies", "1"], 0);
}

/// What is lost with the power is no copy, unless it is a trial.
#[test]
fn a_place_in_memory_counts_only_where_it_is_asked_for() {
    need!(Root, Mount);
    let (scene, _mounts) = shelf();
    copied(&scene, &["a", "b"]);
    let args = ["covered", "src", "a", "b", "--copies", "1", "--report", "report.json"];
    let run = scene.bare(args).run();
    run.assert_code(4).assert_prints(&["at 0 of 1 place: x (at a, in memory; at b, in memory)"]);
    let says = "it is in memory, and does not count: is its disk mounted?";
    run.assert_prints(&["a: 3 of 3 files", says]).assert_prints(&["b: 3 of 3 files", says]);
    assert!(!run.out().contains("dircopy src"), "{}", run.out());
    let report = fs::read_to_string(scene.path("report.json")).unwrap();
    assert!(report.contains(says) && report.contains(r#""is_in_memory": true"#), "{report}");
    covered(&scene, &["a", "b"], 0).assert_prints(&["durable: unknown (its file system is in"]);
}

/// What the directory was found not to have is not there because its list says so.
#[test]
fn a_list_adds_nothing_to_the_place_that_it_is_of() {
    need!(Root, Mount);
    let (scene, _mounts) = shelf();
    copied(&scene, &["a", "b"]);
    shell(
        &scene,
        "cp b/dircopy-*sum drawer; rm b/dircopy-*sum; cp a/dircopy-*sum list; echo '#' >>drawer",
    );
    for spoil in ["rm a/x", "printf oNe >a/x"] {
        shell(&scene, spoil);
        for args in [&["a", "list", "b"][..], &["a", "list", "b", "--read"]] {
            covered(&scene, &[args, &["--trust-lists"]].concat(), 4)
                .assert_prints(&["at 1 of 2 places: x"]);
        }
    }
}

/// A list of all of a disk, of which a part is a place; and one of that part, as programs leave it.
#[test]
fn the_list_of_a_whole_is_no_second_place_beside_its_part() {
    need!(Root, Mount);
    let (scene, _mounts) = shelf();
    shell(&scene, "mkdir drawer");
    copied(&scene, &["a/video"]);
    let asked = |list: &str, args: &[&str], code| {
        covered(&scene, &[&["a/video", list, "--trust-lists"], args].concat(), code)
    };
    let refused = |list: &str, what: &str| {
        let run = asked(list, &[], 4);
        assert!(run.out().contains("it is one place with a/video"), "{what}: {}", run.out());
        fs::remove_file(scene.path(list)).unwrap();
    };
    shell(&scene, "cd a; find video -type f ! -path '*/.dircopy/*' -exec sha256sum {} + > sums");
    shell(&scene, "cp a/sums drawer/any");
    asked("drawer/any", &["--lists-apart"], 0);
    refused("drawer/any", "a copy of one above it");
    shell(&scene, "cp a/sums drawer/any; rm a/sums");
    asked("drawer/any", &[], 0);
    shell(&scene, "mv drawer/any a/any");
    refused("a/any", "above it");
    // Also where it lies beside it, with names from above, and as Windows writes them.
    let beside = "mkdir a/lists; cd a; find video -type f ! -path '*/.dircopy/*' -exec sha256sum {} + > lists/any";
    shell(&scene, beside);
    asked("a/lists/any", &["--lists-apart"], 0);
    refused("a/lists/any", "beside it");
    let rows = ["x", "d/y", "d/e/empty"].map(|name| {
        let digest = shell(&scene, &format!("sha256sum <src/{name} | cut -c-64"));
        let len = scene.src.read(name).len();
        format!("{len},{},video/{name}\n", digest.trim()).replace('/', "\\")
    });
    let head = "%%%% HASHDEEP-1.0\n%%%% size,sha256,filename\n";
    fs::write(scene.path("a/any"), [head, &rows.concat()].concat()).unwrap();
    refused("a/any", "with backslashes");
    // One of another directory there may be of another disk.
    shell(&scene, "cp -r a/video a/other; cd a; sha256sum other/x other/d/y other/d/e/empty > any");
    asked("a/any", &[], 0);
    let names = [
        "$(basename $list)",
        "\"$(basename $list .sha256sum) (1).sha256sum\"",
        "\"Copy of $(basename $list)\"",
        "disk7_$(basename $list | tr a-z A-Z)",
    ];
    for name in names {
        let to = "list=$(ls a/video/dircopy-*.sha256sum); sed 's/$/\\r/' $list > drawer/";
        shell(&scene, &format!("{to}{name}"));
        let name = shell(&scene, "ls drawer").trim().to_owned();
        asked(&format!("drawer/{name}"), &["--lists-apart"], 0);
        refused(&format!("drawer/{name}"), "changed on its way");
    }
}

/// What is mounted below a place counts for nothing there, so it says nothing of the place.
#[test]
fn memory_that_is_mounted_below_a_place_is_not_the_place() {
    need!(Root, Mount, Loop);
    let (scene, _mounts) = shelf();
    let device = Scene::on_disk();
    let _disk = Mount::ext4(&device.path("image"), 16, &scene.path("disk"));
    copied(&scene, &["disk"]);
    fs::create_dir(scene.path("disk/below")).unwrap();
    let _below = Mount::tmpfs(&scene.path("disk/below"), "1m");
    let run = scene.bare(["covered", "src", "disk", "--copies", "1"]).run();
    run.assert_code(0).assert_prints(&["covered: every file is at 1 place"]);
}

/// What a later run removes is no copy, in lists of Windows' programs too.
#[test]
fn trash_and_what_is_not_finished_do_not_count_in_a_list() {
    let scene = Scene::new();
    scene.src.file("x", "one");
    let digest = shell(&scene, "sha256sum <src/x | cut -c-64");
    let size = "%%%% HASHDEEP-1.0\n%%%% size,sha256,filename\n3,";
    for (before, between, name, code) in [
        ("", "  ", "disk/x", 0),
        ("", "  ", ".dircopy-trash/2026-01-02T030405Z/x", 4),
        ("", "  ", "2026-01-02T030405Z.part/x", 4),
        (size, ",", "E:\\disk\\x", 0),
        (size, ",", "E:\\disk\\.dircopy-trash\\2026-01-02T030405Z\\x", 4),
        (size, ",", "E:\\disk\\.4mjqv3qecd.dircopy-part", 4),
    ] {
        let list = format!("{before}{}{between}{name}\n", digest.trim());
        fs::write(scene.path("list"), list).unwrap();
        let args = ["covered", "src", "list", "--trust-lists", "--copies", "1"];
        let run = scene.bare(args).run();
        assert_eq!(run.code, Some(code), "{name}: {}{}", run.out(), run.err());
    }
}

/// What could be looked at only once of two times was called a change.
#[test]
fn too_few_descriptors_are_the_cause_that_is_named() {
    let scene = Scene::new();
    scene.src.file("x/1", "1").file("y/z/2", "2");
    copied(&scene, &["a"]);
    let mut told = 0;
    for limit in 5..12 {
        let covered = scene.bare(["covered", "src", "a"]);
        let run = covered.after(&format!("ulimit -n {limit}")).run();
        if run.err().contains("cannot look for copies in") {
            assert!(!run.err().contains("something was changed, added"), "{}", run.err());
            told += u32::from(run.err().contains("cannot take for covered a/"));
        }
    }
    assert!(told > 0);
}
