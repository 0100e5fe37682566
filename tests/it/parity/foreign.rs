//! Parity that par2cmdline made: it is read from the files that it made, or from one that they are joined to, and the tree
//! is made whole by it.

use super::*;
use crate::harness::shell;

#[test]
fn parity_of_another_program_is_read() {
    if !has_par2() {
        return;
    }
    for (number, options) in [
        "-s4096 -r60 -n1",
        "-s4 -c40 -n3",
        "-b57 -r50 -u -n5",
        "-s1000 -r60 -f1000 -l",
        "-b2000 -c100 -f3",
    ]
    .into_iter()
    .enumerate()
    {
        let scene = Scene::new();
        let mut random = Random::new(number as u64);
        let names = ["one, \u{fc}\u{4e2d}", "dir/several blocks", "dir/deep/er", "last.bin"];
        for (name, len) in names.into_iter().zip([900, 70_001, 4096, 33]) {
            let len = if options.starts_with("-s4 ") { len / 20 + 5 } else { len };
            scene.src.file(name, noise(&mut random, len));
        }
        scene.src.file("dir/empty", "");
        scene.copy(&["-q"]).assert_code(0);
        shell(&scene, &format!("cd src && par2 create -q -q {options} -R -B $PWD ../x.par2 $PWD"));
        let take = ["cp x*.par2 {}/", "cat x*.par2 > {}/x.par2"][number % 2].replace("{}", PARITY);
        shell(&scene, &format!("mkdir -p {PARITY} && {take}"));
        flip(&scene.path("dst/dir/several blocks"), 3000);
        std::fs::remove_file(scene.path("dst/last.bin")).unwrap();
        std::fs::remove_file(scene.path("dst/dir/empty")).unwrap();
        let run = scene.bare(["verify", "dst"]).run();
        run.assert_code(4).assert_says("repairable from parity: dst/dir/several blocks: ");
        run.assert_says("repairable from parity: dst/last.bin: ");
        shell(&scene, "cp -a dst copy");
        scene.bare(["heal", "-q", "dst"]).run().assert_code(0);
        // It is made anew as ours.
        assert!(sets(&scene).iter().all(|name| name.len() == 37), "{:?}", sets(&scene));
        shell(
            &scene,
            "par2 repair -q -B $PWD/copy copy/.dircopy/parity/x.par2 && rm copy/dir/*.[0-9]",
        );
        for tree in ["dst", "copy"] {
            shell(
                &scene,
                &format!(
                    "diff -r src {tree} --exclude .dircopy --exclude 'dircopy-*' --exclude empty"
                ),
            );
        }
        assert!(scene.path("dst/dir/empty").exists());
    }
}

/// What another program made of files that are not listed here is not removed.
#[test]
fn parity_of_other_files_stays() {
    if !has_par2() {
        return;
    }
    let scene = copied();
    shell(
        &scene,
        &format!(
            "mkdir -p w {PARITY} && cp src/d0/f6 w/elsewhere && cd w && \
             par2 create -q -q -s4000 -r50 ../y.par2 elsewhere && cp ../y*.par2 ../{PARITY}/"
        ),
    );
    let before = sets(&scene);
    flip(&scene.path("dst/d0/f6"), 3000);
    let run = scene.bare(["verify", "dst"]).run();
    run.assert_code(4);
    assert!(!run.err().contains("damaged"), "{}", run.err());
    scene.bare(["heal", "-q", "dst"]).run().assert_code(4);
    assert_eq!(sets(&scene), before);
    scene.copy(&["-q", "--verify"]);
    protect(&scene, &[]).assert_code(0);
    assert!(before.iter().all(|name| sets(&scene).contains(name)));
}
