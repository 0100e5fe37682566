//! Making one file whole: from its good links and those of its copies, or from a copy that is good as a whole.

use std::path::{Path, PathBuf};
use std::{cell::RefCell, ffi::OsStr, io, io::Seek, sync::atomic::Ordering::Relaxed};

use crate::heal::parents::{DirPlace, Parents, Source, lets_more_into_root};
use crate::{
    chain::Damage, error::Deed, error::Error, event::Progress, event::Stop, hash::Backend,
    hash::Chain, heal::FileCopy, heal::LinkProver, heal::OpenCopies, heal::bad::BadFile,
    heal::bad::BadFiles, heal::bad::Case, heal::bad::Harm, heal::bad::Mended, heal::bad::ReadyFile,
    heal::bad::Tree, heal::bad::Unmended, heal::from_parity::TreeParity, heal::new_file::NewFile,
    heal::new_file::has_digest, heal::new_file::publish, io::ChainedContent, io::LinkCheck,
    io::LinkReads, io::ReadBack, io::link_check::Helpers, path::Shown, state::Rescues, sys,
    sys::Attributes, sys::Dir, sys::Medium, sys::stat::Stat, verify::Mend,
};

/// The reason not to go on where directories of a good tree were not the ones that its copy was opened in.
const EXCHANGED: &str = "directories of a good tree were exchanged while it was read; look who may write there, and heal \
                         again";

/// Makes files whole, one after the other.
pub struct Mender<'a> {
    pub trees: &'a [Tree],
    pub bad: &'a BadFiles,
    /// Only finds out what could be done.
    pub dry_run: bool,
    pub backend: Backend,
    pub progress: &'a Progress,
    pub stop: &'a Stop,
    /// Is told of what is not as it was, beside the content.
    pub warn: &'a dyn Fn(Error),
    /// What was rescued in each tree, and …
    pub rescues: Vec<Option<Rescues<'a>>>,
    /// … the parity of each that has some.
    pub parity: Vec<RefCell<Option<TreeParity>>>,
    /// The trees whose roots were told to let in more than a good one.
    pub told_roots: RefCell<Vec<usize>>,
}

