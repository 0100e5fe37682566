//! What a run believes: what this user's runs found out at this output, and nothing that only has the
//! right name. Judged by `sha256sum` and `cmp`.

use crate::harness::{NONE, Run, Scene, Strace, content, need, shell};

/// Copies the directory `from` to `to`, both in the scene.
fn copy(scene: &Scene, from: &str, to: &str, more: &[&str]) -> Run {
    let (from, to) = (scene.path(from), scene.path(to));
    let mut args = vec!["-i".into(), from, "-o".into(), to];
    args.extend(more.iter().map(Into::into));
    scene.bare(args).run()
}

/// The newest manifest of `dir` holds, and has so many lines.
fn lines(scene: &Scene, dir: &str) -> usize {
    let script = "cd \"$1\"; m=$(ls dircopy-*.sha256sum | LC_ALL=C sort | tail -n1); \
                  sha256sum --check --strict --quiet \"$m\" >&2; wc -l <\"$m\"";
    shell(scene, &format!("set -- {dir}; {script}")).trim().parse().unwrap()
}

/// Flips a byte of a file and sets its time back.
fn rot(scene: &Scene, name: &str) {
    let script = "t=$(mktemp -p .); touch -r \"$1\" $t; printf X | \
                  dd of=\"$1\" bs=1 seek=5000 conv=notrunc status=none; touch -r $t \"$1\"; rm $t";
    shell(scene, &format!("set -- {name}; {script}"));
}

#[test]
fn a_known_digest_is_not_replaced_in_silence() {
    for sleep in ["0", "0.05"] {
        let scene = Scene::new();
        scene.src.file("f", content(300_000)).mtime("f", 1_577_836_800, 0);
        scene.copy(&[]).assert_code(0);
        shell(&scene, &format!("sleep {sleep}"));
        rot(&scene, "dst/f");
        let run = scene.copy(&[]);
        run.assert_says("content differs although size and time are the same; it is copied anew");
        scene.judge(&run).complete();
    }
}

#[test]
fn a_damaged_copy_that_must_stay_is_named() {
    let scene = Scene::new();
    scene.src.file("f", content(300_000)).mtime("f", 1_577_836_800, 0).file("g", "g");
    scene.copy(&[]).assert_code(0);
    rot(&scene, "dst/f");
    for _ in 0..2 {
        let run = scene.copy(&["--overwrite-policy", "never"]);
        run.assert_code(1).assert_says("content differs although size and time are the same");
        scene.judge(&run).lists(&["g"]).verifies();
    }
    let run = scene.copy(&[]);
    scene.judge(&run).complete();
}

/// By the manifest in the open, where there is no record, as at an output of an older version.
#[test]
fn without_a_record_the_open_manifest_raises_the_doubt() {
    let scene = Scene::new();
    scene.src.file("f", content(300_000)).mtime("f", 1_577_836_800, 0);
    scene.copy(&[]).assert_code(0);
    rot(&scene, "dst/f");
    shell(&scene, "rm -r dst/.dircopy");
    let run = scene.copy(&[]);
    run.assert_says("content differs although size and time are the same; it is copied anew");
    scene.judge(&run).complete();
}

#[test]
fn a_digest_that_is_new_on_both_sides_is_taken_and_said() {
    let scene = Scene::new();
    scene.src.file("f", content(300_000)).mtime("f", 1_577_836_800, 0);
    scene.copy(&[]).assert_code(0);
    rot(&scene, "src/f");
    rot(&scene, "dst/f");
    let run = scene.copy(&[]);
    run.assert_says("so its new digest is listed");
    scene.judge(&run).complete();
}

#[test]
fn what_differs_from_all_that_is_known_stays_and_is_named() {
    let scene = Scene::new();
    scene.src.file("f", content(300_000)).mtime("f", 1_577_836_800, 0);
    scene.copy(&[]).assert_code(0);
    rot(&scene, "dst/f");
    shell(
        &scene,
        "touch -r src/f t; printf YY | dd of=src/f bs=1 seek=9 conv=notrunc status=none; \
         touch -r t src/f",
    );
    let run = scene.copy(&["--overwrite-policy", "update"]);
    run.assert_code(1).assert_says("neither what an earlier run recorded nor what the source is");
}

/// The last files of a run share the manifest's step of the clock.
#[test]
fn a_second_card_keeps_the_lines_of_the_first() {
    for _ in 0..5 {
        let scene = Scene::new();
        for card in ["c1", "c2"] {
            let tree = scene.tree(card);
            for n in 0..5 {
                tree.file(format!("{card}-{n}"), content(20_000 + n));
            }
        }
        for card in ["c1", "c2"] {
            copy(&scene, card, "archive", &[]).assert_code(0);
        }
        assert_eq!(lines(&scene, "archive"), 10);
    }
}

