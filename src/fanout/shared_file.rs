//! A file of the source as several outputs share it: which of them still want it, and which of its
//! chunks are held for them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::fanout::chunk::Chunk;
use crate::fanout::origin::SharedOrigin;
use crate::fanout::output_set::OutputSet;
use crate::sys::stat::Identity;

/// A file of the source, under one of its names, as it was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// Which file it is.
    pub id: Identity,
    /// A number made from its path, size and times.
    pub version: u64,
}

/// What is known of a file.
pub struct SharedFile {
    /// Counts up with each file: its age.
    pub number: u64,
    /// The outputs that may still want the content.
    pub wanted: OutputSet,
    state: SharedState,
}

/// How far the content was shared.
enum SharedState {
    /// No output began to read it.
    Unread,
    Open(Box<OpenFile>),
    /// It was read, and is not shared again.
    Over,
}

/// A file that outputs read at the moment.
struct OpenFile {
    /// The outputs that take chunks from here.
    subscribers: OutputSet,
    /// It was read up to this position; bytes.
    end: u64,
    /// The chunks that not all subscribers took, in order.
    held: VecDeque<HeldChunk>,
    origin: Arc<Mutex<SharedOrigin>>,
}

/// A chunk that is held for outputs that did not take it yet.
pub struct HeldChunk {
    /// Counts up with each chunk: its age.
    pub number: u64,
    pub chunk: Arc<Chunk>,
    at: u64,
    awaits: OutputSet,
}

/// Where an output finds the next chunk of a file.
pub enum NextChunk {
    /// Here: it was read for another output.
    Held(Arc<Chunk>),
    /// In the source: this output is to read it for all.
    Unread(Arc<Mutex<SharedOrigin>>),
    /// Not here: the output reads the source by itself.
    Elsewhere,
}

impl SharedFile {
    /// A file that these outputs may want.
    pub fn new(number: u64, wanted: OutputSet) -> Self {
        Self { number, wanted, state: SharedState::Unread }
    }

    /// An output begins to read: from now on those that want the file are its subscribers.
    pub fn open(&mut self) {
        if matches!(self.state, SharedState::Unread) {
            let origin = Arc::new(Mutex::new(SharedOrigin::default()));
            let (subscribers, held) = (self.wanted, VecDeque::new());
            self.state =
                SharedState::Open(Box::new(OpenFile { subscribers, end: 0, held, origin }));
        }
    }

    /// Where `output` finds the chunk at position `at`. One that is held counts as taken.
    pub fn next(&mut self, output: OutputSet, at: u64) -> NextChunk {
        let SharedState::Open(open) = &mut self.state else { return NextChunk::Elsewhere };
        if open.subscribers & output == 0 {
            return NextChunk::Elsewhere;
        }
        // Between the end and `at` is a hole, if they are not the same.
        if at >= open.end {
            return NextChunk::Unread(Arc::clone(&open.origin));
        }
        match open.held.iter_mut().find(|held| held.at == at) {
            Some(held) => {
                held.awaits &= !output;
                NextChunk::Held(Arc::clone(&held.chunk))
            }
            None => NextChunk::Elsewhere,
        }
    }

    /// The chunk at `at` was read by `reader`, which has it; whether it is held for other outputs.
    pub fn add(&mut self, number: u64, reader: OutputSet, at: u64, chunk: &Arc<Chunk>) -> bool {
        let SharedState::Open(open) = &mut self.state else { return false };
        if at < open.end {
            return false;
        }
        open.end = at + chunk.len() as u64;
        let awaits = open.subscribers & !reader;
        if awaits != 0 {
            open.held.push_back(HeldChunk { number, chunk: Arc::clone(chunk), at, awaits });
        }
        awaits != 0
    }

    /// These outputs take no more chunks from here.
    pub fn unsubscribe(&mut self, outputs: OutputSet) {
        if let SharedState::Open(open) = &mut self.state {
            open.subscribers &= !outputs;
            open.held.iter_mut().for_each(|held| held.awaits &= !outputs);
        }
    }

    /// The outputs that did not take the oldest chunk that is held.
    pub fn laggards(&self) -> OutputSet {
        match &self.state {
            SharedState::Open(open) => open.held.front().map_or(0, |oldest| oldest.awaits),
            SharedState::Unread | SharedState::Over => 0,
        }
    }

    /// Removes the chunks that every subscriber took.
    pub fn release(&mut self) -> Vec<HeldChunk> {
        let SharedState::Open(open) = &mut self.state else { return Vec::new() };
        let mut released = Vec::new();
        while open.held.front().is_some_and(|held| held.awaits == 0) {
            released.extend(open.held.pop_front());
        }
        if open.subscribers == 0 {
            released.extend(open.held.drain(..));
            self.state = SharedState::Over;
        }
        released
    }

    /// The chunks that are still held, when the file is forgotten.
    pub fn into_held(self) -> impl Iterator<Item = HeldChunk> {
        let held = match self.state {
            SharedState::Open(open) => open.held,
            SharedState::Unread | SharedState::Over => VecDeque::new(),
        };
        held.into_iter()
    }
}
