//! What was read back after its device was away, or the machine was restarted, and what later runs say of it.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::harness::{Act, Mirror, Mount, Run, Scene, content, need, shell};

fn verify(scene: &Scene, more: &[&str]) -> Run {
    scene.bare([&["verify", "--report", "v.json"], more].concat()).run()
}

/// A check that finds all as listed, and says nothing of late reading.
fn assert_not_late(run: &Run) {
    run.assert_code(0);
    assert!(!run.out().contains("replugged"), "{}", run.out());
}

fn today(scene: &Scene) -> String {
    shell(scene, "date -u +%F").trim().to_owned()
}

/// A disk at `disk`, which can be pulled and plugged in again.
struct Disk<'a> {
    scene: &'a Scene,
    mounted: Option<Mount>,
}

impl<'a> Disk<'a> {
    fn new(scene: &'a Scene) -> Self {
        let mounted = Some(Mount::ext4(&scene.path("image"), 16, &scene.path("disk")));
        Self { scene, mounted }
    }

    /// By what the kernel tells that it came anew.
    fn number(&self) -> String {
        shell(self.scene, "cat /sys/dev/block/$(mountpoint -d disk)/diskseq")
    }

    fn pull(&mut self) {
        drop(self.mounted.take());
        // Whoever looks at every device that changes may hold it for a moment, and it would be taken again.
        let gone = "for i in $(seq 400); do [ -z \"$(losetup -j image)\" ] && exit; sleep 0.02; done; exit 1";
        shell(self.scene, gone);
    }

    fn plug(&mut self) {
        let (image, at) = (self.scene.path("image"), self.scene.path("disk"));
        self.mounted = Some(Mount::device(&image, &at, "loop").unwrap());
    }

    fn replug(&mut self) {
        let before = self.number();
        self.pull();
        self.plug();
        assert_ne!(before, self.number(), "it was away");
    }
}

#[test]
fn a_check_after_the_device_was_away_is_known() {
    need!(Loop);
    let scene = Scene::on_disk();
    scene.src.file("a", "1").file("dir/b", content(100_000)).file("c", "3");
    let mut disk = Disk::new(&scene);
    let copy = || {
        let run = scene.bare(["src", "disk/out", "--overwrite-policy", "update"]).run();
        run.assert_code(0);
        run
    };
    assert_not_late(&copy());
    assert_not_late(&verify(&scene, &["disk/out"]));
    // Another way to the same device, which never went.
    let bound = Mount::bind(&scene.path("disk"), &scene.path("bound"));
    assert_not_late(&verify(&scene, &["bound/out"]));
    drop(bound);
    disk.replug();
    // What is only there, or read from the cache, was not read back.
    assert_not_late(&copy());
    assert_not_late(&verify(&scene, &["disk/out", "--from", "cache"]));
    let day = today(&scene);
    let one = format!("replugged   {day}: 1 of 3 files");
    verify(&scene, &["disk/out", "--max-bytes", "1"]).assert_code(0).assert_prints(&[&one]);
    verify(&scene, &["disk/out"]).assert_code(0).assert_prints(&[&format!("replugged   {day}")]);
    let report: Value =
        serde_json::from_slice(&std::fs::read(scene.path("v.json")).unwrap()).unwrap();
    assert_eq!(report["replugged"], *day, "{report}");
    // A copy sets what it writes back, and that alone.
    scene.src.file("a", "another");
    copy().assert_prints(&["proof ", &format!("replugged {day}: 2 of 3 files")]);
    let of_two = format!("replugged   {day}: 2 of 3 files");
    verify(&scene, &["disk/out"]).assert_prints(&[&of_two]);
    disk.replug();
    let all = verify(&scene, &["disk/out"]);
    assert!(all.out().contains(&format!("replugged   {day}\n")), "{}", all.out());
    // What was written to meanwhile, though it is as listed, may have come a moment ago.
    shell(&scene, "cp -p disk/out/c x; cat x >disk/out/c; touch -r x disk/out/c");
    disk.replug();
    verify(&scene, &["disk/out"]).assert_code(0).assert_prints(&[&of_two]);
    // And what is damaged is none.
    shell(&scene, "echo bad >>disk/out/dir/b");
    disk.replug();
    let run = verify(&scene, &["disk/out"]);
    run.assert_code(4).assert_prints(&[&one]);
}

/// A change time of the future leaves a row in doubt for ever; that the file is the one of the row, and good, is read.
#[test]
fn a_late_reading_settles_a_row_in_doubt() {
    need!(Loop);
    let scene = Scene::on_disk();
    scene.src.file("a", "1").file("b", "2");
    let mut disk = Disk::new(&scene);
    let copy = || scene.bare(["src", "disk/out"]).run();
    copy().assert_code(0);
    disk.pull();
    shell(&scene, "debugfs -w -R 'set_inode_field /out/b ctime 20990101000000' image");
    disk.plug();
    copy().assert_code(0);
    let record = std::fs::read_to_string(scene.path("disk/out/.dircopy/record")).unwrap();
    let of_b = record.lines().find(|line| line.ends_with(" b")).unwrap();
    assert!(of_b.starts_with("s?-,in:2,at:"), "{record}");
    let day = today(&scene);
    verify(&scene, &["disk/out"]).assert_prints(&[&format!("replugged   {day}: 1 of 2 files")]);
    disk.replug();
    let all = verify(&scene, &["disk/out"]);
    assert!(all.out().contains(&format!("replugged   {day}\n")), "{}", all.out());
    // The next run reads it once more, finds it the same, and takes nothing back.
    scene.src.file("c", "3");
    copy().assert_prints(&[&format!("replugged {day}: 2 of 3 files")]);
}

