//! Making one file whole: from its good links and those of its copies, or from a copy that is good as a whole.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use crate::chain::damage::Damage;
use crate::error::Error;
use crate::event::{Progress, Stop};
use crate::hash::chain::Chain;
use crate::hash::multibuffer::Backend;
use crate::heal::bad::{BadFile, BadFiles, Harm};
use crate::heal::copies::{FileCopy, LinkProver};
use crate::heal::new_file::NewFile;
use crate::heal::parents::Parents;
use crate::heal::trees::Tree;
use crate::io::link_check::{ChainedContent, Helpers, LinkCheck, LinkReads};
use crate::io::read_back::ReadBack;
use crate::sys::{self, Attributes, Dir, Medium};
use crate::verify::Mend;

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
}

/// Why a file was not made whole.
#[derive(Debug)]
pub enum Unmended {
    /// No tree has these places good.
    Lost(Damage),
    /// No tree has it good.
    Nowhere,
    /// Something else is in the way.
    Barrier(String),
    Failed(Error),
    /// The run is to stop.
    Stopped,
}

impl From<Error> for Unmended {
    fn from(error: Error) -> Self {
        Unmended::Failed(error)
    }
}

/// A bad file and its copies.
struct Case<'c> {
    bad: &'c BadFile,
    /// Where it is, for messages.
    path: &'c Path,
    /// That of its own tree first, if it is there.
    copies: &'c [FileCopy],
}

impl<'c> Case<'c> {
    /// What the new file is begun with and looks like: the bad one, or for want of it the first good one.
    fn base(&self) -> Result<&'c FileCopy, Unmended> {
        self.copies.first().ok_or(Unmended::Nowhere)
    }

    /// The bad file itself, if it is there.
    fn own(&self) -> Option<&'c FileCopy> {
        self.copies.first().filter(|copy| copy.tree == self.bad.tree)
    }
}

/// A link that the base does not have.
struct TakenLink {
    link: u64,
    /// The number of the copy that has it.
    copy: usize,
}

/// How a file was filled.
#[derive(Clone, Copy)]
struct Filled {
    is_cloned: bool,
}

