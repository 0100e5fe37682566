//! Who may read a list: those who may read everything that it lists. A digest tells what is in a small file, and a
//! name that there is one, so a list of what is closed to others is closed to them too.

use std::{collections::BTreeSet, ffi::OsStr, fs::File, io, io::Read, path::Path};

use crate::{
    error::Error, error::Result, hash::Digest, manifest::Entries, manifest::Index,
    manifest::ListKind, manifest::Lookup, manifest::ManifestName, manifest::Parsed, path::RelPath,
    sys, sys::Attributes, sys::Dir, sys::DirListing, sys::stat::Kind, sys::stat::Stat,
};

/// Others may read a file, …
const OF_OTHERS: u32 = 0o044;

/// … its group may.
const OF_GROUP: u32 = 0o040;

/// Who may read everything that was seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readers {
    /// Everybody.
    #[default]
    All,
    /// This group.
    Group(u32),
    /// Its owner.
    Owner,
}

impl Readers {
    /// Those of this; its owner alone, if it cannot be looked at.
    pub fn of(stat: Option<&Stat>) -> Self {
        let mut readers = if stat.is_some() { Self::All } else { Self::Owner };
        stat.iter().for_each(|stat| readers.note(stat));
        readers
    }

    /// Takes note of an entry that is listed, or of a directory above one.
    pub fn note(&mut self, stat: &Stat) {
        // A directory is to be listed and entered.
        let needed = if stat.kind == Kind::Dir { 0o5 } else { 0o4 };
        let may = |bits: u32| stat.mode & bits == bits;
        let (others, group) = (may(needed), may(needed << 3));
        *self = match *self {
            // Who is in the group is not asked for the permissions of others.
            all if others && group => all,
            Self::All if group => Self::Group(stat.gid),
            Self::Group(readers) if readers == stat.gid && group => Self::Group(readers),
            _ => Self::Owner,
        };
    }

    /// Something is listed that is in the directory `path` below `root`.
    pub fn note_way(&mut self, root: &Dir, path: &RelPath) {
        let entered = path.components().try_fold(root.try_clone(), |dir, name| {
            let dir = dir?.open_dir(sys::name_from_bytes(name)?, false)?;
            self.note(&dir.stat_self()?);
            if Attributes::read(&dir)?.deny_somebody() {
                *self = Self::Owner;
            }
            io::Result::Ok(Ok(dir))
        });
        if entered.is_err() {
            *self = Self::Owner;
        }
    }

    /// Adds listed files that `others` may read: only users who may read all of them stay.
    pub fn join(&mut self, others: Self) {
        *self = match (*self, others) {
            (some, Self::All) | (Self::All, some) => some,
            (Self::Group(one), Self::Group(other)) if one == other => Self::Group(one),
            _ => Self::Owner,
        };
    }

    /// The permissions of a list for these readers, which is of this group.
    pub fn mode(self, group: u32) -> u32 {
        let readers = match self {
            Self::All => OF_OTHERS,
            Self::Group(readers) if readers == group => OF_GROUP,
            Self::Group(_) | Self::Owner => 0,
        };
        sys::new_file_mode() & (0o600 | readers)
    }
}

// The means to write a manifest or a list anew: its text as it is read, and the place for the new one.

/// Writes a list anew from its text; false if the run is to stop.
pub type Rewrite<'a> = dyn FnMut(ListKind, &mut dyn Read, &mut File) -> io::Result<bool> + 'a;

// The earlier manifests in the open and the digests that they list for an output's files.
//
// A manifest in the open proves nothing: it may have been copied there, or written by hand. Its lines are
// reasons to read a file and compare, and never to leave it unread. One whose name is of the future may have been made
// up to hide the others: it is asked last.
//
// The newest finished manifest is of the whole output, but what it does not list may have been left out because it had
// rotted. So a file that it does not list is looked for in the older ones, if this user's runs wrote them.

/// The lines of the earlier manifests of an output: the newest finished one, unfinished ones
/// that are newer still, and those of the future; and what older ones list besides.
#[derive(Debug, Default)]
pub struct Carry {
    /// True if the newest of a run that ended is newer than what is known: what it does not list was left out.
    is_newer: bool,
    /// The newest first, and those of the future last.
    earlier: Vec<EarlierManifest>,
    /// Those before them, the newest first: each with the lines of files that no newer one lists.
    older: Vec<EarlierManifest>,
    unfinished: Vec<ManifestName>,
    newest: Option<ManifestName>,
}

