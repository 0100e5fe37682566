//! What happens before anything is touched: both sides are opened, and what could not end well is refused.

mod check;
pub mod disjoint;
mod exchange;
pub mod fit;
pub mod mounted;
mod nothing;
pub mod open;
mod pair;
pub mod prepare;
pub mod reservation;
pub mod space;
pub mod tree_copy;
mod volume;
