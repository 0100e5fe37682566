//! Nights in a row: a job on a tree that changes, a night with a full disk, a night that is killed, and
//! what each leaves for those who look in the morning, or ask the service manager meanwhile.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Mount, Run, Scene, content, names_below, need, tool};

/// A job of everything in `src` to `out/copy`, with a report and figures.
fn scene() -> (Scene, Mount) {
    let scene = Scene::new();
    let mount = Mount::tmpfs(&scene.tree("out").path(""), "4m");
    let root = scene.root().display();
    let job = format!(
        "input = '{root}/src'\noutput = '{root}/out/copy'\noverwrite-policy = 'update'\n\
         report = '{root}/report'\nmetrics = '{root}/m'\nno-space-check = true\nquiet = true\n"
    );
    scene.tree(".").file("nightly.toml", job);
    (scene, mount)
}

/// A night; what its report says.
fn night(scene: &Scene, code: i32) -> (Run, Value) {
    let run = scene.bare(["--job", "nightly.toml"]).run();
    run.assert_code(code);
    let report: Value = serde_json::from_slice(&bytes(scene, "report")).unwrap();
    assert_eq!(report["exit_code"], code);
    (run, report)
}

fn bytes(scene: &Scene, name: &str) -> Vec<u8> {
    std::fs::read(scene.path(name)).unwrap()
}

/// How many entries of the report had each fate.
fn counts<const N: usize>(report: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| report["outputs"][0]["counts"][name].as_u64().unwrap())
}

/// When the figures say that all was well last.
fn last_success(scene: &Scene) -> f64 {
    let text = String::from_utf8(bytes(scene, "m")).unwrap();
    let sample = |line: &&str| line.starts_with("dircopy_last_success_timestamp_seconds{");
    text.lines().find(sample).unwrap().rsplit_once(' ').unwrap().1.parse().unwrap()
}

/// What became of the entries adds up to what was seen, and the copy is as the source and as its manifest.
#[track_caller]
fn adds_up(scene: &Scene, report: &Value) {
    let parts = ["copied", "replaced", "linked", "symlinks", "unchanged", "left", "failed"];
    let [seen] = counts(report, ["seen"]);
    assert_eq!(seen, counts(report, parts).iter().sum::<u64>(), "{report:#}");
    let list = report["outputs"][0]["manifest"]["path"].as_str().unwrap();
    let dir = Path::new(list).parent().unwrap();
    tool(
        "bash",
        &["-c", "cd \"$0\" && sha256sum -c --strict --quiet \"$1\"", dir.to_str().unwrap(), list],
    );
    let source = scene.src.root().to_str().unwrap();
    tool("diff", &["-r", "-x", "dircopy-*", "-x", ".dircopy", source, dir.to_str().unwrap()]);
}

