//! One line of a private record: a file as a run left it, and the digest of its content.
//!
//! `FLAGS INODE SIZE MTIME CTIME ` and the file's line of a manifest behind them, so that whatever reads
//! manifests reads records too. Numbers are hexadecimal; a time is seconds, a point and nanoseconds,
//! seconds before 1970 in two's complement. At an output where files have no change time, `CTIME` is that of the
//! source: nothing there is believed by it. The flags are three letters:
//!
//! | place | letter | meaning |
//! |---|---|---|
//! | 1 | `s` `e` `t` | the digest is of what was read from the source; which was an edit; or only of what stood there |
//! | 2 | `=` `?` | any later change shows in the change time, or one in the same clock tick may not |
//! | 3 | `-` `m` `l` `b` | nothing is missing; or the modification time could not be set, or labels, or both |
//!
//! Labels are permissions, owner and attributes.
//!
//! Behind the flags may stand `,in:EPOCH`, in which the file was recorded (`plugs`); `,at:TIME`, the change time of the
//! source's file when it was read (`,st:TIME` if a later change may have the same); `,by:TIME`, that when its label was
//! compared, if it was another; further digests of the content, each as `,NAME:DIGEST`; and `,of:TIME`: the time that
//! the file was given, that of its source, where `MTIME` is what became of it. Earlier versions take a row with some
//! for one in doubt.

use std::{ffi::OsStr, io, io::Read, io::Seek, io::SeekFrom};

use crate::{
    hash::Algorithm, hash::Digest, hash::Hasher, hash::Sha256, manifest::lists, state::Mark,
    state::PrivateDir, sys, sys::Dir, sys::FileRange, sys::Uninterrupted, sys::stat::Kind,
    sys::stat::Stat, sys::stat::Time,
};

/// Where a digest is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From the source, which was read.
    Source,
    /// The same, and it was not as expected: it had been edited.
    Edited,
    /// Only from what stood at the output.
    There,
}

/// The properties that tell a file that was not touched from one that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Trace {
    pub ino: u64,
    /// The size in bytes.
    pub size: u64,
    /// When the content changed.
    pub mtime: Time,
    /// When anything of the file changed.
    pub ctime: Time,
}

impl Trace {
    /// That of a file that could not be looked at: only the digest of its row is known.
    pub const UNKNOWN: Self = {
        let time = Time { secs: 0, nanos: 0 };
        Self { ino: 0, size: 0, mtime: time, ctime: time }
    };

    /// That of a file.
    pub fn of(stat: &Stat) -> Self {
        let Stat { size, mtime, ctime, id, .. } = *stat;
        Self { ino: id.ino, size, mtime, ctime }
    }

    /// True if a file of this trace is there, untouched.
    pub fn is_of(&self, there: &Stat) -> bool {
        there.kind == Kind::File && *self == Self::of(there)
    }

    /// True if the file that is there may be the one of this trace: it has the size and the modification time, if these
    /// are known.
    pub fn looks_like(&self, there: &Stat) -> bool {
        let is_alike = (self.size, self.mtime) == (there.size, there.mtime);
        there.kind == Kind::File && (is_alike || *self == Self::UNKNOWN)
    }
}

/// The change times that the source's file had when runs looked at it, as far as they are known: any other one is of a
/// change that no run has seen, whatever became of the copy since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenAt {
    /// When its content was read.
    pub content: Option<Time>,
    /// True if it may have been changed again since, within the same step of its file system's clock: this time would
    /// not show that.
    pub in_step: bool,
    /// When its label was compared with that of the copy, if that was at another time.
    pub label: Option<Time>,
}

impl SeenAt {
    /// The same, where the label was last compared as `other` says.
    #[must_use]
    pub fn labelled_as(self, other: SeenAt) -> Self {
        Self { label: other.label().filter(|at| self.label() != Some(*at)), ..self }
    }

    /// When the label was compared, if it is known that a later change has another time.
    pub fn label(self) -> Option<Time> {
        self.label.or(self.content.filter(|_| !self.in_step))
    }
}

