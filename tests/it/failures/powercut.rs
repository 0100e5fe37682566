//! The power is cut, over and over, and what the disk holds then is looked at: no file under a final
//! name is wrong, and every line of every manifest is right. When the program has said 0, all is there.
//!
//! A copy is made onto a disk that remembers every write and every flush ([`Disk`]); afterwards the
//! disks are made that the power cuts could have left ([`Crash`]), mounted, and judged. Meanwhile
//! somebody else writes to the same file system and syncs his own file, as a database would, so that the
//! file system's journal moves on at moments that the copy did not choose.
//!
//! `DIRCOPY_TEST_LONG=1` cuts it 200 times where 15 have to do otherwise.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::harness::{
    Cmd, Crash, Disk, Judge, Mount, Random, Run, Scene, Strace, Tree, content, is_temp_name, long,
    names_below, need, shell, tool,
};

/// A file system on the disk.
struct FileSystem {
    /// What it is called in what is told.
    name: &'static str,
    kind: &'static str,
    /// What it is made with besides.
    made: &'static [&'static str],
    megabytes: u32,
    /// How the copy's disk is mounted: with the shortest interval between commits, where there is one.
    live: &'static str,
    /// How a disk after a power cut is.
    crashed: &'static str,
}

const EXT4: FileSystem = FileSystem {
    name: "ext4",
    kind: "ext4",
    made: &[],
    megabytes: 96,
    live: "commit=1",
    crashed: "loop",
};
/// Its journal orders names, and not what is written to files.
const EXT4_WRITEBACK: FileSystem =
    FileSystem { name: "ext4 data=writeback", live: "commit=1,data=writeback", ..EXT4 };
/// Nothing orders what is written. The disk is repaired after a power cut, as it is when a machine starts.
const EXT4_NO_JOURNAL: FileSystem = FileSystem {
    name: "ext4 without a journal",
    made: &["-O", "^has_journal"],
    live: "defaults",
    ..EXT4
};
const XFS: FileSystem = FileSystem {
    name: "xfs",
    kind: "xfs",
    made: &[],
    megabytes: 300,
    live: "defaults",
    crashed: "loop,nouuid",
};
/// With room enough that small files are not written out as soon as they are complete, which would leave
/// little for a power cut to find.
const BTRFS: FileSystem = FileSystem {
    name: "btrfs",
    kind: "btrfs",
    made: &[],
    megabytes: 6144,
    live: "commit=1",
    crashed: "loop",
};

impl FileSystem {
    fn has_journal(&self) -> bool {
        self.made.is_empty()
    }
}

/// How the copy is made, and what makes it durable.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    /// One `syncfs` for a group of files.
    Grouped,
    /// `fsync` of each file and of the directories, as where `syncfs` cannot be relied on.
    Each,
    /// Grouped, and every file replaces an older one. The older one is whole as well.
    Replacing,
    /// Nothing does. Not promised to survive, and the proof that these tests can see it.
    Unsynced,
}

/// Small files in many directories, some of several blocks, a large one; `version` bytes longer.
fn fill(src: &Tree, version: usize) {
    for dir in 0..80 {
        for file in 0..5 {
            let len = 1 + dir * 97 + file * 1009 + version;
            src.file(format!("dir-{dir:02}/small-{file}"), content(len));
        }
    }
    for file in 0..8 {
        src.file(format!("medium/{file}"), content(300_000 + file + version));
    }
    src.file("large", content((6 << 20) + version)).file("empty", "");
}