/// However a program sorts them: the last is the one that holds.
#[test]
fn the_names_of_manifests_sort_in_the_order_of_the_runs() {
    let scene = Scene::new();
    for n in 1..4 {
        scene.src.file("f", content(n)).mtime("f", 1_577_836_800 + n as u64, 0);
        scene.copy(&["--overwrite-policy", "update"]).assert_code(0);
        assert_eq!(lines(&scene, "dst"), 1);
    }
    let locales =
        "for l in C C.UTF-8 en_US.UTF-8; do ls dst | LC_ALL=$l sort | tail -n2 | head -n1; done";
    assert_eq!(shell(&scene, &format!("({locales}) 2>/dev/null | sort -u | wc -l")).trim(), "1");
}

#[test]
fn a_line_that_is_dropped_is_said_to_be() {
    let scene = Scene::new();
    for name in ["rotten", "edited", "removed", "stays"] {
        scene.src.file(name, content(20_000)).mtime(name, 1_577_836_800, 0);
    }
    scene.copy(&[]).assert_code(0);
    rot(&scene, "dst/rotten");
    shell(&scene, "echo more >>dst/edited; rm dst/removed; chmod 600 dst/stays; rm src/*");
    for _ in 0..2 {
        let run = scene.copy(&["--allow-empty"]);
        run.assert_code(4).assert_says("rotten: its content is not what an earlier run recorded");
        run.assert_prints(&["ROTTEN (exit 4)"]);
        assert_eq!(lines(&scene, "dst"), 1);
        if run.err().contains("removed") {
            run.assert_says("removed: an earlier run recorded it, and it is no longer there");
            run.assert_says("edited: it was changed after an earlier run recorded it");
            continue;
        }
    }
    shell(&scene, "rm dst/rotten");
    scene.copy(&["--allow-empty"]).assert_code(0);
}

#[test]
fn a_manifest_that_came_from_the_source_is_not_believed() {
    let scene = Scene::new();
    scene.src.file("f", content(20_000));
    let zeros = format!("{:064}  f\n{:064}  ghost\n", 0, 0);
    scene.src.file("dircopy-20990101T000000Z.sha256sum", &zeros);
    scene.copy(&[]).assert_code(0);
    scene.src.remove("dircopy-20990101T000000Z.sha256sum").file("g", content(7));
    for _ in 0..2 {
        let run = scene.copy(&[]);
        run.assert_code(0);
        let listed = shell(&scene, "cd dst; cat dircopy-202[0-8]*.sha256sum");
        assert!(!listed.contains(&format!("{:064}", 0)), "{listed}");
    }
    // Nor without a record.
    shell(&scene, "rm -r dst/.dircopy");
    scene.copy(&[]).assert_code(0);
    let listed = shell(&scene, "cd dst; cat dircopy-202[0-8]*.sha256sum");
    assert!(!listed.contains(&format!("{:064}", 0)), "{listed}");
    scene.judge(&scene.copy(&[])).no_leftovers();
}

/// Where the record is gone, what came from the source is known by the manifest that lists it: it is not removed as
/// what a killed run left, and does not hide what was known.
#[test]
fn what_came_from_the_source_is_no_manifest_without_a_record_either() {
    let scene = Scene::new();
    scene.src.file("f", content(20_000)).mtime("f", 1_577_836_800, 0);
    let ghost = format!("{:064}  ghost\n", 7);
    let names = [
        "dircopy-20200101T000000Z.sha256sum.part",
        "dircopy-20200101T000000Z.md5sum.part",
        "dircopy-20200101T000000Z.states.part",
        "dircopy-20990101T000000Z.sha256sum",
        "dircopy-20990101T000001Z.sha256sum.part",
    ];
    for name in names {
        scene.src.file(name, &ghost);
    }
    scene.copy(&[]).assert_code(0);
    shell(&scene, "rm -r dst/.dircopy; rm src/dircopy-*");
    rot(&scene, "dst/f");
    let run = scene.copy(&[]);
    run.assert_code(0).assert_says("it is copied anew");
    assert!(!run.err().contains("ghost"), "{}", run.err());
    for name in names {
        assert_eq!(scene.output().read(name), ghost.as_bytes(), "{name}");
    }
    shell(&scene, "cmp src/f dst/f; cat dst/dircopy-202[2-8]*.sha256sum | grep -c '  dircopy-2'");
}

#[test]
fn a_record_at_the_source_is_passed_over() {
    let scene = Scene::new();
    scene.src.file("f", content(20_000));
    scene.copy(&[]).assert_code(0);
    let run = copy(&scene, "dst", "further", &[]);
    run.assert_code(0).assert_says("skipped .dircopy");
    // One that was copied by other means is of another output.
    shell(&scene, "cp -a dst twin; cmp dst/.dircopy/record twin/.dircopy/record");
    rot(&scene, "twin/f");
    let run = copy(&scene, "src", "twin", &[]);
    run.assert_code(0).assert_says("it is copied anew");
    shell(&scene, "cmp src/f twin/f; ! cmp -s dst/.dircopy/record twin/.dircopy/record");
}

