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
mod media;
pub mod mirror;
mod record;
mod report;
pub mod run;

pub use before::{Prepared, space::Reservations};
pub use generations::{prune::KeepRule, set::GenerationNote, set::GenerationSet};
pub use hard_link::{First, Link};
pub use links::{LinkOutcome, Plan};
pub use mirror::{MostDepartures, departures::LostNames};
pub use record::rotation::DatedName;
pub use report::{Counts, Ending, Report, StageTime, Stages};
pub use run::{OutputRun, outputs::OutputJob};

use std::{num::NonZero, path::PathBuf, sync::Arc};

use crate::{
    copy::bag::BagOptions, copy::bag::PayloadRole, copy::bag::no_algorithm_of_bags,
    copy::generations::Generations, copy::media::one_history::MediaRole, copy::mirror::Mirror,
    copy::run::threads::blocks_each, copy::run::threads::most_full, copy::run::threads::most_small,
    error::Error, error::Result, hash::Algorithm, hash::Algorithms, hash::Backend, io::Cache,
    io::Damaged, io::Journaling, io::Reflink, io::Renamed, io::Resume, io::Sparse, io::States,
    manifest::ListFormat, manifest::ListKind, state::Secret, sys::Dir, sys::ShardTag,
    transfer::small, transfer::verifier::unverifiable, tree::Classifier, tree::Filter,
    tree::HeldTree, tree::NameList, tree::Policy,
};

// What is asked of a copy.

/// Size of a block in bytes, by default.
///
/// Seconds for one file of 2 GiB on tmpfs, two cores, medians of 9 alternating rounds (`cp -r` 0.84 to
/// 5.9 in the same series, so differences under a fifth are noise), by block size × blocks a worker:
/// 128K × 16: 1.61, 256K × 8: 1.62, 256K × 16: 1.59, 512K × 3: 2.11, 512K × 8: 1.89, 512K × 16: 1.66,
/// 1M × 3: 1.90, 1M × 8: 1.64.
pub const BLOCK_SIZE: usize = 256 << 10;

/// Blocks of a worker, by default; see the table at [`BLOCK_SIZE`].
pub const QUEUE_SIZE: usize = 16;

/// The most of a large file that is read again after a run was killed, in bytes, by default: a disk
/// that turns reads it in two seconds. Each half of it costs two flushes of the device; not yet measured.
pub const CHECKPOINT: u64 = 256 << 20;

