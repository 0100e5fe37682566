//! The committer's work on links of both kinds, which pass no worker.

use std::{ffi::OsStr, io, sync::Arc, sync::atomic::Ordering::Relaxed};

use crate::{
    copy::First, copy::Link, copy::commit::Committer, copy::commit::group::ReadBackQueue,
    copy::hard_link, copy::record::row_of, error::Deed, error::Error, error::Result, event::Done,
    event::Gate, hash::Digest, state::Origin, state::Row, state::Trace, sys, sys::Attributes,
    sys::Dir, sys::LinkTarget, sys::stat::Inode, sys::stat::Kind, sys::stat::Stat, sys::stat::Time,
    transfer, transfer::Context, transfer::LinkedCopy, transfer::rot_check, tree::Decision,
    tree::OutputDir, tree::Policy, tree::SourceDir, tree::SourceEntry, volume::times::TimeMatch,
};

impl Committer<'_> {
    /// Makes the further names that waited for the first, whose fate is known.
    pub(crate) fn settle_names(
        &mut self,
        output: &OutputDir,
        entry: &SourceEntry,
        digest: Option<Digest>,
        stands: Option<&Inode>,
        is_left: bool,
        labelled: bool,
    ) {
        if let Some(links) = self.links.as_mut().filter(|_| entry.stat.links > 1) {
            let (dir, name) = (output.rel.path(), entry.name.clone());
            let digests = digest.map(|digest| self.accounting.listed_with(digest));
            let (stat, stands) = (entry.stat, stands.map(Inode::known));
            let first = First { dir, name, stat, is_left, digests, stands, labelled };
            for (link, first) in links.settle(entry, first) {
                self.link(&link, &first);
            }
        }
    }

    /// Copies a symbolic link, or a FIFO, socket or device as what it is.
    pub(crate) fn symlink(
        &mut self,
        source: &SourceDir,
        output: &Arc<OutputDir>,
        entry: &SourceEntry,
    ) {
        let Context { options, control, .. } = self.context;
        let made = transfer::link(self.context, Some(source), output, entry)
            .and_then(|()| copy(source, output, entry, options.asked.policy, control.gate));
        if let Ok((_, Some(warning))) = &made {
            self.accounting.warn(warning);
        }
        let there = matches!(made, Ok((LinkOutcome::Made | LinkOutcome::Kept, _)));
        let is_link = entry.stat.kind == Kind::Symlink;
        let has_names = self.links.is_some() && entry.stat.links > 1;
        let dir = output.handle.as_ref().filter(|_| there && has_names);
        let stands = dir.and_then(|dir| dir.inode(&entry.name).ok());
        if is_link {
            self.settle_names(output, entry, None, stands.as_ref(), false, true);
        }
        let done = if is_link { Done::Symlinked } else { Done::Special };
        self.linked(output, entry, made.map(|(linked, _)| linked), None, done);
    }

    /// A further name of a file: it is made when the first has its final name.
    pub(crate) fn further_name(&mut self, link: Link) {
        let Some(links) = &mut self.links else { return };
        let ready = links.add(link);
        let many = links.are_many();
        if let Some((link, first)) = ready {
            self.link(&link, &first);
        }
        if many {
            self.commit();
            self.take_answers_while(ReadBackQueue::is_busy);
        }
    }

    /// Makes a further name of a file whose first name's fate is known.
    pub(crate) fn link(&mut self, link: &Link, first: &First) {
        let Link { output, entry } = link;
        let digests = first.digests.as_ref();
        let expected = match self.context.shared.baseline {
            Some(expected) => {
                let is_to_stop = || self.context.control.stop.is_urgent();
                let hash = |algorithm| first.hash(self.root(), algorithm, &is_to_stop);
                let first = &LinkedCopy { digests, hash: &hash };
                let (source, path) = (self.accounting.source(), output.rel.join(&entry.name));
                rot_check::check_further_name(expected, source, &path, entry, first)
            }
            None => Ok(None),
        };
        if let Ok(Some(error)) | Err(error) = &expected {
            match expected {
                Ok(_) => self.accounting.rotten(error),
                Err(_) => self.accounting.failed(error),
            }
            return self.link_done(output);
        }
        let Context { options, control, .. } = self.context;
        let made = transfer::link(self.context, None, output, entry).and_then(|()| {
            let is_to_stop = || control.stop.is_urgent();
            let policy = options.asked.policy;
            hard_link::make(self.root(), link, first, policy, control.gate, &is_to_stop)
        });
        if let Ok(hard_link::FurtherName { outcome: LinkOutcome::Made, warning, .. }) = &made {
            warning.iter().for_each(|warning| self.accounting.warn(warning));
            self.record_again(first);
        }
        let path = output.rel.join(&entry.name);
        // An earlier line for it is settled by this run, unless what it was for stays.
        if let (Some(known), Ok(_)) = (self.context.shared.known, &made) {
            known.settle(path.as_bytes());
        }
        if let (Some(further), Some(digests)) = (self.context.further(), digests) {
            further.put_all(path.as_bytes(), digests.clone());
        }
        let row = match (&made, digests) {
            (Ok(hard_link::FurtherName { stands: Some(stands), .. }), Some(digests)) => {
                row_of(output, entry, &stands.stat, digests.proof, Origin::Source).map(|row| {
                    let dir = output.handle.as_ref();
                    let is_kept = || dir.is_some_and(|it| it.keeps(&entry.name, &stands.stat));
                    let sure = row.sure && self.is_untouched(output, is_kept);
                    let seen = output.seen_at(&entry.stat, self.context.is_in_doubt(&entry.stat));
                    Row { sure, seen, ..row }
                })
            }
            _ => None,
        };
        let listed = digests.map(|digests| (digests.proof, row));
        self.linked(output, entry, made.map(|made| made.outcome), listed, Done::Linked);
        if let Some(further) = self.context.further() {
            further.forget(path.as_bytes());
        }
    }

    /// A file got a further name, which changed its change time.
    fn record_again(&mut self, first: &First) {
        let (Some(root), Some(digests)) = (&self.root().handle, &first.digests) else { return };
        let Ok(dir) = root.open_below(&first.dir) else { return };
        let now = dir.inode(&first.name);
        let (root, time) = (self.root(), first.stat.mtime);
        let is_it =
            |now: &Inode| first.stands.is_some_and(|stands| root.volume.is_same(&stands, now));
        let Some(now) = now.ok().filter(is_it) else { return };
        let stat = now.stat;
        let late = root.compare_times(time, stat.mtime, None) == TimeMatch::Other;
        let given = root.time_to_record(time, stat.mtime).filter(|_| !late);
        let path = first.dir.join(&first.name);
        let (origin, trace) = (self.origin_of(|| path.clone()), Trace::of(&stat));
        let row = Row {
            digest: digests.proof,
            origin,
            trace,
            given,
            sure: !late && self.is_untouched(root, || dir.keeps(&first.name, &stat)),
            late,
            labelled: first.labelled,
            seen: root.seen_at(&first.stat, self.context.is_in_doubt(&first.stat)),
            epoch: 0,
        };
        if let Some(known) = self.context.shared.known {
            known.supersede(path.as_bytes());
        }
        let further = digests.further.as_deref().unwrap_or_default();
        self.accounting.published.rows.push(&row, further, path.as_bytes(), true);
    }

    fn is_past(&self, time: Time) -> bool {
        self.context.shared.known.is_some_and(|known| known.is_past(time))
    }

    /// Notes the result for a link of either kind.
    fn linked(
        &mut self,
        output: &Arc<OutputDir>,
        entry: &SourceEntry,
        made: Result<LinkOutcome>,
        listed: Option<(Digest, Option<Row>)>,
        done: Done,
    ) {
        let (digest, row) = (listed.map(|(digest, _)| digest), listed.and_then(|(_, row)| row));
        match made {
            Ok(LinkOutcome::Made) => {
                self.will_be_synced(output);
                self.accounting.stands(output, entry, digest, row, done);
            }
            Ok(LinkOutcome::Kept) => {
                self.will_be_synced(output);
                let is_past = |row: &Row| self.is_past(row.trace.ctime);
                let row = row.map(|row| Row { sure: row.sure && is_past(&row), ..row });
                self.accounting.stands(output, entry, digest, row, Done::Kept);
            }
            Ok(LinkOutcome::Abandoned) => {}
            Ok(LinkOutcome::Left(why)) => {
                self.reopen(output, &entry.name);
                self.accounting.left(output, &entry.name, why);
            }
            Err(error) => {
                self.reopen(output, &entry.name);
                self.accounting.failed(&error);
            }
        }
        self.link_done(output);
    }

    fn link_done(&mut self, output: &Arc<OutputDir>) {
        let progress = self.context.control.progress;
        progress.handled.fetch_add(1, Relaxed);
        progress.entries.fetch_add(1, Relaxed);
        self.arrived(output);
    }
}

