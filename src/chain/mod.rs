//! Chains on disk: the side file of a manifest, and the records in it.
//!
//! A side file is written beside each manifest and read by any later check. Nothing in it need be believed:
//! a chain that is torn, forged or of another file only makes a check slower ([`Chain`](crate::hash::chain)).

pub mod damage;
#[cfg(any(test, feature = "internals"))]
pub mod probe;
mod record;
pub mod side_file;
pub mod states;