/// What to copy, where to, and how. Make one with [`new`](Self::new) and change what should differ.
#[derive(Clone, Debug)]
pub struct CopyJob {
    /// A directory, whose contents are copied, or a file.
    pub source: PathBuf,
    /// The directory they go to. Made if only its last component is missing.
    pub output: PathBuf,
    /// What is computed over the bytes; with [`Algorithm::None`] there is no manifest.
    pub algorithm: Algorithm,
    /// What is computed and listed besides.
    pub further: Algorithms,
    /// The forms of the lists beside the manifest.
    pub formats: Vec<ListFormat>,
    /// Sort the manifest and the lists beside it by path when the run ends.
    pub sorted: bool,
    /// How many small files are hashed together.
    pub backend: Backend,
    /// Whether the states of large files' digests are kept beside the manifest, so that checks are faster and
    /// can say where a file is damaged.
    pub states: States,
    /// What happens to files that are there already.
    pub policy: Policy,
    /// Which entries take part.
    pub filter: Filter,
    /// Only these names of the source, directories with all that is in them; the filter holds for them too.
    pub names: Option<NameList>,
    /// Files that are larger are left as they are at the output, or are not there; bytes.
    pub max_size: Option<u64>,
    /// Copy what symbolic links point to instead of the links.
    pub follow_links: bool,
    /// Copy symbolic links; without this they are told as skipped.
    pub links: bool,
    /// Make the further names of a file links to its copy instead of copies of their own.
    pub hard_links: bool,
    /// Make everything durable before it is recorded. Without this, a power cut soon after the run
    /// may leave files that are listed and not complete.
    pub sync: bool,
    /// Refuse a run for which the output has no room, before anything is touched.
    pub check_space: bool,
    /// A source in which there is nothing to copy is as good as any other; without this its disk may not be mounted,
    /// and the run ends with [`Ending::Nothing`](crate::copy::report::Ending::Nothing).
    pub allow_empty: bool,
    /// Refuse an output that does not lie on a file system of its own: with a mount point that is not `/`, and
    /// that shows it from its top.
    pub require_mount: bool,
    /// The output may be what the source is a copy of: without this such a run is refused, because the two may have
    /// been exchanged by mistake.
    pub restore: bool,
    /// What becomes of the beginning of a large file that a killed run left.
    pub resume: Resume,
    /// The most of a large file that is read again after a run was killed, and the size above which a
    /// file can be gone on with; bytes. Blocks on their way count, so much less than a hundred of them
    /// makes no sense.
    pub checkpoint: u64,
    /// Read back from the output's medium every file that is copied, before it gets its final name, and
    /// every file that is kept; this happens to copies that are not there as they were written. Needs
    /// `sync` and an algorithm.
    pub verify: Option<Damaged>,
    /// A manifest, of any program, of what the source should hold. Every listed file is read, also where
    /// it would be kept. One that has another digest although nothing says that it was edited has rotted:
    /// it is not copied, and what is at the output stays. Needs an algorithm, and goes with no dry run.
    pub expect: Option<PathBuf>,
    /// All is expected as that lists it: nothing counts as edited since, or as removed. So it is of a bag anyway.
    pub expect_all: bool,
    /// Whether copies share their data with the source. [`Reflink::Always`] needs [`Sparse::Auto`].
    pub reflink: Reflink,
    /// What becomes of files that have another name at the source than at the output.
    pub renamed: Renamed,
    /// What becomes of holes and zeros.
    pub sparse: Sparse,
    /// What becomes of the copy's pages in the system's cache.
    pub cache: Cache,
    /// Only tell what would happen.
    pub dry_run: bool,
    /// Read the source no faster than this; bytes in a second, for all workers together.
    pub limit_rate: Option<u64>,
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
    /// The output is a bag (BagIt 1.0), with the source as its payload.
    pub bag: Option<BagOptions>,
    /// Directories of the source on which another file system is mounted are not entered.
    pub one_file_system: bool,
    /// Workers; at least 1. Without a number as many as suit both devices.
    pub workers: Option<usize>,
    /// The output's directory where the run has it open already: what its path leads to meanwhile is of no weight.
    pub(crate) held: Option<Arc<Dir>>,
    /// The last generation, if this run makes one.
    pub(crate) last_generation: Option<HeldTree>,
    /// What the record lists and is gone was removed on purpose before the run.
    pub(crate) pruned: bool,
    /// What is at the output and is not proven gives way.
    pub(crate) prunes: bool,
    /// Which shard of a plan this run is, if it is one.
    pub(crate) shard: Option<ShardRole>,
    /// Whose payload this run copies, if it is one of a bag.
    pub(crate) payload: Option<PayloadRole>,
    /// What is known before a run that writes a Media Hash List, if it does.
    pub(crate) media: Option<Arc<MediaRole>>,
    /// Blocks of a worker; at least 1.
    pub queue_size: usize,
    /// Size of a block in bytes; at least 1. Memory is workers × blocks × this, and at most 2 MiB more for each
    /// thread that copies small files.
    pub block_size: usize,
}

/// What makes a run one of several at an output: it shares the lock, leaves the attributes of directories to the end of
/// the plan, keeps nothing for later runs, and its manifest is none of the output's.
#[derive(Clone, Debug)]
pub(crate) struct ShardRole {
    pub tag: ShardTag,
    /// Earlier attempts at the shard that are dead: what they left is removed.
    pub dead: Vec<ShardTag>,
    /// The directory that the manifest goes to.
    pub manifest: PathBuf,
}

