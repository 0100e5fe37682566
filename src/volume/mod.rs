//! The file system that a directory of an output is on: what was found out by trials, and what is asked of that.

pub mod alike;
pub mod times;

pub use alike::{NameSet, OtherSpellings};
pub use times::{Counterpart, SpellingSearch};

use std::sync::{Arc, Mutex, OnceLock, PoisonError, atomic::AtomicBool, atomic::Ordering::Relaxed};
use std::{collections::HashMap, ffi::OsStr, io};

use jiff::Timestamp;

use crate::{
    state::MovedTimes, sys::Attributes, sys::Dir, sys::PartOwner, sys::stat::Inode,
    sys::stat::Known, sys::stat::Stat, sys::stat::Time, sys::traits::NameTraits,
    sys::traits::TimeTraits, sys::traits::Traits, sys::traits::TriedName, volume::alike::are_alike,
    volume::alike::fold_simply, volume::times::TimeMatch, volume::times::VolumeTimes,
};

/// The facts about the file system that a directory of the output is on.
#[derive(Debug, Default)]
pub struct OutputVolume {
    /// The device number; 0 in a dry run for a directory that is not there yet.
    pub dev: u64,
    /// True if everything in the directory can be made durable through the root's file system at once.
    pub with_root: bool,
    /// The results of trials before the first file; shared by all directories on the file system.
    pub tried: Arc<TriedVolume>,
    /// The results of trials since; shared with the directory that it was made in.
    pub trials: Arc<Trials>,
    /// True if small files here are written out as soon as they are complete; unset until that was asked.
    pub hurries: OnceLock<bool>,
    /// Whose part files are made here.
    pub parts: PartOwner,
    /// True if this directory folds names, whatever others do.
    pub folds_by_itself: bool,
}

/// The results of trials on a file system before the first file.
#[derive(Debug, Default)]
pub struct TriedVolume {
    /// Its treatment of names, links and attributes.
    pub traits: Traits,
    /// Its treatment of times.
    pub times: VolumeTimes,
    /// True if files have a change time that no program can set; unset until that was asked.
    has_change_times: OnceLock<bool>,
    /// True if single directories may fold names; unset until that was asked.
    may_fold_by_directory: OnceLock<bool>,
    /// True once the user was told that links keep the owner and time of their making.
    told_of_links: AtomicBool,
    /// The names that count as not held where nothing may be made; `None` where they are tried.
    untried: Option<UntriedNames>,
}

/// The treatment of names of classes that are not held, where nothing may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UntriedNames {
    /// They count as held.
    Held,
    /// They count as not held, but for those that are there.
    Doubtful,
}

impl TriedVolume {
    /// The volume of a file system with these traits. Times that earlier runs set there have `moved`.
    pub fn new(traits: Traits, moved: MovedTimes) -> Self {
        let times = VolumeTimes::new(traits.times, moved, None);
        Self { traits, times, ..Self::default() }
    }

    /// The facts about the file system that `dir` is on where nothing may be made: from the last run's notes (`noted`),
    /// and from the directory `own`, which is in it and called `own_name`. `names` tells what becomes of names that
    /// would have to be tried.
    pub fn look_at(
        dir: &Dir,
        own: Dir,
        own_name: &str,
        noted: NotedTraits,
        names: UntriedNames,
    ) -> Self {
        let NotedTraits { traits, moved } = noted;
        let folds_case = dir.stat(own_name.to_uppercase().as_ref(), false).is_ok();
        let mut traits =
            traits.unwrap_or_else(|| Traits { times: own.own_time_traits(), ..Traits::default() });
        traits.names.folds_case = folds_case;
        let times = VolumeTimes::new(traits.times, moved, Some(own));
        Self { traits, times, untried: Some(names), ..Self::default() }
    }

    /// Its limits, in words; `None` if there are none.
    pub fn limits(&self) -> Option<String> {
        limits(&self.traits, self.times.moved())
    }
}

