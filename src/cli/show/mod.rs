//! What a person sees.

pub mod compared;
pub mod console;
pub mod copy_messages;
pub mod copy_summary;
mod copy_verdict;
pub mod gathered;
pub mod healed;
pub mod line;
pub mod reporter;
pub mod rows;
mod stages;
pub mod stream_summary;
pub mod verify_messages;
pub mod verify_summary;
