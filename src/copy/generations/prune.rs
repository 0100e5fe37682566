//! Removing from an unfinished tree what is not in the source as it was then, so that the run goes on with the rest.
//!
//! The tree is one that a run left unfinished, or a snapshot of the last generation that was made a moment ago. In both
//! only what its record proves stays, as where files are [shared](super::seed). Nothing here is in a complete tree: a
//! file that is removed from a snapshot stays in the generation it was taken of. What the look before found in the last
//! generation is removed from a snapshot of it without looking at every file once more: the copy does that anyway, and
//! removes what is [not proven](crate::transfer::unproven).

use std::{ffi::OsStr, fmt, io, mem, path::Path, sync::Arc};

use jiff::{civil::Date, tz::Offset};

use crate::copy::mirror::{TreeRemoval, departures::Departures, search::SUBVOLUME_STUB_INODE};
use crate::{
    error::Deed, error::Error, error::Result, event::Stop, manifest::ManifestName, path::DirPath,
    path::RelPath, state::Belief, state::DatedName, state::Knowledge, state::private_dir::NAME,
    state::private_dir::TRASH, sys, sys::Dir, sys::is_journal_name, sys::is_part_name,
    sys::stat::Kind, sys::stat::Stat, transfer::is_same_link, transfer::may_be_as,
    tree::Classifier, tree::Inclusion, tree::PassDir, tree::Step, tree::TreePass,
};

/// An unfinished tree, and what it is held against.
pub struct Pruning<'a> {
    pub new: &'a Dir,
    /// Where it is.
    pub path: &'a Path,
    pub source: &'a Dir,
    /// The tree's own record.
    pub known: &'a Knowledge,
    pub classifier: Classifier<'a>,
    pub stop: &'a Stop,
}

/// Removes from a snapshot, `new`, what the look before found in the generation that it was taken of: what has left the
/// source, and what would be in the way of the copy.
///
/// # Errors
/// Something cannot be removed.
pub fn remove_found(new: &Dir, found: &Departures, stop: &Stop) -> io::Result<()> {
    for path in &found.protected {
        // Who may not unprotect it may still have nothing to change there.
        let _ = new.open_below(path).map(|dir| dir.unprotect());
    }
    for path in found.paths().chain(found.unfit.iter().cloned()) {
        if stop.is_requested() {
            break;
        }
        let Some((above, name)) = path.split() else { continue };
        // It may have gone with the directory that it was in.
        remove_one(new, &above, name, stop).if_there()?;
    }
    Ok(())
}

fn remove_one(new: &Dir, above: &RelPath, name: &[u8], stop: &Stop) -> io::Result<()> {
    let (above, name) = (new.open_below(above)?, sys::name_from_bytes(name)?);
    above.open_up(&above.stat_self()?)?;
    match above.stat(name, false)?.kind {
        Kind::Dir => remove_dir(&above, name, Dir::remove_protected, stop),
        _ => above.remove_protected(name),
    }
}

/// Removes a directory with everything in it, and what is no directory there by `remove`.
fn remove_dir(above: &Dir, name: &OsStr, mut remove: RemoveEntry, stop: &Stop) -> io::Result<()> {
    // A directory is no other generation's.
    let enter = &|dir: &Dir| _ = dir.unprotect();
    let removed = TreeRemoval { stop, enter, remove: &mut remove }.run(above, name);
    removed.map(drop).map_err(|stuck| stuck.error)
}

/// A function that removes a file or a link.
type RemoveEntry = fn(&Dir, &OsStr) -> io::Result<()>;

/// A directory that both have.
struct PrunedDir<'a> {
    new: &'a Dir,
    source: &'a Dir,
    rel: &'a DirPath,
    inclusion: Inclusion,
}

/// Lets entries of a directory of the tree be removed.
fn make_writable(dir: &Dir) -> io::Result<()> {
    dir.open_up(&dir.stat_self()?)?;
    dir.unprotect();
    Ok(())
}

