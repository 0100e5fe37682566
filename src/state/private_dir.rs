//! The private directory of an output: made, opened and judged.
//!
//! It is believed only if it belongs to the user of this process and is closed to all others. What is
//! written in it carries the [`Mark`] of the output, so that a directory that was copied together with
//! an output is not taken for that of the copy.

use std::{
    ffi::OsStr, ffi::OsString, fs::File, hash::BuildHasher, hash::Hasher, hash::RandomState, io,
    io::Read, path::Path, path::PathBuf,
};

use crate::{
    error::Deed, error::Error, error::Result, hash::Sha256, hash::hex,
    manifest::archive::bag::PAYLOAD, staged::StagedFile, state::kept::has_only_parity,
    state::privacy::KEEP, state::privacy::why_open, sys, sys::Dir, sys::DirListing, sys::PartTag,
    sys::Uninterrupted, sys::stat::Kind, sys::stat::Stat, sys::stat::Time,
};

/// The name of the private directory in the root of an output. Nothing of this name in the root of a source is ever
/// copied.
pub const NAME: &str = ".dircopy";

/// The name of a mirror's trash in the root of an output, which gets the entries that have left the source. Nothing of
/// this name in the root of a source is copied either.
pub const TRASH: &str = ".dircopy-trash";

/// The directory of the parity in it.
pub const PARITY: &str = "parity";

/// The deed of going by what runs keep there.
pub const CONSULT: &str = "go by the private record in";

/// The deed of opening the directory that private directories are below.
const OPEN_ABOVE: &str = "open the directory for private records";

/// The remedy where there can be none in an output, and what was asked for needs it.
const STATE_KEEPS_IT: &str = "; --state DIR keeps it elsewhere";

/// The remedy where `--state` cannot be used.
pub const STATE_NEEDS_IT: &str =
    "; --state names where the record of this output is to be: mend that, or leave it out";

/// The file with the secret.
pub const SECRET: &str = "secret";

/// More is not read of a secret, in bytes: 64 of the number, and when its file was made.
const MOST_SECRET: u64 = 200;

/// The beginning of each record, each note, and what a check keeps.
const HANDWRITING: &[u8] = b"dircopy";

/// A number that only this user's runs at an output know. It shows that a journal or a part file is of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secret(Sha256);

impl Secret {
    /// The seal of journals.
    pub fn of_journals(&self) -> Sha256 {
        self.0
    }

    /// The mark of generations of Media Hash Lists.
    pub fn of_generations(&self) -> Sha256 {
        Sha256::of(&[b"generations", &self.0.0])
    }

    /// By what the output is known in its receipts, which anyone may read.
    pub fn of_receipts(&self) -> Sha256 {
        Sha256::of(&[b"receipts", &self.0.0])
    }

    /// The tag in the names of part files.
    pub fn of_parts(&self) -> PartTag {
        let Sha256(sum) = Sha256::of(&[b"part files", &self.0.0]);
        PartTag::new(std::array::from_fn(|i| sum[i]))
    }
}

/// Which output a private directory is of: the inode numbers of both directories, and when both were made
/// where the system tells. The number of the device is left out: it may be another after a restart.
///
/// That of a file in it says when the file was made, too. A private directory may lie deeper in a source, made up
/// by who writes there, and the copy of it be found where that part of the copy is used as an output. Inode numbers
/// and times of the output are no secret; but when a file will be made, to the nanosecond, is not known to who writes
/// what is to be in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark(String);

impl Mark {
    /// As it is written down: without blanks.
    pub fn text(&self) -> &str {
        &self.0
    }

    fn of(root: &Dir, private: &Dir) -> io::Result<Self> {
        let mut text = String::new();
        for dir in [root, private] {
            let separator = if text.is_empty() { "" } else { "/" };
            text += separator;
            text += &mark_of(dir)?;
        }
        Ok(Self(text))
    }

    /// That of this file in the private directory.
    pub fn of_file(&self, file: &File) -> Self {
        Self(format!("{}/{}", self.0, made_at(Dir::birth_of(file))))
    }
}

/// By what a directory is known again on its file system: its inode number, and when it was made.
pub(super) fn mark_of(dir: &Dir) -> io::Result<String> {
    Ok(format!("{:x}{}", dir.identity()?.ino, made_at(dir.birth())))
}

