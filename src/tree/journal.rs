//! The notes of a run about a large file while it copies it, so that a later run can go on.

use std::{ffi::OsStr, ffi::OsString, fs::File, io, io::Read, io::Seek, io::SeekFrom};

use serde::{Deserialize, Serialize};

use crate::hash::{Algorithm, ChainingState, Sha256, chain::MOST_STATES};
use crate::{
    state::Secret, sys, sys::Dir, sys::PartTag, sys::Uninterrupted, sys::stat::Stat,
    sys::stat::Time,
};

// The journal of a part file: how a later run goes on inside a large file that was cut off.
//
// It says of which file, in which version, the part file is the beginning, up to where it is on the
// device for certain, and the state of the digest there. It lies beside the part file under a name
// made from the final one, and names the part file, whose name is random: so a journal that comes
// back after a power cut never speaks of another part file than its own. It says which file that is, too: who owns the
// directory can exchange names.
//
// A header, written once, and two slots in blocks of their own, written in turn. Everything carries a
// SHA-256 sum (a slot's is over the header's too), so what is torn counts for nothing, and a slot that
// is torn leaves the other. What is summed begins with a secret that is kept in the output's private
// directory, so a journal that was planted is none. Numbers are little-endian.
//
// ```text
// header, at 0:            "dircopy journal 4\n", length of what follows (u16), the subject in JSON; sum (32 bytes)
// slots, at 4096 and 8192: offset (u64), length of the state (u16), the state; sum (32 bytes). Behind the state of
//                          the digest stand those of further ones, each behind its length (u16)
// from 12288 on:           the states of the file's chain (`noted_states`)
// ```

/// The number is that of the format, the form of the digest's state included.
const MAGIC: &[u8] = b"dircopy journal 4\n";

/// Header and slots start at multiples of this, so that one is torn without the others.
const BLOCK: usize = 4096;

/// Largest length of a journal before the states of the chain.
const MOST: usize = 3 * BLOCK;

/// A version of a source file, as far as the system can tell: not the device, whose number may be
/// another after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    size: u64,
    mtime: Time,
    ctime: Time,
    ino: u64,
}

impl Version {
    /// The version that the file had when this was said of it.
    pub fn of(stat: &Stat) -> Self {
        Self { size: stat.size, mtime: stat.mtime, ctime: stat.ctime, ino: stat.id.ino }
    }
}

/// The subject of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    pub name: OsString,
    /// The part file's name, in the same directory.
    pub part: OsString,
    /// The part file's number, and when it was made, where the system tells.
    pub ino: u64,
    pub birth: Option<Time>,
    /// The version of the source that it is a copy of.
    pub source: Version,
    /// The algorithm of the state.
    pub algorithm: Algorithm,
    /// True if what was called a hole of the source was believed, and not read.
    pub believed: bool,
}

/// A place to go on from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Number of bytes from the beginning that are in the part file and on the device.
    pub offset: u64,
    /// The digest's state there, and those of further digests behind it.
    pub state: Vec<u8>,
    /// The states of the chain since the checkpoint before, to be noted; none of one that was read.
    pub states: Option<NewStates>,
}

/// A journal that is open for writing.
#[derive(Debug)]
pub struct Journal {
    file: File,
    name: OsString,
    header: Sha256,
    /// The slot that is written next: never the one with the latest checkpoint.
    next: usize,
    /// Up to where the latest checkpoint says the file is durable; 0 without one.
    durable: u64,
    /// Where the next states of the chain go.
    states_end: u64,
}

/// A journal that was found.
#[derive(Debug)]
pub struct Found {
    /// To go on with.
    pub journal: Journal,
    /// When it was changed last: by the run that left it, if that ended in order.
    pub closed: Time,
    /// The subject.
    pub subject: Subject,
    /// The latest checkpoint, if there is one.
    pub checkpoint: Option<Checkpoint>,
    /// The states of the chain, as far as they were noted.
    pub states: Vec<ChainingState>,
}

/// The name of the journal of a file's part: after the file, and after the secret, so that runs which keep theirs in
/// different places do not get in each other's way.
pub fn name_of(name: &OsStr, secret: &Sha256) -> OsString {
    let Sha256(sum) = Sha256::of(&[name.as_encoded_bytes()]);
    sys::journal_name(std::array::from_fn(|i| sum[i]), tag_of(secret))
}

