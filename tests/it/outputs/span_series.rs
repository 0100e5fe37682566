//! Disks of a span that come one after the other into one drive: what is asked for, what is remembered of those that
//! were taken out, and a model of it. However it went, no file is lost without a word, and the newest index says where
//! each is.
//!
//! `DIRCOPY_TEST_LONG=1` makes 300 of the model where 12 have to do otherwise.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::harness::{Cmd, Mount, Random, Run, Scene, Strace, content, long, need, shell};

/// A drive at `m`, and the disks that go into it: ext4 with the labels `sA` and on.
pub(super) struct Shelf {
    /// Goes before the scene that it is in.
    pub drive: Option<Mount>,
    pub scene: Scene,
    names: Vec<char>,
}

impl Shelf {
    pub fn new(disks: usize, megabytes: usize) -> Self {
        let names = ('A'..='Z').take(disks).collect();
        let shelf = Self { scene: Scene::new(), names, drive: None };
        shelf.names.iter().for_each(|name| shelf.make(*name, megabytes));
        shelf
    }

    /// A fresh disk.
    pub fn make(&self, name: char, megabytes: usize) {
        let make = "mkfs.ext4 -q -m 0 -O ^has_journal";
        let image = format!("{name}.img");
        shell(
            &self.scene,
            &format!("rm -f {image}; truncate -s {megabytes}M {image}; {make} -L s{name} {image}"),
        );
    }

    pub fn put(&mut self, name: char) -> PathBuf {
        self.drive = None;
        let at = self.scene.path("m");
        self.drive =
            Some(Mount::device(&self.scene.path(&format!("{name}.img")), &at, "loop").unwrap());
        let _ = fs::remove_dir(at.join("lost+found"));
        at
    }

    pub fn command(&self, args: &[&str]) -> Cmd<'_> {
        let data = format!("XDG_DATA_HOME={}", self.scene.path("data").display());
        let labels = self.names.iter().map(|name| format!("LABEL=s{name}"));
        let all = ["src", "--span"].into_iter().map(String::from).chain(labels);
        self.scene.bare(all.chain(args.iter().map(|it| (*it).to_owned()))).under(["env", &data])
    }

    pub fn run(&self, args: &[&str]) -> Run {
        self.command(args).run()
    }

    /// The names on the disk that is in.
    pub fn has(&self) -> Vec<String> {
        files(&self.scene.path("m"))
            .into_keys()
            .filter(|name| !name.starts_with("dircopy-"))
            .collect()
    }

    pub fn index(&self) -> String {
        shell(&self.scene, "cat m/dircopy-*.span")
    }
}

