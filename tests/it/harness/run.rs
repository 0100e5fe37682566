//! Running the program: with a time limit, so that a hang is a failure; in a process group of its
//! own, so that nothing outlives its test; and with everything it said kept for the failure message.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::beside;
use super::random::Random;
use super::scene::Scene;

/// No test run takes this long unless something hangs, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(300);

/// Two seconds after a signal all is over; a machine that does much else needs longer. What a test has
/// take minutes is told from it all the same.
pub const SOON: Duration = Duration::from_secs(20);

/// No arguments beside the usual ones.
pub const NONE: [&str; 0] = [];

/// What a run is begun by, so that it outlives neither its test nor a test program that is killed: it might fill the
/// memory. Not by a call between fork and exec: a fork copies the page tables of the test program, which took a third
/// of the processors in the longest tests. Nothing where util-linux is not there.
fn dies_with_its_test() -> &'static [&'static str] {
    static WORDS: OnceLock<&[&str]> = OnceLock::new();
    WORDS.get_or_init(|| {
        let words: &[&str] = &["setpriv", "--pdeathsig", "KILL", "--"];
        let tried = Command::new(words[0]).args(&words[1..]).arg("true").output();
        if tried.is_ok_and(|it| it.status.success()) { words } else { &[] }
    })
}

/// A run of the program that was not started yet.
pub struct Cmd<'a> {
    scene: &'a Scene,
    program: OsString,
    before: Vec<OsString>,
    args: Vec<OsString>,
    stdout: Option<Stdio>,
    /// The output, and those beside it that are to be as it is.
    outputs: Option<(PathBuf, Vec<PathBuf>)>,
}

impl<'a> Cmd<'a> {
    pub(super) fn new(scene: &'a Scene, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let args = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        let program = std::env::var_os("DIRCOPY_BIN")
            .unwrap_or_else(|| OsString::from(env!("CARGO_BIN_EXE_dircopy")));
        Self { scene, program, before: Vec::new(), args, stdout: None, outputs: None }
    }

    /// Runs `dirverify` instead.
    pub fn dirverify(mut self) -> Self {
        self.program = env!("CARGO_BIN_EXE_dirverify").into();
        self
    }

    /// Puts the options of `DIRCOPY_TEST_ARGS` first, except those that the test sets itself.
    pub(super) fn with_extra_args(mut self) -> Self {
        let extra = std::env::var("DIRCOPY_TEST_ARGS").unwrap_or_default();
        let mut words = extra.split_whitespace().peekable();
        let mut first = Vec::new();
        while let Some(option) = words.next() {
            let value = words.next_if(|word| !word.starts_with('-'));
            if !self.args.iter().any(|arg| arg == option) {
                first.extend([Some(option), value].into_iter().flatten().map(OsString::from));
            }
        }
        self.args.splice(0..0, first);
        self
    }

    /// Adds the further outputs of `DIRCOPY_TEST_OUTPUTS` to this one.
    pub(super) fn with_further_outputs(mut self, first: &Path) -> Self {
        // As the program finds it.
        let first = self.scene.root().join(first);
        let further = beside::outputs(&first);
        self.args.extend(further.iter().flat_map(|path| ["-o".into(), path.clone().into()]));
        self.outputs = Some((first, further));
        self
    }

    /// Runs it as an argument of another program, outermost last.
    pub fn under(mut self, wrapper: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let wrapper = wrapper.into_iter().map(|arg| arg.as_ref().to_owned());
        self.before.splice(0..0, wrapper);
        self
    }

    /// Runs it from a shell that does `preparation` first; `exec "$@"` follows it.
    pub fn after(self, preparation: &str) -> Self {
        self.under(["bash", "-c", &format!("{preparation}; exec \"$@\""), "bash"])
    }

    /// Runs it from a shell line in which `"$@"` is the program and its arguments.
    pub fn in_shell(self, line: &str) -> Self {
        self.under(["bash", "-c", line, "bash"])
    }

    pub fn under_nobody(self) -> Self {
        self.under(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
    }

    pub fn stdout(mut self, to: impl Into<Stdio>) -> Self {
        self.stdout = Some(to.into());
        self
    }

    pub(super) fn scene(&self) -> &'a Scene {
        self.scene
    }

    pub fn run(self) -> Run {
        self.spawn().wait()
    }

