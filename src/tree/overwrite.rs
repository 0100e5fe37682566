//! The decision on a file whose name may be taken at the output: the overwrite policies.
//!
//! A pure function of what is known of both sides. Source and destination are named in the types,
//! not by position: swapping them is how a copier comes to overwrite the newer file and keep the
//! cut-off one.

use std::{ffi::OsStr, io, sync::Arc, sync::Mutex};

use serde::{Deserialize, Serialize};

use crate::{
    error::Deed, error::Error, event::Stop, path::Shown, state::MovedTimes, state::PrivateDir,
    sys::Attributes, sys::Dir, sys::DirListing, sys::stat::Identity, sys::stat::Kind,
    sys::stat::Stat, tree::HandOver, tree::LabelBefore, tree::OutputDir, tree::Selection,
    tree::Walk, tree::WalkItem, tree::dirs::in_the_way, tree::found::Emit,
    tree::hand_over::OF_ANOTHER_USER, tree::hand_over::OPEN_TO_OTHERS, tree::hand_over::close_anew,
    tree::hand_over::is_of_another_user, tree::hand_over::refuse_stranger, tree::walk::NotEntered,
    volume::TriedVolume,
};

/// The policy for a destination that is there already and is not the same file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// Replace what is evidently a cut-off copy; leave everything else that differs, and say so.
    #[default]
    Default,
    /// Also replace what is older than the source.
    Update,
    /// Replace nothing.
    Never,
    /// Replace everything, also what looks the same.
    Always,
    /// The default, where the source is on another disk than that of the last copy: what is shorter may be the other
    /// disk's, and whole. No run is asked for it.
    #[serde(skip)]
    Apart,
}

impl Policy {
    /// True if a directory that another user made stays that user's.
    pub fn spares_others(self) -> bool {
        matches!(self, Self::Default | Self::Apart | Self::Never)
    }
}

/// The metadata of a file that a copy would put somewhere.
#[derive(Clone, Copy, Debug)]
pub struct SourceStat<'a>(pub &'a Stat);

#[derive(Clone, Copy, Debug)]
pub struct DestinationStat<'a> {
    /// Its metadata.
    pub stat: &'a Stat,
    /// True if its time is the source's.
    pub same_time: bool,
}

