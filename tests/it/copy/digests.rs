//! Several digests from one reading, and their lists: each is judged by the program that such a list is for.

use std::path::PathBuf;

use crate::harness::{Need, Run, Scene, Strace, content, have, need, shell};

const ALL: &str = "sha256,sha512,sha1,md5,xxh64,xxh3,xxh128,blake3,c4";

/// The programs that escape names, and those that do not.
const OF_COREUTILS: [&str; 4] = ["sha256sum", "sha512sum", "sha1sum", "md5sum"];
const OF_XXH: [&str; 3] = ["xxh64sum", "xxh3sum", "xxh128sum"];

/// All digests, in lists of every form.
const ASKED: [&str; 9] =
    ["-q", "--hash", ALL, "--format", "gnu", "--format", "bsd", "--format", "hashdeep"];

fn copy(scene: &Scene, args: &[&str]) -> Run {
    scene.copy(&[&ASKED, args].concat())
}

/// The newest list with this ending.
fn list(scene: &Scene, ending: &str) -> PathBuf {
    let lists = std::fs::read_dir(scene.path("dst")).unwrap().map(|entry| entry.unwrap().path());
    let is_one = |path: &PathBuf| path.extension().is_some_and(|found| found == ending);
    let mut lists: Vec<PathBuf> = lists.filter(is_one).collect();
    lists.sort();
    lists.pop().unwrap_or_else(|| panic!("there is no list .{ending}"))
}

fn lines(scene: &Scene, ending: &str) -> usize {
    let text = std::fs::read(list(scene, ending)).unwrap();
    text.iter().filter(|byte| **byte == b'\n').count()
}

/// Has every list checked by its program; says how many lines each must have.
#[track_caller]
fn judge(scene: &Scene, all: usize, of_b3: usize, of_one_line: usize) {
    if !have(&["b3sum", "xxhsum", "hashdeep"].map(Need::Program)) {
        return;
    }
    let name = |ending| list(scene, ending).file_name().unwrap().to_str().unwrap().to_owned();
    for program in OF_COREUTILS {
        shell(scene, &format!("cd dst && {program} -c --strict --quiet {}", name(program)));
        assert_eq!(lines(scene, program), all, "{program}");
    }
    // Its own reader takes `*`, `\\` and blanks at an end for something else, and knows no escaped CR.
    if have(&[Need::Program("rhash")]) {
        for program in OF_COREUTILS {
            let can = "grep -av '^[\\]\\|  [* ]\\| $'";
            let check = format!(
                "cd dst && {can} {0} >../can.{program} && rhash -c ../can.{program}",
                name(program)
            );
            let said = shell(scene, &check);
            assert!(said.contains("Everything OK"), "{program}: {said}");
        }
    }
    // Lines of all algorithms: that of coreutils checks its own.
    shell(scene, &format!("cd dst && sha256sum -c --quiet {}", name("bsd")));
    assert_eq!((lines(scene, "bsd"), lines(scene, "c4")), (9 * all, all));
    shell(scene, &format!("cd dst && b3sum -c --quiet {}", name("b3sum")));
    assert_eq!(lines(scene, "b3sum"), of_b3);
    for ending in OF_XXH {
        shell(scene, &format!("cd dst && xxhsum -c --strict --quiet {}", name(ending)));
        assert_eq!(lines(scene, ending), of_one_line, "{ending}");
    }
    assert_eq!(lines(scene, "hashdeep"), of_one_line + 2);
    let audit = format!("hashdeep -l -a -k {}", name("hashdeep"));
    shell(
        scene,
        &format!("cd dst && grep -c , {} && head -3 {}", name("hashdeep"), name("hashdeep")),
    );
    let files = "find . -type f ! -name 'dircopy-*' ! -path './.dircopy/*' ! -name '*\r*' ! -name '*\n*' -print0";
    shell(scene, &format!("cd dst && {files} | xargs -0 {audit}"));
}

fn fill(scene: &Scene) -> usize {
    let names: [&[u8]; 11] = [
        b"plain",
        b"c\\d",
        b" lead",
        b"*star",
        b"-",
        b"#hash",
        b"\\lead",
        b"trail ",
        b"a)b = c",
        "\u{e9}".as_bytes(),
        b"XXH3 (q) = 1",
    ];
    fill_with(scene, &names)
}

