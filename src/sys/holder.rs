//! Who has locked an output.

/// A process that has locked an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub process: u32,
    /// What it is called.
    pub name: Vec<u8>,
    /// When it was started, in seconds since 1970.
    pub since: i64,
}
