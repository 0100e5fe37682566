//! The copy of a tree: what was asked (`job`), what is refused before anything is touched (`before`), the
//! threads (`run`), what makes copies durable and records them (`commit`), what leaves the output (`mirror`), an
//! output that is a bag (`bag`), Media Hash Lists of it (`media`), and the report.

pub mod bag;
pub mod before;
mod commit;
mod dry_run;
pub mod generations;
pub mod hard_link;
pub mod links;
mod list_file;
mod media;
pub mod mirror;
mod record;
mod report;
pub mod run;

pub(crate) use before::{PlannedRoots, refuse_other_root};
pub use before::{Prepared, space::Reservations};
pub use generations::{prune::KeepRule, set::GenerationSet};
pub use hard_link::{First, Link};
pub use links::{LinkOutcome, Plan};
pub use mirror::{MostDepartures, departures::LostNames};
pub use report::{Counts, Ending, Lost, Report, StageTime, Stages};
pub use run::{OutputRun, outputs::OutputJob};

use std::{num::NonZero, path::Path, path::PathBuf, sync::Arc};

use crate::{
    copy::bag::BagOptions, copy::bag::PayloadRole, copy::bag::no_algorithm_of_bags,
    copy::before::is_inside, copy::generations::Generations, copy::media::one_history::MediaRole,
    copy::mirror::Mirror, copy::run::threads::blocks_each, copy::run::threads::most_full,
    copy::run::threads::most_small, error::Deed, error::Error, error::Result, hash::Algorithm,
    hash::Algorithms, hash::hasher::refuse_miscomputing, io::CopyOptions, io::Journaling,
    io::Reflink, io::Resume, io::Sparse, io::States, manifest::ListFormat, manifest::ListKind,
    path::RelPath, path::directory_of, state::Secret, sys::Dir, sys::ShardTag,
    transfer::baseline::ExpectedList, transfer::small, transfer::verifier::unverifiable,
    tree::Classifier, tree::HeldTree, tree::NameList,
};

// What is asked of a copy.

/// What to copy, where to, and how. Make one with [`new`](Self::new) and change what should differ.
#[derive(Clone, Debug, Default)]
pub struct CopyJob {
    /// A directory, whose contents are copied, or a file.
    pub source: PathBuf,
    /// The directory they go to. Made if only its last component is missing.
    pub output: PathBuf,
    /// How they are copied.
    pub options: CopyOptions,
    /// Only these names of the source, directories with all that is in them; the selection holds for them too.
    pub names: Option<NameList>,
    /// A manifest, of any program, of what the source should hold. Every listed file is read, also where
    /// it would be kept. One that has another digest although nothing says that it was edited has rotted:
    /// it is not copied, and what is at the output stays. Needs an algorithm. Goes with no dry run, but with one of
    /// [`restore`](CopyOptions::restore), which looks what is known without reading.
    pub expect: Option<PathBuf>,
    /// All is expected as that lists it: nothing counts as edited since, or as removed. So it is of a bag anyway.
    pub expect_all: bool,
    /// What this user's runs recorded of the source counts beside its list: that is the source's own, and nobody named
    /// another.
    pub expects_records: bool,
    /// After a run that came to its end, leave nothing of ours at an output that no earlier run finished: it gets its
    /// own back.
    pub leaves_no_traces: bool,
    /// Only tell what would happen.
    pub dry_run: bool,
    /// Read the source no faster than this; bytes in a second, for all workers together.
    pub limit_rate: Option<u64>,
    /// Of files that cannot be read as a whole, keep what can be read, for later runs to go on with.
    pub rescue: bool,
    /// Begin the output's parity, for so many of 10,000 parts of the content, while files are copied, so that they are
    /// not read from the device for it. A [`ProtectJob`](crate::ProtectJob) makes the rest.
    pub parity: Option<u32>,
    /// Where another run is writing to the output, wait until it ends, instead of refusing.
    pub wait: bool,
    /// Where the private directories of outputs are kept; in the outputs themselves without.
    pub state: Option<PathBuf>,
    /// After a complete run, leave only so many finished manifests at the output, the newest ones.
    pub keep_manifests: Option<NonZero<usize>>,
    /// What has left the source leaves the output too.
    pub mirror: Option<Mirror>,
    /// The output has a tree for each run, which shares what did not change with the one before.
    pub generations: Option<Generations>,
    /// The source was emptied on purpose: with [`allow_empty`](CopyOptions::allow_empty), what was in it may leave a
    /// mirror, as far as the limit goes. That is said of one run, and never of all to come.
    pub was_emptied: bool,
    /// The output is a bag (BagIt 1.0), with the source as its payload.
    pub bag: Option<BagOptions>,
    /// Workers; at least 1. Without a number as many as suit both devices.
    pub workers: Option<usize>,
    /// The output's directory where the run has it open already: what its path leads to meanwhile is of no weight.
    pub(crate) held: Option<Arc<Dir>>,
    /// The roots of the plan that it is a part of, if it is of one.
    pub(crate) planned: Option<PlannedRoots>,
    /// The last generation, if this run makes one.
    pub(crate) last_generation: Option<HeldTree>,
    /// What the record lists and is gone was removed on purpose before the run.
    pub(crate) pruned: bool,
    /// What is at the output and is not proven gives way.
    pub(crate) prunes: bool,
    /// The output is a disk of a span.
    pub(crate) is_of_span: bool,
    /// Which shard of a plan this run is, if it is one.
    pub(crate) shard: Option<ShardRole>,
    /// Whose payload this run copies, if it is one of a bag.
    pub(crate) payload: Option<PayloadRole>,
    /// What is known before a run that writes a Media Hash List, if it does.
    pub(crate) media: Option<Arc<MediaRole>>,
}

