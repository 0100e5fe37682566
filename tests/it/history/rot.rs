//! Rot that no number shows: bytes that turn over on the disk, below the file system. What a run found out is said
//! before it is forgotten, by no name is it listed, and later runs know it. Judged by `sha256sum`.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::harness::{Act, Habit, Mirror, Mount, Run, Scene, Strace, content, need, shell};

/// Every file system puts a mark at a multiple of this.
const STEP: usize = 1024;

/// An output on a disk of its own, which can be changed behind the file system's back.
struct Disk {
    _mount: Mount,
    scene: Scene,
}

impl Disk {
    fn new() -> Self {
        let scene = Scene::on_disk();
        let mount = Mount::ext4(&scene.path("image"), 16, &scene.dst);
        Self { _mount: mount, scene }
    }

    /// One on which files can share their data.
    fn with_clones() -> Self {
        let scene = Scene::on_disk();
        let mount = Mount::of_kind("xfs", &scene.path("image"), &scene.dst);
        Self { _mount: mount, scene }
    }

    /// Files of the source that were made long ago, each with a mark of its own.
    fn files(&self, names: &[&str]) {
        for name in names {
            let content = format!("{}{}", mark(name), "x".repeat(5000));
            self.scene.src.file(name, content).mtime(name, 1_577_836_800, 0);
        }
    }

    /// A run before the rot, with everything that it recorded beyond doubt.
    fn copied(&self, args: &[&str]) {
        self.scene.copy(args).assert_code(0);
        shell(&self.scene, "sleep 0.05; sync -f dst");
    }

    /// Flips a bit of the file of this content on the device. No time, size or number of it changes.
    fn rot(&self, name: &str) {
        self.rot_at(name, name);
    }

    /// The same of one that is at `path`.
    fn rot_at(&self, path: &str, name: &str) {
        let before = self.stat(path);
        shell(&self.scene, "sync -f dst");
        let image = fs::read(self.scene.path("image")).unwrap();
        let mark = mark(name);
        let is_it = |chunk: &[u8]| chunk.starts_with(mark.as_bytes());
        let places = image.chunks(STEP).enumerate().filter(|(_, chunk)| is_it(chunk));
        let places: Vec<_> = places.map(|(at, _)| (at * STEP) as u64).collect();
        assert!(!places.is_empty(), "{name} is not on the disk");
        let file = fs::OpenOptions::new().write(true).open(self.scene.path("image")).unwrap();
        places.iter().for_each(|at| file.write_all_at(b"X", *at).unwrap());
        // What is in memory of it goes.
        let there = self.name_of(before);
        shell(
            &self.scene,
            &format!("dd of='{there}' oflag=nocache conv=notrunc,fdatasync count=0"),
        );
        assert_eq!(self.stat(&there["dst/".len()..]), before);
        assert!(shell(&self.scene, &format!("head -c1 '{there}'")).starts_with('X'), "{name}");
    }

    /// Inode, size and times of a file.
    fn stat(&self, name: &str) -> (u64, u64, i64, i64, i64) {
        let stat = fs::metadata(self.scene.dst.join(name)).unwrap();
        (stat.ino(), stat.size(), stat.mtime(), stat.ctime(), stat.ctime_nsec())
    }

    fn name_of(&self, (ino, ..): (u64, u64, i64, i64, i64)) -> String {
        let found = shell(&self.scene, &format!("find dst -inum {ino} | head -1"));
        found.trim().to_owned()
    }

    /// Runs; what it lists is good.
    fn run(&self, args: &[&str]) -> Run {
        let run = self.scene.copy(args);
        self.scene.judge(&run).verifies();
        run
    }
}

fn mark(name: &str) -> String {
    format!("the mark of {name}, which stands nowhere else ")
}

