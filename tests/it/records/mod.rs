//! What a run says and leaves: screen, report, figures, log, jobs, nights.

mod beliefs;
mod content;
mod contrib;
mod disks;
mod documents;
mod jobs;
mod newest;
mod nights;
mod on_end;
mod page;

mod readers;
mod receipts;
mod report;
mod scheduled;
mod screen;
mod told;
mod verdict;
mod view;
