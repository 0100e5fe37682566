//! What a run records for programs: events as JSON lines, a report, and figures for Prometheus.
//!
//! The formats are promised: `docs/report.schema.json` and `docs/guide/scheduled.md` say what is in them.

pub mod entry;
pub mod files;
pub mod finish;
pub mod json;
pub mod log;
mod metrics;
pub mod options;
pub mod records;
mod report;
pub mod task;
mod tell;
