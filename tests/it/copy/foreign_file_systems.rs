//! File systems that are not Linux's own do things to names, times and links of which no call tells.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::harness::{Act, Deed, Habit, Judge, Mirror, Run, Scene, Tree, content, need, shell};

/// Copies `src` into `out` on a file system with these habits, twice. The second run must come to the same.
fn copied_twice(scene: &Scene, habits: &[Habit]) {
    let truth = scene.tree("truth");
    let _mirror = Mirror::with_habits(truth.root(), &scene.path("disk"), habits, |_| Act::Pass);
    for _ in 0..2 {
        let run = scene.bare(["-i", "src", "-o", "disk/out"]).run();
        run.assert_code(0);
    }
    shell(scene, "cd disk/out && sha256sum -c --strict --quiet *.sha256sum");
}

/// SFTP has no call that does not follow a link: the time of a link became that of the file it pointed to,
/// outside the output.
#[test]
fn what_a_link_points_to_keeps_its_time_and_owner() {
    need!(Fuse);
    let scene = Scene::new();
    let victim = scene.tree("outside").file("victim", "victim").root().join("victim");
    scene.src.file("file", content(100));
    for name in ["one", "two"] {
        scene.src.symlink(name, victim.to_str().unwrap());
    }
    shell(&scene, "touch -h -d 2010-01-01 src/one src/two; chown -h 12:34 src/one src/two");
    let before = std::fs::metadata(&victim).unwrap();
    copied_twice(&scene, &[Habit::SetsThroughLinks]);
    let after = std::fs::metadata(&victim).unwrap();
    let seen =
        |it: &std::fs::Metadata| (it.mtime(), it.mtime_nsec(), it.ctime(), it.uid(), it.gid());
    assert_eq!(seen(&after), seen(&before), "a file outside the output was changed");
    assert_eq!(std::fs::read_link(scene.path("truth/out/one")).unwrap(), victim);
    let again = scene.path("disk2");
    let truth = scene.tree("truth2");
    let _mirror =
        Mirror::with_habits(truth.root(), &again, &[Habit::SetsThroughLinks], |_| Act::Pass);
    let run = scene.bare(["-i", "src", "-o", "disk2/out"]).run();
    let told = String::from_utf8_lossy(&run.stderr);
    assert_eq!(told.matches("leaves alone what a link points to").count(), 1, "{told}");
}

/// libfuse 2 ignores a change of the modification time alone: every file was dated now, and from the second run
/// on newer than its source.
#[test]
fn times_are_set_where_only_both_can_be() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("small", content(100)).file("dir/large", content(3_000_000));
    shell(&scene, "touch -d 2011-01-01 src/small src/dir/large src/dir");
    copied_twice(&scene, &[Habit::BothTimesOrNone]);
    for name in ["small", "dir/large", "dir"] {
        let time = |root: &Path| std::fs::metadata(root.join(name)).unwrap().mtime();
        assert_eq!(time(&scene.path("truth/out")), time(&scene.path("src")), "{name}");
    }
}

/// Runs on a file system with these habits, told what to do besides. The output is `disk/out`.
fn run_on(scene: &Scene, habits: &[Habit], args: &[&str]) -> Run {
    let truth = scene.tree("truth");
    let _mirror = Mirror::with_habits(truth.root(), &scene.path("disk"), habits, |_| Act::Pass);
    scene.bare([&["-i", "src", "-o", "disk/out"], args].concat()).run()
}

#[track_caller]
fn assert_no_trial(scene: &Scene) {
    assert_eq!(shell(scene, "find truth/out -name '*.dircopy-part*'"), "");
}

/// The newest manifest lists these files and no others.
#[track_caller]
fn assert_lists(scene: &Scene, names: &[&str]) {
    let newest = "cd truth/out && cat \"$(ls -t *.sha256sum | head -n 1)\" | cut -c 67- | sort";
    let listed = shell(scene, newest);
    assert_eq!(listed.lines().collect::<Vec<_>>(), names);
}

