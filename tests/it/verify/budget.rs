//! A scrub: what was not verified for the longest time comes first, and nothing that was done
//! is done again before all of the rest.

use std::collections::BTreeSet;

use crate::harness::{Run, Scene, Strace, content, is_temp_name, names_below, need, shell};

/// So many files of 1000 bytes, and a manifest that lists them.
fn scene(files: usize) -> Scene {
    let scene = Scene::new();
    for i in 0..files {
        scene.src.file(format!("{}/{i:04}", i % 7), &content(1000 + i)[i..]);
    }
    scene.copy(&["-q"]).assert_code(0);
    scene
}

fn portion(scene: &Scene, args: &[&str]) -> Run {
    scene.bare(NIGHT.iter().chain(args)).run()
}

/// The names that were said to be good, in that order.
fn good(run: &Run) -> Vec<String> {
    let out = run.out();
    let names = out.lines().filter_map(|line| line.strip_prefix("OK dst/")?.split(' ').next());
    names.map(str::to_owned).collect()
}

#[test]
fn ten_portions_cover_every_file_once() {
    for (jobs, order) in [
        ("-j1", "large-first"),
        ("-j8", "large-first"),
        ("-j1", "as-on-disk"),
        ("-j8", "as-on-disk"),
    ] {
        let scene = scene(1000);
        let order = &*format!("--order={order}");
        let (mut all, mut first) = (BTreeSet::new(), BTreeSet::new());
        for night in 1..=10 {
            let run = portion(&scene, &["--max-bytes", "100KB", jobs, order]);
            run.assert_code(0).assert_prints(&["scrub", "100 files verified"]);
            run.assert_prints(&[&format!("{} of 1000 files not verified yet", 1000 - 100 * night)]);
            run.assert_prints(&["good: every file of this pass is as listed"]);
            let names = good(&run);
            assert_eq!(names.len(), 100);
            if night == 1 {
                first.extend(names.iter().cloned());
            }
            for name in names {
                assert!(all.insert(name.clone()), "night {night}: {name} again");
            }
        }
        assert_eq!(all.len(), 1000);
        // Then those of the first night are the oldest.
        let run = portion(&scene, &["--max-bytes", "100KB", jobs, order]);
        assert_eq!(good(&run).into_iter().collect::<BTreeSet<_>>(), first);
    }
}

/// The largest of what is due comes first, but not before what is due longer.
#[test]
fn the_oldest_comes_before_the_largest() {
    let scene = Scene::new();
    scene.src.file("a", "a").file("large", content(3_000_000)).file("larger", content(4_000_000));
    scene.src.file("z", "z");
    scene.copy(&["-q"]).assert_code(0);
    let night = |most: &str| good(&portion(&scene, &["-j1", "--max-bytes", most]));
    assert_eq!(night("4000000"), ["larger"]);
    assert_eq!(night("3000000"), ["large"]);
    let names = night("100M");
    assert_eq!(
        names[..2].iter().collect::<BTreeSet<_>>(),
        ["a", "z"].map(String::from).iter().collect()
    );
    assert_eq!(names[2..], ["larger", "large"]);
    // One file is read whatever its size, or nothing would ever be.
    assert_eq!(night("1").len(), 1);
}

#[test]
fn a_bad_file_is_told_until_it_is_repaired() {
    let scene = scene(30);
    scene.output().file("3/0003", "damaged");
    shell(&scene, "rm dst/4/0004");
    for _ in 0..4 {
        let run = portion(&scene, &["--max-bytes", "100KB"]);
        run.assert_code(4).assert_says("differs: dst/3/0003").assert_says("missing: dst/4/0004");
        run.assert_prints(&["2 of 30 files not verified yet"]);
    }
    shell(&scene, "cp -p src/3/0003 dst/3; cp -p src/4/0004 dst/4");
    // These two come first.
    let run = portion(&scene, &["--max-bytes", "5KB"]);
    run.assert_code(0).assert_prints(&["0 of 30 files not verified yet, the oldest"]);
    assert!(["3/0003", "4/0004"].iter().all(|name| good(&run).contains(&name.to_string())));
}

/// What is bad is told each night, and the others are verified in their turn all the same.
#[test]
fn what_is_bad_does_not_take_the_turn_of_the_others() {
    for (size, damage) in [(100_000, "large"), (1000, "1/*")] {
        let scene = scene(40);
        scene.src.file("large", content(size));
        scene.copy(&["-q"]).assert_code(0);
        shell(&scene, &format!("for f in dst/{damage}; do truncate -s +1 $f; done"));
        let bad = shell(&scene, &format!("ls -d dst/{damage}"));
        portion(&scene, &["--max-bytes", "1M"]).assert_code(4);
        // All have been looked at.
        let mut all = BTreeSet::new();
        for _ in 0..14 {
            let run = portion(&scene, &["--max-bytes", "8KB"]);
            run.assert_code(4).assert_says("differs: dst/");
            assert!((3..8).contains(&good(&run).len()), "{}", run.out());
            all.extend(good(&run));
        }
        assert_eq!(all.len(), 41 - bad.lines().count(), "{all:?}");
    }
}

