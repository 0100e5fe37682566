//! A list among the files of an output while it is written: it takes the place of what was there only where that is an
//! earlier one.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;

use crate::hash::{Algorithm, Digest, Hasher};
use crate::io::read_back::ReadBack;
use crate::manifest::readers::Readers;
use crate::sys::stat::Kind;
use crate::sys::{self, Dir, Medium, PartOwner};

const NO_FILE: &str =
    "what has its name is a directory, a link or a special file; it stays: move it away";

/// So many bytes wait at most.
const BUFFER: usize = 256 << 10;

/// A list that is not complete. It has a file only when that is needed.
pub struct NearFile {
    name: OsString,
    part: Option<(File, OsString)>,
    hasher: Hasher,
    text: Vec<u8>,
    /// Whose part file it is.
    owner: PartOwner,
    /// Who may read what it lists.
    readers: Readers,
}

/// A list that is complete, under the name of a part file.
pub struct WrittenNearFile {
    pub name: OsString,
    pub digest: Digest,
    /// Its part file, and whether that takes the place of something; none where the same is there.
    part: Option<(OsString, bool)>,
}

/// What may give way to a list.
pub enum Yields<'a> {
    /// Nothing, for this reason.
    Nothing(&'static str),
    /// What has this digest, and a reason for all else.
    What(&'a dyn Fn(Digest) -> bool, &'static str),
}

impl NearFile {
    /// Begins the list `name`, in the directory that the other methods are given.
    pub fn new(name: &OsStr, owner: PartOwner) -> Self {
        let hasher = Algorithm::Sha256.start();
        let readers = Readers::default();
        Self { name: name.to_owned(), part: None, hasher, text: Vec::new(), owner, readers }
    }

    /// What it is to be called.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// What is to be appended; written when it is much.
    pub fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// It lists the file `name` of its directory.
    pub fn lists(&mut self, dir: &Dir, name: &[u8]) {
        let stat = sys::name_from_bytes(name).and_then(|name| dir.stat(name, false));
        self.readers.join(Readers::of(stat.ok().as_ref()));
    }

    /// Whether nothing came.
    pub fn is_empty(&self) -> bool {
        self.part.is_none() && self.text.is_empty()
    }

    /// Writes what waits, if that is much.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn flush_much(&mut self, dir: &Dir) -> io::Result<()> {
        if self.text.len() < BUFFER { Ok(()) } else { self.flush(dir) }
    }

    fn flush(&mut self, dir: &Dir) -> io::Result<()> {
        let (file, _) = match &mut self.part {
            Some(part) => part,
            none => none.insert(dir.create_part(self.owner)?),
        };
        self.hasher.update(&self.text);
        sys::write_all(&*file, &self.text)?;
        self.text.clear();
        Ok(())
    }

    /// Gives it up.
    pub fn discard(self, dir: &Dir) {
        if let Some((_, part)) = self.part {
            // The next run removes one that stays.
            let _ = dir.remove(&part);
        }
    }

    /// It is complete: it waits to be published, durable if `durable`.
    ///
    /// # Errors
    /// It cannot be written, or what is there does not give way.
    pub fn finish(
        mut self,
        dir: &Dir,
        yields: &Yields<'_>,
        durable: bool,
    ) -> io::Result<WrittenNearFile> {
        let mut finished = self.complete(dir, yields, durable);
        let Some((file, part)) = self.part.take() else {
            return finished.map(|(digest, _)| WrittenNearFile {
                name: self.name,
                digest,
                part: None,
            });
        };
        if let Err(error) = sys::close_file(file)
            && finished.is_ok()
        {
            finished = Err(error);
        }
        if !matches!(finished, Ok((_, Some(_)))) {
            // What matters is the first error.
            let _ = dir.remove(&part);
        }
        let (digest, replaces) = finished?;
        let part = replaces.map(|replaces| (part, replaces));
        Ok(WrittenNearFile { name: self.name, digest, part })
    }

    /// Its digest, and whether it takes the place of something; none where the same is there.
    fn complete(
        &mut self,
        dir: &Dir,
        yields: &Yields<'_>,
        durable: bool,
    ) -> io::Result<(Digest, Option<bool>)> {
        let mut hasher = self.hasher.clone();
        hasher.update(&self.text);
        let digest = hasher.finish().ok_or_else(|| io::Error::other("it has no digest"))?;
        let there = self.there(dir)?;
        match (&there, yields) {
            (Some(Some(there)), _) if *there == digest => return Ok((digest, None)),
            (Some(Some(there)), Yields::What(gives_way, _)) if gives_way(*there) => {}
            (Some(None), Yields::What(..)) => return Err(io::Error::other(NO_FILE)),
            (Some(_), Yields::What(_, why) | Yields::Nothing(why)) => {
                return Err(io::Error::other(*why));
            }
            (None, _) => {}
        }
        self.flush(dir)?;
        if let Some((file, _)) = &self.part {
            sys::let_read(file, |group| self.readers.mode(group))?;
            if durable {
                sys::persist_file(file)?;
            }
        }
        Ok((digest, Some(there.is_some())))
    }

    /// The digest of what has its name; of something that is no file none.
    fn there(&self, dir: &Dir) -> io::Result<Option<Option<Digest>>> {
        match dir.stat(&self.name, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Ok(stat) if stat.kind != Kind::File => return Ok(Some(None)),
            stat => stat?,
        };
        let file = dir.open_file(&self.name, false)?;
        let hashed =
            ReadBack::new().hash(Medium::any(&file), Algorithm::Sha256, || false, |_| ())?;
        Ok(Some(hashed.and_then(|hashed| hashed.digest)))
    }
}

impl WrittenNearFile {
    /// Gives it its name in `dir`.
    ///
    /// # Errors
    /// That cannot be done; its part file is removed.
    pub fn publish(&self, dir: &Dir) -> io::Result<()> {
        let Some((part, replaces)) = &self.part else { return Ok(()) };
        dir.publish(part, &self.name, *replaces).inspect_err(|_| {
            // What matters is the first error.
            let _ = dir.remove(part);
        })
    }

    /// Gives it up.
    pub fn discard(&self, dir: &Dir) {
        if let Some((part, _)) = &self.part {
            // The next run removes one that stays.
            let _ = dir.remove(part);
        }
    }

    /// Whether it is another than the one that was there.
    pub fn is_new(&self) -> bool {
        self.part.is_some()
    }
}
