//! Pages made by hand, of which it is known what they say; and any bytes at all.

use std::io::Cursor;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

const PAGE: &str = "field: u64 timestamp; offset:0; size:8; signed:0;\nfield: local_t commit; \
                    offset:8; size:8; signed:1;\n\
                    field: char data; offset:16; size:496; signed:0;";
const PAGE_BYTES: usize = 512;
const COMMON: &str = "field:unsigned short common_type; offset:0; size:2; signed:0;\nfield:int \
                      common_pid; offset:4; size:4; signed:1;\n";

/// Numbers of the events in these tests.
const ENTER_PWRITE: u16 = 1;
const EXIT_PWRITE: u16 = 2;
const ENTER_OPENAT: u16 = 3;
const EXIT_OPENAT: u16 = 4;
const ENTER_CLOSE: u16 = 5;
const ENTER_WRITE: u16 = 6;
const EXIT_WRITE: u16 = 7;
const FORK: u16 = 8;
const RING_SUBMIT: u16 = 9;
const RING_FILE: u16 = 10;
const RING_COMPLETE: u16 = 11;

fn formats() -> Vec<String> {
    let event = |name: &str, id: u16, fields: &[&str]| {
        let lines = fields
            .iter()
            .enumerate()
            .map(|(n, field)| format!("field:{field}; offset:{}; size:8; signed:1;\n", 8 + 8 * n));
        format!("name: {name}\nID: {id}\nformat:\n{COMMON}{}", lines.collect::<String>())
    };
    vec![
        event(
            "sys_enter_pwrite64",
            ENTER_PWRITE,
            &["int fd", "char * buf", "size_t count", "loff_t pos"],
        ),
        event("sys_exit_pwrite64", EXIT_PWRITE, &["long ret"]),
        event("sys_enter_openat", ENTER_OPENAT, &["int dfd", "int flags"]),
        event("sys_exit_openat", EXIT_OPENAT, &["long ret"]),
        event("sys_enter_close", ENTER_CLOSE, &["unsigned int fd"]),
        event("sys_enter_write", ENTER_WRITE, &["unsigned int fd", "size_t count"]),
        event("sys_exit_write", EXIT_WRITE, &["long ret"]),
        event("sched_process_fork", FORK, &["pid_t child_pid"]),
        event("io_uring_submit_req", RING_SUBMIT, &["void * req", "u8 opcode"]),
        event("io_uring_file_get", RING_FILE, &["void * req", "int fd"]),
        event("io_uring_complete", RING_COMPLETE, &["void * req", "int res"]),
    ]
}

/// An event: time, thread, number, values of its fields.
type Event = (u64, u32, u16, Vec<i64>);

fn payload((_, thread, id, values): &Event) -> Vec<u8> {
    let mut data = id.to_le_bytes().to_vec();
    data.extend([0, 0]);
    data.extend(thread.to_le_bytes());
    values.iter().for_each(|value| data.extend(value.to_le_bytes()));
    data
}

/// Writes events as the kernel does; `long` takes the form of long events for short ones, too.
fn pages(events: &[Event], per_page: usize, long: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in events.chunks(per_page) {
        let mut now = chunk[0].0;
        let mut data = Vec::new();
        for event in chunk {
            let mut delta = event.0 - now;
            now = event.0;
            if delta >= 1 << 27 {
                data.extend((30 | (delta as u32) << 5).to_le_bytes());
                data.extend(((delta >> 27) as u32).to_le_bytes());
                delta = 0;
            }
            let body = payload(event);
            if long {
                data.extend(((delta as u32) << 5).to_le_bytes());
                data.extend((body.len() as u32 + 4).to_le_bytes());
            } else {
                data.extend(((body.len() as u32 / 4) | ((delta as u32) << 5)).to_le_bytes());
            }
            data.extend(body);
        }
        page(chunk[0].0, data.len() as u64, &data, &mut out);
    }
    out
}

fn page(time: u64, commit: u64, data: &[u8], out: &mut Vec<u8>) {
    let end = out.len() + PAGE_BYTES;
    out.extend(time.to_le_bytes());
    out.extend(commit.to_le_bytes());
    out.extend(data);
    assert!(out.len() <= end, "the test puts too much into a page");
    out.resize(end, 0xa5);
}

fn decode_with(cpus: &[Vec<u8>], about: &About) -> Result<Calls, TraceError> {
    let inputs = cpus.iter().enumerate().map(|(n, bytes)| -> (PathBuf, Box<dyn Read + Send>) {
        (PathBuf::from(format!("cpu{n}")), Box::new(Cursor::new(bytes.clone())))
    });
    calls_of(inputs.collect(), PageLayout::parse(PAGE).unwrap(), about, &Progress::default())
}