/// A file that left the source and stays, or is about to be moved to the trash.
#[test]
fn what_has_left_the_source_is_read_by_a_run_that_reads_back() {
    need!(Loop);
    for args in [&["--verify"][..], &["--verify", "--mirror", "--max-delete=2"]] {
        let disk = Disk::new();
        disk.files(&["gone", "good", "stays"]);
        disk.copied(&[]);
        disk.scene.src.remove("gone").remove("good");
        disk.rot("gone");
        let run = disk.run(args);
        run.assert_code(4).assert_says("dst/gone: its content is not what an earlier run recorded");
        disk.scene.judge(&run).does_not_list("gone");
        if args.len() > 1 {
            run.assert_says("it leaves the output");
            continue;
        }
        disk.scene.judge(&run).lists(&["good", "stays"]);
        // Nor does a run believe it that does not read everything.
        let run = disk.run(&[]);
        run.assert_code(4).assert_says("dst/gone: its content is not what an earlier run recorded");
        disk.scene.judge(&run).lists(&["good", "stays"]);
    }
}

/// A file that the source has another version of.
#[test]
fn what_is_left_is_read_by_a_run_that_reads_back() {
    need!(Loop);
    let disk = Disk::new();
    disk.files(&["old", "rotten", "same"]);
    disk.copied(&[]);
    for name in ["old", "rotten"] {
        disk.scene.src.file(name, "edited").mtime(name, 1_577_836_900, 0);
    }
    disk.rot("rotten");
    for more in [&["--verify"][..], &[]] {
        let run = disk.run(&[&["--overwrite-policy", "never"], more].concat());
        run.assert_code(1).assert_says("dst/rotten: its content is not what an earlier run");
        run.assert_says("left as it is: old").assert_says("left as it is: rotten");
        disk.scene.judge(&run).lists(&["old", "same"]);
    }
}

/// What a check named is not believed by the next copy, although no time of it has changed.
#[test]
fn what_a_check_finds_is_read_by_the_next_copy() {
    need!(Loop);
    for check in [&["verify", "dst"][..], &["verify", "--budget", "1h", "dst"]] {
        let disk = Disk::new();
        disk.files(&["a", "b"]);
        disk.copied(&[]);
        disk.rot("b");
        disk.scene.bare(check).run().assert_code(4);
        // A second check adds nothing.
        disk.scene.bare(check).run();
        let run = disk.scene.copy(&[]);
        run.assert_says("dst/b");
        let [copy, source] = [disk.scene.dst.join("b"), disk.scene.src.path("b")];
        assert_eq!(fs::read(copy).unwrap(), fs::read(source).unwrap(), "{}", run.err());
        disk.scene.bare(["verify", "dst"]).run().assert_code(0);
        // And then it is known again.
        let run = disk.scene.copy(&[]);
        run.assert_code(0).assert_prints(&["unchanged", "2 files"]);
        assert_eq!(shell(&disk.scene, "ls dst/.dircopy | grep -c 'record\\.' || true"), "0\n");
    }
}

/// The record may be of what is above, below or beside the checked directory.
#[test]
fn what_a_check_of_a_part_finds_is_read_by_the_next_copy() {
    need!(Loop);
    for (args, rotten, check) in [
        (&["--bag"][..], "data/d/b", "verify dst"),
        (&[], "d/b", "verify -m list --root dst/d"),
        (&["--generations"], "latest/d/b", "verify first"),
    ] {
        let disk = Disk::new();
        disk.files(&["a", "d/b"]);
        disk.copied(args);
        shell(
            &disk.scene,
            "cd dst; grep -s ' d/b' *.sha256sum | sed 's, d/, ,' >../list; sleep 1.1
             ln -s $(readlink -f latest || echo none) ../first",
        );
        disk.copied(args);
        disk.rot_at(rotten, "d/b");
        disk.scene.bare(check.split(' ')).run().assert_code(4);
        disk.scene.copy(args).assert_code(0).assert_prints(&["copied", "1 file"]);
        let [copy, source] = [disk.scene.dst.join(rotten), disk.scene.src.path("d/b")];
        assert_eq!(fs::read(copy).unwrap(), fs::read(source).unwrap(), "{args:?}");
    }
}

