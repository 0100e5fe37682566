//! A part file: the copy while it is not complete, under a name of its own.
//!
//! Where the final name is given at once and the file system allows it, it has no name at all until
//! then: a directory is changed once instead of three times (50,000 files of 4 KiB take 7 % less time on
//! tmpfs and 21 % less on ext4), and a killed run leaves nothing.
//!
//! Whatever goes wrong, nothing of it ever stands under the final name, and nothing is left behind.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::hash::Digest;
use crate::lane::context::{Context, Durability};
use crate::lane::outcome::Fate;
use crate::sys::{self, Attributes};
use crate::tree::node::{Entry, OutputDir};

/// Holes are looked for in stretches of the usual page and block size, in bytes; nothing smaller can be
/// a hole on the file systems in use.
const HOLE: usize = 4096;

/// A file being written at the output.
pub struct Part {
    output: Arc<OutputDir>,
    /// The name the copy is to have, for messages.
    name: OsString,
    /// The name it has meanwhile; `None` if it has none, or it is not ours to remove any more.
    part: Option<OsString>,
    /// `None` once it is complete and closed.
    file: Option<File>,
    /// Whether the content ends in a hole, so that the length must be set.
    open_end: bool,
}

impl Part {
    /// Makes an empty part file beside where `name` is to be. What `replaces` something needs a name
    /// to be renamed from.
    pub fn create(
        context: &Context<'_>,
        output: &Arc<OutputDir>,
        name: &OsStr,
        replaces: bool,
    ) -> Result<Self> {
        let create = || {
            let dir = output.handle.as_ref().ok_or(io::ErrorKind::NotFound)?;
            if context.nameless
                && !replaces
                && let Some(file) = dir.create_nameless()?
            {
                return Ok((file, None));
            }
            dir.create_part().map(|(file, part)| (file, Some(part)))
        };
        let (file, part) =
            create().map_err(|error| Error::io("create", output.path_of(name), error))?;
        let (output, name) = (Arc::clone(output), name.to_os_string());
        Ok(Self { output, name, part, file: Some(file), open_end: false })
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.open_end = false;
        self.with_file("write", |mut file| file.write_all(bytes))
    }

    /// Appends a hole of `len` bytes.
    pub fn skip(&mut self, len: u64) -> Result<()> {
        self.open_end = true;
        self.with_file("write", |mut file| {
            file.seek(SeekFrom::Current(i64::try_from(len).unwrap_or(i64::MAX))).map(drop)
        })
    }

    /// Appends bytes, leaving a hole for every aligned stretch of 4096 zero bytes.
    pub fn write_with_holes(&mut self, bytes: &[u8]) -> Result<()> {
        let is_zero = |chunk: &[u8]| chunk.iter().fold(0, |or, byte| or | byte) == 0;
        let mut rest = bytes;
        while let Some(first) = rest.chunks(HOLE).next() {
            let hole = is_zero(first);
            let alike = rest.chunks(HOLE).take_while(|chunk| is_zero(chunk) == hole).count();
            let (now, later) = rest.split_at(rest.len().min(alike * HOLE));
            if hole { self.skip(now.len() as u64) } else { self.write(now) }?;
            rest = later;
        }
        Ok(())
    }

    /// The content is complete: sets the attributes, makes the file durable where that is not the
    /// group's business, closes it, and publishes it where no group is waited for.
    pub fn finish(
        mut self,
        context: &Context<'_>,
        entry: &Entry,
        attributes: &Attributes,
        digest: Option<Digest>,
        replaces: bool,
        warnings: &mut Vec<Error>,
    ) -> Fate {
        let done = self.complete(context, entry, attributes, warnings).and_then(|()| {
            match (&self.part, context.durability) {
                (None, _) => self.publish_nameless(),
                (Some(_), Durability::Grouped { .. }) => self.close(),
                (Some(part), Durability::Off) => {
                    let part = part.clone();
                    self.close()?;
                    publish(&self.output, &part, &self.name, replaces)
                }
            }
        });
        match (done, context.durability, self.part.take()) {
            (Err(error), _, part) => {
                self.part = part;
                Fate::Failed(self.discard(error))
            }
            (Ok(()), Durability::Grouped { .. }, Some(part)) => {
                Fate::Written { part, digest, replaces }
            }
            (Ok(()), _, _) => Fate::Published { digest, replaced: replaces },
        }
    }

