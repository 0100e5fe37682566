//! What a person sees.

pub mod console;
pub mod observer;
pub mod progress;
pub mod rows;
pub mod summary;
pub mod verify_messages;
pub mod verify_summary;
