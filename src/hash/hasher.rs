//! A running digest of one file, by one algorithm or several.
//!
//! SHA-256 is `sha2`'s compression function, which picks the processor's SHA instructions where they are;
//! several files at a time go through those of [`multibuffer`](crate::hash::multibuffer). The others are boxed.

use std::io::{self, Read, Write};
use std::{fmt, path::Path, sync::atomic::AtomicU64, sync::atomic::Ordering::Relaxed};

use sha2::Digest as _;

use crate::{
    error::Error, error::Result, hash::Algorithm, hash::Algorithms, hash::Backend,
    hash::ChainingState, hash::Digest, hash::Digests, hash::Sha256, hash::Stream,
    hash::digest::BLOCK, hash::digest::Running, hash::multibuffer::streams,
};

impl Algorithm {
    /// Starts a digest over one file.
    pub fn start(self) -> Hasher {
        let proof = match (self, self.spec().and_then(|spec| spec.start)) {
            (Algorithm::Sha256, _) => Proof::Sha256(Stream::default()),
            (_, Some(start)) => Proof::Other(Other { algorithm: self, running: start(), taken: 0 }),
            (_, None) => Proof::None,
        };
        Hasher { proof, further: Vec::new() }
    }

    /// Goes on with a digest where [`Hasher::state`] was taken, after `taken` bytes; `None` if the bytes are not a
    /// state of this algorithm, or one after more bytes than any file has.
    pub fn go_on(self, state: &[u8], taken: u64) -> Option<Hasher> {
        let proof = match (self, self.spec()?.go_on) {
            (Algorithm::Sha256, _) => {
                let blocks = u64::from_le_bytes(*state.get(32..)?.first_chunk()?);
                let stream = Stream::restore(state)?;
                Proof::Sha256((blocks <= MOST_BLOCKS).then_some(stream)?)
            }
            (_, Some(go_on)) => {
                Proof::Other(Other { algorithm: self, running: go_on(state)?, taken })
            }
            (_, None) => return None,
        };
        Some(Hasher { proof, further: Vec::new() })
    }
}

impl Algorithms {
    /// Starts the digests of these over one file. What is SHA-512 twice is computed once.
    pub fn start(self) -> Hasher {
        let mut hasher = self.proof().start();
        let others = self.without(self.proof()).iter();
        hasher.further =
            others.filter(|algorithm| !self.is_twin(*algorithm)).filter_map(Other::start).collect();
        hasher
    }

    /// Goes on with all of them where [`Hasher::states`] was taken, after `taken` bytes; `None` if these are no
    /// states of exactly these algorithms.
    pub fn go_on(self, states: &[u8], taken: u64) -> Option<Hasher> {
        let mut rest = states;
        let mut next = |algorithm: Algorithm| {
            let (len, behind) = rest.split_first_chunk()?;
            let (state, behind) = behind.split_at_checked(u16::from_le_bytes(*len).into())?;
            rest = behind;
            algorithm.go_on(state, taken)
        };
        let mut computed = self.iter().filter(|algorithm| !self.is_twin(*algorithm));
        let mut hasher = match computed.next() {
            Some(first) => next(first)?,
            None => Algorithm::None.start(),
        };
        for algorithm in computed {
            match next(algorithm)?.proof {
                Proof::Other(other) => hasher.further.push(other),
                Proof::Sha256(_) | Proof::None => return None,
            }
        }
        rest.is_empty().then_some(hasher)
    }

    /// True if a later run can go on with the digests of all of them.
    pub fn can_go_on(self) -> bool {
        self.iter().all(Algorithm::can_go_on)
    }

    /// True if it is another spelling of one among these.
    pub(crate) fn is_twin(self, algorithm: Algorithm) -> bool {
        algorithm == Algorithm::C4 && self.has(Algorithm::Sha512)
    }
}

/// The most blocks that a state may have taken to be gone on with: 1 EiB. SHA-256 counts at most 2⁶⁴ bits
/// (FIPS 180-4, 1), and the largest files of Linux have 8 EiB, which is as many.
const MOST_BLOCKS: u64 = (1 << 60) / 64;

/// The running digests of one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Hasher {
    proof: Proof,
    /// None but where several were asked for.
    further: Vec<Other>,
}

#[derive(Clone, Debug, PartialEq)]
enum Proof {
    None,
    Sha256(Stream),
    Other(Other),
}

