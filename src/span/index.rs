//! The index of a span: a list of all files with the disk of each, the same on every disk.
//!
//! It is made of the manifests that this user's runs finished, each as its private record has it, so nothing is in it
//! that no disk proved. It is a list as manifests are: where disk 1 is mounted or linked as `1`, and so on,
//! `sha256sum -c` checks it. What an earlier index says is believed only where the private note of a disk knows its
//! digest, and then it is no more than a hint where a file was.

use std::{collections::BTreeSet, ffi::OsStr, io, path::Path, path::PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    copy::CopyJob, error::Deed, error::Error, error::Result, event::EventObserver, hash::Algorithm,
    hash::Digest, hash::hasher::Hashed, manifest::Entries, manifest::ManifestName,
    manifest::Parsed, manifest::Readers, manifest::lists, manifest::lists::SPAN_HEAD,
    path::Examples, span::disks::Disk, span::disks::Disks, span::disks::FORGOTTEN,
    span::disks::Member, span::disks::SpanNote, span::disks::member_of, span::disks::name_of,
    span::in_words, span::memory::Memory, span::memory::Seen, staged::write_whole,
    state::FinishedManifest, state::Missing, state::Note, state::PrivateDir, sys, sys::Dir,
    sys::Uninterrupted, tree::PathRecord, tree::Patience, tree::SortedRecords, tree::Sorter,
    tree::by_path,
};

const WRITE: &str = "write the index of the span to";

const TAKE: &str = "take into the index";

/// Number of bytes of lines that are written at a time.
const MUCH: usize = 256 << 10;

/// The place of a disk among those that are here, and why it does not have the index.
type Failed = (usize, Error);

/// Hands the lines of the list `name` in `root` to `see`, as digest and path; false if its SHA-256 is not this.
pub fn read_list(
    root: &Dir,
    name: &str,
    digest: &str,
    mut see: impl FnMut(Digest, &[u8]) -> io::Result<()>,
) -> io::Result<bool> {
    let file = Uninterrupted(root.open_file(name.as_ref(), false)?);
    let mut list = Hashed::new(file, Algorithm::Sha256);
    let algorithm = ManifestName::parse(name.as_ref()).map(|name| name.algorithm());
    let mut entries = Entries::of_all(&mut list);
    while let Some(entry) = entries.next_entry()? {
        if let Parsed::Record(record) = entry.parsed {
            let digest = record.digest;
            see(algorithm.map_or(digest, |it| digest.in_list_of(it)), record.name)?;
        }
    }
    Ok(list.digest().is_some_and(|found| found.to_string() == digest))
}

/// The number of the disk and the path on a line of an index.
fn split(name: &[u8]) -> Option<(usize, &[u8])> {
    let slash = memchr::memchr(b'/', name)?;
    let number: usize = std::str::from_utf8(&name[..slash]).ok()?.parse().ok()?;
    Some((number.checked_sub(1)?, &name[slash + 1..]))
}

/// What the last index has on disks that others took the place of. Without an index that can be believed there is
/// nothing.
pub fn hints(disks: &Disks, job: &CopyJob) -> Result<Option<SortedRecords>> {
    let Some(noted) = disks.noted.as_ref().filter(|_| !disks.replaced.is_empty()) else {
        return Ok(None);
    };
    for disk in disks.each.iter().filter(|disk| disk.note.as_ref() == Some(noted)) {
        let Some(root) = &disk.dir.handle else { continue };
        let mut sorter = Sorter::new(by_path);
        let read = noted.each_line(root, |number, _, path| {
            let seen = Seen { at: Some(number), ..Seen::default() };
            if disks.replaced.contains(&number) { sorter.add_json(&seen, path) } else { Ok(()) }
        });
        if matches!(read, Ok(true)) {
            return sorter.finish().map(Some).deed("sort the names of", &job.source);
        }
    }
    Ok(None)
}

impl SpanNote {
    /// Hands the lines of its index in `root` to `see`: the number of the disk, digest and path; false if it is not
    /// there as it was written.
    pub fn each_line(
        &self,
        root: &Dir,
        mut see: impl FnMut(usize, Digest, &[u8]) -> io::Result<()>,
    ) -> io::Result<bool> {
        read_list(root, &self.index, &self.digest, |digest, name| match split(name) {
            Some((number, path)) => see(number, digest, path),
            None => Err(io::ErrorKind::InvalidData.into()),
        })
    }
}

