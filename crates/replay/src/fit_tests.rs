use block::{DeviceKind, Limits};
use proptest::prelude::*;
use units::VecRequests;

use super::*;

fn device(capacity_bytes: u64, sector_bytes: u32, most_bytes: u32, has_trim: bool) -> DeviceInfo {
    let (name, model) = ("some".to_owned(), String::new());
    let limits = Limits { capacity_bytes, sector_bytes, most_bytes };
    let (kind, queue_depth, is_read_only, is_virtual) = (DeviceKind::Memory, 64, false, false);
    DeviceInfo {
        name,
        model,
        kind,
        limits,
        queue_depth,
        is_read_only,
        has_trim,
        zeroing_bytes: None,
        is_virtual,
        holds_data: false,
    }
}

fn request(op: IoOp, offset: u64, length: u32) -> IoRequest {
    IoRequest {
        time_ns: 0,
        op,
        offset,
        length,
        stream: 0,
        latency_ns: None,
        handle: 0,
        is_fua: false,
    }
}

fn totals(all: &[IoRequest]) -> Totals {
    let end_bytes =
        all.iter().map(|request| request.offset + u64::from(request.length)).max().unwrap_or(0);
    let bits =
        all.iter().fold(1 << 20, |bits, request| bits | request.offset | u64::from(request.length));
    Totals { end_bytes, unit_bytes: 1 << bits.trailing_zeros(), ..Totals::default() }
}

fn drain(source: &mut dyn RequestSource, chunk: usize) -> Vec<IoRequest> {
    let (mut all, mut buffer) = (Vec::new(), vec![request(IoOp::Flush, 0, 0); chunk]);
    loop {
        let count = source.fill(&mut buffer).unwrap();
        all.extend_from_slice(&buffer[..count]);
        if count < chunk {
            return all;
        }
    }
}

fn fitted(
    all: &[IoRequest],
    info: &DeviceInfo,
    region: Region,
    remap: Remap,
) -> (Vec<IoRequest>, FittedCounts) {
    let fit = Fit::new(&totals(all), info, region, remap).unwrap();
    let mut source = Fitted::new(Box::new(VecRequests::new(all.to_vec().into())), fit);
    let counts = source.counts();
    (drain(&mut source, 7), counts())
}

#[test]
fn a_trace_that_fits_stays_as_it_is() {
    let all = [
        request(IoOp::Write, 8192, 4096),
        request(IoOp::Flush, 0, 0),
        request(IoOp::Trim, 0, 1 << 20),
        request(IoOp::Read, 512, 512),
    ];
    let whole = Region { offset: 0, length: 1 << 20 };
    for remap in [Remap::Refuse, Remap::Fold] {
        assert_eq!(
            fitted(&all, &device(1 << 20, 512, 1 << 20, true), whole, remap),
            (all.to_vec(), FittedCounts::default())
        );
    }
    let (moved, _) = fitted(
        &all,
        &device(2 << 20, 512, 1 << 20, true),
        Region { offset: 1 << 20, length: 1 << 20 },
        Remap::Refuse,
    );
    assert_eq!(moved[0].offset, (1 << 20) + 8192);
    assert_eq!(moved[1], all[1]);
}

#[test]
fn what_the_device_cannot_do_is_done_otherwise_and_counted() {
    let all = [
        request(IoOp::Write, 512, 9000),
        request(IoOp::Trim, 100, 4096),
        request(IoOp::Trim, 100, 9000),
        request(IoOp::Read, 4096, 100),
    ];
    let (found, counts) = fitted(
        &all,
        &device(1 << 20, 4096, 8192, true),
        Region { offset: 0, length: 1 << 20 },
        Remap::Refuse,
    );
    let shape: Vec<_> =
        found.iter().map(|request| (request.op, request.offset, request.length)).collect();
    let expected = [
        (IoOp::Write, 0, 8192),
        (IoOp::Write, 8192, 4096),
        (IoOp::Trim, 4096, 4096),
        (IoOp::Read, 4096, 4096),
    ];
    assert_eq!(shape, expected);
    assert_eq!(
        counts,
        FittedCounts {
            widened: 2,
            split: 1,
            more_parts: 1,
            trims_too_short: 1,
            ..FittedCounts::default()
        }
    );
    let (found, counts) = fitted(
        &all,
        &device(1 << 20, 4096, 1 << 20, false),
        Region { offset: 0, length: 1 << 20 },
        Remap::Refuse,
    );
    assert_eq!((found.len(), counts.trims_without_device), (2, 2));
}

