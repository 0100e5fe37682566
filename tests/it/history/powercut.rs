//! The power is cut while a generation is made, named, led to, and an old one goes: what has the name of a generation is
//! one, and `latest` leads to one.

use std::collections::BTreeMap;
use std::path::Path;

use crate::harness::{
    Crash, Disk, Mount, Random, Scene, content, inventory, long, need, shell, tool,
};

/// A file system, the megabytes of its disk, and how it is mounted before and after a power cut.
const KINDS: [(&str, &str, &str, &str); 3] = [
    ("ext4", "96", "commit=1", "loop"),
    ("xfs", "320", "defaults", "loop,nouuid"),
    ("btrfs", "300", "commit=1", "loop"),
];

fn generations(out: &Path) -> Vec<String> {
    let names = out.read_dir().unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> =
        names.filter(|name| name.starts_with("20") && name.ends_with('Z')).collect();
    names.sort();
    names
}

/// What a user sees of a tree.
fn seen(root: &Path) -> Vec<String> {
    let own = |line: &String| line.contains(" .dircopy") || line.contains(" dircopy-");
    let lines = inventory(root).into_iter().map(|line| line.escape_ascii().to_string());
    lines.filter(|line| !own(line)).collect()
}

/// Every generation is what its night's source was, `latest` leads to one, and no night that had ended is missing.
fn judge(scene: &Scene, out: &Path, nights: &BTreeMap<String, Vec<String>>, last: &[String]) {
    let there = generations(out);
    for name in &there {
        // The one that was made when the power was cut has a name that was not known before.
        let night = nights.get(name).map_or(last, Vec::as_slice);
        assert_eq!(seen(&out.join(name)), night, "{name}");
        let check = "sha256sum -c --strict --quiet dircopy-*.sha256sum";
        shell(scene, &format!("cd {}/{name} && {check}", out.display()));
    }
    let latest = std::fs::read_link(out.join("latest")).unwrap().into_os_string();
    assert!(there.contains(&latest.into_string().unwrap()), "{there:?}");
    let newest_before = nights.keys().next_back().unwrap();
    assert!(there.contains(newest_before) || there.last() > Some(newest_before), "{there:?}");
}

fn cut(&(kind, megabytes, live, crashed): &(&str, &str, &str, &str), cuts: usize) {
    Mount::privately();
    let scene = Scene::new();
    let (image, kept) = (scene.path("live.img"), scene.path("kept.img"));
    tool("truncate", &[&format!("--size={megabytes}M"), image.to_str().unwrap()]);
    tool(&format!("mkfs.{kind}"), &["-q", image.to_str().unwrap()]);
    tool("cp", &["--sparse=always", image.to_str().unwrap(), kept.to_str().unwrap()]);
    let disk = Disk::over(&image, &scene.path("fuse"));
    let mount = Mount::device(&disk.device, &scene.path("mnt"), live).unwrap();
    shell(&scene, "mkdir mnt/out && sync -f mnt");
    let out = Mount::bind(&scene.path("mnt/out"), &scene.dst);
    for i in 0..60 {
        scene.src.file(format!("d{}/{i}", i % 4), content(3000 + 500 * i));
    }
    let night = |args: &[&str]| {
        std::thread::sleep(std::time::Duration::from_millis(30));
        scene.copy(&[&["--generations"], args].concat()).assert_code(0);
        seen(scene.src.root())
    };
    let mut nights = BTreeMap::new();
    for i in 0..2 {
        scene.src.file(format!("d0/{i}"), content(7000 + i)).remove(format!("d1/{}", 4 * i + 1));
        let source = night(&[]);
        nights.insert(generations(&scene.dst).pop().unwrap(), source);
    }
    scene.src.file("d2/2", content(9000)).file("new", content(20_000)).remove("d3/3");
    shell(&scene, "mv src/d1 src/e");
    let since = disk.now();
    let last = night(&["--keep", "last=2"]);
    let end = disk.now();
    drop((out, mount));
    let mut random = Random::new(7);
    let mut crash = Crash::new(kept, scene.path("crash.img"), disk.end());
    for moment in crash.moments(&(since..end), cuts, &mut random).into_iter().chain([end]) {
        let image = crash.at(moment, &mut random).to_path_buf();
        let at = scene.path("crash");
        let _mount = Mount::device(&image, &at, crashed)
            .unwrap_or_else(|why| panic!("no {kind} after a power cut: {why}"));
        let out = at.join("out");
        judge(&scene, &out, &nights, &last);
        if moment == end {
            assert_eq!(generations(&out).len(), 2);
        }
        // The next night makes up for it.
        scene.command_to(scene.src.root(), &out, ["--generations"]).run().assert_code(0);
        judge(&scene, &out, &nights, &last);
        assert_eq!(seen(&out.join(std::fs::read_link(out.join("latest")).unwrap())), last);
    }
}

#[test]
fn a_power_cut_leaves_complete_generations() {
    need!(Fuse, Kinds);
    let kinds = if long() { &KINDS[..] } else { &KINDS[2..] };
    kinds.iter().for_each(|kind| cut(kind, if long() { 60 } else { 5 }));
}