/// The files below a directory but those that runs keep for themselves.
fn files(root: &Path) -> BTreeMap<String, PathBuf> {
    fn walk(dir: &Path, root: &Path, found: &mut BTreeMap<String, PathBuf>) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let path = entry.path();
            match path.is_dir() {
                true if entry.file_name() == ".dircopy" || entry.file_name() == "lost+found" => {}
                true => walk(&path, root, found),
                false => {
                    let name = path.strip_prefix(root).unwrap().to_string_lossy();
                    found.insert(name.into_owned(), path.clone());
                }
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(root, root, &mut found);
    found
}

#[test]
fn one_after_the_other_comes_into_one_drive() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = Shelf::new(3, 8);
    for dir in ["a", "b", "c"] {
        (0..9).for_each(|file| _ = shelf.scene.src.file(format!("{dir}/{file}"), content(600_000)));
    }
    shelf.scene.src.symlink("link", "a/0").dir("empty");
    shelf
        .run(&[])
        .assert_code(7)
        .assert_prints(&["NEXT DISK (exit 7): next disk, please: LABEL=sA"]);
    shelf.put('A');
    let run = shelf.run(&["-n"]);
    run.assert_code(0).assert_prints(&["it takes 1 of 3 disks; next disk, please: LABEL=sB"]);
    assert!(!shelf.scene.path("data").exists() && shelf.has().is_empty());
    // What is wanted, and what to type, is said also to who wants to hear nothing else.
    let run = shelf.run(&["-q"]);
    run.assert_code(7).assert_prints(&[
        "next disk, please: LABEL=sB",
        "wait for it",
        "src --span LABEL=sA",
    ]);
    let on_a = shelf.has();
    // Put in twice.
    let run = shelf.run(&[]);
    run.assert_code(7).assert_prints(&["next disk, please: LABEL=sB"]);
    assert_eq!(shelf.has(), on_a);
    shelf.put('B');
    shelf.scene.src.file("a/0", content(1000)).mtime("a/0", 2_000_000_000, 0).remove("c/7");
    let run = shelf.run(&["--overwrite-policy", "update"]);
    run.assert_code(7).assert_says("it was changed since it was copied to disk 1, ");
    let on_b = shelf.has();
    assert!(on_b.iter().all(|name| !on_a.contains(name)), "{on_a:?} {on_b:?}");
    shelf.put('C');
    let run = shelf.run(&["--overwrite-policy", "update"]);
    run.assert_code(7).assert_prints(&["next disk, please: LABEL=sA (1 file on it changed)"]);
    let on_c = shelf.has();
    assert!(on_c.iter().all(|name| !on_a.contains(name) && !on_b.contains(name)));
    // The newest index has what is on those that are not here.
    let index = shelf.index();
    for (number, names) in [(1, &on_a), (2, &on_b), (3, &on_c)] {
        let is_listed =
            |name: &&String| *name == "link" || index.contains(&format!("  {number}/{name}\n"));
        assert!(names.iter().all(|name| is_listed(&name)), "{number}: {index}");
    }
    shelf.put('A');
    shelf.run(&["--overwrite-policy", "update"]).assert_code(0);
    shell(&shelf.scene, "cmp src/a/0 m/a/0");
    shelf.put('C');
    shelf.run(&["--overwrite-policy", "update"]).assert_code(0);
    let run = shelf.scene.bare(["verify", "--span", "LABEL=sA", "LABEL=sC"]).run();
    run.assert_code(7)
        .assert_prints(&["not here: LABEL=sA"])
        .assert_says("it is not here: the index has");
}

/// What left the source before it came to a disk is named; what is on no disk yet is told of an index.
#[test]
fn what_is_gone_before_it_came_to_a_disk_is_named() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = Shelf::new(2, 8);
    (0..16).for_each(|file| _ = shelf.scene.src.file(format!("{file:02}"), content(600_000)));
    shelf.put('A');
    shelf.run(&[]).assert_code(7);
    assert!(shelf.index().contains("# on no disk yet when this was written: "));
    let run = shelf.scene.bare(["verify", "--span", "m"]).run();
    run.assert_code(0).assert_says("on no disk yet when the newest index that is here was written");
    shelf.scene.src.remove("15");
    shelf.put('B');
    let run = shelf.run(&[]);
    run.assert_code(0).assert_says("gone from the source before they came to a disk: 15");
    // The index that A has is older, and agrees; one that does not is told.
    let both = shelf.scene.path("both");
    let _a = Mount::device(&shelf.scene.path("A.img"), &both, "loop").unwrap();
    let run = shelf.scene.bare(["verify", "--span", "m", "both"]).run();
    run.assert_code(0).assert_says("its index is of an earlier run, and agrees with the newest");
    shell(&shelf.scene, "sed -i 's,  1/00,  1/0x,' both/*.span");
    let run = shelf.scene.bare(["verify", "--span", "m", "both"]).run();
    run.assert_code(5).assert_says("its index is not what the last run wrote");
}

