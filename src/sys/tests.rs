//! The contract: every system's half of this room behaves alike, tried on real directories.

use std::ffi::{OsStr, OsString};
use std::{fs, fs::File, io::ErrorKind, io::Read, io::Seek, io::SeekFrom, io::Write};

use crate::path::RelPath;
use crate::sys::{self, Attributes, Dir, DirReader, Lock, Medium, stat::Kind, stat::Time};

fn scene() -> (tempfile::TempDir, Dir) {
    let scene = tempfile::tempdir().unwrap();
    let dir = Dir::open(scene.path()).unwrap();
    (scene, dir)
}

fn os(name: &str) -> &OsStr {
    name.as_ref()
}

/// A part file with this content, closed.
fn part(dir: &Dir, content: &[u8]) -> OsString {
    let (mut file, name) = dir.create_part(sys::PartOwner::default()).unwrap();
    file.write_all(content).unwrap();
    sys::persist_file(&file).unwrap();
    sys::close_file(file).unwrap();
    name
}

fn list(dir: &Dir) -> Vec<(OsString, Option<Kind>)> {
    let (mut listing, mut all) = (DirReader::default(), Vec::new());
    loop {
        let batch = listing.next_batch(dir).unwrap();
        if batch.is_empty() {
            break;
        }
        all.extend(batch.into_iter().map(|listed| (listed.name.to_os_string(), listed.kind)));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

#[test]
fn a_part_gets_its_name_once() {
    let (scene, dir) = scene();
    let first = part(&dir, b"first");
    assert!(sys::is_part_name(&first));
    dir.publish(&first, os("name"), false).unwrap();
    assert!(!scene.path().join(&first).exists());
    let second = part(&dir, b"second");
    let error = dir.publish(&second, os("name"), false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert_eq!(fs::read(scene.path().join("name")).unwrap(), b"first");
    dir.publish(&second, os("name"), true).unwrap();
    assert_eq!(fs::read(scene.path().join("name")).unwrap(), b"second");
    dir.persist().unwrap();
    // Through a handle of its own: btrfs lists what was there when the handle was opened.
    assert_eq!(list(&Dir::open(scene.path()).unwrap()).len(), 1);
}

#[test]
fn what_is_read_only_gives_way_and_goes_away() {
    let (scene, dir) = scene();
    for name in ["replaced", "removed"] {
        let path = scene.path().join(name);
        fs::write(&path, "old").unwrap();
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&path, permissions).unwrap();
    }
    dir.publish(&part(&dir, b"new"), os("replaced"), true).unwrap();
    assert_eq!(fs::read(scene.path().join("replaced")).unwrap(), b"new");
    dir.remove(os("removed")).unwrap();
    assert!(!scene.path().join("removed").exists());
    assert_eq!(dir.remove(os("removed")).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_file_that_is_being_written_can_be_published() {
    let (scene, dir) = scene();
    let mut file = dir.create_new(os("list.part"), false).unwrap();
    file.write_all(b"a line\n").unwrap();
    dir.publish(os("list.part"), os("list"), false).unwrap();
    file.write_all(b"one more\n").unwrap();
    sys::close_file(file).unwrap();
    assert_eq!(fs::read(scene.path().join("list")).unwrap(), b"a line\none more\n");
    let again = dir.create_new(os("list"), false).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
}

#[test]
fn a_directory_is_not_removed_and_not_replaced() {
    let (scene, dir) = scene();
    dir.make_dir(os("sub"), true).unwrap();
    assert_eq!(dir.make_dir(os("sub"), true).unwrap_err().kind(), ErrorKind::AlreadyExists);
    dir.remove(os("sub")).unwrap_err();
    dir.publish(&part(&dir, b"x"), os("sub"), true).unwrap_err();
    assert!(scene.path().join("sub").is_dir());
    let read = dir.open_file(os("sub"), false).and_then(|mut file| file.read(&mut [0]));
    assert!(read.is_err());
}

#[test]
fn everything_is_listed_once_with_its_kind() {
    let (scene, dir) = scene();
    assert!(list(&dir).is_empty());
    let mut expected = vec![(OsString::from("sub"), Some(Kind::Dir))];
    fs::create_dir(scene.path().join("sub")).unwrap();
    // More than one batch of them.
    for i in 0..1500 {
        let name = format!("{i:04} a long name so that a buffer is soon full \u{e9}\u{65e5}");
        File::create(scene.path().join(&name)).unwrap();
        expected.push((name.into(), Some(Kind::File)));
    }
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    let again = dir.open_dir(os("."), false).unwrap();
    assert_eq!(list(&again), expected);
    assert_eq!(list(&again), [], "the position is the handle's");
    let again = dir.open_dir(os("."), false).unwrap();
    let mut batch = DirReader::default().next_batch(&again).unwrap();
    assert!(batch.len() < expected.len(), "a batch is bounded");
    let first = batch.pop().unwrap();
    assert_eq!(dir.stat(&first.name, false).unwrap().kind, first.kind.unwrap());
}

#[test]
fn only_one_component_is_ever_named() {
    let (scene, dir) = scene();
    fs::create_dir_all(scene.path().join("a/b")).unwrap();
    fs::write(scene.path().join("a/b/file"), "deep").unwrap();
    let below = dir.open_below(&RelPath::parse(b"a/b").unwrap()).unwrap();
    assert_eq!(below.stat(os("file"), false).unwrap().size, 4);
    assert_eq!(
        dir.open_below(&RelPath::root()).unwrap().identity().unwrap(),
        dir.identity().unwrap()
    );
    let error = dir.open_dir(os("nowhere"), false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(dir.open_dir(os("a"), false).unwrap().open_dir(os("b"), false).is_ok());
    let file = Dir::open(&scene.path().join("a/b/file")).unwrap_err();
    assert_eq!(file.kind(), ErrorKind::NotADirectory, "{file}");
    let nothing = Dir::open(&scene.path().join("nowhere")).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::NotFound, "{nothing}");
}

#[test]
fn the_way_up_leads_to_the_top() {
    let (scene, dir) = scene();
    fs::create_dir_all(scene.path().join("a/b")).unwrap();
    let below = Dir::open(&scene.path().join("a/b")).unwrap();
    let up = below.parent().unwrap().parent().unwrap();
    assert_eq!(up.identity().unwrap(), dir.identity().unwrap());
    let (mut here, mut steps) = (up, 0);
    loop {
        let above = here.parent().unwrap();
        if above.identity().unwrap() == here.identity().unwrap() {
            break;
        }
        (here, steps) = (above, steps + 1);
        assert!(steps < 100);
    }
    assert!(steps > 0);
}

#[test]
fn what_is_known_of_a_file_is_true() {
    let (scene, dir) = scene();
    fs::write(scene.path().join("file"), vec![7; 10_000]).unwrap();
    dir.hard_link(&dir, os("file"), os("other")).unwrap();
    fs::write(scene.path().join("third"), "").unwrap();
    let stat = dir.stat(os("file"), false).unwrap();
    assert_eq!((stat.kind, stat.size, stat.links), (Kind::File, 10_000, 2));
    assert!(!stat.is_sparse(), "{stat:?}");
    let file = dir.open_file(os("other"), false).unwrap();
    let open = Dir::stat_file(&file).unwrap();
    assert_eq!(open.id, stat.id);
    assert_eq!(stat.change(&open), None);
    assert_ne!(dir.stat(os("third"), false).unwrap().id, stat.id);
    assert_ne!(dir.identity().unwrap(), stat.id);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    for time in [stat.mtime, stat.ctime] {
        assert!(time.secs.abs_diff(now.as_secs() as i64) < 600, "{time:?}");
    }
    let room = sys::room(&dir).unwrap();
    assert!(room.bytes > 0 && room.block > 0);
}

#[test]
fn attributes_and_times_go_over() {
    let (scene, dir) = scene();
    for name in ["from", "to"] {
        fs::create_dir(scene.path().join(name)).unwrap();
    }
    let source = File::create(scene.path().join("source")).unwrap();
    let mtime = Time { secs: 981_173_106, nanos: 789_000_100 };
    let mut stat = Dir::stat_file(&source).unwrap();
    stat.mtime = mtime;
    let attributes = Attributes::read(&source).unwrap();
    let (copy, name) = dir.create_part(sys::PartOwner::default()).unwrap();
    attributes.apply_to_new(&copy, &stat, stat.gid, None, |deed, error| panic!("{deed}: {error}"));
    sys::persist_file(&copy).unwrap();
    sys::close_file(copy).unwrap();
    let there = dir.stat(&name, false).unwrap();
    assert_eq!((there.mtime, there.mode), (mtime, stat.mode));
    // A directory too, through a handle that is for listing.
    let (from, to) = (dir.open_dir(os("from"), false), dir.open_dir(os("to"), false));
    let (from, to) = (from.unwrap(), to.unwrap());
    let mut stat = from.stat_self().unwrap();
    stat.mtime = mtime;
    let attributes = Attributes::read(&from).unwrap();
    attributes.apply(&to, &stat, false, |deed, error| panic!("{deed}: {error}"));
    let there = to.stat_self().unwrap();
    assert_eq!(there.mtime, mtime);
    // Wine tells as the time of making what Linux has, and cannot set it.
    let under_wine = cfg!(windows) && std::env::var_os("WINEPREFIX").is_some();
    assert!(under_wine || attributes.are_at(&there, &to, &stat));
    stat.mtime.secs += 1;
    assert!(!attributes.are_at(&there, &to, &stat));
}

#[test]
fn a_directory_is_locked_once() {
    let (scene, dir) = scene();
    fs::create_dir(scene.path().join("sub")).unwrap();
    assert_eq!(dir.lock().unwrap(), Lock::Held);
    let again = Dir::open(scene.path()).unwrap();
    assert_eq!(again.lock().unwrap(), Lock::Taken);
    let other = dir.open_dir(os("sub"), false).unwrap();
    assert_eq!(other.lock().unwrap(), Lock::Held);
    drop(dir);
    assert_eq!(again.lock().unwrap(), Lock::Held);
}

#[test]
fn case_is_found_out_by_a_trial_that_leaves_nothing() {
    let (scene, dir) = scene();
    File::create(scene.path().join("lower")).unwrap();
    let same = scene.path().join("LOWER").exists();
    assert_eq!(dir.traits(sys::PartOwner::default()).names.folds_case, same);
    assert_eq!(list(&Dir::open(scene.path()).unwrap()).len(), 1);
}

#[test]
fn holes_read_as_zeros_and_the_map_is_right() {
    let (scene, dir) = scene();
    let (mut file, name) = dir.create_part(sys::PartOwner::default()).unwrap();
    let size = 5 << 20;
    sys::allow_holes(&file);
    file.seek(SeekFrom::Start(3 << 20)).unwrap();
    file.write_all(&[7; 100_000]).unwrap();
    file.set_len(size).unwrap();
    drop(file);
    let file = dir.open_file(&name, false).unwrap();
    let content = fs::read(scene.path().join(&name)).unwrap();
    assert_eq!(content.len() as u64, size);
    let (mut at, mut data) = (0, 0);
    while at < size {
        let Some(extent) = sys::next_extent(&file, at, size).unwrap() else { break };
        assert!(extent.start >= at && extent.end >= extent.start && extent.end <= size);
        let hole = &content[at as usize..extent.start as usize];
        assert!(hole.iter().all(|&byte| byte == 0), "data in a hole");
        data += extent.end - extent.start;
        at = extent.end.max(extent.start);
    }
    assert!(at == 0 || data >= 100_000);
}

#[test]
fn a_check_reads_every_byte() {
    let (scene, dir) = scene();
    for len in [0, 1, 4095, 4096, 4097, 100_001] {
        let content: Vec<u8> = (0..len).map(|i: u32| (i % 251) as u8).collect();
        fs::write(scene.path().join("file"), &content).unwrap();
        let file = dir.open_file(os("file"), false).unwrap();
        let stat = Dir::stat_file(&file).unwrap();
        let mut medium = Medium::of(&file, &stat).unwrap();
        let mut buffer = vec![0u8; 5 * sys::ALIGNMENT];
        let skip = buffer.as_ptr().align_offset(sys::ALIGNMENT);
        let mut all = Vec::new();
        loop {
            let got = medium.read(&mut buffer[skip..skip + 4 * sys::ALIGNMENT]).unwrap();
            if got == 0 {
                break;
            }
            all.extend_from_slice(&buffer[skip..skip + got]);
        }
        medium.finish();
        assert!(all == content, "{len}");
    }
}

#[test]
fn what_is_being_written_can_be_read() {
    let (_scene, dir) = scene();
    let mut file = dir.create_new(os("list"), true).unwrap();
    file.write_all(b"so far").unwrap();
    let mut content = String::new();
    dir.open_written(os("list")).unwrap().read_to_string(&mut content).unwrap();
    assert_eq!(content, "so far");
    file.write_all(b", and more").unwrap();
    assert_eq!(Dir::stat_file(&file).unwrap().size, 16);
    drop(file);
    assert!(dir.open_written(os("none")).is_err());
}

#[test]
fn what_is_read_for_long_can_be_written_to() {
    let (scene, dir) = scene();
    fs::write(scene.path().join("record"), "one").unwrap();
    let (mut read, _) = dir.open_private_to_read(os("record")).unwrap().unwrap();
    let (mut file, _) = dir.open_private(os("record")).unwrap().unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(b" and two").unwrap();
    let mut content = String::new();
    read.read_to_string(&mut content).unwrap();
    assert_eq!(content, "one and two");
    assert!(dir.open_private_to_read(os("none")).unwrap().is_none());
}

#[test]
fn names_come_back_from_their_bytes() {
    for name in ["plain", "caf\u{e9} \u{65e5}\u{672c}\u{8a9e}", "\u{1f600}", "a b.c"] {
        assert_eq!(sys::name_from_bytes(name.as_bytes()).unwrap(), os(name));
        assert_eq!(sys::unusable(os(name)), None);
    }
}

/// Longer than any path may be on Windows without precautions.
#[test]
fn depth_is_no_obstacle() {
    let (_scene, dir) = scene();
    let mut here = dir.try_clone().unwrap();
    let mut path = RelPath::root();
    let name = "a directory with a long name, one of several";
    for _ in 0..30 {
        here.make_dir(os(name), false).unwrap();
        here = here.open_dir(os(name), false).unwrap();
        path = path.join(os(name));
    }
    let part = part(&here, b"deep");
    here.publish(&part, os("file"), false).unwrap();
    let found = dir.open_below(&path).unwrap();
    assert_eq!(found.stat(os("file"), false).unwrap().size, 4);
    assert_ne!(found.parent().unwrap().identity().unwrap(), found.identity().unwrap());
}

#[test]
fn only_a_file_of_ours_with_one_name_is_taken_up() {
    let (scene, dir) = scene();
    fs::create_dir(scene.path().join("dir")).unwrap();
    for other in ["missing", "dir"] {
        assert!(dir.open_ours(os(other)).unwrap().is_none(), "{other}");
    }
    let name = part(&dir, b"begun and more");
    let (mut file, stat) = dir.open_ours(&name).unwrap().unwrap();
    assert_eq!((stat.size, stat.links), (14, 1));
    file.set_len(5).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(b" again").unwrap();
    sys::persist_content(&file).unwrap();
    file.rewind().unwrap();
    let mut content = String::new();
    file.read_to_string(&mut content).unwrap();
    assert_eq!(content, "begun again");
    drop(file);
    dir.hard_link(&dir, &name, os("other")).unwrap();
    assert!(dir.open_ours(&name).unwrap().is_none(), "it has two names");
    dir.remove(os("other")).unwrap();
    assert!(dir.open_ours(&name).unwrap().is_some());
}
