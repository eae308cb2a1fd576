//! Opening a trace, and converting one into another.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use registry::{Args, Spec};
use sha2::{Digest, Sha256};
use units::{IoRequest, Progress};

use crate::error::TraceError;
use crate::formats::{self, Format};
use crate::input::{Input, Position};
use crate::reader::{Facts, Mark, TraceReader};
use crate::volumes::{VolumeReader, volume_of};
use crate::writer::{Origin, SourceFile, Written};

/// Settings with which a trace is read.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The format and its parameters; told by content if `None`.
    pub format: Option<Spec>,
    /// Malformed records to pass over and count before one is an error.
    pub skip_bad: u64,
}

/// An open trace.
pub struct Trace {
    path: PathBuf,
    /// The file, if the trace is one: standard input and bytes in memory are not.
    file: Option<PathBuf>,
    format: &'static Format,
    args: Args,
    reader: Box<dyn TraceReader>,
    position: Arc<Position>,
    reported: u64,
    /// True for the folder of a volume.
    is_volume: bool,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace")
            .field("path", &self.path)
            .field("format", &self.format.info.name)
            .finish_non_exhaustive()
    }
}

/// Opens a trace file, or standard input for `-`; plain, .gz, .zst or .xz; or the folder of a
/// volume of a store of many ([`crate::fleet`]).
///
/// # Errors
/// [`TraceError`] if it cannot be read, its format cannot be told, or the format's parameters are
/// wrong.
pub fn open(path: &Path, options: &OpenOptions) -> Result<Trace, TraceError> {
    if volume_of(path).is_some() && path.is_dir() {
        return open_volume(path, options);
    }
    open_input(Input::open(path)?, options)
}

fn open_volume(path: &Path, options: &OpenOptions) -> Result<Trace, TraceError> {
    let parquet = Spec { name: "parquet".to_owned(), given: Vec::new() };
    let spec = options.format.as_ref().unwrap_or(&parquet);
    let format = formats::find(spec)?;
    if format.info.name != parquet.name {
        return Err(TraceError::Unusable {
            path: path.to_owned(),
            reason: format!("it is the folder of a volume, not of the format {}", format.info.name),
            right: "no format: its parts are of Parquet",
        });
    }
    let args = format.info.accept(spec)?;
    let reader = VolumeReader::open(path, options.skip_bad)?.from_its_first();
    Ok(Trace {
        path: path.to_owned(),
        file: None,
        format,
        args,
        position: Arc::clone(reader.position()),
        reader: Box::new(reader),
        reported: 0,
        is_volume: true,
    })
}

/// As [`open`], over bytes that are already open.
///
/// # Errors
/// As [`open`].
pub fn open_input(input: Input, options: &OpenOptions) -> Result<Trace, TraceError> {
    let (format, spec) = match &options.format {
        Some(spec) => (formats::find(spec)?, spec.clone()),
        None => {
            let format = formats::detect(&input)?;
            (format, Spec { name: format.info.name.to_owned(), given: Vec::new() })
        }
    };
    let args = format.info.accept(&spec)?;
    let (path, file, position) =
        (input.path().to_owned(), input.file().map(Path::to_owned), Arc::clone(&input.position));
    let reader = (format.read)(input, &args, options.skip_bad)?;
    Ok(Trace { path, file, format, args, reader, position, reported: 0, is_volume: false })
}

impl Trace {
    /// The format, as given or as told by content.
    #[must_use]
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// The format's parameters.
    #[must_use]
    pub fn args(&self) -> &Args {
        &self.args
    }

    /// The path as messages show it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends at most `max` requests to `out` and returns how many: 0 only at the end.
    ///
    /// # Errors
    /// As [`TraceReader::read_batch`].
    pub fn read_batch(
        &mut self,
        out: &mut Vec<IoRequest>,
        max: usize,
    ) -> Result<usize, TraceError> {
        self.reader.read_batch(out, max)
    }

    /// See [`TraceReader::mark`].
    #[must_use]
    pub fn mark(&self) -> Option<Mark> {
        self.reader.mark()
    }