/// Nothing is written to a disk that is not the one it is called after, nor while it is not known what another has.
#[test]
fn a_wrong_disk_is_told() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = Shelf::new(3, 8);
    (0..30).for_each(|file| _ = shelf.scene.src.file(format!("{file:02}"), content(600_000)));
    shelf.put('A');
    shelf.run(&[]).assert_code(7);
    // Another one of the same label, with a copy of something else.
    shell(&shelf.scene, "mv A.img real.img; mkdir other; echo other >other/00");
    shelf.make('A', 8);
    shelf.put('A');
    shelf.scene.bare(["other", "m"]).run().assert_code(0);
    let run = shelf.run(&[]);
    run.assert_code(2)
        .assert_says("it is not disk 1, ")
        .assert_says("though it is called as that was");
    assert_eq!(shelf.has(), ["00"]);
    // One of another span.
    let data = format!("XDG_DATA_HOME={}", shelf.scene.path("data").display());
    shelf.make('B', 8);
    shelf.put('B');
    let other = shelf.scene.bare(["other", "--span", "LABEL=sB", "LABEL=sX"]).under(["env", &data]);
    other.run().assert_code(0);
    let run = shelf.run(&[]);
    run.assert_code(2).assert_says("it is of another span than the others that are given");
    assert_eq!(shelf.has(), ["00"]);
    // Without the memory nothing says what the others have.
    shelf.make('B', 8);
    shelf.drive = None;
    shell(&shelf.scene, "mv real.img A.img");
    shelf.put('B');
    shelf.run(&[]).assert_code(7);
    shell(&shelf.scene, "mv data away");
    let run = shelf.run(&[]);
    run.assert_code(2).assert_says("nothing on this machine remembers what it has");
    assert!(!shelf.scene.path("data").exists());
    shell(&shelf.scene, "mv away data");
    // A dead one has a fresh one in its place, and a full one is passed over.
    shelf.make('A', 8);
    shelf.put('A');
    let run = shelf.run(&[]);
    run.assert_code(7).assert_says("it takes the place of disk 1, ");
    let at = shelf.put('C');
    let _ = fs::write(at.join("others"), content(8 << 20));
    let run = shelf.run(&["-q", "--state", "data"]);
    run.assert_code(2).assert_says("with --state a disk is known by its place alone");
    shelf.run(&["-q"]).assert_code_in(&[2]);
    assert_eq!(shelf.has(), ["others"]);
}

/// A disk with which a run began, and did not end, is wanted before anything goes to another one.
#[test]
fn a_disk_that_was_begun_is_wanted_first() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = Shelf::new(2, 40);
    (0..40).for_each(|file| _ = shelf.scene.src.file(format!("{file:02}"), content(1_500_000)));
    shelf.put('A');
    let mut running = shelf.command(&["--limit-rate", "20M"]).spawn();
    running.until("some are there", || files(&shelf.scene.path("m")).len() > 3);
    running.signal(rustix::process::Signal::KILL);
    running.wait();
    shelf.put('B');
    let run = shelf.run(&[]);
    run.assert_code(7).assert_prints(&["LABEL=sA (a copy to it did not come to its end)"]);
    assert!(shelf.has().is_empty());
    shelf.put('A');
    shelf.run(&[]).assert_code(7).assert_prints(&["next disk, please: LABEL=sB"]);
    // Also a fresh one that has taken its place, and is in no index yet.
    shelf.drive = None;
    shelf.make('A', 40);
    shelf.put('A');
    let mut running = shelf.command(&["--limit-rate", "20M"]).spawn();
    running.until("some are there", || files(&shelf.scene.path("m")).len() > 3);
    running.signal(rustix::process::Signal::KILL);
    running.wait();
    shelf.run(&[]).assert_code(7).assert_prints(&["next disk, please: LABEL=sB"]);
    shelf.put('B');
    shelf.run(&[]).assert_code(0);
}

