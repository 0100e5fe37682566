//! The walk over a list of names. They come in the order of a walk, so each directory on the way is entered once, gets
//! its attributes once, and memory does not grow with the list.

use std::{collections::HashMap, ffi::OsStr, ops::ControlFlow, sync::Arc};

use crate::{
    error::Deed, error::Error, error::Result, path::RelPath, state::private_dir::NAME,
    state::private_dir::TRASH, sys, sys::ListedEntry, sys::stat::Stat, tree::Batch,
    tree::ChangedFiles, tree::Classifier, tree::NameList, tree::PlannedStat, tree::SourceEntry,
    tree::Unclassified, tree::Walk, tree::WalkEvent, tree::WalkItem, tree::classify::Subdir,
    tree::found::Emit, tree::hand_over::OPEN_TO_OTHERS, tree::hand_over::lets_others_in,
    tree::names::NamedEntry, tree::names::is_within, tree::walk::Defer, tree::walk::Descent,
};

/// Number of names of one directory that are looked at together.
const TOGETHER: usize = 4096;

/// Where in the list the walk is.
#[derive(Default)]
struct Position {
    /// The directory whose names come, if any came.
    dir: Option<Vec<u8>>,
    /// Names in it that are not looked at yet, …
    waiting: Vec<ListedEntry>,
    /// … and what they were when they were planned.
    planned: HashMap<Arc<OsStr>, PlannedStat>,
    /// Files in it that need no look, because the plan has what it would tell.
    told: Vec<SourceEntry>,
    /// A directory that was named: all that is in it is done.
    whole: Option<Vec<u8>>,
    /// A directory on the way that the walk is not in, …
    closed: Option<Vec<u8>>,
    /// … and why, if no filter leaves it out.
    why: Option<String>,
}

