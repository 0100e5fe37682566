//! Files that are not what they were when they were planned. A shard goes by its list as far as it can, so what the
//! list says is not to be believed where it is no longer so.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::Cluster;
use crate::harness::{Scene, Strace, content, need, shell};

const FILES: [&str; 8] =
    ["grown", "shrunk", "rewritten", "replaced", "emptied", "closed", "holes", "same"];

/// One directory of small files, planned, which are all in one shard.
fn planned() -> Cluster {
    let scene = Scene::new();
    for (number, name) in FILES.iter().enumerate() {
        scene
            .src
            .file(format!("dir/{name}"), content(3000 + number))
            .mode(format!("dir/{name}"), 0o644);
    }
    let cluster = Cluster { scene };
    set_times(&cluster);
    cluster.plan_with(&[]).assert_code(0);
    assert_eq!(cluster.shards(), 1);
    cluster
}

/// Directories get the times that they had when they were planned.
fn set_times(cluster: &Cluster) {
    cluster.scene.src.mtime("dir", 1_000_000_000, 1).mtime("", 1_000_000_000, 2);
}

#[test]
fn files_are_copied_as_they_are_now() {
    let cluster = planned();
    let src = &cluster.scene.src;
    src.file("dir/grown", content(200_000)).file("dir/shrunk", "less").file("dir/emptied", "");
    src.file("dir/rewritten", "x".repeat(3002))
        .file("other", content(3003))
        .mode("dir/closed", 0o600);
    fs::rename(src.path("other"), src.path("dir/replaced")).unwrap();
    let punch = "fallocate --punch-hole --offset 0 --length 1000 src/dir/holes";
    shell(&cluster.scene, punch);
    set_times(&cluster);
    let run = cluster.shard(0);
    run.assert_code(0).assert_says("6 of its files changed since it was planned");
    assert!(!run.err().contains("dir/"), "they are told together: {}", run.err());
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
    let closed = fs::metadata(cluster.out().join("dir/closed")).unwrap();
    assert_eq!(closed.permissions().mode() & 0o777, 0o600, "as the source has it now");
}

/// What is no file any more is not copied for one, and is named.
#[test]
fn files_that_became_something_else_are_named() {
    let cluster = planned();
    let src = &cluster.scene.src;
    src.remove("dir/same").remove("dir/grown").remove("dir/shrunk");
    symlink("/etc/passwd", src.path("dir/same")).unwrap();
    fs::create_dir(src.path("dir/grown")).unwrap();
    shell(&cluster.scene, "mkfifo src/dir/shrunk");
    let run = cluster.shard(0);
    run.assert_code(1);
    for name in ["dir/same", "dir/grown", "dir/shrunk"] {
        run.assert_says(name);
    }
    for name in ["same", "grown", "shrunk"] {
        let copied = cluster.out().join("dir").join(name).symlink_metadata();
        assert!(copied.is_err() || !copied.unwrap().is_file(), "{name}");
    }
    cluster.finish().assert_code(1).assert_says("shard 0 is not done");
}

/// A shard asks nothing of a file again that its list says: it opens it, and looks at it when it was read.
#[test]
fn a_shard_does_not_look_where_the_plan_looked() {
    need!(Strace);
    let cluster = planned();
    let strace = Strace::watch(&cluster.scene, Strace::STATS);
    strace.run(cluster.command("shard", &["--index", "0"])).assert_code(0);
    let looks = strace.calls();
    // But for the look at what got its name, which asks when that was made.
    let of_files = |call: &&String| {
        let is_named = |name: &&str| call.contains(&format!("\"{name}\""));
        FILES.iter().any(is_named) && !call.contains("STATX_ALL")
    };
    assert_eq!(looks.iter().filter(of_files).collect::<Vec<_>>(), Vec::<&String>::new());
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}

/// A plan of another format is refused, and not read as if it were of this one.
#[test]
fn a_plan_of_an_earlier_version_is_refused() {
    let cluster = planned();
    let path = cluster.plan_dir().join("plan.json");
    let text = fs::read_to_string(&path).unwrap().replace("\"format\": 8", "\"format\": 6");
    fs::write(&path, text).unwrap();
    for run in [cluster.shard(0), cluster.finish(), cluster.status()] {
        run.assert_code(2).assert_says("format 6").assert_says("make a new plan");
    }
    assert_eq!(fs::metadata(cluster.out()).unwrap().nlink(), 4, "only its directories are there");
}