fn about(sightings: &[Sighting]) -> About {
    About { formats: formats(), threads: Vec::new(), sightings: sightings.to_vec() }
}

fn seen(at_ns: u64, process: u32, fd: u32, file: u32) -> Sighting {
    Sighting { from_ns: at_ns, to_ns: at_ns + 1, process, fd, file }
}

fn write(from: u64, to: u64, process: u32, fd: i64, length: i64, at: i64) -> [Event; 2] {
    [
        (from, process, ENTER_PWRITE, vec![fd, 0, length, at]),
        (to, process, EXIT_PWRITE, vec![length]),
    ]
}

#[test]
fn a_call_is_paired_over_processors_and_long_times() {
    let [enter, exit] = write(1_000, 1_000 + (1 << 40), 7, 3, 8192, 16384);
    let late = write(exit.0 + 5, exit.0 + 9, 7, 3, 512, 0);
    for long in [false, true] {
        let first = pages(&[enter.clone(), late[0].clone()], 9, long);
        let second = pages(&[exit.clone(), late[1].clone()], 9, long);
        let found = decode_with(&[first, second], &about(&[seen(2_000, 7, 3, 42)])).unwrap();
        let expected = FileCall {
            time_ns: 1_000,
            duration_ns: 1 << 40,
            call: 1,
            op: CallOp::Write,
            file: Some(42),
            offset: Some(16384),
            length: 8192,
            result: 8192,
            process: 7,
        };
        assert_eq!(found.calls[0], expected);
        assert_eq!(found.calls.len(), 2);
        assert_eq!(
            (found.events, found.unpaired_enters, found.unpaired_exits, found.unresolved_calls),
            (4, 0, 0, 0)
        );
    }
}

#[test]
fn a_number_that_is_opened_anew_is_another_file() {
    let mut events = vec![(10, 7, ENTER_OPENAT, vec![0, 0]), (20, 7, EXIT_OPENAT, vec![3])];
    events.extend(write(30, 40, 7, 3, 1, 0));
    events.push((50, 7, ENTER_CLOSE, vec![3]));
    events.extend([(60, 7, ENTER_OPENAT, vec![0, 0]), (70, 7, EXIT_OPENAT, vec![3])]);
    events.extend(write(80, 90, 7, 3, 1, 0));
    // A look that goes over the close tells nothing.
    let across = Sighting { from_ns: 45, to_ns: 75, process: 7, fd: 3, file: 9 };
    let files = |sightings: &[Sighting]| -> Vec<Option<u32>> {
        let found = decode_with(&[pages(&events, 4, false)], &about(sightings)).unwrap();
        found.calls.iter().map(|call| call.file).collect()
    };
    assert_eq!(files(&[seen(25, 7, 3, 1), seen(95, 7, 3, 2)]), [Some(1), Some(2)]);
    assert_eq!(files(&[seen(95, 7, 3, 2), across]), [None, Some(2)]);
    // A look between close and open is of neither.
    assert_eq!(files(&[seen(55, 7, 3, 5)]), [None, None]);
    // Two looks that differ are told of, and nothing is made of them.
    let found =
        decode_with(&[pages(&events, 4, false)], &about(&[seen(25, 7, 3, 1), seen(42, 7, 3, 2)]))
            .unwrap();
    assert_eq!((found.contradicted, found.calls[0].file, found.unresolved_calls), (1, None, 2));
}

#[test]
fn sockets_are_counted_and_left_out() {
    let events: Vec<Event> = [write(1, 2, 7, 3, 1, 0), write(3, 4, 7, 4, 1, 0)].concat();
    let found = decode_with(
        &[pages(&events, 4, false)],
        &about(&[seen(3, 7, 3, NOT_WANTED), seen(3, 7, 4, 0)]),
    )
    .unwrap();
    assert_eq!((found.calls.len(), found.other_calls, found.calls[0].file), (1, 1, Some(0)));
}

#[test]
fn a_position_moves_on_with_what_is_written_and_is_unknown_of_files_that_append() {
    let writes = |from: u64| {
        let write = |at: u64, bytes: i64| {
            [(at, 7, ENTER_WRITE, vec![3, 100]), (at + 1, 7, EXIT_WRITE, vec![bytes])]
        };
        [write(from, 100), write(from + 2, -5), write(from + 4, 60), write(from + 6, 1)].concat()
    };
    let with_flags = |flags: i64| {
        let mut events = vec![(10, 7, ENTER_OPENAT, vec![0, flags]), (20, 7, EXIT_OPENAT, vec![3])];
        events.extend(writes(30));
        let found = decode_with(&[pages(&events, 5, false)], &about(&[])).unwrap();
        (found.calls.iter().map(|call| call.offset).collect::<Vec<_>>(), found.unplaced_calls)
    };
    assert_eq!(with_flags(0o1), (vec![Some(0), Some(100), Some(100), Some(160)], 0));
    assert_eq!(with_flags(0o2001), (vec![None; 4], 4));
}

