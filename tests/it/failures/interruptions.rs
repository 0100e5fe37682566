//! Calls that are interrupted: once is not visible, and again and again comes to an end.

use crate::harness::{Act, Habit, Mirror, Scene, Strace, content, need};

/// No program can tell such a server from a signal, so an end is made after some times: at trials too, which come
/// before the first file.
#[test]
fn an_output_that_interrupts_each_write_is_no_endless_loop() {
    need!(Fuse);
    for args in [&[][..], &["--no-sync"], &["--hash", "none"]] {
        let scene = Scene::new();
        scene.src.file("one", content(3000)).file("two", content(300_000));
        let truth = scene.tree("truth");
        let habits = [Habit::InterruptsWrites];
        let _mirror = Mirror::with_habits(truth.root(), &scene.dst, &habits, |_| Act::Pass);
        let run = scene.copy(args);
        run.assert_no_crash();
        assert_ne!(run.code, Some(0), "{}", run.out());
        assert!(!truth.has("one") && !truth.has("two"));
    }
}

#[test]
fn an_interrupted_search_for_holes_is_not_visible() {
    need!(Strace);
    for args in [&[][..], &["--hash", "none"], &["--block-size", "64K"]] {
        for when in ["when=1", "when=1+2"] {
            let scene = Scene::new();
            scene.src.sparse("holes", 3 << 20, &[(1 << 20, 10)]).file("plain", content(300_000));
            let strace = Strace::inject(&scene, "lseek", &format!("error=EINTR:{when}"));
            let strace = strace.exactly_on(scene.src.path("holes"));
            let run = strace.run(scene.command(args));
            strace.fired(&run);
            run.assert_code(0);
            assert!(scene.output().read("holes") == scene.src.read("holes"), "{args:?} {when}");
        }
    }
}
