//! Putting into a new tree what did not change since the last generation: clones of its files, or hard links to them.
//!
//! A file is shared only if the last generation's record proves it untouched, the source has the same size and time,
//! and nothing of the source's file changed since: its change time is before that of the copy. So an edit that keeps
//! size and time is not shared, and neither is a file that got other attributes. A file that lost or gained a name is
//! read: its digest proves that no more happened to it. The digest goes over with the file,
//! into a record of the new tree; the copy that follows keeps such files, and never writes to one that has further
//! names.

use std::{ffi::OsStr, fs::File, io, path::Path, thread::sleep, time::Duration};

use crate::error::Deed;
use crate::{
    error::Result, event::Stop, hash::Digest, io::ReadBack, path::DirPath, staged::StagedFile,
    state::Belief, state::Knowledge, state::PrivateDir, state::RecordFile, state::Remembered,
    state::Row, state::RowPlace, state::Trace, state::private_dir::NAME, state::private_dir::TRASH,
    sys, sys::Attributes, sys::Cloned, sys::Dir, sys::ListedEntry, sys::Medium, sys::PartOwner,
    sys::stat::Inode, sys::stat::Kind, sys::stat::Stat, transfer::may_be_as, tree::Classifier,
    tree::Inclusion, tree::PassDir, tree::Step, tree::TreePass,
};

/// Number of bytes of rows that are recorded at a time.
const ROWS: usize = 1 << 20;

/// Longer than a step of any file system's clock: what changes later shows.
const STEP: Duration = Duration::from_millis(25);

/// Largest number of records of runs that were cut short.
const MOST_RECORDS: u64 = 1000;

/// The ways to share files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    Clone,
    Link,
}

/// The three trees, and what is known of them.
pub struct Seeding<'a> {
    /// The last generation.
    pub last: &'a Dir,
    pub source: &'a Dir,
    /// The new tree, and where it is.
    pub new: &'a Dir,
    pub path: &'a Path,
    /// Its private directory.
    pub private: &'a PrivateDir,
    /// The record of the last generation.
    pub known: &'a Knowledge,
    pub classifier: Classifier<'a>,
    pub stop: &'a Stop,
    /// Whose part files are made.
    pub parts: PartOwner,
}

/// The result of seeding.
#[derive(Default)]
pub struct Seeded {
    pub files: u64,
    /// True for hard links: these files are those of the last generation.
    pub linked: bool,
    rows: Vec<u8>,
    number: u64,
    record: Option<RecordFile>,
    how: Option<Sharing>,
    read_back: ReadBack,
}

/// A directory that all three trees have.
struct SeededDir<'a> {
    last: &'a Dir,
    source: &'a Dir,
    new: &'a Dir,
    rel: &'a DirPath,
}