/// True for a name that a journal gets by this secret.
pub fn is_name_by(name: &OsStr, secret: &Sha256) -> bool {
    // Asked of every name at the output, of which next to none is one.
    sys::is_journal_name(name) && sys::is_journal_of(name, tag_of(secret))
}

/// Patterns that match what killed runs of this output left, wherever it lies.
pub fn leftover_patterns(secret: &Secret) -> [String; 3] {
    sys::leftover_patterns(secret.of_parts(), tag_of(&secret.of_journals()))
}

fn tag_of(secret: &Sha256) -> [u8; PartTag::LEN] {
    let Sha256(sum) = Sha256::of(&[b"journals", &secret.0]);
    std::array::from_fn(|i| sum[i])
}

impl Journal {
    /// Makes the journal of a part file. An error if there is something of its name, or if the final
    /// name is longer than a journal can hold.
    pub fn create(dir: &Dir, subject: &Subject, secret: &Sha256) -> io::Result<Self> {
        let header = encode_header(subject, secret).ok_or(io::ErrorKind::InvalidFilename)?;
        let name = name_of(&subject.name, secret);
        let file = dir.create_new(&name, true)?;
        if let Err(error) = sys::write_all(&file, &header) {
            let _ = dir.remove(&name);
            return Err(error);
        }
        Ok(Self {
            file,
            name,
            header: Sha256::of(&[&secret.0, &header]),
            next: 0,
            durable: 0,
            states_end: MOST as u64,
        })
    }

    /// Opens the journal `name` and reads it; `None` if there is none, or what is there is not one of
    /// ours or torn.
    pub fn open(dir: &Dir, name: &OsStr, secret: &Sha256) -> io::Result<Option<Found>> {
        let Some((file, Stat { ctime: closed, .. })) = dir.open_ours(name)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        Uninterrupted(&file).take(MOST as u64).read_to_end(&mut bytes)?;
        let Some((subject, header, slots)) = decode(&bytes, name, secret) else { return Ok(None) };
        let next = usize::from(offset_of(&slots[0]) > offset_of(&slots[1]));
        let checkpoint = slots.into_iter().flatten().max_by_key(|checkpoint| checkpoint.offset);
        let durable = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.offset);
        (&file).seek(SeekFrom::Start(MOST as u64))?;
        let (states, len) = read(Uninterrupted(&file), &header)?;
        let name = name.to_os_string();
        let journal = Self { file, name, header, next, durable, states_end: MOST as u64 + len };
        Ok(Some(Found { journal, closed, subject, checkpoint, states }))
    }

    /// The name.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Notes a checkpoint and makes the note durable. After an error the one before still counts.
    pub fn note(&mut self, checkpoint: &Checkpoint) -> io::Result<()> {
        if let Some(new) = &checkpoint.states {
            let batch = encode(new, &self.header);
            self.file.seek(SeekFrom::Start(self.states_end))?;
            sys::write_all(&self.file, &batch)?;
            self.states_end += batch.len() as u64;
        }
        self.file.seek(SeekFrom::Start(place_of(self.next) as u64))?;
        sys::write_all(&self.file, &encode_slot(checkpoint, &self.header))?;
        sys::persist_content(&self.file)?;
        (self.next, self.durable) = (1 - self.next, checkpoint.offset);
        Ok(())
    }

    /// Up to where the latest checkpoint says the file is durable; bytes, 0 without a checkpoint.
    pub fn durable(&self) -> u64 {
        self.durable
    }
}

fn offset_of(checkpoint: &Option<Checkpoint>) -> Option<u64> {
    checkpoint.as_ref().map(|checkpoint| checkpoint.offset)
}

fn place_of(slot: usize) -> usize {
    BLOCK * (1 + slot)
}

/// The content of a journal of the name `name`: the sum of its header is the base of its slots.
fn decode(
    bytes: &[u8],
    name: &OsStr,
    secret: &Sha256,
) -> Option<(Subject, Sha256, [Option<Checkpoint>; 2])> {
    let (subject, header) = decode_header(bytes, secret)?;
    let slots = [0, 1].map(|slot| decode_slot(bytes, slot, &header));
    (name_of(&subject.name, secret) == name).then_some((subject, header, slots))
}

