//! The choice of the manifest that holds among those of dircopy in a directory.
//!
//! A name proves nothing: a manifest may have been copied there from a source, with a time that is still to
//! come. The private record of this user names the manifest that it was finished with, and has its digest: that one
//! holds, as long as it is what was written. A record that was copied along with its output still knows as much.
//! Without a record it is the one with the latest name of those that no other lists: what a manifest lists came from a
//! source, and no two can list each other's digests. One of the future is not taken while there is another. Where two
//! may be taken for it, that is said; also that another one lists what this one does not.

use std::hash::{BuildHasher, RandomState};
use std::{collections::HashSet, fs::File, io, io::Seek, path::Path};

use crate::manifest::archive::bag::DECLARATION;
use crate::{
    error::Deed, error::Error, error::Result, hash::Algorithm, hash::Sha256, io::ReadBack,
    manifest::Entries, manifest::ManifestName, manifest::Parsed, manifest::Scanner, manifest::Text,
    manifest::lists, manifest::readers::is_of_stranger, path::RelPath, path::Shown, state::BagNote,
    state::GenerationNote, state::LastReceipt, state::NotAll, state::Note, state::PrivateDir,
    state::SourceMark, state::Unlisted, state::closing::FINISHED, state::private_dir::CONSULT,
    state::private_dir::NAME, state::private_dir::SECRET, state::record::FIRST,
    state::record::measure, state::record::newest_sealed, sys::Dir, sys::DirListing, sys::Medium,
    sys::stat::Kind, tree::LastDir, verify::nearby::at_work, verify::nearby::remedy,
    verify::rival::Rival,
};

/// Number of bytes of earlier manifests that are looked through, the newest first.
const MOST_EARLIER: u64 = 1 << 30;

/// Length of the lines that are taken apart together; bytes.
const TOGETHER: usize = 64 << 10;

/// The manifest that holds, open.
pub struct ValidManifest {
    pub name: ManifestName,
    pub file: File,
    /// True if this user's last run wrote it.
    pub is_recorded: bool,
    /// The newest of those of runs that were cut short.
    pub unfinished: Option<ManifestName>,
    pub rivals: Vec<Rival>,
}

/// The manifests of dircopy in a directory.
pub struct OwnManifests {
    /// The regular files among them that have the name of a finished one, the latest first and those of the future
    /// last.
    finished: Vec<ManifestName>,
    /// Those that have the name of an unfinished one.
    unfinished: Vec<ManifestName>,
    /// The answer of the private record.
    record: Recorded,
    /// Entries that the last run left out, if it noted any.
    missing: Option<u64>,
    /// True if a run that made no list began later.
    is_unlisted: bool,
    /// True if it is called a bag: `bagit.txt` is there.
    is_declared: bool,
    /// True if the private record is that of a bag.
    is_bag: bool,
    /// True if it is that of plain copies.
    is_plain: bool,
    /// Why there may be no finished manifest, and what to do then.
    /// None where no copy began.
    why_none: Option<&'static str>,
    /// The error if it is a generation that was given the name of another one.
    pub misnamed: Option<Error>,
    /// The error if a private record is there and is not believed.
    pub unbelieved: Option<Error>,
}

/// The consequence of that.
const WITHOUT_RECORD: &str = "; so what is there is held against the manifest in it alone, which whoever may write there could \
                              have changed: its own user checks it by that record, and a list that was kept elsewhere \
                              proves more (verify --manifest LIST, restore --expect LIST)";

/// What follows from a list of another user: who may write there can have taken away what was of this one's runs.
const STRANGE: &str = "whose the directory is not, and no record of your runs tells which list holds: give it by its name if you \
                       believe it (verify --manifest, restore --expect)";

/// … where runs came to their end.
const MADE_NONE: &str = "it was removed, or its run made none (--hash none); run the copy again, or give another with \
                         --manifest";

/// The answer of a private record about the manifest that it was finished with.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Recorded {
    /// There is none that can be read.
    Nothing,
    /// It is this.
    Manifest(ManifestName, Sha256),
    /// This user's runs have begun, and none has finished one.
    Unfinished,
}

