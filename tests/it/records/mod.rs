//! What a run says and leaves: screen, report, figures, log, jobs, nights.

mod catalog;
mod content;
mod contrib;
mod disks;
mod documents;
mod habits;
mod jobs;
mod newest;
mod on_end;
mod page;
mod trusted_records;
mod unattended;

mod endings;
mod readers;
mod receipts;
mod report;
mod scheduled;
mod screen;
mod sequence;
mod verdict;
mod view;