impl Pruning<'_> {
    /// Removes what is not as the source is. Beginnings of large files stay: the copy looks after them. How many files
    /// stay.
    ///
    /// # Errors
    /// The tree cannot be listed, or something cannot be removed.
    pub fn run(&self) -> Result<u64> {
        let fail = |error| Error::io("go on with the tree", self.path, error);
        let selection = self.classifier.selection;
        let trees = [(self.new, false), (self.source, selection.follow_links)];
        let mut pass = TreePass::over(trees, selection.filter.root()).map_err(fail)?;
        let (mut kept, mut names) = (0, Vec::new());
        make_writable(self.new).map_err(fail)?;
        while let Some(step) = pass.step(self.stop).map_err(fail)? {
            match step {
                Step::Entry(_, listed) => names.push(listed.name),
                // What is removed while a directory is listed may have others pass unlisted.
                Step::Listed(PassDir { dirs, rel, state, subdirs, .. }) => {
                    let [Some(new), Some(source)] = dirs else { continue };
                    let dir = PrunedDir { new, source, rel, inclusion: *state };
                    for name in mem::take(&mut names) {
                        let judged = self.judge(&dir, &name, subdirs);
                        kept += u64::from(judged.map_err(|error| self.stuck(&dir, &name, error))?);
                    }
                }
                Step::Into(PassDir { dirs, .. }, name, inclusion) => {
                    let [Some(new), Some(source)] = dirs else { continue };
                    // Without its counterpart by now it is the copy's to name.
                    let Ok(source) = source.open_dir(&name, selection.follow_links) else {
                        continue;
                    };
                    let new = new.open_dir(&name, false).map_err(fail)?;
                    make_writable(&new).map_err(fail)?;
                    pass.enter(name, [Some(new), Some(source)], inclusion).map_err(fail)?;
                }
                Step::Left(_) => {}
            }
        }
        Ok(kept)
    }

    /// Removes an entry that is not to stay; whether it is a file that stays. A directory that stays is to be looked
    /// through.
    fn judge(
        &self,
        dir: &PrunedDir<'_>,
        name: &Arc<OsStr>,
        subdirs: &mut Vec<(Arc<OsStr>, Inclusion)>,
    ) -> io::Result<bool> {
        let path = dir.rel.join(name);
        let is_leftover = is_part_name(name) || is_journal_name(name);
        let there = dir.new.stat(name, false)?;
        let is_dir = there.kind == Kind::Dir;
        // What is no file is no manifest, whatever it is called.
        let is_list = || {
            there.kind == Kind::File
                && ManifestName::of_any(name).is_some()
                && !self.known.lists(path.as_bytes())
        };
        if is_leftover || dir.rel.is_root() && (**name == *NAME || is_list()) {
            return Ok(false);
        }
        let inclusion =
            self.classifier.selection.filter.judge(path.as_bytes(), is_dir, dir.inclusion);
        // What the source has of this name is never copied.
        let is_no_trash = dir.rel.is_root() && **name == *TRASH;
        let counterpart = dir.source.stat(name, self.classifier.selection.follow_links).ok();
        let counterpart = counterpart.filter(|_| !is_no_trash);
        match counterpart.filter(|_| inclusion != Inclusion::Out) {
            Some(stat)
                if is_dir
                    && stat.kind == Kind::Dir
                    && there.id.ino != SUBVOLUME_STUB_INODE
                    && self.classifier.selection.enters(dir.source, &stat)? =>
            {
                subdirs.push((Arc::clone(name), inclusion));
            }
            Some(stat) if self.proves(dir.source, path.as_bytes(), &stat, &there) => {
                return Ok(true);
            }
            Some(stat)
                if self.classifier.selection.links
                    && is_same_link(dir.source, dir.new, name, &stat, &there) => {}
            _ if is_dir => remove_dir(dir.new, name, self.remove(), self.stop)?,
            _ => self.remove()(dir.new, name)?,
        }
        Ok(false)
    }

    /// The function that removes files: in a snapshot also protected ones. Elsewhere a file may have a name in the last
    /// generation.
    fn remove(&self) -> RemoveEntry {
        if self.new.is_subvolume() { Dir::remove_protected } else { Dir::remove }
    }

    /// The error for an entry that cannot be removed or changed, with the remedy.
    fn stuck(&self, dir: &PrunedDir<'_>, name: &OsStr, error: io::Error) -> Error {
        let path = dir.rel.join(name).full_path(self.path);
        let note = sys::what_protects(dir.new, name).unwrap_or_default();
        Error::io("go on with", path, error).with_note(note)
    }

    /// True if a file is as the source had it when it was recorded, and the source has the same still.
    fn proves(&self, dir: &Dir, path: &[u8], source: &Stat, there: &Stat) -> bool {
        may_be_as(source, there)
            && matches!(self.known.belief(path, there), Belief::Untouched(row, _)
                if row.labelled && row.is_copy_of(source, || dir.keeps_numbers()))
    }
}

// Which generations stay, by the rules that restic has for snapshots.

/// Number of generations of each period that stay; without any, all stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeepRule {
    /// The periods, with the number of generations for each.
    counts: Vec<(Period, u64)>,
}