/// What was found good since then is not read, and is said not to be.
#[test]
fn what_was_found_good_lately_is_left_out_and_counted() {
    let scene = scene(10);
    let check = |args: &[&str]| scene.bare(["verify", "-v", "dst"].iter().chain(args)).run();
    // What was asked of the cache proves nothing of the disk.
    check(&["--max-bytes", "1M", "--from", "cache"]).assert_code(0);
    let run = check(&["--not-since", "90d"]);
    run.assert_code(0).assert_prints(&["10 files verified"]);
    run.assert_prints(&["left out", "0 files, found good since"]);
    assert_eq!(good(&run).len(), 10);
    assert!(run.out().ends_with("good: every file of this pass is as listed\n"), "{}", run.out());
    let report = ["--not-since", "90d", "--report", "r.json"];
    let run = check(&report);
    run.assert_code(0).assert_prints(&["left out", "10 files, found good since"]);
    run.assert_prints(&[
        "every file of this pass is as listed; 10 files not looked at, good since",
    ]);
    assert_eq!(good(&run).len(), 0);
    let report = std::fs::read_to_string(scene.path("r.json")).unwrap();
    assert!(report.contains("\"left_out\": 10"), "{report}");
    // Three were found good long ago, one is new, one was bad.
    let verified = "dst/.dircopy/dircopy.verified";
    shell(&scene, &format!("sed '2,4s/ .*/ 1000000000/' {verified} >x; cat x >{verified}"));
    scene.src.file("new", "new");
    scene.copy(&["-q"]).assert_code(0);
    assert_eq!(good(&check(&["--not-since", "2001-09-09"])), ["new"]);
    let run = check(&["--not-since", "2001-09-10"]);
    run.assert_prints(&["3 files verified"]);
    run.assert_prints(&["left out", "8 files, found good since 2001-09-10"]);
    scene.output().file("3/0003", "damaged");
    assert_eq!(good(&check(&["--not-since", "90d"])).len(), 0);
    check(&["--max-bytes", "1M"]).assert_code(4);
    for _ in 0..2 {
        check(&["--not-since", "90d"]).assert_code(4).assert_says("differs: dst/3/0003");
    }
    for when in ["2099-01-01", "soon", "0d"] {
        check(&["--not-since", when]).assert_code(2);
    }
}

/// A file that was copied anew was never read, and one that another check found bad is not good since.
#[test]
fn what_is_another_file_now_or_was_found_bad_is_not_left_out() {
    let scene = scene(10);
    let check = |args: &[&str]| scene.bare(["verify", "-v", "dst"].iter().chain(args)).run();
    let rot = |name: &str| {
        let damage = "touch -r $f at; printf R | dd of=$f conv=notrunc 2>/dev/null; touch -r at $f";
        shell(&scene, &format!("f=dst/{name}; {damage}"));
    };
    check(&["--max-bytes", "1M"]).assert_code(0);
    // Its content is the one that was read, whatever else became of it.
    shell(&scene, "chmod +x dst/4/0004; ln dst/5/0005 name");
    check(&["--not-since", "90d"]).assert_code(0).assert_prints(&["10 files, found good since"]);
    shell(&scene, "chmod -x dst/4/0004; rm dst/3/0003");
    scene.copy(&["-q"]).assert_code(0);
    rot("3/0003");
    let run = check(&["--not-since", "90d"]);
    run.assert_code(4).assert_says("differs: dst/3/0003").assert_prints(&["left out", "9 files"]);
    shell(&scene, "rm dst/3/0003");
    scene.copy(&["-q"]).assert_code(0);
    assert_eq!(good(&check(&["--not-since", "90d"])), ["3/0003"]);
    check(&["--not-since", "90d"]).assert_prints(&["10 files, found good since"]);

    shell(&scene, "cp -a dst copy; rm dst/2/0002");
    rot("1/0001");
    check(&[]).assert_code(4);
    let run = check(&["--not-since", "90d"]);
    run.assert_code(4).assert_says("differs: dst/1/0001").assert_says("missing: dst/2/0002");
    scene.bare(["heal", "dst", "copy"]).run().assert_code(0);
    assert_eq!(good(&check(&["--not-since", "90d"])).len(), 2);
    check(&["--not-since", "90d"]).assert_code(0).assert_prints(&["10 files, found good since"]);
    // A run that heals checks before it does.
    rot("1/0001");
    scene.bare(["heal", "dst", "copy"]).run().assert_code(0);
    rot("1/0001");
    check(&["--not-since", "90d"]).assert_code(4).assert_says("differs: dst/1/0001");
}

