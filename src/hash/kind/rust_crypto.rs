//! What the crates of RustCrypto have in common: a state that can be written down.

use sha2::Digest;
use sha2::digest::common::hazmat::SerializableState;

use crate::hash::running::{MOST_LEN, Running, padded};

/// A digest of one of these crates.
pub struct Core<D>(D);

impl<D> Core<D>
where
    D: Digest + SerializableState + Clone + Send + Sync + 'static,
{
    /// One that took nothing.
    pub fn start() -> Box<dyn Running> {
        Box::new(Self(D::new()))
    }

    /// One that goes on where a state was written down; `None` if the bytes are none.
    pub fn go_on(state: &[u8]) -> Option<Box<dyn Running>> {
        let state = sha2::digest::common::hazmat::SerializedState::<D>::try_from(state).ok()?;
        Some(Box::new(Self(D::deserialize(&state).ok()?)))
    }
}

impl<D> Running for Core<D>
where
    D: Digest + SerializableState + Clone + Send + Sync + 'static,
{
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn digest(&self) -> [u8; MOST_LEN] {
        padded(&self.0.clone().finalize())
    }

    fn state(&self) -> Option<Vec<u8>> {
        Some(self.0.serialize().to_vec())
    }

    fn another(&self) -> Box<dyn Running> {
        Box::new(Self(self.0.clone()))
    }
}
