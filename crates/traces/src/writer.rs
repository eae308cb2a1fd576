//! Common parts of all writers of trace files, and the files themselves: a temporary name until all
//! is written.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use units::{IoOp, IoRequest};

use crate::error::TraceError;
use crate::fields::SECTOR_BYTES;
use crate::reader::Facts;

/// A file that a trace came from.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SourceFile {
    /// File name without folders.
    pub name: String,
    /// SHA-256 of its bytes as they are stored, in hexadecimal.
    pub sha256: String,
}

/// Origin of the requests that are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The files read.
    pub sources: Vec<SourceFile>,
    /// Name of the format they were in.
    pub format: String,
    /// See [`Facts::streams_are_volumes`].
    pub streams_are_volumes: bool,
}

/// Counts of a written file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Requests in the file.
    pub requests: u64,
    /// Requests that the format cannot hold and that were dropped, as `unsupported=drop` asked.
    pub dropped: u64,
}

/// Writes requests one batch after another.
pub trait TraceWriter: Send {
    /// Writes these next.
    ///
    /// # Errors
    /// [`TraceError::Unwritable`] if the format cannot hold one, [`TraceError::Io`] or
    /// [`TraceError::Parquet`] if the file fails.
    fn write(&mut self, requests: &[IoRequest]) -> Result<(), TraceError>;

    /// Writes what is left and gives the file its name. A writer dropped without this leaves no
    /// file.
    ///
    /// # Errors
    /// As [`TraceWriter::write`].
    fn finish(self: Box<Self>, facts: &Facts) -> Result<Written, TraceError>;
}

enum Sink {
    Plain(BufWriter<File>),
    Gzip(flate2::write::GzEncoder<File>),
    Zstd(zstd::Encoder<'static, File>),
    Xz(liblzma::write::XzEncoder<File>),
    Stdout(BufWriter<io::Stdout>),
}

/// A file being written under a temporary name, compressed as its ending says; or standard output
/// for `-`.
pub struct Output {
    path: PathBuf,
    temporary: Option<PathBuf>,
    sink: Option<Sink>,
    written: u64,
    is_lasting: bool,
}

impl Output {
    /// Starts a file. It appears under its name in [`Output::commit`].
    ///
    /// # Errors
    /// [`TraceError::Io`] if it cannot be created.
    pub fn create(path: &Path) -> Result<Self, TraceError> {
        let failed =
            |source| TraceError::Io { path: path.to_owned(), doing: "create", offset: 0, source };
        if path.as_os_str() == "-" {
            let sink = Some(Sink::Stdout(BufWriter::with_capacity(256 << 10, io::stdout())));
            return Ok(Self {
                path: PathBuf::from("<standard output>"),
                temporary: None,
                sink,
                written: 0,
                is_lasting: true,
            });
        }
        let name = path
            .file_name()
            .ok_or_else(|| failed(io::Error::from(io::ErrorKind::InvalidFilename)))?;
        let name = name.to_string_lossy();
        // A name that nobody can guess, and that is new: nothing is written through a link.
        let drawn = RandomState::new().hash_one(std::process::id());
        let temporary = path.with_file_name(format!(".{name}.{drawn:016x}.part"));
        let file = File::create_new(&temporary).map_err(failed)?;
        let sink = if name.ends_with(".gz") {
            Sink::Gzip(flate2::write::GzEncoder::new(file, flate2::Compression::default()))
        } else if name.ends_with(".zst") {
            Sink::Zstd(zstd::Encoder::new(file, 3).map_err(failed)?)
        } else if name.ends_with(".xz") {
            Sink::Xz(liblzma::write::XzEncoder::new(file, 6))
        } else {
            Sink::Plain(BufWriter::with_capacity(256 << 10, file))
        };
        Ok(Self {
            path: path.to_owned(),
            temporary: Some(temporary),
            sink: Some(sink),
            written: 0,
            is_lasting: true,
        })
    }

    /// Leaves it to the caller to make the file durable: of many files all are at once.
    #[must_use]
    pub(crate) fn flushed_later(mut self) -> Self {
        self.is_lasting = false;
        self
    }

    /// The path as messages show it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the file, makes it durable and gives it its name.
    ///
    /// # Errors
    /// [`TraceError::Io`].
    pub fn commit(mut self) -> Result<(), TraceError> {
        let sink = self.sink.take().unwrap_or_else(|| unreachable!("only commit takes the sink"));
        let ended = match sink {
            Sink::Plain(file) => {
                file.into_inner().map_err(io::IntoInnerError::into_error).map(Some)
            }
            Sink::Gzip(file) => file.finish().map(Some),
            Sink::Zstd(file) => file.finish().map(Some),
            Sink::Xz(file) => file.finish().map(Some),
            Sink::Stdout(mut out) => out.flush().map(|()| None),
        };
        let named = ended.and_then(|file| {
            let (Some(file), Some(temporary)) = (file, self.temporary.as_ref()) else {
                return Ok(());
            };
            if self.is_lasting {
                file.sync_all()?;
            }
            fs::rename(temporary, &self.path)
        });
        named.map_err(|source| self.failed(source))?;
        self.temporary = None;
        Ok(())
    }