/// Deeper in a source it is copied as any other, and may be found where that part of the copy is used as an output.
#[test]
fn a_record_that_was_made_up_for_a_part_of_the_copy_is_not_believed() {
    let scene = Scene::new();
    scene.src.file("sub/f", "hello").file("sub/.dircopy/record", "x");
    shell(&scene, "chmod 700 src/sub/.dircopy; chmod 600 src/sub/.dircopy/record");
    scene.copy(&[]).assert_code(0);
    // All that a copy of it could be known by, as far as it can be told beforehand.
    let script = "\
        id() { printf '%x@%s' $(stat -c '%i %.9W' $1 | sed 's/,/./'); }; \
        stamp() { stat -c %.9$2 $1 | { IFS=. read s n; printf %x.%x $s $((10#$n)); }; }; \
        cd dst/sub; r=../../src/sub/.dircopy/record; \
        echo \"dircopy record 1 $(id .)/$(id .dircopy)/@$(stat -c %.9W .dircopy/record)\" >$r; \
        printf 's=- %x %x %s %s %064d  f\\n' $(stat -c '%i %s' f) $(stamp f Y) $(stamp f Z) 1 >>$r; \
        echo \"= 1 $(sha256sum <$r | cut -c1-64)\" >>$r; touch -d '+1 min' $r";
    shell(&scene, &format!("bash -c '{}'", script.replace('\'', "'\\''")));
    shell(&scene, "sleep 0.1");
    scene.copy(&["--overwrite-policy", "update"]).assert_code(0);
    shell(
        &scene,
        "cmp src/sub/.dircopy/record dst/sub/.dircopy/record; mkdir part; cp -p src/sub/f part",
    );
    copy(&scene, "part", "dst/sub", &[]).assert_code(0);
    assert_eq!(lines(&scene, "dst/sub"), 1);
}

#[test]
fn a_private_directory_of_others_is_not_used() {
    for plant in [
        "mkdir -m 777 dst/.dircopy",
        "mkdir -m 700 elsewhere; ln -s ../elsewhere dst/.dircopy",
        "touch dst/.dircopy",
    ] {
        let scene = Scene::new();
        scene.src.file("f", content(20_000));
        scene.output();
        shell(&scene, plant);
        let run = scene.copy(&[]);
        run.assert_code(0).assert_says("private");
        assert_eq!(lines(&scene, "dst"), 1);
        shell(&scene, "test -z \"$(ls -A elsewhere dst/.dircopy/ 2>/dev/null | grep record)\"");
        scene.copy(&[]).assert_code(0);
        assert_eq!(lines(&scene, "dst"), 1);
    }
}

/// A state that came from elsewhere, and times that are still to come.
#[test]
fn a_planted_state_of_checks_is_not_believed() {
    let scene = Scene::new();
    for n in 0..6 {
        scene.src.file(format!("{n}"), content(1000 + n));
    }
    scene.copy(&[]).assert_code(0);
    let portion = |dir: &str| {
        let args = ["verify", "--from", "cache", dir, "--max-bytes", "1KB"];
        scene.bare(args).run()
    };
    portion("dst").assert_prints(&["5 of 6 files not verified yet"]);
    // In the open it is a file like any other.
    shell(&scene, "sed 's/ [0-9]*$/ 4000000000/' dst/.dircopy/dircopy.cached >dst/dircopy.cached");
    portion("dst").assert_prints(&["4 of 6 files not verified yet"]);
    scene.bare(["verify", "--complete", "dst"]).run().assert_code(4);
    shell(&scene, "rm dst/dircopy.cached; cp -a dst twin");
    let run = portion("twin");
    run.assert_says("never verified").assert_prints(&["5 of 6 files not verified yet"]);
    shell(&scene, "sed -i '2,$s/ [1-9][0-9]\\{9\\}$/ 4000000000/' dst/.dircopy/dircopy.cached");
    portion("dst").assert_prints(&["5 of 6 files not verified yet"]);
}

/// To open the output's directory is not to hold it.
#[test]
fn who_may_read_an_output_cannot_lock_it() {
    let scene = Scene::new();
    scene.src.file("f", "f");
    scene.copy(&[]).assert_code(0);
    shell(
        &scene,
        "for lock in s x; do flock -$lock dst sh -c 'sleep 3 >/dev/null 2>&1 &'; done; true",
    );
    let run = scene.copy(&[]);
    run.assert_code(0);
    assert_eq!(shell(&scene, "stat -c %a dst/.dircopy").trim(), "700");
}

/// A killed run's leftovers that came with the source are data.
#[test]
fn a_beginning_that_came_from_the_source_is_not_gone_on_with() {
    need!(Strace);
    let scene = Scene::new();
    scene.tree("victim").file("big", content(6_000_000));
    let args = ["--checkpoint", "2M", "--block-size", "64K", "--queue-size", "2"];
    let copy_victim = |to| scene.bare(["-v", "-i", "victim", "-o", to].iter().chain(&args));
    let strace = Strace::inject(&scene, Strace::WRITES, "signal=KILL:when=80");
    let run = strace.run(copy_victim("made"));
    assert_ne!(run.code, Some(0), "it was not killed");
    let plant = "mkdir evil; cp -a made/.*dircopy-part made/.*dircopy-journal evil; \
                 printf EVIL | dd of=$(ls evil/.*dircopy-part) bs=1 conv=notrunc status=none; \
                 sha256sum <$(ls evil/.*dircopy-part) >before";
    shell(&scene, plant);
    copy(&scene, "evil", "dst", &[]).assert_code(0);
    let run = copy_victim("dst").run();
    run.assert_code(0);
    assert!(!run.out().contains("resumed"), "{}", run.out());
    // And what was copied stays copied.
    shell(&scene, "cmp victim/big dst/big; sha256sum <$(ls dst/.*dircopy-part) | cmp - before");
}

