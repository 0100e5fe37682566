//! The worth of a sync at an output: what a run says of it, and what `--require-durable` refuses.

use std::path::Path;

use serde_json::Value;

use crate::harness::{Act, Habit, Mirror, Mount, Run, Scene, content, names_below, need};

const MEMORY: &str = "its file system is in memory";

/// A scene with a file to copy, on the disk that holds the build.
fn scene() -> Scene {
    let scene = Scene::on_disk();
    scene.src.file("a", "1");
    scene
}

/// A copy to the directory `dir`, which says this of its durability everywhere.
fn assert_worth(scene: &Scene, dir: &str, word: &str, why: Option<&str>) -> Run {
    let records = ["--report", "r.json", "--metrics", "m.prom", "--overwrite-policy", "always"];
    let run = scene.bare(["src", dir].into_iter().chain(records)).run();
    run.assert_code(0);
    let of_proof = why.map_or_else(|| format!("durable: {word};"), |why| format!("({why});"));
    run.assert_prints(&["proof ", &format!("durable: {word}"), &of_proof, "not read back"]);
    let report: Value =
        serde_json::from_slice(&std::fs::read(scene.path("r.json")).unwrap()).unwrap();
    let proof = &report["outputs"][0]["proof"];
    assert_eq!((&proof["durable"], proof["durable_why"].as_str()), (&word.into(), why), "{proof}");
    let metrics = std::fs::read_to_string(scene.path("m.prom")).unwrap();
    let gauge = format!(",fate=\"{word}\"}} 1");
    let is_gauge = |line: &str| line.starts_with("dircopy_durable{") && line.ends_with(&gauge);
    assert!(metrics.lines().any(is_gauge), "{metrics}");
    scene.bare(["report", "r.json", "-o", "page.html"]).run().assert_code(0);
    let page = std::fs::read_to_string(scene.path("page.html")).unwrap();
    assert!(page.contains(&format!("durable: {word}")), "{page}");
    run
}

/// Nothing is made where only a device's word is taken.
fn assert_refused(scene: &Scene, dir: &str, why: &str) {
    for more in [&[][..], &["--mirror"], &["--generations"], &["--bag"], &["-n"], &["other"]] {
        let new = format!("{dir}/refused");
        let run = scene.bare([&["--require-durable", "src", &new], more].concat()).run();
        // Of several outputs the others may be as they must.
        let codes = if more.contains(&"other") { &[1, 2][..] } else { &[2] };
        run.assert_says(why).assert_code_in(codes);
        assert!(!scene.path(&new).exists(), "{more:?}");
    }
}

fn assert_taken(scene: &Scene, dir: &str) {
    scene.bare(["src", &format!("{dir}/new"), "--require-durable"]).run().assert_code(0);
}

#[test]
fn a_disk_of_this_machine_is_a_device() {
    need!(Loop);
    let scene = scene();
    let (image, at) = (scene.path("image"), scene.path("disk"));
    let disk = Mount::ext4(&image, 16, &at);
    assert_worth(&scene, "disk", "device", None);
    assert_taken(&scene, "disk");
    // What is mounted below it may be worth less.
    let inner = Mount::tmpfs(&at.join("inner"), "1m");
    assert_worth(&scene, "disk", "unknown", Some(MEMORY));
    drop((inner, disk));
    let why = "it is mounted with nobarrier: its device is not told to flush";
    let _disk = Mount::device(&image, &at, "loop,nobarrier").unwrap();
    std::fs::remove_dir(at.join("inner")).unwrap();
    assert_worth(&scene, "disk", "unknown", Some(why));
    assert_refused(&scene, "disk", why);
}

#[test]
fn memory_is_not() {
    need!(Loop);
    let scene = scene();
    let _memory = Mount::tmpfs(&scene.path("memory"), "32m");
    assert_worth(&scene, "memory", "unknown", Some(MEMORY));
    assert_refused(&scene, "memory", MEMORY);
    // Nor is a disk that is a file in it.
    let _disk = Mount::ext4(&scene.path("memory/image"), 16, &scene.path("disk"));
    assert_worth(&scene, "disk", "unknown", Some(MEMORY));
}

/// What has the path of the image by now is not it.
#[test]
fn a_file_under_the_path_of_an_image_is_not_the_image() {
    need!(Loop);
    let scene = scene();
    let _memory = Mount::tmpfs(&scene.path("memory"), "32m");
    let _disk = Mount::ext4(&scene.path("memory/image"), 16, &scene.path("disk"));
    std::fs::create_dir(scene.path("shadow")).unwrap();
    std::fs::write(scene.path("shadow/image"), "").unwrap();
    let _shadow = Mount::bind(&scene.path("shadow"), &scene.path("memory"));
    let why = "its device cannot be seen from here";
    assert_worth(&scene, "disk", "unknown", Some(why));
    assert_refused(&scene, "disk", why);
}

