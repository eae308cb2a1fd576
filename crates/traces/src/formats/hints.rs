//! Hints on files that are no traces: what they are, and what to do about it.

use super::fio_log;
use crate::fields::{Split, whole};
use crate::input::Head;

/// Files that begin like this are no traces.
const STARTS: &[(&[u8], &str)] = &[
    (b"PERFILE2", "it is perf's own file: make text of it with `perf script`"),
    (b"\x17\x08\x44tracing", "it is trace-cmd's own file: make text of it with `trace-cmd report`"),
    (b"SQLite format 3", "it is an SQLite database, not a trace of its requests"),
    (b"7z\xbc\xaf\x27\x1c", "it is a 7z archive: unpack it first"),
    (b"Rar!", "it is a rar archive: unpack it first"),
    (b"\x04\x22\x4d\x18", "it is compressed by lz4: unpack it first"),
    (b"ARROW1", "it is an Arrow (Feather) file: write the table as Parquet"),
    (b"\x89HDF", "it is an HDF5 file: write the table as Parquet"),
    (
        b"\x93NUMPY",
        "it is an array of numpy: `.astype('<u4').tofile('pages.u32')` makes a list of \
      pages of it",
    ),
    (b"%PDF", "it is a PDF"),
    (b"\x7fELF", "it is a program"),
];

/// Gives a hint on what the file seems to be.
pub(crate) fn hint(head: Head<'_>) -> Option<String> {
    let start = STARTS.iter().find(|(start, _)| head.bytes.starts_with(start));
    if let Some((_, hint)) = start {
        return Some((*hint).to_owned());
    }
    let text = head.bytes.trim_ascii_start();
    let lower: Vec<u8> = text.iter().take(16).map(u8::to_ascii_lowercase).collect();
    if lower.starts_with(b"<!doctype") || lower.starts_with(b"<html") {
        return Some("it is a web page, as a download that asks for a login gives one".to_owned());
    }
    if text.starts_with(b"{") || text.starts_with(b"[{") {
        let is_fio = memchr::memmem::find(head.bytes, b"\"fio version\"").is_some();
        let fio = "it is fio's results, not its requests: those come with write_iolog";
        return Some(if is_fio { fio.to_owned() } else { "it is JSON".to_owned() });
    }
    let lines: Vec<&[u8]> = head.lines().take(32).collect();
    if lines.iter().take(4).any(|line| line.starts_with(b"TIME(")) {
        return Some(
            "it looks like biosnoop of bpftrace, which prints neither place nor size: take that \
             of bcc or of libbpf-tools, or blktrace"
                .to_owned(),
        );
    }
    if fio_log::shape(head).is_some() {
        return Some("it looks like a log of fio: --format fio_log".to_owned());
    }
    of_table(&lines)
}

/// Gives a hint on what a table of text looks like.
fn of_table(lines: &[&[u8]]) -> Option<String> {
    let first: Vec<&[u8]> = Split::commas(lines.first()?).collect();
    let pairs = lines.iter().skip(usize::from(lines.len() > 1 && whole(first[0]).is_none()));
    let is_sizes = |line: &&[u8]| {
        let fields: Vec<&[u8]> = Split::commas(line).collect();
        fields.len() == 2
            && whole(fields[0]).is_some()
            && whole(fields[1]).is_some_and(|size| size >= 1 << 20)
    };
    if first.len() == 2 && pairs.clone().count() > 0 && pairs.clone().all(is_sizes) {
        return Some(
            "it looks like Alibaba's device_size.csv, a device and its size a line: it lies beside \
             the trace, io_traces.csv"
                .to_owned(),
        );
    }
    if first.len() < 3 {
        return None;
    }
    let is_header = !first.iter().any(|field| whole(field).is_some());
    let guess = |words: &[&str], key: &str| {
        let found = first.iter().find(|field| {
            let lower = String::from_utf8_lossy(field).to_ascii_lowercase();
            is_header && words.iter().any(|word| lower.contains(word))
        });
        let name = found.map(|field| field.escape_ascii().to_string());
        format!("{key}={}", name.unwrap_or_else(|| "...".to_owned()))
    };
    let columns = [
        guess(&["time", "ts", "date"], "time"),
        "unit=us".to_owned(),
        guess(&["op", "rw", "type", "cmd"], "op"),
        guess(&["offset", "lba", "sector", "addr", "block"], "offset"),
        guess(&["length", "size", "len", "bytes", "count"], "length"),
    ];
    let by = if is_header { "its columns by name" } else { "its columns by number from 1" };
    Some(format!(
        "it is a table of {} columns: name {by}, as in --format 'columns({},sector=512)'",
        first.len(),
        columns.join(",")
    ))
}
