//! An input, open: a file watched for changes, or something that gives what it has when it has it.

use std::{ffi::OsStr, fs::File, io, io::Seek, path::Path, path::PathBuf};

use crate::{
    error::Deed, error::Error, error::Result, io::Cache, io::WatchedFile, path::directory_of, sys,
    sys::CachePolicy, sys::Dir, sys::StreamEnd, sys::stat::Kind, sys::stat::Stat,
    transfer::Context,
};

pub struct Input<'a> {
    context: &'a Context<'a>,
    path: &'a dyn Fn() -> PathBuf,
    content: InputKind<'a>,
    /// Bytes that came of it so far.
    pub came: u64,
}

enum InputKind<'a> {
    /// A file, which was at this position when reading began.
    File(WatchedFile<'a>, u64),
    /// Anything else.
    Flow(StreamEnd),
}

/// The result of reading.
pub enum ReadResult {
    /// A number of bytes; more may follow.
    Bytes(usize),
    Nothing,
    End,
}

/// Opens an input; `None` when the run is to stop while this waits for a FIFO to get a writer.
pub fn open(
    endpoint: &Endpoint,
    mut is_to_stop: impl FnMut() -> bool,
) -> Result<Option<StreamEnd>> {
    let opened = match endpoint {
        Endpoint::Standard => StreamEnd::standard_input(),
        Endpoint::Path(path) => StreamEnd::open_input(path),
    };
    let end = opened.map_err(|error| match sys::names_device(endpoint.path()) {
        Some(why) => Error::finding("open", endpoint.path(), why),
        None => Error::io("open", endpoint.path(), error),
    })?;
    if end.stat.kind == Kind::Dir {
        return Err(Error::finding("read", endpoint.path(), "it is a directory"));
    }
    // Before the first byte, a FIFO that has no writer yet looks like one at its end.
    let has_to_wait = matches!(endpoint, Endpoint::Path(_)) && end.stat.kind == Kind::Fifo;
    while has_to_wait && !sys::wait_readable(&end.file) {
        if is_to_stop() {
            return Ok(None);
        }
    }
    Ok(Some(end))
}

impl<'a> Input<'a> {
    /// Reads from `end`; `path` is its name, for messages.
    pub fn new(
        context: &'a Context<'a>,
        end: StreamEnd,
        path: &'a dyn Fn() -> PathBuf,
    ) -> Result<Self> {
        sys::widen(&end.file);
        let stat = end.stat;
        let content = match stat.kind {
            Kind::File => {
                let mut file = end.file;
                let start = file.stream_position();
                let start = start.deed_at("look at", path)?;
                let sparing = match context.options.asked.cache {
                    Cache::Drop => CachePolicy::of(&file),
                    Cache::Keep => CachePolicy::None,
                };
                let reading = WatchedFile::of(file, stat, path);
                let mut reading = reading.at_rate(context.control.rate, context.control.stop);
                reading.spare_cache(sparing, &context.control.resident.source);
                InputKind::File(reading, start)
            }
            _ => InputKind::Flow(end),
        };
        Ok(Self { context, path, content, came: 0 })
    }

    /// Its metadata when it was opened.
    pub fn stat(&self) -> &Stat {
        match &self.content {
            InputKind::File(reading, _) => reading.before(),
            InputKind::Flow(end) => &end.stat,
        }
    }

    pub fn file(&self) -> &File {
        match &self.content {
            InputKind::File(reading, _) => reading.file(),
            InputKind::Flow(end) => &end.file,
        }
    }

    /// An error of the system about it.
    pub fn error(&self, deed: &'static str, error: std::io::Error) -> Error {
        Error::io(deed, (self.path)(), error)
    }

    /// Fills room with what is there: all of it from a file. From anything else, what can be had
    /// without waiting once something came: a user at a terminal waits for an answer.
    pub fn read(&mut self, room: &mut [u8]) -> Result<ReadResult> {
        let most = self.most_at_once(room.len() as u64) as usize;
        let (room, mut filled) = (&mut room[..most], 0);
        while filled < room.len() {
            let rest = &mut room[filled..];
            let read = match &self.content {
                InputKind::File(reading, _) => Ok(Some(reading.read(rest)?)),
                InputKind::Flow(end) if filled == 0 => end.read(rest),
                InputKind::Flow(end) => end.read_at_once(rest),
            };
            match read.deed_at("read", || (self.path)())? {
                // An end is found again.
                None | Some(0) if filled > 0 => break,
                None => return Ok(ReadResult::Nothing),
                Some(0) => return Ok(ReadResult::End),
                Some(read) => filled += read,
            }
        }
        self.came += filled as u64;
        if let (InputKind::Flow(_), Some(rate)) = (&self.content, self.context.control.rate) {
            rate.pace(filled, self.context.control.stop);
        }
        Ok(ReadResult::Bytes(filled))
    }