#[test]
fn nights_in_a_row() {
    need!(Mount);
    let (scene, _mount) = scene();
    for i in 0..10 {
        scene.src.file(format!("dir/{i}"), content(20_000 + i));
    }
    let (_, first) = night(&scene, 0);
    assert_eq!(counts(&first, ["copied", "replaced", "unchanged"]), [10, 0, 0]);
    adds_up(&scene, &first);

    scene.src.file("dir/new", "new").file("dir/3", content(30_000)).symlink("link", "dir/1");
    let (_, second) = night(&scene, 0);
    assert_eq!(counts(&second, ["copied", "replaced", "unchanged", "symlinks"]), [1, 1, 9, 1]);
    adds_up(&scene, &second);

    let (_, third) = night(&scene, 0);
    assert_eq!(counts(&third, ["copied", "replaced", "unchanged"]), [0, 0, 12]);
    assert_eq!(third["outputs"][0]["resumed"], false);
    adds_up(&scene, &third);
    let success = last_success(&scene);
    assert!(success > 1.5e9);

    // The disk is full: the exit code, the report and the figures each say so.
    for i in 0..40 {
        scene.src.file(format!("more/{i:02}"), content(200_000));
    }
    let (run, full) = night(&scene, 3);
    run.assert_says("stopped early");
    assert_eq!((&full["ending"], &full["error"]["event"]), (&"stopped".into(), &"stopped".into()));
    assert_eq!(last_success(&scene), success);
    // A second night of it changes nothing about that.
    night(&scene, 3);
    assert_eq!(last_success(&scene), success);

    // Somebody makes room, and the next night is well again, and says that it went on.
    for i in 4..40 {
        scene.src.remove(format!("more/{i:02}"));
    }
    let copies = scene.path("out/copy/more");
    for name in names_below(&copies, "f") {
        let name = String::from_utf8(name).unwrap();
        if name.parse::<u32>().is_ok_and(|number| number >= 4) {
            std::fs::remove_file(copies.join(name)).unwrap();
        }
    }
    let (_, recovered) = night(&scene, 0);
    assert_eq!(recovered["outputs"][0]["resumed"], true);
    adds_up(&scene, &recovered);
    assert!(last_success(&scene) > success);

    // A night that is killed leaves the receipt of the one before, and the next goes on.
    scene.src.file("large", content(300_000)).file("larger", content(400_000));
    let (report, figures) = (bytes(&scene, "report"), bytes(&scene, "m"));
    let args = ["--job", "nightly.toml", "--limit-rate", "400K", "--workers", "1", "--no-sync"];
    let mut running = scene.bare(args).spawn();
    let copies = ["large", "larger"].map(|name| scene.path("out/copy").join(name));
    running.until("the first file", || copies.iter().any(|copy| copy.exists()));
    running.signal(Signal::KILL);
    assert_eq!(running.wait().signal, Some(9));
    assert!(bytes(&scene, "report") == report && bytes(&scene, "m") == figures);
    let (_, next) = night(&scene, 0);
    assert_eq!(next["outputs"][0]["resumed"], true);
    adds_up(&scene, &next);
}

/// What a service manager is told, by a path and by a name in the abstract namespace.
#[test]
fn the_service_manager_hears_how_it_goes() {
    let scene = Scene::new();
    scene.src.file("a", content(900_000)).file("b", "1");
    let path = scene.path("notify");
    let hidden = format!("dircopy-test-{}", std::process::id());
    let sockets = [
        (UnixDatagram::bind(&path).unwrap(), path.display().to_string()),
        (
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&hidden).unwrap()).unwrap(),
            format!("@{hidden}"),
        ),
    ];
    for (socket, name) in sockets {
        let name = format!("NOTIFY_SOCKET={name}");
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let tree = ["--limit-rate", "300K", "--workers", "1", "--overwrite-policy", "always"];
        let stream = ["-i", "src/a", "-i", "src/b", "-o", "stream", "--limit-rate", "300K"];
        let stream = stream.iter().chain(&["--overwrite-policy", "always"]);
        // Of the last nobody knows that it takes long enough to tell how far it is.
        for (command, takes_long) in [
            (scene.command(tree), true),
            (scene.bare(stream), true),
            (scene.bare(["verify", "dst"]), false),
        ] {
            command.under(["env", &name]).run().assert_code(0);
            let mut told = Vec::new();
            let mut buffer = [0; 4096];
            while let Ok(length) = socket.recv(&mut buffer) {
                told.push(String::from_utf8(buffer[..length].to_vec()).unwrap());
                if told.last().is_some_and(|text| text.contains("ended")) {
                    break;
                }
            }
            assert!(told.first().unwrap().starts_with("READY=1\nSTATUS="), "{told:?}");
            assert_eq!(told.last().unwrap(), "STOPPING=1\nSTATUS=ended: complete, exit code 0");
            let is_status = |text: &String| text.starts_with("STATUS=");
            assert!(!takes_long || told.iter().any(is_status), "{told:?}");
        }
    }
    // One that is not there, or is no name of a socket, costs nothing.
    for name in ["NOTIFY_SOCKET=/no/such", "NOTIFY_SOCKET=", "NOTIFY_SOCKET=x"] {
        scene.command(["--overwrite-policy", "always"]).under(["env", name]).run().assert_code(0);
    }
}
