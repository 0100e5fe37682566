//! The road that data takes, in memory: what a change to walker, lanes or committer did, without a
//! disk in the way. Whole programs are compared by `compare.sh`.
//!
//! Every copy goes to a fresh directory on `/dev/shm` (elsewhere: the temporary directory), made and
//! removed outside of what is timed.

// A benchmark that cannot set up its scene has nothing to say.
#![allow(clippy::expect_used)]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use dircopy::{
    Algorithm, CopyJob, DEFAULT_LAG, Ending, Event, Observer, OutputJob, Report, copy_to_all,
};
use tempfile::TempDir;

fn scratch() -> TempDir {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { TempDir::new_in(shm) } else { TempDir::new() }
        .expect("room for the benchmark")
}

/// A tree of `count` files of `len` bytes in directories of 500.
fn tree(count: usize, len: usize) -> TempDir {
    let dir = scratch();
    let content: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
    for i in 0..count {
        let sub = dir.path().join(format!("d{}", i / 500));
        std::fs::create_dir_all(&sub).expect("a directory of the source");
        std::fs::write(sub.join(format!("file-{i}")), &content).expect("a file of the source");
    }
    dir
}

fn copy(source: &Path, output: PathBuf, change: impl Fn(&mut CopyJob)) -> Report {
    let mut job = CopyJob::new(source, output);
    job.options.sync = false;
    change(&mut job);
    let report = job.run(&Observer::new(|_: &Event<'_>| {})).expect("a copy");
    assert!(matches!(report.ending, Ending::Complete), "{:?}", report.ending);
    report
}

/// What the one thread of the committer takes of a run by itself: it is not to bind before many workers do. Durable
/// files get their names by it, others come to it with theirs.
fn committer(c: &mut Criterion) {
    const FILES: u32 = 50_000;
    let source = tree(FILES as usize, 16);
    let mut group = c.benchmark_group("committer alone");
    group.sample_size(10).throughput(Throughput::Elements(FILES.into()));
    for (name, sync) in [("of published files", false), ("of durable files", true)] {
        let busy = || {
            let output = scratch();
            let report =
                copy(source.path(), output.path().join("output"), |job| job.options.sync = sync);
            report.stages.commit.busy
        };
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|times| (0..times).map(|_| busy()).sum::<Duration>());
        });
    }
}

/// What outputs cost each other that share a reading: twice the work of one, and the hub.
fn hub(c: &mut Criterion) {
    for (name, count, len) in [("hub, many-small", 20_000, 4096), ("hub, large", 4, 128 << 20)] {
        let source = tree(count, len);
        let mut group = c.benchmark_group(name);
        group.sample_size(10).throughput(Throughput::Elements(count as u64));
        for outputs in [1, 2, 4] {
            let copy = |dir: TempDir| {
                let job = |number| {
                    let mut job = CopyJob::new(source.path(), dir.path().join(format!("{number}")));
                    (job.options.sync, job.options.algorithm) = (false, Algorithm::Xxh3);
                    job
                };
                let jobs: Vec<CopyJob> = (0..outputs).map(job).collect();
                let observers: Vec<_> =
                    jobs.iter().map(|_| Observer::new(|_: &Event<'_>| {})).collect();
                let outputs = jobs.iter().zip(&observers);
                let outputs: Vec<_> =
                    outputs.map(|(job, observer)| OutputJob { job, observer }).collect();
                let ran = copy_to_all(&outputs, DEFAULT_LAG).expect("copies");
                assert!(ran.iter().flatten().all(|it| matches!(it.ending, Ending::Complete)));
                dir
            };
            group.bench_function(format!("{outputs} outputs"), |bencher| {
                bencher.iter_batched(scratch, copy, BatchSize::PerIteration);
            });
        }
    }
}

fn bench(c: &mut Criterion) {
    for (name, count, len) in
        [("one-large", 1, 256 << 20), ("few-medium", 64, 1 << 20), ("many-small", 5000, 4096)]
    {
        let source = tree(count, len);
        let mut group = c.benchmark_group(name);
        group.sample_size(10).throughput(Throughput::Bytes((count * len) as u64));
        let mut variant = |variant: &str, change: &dyn Fn(&mut CopyJob)| {
            group.bench_function(variant, |bencher| {
                bencher.iter_batched(
                    scratch,
                    |output| {
                        black_box(copy(source.path(), output.path().join("output"), change));
                        output
                    },
                    BatchSize::PerIteration,
                );
            });
        };
        variant("sha256", &|_| {});
        variant("none", &|job| job.options.algorithm = Algorithm::None);
        variant("one lane", &|job| job.workers = Some(1));
        for block_size in [64 << 10, 1 << 20] {
            variant(&format!("{} KiB blocks", block_size >> 10), &|job| {
                job.options.block_size = block_size
            });
        }
    }
}

criterion_group!(benches, bench, committer, hub);
criterion_main!(benches);
