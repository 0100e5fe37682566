//! The chain of a file: SHA-256's states at even steps through the content, kept while it is hashed.
//!
//! SHA-256 takes a content block by block, and its state after a block is all that it keeps of what came
//! before (FIPS 180-4, 6.2). With the states after every span of the content, each span can be hashed by
//! itself: it is a *link* from the state before it to the state behind it. If every link holds, from the
//! initial state to the digest, the content has that digest, by the definition of the function, whatever
//! the origin of the states. A link that does not hold is where the content, or the list of states, is bad.

use crate::{hash::Backend, hash::ChainingState, hash::Digest, hash::Hasher, hash::digest::START};

/// The least span of a link in bytes: 32 bytes a MiB are 0.003 % of the content.
pub const LEAST_SPAN: u64 = 1 << 20;

/// The most states of a chain: 32 MiB of memory. Files of more than 1 TiB have longer spans.
pub const MOST_STATES: usize = 1 << 20;

/// The states of a content between its beginning and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    span: u64,
    states: Vec<ChainingState>,
}

impl Chain {
    /// The chain of a content of `size` bytes; `None` if these cannot be its states.
    pub fn new(span: u64, states: Vec<ChainingState>, size: u64) -> Option<Self> {
        let is_span = span >= LEAST_SPAN && span.is_power_of_two();
        let fits = is_span && links_of(size, span).checked_sub(1)? == states.len() as u64;
        (fits && !states.is_empty() && states.len() <= MOST_STATES).then_some(Self { span, states })
    }

    /// The bytes of each link but the last, which may be shorter.
    pub fn span(&self) -> u64 {
        self.span
    }

    /// The states behind all links but the last, which ends at the digest.
    pub fn states(&self) -> &[ChainingState] {
        &self.states
    }

    /// Number of links.
    pub fn links(&self) -> u64 {
        self.states.len() as u64 + 1
    }

    /// The state before a link.
    pub fn before(&self, link: u64) -> Option<ChainingState> {
        match usize::try_from(link).ok()?.checked_sub(1) {
            None => Some(START),
            Some(at) => self.states.get(at).copied(),
        }
    }

    /// The state behind a link; `None` of the last.
    pub fn behind(&self, link: u64) -> Option<ChainingState> {
        self.states.get(usize::try_from(link).ok()?).copied()
    }
}

/// Number of links of a content of `size` bytes.
pub fn links_of(size: u64, span: u64) -> u64 {
    size.div_ceil(span).max(1)
}

fn widen(span: &mut u64, states: &mut Vec<ChainingState>) {
    let mut at = 0;
    states.retain(|_| {
        at += 1;
        at % 2 == 0
    });
    *span *= 2;
}

/// A running digest that keeps its states.
#[derive(Clone, Debug)]
pub struct ChainHasher {
    hasher: Hasher,
    kept: Option<KeptStates>,
}

/// The states so far.
#[derive(Clone, Debug)]
struct KeptStates {
    span: u64,
    states: Vec<ChainingState>,
}

impl KeptStates {
    /// True if the state after so many bytes is still to be kept.
    fn lacks(&self, at: u64) -> bool {
        at > 0 && at / self.span > self.states.len() as u64
    }

    fn keep(&mut self, at: u64, state: ChainingState) {
        if !at.is_multiple_of(self.span) {
            return;
        }
        if self.states.len() == MOST_STATES {
            widen(&mut self.span, &mut self.states);
            return self.keep(at, state);
        }
        self.states.push(state);
    }
}

impl ChainHasher {
    /// Goes on with `hasher` and keeps no states.
    pub fn without(hasher: Hasher) -> Self {
        Self { hasher, kept: None }
    }

    /// Keeps the states of a content from its beginning on, in which `hasher` is.
    pub fn keeping(hasher: Hasher) -> Self {
        Self::going_on(hasher, LEAST_SPAN, Vec::new())
    }

    /// Goes on with a content of which these are the states so far; keeps none if they cannot be.
    pub fn going_on(hasher: Hasher, span: u64, states: Vec<ChainingState>) -> Self {
        let is_span = span >= LEAST_SPAN && span.is_power_of_two();
        let fits = is_span && states.len() as u64 == hasher.taken() / span;
        let kept = (fits && hasher.is_digest()).then_some(KeptStates { span, states });
        Self { hasher, kept }
    }

