//! Disks of a span that take turns in one drive: what is asked at a terminal, what is no disk of the span though it is at
//! the place of one, and the way back where the memory of a span is lost.

use std::path::Path;

use super::span_series::Shelf;
use crate::harness::{Cmd, Mount, content, need, shell};

/// The shelf, with files that two of its disks of 8 MB hold.
fn shelf(disks: usize) -> Shelf {
    let shelf = Shelf::new(disks, 8);
    (0..16).for_each(|file| _ = shelf.scene.src.file(format!("{file:02}"), content(600_000)));
    shelf
}

impl Shelf {
    /// The disk of this name at another place than the drive.
    fn beside(&self, name: char, at: &str) -> Mount {
        let image = self.scene.path(&format!("{name}.img"));
        let mount = Mount::device(&image, &self.scene.path(at), "loop").unwrap();
        let _ = std::fs::remove_dir(self.scene.path(at).join("lost+found"));
        mount
    }

    /// Runs `command` at a terminal beside `meanwhile`, and at the second question for the disk B does what `end` says.
    /// The exit code, and what is told. What an earlier one was told is not to be taken for an answer.
    fn at_a_terminal(&self, command: &str, meanwhile: &str, end: &str) -> String {
        let program = std::env::var_os("DIRCOPY_BIN");
        let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_dircopy").into());
        let line = format!(
            "set +e; export XDG_DATA_HOME=$PWD/data; rm -f out; mkfifo in; script -qefc '{} {command}' out <in >/dev/null & exec 3>in; \
             {meanwhile} asked() {{ for i in $(seq 600); do test $(grep -c 'please: LABEL=sB' out) -ge $1 && return; grep -q 'Script done' out && break; sleep .05; done; cat out >&2; kill %1; exit 1; }}; \
             asked 1; echo >&3; asked 2; {end}; wait %1; echo $?; rm in; cat out",
            Path::new(&program).display()
        );
        shell(&self.scene, &line)
    }

    fn bare<'a>(&'a self, args: &[&str]) -> Cmd<'a> {
        let data = format!("XDG_DATA_HOME={}", self.scene.path("data").display());
        self.scene.bare(args).under(["env", &data])
    }
}

const COPY: &str = "src --span LABEL=sA LABEL=sB";

/// At a terminal the next disk is asked for, and the run goes on when it is there.
#[test]
fn at_a_terminal_it_is_asked_for() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = shelf(2);
    shelf.put('A');
    let told = shelf.at_a_terminal(COPY, "", "echo q >&3");
    assert!(
        told.starts_with("7\n") && told.contains("Enter when it is there, q to stop"),
        "{told}"
    );
    assert!(told.contains("no disk is here that was not before; LABEL=sB is wanted"), "{told}");
    let told = shelf.at_a_terminal(COPY, "", "umount m; mount -o loop B.img m; echo >&3");
    assert!(told.starts_with("0\n") && told.contains("done: "), "{told}");
    let index = shelf.index();
    assert!(index.contains("  1/00\n") && index.contains("  2/15\n"), "{index}");
}

/// Which command checks the disks is said by their names: at the place of the first one is another by then.
#[test]
fn the_command_that_checks_names_the_disks() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = shelf(2);
    shelf.put('A');
    let told = shelf.at_a_terminal(COPY, "", "umount m; mount -o loop B.img m; echo >&3");
    assert!(told.contains("dircopy verify --span LABEL=sA LABEL=sB"), "{told}");
}