impl CopyJob {
    /// A job with the defaults of the command line.
    pub fn new(source: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        Self {
            source: source.into(),
            output: output.into(),
            algorithm: Algorithm::default(),
            further: Algorithms::default(),
            formats: vec![ListFormat::Gnu],
            sorted: false,
            backend: Backend::best(),
            states: States::default(),
            policy: Policy::default(),
            filter: Filter::default(),
            names: None,
            max_size: None,
            follow_links: false,
            links: true,
            hard_links: false,
            sync: true,
            check_space: true,
            allow_empty: false,
            require_mount: false,
            restore: false,
            resume: Resume::default(),
            checkpoint: CHECKPOINT,
            verify: None,
            expect: None,
            expect_all: false,
            reflink: Reflink::default(),
            renamed: Renamed::default(),
            sparse: Sparse::default(),
            cache: Cache::default(),
            dry_run: false,
            limit_rate: None,
            wait: false,
            state: None,
            keep_manifests: None,
            mirror: None,
            generations: None,
            bag: None,
            one_file_system: false,
            workers: None,
            held: None,
            last_generation: None,
            pruned: false,
            prunes: false,
            shard: None,
            payload: None,
            media: None,
            queue_size: QUEUE_SIZE,
            block_size: BLOCK_SIZE,
        }
    }

    /// The most workers for files of every size, whatever the devices are.
    pub fn most_workers(&self) -> usize {
        most_full(self.workers)
    }

    /// The most that blocks take, whatever the devices are; bytes.
    pub fn most_memory(&self) -> u64 {
        let blocks = self.most_workers() as u64 * self.queue_size as u64;
        let threads = 2 * self.most_workers() + most_small(self.workers);
        blocks * self.block_size as u64 + threads as u64 * self.scratch()
    }

    /// What a thread that copies small files takes for their contents; bytes.
    pub(crate) fn scratch(&self) -> u64 {
        small::room(self.block_size, self.backend) as u64
    }

    /// Blocks of a worker where `outputs` outputs share their reading.
    pub(crate) fn blocks(&self, outputs: usize) -> usize {
        blocks_each(self.queue_size, outputs)
    }

    /// How large files are journaled: not where nothing is made durable, and where there is no digest
    /// to go on with.
    pub(crate) fn journaling(&self, secret: Option<Secret>) -> Option<Journaling> {
        let interval = self.checkpoint.max(self.block_size as u64);
        let verify = self.resume == Resume::Verify;
        let journaling = Journaling { interval, verify, secret: secret?.of_journals() };
        let is_noted =
            self.further.with(self.algorithm).can_go_on() && self.algorithm != Algorithm::None;
        (self.sync && is_noted && self.resume != Resume::Off).then_some(journaling)
    }

    /// Whether the chains of large files are kept.
    pub(crate) fn keeps_states(&self) -> bool {
        self.states == States::Auto && self.algorithm == Algorithm::Sha256
    }

    /// The lists beside the manifest.
    pub(crate) fn lists(&self) -> Vec<ListKind> {
        let algorithms = self.further.with(self.algorithm);
        let mut lists = match algorithms.is_empty() {
            true => Vec::new(),
            false => ListKind::all(algorithms, &self.formats),
        };
        lists.extend(self.media.as_ref().map(|media| ListKind::kept(media.algorithms)));
        lists
    }

    /// What is computed beside what is asked for: what is `expected`, and what a Media Hash List has.
    pub(crate) fn besides(&self, expected: Algorithms) -> Algorithms {
        let asked = self.further.with(self.algorithm);
        self.media.as_ref().map_or(expected, |media| expected.and(media.further(asked)))
    }

    /// The Media Hash List that is asked for, if one is.
    pub(crate) fn media_format(&self) -> Option<ListFormat> {
        self.formats.iter().copied().find(|format| format.is_mhl())
    }