/// One of any algorithm.
struct Other {
    algorithm: Algorithm,
    running: Box<dyn Running>,
    taken: u64,
}

impl Other {
    fn start(algorithm: Algorithm) -> Option<Self> {
        let running: Box<dyn Running> = match algorithm {
            Algorithm::Sha256 => Box::new(Stream::default()),
            _ => algorithm.spec()?.start?(),
        };
        Some(Self { algorithm, running, taken: 0 })
    }

    fn update(&mut self, bytes: &[u8]) {
        self.running.update(bytes);
        self.taken += bytes.len() as u64;
    }

    fn digest(&self) -> Digest {
        Digest::new(self.algorithm, self.running.digest())
    }
}

impl Clone for Other {
    fn clone(&self) -> Self {
        Self { algorithm: self.algorithm, running: self.running.another(), taken: self.taken }
    }
}

/// Never equal: only SHA-256 tells.
impl PartialEq for Other {
    fn eq(&self, _: &Self) -> bool {
        false
    }
}

impl fmt::Debug for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} after {} bytes", self.algorithm.name(), self.taken)
    }
}

/// Zeros for hashing holes: long enough that the call costs nothing beside the hashing, short enough to stay in the
/// first-level cache.
static ZEROS: [u8; 16 * 1024] = [0; 16 * 1024];

impl Hasher {
    /// Takes the file's next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.proof {
            Proof::None => {}
            Proof::Sha256(stream) => stream.update(bytes),
            Proof::Other(other) => other.update(bytes),
        }
        self.further.iter_mut().for_each(|further| further.update(bytes));
    }

    /// Takes `len` zero bytes: a hole.
    pub fn update_zeros(&mut self, mut len: u64) {
        while self.is_digest() && len > 0 {
            let now = len.min(ZEROS.len() as u64);
            self.update(&ZEROS[..now as usize]);
            len -= now;
        }
    }

    /// Takes the next bytes of several files, as many files at a time as `backend` does.
    pub fn update_together(backend: Backend, files: Vec<(&mut Self, &[u8])>) {
        let mut streams: Vec<(&mut Stream, &[u8])> = Vec::with_capacity(files.len());
        for (hasher, bytes) in files {
            hasher.further.iter_mut().for_each(|further| further.update(bytes));
            match &mut hasher.proof {
                Proof::None => {}
                Proof::Sha256(stream) => streams.push((stream, bytes)),
                Proof::Other(other) => other.update(bytes),
            }
        }
        streams::update(backend, &mut streams);
    }

    /// The state in between, to go on with later; `None` where nothing is hashed, or what is cannot be
    /// written down.
    pub fn state(&self) -> Option<Vec<u8>> {
        match &self.proof {
            _ if !self.further.is_empty() => None,
            Proof::None => None,
            Proof::Sha256(stream) => Some(stream.save().to_vec()),
            Proof::Other(other) => other.running.state(),
        }
    }

    /// The states of all its digests, to go on with by [`Algorithms::go_on`]; nothing where nothing is hashed, and
    /// `None` where one cannot be written down.
    pub fn states(&self) -> Option<Vec<u8>> {
        let mut states = Vec::new();
        let mut add = |state: Vec<u8>| -> Option<()> {
            states.extend(u16::try_from(state.len()).ok()?.to_le_bytes());
            states.extend(state);
            Some(())
        };
        match &self.proof {
            Proof::None => return Some(states),
            Proof::Sha256(stream) => add(stream.save().to_vec())?,
            Proof::Other(other) => add(other.running.state()?)?,
        }
        self.further.iter().try_for_each(|further| add(further.running.state()?))?;
        Some(states)
    }

    /// Number of bytes hashed so far; 0 for [`Algorithm::None`].
    pub fn taken(&self) -> u64 {
        match &self.proof {
            Proof::None => 0,
            Proof::Sha256(stream) => stream.taken(),
            Proof::Other(other) => other.taken,
        }
    }

    /// True unless it computes nothing.
    pub fn is_digest(&self) -> bool {
        !matches!(self.proof, Proof::None)
    }

    /// SHA-256 so far, if that is the digest that proves.
    pub fn sha256(&self) -> Option<&Stream> {
        match &self.proof {
            Proof::Sha256(stream) => Some(stream),
            Proof::None | Proof::Other(_) => None,
        }
    }

    /// SHA-256's state, if exactly whole blocks were taken.
    pub fn chaining_state(&self) -> Option<ChainingState> {
        let Proof::Sha256(stream) = &self.proof else { return None };
        stream.taken().is_multiple_of(BLOCK as u64).then(|| stream.state())
    }

    /// The digest of everything taken, by the algorithm that proves; `None` for [`Algorithm::None`].
    pub fn finish(self) -> Option<Digest> {
        match self.proof {
            Proof::None => None,
            Proof::Sha256(stream) => Some(stream.finish().into()),
            Proof::Other(other) => Some(other.digest()),
        }
    }

    /// The digests of everything taken, by each of `algorithms`, with which it was started.
    pub fn finish_all(self, algorithms: Algorithms) -> Option<Digests> {
        let further = self.further.iter().map(Other::digest).collect();
        Digests::new(self.finish()?, further).only(algorithms)
    }
}