/// So few descriptors that a group is of a few directories only, and a small tree has many groups.
fn many_groups(command: Cmd<'_>) -> Cmd<'_> {
    command.under(["prlimit", "--nofile=64:64"])
}

/// What `sha256sum` says of the source, by name.
fn digests(scene: &Scene) -> BTreeMap<String, String> {
    let said = shell(scene, "cd src; find . -type f -printf '%P\\0' | xargs -0 sha256sum");
    let pair = |line: &str| Some((line.get(66..)?.to_owned(), line.get(..64)?.to_owned()));
    said.lines().filter_map(pair).collect()
}

/// What is to be found after power cuts, and what was.
struct Found {
    src: Tree,
    /// What the files were that were replaced.
    old: Tree,
    digests: BTreeMap<String, String>,
    cuts: usize,
    files: usize,
    lines: usize,
    resumed: usize,
    wrong: Vec<String>,
}

impl Found {
    fn of(scene: &Scene, old: Tree) -> Self {
        let (src, digests) = (scene.src.clone(), digests(scene));
        Self { src, old, digests, cuts: 0, files: 0, lines: 0, resumed: 0, wrong: Vec::new() }
    }

    /// Adds what an output holds after a power cut.
    fn look(&mut self, output: &Tree) {
        self.cuts += 1;
        let is_manifest = |name: &str| name.starts_with("dircopy-2") && name.contains(".sha256sum");
        // Their own sums say what holds of them.
        let is_states = |name: &str| name.starts_with("dircopy-2") && name.contains(".states");
        // Empty files that the output was tried with have other names than the source's. Without a journal they
        // may stand in any directory.
        let is_of_a_trial = |name: &str| name.contains(".dircopy-part/");
        let names = names_below(output.root(), "f")
            .into_iter()
            .filter_map(|name| String::from_utf8(name).ok());
        for name in names.filter(|name| !is_of_a_trial(name)) {
            let content = output.read(&name);
            let mut wrong = Vec::new();
            if is_manifest(&name) {
                // What follows the last line feed is no line.
                let end = content.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
                for line in String::from_utf8_lossy(&content[..end]).lines() {
                    self.lines += 1;
                    if !self.is_right(line, output) {
                        wrong.push(format!("listed and not right: {line}"));
                    }
                }
            } else if !is_temp_name(name.as_bytes()) && !is_states(&name) {
                self.files += 1;
                // Without a journal a file may have a directory's name.
                let is =
                    |tree: &Tree| tree.root().join(&name).is_file() && tree.read(&name) == content;
                if !is(&self.src) && !is(&self.old) {
                    wrong.push(format!("not whole: {} bytes", content.len()));
                }
            }
            let what =
                wrong.into_iter().map(|what| format!("power cut {}: {name}: {what}", self.cuts));
            self.wrong.extend(what);
        }
    }

    fn is_right(&self, line: &str, output: &Tree) -> bool {
        line.get(..64).zip(line.get(66..)).is_some_and(|(digest, name)| {
            self.digests.get(name).is_some_and(|is| is == digest)
                && output.has(name)
                && output.read(name) == self.src.read(name)
        })
    }
}

/// Copies onto `fs`, and cuts the power `cuts` times and once more when the program has said 0.
fn cut(fs: &FileSystem, how: How, cuts: usize) -> Found {
    Mount::privately();
    let scene = Scene::new();
    fill(&scene.src, 0);
    let (live, kept) = (scene.path("live.img"), scene.path("kept.img"));
    tool("truncate", &[&format!("--size={}M", fs.megabytes), live.to_str().unwrap()]);
    tool(&format!("mkfs.{}", fs.kind), &[&["-q"], fs.made, &[live.to_str().unwrap()]].concat());
    tool("cp", &["--sparse=always", live.to_str().unwrap(), kept.to_str().unwrap()]);

    let disk = Disk::over(&live, &scene.path("fuse"));
    let mount = Mount::device(&disk.device, &scene.path("mnt"), fs.live).unwrap();
    // The output is a directory of its own, so that there is room beside it for somebody else.
    shell(&scene, "mkdir mnt/out mnt/other; sync -f mnt");
    let out = Mount::bind(&scene.path("mnt/out"), &scene.dst);
    let old = scene.tree("old");
    if how == How::Replacing {
        shell(&scene, "cp -a src/. dst; cp -a src/. old; sync -f dst");
        fill(&scene.src, 1);
    }
    let since = disk.now();
    let busy = Busy::on(fs, &scene.path("mnt/other"));
    let run = copy(&scene, how);
    let end = disk.now();
    drop(busy);
    run.assert_code(0);
    drop((out, mount));
    let log = disk.end();

    let mut random = Random::new(fs.megabytes.into());
    let mut crash = Crash::new(kept, scene.path("crash.img"), log);
    let flushes = crash.flushes(&(since..end)).len();
    let mut found = Found::of(&scene, old);
    for moment in crash.moments(&(since..end), cuts, &mut random).into_iter().chain([end]) {
        let image = crash.at(moment, &mut random);
        if !fs.has_journal() {
            repair(image);
        }
        let at = scene.path("crash");
        let _mount = Mount::device(image, &at, fs.crashed)
            .unwrap_or_else(|why| panic!("no {} after a power cut: {why}", fs.name));
        let output = Tree::of(at.join("out"));
        found.look(&output);
        if how == How::Unsynced || moment != end && !fs.has_journal() {
            continue;
        }
        if moment == end {
            Judge::new(&scene.src, output, &run).complete();
        } else if found.cuts.is_multiple_of(4) && found.wrong.is_empty() {
            // The next run completes the copy, whatever the last one left, and goes on in the middle
            // of the large file where a journal says so.
            let args = [&UPDATE[..], &JOURNALS[..]].concat();
            let next = scene.command_to(scene.src.root(), output.root(), args).run();
            found.resumed += usize::from(next.out().contains("\nresumed "));
            Judge::new(&scene.src, output, &next).complete();
        }
    }
    eprintln!(
        "{}, {how:?}: {} power cuts over {} writes and {flushes} flushes, {} files and {} lines \
         found, large file gone on with {} times, {} violations",
        fs.name,
        found.cuts,
        end - since - flushes,
        found.files,
        found.lines,
        found.resumed,
        found.wrong.len()
    );
    found
}

/// Repairs a file system without a journal.
fn repair(image: &Path) {
    let checked = std::process::Command::new("e2fsck").arg("-fy").arg(image).output().unwrap();
    // 1: errors were corrected. 4 and more: some were left, or it could not be done.
    assert!(checked.status.code().is_some_and(|code| code < 4), "{checked:?}");
}

/// Unequal times are no obstacle.
const UPDATE: [&str; 2] = ["--overwrite-policy", "update"];

/// Many checkpoints in the large file.
const JOURNALS: [&str; 6] = ["--checkpoint", "1M", "--block-size", "64K", "--queue-size", "4"];

fn copy(scene: &Scene, how: How) -> Run {
    // Names come slowly, so that something happens on the disk between one and the next.
    let strace = Strace::inject(scene, Strace::RENAMES, "delay_exit=1000");
    let command = |args: &[&str]| many_groups(scene.command(args));
    match how {
        How::Grouped => strace.run(command(&JOURNALS)),
        How::Replacing => strace.run(command(&[&UPDATE[..], &JOURNALS[..]].concat())),
        How::Each => strace.on_an_old_kernel().run(command(&JOURNALS)),
        How::Unsynced => strace.run(command(&["--no-sync"])),
    }
}

/// Somebody else, who writes to a file and syncs it until this is dropped.
struct Busy(std::sync::Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Busy {
    fn on(fs: &FileSystem, dir: &Path) -> Self {
        let mut file = std::fs::File::create(dir.join("file")).unwrap();
        // Where a sync of one file leaves the others alone, a new label commits what is known of all of
        // them, without waiting for their content.
        let mount = dir.parent().unwrap().to_str().unwrap();
        let (labelled, mut number) = ((fs.name == BTRFS.name).then(|| mount.to_owned()), 0u32);
        let over = std::sync::Arc::new(AtomicBool::new(false));
        let stop = std::sync::Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                file.write_all(b"somebody else's").unwrap();
                file.sync_all().unwrap();
                number += 1;
                if let Some(mount) = labelled.as_ref().filter(|_| number.is_multiple_of(8)) {
                    tool("btrfs", &["filesystem", "label", mount, &number.to_string()]);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Self(over, Some(thread))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let _ = self.1.take().map(std::thread::JoinHandle::join);
    }
}

#[track_caller]
fn nothing_wrong(fs: &FileSystem, how: How) {
    need!(Fuse, Kinds, Strace);
    let Found { files, lines, mut wrong, .. } = cut(fs, how, if long() { 200 } else { 15 });
    // There the blocks of a replaced file are used again before its new name is durable. What is listed is right.
    let may_be_reused = fs.name == EXT4_WRITEBACK.name && how == How::Replacing;
    wrong.retain(|what| !(may_be_reused && what.contains("not whole")));
    assert!(wrong.is_empty(), "{} violations on {}:\n{}", wrong.len(), fs.name, wrong.join("\n"));
    assert!(files > 0 && lines > 0, "there was nothing to be found");
}

macro_rules! cuts {
    ($($name:ident: $fs:expr, $how:ident;)+) => {
        $(
            #[test]
            fn $name() {
                nothing_wrong(&$fs, How::$how);
            }
        )+
    };
}

cuts! {
    ext4_grouped: EXT4, Grouped;
    xfs_grouped: XFS, Grouped;
    btrfs_grouped: BTRFS, Grouped;
    ext4_each: EXT4, Each;
    xfs_each: XFS, Each;
    btrfs_each: BTRFS, Each;
    ext4_replacing: EXT4, Replacing;
    writeback_grouped: EXT4_WRITEBACK, Grouped;
    writeback_each: EXT4_WRITEBACK, Each;
    writeback_replacing: EXT4_WRITEBACK, Replacing;
    xfs_replacing: XFS, Replacing;
    btrfs_replacing: BTRFS, Replacing;
}

/// Without a journal nothing is promised before the program has said 0. Then all is there; what power cuts
/// leave before is counted.
#[test]
fn without_a_journal_what_is_finished_is_there() {
    need!(Fuse, Kinds, Strace);
    for how in [How::Grouped, How::Each, How::Replacing] {
        let Found { files, lines, .. } = cut(&EXT4_NO_JOURNAL, how, if long() { 200 } else { 15 });
        assert!(files > 0 && lines > 0, "there was nothing to be found");
    }
}

/// Whoever finds nothing wrong here finds nothing wrong anywhere.
#[test]
fn a_copy_without_syncs_is_found_out() {
    need!(Fuse, Kinds, Strace);
    for fs in [EXT4, XFS, BTRFS] {
        assert!(!cut(&fs, How::Unsynced, 15).wrong.is_empty(), "nothing wrong on {}", fs.name);
    }
}
