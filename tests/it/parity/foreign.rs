//! Parity that par2cmdline made: it is read where its files are joined to one, and the tree is made whole by it.

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
        shell(&scene, &format!("mkdir -p {PARITY} && cat x*.par2 > {PARITY}/x.par2"));
        flip(&scene.path("dst/dir/several blocks"), 3000);
        std::fs::remove_file(scene.path("dst/last.bin")).unwrap();
        std::fs::remove_file(scene.path("dst/dir/empty")).unwrap();
        let run = scene.bare(["verify", "dst"]).run();
        run.assert_code(4).assert_says("repairable from parity: dst/dir/several blocks: ");
        run.assert_says("repairable from parity: dst/last.bin: ");
        shell(&scene, "cp -a dst copy");
        scene.bare(["heal", "-q", "dst"]).run().assert_code(0);
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
