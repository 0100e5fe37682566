//! What a run is set up with, by its job and both sides: its walk, its workers, and how it makes things durable.

use std::sync::Arc;

use crate::copy::before::prepare::Prepared;
use crate::copy::job::CopyJob;
use crate::copy::run::means::Means;
use crate::copy::run::workers::WorkerCount;
use crate::hash::multibuffer::Backend;
use crate::io::options::{Durability, Options};
use crate::state::knowledge::Knowledge;
use crate::sys::{self, Dir};
use crate::tree::cleanup::Cleanup;
use crate::tree::dirs::OutputDir;
use crate::tree::walk::{Walk, most_levels};

impl CopyJob {
    /// The walk, which makes nothing if it is `dry`, of one of so many `outputs`.
    pub(crate) fn walk<'a>(
        &'a self,
        prepared: &Prepared,
        dry: bool,
        known: Option<&'a Knowledge>,
        outputs: usize,
    ) -> Walk<'a> {
        Walk {
            classifier: self.classifier(),
            dry,
            cleanup: match (&self.shard, prepared.secret) {
                (Some(shard), _) => Cleanup::OfAttempts(&shard.dead),
                (None, secret) if self.pruned && !dry => Cleanup::OfTree(secret),
                (None, Some(secret)) if prepared.is_ours_alone => Cleanup::OfRuns(secret),
                (None, None) if !dry => Cleanup::Unknown,
                (None, _) => Cleanup::Nothing,
            },
            resumable: self.journaling(prepared.secret).map(|journaling| journaling.interval),
            chains: self.durability(&prepared.output) == Durability::Grouped { at_once: false },
            known,
            source_root: prepared.source_id,
            output_root: prepared.output_id,
            names: self.names.as_ref(),
            leaves_dirs: self.shard.is_some(),
            is_ours_alone: self.pruned,
            gate: None,
            live: Arc::default(),
            names_met: None,
            most_levels: most_levels(sys::open_file_limit() / outputs as u64),
        }
    }

    /// What transfers of one of so many `outputs` go by.
    pub(crate) fn options(&self, prepared: &Prepared, outputs: usize) -> Options {
        let output = prepared.output.handle.as_ref();
        let parts = prepared.output.volume.parts;
        Options {
            algorithm: self.algorithm,
            further: self.further,
            backend: self.backend,
            block_size: self.block_size.max(1),
            blocks: self.blocks(outputs),
            follow: self.follows(prepared),
            max_size: self.max_size,
            policy: self.policy,
            durability: self.durability(&prepared.output),
            verify: self.verify,
            nameless: !self.sync && output.is_some_and(|dir| dir.can_publish_nameless(parts)),
            journaling: self.journaling(prepared.secret).filter(|_| prepared.is_ours_alone),
            reflink: self.reflink,
            sparse: self.sparse,
            cache: self.cache,
            sorted: self.sorted,
            pruned: self.pruned,
            prunes: self.prunes,
            asks_change_time: self.mirror.is_some(),
            histories: self.media.as_ref().is_some_and(|it| it.histories.is_some()),
        }
    }

    /// Whether a symbolic link in the source stands for what it points to. A source that is one file may be named
    /// through a link.
    pub(crate) fn follows(&self, prepared: &Prepared) -> bool {
        self.follow_links || prepared.file.is_some()
    }

    /// How what is copied to `output` is made durable.
    pub(crate) fn durability(&self, output: &OutputDir) -> Durability {
        let at_once = output.handle.as_ref().is_some_and(Dir::can_persist_all);
        if self.sync { Durability::Grouped { at_once } } else { Durability::Off }
    }

    /// How many workers suit both sides and what the process may take, if outputs share the reading or not.
    pub(crate) fn workers_for(
        &self,
        prepared: &Prepared,
        shared: bool,
        outputs: usize,
    ) -> WorkerCount {
        let Prepared { source, output, .. } = prepared;
        let (source, output) = (&source.handle, output.handle.as_ref());
        let pairs = self.backend.suiting(2) != Backend::One;
        let count = WorkerCount::suiting(self.workers, source, output, shared, pairs);
        Means::of_one(outputs).suiting(self, count)
    }
}
