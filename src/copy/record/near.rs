//! Lists among the files: one in each directory, or one beside each file.
//!
//! While a run copies, what they will say goes into one list beside the manifest, so that memory stays bounded. At
//! its end that is sorted by directory, the lists are written, and the list beside the manifest becomes one of these
//! lists.

use std::{cmp::Ordering, ffi::OsStr, fs::File, io, io::Read, sync::Arc};

use crate::manifest::{Entries, Index, ListFormat, ListKind, Lookup, Parsed, Readers, lists};
use crate::{
    copy::list_file::ListFile, copy::list_file::ListWriting, copy::record::rotation::newest_with,
    error::Deed, error::Error, error::Result, hash::Algorithm, hash::Algorithms, hash::Digest,
    io::Durability, path::RelPath, sys, sys::Attributes, sys::Dir, sys::DirListing,
    sys::stat::Kind, sys::stat::Stat, tree::OutputDir, tree::PathRecord, tree::SortedRecords,
    tree::Sorter, tree::SourceDir,
};

/// Number of lists that are made durable together.
const BATCH: usize = 512;

pub const DEED: &str = "write the list";

/// The first byte of a record of a file, …
const FILE: u8 = b'A';

/// … and this and more in one of a digest, according to its algorithm, so that it comes after that of a file.
const DIGEST: u8 = b'B';

const NO_FILE: &str =
    "what has its name is a directory, a link or a special file; it stays: move it away";
pub const TAKEN: &str = "a file of the source has its name";
const FOREIGN: &str = "what has its name was not written by the last run; it stays (--overwrite-policy update replaces it)";

/// The means to write the lists among the files.
pub struct NearLists<'a> {
    pub output: &'a OutputDir,
    pub durability: Durability,
    /// True if whatever has the name of a list is replaced by it.
    pub replaces: bool,
    pub is_to_stop: &'a dyn Fn() -> bool,
    /// Is told what cannot be written.
    pub tell: &'a mut dyn FnMut(Error),
}

/// The lists of one kind on their way.
struct NearWriting<'a, 'b> {
    with: &'a mut NearLists<'b>,
    kind: ListKind,
    root: &'a Dir,
    /// The lists that an earlier run wrote.
    earlier: Option<Index>,
    /// The directory at hand; none if it cannot be opened.
    at: Option<NearDir>,
}

/// A directory that lists are written into.
struct NearDir {
    rel: RelPath,
    handle: Arc<Dir>,
    /// Its metadata before.
    before: Stat,
    /// True if it was opened up for its owner.
    is_opened_up: bool,
    /// Its own lists, while lines come.
    lists: Vec<(Algorithm, NearFile)>,
    /// Algorithms of which a file that was copied has the name of the list.
    taken: Algorithms,
    /// Lists that wait to be published.
    written: Vec<WrittenNearFile>,
}

impl NearLists<'_> {
    /// Writes the lists of this kind by `text`, which tells of all files, and their own list to `out`. False if the
    /// run is to stop.
    ///
    /// # Errors
    /// Fails if the lines cannot be read or sorted, or a list cannot be written.
    pub fn write(
        &mut self,
        kind: ListKind,
        text: &mut dyn Read,
        out: &mut File,
    ) -> io::Result<bool> {
        let Some(records) = sorted(kind, text, self.is_to_stop)? else { return Ok(false) };
        let root = self.output.handle.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let is_to_stop = self.is_to_stop;
        let earlier = earlier_list(root, kind)?;
        let earlier = earlier.map(|file| Index::build(file, is_to_stop)).transpose()?;
        let mut writing = NearWriting { with: self, kind, root, earlier, at: None };
        let written = writing.all(&records, out);
        if !matches!(written, Ok(true)) {
            writing.discard();
        }
        written
    }
}

