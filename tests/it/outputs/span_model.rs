//! Random spans: disks that fill up, die and come back empty, kills at any moment, and a source that is edited between.
//! However it went, when a run says that all is done, all is there, and the index says where.
//!
//! `DIRCOPY_TEST_LONG=1` makes 300 of them where 60 have to do otherwise.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::harness::{Mount, Random, Scene, content, long, need, shell};

const DISKS: usize = 3;

/// At first so many are written, some of them twice.
const FILES: u64 = 60;

/// A span and its disks.
struct Span {
    disks: Vec<Option<Mount>>,
    scene: Scene,
    random: Random,
    /// So many changes were made to the source, each with a time of its own.
    changes: u64,
    what: String,
}

impl Span {
    fn new(salt: u64) -> Self {
        let mut span = Self {
            scene: Scene::new(),
            random: Random::new(salt),
            disks: (0..DISKS).map(|_| None).collect(),
            changes: 0,
            what: format!("span {salt}:"),
        };
        (0..DISKS).for_each(|number| span.renew(number));
        // More than one disk holds.
        (0..FILES).for_each(|_| span.write());
        span
    }

    fn disk(&self, number: usize) -> PathBuf {
        self.scene.path(&format!("d{number}"))
    }

    /// A fresh disk takes the place of this one.
    fn renew(&mut self, number: usize) {
        self.disks[number] = None;
        self.disks[number] = Some(Mount::tmpfs(&self.disk(number), "4m"));
        self.what += &format!(" new {number};");
    }

    /// A new file, or one that gets another content.
    fn write(&mut self) {
        let (dir, name) = (self.random.below(5), self.random.below(40));
        let name = ["", "a/", "a/b/", "c/", "c-d/"][dir].to_owned() + &name.to_string();
        let size = [0, 10, 5_000, 150_000, 400_000][self.random.below(5)];
        self.changes += 1;
        let mut text = self.changes.to_le_bytes().to_vec();
        text.extend(content(size + self.random.below(90)));
        self.scene.src.file(&name, text);
        self.scene.src.mtime(&name, 1_000_000_000 + self.changes, 0);
        if self.changes > FILES {
            self.what += &format!(" write {name}, {size};");
        }
    }

