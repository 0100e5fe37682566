//! The manifest of a bag that is expected of a source, line by line held against what this user's runs recorded of the
//! payload: who may write there may have written data and manifest anew.

use std::{fs::File, io, path::Path};

use crate::{
    error::Deed, error::Error, error::Result, manifest::Entries, manifest::Parsed,
    manifest::PayloadList, manifest::lists, state::BagSince, state::RecordedPayload,
    state::RemovedFile, state::SinceRecorded, sys, sys::Dir, sys::FileRange,
};

/// Number of bytes that are written at a time.
const BUFFER: usize = 256 << 10;

/// What counts in the place of a manifest.
pub struct RecordedList {
    /// Its lines have the recorded digests, also of files that the manifest has no more, and no file that was added.
    /// `None` if this user's runs recorded nothing of it.
    pub file: Option<File>,
    /// What is to be told of the bag.
    pub told: Vec<Error>,
}

impl RecordedList {
    /// What counts of the `list` at `path` of the bag at `bag`, whose private directory is below `state`, if that is
    /// given.
    ///
    /// # Errors
    /// The list or the record cannot be read, or what they become not be written.
    pub fn of(
        list: &PayloadList,
        path: &Path,
        bag: &Path,
        state: Option<&Path>,
        is_to_stop: &dyn Fn() -> bool,
    ) -> Result<Self> {
        let root = Dir::open(bag).deed("open the bag", bag)?;
        let mut told = BagSince::look(&root, bag, state).told(bag);
        let recorded = RecordedPayload::load(&root, bag, state, list.algorithm, is_to_stop);
        let Some(recorded) = recorded else { return Ok(Self { file: None, told }) };
        let (file, differing) = held(list, recorded, is_to_stop)
            .deed("compare with its private record the list of", bag)?;
        if differing > 0 {
            let finding = format!(
                "{differing} of its lines were changed, added or taken out since your last run recorded the bag: what \
                 that recorded counts"
            );
            told.push(Error::finding("rely on", path, finding));
        }
        Ok(Self { file: Some(file), told })
    }
}

/// The lines that count, and by how many they differ from the manifest.
fn held(
    list: &PayloadList,
    mut recorded: RecordedPayload,
    is_to_stop: &dyn Fn() -> bool,
) -> io::Result<(File, u64)> {
    let (file, mut text) = (tempfile::tempfile()?, Vec::new());
    let (mut differing, below) = (0, list.payload.as_bytes());
    let len = list.file.metadata()?.len();
    let mut entries = Entries::of_all(FileRange::new(&list.file, 0, len));
    while let Some(entry) = entries.next_entry()?.filter(|_| !is_to_stop()) {
        let Parsed::Record(record) = entry.parsed else {
            text.extend_from_slice(b"?\n");
            continue;
        };
        let name = record.name.strip_prefix(b"./").unwrap_or(record.name);
        let held = recorded.hold(name.strip_prefix(below).unwrap_or(name), record.digest);
        differing += u64::from(held.contradiction.is_some());
        if held.contradiction != Some(SinceRecorded::Added) {
            lists::write_known(&mut text, &held.digest, name);
        }
        write_much(&file, &mut text, BUFFER)?;
    }
    while let removed = recorded.take_removed()?
        && !removed.is_empty()
    {
        for RemovedFile { path, digest } in removed {
            differing += 1;
            lists::write_known(&mut text, &digest, &[below, path.as_bytes()].concat());
        }
        write_much(&file, &mut text, BUFFER)?;
    }
    write_much(&file, &mut text, 0)?;
    Ok((file, differing))
}

/// Writes what is waiting, if that is more than so many bytes.
fn write_much(file: &File, text: &mut Vec<u8>, most: usize) -> io::Result<()> {
    if text.len() > most {
        sys::write_all(file, text)?;
        text.clear();
    }
    Ok(())
}
