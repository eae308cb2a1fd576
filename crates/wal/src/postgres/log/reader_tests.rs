//! Reading logs that were made by hand: whole, torn and damaged.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::built::{Built, Change, SEGMENT};
use super::error::WalError;
use super::positions::{Lsn, PAGE_BYTES};
use super::reader::{End, Reader};

const MAGIC: u16 = 0xd118;

/// A log of more than two segments, with a record of several pages now and then.
fn built(magic: u16) -> (Built, Vec<Lsn>) {
    let mut log = Built::new(3, magic);
    let mut lsns = Vec::new();
    let mut number = 0;
    while log.lsn().0 < 5 * SEGMENT + 40_000 {
        let image = (vec![1; 100 + (number as usize * 37) % 5000], vec![2; 60]);
        let change = |node: u32| Change {
            node,
            number,
            data: vec![3; number as usize % 90],
            image: number.is_multiple_of(3).then(|| image.clone()),
            is_made: false,
        };
        let main = vec![9; number as usize % 40];
        lsns.push(log.add(10, 0, &[change(7), change(8), change(9)], &main));
        number += 1;
    }
    (log, lsns)
}

fn read(folder: &Path) -> (Vec<Lsn>, Result<End, WalError>) {
    let mut lsns = Vec::new();
    let mut reader = match Reader::open(folder, None, None) {
        Ok(reader) => reader,
        Err(error) => return (lsns, Err(error)),
    };
    loop {
        match reader.next() {
            Ok(Some(record)) => lsns.push(record.lsn),
            Ok(None) => return (lsns, Ok(reader.end().unwrap().clone())),
            Err(error) => return (lsns, Err(error)),
        }
    }
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(folder).unwrap().map(|one| one.unwrap().path()).collect();
    found.sort();
    found
}

fn written() -> (TempDir, Vec<Lsn>) {
    let folder = tempfile::tempdir().unwrap();
    let (log, lsns) = built(MAGIC);
    log.write(folder.path());
    (folder, lsns)
}

fn change_bytes(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

#[test]
fn all_records_are_read_across_pages_and_segments_of_every_version() {
    for (magic, version) in [(0xd110, 15), (0xd113, 16), (0xd116, 17), (0xd118, 18)] {
        let folder = tempfile::tempdir().unwrap();
        let (log, lsns) = built(magic);
        log.write(folder.path());
        let (found, end) = read(folder.path());
        assert_eq!(found, lsns);
        let end = end.unwrap();
        assert_eq!((end.lsn, end.torn), (log.lsn(), None));
        assert_eq!(Reader::open(folder.path(), None, None).unwrap().log().version, version);
    }
}

#[test]
fn blocks_and_own_data_are_those_that_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Built::new(1, MAGIC);
    let image = Some((vec![1; 200], vec![2; 92]));
    let first = Change { node: 70, number: 4, data: vec![5; 9], image, is_made: false };
    let second = Change { node: 71, number: 6, is_made: true, ..Change::default() };
    log.add(11, 0x30, &[first, second], b"main");
    log.write(folder.path());
    let mut reader = Reader::open(folder.path(), None, None).unwrap();
    let record = reader.next().unwrap().unwrap();
    assert_eq!((record.rmgr, record.kind(), record.main()), (11, 0x30, &b"main"[..]));
    let [a, b] = record.blocks else { panic!("{:?}", record.blocks) };
    assert_eq!((a.relation.node, a.number, a.data_length, a.id), (70, 4, 9, 0));
    let found = (a.image.length, a.image.hole_offset, a.image.hole_length, a.image.header());
    assert_eq!(found, (292, 200, 8192 - 292, 5));
    let image = &record.bytes[a.image.at as usize..][..292];
    assert_eq!((image[199], image[200]), (1, 2));
    assert_eq!((b.relation.node, b.number, b.will_init(), b.has_image()), (71, 6, true, false));
}

#[test]
fn reading_begins_and_ends_where_it_is_asked_to() {
    let (folder, lsns) = written();
    let (from, until) = (lsns[lsns.len() / 2], lsns[lsns.len() - 10]);
    let mut reader = Reader::open(folder.path(), Some(from), Some(until)).unwrap();
    let mut found = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        found.push(record.lsn);
    }
    let base = from.0 / SEGMENT * SEGMENT;
    let known: Vec<_> = lsns.iter().copied().filter(|lsn| lsn.0 >= base && *lsn < until).collect();
    assert_eq!(found, known);
    assert_eq!(reader.end().unwrap().lsn, until);
}

