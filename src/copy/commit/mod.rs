//! Making finished files durable, publishing, counting and recording them.

pub mod accounting;
mod baseline;
mod carry_over;
pub mod committer;
pub mod finish;
pub mod group;
mod output_health;
pub mod read_back_queue;
mod settled;
mod source_health;
mod sync_state;
