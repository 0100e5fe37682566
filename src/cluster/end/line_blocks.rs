//! The lines of a manifest on their way to it: a thread writes some while the next ones are made.

use std::thread::{Builder, Scope, ScopedJoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::error::Result;
use crate::manifest::writer::ManifestFile;

/// So many bytes of lines are handed on at a time.
const BLOCK: usize = 1 << 20;

/// So many blocks wait to be written.
const WAITING: usize = 2;

/// Lines that are being made.
#[derive(Default)]
pub struct LineBlocks {
    pub text: Vec<u8>,
    /// The thread could not write, or is gone, and nothing more is wanted.
    pub is_cut: bool,
    writer: Option<Sender<Vec<u8>>>,
    /// Blocks to be filled again.
    used: Option<Receiver<Vec<u8>>>,
}

impl LineBlocks {
    /// Starts the thread that writes to `manifest`; it returns why it could not.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        manifest: &'scope mut ManifestFile,
    ) -> std::io::Result<ScopedJoinHandle<'scope, Result<()>>> {
        let (writer, blocks) = bounded::<Vec<u8>>(WAITING);
        let (done, used) = bounded(WAITING + 2);
        let write = move || {
            for mut block in blocks {
                manifest.append(&block)?;
                block.clear();
                // There is room for all that are under way.
                let _ = done.try_send(block);
            }
            Ok(())
        };
        (self.writer, self.used) = (Some(writer), Some(used));
        Builder::new().name("write".into()).spawn_scoped(scope, write)
    }

    /// Whether there is enough to hand on.
    pub fn is_full(&self) -> bool {
        self.text.len() >= BLOCK
    }

    /// Hands the lines on.
    pub fn hand_on(&mut self) {
        let next = self.used.as_ref().and_then(|used| used.try_recv().ok()).unwrap_or_default();
        let block = std::mem::replace(&mut self.text, next);
        self.is_cut |= self.writer.as_ref().is_none_or(|writer| writer.send(block).is_err());
    }

    /// Hands on what is left, and lets the thread come to its end.
    pub fn end(&mut self) {
        self.hand_on();
        (self.writer, self.used) = (None, None);
    }
}