    /// The running digest itself.
    pub fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    /// The span and the states so far, from the one numbered `from` on; none if none are kept.
    pub fn states_from(&self, from: usize) -> Option<(u64, &[ChainingState])> {
        let KeptStates { span, states } = self.kept.as_ref()?;
        Some((*span, states.get(from..).unwrap_or_default()))
    }

    /// Takes the content's next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let Self { hasher, kept } = self;
        match kept {
            None => hasher.update(bytes),
            Some(kept) => update_passing(hasher, bytes, |at, state| kept.keep(at, state)),
        }
    }

    /// Takes the next bytes of several contents, as many at a time as `backend` does.
    pub fn update_together(backend: Backend, mut contents: Vec<(&mut Self, &[u8])>) {
        while contents.iter().any(|(_, bytes)| !bytes.is_empty()) {
            let mut pieces = Vec::with_capacity(contents.len());
            for (running, bytes) in &mut contents {
                let most = match running.kept {
                    None => bytes.len(),
                    Some(_) => usize::try_from(to_next_step(&running.hasher)).unwrap_or(usize::MAX),
                };
                let (piece, rest) = bytes.split_at(most.min(bytes.len()));
                *bytes = rest;
                if !piece.is_empty() {
                    pieces.push((&mut running.hasher, piece));
                }
            }
            Hasher::update_together(backend, pieces);
            for (Self { hasher, kept }, _) in &mut contents {
                // One that did not move has its state there already, and is at its end.
                if let Some(kept) = kept.as_mut().filter(|kept| kept.lacks(hasher.taken())) {
                    tell_step(hasher, &mut |at, state| kept.keep(at, state));
                }
            }
        }
    }

    /// Takes `len` zero bytes: a hole.
    pub fn update_zeros(&mut self, mut len: u64) {
        let Self { hasher, kept } = self;
        let Some(kept) = kept else { return hasher.update_zeros(len) };
        while len > 0 {
            let now = to_next_step(hasher).min(len);
            hasher.update_zeros(now);
            tell_step(hasher, &mut |at, state| kept.keep(at, state));
            len -= now;
        }
    }

    /// Goes to where another thread came that took the next bytes from the same state, passing `passed`.
    pub fn jump(&mut self, after: &Hasher, passed: &[(u64, ChainingState)]) {
        self.hasher = after.clone();
        if let Some(kept) = &mut self.kept {
            passed.iter().for_each(|(at, state)| kept.keep(*at, *state));
        }
    }

    /// The digest of everything taken, and its chain; that only of a content of more than one link.
    pub fn finish(self) -> (Option<Digest>, Option<Chain>) {
        let Self { hasher, kept } = self;
        let size = hasher.taken();
        let chain = kept.and_then(|KeptStates { span, mut states }| {
            if size > 0 && size.is_multiple_of(span) {
                states.pop();
            }
            Chain::new(span, states, size)
        });
        (hasher.finish(), chain)
    }
}

/// Takes bytes and tells of each state at a multiple of the least span, with the number of bytes before it.
pub fn update_passing(
    hasher: &mut Hasher,
    mut bytes: &[u8],
    mut passed: impl FnMut(u64, ChainingState),
) {
    while !bytes.is_empty() {
        let now = usize::try_from(to_next_step(hasher)).unwrap_or(usize::MAX).min(bytes.len());
        let (head, rest) = bytes.split_at(now);
        hasher.update(head);
        tell_step(hasher, &mut passed);
        bytes = rest;
    }
}

fn to_next_step(hasher: &Hasher) -> u64 {
    LEAST_SPAN - hasher.taken() % LEAST_SPAN
}