    fn files(root: &Path) -> BTreeMap<String, PathBuf> {
        fn walk(dir: &Path, root: &Path, found: &mut BTreeMap<String, PathBuf>) {
            for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if entry.file_name() == ".dircopy" {
                    continue;
                }
                match path.is_dir() {
                    true => walk(&path, root, found),
                    false => {
                        // What a killed run left of a trial of names may be no text.
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

    /// A file of a tree, but none of ours.
    fn any(&mut self, root: &Path) -> Option<PathBuf> {
        let files = Self::files(root);
        let files: Vec<_> =
            files.into_iter().filter(|(name, _)| !name.starts_with("dircopy-")).collect();
        (!files.is_empty()).then(|| files[self.random.below(files.len())].1.clone())
    }

    /// True if a file of the source was cut off on a disk.
    fn is_cut(&self, path: &Path) -> bool {
        let name = path.strip_prefix(self.scene.path("src")).unwrap().display();
        (0..DISKS).any(|number| {
            self.what.contains(&format!(" cut {:?};", self.disk(number).join(name.to_string())))
        })
    }

    fn args(&self) -> Vec<String> {
        let mut args: Vec<String> = ["src", "--span"].map(String::from).into();
        args.extend((0..DISKS).map(|number| self.disk(number).display().to_string()));
        args.extend(["--overwrite-policy", "update", "-q"].map(String::from));
        args
    }

    fn happen(&mut self) {
        let number = self.random.below(DISKS);
        let disk = self.disk(number);
        match self.random.below(9) {
            0 | 1 => self.write(),
            2 => {
                let path = self.any(&self.scene.path("src"));
                if let Some(path) = path.filter(|path| !self.is_cut(path)) {
                    self.what += &format!(" gone {path:?};");
                    fs::remove_file(path).unwrap();
                }
            }
            3 => self.renew(number),
            4 => {
                if let Some(path) = self.any(&disk) {
                    self.what += &format!(" lost {path:?};");
                    fs::remove_file(path).unwrap();
                }
            }
            5 => {
                let path = self.any(&disk);
                // What has left the source is mended by nothing.
                let in_source = |path: &Path| {
                    path.strip_prefix(&disk)
                        .is_ok_and(|it| self.scene.path("src").join(it).exists())
                };
                if let Some(path) = path.filter(|path| in_source(path)) {
                    self.what += &format!(" cut {path:?};");
                    let before = path.metadata().unwrap();
                    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
                    file.set_len(before.len() / 2).unwrap();
                    file.set_modified(before.modified().unwrap()).unwrap();
                }
            }
            6 => {
                self.what += &format!(" fill {number};");
                let size = 500_000 * (1 + self.random.below(6));
                // It may be full before.
                let _ = fs::write(disk.join("others"), content(size));
            }
            _ => {
                let running = self.scene.bare(self.args()).spawn();
                std::thread::sleep(Duration::from_millis(self.random.below(200) as u64));
                let mut random = Random::new(self.random.below(1 << 30) as u64);
                let mut running = running;
                match random.below(5) {
                    _ if running.is_over() => {}
                    // The disk is pulled out, and another one put in.
                    0 => self.disks[number].take().unwrap().detach(),
                    _ => running.disturb(&mut random),
                }
                let run = running.wait();
                if self.disks[number].is_none() {
                    self.renew(number);
                }
                self.what += &format!(" run {:?};", run.code);
                assert!(
                    matches!(run.code, None | Some(0..=3 | 143)),
                    "{}: {}",
                    self.what,
                    run.err()
                );
            }
        }
    }

    /// The last run says that all is done; on how many disks there are files then.
    fn judge(&mut self) -> usize {
        for number in 0..DISKS {
            let _ = fs::remove_file(self.disk(number).join("others"));
        }
        let mut run = self.scene.bare(self.args()).run();
        // What the messages say that is to be done: the old version goes.
        let without_room = |line: &str| {
            let (path, _) =
                line.split_once(": it was changed, and the disk that has it has no room")?;
            Some(PathBuf::from(path.strip_prefix("dircopy: cannot copy ")?))
        };
        let errors = run.err();
        let errors = || errors.lines().filter(|line| !line.starts_with("dircopy: warning: "));
        if run.code == Some(1) && errors().all(|line| without_room(line).is_some()) {
            for path in errors().filter_map(without_room) {
                fs::remove_file(path).unwrap();
            }
            run = self.scene.bare(self.args()).run();
        }
        assert_eq!(run.code, Some(0), "{}\n{}", self.what, run.err());
        let source = Self::files(&self.scene.path("src"));
        let mut index: Option<String> = None;
        for number in 0..DISKS {
            let disk = self.disk(number);
            let files = Self::files(&disk);
            let indices: Vec<_> = files.keys().filter(|name| name.ends_with(".span")).collect();
            assert_eq!(indices.len(), 1, "{}: {indices:?}", self.what);
            let text = fs::read_to_string(disk.join(indices[0])).unwrap();
            assert_eq!(*index.get_or_insert_with(|| text.clone()), text, "{}", self.what);
            let newest = files.keys().rfind(|name| name.ends_with(".sha256sum"));
            if let Some(newest) =
                newest.filter(|name| disk.join(name).metadata().unwrap().len() > 0)
            {
                shell(
                    &self.scene,
                    &format!("cd d{number} && sha256sum -c --strict --quiet {newest}"),
                );
            }
            let _ = std::os::unix::fs::symlink(&disk, self.scene.path(&(number + 1).to_string()));
        }
        let index = index.unwrap();
        fs::write(self.scene.path("index"), &index).unwrap();
        // The index is a list like any other, once each disk is found under its number.
        let order = self.numbers(&index);
        for (number, disk) in order.iter().enumerate() {
            let link = self.scene.path(&(number + 1).to_string());
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(disk, link).unwrap();
        }
        shell(&self.scene, "sha256sum -c --strict --quiet index");
        let mut listed = BTreeMap::new();
        for line in index.lines().filter(|line| !line.starts_with('#')) {
            let (digest, name) = line.split_once("  ").unwrap();
            let (_, path) = name.split_once('/').unwrap();
            let before = listed.insert(path.to_owned(), (digest.to_owned(), name.to_owned()));
            assert!(before.is_none(), "{}: {path} twice", self.what);
        }
        for (name, path) in source {
            let (_, at) = listed.get(&name).unwrap_or_else(|| panic!("{}: no {name}", self.what));
            let copy = fs::read(self.scene.path(at)).unwrap();
            assert!(copy == fs::read(path).unwrap(), "{}: {name} differs", self.what);
        }
        let mut check: Vec<String> = ["verify", "--span", "-q"].map(String::from).into();
        check.extend((0..DISKS).map(|number| self.disk(number).display().to_string()));
        let run = self.scene.bare(check).run();
        assert_eq!(run.code, Some(0), "{}\n{}", self.what, run.err());
        index
            .lines()
            .filter(|line| line.starts_with("# disk ") && !line.ends_with(": 0 files"))
            .count()
    }

    /// Where each disk is, by its number.
    fn numbers(&self, index: &str) -> Vec<PathBuf> {
        let heads = index.lines().filter_map(|line| line.strip_prefix("# disk "));
        heads
            .map(|line| {
                let path = line.split_once(", ").unwrap().1.split([',', ':']).next().unwrap();
                PathBuf::from(path)
            })
            .collect()
    }
}

#[test]
fn whatever_happens_all_is_somewhere_and_the_index_says_where() {
    need!(Mount);
    Mount::privately();
    let (spans, mut on_several) = (if long() { 300 } else { 60 }, 0);
    for salt in 0..spans {
        let mut span = Span::new(salt);
        for _ in 0..3 + span.random.below(8) {
            span.happen();
        }
        on_several += u64::from(span.judge() > 1);
    }
    // The model would see nothing if one disk had room for all.
    assert!(on_several > spans * 3 / 4, "{on_several} of {spans}");
}