/// Also where a healing finds it that has nothing to heal it from; and where it cannot be noted, that is said.
#[test]
fn what_a_healing_finds_is_read_by_the_next_copy() {
    need!(Loop);
    let disk = Disk::new();
    let scene = &disk.scene;
    disk.files(&["a", "b"]);
    disk.copied(&[]);
    scene.bare(["-q", "src", "two"]).run().assert_code(0);
    disk.rot("a");
    shell(scene, "echo other > two/a");
    scene.bare(["heal", "dst", "two"]).run().assert_code(4);
    disk.run(&[]).assert_says("dst/a: its content differs");
    shell(scene, "cmp src/a dst/a");
    // By a check while nobody can write there, or another run does.
    shell(scene, "sleep 0.05; sync -f dst");
    disk.rot("b");
    shell(scene, "mount -o remount,ro dst");
    let said = "the next one does not know it: run that with --verify";
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(4).assert_says(said).assert_says("Read-only file system");
    shell(scene, "mount -o remount,rw dst");
    let check =
        scene.bare(["verify", "dst"]).in_shell("exec 7<dst/.dircopy; flock 7; \"$@\"").run();
    check.assert_code(4).assert_says(said).assert_says("another run is at work there");
    disk.run(&["--verify"]).assert_says("dst/b: its content differs");
}

/// Also where it is found while parity is made; by a scrub, too, that had found it good.
#[test]
fn what_protecting_finds_is_read_by_the_next_run() {
    need!(Loop);
    for is_copy in [true, false] {
        let disk = Disk::new();
        let scene = &disk.scene;
        disk.files(&["a", "b"]);
        disk.copied(&[]);
        let scrub = || scene.bare(["verify", "--not-since", "1d", "dst"]).run();
        scrub().assert_code(0);
        disk.rot("b");
        if is_copy {
            scene.copy(&["--parity", "5%"]).assert_code(4).assert_prints(&[
                "NOT COMPLETE (exit 4): everything seemed to be at the output, but what is named above is not as it is",
            ]);
        } else {
            scene.bare(["protect", "dst"]).run().assert_code(4);
            scrub().assert_code(4).assert_says("dst/b");
        }
        disk.run(&[]).assert_code(0).assert_says("dst/b: its content differs");
        shell(scene, "cmp src/b dst/b");
        scrub().assert_code(0);
    }
}

/// Its old name is read when it is carried over or leaves; by then the new one is listed.
#[test]
fn what_has_rotted_gets_no_further_name() {
    need!(Loop);
    for args in [&["--renamed=link"][..], &["--mirror", "--max-delete=2"]] {
        let disk = Disk::new();
        disk.files(&["old", "moved", "stays"]);
        disk.copied(&[]);
        shell(&disk.scene, "cd src; mv old new; mv moved there");
        disk.rot("old");
        let run = disk.run(args);
        run.assert_code(4).assert_says("dst/old: its content is not what an earlier run recorded");
        disk.scene.judge(&run).has("new").has("there").does_not_list("old");
        let [new, there] = ["new", "there"].map(|name| disk.scene.output().stat(name).st_nlink);
        // The other one has two: that of the old name stays, or is in the trash.
        assert_eq!((new, there), (1, 2));
        shell(&disk.scene, "cmp src/new dst/new; cmp src/there dst/there");
        // And so it stays.
        let run = disk.run(&args[..1]);
        run.assert_code(if args.len() > 1 { 0 } else { 4 });
        disk.scene.judge(&run).has("new").has("there").does_not_list("old");
    }
}

