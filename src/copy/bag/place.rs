//! The directory that becomes a bag: what is there before a run, and how the run takes it.
//!
//! It is a bag as long as `bagit.txt` is there. A run takes that file away before it changes anything else, so what is
//! left by one that is cut short is no bag. That a directory is a bag of this user's runs, begun or finished, is noted
//! in its private directory. Without one, on a file system without owners, only a bag that is begun can be told: it
//! has nothing but its payload and the lists of the run.

use std::{ffi::OsStr, io, path::Path, path::PathBuf, sync::Arc};

use crate::error::Deed;
use crate::{
    copy::CopyJob, copy::bag::seal::tags_there, copy::before::check,
    copy::before::check::DiskDemands, copy::before::check::Opened, copy::before::new_name,
    copy::list_file::ListFile, copy::list_file::ListWriting, copy::list_file::remove_all,
    error::Error, error::Result, event::Stop, hash::Algorithms, hash::Digests,
    manifest::ManifestName, manifest::archive::bag::DECLARATION, manifest::archive::bag::PAYLOAD,
    manifest::archive::bag::manifest_name, state::BagNote, state::Missing, state::Note,
    state::NoteDoubt, state::PrivateDir, state::Secret, state::private_dir::NAME,
    state::private_dir::STATE_NEEDS_IT, sys, sys::Attributes, sys::Dir, sys::DirListing,
    sys::PartOwner, sys::is_part_name, tree::Patience, tree::anew::make_anew,
    tree::hand_over::is_of_stranger, tree::hand_over::is_open_to_strangers,
    tree::hand_over::tells_owners,
};

const DEED: &str = "make a bag at";

const NO_NOTE: &str = "it is not empty, and no bag that this user's runs began there";

const STATE_KEEPS_IT: &str =
    "; where nothing can be private, --state DIR notes from the first run on whose bag it is";

/// What is told of a run that has no private directory.
const NOT_KEPT: &str = "; so no other run is kept out, and no run goes on with the bag when it is finished: --state DIR, given from \
                        the first run on, keeps it elsewhere";

/// A text file of bags that says where to get files of the payload that are not there.
const FETCH: &str = "fetch.txt";

const NOT_FETCHED: &str = "it has fetch.txt, by which files are still to be fetched, and a copy neither writes nor follows that: if you did not \
                           put it there, look who may write there; remove it (its files come from the source), or make a new bag; \
                           nothing was touched";

const NOTE_UNREAD: &str =
    "its note in .dircopy that it is your bag is damaged, or of another version of dircopy";

const NOTE_ELSEWHERE: &str = "it is not empty, and the note in its .dircopy that it is your bag is of another directory: it was copied, \
                              or is another disk's";

/// What is there before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BagState {
    /// Nothing.
    Empty,
    /// A bag without `bagit.txt`.
    Begun,
    /// A bag.
    Finished,
}

impl BagState {
    /// Looks at the directory `dir`, which is at `path` and whose private directory is `private`; the bag is to have
    /// manifests of these algorithms.
    ///
    /// # Errors
    /// No bag can be made there.
    pub fn look(
        dir: &Dir,
        path: &Path,
        private: Option<&PrivateDir>,
        algorithms: Algorithms,
    ) -> Result<Self> {
        let fail = |error| Error::io("list", path, error);
        let refuse = |why: String| Err(Error::finding(DEED, path, why));
        let is_noted = private.is_some_and(|private| BagNote::is_in(private, dir));
        let why = match private.and_then(BagNote::doubt).filter(|_| !is_noted) {
            Some(NoteDoubt::Unreadable) => NOTE_UNREAD,
            Some(NoteDoubt::Elsewhere) => NOTE_ELSEWHERE,
            None => NO_NOTE,
        };
        let mut state = if is_noted { Self::Begun } else { Self::Empty };
        for listed in DirListing::of(dir).map_err(fail)? {
            let listed = listed.map_err(fail)?;
            let name = &*listed.name;
            let text = name.to_str().unwrap_or_default();
            let others = match manifest_name(text) {
                Some((_, algorithm)) => !algorithm.is_ok_and(|it| algorithms.has(it)),
                None => false,
            };
            match () {
                () if name == NAME || is_part_name(name) => {}
                () if is_noted && others => {
                    return refuse(format!(
                        "it is a bag with {text}; give --hash with that algorithm too, or another output"
                    ));
                }
                () if is_noted && name == FETCH => return refuse(NOT_FETCHED.to_owned()),
                () if is_noted && name == DECLARATION => state = Self::Finished,
                () if is_noted => {}
                () if private.is_none() && (name == PAYLOAD || is_list(name)) => {
                    state = Self::Begun;
                }
                () => return refuse(format!("{why}; give an empty or a new directory")),
            }
        }
        Ok(state)
    }
}