#[test]
fn a_child_has_its_parents_files_as_they_were() {
    let mut events = vec![
        (10, 7, ENTER_OPENAT, vec![0, 0]),
        (20, 7, EXIT_OPENAT, vec![3]),
        (30, 7, FORK, vec![8]),
    ];
    events.extend(write(40, 50, 8, 3, 1, 0));
    let found = decode_with(&[pages(&events, 9, false)], &about(&[seen(25, 7, 3, 1)])).unwrap();
    assert_eq!(found.calls[0].file, Some(1));
    // Closed by the parent before the child is looked at: the child's is not known.
    events.insert(3, (35, 7, ENTER_CLOSE, vec![3]));
    let found = decode_with(&[pages(&events, 9, false)], &about(&[seen(25, 7, 3, 1)])).unwrap();
    assert_eq!(found.calls[0].file, None);
}

#[test]
fn requests_of_a_ring_take_their_file_from_either_side() {
    let events = vec![
        (10, 7, RING_SUBMIT, vec![77, 1]),
        (11, 7, RING_FILE, vec![77, 3]),
        (20, 0, RING_COMPLETE, vec![77, 8192]),
        (30, 7, RING_FILE, vec![77, 3]),
        (31, 7, RING_SUBMIT, vec![77, 1]),
        (40, 0, RING_COMPLETE, vec![77, -5]),
        (50, 0, RING_COMPLETE, vec![78, 5]),
    ];
    let found = decode_with(&[pages(&events, 3, false)], &about(&[seen(15, 7, 3, 1)])).unwrap();
    let told: Vec<_> = found
        .calls
        .iter()
        .map(|c| (c.time_ns, c.duration_ns, c.file, c.length, c.result, c.process))
        .collect();
    assert_eq!(told, [(10, 10, Some(1), 8192, 8192, 7), (31, 9, Some(1), 0, -5, 7)]);
    assert_eq!(call_names()[usize::from(found.calls[0].call)], "io_uring");
}

#[test]
fn what_was_lost_is_counted_and_spoils_no_call() {
    let [enter, _] = write(10, 0, 7, 3, 1, 0);
    let [later, exit] = write(30, 40, 7, 3, 2, 0);
    let mut bytes = pages(&[enter], 1, false);
    let gap_at = bytes.len();
    bytes.extend(pages(&[later, exit], 2, false));
    let commit = u64::from_le_bytes(bytes[gap_at + 8..gap_at + 16].try_into().unwrap());
    bytes[gap_at + 8..gap_at + 16].copy_from_slice(&(commit | 3 << 30).to_le_bytes());
    let count_at = gap_at + 16 + commit as usize;
    bytes[count_at..count_at + 8].copy_from_slice(&12u64.to_le_bytes());
    bytes.extend([1; 100]);
    let found = decode_with(&[bytes], &about(&[seen(20, 7, 3, 1)])).unwrap();
    assert_eq!(found.losses, Losses { gaps: 1, missed_events: 12, cut_bytes: 100 });
    // What was seen before the loss tells nothing of what comes after.
    assert_eq!((found.calls.len(), found.calls[0].file, found.unpaired_enters), (1, None, 1));
}

#[test]
fn padding_discarded_events_and_absolute_times_are_passed_over() {
    let [enter, exit] = write(0, 0, 7, 3, 1, 0);
    let (enter, exit) = (payload(&enter), payload(&exit));
    let mut data = Vec::new();
    // Discarded, 12 bytes long in all; then the time as such, 59 bits of it.
    data.extend((29u32 | 1 << 5).to_le_bytes());
    data.extend(8u32.to_le_bytes());
    data.extend(0u32.to_le_bytes());
    data.extend((31u32 | 5 << 5).to_le_bytes());
    data.extend(2u32.to_le_bytes());
    for body in [enter, exit] {
        data.extend(((body.len() as u32 / 4) | (1 << 5)).to_le_bytes());
        data.extend(body);
    }
    data.extend(29u32.to_le_bytes());
    data.extend([0xff; 12]);
    let top = 3u64 << 59;
    let mut bytes = Vec::new();
    page(top | 17, data.len() as u64, &data, &mut bytes);
    let found = decode_with(&[bytes], &about(&[])).unwrap();
    assert_eq!(
        (found.calls[0].time_ns, found.calls[0].duration_ns, found.events),
        (top | ((2 << 27) + 6), 1, 2)
    );
}