impl Running for Stream {
    fn update(&mut self, bytes: &[u8]) {
        Stream::update(self, bytes);
    }

    fn digest(&self) -> [u8; crate::hash::digest::MOST_LEN] {
        crate::hash::digest::padded(&self.clone().finish().0)
    }

    fn state(&self) -> Option<Vec<u8>> {
        Some(self.save().to_vec())
    }

    fn another(&self) -> Box<dyn Running> {
        Box::new(self.clone())
    }
}

// Trust in the hashing itself: known answers before anything is hashed, and some of the work done twice.
//
// A processor that computes wrongly gives a file a digest which no check on the same machine calls wrong, and every
// other machine does. `sha2` is the judge: the kernels of [`multibuffer`](crate::hash::multibuffer) are other
// implementations of the same function. What `sha2` hashes alone it hashes twice, which shows a fault that comes and
// goes.

/// Of so many pieces of work one is done twice; a piece is a block of a large file, or a batch of small ones. That is
/// 0.4 % of the hashing, where that limits a copy at all.
pub const ONE_IN: u64 = 256;

/// The digest of the digests of [`known`], one behind the other, as Python's hashlib gives it.
const ANSWER: Sha256 = Sha256([
    0x97, 0x2a, 0x37, 0x1a, 0x88, 0x9a, 0x2c, 0x44, 0x9b, 0x00, 0x20, 0x8b, 0xe6, 0x21, 0x42, 0xdc,
    0x76, 0xc8, 0x8c, 0x75, 0xfb, 0x12, 0x69, 0x77, 0x99, 0xe0, 0x85, 0xd3, 0xf8, 0x8b, 0xdc, 0x35,
]);

/// The content numbered `number`: as many as the widest kernel takes at a time, of one block to ten.
fn known(number: usize) -> Vec<u8> {
    (0..64 + 37 * number).map(|at| (number * 31 + at * 7 + (at >> 8)) as u8).collect()
}

/// True if this machine computes SHA-256 right by `backend`, by those that it hands over to, and by `sha2` alone.
pub fn computes_rightly(backend: Backend) -> bool {
    let contents: Vec<Vec<u8>> = (0..16).map(known).collect();
    let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
    [backend, backend.suiting(2), Backend::One].into_iter().all(|backend| {
        let digests = streams::digests(backend, &contents);
        let digests: Vec<&[u8]> = digests.iter().map(|digest| &digest.0[..]).collect();
        Sha256::of(&digests) == ANSWER
    })
}

/// Refuses to hash `what` on a machine that does not.
///
/// # Errors
/// It computes wrongly.
pub fn refuse_miscomputing(backend: Backend, what: &Path) -> Result<()> {
    match computes_rightly(backend) {
        true => Ok(()),
        false => {
            let why = "this machine computes wrongly: it does not give known answers of SHA-256";
            Err(Error::finding("hash", what, why))
        }
    }
}

/// True if `sha2` gives the content this digest.
pub fn is_digest_of(digest: &Sha256, content: &[u8]) -> bool {
    sha2::Sha256::digest(content)[..] == digest.0
}

/// The pieces of work of a run.
#[derive(Debug, Default)]
pub struct Pieces(AtomicU64);

impl Pieces {
    /// True if there were any, and they are done twice: those of SHA-256 alone are.
    pub fn is_any_of(&self, algorithm: Algorithm) -> bool {
        algorithm == Algorithm::Sha256 && self.0.load(Relaxed) > 0
    }

    /// Counts a piece; true if it is to be done twice. The first is.
    pub fn is_for_twice(&self) -> bool {
        self.0.fetch_add(1, Relaxed).is_multiple_of(ONE_IN)
    }
}

