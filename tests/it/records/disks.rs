//! Outputs on disks that come and go: the disk must be there (`--require-mount`), is found by its label or UUID, and
//! the day, the machine and the card are part of the path.

use std::path::{Path, PathBuf};

use crate::harness::{Mount, Run, Scene, content, names_below, need, shell};

const RECORDS: [&str; 4] = ["--report", "r.json", "--metrics", "m.prom"];

fn report(scene: &Scene) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(scene.path("r.json")).unwrap()).unwrap()
}

fn metrics(scene: &Scene) -> String {
    std::fs::read_to_string(scene.path("m.prom")).unwrap()
}

/// A copy of `src` to this output, with records.
fn copy_to(scene: &Scene, output: &str, more: &[&str]) -> Run {
    let args = ["-i", "src", "-o", output].into_iter().chain(more.iter().copied()).chain(RECORDS);
    scene.bare(args).run()
}

/// Nothing was made, and what a person and a monitor look at says why.
fn assert_refused(scene: &Scene, run: &Run, said: &str) {
    run.assert_code(2).assert_says("its disk is not mounted").assert_says(said);
    let report = report(scene);
    assert_eq!((&report["exit_code"], &report["ending"]), (&2.into(), &"refused".into()));
    assert!(report["error"]["text"].as_str().unwrap().contains("its disk is not mounted"));
    assert!(
        metrics(scene)
            .lines()
            .any(|line| { line.starts_with("dircopy_exit_code{output=") && line.ends_with(" 2") })
    );
}

/// The label and the UUID of the disk in `image`.
fn names_of(scene: &Scene, image: &str, label: &str) -> String {
    shell(scene, &format!("e2label {image} '{label}'"));
    shell(scene, &format!("blkid -o value -s UUID {image}")).trim().to_owned()
}

#[test]
fn a_disk_that_is_not_mounted_is_refused() {
    need!(Mount);
    let scene = Scene::new();
    scene.src.file("a", "1");
    let at = scene.path("mnt");
    std::fs::create_dir(&at).unwrap();
    // What service managers and containers make of a directory below which no disk is.
    let bound = Mount::bind(&at, &at);
    for output in ["mnt", "mnt/dir", "mnt/no/such"] {
        let run = copy_to(&scene, output, &["--require-mount"]);
        assert_refused(&scene, &run, "/mnt of ");
        assert_eq!(names_below(&at, "f").len() + names_below(&at, "d").len(), 0, "{output}");
    }
    drop(bound);
    // Nor is what lies on the disk of the system.
    let run = copy_to(&scene, "/no-such-directory/a/b", &["--require-mount"]);
    assert_refused(&scene, &run, "the system's own disk");

    let disk = Mount::tmpfs(&at, "4m");
    copy_to(&scene, "mnt/dir", &["--require-mount"]).assert_code(0);
    assert!(at.join("dir/a").exists());
    copy_to(&scene, "mnt", &["--require-mount"]).assert_code(0);
    assert!(at.join("a").exists());
    // A later night without the disk keeps the time of the last that succeeded.
    let last = |text: String| {
        let line = text.lines().find(|line| line.starts_with("dircopy_last_success")).unwrap();
        line.to_owned()
    };
    let before = last(metrics(&scene));
    drop(disk);
    let bound = Mount::bind(&at, &at);
    assert_refused(&scene, &copy_to(&scene, "mnt", &["--require-mount"]), "/mnt of ");
    assert_eq!(last(metrics(&scene)), before);
    // Without the option it is a directory like any other.
    copy_to(&scene, "mnt", &[]).assert_code(0);
    drop(bound);
}

#[test]
fn one_of_two_disks_may_be_missing() {
    need!(Mount);
    let scene = Scene::new();
    scene.src.file("a", "1");
    let _there = Mount::tmpfs(&scene.path("one"), "4m");
    std::fs::create_dir(scene.path("two")).unwrap();
    let _missing = Mount::bind(&scene.path("two"), &scene.path("two"));
    let run = copy_to(&scene, "one/dir", &["-o", "two/dir", "--require-mount"]);
    run.assert_code(1).assert_says("two/dir: its disk is not mounted");
    run.assert_prints(&["1 OF 2 OUTPUTS COMPLETE"]);
    assert!(scene.path("one/dir/a").exists() && !scene.path("two/dir").exists());
    assert_eq!(report(&scene)["outputs"][1]["exit_code"], 2);
}

