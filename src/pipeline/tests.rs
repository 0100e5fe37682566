//! One body of tests for both paths: what a worker does must not depend on whether a file is larger
//! than a block.

use std::{ffi::OsStr, io::Seek, io::SeekFrom, io::Write, path::Path, sync::Arc};

use crossbeam_channel::bounded;
use tempfile::TempDir;

use crate::{
    event::Gate, event::Progress, event::Stop, event::Timings, hash::Algorithm, hash::Backend,
    hash::Digest, io::Control, io::CopyOptions, io::Options, io::link_check::Helpers,
    io::read_back::Residency, path::DirPath, pipeline::NewWorker, pipeline::message::tasks,
    sys::Dir, sys::PartOwner, sys::stat::Stat, transfer::CommitterMessage, transfer::Context,
    transfer::Outcome, transfer::Shared, transfer::TransferResult, transfer::kernel::CopyMethods,
    tree::Batch, tree::OutputDir, tree::SourceDir, tree::SourceEntry,
};

/// The metadata of a file.
fn stat(path: &Path) -> Stat {
    Dir::open(path.parent().unwrap()).unwrap().stat(path.file_name().unwrap(), true).unwrap()
}

/// A source and an output directory, and whether part files go without a name there.
struct Scene {
    dir: TempDir,
    nameless: bool,
    /// Workers for small files alone, beside the one.
    small: usize,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("source")).unwrap();
        std::fs::create_dir(dir.path().join("output")).unwrap();
        let nameless = Dir::open(dir.path()).unwrap().can_publish_nameless(PartOwner::default());
        Self { dir, nameless, small: 0 }
    }

    fn source(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join("source").join(name)
    }

    fn output(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join("output").join(name)
    }

    /// The listed entry of a file, before anything happened to it.
    fn entry(&self, name: &str) -> SourceEntry {
        let dir = Dir::open(&self.dir.path().join("source")).unwrap();
        SourceEntry {
            name: OsStr::new(name).into(),
            stat: dir.stat(OsStr::new(name), false).unwrap(),
        }
    }

    /// Runs one worker over these files, in runs as the walker would have them.
    fn copy(&self, entries: Vec<SourceEntry>, shape: Shape) -> Vec<TransferResult> {
        self.copy_unless(&Stop::default(), entries, shape)
    }

    fn copy_unless(
        &self,
        stop: &Stop,
        entries: Vec<SourceEntry>,
        (block_size, blocks, several): Shape,
    ) -> Vec<TransferResult> {
        let root = |name| -> Arc<Path> { self.dir.path().join(name).into() };
        let source = Arc::new(SourceDir {
            handle: Dir::open(&root("source")).unwrap(),
            root: root("source"),
            rel: DirPath::root(),
        });
        let output = Arc::new(OutputDir {
            handle: Some(Dir::open(&root("output")).unwrap()),
            fresh: false,
            ..OutputDir::absent(root("output"))
        });
        let (progress, timings) = (Progress::default(), Timings::default());
        let (methods, resident) = (CopyMethods::default(), Residency::default());
        let backend = if several { Backend::widest() } else { Backend::One };
        let asked = &CopyOptions { backend, block_size, ..CopyOptions::default() };
        let context = Context {
            options: Options { blocks, nameless: self.nameless, ..Options::plain(asked) },
            shared: Shared::alone(&methods),
            control: Control {
                progress: &progress,
                stop,
                rate: None,
                timings: &timings,
                resident: &resident,
                helpers: &Helpers::of_processors(),
                gate: &Gate::default(),
            },
        };
        let (small, large): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| entry.stat.size <= block_size as u64);
        let runs: Vec<_> = large.into_iter().map(|entry| vec![entry]).chain([small]).collect();
        let (give, tasks) = tasks(runs.len(), self.small, block_size);
        for files in runs {
            let (source, output) = (Arc::clone(&source), Arc::clone(&output));
            assert!(give.send(Batch { source, output, files }));
        }
        drop(give);
        let (outcomes, inbox) = bounded(1);
        let mut all = Vec::new();
        std::thread::scope(|scope| {
            let context = &context;
            let worker =
                |number, tasks| NewWorker { context, number, tasks, results: outcomes.clone() };
            for number in 0..self.small {
                worker(number, tasks.small()).start_small(scope).unwrap();
            }
            let started = worker(0, tasks.clone()).start(scope, several).unwrap();
            if let Some(second) = started.second {
                second.start(scope, worker(1, tasks.clone())).unwrap();
            }
            drop((tasks, outcomes));
            for message in inbox {
                match message {
                    CommitterMessage::Results(results) => all.extend(results),
                    other => panic!("{other:?}"),
                }
            }
        });
        all
    }

    fn names_at_output(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.dir.path().join("output"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Bytes with a period that no block size divides, so that a lost or doubled block shows.
fn content(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

fn digest_of(bytes: &[u8]) -> Digest {
    let mut hasher = Algorithm::Sha256.start();
    hasher.update(bytes);
    hasher.finish().unwrap()
}

/// The size of a block, how many there are, and whether several small files are hashed together.
type Shape = (usize, usize, bool);

/// Block sizes that put a file of some thousand bytes into either path, and queues from the
/// narrowest on.
const SHAPES: [Shape; 6] = [
    (1 << 20, 8, false),
    (1 << 20, 8, true),
    (80_000, 1, true),
    (4096, 8, true),
    (512, 1, false),
    (7, 2, true),
];

#[test]
fn every_length_arrives_whole() {
    for (shape, small) in SHAPES.into_iter().flat_map(|shape| [(shape, 0), (shape, 3)]) {
        let lengths = [0, 1, 6, 7, 8, 511, 512, 513, 4095, 4096, 4097, 10_000];
        let scene = Scene { small, ..Scene::new() };
        for len in lengths {
            std::fs::write(scene.source(&len.to_string()), content(len)).unwrap();
        }
        let entries = lengths.map(|len| scene.entry(&len.to_string())).into();
        let outcomes = scene.copy(entries, shape);
        assert_eq!(outcomes.len(), lengths.len());
        for outcome in outcomes {
            let name = outcome.transfer.entry().name.to_str().unwrap();
            let expected = content(name.parse().unwrap());
            assert!(std::fs::read(scene.output(name)).unwrap() == expected, "{name} {shape:?}");
            match outcome.outcome {
                Outcome::Published { digest, .. } => {
                    assert_eq!(digest, Some(digest_of(&expected)));
                }
                fate => panic!("{name}: {fate:?}"),
            }
            let (from, to) = (scene.source(name), scene.output(name));
            let stat = |path: &Path| {
                let stat = stat(path);
                (stat.mtime, stat.mode)
            };
            assert_eq!(stat(&from), stat(&to));
        }
    }
}

#[test]
fn a_source_that_changed_since_it_was_listed_is_read_again() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 4] = [
        ("grew", |path| std::fs::write(path, content(6000)).unwrap()),
        ("shrank", |path| std::fs::write(path, content(4000)).unwrap()),
        ("was rewritten", |path| {
            // Within one step of the file system's clock the times would not tell.
            std::thread::sleep(std::time::Duration::from_millis(20));
            std::fs::write(path, vec![1; 5000]).unwrap();
        }),
        ("was replaced", |path| {
            let other = path.with_extension("other");
            std::fs::write(&other, content(5000)).unwrap();
            std::fs::rename(other, path).unwrap();
        }),
    ];
    for shape in SHAPES {
        for (what, change) in changes {
            let scene = Scene::new();
            std::fs::write(scene.source("file"), content(5000)).unwrap();
            let entry = scene.entry("file");
            change(&scene.source("file"));
            let outcomes = scene.copy(vec![entry], shape);
            let [
                TransferResult {
                    outcome: Outcome::Published { digest, .. },
                    transfer,
                    warnings,
                    ..
                },
            ] = &outcomes[..]
            else {
                panic!("a file that {what}, {shape:?}: {outcomes:?}");
            };
            let now = std::fs::read(scene.source("file")).unwrap();
            assert_eq!(*digest, Some(digest_of(&now)), "{what}, {shape:?}");
            assert!(std::fs::read(scene.output("file")).unwrap() == now, "{what}, {shape:?}");
            assert_eq!((transfer.entry().stat.size, warnings.len()), (now.len() as u64, 1));
            assert_eq!(scene.names_at_output(), ["file"], "{what}, {shape:?}");
        }
    }
}

#[test]
fn a_source_that_is_gone_or_a_link_by_now_fails_alone() {
    for shape in SHAPES {
        let scene = Scene::new();
        for name in ["gone", "link", "good"] {
            std::fs::write(scene.source(name), content(5000)).unwrap();
        }
        let entries = ["gone", "link", "good"].map(|name| scene.entry(name)).into();
        for name in ["gone", "link"] {
            std::fs::remove_file(scene.source(name)).unwrap();
        }
        // Where making links takes a privilege, it is gone too.
        #[cfg(unix)]
        std::os::unix::fs::symlink("good", scene.source("link")).unwrap();
        let outcomes = scene.copy(entries, shape);
        let failed = |name: &str| {
            outcomes.iter().any(|outcome| {
                *outcome.transfer.entry().name == *name
                    && matches!(outcome.outcome, Outcome::Failed(_))
            })
        };
        assert!(failed("gone") && failed("link") && !failed("good"), "{outcomes:?}");
        assert_eq!(scene.names_at_output(), ["good"]);
    }
}

#[test]
fn holes_stay_holes() {
    for shape in [(1 << 20, 8, false), (4096, 8, true), (65536, 1, true)] {
        let scene = Scene::new();
        let path = scene.source("sparse");
        let mut expected = vec![0; 700_000];
        expected[300_000..300_100].fill(7);
        let mut file = std::fs::File::create(&path).unwrap();
        crate::sys::allow_holes(&file);
        file.set_len(expected.len() as u64).unwrap();
        file.seek(SeekFrom::Start(300_000)).unwrap();
        file.write_all(&[7; 100]).unwrap();
        drop(file);
        let outcomes = scene.copy(vec![scene.entry("sparse")], shape);
        assert!(std::fs::read(scene.output("sparse")).unwrap() == expected);
        match &outcomes[0].outcome {
            Outcome::Published { digest, .. } => assert_eq!(*digest, Some(digest_of(&expected))),
            fate => panic!("{fate:?}"),
        }
        // Where the system does not tell where the holes are (Wine), only what goes through one block is searched.
        let file = std::fs::File::open(&path).unwrap();
        let is_mapped = crate::sys::next_extent(&file, 0, 700_000).unwrap().is_some();
        assert!(
            stat(&scene.output("sparse")).allocated <= stat(&path).allocated
                || !is_mapped && shape.0 < 700_000,
            "{shape:?}: the copy takes more room than the source"
        );
    }
}

#[test]
fn a_stopped_lane_leaves_nothing_and_says_so() {
    for shape in SHAPES {
        let scene = Scene::new();
        std::fs::write(scene.source("file"), content(5000)).unwrap();
        let entry = scene.entry("file");
        let stop = Stop::default();
        stop.request(130);
        let outcomes = scene.copy_unless(&stop, vec![entry], shape);
        assert!(
            matches!(&outcomes[..], [TransferResult { outcome: Outcome::Abandoned, .. }]),
            "{outcomes:?}"
        );
        assert!(scene.names_at_output().is_empty());
    }
}
