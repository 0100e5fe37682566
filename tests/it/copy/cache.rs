//! The page cache is left as it was found.

use crate::harness::{
    Judge, Mount, Scene, Strace, Tree, content, long, names_below, need, shell, while_pages_stay,
};

const MIB: usize = 1 << 20;

/// Bytes of files in memory, by `fincore`.
fn in_memory(scene: &Scene, files: &str) -> usize {
    let told = shell(scene, &format!("fincore --bytes -n -o RES {files}"));
    told.split_whitespace().map(|bytes| bytes.parse::<usize>().unwrap()).sum()
}

/// Puts nothing of the files below `dir` into memory.
fn forget(scene: &Scene, dir: &str) {
    shell(
        scene,
        &format!(
            "sync; find {dir} -type f -exec dd status=none of={{}} oflag=nocache \
             conv=notrunc,fdatasync count=0 \\;"
        ),
    );
}

/// What a report says of the page cache: bytes read that stayed, of how many, and the same of those
/// written.
fn stayed(scene: &Scene, report: &str) -> (u64, u64, u64, u64) {
    let report = std::fs::read(scene.path(report)).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let cache = &report["outputs"][0]["cache"];
    let bytes = |name: &str| cache[name].as_u64().unwrap();
    (
        bytes("source_bytes"),
        bytes("source_of_bytes"),
        bytes("output_bytes"),
        bytes("output_of_bytes"),
    )
}

/// A file system of this kind with a source of 64 MiB on it, of which nothing is in memory.
fn scene_on(kind: &str) -> (Scene, Mount, Tree) {
    let scene = Scene::on_disk();
    let mount = Mount::of_kind(kind, &scene.path("image"), &scene.path("mount"));
    let src = Tree::at(scene.path("mount/src"));
    for name in ["one", "two", "three", "four"] {
        src.file(name, content(16 * MIB + 1000));
    }
    forget(&scene, "mount/src");
    assert_eq!(in_memory(&scene, "mount/src/*"), 0);
    (scene, mount, src)
}

fn kinds() -> &'static [&'static str] {
    if long() { &["ext4", "xfs", "btrfs"] } else { &["xfs"] }
}

#[test]
fn what_the_copy_brought_in_is_let_go_of() {
    need!(Kinds);
    while_pages_stay(|| {
        for kind in kinds() {
            for hash in ["sha256", "none"] {
                let (scene, _mount, src) = scene_on(kind);
                let to = scene.path("mount/dst");
                let options = ["--hash", hash, "--reflink", "never", "--report", "said.json", "-v"];
                let run = scene.command_to(src.root(), &to, options).run();
                run.assert_code(0).assert_prints(&["cache", "stayed in memory"]);
                let told = stayed(&scene, "said.json");
                assert!(told.0 + told.2 <= MIB as u64, "{kind}, {hash}: {told:?}");
                assert_eq!(
                    (told.1, told.3),
                    (4 * (16 * MIB as u64 + 1000), told.1),
                    "{kind}, {hash}"
                );
                let [from, to] =
                    ["mount/src/*", "mount/dst/*"].map(|files| in_memory(&scene, files));
                assert!(from + to <= MIB, "{kind}, {hash}: {from} and {to} bytes of 64 MiB each");
                // The control: a copy that keeps them.
                let to = scene.path("mount/kept");
                let options = ["--hash", hash, "--reflink", "never", "--cache", "keep"];
                scene.command_to(src.root(), &to, options).run().assert_code(0);
                let [from, to] =
                    ["mount/src/*", "mount/kept/*"].map(|files| in_memory(&scene, files));
                assert!(from.min(to) >= 48 * MIB, "{kind}, {hash}: {from} and {to}");
            }
        }
    });
}

#[test]
fn what_was_in_memory_before_stays_there() {
    need!(Kinds);
    while_pages_stay(|| {
        for kind in kinds() {
            for (hash, reflink) in [("sha256", "never"), ("none", "never"), ("sha256", "auto")] {
                let (scene, _mount, src) = scene_on(kind);
                // One whole, and a stretch in the middle of another.
                shell(
                    &scene,
                    "cat mount/src/two >/dev/null; dd status=none if=mount/src/three of=/dev/null \
                 bs=64K skip=100 count=20",
                );
                let before =
                    ["mount/src/two", "mount/src/three"].map(|file| in_memory(&scene, file));
                assert!(before[0] >= 16 * MIB && before[1] >= MIB, "{before:?}");
                let to = scene.path("mount/dst");
                let options = ["--hash", hash, "--reflink", reflink];
                scene.command_to(src.root(), &to, options).run().assert_code(0);
                let after =
                    ["mount/src/two", "mount/src/three"].map(|file| in_memory(&scene, file));
                // The kernel itself may need a page or two meanwhile.
                let stayed = |i: usize| after[i] >= before[i] / 100 * 99;
                assert!(stayed(0) && stayed(1), "{kind}: {before:?} {after:?}");
                let others = in_memory(&scene, "mount/src/one mount/src/four");
                assert!(others <= MIB, "{kind}, {hash}: {others} bytes came to stay");
            }
        }
    });
}

