//! Files that have another name at the source than at the output: they are shared there instead of written again.
//!
//! A record says which content stood under a name that the source no longer has. A file of the source that is new and
//! has the same size and time may be that one, so it is read; only an equal digest makes it so. Then it becomes a clone
//! of the file at the output, or a further hard link to it, under a part name, and goes the way of every copy from
//! there: synced, read back where that is asked for, published, recorded. The old name is not touched.

mod gone;
pub mod share;
pub mod tree;
