//! Files of records with their count and sum at the end, so that one that is torn, or was put together from pieces, is
//! not taken for a whole one.

use std::io::{Read, Write};
use std::{fs::File, io, ops::Range, path::Path, path::PathBuf, thread::Builder, thread::Scope};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::error::{Deed, Error, Result};
use crate::{hash::Algorithm, hash::Digest, hash::Hasher, sys, sys::Uninterrupted};

// Summed files that a thread of its own reads and hashes, one after the other, while another thread looks at their
// records.

/// Number of blocks that wait to be looked at.
const WAITING: usize = 4;

/// A message of the thread.
enum Message {
    Block(Vec<u8>),
    /// A file is at its end; the sum of everything before the sum that it states.
    End(Option<Digest>),
    /// There is nothing more of a file.
    Failed(io::Error),
}

/// Files that are read ahead.
#[derive(Debug)]
pub struct ReadAhead {
    messages: Receiver<Message>,
    /// Blocks to be filled again.
    used: Sender<Vec<u8>>,
    /// Nothing more comes of the file that is being looked at.
    is_over: bool,
    sum: Option<Digest>,
}

impl ReadAhead {
    /// Reads files ahead. The thread ends when what is returned is dropped.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        files: impl Iterator<Item = io::Result<File>> + Send + 'scope,
    ) -> io::Result<Self> {
        let (sender, messages) = bounded(WAITING);
        let (used, empty) = bounded(WAITING + 2);
        let read = move || {
            for file in files {
                if !send_file(file, &sender, &empty) {
                    break;
                }
            }
        };
        Builder::new().name("read ahead".into()).spawn_scoped(scope, read)?;
        Ok(Self { messages, used, is_over: true, sum: None })
    }

    /// Goes on to the next file, passing over what is left of this one.
    pub fn next_file(&mut self) {
        while !self.is_over {
            self.is_over = !matches!(self.messages.recv(), Ok(Message::Block(_)));
        }
        (self.is_over, self.sum) = (false, None);
    }
}

/// Sends a file; false if there is no receiver any more.
fn send_file(file: io::Result<File>, sender: &Sender<Message>, empty: &Receiver<Vec<u8>>) -> bool {
    let mut file = match file {
        Ok(file) => SummedFile::of(file),
        Err(error) => return sender.send(Message::Failed(error)).is_ok(),
    };
    loop {
        let mut block = empty.try_recv().unwrap_or_default();
        let message = match file.next_block(&mut block) {
            Ok(true) => Message::Block(block),
            Ok(false) => Message::End(file.sum()),
            Err(error) => Message::Failed(error),
        };
        let is_over = !matches!(message, Message::Block(_));
        if sender.send(message).is_err() {
            return false;
        }
        if is_over {
            return true;
        }
    }
}

impl Blocks for &mut ReadAhead {
    fn next_block(&mut self, block: &mut Vec<u8>) -> io::Result<bool> {
        if self.is_over {
            return Ok(false);
        }
        let message = self.messages.recv();
        let message = message.map_err(|_| io::Error::other("the thread that reads it has ended"));
        self.is_over = !matches!(message, Ok(Message::Block(_)));
        match message? {
            Message::Block(next) => {
                // Where nothing waits for it it is not used again.
                let _ = self.used.try_send(std::mem::replace(block, next));
                Ok(true)
            }
            Message::End(sum) => {
                self.sum = sum;
                Ok(false)
            }
            Message::Failed(error) => Err(error),
        }
    }

    fn sum(&self) -> Option<Digest> {
        self.sum
    }
}

// A summed file in blocks, which are hashed as they come: all of it but the sum in its last record.

/// Bytes of a block, but for the last.
pub const BLOCK: usize = 256 << 10;

/// Where the blocks of a summed file come from.
pub trait Blocks {
    /// Puts the next block in the place of one that was used; false at the end of the file.
    fn next_block(&mut self, block: &mut Vec<u8>) -> io::Result<bool>;

    /// The sum of everything before the last blank, behind which the sum is stated, once the end was reached.
    fn sum(&self) -> Option<Digest>;
}

/// A file that is read and hashed by the thread that asks for its blocks.
#[derive(Debug)]
pub struct SummedFile {
    file: Uninterrupted<File>,
    hasher: Hasher,
    /// The end of what was read, which may be that of the file.
    held: Vec<u8>,
    sum: Option<Digest>,
}