/// Killed at each step of recording, and of what is recorded by then nothing is done again.
#[test]
fn a_portion_that_is_killed_loses_nothing_that_was_recorded() {
    need!(Strace);
    // A kill counts the calls of each thread. The one that reads lines records once, before any file is
    // read; the main thread tells of twenty files, records, and tells of the whole.
    for (calls, when, recorded) in [
        (Strace::WRITES, 1, false),
        (Strace::SYNCS, 1, false),
        (Strace::RENAMES, 1, false),
        (Strace::SYNCS, 2, false),
        (Strace::WRITES, 21, false),
        (Strace::WRITES, 22, true),
    ] {
        let scene = scene(60);
        let mut all: BTreeSet<_> = good(&portion(&scene, &TWENTY)).into_iter().collect();
        assert_eq!(all.len(), 20);
        let strace = Strace::inject(&scene, calls, &format!("signal=SIGKILL:when={when}"));
        let run = strace.run(scene.bare(NIGHT.iter().chain(&TWENTY)));
        assert!(strace.log().contains("killed by SIGKILL"), "{calls} {when}: {}", strace.log());
        assert_eq!(good(&run).len(), if when > 20 { 20 } else { 0 }, "{calls} {when}");
        if recorded {
            all.extend(good(&run));
        }
        the_rest(&scene, all, &format!("{calls} {when}"));
    }
}

#[test]
fn a_portion_that_is_interrupted_keeps_what_it_did() {
    need!(Strace);
    let scene = scene(60);
    let mut all: BTreeSet<_> = good(&portion(&scene, &TWENTY)).into_iter().collect();
    let mut strace = Strace::inject(&scene, "openat", "signal=SIGINT:when=10");
    for dir in 0..7 {
        strace = strace.on(scene.dst.join(dir.to_string()));
    }
    let run = strace.run(scene.bare(NIGHT.iter().chain(&TWENTY)));
    assert!(strace.log().contains("--- SIGINT "), "{}", strace.log());
    run.assert_code(130);
    let names = good(&run);
    assert!((1..20).contains(&names.len()), "{names:?}");
    all.extend(names);
    the_rest(&scene, all, "interrupted");
}

const NIGHT: [&str; 5] = ["verify", "-v", "--from", "cache", "dst"];

/// One after the other, so that it is known what is done when.
const TWENTY: [&str; 5] = ["-j1", "--simd", "off", "--max-bytes", "20KB"];

/// Of the sixty files of 1000 bytes these were verified: the next portion is exactly the others.
fn the_rest(scene: &Scene, mut all: BTreeSet<String>, what: &str) {
    let run = portion(scene, &["--max-bytes", &(60_000 - 1000 * all.len()).to_string()]);
    run.assert_code(0).assert_prints(&["0 of 60 files not verified yet"]);
    assert_eq!(run.err(), "", "{what}");
    for name in good(&run) {
        assert!(all.insert(name.clone()), "{what}: {name} again");
    }
    assert_eq!(all.len(), 60, "{what}");
}

/// A newer manifest of the same files, and of more of them.
#[test]
fn a_new_manifest_takes_nothing_away() {
    let scene = scene(50);
    let run = portion(&scene, &["--max-bytes", "30KB"]);
    let mut all: BTreeSet<_> = good(&run).into_iter().collect();
    assert_eq!(all.len(), 30);
    for i in 0..10 {
        scene.src.file(format!("new/{i}"), content(1000));
    }
    // One that was verified has another content now.
    let changed = all.first().unwrap().clone();
    scene.src.file(&changed, content(900)).mtime(&changed, 1 << 31, 0);
    scene.copy(&["-q", "--overwrite-policy", "update"]).assert_code(0);
    all.remove(&changed);
    let run = portion(&scene, &["--max-bytes", "30900"]);
    run.assert_code(0).assert_prints(&["31 files verified; 0 of 60 files not verified yet"]);
    for name in good(&run) {
        assert!(all.insert(name.clone()), "{name} again");
    }
    assert_eq!(all.len(), 60);
    // The state is no file that ought to be listed.
    scene.bare(["verify", "--complete", "dst"]).run().assert_code(0);
}

