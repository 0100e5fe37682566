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

/// The new line is of the spelling that the source has, and the old one was held against what the new one is of: exit 4,
/// every night.
#[test]
fn what_was_edited_and_respelled_has_not_rotted() {
    need!(Fuse);
    for has_record in [false, true] {
        let scene = Scene::new();
        scene.src.file("notes", "one").file("d/x", "x").file("k", "k");
        scene.src.mtime("notes", 1_600_000_000, 0);
        let truth = scene.tree("truth");
        let habits = &[Habit::FoldsCase];
        let _mirror = Mirror::with_habits(truth.root(), &scene.path("disk"), habits, |_| Act::Pass);
        let night = || {
            let args = ["-i", "src", "-o", "disk/out", "--overwrite-policy=update"];
            let args = args.into_iter().chain(has_record.then_some("--mirror"));
            scene.bare(args).run()
        };
        night().assert_code(0);
        if !has_record {
            shell(&scene, "rm -r truth/out/.dircopy");
        }
        // With a record the size and the time stay, too.
        let text = if has_record { "two" } else { "longer" };
        shell(&scene, &format!("sleep 0.1; cd src && mv notes Notes && printf {text} >Notes"));
        if has_record {
            scene.src.mtime("Notes", 1_600_000_000, 0);
        }
        shell(&scene, "cd src && mv d D && echo new >D/new");
        for _ in 0..2 {
            let run = night();
            run.assert_code(0);
            assert!(!run.err().contains("recorded"), "{}", run.err());
            assert_eq!(shell(&scene, "cat disk/out/Notes"), text);
            let newest = "$(ls -t disk/out/dircopy-*.sha256sum | head -1)";
            let lines = shell(&scene, &format!("cut -c67- {newest} | sort"));
            assert_eq!(lines, "D/new\nD/x\nNotes\nk\n");
        }
    }
}

/// The record had it by the source's spelling, the output lists its own: it stayed, as a file of others.
#[test]
fn what_was_recorded_by_another_spelling_leaves() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("d/x", "x").file("d/y", "y").file("k", "k").file("l", "l");
    let truth = scene.tree("truth");
    let habits = &[Habit::FoldsCase];
    let _mirror = Mirror::with_habits(truth.root(), &scene.path("disk"), habits, |_| Act::Pass);
    mirror(&scene, None, &[]);
    shell(&scene, "mv src/d src/D");
    mirror(&scene, None, &[]);
    shell(&scene, "echo more >>src/D/x; echo more >>src/D/y");
    mirror(&scene, None, &[]);
    shell(&scene, "rm src/D/x");
    assert_eq!(departed(&mirror(&scene, None, &[])), ["d/x"]);
    assert_eq!(names(&scene), "./d ./d/y ./k ./l");
    shell(&scene, "rm -r src/D");
    assert_eq!(departed(&mirror(&scene, None, &[])), ["d"]);
    assert_eq!(names(&scene), "./k ./l");
}

/// The first run made a mirror that no later one goes on with.
#[test]
fn a_mirror_that_can_have_no_record_is_refused_before_it_is_made() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("a", "a");
    let truth = scene.tree("truth");
    let habits = &[Habit::HasNoPermissions];
    let _mirror = Mirror::with_habits(truth.root(), &scene.path("disk"), habits, |_| Act::Pass);
    for _ in 0..2 {
        let run = scene.bare(["-i", "src", "-o", "disk/out", "--mirror"]).run();
        run.assert_code(2).assert_says("--state DIR keeps it elsewhere");
        assert!(!truth.root().join("out").exists());
    }
}

/// Either might be the one that was respelled, by what is known of folding, so both stayed without a word.
#[test]
fn of_two_that_are_alike_the_one_that_was_respelled_stays() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("a\u{e9}", "one").file("ae\u{301}", "another").file("k", "k").file("l", "l");
    let truth = scene.tree("truth");
    let habits = &[Habit::FoldsCase];
    let _mirror = Mirror::with_habits(truth.root(), &scene.path("disk"), habits, |_| Act::Pass);
    mirror(&scene, None, &[]);
    shell(&scene, "cd src && mv a\u{e9} A\u{e9} && rm ae\u{301}");
    assert_eq!(departed(&mirror(&scene, None, &[])), ["ae\u{301}"]);
    assert_eq!(names(&scene), "./a\u{e9} ./k ./l");
}
