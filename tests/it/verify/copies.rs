//! Several directories as copies of each other: which of them has the good file.

use crate::harness::{Run, Scene, content, shell};

/// Three copies of one tree, made one after the other, so that each has a manifest of its own.
fn scene() -> Scene {
    let scene = Scene::new();
    scene.src.file("films/a.mov", content(100_000)).file("films/b.mov", content(50_000));
    scene.src.file("c", "c").file("line\nfeed", "x");
    for copy in ["A", "B", "C"] {
        scene.command_to(scene.src.root(), scene.path(copy), ["-q"]).run().assert_code(0);
    }
    scene
}

fn flip(scene: &Scene, file: &str) {
    let path = scene.path(file);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[0] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// The lines that say where a bad file is good.
fn compared(run: &Run) -> Vec<String> {
    let lines = run.err();
    let lines = lines.lines().filter_map(|line| line.strip_prefix("dircopy: "));
    let told = |line: &&str| line.contains(" at ") && line.contains("good ");
    lines.filter(told).map(str::to_owned).collect()
}

fn verify(scene: &Scene, args: &[&str]) -> Run {
    scene.bare(["verify"].iter().chain(args)).run()
}

#[test]
fn each_bad_file_is_told_with_where_it_is_good() {
    for jobs in ["-j1", "-j8"] {
        let scene = scene();
        flip(&scene, "A/films/a.mov");
        flip(&scene, "B/films/b.mov");
        let run = verify(&scene, &[jobs, "A", "B", "C"]);
        run.assert_code(4).assert_prints(&["repairable  2 bad files: dircopy heal A B C"]);
        let expected = [
            "films/a.mov: differs at A, good at B and C",
            "films/b.mov: differs at B, good at A and C",
        ];
        assert_eq!(compared(&run), expected, "{}", run.err());

        // The same file in two of them, and one that is good nowhere.
        flip(&scene, "C/films/a.mov");
        shell(&scene, "rm A/c B/c; rm C/c && mkdir C/c");
        let run = verify(&scene, &[jobs, "A", "B", "C"]);
        run.assert_code(4).assert_prints(&["repairable", "2"]);
        let expected = [
            "c: missing at A and B, not a regular file at C, good nowhere",
            "films/a.mov: differs at A and C, good at B",
            "films/b.mov: differs at B, good at A and C",
        ];
        assert_eq!(compared(&run), expected, "{}", run.err());
    }
}

#[test]
fn one_manifest_may_be_given_for_all() {
    let scene = scene();
    shell(&scene, "cd src && find . -type f -exec sha256sum {} + > ../list");
    flip(&scene, "A/films/a.mov");
    flip(&scene, "B/line\nfeed");
    let run = verify(&scene, &["--manifest", "list", "A", "B", "C"]);
    run.assert_code(4);
    let expected = [
        "films/a.mov: differs at A, good at B and C",
        "\"line\\nfeed\": differs at B, good at A and C",
    ];
    assert_eq!(compared(&run), expected);
    // From a pipe there is no second look.
    let run = verify(&scene, &["--manifest", "list", "A"]);
    run.assert_code(4);
    assert_eq!(compared(&run), [""; 0]);
}

/// What a directory lists with another digest is not the file that is looked for, good as it is there.
#[test]
fn another_version_is_no_good_copy() {
    let scene = scene();
    scene.src.file("films/a.mov", "a new version, which is longer").mtime(
        "films/a.mov",
        1 << 31,
        0,
    );
    let args = ["-q", "--overwrite-policy", "update"];
    scene.command_to(scene.src.root(), scene.path("C"), args).run().assert_code(0);
    flip(&scene, "A/films/a.mov");
    let run = verify(&scene, &["A", "B", "C"]);
    run.assert_code(4);
    let expected = "films/a.mov: differs at A, good at B, listed with another digest at C";
    assert_eq!(compared(&run), [expected]);
    // The other way round, and where the two have nothing in common.
    flip(&scene, "C/films/a.mov");
    let run = verify(&scene, &["B", "C"]);
    let expected = "films/a.mov: differs at C, good nowhere, listed with another digest at B";
    assert_eq!(compared(&run), [expected]);
    scene.src.file("alone", "x");
    scene.command_to(scene.src.path("alone"), scene.path("D"), ["-q"]).run().assert_code(0);
    flip(&scene, "D/alone");
    let run = verify(&scene, &["D", "B"]);
    run.assert_code(4);
    assert_eq!(compared(&run), [""; 0]);
}

#[test]
fn a_directory_without_a_manifest_says_nothing() {
    let scene = scene();
    flip(&scene, "A/c");
    shell(&scene, "rm B/dircopy-*");
    let run = verify(&scene, &["A", "B", "C"]);
    run.assert_code(4);
    assert_eq!(compared(&run), ["c: differs at A, good at C"]);
    // Twice the same directory is no second copy.
    let run = verify(&scene, &["A", "A/../A"]);
    run.assert_code(4);
    assert_eq!(compared(&run), [""; 0]);
}

#[test]
fn the_report_has_it_too() {
    let scene = scene();
    flip(&scene, "A/films/a.mov");
    let run = verify(&scene, &["A", "B", "C", "--report", "report.json"]);
    run.assert_code(4);
    let report = std::fs::read(scene.path("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let entries = report["entries"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["event"] == "compared").unwrap();
    assert_eq!(entry["path"], "films/a.mov");
    assert_eq!(entry["bad_at"], serde_json::json!([{ "path": "A" }]));
    assert_eq!(entry["good_at"], serde_json::json!([{ "path": "B" }, { "path": "C" }]));
    assert_eq!(report["checked"]["repairable"], 1);
}

/// A disk that is gone as a whole: memory is bounded, and what is left out is counted.
#[test]
fn too_many_bad_files_are_said_to_be() {
    let scene = Scene::new();
    scene.tree("A").file("x", "x");
    scene.tree("B").file("x", "x");
    let lines = "digest=$(printf x | sha256sum | cut -c-64); seq -f \"$digest  %090g\" 60000 > list
                 echo \"$digest  x\" >> list";
    shell(&scene, lines);
    let run = verify(&scene, &["-q", "--from", "cache", "--manifest", "list", "A", "B"]);
    run.assert_code(4).assert_says("too many bad files to compare");
    let told = compared(&run);
    assert!(told.len() > 5_000 && told.len() < 60_000, "{}", told.len());
    assert!(told.iter().all(|line| line.ends_with(": missing at A and B, good nowhere")));
}