/// vfat and exFAT made `x` of `x.`: one of the two was lost, and under `always` each replaced the other.
#[test]
fn a_name_that_loses_its_dots_is_an_error() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("x", "short").file("x.", "with a dot").file("dir../inner", "in").file("y", "y");
    for policy in ["default", "default", "update", "always"] {
        let run = run_on(&scene, &[Habit::DropsDots], &["--overwrite-policy", policy]);
        run.assert_code(1).assert_says("makes x of it").assert_says("makes dir of it");
        assert_lists(&scene, &["x", "y"]);
        let read =
            |name: &str| std::fs::read_to_string(scene.path("truth/out").join(name)).unwrap();
        assert_eq!((&*read("x"), &*read("y")), ("short", "y"));
        assert!(!scene.path("truth/out/dir").exists());
        assert_no_trial(&scene);
    }
}

/// UDF wrote `?` for what is not UTF-8: two entries of one name, of which the manifest knew neither.
#[test]
fn a_name_whose_bytes_are_replaced_is_an_error() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file(b"\xff", "one").file(b"\xfe", "two").file("?", "three").file("na\u{ef}ve", "x");
    for _ in 0..2 {
        let run = run_on(&scene, &[Habit::ReplacesBytes], &[]);
        run.assert_code(1).assert_says("makes ? of it");
        assert_lists(&scene, &["?", "na\u{ef}ve"]);
        assert_eq!(std::fs::read_to_string(scene.path("truth/out/?")).unwrap(), "three");
        assert_no_trial(&scene);
    }
}

#[test]
fn names_that_differ_in_letter_case_are_an_error_that_names_both() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("Name", "one").file("nAME", "two");
    for _ in 0..2 {
        let run = run_on(&scene, &[Habit::FoldsCase], &[]);
        run.assert_code(1).assert_says("takes this name for the same as");
        assert_eq!(shell(&scene, "ls truth/out | grep -ic '^name$'"), "1\n");
    }
}

/// A file of 1970 is one of 1980 on vfat: the second run called it newer, left it, and listed it no more.
#[test]
fn times_that_the_output_cannot_hold_are_the_same_again() {
    need!(Fuse);
    let fat = Habit::HoldsTimes(315_532_800, 4_354_819_198, 2);
    for habit in [fat, Habit::CutsTimesTo32Bits] {
        let scene = Scene::new();
        let times = ["@0", "@1", "1960-01-01", "2001-01-01", "2040-01-01", "2200-01-01"];
        for (number, time) in times.iter().enumerate() {
            scene.src.file(format!("f{number}"), content(100 + number));
            shell(&scene, &format!("touch -d {time} src/f{number}"));
        }
        let all = ["f0", "f1", "f2", "f3", "f4", "f5"];
        for args in [&[][..], &[], &["--verify"], &["--overwrite-policy", "update"], &["--dry-run"]]
        {
            run_on(&scene, &[habit], args).assert_code(0);
            assert_lists(&scene, &all);
        }
        // What is truly newer still is.
        shell(&scene, "touch -d 2003-01-01 truth/out/f0");
        run_on(&scene, &[habit], &[]).assert_code(1).assert_says("is newer");
    }
}

/// vfat stores what a clock on the wall says: in another zone every file was left, and the manifest empty.
#[test]
fn times_that_moved_with_the_zone_are_the_same() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("small", content(100)).file("dir/large", content(3_000_000));
    shell(&scene, "touch -d 2011-01-01 src/small src/dir/large src/dir");
    run_on(&scene, &[Habit::MovesTimes(0)], &[]).assert_code(0);
    for (moved, is_new) in [(3600, true), (3600, false), (0, false), (-19_800, true)] {
        let run = run_on(&scene, &[Habit::MovesTimes(moved)], &[]);
        run.assert_code(0);
        assert_lists(&scene, &["dir/large", "small"]);
        let told = String::from_utf8_lossy(&run.stderr);
        assert_eq!(told.contains("since earlier runs set them"), is_new, "{told}");
    }
    // Some time is not a zone.
    run_on(&scene, &[Habit::MovesTimes(3601)], &[]).assert_code(1).assert_says("is newer");
}