impl OwnManifests {
    /// Looks at the directory `dir`, whose private directory is below `state`, if that is given.
    ///
    /// # Errors
    /// It cannot be read. A private record that cannot be read, or is another user's, is as good as none, but that this
    /// is so is told.
    pub fn look(dir: &Path, state: Option<&Path>) -> Result<Self> {
        let fail = |error: io::Error| {
            let is_absent = error.kind() == io::ErrorKind::NotFound;
            let deed = if is_absent { "find the directory" } else { "look for a manifest in" };
            match error.kind() {
                io::ErrorKind::NotADirectory if dir.is_file() => {
                    let file = Shown::path(dir);
                    let hint = format!("it is a file; by the list in it: dircopy verify -m {file}");
                    Error::finding(deed, dir, hint)
                }
                _ => Error::io(deed, dir, error),
            }
        };
        let here = Dir::open(dir).map_err(fail)?;
        let record = Recorded::Nothing;
        let mut found = Self {
            finished: Vec::new(),
            unfinished: Vec::new(),
            record,
            missing: None,
            is_unlisted: false,
            is_declared: here
                .stat(DECLARATION.as_ref(), false)
                .is_ok_and(|it| it.kind == Kind::File),
            is_bag: false,
            is_plain: false,
            why_none: Some(MADE_NONE),
            misnamed: None,
            unbelieved: None,
        };
        found.list(&here).map_err(fail)?;
        let is_file = |name: &ManifestName| {
            let stat = here.stat(name.to_string().as_ref(), false);
            stat.is_ok_and(|stat| stat.kind == Kind::File)
        };
        found.finished.retain(is_file);
        found.unfinished.retain(is_file);
        let consulted = PrivateDir::consult(&here, dir, state);
        if let Ok(Some(private)) = &consulted {
            found.missing = NotAll::read(private).map(|note| note.missing);
            found.is_unlisted = Unlisted::read(private).is_some();
            found.is_bag = BagNote::read(private).is_some();
            found.why_none = why_none(private);
            let path = dir.canonicalize().unwrap_or_default();
            found.misnamed = GenerationNote::misnamed(private, &path);
            // A check, or parity, may have a private directory too.
            found.is_plain = found.is_unlisted || SourceMark::read(private).is_some();
        }
        let recorded = consulted.and_then(|private| match &private {
            Some(private) => recorded(&here, private),
            None => Ok(Recorded::Nothing),
        });
        match recorded {
            Ok(recorded) => found.record = recorded,
            Err(error) => found.unbelieved = Some(error.with_note(WITHOUT_RECORD)),
        }
        found.is_plain |= found.record != Recorded::Nothing;
        found.drop_lists();
        ManifestName::newest_first(&mut found.finished);
        Ok(found)
    }

    /// What proves the files of the directory.
    pub fn proof(&self) -> DirProof {
        let is_listed = !(self.finished.is_empty() && self.unfinished.is_empty());
        match (is_listed, self.is_declared) {
            (_, true) if self.is_bag => DirProof::Bag,
            _ if matches!(self.record, Recorded::Manifest(..)) => DirProof::Recorded,
            (_, true) if self.is_plain => DirProof::Recorded,
            (true, true) => DirProof::Either,
            (true, false) => DirProof::Manifest,
            (false, true) => DirProof::Bag,
            (false, false) => DirProof::Nothing,
        }
    }

    fn list(&mut self, here: &Dir) -> io::Result<()> {
        for listed in DirListing::of(here)? {
            match ManifestName::parse(&listed?.name) {
                Some(name) if name.is_finished() => self.finished.push(name),
                Some(name) => self.unfinished.push(name),
                None => {}
            }
        }
        Ok(())
    }

    /// Leaves the manifests of the runs, without the lists beside them.
    fn drop_lists(&mut self) {
        let recorded = match self.record {
            Recorded::Manifest(name, _) => Some(name),
            Recorded::Nothing | Recorded::Unfinished => None,
        };
        let mut all = [&self.finished[..], &self.unfinished].concat();
        ManifestName::drop_lists(&mut all, recorded);
        (self.finished, self.unfinished) = all.into_iter().partition(ManifestName::is_finished);
    }