/// A check asks in the same way, and each disk is checked when it comes.
#[test]
fn a_check_asks_for_the_next_disk() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = shelf(2);
    for (name, code) in [('A', 7), ('B', 0), ('A', 0)] {
        shelf.put(name);
        shelf.run(&[]).assert_code(code);
    }
    let verify = "verify --span LABEL=sA LABEL=sB";
    let told = shelf.at_a_terminal(verify, "", "echo q >&3");
    assert!(told.starts_with("7\n") && told.contains("not here: LABEL=sB"), "{told}");
    let swap = "umount m; mount -o loop B.img m; echo >&3";
    let told = shelf.at_a_terminal(verify, "", swap);
    assert!(told.starts_with("0\n") && told.contains("16 files as listed"), "{told}");
    // Of the first disk it is not said then that it is not here.
    assert!(!told.contains("check disk 1, "), "{told}");
    // What is bad there counts.
    shelf.put('B');
    shell(&shelf.scene, "printf rot | dd of=m/15 bs=1 seek=9 conv=notrunc status=none");
    shelf.put('A');
    let told = shelf.at_a_terminal(verify, "", swap);
    assert!(told.starts_with("4\n") && told.contains("m/15"), "{told}");
}

/// What a disk that was taken out keeps from being copied is a failure, though that disk was complete in its own round.
#[test]
fn what_fails_because_a_disk_was_taken_out_counts_at_a_terminal_too() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = shelf(2);
    shelf.put('A');
    let end = "umount m; mount -o loop B.img m; echo other >src/00; echo >&3";
    let told = shelf.at_a_terminal(COPY, "", end);
    assert!(told.contains("cannot copy ") && told.contains("that is on disk 1"), "{told}");
    assert!(told.starts_with("1\n") && told.contains("(exit 1): LABEL=sA: 1 entry"), "{told}");
}

/// What failed at a disk in its own round, and not when it was looked at once more, is no failure of the run.
#[test]
fn what_a_later_round_found_in_order_is_no_failure() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = shelf(2);
    // It stays in, …
    shelf.put('A');
    shell(&shelf.scene, "mkdir m/03 d2");
    let end = "rmdir m/03; rm src/03; mount -o loop B.img d2; echo >&3";
    let told = shelf.at_a_terminal(COPY, "", end);
    let umounted = shell(&shelf.scene, "umount d2");
    assert!(umounted.is_empty() && told.contains("a directory is in its place"), "{told}");
    assert!(told.starts_with("0\n") && told.contains("done: "), "{told}");
}

/// … or the next one took what it had no room for.
#[test]
fn a_disk_that_was_full_is_none_where_the_next_one_took_the_rest() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = shelf(2);
    shelf.put('A');
    let copy = format!("{COPY} --limit-rate 2M -j1");
    let used = "df --output=used -k m | tail -1";
    let fill = format!(
        "(until test $({used}) -gt 1500; do sleep .02; done; head -c 2060000 /dev/zero >m/others) & "
    );
    let end = "umount m; mount -o loop B.img m; echo >&3";
    let told = shelf.at_a_terminal(&copy, &fill, end);
    assert!(told.contains("o space left"), "{told}");
    assert!(told.starts_with("0\n") && !told.contains("is full"), "{told}");
    let index = shelf.index();
    assert_eq!(index.lines().filter(|line| !line.starts_with('#')).count(), 16, "{index}");
}

/// Nothing is written to what is at the place of a disk that was taken out while another one was copied to.
#[test]
fn what_is_mounted_meanwhile_is_no_disk_of_the_span() {
    need!(Mount, Loop);
    Mount::privately();
    for names in [["LABEL=sA", "LABEL=sB"], ["m", "d2"]] {
        let mut shelf = shelf(2);
        shelf.put('A');
        let other = shelf.beside('B', "d2");
        let args = [&["src", "--span"], &names[..], &["--limit-rate", "6M"]].concat();
        let mut running = shelf.bare(&args).spawn();
        let has_any = || shell(&shelf.scene, "ls -A m").contains("dircopy-");
        running.until("it copies to the first", has_any);
        other.detach();
        let memory = Mount::tmpfs(&shelf.scene.path("d2"), "16m");
        let run = running.wait();
        assert_eq!(shell(&shelf.scene, "ls -A d2"), "", "{}", run.err());
        run.assert_code(1).assert_says("it was unmounted, moved or replaced meanwhile");
        drop(memory);
        let _other = shelf.beside('B', "d2");
        shelf.bare(&args).run().assert_code(0);
    }
}

