//! Copy methods: what two file systems can do with each other, clones, and bytes that the kernel moves.

pub mod clone;
pub mod copy_methods;
pub mod fill;
