//! A copy by many machines: plan, shards, finish. What many processes make together is to be what one makes alone.

mod changed;
mod chaos;
mod departed;
mod engines;
mod exchanged;
mod lists;
mod obstacles;
mod records;
mod rewalk;
mod states;
mod together;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::harness::{Cmd, Run, Scene, content, inventory, names_below, shell};

/// A scene with a plan in it.
struct Cluster {
    scene: Scene,
}

impl Cluster {
    /// A tree with everything that a plan has to do with, in `dirs` directories.
    fn new(dirs: usize) -> Self {
        Self::of(Scene::new(), dirs)
    }

    fn of(scene: Scene, dirs: usize) -> Self {
        for dir in 0..dirs {
            for file in 0..8 {
                scene.src.file(format!("d{dir}/f{file}"), content(dir * 1000 + file * 37));
            }
            scene.src.file(format!("d{dir}/deep/er/g"), content(70_000 + dir));
        }
        scene.src.file("d0/large", content(700_000)).file("odd\nname", "x").file("-", "y");
        scene.src.file([b"bytes \xff".as_slice(), b""].concat(), "z").dir("empty");
        scene.src.symlink("d0/link", "f1").symlink("dangling", "nowhere");
        scene.src.hard_link("z-first", "d0/f1").hard_link("d1/again", "d0/f1");
        scene.src.mode("d1", 0o710).mode("d0/f3", 0o640).mode("empty", 0o555);
        for dir in 0..dirs {
            scene.src.mtime(format!("d{dir}"), 1_000_000_000 + dir as u64, 5);
        }
        scene.src.mtime("empty", 900_000_000, 1).mtime("", 800_000_000, 2);
        Self { scene }
    }

    fn plan_dir(&self) -> PathBuf {
        self.scene.path("plan")
    }

    fn out(&self) -> PathBuf {
        self.scene.path("out")
    }

    fn plan_with(&self, args: &[&str]) -> Run {
        let (src, out, plan) = (self.scene.src.root().into(), self.out(), self.plan_dir());
        let all = ["plan".into(), src, out, "--plan".into(), plan];
        let args = args.iter().map(PathBuf::from);
        self.scene.bare(all.into_iter().chain(args)).run()
    }

    /// Plans small shards; how many there are.
    fn plan(&self) -> u32 {
        self.plan_with(&["--hard-links", "--shard-files", "9"]).assert_code(0);
        self.shards()
    }

    fn shards(&self) -> u32 {
        std::fs::read_dir(self.plan_dir().join("shards")).unwrap().count() as u32
    }

    fn command(&self, verb: &str, args: &[&str]) -> Cmd<'_> {
        let all = [verb.into(), "--plan".into(), self.plan_dir()];
        self.scene.bare(all.into_iter().chain(args.iter().map(PathBuf::from)))
    }

    fn shard(&self, number: u32) -> Run {
        self.command("shard", &["--index", &number.to_string()]).run()
    }

    fn claim(&self) -> Run {
        self.command("shard", &["--claim", "--dead-after", "1s"]).run()
    }

    fn finish(&self) -> Run {
        self.command("finish", &["--dead-after", "1s"]).run()
    }

    fn status(&self) -> Run {
        self.scene.bare(["plan".into(), "--status".into(), self.plan_dir()]).run()
    }

    fn manifest(&self, root: &Path) -> PathBuf {
        let all = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
        let mut found: Vec<_> =
            all.filter(|path| path.extension().is_some_and(|it| it == "sha256sum")).collect();
        found.sort();
        found.pop().expect("no manifest")
    }

    /// The output is what a single run makes: tree, times, permissions, links, manifest; and nothing is left over.
    #[track_caller]
    fn is_as_a_single_run(&self) {
        let single = self.scene.path("single");
        if !single.exists() {
            let args = [self.scene.src.root(), &single].map(Path::to_path_buf);
            let args = args.into_iter().chain(["--hard-links".into()]);
            self.scene.bare(args).run().assert_code(0);
        }
        let out = self.out();
        assert_eq!(entries(&out), entries(&single));
        assert_eq!(groups(&out), groups(&single), "names of the same files");
        let lines = |root: &Path| -> BTreeSet<Vec<u8>> {
            let text = std::fs::read(self.manifest(root)).unwrap();
            let lines: Vec<Vec<u8>> = text.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
            let set: BTreeSet<_> = lines.iter().cloned().collect();
            assert_eq!(set.len(), lines.len(), "a line comes twice");
            set
        };
        assert_eq!(lines(&out), lines(&single));
        let name = self.manifest(&out);
        let check = match std::fs::metadata(&name).unwrap().len() {
            0 => String::new(),
            _ => format!(
                "cd out && sha256sum -c --strict --quiet {} && cd .. && ",
                name.file_name().unwrap().to_str().unwrap()
            ),
        };
        let differ = "diff -r --no-dereference -x 'dircopy-*' -x .dircopy src out";
        shell(&self.scene, &format!("{check}{differ}"));
    }
}

/// Every entry below `root` but what is ours: what `find` tells of it.
fn entries(root: &Path) -> BTreeSet<String> {
    let found = inventory(root).into_iter();
    let mut found: BTreeSet<String> = found.map(|line| line.escape_ascii().to_string()).collect();
    found.retain(|text| !(text.contains(" dircopy-2") || text.contains("/dircopy-2")));
    let stat = std::fs::metadata(root).unwrap();
    use std::os::unix::fs::MetadataExt;
    found.insert(format!("root {:o} {} {}", stat.mode(), stat.mtime(), stat.mtime_nsec()));
    found
}

/// The names of each file that has several.
fn groups(root: &Path) -> BTreeSet<BTreeSet<Vec<u8>>> {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;
    let mut by_inode = std::collections::BTreeMap::<u64, BTreeSet<Vec<u8>>>::new();
    for name in names_below(root, "f") {
        let path = root.join(std::ffi::OsStr::from_bytes(&name));
        let inode = std::fs::symlink_metadata(path).unwrap().ino();
        by_inode.entry(inode).or_default().insert(name);
    }
    by_inode.into_values().filter(|names| names.len() > 1).collect()
}
