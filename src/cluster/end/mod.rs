//! What the end of a plan proves and makes.

pub mod finish_tree;
pub mod line_blocks;
pub mod record_check;
mod side_by_side;
