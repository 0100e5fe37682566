//! Large files that one thread hashes two at a time, and the ways of hashing several files that a processor may
//! have: nothing but the time it takes may depend on them.

use crate::harness::{Scene, Strace, content, names_below, need};

/// Files of many blocks, of lengths that end at different places in one.
const BLOCK: [&str; 2] = ["--block-size", "4096"];

fn large_files() -> Scene {
    let scene = Scene::new();
    for i in 0..24 {
        scene.src.file(format!("{}/{i}", i % 2), content(4096 * (1 + i * i % 37) + i * 13));
    }
    scene.src.file("bad", content(100_000)).file("small", "small");
    scene.src.sparse("holes", 900_000, &[(50_000, 10), (700_000, 5000)]);
    scene
}

#[test]
fn large_files_arrive_whole_two_at_a_time() {
    for args in [&[][..], &["--no-sync"], &["--verify"], &["--queue-size", "1", "--no-sync"]] {
        let scene = large_files();
        let run = scene.copy(&[&BLOCK, &["--simd", "on"], args].concat());
        scene.judge(&run).complete();
    }
}

#[test]
fn a_file_that_cannot_be_read_costs_that_file_and_not_the_one_beside_it() {
    need!(Strace);
    for when in ["1", "9"] {
        let scene = large_files();
        let strace = Strace::inject(&scene, Strace::READS, &format!("error=EIO:when={when}"));
        let strace = strace.on(scene.src.path("bad"));
        let run = strace.run(scene.command([&BLOCK[..], &["--simd", "on"]].concat()));
        strace.fired(&run);
        run.assert_code(1);
        let judge = scene.judge(&run);
        judge.verifies().no_leftovers().lacks("bad").does_not_list("bad");
        for name in names_below(scene.src.root(), "f").into_iter().filter(|name| name != b"bad") {
            judge.has(name);
        }
    }
}

/// A word of `--simd` for each way that this processor has; others are refused.
#[test]
fn every_way_of_hashing_can_be_forced() {
    for name in ["one", "sha", "avx2", "avx512"] {
        let scene = large_files();
        for i in 0..20 {
            scene.src.file(format!("many/{i}"), content(i * 977));
        }
        let run = scene.command([&BLOCK[..], &["--simd", name]].concat()).run();
        match run.err().contains("invalid value") {
            true => _ = run.assert_code(2),
            false => _ = scene.judge(run.assert_code(0)).complete(),
        }
    }
}