#[derive(Debug)]
struct EarlierManifest {
    name: ManifestName,
    index: Index,
    /// True if no other user can have written it.
    is_kept: bool,
    /// True if nobody else can have given it its name either: only a run of this user's can have put it there.
    is_sure: bool,
    /// Of one that newer ones took the place of: the next finished one, which has no line for the files of these.
    left_out_by: Option<ManifestName>,
}

/// Says whether the lines of a name are wanted.
type WantedNames<'a> = dyn Fn(&[u8]) -> bool + 'a;

/// The digest of a file by a manifest in the open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenDigest {
    pub digest: Digest,
    /// True if that manifest is of the future, so that it may be older than a record.
    pub is_ahead: bool,
}

/// What a private record says of manifests.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoveredManifests {
    /// The one that it was finished with: its content, and that of those before it, is known.
    pub last: Option<ManifestName>,
    /// The first of which that does not hold, if there is one: that of a later run, which left no rows.
    pub later: Option<ManifestName>,
}

impl Carry {
    /// Reads the earlier manifests in the root of an output, whose path is `path`. Manifests
    /// for which `is_copied` holds tell of another tree; the content of those that are `covered` is known already. One
    /// that cannot be read is as good as none and is told as a warning. Once `is_to_stop` says so nothing more is read:
    /// the run comes to nothing anyway.
    pub fn load(
        root: &Dir,
        path: &Path,
        is_copied: impl Fn(&OsStr) -> bool,
        covered: CoveredManifests,
        is_to_stop: &dyn Fn() -> bool,
    ) -> (Self, Vec<Error>) {
        let CoveredManifests { last: covered, later } = covered;
        let mut warnings = Vec::new();
        let mut earlier = Vec::new();
        let mut names = ours(root, is_copied, covered).unwrap_or_else(|error| {
            warnings.push(Error::io("look for earlier manifests in", path, error));
            Vec::new()
        });
        let newest = names.first().copied();
        // The last run's, too: its clock was wrong, and this run's sorts before it.
        let is_there = |name: &ManifestName| name.is_ahead() && names.contains(name);
        warnings.extend(covered.filter(is_there).map(|name| of_the_future(path, &name)));
        // Those that are known already were left by killed runs as well.
        let is_unfinished = |name: &ManifestName| !name.is_finished();
        let mut unfinished: Vec<_> = names.iter().copied().filter(is_unfinished).collect();
        // What came from a source is known by the record; what came later, or without one, by being listed here.
        // That a name sorts before the last one's says nothing of those from a later run on: the clock was ahead then.
        let is_later = |name: &ManifestName| later.is_some_and(|later| later.is_up_to(name));
        names.retain(|name| Some(*name) != covered && (Some(*name) > covered || is_later(name)));
        let strange: Vec<_> = names.iter().copied().filter(|it| is_of_stranger(root, it)).collect();
        warnings.extend(not_gone_by(path, &strange, OF_STRANGER));
        names.retain(|name| !strange.contains(name));
        unfinished.retain(|name| !is_of_stranger(root, name));
        let listed = listed_by_others(root, &names, is_to_stop);
        let is_listed = |name: &ManifestName| listed.contains(name);
        unfinished.retain(|name| !is_listed(name));
        // Those of runs do not list each other. Where nothing else is there, each may be the one that holds.
        let (mut before, mut newer) = (Vec::new(), None);
        let is_finished = |name: &&ManifestName| name.is_finished();
        let are_all_listed = names.iter().filter(is_finished).all(is_listed) && !listed.is_empty();
        if covered.is_none() && are_all_listed {
            names.retain(|name| name.is_finished() || !is_listed(name));
        } else {
            names.retain(|name| !is_listed(name));
            // The newest finished one is of the whole output; what counts besides was begun after it.
            let (ahead, mut of_runs): (Vec<_>, Vec<_>) =
                names.into_iter().partition(ManifestName::is_ahead);
            if let Some(newest) = of_runs.iter().position(ManifestName::is_finished) {
                before = of_runs.split_off(newest + 1);
                newer = of_runs.last().copied();
            }
            warnings.extend(ahead.iter().map(|name| of_the_future(path, name)));
            names = [of_runs, ahead].concat();
        }
        let mut failed = |name: ManifestName, error| {
            unfinished.retain(|other| *other != name);
            let path = path.join(name.to_string());
            warnings.push(Error::io("read the earlier manifest", path, error));
        };
        for name in names {
            match EarlierManifest::open(root, name, None, true, is_to_stop) {
                Ok(Some(opened)) => earlier.push(opened),
                // What is no regular file is none of ours.
                Ok(None) => {}
                Err(error) => failed(name, error),
            }
        }
        let is_newest = |it: &&EarlierManifest| it.name.is_finished() && !it.name.is_ahead();
        let newest_finished = earlier.iter().find(is_newest);
        let is_newer = newest_finished.is_some_and(|newest| newest.is_sure);
        // Who can write to the newest has no need of the others.
        let is_open = newest_finished.is_some_and(|newest| !newest.is_kept);
        let mut older: Vec<EarlierManifest> = Vec::new();
        for name in before {
            let is_new = |path: &[u8]| !earlier.iter().chain(&older).any(|it| it.index.lists(path));
            match EarlierManifest::open(root, name, Some(&is_new), is_open, is_to_stop) {
                Ok(opened) => {
                    let opened =
                        opened.map(|opened| EarlierManifest { left_out_by: newer, ..opened });
                    older.extend(opened.filter(|opened| !opened.index.is_empty()));
                    newer = if name.is_finished() { Some(name) } else { newer };
                }
                Err(error) => failed(name, error),
            }
        }
        let not_sure = earlier.iter().chain(&older).filter(|it| !it.is_sure).map(|it| it.name);
        warnings.extend(not_gone_by(path, &not_sure.collect::<Vec<_>>(), NOT_SURE));
        (Self { is_newer, earlier, older, unfinished, newest }, warnings)
    }

