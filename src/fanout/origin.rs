//! A file of the source that is read for several outputs: the first output to need a chunk reads it.

use crate::error::Result;
use crate::io::block::Block;
use crate::io::control::Control;
use crate::io::watched_file::{PausedFile, WatchedFile};
use crate::sys::CachePolicy;
use crate::tree::dirs::SourceDir;
use crate::tree::found::SourceEntry;

/// The file as it is open for all outputs, between two that read on in it.
#[derive(Default)]
pub enum SharedOrigin {
    #[default]
    Closed,
    /// It was read up to this position; bytes.
    Open(PausedFile, u64),
    /// An output is reading it, or it was read to its end, or cannot be read.
    Gone,
}

/// The file as one output has it open for itself, and what it takes to open it for all.
pub struct OwnOrigin<'a> {
    /// The output's own handle, from which nothing was read so far.
    pub file: &'a WatchedFile<'a>,
    /// The directory it is in.
    pub dir: &'a SourceDir,
    /// What it was when it was listed.
    pub entry: &'a SourceEntry,
    /// How its pages in the system's cache are spared.
    pub sparing: CachePolicy,
    /// Whether a symbolic link stands for what it points to.
    pub follow: bool,
    /// How fast it may be read, and where that is counted.
    pub control: Control<'a>,
}

impl SharedOrigin {
    /// Fills `block` with the content from `at` on; whether that was possible. If not, the file is no
    /// longer shared: each output goes on with its own handle, and meets the cause there.
    pub fn fill(&mut self, block: &mut Block, at: u64, own: &OwnOrigin<'_>) -> bool {
        let size = own.entry.stat.size;
        // A file that is read at once needs no handle for another output to read on.
        if at == 0 && block.room().len() as u64 >= size {
            return fill(block, own.file);
        }
        let path = || own.dir.path_of(&own.entry.name);
        let control = &own.control;
        // If this does not come to its end, for whatever reason, no output reads on.
        let (file, position) = match std::mem::replace(self, SharedOrigin::Gone) {
            SharedOrigin::Closed => match own.open(&path) {
                Ok(file) => (file, 0),
                Err(_) => return false,
            },
            SharedOrigin::Open(file, position) => {
                let sum = &control.resident.source;
                let file = WatchedFile::resume(file, own.entry.stat, &path, sum);
                (file.at_rate(control.rate, control.stop), position)
            }
            SharedOrigin::Gone => return false,
        };
        if position != at && file.seek(at).is_err() {
            return false;
        }
        if !fill(block, &file) {
            return false;
        }
        let end = at + block.len() as u64;
        match end >= size {
            true => file.close(),
            false => *self = SharedOrigin::Open(file.pause(), end),
        }
        true
    }
}

impl<'a> OwnOrigin<'a> {
    /// Opens the file once more, for all outputs.
    fn open<'p>(&self, path: &'p dyn Fn() -> std::path::PathBuf) -> Result<WatchedFile<'p>>
    where
        'a: 'p,
    {
        let Self { dir, entry: SourceEntry { name, stat }, sparing, follow, control, .. } = *self;
        let mut file = WatchedFile::open(&dir.handle, name, follow, stat, path)?;
        // Each output looks at its own handle in the end, so this one must be of the same file.
        file.is_still(stat)?;
        file.spare_cache(sparing, &control.resident.source);
        Ok(file.at_rate(control.rate, control.stop))
    }
}

/// Fills a block with what comes next; whether there was enough.
fn fill(block: &mut Block, file: &WatchedFile<'_>) -> bool {
    while !block.room().is_empty() {
        match file.read(block.room()) {
            Ok(0) | Err(_) => return false,
            Ok(read) => block.fill(read),
        }
    }
    true
}
