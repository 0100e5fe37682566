//! The copy of a tree: what was asked (`job`), what is refused before anything is touched (`before`), the
//! threads (`run`), what makes copies durable and records them (`commit`), and the report.

pub mod job;
mod record;
pub mod report;
pub mod run;

mod before;
mod commit;
mod dry_run;
mod special;