    fn all(&self) -> impl Iterator<Item = &EarlierManifest> {
        self.earlier.iter().chain(&self.older)
    }

    /// The digest that the newest manifest has for the file at `path`. Whatever the answer, the path's
    /// lines are settled.
    pub fn listed(&self, path: &[u8]) -> Option<OpenDigest> {
        let mut found = None;
        for earlier in self.all() {
            // A manifest that cannot be read back is as good as none.
            let listed = earlier.index.lookup(path).ok().flatten();
            let of_it = |digest| OpenDigest {
                digest: earlier.meaning_of(digest),
                is_ahead: earlier.name.is_ahead(),
            };
            found = found.or(listed.map(of_it));
        }
        found
    }

    /// True if one of the newest manifests, which surely is of this user's runs, lists a file at `path`. What only
    /// older ones list may have left since, and another file have its name.
    pub fn lists(&self, path: &[u8]) -> bool {
        self.earlier.iter().any(|earlier| earlier.is_sure && earlier.index.lists(path))
    }

    /// The lines of the file at `path` are settled: something else is known about it.
    pub fn settle(&self, path: &[u8]) {
        for earlier in self.all() {
            // A manifest that cannot be read back is found out when what is unasked is read.
            let _ = earlier.index.visit(path);
        }
    }

    /// The lines of the file at `path` are not settled, whatever was asked before.
    pub fn reopen(&self, path: &[u8]) {
        for earlier in self.all() {
            let _ = earlier.index.forget_visit(path);
        }
    }

    /// The manifest that left out the file at `path`, which one before it lists that surely is of this user's runs.
    pub fn left_out_by(&self, path: &[u8]) -> Option<ManifestName> {
        self.before_left_out(path)?.left_out_by
    }

    /// That earlier manifest, and the digest that it has for the file.
    pub fn left_out(&self, path: &[u8]) -> Option<(ManifestName, Digest)> {
        let older = self.before_left_out(path)?;
        match older.index.peek(path) {
            Ok(Lookup::Agreed { digest, .. }) => Some((older.name, older.meaning_of(digest))),
            _ => None,
        }
    }

    fn before_left_out(&self, path: &[u8]) -> Option<&EarlierManifest> {
        let mut older = self.older.iter().filter(|older| older.is_sure);
        older.find(|older| older.index.lists(path))
    }