/// `None` if it is too long, or the state of its algorithm cannot be noted.
fn encode_header(subject: &Subject, secret: &Sha256) -> Option<Vec<u8>> {
    let body = serde_json::to_vec(subject).ok().filter(|_| subject.algorithm.can_go_on())?;
    let mut header = [MAGIC, &u16::try_from(body.len()).ok()?.to_le_bytes(), &body].concat();
    let Sha256(sum) = Sha256::of(&[&secret.0, &header]);
    header.extend(sum);
    (header.len() <= BLOCK).then_some(header)
}

/// The subject in the header, and the sum that slots build on.
fn decode_header(bytes: &[u8], secret: &Sha256) -> Option<(Subject, Sha256)> {
    let (len, _) = bytes.strip_prefix(MAGIC)?.split_first_chunk()?;
    let len = MAGIC.len() + 2 + usize::from(u16::from_le_bytes(*len));
    let header = bytes.get(..len + Sha256::LEN)?;
    if Sha256::of(&[&secret.0, &header[..len]]).0[..] != header[len..] {
        return None;
    }
    let subject: Subject = serde_json::from_slice(&header[MAGIC.len() + 2..len]).ok()?;
    let is_one = sys::is_part_name(&subject.part) && subject.algorithm.can_go_on();
    is_one.then(|| (subject, Sha256::of(&[&secret.0, header])))
}

fn encode_slot(checkpoint: &Checkpoint, header: &Sha256) -> Vec<u8> {
    let Checkpoint { offset, state, .. } = checkpoint;
    let mut slot = offset.to_le_bytes().to_vec();
    slot.extend((state.len() as u16).to_le_bytes());
    slot.extend(state);
    let Sha256(sum) = Sha256::of(&[&header.0, &slot]);
    slot.extend(sum);
    slot
}

fn decode_slot(bytes: &[u8], slot: usize, header: &Sha256) -> Option<Checkpoint> {
    let whole = bytes.get(place_of(slot)..)?;
    let mut rest = whole;
    let offset = u64::from_le_bytes(take(&mut rest)?);
    let len = usize::from(u16::from_le_bytes(take(&mut rest)?));
    let state = rest.get(..len)?;
    let noted = rest.get(len..len + Sha256::LEN)?;
    let Sha256(sum) = Sha256::of(&[&header.0, &whole[..8 + 2 + len]]);
    (sum[..] == *noted).then(|| Checkpoint { offset, state: state.to_vec(), states: None })
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*taken)
}

// The states of a chain in a journal: what a file that is gone on with has of its beginning.
//
// They stand behind the slots, in batches: one for each checkpoint. A batch that is torn ends the list. None
// of this need be right: a chain with a wrong state costs later checks time, and no more.
//
// ```text
// batch:  number of the first state (u32), how many there are (u32), the states (8 words of 4 bytes each),
//         sum (32 bytes) over the sum of the header and the batch
// ```

/// The bytes of a state.
const STATE: usize = 32;

/// The states that came since the checkpoint before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewStates {
    /// Number of states that came before them.
    pub from: usize,
    pub states: Vec<ChainingState>,
}

/// The batch of the states, in a journal with this header.
pub fn encode(new: &NewStates, header: &Sha256) -> Vec<u8> {
    let NewStates { from, states } = new;
    let mut batch = Vec::with_capacity(8 + STATE * states.len() + Sha256::LEN);
    batch.extend((*from as u32).to_le_bytes());
    batch.extend((states.len() as u32).to_le_bytes());
    states.iter().flatten().for_each(|word| batch.extend(word.to_le_bytes()));
    let Sha256(sum) = sum(header, &batch);
    batch.extend(sum);
    batch
}

