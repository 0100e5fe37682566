//! Where a copy is damaged, as far as a chain of what it should have tells.

use std::fs::File;

use crate::chain::damage::Damage;
use crate::error::Error;
use crate::hash::Digest;
use crate::hash::multibuffer::Backend;
use crate::io::link_check::{ChainedContent, Helpers, LinkCheck, LinkReads};
use crate::sys::{Dir, Medium};
use crate::transfer::context::Context;

/// Adds to `error` where `file` differs from the content with this digest, if there is a chain of that.
pub fn with_place(context: &Context<'_>, file: &File, digest: &Digest, error: Error) -> Error {
    match locate(context, file, digest) {
        Some(damage) => error.with_note(format!(" ({damage})")),
        None => error,
    }
}

fn locate(context: &Context<'_>, file: &File, digest: &Digest) -> Option<Damage> {
    let (chain, size) = context.shared.states?.chain(digest)?;
    let stat = Dir::stat_file(file).ok()?;
    let medium = Medium::of(file, &stat).ok()?;
    let check = LinkCheck {
        content: ChainedContent { chain: &chain, size, digest },
        medium: &medium,
        reads: LinkReads::ByLinks { in_order: true },
        backend: Backend::One,
        is_to_stop: &|| context.control.stop.is_urgent(),
        on_read: &|_| (),
    };
    let bad = check.run(&Helpers::of_processors()).ok()??;
    medium.finish();
    Some(Damage::new(&chain, size, stat.size, &bad)).filter(Damage::says_something)
}
