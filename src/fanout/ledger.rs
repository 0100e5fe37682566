//! What outputs that share their reading know of each other: who still wants which file, what of it is
//! held for them, and who has it complete.
//!
//! This is the bookkeeping alone: nothing here waits, reads or writes, and one lock guards it all.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use crate::fanout::chunk::Piece;
use crate::fanout::origin::Source;
use crate::hash::Digest;
use crate::sys::stat::Identity;

/// A set of outputs: a bit for each.
pub type Set = u16;

/// So many outputs there can be.
pub const MOST_OUTPUTS: usize = Set::BITS as usize;

/// Files that are remembered until every output had them; about 100 bytes each.
const MOST_FILES: usize = 131_072;

/// A file of the source, under one of its names, as it was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Which file it is.
    pub id: Identity,
    /// A number made from its path, size and times.
    pub version: u64,
}

/// What is known of a file.
struct File {
    /// How old this is.
    number: u64,
    /// Who may still want the content.
    wanted: Set,
    /// Who is copying it, and not waiting for another to do so.
    at_work: Set,
    /// Who has it, and what it is.
    stands: Option<(u8, Digest)>,
    content: Content,
}

/// The content in the window.
enum Content {
    /// Nobody began to read it.
    Unread,
    /// Some of it may be there.
    Open(Box<Open>),
    /// It was there and will not be again.
    Over,
}

struct Open {
    /// Who takes it from here.
    takers: Set,
    /// Up to here it was read; bytes.
    end: u64,
    /// What is held, in order.
    held: VecDeque<Held>,
    source: Arc<Mutex<Source>>,
}

struct Held {
    number: u64,
    at: u64,
    /// Who has not taken it yet.
    left: Set,
    piece: Arc<Piece>,
}

/// What there is for who wants the next piece of a file.
pub enum Next {
    /// This.
    Piece(Arc<Piece>),
    /// It is to be read here, by one at a time.
    Read(Arc<Mutex<Source>>),
    /// Nothing: the file has to be had elsewhere.
    Nothing,
}

/// Whether there is a finished copy of a file.
pub enum Copied {
    /// At this output.
    Stands(usize, Digest),
    /// Not yet: these are at work on it.
    Soon(Set),
    /// Not, and nobody is at it.
    No,
}

/// The bookkeeping.
pub struct Window {
    /// Who is still running.
    active: Set,
    /// Who was let go of, and took nothing from the window since.
    behind: Set,
    files: HashMap<Key, File>,
    /// The files by age.
    by_age: BTreeMap<u64, Key>,
    /// What is held, by age.
    held: BTreeMap<u64, Key>,
    /// How much that is; bytes.
    bytes: u64,
    next: u64,
    /// How many files were forgotten that these outputs still wanted.
    pub forgotten: [u64; MOST_OUTPUTS],
}

impl Window {
    /// For so many outputs.
    pub fn new(outputs: usize) -> Self {
        Self {
            active: Set::MAX >> (MOST_OUTPUTS - outputs.clamp(1, MOST_OUTPUTS)),
            behind: 0,
            files: HashMap::new(),
            by_age: BTreeMap::new(),
            held: BTreeMap::new(),
            bytes: 0,
            next: 0,
            forgotten: [0; MOST_OUTPUTS],
        }
    }

