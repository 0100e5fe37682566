//! What the pages and `contrib/` promise beside the copy: a restore, a card that is copied to two disks, and examples
//! that tell how a night ended. Their commands are run as they stand.

use std::path::Path;

use crate::harness::{Mount, Scene, content, names_below, need, shell};

fn read(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The commands of the guide's page on bringing everything back, on a source that has had two nights.
#[test]
fn an_archive_is_brought_back_and_proven() {
    let scene = Scene::new();
    scene.src.file("2025/snow.jpg", content(3_000_000)).file("notes", "1");
    scene.src.file("empty", "").symlink("link", "notes");
    let page = read("docs/guide/restore.md");
    let commands = page.lines().take_while(|line| *line != "## Bring one file back");
    let commands = commands.filter_map(|line| line.strip_prefix("$ "));
    let commands: Vec<String> = commands
        .map(|line| {
            let line = line.trim_end_matches("; echo \"exit code $?\"");
            let program = |name: &str, path: &str| match line.strip_prefix(name) {
                Some(rest) => format!("{path} {rest}"),
                None => line.to_owned(),
            };
            let line = match line.starts_with("dirverify ") {
                true => program("dirverify ", env!("CARGO_BIN_EXE_dirverify")),
                false => program("dircopy ", env!("CARGO_BIN_EXE_dircopy")),
            };
            line.replace("/srv/photos", "src")
                .replace("/mnt/archive", "archive")
                .replace("/srv/restored", "restored")
        })
        .collect();
    assert!(commands.len() >= 5, "{commands:?}");
    // The night before left a manifest too.
    shell(&scene, &commands[0]);
    scene.src.file("new", content(70_000));
    for command in &commands {
        let said = shell(&scene, command);
        assert!(!command.starts_with("diff ") || said == "nothing differs\n", "{said}");
        if command.contains(" restore ") {
            assert!(said.contains("done: ") && said.contains(" at the output"), "{said}");
            assert!(said.contains("4 files as listed, 0 edited since, 0 gone"), "{said}");
        }
    }
    assert_eq!(shell(&scene, "ls archive/*.sha256sum | wc -l").trim(), "2");
    let names = names_below(&scene.path("restored"), "f");
    assert_eq!(names.len(), 4, "no manifest of the archive is among them: {names:?}");
}

/// The service's own command, with a card and two disks.
#[test]
fn a_card_is_copied_to_two_disks() {
    need!(Loop);
    let scene = Scene::on_disk();
    let disk = |name: &str, label: &str| {
        let disk = Mount::ext4(&scene.path(&format!("{name}.img")), 16, &scene.path(name));
        shell(&scene, &format!("e2label {name}.img '{label}'"));
        disk
    };
    let card = disk("card", "CARD 7");
    std::fs::write(scene.path("card/clip"), content(300_000)).unwrap();
    drop(card);
    let disks = [disk("a", "archive-a"), disk("b", "archive-b")];
    let unit = read("contrib/systemd/dircopy-card@.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let line = line.replace("%i", "${device#/dev/}").replace("%t", "/run");
    let script = format!(
        "set -e; mount -t tmpfs none /etc; mount -t tmpfs none /var/lib; mount -t tmpfs none /run
         install -D '{}' /etc/dircopy/jobs/card.toml; mkdir -p /var/lib/dircopy/cards /run/dircopy-card /run/bin
         ln -s \"$1\" /run/bin/dircopy; export PATH=/run/bin:$PATH HOME=/run; unset XDG_CONFIG_HOME
         device=$(losetup --find --show card.img); trap 'losetup -d $device' EXIT
         code=0; {line} || code=$?; cp /var/lib/dircopy/cards/* report; touch /run/dircopy-card/x && exit 99
         umount /run/dircopy-card; exit $code",
        Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/jobs/card.toml").display()
    );
    scene.bare([""]).in_shell(&script).under(["unshare", "-m"]).run().assert_code(0);
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(scene.path("report")).unwrap()).unwrap();
    assert_eq!(report["ending"], "complete");
    for (at, name) in ["a", "b"].into_iter().enumerate() {
        let output = &report["outputs"][at];
        assert_eq!(output["given"], format!("LABEL=archive-{name}/{{label}}-{{date}}"));
        let path = Path::new(output["path"].as_str().unwrap());
        assert!(path.starts_with(scene.path(name)), "{path:?}");
        assert!(path.file_name().unwrap().to_str().unwrap().starts_with("CARD_7-2"), "{path:?}");
        assert_eq!(std::fs::read(path.join("clip")).unwrap(), content(300_000));
        assert_eq!(output["counts"]["damaged"], 0);
        let read_back = &output["counts"];
        let read_back = ["from_device", "from_cache"].map(|it| read_back[it].as_u64().unwrap());
        assert_eq!(read_back.iter().sum::<u64>(), 1);
    }
    drop(disks);
    // The rule hands on nothing but the kernel's name of the device.
    let rule = read("contrib/udev/90-dircopy-card.rules");
    assert!(rule.contains("SYSTEMD_WANTS}+=\"dircopy-card@%k.service\""));
}

#[test]
fn the_examples_tell_how_a_night_ended() {
    let scene = Scene::new();
    scene.src.file("a", "1");
    for program in ["curl", "mail"] {
        let line = "#!/bin/sh\n{ printf '%s\\n' \"${0##*/}\" \"$@\"; cat; } >\"$SCENE/sent\"\n";
        scene.tree("bin").file(program, line);
    }
    shell(&scene, "chmod +x bin/*");
    let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib/notify");
    let run = |source: &str, command: &str| {
        let command = format!("{}/{command}", contrib.display());
        let path =
            format!("PATH={}:{}", scene.path("bin").display(), std::env::var("PATH").unwrap());
        let root = format!("SCENE={}", scene.root().display());
        let args = ["-i", source, "-o", "dst", "--on-end", &command];
        scene.bare(args).under(["env", &path, &root]).run()
    };
    let sent = || std::fs::read_to_string(scene.path("sent"));
    run("src", "healthchecks.sh https://example.org/id").assert_code(0);
    let said = sent().unwrap();
    assert!(
        said.starts_with("curl\n") && said.contains("https://example.org/id/0\ndone: "),
        "{said}"
    );
    run("none", "healthchecks.sh https://example.org/id").assert_code(2);
    assert!(sent().unwrap().contains("https://example.org/id/2\nrefused: "));
    std::fs::remove_file(scene.path("sent")).unwrap();
    run("src", "mail.sh admin@example.org").assert_code(0);
    assert!(sent().is_err(), "a night without a fault needs no mail");
    run("none", "mail.sh admin@example.org").assert_code(2);
    let said = sent().unwrap();
    assert!(
        said.starts_with("mail\n-s\ndircopy on ")
            && said.contains(": refused\nadmin@example.org\n"),
        "{said}"
    );
    assert!(said.contains("exit code  2"), "{said}");
}
