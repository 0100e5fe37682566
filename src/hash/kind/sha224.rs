//! SHA-224 (FIPS 180-4), of bags that are read.

use crate::hash::kind::rust_crypto::Core;

/// Its running digest.
pub type Sha224 = Core<sha2::Sha224>;
