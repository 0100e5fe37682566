//! Reading manifests and handing out their lines.

pub mod batch;
mod empty;
mod history_names;
mod left_out;
pub mod line_reader;
pub mod lines_read;
mod list_text;
pub mod manifest_lines;
pub mod seen;
pub mod shards;
mod stoppable;
mod unhashed;