    pub(crate) fn failed(&self, source: io::Error) -> TraceError {
        TraceError::Io { path: self.path.clone(), doing: "write", offset: self.written, source }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = match self.sink.as_mut() {
            Some(Sink::Plain(out)) => out.write(bytes),
            Some(Sink::Gzip(out)) => out.write(bytes),
            Some(Sink::Zstd(out)) => out.write(bytes),
            Some(Sink::Xz(out)) => out.write(bytes),
            Some(Sink::Stdout(out)) => out.write(bytes),
            None => unreachable!("only commit takes the sink"),
        }?;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        // Flushing a compressor in the middle costs compression; commit ends it properly.
        match self.sink.as_mut() {
            Some(Sink::Plain(out)) => out.flush(),
            Some(Sink::Stdout(out)) => out.flush(),
            _ => Ok(()),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            drop(self.sink.take());
            // Nothing better can be done about a file that cannot be removed while another error is
            // on its way.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Reasons why a line format cannot hold a request.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The format has no such operation: may be dropped if the user says so.
    Operation(IoOp, &'static str),
    /// A field does not fit.
    Field(String, &'static str),
}

impl Refused {
    pub(crate) fn operation(op: IoOp, right: &'static str) -> Self {
        Self::Operation(op, right)
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Field(error.to_string(), "memory for one line")
    }
}

/// Start and count of a request in 512-byte sectors.
pub(crate) fn in_sectors(request: &IoRequest) -> Result<(u64, u64), Refused> {
    let length = u64::from(request.length);
    if !request.offset.is_multiple_of(SECTOR_BYTES) || !length.is_multiple_of(SECTOR_BYTES) {
        let what = format!("offset {} and length {length} are not whole sectors", request.offset);
        return Err(Refused::Field(what, "multiples of 512 bytes"));
    }
    Ok((request.offset / SECTOR_BYTES, length / SECTOR_BYTES))
}

/// Writer of single requests as text.
pub(crate) trait LineWriter: Send {
    /// Adds the lines of a request. On an error, what was added is taken back.
    fn line(&mut self, request: &IoRequest, out: &mut Vec<u8>) -> Result<(), Refused>;

    /// Adds what was held back.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), TraceError>;
}

/// Writes a line format.
pub(crate) struct TextWriter<F> {
    output: Output,
    format: F,
    name: &'static str,
    drop_unsupported: bool,
    text: Vec<u8>,
    written: Written,
}

impl<F: LineWriter> TextWriter<F> {
    pub(crate) fn new(
        output: Output,
        format: F,
        name: &'static str,
        drop_unsupported: bool,
    ) -> Self {
        Self {
            output,
            format,
            name,
            drop_unsupported,
            text: Vec::new(),
            written: Written::default(),
        }
    }

    fn flush(&mut self) -> Result<(), TraceError> {
        self.output.write_all(&self.text).map_err(|source| self.output.failed(source))?;
        self.text.clear();
        Ok(())
    }
}

impl<F: LineWriter> TraceWriter for TextWriter<F> {
    fn write(&mut self, requests: &[IoRequest]) -> Result<(), TraceError> {
        const FLUSH_BYTES: usize = 64 << 10;
        for request in requests {
            let before = self.text.len();
            let (reason, right) = match self.format.line(request, &mut self.text) {
                Ok(()) => {
                    self.written.requests += 1;
                    if self.text.len() >= FLUSH_BYTES {
                        self.flush()?;
                    }
                    continue;
                }
                Err(Refused::Operation(..)) if self.drop_unsupported => {
                    self.text.truncate(before);
                    self.written.dropped += 1;
                    continue;
                }
                Err(Refused::Operation(op, right)) => {
                    (format!("the format has no {}", op.name()), right)
                }
                Err(Refused::Field(reason, right)) => (reason, right),
            };
            let number = self.written.requests + self.written.dropped;
            return Err(TraceError::Unwritable {
                path: self.output.path.clone(),
                request: number,
                format: self.name,
                reason,
                right,
            });
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, _facts: &Facts) -> Result<Written, TraceError> {
        self.format.finish(&mut self.text)?;
        self.flush()?;
        self.output.commit()?;
        Ok(self.written)
    }
}