/// Two disks that were in when a run was killed come to their ends one by one: nothing new goes to the first before it is
/// known what the other one has.
#[test]
fn two_disks_that_were_begun_take_turns_in_one_drive() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = shelf(2);
    shelf.put('A');
    let other = shelf.beside('B', "d2");
    let mut running =
        shelf.bare(&["src", "--span", "LABEL=sA", "LABEL=sB", "--limit-rate", "6M"]).spawn();
    running.until("some are there", || shell(&shelf.scene, "ls m").lines().count() > 4);
    running.signal(rustix::process::Signal::KILL);
    running.wait();
    // What the run would have come to on the second one.
    shell(&shelf.scene, "cp -p src/12 src/13 src/14 d2");
    other.detach();
    shelf.put('A');
    let had = shelf.has();
    let run = shelf.run(&[]);
    run.assert_code(7).assert_prints(&["LABEL=sB (a copy to it did not come to its end)"]);
    assert_eq!(shelf.has(), had);
    let index = shelf.index();
    assert!(index.contains("# on no disk yet when this was written: "), "{index}");
    shell(&shelf.scene, "rm src/14");
    let mut codes = Vec::new();
    for name in ['B', 'A', 'B'] {
        shelf.put(name);
        let run = shelf.run(&[]);
        assert!(!run.out().contains("did not come to its end"), "{}", run.out());
        assert!(!run.err().contains("gone from the source"), "{}", run.err());
        codes.push(run.code);
    }
    assert_eq!(codes.last(), Some(&Some(0)), "{codes:?}");
    let index = shelf.index();
    assert_eq!(index.lines().filter(|line| !line.starts_with('#')).count(), 15, "{index}");
    assert!(index.contains("  2/12\n") && index.contains("  2/13\n"), "{index}");
}

/// A disk that has no room for what changed on it is not wanted for that while another one is in: the two would be wanted
/// in turn for ever.
#[test]
fn full_disks_are_not_wanted_in_turn() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = Shelf::new(2, 8);
    let write = |shelf: &Shelf, more: usize| {
        (0..4)
            .for_each(|file| _ = shelf.scene.src.file(file.to_string(), content(3_000_000 + more)));
    };
    let update = ["--overwrite-policy", "update"];
    write(&shelf, 0);
    for (name, code) in [('A', 7), ('B', 0)] {
        shelf.put(name);
        shelf.run(&update).assert_code(code);
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    write(&shelf, 1);
    for name in ['A', 'B', 'A'] {
        shelf.put(name);
        let run = shelf.run(&update);
        run.assert_code(1).assert_says("the disk that has it has no room for it: make room there");
        run.assert_says("which has no room for it beside the old one");
    }
    shell(&shelf.scene, "rm m/0 m/1");
    shelf.run(&update).assert_code(1);
    assert_eq!(shell(&shelf.scene, "cmp src/0 m/0; cmp src/1 m/1"), "");
}

/// A disk that had no room for what waits is not wanted for it, whatever of its room was not needed in the end.
#[test]
fn a_disk_that_was_full_is_not_wanted_before_a_new_one() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = Shelf::new(3, 8);
    (0..550_usize).for_each(|file| _ = shelf.scene.src.file(format!("{file:03}"), content(30_000)));
    for (name, next) in [('A', "LABEL=sB"), ('C', "LABEL=sB")] {
        shelf.put(name);
        shelf.run(&[]).assert_code(7).assert_prints(&[&format!("next disk, please: {next}")]);
    }
    shelf.put('B');
    shelf.run(&[]).assert_code(0);
}