    /// Hands to `keep` every line that is not settled and surely is of this user's runs: its path, its digest, and
    /// the newer manifest that left it out;
    /// of several lines for a path, the newest. They end early once `is_to_stop` says so.
    pub fn unasked(
        &self,
        is_to_stop: &dyn Fn() -> bool,
        mut keep: impl FnMut(&RelPath, &Digest, Option<ManifestName>) -> Result<()>,
    ) -> Result<()> {
        for (at, earlier) in self.all().enumerate().filter(|(_, earlier)| earlier.is_sure) {
            let failed =
                |error| Error::io("read the earlier manifest", earlier.name.to_string(), error);
            for record in earlier.index.unvisited(is_to_stop) {
                if is_to_stop() {
                    return Ok(());
                }
                let (path, digest) = record.map_err(failed)?;
                for older in self.earlier.iter().skip(at + 1) {
                    older.index.visit(path.as_bytes()).map_err(failed)?;
                }
                keep(&path, &earlier.meaning_of(digest), earlier.left_out_by)?;
            }
        }
        Ok(())
    }

    /// True if there is a manifest of a run that ended which is newer than what is known already.
    pub fn is_newer(&self) -> bool {
        self.is_newer
    }

    /// The newest, finished or not.
    pub fn newest(&self) -> Option<ManifestName> {
        self.newest
    }

    /// The names of all manifests of runs that were cut short.
    pub fn unfinished(&self) -> impl Iterator<Item = ManifestName> {
        self.unfinished.iter().copied()
    }
}

impl EarlierManifest {
    /// A digest that is listed in it.
    fn meaning_of(&self, digest: Digest) -> Digest {
        digest.in_list_of(self.name.algorithm())
    }

    /// One that newer ones took the place of has the lines whose names are `wanted`. It is believed only if no other
    /// user can have written it, unless it `may_be_open`, because others can write to the newest, too: nothing newer
    /// speaks against what it says.
    fn open(
        root: &Dir,
        name: ManifestName,
        wanted: Option<&WantedNames<'_>>,
        may_be_open: bool,
        is_to_stop: &dyn Fn() -> bool,
    ) -> io::Result<Option<Self>> {
        let Some(file) = open_regular(root, name)? else { return Ok(None) };
        let stat = Dir::stat_file(&file)?;
        let is_kept = Dir::is_file_kept(&file, &stat)?;
        let is_alone = is_kept && stat.links == 1 && root.keeps_names()?;
        let is_sure = is_alone || sys::may_lack_owners(root);
        if stat.kind != Kind::File || !is_kept && !may_be_open {
            return Ok(None);
        }
        let index = match wanted {
            Some(wanted) => Index::build_of(file, wanted, is_to_stop)?,
            None => Index::build(file, is_to_stop)?,
        };
        Ok(Some(Self { name, index, is_kept, is_sure, left_out_by: None }))
    }
}

/// The manifest `name`, if it is a regular file: opening a device can do things.
fn open_regular(root: &Dir, name: ManifestName) -> io::Result<Option<File>> {
    let name = name.to_string();
    match root.stat(name.as_ref(), false)?.kind {
        Kind::File => root.open_file(name.as_ref(), false).map(Some),
        _ => Ok(None),
    }
}

/// True if a manifest in `root` is of another user, whose that directory is not: it may list whatever it likes, also
/// files of others, and hide the lists of runs.
pub fn is_of_stranger(root: &Dir, name: &ManifestName) -> bool {
    let there = root.stat(name.to_string().as_ref(), false);
    root.stat_self().is_ok_and(|root| there.is_ok_and(|there| Dir::is_strange(&there, &root)))
}

/// The message about manifests that do not count, if there are any: `who` may have put them there, and what follows.
fn not_gone_by(path: &Path, names: &[ManifestName], [who, then]: [&str; 2]) -> Option<Error> {
    let (first, more) = names.split_first()?;
    let others =
        if more.is_empty() { String::new() } else { format!(" (and {} more)", more.len()) };
    let path = path.join(first.to_string());
    Some(Error::finding("go by the manifest", path, format!("{who}{others}{then}")))
}

/// … which are another user's.
const OF_STRANGER: [&str; 2] = [
    "it is of another user, whose the directory is not",
    ", so nothing that it lists is believed; remove it",
];

/// … which others may have put there: what the record does not have is not taken over from them.
const NOT_SURE: [&str; 2] = [
    "others may have put it there",
    ", and no record of yours has it: what it alone lists does not leave a mirror, and is not listed any longer; let \
     nobody else write to the directory (chmod)",
];