/// True if a file is one of those that a run lists in what it copies.
pub fn is_list(name: &OsStr) -> bool {
    ManifestName::of_any(name).is_some()
}

/// The directory of the payload of a bag.
pub struct Payload {
    pub dir: Dir,
    /// True if it was open, and is closed to others until all of it is there.
    pub is_closed: bool,
}

/// The directory of a bag, while a run has it or looks at it.
pub struct BagRoot {
    pub dir: Arc<Dir>,
    pub path: PathBuf,
    /// It holds the lock, if the run has it.
    pub private: Option<Arc<PrivateDir>>,
    pub state: BagState,
    /// The directory that it was made in, if it was.
    parent: Option<Dir>,
    /// Why there is no private directory.
    pub warning: Option<Error>,
}

impl BagRoot {
    /// What is at the output before the run. None if there is no directory. What is to be told of its tags goes to
    /// `warnings`.
    ///
    /// # Errors
    /// No bag can be made there, or its tags would be lost.
    pub fn find(job: &CopyJob, warnings: &mut Vec<Error>) -> Result<Option<BagState>> {
        PrivateDir::look_for(job.state.as_deref())?;
        let Opened::There(dir) = check::open(&job.output, DiskDemands::of(&job.options))? else {
            return Ok(None);
        };
        let private = PrivateDir::open(&dir, &job.output, job.state.as_deref(), Missing::Leave);
        let algorithms = job.options.further.with(job.options.algorithm);
        let private = private.ok().flatten().map(Arc::new);
        let state = BagState::look(&dir, &job.output, private.as_deref(), algorithms);
        let may_be_private =
            || private.is_some() || PrivateDir::can_be_made(&dir, &job.output).is_ok_and(|it| it);
        let state = state.map_err(|error| match may_be_private() {
            true => error,
            false => error.with_note(STATE_KEEPS_IT),
        })?;
        let (dir, path) = (Arc::new(dir), job.output.clone());
        let root = Self { dir, path, private, state, parent: None, warning: None };
        tags_there(&root, algorithms, warnings)?;
        Ok(Some(state))
    }

    /// Makes the directory if it is missing, and keeps other runs out.
    ///
    /// # Errors
    /// No bag can be made there, or another run is at work on it.
    pub fn take(job: &CopyJob, algorithms: Algorithms, patience: Patience<'_>) -> Result<Self> {
        let path = &job.output;
        let fail = |error| Error::io("make the output", path, error);
        let (dir, parent) = match check::open(path, DiskDemands::of(&job.options))? {
            Opened::There(dir) => (dir, None),
            Opened::Parent(above) => {
                let name = new_name(path)?;
                above.make_dir(&name, false).map_err(fail)?;
                (above.open_dir(&name, false).map_err(fail)?, Some(above))
            }
        };
        let opened = PrivateDir::open(&dir, path, job.state.as_deref(), Missing::Make);
        let (private, warning) = match opened {
            Ok(opened) => (opened.map(Arc::new), None),
            Err(error) => match (job.needs_private(), &job.state) {
                (None, None) => (None, Some(error.with_note(NOT_KEPT))),
                (needed, _) => {
                    // Nothing was made but these, if they were.
                    if let (Some(above), Some(name)) = (&parent, path.file_name()) {
                        dir.remove_dir(NAME.as_ref()).if_there().map_err(fail)?;
                        above.remove_dir(name).map_err(fail)?;
                    }
                    return Err(error.with_note(needed.unwrap_or(STATE_NEEDS_IT)));
                }
            },
        };
        if let Some(private) = &private {
            patience.lock(private, path)?;
        }
        let state = BagState::look(&dir, path, private.as_deref(), algorithms);
        let state = state.map_err(|error| match &warning {
            Some(_) => error.with_note(STATE_KEEPS_IT),
            None => error,
        })?;
        Ok(Self { dir: Arc::new(dir), path: path.clone(), private, state, parent, warning })
    }

    /// Notes whose bag it is, and takes `bagit.txt` and what a killed run left away.
    ///
    /// # Errors
    /// That could not be done. A bag that was there may have no `bagit.txt` now.
    pub fn begin(&self, durable: bool) -> Result<()> {
        let fail = |error| Error::io("begin the bag", &self.path, error);
        if let Some(private) = &self.private
            && BagNote::read(private).is_none()
        {
            let noted = BagNote.write(private, durable);
            noted.deed_at("note whose bag it is in", || private.path())?;
        }
        remove_all(&self.dir, is_part_name).map_err(fail)?;
        self.dir.remove(DECLARATION.as_ref()).if_there().map_err(fail)?;
        if durable {
            self.dir.persist().map_err(fail)?;
            if let Some(parent) = &self.parent {
                parent.persist().map_err(fail)?;
            }
        }
        Ok(())
    }

