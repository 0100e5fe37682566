//! The sums of a record, checked by a thread beside the one that reads its rows.
//!
//! SHA-256 of the rows takes longer than to index them, and nothing else of a run can begin before both are done:
//! 200,000 rows took 60 ms in one thread.

use std::fs::File;
use std::io::{self, Read};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::hash::{Algorithm, Hasher};
use crate::state::record::closed::{Body, Closed, sum_line};
use crate::sys::FileRange;

/// A record of fewer bytes is checked by the thread that reads it: starting another takes as long.
const BESIDE: u64 = 1 << 18;

/// So many sums wait at most; a run closes its rows about once a group.
const WAITING: usize = 64;

/// So much is read and hashed at a time, in bytes.
const PIECE: usize = 128 << 10;

/// A line that closes rows.
pub struct ClosingSum {
    /// Where it starts, in bytes.
    pub at: u64,
    pub line: Vec<u8>,
    /// What it closes, if it is right.
    pub closed: Closed,
}

/// Where sums are checked.
pub enum Sums<'scope> {
    Here(Box<SumCheck<'scope>>),
    Beside(Sender<ClosingSum>, ScopedJoinHandle<'scope, io::Result<SumCheck<'scope>>>),
}

impl<'scope> Sums<'scope> {
    /// Those of `file`, which has `len` bytes.
    pub fn start(scope: &'scope Scope<'scope, '_>, file: &'scope File, len: u64) -> Self {
        let (to_check, sums) = bounded(WAITING);
        let check = move || SumCheck::new(file).check_all(&sums);
        let start = || Builder::new().name("sums".into()).spawn_scoped(scope, check);
        let thread = (len >= BESIDE).then(start).and_then(Result::ok);
        thread.map_or_else(
            || Self::Here(Box::new(SumCheck::new(file))),
            |it| Self::Beside(to_check, it),
        )
    }

    /// Takes the next sum; false if one was wrong, and nothing behind it counts.
    ///
    /// # Errors
    /// What reading failed with.
    pub fn go_on(&mut self, sum: ClosingSum) -> io::Result<bool> {
        match self {
            Self::Here(check) => check.check(sum),
            Self::Beside(to_check, _) => Ok(to_check.send(sum).is_ok()),
        }
    }

    /// What the last good one closes, with all rows where it stands before the name of a manifest, and with what has
    /// hashed all that is closed.
    ///
    /// # Errors
    /// What reading failed with.
    pub fn end(self) -> io::Result<(Closed, Option<Body>, Hasher)> {
        let check = match self {
            Self::Here(check) => *check,
            Self::Beside(to_check, thread) => {
                drop(to_check);
                let died = |_| io::Error::other("the thread that checks its sums died");
                thread.join().map_err(died)??
            }
        };
        Ok((check.good, check.body, check.end))
    }
}

/// The state of a check.
pub struct SumCheck<'a> {
    /// What is hashed next.
    rest: FileRange<'a>,
    hasher: Hasher,
    room: Vec<u8>,
    good: Closed,
    body: Option<Body>,
    /// What has taken all that is closed.
    end: Hasher,
}

impl<'a> SumCheck<'a> {
    fn new(file: &'a File) -> Self {
        let (rest, hasher) = (FileRange::new(file, 0, 0), Algorithm::Sha256.start());
        let (good, end) = (Closed::default(), hasher.clone());
        Self { rest, hasher, room: Vec::new(), good, body: None, end }
    }

    fn check_all(mut self, sums: &Receiver<ClosingSum>) -> io::Result<Self> {
        for sum in sums {
            if !self.check(sum)? {
                break;
            }
        }
        Ok(self)
    }

    /// Whether a sum is right, and the end of what was read.
    fn check(&mut self, sum: ClosingSum) -> io::Result<bool> {
        let ClosingSum { at, line, closed } = sum;
        let is_good = self.hash_to(at)?
            && sum_line(&self.hasher, closed.rows).as_bytes().strip_suffix(b"\n") == Some(&line)
            && self.hash_to(closed.len)?;
        if is_good {
            if closed.names_none() {
                let (len, rows, hasher) = (closed.len, closed.rows, self.hasher.clone());
                self.body = Some(Body { len, rows, hasher });
            }
            (self.good, self.end) = (closed, self.hasher.clone());
        }
        Ok(is_good)
    }

    /// Hashes up to there; false if the file ends before.
    fn hash_to(&mut self, end: u64) -> io::Result<bool> {
        self.room.resize(PIECE, 0);
        self.rest.extend_to(end);
        while self.rest.left() > 0 {
            let read = self.rest.read(&mut self.room)?;
            if read == 0 {
                return Ok(false);
            }
            self.hasher.update(&self.room[..read]);
        }
        Ok(true)
    }
}
