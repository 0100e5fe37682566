//! Who may write to any directory above the source or the output can give its name to another one, also by the name of
//! a directory on the way. What is refused for that, before anything is touched: nothing is to get to users who could
//! not come to it before, and nothing at another output gives way.
//!
//! Where only this user and root may do that, nothing more is asked than whose the directories are.

use std::{io, path::Path, path::PathBuf};

use crate::copy::before::{Demands, cannot_look, check::Opened, exchange::Pair};
use crate::{
    copy::CopyJob, copy::Prepared, error::Error, error::Result, path::Shown, state::FileSources,
    state::Missing, state::NewRoot, state::Note, state::PrivateDir, state::PrivatePlace,
    state::SourceMark, state::kept::has_only_what_runs_keep, sys, sys::Attributes, sys::Dir,
    sys::stat::Stat, tree::hand_over::is_open_to_strangers,
};

/// The way to name a source that is another directory each time.
const OF_SNAPSHOTS: &str =
    "snapshots are known by the name of a link that you lead to the newest one (ln -sfn)";

/// The source of the last run to an output.
pub(super) struct LastSource {
    mark: SourceMark,
    output: PathBuf,
    /// Where it is noted.
    note: PathBuf,
}

impl LastSource {
    /// That of the last run to the output `to`, whose root is `root`; of files in the directory of `from`, if that
    /// `is_file`.
    pub fn of(
        root: &Dir,
        to: &Path,
        place: PrivatePlace<'_>,
        from: &Path,
        is_file: bool,
    ) -> Option<Self> {
        let private = PrivateDir::open_at(root, to, place, Missing::Leave).ok()??;
        Self::read(&private, to, from, is_file)
    }

    fn read(private: &PrivateDir, to: &Path, from: &Path, is_file: bool) -> Option<Self> {
        let is_noted = |mark, file| {
            let (output, note) = (to.to_path_buf(), private.path().join(file));
            Self { mark, output, note }
        };
        let of_files = || FileSources::read(private)?.of(from);
        let of_file = is_file.then(of_files).flatten();
        let of_file = of_file.map(|mark| is_noted(mark, FileSources::FILE));
        let of_tree = || Some(is_noted(SourceMark::read(private)?, SourceMark::FILE));
        of_file.or_else(of_tree)
    }
}

