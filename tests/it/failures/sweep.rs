//! The first call of a kind fails, then the second, and so on until a run meets no fault: after SQLite's
//! way of testing. Nobody has to know which call does what; whatever failed, what is left behind is
//! sound, what is missing is named, a failure that costs something is never exit 0, and the next run
//! makes up for it.
//!
//! That is `DIRCOPY_TEST_LONG=1`; otherwise it is the first error of each family, in most settings one call
//! in three, and of calls that are made often a sample.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::{
    Run, Scene, Strace, Tree, content, inventory, leftover_name, long, names_below, need, shell,
};

/// More than any thread makes of one kind in this little tree.
const MOST: u32 = 512;

/// About so many calls of a kind fail in the short form where a failure costs something …
const SAMPLES: u32 = 12;

/// … where it mostly does not, or another setting has it too, …
const FEW_SAMPLES: u32 = 4;

/// … and where both are so: with all of these in their long form it was a quarter of the time of all tests, and a sixth
/// with 16 and 6.
const FEWEST_SAMPLES: u32 = 2;

/// Where a failure mostly costs nothing the short form leaves out the settings that differ in how what is written
/// becomes durable.
const FOR_ALL: [Setting; 3] = [Setting::Fresh, Setting::Again, Setting::Replace];

/// What a run finds, and how it is to work.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Setting {
    /// No output, and one sync for a group.
    Fresh,
    /// No output, and a sync for each file.
    Each,
    /// No output, and no syncs.
    Unsynced,
    /// No output, and what is written is read back.
    Proved,
    /// An output that an earlier run left, with a part file of a killed run, and more in the source.
    Again,
    /// An output in which every file differs and is replaced.
    Replace,
}

const SETTINGS: [Setting; 6] = [
    Setting::Fresh,
    Setting::Each,
    Setting::Unsynced,
    Setting::Proved,
    Setting::Again,
    Setting::Replace,
];

impl Setting {
    fn args(self) -> Vec<&'static str> {
        let more: &[&str] = match self {
            Setting::Unsynced => &["--no-sync"],
            Setting::Proved => &["--verify"],
            Setting::Replace => &["--overwrite-policy", "always", "--hard-links"],
            _ => &[],
        };
        [&["--workers", "1", "--block-size", "4096"], more].concat()
    }

    /// The scene, and what is at the output before the run.
    fn scene(self) -> (Scene, Tree) {
        let scene = Scene::new();
        let src = &scene.src;
        src.file("big", content(5 * 4096 + 1)).file("small", "small").file("empty", "");
        src.file("dir/other", content(2 * 4096)).symlink("link", "small");
        src.sparse("holes", 1 << 20, &[(8192, 1)]);
        match self {
            Setting::Fresh | Setting::Each | Setting::Unsynced | Setting::Proved => {}
            Setting::Again => {
                scene.copy(&["--no-sync"]).assert_code(0);
                src.file("more", content(4097)).file("dir/more", "more");
                shell(&scene, &format!("echo part >dst/dir/{}", leftover_name(&scene.dst)));
            }
            Setting::Replace => {
                src.hard_link("dir/small", "small");
                shell(
                    &scene,
                    "cp -a src dst; cd dst; for f in big small empty holes; do echo old >$f; done",
                );
                scene.output().remove("link").symlink("link", "elsewhere");
            }
        }
        let old = scene.tree("old");
        shell(&scene, "[ ! -e dst ] || cp -a dst/. old");
        (scene, old)
    }
}

/// Whom a fault concerns.
#[derive(PartialEq)]
enum Aim {
    /// Any call; the temp files' names are random.
    Anything,
    /// What has to do with the source or the output by name, not the loading of the program.
    Trees,
}

/// What a run that met the fault may say and leave.
#[derive(PartialEq)]
enum Verdict {
    /// Something was lost: never exit 0.
    Fails,
    /// It may have had another way, or lost nothing; if it says 0, all is there.
    Sound,
    /// As `Sound`, and attributes may be missing. The next run sets those of files that it replaces.
    Warns,
    /// As `Sound`, and what could not be removed may stay until the next run.
    Leaves,
}

/// Calls of a kind, and how they fail.
struct Family {
    calls: &'static str,
    errors: &'static [&'static str],
    aim: Aim,
    verdict: Verdict,
}