#[test]
fn damage_is_told_with_its_byte() {
    let mut bytes = pages(&write(10, 20, 7, 3, 1, 0), 1, false);
    // A length beyond what the second page uses.
    bytes[PAGE_BYTES + 16] = bytes[PAGE_BYTES + 16] & !31 | 28;
    let error = decode_with(std::slice::from_ref(&bytes), &about(&[])).unwrap_err().to_string();
    assert!(error.starts_with("cpu0, byte 528: an event of 112 bytes"), "{error}");
    bytes[PAGE_BYTES + 8..PAGE_BYTES + 16].copy_from_slice(&500u64.to_le_bytes());
    let error = decode_with(&[bytes], &about(&[])).unwrap_err().to_string();
    assert!(error.starts_with("cpu0, byte 512: a page of 512 bytes that uses 500"), "{error}");
}

/// An event of the `blk` tracer: its time, and its record of version 1 or 2 with what is appended
/// to it, the time in its place or not.
fn blk(time_ns: u64, version: u8, appended: &[u8], synthesised: bool) -> Vec<u8> {
    let mut record = if synthesised {
        vec![version, 0x74, 0x61, 0x65, 0, 0, 0, 0]
    } else {
        vec![BLK as u8, 0, 9, 9, 9, 9, 9, 9]
    };
    record.extend(if synthesised { time_ns } else { u64::MAX }.to_le_bytes());
    record.extend((16..if version == 7 { 44 } else { 48 }).map(|n| if n == 46 { 0 } else { n }));
    record.extend([5, 0, appended.len() as u8, 0]);
    record.resize(if version == 7 { 48 } else { 64 }, 0);
    record.extend(appended);
    record
}

/// Number of the events of the `blk` tracer here.
const BLK: u16 = 14;

fn blk_page(events: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let (mut now, mut data, mut out) = (events[0].0, Vec::new(), Vec::new());
    for (time, body) in events {
        let words = body.len().div_ceil(4);
        data.extend((words as u32 | ((time - now) as u32) << 5).to_le_bytes());
        data.extend(body);
        data.resize(data.len().next_multiple_of(4), 0x77);
        now = *time;
    }
    page(events[0].0, data.len() as u64, &data, &mut out);
    out
}

fn stream_of(cpus: &[Vec<u8>]) -> Result<(blk_stream::BlkStream, Vec<u8>), TraceError> {
    let inputs = cpus.iter().enumerate().map(|(n, bytes)| -> (PathBuf, Box<dyn Read + Send>) {
        (PathBuf::from(format!("cpu{n}")), Box::new(Cursor::new(bytes.clone())))
    });
    let mut out = Vec::new();
    let take = |record: &[u8]| {
        out.extend(record);
        Ok(())
    };
    let found = blk_stream::merge(
        inputs.collect(),
        PageLayout::parse(PAGE).unwrap(),
        BLK,
        &Progress::default(),
        take,
    )?;
    Ok((found, out))
}

#[test]
fn events_of_the_block_layer_become_records_ordered_by_time() {
    let event = |time, version, appended: &[u8]| (time, blk(time, version, appended, false));
    let first = blk_page(&[event(10, 7, &[]), event(30, 7, b"abcde"), event(40, 7, &[1; 16])]);
    let second = blk_page(&[
        event(5, 8, &[]),
        (8, vec![2; 48]),
        event(30, 8, b"abc"),
        event(50, 8, &[3; 16]),
    ]);
    let (found, stream) = stream_of(&[first, second]).unwrap();
    let expected = [
        blk(5, 8, &[], true),
        blk(10, 7, &[], true),
        blk(30, 7, b"abcde", true),
        blk(30, 8, b"abc", true),
        blk(40, 7, &[1; 16], true),
        blk(50, 8, &[3; 16], true),
    ];
    assert_eq!(stream, expected.concat());
    assert_eq!((found.records, found.other_events, found.losses), (6, 1, Losses::default()));
}

#[test]
fn an_event_of_the_block_layer_that_is_no_record_is_told_with_its_byte() {
    let mut short = blk(10, 7, b"abcdefghijkl", false);
    short.truncate(52);
    let error = stream_of(&[blk_page(&[(10, blk(10, 7, &[], false)), (10, short)])])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("an event of the blk tracer of 52 bytes, which holds no record"),
        "{error}"
    );
}