/// Files of these names, a large one, an empty one and one with holes; how many there are.
pub fn fill_with(scene: &Scene, names: &[&[u8]]) -> usize {
    for (at, name) in names.iter().enumerate() {
        scene.src.file(name, content(at * 1000));
    }
    scene.src.file("dir/large", content(3_000_001)).file("dir/empty", "");
    scene.src.sparse("dir/holes", 5 << 20, &[(1 << 20, 4096)]);
    names.len() + 3
}

#[test]
fn every_list_is_right_for_its_program() {
    let scene = Scene::new();
    let files = fill(&scene);
    copy(&scene, &["--sparse", "auto"]).assert_code(0);
    judge(&scene, files, files, files);
    // What is there is read once more, and listed; what left the source is carried over.
    scene.src.remove("plain");
    copy(&scene, &[]).assert_code(0);
    judge(&scene, files, files, files);
    scene.bare(["verify", "dst", "--complete", "-q"]).run().assert_code(0);
}

/// A name that a list cannot hold is named, and is in those that can; all of it from one reading of the source.
#[test]
fn names_that_a_list_cannot_hold_are_named_and_the_source_is_read_once() {
    need!(Strace);
    let scene = Scene::new();
    let files = fill(&scene);
    scene.src.file("a\nb", "1").file("e\rf", "2").file(b"\xff\xfe", "3");
    let strace = Strace::watch(&scene, Strace::READS);
    let run = strace.run(scene.command([&["--reflink", "never"], &ASKED[..]].concat()));
    run.assert_code(1)
        .assert_says("\"a\\nb\" is not in the list .xxh128sum, .xxh3sum, .xxh64sum, .hashdeep");
    run.assert_says("\"\\xff\\xfe\" is not in the list .b3sum");
    judge(&scene, files + 3, files + 2, files + 1);
    let sizes = shell(&scene, "find src -type f ! -name holes -printf '%s+' && echo 0");
    let sizes: u64 = sizes.trim().split('+').map(|size| size.parse::<u64>().unwrap()).sum();
    let source = format!("{}/", scene.src.root().display());
    let calls = strace.calls();
    let of_source = calls.iter().filter(|call| call.contains(&source) && !call.contains("/holes>"));
    let came = of_source.filter_map(|call| call.rsplit("= ").next()?.trim().parse::<u64>().ok());
    assert_eq!(came.sum::<u64>(), sizes, "{calls:?}");
}

#[test]
fn the_source_is_read_once() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("large", content(8 << 20));
    let strace = Strace::watch(&scene, "read,pread64,mmap");
    let mut command = vec!["-q", "--reflink", "never", "--hash", ALL];
    command.extend(["--format", "bsd"]);
    strace.run(scene.command(command)).assert_code(0);
    let calls = strace.calls();
    let read =
        |call: &String| call.rsplit("= ").next().and_then(|came| came.trim().parse::<u64>().ok());
    let reads = calls.iter().filter(|call| call.contains("read(") || call.contains("pread64("));
    let bytes: u64 = reads.filter_map(read).sum();
    assert!((8 << 20..9 << 20).contains(&bytes), "{bytes} bytes were read");
}

#[test]
fn each_output_has_its_lists() {
    let scene = Scene::new();
    let files = fill(&scene);
    let other = scene.path("dst2");
    copy(&scene, &["--verify", "-o", other.to_str().unwrap()]).assert_code(0);
    judge(&scene, files, files, files);
    shell(&scene, "cd dst2 && sha512sum -c --strict --quiet *.sha512sum");
    if have(&[Need::Program("b3sum")]) {
        shell(&scene, "cd dst2 && b3sum -c --quiet *.b3sum");
    }
}

#[test]
fn what_cannot_be_had_is_refused_with_a_remedy() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    scene.copy(&["--hash", "sha256,md4"]).assert_code(2).assert_says("sha512");
    assert!(!scene.path("dst").exists());
}

