//! What the crates have in common whose state cannot be written down.

use crate::hash::running::{MOST_LEN, Running};

/// A digest of one of these crates, and its own names for taking bytes and for the digest so far.
struct Opaque<H> {
    hasher: H,
    take: fn(&mut H, &[u8]),
    read: fn(&H) -> [u8; MOST_LEN],
}

/// One that took what `hasher` did.
pub fn start<H>(
    hasher: H,
    take: fn(&mut H, &[u8]),
    read: fn(&H) -> [u8; MOST_LEN],
) -> Box<dyn Running>
where
    H: Clone + Send + Sync + 'static,
{
    Box::new(Opaque { hasher, take, read })
}

impl<H> Running for Opaque<H>
where
    H: Clone + Send + Sync + 'static,
{
    fn update(&mut self, bytes: &[u8]) {
        (self.take)(&mut self.hasher, bytes);
    }

    fn digest(&self) -> [u8; MOST_LEN] {
        (self.read)(&self.hasher)
    }

    fn state(&self) -> Option<Vec<u8>> {
        None
    }

    fn another(&self) -> Box<dyn Running> {
        start(self.hasher.clone(), self.take, self.read)
    }
}
