//! Entering a directory of the output: it is opened or made, and closed where it is to get another label.

use std::ffi::OsStr;
use std::io;
use std::sync::{Arc, Mutex};

use crate::error::Error;
use crate::path::Shown;
use crate::state::private_dir::PrivateDir;
use crate::state::reference_time::MovedTimes;
use crate::sys::stat::{Identity, Stat};
use crate::sys::{Attributes, Dir, DirListing};
use crate::tree::dirs::{OutputDir, in_the_way};
use crate::tree::found::{Emit, WalkItem};
use crate::tree::hand_over::HandOver;
use crate::tree::walk::Walk;
use crate::volume::output_volume::TriedVolume;

impl Walk<'_> {
    /// Gives `output`, which is in `parent`, its open directory, made now if `fresh`. What `is_source` says is on the
    /// way of the walk is no directory of the output.
    ///
    /// # Errors
    /// It is none that may be written to.
    pub(crate) fn take_output(
        &self,
        output: &mut OutputDir,
        parent: &Arc<OutputDir>,
        handle: Dir,
        fresh: bool,
        is_source: &dyn Fn(Identity) -> bool,
        emit: &mut impl Emit,
    ) -> Result<(), Error> {
        let to = output.path();
        let there = handle.stat_self().map_err(|error| Error::io("look at", &to, error))?;
        output.ways = output.ways.into_output(&there);
        if is_source(there.id) {
            return Err(Error::finding("write to", to, "it is a directory of the source"));
        }
        if !self.dry {
            self.claim(output, parent, &there)?;
        }
        if fresh
            && parent.gives_lists()
            && let Err(error) = Attributes::default().shed_inherited(&handle)
        {
            let error = Error::io("set the permissions of", &to, error);
            let _ = emit.item(WalkItem::Warning(error));
        }
        let is_of_others = !fresh && !self.is_ours_alone;
        let is_labelled = |stat: &Stat| Attributes::are_labelled(&there, stat);
        if is_of_others
            && output.finish.as_ref().is_some_and(|(stat, _)| !is_labelled(stat))
            && PrivateDir::is_one(&handle, &there)
        {
            let finding = "it is where runs keep their private records: it was moved there; move it back, or remove it";
            return Err(Error::finding("write to", to, finding));
        }
        self.attach(output, parent, handle, &there, fresh)
            .map_err(|error| Error::io("make writable", &to, error))?;
        if is_of_others && !self.dry {
            let over = HandOver::begin(output, parent, &there, || self.may_make());
            output.work.hand_over = over.map_err(|error| Error::io("list", &to, error))?;
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

    /// The directory `name` at the output and whether it was made now; `None` in a dry run that
    /// would make it. A shard makes none: who took away that of the plan could have put its own there as well.
    pub(crate) fn open_output(
        &self,
        parent: &OutputDir,
        name: &OsStr,
    ) -> Result<Option<(Dir, bool)>, Error> {
        let Some(above) = &parent.handle else { return Ok(None) };
        let path = || parent.path_of(name);
        if !parent.fresh {
            match above.open_dir(name, false) {
                Ok(handle) => return Ok(Some((handle, false))),
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
        let handle = above
            .open_dir(name, false)
            .map_err(|error| Error::io("open directory", path(), error))?;
        // Who may write there can have put another in its place since.
        let is_doubtful = !parent.fresh && parent.others_may_write();
        let fresh = !is_doubtful
            || (handle.is_private().and_then(|private| {
                let is_ours = private || !parent.volume.tried.traits.permissions;
                Ok(is_ours && DirListing::is_empty(&handle)?)
            }))
            .map_err(|error| Error::io("look at", path(), error))?;
        Ok(Some((handle, fresh)))
    }
}