impl Mender<'_> {
    /// Makes all bad files whole for which there is no `barrier`, and tells what became of each.
    pub fn mend_all(
        &self,
        barrier: impl Fn(&BadFile) -> Option<String>,
        mut tell: impl FnMut(&BadFile, Result<Mend, Unmended>),
    ) {
        // A file that is whole again is no loss any more to the others of its sets of parity.
        let (mut left, mut is_last) = (self.bad.in_order().collect::<Vec<_>>(), false);
        while !left.is_empty() {
            let (mut beyond, mut has_mended) = (Vec::new(), false);
            for file in left {
                let mended = match barrier(file) {
                    _ if self.stop.is_requested() => return,
                    Some(why) => Err(Unmended::Barrier(why)),
                    None => self.mend(file),
                };
                match mended {
                    Err(Unmended::Stopped) => return,
                    Err(Unmended::Beyond { .. }) if !is_last => {
                        beyond.push(file);
                        continue;
                    }
                    Ok(_) if self.dry_run => self.note_healable(file),
                    _ => {}
                }
                has_mended |= mended.is_ok();
                tell(file, mended);
            }
            if has_mended {
                self.look_again();
            }
            (left, is_last) = (beyond, !has_mended);
        }
    }

    /// Makes a file whole, or says what could be done.
    fn mend(&self, bad: &BadFile) -> Result<Mend, Unmended> {
        let tree = self.trees.get(bad.tree).ok_or(Unmended::Nowhere)?;
        if let Some(why) = bad.barrier.as_ref().or(tree.barrier.as_ref()) {
            return Err(Unmended::Barrier(why.clone()));
        }
        let path = &bad.target.path_of(&bad.path);
        let (above, name) = bad.path.split().ok_or(Unmended::Nowhere)?;
        let name = sys::name_from_bytes(name).deed("open", path)?;
        let place = DirPlace { tree, below: &above, name, path: path.parent().unwrap_or(path) };
        let (first, rescued) = self.rescued(bad, tree, path)?.unzip();
        let copies = self.copies(bad, first, tree, path)?;
        let shown = |name: &mut Vec<u8>| name.extend_from_slice(bad.path.as_bytes());
        let _in_hand = self.progress.take_in_hand(0, shown);
        let told = vec![bad.tree].into();
        let Mended { mend, ready } =
            self.make(&Case { bad, place, path, copies: &copies, rescued, told })?;
        // Windows lets nothing take the place of a file that is open.
        drop(copies);
        if let Some(ready) = ready {
            self.finish(place, path, ready)?;
            self.remove_rescue(bad, tree, path);
        }
        Ok(mend)
    }

    /// Makes the file that is to take the place of the bad one, from whatever copies have.
    fn make(&self, case: &Case<'_>) -> Result<Mended, Unmended> {
        let (bad, mut lost) = (case.bad, None);
        for (chain, size) in &self.chains(bad) {
            let content = ChainedContent { chain, size: *size, digest: &bad.digest };
            match self.by_links(case, content) {
                Err(Unmended::Lost(damage)) => drop(lost.get_or_insert(damage)),
                Err(Unmended::Nowhere) => {}
                mended => return mended,
            }
        }
        let ways = [Self::as_whole, Self::by_parity, Self::by_spans];
        let mut made = Err(Unmended::Nowhere);
        for way in ways {
            if matches!(made, Err(Unmended::Nowhere | Unmended::Beyond { .. })) {
                made = match (way(self, case), made) {
                    (Err(Unmended::Nowhere), before) => before,
                    (now, _) => now,
                };
            }
        }
        match made {
            Err(Unmended::Nowhere) => Err(lost.map_or(Unmended::Nowhere, Unmended::Lost)),
            mended => mended,
        }
    }

    /// The copies of a bad file, its own first.
    fn copies(
        &self,
        bad: &BadFile,
        rescued: Option<FileCopy>,
        own: &Tree,
        path: &Path,
    ) -> Result<Vec<FileCopy>, Error> {
        let mut copies = Vec::from_iter(rescued);
        if bad.harm != Harm::Missing {
            let own = FileCopy::open(bad.tree, own, &bad.path);
            copies.push(own.deed("open", path)?);
        }
        let others = self.trees.iter().enumerate().filter(|(number, _)| *number != bad.tree);
        for (number, tree) in others {
            match FileCopy::open(number, tree, &bad.path) {
                Ok(copy) => copies.push(copy),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // It may be the one that is good.
                Err(error) => {
                    (self.warn)(Error::io("open", bad.path.full_path(&tree.root), error));
                }
            }
        }
        Ok(copies)
    }

    /// Tells that a copy cannot be read, which may be the one that is good.
    fn unreadable(&self, case: &Case<'_>, copy: &FileCopy, error: io::Error) {
        let mut told = case.told.borrow_mut();
        if let Some(tree) = self.trees.get(copy.tree).filter(|_| !told.contains(&copy.tree)) {
            told.push(copy.tree);
            (self.warn)(Error::io("read", case.bad.path.full_path(&tree.root), error));
        }
    }

    /// The chains of the listed content that stand in the trees, that of its own first; each once.
    fn chains(&self, bad: &BadFile) -> Vec<(Chain, u64)> {
        let mut chains: Vec<(Chain, u64)> = Vec::new();
        let others = self.trees.iter().enumerate().filter(|(number, _)| *number != bad.tree);
        let trees = self.trees.get(bad.tree).into_iter().chain(others.map(|(_, tree)| tree));
        for chain in trees.filter_map(|tree| tree.chain(&bad.digest)) {
            if !chains.contains(&chain) {
                chains.push(chain);
            }
        }
        chains
    }

    /// Takes the links that the base does not have from copies that have them.
    fn by_links(&self, case: &Case<'_>, content: ChainedContent<'_>) -> Result<Mended, Unmended> {
        let mut prover = LinkProver::new(content).ok_or(Unmended::Nowhere)?;
        let base = case.base()?;
        let unreadable = |number: usize, error| {
            if let Some(copy) = case.copies.get(number) {
                self.unreadable(case, copy, error);
            }
        };
        let open = &OpenCopies::of(case.copies, &unreadable);
        // The links that the base does not have, each with the number of a copy that has it.
        let (mut taken, mut lost) = (Vec::new(), Vec::new());
        for link in self.suspects(base, content, open)? {
            self.go_on()?;
            match open.find(&mut prover, link) {
                Some(0) => {}
                Some(copy) => taken.push((link, copy)),
                None => lost.push(link),
            }
        }
        if !lost.is_empty() {
            let ChainedContent { chain, size, .. } = content;
            return Err(Unmended::Lost(Damage::new(chain, size, size, &lost)));
        }
        let len = |link| prover.range(link).end - prover.range(link).start;
        let bytes = taken.iter().map(|(link, _)| len(*link)).sum();
        // The base of a missing file gives what is not taken; one that gives nothing is another file.
        let gives_base = case.own().is_none() && (taken.len() as u64) < content.chain.links();
        let first = taken.first().and_then(|(_, copy)| case.copies.get(*copy));
        let base = first.filter(|_| case.own().is_none() && !gives_base).unwrap_or(base);
        let all = taken.iter().map(|(_, copy)| *copy).chain(gives_base.then_some(0));
        let mut mend = self.mend_of(case, all);
        mend.bytes = if case.own().is_some() { bytes } else { content.size };
        let mut ready = None;
        let good: Vec<_> = taken.iter().filter_map(|(_, copy)| case.copies.get(*copy)).collect();
        if self.dry_run {
            self.look(case, base, &good)?;
        } else {
            let (is_cloned, file) = self.fill(case, base, good, |new| {
                let is_cloned = new.clone_of(&base.file)?;
                new.look_for_room(if is_cloned { bytes } else { base.stat.allocated.max(bytes) })?;
                new.set_length(content.size, (!is_cloned).then_some(&base.stat))?;
                let mut wanted = taken.iter().peekable();
                for link in 0..content.chain.links() {
                    let copy = wanted.next_if(|(wanted, _)| *wanted == link).map(|(_, copy)| *copy);
                    if is_cloned && copy.is_none() {
                        continue;
                    }
                    self.go_on()?;
                    let at = prover.range(link).start;
                    let Some(bytes) = open.proven(&mut prover, link, copy.unwrap_or(0)) else {
                        let finding = "a copy changed while it was read";
                        return Err(Error::finding("heal", case.path, finding).into());
                    };
                    new.write_at(bytes, at)?;
                }
                Ok(is_cloned)
            })?;
            (mend.is_cloned, ready) = (is_cloned, Some(file));
        }
        Ok(Mended { mend, ready })
    }

    /// The links that the base may not have; all if that cannot be told at once.
    fn suspects(
        &self,
        base: &FileCopy,
        content: ChainedContent<'_>,
        open: &OpenCopies<'_>,
    ) -> Result<Vec<u64>, Unmended> {
        let all = 0..content.chain.links();
        let Some(medium) = open.first().filter(|_| base.stat.size > 0) else {
            return Ok(all.collect());
        };
        let turns = self.trees.get(base.tree).is_some_and(|tree| tree.turns);
        let is_to_stop = || self.stop.is_urgent();
        let check = LinkCheck {
            content,
            medium,
            reads: LinkReads::ByLinks { in_order: turns || !medium.is_direct() },
            backend: self.backend,
            is_to_stop: &is_to_stop,
            on_read: &|_| (),
        };
        let found = check.run(&Helpers::of_processors());
        self.go_on()?;
        // Where links are long, or something cannot be read, each is looked at by itself.
        Ok(found.ok().flatten().unwrap_or_else(|| all.collect()))
    }

    /// Takes all of a file from a copy that is good as a whole.
    fn as_whole(&self, case: &Case<'_>) -> Result<Mended, Unmended> {
        let bad = case.bad;
        let size = bad.target.size_of(&bad.path, &bad.digest);
        let may_be = |copy: &FileCopy| {
            let is_bad = copy.tree == bad.tree || self.bad.has(&bad.path, copy.tree);
            !is_bad && size.is_none_or(|size| copy.stat.size == size)
        };
        let copies = case.copies.iter().enumerate();
        let mut copies: Vec<_> = copies.filter(|(_, copy)| may_be(copy)).collect();
        // A file of holes takes as long as its owner pleases: where no size is known it comes last.
        copies.sort_by_key(|(_, copy)| copy.stat.size);
        for (at, copy) in copies {
            self.go_on()?;
            let mut mend = self.mend_of(case, std::iter::once(at));
            mend.bytes = copy.stat.size;
            if self.dry_run {
                if self.is_good(case, copy)? {
                    self.look(case, case.own().unwrap_or(copy), &[copy])?;
                    return Ok(Mended { mend, ready: None });
                }
                continue;
            }
            let like = case.own().unwrap_or(copy);
            let filled = self.fill(case, like, vec![copy], |new| {
                let is_cloned = new.clone_of(&copy.file)?;
                if !is_cloned {
                    new.look_for_room(copy.stat.allocated)?;
                    new.set_length(copy.stat.size, Some(&copy.stat))?;
                    let is_to_stop = || self.stop.is_urgent();
                    let came = new.fill_from(&copy.file, copy.stat.size, &is_to_stop)?;
                    if !came.unwrap_or_else(|error| {
                        self.unreadable(case, copy, error);
                        false
                    }) {
                        self.go_on()?;
                        return Err(Unmended::Nowhere);
                    }
                }
                Ok(is_cloned)
            });
            match filled {
                Ok((is_cloned, ready)) => {
                    mend.is_cloned = is_cloned;
                    return Ok(Mended { mend, ready: Some(ready) });
                }
                Err(Unmended::Nowhere) => {}
                Err(other) => return Err(other),
            }
        }
        Err(Unmended::Nowhere)
    }

    /// True if a copy has the listed digest.
    fn is_good(&self, case: &Case<'_>, copy: &FileCopy) -> Result<bool, Unmended> {
        let stop = || self.stop.is_urgent();
        let medium = || {
            let mut file = &copy.file;
            file.rewind()?;
            Ok(Medium::any(file))
        };
        match has_digest(medium, &case.bad.digest, &mut ReadBack::new(), stop, |_| ()) {
            Ok(Some(is_good)) => Ok(is_good),
            Ok(None) => Err(Unmended::Stopped),
            Err(error) => {
                self.unreadable(case, copy, error);
                Ok(false)
            }
        }
    }

    /// The message about a file that is made of these copies.
    pub fn mend_of(&self, case: &Case<'_>, taken: impl Iterator<Item = usize>) -> Mend {
        let trees = taken.filter_map(|copy| case.copies.get(copy)).map(|copy| copy.tree);
        let mut trees: Vec<usize> = trees.collect();
        trees.sort_unstable();
        trees.dedup();
        let root = |tree: usize| self.trees.get(tree).map(|tree| tree.root.clone());
        let from: Vec<PathBuf> = trees.into_iter().filter_map(root).collect();
        let path = case.bad.path.clone();
        Mend { path, from, bytes: 0, is_cloned: false, dry_run: self.dry_run }
    }

    /// The trees that a file is made from, without its own; first the one that it is to look `like`.
    fn sources<'a>(
        &'a self,
        case: &Case<'_>,
        like: &'a FileCopy,
        good: &[&'a FileCopy],
    ) -> Vec<Source<'a>> {
        let mut copies: Vec<&FileCopy> = Vec::new();
        for copy in std::iter::once(&like).chain(good) {
            if copy.tree != case.bad.tree && copies.iter().all(|it| it.tree != copy.tree) {
                copies.push(copy);
            }
        }
        let source = |copy: &'a FileCopy| Some(Source { tree: self.trees.get(copy.tree)?, copy });
        copies.into_iter().filter_map(source).collect()
    }

    /// Tells once of a tree that its root lets in more than that of a tree that content is taken from.
    fn tell_root(&self, number: usize, own: &Tree, sources: &[Source<'_>]) {
        let mut told = self.told_roots.borrow_mut();
        let is_wider = |source: &&Source<'_>| lets_more_into_root(own, source).unwrap_or(false);
        if let Some(Source { tree, .. }) =
            sources.iter().filter(|_| !told.contains(&number)).find(is_wider)
        {
            told.push(number);
            let finding = format!(
                "it may be entered by users who may not enter {}, or belongs to another; look whether it is the \
                 directory that is meant, and close it if what is healed is not for all",
                Shown::path(&tree.root)
            );
            (self.warn)(Error::finding("keep others out of", &own.root, finding));
        }
    }

    /// Looks whether a file that a dry run does not make could be put in its place.
    pub fn look(
        &self,
        case: &Case<'_>,
        like: &FileCopy,
        good: &[&FileCopy],
    ) -> Result<(), Unmended> {
        let sources = self.sources(case, like, good);
        Parents::look(case.place, &sources)?;
        self.tell_root(case.bad.tree, case.place.tree, &sources);
        Ok(())
    }

    /// Makes a new file, which `fill` fills and which gets what `like` has beside its content, but no more than the
    /// copies have that are `good`; and proves it. With it comes what `fill` returns: whether it shares data.
    pub fn fill(
        &self,
        case: &Case<'_>,
        like: &FileCopy,
        good: Vec<&FileCopy>,
        fill: impl FnOnce(&mut NewFile<'_>) -> Result<bool, Unmended>,
    ) -> Result<(bool, ReadyFile), Unmended> {
        let Case { bad, place, path, .. } = case;
        let DirPlace { tree: own, below, name, path: dir_path } = *place;
        let sources = self.sources(case, like, &good);
        let parents = Parents::open(*place, &sources, case.own().is_none())?;
        self.tell_root(bad.tree, own, &sources);
        let is_data = |name: &OsStr| own.lists(&below.join(name));
        let filled = match parents.dir() {
            dir if own.keeps_for_itself(dir, &bad.path) => {
                Err(Unmended::Barrier("private records are kept there".into()))
            }
            _ if !parents.is_beside_copies() => Err(Unmended::Barrier(EXCHANGED.into())),
            dir => {
                let owner = parents.part_owner(own, &bad.path);
                let new = NewFile::create(dir, name, path, owner, &is_data);
                new.map_err(Unmended::from).and_then(|mut new| {
                    let filled = fill(&mut new)
                        .and_then(|filled| self.prove(case, &new, like, &good).map(|()| filled));
                    match filled {
                        Ok(filled) => Ok((filled, new.close()?)),
                        Err(why) => {
                            new.discard().into_iter().for_each(self.warn);
                            Err(why)
                        }
                    }
                })
            }
        };
        match filled {
            Ok((filled, file)) => {
                Ok((filled, ReadyFile { parents, file, replaces: bad.harm != Harm::Missing }))
            }
            Err(why) => {
                if let Err(error) = parents.settle(dir_path, own.private(), self.warn) {
                    (self.warn)(error);
                }
                Err(why)
            }
        }
    }

    /// Puts a file that is ready in the place of the bad one.
    fn finish(&self, place: DirPlace<'_>, path: &Path, ready: ReadyFile) -> Result<(), Unmended> {
        let ReadyFile { mut parents, file, replaces } = ready;
        let DirPlace { tree, name, path: dir_path, .. } = place;
        let published = publish(&file, parents.dir(), name, path, replaces);
        let published = published.and_then(|()| parents.appear(dir_path, self.warn));
        let published = published.map_err(Unmended::from);
        match (published, parents.settle(dir_path, tree.private(), self.warn)) {
            (Ok(()), Err(error)) => {
                let note = "; the file is whole now, but may not be so after a power cut";
                Err(error.with_note(note).into())
            }
            (Err(why), Err(error)) => {
                (self.warn)(error);
                Err(why)
            }
            (published, Ok(())) => published,
        }
    }

    /// Makes a filled file durable, and finds out whether it may take the place of the bad one.
    fn prove(
        &self,
        case: &Case<'_>,
        new: &NewFile<'_>,
        like: &FileCopy,
        good: &[&FileCopy],
    ) -> Result<(), Unmended> {
        let Case { bad, path, .. } = case;
        let mut label = label_of(like, good);
        // The time of the damage would make it look edited.
        let of_other = || good.iter().find(|it| it.tree != like.tree).map(|it| it.stat.mtime);
        let recorded = self.trees[bad.tree].recorded(bad).map(|recorded| recorded.mtime);
        let of_source = case.rescued.as_ref().map(|_| like.stat.mtime);
        label.stat.mtime = of_source.or(recorded).or_else(of_other).unwrap_or(label.stat.mtime);
        if label.owner.tree != like.tree && case.own().is_some() {
            let finding =
                "it belonged to another user than the good copy, and belongs to that one's now";
            (self.warn)(Error::finding("keep the owner of", path, finding));
        }
        let read = |copy: &FileCopy| match Attributes::read(&copy.file) {
            _ if copy.is_noted => Attributes::default(),
            Ok(attributes) => attributes,
            Err(error) => {
                (self.warn)(Error::io("read the attributes of", path, error));
                Attributes::default()
            }
        };
        let mut attributes = read(label.owner);
        for copy in good {
            // A bad file may be another one that was given this name.
            let (is_less, permitted) = attributes.keep_rights_of(&read(copy));
            label.stat.mode &= permitted;
            if is_less {
                let finding =
                    "a good copy has not the same access list or capability; set it again";
                (self.warn)(Error::finding("keep the rights of", path, finding));
            }
        }
        new.settle(&attributes, &label.stat, self.warn)?;
        if case.own().is_some() && !new.has_owner_of(&label.stat) {
            let finding = "only root can give files to others, so it is yours now";
            (self.warn)(Error::finding("keep the owner of", path, finding));
        }
        let told = |bytes| {
            self.progress.read_back.fetch_add(bytes, Relaxed);
        };
        let is_to_stop = || self.stop.is_urgent();
        match new.has(&bad.digest, &mut ReadBack::new(), is_to_stop, told)? {
            None => return Err(Unmended::Stopped),
            Some(false) => return Err(Unmended::Nowhere),
            Some(true) => {}
        }
        let own = case.own().map(|own| (own, Dir::stat_file(&own.file)));
        match own {
            Some((own, now)) => {
                let now = now.deed("look at", path)?;
                let before = case.rescued.as_ref().map_or(own.stat, |rescued| rescued.stat);
                match before.change(&now) {
                    Some(_) => {
                        let finding = "it was written to meanwhile";
                        Err(Error::finding("heal", path, finding).into())
                    }
                    None => Ok(()),
                }
            }
            None => Ok(()),
        }
    }

    pub fn go_on(&self) -> Result<(), Unmended> {
        if self.stop.is_requested() { Err(Unmended::Stopped) } else { Ok(()) }
    }
}

/// The labels of a healed file: all that it has beside its content.
struct Label<'c> {
    /// The copy whose owner and attributes it has.
    owner: &'c FileCopy,
    stat: Stat,
}

/// The label of `like`, but no more open than the copies that the content is from: a bad file may be another user's,
/// who put it there to be given the good content. Then it is their owner's.
fn label_of<'c>(like: &'c FileCopy, good: &[&'c FileCopy]) -> Label<'c> {
    let has_owner =
        |copy: &&FileCopy| (copy.stat.uid, copy.stat.gid) == (like.stat.uid, like.stat.gid);
    let other = good.iter().copied().find(|copy| !has_owner(copy));
    let owner = other.filter(|_| sys::may_give_away()).unwrap_or(like);
    let mode = good.iter().fold(like.stat.mode, |mode, copy| mode & copy.stat.mode);
    let Stat { uid, gid, .. } = owner.stat;
    Label { owner, stat: Stat { mode, uid, gid, ..like.stat } }
}
