//! Checking a file link by link, on several threads at a time, against the chain of a content.
//!
//! Threads take links in their order. From memory each reads as many links side by side as the vector registers
//! hash; from a device it reads one link at a time, and one thread after the other does so where the device
//! or the kernel's reading ahead wants one sequence. Which links hold says where a file is damaged; that all
//! hold proves the digest ([`chain`](crate::hash::chain)).

use std::sync::{Mutex, MutexGuard, PoisonError, atomic::AtomicUsize, atomic::Ordering::Relaxed};
use std::{io, thread::Builder, thread::scope};

use crate::hash::{Backend, Chain, Digest, Stream, chain::links_of, multibuffer::streams};
use crate::{io::AlignedBuffer, sys::ALIGNMENT, sys::Medium};

/// Number of bytes that a thread reads side by side at a time in all: small enough for the processor's second-level
/// cache.
const SIDE_BY_SIDE: usize = 1 << 20;

/// The longest link that is read at once from a device; files of more than 4 TiB have longer ones.
const MOST_AT_ONCE: u64 = 4 << 20;

/// A thread that helps takes some 50 µs to start and end: as much as hashing 64 KiB. It is to find at least
/// so many links.
const LINKS_EACH: u64 = 16;

/// The content that a file should have.
#[derive(Clone, Copy)]
pub struct ChainedContent<'a> {
    pub chain: &'a Chain,
    pub size: u64,
    pub digest: &'a Digest,
}

/// The order in which the links of a file are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkReads {
    /// From memory: wherever a thread wants.
    SideBySide,
    /// From a device: by links.
    ByLinks {
        /// True if one thread reads after the other.
        in_order: bool,
    },
}

/// Threads that may help, shared by all that check files.
#[derive(Debug)]
pub struct Helpers(AtomicUsize);

impl Helpers {
    /// As many helpers as there are processors, less one that is at work already.
    pub fn of_processors() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, |number| number.get());
        Self(AtomicUsize::new(processors - 1))
    }

    /// Takes up to `most` of the free helpers.
    fn take(&self, most: usize) -> usize {
        let mut taken = 0;
        let take = |free: usize| {
            taken = free.min(most);
            Some(free - taken)
        };
        let _ = self.0.fetch_update(Relaxed, Relaxed, take);
        taken
    }

    fn give_back(&self, number: usize) {
        self.0.fetch_add(number, Relaxed);
    }
}

/// A check of a file by its links.
pub struct LinkCheck<'a> {
    pub content: ChainedContent<'a>,
    pub medium: &'a Medium<'a>,
    pub reads: LinkReads,
    pub backend: Backend,
    pub is_to_stop: &'a (dyn Fn() -> bool + Sync),
    /// Called with the number of bytes of each read.
    pub on_read: &'a (dyn Fn(u64) + Sync),
}

/// The state that the threads of a check share.
#[derive(Default)]
struct LinkProgress {
    /// The next link that is not taken.
    next: u64,
    bad: Vec<u64>,
    error: Option<io::Error>,
    stopped: bool,
}

/// A link that is being hashed.
struct OpenLink {
    link: u64,
    stream: Stream,
    /// Where its next byte is, and where it ends.
    at: u64,
    end: u64,
}