/// What makes a run one of several at an output: it shares the lock, leaves the attributes of directories to the end of
/// the plan, keeps nothing for later runs, and its manifest is none of the output's.
#[derive(Clone, Debug)]
pub(crate) struct ShardRole {
    pub tag: ShardTag,
    /// Earlier attempts at the shard that are dead: what they left is removed.
    pub dead: Vec<ShardTag>,
    /// The directory that the manifest goes to.
    pub dir: Arc<Dir>,
    /// Where that is.
    pub path: PathBuf,
}

impl CopyJob {
    /// A job with the defaults of the command line.
    pub fn new(source: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        let (source, output) = (source.into(), output.into());
        Self { source, output, ..Self::default() }
    }

    /// True if the output is no part of another one, and stays one.
    pub(crate) fn is_of_itself(&self) -> bool {
        let is_part = self.shard.is_some() || self.payload.is_some() || self.pruned;
        !is_part && !self.leaves_no_traces
    }

    /// The most workers for files of every size, whatever the devices are.
    pub fn most_workers(&self) -> usize {
        most_full(self.workers)
    }

    /// The most that blocks take, whatever the devices are; bytes.
    pub fn most_memory(&self) -> u64 {
        let blocks = self.most_workers() as u64 * self.options.queue_size as u64;
        let threads = 2 * self.most_workers() + most_small(self.workers);
        blocks * self.options.block_size as u64 + threads as u64 * self.scratch()
    }

    /// What a thread that copies small files takes for their contents; bytes.
    pub(crate) fn scratch(&self) -> u64 {
        small::room(self.options.block_size, self.options.backend) as u64
    }

    /// Blocks of a worker where `outputs` outputs share their reading.
    pub(crate) fn blocks(&self, outputs: usize) -> usize {
        blocks_each(self.options.queue_size, outputs)
    }

    /// How large files are journaled: not where nothing is made durable, and where there is no digest
    /// to go on with.
    pub(crate) fn journaling(&self, secret: Option<Secret>) -> Option<Journaling> {
        let interval = self.options.checkpoint.max(self.options.block_size as u64);
        let verify = self.options.resume == Resume::Verify;
        let journaling = Journaling { interval, verify, secret: secret?.of_journals() };
        let is_noted = self.options.further.with(self.options.algorithm).can_go_on()
            && self.options.algorithm != Algorithm::None;
        (self.options.sync && is_noted && self.options.resume != Resume::Off).then_some(journaling)
    }

    /// Whether the chains of large files are kept.
    pub(crate) fn keeps_states(&self) -> bool {
        self.options.states == States::Auto && self.options.algorithm == Algorithm::Sha256
    }

    /// The lists beside the manifest.
    pub(crate) fn lists(&self) -> Vec<ListKind> {
        let algorithms = self.options.further.with(self.options.algorithm);
        let mut lists = match algorithms.is_empty() {
            true => Vec::new(),
            false => ListKind::all(algorithms, &self.options.formats),
        };
        lists.extend(self.media.as_ref().map(|media| ListKind::kept(media.algorithms)));
        lists
    }

