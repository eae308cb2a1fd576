//! Bytes of a trace: from a file or standard input, decompressed, buffered, counted.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::compression::Compression;
use crate::error::TraceError;
use crate::unpack::{Unpacked, Utf16, archive_of, unpack, utf16_order};

/// Name of the path `-` in messages.
const STDIN: &str = "<standard input>";

/// Bytes that are looked at to tell a format.
pub(crate) const HEAD_BYTES: usize = 64 << 10;

/// Position of a reader, in bytes as they are stored: for progress.
#[derive(Debug, Default)]
pub(crate) struct Position {
    pub(crate) done: AtomicU64,
    pub(crate) total: AtomicU64,
}

/// An open trace before its format is known: the decompressed bytes, with the first of them set
/// aside to look at.
pub struct Input {
    path: PathBuf,
    /// Name of the innermost file.
    name: String,
    on_disk: Option<PathBuf>,
    is_packed: bool,
    is_member: bool,
    /// The other files of the archive that it is in.
    beside: Vec<PathBuf>,
    head: Vec<u8>,
    head_is_all: bool,
    rest: Box<dyn Read + Send>,
    pub(crate) position: Arc<Position>,
    /// Position to which the bytes of a file that belongs to another one are counted as well.
    also_counted: Arc<OnceLock<Arc<Position>>>,
}

impl Input {
    /// Opens a file, or standard input if the path is `-`. What is compressed, or the only file of
    /// an archive, is unpacked, however often; of several files of an archive one is named by a
    /// path that goes on behind the archive's, such as `traces.zip/io.csv`.
    ///
    /// # Errors
    /// [`TraceError::Io`] if it cannot be opened or its start cannot be decompressed,
    /// [`TraceError::Unusable`] if it is an archive of several files.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let position = Arc::new(Position::default());
        if path.as_os_str() == "-" {
            return Self::new(PathBuf::from(STDIN), None, Box::new(io::stdin()), position);
        }
        let failed =
            |source| TraceError::Io { path: path.to_owned(), doing: "open", offset: 0, source };
        let on_disk = archive_of(path);
        let file = File::open(on_disk).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        if about.is_dir() {
            return Err(failed(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        position.total.store(about.len(), Ordering::Relaxed);
        Self::new(path.to_owned(), Some(on_disk.to_owned()), Box::new(file), position)
    }

    /// The same over bytes that are already there, for tests and for those who hold a trace in
    /// memory.
    ///
    /// # Errors
    /// [`TraceError::Io`] if their start cannot be decompressed.
    pub fn from_reader(name: &str, reader: impl Read + Send + 'static) -> Result<Self, TraceError> {
        Self::new(PathBuf::from(name), None, Box::new(reader), Arc::default())
    }

    fn new(
        path: PathBuf,
        on_disk: Option<PathBuf>,
        raw: Box<dyn Read + Send>,
        position: Arc<Position>,
    ) -> Result<Self, TraceError> {
        let also_counted = Arc::new(OnceLock::new());
        let raw = Counted {
            inner: raw,
            position: Arc::clone(&position),
            also: Arc::clone(&also_counted),
        };
        let unpacked = unpack(&path, on_disk.as_deref(), Box::new(raw))?;
        let Unpacked { name, is_packed, is_member, beside, stream: mut rest } = unpacked;
        let mut head = Vec::new();
        let doing = if is_packed { "decompress" } else { "read" };
        if let Err(source) = (&mut rest).take(HEAD_BYTES as u64).read_to_end(&mut head) {
            return Err(TraceError::Io { path, doing, offset: head.len() as u64, source });
        }
        let mut head_is_all = head.len() < HEAD_BYTES;
        if let Some(big_endian) = utf16_order(&head) {
            let whole = io::Cursor::new(std::mem::take(&mut head)).chain(rest);
            rest = Box::new(Utf16::new(whole, big_endian));
            let read = (&mut rest).take(HEAD_BYTES as u64).read_to_end(&mut head);
            if let Err(source) = read {
                return Err(TraceError::Io { path, doing, offset: head.len() as u64, source });
            }
            head_is_all = head.len() < HEAD_BYTES;
        }
        // Before numbers of a binary format the mark of a text would be one of them.
        if head.len() > 6 && head.starts_with(b"\xef\xbb\xbf") && head[3..7].is_ascii() {
            head.drain(..3);
        }
        Ok(Self {
            path,
            name,
            on_disk,
            is_packed,
            is_member,
            beside,
            head,
            head_is_all,
            rest,
            position,
            also_counted,
        })
    }

    /// The path as messages show it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file itself, if it is one and is not compressed: for formats that are not read from
    /// front to back.
    pub(crate) fn plain_file(&self) -> Option<&Path> {
        self.on_disk.as_deref().filter(|_| !self.is_packed)
    }

    /// Returns true if it is in an archive.
    pub(crate) fn is_member(&self) -> bool {
        self.is_member
    }

    /// Gives the other files of the archive that it is in, as they can be opened.
    pub(crate) fn beside(&self) -> &[PathBuf] {
        &self.beside
    }

    /// Gives the name of the file, in an archive too.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The file, however it is compressed, or the archive that it is in.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.on_disk.as_deref()
    }

    /// Counts what is read from now on to another input's progress as well.
    pub(crate) fn count_into(&mut self, position: &Arc<Position>) {
        let set = self.also_counted.set(Arc::clone(position));
        assert!(set.is_ok(), "an input belongs to one other at most");
    }

    /// Gives the start of the file, by which the format is told.
    #[must_use]
    pub fn head(&self) -> Head<'_> {
        let name = Compression::strip_ending(&self.name);
        Head { bytes: &self.head, is_all: self.head_is_all, name }
    }