/// A file that was edited with its size and time kept is not taken for the one on a disk that is not here.
#[test]
fn an_edit_that_keeps_the_time_wants_its_disk() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = shelf(2);
    // Another one that fails there is no reason to doubt what did not.
    let at = shelf.put('A');
    shell(&shelf.scene, "mkdir m/03");
    shelf.run(&[]).assert_code(7);
    shelf.put('B');
    let run = shelf.run(&[]);
    run.assert_code(1).assert_says("a directory is in its place");
    assert!(!run.err().contains("may have been edited"), "{}", run.err());
    shelf.put('A');
    std::fs::remove_dir(at.join("03")).unwrap();
    // Its room has another one by now.
    shelf.run(&[]).assert_code(7).assert_prints(&["LABEL=sB (1 file (1 MiB) wait for it)"]);
    shelf.put('B');
    shelf.run(&[]).assert_code(0);
    let edit = "cp -p src/00 keep; printf EDIT | dd of=src/00 bs=1 seek=9 conv=notrunc status=none; touch -r keep src/00";
    shell(&shelf.scene, edit);
    for more in [&[][..], &["--overwrite-policy", "update"]] {
        let run = shelf.run(more);
        run.assert_code(7).assert_prints(&["LABEL=sA (1 file on it may have been edited)"]);
        run.assert_says("it was touched since, and may have been edited: connect that");
    }
    // There is no room for it; that is told, and is no reason to want the disk once more.
    shelf.put('A');
    shelf
        .run(&[])
        .assert_code(1)
        .assert_says("its content differs although size and time are the same");
    shelf.put('B');
    let run = shelf.run(&[]);
    run.assert_code(1).assert_says("was here last: do what was said then, and connect that");
    shelf.put('A');
    shell(&shelf.scene, "rm src/05 m/05");
    shelf.run(&[]).assert_code(0);
    assert_eq!(shell(&shelf.scene, "cmp src/00 m/00"), "");
    shelf.put('B');
    shelf.run(&[]).assert_code(0);
}

/// What a run leaves out, or does not find, stays where it is on a disk that is not here: its edit goes there.
#[test]
fn what_a_run_did_not_meet_is_remembered() {
    need!(Mount, Loop);
    Mount::privately();
    for (what, more) in [("true", &["--exclude=/00"][..]), ("mv src/00 kept", &[])] {
        let mut shelf = shelf(2);
        shelf.put('A');
        shelf.run(&[]).assert_code(7);
        shelf.put('B');
        shelf.run(&[]).assert_code(0);
        // So that there is room for another version.
        shelf.put('A');
        shell(&shelf.scene, "rm src/05 m/05");
        shelf.run(&[]).assert_code(0);
        shelf.put('B');
        shell(&shelf.scene, what);
        shelf.run(more).assert_code(0);
        shell(
            &shelf.scene,
            "test -e src/00 || mv kept src/00; printf EDIT | dd of=src/00 conv=notrunc status=none",
        );
        let update = ["--overwrite-policy", "update"];
        shelf.run(&update).assert_code(7).assert_prints(&["LABEL=sA (1 file"]);
        assert!(!shelf.has().contains(&"00".to_owned()), "{what}");
        shelf.put('A');
        shelf.run(&update).assert_code(0);
        assert_eq!(shell(&shelf.scene, "cmp src/00 m/00"), "");
    }
}

/// Where HOME is another user's, that user says where it leads.
#[test]
fn a_memory_that_another_user_may_exchange_is_refused() {
    need!(Root, Mount, Loop);
    Mount::privately();
    let mut shelf = shelf(2);
    shelf.put('A');
    shell(
        &shelf.scene,
        "mkdir closed; mkdir -p data/dircopy; ln -s ../../closed data/dircopy/spans; chown -hR nobody data",
    );
    shelf.run(&[]).assert_code(2).assert_says("is a symbolic link of another user");
    assert_eq!(shell(&shelf.scene, "ls -A closed; ls m"), "");
    shell(
        &shelf.scene,
        "rm data/dircopy/spans; mkdir data/dircopy/spans; chown nobody data/dircopy/spans",
    );
    shelf.run(&[]).assert_code(2).assert_says("another user may change");
    shell(&shelf.scene, "chown -R root data");
    shelf.run(&[]).assert_code(7);
    // Also one that is there.
    shell(&shelf.scene, "chown nobody data/dircopy");
    shelf.run(&[]).assert_code(2).assert_says("another user may change");
}