/// A stop behind the last copy of a run is no end where files wait for another disk.
#[test]
fn a_stop_while_files_wait_is_told() {
    need!(Mount, Loop, Strace);
    Mount::privately();
    let mut shelf = Shelf::new(2, 8);
    (0..16).for_each(|file| _ = shelf.scene.src.file(format!("{file:02}"), content(600_000)));
    shelf.put('A');
    // What is remembered comes when everything is copied.
    let fault = Strace::inject(&shelf.scene, Strace::RENAMES, "signal=TERM");
    let fault = fault.on(shelf.scene.path("data/dircopy/spans/1/.dircopy/seen"));
    let run = fault.run(shelf.command(&[]));
    assert!(fault.log().contains("SIGTERM"), "{}", fault.log());
    run.assert_code(143).assert_prints(&["INTERRUPTED"]);
    let run = shelf.run(&[]);
    run.assert_code(7).assert_prints(&["next disk, please: LABEL=sB"]);
}

/// A disk whose private record could not be finished is in no index as one that has nothing, and is read by a check.
#[test]
fn a_disk_whose_record_is_not_finished_is_not_taken_for_empty() {
    need!(Mount, Loop, Strace);
    Mount::privately();
    let mut shelf = Shelf::new(2, 8);
    (0..16).for_each(|file| _ = shelf.scene.src.file(format!("{file:02}"), content(600_000)));
    let at = shelf.put('A');
    let mut fault = Strace::inject(&shelf.scene, Strace::WRITES, "error=ENOSPC:when=2+");
    for name in ["record", "record.0", "record.1", "record.2", "record.3"] {
        fault = fault.exactly_on(at.join(".dircopy").join(name));
    }
    let run = fault.run(shelf.command(&[]));
    fault.fired(&run);
    run.assert_code(3).assert_says("checks go by an earlier manifest, or by none");
    shelf.put('B');
    let run = shelf.run(&[]);
    run.assert_code(7).assert_prints(&["LABEL=sA (a copy to it did not come to its end)"]);
    assert!(shelf.has().is_empty());
    shelf.put('A');
    shelf.run(&[]).assert_code(7).assert_prints(&["next disk, please: LABEL=sB"]);
    shelf.put('B');
    shelf.run(&[]).assert_code(0);
    let index = shelf.index();
    assert!(index.contains("  1/00\n") && !index.contains(": 0 files"), "{index}");
}

/// The only copy of another source is not touched because its disk has a label that is wanted.
#[test]
fn a_disk_with_a_copy_of_another_source_is_not_taken_for_a_new_one() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = Shelf::new(2, 8);
    (0..16).for_each(|file| _ = shelf.scene.src.file(format!("{file:02}"), content(600_000)));
    shelf.put('A');
    shelf.run(&[]).assert_code(7);
    shell(&shelf.scene, "mkdir other; echo other >other/15");
    shelf.put('B');
    shelf.scene.bare(["other", "m"]).run().assert_code(0);
    for more in [&[][..], &["-n"], &["--overwrite-policy", "update"]] {
        let run = shelf.run(more);
        run.assert_code(2).assert_says("a run of yours copied another source there");
    }
    assert_eq!(shell(&shelf.scene, "cat m/15; ls m/*.span 2>&1 | wc -l"), "other\n1\n");
    // One of the same source is filled up.
    shelf.make('B', 8);
    shelf.put('B');
    shelf.scene.bare(["src", "m", "--include", "15"]).run().assert_code(0);
    shelf.run(&[]).assert_code(0);
}

/// What would be replaced at every run is no reason to ask for a disk that has it already.
#[test]
fn it_comes_to_an_end_where_all_is_replaced() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = Shelf::new(2, 8);
    (0..16).for_each(|file| _ = shelf.scene.src.file(format!("{file:02}"), content(600_000)));
    for (name, code) in [('A', 7), ('B', 0), ('B', 0)] {
        shelf.put(name);
        shelf.run(&["--overwrite-policy", "always"]).assert_code(code);
    }
}

/// The room that ext4 gives nobody is no room for what is planned.
#[test]
fn a_disk_is_filled_as_planned() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = Shelf::new(1, 1);
    shell(&shelf.scene, "rm A.img; truncate -s 100M A.img; mkfs.ext4 -q -L sA A.img");
    (1..160_usize).for_each(|file| {
        _ = shelf.scene.src.file(format!("{file:03}"), content(600_000 + file * 1000));
    });
    shelf.names.push('B');
    shelf.put('A');
    let run = shelf.run(&[]);
    run.assert_code(7).assert_prints(&["next disk, please: LABEL=sB"]);
    assert!(!run.err().contains("o space left"), "{}", run.err());
}

