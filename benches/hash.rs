//! SHA-256 by `sha2`, one stream, and by every backend this processor has, as many streams as it has
//! lanes: what the vector registers gain over the SHA instructions, or over nothing.

// A benchmark that cannot set up its scene has nothing to say.
#![allow(clippy::expect_used)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dircopy::Backend;
use dircopy::internals::streams::{self, Stream};
use sha2::Digest;

fn bench(c: &mut Criterion) {
    for len in [4096usize, 65_536] {
        let contents: Vec<Vec<u8>> = (0..16).map(|i| vec![i; len]).collect();
        let mut group = c.benchmark_group(format!("16 x {len}"));
        group.throughput(Throughput::Bytes((16 * len) as u64));
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
                    let mut streams = vec![Stream::default(); 16];
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
