//! The side file of a run: chains of the files that it hashed, and of those that it found in place.
//!
//! Any thread may add a chain as soon as it has a digest: a record says nothing of a file's fate, so it does
//! no harm where the file comes to nothing. The file is begun with the first record. One that cannot be
//! written is given up and costs later checks time.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::chain::record::{self, HEAD};
use crate::chain::side_file::{SideFile, key, read_chain};
use crate::hash::Digest;
use crate::hash::chain::{Chain, LEAST_SPAN};
use crate::sys::{self, Dir};

/// All of a side file that is of one content; `None` if that is too small to have one.
pub fn side_file_of(path: &[u8], size: u64, digest: &Digest, chain: &Chain) -> Option<Vec<u8>> {
    let mut bytes = HEAD.to_vec();
    record::write(&mut bytes, path, size, digest, chain).then_some(bytes)
}

/// The side file of a run.
#[derive(Debug, Default)]
pub struct StatesFile {
    /// Where it is to be; nothing is written before that is known.
    place: OnceLock<StatesPlace>,
    written: Mutex<WrittenStates>,
    /// Those of earlier runs, the newest first.
    earlier: OnceLock<Vec<SideFile>>,
}

/// The directory and the name of an unfinished side file.
#[derive(Debug)]
struct StatesPlace {
    dir: Dir,
    name: OsString,
}

#[derive(Debug, Default)]
struct WrittenStates {
    file: Option<File>,
    /// How long it is.
    len: u64,
    /// Where the record of a digest is, by the beginning of that.
    places: BTreeMap<u64, u64>,
    /// Why nothing more is written; told once.
    error: Option<io::Error>,
    failed: bool,
}

impl StatesFile {
    /// It is to be made in `dir` under `name`, and `earlier` are those that are there, the newest first.
    pub fn begin(&self, dir: Dir, name: OsString, earlier: Vec<SideFile>) {
        // A run begins once.
        let _ = self.place.set(StatesPlace { dir, name });
        let _ = self.earlier.set(earlier);
    }

    /// Whether the states of a file of this size are to be kept.
    pub fn wants(&self, size: u64) -> bool {
        size > LEAST_SPAN
    }

    /// Adds the chain of the content of the file at `path`.
    pub fn put(&self, path: &[u8], size: u64, digest: &Digest, chain: Chain) {
        let Some(place) = self.place.get() else { return };
        let mut written = self.written();
        if written.failed || written.places.contains_key(&key(digest)) {
            return;
        }
        let mut record = Vec::new();
        if record::write(&mut record, path, size, digest, &chain)
            && let Err(error) = written.append(place, &record, digest)
        {
            (written.error, written.failed) = (Some(error), true);
        }
    }

    /// The file at `path` stays as it is: takes over what an earlier side file has of its content.
    pub fn carry(&self, path: &[u8], size: u64, digest: &Digest) {
        if !self.wants(size) || self.written().places.contains_key(&key(digest)) {
            return;
        }
        if let Some((chain, _)) = self.earlier_chain(digest).filter(|(_, of)| *of == size) {
            self.put(path, size, digest, chain);
        }
    }

    /// The chain of the content with this digest and the size of that, if this run or an earlier one wrote it.
    pub fn chain(&self, digest: &Digest) -> Option<(Chain, u64)> {
        {
            let mut written = self.written();
            let at = written.places.get(&key(digest)).copied();
            if let (Some(at), Some(file)) = (at, &mut written.file)
                && let Ok(Some(found)) = read_chain(file, at, digest)
            {
                return Some(found);
            }
        }
        self.earlier_chain(digest)
    }

    fn earlier_chain(&self, digest: &Digest) -> Option<(Chain, u64)> {
        self.earlier.get()?.iter().find_map(|side| side.chain(digest))
    }

    /// Takes over what an earlier side file has of other contents than those that were added.
    pub fn carry_rest(&self, earlier: &SideFile) {
        let Some(place) = self.place.get() else { return };
        let mut written = self.written();
        earlier.each_record(|digest, record| {
            if written.failed || written.places.contains_key(&key(digest)) {
                return;
            }
            if let Err(error) = written.append(place, record, digest) {
                (written.error, written.failed) = (Some(error), true);
            }
        });
    }

    /// Nothing comes of it: nothing of it is left.
    pub fn give_up(&self) {
        let file = self.written().file.take();
        if let (Some(place), Some(_)) = (self.place.get(), file) {
            // A later run finds it.
            let _ = place.dir.remove(&place.name);
        }
    }

    /// It is complete: gives it the name `name`, and the permissions that `mode` says for its group; nothing if no
    /// record was written.
    ///
    /// # Errors
    /// What could not be written, now or before. Nothing of it is left then.
    pub fn publish(
        &self,
        name: &OsStr,
        durable: bool,
        replace: bool,
        mode: impl Fn(u32) -> u32,
    ) -> io::Result<()> {
        let Some(StatesPlace { dir, name: unfinished }) = self.place.get() else { return Ok(()) };
        let mut written = self.written();
        let (file, error) = (written.file.take(), written.error.take());
        let Some(file) = file else { return error.map_or(Ok(()), Err) };
        let published = error.map_or(Ok(()), Err).and_then(|()| {
            sys::let_read(&file, mode)?;
            if durable {
                sys::persist_file(&file)?;
            }
            sys::close_file(file)?;
            dir.publish(unfinished, name, replace)
        });
        if published.is_err() {
            // It is of no use.
            let _ = dir.remove(unfinished);
        }
        published
    }

    fn written(&self) -> MutexGuard<'_, WrittenStates> {
        // Nothing in there can panic half-way.
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WrittenStates {
    fn append(&mut self, place: &StatesPlace, record: &[u8], digest: &Digest) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let file = none.insert(place.dir.create_new(&place.name, true)?);
                sys::write_all(&*file, HEAD)?;
                self.len = HEAD.len() as u64;
                file
            }
        };
        // A chain may have been read from it meanwhile.
        file.seek(SeekFrom::Start(self.len))?;
        sys::write_all(&*file, record)?;
        self.places.insert(key(digest), self.len);
        self.len += record.len() as u64;
        Ok(())
    }
}
