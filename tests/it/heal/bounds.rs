//! What states and healing take: of room beside the manifest, and of memory.

use crate::harness::{Scene, content, shell};

use super::{MIB, copies, rot};

/// A side file takes at most a ten-thousandth of the files that are in it, whatever their sizes and names, beside the
/// line that it begins with.
#[test]
fn a_side_file_is_small_beside_its_files() {
    let scene = Scene::new();
    let long = "n".repeat(200);
    for (number, size) in [1, MIB, MIB + 1, 2 * MIB, 3 * MIB + 7].into_iter().enumerate() {
        scene.src.file(format!("s{number}"), content(size));
        // No file has another's content: those share a record.
        scene.src.file(format!("{long}/{long}/{number}"), content(size + 64 * (number + 1)));
    }
    for size in [600u64 << 20, 1 << 30] {
        scene.src.sparse(format!("large {size}"), size, &[(size / 2, 100_000)]);
    }
    copies(&scene, &["A"], &["--no-sync"]);
    let side = std::fs::metadata(scene.path(shell(&scene, "ls A/*.states").trim())).unwrap().len();
    // Those that are large enough to have states.
    let sizes = shell(&scene, "find A -type f -size +1048576c -printf '%s\\n'");
    let all: u64 = sizes.lines().map(|size| size.parse::<u64>().unwrap()).sum();
    assert!(side - 17 <= all / 10_000, "{side} bytes for {all}");
    assert!(side > all / (MIB as u64) * 32, "{side} bytes for {all}");
}

/// How much memory a file takes does not depend on its size.
#[test]
fn memory_does_not_grow_with_the_file() {
    let peak = |size: u64| {
        let scene = Scene::new();
        scene.src.sparse("film.mov", size, &[(0, 100), (size / 2, 100_000)]);
        copies(&scene, &["A", "B"], &["--no-sync"]);
        rot(&scene, "A/film.mov", &[7]);
        rot(&scene, "B/film.mov", &[size as usize / 2]);
        let mut healing = scene.bare(["heal", "-q", "--from", "cache", "A", "B"]).spawn();
        let peak = healing.peak_memory();
        healing.wait().assert_code(0);
        peak
    };
    let (small, large) = (peak(32 << 20), peak(320 << 20));
    // Its states are 20 KiB.
    assert!(large < small + 4096, "{small} KiB, and {large} KiB for ten times the size");
    assert!(large < 64 << 10, "{large} KiB");
}