/// All states that the batches hold, and how many bytes of `from` these take.
///
/// # Errors
/// Fails if it cannot be read.
pub fn read(from: impl Read, header: &Sha256) -> io::Result<(Vec<ChainingState>, u64)> {
    let (mut states, mut end) = (Vec::new(), 0);
    // Bounded: the sums of their batches take less than the states.
    let mut rest = Uninterrupted(from).take(2 * (STATE * MOST_STATES) as u64);
    let mut batch = Vec::new();
    loop {
        batch.clear();
        (&mut rest).take(8).read_to_end(&mut batch)?;
        let Some(&[a, b, c, d, e, f, g, h]) = batch.first_chunk() else { break };
        let first = u32::from_le_bytes([a, b, c, d]) as usize;
        let number = u32::from_le_bytes([e, f, g, h]) as usize;
        if first > states.len() || first + number > MOST_STATES {
            break;
        }
        (&mut rest).take((STATE * number + Sha256::LEN) as u64).read_to_end(&mut batch)?;
        let Some((before, noted)) = batch.split_last_chunk::<{ Sha256::LEN }>() else { break };
        let new = before.get(8..).unwrap_or_default().as_chunks::<STATE>().0;
        if new.len() != number || sum(header, before).0 != *noted {
            break;
        }
        states.truncate(first);
        states.extend(new.iter().map(|bytes| {
            let mut state = [0; 8];
            for (word, bytes) in state.iter_mut().zip(bytes.as_chunks().0) {
                *word = u32::from_le_bytes(*bytes);
            }
            state
        }));
        end += batch.len() as u64;
    }
    Ok((states, end))
}

fn sum(header: &Sha256, batch: &[u8]) -> Sha256 {
    Sha256::of(&[&header.0, batch])
}

#[cfg(test)]
mod journal_file_tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    const SECRET: Sha256 = Sha256([7; 32]);

    fn subject() -> Subject {
        let time = Time { secs: -5, nanos: 999_999_999 };
        Subject {
            name: "film.mov".into(),
            part: ".a1B2c3D4e5.dircopy-part".into(),
            ino: 1 << 40,
            birth: Some(time),
            source: Version { size: 1 << 40, mtime: time, ctime: time, ino: u64::MAX },
            algorithm: Algorithm::Sha256,
            believed: true,
        }
    }

    fn checkpoint(offset: u64) -> Checkpoint {
        Checkpoint { offset, state: vec![offset as u8; 104], states: None }
    }

    /// The bytes of a journal with these checkpoints.
    fn journal(offsets: &[u64]) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let held = Dir::open(dir.path()).unwrap();
        let mut journal = Journal::create(&held, &subject(), &SECRET).unwrap();
        offsets.iter().for_each(|offset| journal.note(&checkpoint(*offset)).unwrap());
        std::fs::read(dir.path().join(name_of(OsStr::new("film.mov"), &SECRET))).unwrap()
    }

    fn open(bytes: &[u8]) -> Option<Found> {
        let dir = tempfile::tempdir().unwrap();
        let name = name_of(OsStr::new("film.mov"), &SECRET);
        std::fs::write(dir.path().join(&name), bytes).unwrap();
        Journal::open(&Dir::open(dir.path()).unwrap(), &name, &SECRET).unwrap()
    }

    #[test]
    fn the_latest_checkpoint_counts() {
        for offsets in [&[][..], &[7], &[7, 8], &[7, 8, 9], &[1, 2, 3, 4, 5]] {
            let found = open(&journal(offsets)).unwrap();
            assert_eq!(found.subject, subject());
            assert_eq!(found.checkpoint, offsets.last().map(|offset| checkpoint(*offset)));
        }
    }

    #[test]
    fn it_goes_on_without_harming_the_latest() {
        let dir = tempfile::tempdir().unwrap();
        let held = Dir::open(dir.path()).unwrap();
        let name = name_of(OsStr::new("film.mov"), &SECRET);
        drop(Journal::create(&held, &subject(), &SECRET).unwrap());
        for offset in 1..6 {
            let mut found = Journal::open(&held, &name, &SECRET).unwrap().unwrap();
            assert_eq!(found.checkpoint, (offset > 1).then(|| checkpoint(offset - 1)));
            // What is torn now must not be the one that counts.
            let place = place_of(found.journal.next);
            let whole = std::fs::read(dir.path().join(&name)).unwrap();
            let mut torn = whole.clone();
            torn.resize(torn.len().max(place + 50), 0);
            torn[place..place + 50].fill(0xff);
            assert_eq!(open(&torn).unwrap().checkpoint, found.checkpoint);
            found.journal.note(&checkpoint(offset)).unwrap();
        }
        assert!(Journal::create(&held, &subject(), &SECRET).is_err(), "one that is there stays");
    }

    /// Every prefix is refused or says what was noted before.
    #[test]
    fn torn_prefixes_say_nothing_new() {
        let whole = journal(&[7, 8]);
        for len in 0..whole.len() {
            match decode(&whole[..len], &name_of(OsStr::new("film.mov"), &SECRET), &SECRET) {
                None => assert!(len < BLOCK, "{len}"),
                Some((said, _, [first, second])) => {
                    let noted = (len >= place_of(0) + 8 + 2 + 104 + 32).then(|| checkpoint(7));
                    assert_eq!((said, first, second), (subject(), noted, None), "{len}");
                }
            }
        }
    }

    #[test]
    fn only_what_a_journal_of_ours_can_say_is_believed() {
        for part in ["film.mov", "../.a1B2c3D4e5.dircopy-part", "", "/etc/passwd"] {
            let forged =
                encode_header(&Subject { part: part.into(), ..subject() }, &SECRET).unwrap();
            assert!(open(&forged).is_none(), "{part}");
        }
        let other = encode_header(&Subject { name: "other".into(), ..subject() }, &SECRET).unwrap();
        assert!(open(&other).is_none(), "under the name of another file's journal");
        let before = [b"dircopy journal 3\n", &journal(&[7])[MAGIC.len()..]].concat();
        assert!(open(&before).is_none(), "of a version before");
        let long = Subject { name: "x".repeat(BLOCK).into(), ..subject() };
        assert!(encode_header(&long, &SECRET).is_none());
        let dir = tempfile::tempdir().unwrap();
        let held = Dir::open(dir.path()).unwrap();
        let name = name_of(OsStr::new("film.mov"), &SECRET);
        std::fs::write(dir.path().join("real"), journal(&[7])).unwrap();
        let link = |make: fn(&Path, &Path)| {
            let path = dir.path().join(&name);
            make(&dir.path().join("real"), &path);
            assert!(Journal::open(&held, &name, &SECRET).unwrap().is_none());
            std::fs::remove_file(path).unwrap();
        };
        #[cfg(unix)]
        link(|from, to| std::os::unix::fs::symlink(from, to).unwrap());
        link(|from, to| std::fs::hard_link(from, to).unwrap());
    }

    proptest! {
        /// Any damage: nothing is said that was not noted.
        #[test]
        fn damage_invents_nothing(at in 0usize..9000, with in proptest::collection::vec(any::<u8>(), 1..200)) {
            static WHOLE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
            let mut bytes = WHOLE.get_or_init(|| journal(&[7, 8])).clone();
            let end = (at + with.len()).min(bytes.len());
            if at < end {
                bytes[at..end].copy_from_slice(&with[..end - at]);
            }
            if let Some((said, _, slots)) = decode(&bytes, &name_of(OsStr::new("film.mov"), &SECRET), &SECRET) {
                prop_assert_eq!(said, subject());
                for (said, noted) in slots.into_iter().zip([7, 8]) {
                    prop_assert!(said.is_none_or(|said| said == checkpoint(noted)));
                }
            }
        }
    }
}