// Copying a symbolic link as a link.

/// The message about a link that could not be read again, by this run or a later one.
const NOT_SHOWN: &str = "its file system does not show links that lead out of it (sshfs does with -o \
                         no_contain_symlinks); --no-links leaves links out";

/// The result for a link.
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

/// The action for a link.
pub enum Plan {
    /// Make it; whether something gives way.
    Make {
        /// True if it replaces something.
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
    if entry.stat.kind != Kind::Symlink {
        return make_special(dir, source, output, entry, replaces)
            .map(|warning| (LinkOutcome::Made, warning));
    }
    let target = read(source, entry)?;
    let is_shown = |target: &LinkTarget| {
        dir.try_link(output.volume.parts, target).is_ok_and(|shown| shown == *target)
    };
    refuse(output, entry, &target, &is_shown)?;
    let is_got_at = holds_owners(output) && !dir.is_kept().unwrap_or(false);
    let making = Making { output, entry, replaces, is_got_at, deed: "make the link" };
    let label = |dir: &Dir, name: &OsStr| label(dir, name, source, output, entry);
    let warning = making.run(dir, |dir, name| dir.make_link(&target, name), label)?;
    Ok((LinkOutcome::Made, warning))
}

/// The making of an entry that is not filled.
struct Making<'a> {
    output: &'a OutputDir,
    entry: &'a SourceEntry,
    replaces: bool,
    /// True if another user may get at it before it is that user's: he could take it away, or exchange it.
    is_got_at: bool,
    deed: &'static str,
}

