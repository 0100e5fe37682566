//! Keeping hard links: the first name of a file is copied, the others become links to that copy.
//!
//! A further name waits until the first has its final name. What is remembered is bounded by the
//! files with several names whose names were not all seen yet: about 330 bytes for each, and its path.

use std::{collections::HashMap, ffi::OsStr, io, sync::Arc};

use crate::{
    copy::LinkOutcome, copy::links, error::Deed, error::Error, error::Result, event::Gate,
    hash::Algorithm, hash::Digest, hash::Digests, io::ReadBack, path::RelPath, path::Shown, sys,
    sys::Dir, sys::Medium, sys::stat::Identity, sys::stat::Inode, sys::stat::Kind,
    sys::stat::Known, sys::stat::Stat, sys::stat::Time, tree::Decision, tree::OutputDir,
    tree::Policy, tree::SourceEntry, tree::SourceStat, tree::overwrite::decide,
};

/// Number of waiting names that are enough to commit the group that they may wait for: each holds a directory open.
const MANY: usize = 256;

/// A further name of a file.
#[derive(Debug)]
pub struct Link {
    pub output: Arc<OutputDir>,
    pub entry: SourceEntry,
}

/// The first name of a file, once its fate is known.
#[derive(Clone, Debug)]
pub struct First {
    pub dir: RelPath,
    pub name: Arc<OsStr>,
    /// The file's metadata when it was listed under its first name.
    pub stat: Stat,
    /// True if it was there, and was left although it has not all labels of the source's.
    pub is_left: bool,
    /// Its digests for the lists, if it is listed.
    pub digests: Option<Digests>,
    /// The inode that stands at the output, if one does: whoever owns its directory can put another file in its place.
    pub stands: Option<Known>,
    /// True if it has the source's permissions, owner and attributes, as far as is known.
    pub labelled: bool,
}

impl First {
    /// The digest of what is at the output, whose root is `root`, under this name; none if the run is to stop.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn hash(
        &self,
        root: &OutputDir,
        algorithm: Algorithm,
        is_to_stop: &dyn Fn() -> bool,
    ) -> Result<Option<Digest>> {
        let fail = |error| Error::io("read", root.path_below(&self.dir.join(&self.name)), error);
        let handle = root.handle.as_ref().ok_or_else(|| fail(io::ErrorKind::NotFound.into()))?;
        let file = handle.open_below(&self.dir).and_then(|dir| dir.open_file(&self.name, false));
        let file = file.map_err(fail)?;
        let hashed = ReadBack::new().hash(Medium::any(&file), algorithm, is_to_stop, |_| ());
        Ok(hashed.map_err(fail)?.and_then(|hashed| hashed.digest))
    }

    /// True if what is there has the digest that it is listed with.
    fn is_as_listed(&self, root: &OutputDir, is_to_stop: &dyn Fn() -> bool) -> Result<bool> {
        let Some(listed) = self.digests.as_ref().map(|it| it.proof) else { return Ok(false) };
        Ok(self.hash(root, listed.algorithm(), is_to_stop)? == Some(listed))
    }
}

/// The first name of a file while further names may come. A file may have names outside the source, which never come,
/// so there may be one of these for each file: it is as small as it can be.
#[derive(Debug)]
struct KeptFirst {
    /// The digest, where there is one, the directory, a NUL and the name.
    bytes: Box<[u8]>,
    /// The algorithm of the digest in front.
    algorithm: Option<Algorithm>,
    further: Option<Arc<[Digest]>>,
    kind: Kind,
    size: u64,
    mtime: Time,
    ctime: Time,
    stands: Option<Known>,
    is_left: bool,
    labelled: bool,
}

impl KeptFirst {
    fn new(first: &First) -> Self {
        let proof = first.digests.as_ref().map(|digests| digests.proof);
        let digest = proof.as_ref().map_or(&[][..], Digest::bytes);
        let name = first.name.as_encoded_bytes();
        let Stat { kind, size, mtime, ctime, .. } = first.stat;
        Self {
            bytes: [digest, first.dir.as_bytes(), &[0], name].concat().into(),
            algorithm: proof.map(|proof| proof.algorithm()),
            further: first.digests.as_ref().and_then(|digests| digests.further.clone()),
            kind,
            size,
            mtime,
            ctime,
            stands: first.stands,
            is_left: first.is_left,
            labelled: first.labelled,
        }
    }

