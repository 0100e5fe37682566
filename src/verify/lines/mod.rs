//! Reading manifests and handing out their lines.

pub mod batch;
mod history_names;
pub mod line_reader;
mod list_text;
pub mod manifest_lines;
pub mod seen;
pub mod shards;
mod stoppable;
mod unhashed;