/// The periods that generations are counted by: the newest of each stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Period {
    Last,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Period {
    const ALL: [(&'static str, Self); 6] = [
        ("last", Self::Last),
        ("hourly", Self::Hour),
        ("daily", Self::Day),
        ("weekly", Self::Week),
        ("monthly", Self::Month),
        ("yearly", Self::Year),
    ];

    /// The period that a generation, the one of this number, falls into; UTC.
    fn of(self, name: DatedName, number: usize) -> i64 {
        let time = Offset::UTC.to_datetime(name.time());
        let date: Date = time.date();
        let day = date.year() as i64 * 1000 + i64::from(date.day_of_year());
        match self {
            Self::Last => number as i64,
            Self::Hour => day * 100 + i64::from(time.hour()),
            Self::Day => day,
            Self::Week => {
                let week = date.iso_week_date();
                i64::from(week.year()) * 100 + i64::from(week.week())
            }
            Self::Month => i64::from(date.year()) * 100 + i64::from(date.month()),
            Self::Year => date.year().into(),
        }
    }
}

impl KeepRule {
    /// Reads `last=7,daily=14,weekly=8,monthly=12,yearly=5`; an error says what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected =
            "expected something like last=7,hourly=24,daily=14,weekly=8,monthly=12,yearly=5";
        if text.parse::<u64>().is_ok() {
            return Err(format!(
                "of what? last={text} keeps the newest {text}, daily={text} one a day"
            ));
        }
        let mut counts: Vec<(Period, u64)> = Vec::new();
        for part in text.split(',') {
            let (word, number) = part.trim().split_once('=').ok_or(expected)?;
            let (_, period) =
                Period::ALL.into_iter().find(|(name, _)| *name == word).ok_or(expected)?;
            if counts.iter().any(|(other, _)| *other == period) {
                return Err(format!("{word} is there twice"));
            }
            counts.push((period, number.parse().map_err(|_| expected)?));
        }
        match counts.iter().any(|(_, number)| *number > 0) {
            true => Ok(Self { counts }),
            false => Err("that would keep nothing".into()),
        }
    }

    /// The ones of `generations` that go. The newest stays in any case. As in restic, of each period the newest counts,
    /// and the oldest of all stays while a number is not used up.
    pub fn surplus(&self, generations: &[DatedName]) -> Vec<DatedName> {
        let mut newest_first = generations.to_vec();
        newest_first.sort_unstable_by(|a, b| b.cmp(a));
        let mut open: Vec<(Period, u64, Option<i64>)> =
            self.counts.iter().map(|&(period, number)| (period, number, None)).collect();
        let last = newest_first.len().saturating_sub(1);
        let mut surplus = Vec::new();
        for (number, &name) in newest_first.iter().enumerate() {
            let mut stays = number == 0;
            for (period, left, seen) in &mut open {
                let now = Some(period.of(name, number));
                if *left > 0 && (*seen != now || number == last) {
                    stays = true;
                    *seen = now;
                    *left -= 1;
                }
            }
            if !stays {
                surplus.push(name);
            }
        }
        surplus
    }
}

impl fmt::Display for KeepRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (period, number)) in self.counts.iter().enumerate() {
            let name = Period::ALL.iter().find(|(_, other)| other == period).map_or("", |it| it.0);
            write!(f, "{}{name}={number}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(rule: &str, names: &[&str]) -> Vec<String> {
        let names: Vec<_> = names.iter().map(|name| DatedName::parse(name).unwrap()).collect();
        let surplus = KeepRule::parse(rule).unwrap().surplus(&names);
        names.iter().filter(|name| !surplus.contains(name)).map(ToString::to_string).collect()
    }

    const NAMES: [&str; 7] = [
        "2025-12-30T020000Z",
        "2026-01-31T020000Z",
        "2026-02-01T020000Z",
        "2026-02-27T020000Z",
        "2026-02-28T020000Z",
        "2026-02-28T030000Z",
        "2026-03-01T020000Z",
    ];

    #[test]
    fn of_each_period_the_newest_stays() {
        assert_eq!(kept("last=2", &NAMES), NAMES[5..]);
        assert_eq!(kept("daily=3", &NAMES), [NAMES[3], NAMES[5], NAMES[6]]);
        assert_eq!(kept("monthly=3", &NAMES), [NAMES[1], NAMES[5], NAMES[6]]);
        assert_eq!(kept("weekly=1", &NAMES), [NAMES[6]]);
        assert_eq!(kept("last=1,yearly=2", &NAMES), [NAMES[0], NAMES[6]]);
        // The oldest stays while not enough of a kind are there.
        assert_eq!(kept("yearly=5", &NAMES), [NAMES[0], NAMES[6]]);
        assert_eq!(kept("last=9", &NAMES), NAMES);
        assert_eq!(kept("last=1", &NAMES[..1]), NAMES[..1]);
        assert_eq!(kept("daily=2", &[]), [""; 0]);
    }

    #[test]
    fn what_is_written_is_read() {
        let rule = "last=7,hourly=1,daily=14,weekly=8,monthly=12,yearly=5";
        assert_eq!(KeepRule::parse(rule).unwrap().to_string(), rule);
        for wrong in ["", "7", "last", "last=", "last=-1", "last=0", "secondly=2", "last=1,last=2"]
        {
            assert!(KeepRule::parse(wrong).is_err(), "{wrong}");
        }
    }
}