/// True if a directory has this mark, or numbers tell nothing on its file system.
pub(super) fn is_marked(dir: &Dir, mark: &str) -> io::Result<bool> {
    Ok(!dir.keeps_numbers() || is_same_mark(&mark_of(dir)?, mark))
}

/// True for two marks of one directory, whose time of birth may not have been told once.
fn is_same_mark(one: &str, other: &str) -> bool {
    match (one.split_once('@'), other.split_once('@')) {
        (Some(one), Some(other)) => one == other,
        (one_born, other_born) => {
            one_born.map_or(one, |(number, _)| number)
                == other_born.map_or(other, |(number, _)| number)
        }
    }
}

/// When an entry was made; empty where that is not told.
fn made_at(birth: Option<Time>) -> String {
    birth.map_or(String::new(), |Time { secs, nanos }| format!("@{secs}.{nanos:09}"))
}

/// The treatment of a missing private directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Make it, and where private directories are kept elsewhere also the one in the output, by which runs keep each
    /// other out.
    Make,
    /// Make it, and nothing in the output if it is kept elsewhere.
    MakeForRecords,
    /// Do without.
    Leave,
}

/// Where the private directory of an output is.
#[derive(Clone, Copy, Debug)]
pub enum PrivatePlace<'a> {
    /// In the output.
    InOutput,
    /// In this directory, among those of other outputs.
    Among(&'a Path),
    /// In this one, which is of what the output is a part of.
    Within(&'a PrivateDir),
    /// There is none.
    Nowhere,
}

/// The name of a part's private directory in the one of the whole output.
const PART: &str = "payload";

/// An open private directory.
#[derive(Debug)]
pub struct PrivateDir {
    dir: Dir,
    path: PathBuf,
    mark: Mark,
    /// The one in the output, where this one is elsewhere: it is locked, and knows the source. `None` if it cannot be
    /// this user's alone.
    at_output: Option<Dir>,
}

/// The payload of a bag, of which this user's runs keep something.
pub struct KeptPayload {
    pub dir: Dir,
    pub path: PathBuf,
    pub private: PrivateDir,
}

impl PrivateDir {
    /// Opens the private directory of the output whose root is `root`, at `path`; below the directory
    /// `elsewhere`, if that is given. `None` if there is none, and it is not to be made.
    ///
    /// # Errors
    /// Something of its name is there that is not this user's alone, or it cannot be made or opened.
    pub fn open(
        root: &Dir,
        path: &Path,
        elsewhere: Option<&Path>,
        missing: Missing,
    ) -> Result<Option<Self>> {
        let place = elsewhere.map_or(PrivatePlace::InOutput, PrivatePlace::Among);
        Self::open_at(root, path, place, missing)
    }

    /// The same to be read alone. What has its name and is not believed says nothing.
    ///
    /// # Errors
    /// Why that is not believed.
    pub fn consult(root: &Dir, path: &Path, elsewhere: Option<&Path>) -> Result<Option<Self>> {
        let opened = Self::open(root, path, elsewhere, Missing::Leave);
        opened.map_err(|error| error.of_deed(CONSULT))
    }

    /// The same for what cannot be done without.
    ///
    /// # Errors
    /// The same, with the remedy.
    pub fn need(
        root: &Dir,
        path: &Path,
        elsewhere: Option<&Path>,
        missing: Missing,
    ) -> Result<Option<Self>> {
        let remedy = elsewhere.map_or(STATE_KEEPS_IT, |_| STATE_NEEDS_IT);
        Self::open(root, path, elsewhere, missing).map_err(|error| error.with_note(remedy))
    }

    /// Looks whether there is a directory `elsewhere`, if records are to be below one: without it less would be known
    /// than was asked for.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn look_for(elsewhere: Option<&Path>) -> Result<()> {
        let look = |dir: &Path| {
            Dir::open_named(dir).map(drop).map_err(|error| {
                Error::io(OPEN_ABOVE, dir, error)
                    .with_note("; --state names where your records are: mend that, or leave it out")
            })
        };
        elsewhere.map_or(Ok(()), look)
    }

    /// Looks whether the records of the output at `path`, whose root is `root` if it is there, can be kept in the
    /// directory `elsewhere`; nothing is made.
    ///
    /// # Errors
    /// They cannot.
    pub fn look_among(elsewhere: &Path, root: Option<&Dir>, path: &Path) -> Result<()> {
        let above = Dir::open_named(elsewhere).deed(OPEN_ABOVE, elsewhere)?;
        let place = PrivatePlace::Among(elsewhere);
        let there =
            root.map(|root| Self::open_at(root, path, place, Missing::Leave)).transpose()?;
        let there = there.flatten();
        let (dir, path) = there.as_ref().map_or((&above, elsewhere), |it| (&it.dir, &it.path));
        dir.check_writable().deed("keep private records in", path)
    }

    /// The same at another place.
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub fn open_at(
        root: &Dir,
        path: &Path,
        place: PrivatePlace<'_>,
        missing: Missing,
    ) -> Result<Option<Self>> {
        let elsewhere = match place {
            PrivatePlace::InOutput => {
                return Self::open_in(root, root, NAME.as_ref(), path.join(NAME), missing);
            }
            PrivatePlace::Within(Self { dir, path, .. }) => {
                return Self::open_in(root, dir, PART.as_ref(), path.join(PART), missing);
            }
            PrivatePlace::Nowhere => return Ok(None),
            PrivatePlace::Among(elsewhere) => elsewhere,
        };
        let fail = |error| Error::io(OPEN_ABOVE, elsewhere, error);
        let above = Dir::open_named(elsewhere).map_err(fail)?;
        let name = name_elsewhere(path).deed("look at", path)?;
        let opened = Self::open_in(root, &above, &name, elsewhere.join(&name), missing)?;
        let there = if missing == Missing::Make { missing } else { Missing::Leave };
        let at_output = Self::open_in(root, root, NAME.as_ref(), path.join(NAME), there);
        let at_output = at_output.ok().flatten().map(|at_output| at_output.dir);
        Ok(opened.map(|opened| Self { at_output, ..opened }))
    }

    /// The payload of the bag whose root is `root`, at `path`, and whose own private directory this is; `None` if this
    /// user's runs keep nothing of a payload there.
    pub fn payload(&self, root: &Dir, path: &Path) -> Option<KeptPayload> {
        let (dir, path) = (root.open_dir(PAYLOAD.as_ref(), false).ok()?, path.join(PAYLOAD));
        let private = Self::open_at(&dir, &path, PrivatePlace::Within(self), Missing::Leave);
        private.ok()?.map(|private| KeptPayload { dir, path, private })
    }

    fn open_in(
        root: &Dir,
        above: &Dir,
        name: &OsStr,
        path: PathBuf,
        missing: Missing,
    ) -> Result<Option<Self>> {
        let dir = match above.open_dir(name, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => match missing {
                Missing::Leave => return Ok(None),
                Missing::Make | Missing::MakeForRecords => match above.make_dir(name, true) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(Error::io("make the private directory", path, error));
                    }
                    // Another run may make it at this moment.
                    made => above.open_dir(name, false).inspect(|dir| {
                        if made.is_ok() {
                            // Where there are no lists to close it by, nothing else can be closed either.
                            let _ = dir.inherit_nothing();
                        }
                    }),
                },
            },
            opened => opened,
        };
        let dir = dir.deed("open the private directory", &path)?;
        let look = |error| Error::io("look at", &path, error);
        if let Some(why) = why_open(&dir).map_err(look)? {
            return Err(Error::finding(KEEP, path, why));
        }
        // Who may write to an output can give this name to another one, or to a generation.
        if dir.stat(NAME.as_ref(), false).if_there().map_err(look)?.is_some() {
            let finding = "it is an output or a generation that was given this name, and has files of its own: give it \
                           its own name again";
            return Err(Error::finding(KEEP, path, finding));
        }
        if is_of_others(&dir, &Dir::is_kept_by_us).map_err(look)? {
            let finding = "it has files, and none that a run made: another directory was given this name. Give it its \
                           own name again";
            return Err(Error::finding(KEEP, path, finding));
        }
        let mark = Mark::of(root, &dir).map_err(look)?;
        Ok(Some(Self { dir, path, mark, at_output: None }))
    }

    /// True if a directory, which is `there`, was made by a run, wherever it lies: it is closed, and has a secret that
    /// was made in it.
    pub fn is_one(dir: &Dir, there: &Stat) -> bool {
        Dir::is_kept_by_us(there)
            && dir.is_private().unwrap_or(false)
            && matches!(read_secret(dir, false), Ok(Some(Some(_))))
    }

    /// True if runs that keep their records elsewhere are kept out too.
    pub fn is_at_output(&self) -> bool {
        self.at_output.is_some()
    }

    /// The one in the output, where this one is elsewhere.
    pub fn at_output(&self) -> Option<&Dir> {
        self.at_output.as_ref()
    }

    /// The one in the output whose root is `root`, where this one is elsewhere, to note in it what is of the output
    /// alone.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub fn in_output(&self, root: &Dir) -> io::Result<Option<Self>> {
        let Some(dir) = &self.at_output else { return Ok(None) };
        let (dir, mark) = (dir.try_clone()?, Mark::of(root, dir)?);
        Ok(Some(Self { dir, path: self.path.clone(), mark, at_output: None }))
    }

    /// The directories that a run has locked while it is at work on the output, in this order. The first is the same
    /// for all of this user's runs there, wherever they keep their records.
    pub fn locked(&self) -> impl Iterator<Item = &Dir> {
        self.at_output.iter().chain([&self.dir])
    }

    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Removes the note of this name, if there is one.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn forget(&self, note: &str) -> io::Result<()> {
        match self.dir.remove(note.as_ref()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Where it is, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file `name` with what `fill` writes, for this user only: it appears whole, in place of what was
    /// there, and with `durable` only once it is on the device.
    ///
    /// # Errors
    /// It cannot be written, and what was there stays.
    pub fn write(
        &self,
        name: &OsStr,
        durable: bool,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let dir = &self.dir;
        let staged = StagedFile::of(dir, name, true, &|_| false)?;
        staged.write(dir, durable, fill, |staged| staged.give_name(dir, name, true))
    }

    /// Removes what killed runs left of files that they wrote here. What cannot be removed is left to a later run.
    pub fn sweep(&self) {
        for listed in DirListing::of(&self.dir).into_iter().flatten().map_while(io::Result::ok) {
            if sys::is_part_name(&listed.name) {
                let _ = self.dir.remove_abandoned(&listed.name);
            }
        }
    }

    /// A number that only this user's runs know, made when it is first asked for. With `durable` it is on the device
    /// before it is told, as far as this directory goes ([`persist_way`](Self::persist_way) for the way to it): what
    /// bears it must not outlast it, or no run knows whose that is.
    ///
    /// # Errors
    /// It can be neither read nor written, or not be made durable.
    pub fn secret(&self, durable: bool) -> io::Result<Secret> {
        let secret = match read_secret(&self.dir, durable)? {
            Some(Some(secret)) => secret,
            of_no_use => {
                if of_no_use.is_some() {
                    // It is torn, or was made up elsewhere: what was made under it is begun anew.
                    self.dir.remove(SECRET.as_ref())?;
                }
                self.make_secret(durable)?
            }
        };
        // Also of one that was there: the run that made it may have been killed before, or have made nothing durable.
        if durable {
            self.dir.persist()?;
        }
        Ok(secret)
    }

    fn make_secret(&self, durable: bool) -> io::Result<Secret> {
        // The standard library's keys come from the system's source of random numbers.
        let random = || RandomState::new().build_hasher().finish().to_le_bytes();
        let number = Sha256::of(&[&random(), &random(), &random(), &random()]);
        let (dir, name) = (&self.dir, OsStr::new(SECRET));
        let fill = |file: &mut File| {
            let text = [&number.to_hex()[..], made_at(Dir::birth_of(&*file)).as_bytes()].concat();
            sys::write_all(&*file, &text)
        };
        let write = || {
            let staged = StagedFile::of(dir, name, true, &|_| false)?;
            staged.fill(dir, fill)?.close(dir, durable)?.publish(dir, name, false)
        };
        match write() {
            Ok(()) => Ok(Secret(number)),
            // A shard of the same plan may have made it meanwhile.
            Err(error) => read_secret(dir, durable)?.flatten().ok_or(error),
        }
    }

    /// Waits until the name of this directory is on the device, in the directory that it is in.
    ///
    /// # Errors
    /// The error is final, as that of each sync.
    pub fn persist_way(&self) -> io::Result<()> {
        self.dir.parent()?.persist()
    }

    /// The secret, if it was made already.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn known_secret(&self) -> io::Result<Option<Secret>> {
        Ok(read_secret(&self.dir, false)?.flatten())
    }

    /// True if it is known by the path of the output alone, where another disk that looks the same may be mounted at
    /// another time.
    pub fn is_by_path_alone(&self) -> bool {
        let name = self.path.file_name().unwrap_or_default().as_encoded_bytes();
        name.starts_with(BY_PATH.as_bytes()) && !name.starts_with(BY_DISK.as_bytes())
    }

    /// Which output it is of.
    pub fn mark(&self) -> &Mark {
        &self.mark
    }
}

