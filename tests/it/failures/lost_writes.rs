//! Writes that count as done and are lost: the kernel tells of each once, in whatever call is next.

use std::path::Path;

use rustix::io::Errno;

use crate::harness::{Act, Call, Deed, Habit, Mirror, Scene, Strace, content, names_below, need};

const IO: i32 = Errno::IO.raw_os_error();
const FULL: i32 = Errno::NOSPC.raw_os_error();

/// An output where what is written is kept first, and `is_lost` says of which files the first writes are then lost.
fn output(scene: &Scene, error: i32, is_lost: impl Fn(&Path) -> bool + Send + 'static) -> Mirror {
    let mut left = 1;
    let hook = move |call: &Call<'_>| {
        let is_lost = call.deed == Deed::Write && is_lost(call.path) && left > 0;
        left -= i32::from(is_lost);
        if is_lost { Act::Fail(error) } else { Act::Pass }
    };
    let truth = scene.tree("truth");
    Mirror::with_habits(truth.root(), &scene.dst, &[Habit::CachesWrites], hook)
}

fn is_part(path: &Path) -> bool {
    path.to_string_lossy().ends_with(".dircopy-part")
}

#[test]
fn a_file_fails_of_which_a_write_is_lost() {
    need!(Fuse);
    for error in [IO, FULL] {
        for args in
            [&["--no-sync"][..], &[], &["--no-sync", "--hash", "none"], &["--no-sync", "-o"]]
        {
            for size in [3000, 200_000] {
                let scene = Scene::new();
                scene.src.file("one", content(size)).file("two", content(size));
                let other = scene.path("other");
                let args: Vec<_> = args.iter().map(Path::new).collect();
                let further = args.last() == Some(&Path::new("-o"));
                let args = args.into_iter().chain(further.then_some(&*other));
                let mirror = output(&scene, error, is_part);
                let run = scene
                    .command(["--block-size", "64K"].map(Path::new).into_iter().chain(args))
                    .run();
                assert_eq!(mirror.fired(), 1);
                // A sync that fails ends the run.
                run.assert_code_in(&[1, 3]).assert_says("error").assert_no_crash();
                drop(mirror);
                let truth = scene.tree("truth");
                let names = names_below(truth.root(), "f");
                let files: Vec<_> = ["one", "two"]
                    .into_iter()
                    .filter(|name| names.contains(name.as_bytes()))
                    .collect();
                assert!(files.len() < 2, "{error} {size}: {}", run.out());
                for name in files {
                    assert!(truth.read(name) == content(size), "{error} {size}: {name}");
                }
                assert!(!names.iter().any(|name| name.ends_with(b".dircopy-part")), "{names:?}");
            }
        }
    }
}

#[test]
fn a_manifest_or_list_of_which_a_write_is_lost_is_an_error() {
    need!(Fuse);
    for lost in [".sha256sum", ".md5", ".states", "SHA256SUMS"] {
        let scene = Scene::new();
        scene.src.file("one", content(3000)).file("dir/two", content(3 << 20));
        let is_lost = move |path: &Path| match lost {
            "SHA256SUMS" => is_part(path) && path.parent() == Some(Path::new("dir")),
            _ => path.to_string_lossy().contains(lost),
        };
        let args = match lost {
            "SHA256SUMS" => &["--no-sync", "--format", "dirs"][..],
            _ => &["--no-sync", "--hash", "sha256,md5"],
        };
        let mirror = output(&scene, IO, is_lost);
        let run = scene.copy(args);
        assert_eq!(mirror.fired(), 1, "{lost}");
        drop(mirror);
        if lost == ".states" {
            // Without states a check takes longer, and says the same.
            run.assert_code(0).assert_says("warning").assert_says("Input/output error");
            let names = names_below(scene.tree("truth").root(), "f");
            assert!(!names.iter().any(|name| name.ends_with(b".states")), "{names:?}");
        } else {
            assert_ne!(run.code, Some(0), "{lost}: {}", run.out());
            run.assert_no_crash();
        }
    }
}

#[test]
fn a_stream_fails_of_which_a_write_is_lost() {
    need!(Fuse);
    for args in [&["--no-sync"][..], &["--no-sync", "--hash", "none"]] {
        let scene = Scene::new();
        scene.src.file("one", content(3000)).file("two", content(300_000));
        let mirror = output(&scene, IO, is_part);
        let all = [&["-i", "src/one", "-i", "src/two", "-o", "dst/x"], args].concat();
        let run = scene.bare(all).run();
        assert_eq!(mirror.fired(), 1);
        assert_ne!(run.code, Some(0), "{}", run.out());
        drop(mirror);
        assert!(names_below(scene.tree("truth").root(), "f").is_empty(), "{}", run.out());
    }
}

/// What is refused again is the label's own: the content is right.
#[test]
fn a_label_that_is_refused_with_any_error_is_a_warning() {
    need!(Strace);
    for (fault, code) in [("error=EIO", 0), ("error=ENOSPC", 0), ("error=EIO:when=1", 1)] {
        let scene = Scene::new();
        scene.src.file("one", content(3000)).mode("one", 0o604);
        let strace = Strace::inject(&scene, "utimensat", fault);
        let run = strace.run(scene.command(["--no-sync", "--workers", "1", "--hash", "none"]));
        strace.fired(&run);
        run.assert_code(code);
        assert_eq!(scene.dst.join("one").exists(), code == 0, "{fault}");
    }
}