    /// Removes the part file because of `error`, which is returned, with a word about the part file
    /// if even that fails.
    pub fn discard(mut self, error: Error) -> Error {
        self.file = None;
        match self.part.take() {
            Some(part) => discard(&self.output, &part, error),
            None => error,
        }
    }

    fn complete(
        &mut self,
        context: &Context<'_>,
        entry: &Entry,
        attributes: &Attributes,
        warnings: &mut Vec<Error>,
    ) -> Result<()> {
        if self.open_end {
            self.with_file("set the length of", |file| {
                let end = (&mut &*file).stream_position()?;
                file.set_len(end)
            })?;
        }
        let path = || self.output.path_of(&self.name);
        if let Some(file) = &self.file {
            attributes.apply_to_new(file, &entry.stat, self.output.gid, |deed, error| {
                warnings.push(Error::io(deed, path(), error));
            });
        }
        if let Durability::Grouped { at_once } = context.durability
            && !(at_once && self.output.with_root)
        {
            self.with_file("make durable", sys::persist_file)?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        match self.file.take().map(sys::close_file) {
            Some(Err(error)) => Err(Error::io("close", self.output.path_of(&self.name), error)),
            _ => Ok(()),
        }
    }

    /// Gives a file without a name its final one.
    fn publish_nameless(&mut self) -> Result<()> {
        if let (Some(dir), Some(file)) = (&self.output.handle, &self.file) {
            dir.publish_nameless(file, &self.name)
                .map_err(|error| cannot_publish(&self.output, &self.name, error))?;
        }
        // What a file system says only now makes the file doubtful, and it has its name by now.
        self.close().map_err(|error| discard(&self.output, &self.name, error))
    }

    fn with_file(
        &self,
        deed: &'static str,
        act: impl FnOnce(&File) -> io::Result<()>,
    ) -> Result<()> {
        match &self.file {
            Some(file) => act(file),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
        .map_err(|error| Error::io(deed, self.output.path_of(&self.name), error))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Only reached with the file unfinished when a thread is unwinding: the ordinary ways out
        // are `finish` and `discard`, which report.
        if let (Some(part), Some(dir)) = (self.part.take(), &self.output.handle) {
            let _ = dir.remove(&part);
        }
    }
}

/// Gives a part file its final name.
pub fn publish(output: &OutputDir, part: &OsStr, name: &OsStr, replaces: bool) -> Result<()> {
    let publish = match &output.handle {
        Some(dir) => dir.publish(part, name, replaces),
        None => Err(io::ErrorKind::NotFound.into()),
    };
    publish.map_err(|error| cannot_publish(output, name, error))
}

fn cannot_publish(output: &OutputDir, name: &OsStr, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => Error::finding(
            "publish",
            output.path_of(name),
            if output.fresh {
                "the output already has this name, perhaps in other letter case"
            } else {
                "something of this name appeared at the output meanwhile"
            },
        ),
        _ => Error::io("publish", output.path_of(name), error),
    }
}

/// Removes a part file because of `error`, which is returned.
pub fn discard(output: &OutputDir, part: &OsStr, error: Error) -> Error {
    let removed = match &output.handle {
        Some(dir) => dir.remove(part),
        None => Ok(()),
    };
    match removed {
        Ok(()) => error,
        Err(stays) if stays.kind() == io::ErrorKind::NotFound => error,
        Err(stays) => error.with_note(format!(
            "; and its part file {} stays behind: {stays}",
            crate::path::Shown::path(&output.path_of(part))
        )),
    }
}