impl Mender<'_> {
    /// Makes a file whole, or says what could be done.
    pub fn mend(&self, bad: &BadFile) -> Result<Mend, Unmended> {
        let tree = self.trees.get(bad.tree).ok_or(Unmended::Nowhere)?;
        if let Some(why) = bad.barrier.as_ref().or(tree.barrier.as_ref()) {
            return Err(Unmended::Barrier(why.clone()));
        }
        let path = &bad.target.path_of(&bad.path);
        let copies = &self.copies(bad, tree, path)?;
        let shown = |name: &mut Vec<u8>| name.extend_from_slice(bad.path.as_bytes());
        let _in_hand = self.progress.take_in_hand(0, shown);
        let (case, mut lost) = (Case { bad, path, copies }, None);
        for (chain, size) in &self.chains(bad) {
            let content = ChainedContent { chain, size: *size, digest: &bad.digest };
            match self.by_links(&case, content) {
                Err(Unmended::Lost(damage)) => drop(lost.get_or_insert(damage)),
                Err(Unmended::Nowhere) => {}
                mended => return mended,
            }
        }
        match self.as_whole(&case) {
            Err(Unmended::Nowhere) => Err(lost.map_or(Unmended::Nowhere, Unmended::Lost)),
            mended => mended,
        }
    }

    /// The copies of a bad file, its own first.
    fn copies(&self, bad: &BadFile, own: &Tree, path: &Path) -> Result<Vec<FileCopy>, Error> {
        let mut copies = Vec::new();
        if bad.harm != Harm::Missing {
            let own = FileCopy::open(bad.tree, own, &bad.path);
            copies.push(own.map_err(|error| Error::io("open", path, error))?);
        }
        let others = self.trees.iter().enumerate().filter(|(number, _)| *number != bad.tree);
        for (number, tree) in others {
            match FileCopy::open(number, tree, &bad.path) {
                Ok(copy) => copies.push(copy),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // It may be the one that is good.
                Err(error) => {
                    let names =
                        bad.path.components().filter_map(|it| sys::name_from_bytes(it).ok());
                    let path = names.fold(tree.root.clone(), |path, name| path.join(name));
                    (self.warn)(Error::io("open", path, error));
                }
            }
        }
        Ok(copies)
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
    fn by_links(&self, case: &Case<'_>, content: ChainedContent<'_>) -> Result<Mend, Unmended> {
        let mut prover = LinkProver::new(content).ok_or(Unmended::Nowhere)?;
        let base = case.base()?;
        let open = &OpenCopies::of(case.copies);
        let (mut taken, mut lost) = (Vec::new(), Vec::new());
        for link in self.suspects(base, content, open)? {
            self.go_on()?;
            match open.find(&mut prover, link) {
                Some(0) => {}
                Some(copy) => taken.push(TakenLink { link, copy }),
                None => lost.push(link),
            }
        }
        if !lost.is_empty() {
            let ChainedContent { chain, size, .. } = content;
            return Err(Unmended::Lost(Damage::new(chain, size, size, &lost)));
        }
        let len = |link| prover.range(link).end - prover.range(link).start;
        let bytes = taken.iter().map(|TakenLink { link, .. }| len(*link)).sum();
        let mut mend = self.mend_of(case, taken.iter().map(|taken| taken.copy));
        mend.bytes = if case.own().is_some() { bytes } else { content.size };
        if !self.dry_run {
            let filled = self.replace(case, base, |new| {
                let is_cloned = new.clone_of(&base.file)?;
                new.look_for_room(if is_cloned { bytes } else { base.stat.allocated.max(bytes) })?;
                new.set_length(content.size, (!is_cloned).then_some(&base.stat))?;
                let mut wanted = taken.iter().peekable();
                for link in 0..content.chain.links() {
                    let copy = wanted.next_if(|taken| taken.link == link).map(|taken| taken.copy);
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
                Ok(Filled { is_cloned })
            })?;
            mend.is_cloned = filled.is_cloned;
        }
        Ok(mend)
    }

    /// The links that the base may not have; all if that cannot be told at once.
    fn suspects(
        &self,
        base: &FileCopy,
        content: ChainedContent<'_>,
        open: &OpenCopies<'_>,
    ) -> Result<Vec<u64>, Unmended> {
        let all = 0..content.chain.links();
        let Some(medium) = open.media.first().filter(|_| base.stat.size > 0) else {
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
    fn as_whole(&self, case: &Case<'_>) -> Result<Mend, Unmended> {
        let bad = case.bad;
        for (at, copy) in case.copies.iter().enumerate() {
            if copy.tree == bad.tree || self.bad.has(&bad.path, copy.tree) {
                continue;
            }
            self.go_on()?;
            let mut mend = self.mend_of(case, std::iter::once(at));
            mend.bytes = copy.stat.size;
            if self.dry_run {
                match self.is_good(copy, bad)? {
                    true => return Ok(mend),
                    false => continue,
                }
            }
            let like = case.own().unwrap_or(copy);
            let filled = self.replace(case, like, |new| {
                let is_cloned = new.clone_of(&copy.file)?;
                if !is_cloned {
                    new.look_for_room(copy.stat.allocated)?;
                    new.set_length(copy.stat.size, Some(&copy.stat))?;
                    let is_to_stop = || self.stop.is_urgent();
                    if !new.fill_from(&copy.file, copy.stat.size, &is_to_stop)? {
                        self.go_on()?;
                        return Err(Unmended::Nowhere);
                    }
                }
                Ok(Filled { is_cloned })
            });
            match filled {
                Ok(Filled { is_cloned }) => return Ok(Mend { is_cloned, ..mend }),
                Err(Unmended::Nowhere) => {}
                Err(other) => return Err(other),
            }
        }
        Err(Unmended::Nowhere)
    }

    /// Whether a copy has the listed digest.
    fn is_good(&self, copy: &FileCopy, bad: &BadFile) -> Result<bool, Unmended> {
        let (medium, stop) = (Medium::any(&copy.file), || self.stop.is_urgent());
        match ReadBack::new().hash(medium, bad.digest.algorithm(), stop, |_| ()) {
            Ok(Some(read)) => Ok(read.digest == Some(bad.digest)),
            Ok(None) => Err(Unmended::Stopped),
            Err(_) => Ok(false),
        }
    }

    /// What is to be told of a file that is made of these copies.
    fn mend_of(&self, case: &Case<'_>, taken: impl Iterator<Item = usize>) -> Mend {
        let trees = taken.filter_map(|copy| case.copies.get(copy)).map(|copy| copy.tree);
        let mut trees: Vec<usize> = trees.collect();
        // The base of a missing file gives all the rest.
        let base = case.copies.first().map(|base| base.tree);
        trees.extend(base.filter(|base| *base != case.bad.tree && case.own().is_none()));
        trees.sort_unstable();
        trees.dedup();
        let root = |tree: usize| self.trees.get(tree).map(|tree| tree.root.clone());
        let from: Vec<PathBuf> = trees.into_iter().filter_map(root).collect();
        let path = case.bad.path.clone();
        Mend { path, from, bytes: 0, is_cloned: false, dry_run: self.dry_run }
    }

    /// Puts a new file, which `fill` fills and which gets what `like` has beside its content, in the place of the
    /// bad one.
    fn replace(
        &self,
        case: &Case<'_>,
        like: &FileCopy,
        fill: impl FnOnce(&mut NewFile<'_>) -> Result<Filled, Unmended>,
    ) -> Result<Filled, Unmended> {
        let Case { bad, path, .. } = case;
        let own = self.trees.get(bad.tree).ok_or(Unmended::Nowhere)?;
        let good = self.trees.get(like.tree).filter(|_| like.tree != bad.tree);
        let (above, name) = bad.path.split().ok_or(Unmended::Nowhere)?;
        let name = sys::name_from_bytes(name).map_err(|error| Error::io("open", path, error))?;
        let dir_path = path.parent().unwrap_or(path);
        let parents = Parents::open(&own.dir, &above, good.map(|tree| &tree.dir), dir_path)?;
        let replaced = match parents.dir() {
            None => Err(Unmended::Nowhere),
            Some(dir) if own.keeps_for_itself(dir, &bad.path) => {
                Err(Unmended::Barrier("private records are kept there".into()))
            }
            Some(dir) => {
                NewFile::create(dir, name, path).map_err(Unmended::from).and_then(|mut new| {
                    match fill(&mut new)
                        .and_then(|filled| self.prove(case, &new, like).map(|()| filled))
                    {
                        Ok(filled) => Ok(new.publish(case.own().is_some()).map(|()| filled)?),
                        Err(why) => {
                            new.discard().into_iter().for_each(self.warn);
                            Err(why)
                        }
                    }
                })
            }
        };
        match (replaced, parents.settle(dir_path, self.warn)) {
            (Ok(_), Err(error)) => {
                let note = "; the file is whole now, but may not be so after a power cut";
                Err(error.with_note(note).into())
            }
            (Err(why), Err(error)) => {
                (self.warn)(error);
                Err(why)
            }
            (replaced, Ok(())) => replaced,
        }
    }

    /// Makes a filled file durable, and finds out whether it may take the place of the bad one.
    fn prove(&self, case: &Case<'_>, new: &NewFile<'_>, like: &FileCopy) -> Result<(), Unmended> {
        let Case { bad, path, .. } = case;
        let attributes = Attributes::read(&like.file).unwrap_or_else(|error| {
            (self.warn)(Error::io("read the attributes of", path, error));
            Attributes::default()
        });
        new.settle(&attributes, &like.stat, self.warn)?;
        if case.own().is_some() && !new.has_owner_of(&like.stat) {
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
                let now = now.map_err(|error| Error::io("look at", path, error))?;
                match own.stat.change(&now) {
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

    fn go_on(&self) -> Result<(), Unmended> {
        if self.stop.is_requested() { Err(Unmended::Stopped) } else { Ok(()) }
    }
}

/// The copies of a file, each as it is read.
struct OpenCopies<'c> {
    media: Vec<Medium<'c>>,
}

impl<'c> OpenCopies<'c> {
    /// The first is read from its device, because what is in memory of a bad file may be good. What is taken from
    /// the others is proven as it is in memory.
    fn of(copies: &'c [FileCopy]) -> Self {
        let medium = |(at, copy): (usize, &'c FileCopy)| match at {
            0 => Medium::of(&copy.file, &copy.stat).unwrap_or_else(|_| Medium::any(&copy.file)),
            _ => Medium::any(&copy.file),
        };
        Self { media: copies.iter().enumerate().map(medium).collect() }
    }

    /// The number of a copy that has this link.
    fn find(&self, prover: &mut LinkProver<'_>, link: u64) -> Option<usize> {
        self.media.iter().position(|medium| prover.proven(medium, link).is_some())
    }

    /// The bytes of a link as the copy of this number has them, or else another.
    fn proven<'p>(
        &self,
        prover: &'p mut LinkProver<'_>,
        link: u64,
        copy: usize,
    ) -> Option<&'p [u8]> {
        let first = self.media.get(copy).filter(|medium| prover.proven(medium, link).is_some());
        let medium = first.or_else(|| self.media.get(self.find(prover, link)?))?;
        prover.proven(medium, link)
    }
}