#[test]
fn a_job_requires_its_disk_and_the_check_of_it_says_so() {
    need!(Mount);
    let scene = Scene::new();
    scene.src.file("a", "1");
    let root = scene.root().display().to_string();
    let job = format!("input = '{root}/src'\noutput = '{root}/mnt/dir'\nrequire-mount = true\n");
    scene.tree(".").file("job.toml", job).dir("mnt");
    let bound = Mount::bind(&scene.path("mnt"), &scene.path("mnt"));
    scene.bare(["--job", "job.toml"]).run().assert_code(2).assert_says("its disk is not mounted");
    let check = scene.bare(["jobs", "check", "job.toml"]).run();
    check.assert_code(1).assert_says("its disk is not mounted");
    assert_eq!(names_below(&scene.path("mnt"), "d").len(), 0);
    drop(bound);
    let _disk = Mount::tmpfs(&scene.path("mnt"), "4m");
    scene.bare(["jobs", "check", "job.toml"]).run().assert_code(0);
    scene.bare(["--job", "job.toml"]).run().assert_code(0);
}

#[test]
fn a_disk_is_found_by_its_name() {
    need!(Loop);
    let scene = Scene::on_disk();
    scene.src.file("a", "1");
    let label = format!("disk {}", std::process::id());
    let one = Mount::ext4(&scene.path("one.img"), 16, &scene.path("one"));
    let uuid = names_of(&scene, "one.img", &label);
    let by_label = format!("LABEL={label}/dir");
    copy_to(&scene, &by_label, &[]).assert_code(0);
    assert!(scene.path("one/dir/a").exists());
    let output = &report(&scene)["outputs"][0];
    assert_eq!(output["path"], scene.path("one/dir").to_str().unwrap());
    assert_eq!(output["given"], by_label);
    // The label of the figures is the same wherever the disk is, and whether it is there.
    let sample = format!("dircopy_exit_code{{output=\"{by_label}\"}}");
    assert!(metrics(&scene).contains(&format!("{sample} 0")), "{}", metrics(&scene));

    copy_to(&scene, &format!("UUID={}/by", uuid.to_uppercase()), &[]).assert_code(0);
    assert!(scene.path("one/by/a").exists());
    // Which of two is meant is not known.
    let two = Mount::ext4(&scene.path("two.img"), 16, &scene.path("two"));
    names_of(&scene, "two.img", &label);
    copy_to(&scene, &by_label, &[]).assert_code(2).assert_says("two disks that are called so");
    drop((one, two));
    let run = copy_to(&scene, &by_label, &[]);
    run.assert_code(2).assert_says(&format!("no mounted disk has the label {label}"));
    let error = report(&scene)["error"]["text"].as_str().unwrap().to_owned();
    assert!(error.contains("no mounted disk has the label"), "{error}");
    assert!(metrics(&scene).contains(&format!("{sample} 2")));
    assert_eq!(names_below(&scene.path("one"), "d").len(), 0);
    // No path is guessed: the directory of that name has a point before it.
    copy_to(&scene, &format!("./LABEL={label}"), &[]).assert_code(0);
    assert!(scene.path(&format!("LABEL={label}/a")).exists());
    // A stream goes to the disk, or nowhere.
    let stream = scene.bare(["-i", "-", "-o", &by_label]).run();
    stream.assert_code(2).assert_says("no mounted disk has the label");
    // So is what is read; who is told by --on-end reads what was given.
    let tell = "sh -c 'printf %s \"$DIRCOPY_SOURCE $DIRCOPY_OUTPUT\" >told'";
    let run = scene.bare([&*by_label, "dst", "--on-end", tell]).run();
    run.assert_code(2).assert_says(&format!("cannot copy from {by_label}: no mounted disk has"));
    let told = std::fs::read_to_string(scene.path("told")).unwrap();
    assert_eq!(told, format!("{by_label} {}", scene.path("dst").display()));
    scene.bare(["verify", &by_label]).run().assert_code(2).assert_says("no mounted disk has");
    scene.bare(["generations", &by_label]).run().assert_code(2).assert_says("no mounted disk has");
    let there = Mount::device(&scene.path("one.img"), &scene.path("one"), "loop").unwrap();
    scene.bare(["verify", &by_label]).run().assert_code(0);
    scene.bare([&*by_label, "back", "--exclude", "/dircopy-*"]).run().assert_code(0);
    assert!(scene.path("back/a").exists());
    scene.bare(["restore", &by_label, "again"]).run().assert_code(0);
    assert_eq!(names_below(&scene.path("again"), "f").len(), 1);
    drop(there);
}