#[test]
fn a_state_that_is_of_no_use_is_told() {
    let scene = scene(20);
    portion(&scene, &["--max-bytes", "10KB"]).assert_code(0);
    for damage in
        ["echo nonsense > dst/.dircopy/dircopy.cached", "sed -i '$d' dst/.dircopy/dircopy.cached"]
    {
        shell(&scene, damage);
        let run = portion(&scene, &["--max-bytes", "5KB"]);
        run.assert_code(0).assert_says("counts as never verified");
        run.assert_prints(&["5 files verified; 15 of 20 files not verified yet"]);
    }
    shell(&scene, "rm dst/.dircopy/dircopy.cached; mkdir dst/.dircopy/dircopy.cached");
    let run = portion(&scene, &["--max-bytes", "5KB"]);
    run.assert_code(1).assert_says("cannot write what was verified to dst/.dircopy/dircopy.cached");
    // Once, and that is why nothing was read.
    assert_eq!(run.err().matches("cannot write what was verified").count(), 1, "{}", run.err());
    let last =
        "NOT PROVEN (exit 1): what was verified when cannot be noted: check without --budget";
    run.assert_prints(&[last]);
    assert!(!run.out().contains("0 files verified"), "{}", run.out());
}

#[test]
fn a_budget_of_time_ends_a_portion_well() {
    need!(Strace);
    let scene = scene(40);
    let strace = Strace::inject(&scene, "openat,openat2", "delay_enter=100000");
    let strace = strace.on(scene.dst.join("0")).on(scene.dst.join("1"));
    let strace = strace.on(scene.dst.join("2/0002")).on(scene.dst.join("3/0003"));
    let args = ["verify", "-v", "--from", "cache", "dst", "-j1", "--budget", "0.1s"];
    let run = strace.run(scene.bare(args));
    run.assert_code(0).assert_prints(&["good: every file of this pass is as listed"]);
    let mut all: BTreeSet<_> = good(&run).into_iter().collect();
    assert!(all.len() < 40, "{}", run.out());
    while all.len() < 40 {
        let left = (1000 * (40 - all.len())).to_string();
        let run = portion(&scene, &["--budget", "1h", "--max-bytes", &left]);
        run.assert_code(0);
        for name in good(&run) {
            assert!(all.insert(name.clone()), "{name} again");
        }
    }
}

#[test]
fn programs_are_told_of_a_portion() {
    let scene = scene(20);
    let args = ["--max-bytes", "5KB", "--report", "r.json", "--metrics", "m.prom"];
    portion(&scene, &args).assert_code(0);
    let read = |name: &str| std::fs::read_to_string(scene.path(name)).unwrap();
    let report: serde_json::Value = serde_json::from_str(&read("r.json")).unwrap();
    let portion = &report["scrub"];
    assert_eq!((&portion["listed"], &portion["verified_now"]), (&20.into(), &5.into()));
    assert_eq!(portion["not_verified"], 15);
    assert!(portion["oldest_verification"].is_null(), "{report:#}");
    let line = |text: &str| read("m.prom").lines().find(|l| l.contains(text)).unwrap().to_owned();
    assert!(line("fate=\"not_verified\"").ends_with("} 15"));
    assert!(line("oldest_verification_timestamp_seconds{").ends_with("} 0"));
    self::portion(&scene, &["--max-bytes", "1M", "--report", "r.json", "--metrics", "m.prom"]);
    let report: serde_json::Value = serde_json::from_str(&read("r.json")).unwrap();
    assert!(report["scrub"]["oldest_verification"].as_str().unwrap().ends_with('Z'));
    assert!(!line("oldest_verification_timestamp_seconds{").ends_with("} 0"));
}

#[test]
fn what_cannot_be_done_in_portions_is_refused() {
    let scene = scene(3);
    shell(&scene, "cp -r dst dst2");
    let budget = ["--max-bytes", "1M"];
    for args in [&["dst2"][..], &["--complete"], &["--convert-paths"], &["--manifest", "-"]] {
        let args: Vec<&str> = budget.iter().chain(args).copied().collect();
        portion(&scene, &args).assert_code(2);
    }
    for args in [["--budget", "0s"], ["--budget", "x"], ["--max-bytes", "x"]] {
        portion(&scene, &args).assert_code(2);
    }
}

