//! The end of a run: what is carried over, the manifest's final name, the root's attributes.

use std::{collections::HashSet, ffi::OsStr, io, path::Path, path::PathBuf, sync::Arc};

use crate::{
    copy::commit::Committer, copy::commit::accounting::copy_of, copy::media::MediaSeal,
    copy::mirror::Removal, copy::record::DEED, copy::record::Recording, copy::record::rotation,
    copy::record::rotation::Rotation, error::Deed, error::Error, error::Result, hash::Sha256,
    io::Durability, io::read_back::is_proven, manifest::ManifestFile, path::RelPath, path::Shown,
    path::count, state::FinishedManifest, sys, sys::Attributes, sys::Dir, sys::stat::Stat,
    tree::HandOver, tree::OutputDir, tree::SourceDir, tree::walk::CLOSED_MEANWHILE,
};

/// The deed in errors about a directory that stays closed.
const OPEN: &str = "give its owner and permissions to";

/// Number of directories that are held open until what has left the source is out of them; the next run sees to others.
const MOST_LATE: usize = 64;

/// The files that a run leaves at the output beside the copies.
pub struct RunLeft {
    /// The manifest, finished or not.
    pub manifest: Option<PathBuf>,
    /// Where what has left the source was moved to.
    pub trash: Option<PathBuf>,
    /// The Media Hash List, if one was written.
    pub media_list: Option<PathBuf>,
    /// The lists beside a finished manifest.
    pub lists: Vec<PathBuf>,
}

/// The last tasks of a run, when everything is copied.
pub struct RunEndings<'a> {
    /// The source, if it is a directory.
    pub source: Option<&'a SourceDir>,
    /// The rule for removing old manifests.
    pub rotation: Option<&'a Rotation>,
    /// The removal of entries that have left the source.
    pub removal: Option<&'a Removal<'a>>,
    /// The Media Hash List to write.
    pub media: Option<MediaSeal<'a>>,
}