/// Rows of the version before have no epoch: they get one, and say nothing before the next.
#[test]
fn rows_without_an_epoch_are_not_replugged() {
    need!(Loop);
    let scene = Scene::on_disk();
    scene.src.file("a", "1").file("b", "2");
    let mut disk = Disk::new(&scene);
    let copy = || scene.bare(["src", "disk/out"]).run();
    copy().assert_code(0);
    let rows = "disk/out/.dircopy/record";
    let text = std::fs::read_to_string(scene.path(rows)).unwrap();
    let (head, rest) = text.split_once('\n').unwrap();
    assert_eq!(text.matches(",in:1,at:").count(), 2);
    // Of the flags the letters alone.
    let as_before = |line: &str| match line.split_once(' ') {
        Some((flags, row)) if flags.contains(",in:1") => format!("{} {row}", &flags[..3]),
        _ => line.to_owned(),
    };
    let rest = rest.split_inclusive('\n').map(as_before).collect::<String>();
    let old = format!("{head}\n{}", summed_anew(head, &rest));
    std::fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(scene.path(rows))
        .and_then(|mut file| std::io::Write::write_all(&mut file, old.as_bytes()))
        .unwrap();
    disk.replug();
    assert_not_late(&verify(&scene, &["disk/out"]));
    // The old rows are believed: nothing is read.
    scene.src.file("c", "3");
    copy().assert_code(0).assert_prints(&["copied      1 file"]);
    let text = std::fs::read_to_string(scene.path(rows)).unwrap();
    assert_eq!(text.matches(",in:2").count(), 3, "{text}");
    assert_not_late(&verify(&scene, &["disk/out"]));
    disk.replug();
    let all = verify(&scene, &["disk/out"]);
    assert!(all.out().contains(&format!("replugged   {}\n", today(&scene))), "{}", all.out());
}

/// The lines of a record behind its head, with sums of what stands before them now.
fn summed_anew(head: &str, lines: &str) -> String {
    let (mut all, start) = (format!("{head}\n"), head.len() + 1);
    for line in lines.lines() {
        let sum = line.strip_prefix("= ").and_then(|sum| sum.split_once(' '));
        let line = sum.map_or(line.to_owned(), |(rows, _)| {
            let sum =
                Sha256::digest(&all).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            format!("= {rows} {sum}")
        });
        all += &format!("{line}\n");
    }
    all.split_off(start)
}

/// Another start of the machine, as the kernel names it.
fn restarted(scene: &Scene, name: &str, args: &[&str]) -> Run {
    scene.tree(".").file("boot", format!("{name}\n"));
    let mount = "mount --bind boot /proc/sys/kernel/random/boot_id";
    let run = scene.bare(args).after(mount).under(["unshare", "-m"]).run();
    run.assert_code(0);
    run
}

#[test]
fn a_server_in_user_space_is_never_replugged() {
    need!(Fuse, Mount);
    let scene = Scene::on_disk();
    scene.src.file("a", "1");
    let (truth, shown) = (scene.path("truth"), scene.path("shown"));
    std::fs::create_dir(&truth).unwrap();
    let _server = Mirror::mount(&truth, &shown, |_| Act::Pass);
    scene.bare(["src", "shown/out", "--verify"]).run().assert_code(0);
    assert_not_late(&restarted(&scene, "1", &["verify", "shown/out"]));
    // Nor on the disk below it: no epoch is known of what came through it.
    assert_not_late(&restarted(&scene, "2", &["verify", "truth/out"]));
}

#[test]
fn a_restart_counts_for_a_disk_alone() {
    need!(Loop);
    let (disk, memory) = (Scene::on_disk(), Scene::new());
    for scene in [&disk, &memory] {
        scene.src.file("a", "1");
        scene.copy(&[]).assert_code(0);
    }
    let _memory = Mount::tmpfs(&memory.path("memory"), "8m");
    memory.bare(["src", "memory/out"]).run().assert_code(0);
    let first = restarted(&disk, "1", &["verify", "dst"]);
    first.assert_prints(&[&format!("replugged   {}", today(&disk))]);
    assert_not_late(&restarted(&memory, "1", &["verify", "memory/out"]));
    // The record of another output says nothing of this one.
    shell(&disk, "cp -a dst other");
    assert_not_late(&restarted(&disk, "2", &["verify", "other"]));
}
