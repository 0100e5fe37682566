//! What a run leaves for programs to read: events as JSON lines, a report, and figures for
//! Prometheus.
//!
//! The formats are promised: `docs/report.schema.json` and `docs/guide/scheduled.md` say what is in them.

pub mod destination;
mod finish;
pub mod json;
pub mod log;
mod metrics;
pub mod numbers;
mod path_conflict;
pub mod records;
mod report;
pub mod rotation;
mod spool;
