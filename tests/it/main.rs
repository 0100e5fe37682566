//! What dircopy promises, tried from outside: the program is run as a user runs it and judged by
//! tools that are not ours (`sha256sum`, `diff`, `find`, `strace`).
//!
//! One binary, because linking one is faster than linking a dozen; one folder per promise, one module per concern.
//!
//! * `DIRCOPY_BIN=/path` tests another program, such as the wrong ones of `tests/broken`.
//! * `DIRCOPY_TEST_ARGS="--workers 1 --queue-size 1 --block-size 4096"` runs everything again with one
//!   worker and one block, which is how deadlocks are found.
//! * `DIRCOPY_TEST_OUTPUTS=3` runs everything again with two outputs more (`harness/beside.rs`).
//! * `DIRCOPY_TEST_ALL=1` makes a missing requirement (root, strace, mounts) a failure, not a skip.
//! * `DIRCOPY_TEST_LONG=1` makes every fault, every power cut and every kill of `docs/reliability.md`, not
//!   a sample of them; `DIRCOPY_TEST_SEED=N` makes other random choices.
//! * `DIRCOPY_TEST_KEEP=1` keeps the directories of failed tests.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test says what it expects

mod harness;

mod archives;
mod cluster;
mod copy;
mod failures;
mod heal;
mod history;
mod outputs;
mod parity;
mod readme;
mod records;
mod resume;
mod stream;
mod tidy;
mod verify;
