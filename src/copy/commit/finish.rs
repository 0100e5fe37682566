//! The end of a run: what is carried over, the manifest's final name, the root's attributes.

use std::path::PathBuf;
use std::sync::Arc;

use crate::copy::commit::carry_over::carry_over;
use crate::copy::commit::committer::Committer;
use crate::error::{Error, Result};
use crate::io::options::Durability;
use crate::manifest::write::ManifestFile;

impl Committer<'_> {
    /// The walk and every lane came to their end: carries over the lines of files that are no
    /// longer in the source, and publishes the manifest. Returns its path.
    pub fn finish(&mut self) -> Option<PathBuf> {
        self.check_place();
        let cut_short = self.is_cut_short();
        if let (Some(carry), Some(root), Some(manifest), false) =
            (self.context.shared.reused, &self.root.handle, &mut self.manifest, cut_short)
        {
            match carry_over(carry, root, manifest, self.context.control.stop) {
                Ok(carried) => self.ledger.counts.carried = carried,
                Err(error) => self.ledger.give_up(error),
            }
        }
        let durable = self.context.options.durability != Durability::Off;
        let synced = self.sync_root();
        let manifest = self.manifest.take();
        let unfinished = manifest.as_ref().map(ManifestFile::path);
        let published = synced.and_then(|()| match manifest {
            // Left as it is: a run that did not end must not look as if it had.
            Some(manifest) if self.is_cut_short() => {
                if durable { manifest.persist() } else { Ok(()) }.map(|()| None)
            }
            Some(manifest) => manifest.publish(durable).map(Some),
            None => Ok(None),
        });
        let manifest = match published {
            Ok(Some(path)) => {
                self.remove_superseded();
                self.ledger.rotate(&path);
                Some(path)
            }
            Ok(None) => unfinished,
            Err(error) => {
                self.ledger.give_up(error);
                unfinished
            }
        };
        // Only now: the root may be to be read-only, and publishing changes its time.
        let root = Arc::clone(&self.root);
        self.finish_directory(&root);
        if durable
            && root.finish.is_some()
            && let Err(error) = root.persist()
        {
            self.ledger.give_up(Error::io("make durable", root.path(), error));
        }
        manifest
    }

    /// What runs that were cut short have recorded is in the manifest now.
    fn remove_superseded(&mut self) {
        let (Some(carry), Some(root)) = (self.context.shared.reused, &self.root.handle) else {
            return;
        };
        for name in carry.unfinished() {
            let name = name.to_string();
            if let Err(error) = root.remove(name.as_ref()) {
                let path = self.root.path_of(name.as_ref());
                self.ledger.warn(&Error::io("remove the unfinished manifest", path, error));
            }
        }
    }

    /// Everything that was done since the last sync, directories' times among it, made durable.
    fn sync_root(&self) -> Result<()> {
        match (self.context.options.durability, &self.root.handle) {
            (Durability::Grouped { at_once: true }, Some(root)) => root
                .persist_all()
                .map_err(|error| Error::io("make durable", self.root.path(), error)),
            _ => Ok(()),
        }
    }
}