/// A record's entry for a file, its name left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The digest of its content.
    pub digest: Digest,
    /// Where the digest is from.
    pub origin: Origin,
    /// As what it was left.
    pub trace: Trace,
    /// The time of the source's file that had this content, where the file shows another, or where one that is shown
    /// may stand for many.
    pub given: Option<Time>,
    /// True if any change since then shows in the trace.
    pub sure: bool,
    /// True if its modification time could not be set.
    pub late: bool,
    /// True if its permissions, its owner and its attributes could be read and set.
    pub labelled: bool,
    /// When the source's file was seen.
    pub seen: SeenAt,
    /// The [epoch](crate::state::plugs) of the output in which it was recorded; 0 if that is not known.
    pub epoch: u32,
}

/// The most digits of a number.
const MOST_DIGITS: usize = 16;

/// Number of flags.
const FLAGS: usize = 3;

/// Number of fields before the line of a manifest.
const FIELDS: usize = 5;

/// The shortest line there can be, in bytes with its end: of each number a digit, and of the name a letter.
pub const SHORTEST: u64 = (b"s=- 0 0 0.0 0.0 ".len() + 16 + b"  n\n".len()) as u64;

impl Row {
    /// Appends the line of the file at `path`, whose content has these further digests.
    pub fn write(&self, out: &mut Vec<u8>, further: &[Digest], path: &[u8]) {
        self.write_fields(out, further);
        lists::write_known(out, &self.digest, path);
    }

    /// The same, where `line` is the file's line of a manifest.
    pub fn write_before(&self, out: &mut Vec<u8>, further: &[Digest], line: &[u8]) {
        self.write_fields(out, further);
        out.extend_from_slice(line);
    }

    fn write_fields(&self, out: &mut Vec<u8>, further: &[Digest]) {
        let Trace { ino, size, mtime, ctime } = self.trace;
        out.push(match self.origin {
            Origin::Source => b's',
            Origin::Edited => b'e',
            Origin::There => b't',
        });
        out.push(if self.sure { b'=' } else { b'?' });
        out.push(match (self.late, self.labelled) {
            (false, true) => b'-',
            (true, true) => b'm',
            (false, false) => b'l',
            (true, false) => b'b',
        });
        if self.epoch > 0 {
            write_epoch(out, self.epoch);
        }
        let SeenAt { content, in_step, label } = self.seen;
        let content_at = if in_step { CONTENT_IN_STEP } else { CONTENT_AT };
        for (mark, at) in [(content_at, content), (LABEL_AT, label)] {
            if let Some(at) = at {
                out.extend_from_slice(mark);
                write_time(out, at);
            }
        }
        for digest in further {
            out.push(b',');
            out.extend_from_slice(digest.algorithm().name().as_bytes());
            out.push(b':');
            digest.write(out);
        }
        if let Some(given) = self.given {
            out.extend_from_slice(GIVEN);
            write_time(out, given);
        }
        for number in [ino, size] {
            out.push(b' ');
            write_hex(out, number);
        }
        for time in [mtime, ctime] {
            out.push(b' ');
            write_time(out, time);
        }
        out.push(b' ');
    }

    /// True if the file, if it is untouched, is as the source's file is, and was since it was copied.
    pub fn is_copy_of(&self, source: &Stat) -> bool {
        let given = self.given.unwrap_or(self.trace.mtime);
        source.kind == Kind::File
            && (source.size, source.mtime) == (self.trace.size, given)
            && source.ctime < self.trace.ctime
            && self.seen.content.is_none_or(|at| source.ctime == at && !self.seen.in_step)
    }

    /// True if the file that is there is the one of this row, as a run left it.
    pub fn proves(&self, there: &Stat) -> bool {
        self.sure && !self.late && self.trace.is_of(there)
    }

    /// A line that was written of a file that may have been changed unseen.
    pub fn doubt(line: &mut [u8]) {
        if let Some(sure) = line.get_mut(1) {
            *sure = b'?';
        }
    }

