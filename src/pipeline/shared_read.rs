//! Reading a large file together with other outputs, and what is left of it where that ends.

use crate::fanout::origin::OwnOrigin;
use crate::fanout::subscription::Subscription;
use crate::io::watched_file::WatchedFile;
use crate::pipeline::message::LargeFile;
use crate::pipeline::reader::{Ended, Reader};
use crate::sys::CachePolicy;

/// Where the content of a file is read.
#[derive(Clone, Copy)]
pub enum Where<'a> {
    /// In an open file that is this lane's alone.
    Own(&'a WatchedFile<'a>),
    /// Together with other outputs.
    Shared(&'a Subscription<'a>, &'a OwnOrigin<'a>),
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
    /// Reads and sends the whole content together with other outputs, and from where that ends by
    /// itself.
    pub(crate) fn read_shared<'r>(
        &'r self,
        large: &LargeFile,
        file: &mut WatchedFile<'r>,
        subscription: &Subscription<'_>,
        sparing: CachePolicy,
        total: &mut u64,
    ) -> Result<(), Ended> {
        let LargeFile { source, entry, .. } = large;
        let own = OwnOrigin {
            file,
            dir: source,
            entry,
            sparing,
            follow: self.context.options.follow,
            control: self.context.control,
        };
        if self.read(large, Where::Shared(subscription, &own), total)? {
            return Ok(());
        }
        self.go_on_unless_stopped(large)?;
        subscription.count_alone();
        file.spare_cache(sparing, &self.context.control.resident.source);
        self.seek(file, *total)?;
        self.read(large, Where::Own(file), total).map(drop)
    }
}
