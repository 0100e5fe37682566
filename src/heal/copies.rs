//! Copies of one file in several trees, and what of them is proven good.

use std::{fs::File, io};

use crate::{
    hash::Digest, hash::Stream, heal::bad::Tree, io::AlignedBuffer, io::ChainedContent,
    path::RelPath, sys, sys::ALIGNMENT, sys::Dir, sys::Medium, sys::stat::Kind, sys::stat::Stat,
};

/// The longest link that is proven in memory before it is written; files of more than 16 TiB have longer ones.
const MOST_LINK: u64 = 16 << 20;

/// An open copy of a file.
pub struct FileCopy {
    /// The number of its tree.
    pub tree: usize,
    pub file: File,
    pub stat: Stat,
}

impl FileCopy {
    /// The copy in a tree, if it is a regular file that can be opened. No symbolic link is followed.
    pub fn open(number: usize, tree: &Tree, path: &RelPath) -> io::Result<Self> {
        let (above, name) = path.split().ok_or(io::ErrorKind::NotFound)?;
        let (dir, name) = (tree.dir.open_below(&above)?, sys::name_from_bytes(name)?);
        // Opening a device can do things.
        let is_file = |stat: &Stat| match stat.kind {
            Kind::File => Ok(()),
            _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
        };
        is_file(&dir.stat(name, false)?)?;
        let file = dir.open_file(name, false)?;
        let stat = Dir::stat_file(&file)?;
        is_file(&stat)?;
        Ok(Self { tree: number, file, stat })
    }
}

/// Reads links of copies and proves them.
pub struct LinkProver<'a> {
    content: ChainedContent<'a>,
    buffer: AlignedBuffer,
}

impl<'a> LinkProver<'a> {
    /// One for this content; `None` if its links are too long.
    pub fn new(content: ChainedContent<'a>) -> Option<Self> {
        let span = content.chain.span();
        let len = usize::try_from(span).ok().filter(|_| span <= MOST_LINK)?;
        Some(Self { content, buffer: AlignedBuffer::new(len.next_multiple_of(ALIGNMENT)) })
    }

    /// Where a link begins, and how long it is.
    pub fn range(&self, link: u64) -> std::ops::Range<u64> {
        let span = self.content.chain.span();
        link * span..self.content.size.min((link + 1) * span)
    }

    /// The bytes of a link as a copy has them, if they lead from the state before it to the state behind it.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn proven(&mut self, medium: &Medium<'_>, link: u64) -> io::Result<Option<&[u8]>> {
        let range = self.range(link);
        let ChainedContent { chain, digest, .. } = self.content;
        let read = medium.fill_at(self.buffer.room(), range.start)?;
        let len = usize::try_from(range.end - range.start).ok().filter(|len| *len <= read);
        let bytes = len.and_then(|len| self.buffer.room().get(..len));
        let (Some(bytes), Some(before)) = (bytes, chain.before(link)) else { return Ok(None) };
        let mut stream = Stream::going_on(before, range.start);
        stream.update(bytes);
        let holds = match chain.behind(link) {
            Some(state) => stream.state() == state,
            None => Digest::from(stream.finish()) == *digest,
        };
        Ok(holds.then_some(bytes))
    }
}

/// The copies of a file, each as it is read.
pub struct OpenCopies<'c> {
    media: Vec<Medium<'c>>,
    /// Is told of a copy that cannot be read, by its number.
    unreadable: &'c dyn Fn(usize, io::Error),
}

impl<'c> OpenCopies<'c> {
    /// The first is read from its device, because what is in memory of a bad file may be good. What is taken from
    /// the others is proven as it is in memory.
    pub fn of(copies: &'c [FileCopy], unreadable: &'c dyn Fn(usize, io::Error)) -> Self {
        let medium = |(at, copy): (usize, &'c FileCopy)| match at {
            0 => Medium::of(&copy.file, &copy.stat).unwrap_or_else(|_| Medium::any(&copy.file)),
            _ => Medium::any(&copy.file),
        };
        Self { media: copies.iter().enumerate().map(medium).collect(), unreadable }
    }

    /// The medium of the first.
    pub fn first(&self) -> Option<&Medium<'c>> {
        self.media.first()
    }

    /// The number of a copy that has this link.
    pub fn find(&self, prover: &mut LinkProver<'_>, link: u64) -> Option<usize> {
        (0..self.media.len()).find(|number| self.has(prover, link, *number))
    }

    /// The bytes of a link as the copy of this number has them, or else another.
    pub fn proven<'p>(
        &self,
        prover: &'p mut LinkProver<'_>,
        link: u64,
        copy: usize,
    ) -> Option<&'p [u8]> {
        let number = match self.has(prover, link, copy) {
            true => copy,
            false => self.find(prover, link)?,
        };
        prover.proven(self.media.get(number)?, link).ok().flatten()
    }

    fn has(&self, prover: &mut LinkProver<'_>, link: u64, number: usize) -> bool {
        let Some(medium) = self.media.get(number) else { return false };
        match prover.proven(medium, link) {
            Ok(proven) => proven.is_some(),
            Err(error) => {
                (self.unreadable)(number, error);
                false
            }
        }
    }
}