    pub fn spawn(self) -> Running {
        let (output, further) = self.outputs.unwrap_or_default();
        beside::begin(&output, &further);
        let values = |option: &str| {
            let after = self.args.iter().zip(self.args.iter().skip(1));
            after.filter(|it| it.0 == option).map(|it| it.1).collect::<Vec<_>>()
        };
        let log = values("--log").pop().map(|log| self.scene.root().join(log));
        let roots = values("-i").into_iter().chain(values("-o"));
        let roots = roots.map(|root| root.to_string_lossy().into_owned()).collect();
        let mut line = self.before;
        line.push(self.program);
        line.extend(self.args);
        let mut words =
            dies_with_its_test().iter().map(OsStr::new).chain(line.iter().map(|it| &**it));
        let mut command = Command::new(words.next().unwrap());
        command
            .args(words)
            .current_dir(self.scene.root())
            .env("LC_ALL", "C")
            .env("TZ", "Asia/Kolkata") // whoever forgets that a Z means UTC is found out
            .stdin(Stdio::null())
            .stdout(self.stdout.unwrap_or_else(Stdio::piped))
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn().unwrap_or_else(|e| panic!("cannot run {line:?}: {e}"));
        let shown = line.iter().fold(String::new(), |mut shown, word| {
            let _ = write!(shown, " {}", word.to_string_lossy().escape_debug());
            shown
        });
        Running {
            group: Pid::from_child(&child),
            out: child.stdout.take().map(Collected::begin),
            err: child.stderr.take().map(Collected::begin),
            child,
            root: self.scene.root().to_path_buf(),
            shown,
            started: Instant::now(),
            waited: false,
            outputs: (output, further),
            log,
            roots,
        }
    }
}

/// What comes out of one end of a pipe, as it comes.
struct Collected {
    all: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Collected {
    fn begin(mut from: impl Read + Send + 'static) -> Self {
        let all = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&all);
        let reader = std::thread::spawn(move || {
            let mut part = [0; 8192];
            while let Ok(length @ 1..) = from.read(&mut part) {
                to.lock().unwrap().extend_from_slice(&part[..length]);
            }
        });
        Self { all, reader }
    }

    fn end(self) -> Vec<u8> {
        self.reader.join().unwrap();
        std::mem::take(&mut self.all.lock().unwrap())
    }
}

/// A run that goes on. Killed, with all that it started, when dropped.
pub struct Running {
    child: Child,
    group: Pid,
    out: Option<Collected>,
    err: Option<Collected>,
    root: PathBuf,
    shown: String,
    started: Instant,
    waited: bool,
    outputs: (PathBuf, Vec<PathBuf>),
    log: Option<PathBuf>,
    roots: Vec<String>,
}

impl Running {
    /// Sends a signal to the whole process group.
    pub fn signal(&self, signal: Signal) {
        kill_process_group(self.group, signal).unwrap();
    }

    /// Asks how far it is, again and again, until it says so on stderr.
    pub fn ask_until_it_says(&mut self, is_told: impl Fn(&str) -> bool) {
        let mut asked = Instant::now();
        let group = self.group;
        let err = self.err.as_ref().map(|err| Arc::clone(&err.all)).unwrap_or_default();
        let _ = kill_process_group(group, Signal::USR1);
        self.until("it says how far it is", || {
            if asked.elapsed() > Duration::from_millis(100) {
                let _ = kill_process_group(group, Signal::USR1);
                asked = Instant::now();
            }
            is_told(&String::from_utf8_lossy(&err.lock().unwrap()))
        });
    }

    /// Leaves it alone, ends it or kills it, as it happens.
    pub fn disturb(&self, random: &mut Random) {
        match random.below(3) {
            0 => {}
            1 => self.signal(Signal::TERM),
            _ => self.signal(Signal::KILL),
        }
    }

