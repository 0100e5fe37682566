//! Summed files that a thread of its own reads and hashes, one after the other, while another thread looks at their
//! records.

use std::io;
use std::path::PathBuf;
use std::thread::{Builder, Scope};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::hash::Digest;
use crate::manifest::summed::blocks::{Blocks, SummedFile};

/// So many blocks wait to be looked at.
const WAITING: usize = 4;

/// What the thread sends.
enum Message {
    Block(Vec<u8>),
    /// A file is at its end; the sum of everything before the sum that it states.
    End(Option<Digest>),
    /// There is nothing more of a file.
    Failed(io::Error),
}

/// Files that are read ahead.
#[derive(Debug)]
pub struct ReadAhead {
    messages: Receiver<Message>,
    /// Blocks to be filled again.
    used: Sender<Vec<u8>>,
    /// Nothing more comes of the file that is being looked at.
    is_over: bool,
    sum: Option<Digest>,
}

impl ReadAhead {
    /// Reads files ahead. The thread ends when what is returned is dropped.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        paths: impl Iterator<Item = PathBuf> + Send + 'scope,
    ) -> io::Result<Self> {
        let (sender, messages) = bounded(WAITING);
        let (used, empty) = bounded(WAITING + 2);
        let read = move || {
            for path in paths {
                if !send_file(&path, &sender, &empty) {
                    break;
                }
            }
        };
        Builder::new().name("read ahead".into()).spawn_scoped(scope, read)?;
        Ok(Self { messages, used, is_over: true, sum: None })
    }

    /// Goes on to the next file, passing over what is left of this one.
    pub fn next_file(&mut self) {
        while !self.is_over {
            self.is_over = !matches!(self.messages.recv(), Ok(Message::Block(_)));
        }
        (self.is_over, self.sum) = (false, None);
    }
}

/// Sends a file; false if there is no receiver any more.
fn send_file(path: &std::path::Path, sender: &Sender<Message>, empty: &Receiver<Vec<u8>>) -> bool {
    let mut file = match SummedFile::open(path) {
        Ok(file) => file,
        Err(error) => return sender.send(Message::Failed(error)).is_ok(),
    };
    loop {
        let mut block = empty.try_recv().unwrap_or_default();
        let message = match file.next_block(&mut block) {
            Ok(true) => Message::Block(block),
            Ok(false) => Message::End(file.sum()),
            Err(error) => Message::Failed(error),
        };
        let is_over = !matches!(message, Message::Block(_));
        if sender.send(message).is_err() {
            return false;
        }
        if is_over {
            return true;
        }
    }
}

impl Blocks for &mut ReadAhead {
    fn next_block(&mut self, block: &mut Vec<u8>) -> io::Result<bool> {
        if self.is_over {
            return Ok(false);
        }
        let message = self.messages.recv();
        let message = message.map_err(|_| io::Error::other("the thread that reads it has ended"));
        self.is_over = !matches!(message, Ok(Message::Block(_)));
        match message? {
            Message::Block(next) => {
                // Where nothing waits for it it is not used again.
                let _ = self.used.try_send(std::mem::replace(block, next));
                Ok(true)
            }
            Message::End(sum) => {
                self.sum = sum;
                Ok(false)
            }
            Message::Failed(error) => Err(error),
        }
    }

    fn sum(&self) -> Option<Digest> {
        self.sum
    }
}