impl LinkCheck<'_> {
    /// The links that do not hold, in their order; `None` if the run is to stop, or links are too long for
    /// this way of reading.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn run(&self, helpers: &Helpers) -> io::Result<Option<Vec<u64>>> {
        let ChainedContent { chain, size, .. } = self.content;
        let by_links = self.reads != LinkReads::SideBySide;
        if links_of(size, chain.span()) != chain.links() || by_links && chain.span() > MOST_AT_ONCE
        {
            return Ok(None);
        }
        let shared = Mutex::new(LinkProgress::default());
        let most = usize::try_from(chain.links() / LINKS_EACH).unwrap_or(usize::MAX);
        let helping = helpers.take(most.saturating_sub(1));
        scope(|scope| {
            for number in 0..helping {
                let helper = Builder::new().name(format!("links-{number}"));
                // Without it the others have more to do.
                let _ = helper.spawn_scoped(scope, || self.work(&shared));
            }
            self.work(&shared);
        });
        helpers.give_back(helping);
        let LinkProgress { mut bad, error, stopped, .. } =
            shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        bad.sort_unstable();
        match error {
            Some(error) => Err(error),
            None => Ok((!stopped).then_some(bad)),
        }
    }

    /// Takes links until none are left.
    fn work(&self, shared: &Mutex<LinkProgress>) {
        let span = usize::try_from(self.content.chain.span()).unwrap_or(usize::MAX);
        let mut buffer = AlignedBuffer::new(match self.reads {
            LinkReads::SideBySide => SIDE_BY_SIDE,
            LinkReads::ByLinks { .. } => span,
        });
        loop {
            let worked = match self.reads {
                LinkReads::SideBySide => self.side_by_side(shared, buffer.room()),
                LinkReads::ByLinks { in_order } => self.one(shared, buffer.room(), in_order),
            };
            match worked {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    lock(shared).error.get_or_insert(error);
                    return;
                }
            }
        }
    }

    /// Takes at most so many links; none if there are no more, or the check is over.
    fn take(&self, shared: &mut LinkProgress, most: usize) -> Vec<OpenLink> {
        let ChainedContent { chain, size, .. } = self.content;
        shared.stopped |= (self.is_to_stop)();
        if shared.stopped || shared.error.is_some() {
            return Vec::new();
        }
        let first = shared.next;
        shared.next = (first + most as u64).min(chain.links());
        let open = |link: u64| {
            let (at, end) = (link * chain.span(), size.min((link + 1) * chain.span()));
            Some(OpenLink { link, stream: Stream::going_on(chain.before(link)?, at), at, end })
        };
        (first..shared.next).filter_map(open).collect()
    }

    /// Reads one link and hashes it; false if there is none.
    fn one(
        &self,
        shared: &Mutex<LinkProgress>,
        room: &mut [u8],
        in_order: bool,
    ) -> io::Result<bool> {
        let mut progress = lock(shared);
        let Some(mut link) = self.take(&mut progress, 1).pop() else { return Ok(false) };
        let read = match in_order {
            true => self.medium.fill_at(room, link.at)?,
            false => {
                drop(progress);
                let read = self.medium.fill_at(room, link.at)?;
                progress = lock(shared);
                read
            }
        };
        drop(progress);
        let bytes = &room[..read.min((link.end - link.at) as usize)];
        (self.on_read)(bytes.len() as u64);
        streams::update(Backend::One, &mut [(&mut link.stream, bytes)]);
        link.at += bytes.len() as u64;
        self.judge(shared, link);
        Ok(true)
    }

    /// Reads as many links as are hashed at once; false if there are none.
    fn side_by_side(&self, shared: &Mutex<LinkProgress>, room: &mut [u8]) -> io::Result<bool> {
        let lanes = self.backend.lanes().clamp(1, SIDE_BY_SIDE / ALIGNMENT);
        let mut links = self.take(&mut lock(shared), lanes);
        if links.is_empty() {
            return Ok(false);
        }
        let portion = (SIDE_BY_SIDE / links.len() / ALIGNMENT * ALIGNMENT).min(SIDE_BY_SIDE / 2);
        // All but the last are of one length, so they end together.
        while links.iter().any(|link| link.at < link.end) && !(self.is_to_stop)() {
            let mut work = Vec::with_capacity(links.len());
            let (mut came, mut is_cut) = (0, false);
            for (link, room) in links.iter_mut().zip(room.chunks_exact_mut(portion)) {
                let most = (link.end - link.at).min(portion as u64) as usize;
                let read = self.medium.fill_at(&mut room[..most], link.at)?;
                is_cut |= read < most;
                link.at += read as u64;
                came += read as u64;
                work.push((&mut link.stream, &room[..read]));
            }
            streams::update(self.backend, &mut work);
            (self.on_read)(came);
            if is_cut {
                break;
            }
        }
        let stopped = (self.is_to_stop)();
        lock(shared).stopped |= stopped;
        // Behind the end of a file that is too short no link holds; those before it are read by themselves.
        for link in links.into_iter().filter(|_| !stopped) {
            let link = if link.at < link.end { self.rest(link, room)? } else { link };
            self.judge(shared, link);
        }
        Ok(!stopped)
    }

    /// Reads and hashes the rest of a link, as far as there is one.
    fn rest(&self, mut link: OpenLink, room: &mut [u8]) -> io::Result<OpenLink> {
        while link.at < link.end {
            let most = (link.end - link.at).min(room.len() as u64) as usize;
            let read = self.medium.fill_at(&mut room[..most], link.at)?;
            if read == 0 {
                break;
            }
            streams::update(Backend::One, &mut [(&mut link.stream, &room[..read])]);
            link.at += read as u64;
        }
        Ok(link)
    }

    /// Notes a link that does not hold.
    fn judge(&self, shared: &Mutex<LinkProgress>, link: OpenLink) {
        let OpenLink { link, stream, at, end } = link;
        let holds = match self.content.chain.behind(link) {
            _ if at < end => false,
            Some(state) => stream.state() == state,
            None => Digest::from(stream.finish()) == *self.content.digest,
        };
        if !holds {
            lock(shared).bad.push(link);
        }
    }
}

