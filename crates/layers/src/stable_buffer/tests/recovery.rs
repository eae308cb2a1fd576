//! Tests of recovery.

use block::{Immediate, Store};
use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;

use super::device::{Device, SECTOR};
use super::{TIMES, content, limits};
use crate::driver::through;
use crate::stable_buffer::disk::{Geometry, HeaderPlace};
use crate::{Facts, LayerError};

const PAGE: usize = 2048;

fn text(more: &str) -> String {
    format!("stable_buffer(size=4Ki,page=2Ki,focused_area=16Ki,{TIMES}{more})")
}

fn device() -> Immediate<Device> {
    Immediate::new(Device::new(limits(40), Pcg64Mcg::seed_from_u64(1)))
}

fn formatted(more: &str) -> Immediate<Device> {
    let mut device = device();
    crate::format(&text(more), &Facts::default(), 1, &mut device).unwrap();
    device
}

/// Opens the volume, and does this.
fn opened<T>(
    more: &str,
    device: &mut Immediate<Device>,
    work: impl FnOnce(&mut Store<'_>) -> T,
) -> T {
    let mut stack = crate::open(&text(more), &Facts::default(), 1, device).unwrap();
    through(&mut stack, device, work)
}

fn write(store: &mut Store<'_>, page: u64, tag: u32) {
    store.write(page * PAGE as u64, &content(tag).repeat(PAGE / SECTOR)).unwrap();
}

fn read(store: &mut Store<'_>, page: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    store.read(page * PAGE as u64, &mut bytes).unwrap();
    bytes
}

/// Regression, found by the campaign of `faults` once in 600,000 cuts: a torn slot stays torn,
/// whatever parts of a later write get there.
#[test]
fn a_torn_slot_is_not_completed_by_the_next_torn_write() {
    for (more, layout) in [("", HeaderPlace::Beside), (",layout=embedded", HeaderPlace::Embedded)] {
        let mut device = formatted(more);
        let geometry = Geometry::at_end(device.limits, PAGE as u32, 2, layout).unwrap();
        opened(more, &mut device, |through| write(through, 3, 7));
        let begin = geometry.slot_offset(0);
        let mut whole = vec![0; geometry.slot_bytes() as usize];
        Store::new(&mut device).read(begin, &mut whole).unwrap();
        // The sector of the slot's header is left, and not the one in the middle.
        let torn_at = 2 * SECTOR;
        Store::new(&mut device).write(begin + torn_at as u64, &[0; SECTOR]).unwrap();
        opened(more, &mut device, |through| {
            assert!(read(through, 3) == [0; PAGE], "what is torn is not there");
        });
        // The same page is written there again, and only the sector in the middle gets there.
        Store::new(&mut device)
            .write(begin + torn_at as u64, &whole[torn_at..torn_at + SECTOR])
            .unwrap();
        opened(more, &mut device, |through| {
            assert!(
                read(through, 3) == [0; PAGE],
                "{more}: what recovery had lost does not come back"
            );
        });
    }
}

#[test]
fn nothing_of_an_older_volume_is_taken_for_this_one() {
    let mut device = formatted("");
    opened("", &mut device, |through| (0..2).for_each(|page| write(through, page, 5)));
    let mut old = device.clone();
    crate::format(&text(""), &Facts::default(), 1, &mut device).unwrap();
    let geometry = Geometry::at_end(device.limits, PAGE as u32, 2, HeaderPlace::Beside).unwrap();
    let mut slots = vec![0; 2 * geometry.slot_bytes() as usize];
    Store::new(&mut old).read(geometry.slot_offset(0), &mut slots).unwrap();
    Store::new(&mut device).write(geometry.slot_offset(0), &slots).unwrap();
    opened("", &mut device, |through| {
        assert!(read(through, 0) == [0; PAGE], "made with the same seed, and yet another volume");
    });
}

#[test]
fn it_is_found_by_its_last_sector_and_by_its_parameters() {
    for lost in [0, 1] {
        let mut device = formatted("");
        opened("", &mut device, |through| write(through, 1, 9));
        let geometry =
            Geometry::at_end(device.limits, PAGE as u32, 2, HeaderPlace::Beside).unwrap();
        let places = [geometry.area_offset, device.limits.capacity_bytes - SECTOR as u64];
        Store::new(&mut device).write(places[lost], &[0; SECTOR]).unwrap();
        opened("", &mut device, |through| assert_eq!(read(through, 1)[..4], [9, 0, 0, 0]));
        Store::new(&mut device).write(places[1 - lost], &[0; SECTOR]).unwrap();
        opened("", &mut device, |through| assert_eq!(read(through, 1)[..4], [9, 0, 0, 0]));
        places.iter().for_each(|&at| Store::new(&mut device).write(at, &[0; SECTOR]).unwrap());
        let error = crate::open(&text(""), &Facts::default(), 1, &mut device).err().unwrap();
        assert!(matches!(error, LayerError::NotFormatted { .. }), "{error}");
    }
}

#[test]
fn what_cannot_go_together_is_refused_with_what_would_be_right() {
    let refusal = |text: &str| {
        let mut device = device();
        crate::format(text, &Facts::default(), 1, &mut device)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let known = "focused_area=16Ki,t_sequential=1,t_partitioned=1,t_focused=1";
    for (parameters, part) in [
        ("flushing=proactive,patterns=on_demand", "flushing=proactive needs patterns=incremental"),
        ("theta_focused=0", "theta_focused=0 is no number above 0"),
        ("page=700", "page=700 is not of whole sectors of 512 bytes"),
        ("page=16Ki", "longer than the longest write, 8192"),
        ("size=1Ki,page=2Ki", "size=1Ki is not from one page"),
        ("size=many", "size=many is no number of bytes"),
        ("page=2Ki,size=1Mi", "take a smaller size=, or a larger device"),
    ] {
        let told = refusal(&format!("stable_buffer({known},{parameters})"));
        assert!(told.contains(part), "{parameters}: {told}");
    }
    let mut device = formatted("");
    for (other, part) in
        [("size=6Ki", "2 slots"), ("page=1Ki", "page=2048"), ("layout=embedded", "layout=beside")]
    {
        let text = format!(
            "stable_buffer({known},{})",
            if other.contains("page") { other.to_owned() } else { format!("page=2Ki,{other}") }
        );
        let told = crate::open(&text, &Facts::default(), 1, &mut device).err().unwrap().to_string();
        assert!(told.contains(part), "{other}: {told}");
    }
}

#[test]
fn with_headers_within_pages_their_bytes_must_be_zero_and_read_as_zero() {
    let mut device = formatted(",layout=embedded");
    opened(",layout=embedded", &mut device, |through| {
        let full = [1; PAGE];
        let failure = through.write(0, &full).unwrap_err().to_string();
        assert!(failure.contains("the last 96 bytes of page 0 are not zero"), "{failure}");
        through.write(0, &full[..SECTOR]).unwrap();
        write(through, 1, 4);
        let mut last = [0; SECTOR];
        through.read(2 * PAGE as u64 - SECTOR as u64, &mut last).unwrap();
        assert_eq!(last[..], content(4), "from the slot, without the header");
    });
}