/// To the overwrite policy a file that kept the time of its making looks newer than its source.
#[test]
fn a_time_that_could_not_be_set_is_set_by_the_next_run() {
    need!(Strace);
    let made = || {
        let scene = Scene::on_disk();
        for (name, size) in [("f", 3000), ("large", 3_000_000)] {
            scene.src.file(name, content(size)).mtime(name, 1_577_836_800, 5);
        }
        let strace = Strace::inject(&scene, "utimensat,futimesat,utimes", "error=EPERM");
        let run = strace.run(scene.command(["--queue-size", "2", "-v"]));
        strace.fired(&run);
        run.assert_code_in(&[0, 1]).assert_says("set the modification time of");
        scene
    };
    let scene = made();
    scene.copy(&["--overwrite-policy", "never"]).assert_code(1);
    shell(&scene, "ln dst/f elsewhere");
    let run = scene.copy(&[]);
    scene.judge(&run).complete();
    // The time of a file's other names, which may lie anywhere, is not the program's to set.
    assert_ne!(shell(&scene, "stat -c %Y elsewhere").trim(), "1577836800");
    let run = scene.copy(&["-v"]);
    assert_eq!(run.assert_code(0).err(), "");

    // What was edited since at either side stays, and what was damaged is copied anew.
    let scene = made();
    shell(&scene, "echo >>dst/f; printf X | dd of=src/large bs=1 conv=notrunc status=none");
    shell(&scene, "touch -d @1577836800.000000005 src/large");
    let run = scene.copy(&[]);
    run.assert_code(1).assert_says("f: it differs, and the output's is newer");
    run.assert_says("large: it differs, and the output's is newer");
    let scene = made();
    rot(&scene, "dst/large");
    let run = scene.copy(&[]);
    run.assert_says("large").assert_says("it is copied anew");
    scene.judge(&run).complete();
    // What was edited alike at both sides has a new digest, and that is said.
    let scene = made();
    rot(&scene, "src/large");
    shell(&scene, "touch -r dst/large t; cat src/large >dst/large; touch -r t dst/large");
    let run = scene.copy(&[]);
    run.assert_says("large").assert_says("so its new digest is listed");
    scene.judge(&run).complete();
}

/// Every row holds: the record stays as it is, but for the name of the manifest at its end, and is believed.
#[test]
fn a_run_that_changes_nothing_writes_no_new_record() {
    let scene = Scene::new();
    for i in 0..100 {
        scene.src.file(format!("{}/{i}", i % 7), content(2000 + i));
    }
    scene.copy(&[]).assert_code(0);
    let look =
        || shell(&scene, "stat -c %i dst/.dircopy/record; grep -v '^[.=]' dst/.dircopy/record");
    let before = look();
    for _ in 0..3 {
        let run = scene.copy(&[]);
        scene.judge(&run).complete();
        assert_eq!(look(), before);
        let named = shell(&scene, "sed -n 's/^[.] [^ ]* //p' dst/.dircopy/record");
        assert_eq!(named, shell(&scene, "cd dst; ls dircopy-*.sha256sum | tail -n1"));
    }
    // One more file: the rows of the others are taken over as they stand.
    scene.src.file("more", "more");
    let run = scene.copy(&[]);
    scene.judge(&run).complete();
    let rows = |text: &str| {
        let rows = text.lines().filter(|row| row.contains("  ") && !row.ends_with("  more"));
        let mut rows: Vec<String> = rows.map(str::to_owned).collect();
        rows.sort_unstable();
        rows
    };
    let after = look();
    assert_eq!(rows(&after), rows(&before));
    assert!(after.contains("  more\n") && after.lines().next() != before.lines().next());
    // The row of what is gone goes too.
    scene.src.remove("2/2");
    shell(&scene, "rm dst/2/2");
    let run = scene.copy(&[]);
    run.assert_says("no longer there");
    assert!(!look().contains("  2/2\n"), "what is gone is recorded no more");
    assert_eq!(
        shell(&scene, "ls dst/.dircopy"),
        "receipts\nreceipts.lock\nrecord\nsecret\nsource\ntime.0\n"
    );
}

/// An access list shows as what the group may, and of root's files the group is root's own.
#[test]
fn a_file_that_an_access_list_lets_another_user_write_to_is_read_again() {
    need!(Root, Attr);
    let scene = Scene::on_disk();
    scene.src.file("d/alone", "alone").file("d/shared", "shared").file("d/linked", "linked");
    scene.src.hard_link("d/more", "d/linked");
    shell(
        &scene,
        "chmod 755 . src src/d && chmod 660 src/d/* && mkdir -p dst/d && chmod -R 755 dst",
    );
    shell(&scene, "setfacl -m u:65534:rw src/d/shared src/d/linked");
    std::thread::sleep(std::time::Duration::from_millis(30));
    scene.copy(&["--hard-links"]).assert_code(0);
    let sure = |name: &str| {
        let row = format!("grep '  d/{name}$' dst/.dircopy/record | cut -c2");
        shell(&scene, &row).trim() == "="
    };
    assert_eq!(["alone", "shared", "linked", "more"].map(sure), [true, false, false, false]);
}