    /// Reads what stands before the digest of a line; the digest is known already.
    pub fn read(line: &[u8], digest: Digest) -> Option<Self> {
        let &[origin, sure, missing, ref behind @ ..] = line else { return None };
        let (epoch, behind) = read_epoch(behind)?;
        let (seen, behind) = read_seen(behind)?;
        let (given, numbers) = match behind.first()? {
            b' ' => (None, behind),
            // Further digests, and the time that the file was given behind them.
            b',' => {
                let (more, numbers) = behind.split_at(memchr::memchr(b' ', behind)?);
                let given = memchr::memmem::find(more, GIVEN).map(|at| at + GIVEN.len());
                // Its end is that of all of these.
                let given = given.map(|at| Numbers(behind.get(at..).unwrap_or_default()).time());
                (given.map_or(Some(None), |given| given.map(Some))?, numbers)
            }
            _ => return None,
        };
        let mut numbers = Numbers(numbers.get(1..)?);
        let (ino, size) = (numbers.next(b' ')?, numbers.next(b' ')?);
        let (mtime, ctime) = (numbers.time()?, numbers.time()?);
        Some(Self {
            digest,
            origin: match origin {
                b's' => Origin::Source,
                b'e' => Origin::Edited,
                b't' => Origin::There,
                _ => return None,
            },
            trace: Trace { ino, size, mtime, ctime },
            given,
            sure: flag(sure, b"=", b"?")?,
            late: flag(missing, b"mb", b"-l")?,
            labelled: flag(missing, b"-m", b"lb")?,
            seen,
            epoch,
        })
    }
}

/// The mark before the time that a file was given, …
const GIVEN: &[u8] = b",of:";

/// … and before the epoch in which it was recorded.
const EPOCH: &[u8] = b",in:";

/// … and before the change times of the source's file.
const CONTENT_AT: &[u8] = b",at:";
const CONTENT_IN_STEP: &[u8] = b",st:";
const LABEL_AT: &[u8] = b",by:";

/// These times at the beginning of what stands behind the epoch, and the rest.
fn read_seen(behind: &[u8]) -> Option<(SeenAt, &[u8])> {
    let in_step = behind.starts_with(CONTENT_IN_STEP);
    let content_at = if in_step { CONTENT_IN_STEP } else { CONTENT_AT };
    let (content, behind) = read_time_behind(content_at, behind)?;
    let (label, behind) = read_time_behind(LABEL_AT, behind)?;
    Some((SeenAt { content, in_step, label }, behind))
}

/// The time behind `mark` at the beginning of `behind`, and the rest.
fn read_time_behind<'a>(mark: &[u8], behind: &'a [u8]) -> Option<(Option<Time>, &'a [u8])> {
    let Some(time) = behind.strip_prefix(mark) else { return Some((None, behind)) };
    let end = time.iter().position(|byte| matches!(byte, b',' | b' '))?;
    let mut numbers = Numbers(time);
    let (secs, nanos) = (numbers.next(b'.')? as i64, numbers.next(*time.get(end)?)?);
    Some((Some(Time { secs, nanos: u32::try_from(nanos).ok()? }), &time[end..]))
}

fn write_epoch(out: &mut Vec<u8>, epoch: u32) {
    out.extend_from_slice(EPOCH);
    write_hex(out, epoch.into());
}

/// The epoch at the beginning of what stands behind the flags, and the rest; 0 of a row that has none.
fn read_epoch(behind: &[u8]) -> Option<(u32, &[u8])> {
    let Some(number) = behind.strip_prefix(EPOCH) else { return Some((0, behind)) };
    let end = number.iter().position(|byte| matches!(byte, b',' | b' '))?;
    let digits = std::str::from_utf8(&number[..end]).ok()?;
    Some((u32::from_str_radix(digits, 16).ok()?, &number[end..]))
}

/// Rows of an epoch: those that have none yet get it.
pub fn in_epoch(rows: &[u8], epoch: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(rows.len() + rows.len() / 16);
    for row in rows.split_inclusive(|&byte| byte == b'\n') {
        let (flags, behind) = row.split_at(row.len().min(FLAGS));
        out.extend_from_slice(flags);
        if !behind.starts_with(EPOCH) {
            write_epoch(&mut out, epoch);
        }
        out.extend_from_slice(behind);
    }
    out
}

/// The manifest line in a line of a record; `None` if it is no line of a file.
pub fn strip(line: &[u8]) -> Option<&[u8]> {
    if !matches!(line.first(), Some(b's' | b'e' | b't')) {
        return None;
    }
    let end = memchr::memchr_iter(b' ', line).nth(FIELDS - 1)?;
    line.get(end + 1..)
}

