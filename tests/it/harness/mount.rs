//! File systems that come and go with a test.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Something mounted; unmounted when dropped.
pub struct Mount(PathBuf);

impl Mount {
    /// From now on what this thread mounts is seen by it and by what it starts only. Otherwise whoever
    /// takes a copy of all mounts meanwhile keeps ours, and our disks, after they were unmounted.
    pub fn privately() {
        // SAFETY: the call changes nothing but what this thread sees as mounted (unshare(2)).
        let done = unsafe { libc::unshare(libc::CLONE_NEWNS) };
        assert_eq!(done, 0, "unshare: {}", std::io::Error::last_os_error());
        run(Command::new("mount").args(["--make-rslave", "/"]));
    }

    /// A tmpfs that holds `size` (as mount's option says it: `2m`).
    pub fn tmpfs(at: &Path, size: &str) -> Self {
        Self::make(at, &["-t", "tmpfs", "-o", &format!("size={size},mode=0755"), "none"])
    }

    /// A file system that has neither attributes nor access lists.
    pub fn ramfs(at: &Path) -> Self {
        Self::make(at, &["-t", "ramfs", "none"])
    }

    pub fn bind(from: &Path, at: &Path) -> Self {
        Self::make(at, &["--bind", from.to_str().unwrap()])
    }

    /// `from` again at `at`, read-only.
    pub fn read_only(from: &Path, at: &Path) -> Self {
        let mount = Self::bind(from, at);
        run(Command::new("mount").args(["-o", "remount,bind,ro"]).arg(at));
        mount
    }

    /// A fresh ext4 of `megabytes` in the file `image`.
    pub fn ext4(image: &Path, megabytes: u32, at: &Path) -> Self {
        run(Command::new("truncate").arg(format!("--size={megabytes}M")).arg(image));
        run(Command::new("mkfs.ext4").args(["-q", "-m", "0", "-O", "^has_journal"]).arg(image));
        let mount = Self::make(at, &["-o", "loop", image.to_str().unwrap()]);
        std::fs::remove_dir(at.join("lost+found")).unwrap();
        mount
    }

    /// A fresh file system of its kind in the file `image`: ext4, xfs, btrfs, or ntfs by way of FUSE.
    pub fn of_kind(kind: &str, image: &Path, at: &Path) -> Self {
        // mkfs.xfs refuses less than 300 MiB; the file is sparse.
        Self::of_size(kind, 512, image, at)
    }

    /// The same with so many megabytes.
    pub fn of_size(kind: &str, megabytes: u32, image: &Path, at: &Path) -> Self {
        match kind {
            "ext4" => return Self::ext4(image, megabytes, at),
            _ => run(Command::new("truncate").arg(format!("--size={megabytes}M")).arg(image)),
        }
        let image = image.to_str().unwrap();
        let (words, options): (&[&str], &[&str]) = match kind {
            "xfs" => (&["mkfs.xfs", "-q"], &["-o", "loop", image]),
            "btrfs" => (&["mkfs.btrfs", "-q"], &["-o", "loop", image]),
            "ntfs" => (&["mkfs.ntfs", "-Q", "-q", "-F"], &["-t", "ntfs-3g", image]),
            _ => panic!("no such kind: {kind}"),
        };
        run(Command::new(words[0]).args(&words[1..]).arg(image));
        Self::make(at, options)
    }

    /// An overlay whose upper layer is the directory `upper`, over `lower`.
    pub fn overlay(lower: &Path, upper: &Path, work: &Path, at: &Path) -> Self {
        let shown = |path: &Path| path.display().to_string();
        let layers =
            format!("lowerdir={},upperdir={},workdir={}", shown(lower), shown(upper), shown(work));
        Self::make(at, &["-t", "overlay", "-o", &layers, "none"])
    }

    /// What is on a block device, or in a file if `options` say `loop`. Says why it cannot be mounted.
    pub fn device(device: &Path, at: &Path, options: &str) -> Result<Self, String> {
        std::fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        let output = mount.args(["-o", options]).arg(device).arg(at).output().unwrap();
        match output.status.success() {
            true => Ok(Self(at.to_path_buf())),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    fn make(at: &Path, args: &[&str]) -> Self {
        std::fs::create_dir_all(at).unwrap();
        run(Command::new("mount").args(args).arg(at));
        Self(at.to_path_buf())
    }

    /// Takes it away from under whoever uses it.
    pub fn detach(self) {
        run(Command::new("umount").arg("-l").arg(&self.0));
        std::mem::forget(self);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let done = Command::new("umount").arg(&self.0).output().is_ok_and(|o| o.status.success());
        if !done {
            let _ = Command::new("umount").arg("-l").arg(&self.0).output();
        }
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
