//! The report that people read: one page of HTML, made of the receipts that runs leave as JSON.

pub mod sample_lines;
pub mod spool;