impl SummedFile {
    /// A file that is open, from where it stands.
    fn of(file: File) -> Self {
        Self { file: Uninterrupted(file), hasher: SUM.start(), held: Vec::new(), sum: None }
    }

    pub fn into_file(self) -> File {
        self.file.0
    }

    /// Hashes a block but for as much of the end of all that was read as the last record may take.
    fn take(&mut self, block: &[u8]) {
        let Self { hasher, held, .. } = self;
        let known = (held.len() + block.len()).saturating_sub(MOST_TRAILER);
        let (of_held, of_block) = (known.min(held.len()), known.saturating_sub(held.len()));
        hasher.update(&held[..of_held]);
        hasher.update(&block[..of_block]);
        held.drain(..of_held);
        held.extend_from_slice(&block[of_block..]);
    }

    /// Hashes what was held back up to the sum.
    fn finish(&mut self) {
        let before_sum = memchr::memrchr(b' ', &self.held).map_or(0, |at| at + 1);
        let mut hasher = self.hasher.clone();
        hasher.update(&self.held[..before_sum]);
        self.sum = hasher.finish();
    }
}

impl Blocks for SummedFile {
    fn next_block(&mut self, block: &mut Vec<u8>) -> io::Result<bool> {
        match block.is_empty() {
            true => *block = vec![0; BLOCK],
            false => block.resize(BLOCK, 0),
        }
        let mut filled = 0;
        while filled < BLOCK {
            match self.file.read(&mut block[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        block.truncate(filled);
        match filled {
            0 => self.finish(),
            _ => self.take(block),
        }
        Ok(filled > 0)
    }

    fn sum(&self) -> Option<Digest> {
        self.sum
    }
}

// Reading a summed file.

/// No record is longer; bytes.
const MOST_RECORD: usize = 4 << 20;

const LIST: &str = "read the list of the plan";

/// Reads such a file from the first record to the last, and is content only if it is whole.
#[derive(Debug)]
pub struct SummedReader<B = SummedFile> {
    blocks: B,
    /// The deed that the file is read for; completes "cannot …".
    deed: &'static str,
    path: PathBuf,
    end: u8,
    block: Vec<u8>,
    /// Number of bytes of the block that were looked at, and the place of the record in it.
    taken: usize,
    span: Range<usize>,
    /// The record, if it began in an earlier block.
    carried: Vec<u8>,
    records: u64,
    at: u64,
    trailer: Option<Trailer>,
}

impl SummedReader {
    /// Reads a list of a plan, which was `opened`; its first record must be `header`.
    pub fn of_list(opened: io::Result<File>, path: &Path, end: u8, header: &str) -> Result<Self> {
        Self::of(opened.deed(LIST, path)?, LIST, path, end, header)
    }

    /// Reads any such file, which is open, to do this with it.
    pub fn of(file: File, deed: &'static str, path: &Path, end: u8, header: &str) -> Result<Self> {
        Self::begin(SummedFile::of(file), deed, path, end, header)
    }

    pub fn into_file(self) -> File {
        self.blocks.into_file()
    }
}

impl<'a> SummedReader<&'a mut ReadAhead> {
    /// Goes on to the next list that is read ahead, which is that at `path`.
    pub fn open_next(ahead: &'a mut ReadAhead, path: &Path, end: u8, header: &str) -> Result<Self> {
        ahead.next_file();
        Self::begin(ahead, LIST, path, end, header)
    }
}

impl<B: Blocks> SummedReader<B> {
    fn begin(blocks: B, deed: &'static str, path: &Path, end: u8, header: &str) -> Result<Self> {
        let mut reader = Self {
            blocks,
            deed,
            path: path.to_path_buf(),
            end,
            block: Vec::new(),
            taken: 0,
            span: 0..0,
            carried: Vec::new(),
            records: 0,
            at: 0,
            trailer: None,
        };
        if reader.read()? && reader.record() == header.as_bytes() {
            return Ok(reader);
        }
        let finding = format!(
            "it does not begin with {header:?}: it is of another plan or shard, or is none"
        );
        Err(Error::finding(deed, path, finding))
    }

    /// Reads a record; false at the end of the file.
    fn read(&mut self) -> Result<bool> {
        self.carried.clear();
        loop {
            let rest = &self.block[self.taken..];
            if let Some(len) = memchr::memchr(self.end, rest) {
                self.span = self.taken..self.taken + len;
                self.taken += len + 1;
                if !self.carried.is_empty() {
                    self.carried.extend_from_slice(&rest[..len]);
                }
                self.at += self.record().len() as u64 + 1;
                return Ok(true);
            }
            self.carried.extend_from_slice(rest);
            if self.carried.len() > MOST_RECORD {
                return Err(self.torn("its last record has no end"));
            }
            self.taken = 0;
            let more = self.blocks.next_block(&mut self.block);
            if !more.deed(self.deed, &self.path)? {
                self.block.clear();
                return match self.carried.is_empty() {
                    true => Ok(false),
                    false => Err(self.torn("its last record has no end")),
                };
            }
        }
    }

    /// The record that was read last.
    pub fn record(&self) -> &[u8] {
        if self.carried.is_empty() { &self.block[self.span.clone()] } else { &self.carried }
    }

    /// Goes on to the next record; false after the last, if the file is whole.
    pub fn advance(&mut self) -> Result<bool> {
        if self.trailer.is_some() {
            return Ok(false);
        }
        let before = self.at;
        if !self.read()? {
            return Err(self.torn("it has no end"));
        }
        if !self.record().starts_with(END.as_bytes()) {
            self.records += 1;
            return Ok(true);
        }
        let found = Trailer::parse(self.record());
        if self.read()? {
            return Err(self.torn("something follows its end"));
        }
        match found {
            Some(found)
                if Some(found.sum) == self.blocks.sum() && found.records == self.records =>
            {
                self.trailer = Some(found);
            }
            _ => return Err(self.torn("its sum or its number of records is not what its end says")),
        }
        self.at = before;
        Ok(false)
    }

    /// The next record; `None` after the last, if the file is whole.
    pub fn next_record(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.advance()?.then(|| self.record()))
    }

    /// Reads to the end.
    pub fn check(&mut self) -> Result<Trailer> {
        while self.advance()? {}
        self.trailer.ok_or_else(|| self.torn("it has no end"))
    }

    /// The last lines, once they were reached.
    pub fn trailer(&self) -> Option<Trailer> {
        self.trailer
    }

    /// Number of bytes that were read before the next record, or before the end.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The file is not whole.
    pub fn torn(&self, finding: &'static str) -> Error {
        Error::finding(self.deed, &self.path, format!("{finding}: it is torn or was changed"))
    }
}

// The last record of a summed file.

/// The algorithm of the sum of such a file. The sum tells what is torn or mixed up; only its user can write to the
/// file. This one is as strong as SHA-256 and takes a fifth of its time.
pub const SUM: Algorithm = Algorithm::Blake3;

/// The beginning of the last line.
pub const END: &str = "# end ";

/// No such record is longer; bytes. It has two numbers of up to 20 digits and a sum.
pub const MOST_TRAILER: usize = 128;

/// The last line of such a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    pub records: u64,
    /// Number of bytes of the records.
    pub bytes: u64,
    /// Over everything before it, these numbers among it.
    pub sum: Digest,
}

impl Trailer {
    /// Reads such a record.
    pub fn parse(record: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(record).ok()?.strip_prefix(END)?;
        let mut parts = text.split(' ');
        let records = parts.next()?.parse().ok()?;
        let bytes = parts.next()?.parse().ok()?;
        let sum = Digest::parse(SUM, parts.next()?.as_bytes())?;
        parts.next().is_none().then_some(Trailer { records, bytes, sum })
    }
}

/// The text before the sum, which covers it.
pub fn numbers(records: u64, bytes: u64) -> String {
    format!("{END}{records} {bytes} ")
}

// Writing a summed file.

/// Number of bytes that are hashed and written at a time.
const TOGETHER: usize = 256 << 10;

/// Writes records that each end with the same byte.
pub struct SummedWriter<W: Write> {
    out: W,
    hasher: Hasher,
    /// The text that is not hashed and written yet.
    text: Vec<u8>,
    end: u8,
    records: u64,
}

impl<W: Write> SummedWriter<W> {
    /// Begins with `header`, which is a record that says what the file is.
    pub fn new(out: W, end: u8, header: &str) -> io::Result<Self> {
        let (hasher, text) = (SUM.start(), Vec::new());
        let mut writer = Self { out, hasher, text, end, records: 0 };
        writer.put(header.as_bytes())?;
        Ok(writer)
    }