#[test]
fn the_day_and_the_machine_are_part_of_the_path() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    scene.tree(".").dir("out");
    let zone = "TZ=Asia/Kolkata";
    let [before, after] = [(); 2].map(|()| {
        let date = shell(&scene, &format!("{zone} date +%F")).trim().to_owned();
        copy_to(&scene, "out/{date}-{host}-{{date}}{", &[]).assert_code(0);
        date
    });
    let host = shell(&scene, "uname -n").trim().to_owned();
    let is_today = |date: &String| scene.path(&format!("out/{date}-{host}-{{date}}{{")).exists();
    // The clock may have struck midnight between.
    assert!([&before, &after].into_iter().any(is_today));
    assert_eq!(report(&scene)["outputs"][0]["given"], "out/{date}-{host}-{{date}}{");
    assert!(metrics(&scene).contains("{output=\"out/{date}-{host}-{{date}}{\"} 0"));
    // Braces of other kinds are what they are.
    copy_to(&scene, "out/{A}{}{9-b}", &[]).assert_code(0);
    assert!(scene.path("out/{A}{}{9-b}/a").exists());
    std::fs::remove_file(scene.path("r.json")).unwrap();
    for wrong in ["out/{dat}", "LABEL=x/{day}"] {
        let run = copy_to(&scene, wrong, &[]);
        run.assert_code(2).assert_says("which stands for nothing").assert_says("{date}, {label}");
    }
    assert!(!scene.path("r.json").exists(), "a wrong command line leaves no report");
    // A stream has its day too.
    let run = scene.bare(["-i", "src/a", "-i", "src/a", "-o", "out/{host}.twice"]).run();
    run.assert_code(0);
    assert_eq!(std::fs::read(scene.path(&format!("out/{host}.twice"))).unwrap(), b"11");
}

