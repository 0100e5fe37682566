//! SHA-1 (FIPS 180-4): of old lists; two contents of one digest can be made.

use crate::hash::kind::rust_crypto::Core;

/// Its running digest.
pub type Sha1 = Core<sha1::Sha1>;
