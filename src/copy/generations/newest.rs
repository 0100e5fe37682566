//! Which generation is the newest: what `latest` leads to, and what the private record of all says.
//!
//! Who may write to the directory of all can move the newest away, put another directory in its place, and lead
//! `latest` elsewhere. So its name is noted in the private directory there, behind all else that a run does for it.
//! What is older than that is not taken for the newest.

use std::{ffi::OsStr, io, io::Read, path::Path};

use crate::{
    copy::GenerationSet, copy::generations::set::path_of, error::Deed, error::Error, error::Result,
    path::directory_of, staged::create_link, staged::write_whole, state::DatedName, state::LATEST,
    state::Missing, state::NewestGeneration, state::Note, state::PrivateDir,
    state::closing::FINISHED, state::private_dir::CONSULT, state::private_dir::NAME,
    state::record::measure, sys, sys::Dir, sys::Uninterrupted, sys::stat::Kind,
};

/// A `latest` that is a file, and was made by a run, has fewer bytes.
const MOST_LATEST: u64 = 64;

/// Lets `latest` lead to the generation `name`: a symbolic link, or a file with its name where there are no links. What
/// no run made stays: then the answer is false.
///
/// # Errors
/// It cannot be made.
pub fn lead_to(root: &Dir, name: DatedName) -> io::Result<bool> {
    if matches!(Latest::read(root)?, Latest::Foreign) {
        return Ok(false);
    }
    let name = name.to_string();
    let has_links = root.read_name_link(LATEST.as_ref()).is_ok_and(|link| link.is_some());
    match create_link(root, LATEST.as_ref(), name.as_ref()) {
        Ok(link) => {
            let published = root.publish(&link, LATEST.as_ref(), true);
            if published.is_err() {
                let _ = root.remove(&link);
            }
            published?;
            // Who may write to the directory may have put another link in its place before.
            if root.read_name_link(LATEST.as_ref())?.as_deref() != Some(name.as_ref()) {
                return Err(io::Error::other("it leads elsewhere: someone else may write there"));
            }
            root.persist()?;
        }
        // Where there is one, there can be another.
        Err(error) if has_links => return Err(error),
        Err(_) => {
            let text = format!("{name}\n");
            let fill = |file: &mut std::fs::File| sys::write_all(&*file, text.as_bytes());
            write_whole(root, LATEST.as_ref(), false, true, fill)?;
        }
    }
    Ok(true)
}

/// The generation that `latest` leads to.
pub fn latest(root: &Dir) -> Option<DatedName> {
    match Latest::read(root) {
        Ok(Latest::Of(name)) => Some(name),
        _ => None,
    }
}

/// The entry of the name `latest`.
enum Latest {
    Missing,
    /// One as runs make them: it leads to the name of a generation, and says no more.
    Of(DatedName),
    /// An entry that no run made.
    Foreign,
}

impl Latest {
    fn read(root: &Dir) -> io::Result<Self> {
        let stat = root.stat(LATEST.as_ref(), false).if_there()?;
        let Some(stat) = stat else { return Ok(Self::Missing) };
        let name = match stat.kind {
            Kind::Symlink => {
                let target = root.read_name_link(LATEST.as_ref())?;
                target.as_deref().and_then(OsStr::to_str).and_then(DatedName::parse)
            }
            Kind::File if stat.size <= MOST_LATEST => {
                let mut content = Vec::new();
                let file = root.open_file(LATEST.as_ref(), false)?;
                Uninterrupted(file).take(MOST_LATEST + 1).read_to_end(&mut content)?;
                let text = content.strip_suffix(b"\n").and_then(|text| str::from_utf8(text).ok());
                text.and_then(DatedName::parse)
            }
            _ => None,
        };
        Ok(name.map_or(Self::Foreign, Self::Of))
    }
}