/// One index has digests of one kind; those of a disk that is not here cannot be made anew.
#[test]
fn other_digests_than_at_a_disk_that_is_not_here_are_refused_before_anything_is_copied() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = shelf(2);
    shelf.put('A');
    shelf.run(&["--hash", "sha512"]).assert_code(7);
    shelf.put('B');
    shelf
        .run(&[])
        .assert_code(2)
        .assert_says("are by SHA-512: give --hash sha512, or connect all disks");
    assert!(shelf.has().is_empty());
    shelf.run(&["--hash", "sha512"]).assert_code(0);
}

/// A run that has nothing to copy ends as it does where the disks are given by their places.
#[test]
fn a_run_of_nothing_leaves_what_is_remembered() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = shelf(2);
    shelf.put('A');
    shelf.run(&[]).assert_code(7);
    shelf.put('B');
    shelf.run(&[]).assert_code(0);
    shelf.run(&["--exclude", "*", "--allow-empty"]).assert_code(0);
    shell(&shelf.scene, "mv src kept; mkdir src");
    shelf.run(&["--allow-empty"]).assert_code(0);
    shell(&shelf.scene, "rmdir src; mv kept src");
    shelf.run(&[]).assert_code(0);
}

/// Files that cannot be replaced on either of two disks do not have these wanted in turn for ever, and are tried again
/// when their disk is in.
#[test]
fn what_cannot_be_replaced_is_not_wanted_in_turn() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = shelf(2);
    for (name, code) in [('A', 7), ('B', 0)] {
        shelf.put(name);
        shelf.run(&[]).assert_code(code);
    }
    let update = ["--overwrite-policy", "update"];
    let failed = "and could not be replaced when that was here last: do what was said then";
    shell(&shelf.scene, "chattr +i m/15");
    std::thread::sleep(std::time::Duration::from_millis(20));
    shelf.scene.src.file("00", "changed").file("15", "changed");
    shelf.put('A');
    shell(&shelf.scene, "chattr +i m/00");
    // The other one was not tried yet.
    let run = shelf.run(&update);
    run.assert_code(7).assert_prints(&["LABEL=sB (1 file on it changed)"]);
    for name in ['B', 'A', 'B'] {
        shelf.put(name);
        let run = shelf.run(&update);
        run.assert_code(1).assert_says("cannot publish ").assert_says(failed);
    }
    // With another change it is another matter.
    std::thread::sleep(std::time::Duration::from_millis(20));
    shelf.scene.src.file("00", "changed once more");
    shelf.run(&update).assert_code(7).assert_prints(&["LABEL=sA (1 file on it changed)"]);
    for (name, file, code) in [('A', "00", 1), ('B', "15", 0)] {
        shelf.put(name);
        shell(&shelf.scene, &format!("chattr -i m/{file}"));
        shelf.run(&update).assert_code(code);
        assert_eq!(shell(&shelf.scene, &format!("cmp src/{file} m/{file}")), "");
    }
}

/// A link that its disk keeps as it is has that wanted only where it would be replaced.
#[test]
fn a_link_that_stays_does_not_have_its_disk_wanted() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = shelf(2);
    shelf.scene.src.symlink("00link", "x");
    for (name, code) in [('A', 7), ('B', 0)] {
        shelf.put(name);
        shelf.run(&[]).assert_code(code);
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
    shell(&shelf.scene, "ln -sfn other src/00link");
    let run = shelf.run(&[]);
    run.assert_code(1)
        .assert_says("something else is in its place")
        .assert_says("that is on disk 1");
    let update = ["--overwrite-policy", "update"];
    shelf.run(&update).assert_code(7).assert_prints(&["LABEL=sA (1 file on it changed)"]);
    shelf.put('A');
    shelf.run(&update).assert_code(0);
    assert_eq!(shell(&shelf.scene, "readlink m/00link"), "other\n");
}