    /// The one that holds, of the directory `dir`. None but the one that this user's runs finished last does, nor does
    /// one in what they made a bag.
    ///
    /// # Errors
    /// The manifests of the directory cannot be read.
    pub fn valid(&self, dir: &Path) -> Result<Option<ManifestName>> {
        Ok(match self.record {
            // Who may write there can remove it and put another in its place.
            Recorded::Manifest(name, _) => Some(name).filter(|name| self.finished.contains(name)),
            Recorded::Unfinished => None,
            Recorded::Nothing if self.is_bag && !self.is_declared => None,
            Recorded::Nothing => Dir::open(dir)
                .and_then(|here| self.latest_unlisted(&here))
                .deed("read the manifests in", dir)?,
        })
    }

    /// The latest of those with a later name that `wanted` says.
    fn later_than(
        &self,
        name: ManifestName,
        wanted: impl Fn(&ManifestName) -> bool,
    ) -> Option<ManifestName> {
        self.finished.iter().copied().find(|other| *other > name && wanted(other))
    }

    /// Those with earlier names that are no stranger's.
    fn earlier_than<'a>(
        &'a self,
        name: ManifestName,
        here: &'a Dir,
    ) -> impl Iterator<Item = &'a ManifestName> {
        let is_one = move |it: &&ManifestName| **it < name && !is_of_stranger(here, it);
        self.finished.iter().filter(is_one)
    }

    /// Opens the one that holds, of the directory `dir`.
    ///
    /// # Errors
    /// There is none, it is not what the last run wrote, or it cannot be opened.
    pub fn open_valid(&self, dir: &Path) -> Result<ValidManifest> {
        let name = self.valid(dir)?.ok_or_else(|| self.none(dir))?;
        let file_name = name.to_string();
        let cannot = |error| Error::io("open the manifest", dir.join(&file_name), error);
        let here = Dir::open(dir).map_err(cannot)?;
        let mut file = here.open_file(file_name.as_ref(), false).map_err(cannot)?;
        let mut rivals = Vec::new();
        match self.record {
            Recorded::Manifest(_, digest) => {
                if digest_of(&mut file).map_err(cannot)? != digest {
                    let finding = "it is not what the last run wrote: it was changed or replaced since; run the copy \
                                   again, or give it with --manifest";
                    return Err(Error::finding("check against", dir.join(&file_name), finding));
                }
                // One hides no other.
                for is_strange in [true, false] {
                    let wanted = |other: &ManifestName| is_of_stranger(&here, other) == is_strange;
                    let later = self.later_than(name, wanted);
                    rivals.extend(later.map(|later| Rival::unrecorded(&here, later)));
                }
                rivals.extend(self.missing.map(Rival::NotAll));
                rivals.extend(self.is_unlisted.then_some(Rival::Unlisted));
            }
            Recorded::Nothing | Recorded::Unfinished => {
                let of_kind = |later: ManifestName| match later.is_ahead() {
                    true => Rival::Ahead(later),
                    false => Rival::Listed(later),
                };
                let stat = Dir::stat_file(&file).map_err(cannot)?;
                if Dir::is_strange(&stat, &here.stat_self().map_err(cannot)?) {
                    let finding = format!("it is of another user ({}), {STRANGE}", stat.uid);
                    return Err(Error::finding("check against", dir.join(&file_name), finding));
                }
                rivals.extend(name.is_ahead().then_some(Rival::OnlyAhead));
                rivals.extend(self.later_than(name, |_| true).map(of_kind));
                let unlike = self.unlike(&here, name);
                rivals.extend(unlike.deed("read the manifests in", dir)?.map(Rival::Unlike));
            }
        }
        let unfinished = self.later_unfinished(&here, name);
        let unfinished = unfinished.deed("read the manifests in", dir)?;
        let is_recorded = matches!(self.record, Recorded::Manifest(..));
        Ok(ValidManifest { name, file, is_recorded, unfinished, rivals })
    }

    /// The latest finished one that no other of the directory `here` lists.
    fn latest_unlisted(&self, here: &Dir) -> io::Result<Option<ManifestName>> {
        let (Some(latest), more) = (self.finished.first(), self.finished.len() > 1) else {
            return Ok(None);
        };
        if !more && self.unfinished.is_empty() {
            return Ok(Some(*latest));
        }
        let open = |name: &ManifestName| here.open_file(name.to_string().as_ref(), false);
        for name in &self.finished {
            // Most are of one algorithm.
            let mut lines: Vec<(Algorithm, Vec<u8>)> = Vec::new();
            let mut others = self.finished.iter().chain(&self.unfinished);
            let mut lists = |other: &ManifestName| -> io::Result<bool> {
                if other == name {
                    return Ok(false);
                }
                let by = other.algorithm();
                if !lines.iter().any(|(of, _)| *of == by) {
                    lines.push((by, line_of(name, open(name)?, by)?));
                }
                let line = lines.iter().find(|(of, _)| *of == by);
                line.map_or(Ok(false), |(_, line)| has_line(open(other)?, line))
            };
            let listed = others.try_fold(false, |listed, other| match listed {
                true => Ok(true),
                false => lists(other),
            });
            if !listed? {
                return Ok(Some(*name));
            }
        }
        Ok(None)
    }

    /// The latest of those of runs that were cut short. One that the manifest `taken` lists came from a source.
    fn later_unfinished(
        &self,
        here: &Dir,
        taken: ManifestName,
    ) -> io::Result<Option<ManifestName>> {
        let mut all = self.unfinished.clone();
        all.retain(|name| !is_of_stranger(here, name));
        if !all.is_empty() {
            let file = here.open_file(taken.to_string().as_ref(), false)?;
            each_name(file, |_| true, |it| all.retain(|name| name.to_string().as_bytes() != it))?;
        }
        Ok(all.into_iter().max())
    }

    /// The latest of the earlier ones that has a line which the one that is `taken` does not have. One that came from a
    /// source, as `taken` says, is none.
    fn unlike(&self, here: &Dir, taken: ManifestName) -> io::Result<Option<ManifestName>> {
        let open = |name: &ManifestName| here.open_file(name.to_string().as_ref(), false);
        let mut earlier = self.earlier_than(taken, here).peekable();
        if earlier.peek().is_none() {
            return Ok(None);
        }
        let (hashing, mut lines) = (RandomState::new(), HashSet::new());
        any_line(open(&taken)?, |line| {
            lines.insert(hashing.hash_one(line));
            false
        })?;
        for other in earlier {
            let is_missing = |line: &[u8]| !lines.contains(&hashing.hash_one(line));
            if any_line(open(other)?, is_missing)?
                && is_missing(&line_of(other, open(other)?, taken.algorithm())?)
            {
                return Ok(Some(*other));
            }
        }
        Ok(None)
    }

    /// The number of files that earlier ones list and that are there, if the one that is `taken` does not list them.
    /// One that came from a source, as `taken` says, is none of these.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn dropped(&self, here: &Dir, taken: ManifestName) -> io::Result<Option<Rival>> {
        let open = |name: &ManifestName| here.open_file(name.to_string().as_ref(), false);
        let mut earlier = self.earlier_than(taken, here).peekable();
        if earlier.peek().is_none() {
            return Ok(None);
        }
        let (hashing, mut names, mut lines) = (RandomState::new(), HashSet::new(), HashSet::new());
        // Most lines are in all of them, and are taken apart once.
        let mut is_new = |line: &[u8]| lines.insert(hashing.hash_one(line));
        each_name(open(&taken)?, &mut is_new, |name| _ = names.insert(hashing.hash_one(name)))?;
        let (mut last, mut files, mut room) = (LastDir::default(), 0, MOST_EARLIER);
        for other in earlier {
            if names.contains(&hashing.hash_one(other.to_string().as_bytes())) {
                continue;
            }
            let file = open(other)?;
            let Some(left) = room.checked_sub(Dir::stat_file(&file)?.size) else { break };
            room = left;
            each_name(file, &mut is_new, |name| {
                let is_new = names.insert(hashing.hash_one(name));
                let path = RelPath::parse(name).ok().filter(|_| is_new);
                let stat = path.and_then(|path| last.stat(here, &path, false).ok());
                files += u64::from(stat.is_some_and(|stat| stat.kind == Kind::File));
            })?;
        }
        Ok((files > 0).then_some(Rival::Dropped(files)))
    }

    /// Why there is nothing to check against.
    fn none(&self, dir: &Path) -> Error {
        if let Some(holder) = at_work(dir) {
            let finding = format!("{holder} is at work on it: check it when that one has ended");
            return Error::finding("check", dir, finding);
        }
        let unfinished = self.unfinished.iter().max();
        let finding = match (self.finished.first(), &self.record, unfinished) {
            (Some(other), Recorded::Manifest(recorded, _), _) => format!(
                "{recorded}, which the last run finished, is gone, and others may not hold or not be yours; \
                 run the copy again, or give {other} with --manifest"
            ),
            (Some(other), Recorded::Nothing, _) if self.is_bag && !self.is_declared => format!(
                "your runs made it a bag, its bagit.txt is gone, and {other} is not theirs; run the copy again, or give that \
                 one with --manifest"
            ),
            (Some(other), Recorded::Unfinished, _) => format!(
                "no run of yours to it has come to its end, and {other} is not theirs; run the copy again, or give that \
                 one with --manifest"
            ),
            (_, _, None) => match self.why_none.filter(|_| dir.join(NAME).is_dir()) {
                Some(why) => format!(
                    "dircopy was here, and there is no finished manifest (dircopy-<UTC time>.sha256sum): {why}"
                ),
                None => format!(
                    "it is no output of dircopy: it has no manifest (dircopy-<UTC time>.sha256sum); {}",
                    remedy(dir)
                ),
            },
            (_, _, Some(name)) => format!(
                "there is only {name}, the manifest of a run that was cut short; \
                 run the copy again, or give that one with --manifest"
            ),
        };
        Error::finding("check", dir, finding)
    }
}