    /// For a further name of the file, `entry`.
    fn first(&self, entry: &SourceEntry) -> Option<First> {
        let (digest, place) =
            self.bytes.split_at_checked(self.algorithm.map_or(0, Algorithm::len))?;
        let proof = self.algorithm.and_then(|algorithm| Digest::of_bytes(algorithm, digest));
        let end = memchr::memchr(0, place)?;
        let (dir, name) = (place.get(..end)?, place.get(end + 1..)?);
        let dir = if dir.is_empty() { RelPath::root() } else { RelPath::parse(dir).ok()? };
        let Self { kind, size, mtime, ctime, stands, is_left, labelled, .. } = *self;
        Some(First {
            dir,
            name: sys::name_from_bytes(name).ok()?.into(),
            stat: Stat { kind, size, mtime, ctime, ..entry.stat },
            is_left,
            digests: proof.map(|proof| Digests { proof, further: self.further.clone() }),
            stands,
            labelled,
        })
    }
}

#[derive(Debug)]
struct LinkedFile {
    first: Option<Box<KeptFirst>>,
    /// Names whose fate is not known yet.
    to_come: u64,
}

/// The files with several names.
#[derive(Debug, Default)]
pub struct HardLinks {
    /// True if symbolic links are followed: they are further names that no file counts.
    follows: bool,
    files: HashMap<Identity, LinkedFile>,
    /// Names whose first one has no fate yet, and how many.
    waiting: HashMap<Identity, Vec<Link>>,
    number: usize,
}

impl HardLinks {
    /// None so far.
    pub fn new(follows: bool) -> Self {
        Self { follows, ..Self::default() }
    }

    /// Takes a further name in; gives it back with the first if that is known, to be made.
    pub fn add(&mut self, link: Link) -> Option<(Link, First)> {
        let (id, follows) = (link.entry.stat.id, self.follows);
        let file = self.files.entry(id).or_insert_with(|| LinkedFile::new(&link.entry, follows));
        match file.first.as_ref().and_then(|first| first.first(&link.entry)) {
            None => {
                self.waiting.entry(id).or_default().push(link);
                self.number += 1;
                None
            }
            Some(first) => {
                self.forget(id, 1);
                Some((link, first))
            }
        }
    }

    /// The fate of a first name is known: returns the names that waited for it.
    pub fn settle(&mut self, entry: &SourceEntry, first: First) -> Vec<(Link, First)> {
        let (id, follows) = (entry.stat.id, self.follows);
        let file = self.files.entry(id).or_insert_with(|| LinkedFile::new(entry, follows));
        file.first = Some(Box::new(KeptFirst::new(&first)));
        let waiting = self.waiting.remove(&id).unwrap_or_default();
        self.number -= waiting.len();
        self.forget(id, 1 + waiting.len() as u64);
        waiting.into_iter().map(|link| (link, first.clone())).collect()
    }

    /// True if so many names wait that the files they wait for should be committed.
    pub fn are_many(&self) -> bool {
        self.number >= MANY
    }

    fn forget(&mut self, id: Identity, names: u64) {
        if let Some(file) = self.files.get_mut(&id) {
            file.to_come = file.to_come.saturating_sub(names);
            if file.to_come == 0 {
                self.files.remove(&id);
            }
        }
    }
}

impl LinkedFile {
    fn new(entry: &SourceEntry, follows: bool) -> Self {
        Self { first: None, to_come: if follows { u64::MAX } else { entry.stat.links } }
    }
}

/// What became of a further name.
pub struct FurtherName {
    pub outcome: LinkOutcome,
    /// The file, if it stands under that.
    pub stands: Option<Inode>,
    /// What gave way although it looked the same.
    pub warning: Option<Error>,
}

impl FurtherName {
    fn without(outcome: LinkOutcome) -> Self {
        Self { outcome, stands: None, warning: None }
    }
}

