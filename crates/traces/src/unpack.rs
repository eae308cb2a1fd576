//! Layers around the bytes of a trace: compression, archives, characters of 16 bits.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::archive::{Archive, Kind, TOLD_BY};
use crate::compression::Compression;
use crate::error::TraceError;

/// The file that a path leads to, or the archive that it leads into.
pub(crate) fn archive_of(path: &Path) -> &Path {
    if path.exists() {
        return path;
    }
    path.ancestors().skip(1).find(|above| above.is_file()).unwrap_or(path)
}

/// The bytes of a trace without all that was around them.
pub(crate) struct Unpacked {
    /// Name of the innermost file.
    pub(crate) name: String,
    pub(crate) is_packed: bool,
    /// True if it is in an archive.
    pub(crate) is_member: bool,
    /// The other files of the archive that it is in, as they can be opened.
    pub(crate) beside: Vec<PathBuf>,
    pub(crate) stream: Box<dyn Read + Send>,
}

/// Nobody packs more often than that.
const MOST_LAYERS: usize = 8;

/// A stream, without what is around it, up to an archive or up to plain bytes.
struct Layers {
    stream: Box<dyn Read + Send>,
    archive: Option<Kind>,
    is_packed: bool,
}

impl Layers {
    fn of(mut stream: Box<dyn Read + Send>) -> io::Result<Self> {
        let mut is_packed = false;
        for _ in 0..MOST_LAYERS {
            let mut start = Vec::new();
            (&mut stream).take(TOLD_BY as u64).read_to_end(&mut start)?;
            let (compression, archive) = (Compression::of(&start), Kind::of(&start));
            stream = Box::new(io::Cursor::new(start).chain(stream));
            if archive.is_some() || compression == Compression::None {
                return Ok(Self { stream, archive, is_packed });
            }
            is_packed = true;
            stream = compression.decoder(stream)?;
        }
        Ok(Self { stream, archive: None, is_packed })
    }
}

/// Takes away all that is around a trace.
pub(crate) fn unpack(
    path: &Path,
    on_disk: Option<&Path>,
    raw: Box<dyn Read + Send>,
) -> Result<Unpacked, TraceError> {
    let failed = |doing, source| TraceError::Io { path: path.to_owned(), doing, offset: 0, source };
    let unusable = |reason, right| TraceError::Unusable { path: path.to_owned(), reason, right };
    let named = on_disk.unwrap_or(path).file_name();
    let mut name = named.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let within = on_disk.and_then(|file| path.strip_prefix(file).ok()).unwrap_or(Path::new(""));
    // What the path names within the archive, and what was taken of it so far.
    let mut wanted = within.to_string_lossy().into_owned();
    let (mut chain, mut beside) = (Vec::new(), Vec::new());
    let mut layers = Layers::of(raw).map_err(|error| failed("read", error))?;
    let mut is_packed = layers.is_packed;
    while let Some(kind) = layers.archive {
        let Some(file) = on_disk else {
            return Err(unusable(
                "it is an archive, and comes through a pipe".to_owned(),
                "a file, whose archive can be read more than once",
            ));
        };
        if chain.len() == MOST_LAYERS {
            return Err(unusable("archives within archives".to_owned(), "at most eight of them"));
        }
        let names = members(file, &chain).map_err(|error| failed("unpack", error))?;
        let member = choose(&names, &wanted).map_err(|reason| {
            unusable(
                reason,
                "the path of one of them behind that of the archive, as in data.zip/io.csv",
            )
        })?;
        let inside: PathBuf = chain.iter().collect();
        let others = names.iter().filter(|other| **other != member);
        beside = others.map(|other| file.join(&inside).join(other)).collect();
        let found = open_member(Archive::new(kind, layers.stream), &member);
        layers = found.and_then(Layers::of).map_err(|error| failed("unpack", error))?;
        is_packed = true;
        wanted = rest_of(&wanted, &member).to_owned();
        name = member.rsplit('/').next().unwrap_or(&member).to_owned();
        chain.push(member);
    }
    if !wanted.is_empty() {
        return Err(failed("open", io::Error::from(io::ErrorKind::NotFound)));
    }
    let is_member = !chain.is_empty();
    Ok(Unpacked { name, is_packed, is_member, beside, stream: layers.stream })
}

/// Gives the rest of a path, which names something within the file that its beginning names.
fn rest_of<'a>(wanted: &'a str, member: &str) -> &'a str {
    wanted.strip_prefix(member).unwrap_or("").trim_start_matches('/')
}

