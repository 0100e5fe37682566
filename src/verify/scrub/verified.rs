//! What was verified when, kept between runs in the private directory (`docs/manifest.md`, M52). One of
//! another directory is not believed, nor is a time that is still to come.
//!
//! A line is known by a hash of its name and digest, not by its place in the manifest. So a manifest that
//! was replaced or grew takes nothing away: a file that is still listed with its digest is still verified.
//! All files of one run get one time, that of its start. A file that is not good loses its time.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};

use crate::hash::table::HashTable;
use crate::hash::{Digest, Sha256};
use crate::manifest::Scanner;
use crate::manifest::read::scan::Text;
use crate::path::RelPath;
use crate::state::private_dir::Mark;
use crate::sys::Uninterrupted;

/// The first line of the file.
const HEAD: &str = "dircopy-verified 2";

/// Runs of one second are given seconds that are still to come; nothing later is believed. In seconds.
const AHEAD: u32 = 24 * 3600;

/// What one scrub came to.
#[derive(Clone, Copy, Debug)]
pub struct Coverage {
    /// Lines that the manifest has, a repeated one counted once.
    pub listed: u64,
    /// Of these, those that this run found good.
    pub now: u64,
    /// … and those that were never found good, or were not good when they were looked at last.
    pub never: u64,
    /// When the one was found good that was not for the longest time, in seconds since 1970; `None` if
    /// there are some that never were.
    pub oldest: Option<u64>,
}

/// The files that one pass over the manifest is for, by what earlier runs say of them; in the order of
/// the passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pass {
    /// Not good when they were looked at last.
    Bad,
    /// Never looked at.
    New,
    /// Good at that time, in seconds since 1970.
    Good(u32),
}

/// What is known of the lines of a manifest, 16 bytes for each and the slack of a hash table.
#[derive(Debug, Default)]
pub struct Verified {
    /// By the hashes of lines.
    lines: HashTable<LastCheck>,
    /// The time of this run.
    now: u32,
}

/// What is known of a line.
#[derive(Clone, Copy, Debug, Default)]
struct LastCheck {
    /// When it was verified, in seconds since 1970; 0 for never, and for one that is bad.
    time: u32,
    /// Whether it was not good when it was looked at last.
    bad: bool,
    /// Whether this run has given it out.
    given: bool,
}

impl LastCheck {
    fn pass(self) -> Pass {
        match self {
            Self { bad: true, .. } => Pass::Bad,
            Self { time: 0, .. } => Pass::New,
            Self { time, .. } => Pass::Good(time),
        }
    }
}

impl Verified {
    /// The manifest has this line.
    pub fn list(&mut self, path: &RelPath, digest: &Digest) {
        self.lines.entry(key(path, digest)).or_default();
    }

    /// The passes that all lines need, in their order.
    pub fn passes(&self) -> BTreeSet<Pass> {
        self.lines.values().map(|line| line.pass()).collect()
    }

    /// Whether the line belongs to a pass and was not given out in it yet; it is from now on.
    pub fn give(&mut self, path: &RelPath, digest: &Digest, pass: Pass) -> bool {
        match self.lines.get_mut(&key(path, digest)) {
            Some(line) if line.pass() == pass && !line.given => {
                line.given = true;
                true
            }
            _ => false,
        }
    }

    /// A file was checked now.
    pub fn note(&mut self, path: &RelPath, digest: &Digest, good: bool) {
        let time = if good { self.now } else { 0 };
        if let Some(line) = self.lines.get_mut(&key(path, digest)) {
            (line.time, line.bad) = (time, !good);
        }
    }

    /// Reads what earlier runs kept of the lines that were listed. An error leaves nothing of it.
    ///
    /// # Errors
    /// It cannot be read, or is not such a file, or is cut off.
    pub fn recall(&mut self, file: File, mark: &Mark) -> io::Result<()> {
        let newest = self.read(file, mark).inspect_err(|_| {
            self.lines.values_mut().for_each(|line| *line = LastCheck::default());
        })?;
        self.begin(newest.saturating_add(1));
        Ok(())
    }

    /// The time of this run is `seconds` since 1970, unless it is later already: a run is later than those
    /// before it, whatever the clock says.
    pub fn begin(&mut self, seconds: u32) {
        self.now = self.now.max(seconds);
    }

    /// Returns the newest time in the file.
    fn read(&mut self, file: File, mark: &Mark) -> io::Result<u32> {
        let head = head(&mark.of_file(&file));
        let wrong = || io::Error::from(io::ErrorKind::InvalidData);
        let (mut scanner, mut number, mut newest) = (Scanner::new(file), 0_u64, 0);
        let latest = self.now.saturating_add(AHEAD);
        while let Some(line) = scanner.next_line()? {
            let (Text::Whole(text), true) = (line.text, line.ended) else { return Err(wrong()) };
            let text = std::str::from_utf8(text).map_err(|_| wrong())?;
            if line.number == 1 {
                if text != head {
                    return Err(wrong());
                }
                continue;
            }
            match text.split_once(' ').ok_or_else(wrong)? {
                ("end", end) if end.parse() == Ok(number) => return Ok(newest),
                (key, time) => {
                    let key = u64::from_str_radix(key, 16).map_err(|_| wrong())?;
                    let time: u32 = time.parse().map_err(|_| wrong())?;
                    number += 1;
                    if time > latest {
                        continue;
                    }
                    if let Some(line) = self.lines.get_mut(&key) {
                        (line.time, line.bad) = (time, time == 0);
                    }
                    newest = newest.max(time);
                }
            }
        }
        // It is cut off.
        Err(wrong())
    }

    /// Writes the file; a million lines are 27 MB.
    pub fn write(&self, file: &mut File, mark: &Mark) -> io::Result<()> {
        let head = head(&mark.of_file(file));
        let mut out = BufWriter::new(Uninterrupted(file));
        let (mut text, mut number) = (String::new(), 0);
        writeln!(out, "{head}")?;
        for (key, line) in self.lines.iter().filter(|(_, line)| line.pass() != Pass::New) {
            text.clear();
            // Writing to a string does not fail.
            let _ = writeln!(text, "{key:016x} {}", line.time);
            out.write_all(text.as_bytes())?;
            number += 1;
        }
        writeln!(out, "end {number}")?;
        out.flush()
    }

    /// What this run and those before it covered.
    pub fn coverage(&self) -> Coverage {
        let count = |time| self.lines.values().filter(|line| line.time == time).count() as u64;
        let (now, never) = (count(self.now), count(0));
        let oldest = self.lines.values().map(|line| u64::from(line.time)).min();
        let oldest = oldest.filter(|time| *time > 0);
        Coverage { listed: self.lines.len() as u64, now, never, oldest }
    }
}

fn head(mark: &Mark) -> String {
    format!("{HEAD} {}", mark.text())
}

/// The hash of a line: the first 64 bits of the SHA-256 of the digest's bytes and name.
fn key(path: &RelPath, digest: &Digest) -> u64 {
    let Sha256([a, b, c, d, e, f, g, h, ..]) = Sha256::of(&[digest.bytes(), path.as_bytes()]);
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
impl Verified {
    /// When a line was verified.
    pub fn time_of(&self, path: &RelPath, digest: &Digest) -> Option<u32> {
        self.lines.get(&key(path, digest)).map(|line| line.time)
    }
}