/// Writes the index when all disks have what they got.
pub struct IndexWriting<'a> {
    pub job: &'a CopyJob,
    pub observer: &'a EventObserver<'a>,
    pub patience: Patience<'a>,
    /// What the run wrote on each disk, if it wrote any.
    pub manifests: Vec<Option<PathBuf>>,
}

/// The note of an index that is about to be written, so that one that a killed run left is known.
#[derive(Serialize, Deserialize)]
struct Coming(SpanNote);

impl Note for Coming {
    const FILE: &str = "span-coming";
    const HEAD: &str = "dircopy span coming 1";
}

/// A disk that gets the index, or the memory of the span, which has no number.
struct Target {
    number: Option<usize>,
    root: Dir,
    path: PathBuf,
    private: PrivateDir,
    name: String,
    note: Option<SpanNote>,
    coming: Option<Coming>,
}

/// An index that is to be written.
struct NewIndex {
    lines: SortedRecords,
    /// Names of indices that are listed, so that they are files from the source.
    listed: BTreeSet<Vec<u8>>,
    head: String,
    algorithm: Algorithm,
    readers: Readers,
}

impl IndexWriting<'_> {
    /// Writes it to all disks that are here, where so many files are on none yet. The places of those that do not have
    /// it now, and why; what is to be remembered counts with the first.
    pub fn write(&self, disks: &Disks, waiting: u64) -> Vec<Failed> {
        self.write_where_it_can_be(disks, waiting).unwrap_or_else(|failed| vec![failed])
    }

    fn write_where_it_can_be(
        &self,
        disks: &Disks,
        waiting: u64,
    ) -> std::result::Result<Vec<Failed>, Failed> {
        let targets = self.targets(disks)?;
        let (index, members) = self.gather(disks, &targets, waiting)?;
        let fail = |error| (0, Error::io(WRITE, &targets[0].path, error));
        let digest = index.digest().map_err(fail)?;
        let newest = targets.iter().filter_map(|it| it.note.as_ref()).max_by_key(|it| it.version);
        let listed = |note: &SpanNote| index.listed.contains(note.index.as_bytes());
        let is_usable = |note: &SpanNote| {
            let has_room = |target: &Target| target.has(note) || target.is_free(&note.index);
            !listed(note) && targets.iter().all(has_room)
        };
        let is_same = |note: &&SpanNote| {
            note.digest == digest && note.members == members && note.waiting == waiting
        };
        let note = match newest.filter(is_same).filter(|note| is_usable(note)) {
            Some(newest) => newest.clone(),
            None => {
                let version = newest.map_or(1, |note| note.version.saturating_add(1));
                let mut name = ManifestName::new(Timestamp::now());
                // What else has such a name stays.
                while !targets.iter().all(|target| target.is_free(&name.span()))
                    && let Some(next) = name.next()
                {
                    name = next;
                }
                let (index, algorithm) = (name.span(), Some(self.job.options.algorithm));
                SpanNote { version, members, index, digest, waiting, algorithm }
            }
        };
        let written = targets.iter().enumerate().filter_map(|(at, target)| {
            let is_new = target.note.as_ref() != Some(&note);
            let give = || {
                target.give(&index, &note, is_new, self.job.options.sync)?;
                // What came from the source is no index of ours, whatever it is called.
                let mut before = target.noted().filter(|old| !listed(old));
                before.try_for_each(|old| target.forget(old, &note))?;
                let is_left = target.coming.is_some() || is_new;
                if is_left { Coming::forget(&target.private) } else { Ok(()) }
            };
            let at = if target.number.is_some() { at } else { 0 };
            give().err().map(|error| (at, Error::io(WRITE, &target.path, error)))
        });
        Ok(written.collect())
    }

    /// The disks, locked, and the memory, which is locked for the whole run.
    fn targets(&self, disks: &Disks) -> std::result::Result<Vec<Target>, Failed> {
        let of_disk = |(at, disk): (usize, &Disk)| {
            let opened = disk.root().and_then(|root| self.open(root, &disk.path));
            let locked = opened.and_then(|target| {
                self.patience.lock(&target.private, &disk.path)?;
                match disk.name.as_ref().is_none_or(|name| *name == target.name) {
                    true => Ok(Target { number: Some(disk.number), ..target }),
                    false => Err(Error::finding(WRITE, &disk.path, "another disk is there now")),
                }
            });
            locked.map_err(|error| (at, error))
        };
        let of_memory = |Memory { path, .. }: &Memory| {
            let root = Dir::open_named(path).deed("open the directory", path);
            root.and_then(|root| self.open(root, path)).map_err(|error| (0, error))
        };
        let memory = disks.memory.iter().map(of_memory);
        disks.each.iter().enumerate().map(of_disk).chain(memory).collect()
    }

    fn open(&self, root: Dir, path: &Path) -> Result<Target> {
        let job = self.job;
        let private = PrivateDir::open(&root, path, job.state.as_deref(), Missing::Make)?;
        let private =
            private.ok_or_else(|| Error::finding(WRITE, path, "it has no private directory"))?;
        private.secret(job.options.sync).deed(WRITE, path)?;
        let (path, name) = (path.to_path_buf(), name_of(&private).unwrap_or_default());
        let (note, coming) = (SpanNote::read(&private), Coming::read(&private));
        Ok(Target { number: None, root, path, private, name, note, coming })
    }

    /// The lines of all manifests, in the order of a walk, each file once, with those of the last index of disks that
    /// are not here.
    fn gather(
        &self,
        disks: &Disks,
        targets: &[Target],
        waiting: u64,
    ) -> std::result::Result<(NewIndex, Vec<Member>), Failed> {
        let algorithm = self.job.options.algorithm;
        let mut sorter = Sorter::new(by_path);
        let source = Dir::open_named(&self.job.source).and_then(|source| source.stat_self());
        let mut readers = Readers::of(source.ok().as_ref());
        let indices = targets.iter().flat_map(Target::noted).map(|note| note.index.as_bytes());
        let (indices, mut listed): (BTreeSet<_>, _) = (indices.collect(), BTreeSet::new());
        for (at, Target { number, root, path, private, .. }) in targets.iter().enumerate() {
            let Some(number) = number else { continue };
            let named = FinishedManifest::last_named(private);
            if let Some(Some(written)) = self.manifests.get(at)
                && named.as_ref().map(|it| OsStr::new(&it.name)) != written.file_name()
            {
                let finding = "the private record there could not be finished with it: make room, and run the same copy again";
                return Err((at, Error::finding(TAKE, written, finding)));
            }
            let Some(manifest) = named else { continue };
            let list = path.join(&manifest.name);
            let fail = |error| (at, Error::io(TAKE, &list, error));
            let refuse = |why: &'static str| (at, Error::finding(TAKE, &list, why));
            let stat = root.stat(manifest.name.as_ref(), false).map_err(fail)?;
            readers.join(Readers::of(Some(&stat)));
            let mut is_of_one = true;
            let is_whole =
                read_list(root, &manifest.name, &manifest.digest.to_string(), |digest, name| {
                    is_of_one &= digest.algorithm() == algorithm;
                    listed.extend(indices.get(name).map(|name| name.to_vec()));
                    sorter.add(format!("{number:09} {digest}"), name)
                });
            match is_whole.map_err(fail)? {
                true if is_of_one => {}
                true => return Err(refuse("it has digests of another algorithm than the others")),
                false => return Err(refuse("it is not what the last run wrote")),
            }
        }
        take_absent(disks, targets, &mut sorter)?;
        let fail = |error| (0, Error::io(WRITE, &targets[0].path, error));
        let (lines, files) = self.each_once(sorter, disks.given.len()).map_err(fail)?;
        let member = |(number, files): (usize, u64)| {
            let here = targets.iter().find(|target| target.number == Some(number));
            let absent = disks.absent.iter().find(|disk| disk.number == number);
            match (here, absent) {
                (Some(it), _) => member_of(&it.root, &it.path, it.name.clone(), files),
                (None, Some(it)) => Member { files, ..it.member.clone() },
                (None, None) => Member::default(),
            }
        };
        let members: Vec<Member> = files.into_iter().enumerate().map(member).collect();
        let mut head =
            format!("{SPAN_HEAD} what is on which disk; the names begin with its number\n");
        for (number, member) in members.iter().enumerate() {
            head += &format!("# {}: {}\n", member.words(number), in_words(member.files));
        }
        if waiting > 0 {
            head += &format!("# on no disk yet when this was written: {}\n", in_words(waiting));
        }
        Ok((NewIndex { lines, listed, head, algorithm, readers }, members))
    }

    /// Leaves of what several disks have the first, and counts the files of each.
    fn each_once(&self, sorter: Sorter, disks: usize) -> io::Result<(SortedRecords, Vec<u64>)> {
        let (mut once, mut files, mut last) = (Sorter::new(by_path), vec![0; disks], None);
        let (mut twice, sorted) = (Examples::default(), sorter.finish()?);
        let mut reader = sorted.reader();
        while let Some(record) = reader.next_record()? {
            let (text, path) = PathRecord::told(record);
            if last.as_deref() == Some(path) {
                twice.add(path);
                continue;
            }
            last = Some(path.to_vec());
            let number = text.split(' ').next().and_then(|number| number.parse::<usize>().ok());
            if let Some(files) = number.and_then(|number| files.get_mut(number)) {
                *files += 1;
            }
            once.add(text, path)?;
        }
        twice.tell(self.job, self.observer, |names| {
            format!("more than one disk lists {names}: the index has the first")
        });
        Ok((once.finish()?, files))
    }
}

