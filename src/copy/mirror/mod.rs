//! A mirror: what has left the source leaves the output too, into a dated trash there.
//!
//! Before anything is touched the two trees are compared (`search`), and the run is refused where the source may not
//! be what it was, or too much would go (`look`). When everything is copied and the new manifest has its name, what
//! was found is moved (`removal`), and old trash goes (`trash`).

pub mod beside;
pub mod departures;
pub mod look;
pub mod lost_names;
mod moved;
pub mod options;
pub mod removal;
pub mod search;
pub mod trash;
pub mod tree_removal;