/// A disk that has nothing of the span is good, in whatever drive it is or is not, and the commands that are told check
/// all there is.
#[test]
fn a_disk_that_got_nothing_is_good() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = Shelf::new(2, 8);
    shelf.scene.src.file("a", content(6_000));
    shelf.put('A');
    let run = shelf.run(&[]);
    run.assert_code(0).assert_prints(&["to check    dircopy verify --span LABEL=sA LABEL=sB"]);
    let verify =
        |shelf: &Shelf, disks: &[&str]| shelf.bare(&[&["verify", "--span"], disks].concat()).run();
    let run = verify(&shelf, &["LABEL=sA", "LABEL=sB"]);
    run.assert_code(0).assert_says("LABEL=sB: it is not here: the index has 0 files on it");
    // No run was there.
    shelf.put('B');
    let yet = "m/: no file was copied to it yet, and the index has none on it";
    verify(&shelf, &["LABEL=sB"]).assert_code(0).assert_says(yet);
    verify(&shelf, &["LABEL=sA", "LABEL=sB"]).assert_code(7).assert_prints(&["not here: LABEL=sA"]);
    let other = shelf.beside('A', "d2");
    verify(&shelf, &["LABEL=sA", "LABEL=sB"]).assert_code(0).assert_says(yet);
    drop(other);
    // Where nothing is remembered, nothing says that it is of a span; …
    shell(&shelf.scene, "mv data lost");
    verify(&shelf, &["LABEL=sB"]).assert_code(2);
    shell(&shelf.scene, "mv lost data");
    shelf.run(&[]).assert_code(0);
    verify(&shelf, &["LABEL=sB"]).assert_code(0).assert_says(yet);
    // … and what has lost its record is none that got nothing.
    shelf.scene.src.file("b", content(6_000));
    shelf.run(&[]).assert_code(0);
    shell(&shelf.scene, "rm -r m/.dircopy");
    verify(&shelf, &["LABEL=sB"]).assert_code(2);
    let _other = shelf.beside('A', "d2");
    verify(&shelf, &["LABEL=sA", "LABEL=sB"]).assert_code(5);
}

/// A disk that was in no drive is none of the outputs of which it is said how many are complete.
#[test]
fn a_disk_that_was_never_in_is_not_counted() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = Shelf::new(3, 8);
    shelf.scene.src.file("a", content(6_000)).file("b", content(6_000));
    shelf.put('A');
    shell(&shelf.scene, "mkdir m/b");
    let run = shelf.run(&[]);
    run.assert_code(1).assert_prints(&["0 OF 1 OUTPUTS COMPLETE (exit 1): LABEL=sA: 1 entry is"]);
    // One that keeps something back is amiss.
    shell(&shelf.scene, "rmdir m/b");
    shelf.run(&[]).assert_code(0);
    shelf.scene.src.file("a", content(7_000)).mtime("a", 1_000_000_000, 0);
    shelf.put('B');
    let run = shelf.run(&[]);
    run.assert_code(1).assert_prints(&["1 OF 2 OUTPUTS COMPLETE (exit 1): LABEL=sA: 1 entry is"]);
}

/// Where all is on another disk, it is not said that the source has none.
#[test]
fn a_disk_that_gets_nothing_is_told() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = Shelf::new(2, 8);
    shelf.scene.src.file("a", content(6_000));
    shelf.put('A');
    shelf.run(&[]).assert_code(0);
    shelf.put('B');
    let run = shelf.run(&[]);
    run.assert_code(0)
        .assert_prints(&["done: nothing of the source is for the disks that are here"]);
}