/// HFS cannot sync directories: every run was stopped, without a manifest.
#[test]
fn an_output_that_cannot_sync_directories_is_copied_to() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("small", content(100)).file("dir/large", content(3_000_000));
    for _ in 0..2 {
        let run = run_on(&scene, &[Habit::SyncsNoDirectories], &[]);
        run.assert_code(0);
        let told = String::from_utf8_lossy(&run.stderr);
        assert_eq!(told.matches("cannot sync directories").count(), 1, "{told}");
        assert_lists(&scene, &["dir/large", "small"]);
    }
}

/// rclone says that none of a thousand million inodes is free, and was refused.
#[test]
fn a_number_of_free_inodes_that_means_nothing_refuses_no_run() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("small", content(100));
    run_on(&scene, &[Habit::TellsNoFreeInodes], &[]).assert_code(0);
}

/// Where there are no symbolic links, that is said as what it is, and an option leaves them out.
#[test]
fn links_can_be_left_out_where_there_are_none() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("file", content(100)).symlink("link", "file");
    for _ in 0..2 {
        let run = run_on(&scene, &[Habit::HasNoLinks], &[]);
        run.assert_code(1).assert_says("has no symbolic links; --no-links leaves them out");
        let run = run_on(&scene, &[Habit::HasNoLinks], &["--no-links"]);
        run.assert_code(0).assert_says("skipped link: it is a symbolic link");
        assert_lists(&scene, &["file"]);
    }
}

/// sshfs lists nothing after going back to the start of a directory: each run left the directory of its trial.
#[test]
fn a_directory_that_is_listed_once_keeps_no_trial() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("file", content(100));
    for _ in 0..2 {
        let run = run_on(&scene, &[Habit::ListsOnce, Habit::DropsDots], &[]);
        run.assert_code(0).assert_says("with a blank or a dot at an end");
        assert_no_trial(&scene);
    }
}

/// sshfs takes 1970 for the wish to have the time of now: the second run ended with 1, and the third left the file.
#[test]
fn a_time_that_becomes_that_of_now_is_told_and_content_decides() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("zero", content(100)).file("other", content(50));
    shell(&scene, "touch -d @0 src/zero; touch -d 2011-01-01 src/other");
    let habits = [Habit::TakesZeroForNow, Habit::CutsTimesTo32Bits];
    for args in [&[][..], &[], &["--verify"], &["--overwrite-policy", "never"]] {
        let run = run_on(&scene, &habits, args);
        run.assert_code(0).assert_says("zero: the output cannot hold it, and dates the file");
        assert_lists(&scene, &["other", "zero"]);
        // The next second is another now.
        std::thread::sleep(std::time::Duration::from_millis(1050));
    }
    shell(&scene, "printf x | dd of=truth/out/zero conv=notrunc status=none");
    run_on(&scene, &habits, &[]).assert_code(1).assert_says("is newer");
}

/// sshfs shows no link that leads out: the first run made it and ended with 0, the second with 1.
#[test]
fn links_that_are_not_shown_are_errors_at_once() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("file", "x").symlink("in", "file").symlink("out", "/x").symlink("up", "../y");
    for _ in 0..2 {
        let run = run_on(&scene, &[Habit::HidesOutwardLinks], &[]);
        run.assert_code(1).assert_says("does not show links that lead out of it");
        assert_eq!(shell(&scene, "ls truth/out | grep -v sha256"), "file\nin\n");
        assert_no_trial(&scene);
    }
    scene.tree("truth").symlink("out/out", "/x");
    run_on(&scene, &[Habit::HidesOutwardLinks], &[]).assert_code(1).assert_says("does not show");
}