/// The notes of earlier runs about a file system.
#[derive(Debug, Default)]
pub struct NotedTraits {
    /// The results of the last run's trials, if they are noted.
    pub traits: Option<Traits>,
    /// The move of the times that they set.
    pub moved: MovedTimes,
}

/// The results of trials of a single directory, each made when it is first asked for.
#[derive(Debug, Default)]
pub struct Trials {
    /// The permissions that files without a name can be born with.
    born: OnceLock<u32>,
    /// True if new entries in it get access lists from it.
    gives_lists: OnceLock<bool>,
    /// The largest file that it can hold, if that is known to be small; bytes.
    largest_file: OnceLock<Option<u64>>,
    /// True for FAT or exFAT, as far as that is known without a trial.
    is_fat: OnceLock<bool>,
    /// The permissions and owners that files here can have, of those that were tried.
    labels: Mutex<HashMap<Label, bool>>,
}

/// Why a file is not replaced whose name is too long for that.
pub const TOO_LONG_TO_REPLACE: &str = "its file system cannot replace a file of so long a name; remove it at the \
                                       output, and run again";

/// Names so short are replaced everywhere; bytes.
const SURELY_REPLACED: usize = 200;

/// Permissions, owner and group.
type Label = (u32, u32, u32);

/// Number of results of trials that are kept.
const MOST_LABELS: usize = 256;

impl OutputVolume {
    /// The volume of a directory that is to be made in one that is on this.
    pub fn of_subdir(&self) -> Self {
        let Self { dev, with_root, parts, folds_by_itself, .. } = *self;
        let (tried, trials) = (Arc::clone(&self.tried), Arc::clone(&self.trials));
        let hurries = OnceLock::new();
        Self { dev, with_root, tried, trials, hurries, parts, folds_by_itself }
    }

    /// True if the entry under a name `now` is the very file that was known so, and may have got this name since; as
    /// far as numbers and times of making tell here. Who may put other files there can give them any name and time, but
    /// no owner.
    pub fn is_same(&self, known: &Known, now: &Inode) -> bool {
        let (Traits { keeps_numbers, keeps_births, .. }, now) = (self.tried.traits, now.known());
        let of = |it: &Known| (it.kind, it.size, it.uid, it.gid);
        of(known) == of(&now)
            && (!keeps_numbers || known.id == now.id)
            && (!keeps_births || known.birth.is_none() || known.birth == now.birth)
    }

    /// Takes it for the volume of `dir`, in which the output is to be made.
    pub fn is_that_of(&self, dir: &Dir) {
        self.trials.largest_file.get_or_init(|| dir.largest_file());
        self.trials.is_fat.get_or_init(|| dir.is_fat());
    }

    /// True if `dir` is on FAT or exFAT.
    pub fn is_fat(&self, dir: Option<&Dir>) -> bool {
        self.tried.traits.times.are_of_fat
            || *self.trials.is_fat.get_or_init(|| dir.is_some_and(Dir::is_fat))
    }

    /// True if files in `dir` have a change time that no program can set.
    pub fn has_change_times(&self, dir: Option<&Dir>) -> bool {
        let has = || dir.is_none_or(Dir::has_change_times);
        !self.tried.traits.are_of_disk_without_change_times()
            && *self.tried.has_change_times.get_or_init(has)
    }

    /// The largest file that can be in `dir`, if that is known to be small; bytes.
    pub fn largest_file(&self, dir: Option<&Dir>) -> Option<u64> {
        *self.trials.largest_file.get_or_init(|| dir.and_then(Dir::largest_file))
    }

    /// True if names that are [alike](crate::volume::alike) may be one.
    pub fn folds_names(&self) -> bool {
        let NameTraits { folds_case, folds_forms, .. } = self.tried.traits.names;
        folds_case || folds_forms || self.folds_by_itself
    }

    /// True if an entry of this name may take that of `own`.
    pub fn may_be(&self, name: &OsStr, own: &str) -> bool {
        let is_alike = || are_alike(name.as_encoded_bytes(), own.as_bytes());
        name == own || self.folds_names() && is_alike()
    }