    /// The directory of the payload, which is made if it is missing, and then closed to others; so is one that more may
    /// enter than the directory `source`.
    ///
    /// # Errors
    /// It cannot be made or opened, or something else has its name; or a stranger may look into it from whom the source
    /// is kept.
    pub fn payload(&self, durable: bool, source: Option<&Dir>) -> Result<Payload> {
        let name = OsStr::new(PAYLOAD);
        let path = || self.path.join(PAYLOAD);
        let fail = |error| Error::io("make the directory", path(), error);
        self.dir.make_dir(name, true).unless_taken().map_err(fail)?;
        if durable {
            self.dir.persist().map_err(fail)?;
        }
        let dir = self.dir.open_dir(name, false).map_err(fail)?;
        let is_private = dir.is_private().map_err(fail)?;
        let Some(source) = source.filter(|_| !is_private) else {
            return Ok(Payload { dir, is_closed: false });
        };
        let look = |source: &Dir| Ok((source.stat_self()?, Attributes::read(source)?));
        let (label, lists) = look(source).map_err(fail)?;
        let mut is_open = is_open_to_strangers(&dir, &label, &lists, false, true).map_err(fail)?;
        let is_strange =
            is_of_stranger(&dir.stat_self().map_err(fail)?, &label, lists.deny_somebody());
        let may_close = is_open && !is_strange;
        let anew = may_close
            .then(|| make_anew(&self.dir, name, &dir, durable, &Stop::default()).ok())
            .flatten();
        let is_closed = anew.is_some();
        let dir = anew.unwrap_or(dir);
        // By this the next run knows what a killed one left of the trial.
        let kept = self.private.as_ref().and_then(|it| it.payload(&self.dir, &self.path));
        let secret = kept.and_then(|kept| kept.private.secret(durable).ok());
        let output = secret.as_ref().map(Secret::of_parts);
        is_open &= !is_closed && tells_owners(&dir, PartOwner { output, shard: None }, false);
        if is_open {
            let finding = "users may look into it, or hold it open, who may not look into the source: move it away, or \
                           close it (chown, chmod) if all in it may be trusted, and run again";
            return Err(Error::finding("copy into", path(), finding));
        }
        Ok(Payload { dir, is_closed })
    }

    /// The directory that the run's own lists go to, and where it is: where this user's files alone are, if there is
    /// such a directory.
    pub fn lists(&self) -> io::Result<(Dir, PathBuf)> {
        match &self.private {
            Some(private) => Ok((private.dir().try_clone()?, private.path().to_path_buf())),
            None => Ok((self.dir.try_clone()?, self.path.clone())),
        }
    }

    /// Removes the run's own lists: the bag has its own now.
    ///
    /// # Errors
    /// One cannot be removed.
    pub fn remove_lists(&self) -> Result<()> {
        let fail = |error| Error::io("remove the lists of the copy in", &self.path, error);
        let (dir, _) = self.lists().map_err(fail)?;
        remove_all(&dir, is_list).map_err(fail)
    }
}

// A text file of a bag, with the digests that tag manifests are to have of it.

/// A text file that is complete.
pub struct WrittenTag {
    pub name: String,
    pub digests: Digests,
    /// True if it is another than the one that was there.
    pub is_new: bool,
}

impl BagRoot {
    /// Begins the file `name`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn begin_tag<'a>(&self, with: ListWriting<'a>, name: &str) -> Result<ListFile<'a>> {
        ListFile::new(with, &self.dir, self.path.join(name)).begin()
    }

    /// Writes the file `name` with this text. None if the run is to stop at once.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_tag(
        &self,
        with: ListWriting<'_>,
        name: &str,
        text: &[u8],
    ) -> Result<Option<WrittenTag>> {
        let mut file = self.begin_tag(with, name)?;
        file.text.extend_from_slice(text);
        WrittenTag::finish(file, sys::new_file_mode())
    }
}

impl WrittenTag {
    /// Gives a file its name, in place of what has it; a file with the same content stays as it is. None if the run is
    /// to stop before it is read back: it is removed.
    ///
    /// # Errors
    /// It cannot be written, or is not on its medium as it was written: it is removed.
    pub fn finish(mut file: ListFile<'_>, mode: u32) -> Result<Option<Self>> {
        let digests = file.digests()?;
        let is_there = matches!(file.there(), Ok(Some(there)) if there == Some(digests.proof));
        match is_there {
            true => file.discard(),
            false if !file.end(|_| mode)? => return Ok(None),
            false => file.publish(true)?,
        }
        let name = file.name().to_string_lossy().into_owned();
        Ok(Some(Self { name, digests, is_new: !is_there }))
    }
}
