//! SHA-256 by `sha2`, one stream, and by every backend this processor has, over several numbers of streams:
//! what each gains over the SHA instructions, or over nothing, and from how many streams on. The table in
//! `src/hash/multibuffer/mod.rs` has its figures from here.

// A benchmark that cannot set up its scene has nothing to say.
#![allow(clippy::expect_used)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dircopy::Backend;
use dircopy::internals::streams::{self, Stream};
use sha2::Digest;

fn bench(c: &mut Criterion) {
    for (count, len) in [(16u8, 4096usize), (16, 65_536), (12, 65_536), (8, 65_536), (2, 262_144)] {
        let contents: Vec<Vec<u8>> = (0..count).map(|i| vec![i; len]).collect();
        let mut group = c.benchmark_group(format!("{count} x {len}"));
        group.throughput(Throughput::Bytes((usize::from(count) * len) as u64));
        group.bench_function("sha2", |bencher| {
            bencher.iter(|| {
                for content in &contents {
                    black_box(sha2::Sha256::digest(black_box(content)));
                }
            });
        });
        for backend in Backend::all() {
            group.bench_function(format!("{backend:?}"), |bencher| {
                bencher.iter(|| {
                    let mut streams = vec![Stream::default(); contents.len()];
                    let mut work: Vec<_> =
                        streams.iter_mut().zip(contents.iter().map(Vec::as_slice)).collect();
                    streams::update(backend, black_box(&mut work));
                    for stream in streams {
                        black_box(stream.finish());
                    }
                });
            });
        }
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
