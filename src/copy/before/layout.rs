//! Refusing an output that is more than a tree, where no such thing was asked for: what comes to lie beside the payload
//! of a bag is no part of it, what lies beside generations is in none of them, and a generation stays as it was made.

use std::{io::Read, path::Path};

use crate::{
    copy::CopyJob, copy::GenerationSet, copy::generations::newest::latest,
    copy::generations::set::path_of, error::Error, error::Result,
    manifest::archive::bag::DECLARATION, manifest::archive::bag::PAYLOAD, path::Shown,
    path::directory_of, state::DatedName, state::GenerationNote, sys, sys::Dir, sys::PlainUse,
};

impl CopyJob {
    /// Refuses an output that is a bag, holds generations or lies in one, unless the job is for that.
    ///
    /// # Errors
    /// It is, or it cannot be read.
    pub(crate) fn refuse_other_layout(&self) -> Result<()> {
        if self.payload.is_some() || self.held.is_some() {
            return Ok(());
        }
        self.refuse_in_generation()?;
        match (&self.bag, &self.generations) {
            (None, None) => self.refuse_bag().and_then(|()| self.refuse_generations()),
            (None, Some(_)) => self.refuse_bag(),
            (Some(_), _) => Ok(()),
        }
    }

    fn refuse(&self, finding: String) -> Result<()> {
        Err(Error::finding("copy to", &self.output, finding))
    }

    /// A source that has a declaration itself is copied with it, as any tree.
    fn refuse_bag(&self) -> Result<()> {
        let path = self.output.join(DECLARATION);
        let is_of_source = self.source.join(DECLARATION).symlink_metadata().is_ok();
        if is_of_source || !path.is_file() {
            return Ok(());
        }
        let mut begin = [0; 64];
        let read = sys::open_plain(&path, PlainUse::Read)
            .and_then(|file| sys::uninterrupted(|| (&file).read(&mut begin)));
        let read = read.map_err(|error| Error::io("read", &path, error))?;
        let begin = String::from_utf8_lossy(&begin[..read]);
        if !begin.trim_start_matches('\u{feff}').trim_start().starts_with("BagIt-Version") {
            return Ok(());
        }
        let payload = Shown::path(&self.output.join(PAYLOAD)).to_string();
        self.refuse(format!(
            "it is a bag, and what lies beside its payload is no part of it; --bag brings the bag up to date, and \
             {payload} as the output copies into its payload, which its lists do not know of then"
        ))
    }

    /// A source that has generations itself is copied with them, as any tree.
    fn refuse_generations(&self) -> Result<()> {
        let Ok(root) = Dir::open(&self.output) else { return Ok(()) };
        let is_of_source = Dir::open(&self.source).is_ok_and(|source| latest(&source).is_some());
        if is_of_source || latest(&root).is_none() {
            return Ok(());
        }
        let set = GenerationSet::read(&root, &self.output)?;
        if set.complete.is_empty() && set.misnamed.is_empty() && set.misplaced.is_empty() {
            return Ok(());
        }
        let finding = "generations are there, and what lies beside them is in none; --generations makes the next one, \
                       and a plain copy wants a directory of its own";
        self.refuse(finding.into())
    }

    fn refuse_in_generation(&self) -> Result<()> {
        let place =
            self.output.canonicalize().or_else(|_| directory_of(&self.output).canonicalize());
        let Ok(place) = place else { return Ok(()) };
        let is_generation = |dir: &&Path| {
            let name = dir.file_name().and_then(|name| name.to_str()).and_then(DatedName::parse);
            let (Some(name), Some(all)) = (name, dir.parent()) else { return false };
            GenerationNote::at(&path_of(all, name)).is_some()
        };
        match place.ancestors().find(is_generation) {
            None => Ok(()),
            Some(dir) => self.refuse(format!(
                "it is in the generation {}, which stays as it was made; --generations with {} makes the next one",
                Shown::path(dir),
                Shown::path(dir.parent().unwrap_or(dir))
            )),
        }
    }
}
