//! Replay of the ring of summaries from the place that a root names.

use std::collections::VecDeque;

use super::NAME;
use super::copies::{BY_SALVAGE, later_root, read_or_zeros, try_read};
use super::disk::{Entry, Root, SummaryHead, decode_summary};
use super::layout::COPIES;
use super::recovery::{Looked, Replay};
use crate::{LayerError, Store};

/// Summaries that are looked for behind the last one: as many may be written at once, and lost.
const MOST_MISSING: u32 = 16;

impl Replay<'_> {
    /// Replays the summaries of the ring as they are read. An entry is kept until a summary says
    /// that it is durable, so that there are never more than one commit covers.
    pub fn replay_ring(&mut self, root: &Root, store: &mut Store<'_>) -> Result<(), LayerError> {
        let mut kept = VecDeque::new();
        let mut entries = Vec::new();
        let (mut first, mut durable) = (root.replay_index, root.durable);
        let mut bytes = vec![0; self.layout.page_bytes as usize];
        for _ in 0..self.layout.ring_pages {
            entries.clear();
            let number = self.next_summary;
            let Some(head) =
                self.read_summary(root.epoch, number, &mut bytes, &mut entries, store)?
            else {
                break;
            };
            if head.first != self.next_entry || head.durable > self.next_entry {
                break;
            }
            durable = durable.max(head.durable);
            self.next_entry += entries.len() as u64;
            self.next_summary += 1;
            kept.extend(entries.drain(..));
            self.apply_durable(&mut kept, &mut first, durable)?;
        }
        durable = durable.max(self.said_beyond(root, store)?);
        if durable > self.next_entry {
            let offset = self.layout.summary(self.next_summary, 0);
            let reason = format!(
                "summary {} was durable and is there in neither copy; {BY_SALVAGE}",
                self.next_summary
            );
            return Err(LayerError::Corrupt { layer: NAME, offset, reason });
        }
        self.apply_durable(&mut kept, &mut first, durable)?;
        let looked = self.check_pages(kept.make_contiguous(), store)?;
        for ((number, entry), looked) in (first..).zip(kept).zip(looked) {
            if let Entry::Placed { ppn, .. } = entry
                && let Some(is_sure) = self.is_sure.get_mut(self.layout.segment_of(ppn) as usize)
            {
                *is_sure = false;
            }
            self.apply(entry, number, looked)?;
        }
        Ok(())
    }

    /// Reads the summary of this number, if either copy of it is good, and adds its entries.
    ///
    /// # Errors
    /// [`LayerError::Corrupt`] if neither copy can be read. No power cut causes that: it may have
    /// been the last one, and older versions would come back without it.
    fn read_summary(
        &self,
        epoch: u64,
        number: u64,
        bytes: &mut [u8],
        entries: &mut Vec<Entry>,
        store: &mut Store<'_>,
    ) -> Result<Option<SummaryHead>, LayerError> {
        let mut unreadable = 0;
        for copy in 0..COPIES {
            if !try_read(store, self.layout.summary(number, copy), bytes)? {
                unreadable += 1;
                continue;
            }
            let found = decode_summary(self.volume, bytes, entries);
            if let Some(head) = found.filter(|head| head.epoch == epoch && head.number == number) {
                return Ok(Some(head));
            }
            entries.clear();
        }
        if unreadable < COPIES {
            return Ok(None);
        }
        let offset = self.layout.summary(number, 0);
        let reason = format!("neither copy of summary {number} can be read; {BY_SALVAGE}");
        Err(LayerError::Corrupt { layer: NAME, offset, reason })
    }

    /// Gives the number of durable entries by summaries behind the first one that is missing:
    /// either a power cut took that one, or it was durable and is damaged.
    ///
    /// # Errors
    /// [`LayerError::Corrupt`] if there is a summary for which only a later root has made room:
    /// that root is good in neither copy, and this one would bring back the past.
    fn said_beyond(&self, root: &Root, store: &mut Store<'_>) -> Result<u64, LayerError> {
        let mut bytes = vec![0; self.layout.page_bytes as usize];
        let (mut durable, mut missing) = (0, 0);
        for number in self.next_summary..self.next_summary + u64::from(self.layout.ring_pages) {
            missing += 1;
            for copy in 0..COPIES {
                read_or_zeros(store, self.layout.summary(number, copy), &mut bytes)?;
                let Some(head) = decode_summary(self.volume, &bytes, &mut Vec::new()) else {
                    continue;
                };
                let (found, expected) = ((head.epoch, head.number), (root.epoch, number));
                if found > expected {
                    return Err(LayerError::Corrupt {
                        layer: NAME,
                        offset: self.layout.root(root.number + 1, 0),
                        reason: later_root(root),
                    });
                }
                if found == expected && number > self.next_summary {
                    durable = durable.max(head.durable);
                    missing = 0;
                }
            }
            if missing > MOST_MISSING {
                break;
            }
        }
        Ok(durable)
    }

    /// Applies the entries before the one with the number `durable`; the first one has the number
    /// `first`.
    fn apply_durable(
        &mut self,
        kept: &mut VecDeque<Entry>,
        first: &mut u64,
        durable: u64,
    ) -> Result<(), LayerError> {
        while *first < durable
            && let Some(entry) = kept.pop_front()
        {
            self.apply(entry, *first, Looked::Good)?;
            *first += 1;
        }
        Ok(())
    }
}