/// What cannot be read for a moment is not torn: a new secret would disown all that was made under it.
#[test]
fn a_secret_that_cannot_be_read_is_not_made_anew() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("a", "a");
    scene.copy(&[]).assert_code(0);
    let secret = || std::fs::read(scene.dst.join(".dircopy/secret")).unwrap();
    let before = secret();
    scene.src.file("b", "b");
    let strace = Strace::inject(&scene, Strace::READS, "error=EIO");
    let strace = strace.exactly_on(scene.dst.join(".dircopy/secret"));
    let run = strace.run(scene.command(NONE));
    strace.fired(&run);
    run.assert_no_crash();
    assert_eq!(secret(), before);
    scene.copy(&[]).assert_code(0);
    assert_eq!(secret(), before);
}

#[test]
fn a_number_of_receipts_that_cannot_be_read_is_not_begun_anew() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("a", "a");
    shell(&scene, "mkdir rep");
    let copy = || scene.copy(&["--report", "rep/"]);
    copy().assert_code(0);
    // Where the run is counted, and where its receipt is to get the number.
    for (when, says) in
        [("1+", "cannot write the private note of receipts"), ("7+", "cannot number the receipt ")]
    {
        let fault = format!("error=EIO:when={when}");
        let strace = Strace::inject(&scene, Strace::READS, &fault);
        let strace = strace.exactly_on(scene.dst.join(".dircopy/receipts"));
        let run = strace.run(scene.command(["--report", "rep/"]));
        strace.fired(&run);
        run.assert_no_crash();
        run.assert_code(0).assert_says(says);
        shell(&scene, "sleep 1.1");
    }
    copy().assert_code(0);
    let names = shell(&scene, "ls rep/*.json");
    let args = ["report", "--check"].into_iter().chain(names.lines()).chain(["--at", "dst"]);
    let run = scene.bare(args).run();
    assert_eq!(names.lines().count(), 4, "{names}");
    run.assert_prints(&["dst: receipts 1 to 2"]);
    assert!(!run.err().contains("made up"), "{}", run.err());
}

/// Who owns the directory above the output puts a closed one of his own in its place.
#[test]
fn an_output_of_somebody_who_is_kept_from_the_source_is_refused() {
    need!(Root);
    let scene = Scene::new();
    scene.src.file("note", "secret").file("d/note", "secret");
    shell(&scene, "chmod 700 src; mkdir up; chown 1001 up");
    scene.ended(&["src", "up/out"], 0);
    shell(&scene, "mv up/out up/x; mkdir -m 700 up/out; chown 1001 up/out");
    for more in [&["--mirror"][..], &["--dry-run"], &[]] {
        let run = scene.ended(&[&["src", "up/out"], more].concat(), 2);
        run.assert_says("it lets in others (it is of user 1001) whom the source keeps out");
        assert_eq!(shell(&scene, "find up/out -mindepth 1"), "");
    }
    // Nobody can have exchanged it where he may not write above.
    shell(&scene, "mkdir -m 700 own; chown 1001 own");
    scene.ended(&["src", "own"], 0);
    // A new directory in it is closed to him; and what he may read he may have.
    scene.ended(&["src", "up/out/in-it"], 0);
    assert_eq!(shell(&scene, "stat -c '%u %a' up/out/in-it"), "0 700\n");
    // One that everyone may enter he can have put there, or given its name to: of another output of ours.
    for other in ["chown 1001 up/out; chmod 755 up/out", "chown 0 up/out; chmod 755 up/out"] {
        shell(&scene, &format!("rm -rf up/out/in-it; {other}"));
        for args in [&["src", "up/out"][..], &["src/note", "up/out"]] {
            scene.ended(args, 2).assert_says("whom the source keeps out");
        }
        scene.ended(&["plan", "src", "up/out", "--plan", "plan"], 2);
    }
    shell(&scene, "chmod 755 src");
    scene.ended(&["src", "up/out"], 0);
}

/// Who owns the directory above the source gives a closed directory its name.
#[test]
fn a_closed_source_in_the_place_of_an_open_one_is_refused() {
    need!(Root);
    let scene = Scene::on_disk();
    shell(
        &scene,
        "mkdir -p up/s; echo public >up/s/a; mkdir -m 700 up/closed; echo secret >up/closed/a; chown 1001 up",
    );
    scene.ended(&["up/s", "out", "--overwrite-policy", "update"], 0);
    shell(&scene, "mv up/s up/x; mv up/closed up/s");
    let run = scene.ended(&["up/s", "out", "--overwrite-policy", "update"], 2);
    run.assert_says("it is another directory than at the last run to out");
    assert_eq!(shell(&scene, "cat out/a"), "public\n");
    // It is meant.
    shell(&scene, "chmod 700 out");
    scene.ended(&["up/s", "out", "--overwrite-policy", "update"], 0);
    shell(&scene, "chmod 755 out");
    let told = "it lets other users in whom the source keeps out";
    scene.ended(&["up/s", "out", "--overwrite-policy", "update"], 0).assert_says(told);
    shell(&scene, "chmod 755 up/s");
    let run = scene.ended(&["up/s", "out", "--overwrite-policy", "update"], 0);
    assert!(!run.err().contains(told), "{}", run.err());
}

