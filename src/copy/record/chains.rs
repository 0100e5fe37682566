//! The chains of a run: where its side file stands, and what earlier ones hold.

use std::ffi::OsStr;
use std::io;

use crate::chain::side_file::{MOST_RECORDS, SideFile};
use crate::chain::states::StatesFile;
use crate::copy::commit::committer::Committer;
use crate::copy::job::CopyJob;
use crate::error::Error;
use crate::hash::Digest;
use crate::io::options::Durability;
use crate::manifest::ManifestName;
use crate::manifest::carry::ours;
use crate::manifest::readers::Readers;
use crate::sys::Dir;
use crate::tree::dirs::OutputDir;

/// So many finished manifests are looked at for one with a side file.
const MOST_LOOKED_AT: usize = 16;

/// Makes ready the side file of the run whose manifest has this name, in the root of the output; that of a shard beside
/// its manifest. What the last generation has is taken over too.
///
/// # Errors
/// The directory cannot be opened once more.
pub fn begin(
    states: &StatesFile,
    job: &CopyJob,
    root: &Dir,
    name: ManifestName,
    is_to_stop: &dyn Fn() -> bool,
) -> io::Result<()> {
    let place = match &job.shard {
        Some(role) => Dir::open(&role.manifest)?,
        None => root.try_clone()?,
    };
    let last = job.last_generation.as_ref().map(|last| &*last.dir);
    let of_both = [Some(&place), last].into_iter().flatten();
    let earlier = of_both.flat_map(|root| earlier(root, is_to_stop)).collect();
    states.begin(place, name.unfinished().states().into(), earlier);
    Ok(())
}

/// The newest finished side file, and those of runs that were cut short since, the newest first. They need
/// not be believed, so it is of no weight whose they are; but of planted ones there may be any number, and each that is
/// taken is held open.
fn earlier(root: &Dir, is_to_stop: &dyn Fn() -> bool) -> Vec<SideFile> {
    let names = ours(root, |_| false, None).unwrap_or_default();
    let (mut earlier, mut finished, mut left) = (Vec::new(), 0, MOST_RECORDS);
    for name in names {
        if finished == MOST_LOOKED_AT || earlier.len() == MOST_LOOKED_AT {
            break;
        }
        finished += usize::from(name.is_finished());
        // One that cannot be read is as good as none. That of a run that was cut short may have its final
        // name already.
        let states = [name.finished().states(), name.states()];
        let opened = |states: &String| {
            SideFile::open_in(root, states.as_ref(), left, is_to_stop).ok().flatten()
        };
        if let Some(side) = states.iter().find_map(opened) {
            left -= side.len();
            earlier.push(side);
            if name.is_finished() {
                break;
            }
        }
    }
    earlier
}

impl Committer<'_> {
    /// A file stays as it is: what is known of its chain is taken over.
    pub(crate) fn carry_chain(&self, output: &OutputDir, name: &OsStr, size: u64, digest: &Digest) {
        if let Some(states) = self.context.shared.states.filter(|states| states.wants(size)) {
            states.carry(output.rel.join(name).as_bytes(), size, digest);
        }
    }

    /// The manifest of this name is about to be complete: so is its side file. One that cannot be written costs
    /// later checks time, and is a warning.
    pub(crate) fn publish_states(&mut self, name: ManifestName, readers: Readers) {
        let Some(states) = self.context.shared.states else { return };
        let name = name.finished().states();
        let durable = self.context.options.durability != Durability::Off;
        if let Err(error) =
            states.publish(name.as_ref(), durable, false, |group| readers.mode(group))
        {
            let path = self.root().path_of(name.as_ref());
            let error = Error::io("write the states of large files to", path, error);
            self.accounting.warn(&error.with_note("; checks of these take longer"));
        }
    }
}