/// A label is whatever was written onto the card.
#[test]
fn a_hostile_label_is_no_path() {
    need!(Loop);
    let scene = Scene::on_disk();
    let card = Mount::ext4(&scene.path("card.img"), 16, &scene.path("card"));
    std::fs::write(scene.path("card/clip"), "1").unwrap();
    scene.tree(".").dir("out/deep");
    let copy = |more: &[&str]| {
        let output = "out/deep/{label}-x";
        scene.bare(["-i", "card", "-o", output].iter().chain(more)).run()
    };
    copy(&[]).assert_code(2).assert_says("the source's disk has no label");
    for (label, name) in [
        ("../../../etc", "_._.._.._etc-x"),
        ("..", "__-x"),
        ("/abs", "_abs-x"),
        ("EOS DIGITAL", "EOS_DIGITAL-x"),
        ("\u{1b}[31m\n{host}", "__31m__host_-x"),
        ("LABEL=x", "LABEL_x-x"),
    ] {
        names_of(&scene, "card.img", label);
        copy(&[]).assert_code(0);
        let found: Vec<PathBuf> = std::fs::read_dir(scene.path("out/deep"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into())
            .collect();
        assert_eq!(found, [Path::new(name)], "{label:?}");
        shell(&scene, "rm -r out/deep/*");
        assert_eq!(shell(&scene, "ls out").trim(), "deep");
    }
    drop(card);
}

/// Disks that are mounted in turn at one path, with their records elsewhere, are not taken for each other: neither where
/// they have a UUID, nor where nothing tells them apart but what lies on them.
#[test]
fn disks_that_are_mounted_in_turn_have_records_of_their_own() {
    need!(Ntfs, Loop);
    for kind in ["ntfs", "ext4"] {
        let scene = Scene::new();
        for (card, file) in [("c1", "a"), ("c2", "b")] {
            scene.tree(card).file(file, content(20_000)).mtime(file, 1_577_836_800, 0);
        }
        scene.tree("state");
        let disks = ["one", "other"].map(|disk| {
            Mount::of_size(kind, 32, &scene.path(&format!("{disk}.img")), &scene.path(disk))
        });
        let usb = scene.path("usb");
        let copy = |card: &str, disk: &str| {
            std::fs::create_dir_all(&usb).unwrap();
            let _mount = Mount::bind(&scene.path(disk), &usb);
            scene.bare(["-i", card, "-o", "usb", "--state", "state"]).run()
        };
        copy("c1", "one").assert_code(0);
        let run = copy("c2", "other");
        assert!(!run.assert_code(0).err().contains("earlier run"), "{kind}: {}", run.err());
        let rot =
            "printf X | dd of=one/a bs=1 seek=500 conv=notrunc status=none; touch -r c1/a one/a";
        shell(&scene, rot);
        {
            let _mount = Mount::bind(&scene.path("one"), &usb);
            scene
                .bare(["verify", "--state", "state", "usb"])
                .run()
                .assert_code(4)
                .assert_says("usb/a");
        }
        let run = copy("c1", "one");
        run.assert_code(0).assert_says("usb/a: its content differs").assert_says("copied anew");
        assert!(!run.err().contains("usb/b"), "{kind}: {}", run.err());
        shell(&scene, "cmp c1/a one/a");
        drop(disks);
    }
}

/// Where disks are mounted and none is, the copy is made on the system's own: that is said before it, and at its end.
#[test]
fn a_first_copy_where_no_disk_is_mounted_is_told() {
    need!(Root);
    let scene = Scene::new();
    scene.src.file("a", "1");
    let at = PathBuf::from(format!("/mnt/dircopy-it-{}", std::process::id()));
    let [one, two] = ["one", "two"].map(|name| at.join(name).join("night").display().to_string());
    shell(&scene, &format!("mkdir -p {0}/one {0}/two", at.display()));
    if shell(&scene, "stat -c %d / /mnt | uniq | wc -l").trim() == "1" {
        let both = |more: &[&str]| scene.bare([&["src", &*one, &*two], more].concat()).run();
        let said =
            |output: &str| format!("warning: cannot find a disk for {output}: none is mounted");
        both(&["-n"]).assert_code(0).assert_says(&said(&one)).assert_says(&said(&two));
        let run = both(&[]);
        run.assert_code(0).assert_says(&said(&one)).assert_says(&said(&two));
        run.assert_prints(&[
            "at both outputs; all on the system's own disk, as none is mounted there",
        ]);
        // Who has seen it once knows it.
        let run = both(&[]);
        run.assert_code(0);
        assert!(!run.err().contains("find a disk"), "{}", run.err());
        let run = scene.bare(["src", &*at.join("one/other").display().to_string()]).run();
        run.assert_code(0).assert_says("one/other: none is mounted there");
        both(&["--require-mount"]).assert_code(2);
    }
    shell(&scene, &format!("rm -r {}", at.display()));
}

/// What was given as a disk is called so, by its label and not only by where it is mounted.
#[test]
fn an_output_that_is_named_by_its_label_is_called_so() {
    need!(Loop);
    let scene = Scene::on_disk();
    scene.src.file("big", content(20_000_000)).file("a", "1");
    let disk = Mount::ext4(&scene.path("one.img"), 16, &scene.path("one"));
    let label = format!("small{}", std::process::id());
    names_of(&scene, "one.img", &label);
    let output = format!("LABEL={label}/{{host}}");
    let called = format!("LABEL={label}/{}", shell(&scene, "hostname").trim());
    let run = scene.bare(["src", &*output]).run();
    run.assert_code(2).assert_says(&format!("dircopy: {called}: cannot copy to "));
    let run = scene.bare(["src", &*output, "--no-space-check"]).run();
    run.assert_code(1).assert_prints(&["output", &called]);
    let last = run.out().lines().last().unwrap_or_default().to_owned();
    assert!(last.contains(&format!("{called} is full: 1 of 2 files are done")), "{last}");
    // The report has the path, at each of several; how many there are is known of the other.
    let run = scene.bare(["src", &*output, "two", "--no-space-check", "--report", "r.json"]).run();
    run.assert_code(1).assert_says(&format!("dircopy: {called}: cannot "));
    run.assert_prints(&[" is full: 1 of 2 files are done"]);
    let report = report(&scene);
    let path = &report["outputs"][0]["path"];
    let entries = report["entries"].as_array().unwrap();
    assert!(entries.iter().any(|entry| entry["output"] == *path), "{entries:#?}");
    drop(disk);
}