/// Hashes what is read or written through it.
#[derive(Debug)]
pub struct Hashed<T> {
    pub inner: T,
    pub hasher: Hasher,
}

impl<T> Hashed<T> {
    /// Nothing came through so far.
    pub fn new(inner: T, algorithm: Algorithm) -> Self {
        Self { inner, hasher: algorithm.start() }
    }

    /// The digest of what came through so far.
    pub fn digest(&self) -> Option<Digest> {
        self.hasher.clone().finish()
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(room)?;
        self.hasher.update(&room[..read]);
        Ok(read)
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY_SHA512: &str = "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce\
        47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e";
    const ABC_SHA512: &str = "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
        2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f";
    const EMPTY_C4: &str = "c459dsjfscH38cYeXXYogktxf4Cd9ibshE3BHUo6a58hB\
        XmRQdZrAkZzsWcbWtDg5oQstpDuni4Hirj75GEmTc1sFT";
    const ABC_C4: &str = "c45S4rnaTNWonxss1u8LzsaJdEph1AJhWUF4sh2waXKMs\
        utyfAxg4ybUeuXVWS9HdNcEypmeXn8FZGonD4w1rj9DZp";

    /// FIPS 180-4 examples.
    #[test]
    fn known_answers() {
        for (input, expected) in [
            (&b""[..], "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ] {
            let mut hasher = Algorithm::Sha256.start();
            hasher.update(input);
            assert_eq!(hasher.finish().unwrap().to_string(), expected);
        }
    }

    /// Answers of RFC 1321, FIPS 180-4, and those that `b3sum` and `xxhsum` were seen to give; C4's of the reference.
    #[test]
    fn the_others_are_what_their_programs_say() {
        for (algorithm, empty, abc) in [
            (Algorithm::Sha512, EMPTY_SHA512, ABC_SHA512),
            (Algorithm::C4, EMPTY_C4, ABC_C4),
            (
                Algorithm::Blake3,
                "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
                "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
            ),
            (
                Algorithm::Sha1,
                "da39a3ee5e6b4b0d3255bfef95601890afd80709",
                "a9993e364706816aba3e25717850c26c9cd0d89d",
            ),
            (
                Algorithm::Md5,
                "d41d8cd98f00b204e9800998ecf8427e",
                "900150983cd24fb0d6963f7d28e17f72",
            ),
            (
                Algorithm::Xxh128,
                "99aa06d3014798d86001c324468d497f",
                "06b05ab6733a618578af5f94892f3950",
            ),
            (Algorithm::Xxh3, "2d06800538d394c2", "78af5f94892f3950"),
            (Algorithm::Xxh64, "ef46db3751d8e999", "44bc2cf5ad770999"),
            (Algorithm::Crc32, "00000000", "352441c2"),
        ] {
            for (input, expected) in [(&b""[..], empty), (b"abc", abc)] {
                let mut hasher = algorithm.start();
                hasher.update(input);
                assert_eq!(hasher.taken(), input.len() as u64);
                assert_eq!(hasher.finish().unwrap().to_string(), expected, "{algorithm:?}");
            }
        }
    }

    #[test]
    fn several_are_what_each_is_alone() {
        let all: Algorithms = Algorithm::listed().collect();
        let mut together = all.start();
        let content: Vec<u8> = (0..100_000).map(|at| (at * 31 + at / 251) as u8).collect();
        content.chunks(777).for_each(|piece| together.update(piece));
        together.update_zeros(20_000);
        assert!(together.state().is_none());
        let digests = together.finish_all(all).unwrap();
        assert_eq!(digests.iter().count(), 9);
        for algorithm in all.iter() {
            let mut alone = algorithm.start();
            alone.update(&content);
            alone.update_zeros(20_000);
            assert_eq!(digests.of(algorithm), alone.finish(), "{algorithm:?}");
        }
    }

    #[test]
    fn a_state_that_can_be_written_down_is_gone_on_with() {
        for algorithm in Algorithm::listed() {
            let mut hasher = algorithm.start();
            hasher.update(&[7; 1000]);
            let Some(state) = hasher.state() else {
                assert!(algorithm.spec().unwrap().go_on.is_none());
                continue;
            };
            let mut later = algorithm.go_on(&state, 1000).unwrap();
            assert_eq!(later.taken(), 1000);
            assert!(algorithm.go_on(&state[1..], 1000).is_none());
            hasher.update(b"more");
            later.update(b"more");
            assert_eq!(hasher.finish(), later.finish(), "{algorithm:?}");
        }
    }

    #[test]
    fn several_are_gone_on_with_together() {
        let all: Algorithms = Algorithm::listed().filter(|one| one.can_go_on()).collect();
        assert!(all.can_go_on() && all.len() == 5);
        for some in [all, all.without(Algorithm::Sha256), Algorithms::default()] {
            let mut hasher = some.start();
            hasher.update(&[7; 1000]);
            let states = hasher.states().unwrap();
            let mut later = some.go_on(&states, 1000).unwrap();
            hasher.update(b"more");
            later.update(b"more");
            assert_eq!(hasher.finish_all(some), later.finish_all(some));
            assert!(some.is_empty() || some.go_on(&states[1..], 1000).is_none());
            assert!(some.with(Algorithm::Xxh3).go_on(&states, 1000).is_none());
            assert!(some.go_on(&[&states[..], &[0; 2]].concat(), 1000).is_none());
        }
        assert!(all.with(Algorithm::Blake3).start().states().is_none());
    }

    #[test]
    fn zeros_are_zeros() {
        for len in [0u64, 1, 16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, 100_000] {
            let (mut by_hole, mut by_bytes) =
                (Algorithm::Sha256.start(), Algorithm::Sha256.start());
            by_hole.update_zeros(len);
            by_bytes.update(&vec![0; len as usize]);
            assert_eq!(by_hole.finish(), by_bytes.finish());
        }
    }

    /// Journals of part files hold this state: a change of its form needs a new version of theirs.
    #[test]
    fn a_digest_goes_on_where_it_was() {
        let mut hasher = Algorithm::Sha256.start();
        hasher.update(b"abc");
        let state = hasher.state().unwrap();
        let start = [0x67, 0xe6, 0x09, 0x6a, 0x85, 0xae, 0x67, 0xbb];
        assert_eq!((&state[..8], state.len()), (&start[..], 32 + 8 + 64));
        assert_eq!((&state[32..40], &state[40..44]), (&[0; 8][..], &b"\x03abc"[..]));
        for more in [0, 1, 61, 62, 1000] {
            let mut one = hasher.clone();
            let mut two = Algorithm::Sha256.go_on(&state, 3).unwrap();
            one.update(&vec![7; more]);
            two.update(&vec![7; more]);
            assert_eq!(one.finish(), two.finish());
        }
        assert!(Algorithm::Sha256.go_on(&state[1..], 3).is_none());
        assert!(Algorithm::None.go_on(&state, 3).is_none());
    }

    /// A journal may hold any bytes, also a number from which no counting goes on.
    #[test]
    fn a_state_of_absurd_length_is_none_of_ours() {
        let state = |blocks: u64| {
            let mut state = Algorithm::Sha256.start().state().unwrap();
            state[32..40].copy_from_slice(&blocks.to_le_bytes());
            Algorithm::Sha256.go_on(&state, 3)
        };
        for blocks in [u64::MAX, u64::MAX / 64, u64::MAX / 512, MOST_BLOCKS + 1] {
            let mut hasher = state(blocks);
            if let Some(hasher) = &mut hasher {
                hasher.update(&[0; 200]);
            }
            assert!(hasher.is_none(), "{blocks}");
        }
        let mut longest = state(MOST_BLOCKS).unwrap();
        longest.update(&[0; 200]);
        assert!(longest.finish().is_some());
    }

    #[test]
    fn no_algorithm_no_digest() {
        let mut hasher = Algorithm::None.start();
        hasher.update(b"abc");
        hasher.update_zeros(u64::MAX);
        assert_eq!(hasher.finish(), None);
    }
}

#[cfg(test)]
mod again_tests {
    use super::*;

    #[test]
    fn each_backend_answers_and_one_that_lies_does_not() {
        for backend in Backend::all() {
            assert!(computes_rightly(backend), "{backend:?}");
        }
        assert!(!computes_rightly(Backend::Wrong(1)));
    }

    #[test]
    fn one_piece_in_so_many_is_done_twice() {
        let pieces = Pieces::default();
        let twice = (0..10 * ONE_IN).filter(|_| pieces.is_for_twice()).count();
        assert_eq!(twice, 10);
        assert!(is_digest_of(&Sha256::of(&[b"abc"]), b"abc"));
        assert!(!is_digest_of(&Sha256::of(&[b"abc"]), b"abd"));
    }
}