/// Makes a further name of a file whose first name's fate is known.
pub fn make(
    root: &OutputDir,
    link: &Link,
    first: &First,
    policy: Policy,
    gate: &Gate<'_>,
    is_to_stop: &dyn Fn() -> bool,
) -> Result<FurtherName> {
    let Link { output, entry } = link;
    let path = || output.path_of(&entry.name);
    let fail = |error| Error::io("make the hard link", path(), error);
    let (Some(dir), Some(root_dir)) = (&output.handle, &root.handle) else {
        return Err(fail(io::ErrorKind::NotFound.into()));
    };
    let Some(stands) = &first.stands else {
        let finding = "the file it is another name of is not at the output";
        return Err(Error::finding("make the hard link", path(), finding));
    };
    // A file that changed while it was read was looked at again, and is newer than this name.
    let read_since = first.stat.id == entry.stat.id && first.stat.ctime > entry.stat.ctime;
    if let Some(change) = first.stat.change(&entry.stat).filter(|_| !read_since) {
        let finding = format!("since its first name was listed, {change}");
        return Err(Error::finding("make the hard link", path(), finding));
    }
    let there = dir.inode(&entry.name).if_there().map_err(fail)?;
    let is_it = |there: &Inode| output.volume.is_same(stands, there);
    if let Some(there) = there.filter(|there| there.stat.id == stands.id && is_it(there)) {
        return Ok(FurtherName { stands: Some(there), ..FurtherName::without(LinkOutcome::Kept) });
    }
    if first.is_left {
        // What is there may be anybody's.
        let finding =
            "the file it is another name of is not as in the source, and is left as it is";
        return Err(Error::finding("make the hard link", path(), finding));
    }
    let there = there.map(|there| there.stat);
    let from = root_dir.open_below(&first.dir).map_err(fail)?;
    let decision = match entry.stat.kind {
        // Links can have several names, too.
        Kind::Symlink => {
            let target = |dir: &Dir, name| dir.read_link(name).map_err(fail);
            let is_same = there.as_ref().is_some_and(|there| there.kind == Kind::Symlink)
                && target(dir, &entry.name)? == target(&from, &first.name)?;
            links::decide(policy, &entry.stat, there.as_ref(), is_same.then_some(true))
        }
        _ => {
            let destination = there.as_ref().map(|there| output.destination(&entry.stat, there));
            decide(policy, SourceStat(&entry.stat), destination)
        }
    };
    let mut warning = None;
    let replaces = match decision {
        Decision::Create => false,
        Decision::Leave(why) => return Ok(FurtherName::without(LinkOutcome::Left(why))),
        Decision::Refuse(why) => return Err(Error::finding("make the hard link", path(), why)),
        // A file of its own that looks the same becomes the link that was asked for.
        Decision::Keep if policy == Policy::Never => {
            let why = "it is a file of its own, and nothing is to be replaced";
            return Ok(FurtherName::without(LinkOutcome::Left(why)));
        }
        Decision::Keep if entry.stat.kind == Kind::File => {
            let Some([one, other]) = contents(root, link, first, is_to_stop)? else {
                return Ok(FurtherName::without(LinkOutcome::Abandoned));
            };
            if one != other {
                let error = unlike(root, link, first);
                // If the first has what the source has, this one is older, or has rotted.
                if !first.is_as_listed(root, is_to_stop)? {
                    let remedy = ": one of them is not what the source has; --overwrite-policy always copies it anew";
                    return Err(error.with_note(remedy));
                }
                warning = Some(error.of_deed("keep").of_copied_anew());
            }
            true
        }
        Decision::Keep | Decision::Replace => true,
    };
    if !gate.lets_pass() {
        return Ok(FurtherName::without(LinkOutcome::Abandoned));
    }
    let made = link_to(link, &from, first, replaces, &is_it)?;
    Ok(FurtherName { outcome: LinkOutcome::Made, stands: Some(made), warning })
}

