//! Weeks of nights over a source that changes at random, some of which go wrong: each good night's tree is that night's
//! source, and a bad one takes nothing away.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::source_changes::day;
use crate::harness::{
    Act, Deed, Habit, Mirror, Mount, Random, Run, Scene, Strace, inventory, long, names_below,
    need, shell,
};

/// Where the output is.
enum Place {
    Disk {
        _mount: Mount,
    },
    /// Through FUSE, where there are no links and no clones; the disk is full while this is true.
    Fuse {
        _session: Mirror,
        is_full: Arc<AtomicBool>,
    },
}

impl Place {
    fn make(kind: &str, scene: &Scene) -> Self {
        if kind != "fuse" {
            let megabytes = [("ext4", 64), ("btrfs", 150), ("xfs", 320)];
            let size = megabytes.iter().find(|(of, _)| *of == kind).unwrap().1;
            let image = scene.path("image");
            return Self::Disk { _mount: Mount::of_size(kind, size, &image, &scene.dst) };
        }
        std::fs::create_dir(scene.path("below")).unwrap();
        std::fs::create_dir(&scene.dst).unwrap();
        let is_full = Arc::new(AtomicBool::new(false));
        let full = Arc::clone(&is_full);
        let hook = move |call: &crate::harness::Call<'_>| match call.deed {
            Deed::Write if full.load(Relaxed) => Act::Fail(libc::ENOSPC),
            _ => Act::Pass,
        };
        let habits = &[Habit::HasNoHardLinks];
        let session = Mirror::with_habits(&scene.path("below"), &scene.dst, habits, hook);
        Self::Fuse { _session: session, is_full }
    }

    /// Has no more room while `run` runs.
    fn while_full(&self, scene: &Scene, run: impl FnOnce() -> Run) -> Run {
        match self {
            Self::Disk { .. } => {
                shell(
                    scene,
                    "sync -f dst; fallocate -l $(($(stat -f -c '%a*%S' dst))) dst/filler || dd if=/dev/zero of=dst/filler bs=1M 2>/dev/null || true",
                );
                let run = run();
                shell(scene, "rm dst/filler");
                run
            }
            Self::Fuse { is_full, .. } => {
                is_full.store(true, Relaxed);
                let run = run();
                is_full.store(false, Relaxed);
                run
            }
        }
    }
}

/// What a user sees of a tree, modes and times included; not of what dircopy keeps there.
fn seen(root: &Path) -> BTreeSet<Vec<u8>> {
    let mut seen = inventory(root);
    let owns = |line: &[u8], own: &[u8]| line.windows(own.len()).any(|it| it == own);
    seen.retain(|line| {
        !owns(line, b" .dircopy") && !owns(line, b" dircopy-") && !owns(line, b" filler")
    });
    seen
}

/// A series of nights.
struct Nights<'a> {
    scene: &'a Scene,
    place: Place,
    random: Random,
    args: &'a [&'a str],
    is_mirror: bool,
}