#[test]
fn a_log_whose_last_page_is_torn_ends_before_the_record_that_is_not_whole() {
    let (folder, lsns) = written();
    let last = segments(folder.path()).pop().unwrap();
    // The last record that goes on on a second page, of which nothing was written.
    let across = lsns
        .windows(2)
        .rev()
        .find(|two| two[0].0 / PAGE_BYTES as u64 != two[1].0 / PAGE_BYTES as u64);
    let torn = across.unwrap()[0];
    let cut = (torn.0 / PAGE_BYTES as u64 + 1) * PAGE_BYTES as u64 % SEGMENT;
    change_bytes(&last, |bytes| bytes[cut as usize..].fill(0));
    let (found, end) = read(folder.path());
    let end = end.unwrap();
    assert_eq!((end.lsn, end.path), (torn, last.clone()));
    assert!(end.torn.unwrap().contains("is not whole"));
    assert_eq!(found, lsns.iter().copied().filter(|lsn| *lsn < torn).collect::<Vec<_>>());
    // Half of the last page.
    let (folder, lsns) = written();
    let last = segments(folder.path()).pop().unwrap();
    let place = *lsns.last().unwrap();
    change_bytes(&last, |bytes| bytes[(place.0 % SEGMENT) as usize + 30..].fill(0xee));
    let (found, end) = read(folder.path());
    assert_eq!(found.len(), lsns.len() - 1);
    assert!(end.unwrap().torn.is_some());
    // A file that was copied half.
    change_bytes(&last, |bytes| bytes.truncate((place.0 % SEGMENT) as usize + 100));
    assert_eq!(
        read(folder.path()).0.len(),
        found.len() - {
            let page = place.0 / PAGE_BYTES as u64 * PAGE_BYTES as u64;
            found.iter().filter(|lsn| lsn.0 >= page || ends_in(&lsns, **lsn, page)).count()
        }
    );
}

/// True if a record reaches into the page that begins at a place.
fn ends_in(lsns: &[Lsn], lsn: Lsn, page: u64) -> bool {
    let next = lsns.iter().find(|next| **next > lsn);
    lsn.0 < page && next.is_some_and(|next| next.0 > page + 24)
}

#[test]
fn segments_that_wait_to_be_used_again_do_not_follow() {
    let (folder, lsns) = written();
    let files = segments(folder.path());
    // The server has renamed its oldest segment to be the next one.
    let next = format!("00000001{:08X}{:08X}", 0, 6);
    fs::copy(&files[0], folder.path().join(next)).unwrap();
    let (found, end) = read(folder.path());
    assert_eq!((found, end.unwrap().torn), (lsns, None));
}

#[test]
fn a_damaged_segment_is_said_with_file_and_offset() {
    let (folder, lsns) = written();
    let files = segments(folder.path());
    let hit = *lsns.iter().find(|lsn| lsn.0 > 4 * SEGMENT + 100_000).unwrap();
    change_bytes(&files[1], |bytes| bytes[(hit.0 % SEGMENT) as usize + 40] ^= 1);
    let (found, end) = read(folder.path());
    assert_eq!(found.last().unwrap(), lsns.iter().rev().find(|lsn| **lsn < hit).unwrap());
    let said = end.unwrap_err().to_string();
    let place = format!("{}: offset {} (LSN {hit})", files[1].display(), hit.0 % SEGMENT);
    assert!(said.starts_with(&place) && said.contains("checksum"), "{said}");
    // A page of zeros in the middle.
    let (folder, _) = written();
    let files = segments(folder.path());
    let at = 50 * PAGE_BYTES;
    change_bytes(&files[1], |bytes| bytes[at..at + PAGE_BYTES].fill(0));
    let said = read(folder.path()).1.unwrap_err().to_string();
    assert!(said.contains(&format!("{}: offset {at} ", files[1].display())), "{said}");
    assert!(said.contains("log follows that is right"), "{said}");
}

#[test]
fn a_missing_segment_is_said_with_its_name() {
    let (folder, lsns) = written();
    let files = segments(folder.path());
    fs::remove_file(&files[1]).unwrap();
    let said = read(folder.path()).1.unwrap_err().to_string();
    let name = files[1].file_name().unwrap().to_string_lossy().into_owned();
    assert!(said.contains(&format!("segment {name}, which follows it, is missing")), "{said}");
    let failed = Reader::open(folder.path(), Some(lsns[lsns.len() / 2]), None).err();
    assert!(failed.unwrap().to_string().contains("is missing"));
    let other = folder.path().join(name.replacen('1', "2", 1));
    fs::copy(&files[0], other).unwrap();
    let said = read(folder.path()).1.unwrap_err().to_string();
    assert!(said.contains("timelines 1 and 2"), "{said}");
}

#[test]
fn what_is_no_log_is_refused_with_what_would_be_right() {
    let folder = tempfile::tempdir().unwrap();
    let said = read(folder.path()).1.unwrap_err().to_string();
    assert!(said.contains("there is no segment") && said.contains("pg_wal"), "{said}");
    let path = folder.path().join("000000010000000000000001");
    fs::write(&path, vec![0; SEGMENT as usize]).unwrap();
    let said = read(folder.path()).1.unwrap_err().to_string();
    assert!(said.contains("PostgreSQL 15 to 18"), "{said}");
}