/// A shelf of the model.
struct Series {
    shelf: Shelf,
    random: Random,
    changes: u64,
    what: String,
}

/// At first so many files are written, some of them twice: 7 MB, which one disk does not hold.
const FILES: u64 = 72;

/// So large is each of the disks; more than one is filled.
const DISKS: usize = 3;
const MEGABYTES: usize = 5;

impl Series {
    fn new(salt: u64) -> Self {
        let (shelf, random) = (Shelf::new(DISKS, MEGABYTES), Random::new(salt));
        let mut series = Self { shelf, random, changes: 0, what: format!("series {salt}:") };
        (0..FILES).for_each(|_| series.write());
        series
    }

    fn write(&mut self) {
        let (dir, name) = (self.random.below(5), self.random.below(40));
        let name = ["", "a/", "a/b/", "c/", "c-d/"][dir].to_owned() + &name.to_string();
        let size = [0, 10, 5_000, 150_000, 400_000][self.random.below(5)];
        self.changes += 1;
        let mut text = self.changes.to_le_bytes().to_vec();
        text.extend(content(size + self.random.below(90)));
        self.shelf.scene.src.file(&name, text);
        self.shelf.scene.src.mtime(&name, 1_000_000_000 + self.changes, 0);
        if self.changes > FILES {
            self.what += &format!(" write {name}, {size};");
        }
    }

    const ARGS: [&str; 3] = ["--overwrite-policy", "update", "-q"];

    fn put(&mut self) -> char {
        let name = self.shelf.names[self.random.below(DISKS)];
        self.shelf.put(name);
        self.what += &format!(" put {name};");
        name
    }

    fn happen(&mut self) {
        match self.random.below(10) {
            0 | 1 => self.write(),
            2 => {
                let all: Vec<_> = files(&self.shelf.scene.path("src")).into_iter().collect();
                if let Some((name, path)) = all.get(self.random.below(all.len().max(1))) {
                    self.what += &format!(" gone {name};");
                    fs::remove_file(path).unwrap();
                }
            }
            3 => {
                self.shelf.drive = None;
                let name = self.shelf.names[self.random.below(DISKS)];
                self.shelf.make(name, MEGABYTES);
                self.what += &format!(" new {name};");
            }
            4 => {
                let name = self.put();
                let size = 400_000 * (1 + self.random.below(9));
                // It may be full before.
                let _ = fs::write(self.shelf.scene.path("m/others"), content(size));
                self.what += &format!(" fill {name};");
            }
            _ => {
                let name = self.put();
                let running = self.shelf.command(&Self::ARGS).spawn();
                std::thread::sleep(Duration::from_millis(self.random.below(200) as u64));
                let mut random = Random::new(self.random.below(1 << 30) as u64);
                let mut running = running;
                match random.below(5) {
                    _ if running.is_over() => {}
                    0 => self.shelf.drive.take().unwrap().detach(),
                    _ => running.disturb(&mut random),
                }
                let run = running.wait();
                self.shelf.drive = None;
                // What was taken away while it was in use is written to its end a moment later.
                shell(
                    &self.shelf.scene,
                    &format!("while losetup -j {name}.img | grep -q .; do sleep .01; done"),
                );
                self.what += &format!(" run {:?};", run.code);
                assert!(
                    matches!(run.code, None | Some(0..=3 | 7 | 143)),
                    "{}: {}",
                    self.what,
                    run.err()
                );
            }
        }
    }