/// An option that this program does not know, or that the plan does not have, is not taken for one that was not given.
#[test]
fn a_plan_with_other_options_is_refused() {
    let cluster = planned();
    let path = cluster.plan_dir().join("plan.json");
    let text = fs::read_to_string(&path).unwrap();
    let changes = [
        ("\"sync\": true", "\"sync\": true, \"retries\": 3", "unknown field `retries`"),
        ("\"sync\": true,", "", "missing field `sync`"),
        ("\"verify\": false,", "", "missing field `verify`"),
        ("\"links\": true,", "", "missing field `links`"),
    ];
    for (old, new, why) in changes {
        assert!(text.contains(old), "{text}");
        fs::write(&path, text.replacen(old, new, 1)).unwrap();
        for run in [cluster.shard(0), cluster.finish(), cluster.status()] {
            run.assert_code(2).assert_says(why).assert_says("made it").assert_says("new plan");
        }
    }
    fs::write(&path, text).unwrap();
    cluster.shard(0).assert_code(0);
}

/// A file that differs at the output only in its permissions is left there by this policy, as by a single run: the plan
/// is not finished by that.
#[test]
fn what_is_left_as_it_is_is_not_done() {
    let scene = Scene::new();
    scene.src.file("dir/a", "a").file("dir/b", "b");
    let cluster = Cluster { scene };
    shell(&cluster.scene, &format!("cp -a src {}", cluster.out().display()));
    cluster.scene.src.mode("dir/a", 0o600);
    cluster.plan_with(&[]).assert_code(0);
    let run = cluster.shard(0);
    run.assert_code(1).assert_says("left as it is: dir/a").assert_says("shard 0 is not done");
    assert_eq!(run.err().matches("left as it is").count(), 1, "{}", run.err());
    cluster.finish().assert_code(1);
}

#[test]
fn a_manifest_that_is_gone_is_not_vouched_for() {
    let cluster = planned();
    cluster.shard(0).assert_code(0);
    cluster.finish().assert_code(0);
    cluster.status().assert_code(0);
    shell(&cluster.scene, &format!("printf x >>{}/dircopy-*.sha256sum", cluster.out().display()));
    for deed in ["true", "rm dircopy-*.sha256sum"] {
        shell(&cluster.scene, &format!("cd {} && {deed}", cluster.out().display()));
        let told = "is gone or was changed since";
        assert!(cluster.status().assert_code(1).out().contains(told));
        cluster.finish().assert_code(2).assert_says(told);
    }
}

/// At the root as well, where the output is not empty, so that a shard looks at each name.
#[test]
fn what_became_something_else_is_never_made_as_that() {
    let scene = Scene::new();
    scene.src.file("a", "a").file("b", "b").file("good", "good").symlink("l", "a");
    scene.src.symlink("m", "a").file("d/x", "x").symlink("d/n", "x").mode("a", 0o4755);
    let cluster = Cluster { scene };
    cluster.plan_with(&[]).assert_code(0);
    let src = &cluster.scene.src;
    src.remove("b").symlink("b", "a").remove("l").remove("d/n").file("l", "seventeen bytes");
    shell(&cluster.scene, "chmod 4755 src/l; mkfifo src/d/n");
    let run = cluster.shard(0);
    run.assert_code(1).assert_says("src/b: it has become a symbolic link since the plan was made");
    assert!(fs::symlink_metadata(cluster.out().join("b")).is_err());
    src.remove("b").file("b", "b");
    cluster.shard(0).assert_code(0);
    let run = cluster.finish();
    run.assert_code(1)
        .assert_says("/l: at the source it has become a file since the plan was made");
    run.assert_says("/d/n: at the source it has become a FIFO since the plan was made");
    assert!(fs::symlink_metadata(cluster.out().join("l")).is_err());
    assert!(fs::symlink_metadata(cluster.out().join("d/n")).is_err());
    assert_eq!(fs::read_link(cluster.out().join("m")).unwrap().as_os_str(), "a");
}

/// A further name whose first name left is in the source still, and nobody copied it.
#[test]
fn the_names_of_a_file_whose_first_one_left_are_named() {
    let scene = Scene::new();
    scene.src.file("a", "one").hard_link("b", "a").file("c", "c");
    let cluster = Cluster { scene };
    cluster.plan_with(&["--hard-links"]).assert_code(0);
    let first = fs::read(cluster.plan_dir().join("shards/0000.list")).unwrap();
    let is_first = |name: &str| String::from_utf8_lossy(&first).contains(&format!("\n{name}\0"));
    let (first, further) = if is_first("a") { ("a", "b") } else { ("b", "a") };
    cluster.scene.src.remove(first);
    cluster.shard(0).assert_code(0);
    let run = cluster.finish();
    let gone = format!("out/{further}: its first name is gone (");
    run.assert_code(1).assert_says(&gone).assert_says("make a new plan");
}

/// A shard finds only its own files in the source, and says nothing of others.
#[test]
fn a_shard_says_nothing_of_the_root() {
    let scene = Scene::new();
    scene.src.file("a", "a").dir("empty");
    let cluster = Cluster { scene };
    cluster.plan_with(&[]).assert_code(0);
    let run = cluster.shard(0);
    run.assert_code(0);
    assert!(!run.err().contains("cannot give"), "{}", run.err());
    cluster.finish().assert_code(0);
    cluster.is_as_a_single_run();
}