/// Who may write two directories above the source gives the name of that between to a closed one.
#[test]
fn a_source_below_a_closed_directory_in_the_place_of_an_open_one_is_refused() {
    need!(Root);
    let exchange = "mv up/s up/x; mv up/bob up/s";
    let new = || {
        let scene = Scene::on_disk();
        let bob = "mkdir -m 700 up/bob; mkdir up/bob/sub; echo secret >up/bob/sub/a; chown -R 1002 up/bob";
        shell(&scene, &format!("mkdir -p up/s/sub; echo public >up/s/sub/a; {bob}; chown 1001 up"));
        scene
    };
    let update = ["--overwrite-policy", "update"];
    for (source, more) in [
        ("up/s/sub", &update[..]),
        ("up/s/sub", &["--mirror", "--overwrite-policy", "update"]),
        ("up/s/sub", &["--generations"]),
        ("up/s/sub/a", &update),
    ] {
        let scene = new();
        shell(&scene, "mkdir out other");
        scene.ended(&[&[source, "out"], more].concat(), 0);
        // The same again is nothing new.
        scene.ended(&[&[source, "out"], more].concat(), 0);
        shell(&scene, exchange);
        let outputs =
            if more.contains(&"--generations") { &["out"][..] } else { &["out", "other"] };
        for outputs in [&["out"][..], outputs] {
            let run = scene.ended(&[&[source], outputs, more].concat(), 2);
            run.assert_says("is another directory than at the last run to out");
        }
        assert_eq!(shell(&scene, "grep -rl secret out other || true"), "");
        // It is meant.
        shell(&scene, "chmod 700 out");
        scene.ended(&[&[source, "out"], more].concat(), 0);
    }
    // An output to which nobody may come who may not come to the source.
    let scene = new();
    shell(&scene, "mkdir -m 700 own");
    scene.ended(&["up/s/sub", "own/out"], 0);
    shell(&scene, exchange);
    scene.ended(&["up/s/sub", "own/out", "--overwrite-policy", "update"], 0);
    assert_eq!(shell(&scene, "cat own/out/a"), "secret\n");
    // Its owner puts another one there, and who may come to it is as before.
    let scene = new();
    shell(&scene, "chown -R 1002 up; chmod 700 up");
    scene.ended(&["up/s/sub", "out"], 0);
    shell(&scene, "cp -a up/s up/t; mv up/s up/x; mv up/t up/s; echo more >up/s/sub/b");
    scene.ended(&["up/s/sub", "out"], 0);
    // Where nobody else may write above, one directory may take the place of another.
    let scene = new();
    shell(&scene, "chown 0 up");
    scene.ended(&["up/s/sub", "out"], 0);
    shell(&scene, exchange);
    scene.ended(&["up/s/sub", "out", "--overwrite-policy", "update"], 0);
}

/// Of what is brought back nothing is known from before.
#[test]
fn a_closed_tree_in_the_place_of_an_open_one_is_not_brought_back_for_all() {
    need!(Root);
    let scene = Scene::on_disk();
    shell(
        &scene,
        "mkdir up s; echo public >s/a; mkdir -m 700 bob; echo secret >bob/b; chown 1002 bob; chown 1001 up",
    );
    for (from, to) in [("s", "up/s"), ("bob", "up/bob"), ("bob", "kept")] {
        scene.ended(&[from, to], 0);
    }
    scene.ended(&["restore", "up/s", "out"], 0);
    shell(&scene, "mv up/s up/x; mv up/bob up/s");
    for more in [&["--dry-run"][..], &[]] {
        let run = scene.ended(&[&["restore", "up/s", "out"], more].concat(), 2);
        run.assert_says(
            "others may write above it, who can have given its name to it, and out lets in others",
        );
    }
    assert_eq!(shell(&scene, "ls out"), "a\n");
    scene.ended(&["restore", "up/s", "new"], 0);
    assert_eq!(shell(&scene, "stat -c %a new; ls new"), "700\nb\n");
    // Nobody can have exchanged this one.
    scene.ended(&["restore", "kept", "out"], 0);
}

