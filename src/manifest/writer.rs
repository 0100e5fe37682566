//! A manifest being written: lines appended to `….part`, the final name when the run ends.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use jiff::SignedDuration;

use crate::error::{Error, Result};
use crate::hash::{Algorithm, Hasher, Sha256};
use crate::manifest::lists::ListKind;
use crate::manifest::name::ManifestName;
use crate::sys::stat::Time;
use crate::sys::{self, Dir};

/// So far ahead of the clock runs of one second get in each other's way.
const SAME_MINUTE: SignedDuration = SignedDuration::from_secs(60);

/// An unfinished manifest in the root of an output.
#[derive(Debug)]
pub struct ManifestFile {
    root: Dir,
    path: Arc<Path>,
    name: ManifestName,
    /// `None` once it is closed.
    file: Option<File>,
    lines: u64,
    /// Takes every line: the private record says which manifest it was written with.
    hasher: Hasher,
    /// Whether a write failed, perhaps in the middle of a line.
    torn: bool,
    /// The lists beside it.
    lists: Vec<ListFile>,
}

/// A list beside a manifest.
#[derive(Debug)]
struct ListFile {
    kind: ListKind,
    file: File,
}

impl ManifestFile {
    /// Begins a manifest in the directory `root`, whose path is `path`, called `name` or later. A name is free when
    /// nothing in `root` has it, finished or not, and `is_taken` does not claim it (for a file of
    /// the source that is to come). It sorts behind `newest`, if that is of the same minute.
    pub fn create(
        root: Dir,
        path: Arc<Path>,
        mut name: ManifestName,
        newest: Option<ManifestName>,
        is_taken: impl Fn(&OsStr) -> bool,
        lists: &[ListKind],
    ) -> Result<Self> {
        let time = name.time();
        // One of a later time was planted, or a clock went wrong: neither is to be followed for ever.
        let limit = time.checked_add(SAME_MINUTE).unwrap_or(time);
        if let Some(newest) =
            newest.filter(|newest| name.is_up_to(newest) && newest.time() <= limit)
        {
            name = next(newest.finished().of(name.algorithm()), &path)?;
        }
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
                free = free && !is_taken(&name) && is_absent(&root, &name).map_err(fail)?;
            }
            if free {
                match root.create_new(&unfinished, false) {
                    Ok(file) => {
                        let (hasher, torn) = (Algorithm::Sha256.start(), false);
                        let begun = Self {
                            root,
                            path,
                            name,
                            file: Some(file),
                            lines: 0,
                            hasher,
                            torn,
                            lists: Vec::new(),
                        };
                        return begun.with_lists(lists);
                    }
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(fail(error)),
                }
            }
            name = next(name, &path)?;
        }
    }

    /// Begins the lists beside it.
    fn with_lists(mut self, kinds: &[ListKind]) -> Result<Self> {
        for &kind in kinds {
            let name = self.name.unfinished().list(kind.suffix());
            let created = match kind.is_kept() {
                true => tempfile::tempfile(),
                false => self.root.create_new(name.as_ref(), false),
            };
            let begun = created.and_then(|file| {
                sys::write_all(&file, kind.head().as_bytes())?;
                Ok(file)
            });
            let fail = |error| Error::io("begin the list", self.path.join(&name), error);
            self.lists.push(ListFile { kind, file: begun.map_err(fail)? });
        }
        Ok(self)
    }

    /// Appends to each list beside it what is for that one.
    pub fn append_to_lists(&mut self, texts: &[Vec<u8>]) -> Result<()> {
        for (ListFile { kind, file }, text) in self.lists.iter().zip(texts) {
            let name = self.name.unfinished().list(kind.suffix());
            let fail = |error| Error::io("write the list", self.path.join(name), error);
            sys::write_all(file, text).map_err(fail)?;
        }
        Ok(())
    }

    /// Takes out what the run kept for itself.
    pub fn take_kept(&mut self) -> Option<File> {
        let at = self.lists.iter().position(|list| list.kind.is_kept())?;
        Some(self.lists.remove(at).file)
    }

    /// Gives the lists their final names, made durable first if `durable`; in the directory that is made durable
    /// with the manifest's own name.
    fn publish_lists(&mut self, durable: bool) -> Result<()> {
        for ListFile { kind, file } in self.lists.drain(..).filter(|list| !list.kind.is_kept()) {
            let [from, to] =
                [self.name.unfinished(), self.name].map(|name| name.list(kind.suffix()));
            let fail = |deed, error| Error::io(deed, self.path.join(&from), error);
            if durable {
                sys::persist_file(&file).map_err(|error| fail("make durable the list", error))?;
            }
            let published = self.root.publish(from.as_ref(), to.as_ref(), false);
            published.map_err(|error| fail("publish the list", error))?;
            sys::close_file(file).map_err(|error| fail("close the list", error))?;
        }
        Ok(())
    }

    /// The SHA-256 of all lines so far.
    pub fn digest(&self) -> Sha256 {
        let digest = self.hasher.clone().finish().and_then(|digest| digest.as_sha256());
        digest.unwrap_or(Sha256::of(&[]))
    }

    /// Opens what has its name, to be read, when all of it is written. A file system that caches without care shows
    /// what it holds only to a file that is opened anew, and one that makes files when they are closed (rclone without
    /// a cache) only then.
    pub fn open(&mut self) -> io::Result<File> {
        let name = both(self.name).1;
        match self.root.open_file(&name, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.file.is_some() => {
                self.file.take().map_or(Ok(()), sys::close_file)?;
                self.root.open_file(&name, false)
            }
            opened => opened,
        }
    }

    fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| io::Error::other("it is closed"))
    }

    /// Removes it because of `error`, which is returned.
    pub fn discard(self, error: Error) -> Error {
        // Where files are made when they are closed, this one would come back.
        drop(self.file);
        match self.root.remove(&both(self.name).1) {
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
        let lists = self.lists.iter().map(|list| unfinished.list(list.kind.suffix()).into());
        let besides = lists.chain([unfinished.states().into()]);
        let names: Vec<OsString> = besides.chain([both(self.name).1]).collect();
        let Self { root, path, file, lists, .. } = self;
        // Where files are made when they are closed, these would come back.
        drop((file, lists));
        for name in names {
            let fail = |error| Error::io("remove the unfinished manifest", path.join(&name), error);
            match root.remove(&name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Appends whole lines.
    pub fn append(&mut self, lines: &[u8]) -> Result<()> {
        if self.torn {
            let finding = "a line of it is torn, and nothing can follow";
            return Err(Error::finding("write the manifest", self.path(), finding));
        }
        self.hasher.update(lines);
        self.lines += memchr::memchr_iter(b'\n', lines).count() as u64;
        let written = self.file().and_then(|file| sys::write_all(file, lines));
        written.map_err(|error| {
            self.torn = true;
            self.error("write the manifest", error)
        })
    }

    /// What the clock of its file system said when it was last written to.
    pub fn clock(&self) -> Option<Time> {
        Dir::stat_file(self.file.as_ref()?).ok().map(|stat| stat.ctime)
    }

    /// The same, when it has just been touched.
    pub fn tick(&self) -> Option<Time> {
        self.file.as_ref()?.set_modified(SystemTime::now()).ok()?;
        self.clock()
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
        if durable {
            self.persist()?;
        }
        self.publish_lists(durable)?;
        let unfinished = both(self.name).1;
        loop {
            let finished = both(self.name).0;
            match self.root.publish(&unfinished, &finished, false) {
                Ok(()) => {
                    let path = self.path.join(&finished);
                    if durable {
                        self.root.persist().map_err(|error| {
                            Error::io("make durable the name of the manifest", &path, error)
                        })?;
                    }
                    self.file
                        .map_or(Ok(()), sys::close_file)
                        .map_err(|error| Error::io("close the manifest", &path, error))?;
                    return Ok(path);
                }
                // A file of the source may have been given that name meanwhile.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.name = next(self.name, &self.path)?;
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

/// The finished and the unfinished file name.
fn both(name: ManifestName) -> (OsString, OsString) {
    (name.finished().to_string().into(), name.unfinished().to_string().into())
}

fn next(name: ManifestName, path: &Path) -> Result<ManifestName> {
    name.next().ok_or_else(|| Error::finding("name a manifest in", path, "every name is taken"))
}

fn is_absent(root: &Dir, name: &OsStr) -> io::Result<bool> {
    match root.stat(name, false) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}