/// True if a directory has something, and nothing that a run made: who may write to an output can give another
/// directory of this user the name of the private one. Whether what a run made is of this very directory is not asked:
/// that of an output that was copied is none of others.
pub(super) fn is_of_others(dir: &Dir, is_ours: &dyn Fn(&Stat) -> bool) -> io::Result<bool> {
    // Nearly all have a secret, and then nothing else is read.
    if tells_of_runs(dir, SECRET.as_ref(), is_ours)? == Some(true) {
        return Ok(false);
    }
    let mut has_some = false;
    for listed in DirListing::of(dir)? {
        let name = listed?.name;
        match tells_of_runs(dir, &name, is_ours)? {
            Some(true) => return Ok(false),
            // The first command there may have been one that makes parity.
            _ if *name == *PARITY && has_only_parity(dir)? => return Ok(false),
            tells => has_some |= tells.is_some(),
        }
    }
    Ok(has_some)
}

/// True if a run made this entry of a directory. None where that is not known: of what has nothing in it, as a lock or
/// what a power cut left of a note, and of what a run was about to write. What cannot be read counts as made by a run:
/// that a device fails is nobody's doing, and whoever needs the file says so.
fn tells_of_runs(
    dir: &Dir,
    name: &OsStr,
    is_ours: &dyn Fn(&Stat) -> bool,
) -> io::Result<Option<bool>> {
    if sys::is_part_name(name) {
        return Ok(None);
    }
    let Some(file) = open_to_look(dir, name, is_ours)? else {
        return Ok(dir.stat(name, false).if_there()?.map(|_| false));
    };
    let mut text = Vec::new();
    if Uninterrupted(&file).take(MOST_SECRET).read_to_end(&mut text).is_err() {
        return Ok(Some(true));
    }
    let number = text.split(|byte| *byte == b'@').next().and_then(Sha256::from_hex);
    let is_ours = text.starts_with(HANDWRITING) || name == SECRET && number.is_some();
    Ok(text.iter().any(|byte| *byte != 0).then_some(is_ours))
}

