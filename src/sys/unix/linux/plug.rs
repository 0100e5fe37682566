//! Whether the device of a directory was away: by numbers that the kernel gives anew when one comes, or it starts.

use std::{fs, path::Path};

use crate::{
    sys::types::Durable, sys::types::PluggedIn, sys::unix::dir::Dir,
    sys::unix::system::durable::durable,
};

/// When the device of `dir` came; `None` where that is not told, and where nothing is known to reach a device: servers,
/// FUSE and memory are never away.
pub fn plugged_in(dir: &Dir) -> Option<PluggedIn> {
    if !matches!(durable(dir), Durable::Device) {
        return None;
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
    let device = rustix::fs::fstat(&dir.0).ok()?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let block = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
    // A partition is away when its disk is.
    let at = if block.join("partition").exists() { block.join("..") } else { block };
    // One that is made of others comes and goes while they stay. That it has none is read, not supposed.
    let made_of = fs::read_dir(at.join("slaves")).map(Iterator::count);
    let number = fs::read_to_string(at.join("diskseq")).ok().filter(|_| matches!(made_of, Ok(0)));
    let disk = number.and_then(|number| number.trim().parse().ok());
    Some(PluggedIn { boot, disk })
}