/// The SHA-256 of what the output has under the first name and under the further one, where neither may have been read
/// in this run: one of them may have rotted, or be an older one of the same size and time. None if the run is to stop.
///
/// # Errors
/// One of them cannot be read.
fn contents(
    root: &OutputDir,
    link: &Link,
    first: &First,
    is_to_stop: &dyn Fn() -> bool,
) -> Result<Option<[Digest; 2]>> {
    let Link { output, entry } = link;
    let read = |of: &First| of.hash(root, Algorithm::Sha256, is_to_stop);
    let own = First { dir: output.rel.path(), name: Arc::clone(&entry.name), ..first.clone() };
    Ok(read(first)?.zip(read(&own)?).map(|(one, other)| [one, other]))
}

/// That a further name has another content than the first.
fn unlike(root: &OutputDir, Link { output, entry }: &Link, first: &First) -> Error {
    let finding = format!(
        "its content at the output is not that of {}, another name of it at the source, though size and time are the same",
        Shown::path(&root.path_below(&first.dir.join(&first.name)))
    );
    Error::finding("make the hard link", output.path_of(&entry.name), finding)
}

/// Gives the file `first` in the directory `from` a further name, if it is the right one. What got the name is looked
/// at: another file may have taken the place of the first.
fn link_to(
    link: &Link,
    from: &Dir,
    first: &First,
    replaces: bool,
    is_it: &dyn Fn(&Inode) -> bool,
) -> Result<Inode> {
    let (Link { output, entry }, first) = (link, &*first.name);
    let path = || output.path_of(&entry.name);
    let fail = |error| Error::io("make the hard link", path(), error);
    let dir = output.handle.as_ref().ok_or_else(|| fail(io::ErrorKind::NotFound.into()))?;
    let look = |name: &OsStr| match dir.inode(name) {
        Ok(now) if is_it(&now) => Ok(now),
        Ok(_) => Err(Error::finding("make the hard link", path(), SWAPPED)),
        Err(error) => Err(fail(error)),
    };
    let look_at_link = |name: &OsStr| look(name).inspect_err(|_| drop(dir.remove(name)));
    if !replaces {
        dir.hard_link(from, first, &entry.name).map_err(|error| {
            fail(error).with_note("; without --hard-links it is copied as a file of its own")
        })?;
        return look_at_link(&entry.name);
    }
    let part = dir.create_part_hard_link(output.volume.parts, from, first).map_err(fail)?;
    look_at_link(&part)?;
    if let Err(error) = dir.publish(&part, &entry.name, true) {
        let _ = dir.remove(&part);
        return Err(fail(error));
    }
    // A rename onto a name of the same file does nothing (rename(2)). Some file systems of FUSE number each name, so
    // that it is not known for one.
    dir.remove(&part).if_there().map_err(fail)?;
    look(&entry.name)
}

/// Why there is no further name.
const SWAPPED: &str = "another file took the place of the one that it is another name of";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_first_name_is_all_and_little() {
        let stat = Stat {
            kind: Kind::File,
            size: 7,
            allocated: 0,
            mtime: Time { secs: -1, nanos: 5 },
            ctime: Time { secs: 9, nanos: 999_999_999 },
            id: Identity::default(),
            links: 2,
            mode: 0,
            uid: 0,
            gid: 0,
        };
        let sha256 = Digest::sha256([7; 32]);
        let digests = [None, Some(sha256.into()), Some(Digests::new(sha256, vec![sha256]))];
        for (dir, digests) in ["", "a", "a/b c"]
            .into_iter()
            .flat_map(|dir| digests.clone().map(|digests| (dir, digests)))
        {
            let dir = RelPath::parse(dir.as_bytes()).unwrap_or(RelPath::root());
            let name: Arc<OsStr> = OsStr::new("name\n").into();
            let stands = Some(Inode { stat, birth: Some(stat.mtime) }.known());
            let (is_left, labelled) = (true, false);
            let first = First { dir, name, stat, is_left, digests, stands, labelled };
            let other = SourceEntry { name: OsStr::new("other").into(), stat };
            let again = KeptFirst::new(&first).first(&other).unwrap();
            assert_eq!(format!("{again:?}"), format!("{first:?}"));
        }
        assert!(size_of::<(Identity, LinkedFile)>() <= 32 && size_of::<KeptFirst>() <= 176);
    }
}