    /// See [`TraceReader::go_to`].
    ///
    /// # Errors
    /// As [`TraceReader::go_to`].
    pub fn go_to(&mut self, mark: &Mark) -> Result<(), TraceError> {
        self.reader.go_to(mark)
    }

    /// Gives the facts known so far; complete after the last batch.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.reader.facts()
    }

    /// Bytes to be read, as they are stored; 0 if that is not known.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.position.total.load(Ordering::Relaxed)
    }

    /// Tells the progress how many bytes were read since the last call.
    ///
    /// # Errors
    /// [`TraceError::Cancelled`] if the work was asked to stop.
    pub fn report(&mut self, progress: &Progress) -> Result<(), TraceError> {
        let done = self.position.done.load(Ordering::Relaxed);
        progress.advance(done.saturating_sub(self.reported))?;
        self.reported = self.reported.max(done);
        Ok(())
    }

    /// All files that the requests come from, with their hashes; none for standard input.
    ///
    /// # Errors
    /// [`TraceError::Io`] if one cannot be read again.
    pub fn sources(&self) -> Result<Vec<SourceFile>, TraceError> {
        self.file.iter().chain(self.reader.more_files()).map(|path| hash_file(path)).collect()
    }

    /// Returns true if the trace can be opened again by its path: a regular file, or a volume.
    #[must_use]
    pub fn can_reopen(&self) -> bool {
        self.is_volume || self.file.as_deref().is_some_and(Path::is_file)
    }
}

/// Requests that are read before they are handed on: large enough that calls do not count, small
/// enough for the cache.
pub const BATCH_REQUESTS: usize = 8 << 10;

/// Outcome of a conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// Format read.
    pub from: &'static str,
    /// Format written.
    pub to: &'static str,
    /// Counts of the written file.
    pub written: Written,
    /// Facts found while reading.
    pub facts: Facts,
    /// The files read.
    pub sources: Vec<SourceFile>,
}

/// Reads the trace `from` and writes it to `to`; the format to write is told by the name's ending
/// if it is not given. Progress counts bytes of `from`.
///
/// # Errors
/// Any [`TraceError`]. The file `to` is then not there, or as it was before.
pub fn convert(
    from: &Path,
    options: &OpenOptions,
    to: &Path,
    to_format: Option<&Spec>,
    progress: &Progress,
) -> Result<Converted, TraceError> {
    let target = formats::Target::of(to, to_format)?;
    let mut trace = open(from, options)?;
    let sources = trace.sources()?;
    let streams_are_volumes = trace.facts().streams_are_volumes;
    let origin = Origin {
        sources: sources.clone(),
        format: trace.format.info.name.to_owned(),
        streams_are_volumes,
    };
    let mut writer = target.create(&origin)?;
    progress.set_total(trace.total_bytes());
    let mut batch = Vec::with_capacity(BATCH_REQUESTS);
    while trace.read_batch(&mut batch, BATCH_REQUESTS)? > 0 {
        writer.write(&batch)?;
        batch.clear();
        trace.report(progress)?;
    }
    let facts = trace.facts();
    let written = writer.finish(&facts)?;
    Ok(Converted {
        from: trace.format.info.name,
        to: target.format.info.name,
        written,
        facts,
        sources,
    })
}

/// Name and SHA-256 of a file as it is stored.
///
/// # Errors
/// [`TraceError::Io`].
pub fn hash_file(path: &Path) -> Result<SourceFile, TraceError> {
    let failed = |offset| {
        move |source| TraceError::Io { path: path.to_owned(), doing: "hash", offset, source }
    };
    let mut file = File::open(path).map_err(failed(0))?;
    let (mut hash, mut buffer, mut offset) = (Sha256::new(), vec![0; 256 << 10], 0);
    loop {
        let count = file.read(&mut buffer).map_err(failed(offset))?;
        if count == 0 {
            break;
        }
        hash.update(&buffer[..count]);
        offset += count as u64;
    }
    let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(SourceFile { name, sha256 })
}