/// Why runs with this private directory may have left no manifest, and what to do.
fn why_none(private: &PrivateDir) -> Option<&'static str> {
    let has = |name: &str| private.dir().stat(name.as_ref(), false).is_ok();
    Some(match () {
        () if BagNote::read(private).is_some() => {
            "it is a bag that is not finished; run the same copy again: what that names as left keeps it so, until it is \
             moved away or healed"
        }
        () if has(FIRST) => "the last run did not come to its end; run the same copy again",
        // A check, or what made a stream's copy whole, keeps its notes there too.
        () if !has(LastReceipt::FILE) && !has(SECRET) => return None,
        () if !has(LastReceipt::FILE) => {
            "no run has come to its end; a copy goes on by the same command, and a plan wants its shards and then \
             dircopy finish"
        }
        () => MADE_NONE,
    })
}

/// Hands the names to `see` that are on the lines of a manifest of which `is_new` holds.
fn each_name(
    manifest: File,
    mut is_new: impl FnMut(&[u8]) -> bool,
    mut see: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut named = |lines: &[u8]| -> io::Result<()> {
        let mut entries = Entries::of_all(lines);
        while let Some(entry) = entries.next_entry()? {
            if let Parsed::Record(record) = entry.parsed {
                see(record.name.strip_prefix(b"./").unwrap_or(record.name));
            }
        }
        Ok(())
    };
    let (mut scanner, mut lines) = (Scanner::new(manifest), Vec::new());
    while let Some(next) = scanner.next_line()? {
        match next.text {
            Text::Whole(line) if is_new(line) => lines.extend(line.iter().chain(b"\n")),
            _ => continue,
        }
        if lines.len() > TOGETHER {
            named(&lines)?;
            lines.clear();
        }
    }
    named(&lines)
}