const FAT: [Habit; 4] =
    [Habit::HasNoLinks, Habit::FoldsCase, Habit::RefusesSigns, Habit::HasNoPermissions];

/// exfat-fuse keeps any time until it is mounted anew: then 1970 is 1980, and 2110 is 1982.
#[test]
fn times_that_are_lost_at_the_next_mount_are_the_same_again() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("a", "1970").file("b", "2110").file("c", "2011");
    shell(&scene, "cd src && touch -d @0 a && touch -d @4418064000 b && touch -d 2011-01-01 c");
    run_on(&scene, &FAT, &[]).assert_code(0).assert_says("from 1980-01-01");
    shell(&scene, "cd truth/out && touch -d @315532800 a && touch -d @378691200 b");
    for args in [&[][..], &["--verify"], &["--overwrite-policy", "update"]] {
        let run = run_on(&scene, &FAT, args);
        run.assert_code(0);
        assert!(String::from_utf8_lossy(&run.stdout).contains("unchanged   3 files"));
        assert_lists(&scene, &["a", "b", "c"]);
    }
    shell(&scene, "touch -d 1990-01-01 truth/out/a");
    run_on(&scene, &FAT, &[]).assert_code(1).assert_says("is newer");
}

/// Where no directory is private, a file of a known time shows the moved clock all the same.
#[test]
fn times_that_moved_are_the_same_where_nothing_is_private() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("a", "a").file("dir/b", "b");
    shell(&scene, "touch -d 2011-01-01 src/a src/dir/b src/dir");
    for (moved, is_new) in [(0, false), (3600, true), (3600, false), (0, false)] {
        let habits = [&FAT[..], &[Habit::MovesTimes(moved)]].concat();
        let run = run_on(&scene, &habits, &[]);
        run.assert_code(0).assert_says("cannot keep private records");
        assert_lists(&scene, &["a", "dir/b"]);
        let told = String::from_utf8_lossy(&run.stderr);
        assert_eq!(told.contains("since earlier runs set them"), is_new, "{told}");
    }
}

/// A bag was never finished there: what shows a moved clock lay in its payload.
#[test]
fn a_bag_is_finished_where_nothing_is_private() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("a", "a").file("dir/b", "b");
    run_on(&scene, &FAT, &["--bag"]).assert_code(0);
    assert_eq!(shell(&scene, "find truth/out/data -type f | wc -l"), "2\n");
    shell(&scene, "cd truth/out && sha256sum -c --strict --quiet manifest-sha256.txt");
}

/// ntfs-3g cuts the name that it gives to what is replaced: each run left a stray file, with exit 0.
#[test]
fn a_long_name_that_cannot_be_replaced_is_an_error() {
    need!(Fuse);
    let scene = Scene::new();
    let (long, shorter) = ("n".repeat(250), "s".repeat(220));
    scene.src.file(&long, "long").file(&shorter, "shorter");
    run_on(&scene, &[Habit::StraysFromLongNames], &[]).assert_code(0);
    for _ in 0..2 {
        let always = ["--overwrite-policy", "always"];
        let run = run_on(&scene, &[Habit::StraysFromLongNames], &always);
        run.assert_code(1).assert_says("cannot replace a file of so long a name");
        assert_eq!(shell(&scene, "ls truth/out | grep -vc sha256"), "2\n");
        assert_no_trial(&scene);
    }
}

/// 200 links were 200 lines that said the same.
#[test]
fn links_that_none_can_be_are_said_once() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("file", "x");
    for number in 0..200 {
        scene.src.symlink(format!("link{number}"), "file");
    }
    let run = run_on(&scene, &[Habit::HasNoLinks], &["--log", "log"]);
    run.assert_code(1).assert_says("199 more like one above");
    let out = Tree::of(scene.path("truth/out"));
    Judge::new(&scene.src, out, &run).names_what_is_missing();
    assert!(String::from_utf8_lossy(&run.stdout).contains("failed      200 entries"));
    assert!(run.stderr.split(|byte| *byte == b'\n').count() < 6);
    assert_eq!(shell(&scene, "grep -c 'cannot make the link' log"), "200\n");
}

