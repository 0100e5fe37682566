//! Copies that take several runs, each ended by the time that was set: what is left at the end is the list, the history
//! or the bag of all that was copied, judged by other programs.

use super::histories::judge;
use crate::harness::{Need, Scene, content, have, shell};

/// Copies with `args` in two runs, of which the first comes to its end with files left: the source is read slower than
/// the time allows for all of it.
fn in_two(args: &[&str], between: impl FnOnce(&Scene)) -> Scene {
    let scene = Scene::new();
    for number in 0..12 {
        scene.src.file(format!("dir {}/{number}", number % 3), content(100_000 + number));
    }
    let limits = ["--limit-rate", "1M", "--max-duration", "300ms", "--workers", "1"];
    scene.copy(&[args, &limits].concat()).assert_code(6);
    between(&scene);
    scene.copy(args).assert_code(0);
    scene
}

#[test]
fn lists_of_several_algorithms_are_whole() {
    let scene = in_two(&["--hash", "sha256,md5,sha512"], |_| {});
    for algorithm in ["sha256", "md5", "sha512"] {
        let list = format!("dircopy-*.{algorithm}sum");
        let lines =
            shell(&scene, &format!("cd dst; {algorithm}sum -c --strict {list} | grep -c ': OK$'"));
        assert_eq!(lines.trim(), "12", "{algorithm}");
    }
    shell(&scene, "diff -r -x '*dircopy*' src dst");
}

#[test]
fn a_history_has_all_files_and_a_run_without_an_end_leaves_none() {
    let scene = in_two(&["--format", "mhl"], |scene| {
        assert!(!scene.dst.join("ascmhl").exists());
    });
    judge(&scene, "dst", [0, 0]);
    let entries = shell(&scene, "cat dst/ascmhl/*.mhl | grep -c 'action=\"original\"'");
    assert_eq!(entries.trim(), "12");
}

#[test]
fn a_bag_is_none_before_the_last_run() {
    let scene = in_two(&["--bag", "--hash", "sha256,sha512"], |scene| {
        assert!(!scene.dst.join("bagit.txt").exists());
    });
    shell(&scene, "cd dst && sha512sum -c --quiet --strict manifest-sha512.txt");
    shell(&scene, "test $(wc -l < dst/manifest-sha256.txt) = 12");
    if have(&[Need::Program("bagit.py")]) {
        shell(&scene, "bagit.py --validate dst");
    }
    shell(&scene, "diff -r src dst/data");
}

/// A job of several outputs, digests and forms, whose first runs come to their end with files left.
#[test]
fn a_job_with_several_forms_is_whole_at_every_output() {
    let scene = Scene::new();
    for number in 0..12 {
        scene.src.file(format!("dir {}/{number}", number % 3), content(100_000 + number));
    }
    let job = "input = \"src\"\noutput = [\"dst\", \"second\"]\nhash = \"sha256,md5,xxh64\"\n\
               format = [\"gnu\", \"bsd\", \"hashdeep\", \"mhl1\"]\nworkers = 1\n";
    scene.tree(".").file("job.toml", job);
    let limits: &[&str] = &["--limit-rate", "1M", "--max-duration", "300ms"];
    for (more, code) in [(limits, 6), (limits, 6), (&[], 0)] {
        let run = scene.bare([&["--job", "job.toml"], more].concat()).run();
        run.assert_no_crash();
        run.assert_code(code);
    }
    for output in ["dst", "second"] {
        for algorithm in ["sha256", "md5"] {
            let list = format!("cd {output}; {algorithm}sum -c --strict dircopy-*.{algorithm}sum");
            assert_eq!(shell(&scene, &format!("{list} | grep -c ': OK$'")).trim(), "12");
        }
        shell(&scene, &format!("cd {output}; test $(wc -l < dircopy-*.bsd) = 36"));
        shell(&scene, &format!("cd {output}; test $(grep -c '<file>' *.mhl) = 12"));
        if have(&[Need::Program("hashdeep")]) {
            let audit = "find . -path './dir *' -type f -print0 | xargs -0 hashdeep -a -l -k dircopy-*.hashdeep";
            shell(&scene, &format!("cd {output}; {audit}"));
        }
        for list in ["bsd", "hashdeep", "xxh64sum"] {
            let check = format!("set {output}/dircopy-*.{list}; echo $1");
            let list = shell(&scene, &check);
            scene.bare(["verify", output, "--complete", "-m", list.trim()]).run().assert_code(0);
        }
        shell(&scene, &format!("diff -r -x '*dircopy*' -x '*.mhl' src {output}"));
        let left = shell(&scene, &format!("find {output} -name '*.part' | wc -l"));
        assert_eq!(left.trim(), "0");
    }
}
