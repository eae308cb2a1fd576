//! A volume of which all but the segments lies on another device.

use super::harness::disk;
use crate::{Area, Facts, LayerError, area_of, lay_area};

const TEXT: &str = "log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,summary_pages=8)";
/// Where the second device begins.
const BOUNDARY: u64 = 128 << 10;
/// Superblock, two roots, two areas of two pages of tables, eight summaries, and room up to a sector
/// of 4 KiB; twice.
const AREA_BYTES: u64 = (2 * (1 + 2 + 4 + 8 + 1)) << 10;

fn facts(staging_offset: Option<u64>) -> Facts {
    Facts { staging_offset, ..Facts::default() }
}

#[test]
fn a_second_device_that_is_too_small_is_refused_with_the_bytes_that_are_needed() {
    let mut small = disk(BOUNDARY + AREA_BYTES - 512);
    let error = crate::format(TEXT, &facts(Some(BOUNDARY)), 1, &mut small).unwrap_err();
    let LayerError::TooSmall { needed, there, remedy, .. } = error else { panic!("{error}") };
    assert_eq!((needed, there), (AREA_BYTES, AREA_BYTES - 512));
    assert!(remedy.contains("a larger staging device"), "{remedy}");
    assert!(small.bytes.iter().all(|&byte| byte == 0), "nothing is written");
}

#[test]
fn a_volume_of_two_devices_has_its_segments_on_the_first_and_nothing_else() {
    let mut alone = disk(BOUNDARY);
    crate::format(TEXT, &facts(None), 1, &mut alone).unwrap();
    let alone = crate::open(TEXT, &facts(None), 1, &mut alone).unwrap().limits().capacity_bytes;
    let mut disk = disk(BOUNDARY + AREA_BYTES);
    crate::format(TEXT, &facts(Some(BOUNDARY)), 1, &mut disk).unwrap();
    assert!(disk.bytes[..BOUNDARY as usize].iter().all(|&byte| byte == 0));
    let opened = crate::open(TEXT, &facts(Some(BOUNDARY)), 1, &mut disk).unwrap();
    assert_eq!(opened.limits().capacity_bytes, alone, "there is room for the rest before them");
    for other in [None, Some(BOUNDARY - 8192)] {
        let error = crate::open(TEXT, &facts(other), 1, &mut disk).map(|_| ()).unwrap_err();
        assert!(matches!(error, LayerError::NotFormatted { .. }), "{error}");
    }
}

/// One that lies on a device alone, opened as if it had a second one, and the other way round.
#[test]
fn an_area_is_not_taken_for_one_of_the_other_kind() {
    let mut disk = disk(2 * BOUNDARY);
    crate::format(TEXT, &facts(None), 1, &mut disk).unwrap();
    let area = disk.bytes[..AREA_BYTES as usize].to_vec();
    disk.bytes[BOUNDARY as usize..][..area.len()].copy_from_slice(&area);
    let error = crate::open(TEXT, &facts(Some(BOUNDARY)), 1, &mut disk).map(|_| ()).unwrap_err();
    assert!(matches!(error, LayerError::NotFormatted { offset: BOUNDARY, .. }), "{error}");
    crate::format(TEXT, &facts(Some(BOUNDARY)), 1, &mut disk).unwrap();
    let area = disk.bytes[BOUNDARY as usize..][..AREA_BYTES as usize].to_vec();
    disk.bytes[..area.len()].copy_from_slice(&area);
    let error = crate::open(TEXT, &facts(None), 1, &mut disk).map(|_| ()).unwrap_err();
    assert!(matches!(error, LayerError::NotFormatted { offset: 0, .. }), "{error}");
}

#[test]
fn an_area_goes_to_the_second_device_with_its_tables_and_not_without_them() {
    let mut disk = disk(BOUNDARY + AREA_BYTES);
    let alone = facts(None);
    let mut first = block::Part::new(&mut disk, 0, BOUNDARY);
    crate::format(TEXT, &alone, 1, &mut first).unwrap();
    let area = area_of(TEXT, &alone, 1, &mut first).unwrap();
    assert_eq!(area.stays_bytes(), BOUNDARY);
    let capacity = crate::open(TEXT, &alone, 1, &mut first).unwrap().limits().capacity_bytes;
    let both = facts(Some(BOUNDARY));
    let error = lay_area(TEXT, &both, 1, &mut disk, &Area::empty(BOUNDARY)).unwrap_err();
    assert!(error.to_string().contains("volume info --salvage"), "{error}");
    lay_area(TEXT, &both, 1, &mut disk, &area).unwrap();
    let opened = crate::open(TEXT, &both, 1, &mut disk).unwrap();
    assert_eq!(opened.limits().capacity_bytes, capacity);
}