/// Who may write two directories above the output gives the name of the closed one between to an open one.
#[test]
fn an_output_below_an_open_directory_in_the_place_of_a_closed_one_is_refused() {
    need!(Root);
    let scene = Scene::on_disk();
    shell(
        &scene,
        "mkdir -p up/pub/out; mkdir -m 700 up/own closed; mkdir up/own/out closed/s; echo secret >closed/s/a; chown 1001 up",
    );
    scene.ended(&["closed/s", "up/own/out"], 0);
    shell(&scene, "mv up/own up/x; mv up/pub up/own");
    for args in [["closed/s", "up/own/out"], ["closed/s/a", "up/own/out"]] {
        let run = scene.ended(&args, 2);
        run.assert_says("whom the source keeps out, or a directory above that");
    }
    assert_eq!(shell(&scene, "find up/own/out -mindepth 1"), "");
    // It is meant; and one that this user's runs were at goes on as it is.
    shell(&scene, "chmod 700 up/own/out");
    scene.ended(&["closed/s", "up/own/out"], 0);
    shell(&scene, "chmod 755 up/own/out");
    scene.ended(&["closed/s", "up/own/out"], 0);
    scene.ended(&["closed/s", "up/new"], 0);
    scene.ended(&["closed/s", "up/new"], 0);
    // Who may come to what is a user's own is for that user to say.
    shell(&scene, "chown 1003 closed/s; mkdir -p home/docs; chown -R 1003 home");
    scene.ended(&["closed/s", "home/docs"], 0);
}

/// Who may write to the directory that two outputs are in exchanges them.
#[test]
fn an_output_of_another_source_is_not_replaced_where_others_can_have_exchanged_it() {
    need!(Root);
    let gone = ["--mirror", "--max-delete", "100%"];
    for more in [
        &gone[..],
        &["--generations", "--keep", "last=1", "--max-delete", "100%"],
        &["--overwrite-policy", "update"],
        &["--overwrite-policy", "always"],
    ] {
        let scene = Scene::on_disk();
        shell(&scene, "mkdir sx sy up; echo x >sx/x; echo y >sy/y; chown 1001 up");
        let run = |source, output, code| scene.ended(&[&[source, output], more].concat(), code);
        run("sx", "up/ox", 0);
        run("sy", "up/oy", 0);
        shell(&scene, "mv up/ox up/o; mv up/oy up/ox; mv up/o up/oy");
        let files = "find up/ox -type f -not -path '*/.dircopy/*' | xargs sha256sum";
        let before = shell(&scene, files);
        let refused = run("sx", "up/ox", 2);
        refused.assert_says(&format!(
            "a run of yours copied another source there ({})",
            scene.path("sy").display()
        ));
        refused.assert_says("the output of sx: what it has would give way");
        assert_eq!(shell(&scene, files), before);
        // A source that was moved is the same one, and so is one that was made anew in its place.
        shell(&scene, "mv sy sz");
        run("sz", "up/ox", 0);
        shell(&scene, "cp -a sz s; rm -r sz; mv s sz; mv sx sw");
        run("sz", "up/ox", 0);
        // It is meant.
        run("sw", "up/ox", 2);
        shell(&scene, "find up/ox -path '*/.dircopy/source' -delete");
        run("sw", "up/ox", 0);
        // Nobody can have exchanged it.
        shell(&scene, "chown 0 up; cp -a sw sv");
        run("sv", "up/ox", 0);
    }
}