/// A copy would replace files while they are checked against the manifest before, and a second check would
/// forget what the first verified.
#[test]
fn nobody_else_is_at_the_directory_meanwhile() {
    need!(Strace);
    let scene = scene(30);
    let night = ["verify", "--from", "cache", "dst", "--max-bytes", "10KB"];
    // A copy is at it.
    scene.src.file("large", content(700_000)).file("larger", content(800_000));
    let mut copy = scene.command(["--limit-rate", "500K", "--workers", "1"]).spawn();
    copy.until("a part file", || {
        !names_below(&scene.dst, "f").iter().all(|name| !is_temp_name(name))
    });
    let refused = scene.bare(night).run();
    refused.assert_code(2).assert_says("cannot scrub dst: another dircopy (process ");
    refused.assert_says("is at work on it").assert_says("--wait");
    // Who reads everything and remembers nothing is in nobody's way.
    scene.bare(["verify", "--from", "cache", "dst"]).run().assert_code(0);
    let waiting = scene.bare(night.iter().chain(&["--wait"])).spawn();
    let stopped = scene.bare(night.iter().chain(&["--wait"])).spawn();
    std::thread::sleep(std::time::Duration::from_millis(300));
    stopped.signal(rustix::process::Signal::INT);
    stopped.wait().assert_code(130);
    copy.wait().assert_code(0);
    let waited = waiting.wait();
    waited.assert_code(0).assert_says("waiting: another dircopy (process ");
    waited.assert_prints(&["of 32 files not verified yet"]);

    // A scrub is at it.
    let strace = Strace::inject(&scene, Strace::SYNCS, "delay_enter=1500ms:when=1");
    let mut check = strace.spawn(scene.bare(night));
    check.until("the delay", || !strace.log().is_empty());
    scene.copy(&[]).assert_code(2).assert_says("is at work on it");
    scene.bare(night).run().assert_code(2);
    let copy = scene.copy(&["--wait"]);
    copy.assert_code(0).assert_says("waiting: another dircopy (process ");
    let check = check.wait();
    strace.fired(&check);
    check.assert_code(0);
}

/// What was verified is known line by line, so lines that could not be read are not to be forgotten.
#[test]
fn a_manifest_that_is_not_read_to_its_end_forgets_nothing() {
    need!(Strace);
    let scene = Scene::new();
    for i in 0..1500 {
        scene.src.file(format!("{}{i}", "n".repeat(200)), "");
    }
    scene.copy(&["-q"]).assert_code(0);
    portion(&scene, &["--max-bytes", "1G"]).assert_code(0);
    let before = scene.output().read(".dircopy/dircopy.cached");
    let names = names_below(&scene.dst, "f");
    let manifest = names.iter().find(|name| name.ends_with(b".sha256sum")).unwrap();
    for (fault, code) in [("error=EIO:when=2", 5), ("signal=TERM:when=2", 143)] {
        let strace = Strace::inject(&scene, Strace::READS, fault);
        let strace = strace.on(scene.output().path(manifest));
        let args = ["--max-bytes", "1G", "--report", "report"];
        let run = strace.run(scene.bare(NIGHT.iter().chain(&args)));
        run.assert_code(code);
        assert!(scene.output().read(".dircopy/dircopy.cached") == before, "{fault}");
        let report = std::fs::read(scene.path("report")).unwrap();
        let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
        assert_eq!(report["scrub"], serde_json::Value::Null, "{fault}");
    }
    let run = portion(&scene, &["--max-bytes", "1G"]);
    run.assert_code(0).assert_prints(&["0 of 1500 files not verified yet"]);
}

/// A file that would take hours has the time and the grace, and no other file waits for it for ever.
#[test]
fn a_file_in_hand_ends_after_a_grace() {
    let scene = Scene::new();
    scene.src.file("small", "small");
    shell(&scene, "mkdir dst; cp src/small dst; truncate -s 8T dst/holes");
    let digest = shell(&scene, "sha256sum <src/small");
    let digest = digest.split(' ').next().unwrap();
    shell(&scene, &format!("printf '{digest}  small\n{:064}  holes\n' 1 >list", 0));
    for (jobs, from) in [("-j1", "cache"), ("-j4", "medium")] {
        let args = ["verify", "-m", "list", "dst", "--from", from, jobs];
        let time = ["--budget", "1s", "--grace", "1s"];
        for night in 0..2 {
            let run = scene.bare(args.iter().chain(&time)).run();
            run.assert_code(1).assert_says("holes").assert_says("--grace");
            // By one worker the larger is read first; but the next night not for all of the time.
            if night == 1 || jobs == "-j4" {
                run.assert_prints(&["1 file verified"]);
            }
        }
        shell(&scene, "rm -rf dst/.dircopy");
    }
    // Of large files with states, too.
    let large = Scene::new();
    large.src.file("large", content(9_000_000));
    large.copy(&["-q"]).assert_code(0);
    large.bare(["verify", "dst", "--budget", "1m", "--grace", "1s"]).run().assert_code(0);
}