/// The further digests on a line; none of it if one of them is unknown.
pub fn further(line: &[u8]) -> Vec<Digest> {
    let read = |text: &[u8]| {
        let (name, digest) = text.split_at(memchr::memchr(b':', text)?);
        let mut all = Algorithm::listed().chain([Algorithm::Crc32]);
        let algorithm = all.find(|one| one.name().as_bytes() == name)?;
        Digest::parse(algorithm, &digest[1..])
    };
    let behind = line.get(FLAGS..).and_then(read_epoch).map(|(_, behind)| behind);
    let behind = behind.and_then(read_seen).map_or(&[][..], |(_, behind)| behind);
    let flags = behind.split(|&byte| byte == b' ').next().unwrap_or_default();
    let flags = memchr::memmem::find(flags, GIVEN).map_or(flags, |at| &flags[..at]);
    flags.split(|&byte| byte == b',').skip(1).map(read).collect::<Option<_>>().unwrap_or_default()
}

/// The inode of a line that is in doubt; 0 if it is not known.
pub fn doubted(line: &[u8]) -> Option<u64> {
    let behind = memchr::memchr(b' ', line).filter(|_| line.get(1) == Some(&b'?'))? + 1;
    Numbers(line.get(behind..)?).next(b' ')
}

fn flag(letter: u8, yes: &[u8], no: &[u8]) -> Option<bool> {
    let is_yes = yes.contains(&letter);
    (is_yes || no.contains(&letter)).then_some(is_yes)
}

/// By hand: six numbers a row through `write!` took longer than all else that is done for one.
fn write_hex(out: &mut Vec<u8>, number: u64) {
    let digits = (u64::BITS - (number | 1).leading_zeros()).div_ceil(4);
    let digit = |at: u32| b"0123456789abcdef"[(number >> (4 * at)) as usize & 15];
    out.extend((0..digits).rev().map(digit));
}

fn write_time(out: &mut Vec<u8>, Time { secs, nanos }: Time) {
    write_hex(out, secs as u64);
    out.push(b'.');
    write_hex(out, nanos.into());
}

/// The numbers of a row that are still to be read.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    /// The next time, which ends with a blank.
    fn time(&mut self) -> Option<Time> {
        let (secs, nanos) = (self.next(b'.')? as i64, self.next(b' ')?);
        Some(Time { secs, nanos: u32::try_from(nanos).ok()? })
    }

    /// The next one, which ends with the byte `end`. In one pass: a later run asks for a row of each file.
    fn next(&mut self, end: u8) -> Option<u64> {
        let mut number = 0;
        for (at, &byte) in self.0.iter().enumerate().take(MOST_DIGITS + 1) {
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                _ if byte == end && at > 0 => {
                    self.0 = &self.0[at + 1..];
                    return Some(number);
                }
                _ => return None,
            };
            number = number << 4 | u64::from(digit);
        }
        None
    }
}

// Where a record has a row, in eight bytes: of files that may have been renamed there can be many.

/// Where a record of this very output has a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordedAt(u64);

impl RecordedAt {
    /// The number of the record stands above the offset, which has no more than these bits.
    const OFFSET: u64 = (1 << 48) - 1;

    /// That of the row at `offset` of the record with this number; `None` if either is too large.
    pub fn new(record: usize, offset: u64) -> Option<Self> {
        let record = u16::try_from(record).ok().filter(|_| offset <= Self::OFFSET)?;
        Some(Self(u64::from(record) << 48 | offset))
    }

    /// The number of the record.
    pub fn record(self) -> usize {
        (self.0 >> 48) as usize
    }

    /// Where the row starts in it, in bytes.
    pub fn offset(self) -> u64 {
        self.0 & Self::OFFSET
    }
}

// What closes the rows of a private record: sums, and the names of the manifest that it was finished with and of a
// later one of this user's runs that left it no rows.

/// The first line of a record, the mark left out.
pub const HEAD: &str = "dircopy record 1";

/// The name of the finished record; those of runs on their way have a number behind a point.
pub const FINISHED: &str = "record";

