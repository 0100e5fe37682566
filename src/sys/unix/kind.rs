//! The kinds of file systems: the numbers that Linux has for them (linux/magic.h and the file systems' own sources).
//! macOS has names for them.

use std::os::fd::AsFd;

/// ext2, ext3, ext4.
pub const EXT: u32 = 0xef53;
pub const XFS: u32 = 0x5846_5342;
pub const BTRFS: u32 = 0x9123_683e;
pub const F2FS: u32 = 0xf2f5_2010;
pub const BCACHEFS: u32 = 0xca45_1a4e;
pub const ZFS: u32 = 0x2fc1_2fc1;
pub const JFS: u32 = 0x3153_464a;
pub const NILFS2: u32 = 0x3434;
pub const TMPFS: u32 = 0x0102_1994;
pub const RAMFS: u32 = 0x8584_58f6;
pub const HUGETLBFS: u32 = 0x9584_58f6;
pub const FAT: u32 = 0x4d44;
pub const EXFAT: u32 = 0x2011_bab0;
pub const NTFS: u32 = 0x5346_544e;
pub const NTFS3: u32 = 0x7366_746e;
pub const HFS: u32 = 0x4244;
pub const HFSPLUS: u32 = 0x482b;
pub const ISO9660: u32 = 0x9660;
pub const UDF: u32 = 0x1501_3346;
pub const SQUASHFS: u32 = 0x7371_7368;
pub const OVERLAY: u32 = 0x794c_7630;
pub const FUSE: u32 = 0x6573_5546;
pub const NFS: u32 = 0x6969;
pub const SMB: u32 = 0x517b;
pub const CIFS: u32 = 0xff53_4d42;
pub const SMB2: u32 = 0xfe53_4d42;
pub const CEPH: u32 = 0x00c3_6400;
pub const NINE_P: u32 = 0x0102_1997;
/// As the kernel's own client of AFS says; [`OPENAFS`] says another.
pub const AFS: u32 = 0x6b41_4653;
pub const OPENAFS: u32 = 0x5346_414f;
pub const CODA: u32 = 0x7375_7245;
pub const LUSTRE: u32 = 0x0bd0_0bd0;

/// Of macOS alone; the number is the mark of its superblock.
pub const APFS: u32 = 0x4253_584e;

/// The kind of the file system that `at` lies on.
#[cfg(not(target_os = "macos"))]
pub fn fs_kind(at: impl AsFd) -> Option<u32> {
    rustix::fs::fstatfs(at).ok().map(|told| told.f_type as u32)
}

/// The kind of the file system that `at` lies on; `None` for one whose name is not among these.
#[cfg(target_os = "macos")]
pub fn fs_kind(at: impl AsFd) -> Option<u32> {
    const NAMES: [(&[u8], u32); 10] = [
        (b"apfs", APFS),
        (b"hfs", HFSPLUS),
        (b"msdos", FAT),
        (b"exfat", EXFAT),
        (b"ntfs", NTFS),
        (b"udf", UDF),
        (b"cd9660", ISO9660),
        (b"nfs", NFS),
        (b"smbfs", SMB2),
        (b"macfuse", FUSE),
    ];
    let told = rustix::fs::fstatfs(at).ok()?;
    let name = told.f_fstypename.map(|byte| byte as u8);
    let name = name.split(|&byte| byte == 0).next()?;
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
}

/// True if the file system that `at` lies on is known to be of one of these kinds.
pub fn is_one_of(at: impl AsFd, kinds: &[u32]) -> bool {
    fs_kind(at).is_some_and(|kind| kinds.contains(&kind))
}