/// Nor a clone.
#[test]
fn what_has_rotted_is_not_cloned() {
    need!(Kinds);
    let disk = Disk::with_clones();
    disk.files(&["old", "moved", "stays"]);
    disk.copied(&[]);
    shell(&disk.scene, "cd src; mv old new; mv moved there");
    disk.rot("old");
    let run = disk.run(&[]);
    run.assert_says("dst/old: its content is not what an earlier run recorded");
    run.assert_prints(&["renamed", "1 file"]);
    disk.scene.judge(&run).has("new").has("there").does_not_list("old");
    shell(&disk.scene, "cmp src/new dst/new; cmp src/there dst/there");
}

/// A good copy does not give way to a link to one that has rotted, or is an older one.
#[test]
fn a_file_of_its_own_becomes_a_link_only_to_its_content() {
    for args in [&["--hard-links"][..], &["--hard-links", "--overwrite-policy=update"]] {
        let scene = Scene::new();
        for (name, content) in [("a", "AAA"), ("b", "BBB"), ("c", "same"), ("d", "same")] {
            scene.src.file(name, content).mtime(name, 1_577_836_800, 0);
        }
        scene.copy(args).assert_code(0);
        shell(&scene, "cd src; ln -f b a; ln -f c d");
        let links = || ["a", "b", "c", "d"].map(|name| scene.output().stat(name).st_nlink);
        let run = scene.copy(args);
        scene.judge(&run).complete();
        assert_eq!(shell(&scene, "cat dst/a dst/b"), "BBBBBB");
        assert_eq!(links(), [2, 2, 2, 2]);
    }
}

/// The first name is copied anew, and the further ones are names of that.
#[test]
fn what_has_rotted_under_several_names_is_mended_under_all() {
    for args in [&["--hard-links"][..], &["--hard-links", "--hash=blake3"]] {
        let scene = Scene::new();
        scene.src.file("a", "content").hard_link("d/y", "a").hard_link("z", "a").file("b", "b");
        scene.copy(args).assert_code(0);
        shell(&scene, "sleep 0.05; touch -r dst/a stamp; printf X | dd of=dst/a conv=notrunc");
        shell(&scene, "touch -r stamp dst/a");
        // Nothing gives way where nothing is to be replaced.
        scene.copy(&[args, &["--overwrite-policy=never"]].concat()).assert_code(1);
        assert_eq!(shell(&scene, "cat dst/a dst/d/y dst/z"), "Xontent".repeat(3));
        let run = scene.copy(args);
        for name in ["dst/a", "dst/d/y", "dst/z"] {
            run.assert_code(0).assert_says(&format!("{name}: its content "));
        }
        if args.len() == 1 {
            scene.judge(&run).complete();
        }
        assert_eq!(shell(&scene, "cat dst/a dst/d/y dst/z"), "content".repeat(3));
        assert_eq!(scene.output().stat("z").st_nlink, 3);
        assert_eq!(scene.copy(args).assert_code(0).err(), "");
    }
}

/// Of two names of one file at the source, of which the first has rotted unseen, neither gives way.
#[test]
fn a_name_is_not_replaced_by_one_that_is_not_as_listed() {
    need!(Loop);
    let disk = Disk::new();
    disk.files(&["a", "d/z"]);
    shell(&disk.scene, "cp -p src/a src/d/z");
    disk.copied(&[]);
    shell(&disk.scene, "ln -f src/a src/d/z");
    disk.copied(&[]);
    disk.rot("a");
    let run = disk.scene.copy(&["--hard-links"]);
    run.assert_code(1).assert_says("one of them is not what the source has");
    shell(&disk.scene, "cmp src/d/z dst/d/z");
    disk.run(&["--hard-links", "--overwrite-policy=always"]).assert_code(0);
    shell(&disk.scene, "cmp src/a dst/a; cmp src/d/z dst/d/z");
}