/// The decision on the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing is in the way.
    Create,
    /// The entry in the way is replaced.
    Replace,
    /// It is there already.
    Keep,
    /// It differs and stays; why, in words.
    Leave(&'static str),
    /// The file cannot be copied; why, in words.
    Refuse(&'static str),
}

/// Why a file is left that may be another card's of the same name.
const OF_ANOTHER_DISK: &str = "it differs, and the last complete copy here was of another disk: give each card a directory of its own (or \
                               --overwrite-policy update, if the source only moved)";

/// Why a file is left, whatever is at the output, if it is.
pub fn leave_out(selection: &Selection, source: SourceStat<'_>) -> Option<&'static str> {
    let is_large = selection.max_size.is_some_and(|most| source.0.size > most);
    is_large.then_some("it is larger than --max-size")
}

/// Why a file cannot be copied, whatever is at the output, if no file there can be larger than `most`; bytes.
pub fn refuse_large(most: Option<u64>, source: SourceStat<'_>) -> Option<&'static str> {
    let is_large = most.is_some_and(|most| source.0.size > most);
    is_large.then_some("the output's file system is FAT, where no file can have 4 GiB")
}

/// Decides about a regular file.
pub fn decide(
    policy: Policy,
    source: SourceStat<'_>,
    destination: Option<DestinationStat<'_>>,
) -> Decision {
    let Some(DestinationStat { stat: destination, same_time }) = destination else {
        return Decision::Create;
    };
    let source = source.0;
    match destination.kind {
        Kind::File => {}
        Kind::Dir => return Decision::Refuse("a directory is in its place at the output"),
        Kind::Symlink if policy == Policy::Always => return Decision::Replace,
        Kind::Symlink => return Decision::Refuse("a symbolic link is in its place at the output"),
        Kind::Fifo | Kind::Socket | Kind::Device => {
            return Decision::Refuse("a special file is in its place at the output");
        }
    }
    if policy == Policy::Always {
        return Decision::Replace;
    }
    if same_time && destination.size == source.size {
        return Decision::Keep;
    }
    let newer = !same_time && destination.mtime > source.mtime;
    match policy {
        Policy::Never => Decision::Leave("it differs, and nothing is to be replaced"),
        Policy::Apart => Decision::Leave(OF_ANOTHER_DISK),
        _ if newer => Decision::Leave(
            "it differs, and the output's is newer (move it away, and the next run copies the source's)",
        ),
        _ if destination.size < source.size => Decision::Replace,
        Policy::Update if !same_time => Decision::Replace,
        Policy::Update => Decision::Leave(
            "it differs in size, though its time is the same (move it away, and the next run copies the \
             source's)",
        ),
        _ => Decision::Leave(
            "it differs, and the output's is older (--overwrite-policy update replaces it)",
        ),
    }
}

// Entering a directory of the output: it is opened or made, and closed where it is to get another label.

/// A directory of the output that was opened.
pub(crate) struct Opened {
    handle: Dir,
    /// True if it was made now.
    fresh: bool,
}

impl Walk<'_> {
    /// Gives `output`, which is in `parent` and is to be as `source`, its open directory. What `is_source` says is on
    /// the way of the walk is no directory of the output.
    ///
    /// # Errors
    /// It is none that may be written to.
    pub(crate) fn take_output(
        &self,
        output: &mut OutputDir,
        parent: &Arc<OutputDir>,
        Opened { handle, fresh }: Opened,
        source: &Stat,
        is_source: &dyn Fn(Identity) -> bool,
        emit: &mut impl Emit,
    ) -> Result<(), NotEntered> {
        let to = output.path();
        let there = handle.stat_self().deed("look at", &to)?;
        if is_source(there.id) {
            return Err(Error::finding("write to", to, "it is a directory of the source").into());
        }
        if !self.dry {
            self.claim(output, parent, &there)?;
        }
        let unstopped = &Stop::default();
        let stop = self.stop.unwrap_or(unstopped);
        let is_of_others = !fresh && !self.is_ours_alone;
        let is_labelled = |stat: &Stat| Attributes::are_labelled(&there, stat);
        if is_of_others
            && output.finish.as_ref().is_some_and(|(stat, _)| !is_labelled(stat))
            && PrivateDir::is_one(&handle, &there)
        {
            let finding = "it is where runs keep their private records: it was moved there; move it back, or remove it";
            return Err(Error::finding("write to", to, finding).into());
        }
        if is_of_others {
            match refuse_stranger(output, &handle, &there, source, self.dry) {
                Err(_) if self.leaves_dirs => {
                    return Err(Error::finding("copy into", to, OPEN_TO_OTHERS).into());
                }
                looked => looked?,
            }
            if self.spares_others
                && is_of_another_user(output, &handle, &there, source, self.known, stop)?
            {
                return Err(NotEntered::Left(OF_ANOTHER_USER));
            }
        }
        // As it is now, also if another is made in its place.
        let before = (!fresh && !self.dry).then(|| LabelBefore::of(&handle, there));
        let (mut handle, mut now) = (handle, there);
        if let Some(before) = before.as_ref().filter(|_| is_of_others)
            && let Some(made) =
                close_anew(output, parent, &handle, before, self.chains, stop, || self.may_make())?
        {
            now = made.stat_self().deed("look at", &to)?;
            handle = made;
            self.claim(output, parent, &now)?;
        }
        output.ways = output.ways.into_output(&now);
        if fresh
            && parent.gives_lists()
            && let Err(error) = Attributes::default().shed_lists(&handle)
        {
            let error = Error::io("set the permissions of", &to, error);
            let _ = emit.item(WalkItem::Warning(error));
        }
        self.attach(output, parent, handle, &now, fresh).deed("make writable", &to)?;
        if let Some(before) = before {
            let (is_ours, may_make) = (self.is_ours_alone, || self.may_make());
            output.work.hand_over = HandOver::begin(output, parent, &before, is_ours, may_make)?;
        }
        Ok(())
    }

    /// The directory `output`, which is `there`, is that of its counterpart in the source, and of no other: whoever may
    /// write to `parent` can give one directory two names in turn, and each of them would get what is in the other.
    fn claim(&self, output: &mut OutputDir, parent: &OutputDir, there: &Stat) -> Result<(), Error> {
        match self.live.claim(there.id, &output.rel) {
            Ok(claim) => output.work.claim = Some(claim),
            Err(other) if parent.others_may_write() => {
                let finding = format!(
                    "it is the directory that this run took for {}: another user gave it this name meanwhile; let nobody \
                     else write to {}, and run again",
                    Shown::path(&output.path_below(&other.path())),
                    Shown::path(&parent.path())
                );
                return Err(Error::finding("write to", output.path(), finding));
            }
            // Not every file system gives each directory a number of its own.
            Err(_) => {}
        }
        Ok(())
    }

    /// Gives `output`, which is `there` and was made now if `fresh`, its open directory.
    fn attach(
        &self,
        output: &mut OutputDir,
        parent: &Arc<OutputDir>,
        handle: Dir,
        there: &Stat,
        fresh: bool,
    ) -> io::Result<()> {
        let volume = &mut output.volume;
        let is_mount_point = !fresh && volume.dev != there.id.dev;
        volume.dev = there.id.dev;
        volume.with_root = self.output_root.is_some_and(|root| root.dev == there.id.dev);
        if fresh && (self.chains || !volume.with_root) {
            output.work.made_in = Mutex::new(Some(Arc::clone(parent)));
        }
        if !fresh || parent.gives_lists() {
            volume.trials = Arc::default();
        }
        if is_mount_point {
            volume.tried = Arc::new(match self.dry {
                true => TriedVolume::default(),
                false => TriedVolume::new(handle.traits(volume.parts), MovedTimes::default()),
            });
        }
        if !fresh {
            volume.look_for_folding(&handle);
            if !self.dry && (!Dir::is_closed(there) || self.may_make()) {
                // The attributes that are set in the end take it back.
                handle.open_up(there)?;
            }
        }
        output.gid = there.gid;
        (output.fresh, output.bare) = (fresh, !fresh && self.cleanup.finds_bare(&handle));
        output.handle = Some(handle);
        Ok(())
    }

    /// The directory `name` at the output; `None` in a dry run that would make it. A shard makes none: who took away
    /// that of the plan could have put its own there as well.
    pub(crate) fn open_output(
        &self,
        parent: &OutputDir,
        name: &OsStr,
    ) -> Result<Option<Opened>, Error> {
        let Some(above) = &parent.handle else { return Ok(None) };
        let path = || parent.path_of(name);
        if !parent.fresh {
            match above.open_dir(name, false) {
                Ok(handle) => return Ok(Some(Opened { handle, fresh: false })),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(in_the_way(above, name, path(), error)),
            }
        }
        if self.leaves_dirs {
            let finding = "the directory that the plan made is gone: make a new plan";
            return Err(Error::finding("open directory", path(), finding));
        }
        // A run that is refused is over.
        if self.dry || !self.may_make() {
            return Ok(None);
        }
        above.make_dir(name, true).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::finding(
                "make directory",
                path(),
                "the output already has this name, perhaps in other letter case",
            ),
            _ => Error::io("make directory", path(), error),
        })?;
        let handle = above.open_dir(name, false).deed_at("open directory", path)?;
        // Who may write there can have put another in its place since.
        let is_doubtful = !parent.fresh && parent.others_may_write();
        let fresh = !is_doubtful
            || (handle.is_private().and_then(|private| {
                let is_ours = private || !parent.volume.tried.traits.permissions;
                Ok(is_ours && DirListing::is_empty(&handle)?)
            }))
            .deed_at("look at", path)?;
        Ok(Some(Opened { handle, fresh }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{sys::stat::Identity, sys::stat::Time};

    fn file(size: u64, secs: i64) -> Stat {
        Stat {
            kind: Kind::File,
            size,
            allocated: size,
            mtime: Time { secs, nanos: 5 },
            ctime: Time::default(),
            id: Identity::default(),
            links: 1,
            mode: 0o644,
            uid: 0,
            gid: 0,
        }
    }

    fn beside<'a>(source: &Stat, stat: &'a Stat) -> Option<DestinationStat<'a>> {
        Some(DestinationStat { stat, same_time: source.mtime == stat.mtime })
    }

    const POLICIES: [Policy; 5] =
        [Policy::Default, Policy::Update, Policy::Never, Policy::Always, Policy::Apart];

    /// Every cell: what is at the output beside a source of 100 bytes from second 50.
    #[test]
    fn the_whole_table() {
        use Decision::{Keep, Replace};
        let left = Decision::Leave("");
        for (what, size, secs, expected) in [
            ("the same", 100, 50, [Keep, Keep, Keep, Replace, Keep]),
            ("shorter and older", 60, 40, [Replace, Replace, left, Replace, left]),
            ("shorter, same time", 60, 50, [Replace, Replace, left, Replace, left]),
            ("empty and older", 0, 40, [Replace, Replace, left, Replace, left]),
            ("shorter but newer", 60, 60, [left, left, left, Replace, left]),
            ("same size, older", 100, 40, [left, Replace, left, Replace, left]),
            ("longer, older", 200, 40, [left, Replace, left, Replace, left]),
            ("longer, same time", 200, 50, [left, left, left, Replace, left]),
            ("same size, newer", 100, 60, [left, left, left, Replace, left]),
            ("longer, newer", 200, 60, [left, left, left, Replace, left]),
        ] {
            for (policy, expected) in POLICIES.into_iter().zip(expected) {
                let (source, there) = (file(100, 50), file(size, secs));
                let mut decision = decide(policy, SourceStat(&source), beside(&source, &there));
                if let Decision::Leave(why) = decision {
                    assert!(!why.is_empty());
                    decision = left;
                }
                assert_eq!(decision, expected, "{what}, {policy:?}");
            }
        }
    }

    #[test]
    fn nothing_there() {
        for policy in POLICIES {
            assert_eq!(decide(policy, SourceStat(&file(1, 1)), None), Decision::Create);
        }
    }

    #[test]
    fn something_else_in_the_way() {
        for kind in [Kind::Dir, Kind::Symlink, Kind::Fifo, Kind::Socket, Kind::Device] {
            for policy in POLICIES {
                let there = Stat { kind, ..file(100, 50) };
                let source = file(100, 50);
                let decision = decide(policy, SourceStat(&source), beside(&source, &there));
                if kind == Kind::Symlink && policy == Policy::Always {
                    assert_eq!(decision, Decision::Replace);
                } else {
                    assert!(matches!(decision, Decision::Refuse(_)), "{kind:?} {policy:?}");
                }
            }
        }
    }
}
