//! The first operation fails, then the second, and so on until a run meets no fault: after SQLite's
//! way of testing. Nobody has to know which call does what; whatever failed, what is left behind is
//! sound, and a failure that costs something is never exit 0.

use crate::harness::{Run, Scene, Strace, content, inventory, names_below, need};

/// More than any thread makes of one kind in this little tree.
const MOST: u32 = 24;

fn scene() -> Scene {
    let scene = Scene::new();
    scene.src.file("big", content(5 * 4096 + 1)).file("small", "small").file("empty", "");
    scene.src.file("dir/other", content(2 * 4096)).symlink("link", "small").sparse(
        "holes",
        1 << 20,
        &[(8192, 1)],
    );
    scene
}

/// Whom a fault concerns.
enum Aim {
    /// Any call; the temp files' names are random.
    Anything,
    /// What has to do with the source or the output by name, not the loading of the program.
    Trees,
}

/// What a run that met the fault may say.
enum Verdict {
    /// Something was lost: never exit 0.
    Fails,
    /// It may have had another way, or lost nothing; if it says 0, all is there.
    Sound,
}

/// The fault hit the dynamic loader, before the program was there to do anything about it.
fn died_loading(run: &Run) -> bool {
    run.code == Some(127) && run.err().contains("error while loading shared libraries")
}

fn sweep(calls: &str, error: &str, aim: &Aim, verdict: &Verdict) {
    need!(Strace);
    let ways = ["", "--no-sync", "--verify"];
    for (onwards, way) in ["", "+"].into_iter().flat_map(|onwards| ways.map(|way| (onwards, way))) {
        // Without syncs files go without a name while they are written, if a trial link works.
        let may_go_another_way = way == "--no-sync" && calls == Strace::RENAMES;
        let mut met = 0;
        for when in 1..=MOST {
            let scene = scene();
            let fault = format!("error={error}:when={when}{onwards}");
            let mut strace = Strace::inject(&scene, calls, &fault);
            if matches!(aim, Aim::Trees) {
                for dir in ["", "dir"] {
                    strace = strace.exactly_on(scene.src.path(dir).components().as_path());
                    strace = strace.exactly_on(scene.dst.join(dir).components().as_path());
                }
                for name in names_below(scene.src.root(), "f") {
                    strace = strace.on(scene.src.path(&name));
                }
                strace = strace.on(scene.src.path("dir"));
            }
            let before = inventory(scene.src.root());
            let args = ["--jobs", "1", "--block-size", "4096", way];
            let command = scene.command(args.into_iter().filter(|arg| !arg.is_empty()));
            let run = strace.run(command);
            if strace.injected().is_empty() {
                scene.judge(&run).complete();
                break;
            }
            if died_loading(&run) {
                continue;
            }
            met += 1;
            let codes = [0, 1, 2, 3, 4];
            run.assert_code_in(if way == "--verify" { &codes } else { &codes[..4] });
            if run.code == Some(2) && scene.dst.exists() && names_below(&scene.dst, "f").len() > 1 {
                run.fail("exit 2 after something was copied");
            }
            let judge = scene.judge(&run);
            judge.sound().no_temp_files();
            judge.equal("the source", &inventory(scene.src.root()), &before);
            if run.code != Some(3) {
                judge.no_leftovers();
            }
            let fails = matches!(verdict, Verdict::Fails) && !may_go_another_way;
            if fails && run.code == Some(0) {
                run.fail(&format!("{fault} was swallowed:\n{}", strace.injected().join("\n")));
            }
        }
        eprintln!("{calls}: {error}{onwards} {way}: {met} runs met the fault");
    }
}

/// One test for each, so that they run side by side and fail by name.
macro_rules! sweeps {
    ($($name:ident: $calls:expr, $error:literal, $aim:ident, $verdict:ident;)+) => {
        $(
            #[test]
            fn $name() {
                sweep($calls, $error, &Aim::$aim, &Verdict::$verdict);
            }
        )+
    };
}

sweeps! {
    write_no_space: Strace::WRITES, "ENOSPC", Anything, Fails;
    write_io_error: Strace::WRITES, "EIO", Anything, Fails;
    sync: Strace::SYNCS, "EIO", Anything, Fails;
    rename: Strace::RENAMES, "EIO", Anything, Fails;
    read: "read,pread64,readv,preadv", "EIO", Trees, Fails;
    list: "getdents64", "EIO", Trees, Fails;
    make_directory: "mkdir,mkdirat", "EIO", Anything, Fails;
    make_link: "symlink,symlinkat", "EIO", Anything, Fails;
    open: Strace::OPENS, "EMFILE", Trees, Sound;
    stat: "statx,newfstatat,fstat,lstat,stat", "EIO", Trees, Sound;
    close: "close", "EIO", Anything, Sound;
    lengthen: "ftruncate,fallocate", "ENOSPC", Anything, Sound;
    seek: "lseek", "EIO", Trees, Sound;
    mode: "fchmod,fchmodat,?fchmodat2,chmod", "EPERM", Anything, Sound;
    owner: "fchown,fchownat,lchown,chown", "EPERM", Anything, Sound;
    time: "utimensat", "EIO", Anything, Sound;
    attributes: "fgetxattr,flistxattr,fsetxattr,getxattr,listxattr,lgetxattr,llistxattr", "EIO", Anything, Sound;
    advice: "fadvise64,sync_file_range,readahead", "EIO", Anything, Sound;
}

/// Closing is the last moment at which NFS reports a lost write.
#[test]
fn closing_a_written_file_is_not_taken_lightly() {
    need!(Strace);
    let mut met = 0;
    for when in 1..=40 {
        let scene = Scene::new();
        scene.src.file("big", content(300_000));
        // Each thread counts for itself, and the first few of the main one are the loader's.
        for i in 0..20 {
            scene.src.file(format!("small-{i}"), "small");
        }
        let strace = Strace::inject(&scene, "close", &format!("error=EIO:when={when}"));
        let run = strace.run(scene.command(["--jobs", "1"]));
        // The main thread's is the empty file by which it learns whether the output folds letter case.
        let log = strace.log();
        let main = log.split(' ').next().unwrap_or_default();
        let lost = |line: &String| line.contains(".dircopy-part>") && !line.starts_with(main);
        if !died_loading(&run) && strace.injected().iter().any(lost) {
            met += 1;
            if run.code == Some(0) {
                run.fail(&format!("swallowed:\n{}", strace.injected().join("\n")));
            }
            scene.judge(&run).sound().no_temp_files();
        }
    }
    assert!(met > 0, "no close of a temp file ever failed");
}
