//! Reading manifests and handing out their lines.

pub mod batch;
pub mod line_reader;
pub mod manifest_lines;
pub mod seen;
