//! Faults on the way to the kernel, with `strace`.
//!
//! `when` counts per thread and per call. A path filter compares strings: the path of a descriptor
//! as `/proc` shows it, or the argument as it was given. The temp files' names are random, so a
//! fault cannot be aimed at one of them; it can at everything else. A test of a fault that did not
//! fire tests nothing: [`Strace::fired`] is to be asked.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::run::{Cmd, Run, Running};

/// A way to run the program under `strace`.
pub struct Strace {
    args: Vec<OsString>,
    log: PathBuf,
}

impl Strace {
    /// All calls that take bytes out of a descriptor.
    pub const READS: &'static str =
        "read,pread64,readv,preadv,preadv2,copy_file_range,sendfile,splice";
    /// All calls that put bytes into one.
    pub const WRITES: &'static str = "write,pwrite64,writev,pwritev,pwritev2";
    /// All calls that look at an entry by its name.
    pub const STATS: &'static str = "newfstatat,statx,lstat,stat";
    pub const SYNCS: &'static str = "fsync,fdatasync,syncfs";
    pub const RENAMES: &'static str = "rename,renameat,renameat2,link,linkat";
    pub const OPENS: &'static str = "open,openat,openat2,creat";

    fn new(scene_root: &Path) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let log = scene_root.join(format!("strace-{number}.log"));
        let args = ["strace", "-f", "-qq", "-y", "-s", "64", "-o"];
        let mut args: Vec<OsString> = args.iter().map(OsString::from).collect();
        args.push(log.clone().into());
        args.push("--seccomp-bpf".into()); // stops at the calls in question only
        Self { args, log }
    }

    /// Only watches these calls.
    pub fn watch(scene: &super::scene::Scene, calls: &str) -> Self {
        let mut strace = Self::new(scene.root());
        strace.option("-e", &format!("trace={calls}"));
        strace
    }

    /// Does `fault` (as in `error=EIO:when=2`) to these calls.
    pub fn inject(scene: &super::scene::Scene, calls: &str, fault: &str) -> Self {
        let mut strace = Self::watch(scene, calls);
        if fault.starts_with("signal") {
            // strace 6.1 does not send signals when only the filtered calls stop.
            strace.args.retain(|arg| arg != "--seccomp-bpf");
        }
        strace.option("-e", &format!("inject={calls}:{fault}"));
        strace
    }

    fn option(&mut self, option: &str, value: &str) {
        self.args.extend([option.into(), value.into()]);
    }

    /// Only calls that concern this path: as a descriptor, and as an argument given whole or as its
    /// last component relative to some directory.
    pub fn on(mut self, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        for form in [path.as_os_str(), path.file_name().unwrap()] {
            self.args.extend(["-P".into(), form.to_owned()]);
        }
        self
    }

    /// Only calls on this path's descriptors or with exactly this argument.
    pub fn exactly_on(mut self, path: impl AsRef<Path>) -> Self {
        self.args.extend(["-P".into(), path.as_ref().as_os_str().to_owned()]);
        self
    }

    /// Only calls that concern the manifest of a run that starts within a minute (it is named by the
    /// second).
    pub fn on_manifest(mut self, scene: &super::scene::Scene) -> Self {
        let script =
            "now=$(date +%s); for s in {0..59}; do date -u -d @$((now + s)) +%Y%m%dT%H%M%SZ; done";
        for stamp in super::run::shell(scene, script).lines() {
            self = self.on(scene.dst.join(format!("dircopy-{stamp}.sha256sum.part")));
        }
        self
    }

    /// The program sees a kernel so old that a sync of a whole file system cannot be relied on, and
    /// syncs each file and each directory instead.
    pub fn on_an_old_kernel(mut self) -> Self {
        self.args.splice(0..0, ["setarch".into(), "--uname-2.6".into()]);
        self
    }

    /// The program sees a kernel of this version; `uname` is among the calls that are watched.
    pub fn on_kernel(mut self, release: &str) -> Self {
        // `struct utsname`: the system, the machine's name and the version, 65 bytes each.
        let fields = ["Linux", "host", release].map(|field| {
            let hex: String = field.bytes().map(|byte| format!("{byte:02x}")).collect();
            hex + &"00".repeat(65 - field.len())
        });
        self.option("-e", &format!("inject=uname:poke_exit=@arg1={}", fields.concat()));
        self
    }

    pub fn run(&self, command: Cmd<'_>) -> Run {
        self.spawn(command).wait()
    }

    pub fn spawn(&self, command: Cmd<'_>) -> Running {
        assert!(self.log.starts_with(command.scene().root()));
        command.under(&self.args).spawn()
    }

    /// Runs `command`, which the fault `signal=SIGSTOP` stops at some call; does `meanwhile` while
    /// everything stands still, and lets it go on.
    pub fn run_stopped(&self, command: Cmd<'_>, meanwhile: impl FnOnce()) -> Run {
        let mut running = self.spawn(command);
        running.until("the stop", || self.log().contains("stopped by SIGSTOP"));
        meanwhile();
        Self::let_go(running)
    }

    /// Lets a run go on that stands still, to its end.
    pub fn let_go(mut running: Running) -> Run {
        // All threads have to be in the stop before it can be ended for all.
        std::thread::sleep(Duration::from_millis(20));
        // Each thread that makes such a call later is stopped once more.
        let since = Instant::now();
        while !running.is_over() && since.elapsed() < Duration::from_secs(60) {
            running.signal(Signal::CONT);
            std::thread::sleep(Duration::from_millis(20));
        }
        running.wait()
    }

    pub fn log_path(&self) -> &Path {
        &self.log
    }

    pub fn log(&self) -> String {
        std::fs::read(&self.log)
            .map(|l| String::from_utf8_lossy(&l).into_owned())
            .unwrap_or_default()
    }

    /// Every call, without its thread, on one line.
    pub fn calls(&self) -> Vec<String> {
        whole_calls(&self.log())
    }

    /// The calls that the fault was done to.
    pub fn injected(&self) -> Vec<String> {
        let hit = |call: &String| call.contains("(INJECTED") || call.contains("(DELAYED)");
        self.calls().into_iter().filter(hit).collect()
    }

    #[track_caller]
    pub fn fired(&self, run: &Run) {
        if self.injected().is_empty() {
            run.fail(&format!("the fault never fired\nstrace:\n{}", self.log()));
        }
    }
}

/// The calls that `strace -f` noted, each without its thread and on one line: it tells one that another
/// thread's cuts in two in two lines.
pub fn whole_calls(log: &str) -> Vec<String> {
    let mut begun: HashMap<&str, &str> = HashMap::new();
    let call = |line| {
        let (thread, call) = str::split_once(line, ' ')?;
        let call = call.trim_start();
        if let Some(first) = call.strip_suffix("<unfinished ...>") {
            begun.insert(thread, first);
            return None;
        }
        Some(match call.strip_prefix("<... ").and_then(|rest| rest.split_once("resumed>")) {
            Some((_, rest)) => begun.remove(thread).unwrap_or_default().to_owned() + rest,
            None => call.to_owned(),
        })
    };
    log.lines().filter_map(call).collect()
}
