//! Data that several listed files share: it is read once, and what is found of it holds for each of them.

pub mod claim;
pub mod reads;
