//! Access lists: whom one keeps out is kept out of the copy too, also where the permissions alone would let him in, and
//! where the list cannot be kept.

use crate::harness::{NONE, Scene, Strace, content, need, shell};

/// A copy of a directory `c` with the file `h`, after `before` was done in it.
fn copied(before: &str) -> Scene {
    let scene = Scene::on_disk();
    scene.src.file("c/h", "SECRET").file("c/stays", "stays");
    shell(&scene, &format!("cd src; chmod 755 c; chmod 644 c/*; {before}"));
    scene.copy(&[]).assert_code(0);
    scene
}

/// The permissions that are not the owner's of an entry, where it has a list with its mask, are none.
fn is_closed(scene: &Scene, path: &str) {
    let mode = u32::from_str_radix(shell(scene, &format!("stat -c %a {path}")).trim(), 8).unwrap();
    assert_eq!(mode & 0o077, 0, "{path}: {}", shell(scene, &format!("getfacl -p {path}")));
}

/// The directory is in no state for others while it has what the source has not: neither by its own list, nor by what
/// the source's permissions, the mask of its list, seem to say.
#[test]
fn a_directory_with_a_list_stays_closed_over_what_left() {
    need!(Root, Attr);
    for (before, after) in [
        ("setfacl -m u:1008:0 c", "rm c/h; setfacl -b c"),
        ("setfacl -m u:1008:0 c", "rm c/h; chmod 711 c; setfacl -m u:1007:0 c"),
        ("setfacl -m g:1009:0 c", "rm c/h; setfacl -b c"),
        // It is closed by making it anew, without its list.
        ("setfacl -m u:1008:0 c", "rm c/h; setfacl -b c; chmod 711 c"),
        ("setfacl -m u:1008:rw c", "rm c/h; setfacl -b c; chmod 755 c"),
        ("chmod 711 c; setfacl -m u:1008:0 c", "rm c/h; setfacl -b c"),
        ("chmod 777 c; setfacl -m g:1009:0 c", "rm c/h; setfacl -b c; chmod 755 c"),
        ("chown 0:1009 c; chmod 750 c", "chmod 700 c; setfacl -m u:1007:rx c; rm c/h"),
    ] {
        for args in [&[][..], &["--overwrite-policy=update"]] {
            let scene = copied(before);
            shell(&scene, &format!("cd src; {after}; sleep 0.05"));
            let run = scene.copy(args);
            run.assert_code(1).assert_says("c/h, which this run did not find in the source");
            is_closed(&scene, "dst/c");
            shell(&scene, "rm dst/c/h");
            scene.copy(args).assert_code(0);
            let list = |at: &str| shell(&scene, &format!("getfacl -cn {at}/c"));
            assert_eq!(list("dst"), list("src"), "{before}, {after}");
        }
    }
}

/// Who was kept out still is, and all others get no more than they had.
#[test]
fn a_directory_that_is_closed_further_is_labelled_over_what_left() {
    need!(Root, Attr);
    let scene = copied("setfacl -m u:1008:0 c");
    shell(&scene, "cd src; rm c/h; chmod 711 c; setfacl -m u:1008:0 c; sleep 0.05");
    scene.copy(&[]).assert_code(0);
    let list = |at: &str| shell(&scene, &format!("getfacl -cn {at}/c"));
    assert_eq!(list("dst"), list("src"));
    assert!(scene.dst.join("c/h").exists());
}

/// A digest tells what is in a small file: who may not look into a directory may not read what is listed of it.
#[test]
fn what_is_listed_of_a_closed_directory_is_closed() {
    need!(Root, Attr);
    for (before, after, args, code) in [
        ("ln -s h c/gone; chmod 700 c", "rm c/gone; chmod 750 c", "--overwrite-policy=update", 1),
        ("ln -s h c/gone; chmod 700 c", "rm c/gone; chmod 750 c", "--format=dirs", 1),
        ("setfacl -m u:1008:0 c", "true", "--exclude=c", 0),
        ("setfacl -m u:1008:rw c", "rm -r c; echo k > k", "--hash=sha256,md5", 0),
    ] {
        let scene = copied(before);
        shell(&scene, &format!("echo k > src/k; cd src; {after}"));
        scene.copy(&[args]).assert_code(code);
        let lists = shell(&scene, "stat -c '%a %n' dst/dircopy-*");
        let are_closed = lists.lines().all(|list| list.starts_with("600 "));
        assert!(lists.lines().count() > 1 && are_closed, "{lists}");
    }
}

#[test]
fn so_it_does_at_the_end_of_a_plan() {
    need!(Root, Attr);
    let scene = copied("setfacl -m u:1008:0 c");
    shell(&scene, "rm src/c/h; setfacl -b src/c; echo k > src/c/k");
    let plan = ["plan", "src", "dst", "--plan", "plan", "--overwrite-policy", "update"];
    scene.bare(plan).run().assert_code(0);
    scene.bare(["shard", "--plan", "plan", "--claim"]).run().assert_code(0);
    let run = scene.bare(["finish", "--plan", "plan"]).run();
    run.assert_code(1).assert_says("c/h, which is not in the source as it is there");
    is_closed(&scene, "dst/c");
}

/// Parity knows of no list.
#[test]
fn a_missing_file_that_had_a_list_is_made_for_its_owner() {
    need!(Root, Attr);
    for list in ["setfacl -m u:1008:0 c/h", "chmod 600 c/h; setfacl -m u:1007:r c/h"] {
        let scene = copied(list);
        scene.bare(["protect", "-q", "dst"]).run().assert_code(0);
        shell(&scene, "rm dst/c/h");
        let run = scene.bare(["heal", "dst"]).run();
        run.assert_code(0).assert_says("dst/c/h: they, or a directory above, may be others");
        assert_eq!(shell(&scene, "cat dst/c/h"), "SECRET");
        is_closed(&scene, "dst/c/h");
    }
}

/// A good copy has not the list, so the file cannot be given it.
#[test]
fn a_healed_file_whose_list_is_dropped_is_open_to_nobody_it_kept_out() {
    need!(Root, Attr);
    let scene = copied("setfacl -m u:1008:0 c/h");
    shell(&scene, "cp -r dst good; printf X | dd of=dst/c/h conv=notrunc status=none");
    let run = scene.bare(["heal", "dst", "--from-tree", "good"]).run();
    run.assert_code(0).assert_says("cannot keep the rights of dst/c/h");
    assert_eq!(shell(&scene, "cat dst/c/h"), "SECRET");
    is_closed(&scene, "dst/c/h");
}

/// Not every file system holds lists.
#[test]
fn what_cannot_get_its_list_is_open_to_nobody_it_keeps_out() {
    need!(Strace, Attr);
    for list in ["u:1008:0", "g:1009:0"] {
        let scene = Scene::on_disk();
        scene.src.file("d/f", content(9)).file("plain", "y");
        shell(
            &scene,
            &format!("chmod 644 src/d/f; chmod 755 src/d; setfacl -m {list} src/d src/d/f"),
        );
        let strace = Strace::inject(&scene, "fsetxattr", "error=EIO");
        let run = strace.run(scene.command(NONE));
        strace.fired(&run);
        run.assert_says("cannot set an extended attribute of");
        is_closed(&scene, "dst/d/f");
        is_closed(&scene, "dst/d");
    }
}
