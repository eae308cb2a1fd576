//! The registry of trace formats: one file a format, one line here.

mod alibaba;
mod arc_lis;
mod biosnoop;
mod blk_events;
mod blkparse;
mod blktrace;
mod block_events;
mod by_issue;
mod columns;
mod disksim;
mod fio_iolog;
mod fio_log;
mod fiu;
mod hints;
mod mqsim;
mod msr;
mod page_list;
mod parquet;
mod sequences;
mod spc;
mod systor;
mod tencent;
mod vscsi;

use registry::{Args, Info, Spec, SpecError};

use crate::error::TraceError;
pub use crate::fit::Fit;
use crate::input::{Head, Input};
use crate::reader::TraceReader;
use crate::writer::{Origin, Output, TraceWriter};

/// Makes a reader. `skip_bad` malformed records are passed over before one is an error.
pub type MakeReader =
    fn(input: Input, args: &Args, skip_bad: u64) -> Result<Box<dyn TraceReader>, TraceError>;

/// Makes a writer.
pub type MakeWriter =
    fn(output: Output, args: &Args, origin: &Origin) -> Result<Box<dyn TraceWriter>, TraceError>;

/// A trace format.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Name, summary, source, parameters.
    pub info: Info,
    /// File name endings, which decide only between formats that fit equally well.
    pub endings: &'static [&'static str],
    /// Tells the format by content.
    pub fit: fn(Head<'_>) -> Fit,
    /// Makes a reader.
    pub read: MakeReader,
    /// Makes a writer, if the format can be written.
    pub write: Option<MakeWriter>,
}

/// All formats.
pub static ALL: &[Format] = &[
    parquet::FORMAT,
    blktrace::FORMAT,
    blkparse::FORMAT,
    block_events::FORMAT,
    biosnoop::FORMAT,
    fio_iolog::FORMAT,
    fio_log::FORMAT,
    fiu::FORMAT,
    msr::FORMAT,
    spc::FORMAT,
    alibaba::FORMAT,
    tencent::FORMAT,
    systor::FORMAT,
    vscsi::FORMAT,
    disksim::FORMAT,
    mqsim::FORMAT,
    arc_lis::FORMAT,
    page_list::FORMAT,
    columns::FORMAT,
];

/// The format that goes by the spec's name.
///
/// # Errors
/// [`SpecError::UnknownName`] lists the known names.
pub fn find(spec: &Spec) -> Result<&'static Format, SpecError> {
    registry::find("trace format", ALL, |format| &format.info, spec)
}

/// The format that a file is of, by its content; by its name only where the content fits several
/// equally well.
///
/// # Errors
/// [`TraceError::UnknownFormat`] if none fits, or several do.
pub fn detect(input: &Input) -> Result<&'static Format, TraceError> {
    let head = input.head();
    let unknown = |reason: String| {
        let known = names(|_| true);
        Err(TraceError::UnknownFormat { path: input.path().to_owned(), reason, known })
    };
    if head.bytes.is_empty() {
        return unknown("the file is empty".to_owned());
    }
    let fits: Vec<(Fit, &Format)> = ALL
        .iter()
        .map(|format| ((format.fit)(head), format))
        .filter(|(fit, _)| *fit > Fit::No)
        .collect();
    let Some(best_fit) = fits.iter().map(|(fit, _)| *fit).max() else {
        let start = &head.bytes[..head.bytes.len().min(24)];
        if let Some(hint) = hints::hint(head) {
            return unknown(hint);
        }
        return unknown(format!("no known format starts with `{}`", start.escape_ascii()));
    };
    let best: Vec<&'static Format> =
        fits.iter().filter(|(fit, _)| *fit == best_fit).map(|(_, format)| *format).collect();
    let by_name: Vec<&'static Format> = best
        .iter()
        .copied()
        .filter(|format| format.endings.iter().any(|ending| head.ends_with(ending)))
        .collect();
    match (best.as_slice(), by_name.as_slice()) {
        ([one], _) | (_, [one]) => Ok(one),
        (several, _) => {
            if best_fit < Fit::Likely
                && let Some(hint) = hints::hint(head)
            {
                return unknown(hint);
            }
            let fitting: Vec<&str> = several.iter().map(|format| format.info.name).collect();
            unknown(format!("the content could be {}", fitting.join(" or ")))
        }
    }
}

/// The format that a file to be written gets by its name.
///
/// # Errors
/// [`TraceError::UnknownFormat`] if the ending is not one of a format that can be written.
fn for_writing(path: &std::path::Path) -> Result<&'static Format, TraceError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
    let name = crate::compression::Compression::strip_ending(name);
    ALL.iter()
        .find(|format| {
            format.write.is_some() && format.endings.iter().any(|ending| name.ends_with(ending))
        })
        .ok_or_else(|| TraceError::UnknownFormat {
            path: path.to_owned(),
            reason: "the ending tells no format that can be written".to_owned(),
            known: names(|format| format.write.is_some()),
        })
}

/// A file that is to be written in a format.
pub struct Target<'a> {
    path: &'a std::path::Path,
    /// The format.
    pub format: &'static Format,
    args: Args,
    make: MakeWriter,
}

impl<'a> Target<'a> {
    /// The file at `path`, whose ending tells the format if it is not given.
    ///
    /// # Errors
    /// [`TraceError`] if there is no such format, it cannot be written, or has no such parameter.
    pub fn of(path: &'a std::path::Path, given: Option<&Spec>) -> Result<Self, TraceError> {
        let (format, spec) = match given {
            Some(spec) => (find(spec)?, spec.clone()),
            None => {
                let format = for_writing(path)?;
                (format, Spec { name: format.info.name.to_owned(), given: Vec::new() })
            }
        };
        let args = format.info.accept(&spec)?;
        let make = format.write.ok_or_else(|| TraceError::NotWritable {
            format: format.info.name,
            known: names(|format| format.write.is_some()),
        })?;
        Ok(Self { path, format, args, make })
    }

    /// Makes the file.
    ///
    /// # Errors
    /// [`TraceError`] if it cannot be made.
    pub fn create(&self, origin: &Origin) -> Result<Box<dyn TraceWriter>, TraceError> {
        (self.make)(Output::create(self.path)?, &self.args, origin)
    }
}

/// Names of the formats that pass.
pub(crate) fn names(pass: impl Fn(&Format) -> bool) -> String {
    let names: Vec<&str> =
        ALL.iter().filter(|format| pass(format)).map(|format| format.info.name).collect();
    names.join(", ")
}
