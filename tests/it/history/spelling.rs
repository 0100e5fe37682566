//! What has another spelling at the source has not left it, where the output takes both for one name.

use crate::harness::{Act, Habit, Mirror, Run, Scene, need, shell};

/// A mirror to `disk/out`, whose records are in `state` if that is another directory.
fn mirror(scene: &Scene, state: Option<&str>, args: &[&str]) -> Run {
    let mut all = vec!["-i", "src", "-o", "disk/out", "--mirror", "--overwrite-policy=update"];
    all.extend(state.map(|state| ["--state", state]).into_iter().flatten());
    all.extend(args);
    let run = scene.bare(all).run();
    run.assert_code(0);
    run
}

/// What left the output, or in a dry run would.
fn departed(run: &Run) -> Vec<String> {
    let (told, dry) = (run.err(), run.out());
    let done = told.lines().filter_map(|line| line.strip_prefix("dircopy: moved to the trash: "));
    let done = done.filter_map(|line| line.strip_suffix(": it has left the source"));
    let dry = dry.lines().filter_map(|line| line.strip_prefix("move to the trash "));
    let mut departed: Vec<_> = done.chain(dry).map(str::to_owned).collect();
    departed.sort();
    departed
}

/// The names of everything that users have at the output, as it lists them.
fn names(scene: &Scene) -> String {
    let own = "-name '.dircopy*' -o -name 'dircopy-*'";
    let script =
        format!("cd truth/out && find . -mindepth 1 \\( {own} \\) -prune -o -print | sort");
    shell(scene, &script).lines().collect::<Vec<_>>().join(" ")
}

/// exFAT: the file was called unchanged, moved to the trash, and in neither place afterwards; so were directories.
#[test]
fn other_letter_case_has_not_left() {
    need!(Fuse);
    for state in [None, Some("state")] {
        let scene = Scene::new();
        scene.src.file("d/f1", "1").file("d/f2", "2").file("d/deep/x", "x").file("gone", "gone");
        let truth = scene.tree("truth");
        scene.tree("state").mode(".", 0o700);
        let habits = &[Habit::FoldsCase];
        let _mirror = Mirror::with_habits(truth.root(), &scene.path("disk"), habits, |_| Act::Pass);
        mirror(&scene, state, &[]);
        let is_whole = || {
            let last = "cd disk/out && sha256sum -c --strict --quiet $(ls -t dircopy-*.sha256sum | head -1)";
            shell(&scene, last);
        };
        shell(
            &scene,
            "cd src && mv d/f1 d/F1 && mv d/deep d/Deep && mv d D && rm gone && echo new >D/new",
        );
        for args in [&["-n"][..], &[]] {
            assert_eq!(departed(&mirror(&scene, state, args)), ["gone"]);
        }
        assert_eq!(names(&scene), "./d ./d/deep ./d/deep/x ./d/f1 ./d/f2 ./d/new");
        is_whole();
        // What is called so neither way has left.
        shell(&scene, "cd src && rm D/F1 && rm -r D/Deep");
        let run = mirror(&scene, state, &["--max-delete=90%"]);
        assert_eq!(departed(&run), ["d/deep", "d/f1"]);
        assert_eq!(names(&scene), "./d ./d/f2 ./d/new");
        is_whole();
    }
}

#[test]
fn another_form_of_an_accent_has_not_left() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("d/caf\u{e9}", "1").file("\u{e9}t\u{e9}/x", "x").file("gone", "gone");
    scene.src.file("d/fin", "fin").file("fish/x", "y");
    let truth = scene.tree("truth");
    let habits = &[Habit::FoldsForms];
    let _mirror = Mirror::with_habits(truth.root(), &scene.path("disk"), habits, |_| Act::Pass);
    mirror(&scene, None, &[]);
    let before = names(&scene);
    shell(
        &scene,
        "cd src && mv d/caf\u{e9} d/cafe\u{301} && mv \u{e9}t\u{e9} e\u{301}te\u{301} && rm gone",
    );
    shell(&scene, "cd src && mv d/fin d/\u{fb01}n && mv fish \u{fb01}sh");
    for args in [&["-n"][..], &[]] {
        assert_eq!(departed(&mirror(&scene, None, args)), ["gone"]);
    }
    assert_eq!(names(&scene), before.replace(" ./gone", ""));
}

/// A line of the source's spelling stayed in the manifest when the file had gone.
#[test]
fn a_name_that_only_full_folding_knows_again_leaves_with_its_line() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("stra\u{df}e", "1").file("Gr\u{f6}\u{df}e/x", "x").file("stays", "stays");
    let truth = scene.tree("truth");
    let habits = &[Habit::FoldsFully];
    let _mirror = Mirror::with_habits(truth.root(), &scene.path("disk"), habits, |_| Act::Pass);
    mirror(&scene, None, &[]);
    let before = names(&scene);
    // Of the same size and time as another that goes: only the name tells.
    scene.src.file("strassf", "2");
    shell(&scene, "cd src && touch -r stra* strassf");
    mirror(&scene, None, &[]);
    shell(&scene, "cd src && mv stra\u{df}e STRASSE && mv Gr* GRO\u{308}SSE && rm strassf");
    for args in [&["-n"][..], &[]] {
        assert_eq!(departed(&mirror(&scene, None, args)), ["strassf"]);
    }
    assert_eq!(names(&scene), before);
    shell(&scene, "cd src && rm -r STRASSE GRO*");
    let run = mirror(&scene, None, &["--max-delete=90%"]);
    assert_eq!(departed(&run), ["Gr\u{f6}\u{df}e", "stra\u{df}e"]);
    assert_eq!(names(&scene), "./stays");
    shell(
        &scene,
        "cd disk/out && sha256sum -c --strict --quiet $(ls -t dircopy-*.sha256sum | head -1)",
    );
}

/// What is excluded under another spelling kept what had left.
#[test]
fn an_excluded_name_keeps_nothing_under_another_spelling() {
    need!(Fuse);
    for kind in
        ["cp -p src/stays src/GONE", "ln -s stays src/GONE", "mkfifo src/GONE", "mkdir src/GONE"]
    {
        let scene = Scene::new();
        scene.src.file("gone", "12345").file("stays", "stays").file("too", "x");
        shell(&scene, "touch -r src/gone src/stays");
        let truth = scene.tree("truth");
        let habits = &[Habit::FoldsCase];
        let _mirror = Mirror::with_habits(truth.root(), &scene.path("disk"), habits, |_| Act::Pass);
        mirror(&scene, None, &[]);
        shell(&scene, &format!("rm src/gone; {kind}"));
        let run = mirror(&scene, None, &["--exclude", "GONE", "--no-links"]);
        assert_eq!(departed(&run), ["gone"], "{kind}: {}", run.err());
        assert_eq!(names(&scene), "./stays ./too");
    }
}
