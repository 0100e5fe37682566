//! What a running digest of any algorithm can do.

/// The most bytes that a digest has.
pub const MOST_LEN: usize = 64;

/// A digest of what was taken so far. SHA-256 has its own, which many files go through at a time
/// ([`multibuffer`](crate::hash::multibuffer)).
pub trait Running: Send + Sync {
    /// Takes the next bytes.
    fn update(&mut self, bytes: &[u8]);

    /// The digest of everything taken, at the front; zeros behind it.
    fn digest(&self) -> [u8; MOST_LEN];

    /// The state in between, to go on with later; `None` where its program cannot write it down.
    fn state(&self) -> Option<Vec<u8>>;

    /// Another one in the same state.
    fn another(&self) -> Box<dyn Running>;
}

/// Puts the bytes of a digest at the front.
pub fn padded(digest: &[u8]) -> [u8; MOST_LEN] {
    let mut bytes = [0; MOST_LEN];
    let len = digest.len().min(MOST_LEN);
    bytes[..len].copy_from_slice(&digest[..len]);
    bytes
}