/// What is on the screen is known, whatever ends the run.
#[test]
fn a_run_that_is_killed_after_it_named_rot_leaves_that_on_record() {
    need!(Loop, Strace);
    for args in [&["--verify"][..], &["--verify", "--hard-links"], &["--verify", "--workers=1"]] {
        let disk = Disk::new();
        disk.files(&["bad", "good"]);
        disk.scene.src.hard_link("other name", "bad");
        disk.copied(&["--hard-links"]);
        disk.rot("bad");
        kill_once_it_says(&disk.scene, args, "dst/bad: its content differs");
        assert!(shell(&disk.scene, "head -c1 dst/bad").starts_with('X'), "it was replaced");
        // Under neither name, also where one alone was read, and the run comes upon the other one first.
        if args.contains(&"--hard-links") {
            let run = disk.run(&["--exclude=/bad"]);
            run.assert_code(4).assert_says("dst/other name: its content differs although size");
            disk.scene.judge(&run).lists(&["good", "other name"]);
            continue;
        }
        let run = disk.run(&[]);
        run.assert_code(0).assert_says("dst/bad: its content differs although size and time");
        run.assert_says("dst/other name: its content differs although size and time");
        disk.scene.judge(&run).complete();
        assert_eq!(disk.run(&[]).assert_code(0).err(), "");
        assert_eq!(shell(&disk.scene, "ls dst/.dircopy/record.* 2>/dev/null || true"), "");
    }
}

/// Kills runs at one sync of the file system after the other, until one had said this.
fn kill_once_it_says(scene: &Scene, args: &[&str], text: &str) {
    for when in 1.. {
        let kill = format!("signal=KILL:when={when}");
        let run = Strace::inject(scene, "syncfs", &kill).run(scene.command(args));
        assert!(run.code.is_none(), "nothing was killed: {}", run.err());
        if run.err().contains(text) {
            return;
        }
    }
}

/// What exfat-fuse has: a change time that is the modification time, and no file of which others cannot write.
const EXFAT: [Habit; 5] = [
    Habit::HasNoLinks,
    Habit::FoldsCase,
    Habit::RefusesSigns,
    Habit::HasNoPermissions,
    Habit::HasNoChangeTimes,
];

/// What a server has that tells no change times.
const SERVER: [Habit; 2] = [Habit::HasNoPermissions, Habit::HasNoChangeTimes];

/// Runs with their records elsewhere and runs without any, in turns, on file systems where change times prove nothing.
#[test]
fn what_one_run_dropped_no_other_lists_where_there_are_no_change_times() {
    need!(Fuse);
    for habits in [&EXFAT[..], &SERVER] {
        for first in [0, 1] {
            let scene = Scene::new();
            scene.src.file("gone", "gone").file("left", "left").file("good", "good");
            shell(&scene, "touch -d 2020-01-01 src/*; mkdir st");
            let truth = scene.tree("truth");
            let _mirror =
                Mirror::with_habits(truth.root(), &scene.path("disk"), habits, |_| Act::Pass);
            let ways = [&[][..], &["--state", "st"]];
            let run = |way: usize, more: &[&str]| {
                let args = [&["-i", "src", "-o", "disk/out"], ways[way % 2], more].concat();
                let run = scene.bare(args).run();
                let newest = "cd truth/out; cat $(ls *.sha256sum | sort | tail -1) > ../../list";
                shell(&scene, &format!("{newest}; sha256sum -c --quiet --strict ../../list"));
                (run, shell(&scene, "cut -c 67- list | sort | tr '\n' ' '"))
            };
            for way in [0, 1, 0, 1] {
                run(way, &[]).0.assert_code(0);
            }
            scene.src.remove("gone");
            for name in ["gone", "left"] {
                shell(
                    &scene,
                    &format!(
                        "cd truth/out; printf X | dd of={name} conv=notrunc; touch -d 2020-01-01 {name}"
                    ),
                );
            }
            // Only a reading shows it on a server, which is asked for first.
            let verify: &[&str] = &["--verify", "--overwrite-policy=never"];
            for (number, more) in
                [verify, &verify[1..], &verify[1..], &verify[1..]].iter().enumerate()
            {
                let (run, listed) = run(first + number, more);
                run.assert_code(1).assert_says("left as it is: left: its content differs");
                run.assert_says("disk/out/gone: its content is not what an earlier run recorded");
                assert_eq!(listed, "good ", "{habits:?} {number}");
            }
            let (run, listed) = run(first + 4, &[]);
            run.assert_code(4).assert_says("disk/out/left: its content differs");
            assert_eq!(listed, "good left ", "{habits:?}");
        }
    }
}