fn lock(shared: &Mutex<LinkProgress>) -> MutexGuard<'_, LinkProgress> {
    // Nothing in there can panic half-way.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;
    use crate::hash::Algorithm;
    use crate::{hash::ChainHasher, hash::chain::LEAST_SPAN};

    const MIB: usize = LEAST_SPAN as usize;

    const ALL_READS: [LinkReads; 3] = [
        LinkReads::SideBySide,
        LinkReads::ByLinks { in_order: true },
        LinkReads::ByLinks { in_order: false },
    ];

    /// A content that differs in every MiB, its digest and its chain.
    fn content(len: usize) -> (Vec<u8>, Digest, Chain) {
        let content: Vec<u8> = (0..len).map(|at| (at % 251 + at / MIB * 7) as u8).collect();
        let mut hasher = ChainHasher::keeping(Algorithm::Sha256.start());
        hasher.update(&content);
        let (digest, chain) = hasher.finish();
        (content, digest.unwrap(), chain.unwrap())
    }

    fn file_of(content: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file
    }

    fn bad_links(
        file: &File,
        content: ChainedContent<'_>,
        reads: LinkReads,
        backend: Backend,
    ) -> Vec<u64> {
        let medium = &Medium::any(file);
        let (is_to_stop, on_read) = (&|| false, &|_| ());
        let check = LinkCheck { content, medium, reads, backend, is_to_stop, on_read };
        check.run(&Helpers(AtomicUsize::new(2))).unwrap().unwrap()
    }

    #[test]
    fn every_way_of_reading_finds_the_same() {
        for len in [MIB + 1, 2 * MIB, 5 * MIB + 77, 37 * MIB + 1] {
            let (mut bytes, digest, chain) = content(len);
            let content = || ChainedContent { chain: &chain, size: len as u64, digest: &digest };
            let good = file_of(&bytes);
            bytes[MIB] ^= 1;
            *bytes.last_mut().unwrap() ^= 2;
            let damaged = file_of(&bytes);
            let mut expected = vec![1, (len as u64 - 1) / LEAST_SPAN];
            expected.dedup();
            for reads in ALL_READS {
                // More than one round for each of the widest takes long without optimisation.
                let all = if len < 16 * MIB { Backend::all() } else { vec![Backend::widest()] };
                for backend in all {
                    assert_eq!(bad_links(&good, content(), reads, backend), [0; 0]);
                    assert_eq!(bad_links(&damaged, content(), reads, backend), expected);
                }
            }
        }
    }

    #[test]
    fn a_check_ends_when_it_is_told_to() {
        let (bytes, digest, chain) = content(3 * MIB);
        let (file, size) = (file_of(&bytes), bytes.len() as u64);
        for reads in ALL_READS {
            let content = ChainedContent { chain: &chain, size, digest: &digest };
            let (medium, backend) = (&Medium::any(&file), Backend::One);
            let (is_to_stop, on_read) = (&|| true, &|_| ());
            let check = LinkCheck { content, medium, reads, backend, is_to_stop, on_read };
            assert_eq!(check.run(&Helpers::of_processors()).unwrap(), None);
        }
    }

    /// The harm done to a content in a test.
    #[derive(Clone, Debug)]
    enum Harm {
        Flip(usize, u8),
        Range(usize, usize),
        CutOff(usize),
        Insert(usize),
    }

    fn harm() -> impl Strategy<Value = Harm> {
        let at = 0..4 * MIB + 99;
        prop_oneof![
            (at.clone(), 0u8..8).prop_map(|(at, bit)| Harm::Flip(at, bit)),
            (at.clone(), 1..2 * MIB).prop_map(|(at, len)| Harm::Range(at, len)),
            at.clone().prop_map(Harm::CutOff),
            at.prop_map(Harm::Insert),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Every link that was harmed is found, and no other; whatever is done to the chain, no harmed content
        /// passes.
        #[test]
        fn harm_is_found_where_it_is(
            harms in proptest::collection::vec(harm(), 0..4), reads in 0usize..3,
            forged in proptest::option::of((0usize..4, 0usize..8, 1u32..)),
        ) {
            static WHOLE: std::sync::OnceLock<(Vec<u8>, Digest, Chain)> = std::sync::OnceLock::new();
            let (whole, digest, chain) = WHOLE.get_or_init(|| content(4 * MIB + 99));
            let mut harmed = whole.clone();
            for harm in harms {
                match harm {
                    Harm::Flip(at, bit) => {
                        if let Some(byte) = harmed.get_mut(at) {
                            *byte ^= 1 << bit;
                        }
                    }
                    Harm::Range(at, len) => {
                        let end = (at + len).min(harmed.len());
                        harmed.get_mut(at..end).unwrap_or_default().fill(0xa5);
                    }
                    Harm::CutOff(at) => harmed.truncate(at),
                    Harm::Insert(at) => harmed.insert(at.min(harmed.len()), 1),
                }
            }
            let (file, size) = (file_of(&harmed), whole.len() as u64);
            let reads = ALL_READS[reads];
            let found = |chain: &Chain| {
                let content = ChainedContent { chain, size, digest };
                bad_links(&file, content, reads, Backend::widest())
            };
            let is_harmed = |link: &u64| {
                let range = *link as usize * MIB..((*link as usize + 1) * MIB).min(whole.len());
                harmed.get(range.clone()) != Some(&whole[range])
            };
            prop_assert_eq!(found(chain), (0..5).filter(is_harmed).collect::<Vec<_>>());
            if let Some((state, word, bits)) = forged {
                let mut states = chain.states().to_vec();
                states[state][word] ^= bits;
                let forged = Chain::new(chain.span(), states, size).unwrap();
                // Of a good content too: it is not condemned by this, but hashed as a whole.
                prop_assert!(!found(&forged).is_empty());
            }
        }
    }
}