fn any_events() -> impl Strategy<Value = Vec<Event>> {
    let id = prop_oneof![1u16..12, any::<u16>()];
    let event =
        (prop_oneof![0u64..1000, 0u64..1 << 40], 1u32..4, id, prop::collection::vec(0i64..6, 4));
    prop::collection::vec(event, 0..60).prop_map(|mut events| {
        let mut now = 0;
        for event in &mut events {
            now += event.0;
            event.0 = now;
        }
        events
    })
}

proptest! {
    #[test]
    fn any_events_are_counted(
        events in any_events(),
        per_page in 1usize..9,
        long: bool,
        cpus in 1usize..4,
    ) {
        let mut of_cpu = vec![Vec::new(); cpus];
        for (n, event) in events.iter().enumerate() {
            of_cpu[n * 7 % cpus].push(event.clone());
        }
        let bytes: Vec<Vec<u8>> =
            of_cpu.iter().map(|events| pages(events, per_page, long)).collect();
        let sightings: Vec<Sighting> =
            events.iter().map(|e| seen(e.0, e.1, e.3[0] as u32, e.3[1] as u32)).collect();
        let found = decode_with(&bytes, &about(&sightings)).unwrap();
        prop_assert_eq!(found.events, events.len() as u64);
        let calls = found.calls.len() as u64 + found.other_calls;
        let enters = events
            .iter()
            .filter(|e| [ENTER_PWRITE, ENTER_OPENAT, ENTER_WRITE, RING_SUBMIT].contains(&e.2))
            .count() as u64;
        prop_assert!(calls + found.unpaired_enters <= enters);
        for call in &found.calls {
            prop_assert!(events.iter().any(|e| e.0 == call.time_ns));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
        used in 0u64..496,
    ) {
        let mut bytes = bytes;
        // Random sizes are nearly all too large: some that are not let the events be reached.
        if used % 2 == 0 && bytes.len() > 16 {
            bytes[8..16].copy_from_slice(&used.to_le_bytes());
        }
        let _ = decode_with(std::slice::from_ref(&bytes), &about(&[seen(0, 1, 1, 1)]));
        let _ = stream_of(&[bytes]);
    }

    #[test]
    fn changed_bytes_are_read_or_refused(
        events in any_events(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..9),
        cut: prop::sample::Index,
    ) {
        let mut bytes = pages(&events, 5, false);
        for (at, byte) in &edits {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
        }
        let keep = if bytes.is_empty() { 0 } else { cut.index(2 * bytes.len()) };
        bytes.truncate(keep);
        let _ = decode_with(&[bytes], &about(&[]));
    }

    #[test]
    fn any_format_is_read_or_refused(
        text in ".{0,200}",
        lines in prop::collection::vec(
            "(name|ID|field)?:?[a-z ]{0,9};?(offset|size)?:[0-9]{0,20};",
            0..6,
        ),
    ) {
        let text = format!("{text}\n{}", lines.join("\n"));
        let _ = PageLayout::parse(&text);
        let _ = Shapes::parse(&[text]);
    }
}

#[test]
fn numbers_of_any_events_are_read_by_time_over_all_processors() {
    let wanted = |number: usize, names: &[&str]| {
        (formats()[number].clone(), names.iter().map(|name| (*name).to_owned()).collect())
    };
    let cpus = [
        pages(&[(10, 7, EXIT_PWRITE, vec![-5]), (30, 7, ENTER_WRITE, vec![3, 4096])], 1, false),
        pages(&[(20, 8, EXIT_PWRITE, vec![9]), (40, 8, FORK, vec![1])], 2, true),
    ];
    let read = |wanted: &[(String, Vec<String>)]| {
        let inputs = cpus.iter().map(|bytes| -> (PathBuf, Box<dyn Read + Send>) {
            (PathBuf::from("cpu"), Box::new(Cursor::new(bytes.clone())))
        });
        let layout = PageLayout::parse(PAGE).unwrap();
        fields::fields_of(inputs.collect(), layout, wanted, &Progress::default())
    };
    let found = read(&[wanted(1, &["ret"]), wanted(5, &["count"])]).unwrap();
    let exits =
        Kind { time_ns: vec![10, 20], thread: vec![7, 8], columns: vec![vec![-5i64 as u64, 9]] };
    let writes = Kind { time_ns: vec![30], thread: vec![7], columns: vec![vec![4096]] };
    assert_eq!(found.kinds, [exits, writes]);
    assert_eq!(found.other_events, 1);
    let said = read(&[wanted(1, &["count"])]).unwrap_err().to_string();
    assert!(said.contains("sys_exit_pwrite64 has no field `count`"), "{said}");
}