    /// Waits until the program itself is there (after shells and tools) and catches signals.
    pub fn until_it_listens(&mut self) {
        let of = |file: &str| format!("/proc/{}/{file}", self.child.id());
        let (name, status) = (of("comm"), of("status"));
        self.until("it listens", || {
            let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
            let status = read(&status);
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
            let both =
                [Signal::INT, Signal::TERM].iter().fold(0, |all, it| all | 1 << (it.as_raw() - 1));
            read(&name).starts_with("dir") && caught.is_some_and(|caught| caught & both == both)
        });
    }

    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `condition` holds while the run goes on; panics when the run ends before.
    pub fn until(&mut self, what: &str, mut condition: impl FnMut() -> bool) {
        while !condition() {
            let over = self.is_over();
            assert!(
                (!over || condition()) && self.started.elapsed() < LIMIT,
                "never came to pass: {what}\ncommand: {}\nin: {}",
                self.shown,
                self.root.display()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The largest resident size, in KiB, looked at every few milliseconds until the run ends. What comes
    /// after the last look is missed, so compare runs that last, and end, alike.
    pub fn peak_memory(&mut self) -> usize {
        let status = format!("/proc/{}/status", self.child.id());
        let mut peak = 0;
        while !self.is_over() && self.started.elapsed() < LIMIT {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let now = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            peak = peak.max(now.unwrap_or(0));
            std::thread::sleep(Duration::from_millis(1));
        }
        peak
    }

    pub fn wait(mut self) -> Run {
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if self.started.elapsed() > LIMIT {
                panic!(
                    "hangs (over {LIMIT:?})\ncommand: {}\nin: {}",
                    self.shown,
                    self.root.display()
                );
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        self.waited = true;
        // Whoever inherited the pipes and lives on would make us wait for them.
        let _ = kill_process_group(self.group, Signal::KILL);
        beside::end(&self.outputs.0, &self.outputs.1);
        let text = |from: Option<Collected>| from.map(Collected::end);
        Run {
            code: status.code(),
            signal: status.signal(),
            stdout: text(self.out.take()).unwrap_or_default(),
            stderr: text(self.err.take()).unwrap_or_default(),
            took: self.started.elapsed(),
            root: std::mem::take(&mut self.root),
            shown: std::mem::take(&mut self.shown),
            outputs: std::mem::take(&mut self.outputs),
            log: self.log.take(),
            roots: std::mem::take(&mut self.roots),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.waited {
            let _ = kill_process_group(self.group, Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// A run that is over.
pub struct Run {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub took: Duration,
    root: PathBuf,
    shown: String,
    outputs: (PathBuf, Vec<PathBuf>),
    log: Option<PathBuf>,
    roots: Vec<String>,
}

impl Run {
    /// The further outputs of a run whose output this is.
    pub(super) fn beside(&self, output: &Path) -> &[PathBuf] {
        let (first, further) = &self.outputs;
        if first == output { further } else { &[] }
    }

    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// What it was told to copy, and where to, as it was given.
    pub(super) fn roots(&self) -> &[String] {
        &self.roots
    }

    /// What the run wrote into the log that it was told to write.
    pub fn log(&self) -> String {
        let read = |log: &PathBuf| std::fs::read(log).unwrap_or_default();
        self.log
            .as_ref()
            .map(read)
            .map_or_else(String::new, |log| String::from_utf8_lossy(&log).into())
    }

    #[track_caller]
    pub fn assert_code(&self, code: i32) -> &Self {
        self.assert_code_in(&[code])
    }

    #[track_caller]
    pub fn assert_code_in(&self, codes: &[i32]) -> &Self {
        if !self.code.is_some_and(|code| codes.contains(&code)) {
            self.fail(&format!("expected exit code {codes:?}"));
        }
        self
    }

    /// A line on stderr says this.
    #[track_caller]
    pub fn assert_says(&self, text: &str) -> &Self {
        if !self.err().lines().any(|line| line.contains(text)) {
            self.fail(&format!("expected a line on stderr with {text:?}"));
        }
        self
    }

    /// A line on stdout has all of these words.
    #[track_caller]
    pub fn assert_prints(&self, words: &[&str]) -> &Self {
        if !self.out().lines().any(|line| words.iter().all(|word| line.contains(word))) {
            self.fail(&format!("expected a line on stdout with {words:?}"));
        }
        self
    }

    /// It ended by itself, and not with Rust's code for a panic.
    #[track_caller]
    pub fn assert_no_crash(&self) -> &Self {
        if self.signal.is_some() || self.code == Some(101) || self.err().contains("panicked at") {
            self.fail("crashed");
        }
        self
    }

    /// Fails the test, saying everything that is known about the run.
    #[track_caller]
    pub fn fail(&self, why: &str) -> ! {
        let rule = "-".repeat(78);
        panic!(
            "{why}\n{rule}\ncommand:{}\nin: {}\ncode: {:?}  signal: {:?}  took: {:?}\n\
             {rule}\nstdout:\n{}\n{rule}\nstderr:\n{}\n{rule}",
            self.shown,
            self.root.display(),
            self.code,
            self.signal,
            self.took,
            self.out(),
            self.err()
        );
    }
}

/// For what rests on pages that stay in memory: tries it four times, because a system short of memory takes
/// them at any moment.
pub fn while_pages_stay(body: impl Fn()) {
    for _ in 0..3 {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(&body)).is_ok() {
            return;
        }
    }
    body();
}

/// Runs a line of shell in the scene, for what only a shell or a tool does.
#[track_caller]
pub fn shell(scene: &Scene, line: &str) -> String {
    let output =
        Command::new("bash").args(["-ec", line]).current_dir(scene.root()).output().unwrap();
    assert!(
        output.status.success(),
        "{line}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The environment of a time zone in which it is noon in so many seconds.
pub fn noon_in(scene: &Scene, seconds: i64) -> String {
    let now = shell(scene, "date -u +%s").trim().parse::<i64>().unwrap() % 86_400;
    let east = (12 * 3600 - seconds - now).rem_euclid(86_400);
    format!("TZ=HERE-{}:{:02}:{:02}", east / 3600, east / 60 % 60, east % 60)
}