impl Making<'_> {
    /// Has `make` make it, and `label` label it; what that returns. After its error nothing is left.
    fn run(
        &self,
        dir: &Dir,
        make: impl Fn(&Dir, &OsStr) -> io::Result<()>,
        label: impl Fn(&Dir, &OsStr) -> Result<Option<Error>>,
    ) -> Result<Option<Error>> {
        let Self { output, entry, replaces, is_got_at, deed } = *self;
        let (parts, name, path) =
            (output.volume.parts, &entry.name, || output.path_of(&entry.name));
        let labelled =
            |dir: &Dir, name: &OsStr| label(dir, name).inspect_err(|_| drop(dir.remove(name)));
        if !is_got_at && !replaces {
            make(dir, name).deed_at(deed, path)?;
            return labelled(dir, name);
        }
        let (part, warning) = if is_got_at {
            dir.create_part_apart(parts, make, label).deed_at(deed, path)??
        } else {
            let part = dir.create_part_by(parts, |part| make(dir, part)).deed_at(deed, path)?;
            let warning = labelled(dir, &part)?;
            (part, warning)
        };
        if let Err(error) = dir.publish(&part, name, replaces) {
            let _ = dir.remove(&part);
            return Err(Error::io(deed, path(), error));
        }
        Ok(warning)
    }
}

/// True if links get the owners here that they have at the source.
fn holds_owners(output: &OutputDir) -> bool {
    let traits = &output.volume.tried.traits;
    traits.owners && traits.labels_links && sys::may_give_away()
}

/// Makes the FIFO, socket or device `entry`; a warning tells of attributes that it could not be given. Without its
/// owner and permissions none is made: the next run would find another one there than the source's.
fn make_special(
    dir: &Dir,
    source: &SourceDir,
    output: &OutputDir,
    entry: &SourceEntry,
    replaces: bool,
) -> Result<Option<Error>> {
    let path = || output.path_of(&entry.name);
    let special = source.handle.special(&entry.name);
    let special = special.deed_at("look at", || source.path_of(&entry.name))?;
    let traits = &output.volume.tried.traits;
    let is_given = traits.owners && traits.permissions && sys::may_give_away();
    let is_got_at = is_given && !dir.is_kept().unwrap_or(false);
    let making = Making { output, entry, replaces, is_got_at, deed: "make the special file" };
    let label = |dir: &Dir, name: &OsStr| {
        let labelled = Attributes::of_unopened(&source.handle, &entry.name)
            .and_then(|lists| dir.set_special_metadata(special, name, &entry.stat, &lists));
        let Err(error) = labelled.deed_at("set the attributes of", path) else { return Ok(None) };
        let is_labelled = || {
            let there = dir.stat(name, false);
            there.is_ok_and(|there| Attributes::are_labelled(&there, &entry.stat))
        };
        let is_held = traits.owners && traits.permissions;
        if is_held && !is_labelled() { Err(error) } else { Ok(Some(error)) }
    };
    making.run(dir, |dir, name| dir.make_special(special, name), label)
}

