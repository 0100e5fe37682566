//! Holding what was planned against what was recorded, file by file, and writing the lines of the manifest from it.

use std::thread::scope;

use crate::cluster::directory::departed::{Presence, SourceSearch};
use crate::cluster::directory::done::{DoneFile, DoneReader, LINE_END, NextDone};
use crate::cluster::directory::plan_dir::{LIST_END, PlanDir, Seal};
use crate::cluster::end::line_blocks::LineBlocks;
use crate::cluster::end_list::{FurtherName, LINKS};
use crate::cluster::pack::sum_of_all;
use crate::error::{Error, Result};
use crate::event::{Event, EventObserver};
use crate::hash::{Digest, Sha256};
use crate::manifest::line;
use crate::manifest::summed::SummedReader;
use crate::manifest::summed::ahead::ReadAhead;
use crate::manifest::writer::ManifestFile;
use crate::path::RelPath;
use crate::tree::names::order::compare;
use crate::tree::names::planned::planned_size;

/// What cannot be done where something is wrong.
pub const DEED: &str = "finish the plan";

/// What is wrong with a plan whose lists are not what its seal says, and what helps.
pub const OTHER_LISTS: &str = "its lists are not those that it was made with: make a new plan";

const LOST: &str = "it is missing from the record of its shard";
const TWICE: &str = "it is recorded twice";
const UNPLANNED: &str = "it is recorded and was not planned";

/// What was planned and what was recorded, side by side.
pub struct RecordCheck<'a> {
    pub plan: &'a PlanDir,
    pub observer: &'a EventObserver<'a>,
    /// Further names that could not be made.
    pub unmade: &'a std::collections::BTreeSet<Vec<u8>>,
    pub lines: LineBlocks,
    pub search: SourceSearch,
    pub gone: u64,
    /// The shards whose record is not what was planned.
    pub wrong: Vec<u32>,
}

/// The lists and the records of the shards.
struct Ahead {
    lists: ReadAhead,
    done: ReadAhead,
}

/// The further names of files, in the order of the shards that have the first.
struct PlannedLinks {
    list: SummedReader,
    next: Option<FurtherName>,
}