    fn put(&mut self, record: &[u8]) -> io::Result<()> {
        self.text.extend_from_slice(record);
        self.text.push(self.end);
        if self.text.len() >= TOGETHER { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hasher.update(&self.text);
        sys::write_all(&mut self.out, &self.text)?;
        self.text.clear();
        Ok(())
    }

    /// Adds a record, which must not hold what ends one.
    pub fn add(&mut self, record: &[u8]) -> io::Result<()> {
        self.records += 1;
        self.put(record)
    }

    /// Ends the file, whose records are of so many bytes.
    pub fn finish(mut self, bytes: u64) -> io::Result<Trailer> {
        let numbers = numbers(self.records, bytes);
        self.text.extend_from_slice(numbers.as_bytes());
        self.flush()?;
        let Self { mut out, hasher, end, records, .. } = self;
        let sum = hasher.finish().ok_or(io::ErrorKind::Unsupported)?;
        sys::write_all(&mut out, &[sum.to_string().as_bytes(), &[end]].concat())?;
        out.flush()?;
        Ok(Trailer { records, bytes, sum })
    }
}

#[cfg(test)]
mod tests {
    use super::BLOCK;
    use super::SummedWriter;
    use super::*;

    #[test]
    fn only_a_whole_file_is_read_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        let mut writer = SummedWriter::new(File::create(&path).unwrap(), 0, "# head").unwrap();
        ["one", "two\nlines", "three"].iter().for_each(|it| writer.add(it.as_bytes()).unwrap());
        let trailer = writer.finish(42).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            SummedReader::of_list(File::open(&path), &path, 0, "# head")
                .and_then(|mut reader| reader.check())
        };
        assert_eq!(read(&whole).unwrap(), trailer);
        assert_eq!((trailer.records, trailer.bytes), (3, 42));
        for cut in 0..whole.len() {
            assert!(read(&whole[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 1;
            assert!(read(&other).is_err(), "changed at {at}");
        }
        assert!(read(&[&whole[..], b"x\0"].concat()).is_err());
        assert!(SummedReader::of_list(File::open(&path), &path, 0, "# other").is_err());
    }

    #[test]
    fn records_lie_across_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        // The end of the file falls before, on and behind that of a block, with its last record in either.
        for more in [0, 1, 60, 110, 111, 112, 113, 114, 200, 300_000] {
            let mut writer =
                SummedWriter::new(File::create(&path).unwrap(), b'\n', "head").unwrap();
            let first = vec![b'a'; BLOCK - 120 + more];
            writer.add(&first).unwrap();
            writer.add(b"").unwrap();
            let trailer = writer.finish(1).unwrap();
            let mut reader =
                SummedReader::of_list(File::open(&path), &path, b'\n', "head").unwrap();
            assert_eq!(reader.next_record().unwrap(), Some(&first[..]), "{more}");
            assert_eq!(reader.next_record().unwrap(), Some(&b""[..]), "{more}");
            assert_eq!(reader.next_record().unwrap(), None, "{more}");
            assert_eq!(reader.trailer(), Some(trailer), "{more}");
            assert_eq!(reader.at(), first.len() as u64 + 7, "{more}");
        }
    }

    #[test]
    fn files_are_read_ahead_one_after_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> =
            (0..6).map(|number| dir.path().join(number.to_string())).collect();
        for (number, path) in paths.iter().enumerate().filter(|(number, _)| *number != 3) {
            let mut writer = SummedWriter::new(File::create(path).unwrap(), 0, "head").unwrap();
            for record in 0..number * 50_000 {
                writer.add(format!("{number} {record}").as_bytes()).unwrap();
            }
            writer.finish(7).unwrap();
        }
        std::thread::scope(|scope| {
            let mut ahead =
                ReadAhead::start(scope, paths.clone().into_iter().map(File::open)).unwrap();
            for (number, path) in paths.iter().enumerate() {
                let opened = SummedReader::open_next(&mut ahead, path, 0, "head");
                if number == 3 {
                    assert!(opened.unwrap_err().to_string().contains("cannot read the list"));
                    continue;
                }
                let mut reader = opened.unwrap();
                // Of the second not all is taken.
                for record in 0..if number == 2 { 10 } else { number * 50_000 } {
                    let expected = format!("{number} {record}");
                    assert_eq!(reader.next_record().unwrap(), Some(expected.as_bytes()));
                }
                let whole = (number != 2).then(|| reader.check().unwrap().records);
                assert_eq!(whole, (number != 2).then_some(number as u64 * 50_000));
            }
        });
    }
}