/// A file that `is_ours` in a directory that may not be the private one, to be looked at without a change: neither is
/// it closed to others, nor is a device opened.
fn open_to_look(
    dir: &Dir,
    name: &OsStr,
    is_ours: &dyn Fn(&Stat) -> bool,
) -> io::Result<Option<File>> {
    let is_file = |it: Stat| it.kind == Kind::File && is_ours(&it);
    match dir.stat(name, false).if_there()?.is_some_and(is_file) {
        true => dir.open_file(name, false).if_there(),
        false => Ok(None),
    }
}

/// The content of the secret's file, if there is one: a secret, unless it is of no use.
fn read_secret(dir: &Dir, durable: bool) -> io::Result<Option<Option<Secret>>> {
    let opened = match durable {
        // On Windows only what was opened to be written can be made durable.
        true => dir.open_private(SECRET.as_ref())?.map(|(file, _)| file),
        false => open_to_look(dir, SECRET.as_ref(), &Dir::is_kept_by_us)?,
    };
    let Some(file) = opened else { return Ok(None) };
    let (mut text, expected) = (Vec::new(), made_at(Dir::birth_of(&file)));
    // What cannot be read is not torn: a new one would disown all that was made under it.
    Uninterrupted(&file).take(MOST_SECRET).read_to_end(&mut text)?;
    let hex = text.strip_suffix(expected.as_bytes());
    let secret = hex.and_then(Sha256::from_hex).map(Secret);
    if durable && secret.is_some() {
        sys::persist_file(&file)?;
    }
    Ok(Some(secret))
}

