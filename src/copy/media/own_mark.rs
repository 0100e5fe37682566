//! The mark by which the runs of an output know a generation for theirs: a sum at its end, over the private secret of
//! the output and all that comes before.
//!
//! A run that is killed between the names of a generation and of its chain leaves a generation that the chain does not
//! have. The next run goes on with it by its mark. It holds for this place in this history only, so that neither a
//! generation of another one nor one that was planted is believed.

use std::fs::File;
use std::io::{self, Read};

use crate::hash::{Algorithm, Digest, Sha256};
use crate::manifest::archive::mhl_chain::ChainLink;
use crate::state::private_dir::Secret;
use crate::sys::{Dir, Uninterrupted};

/// What stands around the sum: a comment of XML.
const HEAD: &str = "<!-- dircopy ";
const TAIL: &str = " -->\n";

/// The bytes of a mark.
const LEN: u64 = (HEAD.len() + 2 * Sha256::LEN + TAIL.len()) as u64;

/// What marks generations, and proves them.
#[derive(Clone, Copy)]
pub struct OwnMark(Sha256);

impl OwnMark {
    /// By the secret of an output.
    pub fn by(secret: &Secret) -> Self {
        Self(secret.of_generations())
    }

    /// The mark of the generation `name` that comes after `last`, with this digest of all that is before the mark.
    pub fn text(&self, name: &str, last: Option<&ChainLink>, digest: &Digest) -> String {
        let last = last.and_then(|link| link.digest).map(|it| it.to_string()).unwrap_or_default();
        let all = format!("{name}\0{last}\0{digest}");
        format!("{HEAD}{}{TAIL}", Sha256::of(&[&self.0.0, all.as_bytes()]))
    }

    /// The digest of the generation `name` that comes after `last`, if it has this mark.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn proves(
        &self,
        file: &File,
        name: &str,
        last: Option<&ChainLink>,
    ) -> io::Result<Option<Digest>> {
        let Some(len) = Dir::stat_file(file)?.size.checked_sub(LEN) else { return Ok(None) };
        let mut hasher = Algorithm::C4.start();
        let (mut input, mut room, mut left) = (Uninterrupted(file), vec![0; 64 << 10], len);
        while left > 0 {
            let most = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let got = input.read(&mut room[..most])?;
            if got == 0 {
                return Ok(None);
            }
            hasher.update(&room[..got]);
            left -= got as u64;
        }
        let mut mark = Vec::new();
        input.take(LEN + 1).read_to_end(&mut mark)?;
        let Some(digest) = hasher.clone().finish() else { return Ok(None) };
        if mark != self.text(name, last, &digest).as_bytes() {
            return Ok(None);
        }
        hasher.update(&mark);
        Ok(hasher.finish())
    }
}
