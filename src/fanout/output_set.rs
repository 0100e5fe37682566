//! Sets of outputs.

/// A set of outputs: a bit for each.
pub type OutputSet = u16;

/// The most outputs that one run can have.
pub const MOST_OUTPUTS: usize = OutputSet::BITS as usize;
