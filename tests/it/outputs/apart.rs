//! Runs that keep their records in different places, at one output: they wait for each other where that can be, and
//! harm each other nowhere.

use crate::harness::{
    Act, Habit, Mirror, Scene, Strace, content, leftover_name, names_below, need, shell,
};

const SLOWLY: [&str; 4] = ["--limit-rate", "1M", "--block-size", "64K"];

#[test]
fn runs_with_records_in_different_places_keep_each_other_out() {
    let places: [&[&str]; 3] = [&["--state", "one"], &["--state", "other"], &[]];
    for (first, second) in [(0, 1), (0, 2), (2, 0)] {
        let scene = Scene::new();
        scene.src.file("large", content(3_000_000)).file("small", "small");
        shell(&scene, "mkdir one other");
        let mut running = scene.command(SLOWLY.iter().chain(places[first])).spawn();
        running.until("it is at work", || {
            scene.dst.is_dir()
                && names_below(&scene.dst, "f").iter().any(|it| it.ends_with(b"-part"))
        });
        let refused = scene.command(places[second]).run();
        refused.assert_code(2).assert_says("is at work on it");
        let waits = scene.command(places[second].iter().chain(&["--wait"])).spawn();
        let run = running.wait();
        run.assert_code(0);
        waits.wait().assert_code(0);
        scene.judge(&run).same_bytes().no_temp_files();
    }
}

/// Where no directory is private there is no lock for both, but neither removes what the other is at.
#[test]
fn runs_that_cannot_keep_each_other_out_leave_each_other_alone() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("large", content(3_000_000));
    scene.tree("others").file("small", "small").file("large 2", content(200_000));
    shell(&scene, "mkdir one other truth shown");
    let (truth, shown) = (scene.path("truth"), scene.path("shown"));
    let _mirror = Mirror::with_habits(&truth, &shown, &[Habit::HasNoPermissions], |_| Act::Pass);
    let slowly = SLOWLY.iter().chain(&["--state", "one"]);
    let mut running = scene.command_to(scene.src.root(), &shown, slowly).spawn();
    let parts = || names_below(&truth, "f").iter().filter(|it| it.ends_with(b"-part")).count();
    running.until("it is at work", || parts() > 0);
    let others = scene.path("others");
    let run = scene.command_to(&others, &shown, ["--state", "other", "-v"]).run();
    run.assert_code(0);
    assert!(!run.err().contains("removed"), "{}", run.err());
    assert_eq!(parts(), 1);
    running.wait().assert_code(0);
    shell(&scene, "cmp src/large truth/large; cmp others/small truth/small");
    assert_eq!(parts(), 0);
}

/// A name proves nothing: what is removed is what a run at this output made.
#[test]
fn what_only_looks_like_a_part_file_stays() {
    need!(Strace);
    let scene = Scene::new();
    for i in 0..20 {
        scene.src.file(format!("dir/{i}"), content(30_000));
    }
    scene.src.file("dir/large", content(6_000_000));
    let args = ["--checkpoint", "2M", "--block-size", "64K", "--queue-size", "2", "--workers", "1"];
    let fault = "signal=KILL:when=80";
    let run = Strace::inject(&scene, Strace::WRITES, fault).run(scene.command(args));
    assert_ne!(run.code, Some(0), "it was not killed");
    let left = || {
        let names = names_below(&scene.dst, "f").into_iter();
        let names = names.map(|name| String::from_utf8(name).unwrap());
        names.filter(|name| name.contains(".dircopy-")).collect::<Vec<_>>()
    };
    assert!(!left().is_empty(), "nothing was left");
    let theirs = [
        "dir/.a1B2c3D4e5.dircopy-part",
        "dir/.a1B2c3D4e5.0000002a-7-00000001.dircopy-part",
        "dir/.abcdefghijklmno.dircopy-journal",
        "dir/.abcdefghijklmnp.dircopy-journal",
        "dir/.f1B2c3D4e5.dircopy-part/file",
        "dir/.f1B2c3D4e5.dircopy-part/empty",
    ];
    shell(
        &scene,
        "cd dst/dir; mkdir .f1B2c3D4e5.dircopy-part; \
         echo mine | tee .a1B2c3D4e5.dircopy-part .a1B2c3D4e5.0000002a-7-00000001.dircopy-part \
         .abcdefghijklmno.dircopy-journal .f1B2c3D4e5.dircopy-part/.g1B2c3D4e5.dircopy-part >/dev/null; \
         mv .f1B2c3D4e5.dircopy-part/.g* .f1B2c3D4e5.dircopy-part/file; \
         touch .f1B2c3D4e5.dircopy-part/empty; \
         printf 'dircopy journal 2\\n\\377' >.abcdefghijklmnp.dircopy-journal; chmod 600 .abc*",
    );
    let of_ours = leftover_name(&scene.dst);
    shell(&scene, &format!("echo left >dst/dir/{of_ours}; chmod 600 dst/dir/{of_ours}"));
    let run = scene.copy(&args);
    // The directory of the killed run is still closed, and has files that are not the source's.
    run.assert_code(1).assert_says("stays closed to others");
    run.assert_says(&of_ours).assert_says("nor 4 more that look so: ");
    let mut expected = theirs.map(str::to_owned).to_vec();
    expected.sort_unstable();
    let mut found = left();
    found.sort_unstable();
    assert_eq!(found, expected);
}

/// Whoever loses the secret loses the proof of what is his, and is told of it.
#[test]
fn what_a_killed_run_left_is_named_when_the_secret_is_gone() {
    let lost = [
        "rm dst/.dircopy/secret",
        "rm -r dst/.dircopy",
        ": >dst/.dircopy/secret",
        "rm dst/.dircopy/secret; mkdir dst/.dircopy/secret",
        "chmod 755 dst/.dircopy",
    ];
    for lose in lost {
        let scene = Scene::new();
        scene.src.file("dir/small", "small").file("dir/more", "more");
        scene.copy(&["-q"]).assert_code(0);
        let left = leftover_name(&scene.dst);
        shell(
            &scene,
            &format!("echo left | tee dst/dir/{left} dst/dir/.abcdefghij.dircopy-journal; {lose}"),
        );
        for _ in 0..2 {
            let run = scene.copy(&[]);
            run.assert_code(0)
                .assert_says(&format!("dir/{left}"))
                .assert_says("remove what no other run");
            run.assert_says(".abcdefghij.dircopy-journal");
            assert_eq!(scene.output().read(format!("dir/{left}")), b"left\n", "{lose}");
        }
    }
}

/// Any number of such names takes no memory, and one line.
#[test]
fn of_many_that_look_like_part_files_some_are_named() {
    let scene = Scene::new();
    scene.src.file("dir/small", "small");
    scene.copy(&["-q"]).assert_code(0);
    shell(&scene, "cd dst/dir; seq -f '.a%09.0f.dircopy-part' 3000 | xargs touch");
    let run = scene.copy(&[]);
    run.assert_code(0).assert_says("nor 2999 more that look so: ").assert_says(" and 2997 more");
    assert_eq!(run.err().lines().count(), 1, "{}", run.err());
}
