//! A file system as a receipt has it.

use std::ffi::OsString;

use serde::Serialize;

use crate::path::Shown;
use crate::sys::VolumeDetails;

/// The section about a file system; what is not known is null.
#[derive(Serialize)]
pub struct VolumeSection {
    label: Option<String>,
    uuid: Option<String>,
    serial: Option<String>,
    file_system: Option<String>,
    size_bytes: Option<u64>,
}

impl VolumeSection {
    /// That of a volume.
    pub fn of(volume: &VolumeDetails) -> Self {
        let shown = |text: &Option<OsString>| {
            text.as_ref().map(|text| Shown::bytes(text.as_encoded_bytes()).to_string())
        };
        Self {
            label: shown(&volume.label),
            uuid: volume.uuid.clone(),
            serial: shown(&volume.serial),
            file_system: volume.file_system.clone(),
            size_bytes: volume.size,
        }
    }
}