/// Takes what the last index has on disks that are not here.
///
/// # Errors
/// It is nowhere as it was written.
fn take_absent(
    disks: &Disks,
    targets: &[Target],
    sorter: &mut Sorter,
) -> std::result::Result<(), Failed> {
    let is_absent = |number| disks.absent.iter().any(|it| it.number == number && !it.is_new());
    let Some(noted) = disks.noted.as_ref().filter(|_| disks.absent.iter().any(|it| !it.is_new()))
    else {
        return Ok(());
    };
    let Some(target) = targets.iter().find(|target| target.has(noted)) else {
        return Err((0, Error::finding(TAKE, &*noted.index, FORGOTTEN)));
    };
    let taken = noted.each_line(&target.root, |number, digest, path| match is_absent(number) {
        true => sorter.add(format!("{number:09} {digest}"), path),
        false => Ok(()),
    });
    match taken.map_err(|error| (0, Error::io(TAKE, &target.path, error)))? {
        true => Ok(()),
        false => Err((0, Error::finding(TAKE, &*noted.index, "it was changed while it was read"))),
    }
}

impl NewIndex {
    /// Hands the text to `write`, piece by piece.
    fn each_piece(&self, mut write: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let (mut text, mut reader) = (self.head.clone().into_bytes(), self.lines.reader());
        while let Some(record) = reader.next_record()? {
            let (words, path) = PathRecord::told(record);
            let line = words.split_once(' ').and_then(|(number, digest)| {
                let number: usize = number.parse().ok()?;
                Some((number + 1, Digest::parse(self.algorithm, digest.as_bytes())?))
            });
            let (number, digest) = line.ok_or(io::ErrorKind::InvalidData)?;
            let name = [number.to_string().as_bytes(), b"/", path].concat();
            lists::write_path(&mut text, &digest, &name);
            if text.len() >= MUCH {
                write(&text)?;
                text.clear();
            }
        }
        write(&text)
    }

