//! MD5 (RFC 1321): of old lists; two contents of one digest are easily made.

use crate::hash::kind::rust_crypto::Core;

/// Its running digest.
pub type Md5 = Core<md5::Md5>;
