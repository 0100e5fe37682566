//! A machine that computes wrongly: its digests are right for nobody but itself, so it must find that out before it lists
//! anything.

use crate::harness::{Scene, content, skipped};

/// A kernel that gives the known answers and lies of files. Only builds for tests have it.
const WRONG: [&str; 2] = ["--simd", "wrong"];

#[test]
fn a_kernel_that_lies_ends_the_run() {
    // A batch of small files, large ones, and large ones that are read back.
    for (len, args) in [(100_000, &[][..]), (3 << 20, &[]), (3 << 20, &["--verify"])] {
        let scene = Scene::new();
        let names = ["one", "two", "three", "four"];
        for (i, name) in names.into_iter().enumerate() {
            scene.src.file(name, content(len + i));
        }
        let run = scene.copy(&[&WRONG, args].concat());
        if run.err().contains("invalid value 'wrong'") {
            return skipped("the program has no kernel that lies");
        }
        run.assert_code(4).assert_says("this machine computes wrongly");
        run.assert_prints(&["miscomputed "]).assert_prints(&["NOT PROVEN (exit 4)"]);
        let is_named = |name: &&&str| {
            run.err().contains(&format!("cannot hash {}", scene.src.path(name).display()))
        };
        let named: Vec<_> = names.iter().filter(is_named).collect();
        assert!(!named.is_empty(), "{}", run.err());
        let judge = scene.judge(&run);
        for name in named {
            judge.does_not_list(name).lacks(name);
        }
    }
}