/// The fault hit the dynamic loader, before the program was there to do anything about it.
fn died_loading(run: &Run) -> bool {
    run.code == Some(127) && run.err().contains("error while loading shared libraries")
}

/// Runs in one setting with the `when`th call failing, and looks at what came of it. Returns how many
/// calls failed; `None` when none did.
fn one(family: &Family, call: &str, setting: Setting, fault: &str) -> Option<usize> {
    let (scene, old) = setting.scene();
    let mut strace = Strace::inject(&scene, call, fault);
    if family.aim == Aim::Trees {
        for dir in ["", "dir"] {
            strace = strace.exactly_on(scene.src.path(dir).components().as_path());
            strace = strace.exactly_on(scene.dst.join(dir).components().as_path());
        }
        for name in names_below(scene.src.root(), "f") {
            strace = strace.on(scene.src.path(&name));
        }
        strace = strace.on(scene.src.path("dir"));
    }
    if setting == Setting::Each {
        strace = strace.on_an_old_kernel();
    }
    let before = inventory(scene.src.root());
    let run = strace.run(scene.command(setting.args()));
    let injected = strace.injected();
    if died_loading(&run) {
        return Some(0);
    }
    let judge = scene.judge(&run).over(&old);
    judge.sound().equal("the source", &inventory(scene.src.root()), &before);
    let codes = [0, 1, 2, 3, 4];
    run.assert_code_in(if setting == Setting::Proved { &codes } else { &codes[..4] });
    if injected.is_empty() {
        run.assert_code(0);
        return None;
    }
    // Without its private record a run is only slower the next time, and says so.
    let is_private = |line: &String| line.contains("/.dircopy") || line.contains("\".dircopy\"");
    let is_told = String::from_utf8_lossy(&run.stderr).contains(" private ");
    let log = strace.log();
    let main = log.split(' ').next().unwrap_or_default();
    // The main thread syncs no part file, but the directory of a trial, which is called as one.
    let is_of_main =
        |call: &str| log.lines().any(|line| line.starts_with(main) && line.contains(call));
    let is_tried_sync = |call: &String| {
        call.starts_with("fsync(") && call.contains(".dircopy-part>)") && is_of_main(call)
    };
    let is_harmless =
        |call: &String| is_private(call) && is_told || is_of_a_trial(call) || is_tried_sync(call);
    let is_nothing_lost = injected.iter().all(is_harmless);
    if family.verdict == Verdict::Fails && run.code == Some(0) && !is_nothing_lost {
        run.fail(&format!("{fault} was swallowed:\n{}", injected.join("\n")));
    }
    // Whoever can say nothing cannot be asked for reasons.
    let speechless = injected.iter().any(|line| line.contains("(2<") || line.contains("(1<"));
    match run.code {
        _ if speechless => {}
        Some(1 | 4) => drop(judge.names_what_is_missing()),
        Some(2) => drop(judge.equal("the output", &inventory(&scene.dst), &inventory(old.root()))),
        Some(3) if run.err().is_empty() => run.fail("stopped, and nobody knows why"),
        _ => {}
    }
    if family.verdict != Verdict::Leaves && run.code != Some(2) {
        judge.no_temp_files();
        if run.code != Some(3) {
            judge.no_leftovers();
        }
    }
    // Without the fault the next run completes it.
    let mut args = setting.args();
    if family.verdict == Verdict::Warns && setting != Setting::Replace {
        args.extend(["--overwrite-policy", "always"]);
    }
    let next = scene.command(args).run();
    scene.judge(&next).complete();
    Some(injected.len())
}

/// Whether a call is one by which the output is tried, in a directory with a temp file's name: what fails there
/// is what the output is taken to be unable to do.
fn is_of_a_trial(call: &str) -> bool {
    [".dircopy-part>, \"", ".dircopy-part/", ".dircopy-part\", AT_REMOVEDIR"]
        .iter()
        .any(|part| call.contains(part))
        || call.starts_with("mkdirat(") && call.contains(".dircopy-part\"")
        || call.starts_with("symlinkat(") && call.contains(".dircopy-part>")
}