/// The message that a manifest has a name that sorts behind those of all runs.
fn of_the_future(path: &Path, name: &ManifestName) -> Error {
    let finding = "its name is of the future, and sorts behind those of runs: a clock was wrong, or somebody made it up; \
                   remove it, or know the newest by its time";
    Error::finding("take for the newest manifest", path.join(name.to_string()), finding)
}

/// The ones of these manifests in the root of an output that another of them lists. One that cannot be read lists
/// nothing.
fn listed_by_others(
    root: &Dir,
    names: &[ManifestName],
    is_to_stop: &dyn Fn() -> bool,
) -> BTreeSet<ManifestName> {
    let mut listed = BTreeSet::new();
    for by in names.iter().filter(|_| names.len() > 1) {
        let Ok(Some(file)) = open_regular(root, *by) else { continue };
        let mut entries = Entries::of_all(file);
        while let Ok(Some(entry)) = entries.next_entry()
            && !is_to_stop()
        {
            let Parsed::Record(record) = entry.parsed else { continue };
            let name = record.name.strip_prefix(b"./").unwrap_or(record.name);
            let name =
                str::from_utf8(name).ok().and_then(|name| ManifestName::parse(name.as_ref()));
            listed.extend(name.filter(|name| name != by && names.contains(name)));
        }
    }
    listed
}

/// The manifests in the root of an output, the newest first and those of the future last. The `recorded`
/// one is known to be the manifest of its run.
pub fn ours(
    root: &Dir,
    is_in_source: impl Fn(&OsStr) -> bool,
    recorded: Option<ManifestName>,
) -> io::Result<Vec<ManifestName>> {
    let mut names: Vec<ManifestName> = Vec::new();
    for entry in DirListing::of(root)? {
        let ours = Some(entry?.name).filter(|name| !is_in_source(name));
        names.extend(ours.and_then(|name| ManifestName::parse(&name)));
    }
    ManifestName::drop_lists(&mut names, recorded);
    ManifestName::newest_first(&mut names);
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{sys::stat::Identity, sys::stat::Time};

    fn seen(entries: &[(Kind, u32, u32)]) -> Readers {
        let mut readers = Readers::default();
        for &(kind, mode, gid) in entries {
            let time = Time::default();
            let id = Identity::default();
            readers.note(&Stat {
                kind,
                size: 0,
                allocated: 0,
                mtime: time,
                ctime: time,
                id,
                links: 1,
                mode,
                uid: 0,
                gid,
            });
        }
        readers
    }

    #[test]
    fn a_list_is_as_closed_as_what_it_lists() {
        use Kind::{Dir, File};
        assert_eq!(seen(&[]), Readers::All);
        assert_eq!(seen(&[(Dir, 0o755, 1), (File, 0o644, 2), (File, 0o444, 3)]), Readers::All);
        assert_eq!(seen(&[(Dir, 0o755, 1), (File, 0o640, 2)]), Readers::Group(2));
        assert_eq!(seen(&[(Dir, 0o750, 2), (File, 0o644, 9), (File, 0o640, 2)]), Readers::Group(2));
        assert_eq!(seen(&[(Dir, 0o750, 2), (File, 0o640, 3)]), Readers::Owner);
        assert_eq!(seen(&[(Dir, 0o711, 1)]), Readers::Owner);
        assert_eq!(seen(&[(Dir, 0o700, 1), (File, 0o644, 1)]), Readers::Owner);
        assert_eq!(seen(&[(File, 0o600, 1), (Dir, 0o755, 1)]), Readers::Owner);
    }

    #[test]
    fn of_two_lists_the_more_closed_counts() {
        for (one, other, both) in [
            (Readers::All, Readers::All, Readers::All),
            (Readers::All, Readers::Group(1), Readers::Group(1)),
            (Readers::Group(1), Readers::Group(1), Readers::Group(1)),
            (Readers::Group(1), Readers::Group(2), Readers::Owner),
            (Readers::All, Readers::Owner, Readers::Owner),
        ] {
            for (mut joined, with) in [(one, other), (other, one)] {
                joined.join(with);
                assert_eq!(joined, both);
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_umask_holds_besides() {
        let umask = 0o666 & !sys::new_file_mode();
        for (readers, mode) in [
            (Readers::All, 0o644),
            (Readers::Group(5), 0o640),
            (Readers::Group(6), 0o600),
            (Readers::Owner, 0o600),
        ] {
            assert_eq!(readers.mode(5), mode & !umask, "{readers:?}");
        }
    }
}