impl Nights<'_> {
    fn args(&self, more: &[&'static str]) -> Vec<String> {
        self.args.iter().chain(more).map(ToString::to_string).collect()
    }

    /// The generations, by their names.
    fn generations(&self) -> Vec<PathBuf> {
        let all = shell(self.scene, "ls -d dst/20*Z 2>/dev/null || true");
        all.lines().map(|line| self.scene.path(line)).collect()
    }

    /// The trees that may not change any more, told by all their bytes: generations, or what is in a mirror's trash.
    fn old(&self) -> BTreeMap<PathBuf, String> {
        let trees = match self.is_mirror {
            true => shell(self.scene, "ls -d dst/.dircopy-trash/20* 2>/dev/null || true"),
            false => shell(self.scene, "ls -d dst/20*Z 2>/dev/null || true"),
        };
        let look = |line: &str| {
            let digest = shell(
                self.scene,
                &format!(
                    "cd {line} && find . -name .dircopy -prune -o -type f -print0 | sort -z | xargs -0r sha256sum"
                ),
            );
            let path = self.scene.path(line);
            let seen = format!("{digest}{:?}", seen(&path));
            (path, seen)
        };
        trees.lines().map(look).collect()
    }

    /// A run that ends well: the newest tree is the source, and its manifest lists all and holds.
    #[track_caller]
    fn good(&self, more: &[&'static str]) {
        let (before, names) = (self.old(), names_below(&self.scene.dst, "f"));
        let run = self.scene.command(self.args(more)).run();
        run.assert_code(0);
        self.is_as_before(&before, more, &run);
        let newest = match self.is_mirror {
            true => "dst".to_owned(),
            false => {
                format!("dst/{}", shell(self.scene, "readlink dst/latest || cat dst/latest").trim())
            }
        };
        let path = self.scene.path(&newest);
        assert!(self.is_mirror || self.generations().last() == Some(&path), "{newest}");
        let (there, source) = (seen(&path), seen(self.scene.src.root()));
        let differing: Vec<_> =
            there.symmetric_difference(&source).map(|it| it.escape_ascii().to_string()).collect();
        assert_eq!(there, source, "{differing:#?}\n{}{}", run.out(), run.err());
        let own = "-x .dircopy -x .dircopy-trash -x 'dircopy-*' -x filler";
        shell(self.scene, &format!("diff -r --no-dereference {own} src {newest}"));
        let list = format!(
            "cd {newest} && list=$(ls dircopy-*.sha256sum | tail -1) && sha256sum -c --strict --quiet $list && wc -l <$list"
        );
        assert_eq!(
            shell(self.scene, &list),
            shell(self.scene, "find src -type f -print0 | tr -cd '\\0' | wc -c")
        );
        if self.is_mirror {
            self.trash_has_what_left(&names, &run);
        }
    }

    /// Every name that was at the output and is not any more is in the trash, where it was.
    fn trash_has_what_left(&self, before: &BTreeSet<Vec<u8>>, run: &Run) {
        let now = names_below(&self.scene.dst, "f");
        let trash = shell(self.scene, "ls dst/.dircopy-trash 2>/dev/null | tail -1");
        // Part files that a killed run left are removed, and what dircopy keeps there is its own.
        let is_own = |name: &[u8]| String::from_utf8_lossy(name).contains("dircopy");
        for name in before.difference(&now).filter(|name| !is_own(name)) {
            let moved = [b".dircopy-trash/", trash.trim().as_bytes(), b"/", name].concat();
            assert!(now.contains(&moved), "{} is lost: {}", name.escape_ascii(), run.err());
        }
    }

    /// A run that does not end well takes nothing away.
    #[track_caller]
    fn bad(&self, run: impl FnOnce() -> Run) -> Run {
        let (before, names) = (self.old(), names_below(&self.scene.dst, "f"));
        let latest = std::fs::read_link(self.scene.dst.join("latest")).ok();
        let run = run();
        if run.code == Some(0) {
            // It was over before the fault.
            return run;
        }
        self.is_as_before(&before, &[], &run);
        if run.signal.is_some() && self.is_mirror {
            // It may have been about to remove, or done.
            self.trash_has_what_left(&names, &run);
            return run;
        }
        assert!(run.signal.is_some() || self.old().len() == before.len(), "{}", run.err());
        let now = names_below(&self.scene.dst, "f");
        let is_tree = |name: &&Vec<u8>| {
            let name = String::from_utf8_lossy(name);
            !name.contains("dircopy") && !name.contains(".part/") && !name.contains("filler")
        };
        // What a copy replaces it replaces at once, also in a mirror: no name goes.
        let gone = names.difference(&now).find(is_tree).map(|name| name.escape_ascii().to_string());
        assert_eq!(gone, None, "{}", run.err());
        if let (Some(then), Ok(now)) = (latest, std::fs::read_link(self.scene.dst.join("latest"))) {
            assert!(then == now || self.scene.dst.join(now).exists());
        }
        run
    }

    #[track_caller]
    fn is_as_before(&self, before: &BTreeMap<PathBuf, String>, more: &[&str], run: &Run) {
        let after = self.old();
        for (path, seen) in before {
            match after.get(path) {
                Some(now) => assert_eq!(now, seen, "{}: {}", path.display(), run.err()),
                None => assert!(!more.is_empty(), "{} is gone: {}", path.display(), run.err()),
            }
        }
    }

    /// One night.
    fn pass(&mut self, number: usize) {
        let scene = self.scene;
        day(scene, &mut self.random, number, self.is_mirror);
        // What changes now shows in the change time.
        std::thread::sleep(std::time::Duration::from_millis(15));
        match number % 6 {
            2 => {
                let when = 1 + self.random.below(60);
                let calls =
                    "linkat,renameat,renameat2,mkdirat,ioctl,unlinkat,symlinkat,fsync,write";
                let strace = Strace::inject(scene, calls, &format!("signal=KILL:when={when}"));
                self.bad(|| strace.run(scene.command(self.args(&[]))));
                self.good(&[]);
            }
            3 => {
                let fault = Strace::inject(scene, "getdents64", "error=EIO")
                    .exactly_on(scene.path("src/fixed"));
                let run = self.bad(|| fault.run(scene.command(self.args(&["--keep-trash", "1d"]))));
                fault.fired(&run);
                run.assert_code(1);
            }
            4 => {
                shell(scene, "mv src away && mkdir src");
                let run = self.bad(|| scene.command(self.args(&["--keep-trash", "1d"])).run());
                run.assert_code(2).assert_says("it is empty");
                shell(scene, "rmdir src && mv away src");
                self.good(&[]);
            }
            5 => {
                scene
                    .src
                    .file(format!("large {number}"), crate::harness::content(3_000_000 + number));
                let args = self.args(&["--no-space-check", "--keep-trash", "1d"]);
                let run = self.bad(|| self.place.while_full(scene, || scene.command(args).run()));
                run.assert_code_in(&[1, 2, 3]);
                self.good(&[]);
                // Trash that is old by now goes with a good night.
                if shell(scene, "ls dst/.dircopy-trash 2>/dev/null | wc -l").trim() != "0" {
                    shell(scene, "cd dst/.dircopy-trash && mv $(ls | head -1) 2001-01-01T000000Z");
                    self.good(&["--keep-trash", "1d"]);
                }
            }
            0 if !self.is_mirror => self.good(&["--keep", "last=3"]),
            _ => self.good(&[]),
        }
    }
}

const GENERATIONS: &[&str] = &["--generations", "--max-delete=100%"];
const MIRROR: &[&str] = &["--mirror", "--max-delete=100%", "--overwrite-policy=update"];

fn nights(kind: &str, salt: u64, number: usize, is_mirror: bool) {
    eprintln!("{kind}, seed {salt}, mirror: {is_mirror}");
    Mount::privately();
    let scene = Scene::on_disk();
    let place = Place::make(kind, &scene);
    let mut random = Random::new(salt);
    for i in 0..30 {
        scene.src.file(format!("dir {}/{i}", i % 3), crate::harness::content(random.below(40_000)));
    }
    scene.src.file("fixed/one", "1");
    let args = if is_mirror { MIRROR } else { GENERATIONS };
    let mut nights = Nights { scene: &scene, place, random, args, is_mirror };
    (1..=number).for_each(|at| nights.pass(at));
}

#[test]
fn each_night_is_a_tree_by_itself() {
    need!(Kinds, Strace, Fuse);
    if !long() {
        return nights("ext4", 1, 6, false);
    }
    for kind in ["ext4", "xfs", "btrfs", "fuse"] {
        (1..=3).for_each(|salt| nights(kind, salt, 30, false));
    }
}

#[test]
fn each_night_a_mirror_is_its_source() {
    need!(Kinds, Strace, Fuse);
    if !long() {
        return nights("ext4", 2, 5, true);
    }
    for kind in ["ext4", "xfs", "btrfs", "fuse"] {
        (1..=3).for_each(|salt| nights(kind, salt, 30, true));
    }
}