    fn digest(&self) -> io::Result<String> {
        let mut hasher = Algorithm::Sha256.start();
        self.each_piece(|text| {
            hasher.update(text);
            Ok(())
        })?;
        hasher.finish().map(|digest| digest.to_string()).ok_or_else(|| io::ErrorKind::Other.into())
    }
}

impl Target {
    /// The index that it has, and one that a killed run was about to write.
    fn noted(&self) -> impl Iterator<Item = &SpanNote> {
        self.note.iter().chain(self.coming.iter().map(|coming| &coming.0))
    }

    /// True if nothing has this name.
    fn is_free(&self, name: &str) -> bool {
        self.root.stat(name.as_ref(), false).if_there().is_ok_and(|there| there.is_none())
    }

    /// True if it has the index of this note.
    fn has(&self, note: &SpanNote) -> bool {
        matches!(read_list(&self.root, &note.index, &note.digest, |_, _| Ok(())), Ok(true))
    }

    /// Writes the index and then the note, unless they are there.
    fn give(
        &self,
        index: &NewIndex,
        note: &SpanNote,
        is_new: bool,
        durable: bool,
    ) -> io::Result<()> {
        if !self.has(note) {
            Coming(note.clone()).write(&self.private, durable)?;
            write_whole(&self.root, note.index.as_ref(), false, false, |file| {
                sys::let_read(file, |group| index.readers.mode(group))?;
                index.each_piece(|text| sys::write_all(&*file, text))
            })?;
        }
        if is_new { note.write(&self.private, durable) } else { Ok(()) }
    }

    /// Removes the index of an `old` note, if it is that still.
    fn forget(&self, old: &SpanNote, note: &SpanNote) -> io::Result<()> {
        match old.index != note.index && self.has(old) {
            true => self.root.remove(old.index.as_ref()),
            false => Ok(()),
        }
    }
}
