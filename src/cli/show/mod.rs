//! What a person sees.

pub mod console;
pub mod copy_summary;
pub mod progress;
pub mod reporter;
pub mod rows;
pub mod verify_messages;
pub mod verify_summary;
