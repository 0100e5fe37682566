//! A check proves what is on the disk, not what is in memory.

use std::fs;
use std::os::unix::fs::FileExt;

use crate::harness::{Mount, Scene, Strace, Tree, content, need, shell, skipped, while_pages_stay};

/// A file system on a loop device with a file of a known content in it, in memory and on the disk.
fn mounted(scene: &Scene) -> (Mount, Tree) {
    let mount = Mount::ext4(&scene.path("image"), 64, &scene.path("mount"));
    scene.src.file("marked", marked()).file("other", content(3_000_000)).file("small", "small");
    let run = scene.command_to(scene.src.root(), scene.path("mount"), ["-q"]).run();
    run.assert_code(0);
    (mount, Tree::of(scene.path("mount")))
}

const MARK: &[u8] = b"a mark that stands nowhere else, to be found in the image";

fn marked() -> Vec<u8> {
    let mut bytes = content(1_000_000);
    bytes[700_000..700_000 + MARK.len()].copy_from_slice(MARK);
    bytes
}

/// Flips a bit on the device, behind the file system's back.
fn flip(scene: &Scene) {
    let image = fs::read(scene.path("image")).unwrap();
    let places: Vec<_> = memchr::memmem::find_iter(&image, MARK).collect();
    let &[place] = &places[..] else { panic!("the mark stands at {places:?}") };
    let file = fs::OpenOptions::new().write(true).open(scene.path("image")).unwrap();
    file.write_all_at(&[MARK[3] ^ 1], place as u64 + 3).unwrap();
    file.sync_all().unwrap();
}

fn pages_in_memory(scene: &Scene, name: &str) -> u64 {
    shell(scene, &format!("fincore -n -o PAGES mount/{name}")).trim().parse().unwrap()
}

#[test]
fn a_flipped_bit_below_a_cached_file_is_found() {
    need!(Loop);
    while_pages_stay(|| {
        let scene = Scene::on_disk();
        let (_mount, tree) = mounted(&scene);
        let run = scene.bare(["verify", "mount"]).run();
        run.assert_code(0).assert_prints(&["read", "3 from the device", "0 only"]);
        // In memory for somebody else; the copy may have dropped it.
        assert_eq!(tree.read("marked"), marked());
        flip(&scene);
        let run = scene.bare(["verify", "--from", "cache", "mount"]).run();
        run.assert_code(0).assert_prints(&["read", "0 from the device", "3 only"]);
        let before = pages_in_memory(&scene, "marked");
        assert!(before > 200, "{before}");
        let run = scene.bare(["verify", "mount"]).run();
        run.assert_code(4)
            .assert_says("differs: mount/marked")
            .assert_prints(&["3 from the device"]);
        // What was there for others is still there.
        assert_eq!(pages_in_memory(&scene, "marked"), before);
        assert_eq!(tree.read("marked"), marked());
    });
}

#[test]
fn what_was_not_in_memory_is_not_left_there() {
    need!(Loop);
    let scene = Scene::on_disk();
    let (_mount, _) = mounted(&scene);
    flip(&scene);
    shell(
        &scene,
        "sync; for f in mount/*; do dd of=$f oflag=nocache conv=notrunc,fdatasync count=0; done",
    );
    if pages_in_memory(&scene, "marked") > 0 {
        return skipped("the kernel does not let go of pages");
    }
    let run = scene.bare(["verify", "mount"]).run();
    run.assert_code(4).assert_says("differs: mount/marked").assert_prints(&["3 from the device"]);
    assert_eq!(pages_in_memory(&scene, "marked"), 0);
    assert_eq!(pages_in_memory(&scene, "other"), 0);
}

/// A file that is one hole takes no blocks, and its pages are dropped all the same.
#[test]
fn a_hole_is_not_left_in_memory() {
    need!(Loop);
    while_pages_stay(|| {
        let scene = Scene::on_disk();
        let _mount = Mount::ext4(&scene.path("image"), 64, &scene.path("mount"));
        scene.src.sparse("hole", 30 << 20, &[]).file("small", "small");
        let run = scene.command_to(scene.src.root(), scene.path("mount"), ["-q"]).run();
        run.assert_code(0);
        assert_eq!(pages_in_memory(&scene, "hole"), 0);
        scene.bare(["verify", "mount"]).run().assert_code(0);
        assert_eq!(pages_in_memory(&scene, "hole"), 0);
    });
}