    /// Whether the window is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// How much is held; bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether these run.
    pub fn active(&self, who: Set) -> Set {
        self.active & who
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// What is known of a file, from now on if nothing was.
    fn file(&mut self, key: Key) -> Option<&mut File> {
        if !self.files.contains_key(&key) {
            if self.files.len() >= MOST_FILES {
                self.forget_oldest();
            }
            let number = self.number();
            let content = Content::Unread;
            let file = File { number, wanted: self.active, at_work: 0, stands: None, content };
            self.files.insert(key, file);
            self.by_age.insert(number, key);
        }
        self.files.get_mut(&key)
    }

    fn forget_oldest(&mut self) {
        let Some((_, key)) = self.by_age.pop_first() else { return };
        let active = self.active;
        if let Some(file) = self.files.remove(&key) {
            let wanted = file.wanted & active;
            let each = self.forgotten.iter_mut().enumerate();
            each.filter(|(n, _)| wanted & (1 << n) != 0).for_each(|(_, count)| *count += 1);
            self.drop_content(file);
        }
    }

    fn drop_content(&mut self, file: File) {
        if let Content::Open(open) = file.content {
            open.held.iter().for_each(|held| self.is_gone(held));
        }
    }

    fn is_gone(&mut self, held: &Held) {
        self.held.remove(&held.number);
        self.bytes -= held.piece.len() as u64;
    }

    /// An output (a set of one) begins to copy a file; whether there can be something for it here.
    pub fn come(&mut self, key: Key, me: Set) -> bool {
        let Some(file) = self.file(key) else { return false };
        if file.wanted & me == 0 {
            return false;
        }
        file.at_work |= me;
        if matches!(file.content, Content::Unread) {
            let (takers, held) = (file.wanted, VecDeque::new());
            let source = Arc::new(Mutex::new(Source::default()));
            file.content = Content::Open(Box::new(Open { takers, end: 0, held, source }));
        }
        true
    }

    /// What there is for an output that has the content up to `at`.
    pub fn next(&mut self, key: Key, me: Set, at: u64) -> Next {
        let Some(File { content: Content::Open(open), .. }) = self.files.get_mut(&key) else {
            return Next::Nothing;
        };
        if open.takers & me == 0 {
            return Next::Nothing;
        }
        // Between the two is a hole.
        if at >= open.end {
            return Next::Read(Arc::clone(&open.source));
        }
        let Some(held) = open.held.iter_mut().find(|held| held.at == at) else {
            self.leave_window(key, me);
            return Next::Nothing;
        };
        held.left &= !me;
        let piece = Arc::clone(&held.piece);
        self.behind &= !me;
        self.sweep(key);
        Next::Piece(piece)
    }

    /// The next piece of a file was read, by `me`, who has it.
    pub fn add(&mut self, key: Key, me: Set, at: u64, piece: &Arc<Piece>) {
        let number = self.number();
        self.behind &= !me;
        if let Some(File { content: Content::Open(open), .. }) = self.files.get_mut(&key)
            && at >= open.end
        {
            open.end = at + piece.len() as u64;
            let left = open.takers & !me;
            if left != 0 {
                open.held.push_back(Held { number, at, left, piece: Arc::clone(piece) });
                self.held.insert(number, key);
                self.bytes += piece.len() as u64;
            }
        }
    }

    /// Drops what nobody takes any more.
    fn sweep(&mut self, key: Key) {
        let Some(file) = self.files.get_mut(&key) else { return };
        let Content::Open(open) = &mut file.content else { return };
        let mut gone = Vec::new();
        while open.held.front().is_some_and(|held| held.left == 0) {
            gone.extend(open.held.pop_front());
        }
        if open.takers == 0 {
            gone.extend(open.held.drain(..));
            file.content = Content::Over;
        }
        gone.iter().for_each(|held| self.is_gone(held));
    }

    /// These take nothing more of the file from the window.
    fn leave_window(&mut self, key: Key, who: Set) {
        if let Some(File { content: Content::Open(open), .. }) = self.files.get_mut(&key) {
            open.takers &= !who;
            open.held.iter_mut().for_each(|held| held.left &= !who);
        }
        self.sweep(key);
    }

    /// Nobody takes anything more of the file from the window: it cannot be read here.
    pub fn void(&mut self, key: Key) {
        self.leave_window(key, Set::MAX);
    }

    /// Whether it is worth waiting for those that have not taken the oldest that is held.
    pub fn is_awaited(&self) -> bool {
        let oldest = self.oldest().and_then(|key| match &self.files.get(&key)?.content {
            Content::Open(open) => open.held.front(),
            _ => None,
        });
        oldest.is_some_and(|oldest| oldest.left & !self.behind != 0)
    }

    fn oldest(&self) -> Option<Key> {
        self.held.first_key_value().map(|(_, key)| *key)
    }

    /// Lets go of those that have not taken the oldest that is held, as far as its file goes.
    pub fn let_go(&mut self) {
        let Some(key) = self.oldest() else { return };
        if let Some(File { content: Content::Open(open), .. }) = self.files.get(&key) {
            let who = open.held.front().map_or(Set::MAX, |oldest| oldest.left);
            self.behind |= who;
            self.leave_window(key, who);
        }
    }

    /// An output needs nothing more of the file from others. It may be at work on it still.
    pub fn has_all(&mut self, key: Key, me: Set) {
        self.leave_window(key, me);
        if let Some(file) = self.files.get_mut(&key) {
            file.wanted &= !me;
            if file.wanted & self.active == 0 {
                self.forget(key);
            }
        }
    }

    fn forget(&mut self, key: Key) {
        if let Some(file) = self.files.remove(&key) {
            self.by_age.remove(&file.number);
            self.drop_content(file);
        }
    }

    /// The file stands complete at the output.
    pub fn stands(&mut self, key: Key, output: u8, digest: Digest) {
        if let Some(file) = self.files.get_mut(&key) {
            file.stands.get_or_insert((output, digest));
        }
    }

    /// What becomes of the file at the output is settled.
    pub fn settled(&mut self, key: Key, me: Set) {
        if let Some(file) = self.files.get_mut(&key) {
            file.at_work &= !me;
        }
        self.has_all(key, me);
    }

    /// The output has no need of the file; those that come to it later shall know.
    pub fn pass(&mut self, key: Key, me: Set) {
        self.file(key);
        self.settled(key, me);
    }

    /// Whether there is a copy for an output that is to have the rest of the file, or the whole, from
    /// another. From now on it counts as one that waits.
    pub fn copied(&mut self, key: Key, me: Set) -> Copied {
        self.leave_window(key, me);
        let Some(file) = self.files.get_mut(&key) else { return Copied::No };
        file.at_work &= !me;
        match file.stands {
            Some((output, digest)) => Copied::Stands(output.into(), digest),
            None if file.at_work & self.active != 0 => Copied::Soon(file.at_work & self.active),
            None => Copied::No,
        }
    }

    /// An output reads the file by itself: others may wait for it.
    pub fn goes_alone(&mut self, key: Key, me: Set) {
        if let Some(file) = self.files.get_mut(&key) {
            file.at_work |= me;
        }
    }

    /// The copy of a file is not what it should be: nobody else is to have it from there.
    pub fn distrust(&mut self, key: Key) {
        if let Some(file) = self.files.get_mut(&key) {
            file.stands = None;
        }
    }

    /// An output's run is over: nobody waits for it. What stands there can still be read.
    pub fn ends(&mut self, me: Set) {
        self.active &= !me;
        let keys: Vec<Key> = self.files.keys().copied().collect();
        for key in keys {
            if let Some(file) = self.files.get_mut(&key) {
                file.at_work &= !me;
            }
            self.has_all(key, me);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::block::SharedBlocks;

    const KEY: Key = Key { id: Identity { dev: 1, ino: 2 }, version: 3 };

    fn piece() -> Arc<Piece> {
        let mut block = SharedBlocks::new(1, 8).block(8);
        block.fill(8);
        Arc::new(Piece::new(block))
    }

    #[test]
    fn what_everybody_took_is_gone() {
        let mut window = Window::new(3);
        assert!(window.come(KEY, 1) && matches!(window.next(KEY, 1, 0), Next::Read(_)));
        window.add(KEY, 1, 0, &piece());
        window.add(KEY, 1, 8, &piece());
        assert_eq!(window.bytes(), 16);
        window.pass(KEY, 4); // it has the file already
        assert!(window.come(KEY, 2) && matches!(window.next(KEY, 2, 0), Next::Piece(_)));
        assert_eq!(window.bytes(), 8);
        assert!(matches!(window.next(KEY, 2, 8), Next::Piece(_)) && window.is_empty());
        // Behind a hole.
        assert!(matches!(window.next(KEY, 2, 64), Next::Read(_)));
        window.has_all(KEY, 1);
        window.has_all(KEY, 2);
        assert!(window.files.is_empty() && window.by_age.is_empty() && window.held.is_empty());
    }

    #[test]
    fn who_is_let_go_waits_for_a_copy_and_nobody_for_him() {
        let mut window = Window::new(2);
        assert!(window.come(KEY, 1) && window.come(KEY, 2));
        window.add(KEY, 1, 0, &piece());
        assert!(window.is_awaited());
        window.let_go();
        assert!(window.is_empty() && !window.is_awaited());
        assert!(matches!(window.next(KEY, 2, 0), Next::Nothing));
        assert!(matches!(window.copied(KEY, 2), Copied::Soon(1)));
        // The other one is in want of it too, and there is nobody left to have it from.
        assert!(matches!(window.copied(KEY, 1), Copied::No));
        window.goes_alone(KEY, 1);
        window.stands(KEY, 0, Digest([7; 32]));
        assert!(matches!(window.copied(KEY, 2), Copied::Stands(0, Digest([7, ..]))));
    }

    #[test]
    fn nobody_waits_for_who_is_gone() {
        let mut window = Window::new(2);
        assert!(window.come(KEY, 1) && window.come(KEY, 2));
        window.add(KEY, 1, 0, &piece());
        window.ends(2);
        assert!(window.is_empty());
        window.has_all(KEY, 1);
        assert!(window.files.is_empty());
        assert!(!window.come(KEY, 2) && window.active(3) == 1);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut window = Window::new(2);
        for ino in 0..MOST_FILES as u64 + 10 {
            let key = Key { id: Identity { dev: 1, ino }, version: 0 };
            assert!(window.come(key, 1));
            window.add(key, 1, 0, &piece());
            window.has_all(key, 1);
        }
        assert_eq!(window.files.len(), MOST_FILES);
        assert_eq!(window.forgotten[..2], [0, 10]);
        assert_eq!(window.bytes(), 8 * MOST_FILES as u64);
    }
}
