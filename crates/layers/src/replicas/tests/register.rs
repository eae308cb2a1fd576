//! Check that histories of reads and writes are those of atomic registers.

use std::collections::BTreeMap;

/// A read or write of one register, by the host's clock. Each write has a value of its own; 0 was
/// there before.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub value: u32,
    pub is_write: bool,
    pub begun: u64,
    /// Time of the end; none for a command that was never replied to, or failed: it may take effect
    /// at any time, or never.
    pub ended: Option<u64>,
}

/// The write of a value, and the reads that found it.
#[derive(Clone, Copy, Debug)]
struct Cluster {
    written: u64,
    first_end: u64,
    last_begin: u64,
}

/// Gives the reason why a history of one register has no order that its times allow; none if it has
/// one.
///
/// For unique values this is decided by zones (Gibbons & Korach, SIAM J. Comput. 1997, 4.1): from
/// the first end among a value's operations to their last beginning. Where the end comes first, the
/// value was there all the time between; such times may not overlap, and no other value's zone may
/// lie wholly within one.
pub fn wrong(events: &[Event]) -> Option<String> {
    let mut clusters: BTreeMap<u32, Cluster> = BTreeMap::new();
    clusters.insert(0, Cluster { written: 0, first_end: 0, last_begin: 0 });
    for event in events.iter().filter(|event| event.is_write) {
        let ended = event.ended.unwrap_or(u64::MAX);
        let cluster = Cluster { written: event.begun, first_end: ended, last_begin: event.begun };
        if clusters.insert(event.value, cluster).is_some() {
            return Some(format!("{} is written twice", event.value));
        }
    }
    for event in events.iter().filter(|event| !event.is_write) {
        // A read that was not replied to found nothing.
        let Some(ended) = event.ended else { continue };
        let Some(cluster) = clusters.get_mut(&event.value) else {
            return Some(format!("{} is read, which nobody wrote", event.value));
        };
        if ended < cluster.written {
            return Some(format!("{} is read before it is written", event.value));
        }
        cluster.first_end = cluster.first_end.min(ended);
        cluster.last_begin = cluster.last_begin.max(event.begun);
    }
    // A write without an end that nobody read may never have taken effect.
    clusters.retain(|_, cluster| cluster.first_end < u64::MAX);
    for (one, zone) in clusters.iter().filter(|(_, zone)| zone.first_end < zone.last_begin) {
        for (other, with) in clusters.iter().filter(|(other, _)| *other != one) {
            let (low, high) =
                (with.first_end.min(with.last_begin), with.first_end.max(with.last_begin));
            let is_forward = with.first_end < with.last_begin;
            let overlap = low < zone.last_begin && zone.first_end < high;
            let within = zone.first_end < low && high < zone.last_begin;
            if (is_forward && overlap) || (!is_forward && within) {
                return Some(format!("{one} ({zone:?}) and {other} ({with:?}) are in each other"));
            }
        }
    }
    None
}

/// Decides the same by trying every order, for few events.
fn has_order(events: &[Event], value: u32) -> bool {
    if events.iter().all(|event| event.ended.is_none()) {
        return true;
    }
    let first_end = events.iter().filter_map(|event| event.ended).min().unwrap_or(u64::MAX);
    (0..events.len()).any(|at| {
        let event = events[at];
        let mut rest = events.to_vec();
        rest.remove(at);
        event.begun <= first_end
            && (event.is_write || event.ended.is_none() || event.value == value)
            && has_order(&rest, if event.is_write { event.value } else { value })
    })
}

#[test]
fn what_one_read_saw_no_later_read_has_something_older_than() {
    let write = |value, begun, ended| Event { value, is_write: true, begun, ended };
    let read = |value, begun, ended| Event { value, is_write: false, begun, ended: Some(ended) };
    let history = [write(1, 10, Some(40)), read(1, 12, 15), read(0, 16, 20)];
    assert!(wrong(&history).is_some(), "new, then old");
    assert!(wrong(&[write(1, 10, Some(40)), read(0, 12, 15), read(1, 16, 20)]).is_none());
    assert!(wrong(&[write(1, 10, Some(20)), read(0, 21, 25)]).is_some(), "older than replied to");
    assert!(wrong(&[write(1, 10, None), read(1, 21, 25), read(1, 30, 35)]).is_none());
    assert!(wrong(&[read(1, 2, 5), write(1, 10, Some(20))]).is_some(), "before it was written");
}

proptest::proptest! {
    #[test]
    fn zones_say_what_trying_every_order_says(
        seeds in proptest::collection::vec(
            (0_u32..5, proptest::bool::ANY, 1_u64..24, 0_u64..12),
            1..7,
        )
    ) {
        let mut next = 0;
        // All times differ, as in a history that is recorded step by step.
        let events: Vec<Event> = seeds
            .iter()
            .enumerate()
            .map(|(number, &(value, is_write, begun, length))| {
                next += u32::from(is_write);
                let ended = (length < 11).then_some((begun + length + 1) * 16 + 8 + number as u64);
                let value = if is_write { next } else { value };
                Event { value, is_write, begun: begun * 16 + number as u64, ended }
            })
            .collect();
        proptest::prop_assert_eq!(wrong(&events).is_none(), has_order(&events, 0), "{:?}", events);
    }
}