impl Committer<'_> {
    /// The walk and every worker came to their end: carries over the lines of files that are no
    /// longer in the source, publishes the manifest, removes old ones, writes the Media Hash List, and moves what has
    /// left the source. Returns where the manifest, the list and the trash are.
    pub fn finish(&mut self, endings: RunEndings<'_>) -> RunLeft {
        let RunEndings { source, rotation, removal, media } = endings;
        self.check_place();
        let root = Arc::clone(self.root());
        let cut_short = self.is_cut_short();
        let removal = removal.filter(|removal| !cut_short && self.may_remove(removal));
        let leaves = removal.map(|removal| removal.departures);
        let carried = (!cut_short).then(|| self.carry_over(leaves, source));
        let listed = carried.unwrap_or_else(|| Ok(HashSet::new())).unwrap_or_else(|error| {
            self.accounting.give_up(error);
            HashSet::new()
        });
        self.record_last();
        let room = self.manifest.as_mut().and_then(|manifest| manifest.give_room_back().err());
        room.iter().for_each(|error| self.accounting.warn(error));
        let durable = self.context.options.durability != Durability::Off;
        self.arrange_lists(durable);
        let synced = self.sync_root();
        let mut manifest = self.manifest.take();
        let kept = manifest.as_mut().and_then(ManifestFile::take_kept);
        let unfinished = manifest.as_ref().map(ManifestFile::path);
        let digest = manifest.as_ref().and_then(|manifest| self.seal_record(manifest));
        let mut lists = manifest.as_ref().map(ManifestFile::list_paths).unwrap_or_default();
        let published = synced.and_then(|()| match manifest {
            // Left as it is: a run that did not end must not look as if it had.
            Some(manifest) if self.is_cut_short() => {
                if durable { manifest.persist() } else { Ok(()) }.map(|()| None)
            }
            Some(manifest) => self.publish_manifest(manifest, durable),
            None => Ok(None),
        });
        let rotation = rotation.filter(|_| matches!(published, Ok(Some(_))));
        let manifest = match published {
            Ok(Some(path)) => {
                self.finish_record(&path, digest);
                if !self.accounting.is_broken() {
                    self.remove_superseded();
                    self.tell_stale_lists(&path);
                }
                Some(path)
            }
            Ok(None) => {
                let failed = self.recording.as_mut().and_then(Recording::leave);
                self.not_recorded(failed);
                lists.clear();
                unfinished
            }
            Err(error) => {
                self.accounting.give_up(error);
                lists.clear();
                // One that was found damaged is removed.
                let is_there = |name: &OsStr| {
                    root.handle.as_ref().is_some_and(|root| root.stat(name, false).is_ok())
                };
                unfinished.filter(|path| path.file_name().is_some_and(is_there))
            }
        };
        let media = media.filter(|_| !self.is_cut_short());
        let media_list = match (media, kept, &manifest) {
            (Some(seal), Some(kept), Some(manifest)) => self.write_media(seal, kept, manifest),
            _ => None,
        };
        // What was to go may be what could not be read.
        let removal = removal.filter(|it| !self.is_cut_short() && !self.refuses_removal(it));
        let trash = removal.and_then(|removal| removal.run(&listed, &mut self.accounting));
        self.finish_late_dirs();
        self.accounting.rotate(rotation.zip(manifest.as_deref()));
        // Only now: the root may be to be read-only, and publishing changes its time.
        self.finish_directory(&root);
        self.finish_late_dirs();
        if durable
            && root.finish.is_some()
            && let Err(error) = root.persist()
        {
            self.accounting.give_up(Error::io("make durable", root.path(), error));
        }
        // Nothing is said to be at a path that leads elsewhere by now.
        self.check_place();
        RunLeft { manifest, trash, media_list, lists }
    }

    /// The run is refused before it made anything: its manifest goes too.
    pub fn withdraw(&mut self) {
        let withdrawn = self.manifest.take().map_or(Ok(()), ManifestFile::withdraw);
        if let Err(error) = withdrawn {
            self.accounting.warn(&error);
        }
    }

    /// Everything in a directory is done: it gets its attributes.
    pub(crate) fn finish_directory(&mut self, output: &Arc<OutputDir>) {
        self.hold_back_if_closed(output);
        match output.work.hand_over.as_ref() {
            // Why was told.
            _ if output.is_withheld() => {
                let label = output.finish.as_ref();
                label.iter().for_each(|(stat, _)| self.lists(&Stat { mode: 0, ..*stat }));
            }
            Some(over) if self.is_late(output, over) => {
                over.above.iter().for_each(|above| note_late(above));
                self.late_dirs.push(Arc::clone(output));
            }
            Some(over) => self.hand_over(output, over),
            None => self.label(output),
        }
        self.persist_dir(output);
        let above = output.work.hand_over.as_ref().and_then(|over| over.above.clone());
        above.iter().for_each(|above| self.arrived(above));
    }

    /// Holds the label of a directory back if its counterpart was closed since the walk left that: what was read last,
    /// or once more, may be kept from those whom the label lets in.
    fn hold_back_if_closed(&mut self, output: &OutputDir) {
        let follows = self.context.options.follow;
        if follows || output.finish.is_none() || output.is_withheld() {
            return;
        }
        let (source, path) = (self.accounting.source(), output.rel.path());
        // Mostly nothing was changed, and it need not be opened for that: there may be no descriptor left.
        let is_as_it_was = |(before, _): &(Stat, Attributes)| {
            let now =
                sys::name_from_bytes(path.as_bytes()).and_then(|it| source.handle.stat(it, false));
            now.is_ok_and(|now| (now.id, now.ctime) == (before.id, before.ctime))
        };
        if output.finish.as_ref().is_some_and(is_as_it_was) {
            return;
        }
        let Ok(dir) = source.handle.open_below(&path) else { return };
        // The label of a root that was there is the user's, and another directory may have the name by now.
        if !dir.identity().is_ok_and(|id| output.gets_label_of(id)) {
            return;
        }
        if output.withhold(&dir, None, || true) {
            let path = source.path_below(&path);
            self.accounting.closed(&Error::finding("copy", path, CLOSED_MEANWHILE));
        }
    }

    /// True if the label of a directory waits until the entries that have left the source are out of it, or of one
    /// below.
    fn is_late(&self, output: &OutputDir, over: &HandOver) -> bool {
        let may_be = self.is_mirror && self.late_dirs.len() < MOST_LATE;
        over.is_late() || may_be && !matches!(self.first_stranger(output, over), Ok(None))
    }

    /// The first of what is in a directory, or below, and is neither of the source nor a list of this run.
    fn first_stranger(&self, output: &OutputDir, over: &HandOver) -> io::Result<Option<RelPath>> {
        let formats = &self.context.options.asked.formats;
        let is_list = |name: &OsStr| {
            let name = name.as_encoded_bytes();
            formats.iter().any(|form| form.is_near() && form.may_name(name))
        };
        over.first_stranger(output, is_list)
    }

    /// Finishes the directories that waited until departed entries were out of them, which they are now as far as they
    /// can be.
    fn finish_late_dirs(&mut self) {
        for output in std::mem::take(&mut self.late_dirs) {
            if let Some(over) = &output.work.hand_over {
                self.hand_over(&output, over);
            }
            self.persist_dir(&output);
        }
    }

    /// Gives a directory its label if all that is in it is of the source.
    fn hand_over(&mut self, output: &Arc<OutputDir>, over: &HandOver) {
        let (Some(handle), Some((source, attributes))) = (&output.handle, &output.finish) else {
            return;
        };
        let stranger = self.first_stranger(output, over);
        let stranger = stranger.unwrap_or_else(|error| {
            self.accounting.warn(&Error::io("list", output.path(), error));
            Some(output.rel.path())
        });
        let Some(stranger) = stranger else { return self.label(output) };
        let mut shown_mode = over.before.mode;
        // Whoever may not look into it may not read what is listed of it either.
        let listed_for = if over.is_closed { 0 } else { shown_mode };
        self.lists(&Stat { mode: listed_for, ..over.before });
        if over.is_closed {
            shown_mode = 0;
            if let Some(narrow) = over.narrowest(source, attributes) {
                shown_mode = narrow.mode;
                let warn = |deed, error| {
                    self.accounting.warn(&Error::io(deed, output.path(), error));
                };
                Attributes::default().apply(handle, &narrow, !sys::may_give_away(), warn);
            }
            let finding = format!(
                "it has {}, which this run did not find in the source as it is there, so it stays closed to others; \
                 move that away, or give the directory its owner and permissions yourself (chown, chmod)",
                Shown::path(&output.path_below(&stranger))
            );
            self.accounting.closed(&Error::finding(OPEN, output.path(), finding));
            output.hold_back();
        } else if let Err(error) = Attributes::set_time(handle, &over.before, source) {
            // Its owner and permissions were not to change.
            self.accounting.warn(&Error::io("set the modification time of", output.path(), error));
        }
        if let Some(above) = over.above.as_ref().filter(|_| shown_mode & 0o077 != 0)
            && let Some(over) = &above.work.hand_over
        {
            over.note_stranger(stranger);
        }
    }

    /// Gives a directory the attributes of its counterpart.
    fn label(&mut self, output: &Arc<OutputDir>) {
        let (Some(handle), Some((stat, attributes))) = (&output.handle, &output.finish) else {
            return;
        };
        let readers = if attributes.deny_somebody() { stat.mode & !0o077 } else { stat.mode };
        self.lists(&Stat { mode: readers, ..*stat });
        // A later run must be able to add what is missing.
        let mode = if output.is_left_open() { stat.mode | 0o300 } else { stat.mode };
        let stat = &Stat { mode, ..*stat };
        let is_generation = self.context.options.pruned;
        let mut warn = |deed, error| self.accounting.warn(&Error::io(deed, output.path(), error));
        if output.fresh {
            attributes.apply_to_new(handle, stat, output.gid, None, warn);
        } else if !is_labelled(output, handle, attributes, stat, is_generation)
            && self.context.control.gate.lets_pass()
        {
            // A generation is as the source is. Another output may have attributes of its own that give no rights.
            if is_generation && let Err(error) = attributes.shed_others(handle) {
                warn("remove an extended attribute of", error);
            }
            attributes.apply_to_kept(handle, stat, false, warn);
        }
    }

    fn persist_dir(&mut self, output: &Arc<OutputDir>) {
        if output.handle.is_some()
            && !self.is_synced_with_root(output)
            && let Err(error) = output.persist()
        {
            // Links and empty directories in it have no other sync, so they may not stay.
            self.accounting.give_up(Error::io("make durable", output.path(), error));
        }
    }

    /// True if the entries that have left the source may leave the output.
    fn may_remove(&mut self, removal: &Removal<'_>) -> bool {
        if self.refuses_removal(removal) {
            return false;
        }
        let noted = removal.note();
        noted.inspect_err(|error| self.keeps_departed(removal, error)).is_ok()
    }

    /// True if nothing goes because anything went wrong: an entry that could not be read looks like one that is not
    /// there.
    fn refuses_removal(&mut self, removal: &Removal<'_>) -> bool {
        let why = match (self.accounting.counts.failed, self.accounting.counts.lost) {
            _ if removal.departures.is_empty() => return false,
            (0, 0) => return false,
            (0, lost) => format!("of the files that are expected {lost} are not in it"),
            (failed, _) => {
                format!("{} failed, so it is not certain what has left", count(failed, "entry"))
            }
        };
        let finding = format!("{why}; nothing was moved");
        let deed = "move what has left the source from";
        self.keeps_departed(removal, &Error::finding(deed, &*removal.output.root, finding));
        true
    }

    fn keeps_departed(&mut self, removal: &Removal<'_>, error: &Error) {
        self.accounting.not_departed(removal.departures.items, error);
    }

    /// The manifest is complete, and gets its name next: so is the private record. Returns the manifest's digest.
    fn seal_record(&mut self, manifest: &ManifestFile) -> Option<Sha256> {
        let (name, digest) = (manifest.name().finished().to_string(), manifest.digest()?);
        if !self.is_cut_short() {
            let (known, named) = (self.context.shared.known, FinishedManifest { name, digest });
            let failed = self.recording.as_mut().and_then(|it| it.seal(known, &named));
            self.not_recorded(failed);
        }
        Some(digest)
    }

    /// The manifest at `path`, which has this digest, has its name: so gets the private record.
    fn finish_record(&mut self, path: &Path, digest: Option<Sha256>) {
        let Some(digest) = digest else { return };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let manifest = FinishedManifest { name, digest };
        let known = self.context.shared.known;
        let failed = match &mut self.recording {
            Some(recording) => recording.finish(known, &manifest),
            // Why was told.
            None if self.context.options.pruned => {
                Some(Error::finding(DEED, self.root().path(), "there is no private directory"))
            }
            None => None,
        };
        self.not_recorded(failed);
        let recording = self.recording.as_ref().filter(|_| !self.is_mirror);
        if let Some(Err(error)) = recording.map(Recording::forget_leaving) {
            self.accounting.warn(&error);
        }
        let recording = self.recording.as_ref().filter(|_| !self.context.options.pruned);
        if let Some(Err(error)) = recording.map(|it| it.name_at_least(&manifest)) {
            self.accounting.give_up(error.with_note(
                "; all is copied, but until a run can write it checks go by an earlier manifest, or by none",
            ));
        }
    }

    /// Gives the manifest and its side file their final names, and returns the manifest's path; with `--verify` only
    /// once it is on its medium as it was written. `None` if the run is to stop before that is known.
    fn publish_manifest(
        &mut self,
        mut manifest: ManifestFile,
        durable: bool,
    ) -> Result<Option<PathBuf>> {
        if self.context.options.asked.verify {
            match is_proven(&mut manifest, &|| self.context.control.stop.is_at_once()) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) => {
                    self.context.shared.states.iter().for_each(|states| states.give_up());
                    return Err(manifest.discard(error));
                }
            }
        }
        self.publish_states(manifest.name(), manifest.readers);
        manifest.publish(durable).map(Some)
    }

    /// Removes the records of runs that were cut short, which are in the manifest now.
    fn remove_superseded(&mut self) {
        let output = Arc::clone(self.root());
        let (Some(carry), Some(root)) = (self.context.shared.known, &output.handle) else {
            return;
        };
        for name in carry.unfinished() {
            // That of a run that keeps its records elsewhere, and is at work.
            if root.is_claimed(name.to_string().as_ref()) {
                continue;
            }
            let states = [name.states(), name.finished().states()];
            let is_copied = |file: &OsStr| carry.has_heard_of(file.as_encoded_bytes());
            let finished = rotation::lists_of(root, name, &is_copied);
            let unfinished = name.lists().filter(|list| !is_copied(list.as_ref()));
            for beside in states.into_iter().chain(finished).chain(unfinished) {
                // Most have none.
                let _ = root.remove(beside.as_ref());
            }
            let name = name.to_string();
            if let Err(error) = root.remove(name.as_ref()) {
                let path = output.path_of(name.as_ref());
                self.accounting.warn(&Error::io("remove the unfinished manifest", path, error));
            }
        }
    }

    /// Everything that was done since the last sync, directories' times among it, made durable.
    /// Not once more where a sync failed: then the run ends without that.
    fn sync_root(&self) -> Result<()> {
        match (self.context.options.durability, &self.root().handle) {
            (Durability::Grouped { at_once: true }, Some(root)) if !self.syncs.is_failed() => {
                root.persist_all().deed_at("make durable", || self.root().path())
            }
            _ => Ok(()),
        }
    }
}

