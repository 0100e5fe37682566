//! Before anything is touched: both sides opened, and what could not end well refused.

pub mod check;
pub mod disjoint;
pub mod prepare;
pub mod reservation;
pub mod space;
