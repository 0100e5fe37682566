//! What a test needs of the machine, and what happens where it is missing: the test is skipped and counted
//! (`skipped.rs`), or fails where all of them are asked for with `DIRCOPY_TEST_ALL=1`.

use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::skipped::lacking;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Effective uid 0: owners, devices, other users.
    Root,
    /// `strace` that may trace and inject.
    Strace,
    /// Mounting a tmpfs or a bind mount.
    Mount,
    /// A loop device with an ext4 in it.
    Loop,
    /// Loop devices with xfs and btrfs in them.
    Kinds,
    /// FUSE, for root: `/dev/fuse` and the right to mount.
    Fuse,
    /// FUSE, with ntfs-3g.
    Ntfs,
    /// `setpriv`, to run as nobody.
    Setpriv,
    /// The files of the kernel below `/sys`, which not every container has.
    Sysfs,
    /// Making device nodes, which root may not everywhere.
    Device,
    /// User attributes and ACLs: `setfattr`, `setfacl`.
    Attr,
    /// A program of no other need, by its name.
    Program(&'static str),
    /// OpenSSH's `ssh-keygen`, which has no option for its version.
    Keygen,
    /// Python with a validator of JSON Schema.
    JsonSchema,
    /// Python, and OpenSSL's library for it to call.
    Crypto,
    /// Python with Prometheus' parser.
    PrometheusClient,
    /// `systemd-analyze`.
    SystemdAnalyze,
}

/// Whether all of `needs` are here. Panics instead of saying no where every test must run.
#[track_caller]
pub fn have(needs: &[Need]) -> bool {
    let missing = needs.iter().find(|need| !probe(**need));
    if let Some(need) = missing {
        lacking(need.words());
    }
    missing.is_none()
}

impl Need {
    fn words(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Strace => "strace that may inject faults",
            Self::Mount => "right to mount",
            Self::Loop => "loop device with ext4",
            Self::Kinds => "loop devices with xfs and btrfs",
            Self::Fuse => "FUSE",
            Self::Ntfs => "ntfs-3g",
            Self::Setpriv => "root and setpriv",
            Self::Sysfs => "/sys",
            Self::Device => "right to make devices",
            Self::Attr => "setfattr and setfacl",
            Self::Program(name) => name,
            Self::Keygen => "ssh-keygen",
            Self::JsonSchema => "Python with jsonschema",
            Self::Crypto => "Python with OpenSSL's library",
            Self::PrometheusClient => "Python with prometheus_client",
            Self::SystemdAnalyze => "systemd-analyze",
        }
    }
}

/// Whether the long tests are asked for, with `DIRCOPY_TEST_LONG=1`: every fault and every power cut, not
/// a sample of them.
pub fn long() -> bool {
    std::env::var_os("DIRCOPY_TEST_LONG").is_some_and(|v| v == "1")
}

/// Leaves the test when something it needs is not here.
macro_rules! need {
    ($($need:ident),+) => {
        if !$crate::harness::have(&[$($crate::harness::Need::$need),+]) {
            return;
        }
    };
}
pub(crate) use need;

fn probe(need: Need) -> bool {
    static ROOT: OnceLock<bool> = OnceLock::new();
    static STRACE: OnceLock<bool> = OnceLock::new();
    static MOUNT: OnceLock<bool> = OnceLock::new();
    static LOOP: OnceLock<bool> = OnceLock::new();
    let root = || *ROOT.get_or_init(|| rustix::process::geteuid().is_root());
    let runs = |program: &str, args: &[&str]| {
        Command::new(program)
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    match need {
        Need::Root => root(),
        Need::Strace => *STRACE.get_or_init(|| {
            runs("strace", &["-f", "-qq", "-o", "/dev/null", "-e", "inject=sync:error=EIO", "true"])
        }),
        Need::Mount => *MOUNT.get_or_init(|| {
            // In a mount namespace of its own, so that the probe leaves nothing behind.
            root() && runs("unshare", &["-m", "mount", "-t", "tmpfs", "none", "/mnt"])
        }),
        Need::Loop => *LOOP.get_or_init(|| {
            probe(Need::Mount) && runs("losetup", &["-f"]) && runs("mkfs.ext4", &["-V"])
        }),
        Need::Kinds => {
            let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
            let both = |name: &str| {
                known.contains(&format!("\t{name}\n")) && runs(&format!("mkfs.{name}"), &["-V"])
            };
            probe(Need::Loop) && both("xfs") && both("btrfs")
        }
        Need::Fuse => probe(Need::Mount) && std::fs::File::open("/dev/fuse").is_ok(),
        Need::Ntfs => probe(Need::Fuse) && runs("mkfs.ntfs", &["-V"]) && runs("ntfs-3g", &["-V"]),
        Need::Setpriv => root() && runs("setpriv", &["--version"]),
        Need::Device => {
            let dir = tempfile::tempdir().unwrap();
            root() && runs("mknod", &[dir.path().join("null").to_str().unwrap(), "c", "1", "3"])
        }
        Need::Sysfs => std::path::Path::new("/sys/kernel/fscaps").exists(),
        Need::Program(name) => ["--version", "-V"].iter().any(|version| runs(name, &[version])),
        Need::Keygen => runs("sh", &["-c", "command -v ssh-keygen"]),
        Need::Crypto => runs(
            "python3",
            &[
                "-c",
                "import ctypes, ctypes.util; ctypes.CDLL(ctypes.util.find_library('crypto')).SHA256_Init",
            ],
        ),
        Need::JsonSchema => runs("/usr/bin/python3", &["-c", "import jsonschema"]),
        Need::PrometheusClient => runs("/usr/bin/python3", &["-c", "import prometheus_client"]),
        Need::SystemdAnalyze => runs("systemd-analyze", &["--version"]),
        Need::Attr => runs("setfattr", &["--version"]) && runs("setfacl", &["--version"]),
    }
}