impl NearWriting<'_, '_> {
    /// Writes the lists of all these records. False if the run is to stop.
    fn all(&mut self, records: &SortedRecords, out: &mut File) -> io::Result<bool> {
        let (kind, is_to_stop) = (self.kind, self.with.is_to_stop);
        let mut reader = records.reader();
        let (mut at_dir, mut file) = (None::<Vec<u8>>, Vec::new());
        while let Some(record) = reader.next_record()? {
            if is_to_stop() {
                return Ok(false);
            }
            let PathRecord { words, path } = PathRecord::of(record);
            let (dir, name) = split(path);
            if at_dir.as_deref() != Some(dir) {
                self.leave(out)?;
                self.enter(dir);
                at_dir = Some(dir.to_vec());
            }
            match words.split_first() {
                Some((&FILE, _)) => {
                    self.file(name);
                    file = name.to_vec();
                }
                Some((number, text)) => {
                    let number = number.checked_sub(DIGEST).map(usize::from);
                    let algorithm = number.and_then(|number| kind.algorithms().iter().nth(number));
                    let digest = algorithm.and_then(|algorithm| Digest::parse(algorithm, text));
                    let digest = digest.ok_or(io::ErrorKind::InvalidData)?;
                    self.digest(name, digest, file == name, out)?;
                }
                None => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        self.leave(out)?;
        Ok(true)
    }

    /// Removes what waits to be published.
    fn discard(&mut self) {
        let Some(at) = self.at.take() else { return };
        at.lists.into_iter().for_each(|(_, mut list)| list.list.discard());
        at.written.into_iter().for_each(|mut list| list.list.discard());
        if at.is_opened_up {
            // The next run sees it as one that was opened up.
            let _ = at.handle.close_up(&at.before);
        }
    }

    /// Goes on with another directory.
    fn enter(&mut self, dir: &[u8]) {
        let rel = RelPath::parse(dir).unwrap_or_default();
        let opened = match rel.is_root() {
            true => self.root.open_dir(".".as_ref(), false),
            false => self.root.open_below(&rel),
        };
        let opened = opened.and_then(|handle| {
            let before = handle.stat_self()?;
            Ok((handle.open_up(&before)?, before, handle))
        });
        let (is_opened_up, before, handle) = match opened {
            Ok((is_opened_up, before, handle)) => (is_opened_up, before, Arc::new(handle)),
            Err(error) => {
                let path = self.with.output.path_below(&rel);
                return (self.with.tell)(Error::io("write lists in", path, error));
            }
        };
        let (lists, taken, written) = (Vec::new(), Algorithms::default(), Vec::new());
        let mut at = NearDir { rel, handle, before, is_opened_up, lists, taken, written };
        if self.kind.form() == ListFormat::Dirs {
            for algorithm in self.kind.algorithms().iter() {
                let name = self.kind.form().near_name(algorithm, b"");
                let list = self.list_in(&at, &name);
                at.lists.extend(list.map(|list| (algorithm, list)));
            }
        }
        self.at = Some(at);
    }

    /// Begins a list of this name in a directory.
    fn list_in(&self, at: &NearDir, name: &[u8]) -> io::Result<NearFile> {
        let path = self.with.output.path_below(&at.rel.join(sys::name_from_bytes(name)?));
        let with = ListWriting {
            parts: self.with.output.volume.parts,
            algorithms: Algorithms::default().with(Algorithm::Sha256),
            durable: self.with.durability == (Durability::Grouped { at_once: false }),
            verify: false,
            stop: None,
        };
        let list = ListFile::new(with, &at.handle, path);
        Ok(NearFile { list, readers: Readers::default() })
    }

    /// There is this file in the directory.
    fn file(&mut self, name: &[u8]) {
        let Some(at) = &mut self.at else { return };
        for (algorithm, _) in &at.lists {
            if ListFormat::Dirs.near_name(*algorithm, b"") == name {
                at.taken = at.taken.with(*algorithm);
            }
        }
    }

    /// The file, or what it is listed by, has this digest; `is_taken` if a file has that name.
    fn digest(
        &mut self,
        name: &[u8],
        digest: Digest,
        is_taken: bool,
        out: &mut File,
    ) -> io::Result<()> {
        if let Some(at) = self.at.as_ref().filter(|_| self.kind.form() == ListFormat::Sides) {
            let ending = ListFormat::Sides.near_name(digest.algorithm(), b"");
            let file = name.strip_suffix(&ending[..]).unwrap_or(name);
            let mut side = self.list_in(at, name)?;
            if lists::write_for_program(&mut side.list.text, &digest, file) {
                side.lists(&at.handle, file);
                self.finish(side, is_taken);
            } else {
                self.tell_unwritable(file);
            }
            let is_much = self.at.as_ref().is_some_and(|at| at.written.len() >= BATCH);
            return if is_much { self.settle(out) } else { Ok(()) };
        }
        let Some(at) = &mut self.at else { return Ok(()) };
        // A list lists neither itself nor its like.
        let is_list = |of: Algorithm| ListFormat::Dirs.near_name(of, b"") == name;
        if self.kind.algorithms().iter().any(is_list) {
            return Ok(());
        }
        let list = at.lists.iter_mut().find(|(algorithm, _)| *algorithm == digest.algorithm());
        let Some((_, list)) = list else { return Ok(()) };
        if !lists::write_for_program(&mut list.list.text, &digest, name) {
            self.tell_unwritable(name);
            return Ok(());
        }
        list.lists(&at.handle, name);
        list.list.flush_much()
    }

    fn tell_unwritable(&mut self, name: &[u8]) {
        let Some(at) = &self.at else { return };
        let Ok(name) = sys::name_from_bytes(name) else { return };
        let path = self.with.output.path_below(&at.rel.join(name));
        let finding = "its name cannot be written there";
        (self.with.tell)(Error::finding("list beside its files", path, finding));
    }

    /// All of the directory came.
    fn leave(&mut self, out: &mut File) -> io::Result<()> {
        let lists = self.at.as_mut().map(|at| std::mem::take(&mut at.lists)).unwrap_or_default();
        for (algorithm, list) in lists {
            let is_taken = self.at.as_ref().is_some_and(|at| at.taken.has(algorithm));
            if !list.list.is_empty() {
                self.finish(list, is_taken);
            }
        }
        self.settle(out)?;
        if let Some(at) = self.at.take().filter(|at| at.is_opened_up)
            && let Err(error) = at.handle.close_up(&at.before)
        {
            let path = self.with.output.path_below(&at.rel);
            (self.with.tell)(Error::io("set the permissions of", path, error));
        }
        Ok(())
    }

    /// A list is complete, and waits to be published.
    fn finish(&mut self, list: NearFile, is_taken: bool) {
        let Some(at) = &mut self.at else { return };
        let path = at.rel.join(list.list.name());
        let (replaces, earlier) = (self.with.replaces, self.earlier.as_ref());
        let is_ours = |there: Digest| {
            let listed = earlier.and_then(|earlier| earlier.peek(path.as_bytes()).ok());
            replaces || matches!(listed, Some(Lookup::Agreed { digest, .. }) if digest == there)
        };
        let yields = match is_taken {
            true => Yields::Nothing(TAKEN),
            false => Yields::Files(&is_ours, FOREIGN),
        };
        match list.finish(&yields) {
            Ok(written) => at.written.push(written),
            Err(error) => (self.with.tell)(error.of_deed(DEED)),
        }
    }

    /// Publishes the lists that wait, and lists them.
    fn settle(&mut self, out: &mut File) -> io::Result<()> {
        let Some(at) = &mut self.at else { return Ok(()) };
        let is_new = at.written.iter().any(|list| list.replaces.is_some());
        if is_new && self.with.durability == (Durability::Grouped { at_once: true }) {
            self.root.persist_all()?;
        }
        let mut lines = Vec::new();
        for WrittenNearFile { mut list, digest, replaces } in at.written.drain(..) {
            match list.publish(replaces.unwrap_or(false)) {
                Ok(()) => {
                    let path = at.rel.join(list.name());
                    lists::write_path(&mut lines, &digest, path.as_bytes());
                }
                Err(error) => (self.with.tell)(error.of_deed(DEED)),
            }
        }
        if is_new {
            let fail = |deed, error| Error::io(deed, self.with.output.path_below(&at.rel), error);
            // That of another user's directory only he sets back.
            if let Err(error) = Attributes::set_time(&at.handle, &at.before, &at.before)
                && error.kind() != io::ErrorKind::PermissionDenied
            {
                (self.with.tell)(fail("set the modification time of", error));
            }
            if self.with.durability == (Durability::Grouped { at_once: false }) {
                at.handle.persist()?;
            }
        }
        sys::write_all(out, &lines)
    }
}

// A list among the files while it is written: it takes the place of what was there only where that is an earlier one.

/// A list that is not complete. It has a file only when that is needed.
struct NearFile {
    list: ListFile<'static>,
    /// Who may read what it lists.
    readers: Readers,
}

/// A list that is complete, and waits for its name.
struct WrittenNearFile {
    list: ListFile<'static>,
    digest: Digest,
    /// True if it takes the place of something; none where the same is there.
    replaces: Option<bool>,
}

/// The files that may give way to a list.
enum Yields<'a> {
    /// No file may, for this reason.
    Nothing(&'static str),
    /// Files with such a digest, and a reason for keeping all others.
    Files(&'a dyn Fn(Digest) -> bool, &'static str),
}

impl NearFile {
    /// It lists the file `name` of its directory.
    fn lists(&mut self, dir: &Dir, name: &[u8]) {
        let stat = sys::name_from_bytes(name).and_then(|name| dir.stat(name, false));
        self.readers.join(Readers::of(stat.ok().as_ref()));
    }

    /// It is complete: it waits to be published.
    ///
    /// # Errors
    /// It cannot be written, or what is there does not give way.
    fn finish(mut self, yields: &Yields<'_>) -> Result<WrittenNearFile> {
        let digest = self.list.digests()?.proof;
        let replaces = self.list.there().and_then(|there| match (there, yields) {
            (Some(Some(there)), _) if there == digest => Ok(None),
            (Some(Some(there)), Yields::Files(gives_way, _)) if gives_way(there) => Ok(Some(true)),
            (Some(None), Yields::Files(..)) => Err(io::Error::other(NO_FILE)),
            (Some(_), Yields::Files(_, why) | Yields::Nothing(why)) => Err(io::Error::other(*why)),
            (None, _) => Ok(Some(false)),
        });
        match replaces {
            Ok(Some(_)) => drop(self.list.end(|group| self.readers.mode(group))?),
            Ok(None) | Err(_) => self.list.discard(),
        }
        let replaces = replaces.deed(DEED, self.list.path())?;
        Ok(WrittenNearFile { list: self.list, digest, replaces })
    }
}

/// True if the file `name` of `source` would have the name of one of these lists, as far as that can be told before
/// anything is copied.
pub fn is_in_the_way(lists: &[ListKind], source: &SourceDir, name: &OsStr) -> bool {
    let near = lists.iter().filter(|kind| kind.form().is_near());
    near.flat_map(|kind| kind.algorithms().iter().map(|of| (kind.form(), of))).any(|(form, of)| {
        let list = form.near_name(of, b"");
        let is_file =
            |name: &OsStr| source.handle.stat(name, false).is_ok_and(|it| it.kind == Kind::File);
        let name = name.as_encoded_bytes();
        match form {
            // That of a list has none itself.
            ListFormat::Sides => name.strip_suffix(&*list).is_some_and(|file| {
                !form.may_name(file) && sys::name_from_bytes(file).is_ok_and(is_file)
            }),
            // A directory without other files has no list.
            _ => {
                name == list
                    && DirListing::of(&source.handle).is_ok_and(|mut listed| {
                        let is_other =
                            |it: &OsStr| !form.may_name(it.as_encoded_bytes()) && is_file(it);
                        listed.any(|it| it.is_ok_and(|it| is_other(&it.name)))
                    })
            }
        }
    })
}

/// The directory of a path, and the name in it.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memrchr(b'/', path) {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

/// By directory, then by name.
fn by_dir(one: PathRecord<'_>, other: PathRecord<'_>) -> Ordering {
    (split(one.path), one.words).cmp(&(split(other.path), other.words))
}

/// The lines of the lists, in the order of directories and names. None if the run is to stop.
fn sorted(
    kind: ListKind,
    text: &mut dyn Read,
    is_to_stop: &dyn Fn() -> bool,
) -> io::Result<Option<SortedRecords>> {
    let mut entries = Entries::of_all(text);
    let mut sorter = Sorter::new(by_dir);
    while let Some(entry) = entries.next_entry()? {
        if is_to_stop() {
            return Ok(None);
        }
        let Parsed::Record(found) = entry.parsed else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        // A name that starts with "-" has this before it.
        let path = found.name.strip_prefix(b"./").unwrap_or(found.name);
        let algorithm = found.digest.algorithm();
        sorter.add([FILE], path)?;
        let is_side = |of: Algorithm| path.ends_with(&ListFormat::Sides.near_name(of, b""));
        if kind.form() == ListFormat::Sides && kind.algorithms().iter().any(is_side) {
            continue;
        }
        let number = kind.algorithms().iter().position(|of| of == algorithm).unwrap_or_default();
        let mut words = vec![DIGEST + u8::try_from(number).unwrap_or_default()];
        found.digest.write(&mut words);
        match kind.form() {
            ListFormat::Sides => sorter.add(words, &kind.form().near_name(algorithm, path))?,
            _ => sorter.add(words, path)?,
        }
    }
    sorter.finish().map(Some)
}

/// The list of lists of this kind that the latest run left.
fn earlier_list(root: &Dir, kind: ListKind) -> io::Result<Option<File>> {
    let Some(newest) = newest_with(root, kind.suffix())? else { return Ok(None) };
    root.open_file(newest.list(kind.suffix()).as_ref(), false).map(Some)
}