/// What proves the files of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirProof {
    /// Neither a manifest of dircopy nor a bag.
    Nothing,
    /// The manifest of the last plain copy, by the record of this user's runs, if it left one.
    Recorded,
    /// A manifest of dircopy, which no record knows.
    Manifest,
    /// It is a bag.
    Bag,
    /// It is a bag, and has a manifest that no record knows. Who may add files to a bag, or to the source of a copy,
    /// can make the other of it; so neither is enough.
    Either,
}

impl DirProof {
    /// Looks at the directory `dir`, whose private directory is below `state`, if that is given.
    pub fn of(dir: &Path, state: Option<&Path>) -> Self {
        OwnManifests::look(dir, state).map_or(Self::Nothing, |found| found.proof())
    }
}

/// True if the directory `dir` has a manifest of dircopy, or says why it has none.
pub fn has_own_manifest(dir: &Path, state: Option<&Path>) -> bool {
    let found = OwnManifests::look(dir, state);
    found.is_ok_and(|found| !(found.finished.is_empty() && found.unfinished.is_empty()))
}

/// The answer of the private record of the directory `here`, or of a later one on its way, whose run was stopped when
/// its manifest had its name. One that was copied there with its output counts if the manifest that it names is there,
/// as it was written.
///
/// # Errors
/// There is one, and it is not believed.
fn recorded(here: &Dir, private: &PrivateDir) -> Result<Recorded> {
    let fail = |error| Error::io(CONSULT, private.path(), error);
    let unbelieved =
        |finding: &str| Err(Error::finding(CONSULT, private.path(), finding.to_owned()));
    let sealed = newest_sealed(private, here).map_err(fail)?;
    // For reading only: the file system may be mounted so.
    let Some(file) = private.dir().open_file(FINISHED.as_ref(), false).if_there().map_err(fail)?
    else {
        let has_begun = private.dir().stat(FIRST.as_ref(), false).is_ok();
        return Ok(match sealed {
            Some((name, digest)) => Recorded::Manifest(name, digest),
            None if has_begun => Recorded::Unfinished,
            None => Recorded::Nothing,
        });
    };
    if Dir::stat_file(&file).map_err(fail)?.kind != Kind::File {
        return unbelieved("its record is no regular file");
    }
    let closed = measure(&file, private.mark(), &|| false).map_err(fail)?;
    let with = closed.newest();
    let name = with.and_then(|with| ManifestName::parse(with.name.as_ref()));
    let (Some(with), Some(name)) = (with, name.filter(ManifestName::is_finished)) else {
        return unbelieved("its record is damaged, or of another version");
    };
    // What is known by its path may be of another disk.
    let holds = closed.fits && !private.is_by_path_alone() || {
        let manifest = here.open_file(name.to_string().as_ref(), false);
        manifest.and_then(|mut it| digest_of(&mut it)).is_ok_and(|is| is == with.digest)
    };
    match holds {
        true => Ok(match sealed.filter(|(later, _)| *later > name) {
            Some((later, digest)) => Recorded::Manifest(later, digest),
            None => Recorded::Manifest(name, with.digest),
        }),
        false => unbelieved(&format!(
            "it is of another directory or disk, and the manifest that it was finished with, {name}, is not here as it \
             was written"
        )),
    }
}

