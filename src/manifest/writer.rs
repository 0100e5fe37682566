//! A manifest being written: lines appended to `….part`, the final name when the run ends.

use std::{ffi::OsStr, ffi::OsString, fs::File, io, path::Path, path::PathBuf, sync::Arc};

use crate::{
    error::Deed, error::Error, error::Result, hash::Algorithm, hash::Hasher, hash::Sha256,
    manifest::ListKind, manifest::ManifestName, manifest::Readers, manifest::name::both,
    manifest::name::is_absent, manifest::name::next, manifest::readers::Rewrite, staged,
    staged::StagedFile, sys, sys::Dir, sys::PartOwner, sys::Uninterrupted, sys::stat::Time,
};

/// The text of a list that is written anew.
type ListText = Uninterrupted<File>;

/// An unfinished manifest in the root of an output.
#[derive(Debug)]
pub struct ManifestFile {
    root: Dir,
    path: Arc<Path>,
    name: ManifestName,
    /// `None` once it is closed.
    file: Option<File>,
    /// Takes every line: the private record says which manifest it was written with.
    hasher: Hasher,
    /// True if a write failed, perhaps in the middle of a line.
    torn: bool,
    /// True while room is set aside for it.
    keeps_room: bool,
    /// The error of writes that were lost after they had counted as done.
    lost: Option<io::Error>,
    /// The lists beside it.
    lists: Vec<ListFile>,
    /// Who may read what is listed; until the end only the owner may.
    pub readers: Readers,
}

/// A list beside a manifest.
#[derive(Debug)]
struct ListFile {
    kind: ListKind,
    /// `None` once it is written anew: then it is closed, and durable if it is to be.
    file: Option<File>,
}

impl ManifestFile {
    /// Begins a manifest in the directory `root`, whose path is `path`, called `name` or later. A name is free when
    /// nothing in `root` has it, finished or not, and `is_taken` does not claim it (for a file of
    /// the source that is to come). It sorts behind `newest`, unless that is ahead of the clock by more than a day.
    pub fn create(
        root: Dir,
        path: Arc<Path>,
        mut name: ManifestName,
        newest: Option<ManifestName>,
        is_taken: impl Fn(&OsStr) -> bool,
        lists: &[ListKind],
    ) -> Result<Self> {
        // One that is further ahead was planted, or a clock went wrong: neither is to be followed for ever.
        if let Some(newest) = newest.filter(|it| name.is_up_to(it) && !it.is_ahead()) {
            name = next(newest.finished().of(name.algorithm()), &path, 0)?;
        }
        let mut tries = 0;
        loop {
            let (finished, unfinished) = both(name);
            let fail = |error| Error::io("begin the manifest", path.join(&unfinished), error);
            let mut free = !is_taken(&unfinished);
            // Its side file and its lists are named after it.
            let both = [name, name.unfinished()];
            let named = lists.iter().filter(|list| !list.is_kept());
            let lists_of =
                |name: ManifestName| named.clone().map(move |list| name.list(list.suffix()));
            let beside =
                both.iter().map(ManifestName::states).chain(both.into_iter().flat_map(lists_of));
            for name in [finished].into_iter().chain(beside.map(OsString::from)) {
                free = free && !is_taken(&name);
                // What the source has is not endless, and does not count.
                let is_there = free && !is_absent(&root, &name).map_err(fail)?;
                (free, tries) = (free && !is_there, tries + u32::from(is_there));
            }
            if free {
                // While it is locked no run takes it for one that was cut short.
                match root.create_claimed(&unfinished, true) {
                    Ok(file) => {
                        let (hasher, torn) = (Algorithm::Sha256.start(), false);
                        let begun = Self {
                            root,
                            path,
                            name,
                            file: Some(file),
                            hasher,
                            torn,
                            keeps_room: false,
                            lost: None,
                            lists: Vec::new(),
                            readers: Readers::default(),
                        };
                        return begun.with_lists(lists);
                    }
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => tries += 1,
                    Err(error) => return Err(fail(error)),
                }
            }
            name = next(name, &path, tries)?;
        }
    }

    /// Begins the lists beside it.
    fn with_lists(mut self, kinds: &[ListKind]) -> Result<Self> {
        for &kind in kinds {
            let name = self.name.unfinished().list(kind.suffix());
            let created = match kind.is_kept() {
                true => tempfile::tempfile(),
                false => self.root.create_new(name.as_ref(), true),
            };
            let begun = created.and_then(|file| {
                sys::write_all(&file, kind.head().as_bytes())?;
                Ok(file)
            });
            self.lists.push(ListFile {
                kind,
                file: Some(begun.deed_at("begin the list", || self.path.join(&name))?),
            });
        }
        Ok(self)
    }

    /// Appends to each list beside it what is for that one.
    pub fn append_to_lists(&mut self, texts: &[Vec<u8>]) -> Result<()> {
        for (ListFile { kind, file }, text) in self.lists.iter().zip(texts) {
            let name = self.name.unfinished().list(kind.suffix());
            let file = file.as_ref().ok_or_else(is_closed);
            file.and_then(|file| sys::write_all(file, text))
                .deed_at("write the list", || self.path.join(name))?;
        }
        Ok(())
    }

