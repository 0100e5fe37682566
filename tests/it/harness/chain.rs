//! A program of a few lines that computes chains with another library.

use std::path::Path;
use std::process::Command;

/// Reads a side file and computes the states of each file in it from the file's bytes by OpenSSL. Prints the
/// path and the number of states of each.
const ORACLE: &str = r#"
import ctypes, ctypes.util, hashlib, struct, sys
crypto = ctypes.CDLL(ctypes.util.find_library("crypto"))
side, at = open(sys.argv[1], "rb").read(), 17
assert side.startswith(b"dircopy states 1\n")
while at < len(side):
    tag, path_len, span, size, digest = struct.unpack("<4sIIQ32s", side[at:at+52])
    path, states = side[at+52:at+52+path_len], at + 52 + path_len
    end, context = states + 32 * ((size - 1) // (span << 20)), (ctypes.c_uint32 * 64)()
    data = open(sys.argv[2].encode() + b"/" + path, "rb").read()
    assert tag == b"FILE" and side[end:end+8] == hashlib.sha256(side[at:end]).digest()[:8]
    assert len(data) == size and hashlib.sha256(data).digest() == digest and end + 8 - at <= size / 10000
    crypto.SHA256_Init(context)
    for link, state in enumerate(range(states, end, 32)):
        crypto.SHA256_Update(context, data[link*(span<<20):(link+1)*(span<<20)], ctypes.c_size_t(span << 20))
        assert struct.pack(">8I", *context[:8]) == side[state:state+32], (path, link)
    print(path.decode(), (end - states) // 32)
    at = end + 8
"#;

/// Holds every state in a side file against what another library computes from the files below `root`; the
/// path and the number of states of each record, in the order of names.
#[track_caller]
pub fn states_of(side: impl AsRef<Path>, root: &Path) -> Vec<String> {
    let output =
        Command::new("python3").args(["-c", ORACLE]).arg(side.as_ref()).arg(root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut lines: Vec<_> =
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}
