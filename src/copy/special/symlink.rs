//! Copying a symbolic link as a link.

use std::io;

use crate::error::{Error, Result};
use crate::event::Gate;
use crate::sys::stat::{Kind, Stat};
use crate::sys::{Attributes, Dir, LinkTarget};
use crate::tree::dirs::{OutputDir, SourceDir};
use crate::tree::found::SourceEntry;
use crate::tree::overwrite::{Decision, Policy};

/// What is said of a link that could not be read again, by this run or a later one.
const NOT_SHOWN: &str = "its file system does not show links that lead out of it (sshfs does with -o \
                         no_contain_symlinks); --no-links leaves links out";

/// What became of a link.
#[derive(Debug, PartialEq, Eq)]
pub enum LinkOutcome {
    Made,
    /// It was there already.
    Kept,
    /// Something else is there and stays.
    Left(&'static str),
    /// The run is refused.
    Abandoned,
}

/// What is to be done about a link.
pub enum Plan {
    /// Make it; whether something gives way.
    Make {
        /// Whether something gives way.
        replaces: bool,
    },
    /// This became of it.
    Settled(LinkOutcome),
}

/// Copies the link `entry`; a warning tells of attributes that could not be set.
pub fn copy(
    source: &SourceDir,
    output: &OutputDir,
    entry: &SourceEntry,
    policy: Policy,
    gate: &Gate<'_>,
) -> Result<(LinkOutcome, Option<Error>)> {
    let replaces = match plan(source, output, entry, policy)? {
        Plan::Settled(linked) => return Ok((linked, None)),
        Plan::Make { .. } if !gate.lets_pass() => return Ok((LinkOutcome::Abandoned, None)),
        Plan::Make { replaces } => replaces,
    };
    let fail = |deed| move |error| Error::io(deed, output.path_of(&entry.name), error);
    let Some(dir) = &output.handle else {
        return Err(fail("make the link")(io::ErrorKind::NotFound.into()));
    };
    let target = read(source, entry)?;
    let is_shown = |target: &LinkTarget| {
        dir.try_link(output.volume.parts, target).is_ok_and(|shown| shown == *target)
    };
    refuse(output, entry, &target, &is_shown)?;
    if replaces {
        let part =
            dir.create_part_link(output.volume.parts, &target).map_err(fail("make the link"))?;
        if let Err(error) = dir.publish(&part, &entry.name, true) {
            let _ = dir.remove(&part);
            return Err(fail("replace by a link")(error));
        }
    } else {
        dir.make_link(&target, &entry.name).map_err(fail("make the link"))?;
    }
    Ok((LinkOutcome::Made, label(dir, source, output, entry)))
}

/// Refuses a link that would be made by a run, as far as that is known without making it.
pub fn foretell(source: &SourceDir, output: &OutputDir, entry: &SourceEntry) -> Result<()> {
    let levels = output.rel.path().components().count();
    refuse(output, entry, &read(source, entry)?, &|target| !Dir::leads_out(target, levels))
}

/// Refuses a link that the output cannot hold. Whether one `is_shown` is asked where not all are.
fn refuse(
    output: &OutputDir,
    entry: &SourceEntry,
    target: &LinkTarget,
    is_shown: &dyn Fn(&LinkTarget) -> bool,
) -> Result<()> {
    let traits = &output.volume.tried.traits;
    let finding = if !traits.links {
        "its file system has no symbolic links; --no-links leaves them out"
    } else if !traits.outward_links && !is_shown(target) {
        NOT_SHOWN
    } else {
        return Ok(());
    };
    Err(Error::finding("make the link", output.path_of(&entry.name), finding).of_all())
}

/// Gives a new link the owner, times and attributes of `entry`; the warning of what could not be done. Where a
/// link's are those of its target, nothing is set, and the first link says so for all.
fn label(dir: &Dir, source: &SourceDir, output: &OutputDir, entry: &SourceEntry) -> Option<Error> {
    const DEED: &str = "set the attributes of the link";
    let path = || output.path_of(&entry.name);
    if output.volume.tried.traits.labels_links {
        let (attributes, unread) = match Attributes::of_link(&source.handle, &entry.name) {
            Ok(attributes) => (attributes, None),
            Err(error) => (Attributes::default(), Some(error)),
        };
        let labelled = dir.set_link_metadata(&entry.name, &entry.stat, &attributes);
        let unread = unread
            .map(|error| Error::io("read the attributes of", source.path_of(&entry.name), error));
        return labelled.err().map(|error| Error::io(DEED, path(), error)).or(unread);
    }
    let finding = "a trial did not show that the file system leaves alone what a link points to; links here \
                   keep the owner and time of their making";
    output.volume.is_first_unlabelled_link().then(|| Error::finding(DEED, path(), finding))
}

/// Decides about a link.
pub fn plan(
    source: &SourceDir,
    output: &OutputDir,
    entry: &SourceEntry,
    policy: Policy,
) -> Result<Plan> {
    let fail = |error| Error::io("look at", output.path_of(&entry.name), error);
    let (Some(dir), false) = (&output.handle, output.fresh) else {
        return Ok(Plan::Make { replaces: false });
    };
    let there: Stat = match dir.stat(&entry.name, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Plan::Make { replaces: false });
        }
        there => there.map_err(fail)?,
    };
    let read_there = || match dir.read_link(&entry.name) {
        Err(_) if !output.volume.tried.traits.outward_links => {
            Err(Error::finding("make the link", output.path_of(&entry.name), NOT_SHOWN).of_all())
        }
        shown => shown.map_err(fail),
    };
    let is_same = there.kind == Kind::Symlink && read_there()? == read(source, entry)?;
    match decide(policy, &entry.stat, Some(&there), is_same) {
        Decision::Create => Ok(Plan::Make { replaces: false }),
        Decision::Replace => Ok(Plan::Make { replaces: true }),
        Decision::Keep => Ok(Plan::Settled(LinkOutcome::Kept)),
        Decision::Leave(why) => Ok(Plan::Settled(LinkOutcome::Left(why))),
        Decision::Refuse(why) => {
            Err(Error::finding("make the link", output.path_of(&entry.name), why))
        }
    }
}

/// Decides about a link by what is `there`, which may be a link to the same target.
pub fn decide(policy: Policy, link: &Stat, there: Option<&Stat>, is_same: bool) -> Decision {
    let Some(there) = there else { return Decision::Create };
    match (there.kind, policy) {
        (Kind::Dir, _) => Decision::Refuse("a directory is in its place at the output"),
        (Kind::Symlink, _) if is_same => Decision::Keep,
        (_, Policy::Always) => Decision::Replace,
        (Kind::Symlink, Policy::Update) if link.mtime > there.mtime => Decision::Replace,
        (_, Policy::Never) => Decision::Leave("it differs, and nothing is to be replaced"),
        _ => Decision::Leave("something else is in the place of the link"),
    }
}

fn read(source: &SourceDir, entry: &SourceEntry) -> Result<LinkTarget> {
    source
        .handle
        .read_link(&entry.name)
        .map_err(|error| Error::io("read the link", source.path_of(&entry.name), error))
}