impl GenerationSet {
    /// Holds what is there against the newest generation on record.
    pub(super) fn ask_record(&mut self, consulted: Result<Option<PrivateDir>>, path: &Path) {
        // The first run may have been killed before it noted that.
        let is_told =
            self.has_placed && (self.complete.len() > 1 || !matches!(consulted, Ok(Some(_))));
        let why = match consulted {
            Ok(Some(private)) => {
                self.recorded = NewestGeneration::read(&private).and_then(|it| it.name());
                let none = "it has no note of the newest generation, or one that does not count";
                let none = || Error::finding(CONSULT, private.path(), none);
                self.recorded.is_none().then(none)
            }
            Ok(None) => Some(Error::finding(CONSULT, path.join(NAME), "there is none")),
            Err(error) => Some(error),
        };
        let unrecorded = why.zip(self.newest()).map(|(why, newest)| {
            let remedy = if is_told { ": name the one that you want, or copy again" } else { "" };
            why.with_note(format!(
                "; so nothing tells whether {newest} is the newest generation{remedy}"
            ))
        });
        self.lost_record = unrecorded.is_some() && is_told;
        self.unrecorded = unrecorded;
        let lost = self.recorded.filter(|name| self.newest() < Some(*name) && !self.has(*name));
        self.lost = lost.map(|name| {
            let what = match self.foreign.contains(&name) {
                true => "what has its name has no finished record of yours",
                false => "it is gone",
            };
            let finding = format!(
                "your last run made it, and {what}; if you did not do that, who may write there did (chmod 700 closes \
                 it), and the next run makes a newer one"
            );
            (name, Error::finding("find the newest generation", path_of(path, name), finding))
        });
    }

    /// Holds the newest that is there against its own record: one that tells nothing is as good as lost. All of it is
    /// read.
    pub fn look_at_newest(&mut self, root: &Dir, path: &Path) {
        let newest = self.newest().filter(|newest| self.recorded.is_some_and(|it| *newest >= it));
        if let Some(name) = newest.filter(|_| self.lost.is_none()) {
            let error = own_record(root, &path_of(path, name), name).err();
            self.lost = error.map(|error| (name, error));
        }
    }

    /// The one that may be the newest and is not to be taken for it, if there is such a one, and why.
    pub fn newest_in_doubt(&mut self, root: &Dir, path: &Path) -> Option<(DatedName, String)> {
        self.look_at_newest(root, path);
        let newest = self.newest();
        let unread = self.doubted().map(|(name, error)| (*name, error.reason()));
        let is_lost = |name: &DatedName| newest.is_some() && !self.has(*name);
        let lost = latest(root).filter(is_lost).map(|name| (name, LOST_LATEST.to_owned()));
        let last = unread.chain(lost).max_by_key(|unread| unread.0);
        last.filter(|(name, _)| newest.is_none_or(|newest| *name >= newest))
    }

    /// The directory at `path`, which is called `name`, if no run of this user's completed it.
    fn untaken(&mut self, path: &Path, name: DatedName) -> Option<Untaken> {
        if let Some(misplaced) = self.take_misplaced(name) {
            return Some(misplaced);
        }
        let lost = self.lost.take_if(|(lost, _)| *lost == name);
        match lost {
            Some((_, error)) => Some(Untaken { error, is_bad: true }),
            None if self.has(name) => None,
            None => Some(Untaken::without_record(path, false)),
        }
    }

    /// The link at `path`, if it leads to another generation than to the newest on record, or to none.
    pub fn latest_untaken(&mut self, path: &Path, to: Option<DatedName>) -> Option<Untaken> {
        if let Some(misplaced) = to.and_then(|to| self.take_misplaced(to)) {
            return Some(misplaced);
        }
        if self.lost_record {
            return Some(Untaken { error: self.unrecorded.take()?, is_bad: true });
        }
        let recorded = self.recorded?;
        if let Some((_, error)) = self.lost.take() {
            return Some(Untaken { error, is_bad: true });
        }
        let leads = match to {
            // A run is killed before it notes that.
            Some(to) if to >= recorded && self.has(to) => return None,
            Some(to) => format!("it leads to {to}"),
            None => "it is no link of your runs".to_owned(),
        };
        let finding = format!(
            "{leads}, and the newest of your runs is {recorded}: name that one; if you did not do that, who may write \
             there did (chmod 700 closes it)"
        );
        let error = Error::finding(TAKE_NEWEST, path, finding);
        Some(Untaken { error, is_bad: true })
    }

