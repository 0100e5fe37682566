//! What a file has beside its content when it is healed: owners, permissions, access lists, attributes, times.

use crate::harness::{Mount, Scene, content, need, shell};

use super::{MIB, copies, heal, healed, is_whole, rot};

/// Everything that a file has beside its content, and the directory that it is in.
fn labels(scene: &Scene, tree: &str) -> String {
    let names = "dir dir/film.mov dir/none dir/sub dir/sub/gone dir/small";
    let line = format!(
        "cd {tree}; for name in {names}; do
           stat -c '%n %A %u:%g %Y.%y' $name; getfacl -np $name; getfattr -h -m - -d -e hex $name
         done | grep -v SGI_ACL # what xfs keeps its lists in"
    );
    shell(scene, &line)
}

fn fill(scene: &Scene) {
    scene.src.file("dir/film.mov", content(5 * MIB + 77)).file("dir/none", content(2 * MIB));
    scene.src.file("dir/sub/gone", content(3 * MIB)).file("dir/small", content(500));
    // Times come last: setting anything else changes none but those of the entry itself.
    shell(
        scene,
        "cd src; setfacl -m u:1234:rw,g:99:r,m::rw dir/film.mov; setfacl -m u:77:r dir/sub/gone
         setfacl -d -m u:4321:rwx,g::r dir; setfacl -d -m u:8:rx dir/sub
         setfattr -n user.note -v kept dir/film.mov; setfattr -n user.note -v here dir/sub/gone
         setfattr -n trusted.secret -v root dir/none
         chown 1234:5678 dir/film.mov dir/small; chown 77:88 dir/sub/gone dir/sub; chown 3:4 dir
         chmod 4751 dir/small; chmod 2755 dir/sub; chmod 0 dir/none
         setfattr -n security.capability \
           -v 0x0100000200040000000000000000000000000000 dir/none
         for name in dir/film.mov dir/none dir/sub/gone dir/small dir/sub dir; do
           touch -h -d '2003-02-01 04:05:06.123456789' $name
         done",
    );
}

/// Bad files keep what they have, and those that are missing get what the copy has; so do directories. Nothing
/// is taken from what a directory would give to new files.
#[test]
fn owners_access_lists_and_attributes_are_kept() {
    need!(Root, Attr, Kinds);
    for kind in ["none", "xfs", "btrfs"] {
        let scene = Scene::on_disk();
        let (image, at) = (scene.path("image"), scene.path("m"));
        std::fs::create_dir(&at).unwrap();
        let _mount = (kind != "none").then(|| Mount::of_kind(kind, &image, &at));
        fill(&scene);
        copies(&scene, &["m/A", "m/B"], &[]);
        let was = labels(&scene, "src");
        assert_eq!(was, labels(&scene, "m/A"), "{kind}: the copy itself");
        rot(&scene, "m/A/dir/film.mov", &[7, 4 * MIB]);
        rot(&scene, "m/A/dir/none", &[0]);
        rot(&scene, "m/A/dir/small", &[0]);
        // Who writes to a file takes such a right from it.
        shell(
            &scene,
            "setfattr -n security.capability -v 0x0100000200040000000000000000000000000000 m/A/dir/none",
        );
        shell(&scene, "rm -r m/A/dir/sub; touch -d '2003-02-01 04:05:06.123456789' m/A/dir");
        let run = heal(&scene, &["m/A", "m/B"]);
        run.assert_code(0);
        assert_eq!(healed(&run).len(), 4, "{kind}: {}", run.err());
        assert_eq!(was, labels(&scene, "m/A"), "{kind}");
        is_whole(&scene.path("m/A"));
    }
}

/// What cannot be given to a healed file is said; its content is right all the same.
#[test]
fn what_cannot_be_kept_is_said() {
    need!(Root, Attr, Setpriv);
    let scene = Scene::on_disk();
    scene.src.file("a.mov", content(2 * MIB + 1)).file("b", content(2 * MIB));
    copies(&scene, &["A", "B"], &[]);
    rot(&scene, "A/a.mov", &[7]);
    // As another user, who owns the tree but not the file.
    shell(&scene, "chmod a+rx .; chown -R 65534:65534 A B; chown 1234 A/a.mov; chmod 666 A/a.mov");
    let run = scene.bare(["heal", "A", "B"]).under_nobody().run();
    assert_eq!(healed(&run), ["A/a.mov: 1 MiB from B"], "{}", run.err());
    run.assert_code(0).assert_says("A/a.mov");
    run.assert_says("cannot keep the owner of A/a.mov");
    is_whole(&scene.path("A"));
}

/// Who may write to the directory of a copy puts a file of his in its place, to be given what is good.
#[test]
fn a_bad_file_of_another_user_gets_no_more_than_the_good_copy_has() {
    need!(Root);
    for len in [300, 2 * MIB + 5] {
        let scene = Scene::new();
        scene.src.file("key", content(len)).file("dir/open", content(len));
        shell(&scene, "chmod 777 src; chown 1001:1001 src/key; chmod 600 src/key");
        copies(&scene, &["A", "B"], &[]);
        shell(
            &scene,
            "cp A/key new; rm A/key; printf x | dd of=new bs=1 conv=notrunc status=none; mv new A/key
             chown 1002:1002 A/key; chmod 644 A/key; rot=A/dir/open
             printf x | dd of=$rot bs=1 conv=notrunc status=none; chmod 666 $rot",
        );
        let run = heal(&scene, &["A", "B"]);
        run.assert_code(0).assert_says("A/key");
        let look = "stat -c '%u:%g %a' A/key A/dir/open";
        assert_eq!(shell(&scene, look), "1001:1001 600\n0:0 644\n", "{}", run.err());
        is_whole(&scene.path("A"));
    }
}
