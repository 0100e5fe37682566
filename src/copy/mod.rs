//! The copy of a tree: what was asked (`job`), what is refused before anything is touched (`before`), the
//! threads (`run`), what makes copies durable and records them (`commit`), what leaves the output (`mirror`), an
//! output that is a bag (`bag`), Media Hash Lists of it (`media`), and the report.

pub mod bag;
pub mod dated_name;
pub mod generations;
pub mod job;
mod media;
pub mod mirror;
mod record;
pub mod report;
pub mod run;

pub mod before;
mod commit;
mod dry_content;
mod dry_run;
pub mod special;