    /// Looks whether `dir`, which was there already, folds names by itself.
    pub fn look_for_folding(&mut self, dir: &Dir) {
        let may = || dir.may_fold_by_directory();
        self.folds_by_itself =
            *self.tried.may_fold_by_directory.get_or_init(may) && dir.folds_by_itself();
    }

    /// The one of the names `others`, which are alike to `name`, that is one name with it in `dir`. `dir` is `None` in
    /// a dry run where it is not there yet.
    pub fn one_with<'a>(
        &self,
        name: &OsStr,
        others: &'a [Arc<OsStr>],
        dir: Option<&Dir>,
    ) -> Option<&'a Arc<OsStr>> {
        let first = others.first()?;
        let are_one = |other: &&Arc<OsStr>| dir.and_then(|dir| are_one(dir, name, other));
        if let Some(one) = others.iter().find(|other| are_one(other) == Some(true)) {
            return Some(one);
        }
        match (self.tried.untried, dir) {
            (None, Some(dir)) => match dir.find_one_name(self.parts, name, others) {
                Ok(found) => others.get(found?),
                // What cannot be tried must not take the place of another.
                Err(_) => Some(first),
            },
            _ => others
                .iter()
                .find(|other| are_one(other).is_none() && simple_form(name) == simple_form(other)),
        }
    }

    /// The permissions that files without a name can have from the start in `dir`.
    pub fn modes_at_birth(&self, dir: Option<&Dir>) -> u32 {
        *self.trials.born.get_or_init(|| dir.map_or(0, Dir::modes_at_birth))
    }

    /// True if new entries in `dir` get access lists from it.
    pub fn gives_lists(&self, dir: Option<&Dir>) -> bool {
        let gives = || dir.is_some_and(Attributes::may_be_inherited_in);
        *self.trials.gives_lists.get_or_init(gives)
    }

    /// Lets new entries here keep the access lists that they get.
    pub fn keep_lists(&self) {
        self.trials.gives_lists.get_or_init(|| false);
    }

    /// True if this is the first to ask: then it is to tell that links keep the owner and times they were made with.
    pub fn is_first_unlabelled_link(&self) -> bool {
        !self.tried.told_of_links.swap(true, Relaxed)
    }

    /// The treatment of an entry of this name in `dir`, if it would not be called so; known before it is made. `dir` is
    /// `None` in a dry run where it is not there yet.
    pub fn try_name(&self, name: &OsStr, dir: Option<&Dir>) -> Option<TriedName> {
        if !self.tried.traits.names.are_doubtful_for(name) {
            return None;
        }
        let is_there = || dir.is_some_and(|dir| dir.lists(name).unwrap_or(true));
        match self.tried.untried {
            // Where nothing can be tried, making the entry will tell.
            None => dir?.try_name(self.parts, name).ok(),
            Some(UntriedNames::Doubtful) if !is_there() => Some(TriedName::Doubtful),
            Some(_) => None,
        }
    }

    /// True if a file of this name in `dir` can take the place of another.
    pub fn replaces(&self, name: &OsStr, dir: Option<&Dir>) -> bool {
        if name.len() <= SURELY_REPLACED || self.tried.traits.replaces_longest {
            return true;
        }
        match self.tried.untried {
            // Where nothing can be tried, replacing it will tell.
            None => dir.is_none_or(|dir| dir.try_replacing(self.parts, name).unwrap_or(true)),
            Some(names) => names == UntriedNames::Held,
        }
    }

    /// Compares the time of the file that is `there` in `dir` with `source`, where a record tells which it was `given`,
    /// or nothing does.
    pub fn compare_times(
        &self,
        source: Time,
        there: Time,
        given: Option<Time>,
        dir: Option<&Dir>,
    ) -> TimeMatch {
        self.tried.times.compare(source, there, given, &|time| self.ask_time(time, dir))
    }

    /// True if a file here that was given the time `source` has the time `there`, as others may; where only a trial
    /// tells, it is made in `dir`.
    pub fn holds_time_as(&self, source: Time, there: Time, dir: Option<&Dir>) -> bool {
        self.tried.times.is_held_as(source, there, &|time| self.ask_time(time, dir))
    }

    /// True if a file in `dir` that is given this time gets another each time.
    pub fn loses_time(&self, time: Time, dir: Option<&Dir>) -> bool {
        self.tried.times.loses(time, &|time| self.ask_time(time, dir))
    }

    /// The time that a file in `dir` has when it is given this one, found out by a trial.
    fn ask_time(&self, time: Time, dir: Option<&Dir>) -> Option<Time> {
        dir.and_then(|dir| dir.try_time(self.parts, time).ok())
    }

    /// True if a file in `dir` can have these attributes, and the permissions and the owner of `source`; found out with
    /// a file of our own.
    pub fn can_hold(&self, dir: &Dir, attributes: &Attributes, source: &Stat) -> bool {
        let label = (source.mode, source.uid, source.gid);
        let labels = || self.trials.labels.lock().unwrap_or_else(PoisonError::into_inner);
        let tried = labels().get(&label).copied();
        if let Some(holds) = tried.filter(|holds| !holds || attributes.is_empty()) {
            return holds;
        }
        let holds = holds(dir, self.parts, attributes, source).unwrap_or(false);
        // A trial with attributes says nothing of files that have none.
        if attributes.is_empty() && labels().len() < MOST_LABELS {
            labels().insert(label, holds);
        }
        holds
    }
}