/// The line that a manifest of `algorithm` has for the file that is called `name`.
fn line_of(name: &ManifestName, file: File, algorithm: Algorithm) -> io::Result<Vec<u8>> {
    let hashed = ReadBack::new().hash(Medium::any(&file), algorithm, || false, |_| ())?;
    let digest = hashed.and_then(|hashed| hashed.digest).ok_or(io::ErrorKind::Interrupted)?;
    let mut line = Vec::new();
    lists::write_path(&mut line, &digest, name.to_string().as_bytes());
    line.pop();
    Ok(line)
}

/// The digest of all of a file, which is at its start again.
fn digest_of(file: &mut File) -> io::Result<Sha256> {
    let hashed = ReadBack::new().hash(Medium::any(file), Algorithm::Sha256, || false, |_| ())?;
    file.rewind()?;
    let digest = hashed.and_then(|hashed| hashed.digest?.as_sha256());
    digest.ok_or_else(|| io::ErrorKind::Interrupted.into())
}

/// True if a file has this line.
fn has_line(file: File, line: &[u8]) -> io::Result<bool> {
    any_line(file, |next| next == line)
}

/// True if `is_one` holds for a line of the file; no further line is read.
fn any_line(file: File, mut is_one: impl FnMut(&[u8]) -> bool) -> io::Result<bool> {
    let mut scanner = Scanner::new(file);
    while let Some(next) = scanner.next_line()? {
        if let Text::Whole(text) = next.text
            && is_one(text)
        {
            return Ok(true);
        }
    }
    Ok(false)
}