/// An output that was removed under a run got a line for each file.
#[test]
fn an_output_that_goes_away_is_said_in_a_few_lines() {
    need!(Fuse);
    let scene = Scene::new();
    for number in 0..600 {
        scene.src.file(format!("dir{}/file{number}", number % 3), content(200));
    }
    let truth = scene.tree("truth");
    let out = truth.root().join("out");
    let _mirror = Mirror::mount(truth.root(), &scene.path("disk"), move |call| {
        if call.deed == Deed::Rename && call.number == 20 {
            let _ = std::fs::remove_dir_all(&out);
        }
        Act::Pass
    });
    let run = scene.bare(["-i", "src", "-o", "disk/out", "--log", "log"]).run();
    run.assert_code(3);
    let lines = run.stderr.split(|byte| *byte == b'\n').count();
    assert!(lines < 40, "{lines}: {}", String::from_utf8_lossy(&run.stderr));
}

/// rclone dates a file to each reading until it has sent it on: a run after a run failed for every file.
#[test]
fn files_that_are_dated_to_each_reading_are_judged_by_content() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("one", content(100)).file("dir/two", content(3_000_000));
    shell(&scene, "touch -d 2011-01-01 src/one src/dir/two");
    let habit = Habit::DatesToReading;
    for args in [&[][..], &[], &["--verify"], &["--overwrite-policy", "update"], &[]] {
        let run = run_on(&scene, &[habit], args);
        run.assert_code(0).assert_says("so content decides");
        assert_lists(&scene, &["dir/two", "one"]);
        assert_no_trial(&scene);
    }
    shell(&scene, "printf x | dd of=truth/out/one conv=notrunc status=none");
    run_on(&scene, &[habit], &[]).assert_code(1).assert_says("one");
}

/// Lines of files that left the source were dropped where each reading dates a file: nothing but reading had been done
/// to them.
#[test]
fn files_that_left_the_source_stay_listed_where_reading_dates_them() {
    need!(Fuse);
    let dates = Habit::DatesToReading;
    // With a private record and without one.
    for habits in [&[dates][..], &[dates, Habit::HasNoPermissions]] {
        let scene = Scene::new();
        scene.src.file("one", content(100)).file("dir/two", content(3_000_000));
        // The newest manifest is not the youngest file: earlier ones were read after it was written.
        let out = Tree::of(scene.path("truth/out"));
        let lists = |run: &Run, names: &[&str]| {
            Judge::new(&scene.src, out.clone(), run).lists(names);
        };
        run_on(&scene, habits, &[]).assert_code(0);
        run_on(&scene, habits, &["--verify"]).assert_code(0);
        shell(&scene, "rm -r src/dir");
        for _ in 0..2 {
            let run = run_on(&scene, habits, &[]);
            run.assert_code(0);
            lists(&run, &["dir/two", "one"]);
        }
        shell(&scene, "printf x | dd of=truth/out/dir/two conv=notrunc status=none");
        let run = run_on(&scene, habits, &[]);
        run.assert_says("list any longer");
        lists(&run, &["one"]);
    }
}

/// exfat-fuse keeps any time until it is mounted anew: the line of a file of 1970 that left the source was dropped
/// then.
#[test]
fn files_that_left_the_source_stay_listed_after_a_remount() {
    need!(Fuse);
    let habits = &FAT[..3];
    let scene = Scene::new();
    scene.src.file("a", "1970").file("b", "2011");
    shell(&scene, "cd src && touch -d @0 a && touch -d 2011-01-01 b");
    run_on(&scene, habits, &[]).assert_code(0);
    shell(&scene, "touch -d @315532800 truth/out/a; rm src/a");
    run_on(&scene, habits, &[]).assert_code(0);
    assert_lists(&scene, &["a", "b"]);
}