    /// Number of bytes the kernel may move before [`moved`](Self::moved) is told.
    pub fn before_move(&self, most: u64) -> u64 {
        match &self.content {
            InputKind::File(reading, start) => most.min(reading.before_move(start + self.came)),
            InputKind::Flow(_) => self.most_at_once(most),
        }
    }

    /// The kernel moved so many bytes.
    pub fn moved(&mut self, bytes: u64) {
        self.came += bytes;
        match &self.content {
            InputKind::File(reading, _) => reading.moved(bytes),
            InputKind::Flow(_) => {
                if let Some(rate) = self.context.control.rate {
                    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                    rate.pace(bytes, self.context.control.stop);
                }
            }
        }
    }

    fn most_at_once(&self, most: u64) -> u64 {
        self.context.control.rate.map_or(most, |rate| most.min(rate.portion() as u64))
    }

    /// True if these bytes are the whole content, as far as a file's size tells.
    pub fn is_all(&self) -> bool {
        match &self.content {
            InputKind::File(reading, start) => reading.is_all(start + self.came),
            InputKind::Flow(_) => false,
        }
    }

    /// It is at its end.
    ///
    /// # Errors
    /// It is not what it was when reading began.
    pub fn finish(&self) -> Result<()> {
        match &self.content {
            InputKind::File(reading, start) => reading.check(start + self.came),
            InputKind::Flow(_) => Ok(()),
        }
    }
}

// The ends of a stream as the user names them, and the decision whether a stream is meant at all.

/// An end of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Standard input or output, whichever it is: `-`.
    Standard,
    /// The entry at this path.
    Path(PathBuf),
}

impl From<&Path> for Endpoint {
    fn from(path: &Path) -> Self {
        match path.as_os_str() == "-" {
            true => Endpoint::Standard,
            false => Endpoint::Path(path.to_path_buf()),
        }
    }
}

impl Endpoint {
    /// The path as the user wrote it.
    pub fn path(&self) -> &Path {
        match self {
            Endpoint::Standard => Path::new("-"),
            Endpoint::Path(path) => path,
        }
    }

    /// Its metadata as an input; that of its target, if it is a link.
    pub fn stat_input(&self) -> io::Result<Stat> {
        match self {
            Endpoint::Standard => Ok(StreamEnd::standard_input()?.stat),
            Endpoint::Path(path) => stat(path),
        }
    }
}

/// True if a stream is meant, rather than a copy of a tree or of a file into a directory: an end is `-`, an input is a
/// FIFO or a device, there are several inputs, or a file goes where something other than a directory is.
pub fn is_stream(inputs: &[Endpoint], outputs: &[Endpoint]) -> bool {
    let kind = |endpoint: &Endpoint| stat(endpoint.path()).map(|stat| stat.kind).ok();
    match inputs {
        _ if inputs.iter().chain(outputs).any(|endpoint| *endpoint == Endpoint::Standard) => true,
        [input] => match kind(input) {
            Some(Kind::Fifo | Kind::Device) => true,
            Some(Kind::File) => outputs.iter().filter_map(kind).any(|kind| kind != Kind::Dir),
            _ => false,
        },
        _ => true,
    }
}

/// The metadata of the entry at a path; of its target, if it is a link.
pub fn stat(path: &Path) -> io::Result<Stat> {
    match path.file_name().filter(|_| !names_directory(path)) {
        Some(name) => Dir::open(directory_of(path))?.stat(name, true),
        None => Dir::open(path)?.stat_self(),
    }
}

/// True if a path can only be that of a directory.
pub fn names_directory(path: &Path) -> bool {
    let ends_so = |path: &OsStr| {
        path.as_encoded_bytes()
            .last()
            .is_some_and(|last| std::path::is_separator(char::from(*last)))
    };
    ends_so(path.as_os_str()) || path.file_name().is_none() || path.ends_with(".")
}