/// What was just written is in memory only; it must be on the device before that is read.
#[test]
fn what_is_not_written_yet_is_written_first() {
    need!(Loop, Strace);
    let scene = Scene::on_disk();
    let (_mount, tree) = mounted(&scene);
    tree.file("fresh", content(5_000_001));
    shell(&scene, "cd mount; sha256sum fresh small > list; rm fresh; sync");
    tree.file("fresh", content(5_000_001));
    let strace = Strace::watch(&scene, "fsync,pread64,read");
    let run = strace.run(scene.bare(["verify", "-m", "mount/list"]));
    run.assert_code(0).assert_prints(&["2 from the device"]);
    let log = strace.log();
    let calls: Vec<_> = log.lines().filter(|line| line.contains("mount/fresh")).collect();
    assert!(calls[0].contains("fsync("), "{log}");
    let clean = |line: &str| line.contains("mount/small") && line.contains("fsync(");
    assert!(!log.lines().any(clean), "what is written already is not written again\n{log}");
}

/// Of the files of others the kernel does not tell what is in memory: they are read around it.
#[test]
fn the_files_of_others_too_come_from_the_device() {
    need!(Loop, Setpriv);
    let scene = Scene::new();
    let (_mount, tree) = mounted(&scene);
    shell(&scene, "chmod 755 . mount");
    assert_eq!(tree.read("marked"), marked());
    flip(&scene);
    let run = scene.bare(["verify", "mount"]).under_nobody().run();
    run.assert_code(4).assert_says("differs: mount/marked").assert_prints(&["3 from the device"]);
}

#[test]
fn a_file_system_in_memory_is_a_cache() {
    need!(Mount);
    let scene = Scene::on_disk();
    let _mount = Mount::tmpfs(&scene.path("mount"), "8m");
    scene.src.file("file", content(5000));
    scene.command_to(scene.src.root(), scene.path("mount"), ["-q"]).run().assert_code(0);
    let run = scene.bare(["verify", "-v", "mount"]).run();
    run.assert_code(0).assert_prints(&["0 from the device, 1 only through a cache"]);
    run.assert_prints(&["OK", "mount/file", "through a cache"]);
}

/// A large file on a cold disk is read from it once: what the kernel has read ahead is not thrown away. Where it reads
/// ahead by little this would not show.
#[test]
fn a_cold_file_is_read_from_its_disk_once() {
    const SIZE: usize = 96 << 20;
    let scene = Scene::on_disk();
    scene.src.file("film", content(SIZE));
    scene.copy(&["-q", "--hash", "sha256,md5"]).assert_code(0);
    let manifest = |ending: &str| {
        let find = format!("ls dst | grep -E '^dircopy-[^-]*[.]{ending}$'");
        format!("dst/{}", shell(&scene, &find).trim())
    };
    // By its links, as a whole beside another thread, and by another algorithm.
    let (by_links, other) = (manifest("sha256sum"), manifest("md5sum"));
    fs::copy(scene.path(&by_links), scene.path("list")).unwrap();
    for list in [by_links, "list".to_owned(), other] {
        shell(&scene, "dd if=/dev/null of=dst/film oflag=nocache conv=notrunc,fdatasync count=0");
        // The shell is told of what the programs that it waited for have read.
        let check = format!("{} verify -q --manifest {list} dst", env!("CARGO_BIN_EXE_dircopy"));
        let counted = format!("{check} && sed -n 's/^read_bytes: //p' /proc/$$/io");
        let told = shell(&scene, &counted);
        let read: usize = told.trim().parse().unwrap_or(0);
        if read < SIZE {
            return skipped("the disk of the build is not read as one");
        }
        assert!(read < SIZE / 8 * 9, "{list}: {read} bytes read");
    }
}
