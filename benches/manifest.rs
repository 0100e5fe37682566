//! How fast manifests are read, beside the least that reading them could take.
//!
//! `scan` and `parse` are ours; `memchr` only counts line ends in memory; `hex` finds them and
//! decodes the digests, which no reader can do without, and `hex buffered` does so through a buffer,
//! as a file must be read; `read_until` is what the standard library offers. The manifest lies in
//! memory, so a disk has no part in it.

// A benchmark that cannot be set up may say so by stopping.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::io::BufRead;
use std::time::Duration;

use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use dircopy::internals::line;
use dircopy::internals::scan::{MAX_LINE, Scanner, Separator};
use dircopy::{Digest, Entries, Parsed, Sha256};
use memchr::memchr_iter;

/// About how many bytes of manifest a measurement reads: more than the caches near the core hold.
const SIZE: usize = 64 << 20;

/// Manifests by the lengths of their names, in bytes.
const SHAPES: [(&str, usize); 3] = [("short", 4), ("typical", 44), ("long", 4000)];

fn manifest(name_len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SIZE + 8192);
    let mut number = 0u64;
    while bytes.len() < SIZE {
        let digest =
            Digest::sha256(std::array::from_fn(|i| (number.wrapping_mul(0x9e37) >> (i % 8)) as u8));
        let name = format!("{number:0>name_len$}");
        line::write_path(&mut bytes, &digest, &name.as_bytes()[name.len() - name_len..]);
        number += 1;
    }
    bytes
}

fn memchr_pass(bytes: &[u8]) -> usize {
    memchr_iter(b'\n', bytes).count()
}

/// Line ends and digests, and nothing else.
fn hex_pass(bytes: &[u8]) {
    let mut start = 0;
    for end in memchr_iter(b'\n', bytes) {
        black_box(Sha256::from_hex(&bytes[start..start + Sha256::HEX_LEN]));
        start = end + 1;
    }
}

/// The same through a buffer, as a file has to be read; a line that a read cuts in two is lost.
fn hex_pass_buffered(bytes: &[u8]) {
    let mut buffer = vec![0; MAX_LINE + 1];
    for piece in bytes.chunks(buffer.len()) {
        let buffer = &mut buffer[..piece.len()];
        buffer.copy_from_slice(piece);
        let mut start = 0;
        for end in memchr_iter(b'\n', buffer) {
            black_box(buffer.get(start..start + Sha256::HEX_LEN).and_then(Sha256::from_hex));
            start = end + 1;
        }
    }
}

fn scan(bytes: &[u8], limit: usize) -> usize {
    let mut scanner = Scanner::with(bytes, Separator::Lf, limit);
    let mut count = 0;
    while let Some(line) = scanner.next_line().unwrap() {
        black_box(line);
        count += 1;
    }
    count
}

fn parse(bytes: &[u8]) -> usize {
    let mut entries = Entries::new(bytes);
    let mut count = 0;
    while let Some(entry) = entries.next_entry().unwrap() {
        if let Parsed::Record(record) = black_box(entry.parsed) {
            count += record.name.len();
        }
    }
    count
}

fn read_until(bytes: &[u8]) -> usize {
    // A `BufReader` around it, as around a file: a slice alone would not copy.
    let mut reader = std::io::BufReader::with_capacity(MAX_LINE + 1, bytes);
    let mut line = Vec::new();
    let mut count = 0;
    while reader.read_until(b'\n', &mut line).unwrap() > 0 {
        black_box(&line);
        line.clear();
        count += 1;
    }
    count
}

fn reading(c: &mut Criterion) {
    for (shape, name_len) in SHAPES {
        let bytes = manifest(name_len);
        let mut group = c.benchmark_group(format!("manifest/{shape}"));
        settle(&mut group, bytes.len());
        group.bench_function("memchr", |b| b.iter(|| memchr_pass(&bytes)));
        group.bench_function("hex", |b| b.iter(|| hex_pass(&bytes)));
        group.bench_function("hex buffered", |b| b.iter(|| hex_pass_buffered(&bytes)));
        group.bench_function("scan", |b| b.iter(|| scan(&bytes, MAX_LINE)));
        group.bench_function("parse", |b| b.iter(|| parse(&bytes)));
        group.bench_function("read_until", |b| b.iter(|| read_until(&bytes)));
        group.finish();
    }
}

fn buffers(c: &mut Criterion) {
    let bytes = manifest(44);
    let mut group = c.benchmark_group("manifest/buffer");
    settle(&mut group, bytes.len());
    for kib in [16, 64, 256, 1024, 4096] {
        let limit = kib * 1024 - 1;
        group.bench_function(format!("{kib} KiB"), |b| b.iter(|| scan(&bytes, limit)));
    }
    group.finish();
}

fn digests(c: &mut Criterion) {
    let digest = Sha256(std::array::from_fn(|i| (i * 37 + 1) as u8));
    let hex = digest.to_hex();
    let mut group = c.benchmark_group("manifest/digest");
    group.throughput(Throughput::Bytes(Sha256::HEX_LEN as u64));
    group.bench_function("from_hex", |b| b.iter(|| Sha256::from_hex(black_box(&hex))));
    group.bench_function("to_hex", |b| b.iter(|| black_box(digest).to_hex()));
    group.finish();
}

fn settle(group: &mut BenchmarkGroup<criterion::measurement::WallTime>, bytes: usize) {
    group.throughput(Throughput::Bytes(bytes as u64));
    group.sample_size(10);
    group.warm_up_time(Duration::from_millis(500));
    group.measurement_time(Duration::from_secs(2));
}

criterion_group!(benches, reading, buffers, digests);
criterion_main!(benches);
