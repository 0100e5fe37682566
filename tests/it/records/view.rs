//! The view while a run goes on, as a terminal gets it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{Act, Deed, Mirror, Need, Scene, content, have, need, shell};

/// The size of a terminal.
#[derive(Clone, Copy, Debug)]
struct Size {
    columns: usize,
    lines: usize,
}

const USUAL: Size = Size { columns: 80, lines: 24 };

/// Runs a copy on a terminal of this size and returns the lines that it drew, without what moves the cursor.
fn drawn(scene: &Scene, size: Size, setting: &str, args: &[&str]) -> Vec<String> {
    let Size { columns, lines } = size;
    let size = format!("stty cols {columns} rows {lines}");
    let line = format!("export {setting}; exec script -qefc \"{size}; $*\" /dev/null");
    let run = scene.command(args).in_shell(&line).run();
    let text = run.out();
    let mut lines = Vec::new();
    for part in text.split(['\r', '\n', '\u{1b}']) {
        // What follows ESC is a sequence up to its letter.
        let rest = part.strip_prefix('[').map_or(part, |rest| {
            rest.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, rest)| rest)
        });
        // Each row is padded to the width of the terminal.
        let cells: Vec<char> = rest.chars().collect();
        let rows = cells.chunks(columns).map(|row| row.iter().collect::<String>());
        lines
            .extend(rows.filter(|row| !row.trim().is_empty()).map(|row| row.trim_end().to_owned()));
    }
    lines
}

#[test]
fn every_output_has_a_row_and_the_file_in_hand_one() {
    if !have(&[Need::Program("script")]) {
        return;
    }
    let scene = Scene::new();
    scene.src.file("large", content(3_000_000)).file("small", "x");
    let second = scene.path("second");
    let args = ["-o", second.to_str().unwrap(), "--limit-rate", "2M", "--workers", "1"];
    for (columns, lines) in [(40, 10), (80, 24), (120, 40)] {
        let size = Size { columns, lines };
        let lines = drawn(&scene, size, "LC_ALL=C", &args);
        let bars: Vec<_> = lines.iter().filter(|line| line.contains('[')).collect();
        for row in ["dst  ", "second  ", "large  "] {
            assert!(
                bars.iter().any(|line| line.contains(row)),
                "{size:?}: no {row:?} in {lines:#?}"
            );
        }
        let rows = bars.iter().all(|line| line.is_ascii() && line.len() < size.columns);
        assert!(rows, "{size:?}: {bars:#?}");
        for output in ["dst", "second"] {
            std::fs::remove_dir_all(scene.path(output)).unwrap();
        }
    }
    let lines = drawn(&scene, USUAL, "LC_ALL=C.UTF-8", &args);
    assert!(lines.iter().any(|line| line.contains('█')), "{lines:#?}");
}

/// The cursor rests at the beginning of a row: what a terminal writes for Ctrl-C would go on below its end, and the row
/// above would stay.
#[test]
fn the_cursor_rests_at_the_beginning_of_a_row() {
    if !have(&[Need::Program("script")]) {
        return;
    }
    let scene = Scene::new();
    scene.src.file("large", content(1_000_000));
    for columns in [80, 120] {
        let line = format!("exec script -qefc \"stty cols {columns} rows 24; $*\" /dev/null");
        let args = ["--limit-rate", "1M", "--workers", "1"];
        let text = scene.command(args).in_shell(&line).run().out();
        // A draw of two rows begins one up; before it there is the padding of the draw before.
        assert!(text.contains(" \r\u{1b}[1A"), "{columns}: {text:?}");
        assert!(!text.contains(" \u{1b}[1A"), "{columns}: {text:?}");
        std::fs::remove_dir_all(&scene.dst).unwrap();
    }
}

/// A message is broken between words on a terminal, and nowhere else.
#[test]
fn a_message_is_broken_between_words() {
    if !have(&[Need::Program("script")]) {
        return;
    }
    let scene = Scene::new();
    scene.src.file("a", "1");
    let told = |columns: usize| {
        let line = format!("exec script -qefc \"stty cols {columns} rows 24; $* dst\" /dev/null");
        scene.bare(["verify", "src"]).in_shell(&line).run().out().replace('\r', "")
    };
    let whole = scene.bare(["verify", "src", "dst"]).run();
    let whole = whole.err();
    for columns in [60, 80, 120] {
        let told = told(columns);
        let lines: Vec<&str> = told.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= columns), "{columns}: {told}");
        let joined = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        let mut messages = whole.lines();
        assert!(messages.all(|line| line.len() > 60 && joined.contains(line)), "{told}\n{whole}");
    }
}

#[test]
fn a_dumb_terminal_and_quiet_runs_draw_nothing() {
    if !have(&[Need::Program("script")]) {
        return;
    }
    for (locale, args) in
        [("TERM=dumb", &["--limit-rate", "2M"][..]), ("LC_ALL=C", &["--limit-rate", "2M", "-q"])]
    {
        let scene = Scene::new();
        scene.src.file("large", content(1_500_000));
        let lines = drawn(&scene, USUAL, locale, args);
        assert!(!lines.iter().any(|line| line.contains('%')), "{lines:#?}");
    }
}

