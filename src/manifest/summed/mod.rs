//! Files of records with their count and sum at the end, so that one that is torn, or was put together from pieces, is
//! not taken for a whole one.

pub mod ahead;
pub mod blocks;
mod reader;
mod trailer;
mod writer;

pub use reader::SummedReader;
pub use trailer::{SUM, Trailer};
pub use writer::SummedWriter;
