//! The power is cut while a generation is made, named, led to, and an old one goes: what has the name of a generation is
//! one, and `latest` leads to one. And while a mirror moves what has left the source: it is at its place or in the trash.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::harness::{
    Crash, Disk, Mount, Random, Scene, content, inventory, long, need, shell, tool,
};

/// A file system, the megabytes of its disk, and how it is mounted before and after a power cut.
type Kind = (&'static str, &'static str, &'static str, &'static str);

const KINDS: [Kind; 3] = [
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

/// The disk of an output, which remembers what is written to it.
struct Machine {
    disk: Disk,
    /// The disk, and the output on it.
    mounts: (Mount, Mount),
    /// What was on the disk at first.
    kept: PathBuf,
}

impl Machine {
    fn new(scene: &Scene, &(kind, megabytes, live, _): &Kind) -> Self {
        let (image, kept) = (scene.path("live.img"), scene.path("kept.img"));
        tool("truncate", &[&format!("--size={megabytes}M"), image.to_str().unwrap()]);
        tool(&format!("mkfs.{kind}"), &["-q", image.to_str().unwrap()]);
        tool("cp", &["--sparse=always", image.to_str().unwrap(), kept.to_str().unwrap()]);
        let disk = Disk::over(&image, &scene.path("fuse"));
        let mount = Mount::device(&disk.device, &scene.path("mnt"), live).unwrap();
        shell(scene, "mkdir mnt/out && sync -f mnt");
        let out = Mount::bind(&scene.path("mnt/out"), &scene.dst);
        Self { disk, mounts: (out, mount), kept }
    }

    /// Cuts the power at some moments since `since`, and when all was over; `judge` looks at each disk that is left,
    /// which is mounted, and is told whether it is the last.
    fn cut(self, scene: &Scene, kind: &Kind, since: usize, mut judge: impl FnMut(&Path, bool)) {
        let Self { disk, mounts, kept } = self;
        let end = disk.now();
        drop(mounts);
        let mut random = Random::new(7);
        let mut crash = Crash::new(kept, scene.path("crash.img"), disk.end());
        let cuts = if long() { 60 } else { 5 };
        let moments = crash.moments(&(since..end), cuts, &mut random);
        for moment in moments.into_iter().chain([end]) {
            let image = crash.at(moment, &mut random).to_path_buf();
            let at = scene.path("crash");
            let _mount = Mount::device(&image, &at, kind.3)
                .unwrap_or_else(|why| panic!("no {} after a power cut: {why}", kind.0));
            judge(&at.join("out"), moment == end);
        }
    }
}

fn cut_generations(kind: &Kind) {
    Mount::privately();
    let scene = Scene::new();
    let machine = Machine::new(&scene, kind);
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
    let since = machine.disk.now();
    let last = night(&["--keep", "last=2"]);
    machine.cut(&scene, kind, since, |out, is_end| {
        judge(&scene, out, &nights, &last);
        if is_end {
            assert_eq!(generations(out).len(), 2);
        }
        // The next night makes up for it.
        scene.command_to(scene.src.root(), out, ["--generations"]).run().assert_code(0);
        judge(&scene, out, &nights, &last);
        assert_eq!(seen(&out.join(std::fs::read_link(out.join("latest")).unwrap())), last);
    });
}

/// The content of each file below a directory, but for what dircopy keeps there.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let find = "find . -name .dircopy -prune -o -name .dircopy-trash -prune -o -type f -not -name 'dircopy-*' -print";
    let found = Command::new("bash").args(["-ec", find]).current_dir(root).output().unwrap();
    let names = String::from_utf8(found.stdout).unwrap();
    let file = |name: &str| (name[2..].to_owned(), std::fs::read(root.join(name)).unwrap());
    names.lines().map(file).collect()
}

/// Nothing is lost of what was `before`: each file is at its place, there as `after`, or in the trash. Every line of the
/// newest finished manifest holds, but for files that are newer already.
fn judge_mirror(
    scene: &Scene,
    out: &Path,
    before: &BTreeMap<String, Vec<u8>>,
    after: &BTreeMap<String, Vec<u8>>,
) {
    let there = files(out);
    let trash = out.join(".dircopy-trash");
    let dated = trash.read_dir().into_iter().flatten().map(|dir| files(&dir.unwrap().path()));
    let trash: Vec<_> = dated.collect();
    for (name, content) in before {
        let is_there = match there.get(name) {
            Some(now) => now == content || after.get(name) == Some(now),
            None => false,
        };
        let is_in_trash = || trash.iter().any(|dir| dir.get(name) == Some(content));
        assert!(is_there || !after.contains_key(name) && is_in_trash(), "{name} is lost");
    }
    let list = format!("ls {}/dircopy-*.sha256sum | tail -1 | xargs cat", out.display());
    for line in shell(scene, &list).lines() {
        let (digest, name) = line.split_once("  ").unwrap();
        let content = there.get(name).unwrap_or_else(|| panic!("{name} is listed and gone"));
        let is_newer = before.get(name) != Some(content) && after.get(name) == Some(content);
        assert!(is_newer || sha256(content) == digest, "{name} is not as listed");
    }
}

fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn cut_mirror(kind: &Kind) {
    Mount::privately();
    let scene = Scene::new();
    let machine = Machine::new(&scene, kind);
    for i in 0..60 {
        scene.src.file(format!("d{}/{i}", i % 6), content(3000 + 500 * i));
    }
    let night = || {
        std::thread::sleep(std::time::Duration::from_millis(30));
        scene.copy(&["--mirror"]).assert_code(0);
        files(scene.src.root())
    };
    night();
    scene.src.remove("d0/0").file("d0/late", content(8000));
    let before = night();
    for i in [6, 12, 18] {
        scene.src.remove(format!("d0/{i}"));
    }
    shell(&scene, "cd src && rm -r d1 && mv d2 e2 && mv d3/3 e3");
    scene.src.file("d5/5", content(9000)).file("new", content(20_000));
    let since = machine.disk.now();
    let after = night();
    machine.cut(&scene, kind, since, |out, is_end| {
        judge_mirror(&scene, out, &before, &after);
        assert!(!is_end || files(out) == after);
        // The next night makes up for it.
        scene.command_to(scene.src.root(), out, ["--mirror"]).run().assert_code(0);
        judge_mirror(&scene, out, &before, &after);
        assert!(files(out) == after);
        scene.bare(["verify", "--complete", out.to_str().unwrap()]).run().assert_code(0);
    });
}

/// All of them in a long run, else the one on which generations are snapshots.
fn kinds() -> &'static [Kind] {
    if long() { &KINDS } else { &KINDS[2..] }
}

#[test]
fn a_power_cut_leaves_complete_generations() {
    need!(Fuse, Kinds);
    kinds().iter().for_each(cut_generations);
}

#[test]
fn a_power_cut_loses_nothing_of_a_mirror() {
    need!(Fuse, Kinds);
    kinds().iter().for_each(cut_mirror);
}
