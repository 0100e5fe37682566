//! What kind of disk something lies on, and where.

use std::fs::File;

use crate::sys::unix::dir::Dir;
#[cfg(target_os = "linux")]
use crate::sys::unix::fiemap::ExtentMap;

/// Whether `dir` lies on a disk that turns, where reading several files at a time costs more than
/// it gains. Devices of virtual machines often say so and are not believed.
#[cfg(target_os = "linux")]
pub fn is_on_turning_disk(dir: &Dir) -> bool {
    const NOT_BELIEVED: [&str; 5] = ["vd", "xvd", "loop", "nbd", "ram"];
    let Ok(id) = dir.identity() else { return false };
    let (major, minor) = (rustix::fs::major(id.dev), rustix::fs::minor(id.dev));
    let place = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"));
    let Ok(place) = place else { return false };
    // A partition is a directory in that of its disk, which has the queue.
    place.ancestors().take(2).any(|disk| {
        let name = disk.file_name().unwrap_or_default().to_string_lossy();
        let told = std::fs::read_to_string(disk.join("queue/rotational"));
        told.is_ok_and(|told| told.trim() == "1")
            && !NOT_BELIEVED.iter().any(|prefix| name.starts_with(prefix))
    })
}

/// Not known here.
#[cfg(not(target_os = "linux"))]
pub fn is_on_turning_disk(_: &Dir) -> bool {
    false
}

/// Where on its disk the content of `file` begins, in bytes, if the file system tells and has given
/// it a place: for reading files in the order in which they lie there.
#[cfg(target_os = "linux")]
pub fn place_on_disk(file: &File) -> Option<u64> {
    let map = ExtentMap::<1>::of(file, 0..u64::MAX, 0)?;
    map.extents().first().map(|extent| extent.on_disk).filter(|place| *place > 0)
}

/// Not known here.
#[cfg(not(target_os = "linux"))]
pub fn place_on_disk(_: &File) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_files_lie_somewhere_and_not_at_the_same_place() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let place = |name: &str, content: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            let file = File::open(&path).unwrap();
            file.sync_all().unwrap();
            place_on_disk(&file)
        };
        assert_eq!(place("empty", b""), None);
        let (one, other) = (place("one", &[1; 50_000]), place("other", &[2; 50_000]));
        // Where the file system does not tell, it tells of none.
        assert_eq!(one.is_some(), other.is_some());
        assert!(one.is_none() || one != other, "{one:?}");
    }
}
