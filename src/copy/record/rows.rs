//! Rows of the private record that wait until the clock of their file system puts them beyond doubt.

use crate::hash::Digest;
use crate::state::row::Row;
use crate::sys::stat::Time;

/// So many bytes of rows wait at most: a clock that stands still is not waited for.
const MOST_WAITING: usize = 4 << 20;

/// Rows that wait to be written.
#[derive(Default)]
pub struct PendingRows {
    text: Vec<u8>,
    number: u64,
    /// Those of files that this run made.
    fresh: Vec<FreshRow>,
}

/// The row of a file that this run made.
struct FreshRow {
    start: usize,
    /// How many rows stand before it.
    before: u64,
    /// When the file was last changed.
    changed: Time,
}

impl PendingRows {
    /// Adds the row of the file at `path`, whose content has these further digests; `fresh` if the file was changed by
    /// this run.
    pub fn push(&mut self, row: &Row, further: &[Digest], path: &[u8], fresh: bool) {
        self.note(row, fresh);
        row.write(&mut self.text, further, path);
    }

    /// The same of a file whose line of a manifest is at hand.
    pub fn push_before(&mut self, row: &Row, further: &[Digest], line: &[u8], fresh: bool) {
        self.note(row, fresh);
        row.write_before(&mut self.text, further, line);
    }

    fn note(&mut self, row: &Row, fresh: bool) {
        if fresh && row.sure {
            let (start, before, changed) = (self.text.len(), self.number, row.trace.ctime);
            self.fresh.push(FreshRow { start, before, changed });
        }
        self.number += 1;
    }

    /// These, and behind them `later` ones.
    pub fn and(mut self, later: Self) -> Self {
        if self.number == 0 {
            return later;
        }
        let (start, before) = (self.text.len(), self.number);
        self.text.extend_from_slice(&later.text);
        self.number += later.number;
        self.fresh.extend(later.fresh.into_iter().map(|row| FreshRow {
            start: row.start + start,
            before: row.before + before,
            ..row
        }));
        self
    }

    /// Takes out what a clock that says `now` puts beyond doubt; the rest waits on.
    pub fn take_settled(&mut self, now: Option<Time>) -> (Vec<u8>, u64) {
        let Some(now) = now.filter(|_| self.text.len() <= MOST_WAITING) else {
            return self.take_all(now);
        };
        let is_open = |fresh: &FreshRow| fresh.changed >= now;
        let Some(first) = self.fresh.iter().position(is_open) else {
            let Self { text, number, .. } = std::mem::take(self);
            return (text, number);
        };
        let waiting = self.fresh.split_off(first);
        let FreshRow { start, before, .. } = waiting[0];
        let shifted = waiting.into_iter().map(|row| FreshRow {
            start: row.start - start,
            before: row.before - before,
            ..row
        });
        let rest = Self {
            text: self.text.split_off(start),
            number: self.number - before,
            fresh: shifted.collect(),
        };
        (std::mem::replace(self, rest).text, before)
    }

    /// Takes out everything; what the clock does not put beyond doubt is written as doubtful.
    pub fn take_all(&mut self, now: Option<Time>) -> (Vec<u8>, u64) {
        let Self { mut text, number, fresh } = std::mem::take(self);
        for row in fresh.iter().filter(|row| now.is_none_or(|now| row.changed >= now)) {
            Row::doubt(&mut text[row.start..]);
        }
        (text, number)
    }

    /// When the last of the waiting files was changed.
    pub fn latest(&self) -> Option<Time> {
        self.fresh.iter().map(|row| row.changed).max()
    }
}
