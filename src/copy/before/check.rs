//! Looking at a job before it is run.

use jiff::Timestamp;

use crate::copy::bag::options::PayloadRole;
use crate::copy::bag::place::BagRoot;
use crate::copy::before::prepare::{Demands, Prepared, open_source, prepare};
use crate::copy::job::CopyJob;
use crate::error::{Error, Result};
use crate::event::Stop;
use crate::hash::Algorithm;
use crate::io::options::Reflink;
use crate::manifest::ManifestName;
use crate::state::private_dir::{Missing, PrivateDir, PrivatePlace};
use crate::transfer::baseline::Baseline;
use crate::tree::lock::Patience;
use crate::volume::output_volume::UntriedNames;

impl CopyJob {
    /// Looks whether the job would be refused for what it asks, its source or its output, and makes
    /// nothing. Whether there is room is not looked at: that takes a walk.
    ///
    /// # Errors
    /// Why the job would be refused.
    pub fn check(&self) -> Result<()> {
        self.check_options()?;
        let stop = Stop::default();
        let patience = Patience { wait: false, deed: "copy to", tell: &|_| (), stop: &stop };
        let expected = self
            .expect
            .as_deref()
            .map(|path| Baseline::open(path, &self.source, self.expect_all, &|| false));
        expected.transpose()?;
        if self.bag.is_some() {
            BagRoot::find(self, self.further.with(self.algorithm))?;
        }
        self.prepare(true, patience).map(drop)
    }

    /// Where the output's private directory is.
    pub(crate) fn private_place(&self) -> PrivatePlace<'_> {
        match (&self.payload, &self.state) {
            (Some(PayloadRole { private: Some(private), .. }), _) => PrivatePlace::Within(private),
            (Some(_), _) => PrivatePlace::Nowhere,
            (None, Some(state)) => PrivatePlace::Among(state),
            (None, None) => PrivatePlace::InOutput,
        }
    }

    /// Whether a run of this user was at the output, which is opened, before.
    pub(crate) fn has_private_dir(&self, prepared: &Prepared) -> bool {
        let root = prepared.output.handle.as_ref();
        root.is_some_and(|root| {
            let place = self.private_place();
            let opened = PrivateDir::open_at(root, &self.output, place, Missing::Leave);
            matches!(opened, Ok(Some(_)))
        })
    }

    /// Opens both sides; makes nothing if it is `dry`.
    pub(crate) fn prepare(&self, dry: bool, patience: Patience<'_>) -> Result<Prepared> {
        let demands = Demands {
            must_clone: self.reflink == Reflink::Always,
            must_be_mounted: self.require_mount,
            restore: self.restore,
            longest_name: match (self.algorithm, &self.payload) {
                (Algorithm::None, _) | (_, Some(_)) => 0,
                (algorithm, None) => {
                    ManifestName::new(Timestamp::now()).of(algorithm).unfinished().to_string().len()
                }
            },
            held: self.held.as_deref(),
            dry,
            durable: self.sync,
            // A look at the room before a run counts what the run finds out.
            names: if self.dry_run { UntriedNames::Doubtful } else { UntriedNames::Held },
            shard: self.shard.as_ref().map(|shard| shard.tag),
            private: self.private_place(),
            must_be_private: self.mirror.is_some(),
        };
        if self.names.is_some() && open_source(&self.source)?.1.is_some() {
            let finding = "it is a file, and names below a directory were asked for";
            return Err(Error::finding("copy names of", &self.source, finding));
        }
        let prepared = prepare(&self.source, &self.output, demands, patience)?;
        if let Some(payload) = &self.payload
            && prepared.output_id != Some(payload.id)
        {
            let finding = "it is not the directory that the bag has; was it replaced meanwhile?";
            return Err(Error::finding("copy to", &self.output, finding));
        }
        Ok(prepared)
    }
}