    /// The one of this name, if it was made in another directory.
    fn take_misplaced(&mut self, name: DatedName) -> Option<Untaken> {
        let at = self.misplaced.iter().position(|(misplaced, _)| *misplaced == name)?;
        let (_, error) = self.misplaced.swap_remove(at);
        Some(Untaken { error, is_bad: true })
    }

    /// True if it is there, or it cannot be told, which is told.
    fn has(&self, name: DatedName) -> bool {
        self.complete.contains(&name) || self.doubted().any(|(doubted, _)| *doubted == name)
    }
}

/// Why a generation that `latest` leads to is not taken.
const LOST_LATEST: &str =
    "latest leads there, and it is gone, or no finished record of yours is in it";

/// Reads the own record of the generation `name`, which is at `path`.
///
/// # Errors
/// It does not tell which manifest it was finished with, or that of another directory tells of one that is not there.
fn own_record(root: &Dir, path: &Path, name: DatedName) -> Result<()> {
    let fail = |error| Error::io(TAKE_NEWEST, path, error);
    let dir = root.open_dir(name.to_string().as_ref(), false).map_err(fail)?;
    let Some(private) = PrivateDir::open(&dir, path, None, Missing::Leave)? else { return Ok(()) };
    let file = private.dir().open_file(FINISHED.as_ref(), false).map_err(fail)?;
    let closed = measure(&file, private.mark(), &|| false).map_err(fail)?;
    match closed.newest().is_some_and(|with| closed.fits || with.is_in(&dir)) {
        true => Ok(()),
        false => Err(Error::finding(TAKE_NEWEST, path, UNTOLD)),
    }
}

const TAKE_NEWEST: &str = "take for the newest generation";

const UNTOLD: &str = "its own record is damaged, or of another version or directory, so nothing tells whether it is as \
                      your last run left it; the next run makes a newer one";

/// A directory with the name of a generation, or called `latest`, among generations of this user's, that is not to be
/// taken for one.
pub struct Untaken {
    pub error: Error,
    /// True if the newest is asked for by that name, or it is of another directory; else it may just be called so.
    pub is_bad: bool,
}

impl Untaken {
    /// The one at `path`, if it is one.
    pub fn at(path: &Path) -> Option<Self> {
        let is_latest = path.file_name().is_some_and(|name| name == LATEST);
        // The link may lead anywhere.
        let full = match is_latest {
            true => directory_of(path).canonicalize().ok()?.join(LATEST),
            false => path.canonicalize().ok()?,
        };
        let (name, all) = (DatedName::parse(full.file_name()?.to_str()?), full.parent()?);
        if name.is_none() && !is_latest {
            return None;
        }
        let root = Dir::open(all).ok()?;
        let mut set = GenerationSet::read(&root, all).ok()?;
        let is_ours = !set.complete.is_empty() || set.recorded.is_some();
        if !is_ours {
            return None;
        }
        if is_latest || name == set.newest() {
            set.look_at_newest(&root, all);
        }
        match is_latest {
            true => set.latest_untaken(path, latest(&root)),
            false => set.untaken(path, name?),
        }
    }

    /// The same of the newest generation, where the one at `path` is called so, or all are there: also if nothing tells
    /// which is the newest.
    pub fn newest_at(path: &Path) -> Option<Self> {
        Self::at(path).filter(|it| it.is_bad).or_else(|| {
            let root = Dir::open(path).ok()?;
            let mut set = GenerationSet::read(&root, path).ok()?;
            let doubted = set.newest_in_doubt(&root, path).map(|(name, why)| Self {
                error: Error::finding(TAKE_NEWEST, path_of(path, name), why),
                is_bad: true,
            });
            doubted.or_else(|| Some(Self { error: set.unrecorded?, is_bad: set.lost_record }))
        })
    }

    /// A directory of this name, if no run of this user's completed it.
    pub fn without_record(path: &Path, is_bad: bool) -> Self {
        let finding =
            "no run of yours left a finished record in it, so no run goes on from it or keeps it";
        let error = Error::finding("take for a generation", path, finding);
        let error = match is_bad {
            true => error.with_note("; latest leads there: run the copy again"),
            false => error,
        };
        Self { error, is_bad }
    }
}