#[test]
fn an_overlay_is_worth_what_its_upper_directory_is() {
    need!(Loop);
    let scene = scene();
    let _disk = Mount::ext4(&scene.path("image"), 16, &scene.path("disk"));
    let _memory = Mount::tmpfs(&scene.path("memory"), "16m");
    let layers = |lower: &str, upper: &str| {
        let made = [lower.to_owned(), format!("{upper}/up, per"), format!("{upper}/work")];
        let made = made.map(|dir| scene.path(&dir));
        made.iter().for_each(|dir| std::fs::create_dir_all(dir).unwrap());
        made
    };
    let mounted = |[lower, upper, work]: &[std::path::PathBuf; 3], more: &str| {
        let shown = |path: &Path| path.display().to_string().replace(',', "\\,");
        let (lower, upper, work) = (shown(lower), shown(upper), shown(work));
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}{more}");
        std::fs::create_dir_all(scene.path("over")).unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "overlay", "-o", &options, "none"]).arg(scene.path("over"));
        assert!(mount.status().unwrap().success(), "{options}");
        Unmount(scene.path("over"))
    };
    let over = mounted(&layers("memory/lower", "disk"), "");
    assert_worth(&scene, "over", "device", None);
    assert_taken(&scene, "over");
    drop(over);
    let over = mounted(&layers("disk/lower", "memory"), "");
    assert_worth(&scene, "over", "unknown", Some(MEMORY));
    assert_refused(&scene, "over", MEMORY);
    drop(over);
    let over = mounted(&layers("memory/lower", "disk"), ",volatile");
    let why = "its overlay is mounted volatile, and syncs nothing";
    assert_worth(&scene, "over", "unknown", Some(why));
    drop(over);
    // The path is that of another directory.
    let hidden = layers("memory/lower", "disk/second");
    let _over = mounted(&hidden, "");
    let _another = Mount::tmpfs(&scene.path("disk/second"), "1m");
    std::fs::create_dir_all(&hidden[1]).unwrap();
    let why = "the upper directory of its overlay cannot be seen from here";
    assert_worth(&scene, "over", "unknown", Some(why));
}

/// An overlay, which is let go of at the end.
struct Unmount(std::path::PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// With and without a sync of its own: the kernel gives the same answers, so nobody can tell.
#[test]
fn a_server_in_user_space_is_not_known() {
    need!(Fuse);
    for habits in [&[][..], &[Habit::HasNoSync]] {
        let scene = scene();
        let truth = scene.path("truth");
        std::fs::create_dir(&truth).unwrap();
        let _mirror = Mirror::with_habits(&truth, &scene.path("shown"), habits, |_| Act::Pass);
        let why =
            "whether a FUSE file system can sync is not told: without it, every sync succeeds";
        assert_worth(&scene, "shown", "unknown", Some(why));
        assert_refused(&scene, "shown", why);
    }
}

/// Only where SHA-256 was, and by this run.
#[test]
fn what_was_hashed_twice_is_said_to_be() {
    let scene = scene();
    scene.src.file("large", content(3 << 20));
    let run = scene.bare(["src", "dst", "--verify"]).run();
    run.assert_code(0).assert_prints(&["proof ", "hashed twice 1 in 256; durable: "]);
    run.assert_prints(&["proof ", "; read back"]);
    for hash in ["xxh128", "none"] {
        let run = scene.bare(["src", hash, "--hash", hash]).run();
        run.assert_code(0).assert_prints(&["proof ", "durable: "]);
        assert!(!run.out().contains("hashed twice"), "{}", run.out());
    }
    // Nothing was written or read, so nothing was proven.
    let run = scene.bare(["src", "dst"]).run();
    run.assert_code(0);
    assert!(!run.out().contains("proof ") && !run.out().contains("durable: "), "{}", run.out());
}

#[test]
fn what_was_not_synced_is_said_to_be() {
    let scene = scene();
    let run = scene.bare(["src", "dst", "--no-sync", "--report", "r.json"]).run();
    run.assert_code(0).assert_prints(&["proof ", "not synced; not read back"]);
    run.assert_prints(&["written, not synced, not read back"]);
    assert!(!run.out().contains("durable"), "{}", run.out());
    let report: Value =
        serde_json::from_slice(&std::fs::read(scene.path("r.json")).unwrap()).unwrap();
    assert_eq!(report["outputs"][0]["proof"]["durable"], "not-synced");
    // The two contradict each other, and nothing is made.
    let run = scene.bare(["src", "new", "--no-sync", "--require-durable"]).run();
    run.assert_code(2);
    assert!(!scene.path("new").exists() && names_below(&scene.dst, "f").len() > 1);
    // A stream would not look.
    scene.bare(["-i", "src/a", "-o", "-", "--require-durable"]).run().assert_code(2);
}
