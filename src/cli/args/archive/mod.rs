//! The options of outputs that are archives of a known form.

pub mod bag;