/// Habits, what is done in the source, what in the output after the first run, arguments, and the exit code.
type DryCase<'a> = (&'a [Habit], &'a str, &'a str, &'a [&'a str], i32);

/// A dry run makes nothing, so it tried nothing: it took names, links and times for held that no run can make, and a
/// file that is dated to its making for one that was edited.
#[test]
fn a_dry_run_comes_to_the_end_of_the_run_before_it() {
    need!(Fuse);
    let always: &[&str] = &["--overwrite-policy", "always"];
    let no_privacy = [Habit::DatesToReading, Habit::HasNoPermissions];
    let cases: &[DryCase<'_>] = &[
        (&[Habit::TakesZeroForNow, Habit::CutsTimesTo32Bits], "touch -d @0 file", "true", &[], 0),
        (&[Habit::HoldsTimes(315_532_800, 4_354_819_198, 2)], "touch -d @0 file", "true", &[], 0),
        (&FAT, "touch -d @0 file", "touch -d @315532800 file", &[], 0),
        (&no_privacy, "touch -d 2011-01-01 file", "cat file", &[], 0),
        (&[Habit::DropsDots], "echo x >x.; mkdir dir..", "true", &[], 1),
        (&[Habit::ReplacesBytes], r"echo x >$'b\xff'", "true", &[], 1),
        (&[Habit::ReplacesBytes], "echo x >na\u{ef}ve", "true", &[], 0),
        (&[Habit::RefusesSigns], "echo x >a:b", "true", &[], 1),
        (&[Habit::HasNoLinks], "ln -s file link", "true", &[], 1),
        (&[Habit::HidesOutwardLinks], "ln -s /x link", "true", &[], 1),
        (&[Habit::HidesOutwardLinks], "ln -s file link", "true", &[], 0),
        (&[Habit::StraysFromLongNames], "echo x >$(printf %0250d 0)", "true", always, 1),
    ];
    for &(habits, before, between, args, code) in cases {
        let scene = Scene::new();
        scene.src.file("file", content(100));
        shell(&scene, &format!("cd src; {before}"));
        run_on(&scene, habits, &[]);
        shell(&scene, &format!("cd truth/out; {between}"));
        // The next second is another now.
        std::thread::sleep(std::time::Duration::from_millis(1050));
        run_on(&scene, habits, args).assert_code(code);
        let there =
            || shell(&scene, "find truth -printf '%p %i %s %C@\\n' | grep -v '/[.]dircopy '");
        let expected = there();
        let run = run_on(&scene, habits, &[args, &["--dry-run"]].concat());
        run.assert_code(code);
        let reads = habits.contains(&Habit::DatesToReading);
        assert!(reads || there() == expected, "{before}: {expected}{}", there());
    }
}

/// libfuse 2 shows the change time of a new file late: what was copied a moment ago "was changed while it was read".
#[test]
fn a_change_time_that_is_shown_late_is_no_change() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("one", content(100)).file("dir/two", content(3_000_000));
    shell(&scene, "touch -d 2011-01-01 src/one src/dir/two");
    for args in [&[][..], &["--verify"], &["--verify"]] {
        run_on(&scene, &[Habit::TellsChangesLate], args).assert_code(0);
        assert_lists(&scene, &["dir/two", "one"]);
    }
    shell(&scene, "rm src/one");
    run_on(&scene, &[Habit::TellsChangesLate], &[]).assert_code(0);
    assert_lists(&scene, &["dir/two", "one"]);
}

/// Without a cache rclone makes a file when it is closed: a manifest could not be read back, and files of trials came
/// back.
#[test]
fn files_that_are_made_when_they_are_closed_are_read_back() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("one", content(100)).file("dir/two", content(3_000_000));
    let habits = [Habit::MakesFilesOnClose, Habit::HasNoPermissions];
    for args in [&["--verify"][..], &["--verify"], &[], &["--overwrite-policy", "always"]] {
        run_on(&scene, &habits, args).assert_code(0);
        assert_lists(&scene, &["dir/two", "one"]);
        assert_no_trial(&scene);
    }
}

