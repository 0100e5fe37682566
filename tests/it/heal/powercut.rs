//! The power is cut while a tree is healed: each file is what it was, or right, and the next run makes the rest whole.
//!
//! `DIRCOPY_TEST_LONG=1` cuts it 200 times where 8 have to do otherwise.

use std::collections::BTreeMap;

use crate::harness::{
    Crash, Disk, Mount, Random, Scene, Strace, Tree, content, long, need, shell, tool,
};

use super::{MIB, copies, heal, is_whole, rot};

/// A file system on the disk: its kind, its size in MiB, and how it is mounted before and after.
struct FileSystem(&'static str, u32, &'static str, &'static str);

const DIRS: usize = 12;

fn names() -> Vec<String> {
    let small = (0..DIRS).map(|dir| format!("dir-{dir:02}/small"));
    small.chain(["large".into(), "deep/er/large".into()]).collect()
}

fn contents(tree: &Tree) -> BTreeMap<String, Option<Vec<u8>>> {
    names().into_iter().map(|name| (name.clone(), std::fs::read(tree.path(&name)).ok())).collect()
}

fn cut(fs: &FileSystem) {
    need!(Fuse, Kinds, Strace);
    let FileSystem(kind, megabytes, before, after) = fs;
    Mount::privately();
    let scene = Scene::new();
    for dir in 0..DIRS {
        scene.src.file(format!("dir-{dir:02}/small"), content(1000 + dir * 5000));
    }
    scene.src.file("large", content(3 * MIB + 7)).file("deep/er/large", content(2 * MIB + 1));
    let (live, kept) = (scene.path("live.img"), scene.path("kept.img"));
    tool("truncate", &[&format!("--size={megabytes}M"), live.to_str().unwrap()]);
    tool(&format!("mkfs.{kind}"), &["-q", live.to_str().unwrap()]);
    tool("cp", &["--sparse=always", live.to_str().unwrap(), kept.to_str().unwrap()]);
    let disk = Disk::over(&live, &scene.path("fuse"));
    let mount = Mount::device(&disk.device, &scene.path("mnt"), before).unwrap();
    copies(&scene, &["mnt/A", "B"], &[]);
    let tree = scene.tree("mnt/A");
    let good = contents(&tree);
    for name in names() {
        rot(&scene, &format!("mnt/A/{name}"), &[77]);
    }
    rot(&scene, "B/large", &[2 * MIB]);
    shell(&scene, "rm -r mnt/A/deep; truncate -s 100 mnt/A/dir-03/small; sync -f mnt");
    let (bad, b) = (contents(&tree), contents(&scene.tree("B")));
    let since = disk.now();
    // Names come slowly, so that something happens on the disk between one and the next.
    let strace = Strace::inject(&scene, Strace::RENAMES, "delay_exit=1000");
    let run = strace.run(scene.bare(["heal", "mnt/A", "B"]));
    run.assert_code(0);
    let end = disk.now();
    drop(mount);
    let log = disk.end();
    let mut random = Random::new((*megabytes).into());
    let mut crash = Crash::new(kept, scene.path("crash.img"), log);
    let (mut old, mut right) = (0, 0);
    let count = if long() { 200 } else { 8 };
    for (number, moment) in
        crash.moments(&(since..end), count, &mut random).into_iter().chain([end]).enumerate()
    {
        let image = crash.at(moment, &mut random);
        let _mount = Mount::device(image, &scene.path("crash"), after)
            .unwrap_or_else(|why| panic!("no {kind} after a power cut: {why}"));
        let found = contents(&scene.tree("crash/A"));
        for (name, found) in &found {
            assert!(*found == good[name] || *found == bad[name], "{kind}, cut {number}: {name}");
            right += usize::from(*found == good[name]);
            old += usize::from(*found != good[name]);
        }
        if moment == end {
            assert!(found == good, "{kind}: what was healed is there");
        } else if number % 4 == 0 {
            heal(&scene, &["-q", "crash/A", "B"]).assert_code(0);
            is_whole(&scene.path("crash/A"));
            assert!(contents(&scene.tree("crash/A")) == good);
        }
    }
    assert!(contents(&scene.tree("B")) != b, "it was healed too");
    eprintln!("{kind}: {} power cuts, {old} old files and {right} right ones, no other", count + 1);
}

#[test]
fn ext4() {
    cut(&FileSystem("ext4", 96, "commit=1", "loop"));
}

#[test]
fn btrfs() {
    cut(&FileSystem("btrfs", 600, "commit=1", "loop"));
}

#[test]
fn xfs() {
    cut(&FileSystem("xfs", 300, "defaults", "loop,nouuid"));
}
