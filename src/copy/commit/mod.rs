//! Making finished files durable, publishing, counting and recording them.

pub mod accounting;
mod baseline;
mod carry_over;
pub mod committer;
mod finish;
pub mod group;
mod links;
mod listing;
mod output_health;
pub mod read_back_queue;
mod recording;
pub mod rotation;
mod rows;
mod sync_state;
