//! Calls that do not come back, or come back for nothing: it is said what is waited for, and one signal ends the run.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{
    Act, Call, Deed, Judge, Mirror, NONE, SOON, Scene, Tree, content, names_below, need, shell,
};

/// A server that does not answer a call of which `is_it` holds, until this is dropped.
struct Hanging {
    released: Arc<AtomicBool>,
    hangs: Arc<AtomicU32>,
    mirror: Option<Mirror>,
}

impl Hanging {
    fn mount(below: &Path, at: &Path, is_it: impl Fn(&Call<'_>) -> bool + Send + 'static) -> Self {
        let (released, hangs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (until, count) = (Arc::clone(&released), Arc::clone(&hangs));
        let mirror = Mirror::mount(below, at, move |call| {
            if is_it(call) {
                count.fetch_add(1, Relaxed);
                while !until.load(Relaxed) {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            Act::Pass
        });
        Self { released, hangs, mirror: Some(mirror) }
    }

    fn hangs(&self) -> bool {
        self.hangs.load(Relaxed) > 0
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        self.released.store(true, Relaxed);
        self.mirror.take();
    }
}

/// Who waits for what is said before anybody asks, and once more at the end.
#[test]
fn what_a_run_waits_for_is_said() {
    need!(Fuse);
    for (from_there, deed) in [(true, Deed::Read), (false, Deed::Write)] {
        let scene = Scene::new();
        scene.src.file("large", content(3_000_000)).file("small", "small");
        let shown = scene.path("shown");
        let is_it = move |call: &Call<'_>| {
            let is_list = call.path.to_string_lossy().contains("sha256sum");
            call.deed == deed && !is_list && call.number > 8
        };
        let (src, truth) =
            (scene.src.root().to_path_buf(), scene.tree("truth").root().to_path_buf());
        let (below, from, to) = match from_there {
            true => (src.clone(), shown.clone(), scene.dst.clone()),
            false => (truth.clone(), src.clone(), shown.clone()),
        };
        let hanging = Hanging::mount(&below, &shown, is_it);
        let args = ["--block-size", "64K", "--workers", "1", "--report", "report.json"];
        let mut running = scene.command_to(from, to, args).spawn();
        running.until_it_listens();
        running.until("it hangs", || hanging.hangs());
        std::thread::sleep(Duration::from_millis(7500));
        running.signal(Signal::TERM);
        // The kernel itself does not let go of a call that the server has taken.
        std::thread::sleep(Duration::from_millis(2500));
        drop(hanging);
        let run = running.wait();
        run.assert_code(143)
            .assert_says("shown/")
            .assert_says("no answer for 5 s; it is waited for");
        run.assert_says(if from_there { "cannot read" } else { "cannot write" });
        run.assert_says("and the run is to end").assert_prints(&["ENDED (exit 143)"]);
        let report = std::fs::read_to_string(scene.path("report.json")).unwrap();
        let report = report.replace(": ", ":");
        assert!(report.contains("\"exit_code\":143"), "{report}");
        // What it was at is gone.
        if from_there {
            let left = names_below(&scene.dst, "f").into_iter();
            let left: Vec<_> = left.filter(|name| name.ends_with(b".dircopy-part")).collect();
            assert!(left.is_empty(), "{left:?}");
        }
        let again = (!from_there).then(|| Mirror::mount(&truth, &shown, |_| Act::Pass));
        let to = if from_there { scene.dst.clone() } else { shown.clone() };
        let run = scene.command_to(&src, &to, ["-v"]).run();
        run.assert_code(0);
        drop(again);
        let is_at = if from_there { scene.dst.clone() } else { truth };
        Judge::new(&scene.src, Tree::at(&is_at), &run).complete();
    }
}

/// A server that stops to take what it is asked: after a call of which a test says so, or when it is told, it waits for
/// ever in a call of somebody else's.
struct Deaf {
    released: Arc<AtomicBool>,
    is_deaf: Arc<AtomicBool>,
    tell: Sender<()>,
    mirror: Option<Mirror>,
    other: Child,
}

impl Deaf {
    /// Shows `below`, which has a file `trap`.
    fn mount(below: &Path, at: &Path, is_it: impl Fn(&Call<'_>) -> bool + Send + 'static) -> Self {
        std::fs::write(below.join("trap"), "trap").unwrap();
        let (released, is_deaf) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (until, deaf) = (Arc::clone(&released), Arc::clone(&is_deaf));
        let (tell, told) = channel();
        let (spring, mut is_sprung) = (tell.clone(), false);
        let mirror = Mirror::mount(below, at, move |call| {
            if call.path == Path::new("trap") {
                deaf.store(true, Relaxed);
                while !until.load(Relaxed) {
                    std::thread::sleep(Duration::from_millis(20));
                }
            } else if !is_sprung && is_it(call) {
                is_sprung = true;
                spring.send(()).unwrap();
                // The next to be taken is the other's.
                std::thread::sleep(Duration::from_millis(300));
            }
            Act::Pass
        });
        // By another process: what this one has open there is closed, and waited for, in each that it starts.
        let script = "exec 3<\"$1\"; echo; read -r; read -r -u 3";
        let mut other = Command::new("bash")
            .args(["-c", script, "bash"])
            .arg(at.join("trap"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut input, mut output) = (other.stdin.take().unwrap(), other.stdout.take().unwrap());
        output.read_exact(&mut [0]).unwrap();
        std::thread::spawn(move || told.recv().map(|()| input.write_all(b"\n")));
        Self { released, is_deaf, tell, mirror: Some(mirror), other }
    }
}

impl Drop for Deaf {
    fn drop(&mut self) {
        self.released.store(true, Relaxed);
        let _ = self.other.kill();
        let _ = self.other.wait();
        self.mirror.take();
    }
}

/// A call that its server did not take yet is left to the kernel, and the run ends in time. (No file may be open
/// there: its close is a call too, and the kernel waits for that.)
#[test]
fn a_run_ends_soon_after_a_signal_though_a_call_does_not_come_back() {
    need!(Fuse);
    for (signal, code, at) in [(Signal::TERM, 143, 1), (Signal::INT, 130, 0)] {
        let scene = Scene::new();
        scene.src.file("a", "a").file("b/c", "c").dir("shown");
        scene.tree("served").file("tree/small", "small");
        let shown = scene.path("src/shown");
        let server = Deaf::mount(&scene.path("served"), &shown, move |call| {
            call.deed == Deed::List && call.number == at
        });
        if at == 0 {
            server.tell.send(()).unwrap();
            while !server.is_deaf.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let mut running = scene.command(["--workers", "1"]).spawn();
        running.until_it_listens();
        running.until("it is deaf", || server.is_deaf.load(Relaxed));
        std::thread::sleep(Duration::from_millis(2500));
        let asked = Instant::now();
        running.signal(signal);
        let run = running.wait();
        let took = asked.elapsed();
        run.assert_code(code).assert_says("cannot ").assert_says("src/shown");
        run.assert_says("s, and the run is to end")
            .assert_prints(&[&format!("ENDED (exit {code})")]);
        assert!(took < SOON, "{took:?}");
        drop(server);
        scene.judge(&run).sound().no_temp_files();
        shell(&scene, "rmdir src/shown");
        let next = scene.copy(&[]);
        scene.judge(&next).complete();
    }
}

/// A write that is interrupted each time ends too.
#[test]
fn one_signal_ends_a_run_whose_calls_are_interrupted_for_ever() {
    need!(Fuse);
    for (from_there, deed) in [(true, Deed::Read), (false, Deed::Write)] {
        let scene = Scene::new();
        for i in 0..200 {
            scene.src.file(format!("{i:03}"), content(200_000));
        }
        let shown = scene.path("shown");
        let (below, from, to) = match from_there {
            true => (scene.src.root().to_path_buf(), shown.clone(), scene.dst.clone()),
            false => {
                (scene.tree("truth").root().to_path_buf(), scene.src.root().into(), shown.clone())
            }
        };
        let fired = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&fired);
        let _mirror = Mirror::mount(&below, &shown, move |call| {
            if call.deed != deed || call.path.to_string_lossy().contains("sha256sum") {
                return Act::Pass;
            }
            count.fetch_add(1, Relaxed);
            Act::Fail(rustix::io::Errno::INTR.raw_os_error())
        });
        let mut running = scene.command_to(from, to, ["--block-size", "64K"]).spawn();
        running.until_it_listens();
        running.until("calls are interrupted", || fired.load(Relaxed) > 100);
        let asked = Instant::now();
        running.signal(Signal::TERM);
        let run = running.wait();
        run.assert_code(143);
        assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
    }
}

/// Who may write to the output puts a list there that is one hole of many TiB: it is named, and read no further than any
/// line may go.
#[test]
fn a_list_that_is_one_hole_is_not_read_to_its_end() {
    let scene = Scene::new();
    scene.src.file("file", "content");
    scene.copy(&NONE).assert_code(0);
    let plant = "name=dst/dircopy-$(date -u +%Y%m%dT%H%M%SZ -d '+1 hour').sha256sum; truncate -s 15T $name; echo $name";
    let planted = shell(&scene, plant);
    let run = scene.copy(&NONE);
    run.assert_no_crash();
    run.assert_says("line 1 is longer than 256 MiB");
    assert_eq!(scene.output().read("file"), b"content");
    // A check says that it cannot use it.
    scene
        .bare(["verify", "-m", planted.trim()])
        .run()
        .assert_code_in(&[5])
        .assert_says("longer than 256 MiB");
}