/// The calls that a run without faults makes, and how often its busiest thread makes them.
fn called(setting: Setting) -> &'static BTreeMap<String, u32> {
    static CALLED: [OnceLock<BTreeMap<String, u32>>; 6] = [const { OnceLock::new() }; 6];
    CALLED[setting as usize].get_or_init(|| {
        let (scene, _) = setting.scene();
        let mut strace = Strace::watch(&scene, "all");
        if setting == Setting::Each {
            strace = strace.on_an_old_kernel();
        }
        strace.run(scene.command(setting.args())).assert_code(0);
        let log = strace.log();
        let mut by_thread = BTreeMap::<(&str, &str), u32>::new();
        for line in log.lines() {
            let mut words = line.split_whitespace();
            if let (Some(thread), Some(call)) = (words.next(), words.next())
                && let Some((name, _)) = call.split_once('(')
            {
                *by_thread.entry((thread, name)).or_default() += 1;
            }
        }
        let mut called = BTreeMap::<String, u32>::new();
        for ((_, name), times) in by_thread {
            let most = called.entry(name.to_owned()).or_default();
            *most = times.max(*most);
        }
        assert!(called.contains_key("openat"), "{log}");
        called
    })
}

fn sweep(family: &Family) {
    need!(Strace);
    let mut sum = 0;
    let is_short = !long() && family.verdict != Verdict::Fails;
    for setting in if is_short { &FOR_ALL[..] } else { &SETTINGS } {
        let setting = *setting;
        // Each call by itself: strace counts them one by one, and a call that fails at the same time
        // would hide that the failure of another was swallowed.
        for call in family.calls.split(',') {
            if let Some(times) = called(setting).get(call.trim_start_matches('?')) {
                sum += sweep_call(family, call, setting, *times);
            }
        }
    }
    assert!(sum > 0, "{} never failed", family.calls);
    total(sum);
}

fn sweep_call(family: &Family, call: &str, setting: Setting, times: u32) -> usize {
    let errors = if long() { family.errors } else { &family.errors[..1] };
    let step = match (long(), setting, &family.verdict) {
        (true, ..) => 1,
        (false, Setting::Fresh, Verdict::Fails) => times.div_ceil(SAMPLES).max(1),
        (false, Setting::Fresh, _) => times.div_ceil(FEW_SAMPLES).max(1),
        (false, _, Verdict::Fails) => times.div_ceil(FEW_SAMPLES).max(3),
        (false, ..) => times.div_ceil(FEWEST_SAMPLES).max(3),
    };
    let mut sum = 0;
    for error in errors {
        for onwards in ["", "+"] {
            let mut faults = Vec::new();
            // The first `syncfs` only asks whether this process may call it.
            let first = if call == "syncfs" { 2 } else { 1 };
            for when in (first..=MOST).step_by(step as usize) {
                let fault = format!("error={error}:when={when}{onwards}");
                match one(family, call, setting, &fault) {
                    Some(met) => faults.push(met),
                    None => break,
                }
            }
            assert!(faults.len() as u32 * step < MOST, "{call}: never without a fault");
            let met: usize = faults.iter().sum();
            eprintln!("{call}: {error}{onwards}, {setting:?}: {met} faults");
            sum += met;
        }
    }
    sum
}

/// Adds up, and looks at the sum when every family was swept.
fn total(sum: usize) {
    static SWEPT: AtomicUsize = AtomicUsize::new(0);
    static FAULTS: AtomicUsize = AtomicUsize::new(0);
    let faults = FAULTS.fetch_add(sum, Ordering::Relaxed) + sum;
    if SWEPT.fetch_add(1, Ordering::Relaxed) + 1 == FAMILIES.len() {
        eprintln!("the sweep: {faults} faults injected");
        assert!(faults >= if long() { 2000 } else { 500 }, "only {faults} faults injected");
    }
}

/// One test for each, so that they run side by side and fail by name.
macro_rules! sweeps {
    ($($name:ident: $calls:expr, $errors:expr, $aim:ident, $verdict:ident;)+) => {
        $(
            #[test]
            fn $name() {
                sweep(&Family { calls: $calls, errors: &$errors, aim: Aim::$aim, verdict: Verdict::$verdict });
            }
        )+

        /// The calls of all families.
        const FAMILIES: &[&str] = &[$($calls),+];
    };
}