impl Walk<'_> {
    /// Hands on the entries that `names` has, directories with all that is in them. `descent` is at the root.
    pub(crate) fn walk_names(
        &self,
        descent: &mut Descent,
        names: &NameList,
        emit: &mut impl Emit,
        defer: &mut Option<Defer<'_>>,
    ) -> ControlFlow<()> {
        let mut reader = names.reader();
        let mut position = Position::default();
        self.clean_up_beside(descent, emit)?;
        loop {
            let NamedEntry { path: name, planned } = match reader.next_name() {
                Ok(Some(name)) => name,
                Ok(None) => break,
                Err(error) => {
                    emit.item(WalkItem::Failed(Error::io(
                        "read the names of",
                        descent.path(),
                        error,
                    )))?;
                    break;
                }
            };
            if name.is_empty() {
                return self.walk_down_to(0, descent, emit, defer);
            }
            let (dir, base) = split(name);
            let is_other = position.dir.as_deref() != Some(dir);
            if is_other || position.waiting.len() + position.told.len() >= TOGETHER {
                self.look_at_waiting(&mut position, names, descent, emit, defer)?;
            }
            if position.whole.as_ref().is_some_and(|whole| is_within(name, whole)) {
                continue;
            }
            if is_other {
                self.go_to(dir, &mut position, descent, emit)?;
                let is_in = position.closed.is_none();
                if let Some(why) =
                    planned.filter(|_| is_in).and_then(|it| not_planned(&it, descent))
                {
                    (position.closed, position.why) = (Some(dir.to_vec()), Some(why));
                }
            }
            let told = planned.and_then(|planned| self.told(&planned, descent));
            if let (Some(stat), None, Ok(base)) =
                (told, &position.closed, sys::name_from_bytes(base))
            {
                position.told.push(SourceEntry { name: base.into(), stat });
                continue;
            }
            Self::take(name, base, &mut position, descent, emit)?;
            if position.closed.is_none()
                && let (Some(planned), Some(last)) = (planned, position.waiting.last_mut())
            {
                last.ino = planned.ino;
                position.planned.insert(Arc::clone(&last.name), planned);
            }
        }
        self.look_at_waiting(&mut position, names, descent, emit, defer)?;
        while !descent.stack.is_empty() {
            Self::leave(descent, emit)?;
        }
        ControlFlow::Continue(())
    }

    /// The planned metadata of a file, if it will do: the file is small, so that reading it twice costs little if it is
    /// another by now, and the output has nothing that it would be held against.
    fn told(&self, planned: &PlannedStat, descent: &Descent) -> Option<Stat> {
        let top = descent.stack.last()?;
        let Classifier { selection, block_size } = self.classifier;
        let is_small = planned.size <= block_size;
        let may =
            top.output.bare && is_small && !selection.follow_links && selection.filter.is_empty();
        planned.stat(top.id.dev).filter(|_| may)
    }

    /// Takes a name in the directory that the walk is in; where that could not be entered, the name is told.
    fn take(
        name: &[u8],
        base: &[u8],
        position: &mut Position,
        descent: &Descent,
        emit: &mut impl Emit,
    ) -> ControlFlow<()> {
        let path = || {
            RelPath::parse(name).map_or_else(|_| descent.path(), |name| descent.path_below(&name))
        };
        match (&position.closed, &position.why, sys::name_from_bytes(base)) {
            (Some(_), None, _) => ControlFlow::Continue(()),
            (Some(_), Some(why), _) => {
                emit.item(WalkItem::Failed(Error::finding("copy", path(), why.clone())))
            }
            (None, _, Ok(base)) => {
                position.waiting.push(ListedEntry { name: base.into(), kind: None, ino: 0 });
                ControlFlow::Continue(())
            }
            (None, _, Err(error)) => emit.item(WalkItem::Failed(Error::io("copy", path(), error))),
        }
    }

    /// Looks at the names that wait in the directory that the walk is in, and walks the directories among them.
    fn look_at_waiting(
        &self,
        position: &mut Position,
        names: &NameList,
        descent: &mut Descent,
        emit: &mut impl Emit,
        defer: &mut Option<Defer<'_>>,
    ) -> ControlFlow<()> {
        let planned = std::mem::take(&mut position.planned);
        let mut waiting = std::mem::take(&mut position.waiting);
        let mut told = std::mem::take(&mut position.told);
        let last = waiting.last().map(|last| Arc::clone(&last.name));
        let levels = descent.stack.len();
        let Some(top) = descent.stack.last_mut() else { return ControlFlow::Continue(()) };
        if !told.is_empty() {
            // As a walk that lists them takes them.
            told.sort_unstable_by_key(|entry| entry.stat.id.ino);
            let here = Unclassified::new(&top.source, &top.output, Vec::new(), top.inclusion);
            self.classifier.hand_on(&here, told, &mut top.memory, emit)?;
        }
        let Some(last) = last else { return ControlFlow::Continue(()) };
        if top.source.rel.is_root() {
            self.pass_over_private(&top.source, &top.output, &mut waiting, emit)?;
        }
        let entries = Unclassified::new(&top.source, &top.output, waiting, top.inclusion);
        let mut noting = |found: WalkEvent| {
            if let (WalkEvent::Files(batch), Some(changed)) = (&found, names.changed()) {
                note_changed(batch, &planned, changed);
            }
            emit(found)
        };
        let subdirs =
            self.classifier.classify(entries, &mut top.memory, &mut descent.links, &mut noting)?;
        if names.changed().is_some() {
            return subdirs.into_iter().try_for_each(|Subdir { listed, .. }| {
                let finding = "it has become a directory since it was planned";
                let path = top.source.path_of(&listed.name);
                emit.item(WalkItem::Failed(Error::finding("copy", path, finding)))
            });
        }
        if subdirs.iter().any(|subdir| subdir.listed.name == last) {
            position.whole = Some(top.source.rel.join(&last).as_bytes().to_vec());
        }
        for subdir in subdirs {
            match self.enter(&descent.stack, &subdir, emit) {
                Ok(frame) => descent.stack.push(frame),
                Err(error) => {
                    emit.item(WalkItem::Failed(error))?;
                    continue;
                }
            }
            self.take_leftovers(descent, emit)?;
            self.walk_down_to(levels, descent, emit, defer)?;
        }
        ControlFlow::Continue(())
    }

    /// Leaves directories and enters others until the walk is in `dir`, or where it cannot go on.
    fn go_to(
        &self,
        dir: &[u8],
        position: &mut Position,
        descent: &mut Descent,
        emit: &mut impl Emit,
    ) -> ControlFlow<()> {
        position.dir = Some(dir.to_vec());
        if position.closed.as_ref().is_some_and(|closed| is_within(dir, closed)) {
            return ControlFlow::Continue(());
        }
        (position.closed, position.why) = (None, None);
        let here = |descent: &Descent| {
            descent.stack.last().map(|top| top.source.rel.path().as_bytes().to_vec())
        };
        while descent.stack.len() > 1 && here(descent).is_some_and(|here| !is_within(dir, &here)) {
            Self::leave(descent, emit)?;
        }
        let mut at = here(descent).map_or(0, |here| here.len());
        while at < dir.len() {
            let start = if at == 0 { 0 } else { at + 1 };
            at = memchr::memchr(b'/', &dir[start..]).map_or(dir.len(), |slash| start + slash);
            match self.enter_named(&dir[start..at], descent, emit) {
                Ok(true) => self.clean_up_beside(descent, emit)?,
                Ok(false) => position.closed = Some(dir[..at].to_vec()),
                Err(error) => {
                    (position.closed, position.why) =
                        (Some(dir[..at].to_vec()), Some(error.to_string()));
                }
            }
            if position.closed.is_some() {
                break;
            }
        }
        ControlFlow::Continue(())
    }

    /// Enters the directory `name` in the one that the walk is in; false if a filter leaves it out.
    fn enter_named(
        &self,
        name: &[u8],
        descent: &mut Descent,
        emit: &mut impl Emit,
    ) -> Result<bool> {
        let is_root = descent.stack.len() == 1;
        let path = descent.path();
        let Some(top) = descent.stack.last_mut() else { return Ok(false) };
        let name = sys::name_from_bytes(name).deed("enter", &path)?;
        if is_root && (name == NAME || name == TRASH) {
            let finding = "it is what runs keep for themselves, and no part of a source";
            return Err(Error::finding("copy", top.source.path_of(name), finding));
        }
        let listed = ListedEntry { name: name.into(), kind: None, ino: 0 };
        let here = Unclassified::new(&top.source, &top.output, Vec::new(), top.inclusion);
        let Some(subdir) = self.classifier.on_the_way(&here, &mut top.memory, listed)? else {
            return Ok(false);
        };
        let frame = self.enter(&descent.stack, &subdir, emit)?;
        descent.stack.push(frame);
        Ok(true)
    }

    /// Cleans up in a directory of which not all is copied: beginnings of files that may not be this run's stay.
    fn clean_up_beside(&self, descent: &mut Descent, emit: &mut impl Emit) -> ControlFlow<()> {
        let Descent { stack, reader, .. } = descent;
        match stack.last() {
            Some(top) => self.clean_up(&top.source, &top.output, reader, emit).map_continue(drop),
            None => ControlFlow::Continue(()),
        }
    }
}

