//! Test of the table of slots against a plain list of the versions on the media.

use proptest::prelude::*;

use crate::stable_buffer::table::{NONE, Table};

const SLOTS: u32 = 6;

/// Version that a slot may hold on the media.
#[derive(Clone, Copy, Debug)]
struct Held {
    slot: u32,
    page: u64,
    sequence: u32,
    is_durable: bool,
    /// True if its slot is being written with another one.
    is_going: bool,
    /// True if its destination holds it.
    is_flushed: bool,
    was_replied_to: bool,
    readers: u32,
}

#[derive(Default)]
struct Plain {
    held: Vec<Held>,
    sequence: u32,
}

impl Plain {
    fn is_superseded(&self, held: &Held) -> bool {
        self.held.iter().any(|other| {
            other.page == held.page && other.sequence > held.sequence && other.is_durable
        })
    }

    /// Returns true if a slot may be overwritten: its content is not needed, and no older version
    /// of its page would be taken for the newest.
    fn may_take(&self, slot: u32) -> bool {
        let Some(held) =
            self.held.iter().filter(|held| held.slot == slot).max_by_key(|held| held.sequence)
        else {
            return true;
        };
        let is_needed =
            !held.is_durable || held.readers > 0 || !(held.is_flushed || self.is_superseded(held));
        let has_older =
            self.held.iter().any(|other| other.page == held.page && other.sequence < held.sequence);
        !is_needed && (self.is_superseded(held) || !has_older)
    }
}

proptest! {
    #[test]
    fn the_newest_durable_version_outlives_older_ones_and_every_other_free_slot_is_taken(
        steps in prop::collection::vec((0..6_u8, any::<u16>()), 1..200),
    ) {
        let mut table = Table::new(SLOTS);
        let mut plain = Plain::default();
        for (what, number) in steps {
            let pick = |from: &[Held], wanted: &dyn Fn(&Held) -> bool| {
                let those: Vec<usize> = (0..from.len()).filter(|&n| wanted(&from[n])).collect();
                (!those.is_empty()).then(|| those[number as usize % those.len()])
            };
            match what {
                0 | 1 => {
                    let page = u64::from(number % 4);
                    let found = table.find(page);
                    if found.is_some_and(|found| table.page(found).is_locked) {
                        continue;
                    }
                    let taken = table.take();
                    let expected: Vec<u32> =
                        (0..SLOTS).filter(|&slot| plain.may_take(slot)).collect();
                    prop_assert!(
                        taken.map_or(expected.is_empty(), |slot| expected.contains(&slot)),
                        "{taken:?} of {expected:?}"
                    );
                    let Some(slot) = taken else { continue };
                    plain
                        .held
                        .iter_mut()
                        .filter(|held| held.slot == slot)
                        .for_each(|held| held.is_going = true);
                    let index = table.find_or_add(page);
                    table.page_mut(index).is_locked = true;
                    table.sent(slot, index);
                    plain.sequence += 1;
                    let sequence = plain.sequence;
                    let flags = (false, false, false, false);
                    let (is_durable, is_going, is_flushed, was_replied_to) = flags;
                    plain.held.push(Held {
                        slot,
                        page,
                        sequence,
                        is_durable,
                        is_going,
                        is_flushed,
                        was_replied_to,
                        readers: 0,
                    });
                }
                2 => {
                    if let Some(n) = pick(&plain.held, &|held| !held.was_replied_to) {
                        plain.held[n].was_replied_to = true;
                        table.written(plain.held[n].slot);
                        table.unlock(table.find(plain.held[n].page).unwrap());
                    }
                }
                3 => {
                    if let Some(n) =
                        pick(&plain.held, &|held| held.was_replied_to && !held.is_durable)
                    {
                        plain.held[n].is_durable = true;
                        let Held { slot, sequence, .. } = plain.held[n];
                        plain.held.retain(|held| held.slot != slot || held.sequence == sequence);
                        table.durable(slot);
                    }
                }
                4 => {
                    // It is flushed durably, with all that was replied to in its slot.
                    let is_read_from = |held: &Held| {
                        table.find(held.page).is_some_and(|page| table.page(page).slot == held.slot)
                    };
                    if let Some(n) = pick(&plain.held, &|held| {
                        held.was_replied_to
                            && held.is_durable
                            && !held.is_going
                            && is_read_from(held)
                    }) {
                        plain.held[n].is_flushed = true;
                        table.flush_begins(plain.held[n].slot);
                        table.flushed(plain.held[n].slot);
                    }
                }
                _ => {
                    let is_read_from = |held: &Held| {
                        table.find(held.page).is_some_and(|page| table.page(page).slot == held.slot)
                    };
                    if let Some(n) = pick(&plain.held, &|held| held.readers > 0 && number % 2 == 0)
                    {
                        plain.held[n].readers -= 1;
                        table.read_ends(plain.held[n].slot);
                    } else if let Some(n) = pick(&plain.held, &|held| {
                        held.was_replied_to && !held.is_going && is_read_from(held)
                    }) {
                        plain.held[n].readers += 1;
                        table.read_begins(plain.held[n].slot);
                    }
                }
            }
            for page in 0..4 {
                let is_known = plain.held.iter().any(|held| held.page == page);
                prop_assert_eq!(table.find(page).is_some(), is_known, "page {}", page);
                let newest = plain
                    .held
                    .iter()
                    .filter(|held| held.page == page && held.was_replied_to)
                    .max_by_key(|held| held.sequence);
                let slot = newest.filter(|held| !held.is_flushed).map_or(NONE, |held| held.slot);
                if is_known && newest.is_some_and(|held| !held.is_going) {
                    prop_assert_eq!(table.page(table.find(page).unwrap()).slot, slot);
                }
            }
        }
    }
}