/// More bytes than the last two lines of a finished record have: two digests, a name and a number.
const LAST_LINES: u64 = 1024;

/// The manifest that a record was finished with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedManifest {
    pub name: String,
    /// That of all its lines.
    pub digest: Sha256,
}

/// The line with the manifest that a record was finished with.
pub fn name_line(manifest: &FinishedManifest) -> String {
    format!(". {} {}\n", manifest.digest, manifest.name)
}

/// The line for a later run that finished this manifest, and left no rows of the files it lists.
pub fn later_line(manifest: &FinishedManifest) -> String {
    format!(", {} {}\n", manifest.digest, manifest.name)
}

/// Either of them, read again.
fn read_name_line(line: &[u8]) -> Option<FinishedManifest> {
    let named = line.strip_prefix(b". ").or_else(|| line.strip_prefix(b", "))?;
    let (digest, name) = named.split_at_checked(Sha256::HEX_LEN)?;
    let name = str::from_utf8(name.strip_prefix(b" ")?).ok()?.to_owned();
    Some(FinishedManifest { name, digest: Sha256::from_hex(digest)? })
}

/// The line that closes `rows` rows and everything before them, of which `hasher` has the digest.
pub fn sum_line(hasher: &Hasher, rows: u64) -> String {
    let digest = hasher.clone().finish().map(|digest| digest.to_string()).unwrap_or_default();
    format!("= {rows} {digest}\n")
}

/// The part of a record that is closed by a good sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// Length of that part of the file, in bytes.
    pub len: u64,
    /// Number of its rows.
    pub rows: u64,
    /// True if it is of the output with the mark that was asked for.
    pub fits: bool,
    /// The manifest it was finished with, if it was.
    pub manifest: Option<FinishedManifest>,
    /// The manifest of a later run, of which there are no rows.
    pub later: Option<FinishedManifest>,
}

/// All rows of a finished record, without the name of the manifest behind them.
#[derive(Clone, Debug)]
pub struct Body {
    pub len: u64,
    /// Number of rows.
    pub rows: u64,
    pub hasher: Hasher,
}

impl Body {
    /// A run found all of it to hold, and has written this manifest, which takes the place of
    /// the one before. Whatever comes of it, the rows stay closed by their own sum.
    pub fn name_manifest(
        self,
        private: &PrivateDir,
        manifest: &FinishedManifest,
        durable: bool,
    ) -> io::Result<()> {
        let (mut file, _) =
            private.dir().open_private(FINISHED.as_ref())?.ok_or(io::ErrorKind::NotFound)?;
        let Self { len, rows, mut hasher } = self;
        let mut end = name_line(manifest);
        hasher.update(end.as_bytes());
        end += &sum_line(&hasher, rows);
        file.seek(SeekFrom::Start(len))?;
        sys::write_all(&file, end.as_bytes())?;
        file.set_len(len + end.len() as u64)?;
        if durable { sys::persist_file(&file) } else { Ok(()) }
    }
}

impl Closed {
    /// The newest manifest that it names.
    pub fn newest(&self) -> Option<&FinishedManifest> {
        self.later.as_ref().or(self.manifest.as_ref())
    }

    /// True if there is nothing but rows.
    pub fn names_none(&self) -> bool {
        self.newest().is_none()
    }

    /// Takes line `number`, which is no sum; whether it may stand there.
    pub fn take(
        &mut self,
        number: u64,
        text: &[u8],
        mark: &Mark,
        see: impl FnOnce(&[u8]) -> bool,
    ) -> bool {
        match text.first() {
            Some(b's' | b'e' | b't') if number > 1 => {
                self.rows += 1;
                see(text)
            }
            Some(b'.') if number > 1 => {
                self.manifest = read_name_line(text);
                self.manifest.is_some()
            }
            Some(b',') if number > 1 => {
                self.later = read_name_line(text);
                self.later.is_some()
            }
            Some(b'd') if number == 1 => {
                let of = text.strip_prefix(HEAD.as_bytes());
                self.fits = of.and_then(|of| of.strip_prefix(b" ")) == Some(mark.text().as_bytes());
                of.is_some()
            }
            _ => false,
        }
    }
}

