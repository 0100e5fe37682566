//! What several lines of one name come to.

use crate::hash::Digest;

/// What the lines of one name say.
#[derive(Clone, Copy, Debug)]
pub enum Lookup {
    Nothing,
    /// All of them have this digest; the last stands at this offset, in bytes.
    Agreed {
        digest: Digest,
        last: u64,
    },
    /// They have different digests, or there are more of them than are read.
    Unclear,
}

impl Lookup {
    /// The same with one more line, which stands at `last`.
    pub(super) fn and(self, digest: Digest, last: u64) -> Self {
        match self {
            Lookup::Nothing => Lookup::Agreed { digest, last },
            Lookup::Agreed { digest: other, .. } if other == digest => {
                Lookup::Agreed { digest, last }
            }
            Lookup::Agreed { .. } | Lookup::Unclear => Lookup::Unclear,
        }
    }
}