/// True if two names are one in `dir`, as far as the entries there tell. Not every file system gives an entry one inode
/// number, and what is found may be listed under a third name.
fn are_one(dir: &Dir, name: &OsStr, other: &OsStr) -> Option<bool> {
    match (dir.stat(name, false), dir.stat(other, false)) {
        (Ok(one), Ok(two)) => match dir.lists(name).ok()? && dir.lists(other).ok()? {
            true => Some(false),
            false => (one.id == two.id).then_some(true),
        },
        (Err(_), Err(_)) => None,
        _ => Some(false),
    }
}

fn simple_form(name: &OsStr) -> String {
    fold_simply(&name.to_string_lossy())
}

/// True if a file in `dir` that is given these attributes and those of `source` has them then.
fn holds(dir: &Dir, parts: PartOwner, attributes: &Attributes, source: &Stat) -> io::Result<bool> {
    let (file, name) = dir.create_part(parts)?;
    let takes = |attributes: &Attributes, stat: &Stat| {
        let now = Dir::stat_file(&file)?;
        let owned = (now.uid, now.gid) == (stat.uid, stat.gid);
        attributes.apply_to_kept(&file, stat, owned, |_, _| ());
        Ok::<_, io::Error>(attributes.are_at(&Dir::stat_file(&file)?, &file, stat))
    };
    // It may have been made with the permissions in question: they must be seen to change. Who may not write to a file
    // cannot give it attributes.
    let other = Stat { mode: source.mode ^ 0o044 | 0o200, ..*source };
    let holds = takes(&Attributes::default(), &other)
        .and_then(|other| Ok(other && takes(attributes, source)?));
    dir.remove_trial(file, &name)?;
    holds
}

// The limits of a file system, in one line.

