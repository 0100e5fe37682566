//! Reading a large file together with other outputs, and what is left of it where that ends.

use crossbeam_channel::bounded;

use crate::error::Error;
use crate::fanout::hub::{Own, Taking};
use crate::io::options::Cache;
use crate::io::watched_file::WatchedFile;
use crate::pipeline::message::{Cut, LargeFile, Step};
use crate::pipeline::reader::{Ended, Reader};
use crate::sys::CachePolicy;

/// Where the content of a file is read.
#[derive(Clone, Copy)]
pub enum Where<'a> {
    /// In an open file that is this lane's alone.
    Own(&'a WatchedFile<'a>),
    /// Together with other outputs.
    Shared(&'a Taking<'a>, &'a Own<'a>),
}

impl<'a> Where<'a> {
    /// The file, to be looked at.
    pub fn file(self) -> &'a WatchedFile<'a> {
        match self {
            Where::Own(file) => file,
            Where::Shared(_, own) => own.file,
        }
    }
}

impl Reader<'_> {
    /// Reads and sends the whole content with others; what cannot be had so, from a copy that another
    /// output has finished, and what there is no copy of, from the source.
    pub(crate) fn read_shared<'r>(
        &'r self,
        large: &LargeFile,
        file: &mut WatchedFile<'r>,
        taking: &Taking<'_>,
        sparing: CachePolicy,
        total: &mut u64,
    ) -> Result<(), Ended> {
        let LargeFile { source, entry, .. } = large;
        let own = Own {
            file,
            dir: source,
            entry,
            sparing,
            follow: self.context.options.follow,
            control: self.context.control,
        };
        if self.read(large, Where::Shared(taking, &own), total)? {
            return Ok(());
        }
        self.go_on_unless_stopped(large)?;
        if self.read_copy(large, taking, total)? {
            return Ok(file.check(*total)?);
        }
        taking.goes_alone();
        file.spare_cache(sparing, &self.context.control.resident.source);
        self.seek(file, *total)?;
        self.read(large, Where::Own(file), total).map(drop)
    }

    /// Reads and sends the rest of the content from a copy that another output has finished; false if
    /// there is none.
    fn read_copy(
        &self,
        large: &LargeFile,
        taking: &Taking<'_>,
        total: &mut u64,
    ) -> Result<bool, Ended> {
        let (context, LargeFile { source, entry, .. }) = (self.context, large);
        let Some(copy) = taking.copy(source, entry, context.control.stop) else { return Ok(false) };
        let (dir, digest, start) = (copy.dir(), copy.digest, *total);
        let path = || dir.join(&*entry.name);
        let mut file = WatchedFile::of(copy.file, copy.stat, &path);
        if context.options.cache == Cache::Drop {
            file.spare_cache(CachePolicy::of(file.file()), &context.control.resident.source);
        }
        self.seek(&file, start)?;
        let read = self.read(large, Where::Own(&file), total);
        let doubt = match read {
            Ok(_) => {
                let (answer, is_same) = bounded(1);
                self.send(Step::Compare(digest, answer))?;
                match is_same.recv() {
                    Ok(true) => {
                        taking.copied(*total - start);
                        return Ok(true);
                    }
                    Ok(false) => Error::finding("copy", path(), "it is not what was written there"),
                    Err(_) => return Err(Ended::Gone),
                }
            }
            Err(Ended::Cut(Cut::Failed(error))) => error,
            Err(ended) => return Err(ended),
        };
        // What came from there may be anything.
        taking.distrust();
        Err(Ended::Doubtful(doubt))
    }
}