/// Who may write to the directory that links of ours are in exchanges these, and leads the next run elsewhere.
#[test]
fn a_link_that_others_may_have_exchanged_leads_to_no_other_place() {
    need!(Root);
    let new = |made: &str| {
        let scene = Scene::on_disk();
        let links = "mkdir -m 777 top; ln -s ../data/one top/one; ln -s ../data/two top/two";
        shell(&scene, &format!("umask 022; mkdir data data/one data/two; {links}; {made}"));
        scene
    };
    let exchange = |scene: &Scene| shell(scene, "cd top; mv -T one x; mv -T two one; mv -T x two");
    let closed = "echo p >data/one/a; chmod 700 data/two; echo SECRET >data/two/a";
    // The source, a directory or a file, and an archive.
    for source in ["top/one", "top/one/sub", "top/one/a"] {
        let scene = new(&format!(
            "{closed}; for i in one two; do mkdir data/$i/sub; cp data/$i/a data/$i/sub; done"
        ));
        let run = |code| scene.ended(&[source, "out", "--overwrite-policy", "update"], code);
        run(0);
        run(0);
        exchange(&scene);
        run(2).assert_says("another directory than at the last run to out");
        assert_eq!(shell(&scene, "grep -rl SECRET out || true"), "");
        // Nobody else may exchange root's links in a directory like /tmp.
        shell(&scene, "chmod 1777 top");
        run(0);
    }
    let scene = new("mkdir p; echo p >p/a; mkdir -m 700 s; echo SECRET >s/a");
    scene.ended(&["p", "data/one"], 0);
    scene.ended(&["s", "data/two"], 0);
    scene.ended(&["restore", "top/one", "out"], 0);
    exchange(&scene);
    shell(&scene, "chmod 700 data/one data/two");
    scene
        .ended(&["restore", "top/one", "out"], 2)
        .assert_says("others may write above it, who can have given its name to it");
    // The output: an open one, and one of another source.
    let scene = new(
        "mkdir -m 700 closed data/one/sub; mkdir closed/s data/two/sub; chmod 700 data/one; echo 1 >closed/s/a",
    );
    scene.ended(&["closed/s", "top/one/sub"], 0);
    exchange(&scene);
    scene.ended(&["closed/s", "top/one/sub"], 2).assert_says("a directory above that");
    for more in [
        &["--mirror", "--max-delete", "100%"][..],
        &["--generations", "--max-delete", "100%"],
        &["--overwrite-policy", "update"],
    ] {
        let scene = new("mkdir sx sy; echo x >sx/x; echo y >sy/y");
        let run = |source, output, code| scene.ended(&[&[source, output], more].concat(), code);
        run("sx", "top/one", 0);
        run("sy", "top/two", 0);
        exchange(&scene);
        run("sx", "top/one", 2).assert_says("a run of yours copied another source there");
    }
    // A tree that is healed.
    let scene = new("mkdir -m 700 data/src; echo SECRET >data/src/a; chmod 700 data/one");
    for to in ["data/one/t", "data/good", "data/two/t"] {
        scene.ended(&["data/src", to], 0);
    }
    shell(&scene, "chmod 755 data/two/t; chmod 700 data/good; rm data/two/t/a");
    exchange(&scene);
    scene.bare(["heal", "top/one/t", "data/good"]).run().assert_code(4);
    assert!(!scene.path("data/two/t/a").exists());
    // A plan, and the results of a check.
    let scene = new("chmod 755 src");
    for (at, plan, end) in [("one", "top/one/plan", 0), ("two", "top/two/plan", 2)] {
        shell(&scene, &format!("sleep 1.1; echo 1 >src/{at}"));
        scene.bare(["plan", "src", "out", "--plan", plan]).run().assert_code(0);
        if at == "two" {
            exchange(&scene);
        }
        scene.bare(["shard", "--plan", plan, "--claim"]).run().assert_code(0);
        scene.bare(["finish", "--plan", plan]).run().assert_code(end);
    }
    let scene = new("chmod 700 data/*; echo 1 >src/a");
    scene.ended(&["src", "out"], 0);
    for results in ["top/one", "top/two"] {
        scene.bare(["verify", "out", "--shard", "0/1", "--results", results]).run();
        shell(&scene, "printf X >out/a");
    }
    exchange(&scene);
    let run = scene.bare(["verify", "out", "--merge", "top/two"]).run();
    run.assert_code(2).assert_says("it was made as one, and others may write above it");
}

/// Snapshots have another name each night: the link that leads to the newest one is known where its user alone leads it.
#[test]
fn a_source_that_a_link_of_ours_leads_to_is_the_same_one() {
    need!(Root);
    let scene = Scene::on_disk();
    shell(
        &scene,
        "mkdir -m 777 nas; mkdir -p snap/mon snap/tue; chmod 700 snap; echo a | tee snap/mon/a >snap/tue/a; ln -s mon snap/cur",
    );
    for more in [&["--mirror"][..], &["--generations"], &["--overwrite-policy", "update"]] {
        let to = format!("nas/o{}", more.concat());
        let run = |source, code| scene.ended(&[&[source, to.as_str()], more].concat(), code);
        shell(&scene, "ln -sfn mon snap/cur");
        run("snap/cur", 0);
        shell(&scene, "ln -sfn tue snap/cur");
        run("snap/cur", 0);
        run("snap/mon", 2).assert_says("snapshots are known by the name of a link");
        // Where others may lead it, it says nothing.
        shell(&scene, "chmod 777 snap; ln -sfn mon snap/cur");
        run("snap/cur", 2);
        shell(&scene, "chmod 700 snap");
        run("snap/cur", 0);
    }
}

/// Who may write above two archives exchanges them, and what is brought back takes the place of what is there.
#[test]
fn an_archive_of_another_directory_does_not_replace_what_is_there() {
    need!(Root);
    for more in [&["--overwrite-policy", "update"][..], &["--overwrite-policy", "always"]] {
        let scene = Scene::on_disk();
        shell(&scene, "mkdir -m 777 top; mkdir sx sy new; echo Y >sy/db; echo x1 >sx/db");
        scene.ended(&["sx", "top/ox"], 0);
        scene.ended(&["sy", "top/oy"], 0);
        shell(&scene, "echo newest >sx/db; touch -d 2020-01-01 sx/db");
        shell(&scene, "cd top; mv ox o; mv oy ox; mv o oy");
        let run = |from, to, code| scene.ended(&[&["restore", from, to], more].concat(), code);
        run("top/ox", "sx", 2).assert_says("for the archive of sx: what that has would give way");
        assert_eq!(shell(&scene, "cat sx/db"), "newest\n");
        // Into what is new or empty it goes, also if a run of it was killed, and where nothing gives way.
        run("top/ox", "new", 0);
        run("top/ox", "new", 2);
        scene.ended(&["restore", "top/ox", "new"], 0);
        run("top/ox", "back", 0);
        run("top/oy", "sx", 0);
        assert_eq!(shell(&scene, "cat sx/db"), "x1\n");
        run("top/ox", "sx", 2);
        shell(&scene, "chmod 755 top; touch -d 2020-01-01 sx/db");
        run("top/ox", "sx", 0);
    }
}
