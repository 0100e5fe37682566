//! The report that people read: one page of HTML, made of the receipts that runs leave as JSON.
//!
//! A receipt may come from anywhere, so it is data: what is read of it is bounded, what is shown of it is escaped, and
//! the page needs neither script nor network.

mod charts;
pub mod command;
mod files;
mod history;
pub mod page;
pub mod receipt;
pub mod render;
mod run_sections;
mod words;
