//! Reading manifests and handing out their lines.

pub mod batch;
pub mod line_reader;
mod list_text;
pub mod manifest_lines;
pub mod seen;
pub mod shards;
mod unhashed;