/// The consequences for a copy of `traits` and times that have `moved`, in words; `None` if there is nothing to tell.
pub fn limits(traits: &Traits, moved: &MovedTimes) -> Option<String> {
    let Traits { names, times, links, permissions, owners, syncs_names, .. } = traits;
    let Traits { outward_links, keeps_times, .. } = traits;
    let mut told = Vec::new();
    told.extend(of_times(times));
    told.extend(of_names(names));
    let absent = [(*links, "symbolic links"), (*permissions, "permissions"), (*owners, "owners")];
    let absent: Vec<&str> =
        absent.into_iter().filter_map(|(has, what)| (!has).then_some(what)).collect();
    if !absent.is_empty() {
        told.push(format!("no {}", absent.join(", no ")));
    }
    if !outward_links {
        told.push("no links that lead out of it".to_owned());
    }
    if !keeps_times {
        told.push(
            "times of new files that change when they are read, so content decides".to_owned(),
        );
    }
    if !syncs_names {
        told.push("names that a power cut may lose, because it cannot sync directories".to_owned());
    }
    told.extend(moved.by.iter().filter(|_| moved.is_new).map(|secs| {
        let (sign, minutes) = (if *secs < 0 { '-' } else { '+' }, secs.unsigned_abs() / 60);
        format!(
            "times that moved by {sign}{}:{:02} h since earlier runs set them (daylight saving, or the zone of \
             another machine), and count as the same",
            minutes / 60,
            minutes % 60
        )
    }));
    (!told.is_empty()).then(|| told.join("; "))
}

fn of_times(times: &TimeTraits) -> Option<String> {
    let Some(step) = times.step else { return Some("times that cannot be set".to_owned()) };
    let day = |time: Time| Some(Timestamp::from_second(time.secs).ok()?.strftime("%F").to_string());
    // Times of now and of long ago; 2106 is where 32 bits of seconds end.
    let (epoch, ample) = (0, i64::from(u32::MAX));
    let mut told = String::new();
    if step >= 1_000_000_000 {
        told.push_str(&format!(" in steps of {} s", step / 1_000_000_000));
    }
    // Where times come out as some time or other, there is no bound.
    if times.earliest.secs > epoch && times.earliest.nanos == 0 {
        told.push_str(&format!(" from {}", day(times.earliest)?));
    }
    if times.latest.secs < ample && times.latest.nanos == 0 {
        told.push_str(&format!(" to {}", day(times.latest)?));
    }
    if times.earliest == times.latest {
        told.push_str(", some of which become others");
    }
    (!told.is_empty()).then(|| format!("times{told}"))
}

fn of_names(names: &NameTraits) -> Option<String> {
    let NameTraits { folds_case, folds_forms, unicode, bytes, signs, ends, devices, longest } =
        *names;
    let not_all = [
        (unicode, "that are not ASCII".to_owned()),
        (bytes || !unicode, "that are not UTF-8".to_owned()),
        (signs, "with control characters or one of \"*:<>?\\|".to_owned()),
        (ends, "with a blank or a dot at an end".to_owned()),
        (devices, "of devices of Windows".to_owned()),
        (longest >= 250, format!("longer than {longest} bytes")),
    ];
    let not_all: Vec<String> =
        not_all.into_iter().filter_map(|(all, what)| (!all).then_some(what)).collect();
    let case = folds_case.then(|| "names without letter case".to_owned());
    let forms = folds_forms.then(|| "names without forms of Unicode".to_owned());
    let names = (!not_all.is_empty()).then(|| format!("not all names {}", not_all.join(", ")));
    let told: Vec<String> = case.into_iter().chain(forms).chain(names).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told() {
        assert_eq!(limits(&Traits::FAITHFUL, &MovedTimes::default()), None);
        let at = |secs| Time { secs, nanos: 0 };
        let fat = Traits {
            names: NameTraits { folds_case: true, bytes: false, ends: false, ..NameTraits::EVERY },
            times: TimeTraits {
                step: Some(2_000_000_000),
                earliest: at(315_532_800),
                latest: at(4_354_819_198),
                are_of_fat: false,
            },
            links: false,
            owners: false,
            ..Traits::FAITHFUL
        };
        assert_eq!(
            limits(&fat, &MovedTimes { by: vec![-3600], is_new: true }).unwrap(),
            "times in steps of 2 s from 1980-01-01; names without letter case; not all names that are not UTF-8, \
             with a blank or a dot at an end; no symbolic links, no owners; times that moved by -1:00 h since \
             earlier runs set them (daylight saving, or the zone of another machine), and count as the same"
        );
    }
}
