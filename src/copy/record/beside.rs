//! The lists beside a manifest that is removed: they are removed with it, if its run made them.
//!
//! A name proves nothing: a user may keep a file of that name. A list of ours was last written to when its manifest
//! was, was not touched since, and the first file that it names is one that the manifest lists.

use std::{ffi::OsStr, fs::File, io, path::Path, path::PathBuf, sync::Arc};

use crate::{
    chain::StatesFile, chain::side_file::MOST_RECORDS, chain::side_file::SideFile, copy::CopyJob,
    copy::commit::Committer, copy::media::one_history::HistoryRoot,
    copy::media::seal::MediaFinding, copy::media::seal::MediaSeal, error::Error, hash::Algorithms,
    hash::Digest, io::Durability, manifest::Entries, manifest::Form, manifest::ManifestName,
    manifest::Parsed, manifest::Readers, manifest::readers::ours, sys::Dir, sys::stat::Kind,
    sys::stat::Stat, tree::OutputDir,
};

/// Time, in seconds, after its last line within which a manifest gets its final name: in between, everything that was
/// copied is made durable. One whose entry was changed later was copied here, with the time of the original, or touched
/// for a reason that is not known.
const MADE_HERE: i64 = 3600;

/// True if a file was made where it is, and neither copied there nor touched since.
pub fn is_made_here(stat: &Stat) -> bool {
    stat.kind == Kind::File && stat.ctime.secs - stat.mtime.secs <= MADE_HERE
}

/// The lists beside the manifest `name`, which is there as yet, that its run left; not those that `is_copied`.
pub fn lists_of(root: &Dir, name: ManifestName, is_copied: &dyn Fn(&OsStr) -> bool) -> Vec<String> {
    let Ok(manifest) = root.stat(name.to_string().as_ref(), false) else { return Vec::new() };
    let is_of_run = |list: &String| {
        let stat = root.stat(list.as_ref(), false);
        let is_near = |stat: Stat| {
            let apart = stat.mtime.secs.saturating_sub(manifest.mtime.secs);
            is_made_here(&stat) && apart.unsigned_abs() <= MADE_HERE.unsigned_abs()
        };
        stat.is_ok_and(is_near)
            && !is_copied(list.as_ref())
            && names_a_file_of(root, list.as_ref(), name).unwrap_or(false)
    };
    // One that was cut short while its lists got their names has both kinds.
    let both = name.finished();
    let finished = both.lists().filter(|_| !name.is_finished());
    name.lists().chain(finished).filter(is_of_run).collect()
}

/// True if the first file that a list names is one that the manifest lists.
fn names_a_file_of(root: &Dir, list: &OsStr, manifest: ManifestName) -> io::Result<bool> {
    let mut first = None;
    each_name(Entries::of_all(root.open_file(list, false)?), |name| {
        first = Some(name.to_vec());
        true
    })?;
    let Some(first) = first else { return Ok(false) };
    // A list of lists among the files names none of these, but one in a directory that has some.
    let endings = [Form::Dirs, Form::Sides].map(|it| it.suffix(Algorithms::default()));
    let is_of_near =
        endings.map(|ending| manifest.list(ending)).iter().any(|it| list == it.as_str());
    let dir = |name: &[u8]| memchr::memrchr(b'/', name).map(|slash| name[..slash].to_vec());
    let above = dir(&first);
    let manifest = root.open_file(manifest.to_string().as_ref(), false)?;
    each_name(Entries::of_all(manifest), |name| name == first || is_of_near && dir(name) == above)
}

/// Shows the names of a list to `is_last`, up to the first of which that is so; whether there was one.
fn each_name<R: io::Read>(
    mut entries: Entries<R>,
    mut is_last: impl FnMut(&[u8]) -> bool,
) -> io::Result<bool> {
    while let Some(entry) = entries.next_entry()? {
        let Parsed::Record(record) = entry.parsed else { continue };
        if is_last(record.name.strip_prefix(b"./").unwrap_or(record.name)) {
            return Ok(true);
        }
    }
    Ok(false)
}

// The Media Hash List of a run, which comes when all else is recorded.