/// As with dd: a run without a terminal says how far it is when it is asked to, and goes on.
#[test]
fn a_signal_asks_how_far_a_run_is() {
    let scene = Scene::new();
    scene.src.file("large", content(3_000_000));
    let mut running = scene.command(["-q", "--limit-rate", "2M"]).spawn();
    running.until("a part file", || !crate::harness::names_below(&scene.dst, "f").is_empty());
    for _ in 0..3 {
        running.signal(Signal::USR1);
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let run = running.wait();
    run.assert_code(0);
    let tells = |line: &&str| {
        line.starts_with("dircopy: 0 of 1 file, ")
            && line.contains("%, ")
            && line.contains(" of 2.9 MiB, ")
    };
    let asked = run.err().lines().filter(tells).count();
    assert!((1..=3).contains(&asked), "{}", run.err());
    scene.judge(&run).complete();
}

/// A check said how many files it had read, and not of how many.
#[test]
fn a_signal_asks_how_far_a_check_is() {
    need!(Fuse);
    let scene = Scene::new();
    // Reading is slow until it has said how far it is. Whatever is looked at meanwhile waits behind reads that the kernel
    // has begun ahead: the list lies elsewhere, and there are many reads, of a megabyte, for each name.
    for name in ["f1", "f2"] {
        scene.src.file(name, content(30_000_000));
    }
    shell(&scene, "cd src; sha256sum f1 f2 >../list");
    let is_told = Arc::new(AtomicBool::new(false));
    let is_fast = Arc::clone(&is_told);
    let _mirror = Mirror::mount(scene.src.root(), &scene.path("slow"), move |call| {
        let is_content = call.deed == Deed::Read && call.path.to_string_lossy().starts_with('f');
        if is_content && !is_fast.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
        Act::Pass
    });
    for words in [
        &["verify", "-qm", "list", "slow"][..],
        &["heal", "-nm", "list", "slow", "--from-tree", "src"],
    ] {
        is_told.store(false, Ordering::Relaxed);
        let mut running = scene.bare(words).spawn();
        running.until_it_listens();
        let is_whole =
            |line: &str| line.contains(" of 2 files, ") && line.contains(" of 57.2 MiB, ");
        running.ask_until_it_says(|told| told.lines().any(is_whole));
        is_told.store(true, Ordering::Relaxed);
        running.wait().assert_code(0);
    }
}

/// A batch system sends the same signal, and a shard does not die of it.
#[test]
fn a_shard_says_how_far_it_is() {
    let scene = Scene::new();
    scene.src.file("large", content(3_000_000));
    let (src, dst, plan) = (scene.src.root(), scene.path("out"), scene.path("plan"));
    let words = ["plan", "-q", "--plan"].map(std::path::Path::new);
    scene.bare(words.into_iter().chain([&*plan, src, &*dst])).run().assert_code(0);
    let words = ["shard", "--index", "0", "--limit-rate", "2M", "--plan"].map(std::path::Path::new);
    let mut running = scene.bare(words.into_iter().chain([&*plan])).spawn();
    running.until("a part file", || !crate::harness::names_below(&dst, "f").is_empty());
    running.signal(Signal::USR1);
    let run = running.wait();
    run.assert_code(0);
    assert!(run.err().contains("dircopy: 0 files, "), "{}", run.err());
}

/// A row of the summary that is too long goes on below what it is about; elsewhere it is one line.
#[test]
fn the_summary_has_the_room_of_the_terminal() {
    if !have(&[Need::Program("script")]) {
        return;
    }
    let scene = Scene::new();
    scene.src.file("file", content(100_000));
    let output =
        scene.path("an output with a name that is longer than a terminal of forty columns");
    for (columns, lines) in [(40, 10), (80, 24)] {
        let size = Size { columns, lines };
        let run = |name: &str| drawn(&scene, size, "LC_ALL=C.UTF-8", &["-o", name]);
        let lines = run(&format!("'{}'", output.display()));
        let row = lines.iter().find(|line| line.starts_with("output      ") && line.contains('…'));
        assert!(row.is_some_and(|row| row.chars().count() < columns), "{lines:#?}");
        assert!(
            lines
                .iter()
                .any(|line| line.starts_with("            ") && line.contains("written, not"))
        );
        // The last line is broken between words.
        let end = lines.iter().skip_while(|line| !line.starts_with("done: "));
        let end: Vec<&str> = end.map(String::as_str).collect();
        assert_eq!(end.len() > 1, columns == 40, "{lines:#?}");
        assert!(end.join(" ").ends_with("at both outputs; all on one device"), "{end:#?}");
        std::fs::remove_dir_all(&output).unwrap();
        std::fs::remove_dir_all(&scene.dst).unwrap();
    }
    let run = scene.copy(&[]);
    let rows = run.out();
    assert!(
        rows.lines()
            .any(|row| row.starts_with("output ") && row.ends_with("written, not read back")),
        "{rows}"
    );
}
