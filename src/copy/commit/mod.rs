//! Making finished files durable, publishing, counting and recording them.

pub mod accounting;
pub mod baseline;
pub mod carry_over;
pub mod committer;
pub mod finish;
pub mod group;
pub mod links;
pub mod output_health;
pub mod read_back_queue;
pub mod rotation;
pub mod sync_state;