impl RecordCheck<'_> {
    /// Writes the lines of all shards to `manifest`; whether everything that was planned is recorded, once. Lists and
    /// records are read and hashed, and lines written, by threads of their own.
    pub fn write_all(&mut self, seal: &Seal, manifest: &mut ManifestFile) -> Result<bool> {
        let plan = self.plan;
        let (lists, records) =
            ((0..seal.shards).map(|it| plan.list(it)), (0..seal.shards).map(|it| plan.done(it)));
        let sums = scope(|scope| {
            let fail = |error| Error::io("start the threads for", &plan.path, error);
            let lists = ReadAhead::start(scope, lists).map_err(fail)?;
            let done = ReadAhead::start(scope, records).map_err(fail)?;
            let writing = self.lines.start(scope, manifest).map_err(fail)?;
            let sums = self.write_shards(seal, Ahead { lists, done });
            self.lines.end();
            let died = "the thread that writes it died; this is a defect of dircopy";
            let written = writing.join();
            written.unwrap_or_else(|_| Err(Error::finding("write the manifest", "", died)))?;
            sums
        })?;
        let Some((sums, is_further_left)) = sums else { return Ok(false) };
        let is_whole =
            self.wrong.is_empty() && !is_further_left && sum_of_all(sums) == seal.shards_sum;
        if self.wrong.is_empty() && !is_whole {
            let error = Error::finding(DEED, &self.plan.path, OTHER_LISTS);
            (self.observer.listen)(&Event::Failed(&error));
        }
        Ok(is_whole)
    }

    /// Writes the lines of all shards: the sums of their lists, and whether there are names of files that are in none.
    /// `None` if it was to stop.
    fn write_shards(
        &mut self,
        seal: &Seal,
        mut ahead: Ahead,
    ) -> Result<Option<(Vec<Digest>, bool)>> {
        let mut links = PlannedLinks::open(self.plan)?;
        let mut sums = Vec::new();
        for shard in 0..seal.shards {
            match self.write_shard(shard, &mut ahead, &mut links) {
                Ok(sum) => sums.push(sum),
                Err(error) => {
                    self.wrong.push(shard);
                    let text = format!("; shard {shard} is to be run again");
                    (self.observer.listen)(&Event::Failed(&error.with_note(text)));
                }
            }
            if self.observer.stop.is_requested() || self.lines.is_cut {
                return Ok(None);
            }
        }
        Ok(Some((sums, links.next.is_some())))
    }

    /// Writes the lines of a shard; the sum of its list.
    fn write_shard(
        &mut self,
        shard: u32,
        ahead: &mut Ahead,
        links: &mut PlannedLinks,
    ) -> Result<Digest> {
        let list = self.plan.list(shard);
        let header = self.plan.list_header(shard);
        // Both go on to their next file, also if one of them is not what it should be.
        let planned = SummedReader::open_next(&mut ahead.lists, &list, LIST_END, &header);
        let done = DoneReader::open_next(&mut ahead.done, self.plan, shard);
        let (mut planned, mut done) = (planned?, done?);
        let (mut bytes, mut last) = (0_u64, Vec::new());
        while planned.advance()? {
            let parsed = planned_size(planned.record());
            let parsed = parsed.and_then(|(size, path)| Some((size, RelPath::check(path).ok()?)));
            let Some((size, path)) = parsed else {
                return Err(planned.torn("a name in it leads out of the tree, or is none"));
            };
            let start = self.lines.text.len();
            match done.next_for(path)? {
                Some(NextDone::Line(line)) => {
                    bytes = bytes.saturating_add(size);
                    self.lines.text.extend_from_slice(line);
                    self.lines.text.push(LINE_END);
                }
                Some(NextDone::Other(found)) if found.path().as_bytes() == path => match found {
                    DoneFile::Listed(_, digest, changed) => {
                        bytes = bytes.saturating_add(changed.unwrap_or(size));
                        line::write_path(&mut self.lines.text, &Digest::from(digest), path);
                    }
                    DoneFile::Gone(path) => self.departed(&path, shard)?,
                },
                found => return Err(self.not_planned(path, found, &last)),
            }
            self.write_further(shard, path, start, links)?;
            if self.lines.is_full() {
                self.lines.hand_on();
            }
            last.clear();
            last.extend_from_slice(path);
        }
        if let Some(more) = done.next_file()? {
            let is_twice = more.path().as_bytes() == last;
            return Err(self.wrong_record(more.path(), if is_twice { TWICE } else { UNPLANNED }));
        }
        if done.trailer().is_none_or(|trailer| trailer.bytes != bytes) {
            let finding = "its files have another size than planned";
            return Err(Error::finding("find the record of", list, finding));
        }
        planned.trailer().map(|trailer| trailer.sum).ok_or_else(|| planned.torn("it has no end"))
    }

    /// Writes the lines of a file's further names with the digest of its own, which begins at `start` if there is one.
    fn write_further(
        &mut self,
        shard: u32,
        path: &[u8],
        start: usize,
        links: &mut PlannedLinks,
    ) -> Result<()> {
        while let Some(name) = links.next_of(shard, path)? {
            let line = &self.lines.text[start..];
            let hex = line.strip_prefix(b"\\").unwrap_or(line);
            let digest = hex.get(..Sha256::HEX_LEN).and_then(Sha256::from_hex);
            if let Some(digest) = digest.filter(|_| !self.unmade.contains(name.path.as_bytes())) {
                line::write_path(&mut self.lines.text, &Digest::from(digest), name.path.as_bytes());
            }
        }
        Ok(())
    }

    /// Why `found`, after the file at `last`, is not what is recorded of the file at `path`.
    fn not_planned(&self, path: &[u8], found: Option<NextDone<'_>>, last: &[u8]) -> Error {
        let path = RelPath::parse(path).unwrap_or_default();
        match found {
            Some(NextDone::Other(found)) => {
                match compare(path.as_bytes(), found.path().as_bytes()).is_lt() {
                    true => self.wrong_record(&path, LOST),
                    false if found.path().as_bytes() == last => {
                        self.wrong_record(found.path(), TWICE)
                    }
                    false => self.wrong_record(found.path(), UNPLANNED),
                }
            }
            _ => self.wrong_record(&path, LOST),
        }
    }

    fn wrong_record(&self, path: &RelPath, finding: &'static str) -> Error {
        Error::finding("find the record of", path.full_path(&self.plan.plan.output), finding)
    }

    /// A file had left the source when its shard came to it: tells it, unless it is back.
    fn departed(&mut self, path: &RelPath, shard: u32) -> Result<()> {
        let source = path.full_path(&self.plan.plan.source);
        let finding = match self.search.look(path) {
            Presence::There => {
                let finding = "it was not in the source when its shard was run, and is there now";
                return Err(Error::finding("finish without", source, finding));
            }
            Presence::Away => "it has left the source since it was planned, or is away for a while",
            Presence::Gone | Presence::Unknown => "it has left the source since it was planned",
        };
        self.gone += 1;
        let error = Error::finding("copy", source, format!("{finding} (shard {shard})"));
        (self.observer.listen)(&Event::Failed(&error));
        Ok(())
    }
}

impl PlannedLinks {
    fn open(plan: &PlanDir) -> Result<Self> {
        let header = plan.end_header(LINKS);
        let list = SummedReader::open(&plan.end_list(LINKS), LIST_END, &header)?;
        let mut names = Self { list, next: None };
        names.advance()?;
        Ok(names)
    }

    fn advance(&mut self) -> Result<()> {
        self.next = match self.list.next_record()? {
            None => None,
            Some(record) => {
                let torn = "a name in it leads out of the tree, or is none";
                let parsed = FurtherName::parse(record);
                Some(parsed.ok_or_else(|| self.list.torn(torn))?)
            }
        };
        Ok(())
    }

    /// The next name of the file at `path`, if that is what comes next.
    fn next_of(&mut self, shard: u32, path: &[u8]) -> Result<Option<FurtherName>> {
        let is_of = |name: &mut FurtherName| name.shard == shard && name.first.as_bytes() == path;
        let Some(name) = self.next.take_if(is_of) else { return Ok(None) };
        self.advance()?;
        Ok(Some(name))
    }
}
