//! What a run leaves for programs to read: events as JSON lines, a report, and figures for
//! Prometheus.
//!
//! The formats are promised: `docs/report.schema.json` and `docs/scheduled.md` say what is in them.

mod clash;
mod closing;
pub mod files;
pub mod json;
pub mod log;
mod metrics;
pub mod numbers;
pub mod records;
mod report;
pub mod series;
mod spool;
