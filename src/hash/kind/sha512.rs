//! SHA-512 (FIPS 180-4), which C4 is another spelling of.

use crate::hash::kind::rust_crypto::Core;

/// Its running digest.
pub type Sha512 = Core<sha2::Sha512>;
