//! The reader: manifests become batches of lines for the workers.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use crossbeam_channel::{Sender, bounded};

use crate::error::Error;
use crate::event::Stop;
use crate::hash::Digest;
use crate::manifest::{Entries, Parsed, Utf16Reader};
use crate::path::{PathFault, RelPath};
use crate::sys;
use crate::sys::stat::Identity;
use crate::verify::copies::Again;
use crate::verify::finding::Finding;
use crate::verify::portion::{Known, Portion};
use crate::verify::seen::{Key, Seen};
use crate::verify::target::{Opened, Plan, Target};

/// Lines of a batch. A message for each small file would cost as much as checking it.
const BATCH: usize = 64;

/// Bytes of names of a batch. Names as long as a line may be must not fill the memory.
const BATCH_BYTES: usize = 64 << 10;

/// A line that names a file to check.
#[derive(Debug)]
pub struct Line {
    /// Its number.
    pub number: u64,
    /// The name.
    pub path: RelPath,
    /// The digest.
    pub digest: Digest,
    /// Whether a regular file of that name was seen a moment ago.
    pub looked_at: bool,
}

/// Nothing is ever sent: whoever waits hears when the last one of it is let go.
pub type Turn = Sender<Infallible>;

/// Lines for a worker.
#[derive(Debug)]
pub struct Batch {
    /// What they are lines of.
    pub target: Arc<Target>,
    /// Of a portion: let go when the last of its files was begun, or is not to be.
    pub turn: Option<Turn>,
    /// The lines.
    pub lines: std::vec::IntoIter<Line>,
}

/// Findings for the thread that tells them.
pub type Told = (Arc<Target>, Vec<Finding>);

/// A root and what is listed below it, for finding what is not.
pub struct Listed {
    /// The root, with any of its manifests.
    pub target: Arc<Target>,
    /// Which directory it is.
    pub root: Identity,
    /// The names, a table for each manifest.
    pub names: Vec<Seen>,
}

/// What the reader leaves when it is done.
#[derive(Default)]
pub struct Reads {
    /// So many lines were given to workers.
    pub given: u64,
    /// What is listed, where that is asked for.
    pub listed: Vec<Listed>,
    /// Which files the manifests are.
    pub manifests: Vec<Identity>,
    /// The manifests, to be read once more, where that is asked for.
    pub again: Vec<Again>,
}

/// The reader.
pub struct Reader<'a> {
    /// Makes hashes of names.
    pub key: &'a Key,
    /// Whether to keep what is listed.
    pub complete: bool,
    /// Whether the manifests may have to be read once more.
    pub again: bool,
    /// What of the lines is to be checked, if not all.
    pub portion: Option<&'a Portion>,
    /// Asked to stop?
    pub stop: &'a Stop,
    /// To the workers.
    pub tasks: Sender<Batch>,
    /// To the thread that tells.
    pub told: Sender<Told>,
}