/// Where nothing can be private, what runs keep for themselves was "not listed".
#[test]
fn a_check_knows_what_runs_keep_in_the_open() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("a", "a").file(".dircopy/x", "x").file("dir/.dircopy/traits", "t");
    run_on(&scene, &FAT, &["--exclude", "/.dircopy"]).assert_code(0);
    let check = || {
        let truth = scene.tree("truth");
        let _mirror = Mirror::with_habits(truth.root(), &scene.path("disk"), &FAT, |_| Act::Pass);
        scene.bare(["--complete", "disk/out"]).dirverify().run()
    };
    check().assert_code(0);
    for other in ["time.9", "time.00", "other"] {
        let path = scene.path("truth/out/.dircopy").join(other);
        std::fs::write(&path, "").unwrap();
        check().assert_code(4).assert_says(other);
        std::fs::remove_file(path).unwrap();
    }
    std::fs::write(scene.path("truth/out/.dircopy/time.0"), "content").unwrap();
    check().assert_code(4).assert_says("time.0");
}

/// rclone showed a name with a line feed as it was told until it was mounted anew: then the file was copied again under
/// every run, and a check found another name than the listed one.
#[test]
fn a_name_that_is_another_after_the_next_mount_is_an_error_at_once() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("line\nfeed", "one").file("plain", "two").file("dir\n/inner", "three");
    for args in [&[][..], &["--dry-run"], &[], &["--verify"], &["--overwrite-policy", "always"]] {
        let run = run_on(&scene, &[Habit::RemembersLineFeeds], args);
        run.assert_code(1).assert_says("line").assert_says("dir");
        assert_lists(&scene, &["plain"]);
        assert_no_trial(&scene);
    }
    let told = run_on(&scene, &[Habit::RemembersLineFeeds], &[]);
    told.assert_says("makes line\u{240a}feed of it").assert_says("with control characters");
    assert_eq!(shell(&scene, "ls truth/out | grep -v sha256"), "plain\n");
}

/// HFS cut off the manifest's own name, so that no check found it.
#[test]
fn an_output_that_cannot_hold_the_name_of_the_manifest_is_refused() {
    need!(Fuse);
    let scene = Scene::new();
    scene.src.file("small", content(100));
    for args in [&[][..], &["--dry-run"]] {
        let run = run_on(&scene, &[Habit::TellsShortNames], args);
        run.assert_code(2)
            .assert_says("holds names of at most 31 bytes, and the manifest's has 39");
        assert_eq!(shell(&scene, "ls truth"), "");
    }
    run_on(&scene, &[Habit::TellsShortNames], &["--hash", "none"]).assert_code(0);
}

/// gocryptfs refuses an ordinary user an entry now and then, while a file is being synced: the first run ended with 1,
/// and the second with 0.
#[test]
fn an_entry_that_is_refused_now_and_then_is_made_all_the_same() {
    need!(Fuse, Root, Setpriv);
    let scene = Scene::new();
    scene.src.file("small", content(100)).file("dir/large", content(3_000_000));
    let truth = scene.tree("truth");
    shell(&scene, "chmod 755 .; chmod -R a+rX src; chmod 777 truth");
    const EPERM: i32 = 1;
    let mirror = Mirror::mount(truth.root(), &scene.path("disk"), |call| match call.deed {
        Deed::Create if call.number % 2 == 1 => Act::Fail(EPERM),
        _ => Act::Pass,
    });
    let run = scene.bare(["-i", "src", "-o", "disk/out"]).under_nobody().run();
    run.assert_code(0);
    assert!(mirror.fired() > 0);
    shell(&scene, "cmp src/small truth/out/small && cmp src/dir/large truth/out/dir/large");
}
