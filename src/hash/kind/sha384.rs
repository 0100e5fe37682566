//! SHA-384 (FIPS 180-4), of bags that are read.

use crate::hash::kind::rust_crypto::Core;

/// Its running digest.
pub type Sha384 = Core<sha2::Sha384>;