impl Reader<'_> {
    /// Reads all manifests.
    pub fn work(self, plans: &[Plan]) -> Reads {
        let mut done = Reads::default();
        for plan in plans {
            if self.stop.is_requested() {
                break;
            }
            match plan.open() {
                Ok(opened) => self.manifest(opened, &mut done),
                Err((target, error)) => self.tell(&target, Finding::Unusable(error)),
            }
        }
        done
    }

    /// Fails only when nobody listens any more, and then nothing matters.
    fn tell(&self, target: &Arc<Target>, finding: Finding) {
        let _ = self.told.send((Arc::clone(target), vec![finding]));
    }

    fn manifest(&self, opened: Opened, done: &mut Reads) {
        let Opened { target, manifest, id, root_id, unfinished } = opened;
        done.manifests.push(id);
        if let Some(name) = unfinished {
            self.tell(&target, Finding::Unfinished(name));
        }
        let again = self.portion.map(|_| manifest.try_clone()).transpose();
        if self.again
            && manifest.metadata().is_ok_and(|file| file.is_file())
            && let Ok(manifest) = manifest.try_clone()
        {
            done.again.push(Again { target: Arc::clone(&target), manifest });
        }
        let mut seen = Seen::default();
        let mut entries =
            Entries::new(Utf16Reader::new(Patient { file: manifest, stop: self.stop }));
        let (mut batch, mut was_utf16, mut anything) = (Vec::with_capacity(BATCH), false, false);
        let mut bytes = 0;
        // Whether all lines are known.
        let mut whole = false;
        loop {
            let entry = match entries.next_entry() {
                Ok(Some(entry)) => entry,
                Ok(None) => {
                    whole = true;
                    break;
                }
                Err(_) if self.stop.is_requested() => break,
                Err(error) => {
                    let error = Error::io("read the manifest", &target.manifest, error);
                    self.tell(&target, Finding::Unusable(error));
                    anything = true;
                    break;
                }
            };
            let (number, ended) = (entry.number, entry.ended);
            let finding = match entry.parsed {
                Parsed::Comment | Parsed::Blank => None,
                _ if !ended && target.ours.is_some() => {
                    Some(Finding::Torn { line: number, unfinished: target.is_unfinished() })
                }
                Parsed::Malformed(fault) => Some(Finding::Malformed { line: number, fault }),
                Parsed::Record(record) => match RelPath::parse(record.name) {
                    Ok(path) => {
                        bytes += path.as_bytes().len();
                        let digest = record.digest;
                        let line = Line { number, path, digest, looked_at: false };
                        self.line(line, &mut seen, &mut batch)
                    }
                    Err(fault) => Some(Finding::Refused {
                        line: number,
                        name: record.name.to_vec(),
                        why: fault.to_string(),
                    }),
                },
            };
            if let Some(finding) = finding {
                anything = true;
                self.tell(&target, finding);
            }
            if let Some(portion) = self.portion {
                // In its turn, when all lines are known.
                for line in batch.drain(..) {
                    portion.list(&line.path, &line.digest);
                }
            }
            if batch.len() == BATCH || bytes >= BATCH_BYTES {
                bytes = 0;
                if !self.hand_out(&target, None, &mut batch, done) {
                    break;
                }
            }
            if number == 1 && entries.input().is_utf16() {
                was_utf16 = true;
                self.tell(&target, Finding::Utf16);
            }
        }
        self.hand_out(&target, None, &mut batch, done);
        match (self.portion, again) {
            // What was verified of lines that were not read would be forgotten.
            (Some(_), _) if !whole => {}
            (Some(portion), Ok(Some(manifest))) => {
                self.in_turn(portion, &target, manifest, done);
            }
            (_, Err(error)) => {
                let error = Error::io("read once more the manifest", &target.manifest, error);
                self.tell(&target, Finding::Broken(error));
            }
            _ => {}
        }
        if !was_utf16 && entries.input().is_utf16() {
            self.tell(&target, Finding::Utf16);
        }
        if seen.is_empty() && !anything && !self.stop.is_requested() {
            self.tell(&target, Finding::Nothing);
        }
        if self.complete {
            match done.listed.iter_mut().find(|listed| listed.root == root_id) {
                Some(listed) => listed.names.push(seen),
                None => done.listed.push(Listed { target, root: root_id, names: vec![seen] }),
            }
        }
    }

    /// Puts a line into the batch, unless its name was there before with the same digest.
    fn line(&self, line: Line, seen: &mut Seen, batch: &mut Vec<Line>) -> Option<Finding> {
        let before = seen.note(self.key.of(&line.path), line.number, &line.digest);
        let Some((first, same)) = before else {
            batch.push(line);
            return None;
        };
        let (number, path) = (line.number, line.path.clone());
        if !same {
            batch.push(line);
        }
        Some(Finding::Twice { line: number, first, path, same })
    }

    /// Hands out the lines by when they were verified, those that were bad and then the oldest time first:
    /// the manifest is read once for each time. No file is begun before all that were not verified for longer,
    /// but for those that were bad: what has no room in their half of the portion is left.
    fn in_turn(&self, portion: &Portion, target: &Arc<Target>, manifest: File, done: &mut Reads) {
        match portion.recall(target) {
            Ok(None) => {}
            Ok(Some(error)) => self.tell(target, Finding::Forgotten(error)),
            Err(error) => return self.tell(target, Finding::Broken(error)),
        }
        for known in portion.turns() {
            portion.begin(known);
            let (turn, begun) = bounded(0);
            match self.hand_out_known(portion, (known, turn), target, &manifest, done) {
                Ok(all) if all || (known == Known::Bad && !self.stop.is_requested()) => {
                    let _ = begun.recv();
                }
                Ok(_) => return,
                Err(error) => {
                    let error = Error::io("read once more the manifest", &target.manifest, error);
                    return self.tell(target, Finding::Broken(error));
                }
            }
        }
    }

    /// Hands out the lines of which this is known; false when no more are wanted.
    fn hand_out_known(
        &self,
        portion: &Portion,
        (known, turn): (Known, Turn),
        target: &Arc<Target>,
        mut manifest: &File,
        done: &mut Reads,
    ) -> io::Result<bool> {
        manifest.seek(SeekFrom::Start(0))?;
        let mut entries = Entries::new(Utf16Reader::new(manifest));
        let (mut batch, mut bytes) = (Vec::with_capacity(BATCH), 0);
        while let Some(entry) = entries.next_entry()? {
            let Parsed::Record(record) = entry.parsed else { continue };
            if !entry.ended && target.ours.is_some() {
                continue;
            }
            let Ok(path) = RelPath::parse(record.name) else { continue };
            if portion.give(&path, &record.digest, known) {
                bytes += path.as_bytes().len();
                let (number, digest) = (entry.number, record.digest);
                batch.push(Line { number, path, digest, looked_at: false });
            }
            if batch.len() == BATCH || bytes >= BATCH_BYTES {
                bytes = 0;
                if portion.is_over() || !self.hand_out(target, Some(&turn), &mut batch, done) {
                    return Ok(false);
                }
            }
        }
        Ok(!portion.is_over() && self.hand_out(target, Some(&turn), &mut batch, done))
    }

    /// Gives a batch to the workers; false when the check is to stop.
    fn hand_out(
        &self,
        target: &Arc<Target>,
        turn: Option<&Turn>,
        batch: &mut Vec<Line>,
        done: &mut Reads,
    ) -> bool {
        if self.stop.is_requested() {
            return false;
        }
        if batch.is_empty() {
            return true;
        }
        let lines = std::mem::replace(batch, Vec::with_capacity(BATCH));
        done.given += lines.len() as u64;
        let (target, turn) = (Arc::clone(target), turn.cloned());
        let batch = Batch { target, turn, lines: lines.into_iter() };
        self.tasks.send(batch).is_ok()
    }
}

/// Whether a name is an absolute path where Windows is at home, with why it is refused.
pub fn elsewhere_absolute(path: &RelPath) -> Option<String> {
    let name = path.as_bytes();
    let drive = matches!(name, [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic());
    (drive || name.starts_with(b"\\")).then(|| PathFault::Absolute.to_string())
}

/// A file that is read without losing sight of the wish to stop: a pipe may keep its reader waiting
/// for ever.
struct Patient<'a> {
    file: File,
    stop: &'a Stop,
}

impl Read for Patient<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        while !sys::wait_readable(&self.file) {
            if self.stop.is_requested() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        self.file.read(room)
    }
}