/// Further names of a file are not read, and are in every list, also by a later run.
#[test]
fn hard_links_are_in_every_list() {
    let scene = Scene::new();
    scene.src.file("a", content(5000)).file("dir/large", content(2 << 20)).file("single", "1");
    scene.src.hard_link("b", "a").hard_link("dir/c", "a").hard_link("larger", "dir/large");
    let args = ["--hard-links", "--hash=sha256,sha512,md5", "--format=gnu", "--format=hashdeep"];
    for round in 0..3 {
        scene.copy(&[&args[..], &["--keep-manifests=1"]].concat()).assert_code(0);
        let check = "cd dst && sha256sum -c --strict --quiet *.sha256sum && md5sum -c --strict --quiet *.md5sum && \
                     sha512sum -c --strict --quiet *.sha512sum && cat *.md5sum *.sha512sum | wc -l";
        assert_eq!(shell(&scene, check).trim(), "12", "{round}");
        assert_eq!(scene.output().inode("b"), scene.output().inode("a"));
        if round == 1 {
            scene.src.hard_link("new", "single").hard_link("newer", "a");
            scene.copy(&args).assert_code(0);
            assert_eq!(shell(&scene, "cat $(ls dst/*.md5sum | tail -1) | wc -l").trim(), "8");
            scene.src.remove("new").remove("newer");
            scene.output().remove("new").remove("newer");
        }
    }
}

/// Every digest of a stream is in the list beside each output.
#[test]
fn a_stream_has_several_digests() {
    let scene = Scene::new();
    scene.src.file("a", content(3 << 20)).file("empty", "");
    for (hash, programs) in [
        ("sha256,md5,sha512", &["sha256sum", "md5sum", "sha512sum"][..]),
        ("sha1,blake3,xxh64,c4", &["sha1sum"]),
    ] {
        let run = scene
            .bare(["-i", "src/a", "-i", "src/empty", "-o", "one", "-o", "t w\n\\o", "--hash", hash])
            .run();
        run.assert_code(0);
        let check = |list: &str| {
            for program in programs {
                shell(&scene, &format!("{program} -c --quiet {list}"));
            }
            scene.bare(["verify", "--manifest", &list.replace('\'', "")]).run().assert_code(0);
        };
        check("one.bsd");
        assert_eq!(shell(&scene, "grep -c = one.bsd").trim(), hash.split(',').count().to_string());
        shell(&scene, "cmp src/a one && cp one.bsd other && rm one one.bsd t*");
        // One for all, standard output among them.
        let run = scene
            .bare(["-i", "src/a", "-o", "-", "-o", "one", "--hash", hash, "--manifest", "all"])
            .run();
        run.assert_code(0);
        assert_eq!(run.stdout, scene.src.read("a"));
        for program in programs {
            shell(&scene, &format!("{program} -c --quiet all <src/a"));
        }
        shell(&scene, "grep -v '(-)' all | cmp - other && rm one all other");
    }
}

/// A run that was cut short leaves no list that looks whole, and the next one clears up after it.
#[test]
fn lists_of_a_run_that_was_killed_are_cleared_away() {
    let scene = Scene::new();
    fill(&scene);
    copy(&scene, &[]).assert_code(0);
    let left = list(&scene, "sha256sum").to_str().unwrap().replace(".sha256sum", "");
    for ending in ["sha256sum", "md5sum", "hashdeep"] {
        std::fs::rename(format!("{left}.{ending}"), format!("{left}.{ending}.part")).unwrap();
    }
    copy(&scene, &[]).assert_code(0);
    assert!(!shell(&scene, "ls dst").contains(".part"));
}

/// A list of hashdeep that would hold no digest is refused, and what it cannot hold stands in lists of its own.
#[test]
fn every_digest_that_is_asked_for_is_in_a_list() {
    let scene = Scene::new();
    scene.src.file("a", "one");
    for hash in ["sha512", "sha512,xxh64,c4"] {
        let run = scene.copy(&["--hash", hash, "--format=hashdeep"]);
        run.assert_code(2).assert_says("--hash sha512,md5");
        assert!(!scene.dst.exists());
    }
    scene.copy(&["--hash=sha256,xxh64,c4,md5", "--format=hashdeep"]).assert_code(0);
    let endings =
        |scene: &Scene| shell(scene, "cd dst && ls dircopy-* | sed 's,.*\\.,,' | sort | xargs");
    assert_eq!(endings(&scene).trim(), "c4 hashdeep sha256sum xxh64sum");
    shell(&scene, "cat dst/*.xxh64sum | grep -q 'a$' && rm -r dst");
    scene.copy(&["--hash=sha256,xxh64", "--format=hashdeep", "--format=bsd"]).assert_code(0);
    assert_eq!(endings(&scene).trim(), "bsd hashdeep sha256sum");
}