    /// A run with this disk, after what its messages say was done.
    fn run_with(&mut self, name: char) -> Run {
        let at = self.shelf.put(name);
        let _ = fs::remove_file(at.join("others"));
        let run = self.shelf.run(&Self::ARGS);
        self.what += &format!(" then {name} {:?};", run.code);
        if matches!(run.code, Some(1..=3)) {
            self.what += &format!(" {:?};", run.err().lines().next());
        }
        assert!(matches!(run.code, Some(0..=3 | 7)), "{}\n{}", self.what, run.err());
        let errors = run.err();
        // What the messages say that is to be done: room is made, and the old version goes.
        if matches!(run.code, Some(1 | 3)) && errors.contains("No space left") {
            let mut all: Vec<_> = files(&at).into_iter().collect();
            all.retain(|(name, _)| !name.starts_with("dircopy-"));
            if let Some((name, path)) =
                all.into_iter().max_by_key(|it| it.1.metadata().unwrap().len())
            {
                self.what += &format!(" room {name};");
                fs::remove_file(path).unwrap();
            }
        }
        for line in errors.lines() {
            assert!(!line.contains("which this run did not find"), "{}\n{errors}", self.what);
            if let Some((path, _)) =
                line.split_once(": it was changed, and the disk that has it has no room")
            {
                let path = path.rsplit("cannot copy ").next().unwrap();
                fs::remove_file(path).unwrap_or_else(|error| panic!("{path}: {error}"));
            }
        }
        run
    }

    /// Every disk comes, again and again, until a whole pass says that all is done.
    fn judge(&mut self) -> usize {
        self.shelf.drive = None;
        let names = self.shelf.names.clone();
        let mut is_done = false;
        for _ in 0..8 {
            let codes: Vec<_> = names.iter().map(|name| self.run_with(*name)).collect();
            is_done = codes.iter().all(|run| run.code == Some(0));
            if is_done {
                break;
            }
        }
        assert!(is_done, "{}", self.what);
        let index = self.shelf.index();
        self.shelf.drive = None;
        let mut mounts = Vec::new();
        for name in &names {
            let at = self.shelf.scene.path(&format!("d{name}"));
            let image = self.shelf.scene.path(&format!("{name}.img"));
            mounts.push(Mount::device(&image, &at, "loop").unwrap());
        }
        let labels = index.lines().filter(|line| line.starts_with("# disk "));
        let labels: Vec<char> = labels
            .map(|line| line.split_once(", label s").unwrap().1.chars().next().unwrap())
            .collect();
        let mut listed = BTreeMap::new();
        for line in index.lines().filter(|line| !line.starts_with('#')) {
            let (number, path) = line.split_once("  ").unwrap().1.split_once('/').unwrap();
            let disk = labels[number.parse::<usize>().unwrap() - 1];
            let before = listed.insert(path.to_owned(), disk);
            assert!(before.is_none(), "{}: {path} twice", self.what);
        }
        for (name, path) in files(&self.shelf.scene.path("src")) {
            let disk = listed.get(&name).unwrap_or_else(|| panic!("{}: no {name}", self.what));
            let copy = fs::read(self.shelf.scene.path(&format!("d{disk}/{name}")));
            assert!(copy.is_ok_and(|it| it == fs::read(path).unwrap()), "{}: {name}", self.what);
        }
        let disks = ["dA", "dB", "dC"];
        let run = self.shelf.scene.bare(["verify", "--span", "-q"].iter().chain(&disks)).run();
        assert_eq!(run.code, Some(0), "{}\n{}", self.what, run.err());
        labels.len() - index.matches(": 0 files\n").count()
    }
}

#[test]
fn whatever_happens_between_disks_nothing_is_lost_without_a_word() {
    need!(Mount, Loop);
    Mount::privately();
    let (all, mut on_several) = (if long() { 300 } else { 12 }, 0);
    for salt in 0..all {
        let mut series = Series::new(salt);
        for _ in 0..3 + series.random.below(9) {
            series.happen();
        }
        on_several += u64::from(series.judge() > 1);
    }
    // The model would see nothing if one disk had room for all.
    assert!(on_several > all * 3 / 4, "{on_several} of {all}");
}
