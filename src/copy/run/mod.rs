//! How a copy goes: to one output or several, and in which threads.

pub mod outputs;

pub mod count;
mod earlier;
mod feed;
mod means;
pub mod output_run;
mod setup;
mod space;
mod threads;
mod tree_copy;
mod worker_pool;
pub mod workers;
