//! How much is done for the page cache.

/// How the page cache is spared on a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sparing {
    /// Not at all: it is not wanted, or of no use.
    #[default]
    None,
    /// Window by window.
    Windows,
    /// By the kernel, where it turns out to know how, and by windows: on a busy machine the kernel
    /// overlooks some pages (seen: a tenth of a file).
    Flag,
}