    /// Which entries take part, and how they are told apart.
    pub(crate) fn classifier(&self) -> Classifier<'_> {
        Classifier {
            filter: &self.filter,
            follow: self.follow_links,
            links: self.links,
            hard_links: self.hard_links,
            one_file_system: self.one_file_system,
            block_size: self.block_size as u64,
        }
    }

    /// Refuses what a bag cannot be had with.
    fn check_bag(&self) -> Result<()> {
        let refuse = |why| Err(Error::finding("make a bag at", &self.output, why));
        if self.bag.is_none() {
            return Ok(());
        }
        if let Some(other) = no_algorithm_of_bags(self.further.with(self.algorithm)) {
            let why = format!(
                "the manifests of bags are of sha256, sha512, sha1 and md5; leave {} out of --hash",
                other.name()
            );
            return Err(Error::finding("make a bag at", &self.output, why));
        }
        match () {
            () if self.algorithm == Algorithm::None => {
                refuse("a bag has manifests; leave out --hash none")
            }
            () if self.generations.is_some() => {
                refuse("a bag is one tree; leave out --generations")
            }
            () if self.mirror.is_some() => {
                refuse("nothing leaves the payload of a bag; leave out --mirror")
            }
            () if self.formats != [ListFormat::Gnu] => {
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
            () if self.formats.iter().any(|other| other.is_mhl() && *other != form) => refuse(
                "one kind of it is written by a run; leave out --format mhl or --format mhl1",
            ),
            () if self.algorithm == Algorithm::None => {
                refuse("it has digests; leave out --hash none")
            }
            () if self.generations.is_some() => refuse(
                "it is of one tree, and each generation is another; leave out --generations, or the list",
            ),
            () if self.mirror.is_some() && form == ListFormat::History => refuse(
                "nothing leaves a history; leave out --mirror, or write a legacy list with --format mhl1",
            ),
            () if self.formats.iter().any(|other| other.is_near()) => refuse(
                "lists among the files would be new files to it; leave out --format dirs and --format sides",
            ),
            () => Ok(()),
        }
    }

    /// Refuses what lists among the files cannot be had with.
    fn check_near_lists(&self) -> Result<()> {
        if !self.formats.iter().any(|format| format.is_near()) {
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

    /// Refuses options that cannot be had together.
    pub(crate) fn check_options(&self) -> Result<()> {
        self.check_bag()?;
        self.check_media()?;
        self.check_near_lists()?;
        if self.lists().into_iter().any(ListKind::is_without_digests) {
            let why = "hashdeep knows MD5, SHA-1 and SHA-256 alone; add one of them to --hash, as in \
                       --hash sha512,md5, or leave out --format hashdeep";
            return Err(Error::finding("write a list of hashdeep for", &self.output, why));
        }
        if self.media_format().is_some() && self.hard_links {
            let why = "the further names of a file would be in the manifest alone; leave out \
                       --hard-links, or --format mhl";
            return Err(Error::finding("list everywhere the hard links of", &self.source, why));
        }
        Err(match self.verify.and_then(|_| unverifiable(self.sync, self.algorithm)) {
            Some(why) => Error::finding("verify the copy at", &self.output, why),
            _ if self.expect.is_some() && self.algorithm == Algorithm::None => {
                let why = "with --hash none there is no digest that could be compared with those \
                           expected; leave out --expect or --hash none";
                Error::finding("expect anything of", &self.source, why)
            }
            _ if self.expect.is_some() && self.dry_run => {
                let why = "a dry run reads no file; leave out --expect or --dry-run";
                Error::finding("expect anything of", &self.source, why)
            }
            _ if self.generations.is_some() => {
                let refuse = |why| Error::finding("make a generation in", &self.output, why);
                match () {
                    () if self.names.is_some() => {
                        refuse("a generation is of the whole source; leave out --files-from")
                    }
                    () if self.algorithm == Algorithm::None => {
                        refuse("each generation has a manifest; leave out --hash none")
                    }
                    () if self.state.is_some() => {
                        refuse("each generation has a private record of its own; leave out --state")
                    }
                    () if !self.sync => {
                        refuse("a generation is there when it is durable; leave out --no-sync")
                    }
                    () => return Ok(()),
                }
            }
            _ if self.names.is_some() && self.mirror.is_some() => {
                let why = "what a list does not name has not left the source; leave out --files-from or --mirror";
                Error::finding("mirror to", &self.output, why)
            }
            _ if self.algorithm == Algorithm::None
                && self.mirror.as_ref().is_some_and(|it| !it.all) =>
            {
                let why = "with --hash none there is no manifest that would tell the files of earlier runs from \
                           those of others; leave out --hash none, or give --mirror=all";
                Error::finding("mirror to", &self.output, why)
            }
            _ if self.reflink == Reflink::Always && self.sparse != Sparse::Auto => {
                let why = "a clone has the holes that its source has, no fewer and no more";
                Error::finding("clone to", &self.output, why)
            }
            _ => return Ok(()),
        })
    }
}