/// A disk that is mounted over another is found, and the other is not here.
#[test]
fn a_disk_that_another_one_covers_is_not_here() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = shelf(2);
    shelf.put('A');
    let cover = shelf.beside('B', "m");
    let run = shelf.run(&[]);
    run.assert_code(7).assert_prints(&["next disk, please: LABEL=sA"]);
    assert!(!shelf.has().is_empty());
    drop(cover);
    assert!(shelf.has().is_empty());
}

/// Where the memory of a span is lost, and another one was begun, all disks of the first one join it.
#[test]
fn there_is_a_way_back_where_the_memory_is_lost() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = shelf(3);
    let begins = "a new span begins here";
    shelf.put('A');
    shelf.run(&[]).assert_code(7).assert_says(begins);
    shelf.put('B');
    let run = shelf.run(&[]);
    run.assert_code(0);
    assert!(!run.err().contains(begins), "{}", run.err());
    shell(&shelf.scene, "mv data lost");
    shelf.put('C');
    shelf.run(&[]).assert_code(7).assert_says(begins);
    // One alone that knows of another: nothing says what that has.
    shelf.put('B');
    let (had, index) = (shelf.has(), shelf.index());
    let run = shelf.run(&[]);
    run.assert_code(2).assert_says("connect all disks of that at once").assert_says("label sA");
    assert_eq!((shelf.has(), shelf.index()), (had, index));
    let other = shelf.beside('A', "d2");
    let run = shelf.run(&[]);
    run.assert_code(0).assert_says("it was of another span of this source");
    run.assert_says("more than one disk lists");
    drop(other);
    for name in ['C', 'A', 'B'] {
        shelf.put(name);
        shelf.run(&[]).assert_code(0);
    }
    let index = shelf.index();
    let listed = index.lines().filter(|line| !line.starts_with('#'));
    assert_eq!(listed.count(), 16, "{index}");
    let _others = (shelf.beside('A', "d2"), shelf.beside('C', "d3"));
    let run = shelf.scene.bare(["verify", "--span", "m", "d2", "d3"]).run();
    run.assert_code(0);
    // By their places, all at once, they are one span as well.
    shelf.scene.bare(["src", "--span", "m", "d2", "d3"]).run().assert_code(0);
}

/// The machine is lost with one of the disks, and a new one was put in first: a second span began on that.
#[test]
fn there_is_a_way_back_where_a_disk_is_lost_with_the_memory() {
    need!(Mount, Loop);
    Mount::privately();
    let mut shelf = shelf(3);
    let data = format!("XDG_DATA_HOME={}", shelf.scene.path("data").display());
    let run = |shelf: &Shelf, labels: &str, code: i32| {
        let labels = labels.chars().map(|name| format!("LABEL=s{name}"));
        let args = ["src", "--span"].map(String::from).into_iter().chain(labels);
        let run = shelf.scene.bare(args).under(["env", &data]).run();
        run.assert_no_crash();
        run.assert_code(code);
        run
    };
    shelf.put('A');
    run(&shelf, "AB", 7);
    // Until it was in once more, the first one knows of no second.
    for name in ['B', 'A'] {
        shelf.put(name);
        run(&shelf, "AB", 0);
    }
    shelf.drive = None;
    shell(&shelf.scene, "mv data lost; mv B.img D.img; e2label D.img sD");
    shelf.make('B', 8);
    shelf.put('B');
    run(&shelf, "AB", 7).assert_says("a new span begins here");
    shelf.put('A');
    let second = shelf.beside('B', "d2");
    let (had, index) = (shelf.has(), shelf.index());
    run(&shelf, "AB", 2).assert_says("if it is lost, name a new disk in its place");
    // One more is named, and it may be that one that is to come.
    let third = shelf.beside('C', "d3");
    run(&shelf, "ABCD", 2).assert_says("only disks that are here");
    assert_eq!((shelf.has(), shelf.index()), (had, index));
    let joined = run(&shelf, "ABC", 0);
    joined.assert_says("it was of another span of this source");
    joined.assert_says("it stands for disk 2, ").assert_says("more than one disk lists");
    let is_whole = |shelf: &Shelf, disks: &[&str]| {
        for disk in disks {
            shelf.scene.bare(["verify", disk]).run().assert_code(0);
        }
        let of_all = shell(&shelf.scene, &format!("find {} -name '[01][0-9]'", disks.join(" ")));
        let names = of_all.lines().filter_map(|line| line.rsplit('/').next());
        assert_eq!(names.collect::<std::collections::BTreeSet<_>>().len(), 16, "{of_all}");
        let check = [&["verify", "--span"], disks].concat();
        shelf.scene.bare(check).run().assert_code(0);
    };
    is_whole(&shelf, &["m", "d2", "d3"]);
    shelf.scene.bare(["src", "--span", "m", "d2", "d3"]).run().assert_code(0);
    // Nothing is forgotten: each is known alone, and asked for where it is wanted.
    drop((second, third));
    run(&shelf, "ABC", 0);
    // It was not lost.
    let _all = [('B', "d2"), ('C', "d3"), ('D', "d4")].map(|(name, at)| shelf.beside(name, at));
    run(&shelf, "ABCD", 0);
    is_whole(&shelf, &["m", "d2", "d3", "d4"]);
}