    /// Everything from the first byte on.
    pub(crate) fn into_bytes(self) -> Bytes {
        let doing = if self.is_packed { "decompress" } else { "read" };
        Bytes::new(self.path, doing, Box::new(io::Cursor::new(self.head).chain(self.rest)))
    }
}

/// The first decompressed bytes of a trace, and its name.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// At most 64 KiB.
    pub bytes: &'a [u8],
    /// True if the trace has no bytes beyond these.
    pub is_all: bool,
    /// File name without `.gz`, `.zst`, `.xz`, `.bz2`.
    pub name: &'a str,
}

impl<'a> Head<'a> {
    /// The lines that are there as a whole.
    pub fn lines(self) -> impl Iterator<Item = &'a [u8]> {
        let whole = match memchr::memrchr(b'\n', self.bytes) {
            Some(last) if !self.is_all => &self.bytes[..last],
            _ => self.bytes,
        };
        whole
            .split(|&b| b == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .filter(|line| !line.is_empty())
    }

    /// Returns true if the file name ends like this.
    #[must_use]
    pub fn ends_with(&self, ending: &str) -> bool {
        self.name.len() > ending.len() && self.name[..].ends_with(ending)
    }
}

struct Counted<R> {
    inner: R,
    position: Arc<Position>,
    also: Arc<OnceLock<Arc<Position>>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.position.done.fetch_add(count as u64, Ordering::Relaxed);
        if let Some(also) = self.also.get() {
            also.done.fetch_add(count as u64, Ordering::Relaxed);
        }
        Ok(count)
    }
}

/// A line, or why there is none.
pub(crate) enum Line<'a> {
    Text {
        line: &'a [u8],
        /// True if a newline follows: only the last line may lack it.
        has_end: bool,
    },
    /// Longer than [`Bytes::MAX_LINE_BYTES`]; it was read over.
    TooLong,
    End,
}

/// A buffer over a stream, from which lines and records are taken without copying.
pub(crate) struct Bytes {
    path: PathBuf,
    doing: &'static str,
    stream: Box<dyn Read + Send>,
    buffer: Box<[u8]>,
    next: usize,
    end: usize,
    /// Offset of `buffer[next]` in the stream.
    offset: u64,
    at_end: bool,
}