impl Committer<'_> {
    /// Writes the Media Hash List by what the run `kept` of its files; returns where it is. It lists what `manifest`
    /// lists, and is as closed.
    pub(crate) fn write_media(
        &mut self,
        seal: MediaSeal<'_>,
        kept: File,
        manifest: &Path,
    ) -> Option<PathBuf> {
        let root = Arc::clone(self.root());
        let at = HistoryRoot { dir: root.handle.as_ref()?, path: &root.root };
        let listed = at.dir.stat(manifest.file_name()?, false);
        let seal = MediaSeal { mode: listed.map_or(seal.mode, |stat| stat.mode & 0o666), ..seal };
        let accounting = &mut self.accounting;
        let tell = &mut |told: MediaFinding| {
            accounting.counts.decayed += u64::from(told.is_failed);
            accounting.warn(&told.error);
        };
        seal.run(at, kept, tell).unwrap_or_else(|error| {
            self.accounting.give_up(error);
            None
        })
    }
}

// The chains of a run: where its side file stands, and what earlier ones hold.

/// Number of finished manifests that are looked at for one with a side file.
const MOST_LOOKED_AT: usize = 16;

/// Makes ready the side file of the run whose manifest has this name, in the root of the output; that of a shard beside
/// its manifest. What the last generation has is taken over too.
///
/// # Errors
/// The directory cannot be opened once more.
pub fn begin(
    states: &StatesFile,
    job: &CopyJob,
    root: &Dir,
    name: ManifestName,
    is_to_stop: &dyn Fn() -> bool,
) -> io::Result<()> {
    let place = match &job.shard {
        Some(role) => Dir::open(&role.manifest)?,
        None => root.try_clone()?,
    };
    let last = job.last_generation.as_ref().map(|last| &*last.dir);
    let of_both = [Some(&place), last].into_iter().flatten();
    let earlier = of_both.flat_map(|root| earlier(root, is_to_stop)).collect();
    states.begin(place, name.unfinished().states().into(), earlier);
    Ok(())
}

/// The newest finished side file, and those of runs that were cut short since, the newest first. They need
/// not be believed, so their owner does not matter; but somebody may have planted any number, and each that is taken is
/// held open.
fn earlier(root: &Dir, is_to_stop: &dyn Fn() -> bool) -> Vec<SideFile> {
    let names = ours(root, |_| false, None).unwrap_or_default();
    let (mut earlier, mut finished, mut left) = (Vec::new(), 0, MOST_RECORDS);
    for name in names {
        if finished == MOST_LOOKED_AT || earlier.len() == MOST_LOOKED_AT {
            break;
        }
        finished += usize::from(name.is_finished());
        // One that cannot be read is as good as none. That of a run that was cut short may have its final
        // name already.
        let states = [name.finished().states(), name.states()];
        let opened = |states: &String| {
            SideFile::open_in(root, states.as_ref(), left, is_to_stop).ok().flatten()
        };
        if let Some(side) = states.iter().find_map(opened) {
            left -= side.len();
            earlier.push(side);
            if name.is_finished() {
                break;
            }
        }
    }
    earlier
}

impl Committer<'_> {
    /// Takes over the known chain of a file that stays as it is.
    pub(crate) fn carry_chain(&self, output: &OutputDir, name: &OsStr, size: u64, digest: &Digest) {
        if let Some(states) = self.context.shared.states.filter(|states| states.wants(size)) {
            states.carry(output.rel.join(name).as_bytes(), size, digest);
        }
    }

    /// The manifest of this name is about to be complete: so is its side file. One that cannot be written costs
    /// later checks time, and is a warning.
    pub(crate) fn publish_states(&mut self, name: ManifestName, readers: Readers) {
        let Some(states) = self.context.shared.states else { return };
        let name = name.finished().states();
        let durable = self.context.options.durability != Durability::Off;
        if let Err(error) =
            states.publish(name.as_ref(), durable, false, |group| readers.mode(group))
        {
            let path = self.root().path_of(name.as_ref());
            let error = Error::io("write the states of large files to", path, error);
            self.accounting.warn(&error.with_note("; checks of these take longer"));
        }
    }
}