impl<'a> SeededDir<'a> {
    fn of(PassDir { dirs, rel, .. }: &'a PassDir<Inclusion, 3>) -> io::Result<Self> {
        match dirs {
            [Some(last), Some(source), Some(new)] => Ok(Self { last, source, new, rel }),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl Seeding<'_> {
    /// Shares what can be shared.
    ///
    /// # Errors
    /// The new tree cannot be written.
    pub fn run(&self) -> Result<Seeded> {
        let mut seeded = Seeded {
            how: Some(match self.new.try_clone_within() {
                Some(Cloned::Yes) => Sharing::Clone,
                _ => Sharing::Link,
            }),
            ..Seeded::default()
        };
        self.share_all(&mut seeded)
            .and_then(|()| self.record(&mut seeded))
            .deed("share files with the last generation in", self.path)?;
        Ok(seeded)
    }

    fn share_all(&self, seeded: &mut Seeded) -> io::Result<()> {
        let selection = self.classifier.selection;
        let trees = [(self.last, false), (self.source, selection.follow_links), (self.new, false)];
        let mut pass = TreePass::over(trees, selection.filter.root())?;
        while let Some(step) = pass.step(self.stop)? {
            match step {
                Step::Entry(top, ListedEntry { name, .. }) => {
                    let taken = self.take(&SeededDir::of(top)?, &name, top.state, seeded)?;
                    top.subdirs.extend(taken.map(|inclusion| (name, inclusion)));
                }
                Step::Into(top, name, inclusion) => {
                    if let Some(dirs) = self.enter(&SeededDir::of(top)?, &name)? {
                        pass.enter(name, dirs, inclusion)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Opens a directory that all three trees have; it is made in the new one.
    fn enter(&self, top: &SeededDir<'_>, name: &OsStr) -> io::Result<Option<[Option<Dir>; 3]>> {
        let selection = self.classifier.selection;
        let source = top.source.open_dir(name, selection.follow_links);
        let (Ok(last), Ok(source)) = (top.last.open_dir(name, false), source) else {
            return Ok(None);
        };
        if !selection.enters(top.source, &source.stat_self()?)? {
            return Ok(None);
        }
        top.new.make_dir(name, true).unless_taken()?;
        let new = top.new.open_dir(name, false)?;
        new.open_up(&new.stat_self()?)?;
        if Attributes::may_be_inherited_in(&new) {
            // It is there from a run that was cut short, and what is made in it is to have the source's lists.
            Attributes::default().shed_lists(&new)?;
        }
        Ok(Some([Some(last), Some(source), Some(new)]))
    }

    /// Shares an entry of the last generation if it is a file. The filter's answer for a directory that is to be looked
    /// through.
    fn take(
        &self,
        top: &SeededDir<'_>,
        name: &OsStr,
        above: Inclusion,
        seeded: &mut Seeded,
    ) -> io::Result<Option<Inclusion>> {
        if top.rel.is_root() && (*name == *NAME || *name == *TRASH) {
            return Ok(None);
        }
        let Ok(there) = top.last.inode(name) else { return Ok(None) };
        let (kind, path) = (there.stat.kind, top.rel.join(name));
        let filter = &self.classifier.selection.filter;
        match filter.judge(path.as_bytes(), kind == Kind::Dir, above) {
            Inclusion::Out => Ok(None),
            inclusion if kind == Kind::Dir => Ok(Some(inclusion)),
            _ if kind == Kind::File => {
                if let Some((row, further)) = self.share(top, name, &there, seeded)? {
                    row.write(&mut seeded.rows, &further, path.as_bytes());
                    seeded.number += 1;
                    seeded.files += 1;
                }
                if seeded.rows.len() >= ROWS {
                    self.record(seeded)?;
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Shares one file that the last generation has; what the record is to say of it, with its further digests. `None`
    /// if it is to be copied.
    fn share(
        &self,
        top: &SeededDir<'_>,
        name: &OsStr,
        inode: &Inode,
        seeded: &mut Seeded,
    ) -> io::Result<Option<(Row, Vec<Digest>)>> {
        let (follow, there) = (self.classifier.selection.follow_links, &inode.stat);
        let Ok(before) = top.source.stat(name, follow) else { return Ok(None) };
        if !may_be_as(&before, there) {
            return Ok(None);
        }
        let path = top.rel.join(name);
        let recorded = self.recorded(top, name, path.as_bytes(), there, seeded);
        // What happened to the source later than the copy is not in it, whatever happened to the copy since.
        let Some((row, place)) = recorded.filter(|(row, _)| {
            row.labelled && row.is_copy_of(&before, || top.source.keeps_numbers())
        }) else {
            return Ok(None);
        };
        let shared = match seeded.how {
            Some(Sharing::Clone) => self.clone_file(top, name, &before, there),
            Some(Sharing::Link) => top.new.hard_link(top.last, name, name).map(|()| true),
            None => return Ok(None),
        };
        match shared {
            Ok(true) => {}
            // It is there from a run that was cut short, or this one cannot be cloned.
            Ok(false) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            // This one is protected.
            Err(_) if sys::what_protects(top.last, name).is_some() => return Ok(None),
            // There are no links here.
            Err(_) if seeded.files == 0 => {
                seeded.how = match seeded.how {
                    Some(Sharing::Clone) => Some(Sharing::Link),
                    _ => None,
                };
                return Ok(None);
            }
            Err(_) => return Ok(None),
        }
        let linked = seeded.how == Some(Sharing::Link);
        seeded.linked |= linked;
        // Nothing may have changed meanwhile, and no other file have taken the name.
        let Inode { stat: now, birth } = top.new.inode(name)?;
        let after = top.source.stat(name, follow).ok();
        let same_source = after.is_some_and(|after| Trace::of(&after) == Trace::of(&before));
        let same_file = !linked || (now.id, birth) == (there.id, inode.birth);
        if same_source && same_file && (now.size, now.mtime) == (there.size, there.mtime) {
            let row = Row { trace: Trace::of(&now), sure: true, late: false, epoch: 0, ..row };
            return Ok(Some((row, self.known.further(place))));
        }
        top.new.remove(name)?;
        Ok(None)
    }

    /// The record of a file of the last generation, which is `there`; `None` if nothing proves that it still is that
    /// file. One of which only the change time is another is read, and its digest decides: a name that was removed from
    /// it, with old trash, changes no more than that time.
    fn recorded(
        &self,
        top: &SeededDir<'_>,
        name: &OsStr,
        path: &[u8],
        there: &Stat,
        seeded: &mut Seeded,
    ) -> Option<(Row, RowPlace)> {
        let (row, place) = match self.known.belief(path, there) {
            Belief::Untouched(row, place) => return Some((row, place)),
            Belief::Doubtful(Remembered {
                newer: None,
                late: false,
                row: Some(row),
                place,
                ..
            }) => (row, place?),
            Belief::Doubtful(_) | Belief::Nothing => return None,
        };
        // What a check found bad may be good in memory.
        if row.trace.ino != there.id.ino || self.known.is_refuted(there) {
            return None;
        }
        // What cannot be read is copied.
        let file = top.last.open_file(name, false).ok()?;
        let is_there =
            || Dir::stat_file(&file).is_ok_and(|now| Trace::of(&now) == Trace::of(there));
        // A hard link has the permissions and attributes that the file was given meanwhile. A clone gets those of
        // the source.
        let is_linked = seeded.how == Some(Sharing::Link);
        if !is_there() || is_linked && !self.is_labelled_as(top, name, &file, there) {
            return None;
        }
        let (algorithm, is_to_stop) = (row.digest.algorithm(), || self.stop.is_requested());
        let read =
            seeded.read_back.hash(Medium::any(&file), algorithm, is_to_stop, |_| ()).ok()??;
        (read.digest == Some(row.digest) && is_there()).then_some((row, place))
    }

    /// True if a file of the last generation has the permissions, owner and attributes of the source's, and no others.
    fn is_labelled_as(&self, top: &SeededDir<'_>, name: &OsStr, file: &File, there: &Stat) -> bool {
        let Ok(source) = top.source.open_file(name, self.classifier.selection.follow_links) else {
            return false;
        };
        let stat = Dir::stat_file(&source);
        stat.and_then(|stat| Ok(Attributes::read(&source)?.are_all_at(there, file, &stat)))
            .unwrap_or(false)
    }

    /// Clones a file of the last generation, with the attributes of the source's; false if it cannot be cloned.
    fn clone_file(
        &self,
        top: &SeededDir<'_>,
        name: &OsStr,
        source: &Stat,
        there: &Stat,
    ) -> io::Result<bool> {
        if top.new.stat(name, false).is_ok() {
            return Ok(false);
        }
        let from = top.last.open_file(name, false)?;
        let of_source = top.source.open_file(name, self.classifier.selection.follow_links)?;
        let attributes = Attributes::read(&of_source)?;
        let (mut is_cloned, dir) = (false, &top.new);
        let staged = StagedFile::in_tree(dir, self.parts)?.fill(dir, |part| {
            if !matches!(sys::clone_file(&from, part)?, Cloned::Yes) {
                return Ok(());
            }
            let mut failed = None;
            attributes.apply(&*part, source, false, |_, error| failed = Some(error));
            if !self.new.can_persist_all() {
                sys::persist_file(part)?;
            }
            // What was cloned is what the record knows.
            let now = Trace::of(&Dir::stat_file(&from)?);
            is_cloned = failed.is_none() && now == Trace::of(there);
            Ok(())
        })?;
        let ended = if is_cloned { staged.publish(dir, name, false) } else { staged.remove(dir) };
        ended.map(|()| is_cloned)
    }

    /// Records the rows that wait, when the clock has moved on.
    fn record(&self, seeded: &mut Seeded) -> io::Result<()> {
        if seeded.number == 0 {
            return Ok(());
        }
        sleep(STEP);
        let mut record = match seeded.record.take() {
            Some(record) => record,
            None => self.create_record()?,
        };
        record.append(&seeded.rows, seeded.number)?;
        seeded.record = Some(record);
        seeded.rows.clear();
        seeded.number = 0;
        Ok(())
    }

    fn create_record(&self) -> io::Result<RecordFile> {
        for number in 1..MOST_RECORDS {
            if let Some(record) = RecordFile::create(self.private, number).unless_taken()? {
                return Ok(record);
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}