#[cfg(test)]
mod noted_states_tests {
    use super::*;

    const HEADER: Sha256 = Sha256([3; 32]);

    fn new(from: usize, number: u32) -> NewStates {
        NewStates { from, states: (0..number).map(|n| [from as u32 + n; 8]).collect() }
    }

    #[test]
    fn batches_follow_each_other_and_a_torn_one_ends_them() {
        let bytes_of = |batches: &[NewStates]| -> Vec<u8> {
            batches.iter().flat_map(|new| encode(new, &HEADER)).collect()
        };
        let bytes = bytes_of(&[new(0, 3), new(3, 0), new(3, 2), new(4, 3)]);
        let all: Vec<ChainingState> = (0..7).map(|n| [n; 8]).collect();
        assert_eq!(read(&*bytes, &HEADER).unwrap(), (all.clone(), bytes.len() as u64));
        assert_eq!(read(&*bytes, &Sha256([4; 32])).unwrap(), (vec![], 0));
        for len in 0..bytes.len() {
            let (states, end) = read(&bytes[..len], &HEADER).unwrap();
            assert!(end <= len as u64 && states == all[..states.len()]);
        }
        assert_eq!(read(&*bytes_of(&[new(0, 1), new(2, 1)]), &HEADER).unwrap().0.len(), 1);
        let huge = [&[0, 0, 0, 0][..], &[0xff; 4]].concat();
        assert_eq!(read(&*huge, &HEADER).unwrap(), (vec![], 0));
    }
}
