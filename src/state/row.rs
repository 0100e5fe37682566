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
//! Labels are permissions, owner and attributes. One that a run could not set has `,by:0.0` too (below).
//!
//! Behind the flags may stand `,in:EPOCH`, in which the file was recorded (`plugs`); `,at:TIME`, the change time of the
//! source's file when it was read (`,st:TIME` if a later change may have the same); `,no:INODE`, its inode number;
//! `,by:TIME`, the change time when its label was compared, if it was another; further digests of the content, each as
//! `,NAME:DIGEST`; and `,of:TIME`: the time that the file was given, that of its source, where `MTIME` is what became
//! of it. Earlier versions take a row with some for one in doubt.

use crate::{
    hash::Algorithm, hash::Digest, manifest::lists, sys::stat::Kind, sys::stat::Stat,
    sys::stat::Time,
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
    /// True if it may have been changed again since without another time ([`Time::may_be_of`]).
    pub in_doubt: bool,
    /// Its inode number then; 0 if that is not known.
    pub ino: u64,
    /// When its label was compared with that of the copy, if that was at another time.
    pub label: Option<Time>,
}

impl SeenAt {
    /// The same, where the label was last compared as `other` says.
    #[must_use]
    pub fn labelled_as(self, other: SeenAt) -> Self {
        Self { label: other.label().filter(|at| self.label() != Some(*at)), ..self }
    }

    /// True if another file than the one that was read may be there at the source by now: one of the same times, which
    /// had another name, has another number. `keeps_numbers` tells whether files keep theirs there.
    pub fn is_of_another(self, source: &Stat, keeps_numbers: impl FnOnce() -> bool) -> bool {
        self.ino != 0 && self.ino != source.id.ino && keeps_numbers()
    }

    /// The same, where a run could not set the label.
    #[must_use]
    pub fn never_labelled(self) -> Self {
        Self { label: Some(NEVER), ..self }
    }

    /// When the label was compared, if it is known that a later change has another time.
    pub fn label(self) -> Option<Time> {
        self.label.or(self.content.filter(|_| !self.in_doubt))
    }
}

/// When a label was compared that a run wanted to set and could not.
const NEVER: Time = Time { secs: 0, nanos: 0 };

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
        let SeenAt { content, in_doubt, ino: number, label } = self.seen;
        if let Some(at) = content {
            out.extend_from_slice(if in_doubt { CONTENT_IN_DOUBT } else { CONTENT_AT });
            write_time(out, at);
        }
        if number > 0 {
            out.extend_from_slice(NUMBER);
            write_hex(out, number);
        }
        if let Some(at) = label {
            out.extend_from_slice(LABEL_AT);
            write_time(out, at);
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

    /// True if the file, if it is untouched, is as the source's file is, and was since it was copied. `keeps_numbers`
    /// tells whether files keep their inode numbers at the source.
    pub fn is_copy_of(&self, source: &Stat, keeps_numbers: impl FnOnce() -> bool) -> bool {
        let given = self.given.unwrap_or(self.trace.mtime);
        source.kind == Kind::File
            && (source.size, source.mtime) == (self.trace.size, given)
            && source.ctime < self.trace.ctime
            && self.seen.content.is_none_or(|at| source.ctime == at && !self.seen.in_doubt)
            && !self.seen.is_of_another(source, keeps_numbers)
    }

    /// True if a run wanted to give the file its label and could not: not if that was left as the policy has it, nor of
    /// earlier versions, which do not tell these apart.
    pub fn is_owed_label(&self) -> bool {
        !self.labelled && self.seen.label == Some(NEVER)
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

/// … and before the change times of the source's file, and its inode number.
const CONTENT_AT: &[u8] = b",at:";
const CONTENT_IN_DOUBT: &[u8] = b",st:";
const NUMBER: &[u8] = b",no:";
const LABEL_AT: &[u8] = b",by:";

/// These times at the beginning of what stands behind the epoch, and the rest.
fn read_seen(behind: &[u8]) -> Option<(SeenAt, &[u8])> {
    let in_doubt = behind.starts_with(CONTENT_IN_DOUBT);
    let content_at = if in_doubt { CONTENT_IN_DOUBT } else { CONTENT_AT };
    let (content, behind) = read_time_behind(content_at, behind)?;
    let (ino, behind) = read_number_behind(NUMBER, behind)?;
    let (label, behind) = read_time_behind(LABEL_AT, behind)?;
    Some((SeenAt { content, in_doubt, ino, label }, behind))
}

/// The time behind `mark` at the beginning of `behind`, and the rest.
fn read_time_behind<'a>(mark: &[u8], behind: &'a [u8]) -> Option<(Option<Time>, &'a [u8])> {
    let Some(time) = behind.strip_prefix(mark) else { return Some((None, behind)) };
    let end = time.iter().position(|byte| matches!(byte, b',' | b' '))?;
    let mut numbers = Numbers(time);
    let (secs, nanos) = (numbers.next(b'.')? as i64, numbers.next(*time.get(end)?)?);
    Some((Some(Time { secs, nanos: u32::try_from(nanos).ok()? }), &time[end..]))
}

/// The number behind `mark` at the beginning of `behind`, and the rest; 0 if it is not there.
fn read_number_behind<'a>(mark: &[u8], behind: &'a [u8]) -> Option<(u64, &'a [u8])> {
    let Some(number) = behind.strip_prefix(mark) else { return Some((0, behind)) };
    let end = number.iter().position(|byte| matches!(byte, b',' | b' '))?;
    Some((Numbers(number).next(*number.get(end)?)?, &number[end..]))
}

fn write_epoch(out: &mut Vec<u8>, epoch: u32) {
    out.extend_from_slice(EPOCH);
    write_hex(out, epoch.into());
}

/// The epoch at the beginning of what stands behind the flags, and the rest; 0 of a row that has none.
fn read_epoch(behind: &[u8]) -> Option<(u32, &[u8])> {
    let (epoch, behind) = read_number_behind(EPOCH, behind)?;
    Some((u32::try_from(epoch).ok()?, behind))
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
            mut row in rows(), epoch: u32, in_doubt: bool,
            at in [(); 2].map(|()| proptest::option::of((any::<i64>(), 0..1_000_000_000_u32))),
            path in "[^/\0]{1,40}", further in any::<[bool; 10]>(), ino: u64,
        ) {
            row.epoch = epoch;
            let [content, label] = at.map(|at| at.map(|(secs, nanos)| Time { secs, nanos }));
            row.seen = SeenAt { content, in_doubt: in_doubt && content.is_some(), ino, label };
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