impl Bytes {
    const BUFFER_BYTES: usize = 256 << 10;
    /// No trace format has lines near as long: longer ones are malformed, so that memory stays
    /// bounded.
    pub(crate) const MAX_LINE_BYTES: usize = 64 << 10;

    fn new(path: PathBuf, doing: &'static str, stream: Box<dyn Read + Send>) -> Self {
        let buffer = vec![0; Self::BUFFER_BYTES].into_boxed_slice();
        Self { path, doing, stream, buffer, next: 0, end: 0, offset: 0, at_end: false }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Offset of the next byte.
    pub(crate) const fn offset(&self) -> u64 {
        self.offset
    }

    /// Makes at least `want` bytes ready, if there are so many, and returns all that are.
    ///
    /// # Panics
    /// If `want` is more than the buffer holds.
    pub(crate) fn ready(&mut self, want: usize) -> Result<&[u8], TraceError> {
        assert!(want <= Self::BUFFER_BYTES, "{want} bytes do not fit the buffer");
        if self.end - self.next < want {
            self.buffer.copy_within(self.next..self.end, 0);
            self.end -= self.next;
            self.next = 0;
            while self.end < want && !self.at_end {
                self.read_more()?;
            }
        }
        Ok(&self.buffer[self.next..self.end])
    }

    fn read_more(&mut self) -> Result<(), TraceError> {
        loop {
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(count) => self.end += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    let offset = self.offset + (self.end - self.next) as u64;
                    return Err(TraceError::Io {
                        path: self.path.clone(),
                        doing: self.doing,
                        offset,
                        source,
                    });
                }
            }
            return Ok(());
        }
    }

    /// Passes over bytes that [`Bytes::ready`] gave.
    pub(crate) fn consume(&mut self, count: usize) {
        assert!(count <= self.end - self.next, "more bytes consumed than were ready");
        self.next += count;
        self.offset += count as u64;
    }

    /// Passes over so many bytes, or all that there are.
    pub(crate) fn pass(&mut self, bytes: u64) -> Result<(), TraceError> {
        let until = self.offset + bytes;
        while self.offset < until {
            let left = usize::try_from(until - self.offset).unwrap_or(usize::MAX);
            let count = self.ready(1)?.len().min(left);
            if count == 0 {
                break;
            }
            self.consume(count);
        }
        Ok(())
    }

    /// The next line, without its end. The last one may lack its newline.
    #[inline]
    pub(crate) fn line(&mut self) -> Result<Line<'_>, TraceError> {
        let found = match memchr::memchr(b'\n', &self.buffer[self.next..self.end]) {
            Some(length) => Some(length),
            None => self.seek_newline()?,
        };
        let (start, length) = (self.next, found.unwrap_or(self.end - self.next));
        if found.is_none() && length == 0 {
            return Ok(Line::End);
        }
        if length > Self::MAX_LINE_BYTES {
            self.pass_line()?;
            return Ok(Line::TooLong);
        }
        self.consume(length + usize::from(found.is_some()));
        let line = &self.buffer[start..start + length];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Ok(Line::Text { line, has_end: found.is_some() })
    }

    #[cold]
    fn seek_newline(&mut self) -> Result<Option<usize>, TraceError> {
        let mut looked_at = self.end - self.next;
        loop {
            let want = (looked_at + 1).max(Self::BUFFER_BYTES / 2);
            let ready = self.ready(want)?;
            if let Some(at) = memchr::memchr(b'\n', &ready[looked_at..]) {
                return Ok(Some(looked_at + at));
            }
            looked_at = ready.len();
            if self.at_end || looked_at > Self::MAX_LINE_BYTES {
                return Ok(None);
            }
        }
    }

    fn pass_line(&mut self) -> Result<(), TraceError> {
        loop {
            let ready = self.ready(1)?;
            let count = memchr::memchr(b'\n', ready).map_or(ready.len(), |at| at + 1);
            let found = count > 0 && ready[count - 1] == b'\n';
            self.consume(count);
            if found || count == 0 {
                return Ok(());
            }
        }
    }
}