/// A run by the places of the disks, or of another machine, was there since: what is remembered is not of now.
#[test]
fn a_memory_that_is_older_than_the_index_is_none() {
    need!(Mount, Loop);
    for other in ["places", "machine"] {
        Mount::privately();
        let shelf = shelf(2);
        let names = ["src", "--span", "LABEL=sA", "LABEL=sB"];
        let _first = shelf.beside('A', "d1");
        let second = shelf.beside('B', "d2");
        shelf.bare(&names).run().assert_code(0);
        shelf.scene.src.file("new", "new");
        let data = format!("XDG_DATA_HOME={}", shelf.scene.path("other").display());
        let run = match other {
            "places" => shelf.bare(&["src", "--span", "d1", "d2"]).run(),
            _ => shelf.scene.bare(names).under(["env", &data]).run(),
        };
        run.assert_code(0);
        drop(second);
        shelf.scene.src.file("new", "newer");
        let run = shelf.bare(&names).run();
        run.assert_code(2).assert_says("remembers what it has now: connect all disks");
        let second = shelf.beside('B', "d2");
        let update = [&names[..], &["--overwrite-policy", "update"]].concat();
        shelf.bare(&update).run().assert_code(0);
        drop(second);
        shelf.bare(&names).run().assert_code(0);
    }
}

/// The disk that knows of it is lost, and this machine did the other run itself.
#[test]
fn a_run_by_places_is_not_forgotten_with_its_disk() {
    need!(Mount, Loop);
    Mount::privately();
    let shelf = shelf(2);
    let names = ["src", "--span", "LABEL=sA", "LABEL=sB"];
    let first = shelf.beside('A', "d1");
    let second = shelf.beside('B', "d2");
    shelf.bare(&names).run().assert_code(0);
    // What was on the second disk comes to the first.
    shell(&shelf.scene, "rm d1/00 d2/$(ls d2 | grep '^[01]' | tail -1)");
    shelf.bare(&["src", "--span", "d1", "d2"]).run().assert_code(0);
    drop((first, second));
    shell(&shelf.scene, "rm A.img");
    shelf.make('A', 8);
    let _fresh = shelf.beside('A', "d1");
    let run = shelf.bare(&names).run();
    run.assert_code(2).assert_says("connect all disks of the span at once");
    let _second = shelf.beside('B', "d2");
    shelf.bare(&names).run().assert_code(0);
    shelf.scene.bare(["verify", "--span", "d1", "d2"]).run().assert_code(0);
}