sweeps! {
    write: Strace::WRITES, ["ENOSPC", "EIO", "EDQUOT"], Anything, Fails;
    sync: Strace::SYNCS, ["EIO", "ENOSPC"], Anything, Fails;
    rename: "rename,renameat,renameat2", ["EIO", "EACCES"], Anything, Fails;
    link: "link,linkat", ["EIO"], Anything, Sound;
    read: "read,pread64,readv,preadv", ["EIO"], Trees, Fails;
    list: "getdents64", ["EIO"], Trees, Leaves;
    make_directory: "mkdir,mkdirat", ["EIO", "ENOSPC"], Anything, Fails;
    make_link: "symlink,symlinkat", ["EIO", "ENOSPC"], Anything, Fails;
    read_link: "readlinkat", ["EIO"], Anything, Sound;
    open: Strace::OPENS, ["EMFILE", "EACCES", "ENOSPC"], Trees, Sound;
    stat: "statx,newfstatat,fstat,lstat,stat", ["EIO"], Trees, Sound;
    close: "close", ["EIO"], Anything, Sound;
    lengthen: "ftruncate,fallocate", ["ENOSPC", "EIO"], Anything, Fails;
    seek: "lseek", ["EIO"], Trees, Sound;
    remove: "unlink,unlinkat", ["EIO"], Anything, Leaves;
    mode: "fchmod,fchmodat,?fchmodat2,chmod", ["EPERM"], Anything, Warns;
    owner: "fchown,fchownat,lchown,chown", ["EPERM"], Anything, Warns;
    time: "utimensat", ["EIO"], Anything, Warns;
    attributes: "fgetxattr,flistxattr,fremovexattr,fsetxattr,getxattr,listxattr,lgetxattr,llistxattr", ["EIO"], Anything, Warns;
    volume: "fstatfs,statfs,faccessat,faccessat2", ["EIO"], Anything, Sound;
    lock: "flock", ["EIO", "ENOLCK"], Anything, Sound;
    descriptor: "fcntl,dup,dup3", ["EMFILE"], Anything, Sound;
    thread: "clone3,clone", ["EAGAIN"], Anything, Sound;
}

/// What a copy calls and no fault is injected into: memory and threads, where a failure is the end of
/// any program; and what says how to work, not whether it worked.
const EXEMPT: &str = "access arch_prctl brk clock_nanosleep execve exit exit_group fadvise64 futex getcwd getegid geteuid \
    getrandom gettid ioctl madvise mmap mprotect munmap poll prctl pread64 prlimit64 readlink rseq \
    rt_sigaction rt_sigprocmask rt_sigreturn sched_getaffinity sched_yield set_robust_list \
    set_tid_address sigaltstack umask uname";

/// A call that is added to the copy is added to the sweep as well.
#[test]
fn every_call_is_swept() {
    need!(Strace);
    let known: BTreeSet<&str> = FAMILIES.iter().flat_map(|calls| calls.split(',')).collect();
    for setting in SETTINGS {
        for call in called(setting).keys() {
            let is_known =
                known.contains(call.as_str()) || EXEMPT.split_whitespace().any(|e| e == call);
            assert!(is_known, "{call} is neither swept nor exempt ({setting:?})");
        }
    }
}

/// Closing is the last moment at which NFS reports a lost write.
#[test]
fn closing_a_written_file_is_not_taken_lightly() {
    need!(Strace);
    let mut met = 0;
    for when in (1..=MOST).step_by(if long() { 1 } else { 5 }) {
        let scene = Scene::new();
        scene.src.file("big", content(300_000));
        // Each thread counts for itself, and the first few of the main one are the loader's.
        for i in 0..20 {
            scene.src.file(format!("small-{i}"), "small");
        }
        let strace = Strace::inject(&scene, "close", &format!("error=EIO:when={when}"));
        let run = strace.run(scene.command(["--workers", "1"]));
        // The main thread's is the empty file by which it learns whether the output folds letter case.
        let log = strace.log();
        let main = log.split(' ').next().unwrap_or_default();
        let is_lost = |line: &str| {
            line.contains("(INJECTED") && line.contains(".dircopy-part>") && !line.starts_with(main)
        };
        if !died_loading(&run) && log.lines().any(is_lost) {
            met += 1;
            if run.code == Some(0) {
                run.fail(&format!("swallowed:\n{}", strace.injected().join("\n")));
            }
            scene.judge(&run).sound().no_temp_files();
        }
    }
    assert!(met > 0, "no close of a temp file ever failed");
}
