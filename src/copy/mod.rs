//! The copy: preparing both sides, running the road, recording what became of everything.

pub mod job;
pub mod report;

mod count;
mod dry;

mod before;
mod commit;
pub mod run;
mod special;