/// True if a directory that is there already has the labels of the source's, and no more if it is of a generation.
fn is_labelled(
    output: &OutputDir,
    dir: &Dir,
    attributes: &Attributes,
    stat: &Stat,
    is_generation: bool,
) -> bool {
    dir.stat_self().is_ok_and(|now| {
        output.volume.tried.times.is_cut_to(stat.mtime, now.mtime)
            && match is_generation {
                true => attributes.are_all_at(&now, dir, stat),
                false => attributes.are_at(&now, dir, stat),
            }
    })
}

/// Notes that it is known only at the end of the run which entries of a directory below stay.
fn note_late(above: &OutputDir) {
    if let Some(over) = &above.work.hand_over {
        over.note_late();
    }
}

// The syncs that the committer makes directory by directory, and whether one failed.

/// The syncs of a run.
#[derive(Default)]
pub struct SyncState {
    /// Directories with names that no sync of the whole file system covers, since the last commit.
    unsynced: Vec<Arc<OutputDir>>,
    /// Why a sync failed: what was being written then may be lost, whatever later syncs say.
    failure: Option<io::Error>,
}

impl SyncState {
    /// The next commit makes the names in this directory durable.
    pub fn add(&mut self, dir: &Arc<OutputDir>) {
        if self.unsynced.last().is_none_or(|last| !Arc::ptr_eq(last, dir)) {
            self.unsynced.push(Arc::clone(dir));
        }
    }

    /// Makes everything durable on the file system of `whole`, if that is given, and the names in the directories that
    /// were added.
    ///
    /// # Errors
    /// Also if an earlier sync failed: the kernel reports that once, and then says that all is well.
    pub fn persist(&mut self, whole: Option<&Dir>) -> io::Result<()> {
        self.failure().map_or(Ok(()), Err)?;
        whole.map_or(Ok(()), Dir::persist_all)?;
        let mut dirs = std::mem::take(&mut self.unsynced);
        // Copies that are read back in parallel come back mixed.
        dirs.sort_unstable_by_key(Arc::as_ptr);
        dirs.dedup_by(|one, other| Arc::ptr_eq(one, other));
        dirs.iter().try_for_each(|dir| dir.persist())
    }

    pub fn fail(&mut self, error: &io::Error) {
        self.failure = Some(copy_of(error));
    }

    pub fn is_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Why a sync failed, if one did.
    pub fn failure(&self) -> Option<io::Error> {
        self.failure.as_ref().map(copy_of)
    }
}
