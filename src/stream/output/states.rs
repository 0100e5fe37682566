//! The side file of a manifest of a stream: the chain of what came, if that is long enough to have one.
//!
//! It is written just before its manifest. Nothing in it need be believed, so one that cannot be written is a
//! warning, and whatever else has its name stays.

use crate::chain::side_file::SideFile;
use crate::chain::states::side_file_of;
use crate::error::{Error, Result};
use crate::manifest::states_name;
use crate::stream::outcome::StreamContent;
use crate::stream::output::atomic_file::{AtomicFile, Completion};
use crate::stream::output::place::{FilePlace, OutputPlace};
use crate::sys::stat::Kind;
use crate::transfer::context::Context;
use crate::tree::overwrite::Policy;

/// What is to be done; completes "cannot …".
const DEED: &str = "write the states of large files to";

/// Where a side file goes, or why it cannot be written.
pub struct StreamStates(Result<FilePlace>);

impl StreamStates {
    /// That of the manifest at this place. What is there already gives way by the policy, if it is a side file.
    pub fn of(manifest: &FilePlace, policy: Policy) -> Self {
        Self(find(manifest, policy))
    }

    /// The place, if there is one.
    pub fn place(&self) -> Option<&FilePlace> {
        self.0.as_ref().ok()
    }

    /// Its place is that of one of these: then it is not written.
    pub fn give_way<'p>(&mut self, mut others: impl Iterator<Item = &'p FilePlace>) {
        if let Ok(place) = &self.0
            && others.any(|other| other.is_same(place))
        {
            self.0 = Err(Error::finding(DEED, place.path(), "this is an output"));
        }
    }

    /// Writes it, if there is anything to write; `path` is what a reader is told of whose states they are.
    pub fn write(
        self,
        context: &Context<'_>,
        path: &[u8],
        content: &StreamContent,
        warnings: &mut Vec<Error>,
    ) {
        let StreamContent { digests, size, chain } = content;
        let of_chain = |chain| side_file_of(path, *size, &digests.proof, chain);
        let side_file = chain.as_ref().and_then(of_chain);
        let Some(bytes) = side_file else { return };
        let mut stays = Vec::new();
        if let Err(error) = self.0.and_then(|place| write(context, place, &bytes, &mut stays)) {
            warnings.push(error.with_note("; checks take longer"));
        }
        warnings.append(&mut stays);
    }
}

fn find(manifest: &FilePlace, policy: Policy) -> Result<FilePlace> {
    let path = manifest.path();
    let name = states_name(&path);
    let name = name.ok_or_else(|| Error::finding(DEED, &path, "it has no name"))?;
    let path = path.with_file_name(&name);
    match manifest.sibling(name, policy)? {
        OutputPlace::File(place) if place.there.is_none() || is_side_file(&place) => Ok(place),
        OutputPlace::Left(why) | OutputPlace::Refused(why) => Err(Error::finding(DEED, path, why)),
        OutputPlace::Failed(error) => Err(error),
        OutputPlace::File(_) | OutputPlace::Open(_) => {
            Err(Error::finding(DEED, path, "what has this name is no side file"))
        }
    }
}

fn is_side_file(place: &FilePlace) -> bool {
    let (Some(dir), Some(there)) = (&place.dir.handle, &place.there) else { return false };
    there.kind == Kind::File
        && dir.open_file(&place.name, false).is_ok_and(|file| SideFile::is_one(&file))
}

fn write(
    context: &Context<'_>,
    place: FilePlace,
    bytes: &[u8],
    warnings: &mut Vec<Error>,
) -> Result<()> {
    let path = place.path();
    let mut file = AtomicFile::begin(context, place)?;
    if let Err(error) = file.write(bytes) {
        return Err(file.discard(error));
    }
    match file.finish(None, || Ok(()), warnings)? {
        Completion::Stands(_) => Ok(()),
        Completion::Unproven(error) => Err(error),
        Completion::Stopped => Err(Error::finding(DEED, path, "interrupted")),
    }
}
