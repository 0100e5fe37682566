//! How much a run gives way to other programs.

/// Whose turn at a disk it is, where the system's scheduler looks at that (on Linux BFQ does).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoPriority {
    /// Only when nobody else wants the disk.
    Idle,
    /// Like other programs, from 0 (first) to 7 (last).
    BestEffort(u8),
}
