//! Outputs that are archives of a known form: what is written is judged by the reference implementations.

mod bags;
mod closed;
mod histories;
mod media;
mod near;
mod portions;
mod reference;
mod rewritten;
mod touched;
