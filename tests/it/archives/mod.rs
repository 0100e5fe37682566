//! Outputs that are archives of a known form: what is written is judged by the reference implementations.

mod bags;
mod media;
mod near;
mod sorted;