    /// Where the lists beside it will be.
    pub fn list_paths(&self) -> Vec<PathBuf> {
        let named = self.lists.iter().filter(|list| !list.kind.is_kept());
        named.map(|list| self.path.join(self.name.list(list.kind.suffix()))).collect()
    }

    /// Takes out what the run kept for itself.
    pub fn take_kept(&mut self) -> Option<File> {
        let at = self.lists.iter().position(|list| list.kind.is_kept())?;
        self.lists.remove(at).file
    }

    /// Has `rewrite` write those lists anew that are `meant`, when all lines are there; made durable if `durable`.
    /// What it wrote takes the place of each. False if the run is to stop, and then some of them may be as they were.
    ///
    /// # Errors
    /// One cannot be read or written.
    pub fn rewrite(
        &mut self,
        durable: bool,
        parts: PartOwner,
        meant: &dyn Fn(ListKind) -> bool,
        rewrite: &mut Rewrite<'_>,
    ) -> Result<bool> {
        for at in 0..self.lists.len() {
            let kind = self.lists[at].kind;
            if !meant(kind) {
                continue;
            }
            let name = self.name.unfinished().list(kind.suffix());
            // An open file cannot be replaced everywhere.
            self.lists[at].file = None;
            let mut rewrite = |text: &mut ListText, out: &mut File| rewrite(kind, text, out);
            if !self.replace(&name, durable, parts, &mut rewrite)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Puts what `rewrite` writes in the place of the file `name`. False if the run is to stop.
    fn replace(
        &self,
        name: &str,
        durable: bool,
        parts: PartOwner,
        rewrite: &mut dyn FnMut(&mut ListText, &mut File) -> io::Result<bool>,
    ) -> Result<bool> {
        let fail = |error| Error::io("write anew the list", self.path.join(name), error);
        let file = self.root.open_file(name.as_ref(), false).map_err(fail)?;
        let mut text = Uninterrupted(file);
        let (mut is_done, staged) = (false, StagedFile::in_tree(&self.root, parts).map_err(fail)?);
        let filled = staged.fill(&self.root, |file| {
            is_done = rewrite(&mut text, file)?;
            sys::let_read(file, |group| self.readers.mode(group))
        });
        // An open file cannot be replaced everywhere.
        drop(text);
        let replaced = filled.and_then(|staged| match is_done {
            true => staged.close(&self.root, durable)?.publish(&self.root, name.as_ref(), true),
            false => staged.remove(&self.root),
        });
        replaced.map_err(fail)?;
        Ok(is_done)
    }

    /// Gives the lists their final names, made durable first if `durable`; in the directory that is made durable
    /// with the manifest's own name.
    fn publish_lists(&mut self, durable: bool) -> Result<()> {
        let readers = self.readers;
        for ListFile { kind, file } in self.lists.drain(..).filter(|list| !list.kind.is_kept()) {
            let [from, to] =
                [self.name.unfinished(), self.name].map(|name| name.list(kind.suffix()));
            let fail = |deed, error| Error::io(deed, self.path.join(&from), error);
            if let Some(file) = &file {
                let lost = sys::let_read(file, |group| readers.mode(group));
                lost.map_err(|error| fail("write the list", error))?;
            }
            if let Some(file) = file.as_ref().filter(|_| durable) {
                sys::persist_file(file).map_err(|error| fail("make durable the list", error))?;
            }
            let made = file.as_ref().map(Dir::inode_of).transpose();
            let published = made.and_then(|made| {
                staged::publish(&self.root, from.as_ref(), to.as_ref(), false, made.as_ref())
            });
            published.map_err(|error| fail("publish the list", error))?;
            let closed = file.map_or(Ok(()), sys::close_file);
            closed.map_err(|error| fail("close the list", error))?;
        }
        Ok(())
    }

    /// The SHA-256 of all lines so far.
    pub fn digest(&self) -> Option<Sha256> {
        self.hasher.clone().finish().and_then(|digest| digest.as_sha256())
    }

    /// Opens what has its name, to be read, when all of it is written. A file system that caches without care shows
    /// what it holds only to a file that is opened anew, and one that makes files when they are closed (rclone without
    /// a cache) only then; Windows lets nobody read with care what is open for writing.
    pub fn open(&mut self) -> io::Result<File> {
        let name = both(self.name).1;
        match self.root.open_file(&name, false) {
            Err(_) if self.file.is_some() => {
                self.file.take().map_or(Ok(()), sys::close_file)?;
                self.root.open_file(&name, false)
            }
            opened => opened,
        }
    }

    /// Opens it to be read while more is to be written: it stays open for that, where the system lets it.
    pub fn open_so_far(&mut self) -> io::Result<File> {
        self.root.open_written(&both(self.name).1).or_else(|_| self.open())
    }

    fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(is_closed)
    }

    /// [Withdraws](Self::withdraw) it because of `error`, which is returned.
    pub fn discard(self, error: Error) -> Error {
        match self.withdraw() {
            Ok(()) => error.with_note("; it is removed"),
            Err(stays) => error.with_note(format!("; it stays behind: {stays}")),
        }
    }

    /// Removes it, and the lists and states beside it, as if it had not been begun.
    ///
    /// # Errors
    /// One stays behind.
    pub fn withdraw(self) -> Result<()> {
        let unfinished = self.name.unfinished();
        let named = self.lists.iter().filter(|list| !list.kind.is_kept());
        let lists = named.map(|list| unfinished.list(list.kind.suffix()).into());
        let besides = lists.chain([unfinished.states().into()]);
        let names: Vec<OsString> = besides.chain([both(self.name).1]).collect();
        let Self { root, path, file, lists, .. } = self;
        // Where files are made when they are closed, these would come back.
        drop((file, lists));
        let stays = |name: &OsString| {
            let error =
                root.remove(name).err().filter(|it| it.kind() != io::ErrorKind::NotFound)?;
            Some(Error::io("remove the unfinished manifest", path.join(name), error))
        };
        // Each is tried; the first error is told.
        let errors: Vec<Error> = names.iter().filter_map(stays).collect();
        errors.into_iter().next().map_or(Ok(()), Err)
    }

    /// Appends whole lines.
    pub fn append(&mut self, lines: &[u8]) -> Result<()> {
        if self.torn {
            let finding = "a line of it is torn, and nothing can follow";
            return Err(Error::finding("write the manifest", self.path(), finding));
        }
        self.hasher.update(lines);
        let written = self.file().and_then(|file| sys::write_all(file, lines));
        written.map_err(|error| {
            self.torn = true;
            self.error("write the manifest", error)
        })
    }

    /// Sets room aside for its lines, where the file system can: they are to be written to a full disk too.
    pub fn keep_room(&mut self, bytes: u64) {
        // Without it they are written as long as there is room.
        self.keeps_room = self.file.as_ref().is_some_and(|file| sys::reserve(file, bytes).is_ok());
    }

    /// Gives back what is left of that room.
    ///
    /// # Errors
    /// It stays with the manifest.
    pub fn give_room_back(&mut self) -> Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| std::mem::take(&mut self.keeps_room)) else {
            return Ok(());
        };
        let cut = Dir::stat_file(file).and_then(|stat| file.set_len(stat.size));
        cut.map_err(|error| self.error("give back the room of the manifest", error))
    }

    /// The time of the last write, by the clock of its file system.
    pub fn clock(&self) -> Option<Time> {
        Dir::stat_file(self.file.as_ref()?).ok().map(|stat| stat.ctime)
    }

    /// The same, when it has just been touched.
    pub fn tick(&mut self) -> Option<Time> {
        match sys::touch(self.file.as_ref()?) {
            Ok(true) => self.clock(),
            Ok(false) => None,
            Err(error) => {
                self.lost.get_or_insert(error);
                None
            }
        }
    }

    /// Waits until every line appended so far is on the device.
    pub fn persist(&self) -> Result<()> {
        // One that was closed to be read was made durable before.
        let Some(file) = &self.file else { return Ok(()) };
        sys::persist_file(file).map_err(|error| self.error("make durable the manifest", error))
    }

    /// The run ended: gives the manifest its final name, made durable first if `durable`. Returns
    /// its path.
    pub fn publish(mut self, durable: bool) -> Result<PathBuf> {
        if let Some(error) = self.lost.take() {
            return Err(self.error("write the manifest", error));
        }
        // Where it had to be closed to be read (rclone without a cache), files have no permissions.
        if let Some(file) = &self.file {
            let lost = sys::let_read(file, |group| self.readers.mode(group));
            lost.map_err(|error| self.error("write the manifest", error))?;
        }
        if durable {
            self.persist()?;
        }
        self.publish_lists(durable)?;
        let (unfinished, mut tries) = (both(self.name).1, 0);
        let made = self.file.as_ref().map(Dir::inode_of).transpose();
        let made = made.map_err(|error| self.error("look at the manifest", error))?;
        loop {
            let finished = both(self.name).0;
            match staged::publish(&self.root, &unfinished, &finished, false, made.as_ref()) {
                Ok(()) => {
                    let path = self.path.join(&finished);
                    if durable {
                        self.root.persist().deed("make durable the name of the manifest", &path)?;
                    }
                    self.file.map_or(Ok(()), sys::close_file).deed("close the manifest", &path)?;
                    return Ok(path);
                }
                // A file of the source may have been given that name meanwhile.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    tries += 1;
                    self.name = next(self.name, &self.path, tries)?;
                }
                Err(error) => return Err(self.error("publish the manifest", error)),
            }
        }
    }

    pub fn name(&self) -> ManifestName {
        self.name
    }

    /// Where it is while it is written.
    pub fn path(&self) -> PathBuf {
        self.path.join(both(self.name).1)
    }

    fn error(&self, deed: &'static str, error: io::Error) -> Error {
        Error::io(deed, self.path(), error)
    }
}

fn is_closed() -> io::Error {
    io::Error::other("it is closed")
}