/// Kernels and file systems without the flag do it by windows.
#[test]
fn the_same_where_the_kernel_does_not_know_the_flag() {
    need!(Loop, Strace);
    while_pages_stay(|| {
        let (scene, _mount, src) = scene_on("ext4");
        shell(&scene, "cat mount/src/two >/dev/null");
        let before = in_memory(&scene, "mount/src/two");
        let strace = Strace::inject(&scene, "preadv2,pwritev2", "error=EOPNOTSUPP");
        let run = strace.run(scene.command_to(src.root(), scene.path("mount/dst"), ["-q"]));
        strace.fired(&run);
        run.assert_code(0);
        assert_eq!(in_memory(&scene, "mount/src/two"), before);
        // The last bytes of each file share a page with the end of the window before.
        let rest = in_memory(&scene, "mount/src/one mount/src/three mount/src/four");
        let copy = in_memory(&scene, "mount/dst/*");
        assert!(rest + copy <= MIB, "{rest} and {copy} bytes");
        Judge::new(&src, Tree::of(scene.path("mount/dst")), &run).complete();
    });
}

/// What is said to have stayed is looked at and not assumed.
#[test]
fn what_could_not_be_let_go_of_is_told() {
    need!(Loop, Strace);
    while_pages_stay(|| {
        let (scene, _mount, src) = scene_on("ext4");
        let strace = Strace::inject(&scene, "preadv2,pwritev2,fadvise64", "error=EOPNOTSUPP");
        let args = ["-q", "--report", "said.json"];
        let run = strace.run(scene.command_to(src.root(), scene.path("mount/dst"), args));
        strace.fired(&run);
        run.assert_code(0);
        let (read, of, written, all) = stayed(&scene, "said.json");
        assert!(of == all && read > of / 2 && written > of / 2, "{read} and {written} of {of}");
    });
}

/// A lost write that is told while waiting for it is told nowhere else.
#[test]
fn an_error_of_writing_out_is_an_error_of_the_file() {
    need!(Loop, Strace);
    for hash in ["sha256", "none"] {
        let (scene, _mount, src) = scene_on("ext4");
        let to = scene.path("mount/dst");
        let strace = Strace::inject(&scene, "sync_file_range", "error=EIO:when=3");
        let options = ["--hash", hash, "--workers", "1", "--reflink", "never"];
        let run = strace.run(scene.command_to(src.root(), &to, options));
        strace.fired(&run);
        run.assert_code(1).assert_says("cannot write").assert_says("nput/output error");
        let mut there = names_below(&to, "f");
        there.retain(|name| src.has(name));
        assert!(there.len() < names_below(src.root(), "f").len(), "{there:?}");
    }
}

/// Calls that only spare the cache are not made for files of a few bytes, nor where files live in
/// memory anyway.
#[test]
fn small_files_and_file_systems_in_memory_do_not_pay() {
    need!(Strace, Mount);
    let calls = "fadvise64,sync_file_range,mincore,mmap,pwritev2";
    for (len, hash) in [(5000, "sha256"), (5000, "none"), (3_000_000, "sha256")] {
        let scene = Scene::on_disk();
        for i in 0..20 {
            scene.src.file(format!("{i}"), content(len));
        }
        let tmpfs = (len > 5000).then(|| Mount::tmpfs(&scene.path("place"), "128m"));
        let place = scene.tree("place");
        if tmpfs.is_some() {
            shell(&scene, "mv src place/src; mkdir src");
        }
        let from = if tmpfs.is_some() { place.path("src") } else { scene.src.root().to_owned() };
        let strace = Strace::watch(&scene, calls);
        // What is small is told by the first write of it.
        let args = ["--hash", hash, "--block-size", "256K"];
        let run = strace.run(scene.command_to(from, place.path("dst"), args));
        run.assert_code(0);
        let log = strace.log();
        let about_files = |line: &&str| line.contains("/src/") || line.contains("dircopy-part");
        let paid: Vec<_> =
            log.lines().filter(about_files).filter(|line| !line.contains("SEQUENTIAL")).collect();
        assert!(paid.is_empty(), "{len}, {hash}: {paid:?}");
    }
}

/// On btrfs everything that is not written out yet has much more room set aside than it needs, so where little
/// is free, small files are written out at once. Elsewhere the kernel is better at it.
#[test]
fn small_files_are_written_out_at_once_where_room_for_them_runs_short() {
    need!(Kinds, Strace);
    const FILES: usize = 20;
    for (kind, size, at_once) in [("btrfs", "512M", FILES), ("btrfs", "8G", 0), ("xfs", "512M", 0)]
    {
        for options in [&[][..], &["--no-sync", "--cache", "keep"], &["--hash", "none"]] {
            let scene = Scene::on_disk();
            shell(&scene, &format!("truncate --size={size} image; mkfs.{kind} -q image"));
            let _mount = Mount::device(&scene.path("image"), &scene.path("mount"), "loop").unwrap();
            for i in 0..FILES {
                scene.src.file(format!("{i}"), content(5000));
            }
            scene.src.file("empty", "");
            let strace = Strace::watch(&scene, "sync_file_range");
            let all = [&["-i", "src", "-o", "mount/dst"], options].concat();
            let run = strace.run(scene.bare(all));
            Judge::new(&scene.src, Tree::of(scene.path("mount/dst")), &run)
                .same_tree()
                .no_leftovers();
            let calls = strace.calls();
            let begun = calls.iter().filter(|call| call.ends_with("SYNC_FILE_RANGE_WRITE) = 0"));
            assert_eq!(begun.count(), at_once, "{kind}, {size}, {options:?}: {calls:?}");
        }
    }
}
