//! Beginnings of large files whose names another user, who owns the directory, exchanges.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;

use crate::harness::Scene;

/// Two beginnings in the directory of one user, who exchanges their names: each is not the file's that it was made for.
#[test]
fn exchanged_beginnings_are_not_gone_on_with() {
    const LARGE: usize = 12 << 20;
    let scene = Scene::new();
    for name in ["A", "B"] {
        scene.src.file(format!("d/{name}"), name.repeat(LARGE));
    }
    let args = ["--checkpoint", "1M", "--workers", "2", "--reflink", "never"];
    let limited = [&args[..], &["--limit-rate", "8M"]].concat();
    let files = |end: &str| -> Vec<PathBuf> {
        let listed = fs::read_dir(scene.path("dst/d")).into_iter().flatten();
        let paths = listed.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.to_string_lossy().ends_with(end)).collect()
    };
    // Behind the header of a journal, of 4 KiB, is what was noted.
    let is_noted = |path: &PathBuf| path.metadata().is_ok_and(|it| it.len() > 4096);
    let mut running = scene.command(&limited).spawn();
    running.until("both files have a beginning", || {
        files(".dircopy-journal").iter().filter(|path| is_noted(path)).count() == 2
    });
    running.signal(Signal::TERM);
    running.wait().assert_code(143);
    let parts = files(".dircopy-part");
    let [one, other] = &parts[..] else { panic!("{parts:?}") };
    let aside = scene.path("aside");
    fs::rename(one, &aside).unwrap();
    fs::rename(other, one).unwrap();
    fs::rename(&aside, other).unwrap();
    let run = scene.command(args).run();
    run.assert_says("the file is copied from its beginning");
    scene.judge(&run).complete();
}