    /// The list that the source is held against.
    pub(crate) fn expected(&self) -> Option<ExpectedList<'_>> {
        let (source, all, state) = (&*self.source, self.expect_all, self.state.as_deref());
        self.expect.as_deref().map(|path| ExpectedList { path, source, all, state })
    }

    /// What is computed beside what is asked for: what is `expected`, and what a Media Hash List has.
    pub(crate) fn besides(&self, expected: Algorithms) -> Algorithms {
        let asked = self.options.further.with(self.options.algorithm);
        self.media.as_ref().map_or(expected, |media| expected.and(media.further(asked)))
    }

    /// The Media Hash List that is asked for, if one is.
    pub(crate) fn media_format(&self) -> Option<ListFormat> {
        self.options.formats.iter().copied().find(|format| format.is_mhl())
    }

    /// Which entries take part, and how they are told apart.
    pub(crate) fn classifier(&self) -> Classifier<'_> {
        Classifier {
            selection: &self.options.selection,
            block_size: self.options.block_size as u64,
        }
    }

    /// Refuses what a bag cannot be had with.
    fn check_bag(&self) -> Result<()> {
        let refuse = |why| Err(Error::finding("make a bag at", &self.output, why));
        if self.bag.is_none() {
            return Ok(());
        }
        if let Some(other) = no_algorithm_of_bags(self.options.further.with(self.options.algorithm))
        {
            let why = format!(
                "the manifests of bags are of sha256, sha512, sha1 and md5; leave {} out of --hash",
                other.name()
            );
            return Err(Error::finding("make a bag at", &self.output, why));
        }
        match () {
            () if self.options.algorithm == Algorithm::None => {
                refuse("a bag has manifests; leave out --hash none")
            }
            () if self.generations.is_some() => {
                refuse("a bag is one tree; leave out --generations")
            }
            () if self.mirror.is_some() => {
                refuse("nothing leaves the payload of a bag; leave out --mirror")
            }
            () if self.options.formats != [ListFormat::Gnu] => {
                refuse("a bag has manifests of its own form; leave out --format")
            }
            () if self.keep_manifests.is_some() => {
                refuse("a bag has its own manifests; leave out --keep-manifests")
            }
            () => Ok(()),
        }
    }

    /// Refuses what a Media Hash List cannot be had with.
    fn check_media(&self) -> Result<()> {
        let Some(form) = self.media_format() else { return Ok(()) };
        let refuse = |why| {
            Err(Error::finding("write a Media Hash List of what is copied to", &self.output, why))
        };
        match () {
            () if self.options.formats.iter().any(|other| other.is_mhl() && *other != form) => {
                refuse(
                    "one kind of it is written by a run; leave out --format mhl or --format mhl1",
                )
            }
            () if self.options.algorithm == Algorithm::None => {
                refuse("it has digests; leave out --hash none")
            }
            () if self.generations.is_some() => refuse(
                "it is of one tree, and each generation is another; leave out --generations, or the list",
            ),
            () if self.mirror.is_some() && form == ListFormat::History => refuse(
                "nothing leaves a history; leave out --mirror, or write a legacy list with --format mhl1",
            ),
            () if self.options.formats.iter().any(|other| other.is_near()) => refuse(
                "lists among the files would be new files to it; leave out --format dirs and --format sides",
            ),
            () => Ok(()),
        }
    }

    /// Refuses what lists among the files cannot be had with.
    fn check_near_lists(&self) -> Result<()> {
        if !self.options.formats.iter().any(|format| format.is_near()) {
            return Ok(());
        }
        let refuse = |why| Err(Error::finding("write lists among the files of", &self.output, why));
        match () {
            () if self.mirror.is_some() => refuse(
                "they are not in the source, so they would leave; leave out --mirror, or --format dirs and sides",
            ),
            () if self.generations.is_some() => refuse(
                "a generation has no lists among its files; leave out --generations, or --format dirs and sides",
            ),
            () => Ok(()),
        }
    }

    /// Refuses private records that a mirror would move to the trash.
    fn check_state(&self) -> Result<()> {
        let keeps_none = self.mirror.as_ref().is_some_and(|mirror| mirror.all);
        let Some(state) = self.state.as_ref().filter(|_| keeps_none) else { return Ok(()) };
        match self.is_in(state, &self.output)? {
            true => Err(Error::finding("keep private records in", state, mirror::KEEPS_NONE)),
            false => Ok(()),
        }
    }

    /// True if the directory at `path` is in `tree`, or would be made in it, by whatever way it is named, and no filter
    /// leaves it out. What cannot be opened is told where it is needed.
    fn is_in(&self, path: &Path, tree: &Path) -> Result<bool> {
        let above = directory_of(path);
        let opened = Dir::open_named(path).or_else(|_| Dir::open_named(above));
        let (Ok(dir), Ok(root)) = (opened, Dir::open_named(tree)) else { return Ok(false) };
        let id = root.identity().deed("look at", tree)?;
        let to_be_made = |above: PathBuf| above.join(path.file_name().unwrap_or_default());
        let whole = path.canonicalize().or_else(|_| above.canonicalize().map(to_be_made));
        let whole = whole.unwrap_or_default();
        let below = whole.strip_prefix(tree.canonicalize().unwrap_or_default());
        let below = below.ok().map(|it| RelPath::of(&it.join("record")));
        let is_left_out = below.is_some_and(|it| self.options.selection.filter.leaves_out(&it));
        Ok(!is_left_out && is_inside(&dir, &root, id, path)?)
    }

    /// Refuses a directory of the run's own, for which `deed` is done, in what is copied: a run would change its
    /// source, and copy it.
    pub(crate) fn refuse_in_source(&self, deed: &'static str, path: &Path) -> Result<()> {
        let why = "it is inside the source, which a copy does not change; put it elsewhere, or leave it out with --exclude";
        match self.is_in(path, &self.source)? {
            true => Err(Error::finding(deed, path, why)),
            false => Ok(()),
        }
    }

    /// Refuses options that cannot be had together.
    pub(crate) fn check_options(&self) -> Result<()> {
        refuse_miscomputing(self.options.backend, &self.source)?;
        self.check_bag()?;
        self.check_media()?;
        self.check_near_lists()?;
        self.check_state()?;
        let state = self.state.as_deref();
        state.map_or(Ok(()), |it| self.refuse_in_source("keep private records in", it))?;
        if self.lists().into_iter().any(ListKind::is_without_digests) {
            let why = "hashdeep knows MD5, SHA-1 and SHA-256 alone; add one of them to --hash, as in \
                       --hash sha512,md5, or leave out --format hashdeep";
            return Err(Error::finding("write a list of hashdeep for", &self.output, why));
        }
        if self.media_format().is_some() && self.options.selection.hard_links {
            let why = "the further names of a file would be in the manifest alone; leave out \
                       --hard-links, or --format mhl";
            return Err(Error::finding("list everywhere the hard links of", &self.source, why));
        }
        Err(
            match unverifiable(self.options.sync, self.options.algorithm)
                .filter(|_| self.options.verify)
            {
                Some(why) => Error::finding("verify the copy at", &self.output, why),
                _ if self.expect.is_some() && self.options.algorithm == Algorithm::None => {
                    let why = "with --hash none there is no digest that could be compared with those \
                           expected; leave out --expect or --hash none";
                    Error::finding("expect anything of", &self.source, why)
                }
                _ if self.expect.is_some() && self.dry_run && !self.options.restore => {
                    let why = "a dry run reads no file; leave out --expect or --dry-run";
                    Error::finding("expect anything of", &self.source, why)
                }
                _ if self.generations.is_some() => {
                    let refuse = |why| Error::finding("make a generation in", &self.output, why);
                    match () {
                        () if self.names.is_some() => {
                            refuse("a generation is of the whole source; leave out --files-from")
                        }
                        () if self.options.algorithm == Algorithm::None => {
                            refuse("each generation has a manifest; leave out --hash none")
                        }
                        () if self.state.is_some() => refuse(
                            "each generation has a private record of its own; leave out --state",
                        ),
                        () if !self.options.sync => {
                            refuse("a generation is there when it is durable; leave out --no-sync")
                        }
                        () => return Ok(()),
                    }
                }
                _ if self.names.is_some() && self.mirror.is_some() => {
                    let why = "what a list does not name has not left the source; leave out --files-from or --mirror";
                    Error::finding("mirror to", &self.output, why)
                }
                _ if self.options.algorithm == Algorithm::None
                    && self.mirror.as_ref().is_some_and(|it| !it.all) =>
                {
                    let why = "with --hash none there is no manifest that would tell the files of earlier runs from \
                           those of others; leave out --hash none, or give --mirror=all";
                    Error::finding("mirror to", &self.output, why)
                }
                _ if self.options.reflink == Reflink::Always
                    && self.options.sparse != Sparse::Auto =>
                {
                    let why = "a clone has the holes that its source has, no fewer and no more";
                    Error::finding("clone to", &self.output, why)
                }
                _ => return Ok(()),
            },
        )
    }
}