impl FinishedManifest {
    /// The last one that the finished record in `private` names at its end, of which no sum is looked at; `None` also
    /// for a record that does not end so.
    pub fn last_named(private: &PrivateDir) -> Option<Self> {
        let file = private.dir().open_file(FINISHED.as_ref(), false).ok()?;
        let stat = Dir::stat_file(&file).ok().filter(|stat| stat.kind == Kind::File)?;
        let mut end = Vec::new();
        FileRange::new(&file, stat.size.saturating_sub(LAST_LINES), stat.size)
            .read_to_end(&mut end)
            .ok()?;
        let mut lines = end.strip_suffix(b"\n")?.rsplit(|byte| *byte == b'\n');
        let is_sum = lines.next()?.starts_with(b"= ");
        lines.next().filter(|_| is_sum).and_then(read_name_line)
    }

    /// True if it is in this directory, as it was written.
    pub fn is_in(&self, root: &Dir) -> bool {
        self.lines_in(root).is_some()
    }

    /// Number of lines of it, if it is in this directory as it was written.
    pub fn lines_in(&self, root: &Dir) -> Option<u64> {
        let name = OsStr::new(&self.name);
        root.stat(name, false).ok().filter(|stat| stat.kind == Kind::File)?;
        let (mut file, mut room) =
            (Uninterrupted(root.open_file(name, false).ok()?), vec![0; 1 << 16]);
        let (mut hasher, mut lines) = (Algorithm::Sha256.start(), 0);
        loop {
            let read = file.read(&mut room).ok()?;
            if read == 0 {
                let digest = hasher.finish().and_then(|digest| digest.as_sha256());
                return (digest == Some(self.digest)).then_some(lines);
            }
            hasher.update(&room[..read]);
            lines += memchr::memchr_iter(b'\n', &room[..read]).count() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows() -> impl Strategy<Value = Row> {
        let time = || (any::<i64>(), 0..1_000_000_000_u32);
        let trace = (any::<u64>(), any::<u64>(), time(), time());
        let given = proptest::option::of(time());
        (any::<[u8; 32]>(), trace, given, any::<[bool; 4]>()).prop_map(
            |(digest, trace, given, flags)| {
                let time = |(secs, nanos)| Time { secs, nanos };
                let (ino, size, mtime, ctime) = trace;
                let [from_source, sure, late, labelled] = flags;
                Row {
                    digest: Digest::sha256(digest),
                    origin: if from_source { Origin::Source } else { Origin::There },
                    trace: Trace { ino, size, mtime: time(mtime), ctime: time(ctime) },
                    given: given.map(time),
                    sure,
                    late,
                    labelled,
                    seen: SeenAt::default(),
                    epoch: 0,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn a_row_is_read_as_it_was_written(
            mut row in rows(), epoch: u32, in_step: bool,
            at in [(); 2].map(|()| proptest::option::of((any::<i64>(), 0..1_000_000_000_u32))),
            path in "[^/\0]{1,40}", further in any::<[bool; 10]>(),
        ) {
            row.epoch = epoch;
            let [content, label] = at.map(|at| at.map(|(secs, nanos)| Time { secs, nanos }));
            row.seen = SeenAt { content, in_step: in_step && content.is_some(), label };
            let mut text = Vec::new();
            let further = Algorithm::listed().zip(further).filter(|(_, is_in)| *is_in);
            let further: Vec<Digest> =
                further.filter_map(|(one, _)| one.start().finish()).collect();
            row.write(&mut text, &further, path.as_bytes());
            prop_assert_eq!(super::further(&text), further);
            let text = text.strip_suffix(b"\n").unwrap();
            prop_assert!(!text.contains(&b'\n'));
            prop_assert_eq!(Row::read(text, row.digest), Some(row));
            let mut listed = Vec::new();
            lists::write_path(&mut listed, &row.digest, path.as_bytes());
            prop_assert_eq!(strip(text), listed.strip_suffix(b"\n"));
        }

        #[test]
        fn whatever_stands_there_is_read_without_harm(text in any::<Vec<u8>>()) {
            let _ = (strip(&text), further(&text), Row::read(&text, Digest::sha256([0; 32])));
        }
    }
}