fn open_member(mut archive: Archive, wanted: &str) -> io::Result<Box<dyn Read + Send>> {
    while let Some(name) = archive.next()? {
        if name == wanted {
            return archive.into_member();
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// The names of the files in an archive, within others if `chain` names such.
fn members(file: &Path, chain: &[String]) -> io::Result<Vec<String>> {
    let mut layers = Layers::of(Box::new(File::open(file)?))?;
    for member in chain {
        let Some(kind) = layers.archive else { return Ok(Vec::new()) };
        layers = Layers::of(open_member(Archive::new(kind, layers.stream), member)?)?;
    }
    let Some(kind) = layers.archive else { return Ok(Vec::new()) };
    let (mut archive, mut names) = (Archive::new(kind, layers.stream), Vec::new());
    while let Some(name) = archive.next()? {
        names.push(name);
    }
    Ok(names)
}

/// Returns true if a file of an archive may be a trace, by its name: one that only describes a
/// trace is none.
fn may_be_trace(path: &str) -> bool {
    const ABOUT: [&str; 8] =
        ["readme", "license", "licence", "copying", "md5", "sha1", "sha256", "checksum"];
    const ENDINGS: [&str; 9] =
        [".md", ".pdf", ".html", ".py", ".sh", ".md5", ".sha1", ".sha256", ".png"];
    let lower = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    !(lower.is_empty()
        || lower.starts_with('.')
        || path.starts_with("__MACOSX/")
        || lower == "device_size.csv"
        || ABOUT.iter().any(|word| lower.starts_with(word))
        || ENDINGS.iter().any(|ending| lower.ends_with(ending)))
}

/// The file that is wanted; without a wish the only one that may be a trace, or the first of the
/// CPUs of one recording. Otherwise why none is taken.
fn choose(names: &[String], wanted: &str) -> Result<String, String> {
    const SHOWN: usize = 8;
    let traces: Vec<&String> = names.iter().filter(|name| may_be_trace(name)).collect();
    let listed = || {
        let mut shown: Vec<&str> = traces.iter().take(SHOWN).map(|name| name.as_str()).collect();
        if traces.len() > SHOWN {
            shown.push("...");
        }
        shown.join(", ")
    };
    if !wanted.is_empty() {
        let is_it = |name: &&String| {
            wanted
                .strip_prefix(name.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let found = names.iter().find(is_it).cloned();
        return found.ok_or_else(|| format!("it has no file {wanted}; in it are {}", listed()));
    }
    match traces.as_slice() {
        [] => Err("it is an archive without a trace".to_owned()),
        [one] => Ok((*one).clone()),
        several if is_one_recording(several) => Ok(several[0].clone()),
        several => Err(format!("it holds {} files: {}", several.len(), listed())),
    }
}

/// Name and CPU of `NAME.blktrace.N`, however it is compressed.
pub(crate) fn cpu_file(name: &str) -> Option<(&str, u32)> {
    let (trace, cpu) = Compression::strip_ending(name).rsplit_once(".blktrace.")?;
    Some((trace, cpu.parse().ok()?))
}

/// Returns true if files are those of the CPUs of one recording.
fn is_one_recording(names: &[&String]) -> bool {
    let traces: Option<Vec<&str>> =
        names.iter().map(|name| cpu_file(name).map(|(trace, _)| trace)).collect();
    traces.is_some_and(|traces| traces.windows(2).all(|two| two[0] == two[1]))
}

/// Gives the byte order, true for big-endian, if a text is of 16-bit characters: Windows writes
/// such.
pub(crate) fn utf16_order(head: &[u8]) -> Option<bool> {
    let big_endian = match head {
        [0xff, 0xfe, ..] => false,
        [0xfe, 0xff, ..] => true,
        _ => return None,
    };
    let (high, low) = if big_endian { (0, 1) } else { (1, 0) };
    let plain = |pair: &[u8]| pair[high] == 0 && matches!(pair[low], b' '..=b'~' | b'\t'..=b'\r');
    let text = head.get(2..10)?;
    text.chunks_exact(2).all(plain).then_some(big_endian)
}

/// Text of 16-bit characters as UTF-8; what is not ASCII becomes `?`.
pub(crate) struct Utf16<R> {
    inner: io::BufReader<R>,
    big_endian: bool,
}

impl<R: Read> Utf16<R> {
    pub(crate) fn new(inner: R, big_endian: bool) -> Self {
        Self { inner: io::BufReader::new(inner), big_endian }
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while count < buffer.len() {
            let mut pair = [0; 2];
            if let Err(error) = self.inner.read_exact(&mut pair) {
                if error.kind() == io::ErrorKind::UnexpectedEof {
                    break;
                }
                return Err(error);
            }
            let code =
                if self.big_endian { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) };
            if code == 0xfeff {
                continue;
            }
            buffer[count] = u8::try_from(code).ok().filter(u8::is_ascii).unwrap_or(b'?');
            count += 1;
        }
        Ok(count)
    }
}