/// Why files that were `planned` are not copied from the directory that the walk is in to its counterpart: one of
/// these is not the one that was planned, or has another label.
fn not_planned(planned: &PlannedStat, descent: &Descent) -> Option<String> {
    let top = descent.stack.last()?;
    if let Some(why) = top.output.ways.difference(&planned.ways) {
        return Some(why.to_owned());
    }
    if top.output.rel.is_root() {
        return None;
    }
    // A directory that is removed leaves its inode number to the next.
    match top.source.handle.stat_self().and_then(|source| lets_others_in(&top.output, &source)) {
        Ok(false) => None,
        Ok(true) => Some(OPEN_TO_OTHERS.to_owned()),
        Err(error) => Some(format!("its directory cannot be looked at: {error}")),
    }
}

/// Notes the files that are not what they were when they were planned.
fn note_changed(batch: &Batch, planned: &HashMap<Arc<OsStr>, PlannedStat>, changed: &ChangedFiles) {
    for SourceEntry { name, stat } in &batch.files {
        if planned.get(name).is_some_and(|planned| !planned.is(stat)) {
            changed.note(&batch.source.rel.join(name), stat.size);
        }
    }
}

/// The directory and the name in it.
fn split(name: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memrchr(b'/', name) {
        Some(slash) => (&name[..slash], &name[slash + 1..]),
        None => (&name[..0], name),
    }
}
