//! Room is looked at before anything is touched, and a disk that would not fill up refuses nobody.

use crate::harness::{
    Judge, Mount, NONE, Scene, Strace, Tree, content, ctimes, leftover_name, need, shell,
};

/// A source that needs 6 MiB, and an output on a tmpfs with these options.
fn six_mib(options: &str) -> (Scene, Mount) {
    let scene = Scene::new();
    for name in ["a", "b", "dir/c"] {
        scene.src.file(name, content(2 << 20));
    }
    let mount = Mount::tmpfs(&scene.path("mnt"), options);
    (scene, mount)
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_is_touched() {
    need!(Mount);
    let (scene, _mount) = six_mib("5m");
    let to = scene.path("mnt/new");
    for args in [&[][..], &["--dry-run"]] {
        let run = scene.command_to(scene.src.root(), &to, args).run();
        run.assert_code(2).assert_says("5 MiB free").assert_says("at least 6 MiB");
        run.assert_says("--no-space-check");
        assert!(!to.exists(), "refused, but the output was made");
    }
    // What fits goes.
    let run = scene.command_to(scene.src.root(), &to, ["--exclude", "dir"]).run();
    run.assert_code(0);
}

#[test]
fn as_much_as_fits_when_asked() {
    need!(Mount);
    let (scene, _mount) = six_mib("4200k");
    let run = scene.command_to(scene.src.root(), scene.path("mnt"), ["--no-space-check"]).run();
    run.assert_code_in(&[1, 3]).assert_says("o space left");
}

/// Fewer files than end a run early, but each for the same reason.
#[test]
fn an_output_that_filled_up_is_named_once_as_full() {
    need!(Mount);
    let scene = Scene::new();
    for name in 0..12 {
        scene.src.file(name.to_string(), content(5 << 20));
    }
    let _mount = Mount::tmpfs(&scene.path("mnt"), "24m");
    let to = scene.path("mnt/o");
    let run = scene.command_to(scene.src.root(), &to, ["--no-space-check", "-j1"]).run();
    run.assert_code(1).assert_says("more like one above");
    let last = run.err().lines().chain(run.out().lines()).last().unwrap_or_default().to_owned();
    let full = format!("NOT COMPLETE (exit 1): {} is full: ", to.display());
    assert!(last.starts_with(&full), "{last}");
    assert!(last.ends_with("of 12 files are done; make room and run the same command"), "{last}");
    Judge::new(&scene.src, Tree::of(&to), &run).sound();
    // A check of what is there says that it is not all, until it is.
    let check = || scene.bare(["verify".as_ref(), to.as_os_str()]).run();
    let run = check();
    run.assert_code(0).assert_says("the last copy here was not complete: ");
    assert!(
        run.out().trim_end().ends_with(", but the last copy was not complete"),
        "{}",
        run.out()
    );
    shell(&scene, "mount -o remount,size=128m mnt");
    scene.command_to(scene.src.root(), &to, NONE).run().assert_code(0);
    let run = check();
    assert!(!run.err().contains("not complete"), "{}", run.err());
}

/// xfs sets much more room aside for what waits to be written than that takes in the end, and does not
/// write it out by itself when it has none left for a file without a name.
#[test]
fn room_that_is_only_set_aside_is_waited_for() {
    need!(Loop);
    let scene = Scene::new();
    for i in 0..9_000 {
        scene.src.file(format!("{}/{i}", i % 10), content(100));
    }
    let _mount = Mount::of_kind("xfs", &scene.path("image"), &scene.path("mnt"));
    shell(&scene, "fallocate --length 300M mnt/full");
    let run = scene.command_to(scene.src.root(), scene.path("mnt/o"), ["--no-sync", "-q"]).run();
    run.assert_code(0);
}

#[test]
fn files_are_counted_where_their_number_is_limited() {
    need!(Mount);
    let scene = Scene::new();
    for number in 0..40 {
        scene.src.file(number.to_string(), "small");
    }
    let _mount = Mount::tmpfs(&scene.path("mnt"), "4m,nr_inodes=30");
    let run = scene.command_to(scene.src.root(), scene.path("mnt"), [""; 0]).run();
    run.assert_code(2).assert_says("more files, and there are 40 to copy");
}

/// What FAT cannot hold is known before anything is written: by name in a dry run, together at the beginning of
/// a copy, and then each is an error. Everything else is copied. (strace makes the file system look like FAT.)
#[test]
fn files_that_are_too_large_for_the_file_system_are_named_before() {
    need!(Strace);
    let scene = Scene::new();
    scene.src.file("small", "s").file("dir/other", "o");
    shell(&scene, "for i in 1 2 3 4 5 6 7; do truncate -s 4G src/large$i; done");
    shell(&scene, "truncate -s 4294967295 src/dir/most");
    let fat = "poke_exit=@arg2=444d000000000000";
    let fault = Strace::inject(&scene, "fstatfs", fat).exactly_on(&scene.dst);
    let fault = fault.exactly_on(scene.root());
    let run = fault.run(scene.command(["--dry-run", "-v"]));
    fault.fired(&run);
    run.assert_code(1)
        .assert_prints(&["NOTHING WAS DONE (exit 1): this was a dry run; 7 entries would fail"]);
    assert!(!scene.dst.exists());
    for name in ["large1", "large7"] {
        run.assert_says(&format!("{name}: the output's file system is FAT, where no file can"));
    }
    scene.output();
    let fault = Strace::inject(&scene, "fstatfs", fat).exactly_on(&scene.dst);
    let run = fault.run(scene.command(["--hash", "none"]));
    fault.fired(&run);
    run.assert_code(1).assert_says("its file system is FAT, where no file can have 4 GiB: ");
    run.assert_says(" and 2 more cannot be copied");
    let lines = run.err();
    assert_eq!(lines.matches("the output's file system is FAT, where no file can").count(), 7);
    assert!(lines.find("and 2 more") < lines.find("the output's file"), "{lines}");
    let output = scene.output();
    assert!(output.has("small") && output.has("dir/most") && !output.has("large1"));
}

#[test]
fn holes_need_no_room() {
    need!(Mount);
    let scene = Scene::new();
    scene.src.file("data", content(1 << 20));
    shell(&scene, "truncate -s 1G src/hole");
    let _mount = Mount::tmpfs(&scene.dst, "4m");
    scene.copy(&[]).assert_code(0);
}

/// Nobody can say how much room something takes where it is packed.
#[test]
fn an_output_that_packs_is_tried() {
    need!(Loop, Kinds);
    let scene = Scene::on_disk();
    shell(&scene, "yes 'the same again' | head -c 160M >src/file");
    shell(&scene, "truncate -s 128M image; mkfs.btrfs -q image; mkdir dst");
    let _mount = Mount::device(&scene.path("image"), &scene.dst, "loop,compress=zstd").unwrap();
    let run = scene.copy(&[]);
    scene.judge(&run).complete();
}

/// A second run needs room for what is new only, and part files of a killed run are room.
#[test]
fn what_is_there_already_needs_no_room() {
    need!(Mount);
    let (scene, _mount) = six_mib("7m");
    let copy = || scene.command_to(scene.src.root(), scene.path("mnt"), [""; 0]).run();
    copy().assert_code(0);
    copy().assert_code(0);
    shell(&scene, "cat src/a src/b | head -c 2500000 >x; touch -d tomorrow x; mv x src/a");
    // 400,000 bytes more than what gives way, and not 2,500,000 more than what is free.
    let update = ["--overwrite-policy", "update"];
    let run = scene.command_to(scene.src.root(), scene.path("mnt"), update).run();
    // That it is not refused is the point; at its peak it needs more than there is.
    run.assert_code_in(&[1, 3]);

    let (scene, _mount) = six_mib("7m");
    scene
        .command_to(scene.tree("none").root(), scene.path("mnt"), ["--allow-empty"])
        .run()
        .assert_code(0);
    let left = leftover_name(&scene.path("mnt"));
    shell(&scene, &format!("head -c 4M src/a src/b >mnt/{left}"));
    scene.command_to(scene.src.root(), scene.path("mnt"), [""; 0]).run().assert_code(0);
}

/// Who has not walked has not looked: with ample room the source is listed once.
#[test]
fn ample_room_costs_no_walk() {
    need!(Mount, Strace);
    let lists = |options: &str, again: bool| {
        let scene = Scene::new();
        let _source = Mount::tmpfs(scene.src.root(), "64m");
        let _output = Mount::tmpfs(&scene.dst, options);
        scene.src.file("dir/file", content(1 << 20));
        if again {
            scene.copy(&[]).assert_code(0);
        }
        shell(&scene, "echo >trace");
        let trace = scene.path("trace");
        let run = scene
            .command([""; 0])
            .in_shell(&format!(
                "exec strace -f -qq -e trace=getdents64 -y -o {} \"$@\"",
                trace.display()
            ))
            .run();
        run.assert_code(0);
        let trace = std::fs::read_to_string(trace).unwrap();
        ["/src/dir>", "/dst/dir>"].map(|dir| {
            trace.lines().filter(|line| line.contains(dir) && line.contains(" = 0")).count()
        })
    };
    assert_eq!(lists("64m", false), [1, 0]);
    assert_eq!(lists("1200k", false), [2, 0]);
    // A later run that makes nothing needs no room. For what killed runs left it looks through the output.
    assert_eq!(lists("1500k", true), [1, 1]);
}

/// A later run looks when it is about to make the first thing, whatever that is, and then has touched nothing.
#[test]
fn a_later_run_that_does_not_fit_touches_nothing() {
    need!(Mount);
    let firsts = [
        "true",
        "mkdir src/A",
        "ln -s a src/A",
        "ln src/a src/A",
        "rm src/link; ln -s b src/link",
        "chmod 700 src/dir",
        "touch -d 2001-01-01 src/dir",
        "chmod 600 src/a src/b",
        "echo >mnt/.a1B2c3D4e5.dircopy-part",
        "head -c 2M /dev/zero >src/a; touch -d tomorrow src/a",
    ];
    let ways = [&["--overwrite-policy=update"][..], &["--overwrite-policy=always", "--verify"]];
    for (first, &args) in firsts.iter().zip(ways.iter().cycle()) {
        let (scene, _mount) = six_mib("15m");
        shell(&scene, "ln -s a src/link; ln src/a src/more");
        let run = |more: &[&str]| {
            let args = ["--hard-links", "--hash=sha256"].iter().chain(args).chain(more);
            scene.command_to(scene.src.root(), scene.path("mnt"), args).run()
        };
        run(&[]).assert_code(0);
        shell(&scene, "head -c 12M /dev/urandom >src/z; head -c 1M src/z >src/dir/z");
        shell(&scene, first);
        let at_output = || {
            let all = ctimes(&scene.path("mnt")).into_iter();
            let all = all.map(|entry| String::from_utf8(entry).unwrap());
            let is_kept = |entry: &String| !entry.ends_with(' ') && !entry.contains(" .dircopy");
            all.filter(is_kept).collect::<Vec<_>>().join("\n")
        };
        let before = at_output();
        let refused = run(&[]);
        refused.assert_code(2).assert_says("MiB free").assert_says("--no-space-check");
        assert_eq!(at_output(), before, "{first}");
        // What is left out needs no room.
        run(&["--exclude", "z"]).assert_code(0);
        shell(&scene, "cd mnt && sha256sum -c --strict --quiet $(ls dircopy-*sum | tail -1)");
    }
}

/// What fits for each of two outputs on one file system alone need not fit for both.
#[test]
fn outputs_on_one_file_system_share_its_room() {
    need!(Mount);
    let (scene, _mount) = six_mib("9m");
    let [one, other] = ["mnt/one", "mnt/other"].map(|name| scene.path(name));
    let args = ["-i".as_ref(), scene.src.root().as_os_str(), "-o".as_ref(), one.as_os_str()];
    let copy = |more: &[&str]| {
        let args = args.iter().copied().chain(["-o".as_ref(), other.as_os_str()]);
        scene.bare(args.chain(more.iter().map(|arg| arg.as_ref()))).run()
    };
    let run = copy(&[]);
    // Whichever looked first has it.
    run.assert_code(1).assert_says("another output on that file system takes the rest");
    let there = [&one, &other].into_iter().filter(|output| output.exists()).collect::<Vec<_>>();
    assert_eq!(there.len(), 1, "one is complete, and the other was not touched");
    shell(&scene, "mount -o remount,size=13m mnt");
    copy(&[]).assert_code(0);
    for output in ["one", "other"] {
        shell(&scene, &format!("diff -r src mnt/{output} -x 'dircopy-*' -x .dircopy"));
    }
}

/// What a killed run left gives way in a bag too, and of a generation that is refused nothing is made.
#[test]
fn what_was_left_is_room_in_bags_and_generations() {
    need!(Mount);
    let scene = Scene::new();
    scene.src.file("film", content(12 << 20));
    let _mount = Mount::tmpfs(&scene.path("mnt"), "16m");
    let bag = |more: &[&str]| {
        let args = ["--bag"].iter().chain(more);
        scene.command_to(scene.src.root(), scene.path("mnt/bag"), args)
    };
    let mut killed = bag(&["--limit-rate=20M", "--resume=off"]).spawn();
    killed.until("most of it", || {
        shell(&scene, "du -sm mnt | cut -f 1").trim().parse::<u64>().unwrap() > 8
    });
    killed.signal(rustix::process::Signal::KILL);
    killed.wait();
    bag(&[]).run().assert_code(0);

    let scene = Scene::new();
    scene.src.file("film", content(12 << 20));
    let _mount = Mount::tmpfs(&scene.path("mnt"), "8m");
    let generation =
        || scene.command_to(scene.src.root(), scene.path("mnt"), ["--generations"]).run();
    for _ in 0..2 {
        generation().assert_code(2).assert_says("MiB free");
    }
    assert_eq!(shell(&scene, "ls -A mnt").trim(), "");
    scene.src.file("film", "short");
    generation().assert_code(0);
    // What the last one has takes no room, not even under another name.
    let before = shell(&scene, "stat -c %Z mnt/latest/film; ls -A mnt");
    scene.src.file("film2", content(12 << 20));
    let refused = generation();
    refused.assert_code(2).assert_says("MiB free");
    assert!(!refused.err().contains(".part"), "{}", refused.err());
    assert_eq!(shell(&scene, "stat -c %Z mnt/latest/film; ls -A mnt"), before);
    scene.src.file("film2", content(5 << 20));
    generation().assert_code(0);
    shell(&scene, "mv src/film2 src/film3");
    generation().assert_code(0);
    assert_eq!(shell(&scene, "ls mnt | grep -c part || true").trim(), "0");
}