/// The beginnings of the names of those that are kept among those of other outputs: of outputs that are known by their
/// disk too, and by their path alone.
const BY_DISK: &str = "dircopy-disk-";
const BY_PATH: &str = "dircopy-";

/// The name of the private directory of the output at `path` where many are kept: made from the whole path, and from
/// the UUID of the file system there. Disks that are mounted in turn at one path have one each.
fn name_elsewhere(path: &Path) -> io::Result<OsString> {
    let path = path.canonicalize()?;
    let disk = sys::volume_details(&Dir::open(&path)?).uuid;
    let path = path.as_os_str().as_encoded_bytes();
    let (mut name, Sha256(sum)) = match disk {
        Some(uuid) => (String::from(BY_DISK), Sha256::of(&[path, b"\0", uuid.as_bytes()])),
        None => (String::from(BY_PATH), Sha256::of(&[path])),
    };
    name += &hex::text(&sum[..8]);
    Ok(name.into())
}

#[cfg(test)]
pub(super) fn scratch() -> (tempfile::TempDir, Dir, PrivateDir) {
    let root = tempfile::tempdir().unwrap();
    let dir = Dir::open(root.path()).unwrap();
    let private = PrivateDir::open(&dir, root.path(), None, Missing::Make).unwrap().unwrap();
    (root, dir, private)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(root: &Path, missing: Missing) -> Result<Option<PrivateDir>> {
        PrivateDir::open(&Dir::open(root).unwrap(), root, None, missing)
    }

    #[test]
    fn a_mark_without_a_time_is_held_by_its_number() {
        for (other, is_same) in [("1f@5.0", true), ("1f", true), ("1f@6.0", false), ("1e", false)] {
            assert_eq!(is_same_mark("1f@5.0", other), is_same, "{other}");
            assert_eq!(is_same_mark(other, "1f@5.0"), is_same, "{other}");
        }
    }

    #[test]
    fn it_is_made_once_and_known_again() {
        let root = tempfile::tempdir().unwrap();
        assert!(open(root.path(), Missing::Leave).unwrap().is_none());
        let made = open(root.path(), Missing::Make).unwrap().unwrap();
        let again = open(root.path(), Missing::Leave).unwrap().unwrap();
        assert_eq!(made.mark(), again.mark());
        assert!(!made.mark().text().contains(char::is_whitespace));
    }

    #[test]
    fn one_that_was_moved_to_another_output_is_of_none() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let made = open(one.path(), Missing::Make).unwrap().unwrap();
        std::fs::rename(one.path().join(NAME), other.path().join(NAME)).unwrap();
        let moved = open(other.path(), Missing::Leave).unwrap().unwrap();
        assert_ne!(made.mark(), moved.mark());
    }

    #[test]
    fn a_file_of_its_name_is_refused() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join(NAME), "").unwrap();
        assert!(open(root.path(), Missing::Make).is_err());
    }

    #[test]
    fn several_lie_elsewhere_side_by_side() {
        let roots = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let elsewhere = tempfile::tempdir().unwrap();
        let open = |root: &Path| {
            let dir = Dir::open(root).unwrap();
            PrivateDir::open(&dir, root, Some(elsewhere.path()), Missing::Make).unwrap().unwrap()
        };
        let [one, other] = roots.each_ref().map(|root| open(root.path()));
        assert_ne!(one.path(), other.path());
        assert_eq!(open(roots[0].path()).mark(), one.mark());
        // What is in the outputs themselves holds nothing but the lock, and is the same for all.
        assert_eq!(roots[0].path().join(NAME).read_dir().unwrap().count(), 0);
        let first = |private: &PrivateDir| private.locked().next().unwrap().identity().unwrap();
        let without = PrivateDir::open(
            &Dir::open(roots[0].path()).unwrap(),
            roots[0].path(),
            None,
            Missing::Leave,
        );
        assert_eq!(first(&one), first(&without.unwrap().unwrap()));
        assert_eq!(one.locked().count(), 2);
    }

    #[test]
    fn a_secret_stays_what_it_was() {
        let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let made = open(root.path(), Missing::Make).unwrap().unwrap();
        assert!(made.known_secret().unwrap().is_none());
        let secret = made.secret(true).unwrap();
        assert_eq!(made.secret(true).unwrap(), secret);
        assert_eq!(made.known_secret().unwrap(), Some(secret));
        made.persist_way().unwrap();
        let another = open(other.path(), Missing::Make).unwrap().unwrap().secret(false).unwrap();
        assert_ne!(another.of_parts(), secret.of_parts());
        // A torn one is replaced.
        std::fs::write(made.path().join(SECRET), "12").unwrap();
        assert!(made.known_secret().unwrap().is_none());
        assert_ne!(made.secret(true).unwrap(), secret);
        assert_eq!(made.path().read_dir().unwrap().count(), 1);
    }
}