fn tell_step(hasher: &Hasher, passed: &mut impl FnMut(u64, ChainingState)) {
    let at = hasher.taken();
    if at.is_multiple_of(LEAST_SPAN)
        && let Some(state) = hasher.chaining_state()
    {
        passed(at, state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Algorithm;

    const MIB: usize = LEAST_SPAN as usize;

    fn content(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
    }

    fn chain_of(content: &[u8], piece: usize) -> (Option<Digest>, Option<Chain>) {
        let mut hasher = ChainHasher::keeping(Algorithm::Sha256.start());
        content.chunks(piece).for_each(|piece| hasher.update(piece));
        hasher.finish()
    }

    /// However the content comes: in pieces that meet the steps or do not, and with holes.
    #[test]
    fn the_states_are_those_at_each_step() {
        let content = content(3 * MIB + 5);
        let (digest, chain) = chain_of(&content, 1000);
        let chain = chain.unwrap();
        for link in 0..3 {
            let mut hasher = Algorithm::Sha256.start();
            hasher.update(&content[..(link + 1) * MIB]);
            assert_eq!(chain.behind(link as u64), hasher.chaining_state());
            assert_eq!(chain.before(link as u64 + 1), hasher.chaining_state());
        }
        assert_eq!((chain.links(), chain.before(0), chain.behind(3)), (4, Some(START), None));
        for piece in [MIB, 3 * MIB, 4 * MIB, 64, 700_001] {
            assert_eq!(chain_of(&content, piece), (digest, Some(chain.clone())));
        }
        let mut holed = ChainHasher::keeping(Algorithm::Sha256.start());
        holed.update(&[0; 10]);
        holed.update_zeros(5 * LEAST_SPAN);
        assert_eq!(holed.finish(), chain_of(&vec![0; 5 * MIB + 10], MIB));
    }

    #[test]
    fn a_content_of_one_link_has_no_chain() {
        for (len, links) in [(0, 1), (1, 1), (MIB, 1), (MIB + 1, 2), (2 * MIB, 2), (2 * MIB + 1, 3)]
        {
            let (digest, chain) = chain_of(&content(len), 4096);
            assert!(digest.is_some());
            assert_eq!(chain.map_or(1, |chain| chain.links()), links, "{len}");
            assert_eq!(links_of(len as u64, LEAST_SPAN), links);
        }
    }

    #[test]
    fn a_longer_span_is_every_second_state() {
        let content = content(5 * MIB);
        let (_, chain) = chain_of(&content, MIB);
        let narrow = chain.unwrap();
        let (mut span, mut states) = (LEAST_SPAN, narrow.states().to_vec());
        widen(&mut span, &mut states);
        assert_eq!(states, [narrow.states()[1], narrow.states()[3]]);
        let wide = Chain::new(span, states.clone(), content.len() as u64).unwrap();
        assert_eq!((wide.span(), wide.links()), (2 * LEAST_SPAN, 3));
        widen(&mut span, &mut states);
        assert_eq!((span, &states[..]), (4 * LEAST_SPAN, &narrow.states()[3..]));
        let mut kept = KeptStates { span: LEAST_SPAN, states: Vec::new() };
        (1..=MOST_STATES as u64 + 2).for_each(|n| kept.keep(n * LEAST_SPAN, [n as u32; 8]));
        assert_eq!((kept.span, kept.states.len()), (2 * LEAST_SPAN, MOST_STATES / 2 + 1));
        assert!(kept.states.iter().zip(1..).all(|(state, n)| *state == [2 * n; 8]));
    }

    #[test]
    fn states_are_gone_on_with_only_where_they_belong() {
        let content = content(3 * MIB);
        let whole = chain_of(&content, MIB);
        let mut first = ChainHasher::keeping(Algorithm::Sha256.start());
        first.update(&content[..MIB + 77]);
        let (span, states) = first.states_from(0).unwrap();
        let go_on = |states: &[ChainingState]| {
            let mut hasher = ChainHasher::going_on(first.hasher().clone(), span, states.to_vec());
            hasher.update(&content[MIB + 77..]);
            hasher.finish()
        };
        assert_eq!(go_on(states), whole);
        assert_eq!(go_on(&[]), (whole.0, None));
        assert_eq!(first.states_from(1), Some((span, &[][..])));
        assert_eq!(first.states_from(9), Some((span, &[][..])));
        let mut none = ChainHasher::keeping(Algorithm::None.start());
        none.update(&content);
        none.update_zeros(7);
        assert_eq!(none.finish(), (None, None));
    }

    #[test]
    fn states_that_cannot_be_those_of_a_size_are_no_chain() {
        let states = vec![START; 2];
        assert!(Chain::new(LEAST_SPAN, states.clone(), 3 * LEAST_SPAN).is_some());
        assert!(Chain::new(LEAST_SPAN, states.clone(), 2 * LEAST_SPAN + 1).is_some());
        for size in [0, 1, LEAST_SPAN, 2 * LEAST_SPAN, 3 * LEAST_SPAN + 1, u64::MAX] {
            assert_eq!(Chain::new(LEAST_SPAN, states.clone(), size), None, "{size}");
        }
        for span in [0, 1, LEAST_SPAN - 1, LEAST_SPAN + 1, LEAST_SPAN / 2] {
            assert_eq!(Chain::new(span, states.clone(), 3 * span), None, "{span}");
        }
    }
}
