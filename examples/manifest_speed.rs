//! How long reading a manifest takes beside the least that it could take, and in how much memory.
//!
//! `cargo run --release --example manifest_speed [FILE] [ROUNDS]` reads FILE, which it first makes
//! if it is not there: 12 million lines, 1 GB (`/dev/shm/manifest_speed` unless told; remove it
//! afterwards). It prints, as the least of ROUNDS rounds (15 unless told) of taking turns, the
//! seconds of
//!
//! * `read`: reading the file through a buffer of the scanner's size, and nothing else;
//! * `memchr`: … and looking for the ends of lines;
//! * `bare`: … and decoding the digest on each: what no reader of manifests can do without;
//! * `scan`: the line scanner;
//! * `parse`: scanner and parser, which is what a check does;
//!
//! the ratio of the last to `bare`, and the largest size of the process's memory.
//!
//! Turns and the least, and on Linux the time on the processor rather than that on the clock,
//! because a machine that does other things delays each in its turn: what is left is what the work
//! itself takes.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::time::Instant;

use dircopy::internals::line;
use dircopy::internals::scan::{MAX_LINE, Scanner};
use dircopy::{Digest, Entries, Parsed, Sha256};
use memchr::memchr_iter;

const LINES: u64 = 12_000_000;

fn make(path: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(File::create_new(path)?);
    let mut text = Vec::new();
    for number in 0..LINES {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let digest =
            Digest::sha256(std::array::from_fn(|i| (mixed >> (i % 8 * 8)) as u8 ^ i as u8));
        text.clear();
        // 16.3 bytes on average, of lengths that differ, as names do.
        let name = format!("dir{:03}/{}.mxf", number / 50_000, number % (mixed >> 40).max(1));
        line::write_path(&mut text, &digest, name.as_bytes());
        out.write_all(&text)?;
    }
    out.flush()
}

/// Reads the file through a buffer of the scanner's size, keeping lines whole.
fn blocks(path: &Path, mut see: impl FnMut(&[u8]) -> usize) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; MAX_LINE + 1];
    let mut kept = 0;
    loop {
        let read = file.read(&mut buffer[kept..])?;
        if read == 0 {
            return Ok(());
        }
        let end = kept + read;
        let seen = see(&buffer[..end]);
        buffer.copy_within(seen..end, 0);
        kept = end - seen;
    }
}

fn read(path: &Path) -> io::Result<u64> {
    blocks(path, |bytes| black_box(bytes).len())?;
    Ok(0)
}

fn memchr(path: &Path) -> io::Result<u64> {
    let mut count = 0;
    blocks(path, |bytes| {
        let mut start = 0;
        for end in memchr_iter(b'\n', bytes) {
            start = end + 1;
            count += 1;
        }
        start
    })?;
    Ok(count)
}

fn bare(path: &Path) -> io::Result<u64> {
    let mut count = 0;
    blocks(path, |bytes| {
        let mut start = 0;
        for end in memchr_iter(b'\n', bytes) {
            let digits = bytes[start..end].get(..Sha256::HEX_LEN);
            black_box(digits.and_then(Sha256::from_hex));
            start = end + 1;
            count += 1;
        }
        start
    })?;
    Ok(count)
}

fn scan(path: &Path) -> io::Result<u64> {
    let mut scanner = Scanner::new(File::open(path)?);
    let mut count = 0;
    while let Some(line) = scanner.next_line()? {
        black_box(line);
        count += 1;
    }
    Ok(count)
}

fn parse(path: &Path) -> io::Result<u64> {
    let mut entries = Entries::new(File::open(path)?);
    let mut count = 0;
    while let Some(entry) = entries.next_entry()? {
        if let Parsed::Record(record) = entry.parsed {
            black_box(record);
            count += 1;
        }
    }
    Ok(count)
}

/// Seconds since some start: that this thread was on a processor, where the kernel tells.
fn now(start: Instant) -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or(start.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}

/// The largest size this process had, as the kernel tells it.
fn peak_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(peak.trim().to_owned())
}

type Pass = (&'static str, fn(&Path) -> io::Result<u64>);

const PASSES: [Pass; 5] =
    [("read", read), ("memchr", memchr), ("bare", bare), ("scan", scan), ("parse", parse)];

fn main() -> io::Result<()> {
    let mut args = std::env::args_os().skip(1);
    let path = args.next().unwrap_or_else(|| "/dev/shm/manifest_speed".into());
    let path = Path::new(&path);
    let rounds = args.next().and_then(|n| n.to_str()?.parse().ok()).unwrap_or(15);
    if !path.exists() {
        make(path)?;
    }
    let mut least = [f64::INFINITY; PASSES.len()];
    let mut counts = [0; PASSES.len()];
    let start = Instant::now();
    for _ in 0..rounds {
        for (at, (_, pass)) in PASSES.iter().enumerate() {
            let before = now(start);
            counts[at] = pass(path)?;
            least[at] = least[at].min(now(start) - before);
        }
    }
    let bytes = std::fs::metadata(path)?.len() as f64;
    for (at, (name, _)) in PASSES.iter().enumerate() {
        let (seconds, lines) = (least[at], counts[at]);
        println!("{name:<7} {seconds:.3} s  {:.2} GB/s  {lines} lines", bytes / seconds / 1e9);
    }
    println!("parse / bare: {:.2}", least[4] / least[2]);
    println!("peak memory: {}", peak_memory().unwrap_or_default());
    Ok(())
}