/// Refuses a link that would be made by a run, as far as that is known without making it.
pub fn foretell(source: &SourceDir, output: &OutputDir, entry: &SourceEntry) -> Result<()> {
    if entry.stat.kind != Kind::Symlink {
        return Ok(());
    }
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

/// Gives the new link `name` the owner, times and attributes of `entry`; the warning of what could not be done. Where a
/// link's are those of its target, nothing is set, and the first link says so for all.
///
/// # Errors
/// It stays this user's, although it is another's at the source, who chose where it leads.
fn label(
    dir: &Dir,
    name: &OsStr,
    source: &SourceDir,
    output: &OutputDir,
    entry: &SourceEntry,
) -> Result<Option<Error>> {
    const DEED: &str = "set the attributes of the link";
    let path = || output.path_of(&entry.name);
    if output.volume.tried.traits.labels_links {
        let (attributes, unread) = match Attributes::of_link(&source.handle, &entry.name) {
            Ok(attributes) => (attributes, None),
            Err(error) => (Attributes::default(), Some(error)),
        };
        let labelled = dir.set_link_metadata(name, &entry.stat, &attributes);
        let unread = unread
            .map(|error| Error::io("read the attributes of", source.path_of(&entry.name), error));
        let Err(error) = labelled else { return Ok(unread) };
        let has_owner = || dir.stat(name, false).is_ok_and(|it| it.uid == entry.stat.uid);
        let failed = Error::io(DEED, path(), error);
        return if holds_owners(output) && !has_owner() { Err(failed) } else { Ok(Some(failed)) };
    }
    let finding = "a trial did not show that the file system leaves alone what a link points to; links here \
                   keep the owner and time of their making";
    Ok(output.volume.is_first_unlabelled_link().then(|| Error::finding(DEED, path(), finding)))
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
    let Some(there) = dir.stat(&entry.name, false).if_there().map_err(fail)? else {
        return Ok(Plan::Make { replaces: false });
    };
    let read_there = || match dir.read_link(&entry.name) {
        Err(_) if !output.volume.tried.traits.outward_links => {
            Err(Error::finding("make the link", output.path_of(&entry.name), NOT_SHOWN).of_all())
        }
        shown => shown.map_err(fail),
    };
    let is_same = there.kind == entry.stat.kind
        && match there.kind {
            Kind::Symlink => read_there()? == read(source, entry)?,
            _ => {
                let special = |dir: &Dir| dir.special(&entry.name).map_err(fail);
                special(dir)? == special(&source.handle)?
            }
        };
    let (traits, stat) = (&output.volume.tried.traits, &entry.stat);
    let is_labelled = match stat.kind {
        Kind::Symlink => {
            let is_to_be_newer = match policy {
                Policy::Update => stat.mtime > there.mtime,
                policy => policy == Policy::Always,
            };
            let has_time = !(is_to_be_newer && traits.labels_links && output.keeps_times())
                || output.holds_time_as(stat.mtime, there.mtime);
            has_time && (!holds_owners(output) || (there.uid, there.gid) == (stat.uid, stat.gid))
        }
        _ => !(traits.owners && traits.permissions) || Attributes::are_labelled(&there, stat),
    };
    match decide(policy, stat, Some(&there), is_same.then_some(is_labelled)) {
        Decision::Create => Ok(Plan::Make { replaces: false }),
        Decision::Replace => Ok(Plan::Make { replaces: true }),
        Decision::Keep => Ok(Plan::Settled(LinkOutcome::Kept)),
        Decision::Leave(why) => Ok(Plan::Settled(LinkOutcome::Left(why))),
        Decision::Refuse(why) => {
            Err(Error::finding("make the link", output.path_of(&entry.name), why))
        }
    }
}

/// Decides about a link or a special file by what is `there`; of one that is the same by whether it is labelled as the
/// source's.
pub fn decide(
    policy: Policy,
    link: &Stat,
    there: Option<&Stat>,
    is_labelled: Option<bool>,
) -> Decision {
    let Some(there) = there else { return Decision::Create };
    match (there.kind, policy) {
        (Kind::Dir, _) => Decision::Refuse("a directory is in its place at the output"),
        _ if is_labelled == Some(true) => Decision::Keep,
        (_, Policy::Always) => Decision::Replace,
        (_, Policy::Update) if is_labelled.is_some() => Decision::Replace,
        _ if is_labelled.is_some() => Decision::Leave(
            "its owner or permissions are others (--overwrite-policy update replaces it)",
        ),
        (kind, Policy::Update) if kind == link.kind && link.mtime > there.mtime => {
            Decision::Replace
        }
        (_, Policy::Never) => Decision::Leave("it differs, and nothing is to be replaced"),
        _ => Decision::Leave(
            "something else is in its place (move it away, and the next run makes it)",
        ),
    }
}

fn read(source: &SourceDir, entry: &SourceEntry) -> Result<LinkTarget> {
    source.handle.read_link(&entry.name).deed_at("read the link", || source.path_of(&entry.name))
}