impl Pair<'_> {
    /// Refuses an output, or a source, that others may have put in the place of that of the last run.
    pub fn refuse_planted(
        &self,
        output: &Opened,
        demands: &Demands<'_>,
        is_file: bool,
    ) -> Result<()> {
        let Opened::There(dir) = output else { return Ok(()) };
        if !tell_owners(self.source, dir) {
            return Ok(());
        }
        let Demands { private: place, restore, replaces, .. } = *demands;
        let private = PrivateDir::open_at(dir, self.to, place, Missing::Leave).ok().flatten();
        let is_known = private.is_some() || matches!(place, PrivatePlace::Nowhere);
        self.refuse_stranger(dir, is_known)?;
        let read = |private| LastSource::read(private, self.to, self.from, is_file);
        let last = private.as_ref().and_then(read);
        if replaces && restore && !is_file {
            let is_begun = private.as_ref().is_some_and(|it| NewRoot::read(it).is_some());
            if !is_begun && !last.as_ref().is_some_and(|last| last.mark.is_of(self.source)) {
                self.refuse_other_archive(dir, place)?;
            }
        }
        match last {
            Some(last) if replaces && !restore && !is_file => {
                self.refuse_other_output(dir, &last)?;
                self.refuse_other_source(dir, &last)
            }
            Some(last) => self.refuse_other_source(dir, &last),
            None if restore => self.refuse_closed_source(dir),
            None => Ok(()),
        }
    }

    /// Refuses an output that lets others in who may not look into the source, where others may write to a directory
    /// above it: they can put one of their own in the place of that of a run before, or another one of this user's. If
    /// it `is_known` that runs of this user were there, others may come to it as they could then.
    fn refuse_stranger(&self, output: &Dir, is_known: bool) -> Result<()> {
        let Self { to, source, source_stat, .. } = *self;
        let look = |error| cannot_look(to, error);
        if output.is_place_kept().map_err(look)? {
            return Ok(());
        }
        let there = output.stat_self().map_err(look)?;
        let is_hidden = || source.is_open_to_everyone().map(|is_open| !is_open);
        let may_be_moved = || output.is_place_kept_for(source_stat).map(|is_kept| !is_kept);
        let lets_in = lets_in_more(output, source, source_stat).map_err(look)?
            || Dir::is_strange(&there, source_stat) && is_hidden().map_err(look)?
            || !is_known
                && may_be_moved().map_err(look)?
                && output.is_reached_by_more_than(source, false).map_err(look)?;
        if !lets_in {
            return Ok(());
        }
        let finding = format!(
            "it lets in others (it is of user {}) whom the source keeps out, or a directory above that, and others may write \
             above it, who can have put it there: name a directory that is not there yet, or close it to them (chown, \
             chmod) if it is meant",
            there.uid
        );
        Err(Error::finding("copy to", to, finding))
    }

    /// Refuses a source to which others cannot come who can come to the output, if it is another one than in the `last`
    /// run, and others may write above one of the two: they can give the name of either to any other directory.
    pub fn refuse_other_source(&self, output: &Dir, last: &LastSource) -> Result<()> {
        let Self { from, to, source, .. } = *self;
        let look = |error| cannot_look(to, error);
        let (is_kept, mark) = (output.is_place_kept().map_err(look)?, &last.mark);
        let is_other = match is_kept {
            true => mark.is_other_dir_than(source) && !source.is_place_kept().map_err(look)?,
            false => mark.is_known() && !mark.is_of(source),
        };
        if !is_other || output.is_private().map_err(look)? || self.is_led(last)? {
            return Ok(());
        }
        let lets_in = match is_kept {
            true => output.is_reached_by_more_than(source, true),
            false => source.is_open_to_everyone().map(|is_open| !is_open),
        };
        if !lets_in.map_err(look)? {
            return Ok(());
        }
        let finding = format!(
            "it is another directory than at the last run to {}, and {} lets in others whom it keeps out, or a directory \
             above it: close that to them (chmod), or remove {}, if it is meant; {OF_SNAPSHOTS}",
            Shown::path(&last.output),
            Shown::path(to),
            Shown::path(&last.note)
        );
        Err(Error::finding("copy from", from, finding))
    }

    /// Refuses an output of another source, as the `last` run there noted, where others may write above it: what it has
    /// would give way.
    fn refuse_other_output(&self, output: &Dir, last: &LastSource) -> Result<()> {
        let Self { from, to, source, .. } = *self;
        let Some(other) = last.mark.other_than(source, from) else { return Ok(()) };
        if output.is_place_kept().map_err(|error| cannot_look(to, error))? || self.is_led(last)? {
            return Ok(());
        }
        let finding = format!(
            "a run of yours copied another source there ({}), and others may write above it, who can have exchanged it for \
             the output of {}: what it has would give way; look which of your outputs it is, or remove {} if it is meant; \
             {OF_SNAPSHOTS}",
            Shown::path(Path::new(other)),
            Shown::path(from),
            Shown::path(&last.note)
        );
        Err(Error::finding("copy to", to, finding))
    }

    /// True if the source was given by the same path as at the `last` run, and only this user and root can say where
    /// that leads: to today's snapshot, by a link of this user's.
    fn is_led(&self, last: &LastSource) -> Result<bool> {
        let look = |error| cannot_look(self.from, error);
        Ok(last.mark.was_given_as(self.from) && self.source.is_place_kept().map_err(look)?)
    }

    /// Refuses an archive of another directory than the output, as the run to the archive noted, where others may write
    /// above it: what the output has would give way, if it has anything.
    fn refuse_other_archive(&self, output: &Dir, place: PrivatePlace<'_>) -> Result<()> {
        let Self { from, to, source, .. } = *self;
        let look = |error| cannot_look(from, error);
        let marks = self.exchange(output, place).sources_of_source();
        let other =
            marks.iter().map(|mark| mark.other_than(output, to)).collect::<Option<Vec<_>>>();
        let Some(other) = other.as_ref().and_then(|others| others.first()) else { return Ok(()) };
        if source.is_place_kept().map_err(look)?
            || has_only_what_runs_keep(output).map_err(|error| cannot_look(to, error))?
        {
            return Ok(());
        }
        let finding = format!(
            "a run of yours copied another directory there ({}), and others may write above it, who can have exchanged it \
             for the archive of {}: what that has would give way; look which of your archives it is, and bring it back into \
             a directory that is not there yet, or close what is above it to them (chmod)",
            Shown::path(Path::new(other)),
            Shown::path(to)
        );
        Err(Error::finding("copy from", from, finding))
    }

    /// Refuses a source of which nothing is known, to which others cannot come who can come to the output, if others
    /// may write above it.
    fn refuse_closed_source(&self, output: &Dir) -> Result<()> {
        let Self { from, to, source, source_stat } = *self;
        let look = |error| cannot_look(from, error);
        if source.is_place_kept_for(source_stat).map_err(look)?
            || !output.is_reached_by_more_than(source, true).map_err(look)?
        {
            return Ok(());
        }
        let finding = format!(
            "others may write above it, who can have given its name to it, and {} lets in others whom it keeps out, or a \
             directory above it: close that to them (chmod), or name a directory that is not there yet",
            Shown::path(to)
        );
        Err(Error::finding("copy from", from, finding))
    }
}

/// True if an output that was there lets others look into it who may not look into the source.
///
/// # Errors
/// It cannot be looked at.
pub fn is_output_wider(prepared: &Prepared, job: &CopyJob) -> Result<bool> {
    let (source, output) = (&prepared.source.handle, &prepared.output);
    let handle = output.handle.as_ref().filter(|_| output.volume.tried.traits.permissions);
    let Some(handle) = handle.filter(|_| !output.fresh && prepared.file.is_none()) else {
        return Ok(false);
    };
    let look = |error| cannot_look(&job.output, error);
    let stat = source.stat_self().map_err(look)?;
    Ok(tell_owners(source, handle) && lets_in_more(handle, source, &stat).map_err(look)?)
}

/// True if it is told of both whose they are.
pub(super) fn tell_owners(source: &Dir, output: &Dir) -> bool {
    !sys::may_lack_owners(source) && !sys::may_lack_owners(output)
}

/// True if `output` lets others look into it who may not look into `source`, which is `stat`.
fn lets_in_more(output: &Dir, source: &Dir, stat: &Stat) -> io::Result<bool> {
    let lists = Attributes::read(source).unwrap_or_default();
    is_open_to_strangers(output, stat, &lists, false, true)
}