/// A disk without change times is read by each run, whatever it calls itself.
#[test]
fn a_disk_without_change_times_proves_nothing() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("a", "one").file("b", "two");
    shell(&scene, "touch -d 2020-01-01 src/*; mkdir st");
    let truth = scene.tree("truth");
    let _mirror = Mirror::with_habits(truth.root(), &scene.path("disk"), &EXFAT, |_| Act::Pass);
    let args = ["-i", "src", "-o", "disk/out", "--state", "st"];
    for _ in 0..2 {
        scene.bare(args).run().assert_code(0);
    }
    shell(&scene, "cd truth/out; printf X | dd of=a conv=notrunc; touch -d 2020-01-01 a");
    scene.bare(args).run().assert_code(0).assert_says("disk/out/a: its content differs");
    shell(&scene, "cmp src/a truth/out/a");
}

/// Of an archive and a day's news, `--verify=new` reads the news from the disk.
#[test]
fn what_is_new_is_read_back_and_what_is_there_is_not() {
    let scene = Scene::on_disk();
    scene.src.file("old", content(100_000)).file("more", content(50_000));
    scene.copy(&[]).assert_code(0);
    // The job's words mean the same.
    let job = "input = \"src\"\noutput = \"dst\"\nverify = \"new\"\n";
    std::fs::write(scene.path("news.toml"), job).unwrap();
    for (number, args) in
        [&["src", "dst", "--verify=new"][..], &["--job", "./news.toml"]].iter().enumerate()
    {
        scene.src.file(format!("news {number}"), content(7000));
        let run = scene.bare(args.iter()).run();
        run.assert_code(0).assert_prints(&["read back", "1 file, 6.84 KiB"]);
        run.assert_prints(&["unchanged"]);
        let out = run.out();
        let last = out.lines().last().unwrap();
        assert!(last.starts_with("done: ") && !last.contains("read back"), "{last}");
    }
    // What is listed is not only what was read.
    let job = job.replace("\"new\"", "true");
    std::fs::write(scene.path("all.toml"), job).unwrap();
    let run = scene.bare(["--job", "./all.toml"]).run();
    run.assert_code(0).assert_prints(&["read back", "4 files"]);
    // What follows the option is a path, as ever.
    scene
        .bare(["--verify", "src", "dst"])
        .run()
        .assert_code(0)
        .assert_prints(&["read back", "4 files"]);
    scene.bare(["--verify=some", "src", "dst"]).run().assert_code(2);
}

/// A tree that is brought back over what is left of an output is proven there, too: its record knows nothing of rot.
#[test]
fn what_is_brought_back_is_read_where_it_is_there() {
    need!(Loop);
    let disk = Disk::new();
    disk.files(&["good", "rotten"]);
    disk.copied(&[]);
    let scene = &disk.scene;
    scene.bare(["-q", "src", "second"]).run().assert_code(0);
    disk.rot("rotten");
    scene.copy(&[]).assert_code(0);
    assert_ne!(shell(scene, "cmp src/rotten dst/rotten || echo differs"), "");
    let run = scene.bare(["restore", "second", "dst"]).run();
    run.assert_code(0).assert_says("dst/rotten: its content differs");
    shell(scene, "cmp src/rotten dst/rotten && cmp src/good dst/good");
}