#[test]
fn addresses_beyond_the_region_are_refused_with_the_choices() {
    let all = [request(IoOp::Write, 4096, 4096)];
    let info = device(1 << 20, 512, 1 << 20, true);
    let error = Fit::new(&totals(&all), &info, Region { offset: 0, length: 4096 }, Remap::Refuse)
        .unwrap_err()
        .to_string();
    let right = "some: the trace names addresses up to byte 8192, and there are 4096 bytes for it; \
                 right would be a larger device, --fold, or fit=dense or fit=scale in part(...)";
    assert_eq!(error, right);
    for region in [(0, 0), (256, 4096), (0, 700), (1 << 20, 512), (u64::MAX - 511, 512)] {
        let region = Region { offset: region.0, length: region.1 };
        assert!(Fit::new(&totals(&all), &info, region, Remap::Fold).is_err(), "{region:?}");
    }
}

proptest! {
    /// Whatever the trace and the device: requests are ones that the device takes, in the order of
    /// the trace.
    #[test]
    fn every_request_gets_a_place(
        all in prop::collection::vec((0_u8..4, 0_u64..1 << 24, 1_u32..300_000), 1..50),
        sector in prop::sample::select(vec![512_u32, 4096]),
        sectors in 1_u64..2000,
        before in 0_u64..10,
        most_sectors in 1_u32..64,
        is_scaled in any::<bool>(),
    ) {
        let all: Vec<IoRequest> = all
            .into_iter()
            .enumerate()
            .map(|(number, (op, offset, length))| {
                let op = IoOp::from_number(op).unwrap();
                let (offset, length) = if op == IoOp::Flush { (0, 0) } else { (offset, length) };
                IoRequest { time_ns: number as u64, ..request(op, offset, length) }
            })
            .collect();
        let region =
            Region { offset: before * u64::from(sector), length: sectors * u64::from(sector) };
        let info = device(region.offset + region.length, sector, most_sectors * sector, true);
        let remap = if is_scaled { Remap::Scale } else { Remap::Fold };
        let (found, counts) = fitted(&all, &info, region, remap);
        prop_assert!(found.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
        prop_assert_eq!(
            found.len() as u64 + counts.trims_too_short,
            all.len() as u64 + counts.more_parts
        );
        for placed in &found {
            let original = &all[placed.time_ns as usize];
            prop_assert_eq!(placed.op, original.op);
            if placed.op == IoOp::Flush {
                continue;
            }
            prop_assert!(
                placed.offset.is_multiple_of(u64::from(sector))
                    && placed.length.is_multiple_of(sector)
                    && placed.length > 0
            );
            prop_assert!(placed.op == IoOp::Trim || placed.length <= info.limits.most_bytes);
            prop_assert!(
                placed.offset >= region.offset
                    && placed.offset + u64::from(placed.length) <= region.offset + region.length
            );
        }
        for original in all.iter().filter(|request| matches!(request.op, IoOp::Read | IoOp::Write))
        {
            let parts: Vec<_> =
                found.iter().filter(|placed| placed.time_ns == original.time_ns).collect();
            prop_assert!(
                parts
                    .windows(2)
                    .all(|pair| pair[0].offset + u64::from(pair[0].length) == pair[1].offset)
            );
            let bytes: u64 = parts.iter().map(|part| u64::from(part.length)).sum();
            prop_assert!(
                bytes >= u64::from(original.length).min(region.length)
                    && bytes <= u64::from(original.length) + 2 * u64::from(sector)
            );
        }
    }
}
