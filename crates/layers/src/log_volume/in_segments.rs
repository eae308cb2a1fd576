//! Summaries in the segments: each behind its pages, in the one log that there is then. All that a
//! commit writes follows what was written before, which suits a card that can write to only one
//! place at a time.
//!
//! # The chain
//! Each summary lies in two pages side by side, the same in both, so that one bad sector takes
//! none. The last two pages of a segment are kept for a summary, which names the segment in which
//! the log goes on. So recovery finds all from the first on, which the root names
//! ([`super::chain`]). A segment is opened as soon as these pages are placed, and the frontier
//! always has at least two pages left. Where a summary would leave one, it lies in three.
//!
//! # Room
//! A summary takes a page that holds nothing once the next checkpoint is durable; until then its
//! segment is not written to again. Cleaning a segment writes its pages, the summaries of these,
//! those of the commits that make them durable and known to be so, and perhaps that of a
//! checkpoint's commit. The layout makes sure that a segment has that much to spare on average
//! ([`super::layout`]). If no more than the reserve is free, the segment with the fewest pages is
//! cleaned, whatever the policy would choose.

use placement::Placement;
use units::StreamId;

use super::disk::{Entry, encode_summary};
use super::layout::SUMMARY_COPIES;
use super::volume::LogVolume;
use crate::{Actions, Data};

/// The one stream.
const LOG: StreamId = StreamId(0);

/// User of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// The host, which may not use the reserve.
    Hosts,
    /// Cleaning, and summaries.
    Own,
}

impl<P: Placement> LogVolume<P> {
    /// Returns true if the log's segment has only the pages left that are kept for a summary.
    #[inline]
    pub fn is_at_last_page(&self) -> bool {
        self.layout.form.in_segments
            && self.ftl.frontier(LOG, 0).is_none_or(|(_, left)| left <= SUMMARY_COPIES)
    }

    /// Returns true if the log can go on to another segment if it has to.
    #[inline]
    pub fn has_way(&self, whose: Whose) -> bool {
        let kept = match whose {
            Whose::Hosts => self.ftl.reserve(),
            Whose::Own => 0,
        };
        !self.is_at_last_page() || self.ftl.free_blocks(0) > kept
    }

    /// Makes room for a page, which is placed next: writes the summaries that belong before it.
    /// Returns true if there is a place for the page.
    #[inline]
    pub fn make_way(&mut self, whose: Whose, actions: &mut Actions) -> bool {
        if !self.layout.form.in_segments {
            return true;
        }
        // The summary of many entries may itself take the pages before the last ones.
        while self.log.fills_summary() || self.is_at_last_page() {
            if !self.has_way(whose) || self.poison.is_some() {
                return false;
            }
            self.seal_here(actions);
        }
        true
    }

    /// Writes the entries into a summary at the log's end, also if there are none; if that takes
    /// the last pages of a segment, the log goes on in another one.
    pub fn seal_here(&mut self, actions: &mut Actions) {
        if !self.has_way(Whose::Own) {
            self.poison("no segment is free for a summary: a bug of the layer", actions);
            return;
        }
        let Some((_, left)) = self.ftl.frontier(LOG, 0) else {
            self.poison("no segment is open for a summary: a bug of the layer", actions);
            return;
        };
        // A single page left would have no use.
        let copies = if left == SUMMARY_COPIES + 1 { left } else { SUMMARY_COPIES };
        let ppns: Vec<u32> = (0..copies).map(|_| self.ftl.place_dead(LOG, 0).0).collect();
        let segment = self.layout.segment_of(ppns[0]);
        let behind = (ppns[0] % self.layout.pages_per_segment + copies) as u16;
        self.segments.fill(segment, behind);
        self.checkpoint.segment_changed(&self.layout, segment);
        let next = if copies == left { self.open_next() } else { None };
        let (head, entries) = self.log.take_for_summary(segment, next, behind);
        self.segments.hold_summary(segment);
        self.counts.summary_pages += u64::from(copies);
        let data = if self.is_absent {
            Data::Absent
        } else {
            let mut page = vec![0; self.layout.page_bytes as usize];
            encode_summary(self.volume, head, &entries, &mut page);
            Data::Whole(page.into())
        };
        for ppn in ppns {
            self.checkpoint.count_bytes(self.layout.page_bytes);
            self.gather(ppn, data.clone(), None, actions);
        }
    }

    /// Opens the segment in which the log goes on, and tells the log of it.
    fn open_next(&mut self) -> Option<u32> {
        let segment = self.ftl.open_next(LOG, 0)?.0;
        let opened_at = self.ftl.device().opened_at[segment as usize];
        self.segments.open(segment, self.log.next, opened_at, 0);
        self.checkpoint.segment_changed(&self.layout, segment);
        self.log.push(Entry::Opened { segment, stream: 0, opened_at });
        Some(segment)
    }

    /// Returns true if emptied segments wait only for a checkpoint, while few are free.
    pub fn wants_checkpoint(&self) -> bool {
        self.layout.form.in_segments
            && self.wants_to_free()
            && self.emptied_and_known().any(|segment| self.segments.holds_summary(segment))
    }

    /// Gives the end of the log: the first page in which the next summary may lie.
    pub fn end_of_log(&self) -> Option<u32> {
        self.ftl.frontier(LOG, 0).map(|(ppn, _)| ppn.0)
    }
}

#[cfg(test)]
mod tests {
    use ftl::{PageMapped, Remains};
    use placement::Context;
    use placement::policies::none::NoPlacement;
    use registry::Spec;
    use units::{IoOp, Lpn};

    use super::super::layout::VolumeLayout;
    use super::super::recovery::Recovered;
    use super::super::settings::VolumeSettings;
    use super::*;
    use crate::{Command, Facts, Layer, Limits};

    /// Makes a volume whose log is open in its first segment.
    fn volume() -> LogVolume<NoPlacement> {
        let text = "log_volume(page=1Ki,segment=32Ki,over_provisioning=60%,summaries=segments)";
        let args = super::super::ENTRY.info.accept(&Spec::parse(text).unwrap()).unwrap();
        let settings = VolumeSettings::read(&args, &Facts::default()).unwrap();
        let below = Limits { capacity_bytes: 512 << 10, sector_bytes: 512, most_bytes: 16 << 10 };
        let layout = VolumeLayout::plan(&settings, below).unwrap();
        let context = Context::new(layout.geometry(), 1);
        let victims =
            placement::build_victim(&Spec::parse("greedy").unwrap(), &context, 1).unwrap();
        let mut ftl = PageMapped::new(context.geometry, "none", NoPlacement, victims).unwrap();
        let recovered = Recovered::empty(layout);
        let (map, blocks) = (&recovered.map, &recovered.blocks());
        ftl.go_on_from(Remains { map, blocks, clock: 0, open: Some(0) }).unwrap();
        LogVolume::new(recovered, settings, below, ftl)
    }

    /// Gives the number of commands that a flush sends below, after this entry.
    fn sent_after(entry: Entry) -> usize {
        let (mut volume, mut actions) = (volume(), Actions::default());
        volume.log.push(entry);
        let flush = Command::new(1, IoOp::Flush, 0, 0);
        volume.submit(flush, 0, &mut actions);
        actions.down.len()
    }

    /// Makes a volume with one page that holds something, all but one of the entries of a summary,
    /// and nothing left in its segment but the page for that.
    fn nearly_full() -> LogVolume<NoPlacement> {
        let mut volume = volume();
        let write = Command::write(0, 0, Data::zeros(1024));
        volume.submit(write, 0, &mut Actions::default());
        while !volume.is_at_last_page() {
            volume.ftl.place_dead(LOG, 0);
        }
        let placed = Entry::Placed { lpn: 0, ppn: 0, is_relocated: false, check: 7 };
        for _ in 1..volume.layout.entries_per_summary() - 1 {
            volume.log.push(placed);
        }
        volume
    }

    /// The summary in the last page of a segment tells of the next one, too. Regression: there was
    /// no room for that.
    #[test]
    fn a_trim_and_a_page_that_is_lost_leave_room_for_what_a_summary_says_of_the_next_segment() {
        let (mut volume, mut actions) = (nearly_full(), Actions::default());
        volume.submit(Command::new(1, IoOp::Trim, 0, 1024), 0, &mut actions);
        assert_eq!(actions.up.len(), 1, "it is replied to");
        let (mut volume, mut actions) = (nearly_full(), Actions::default());
        volume.lose(Lpn(0), 0, &mut actions);
        assert!(volume.poison.is_none());
    }

    /// Each commit takes a page. A host that flushes while a segment is cleaned would use up what
    /// cleaning needs, for pages that still lie where they were.
    #[test]
    fn a_flush_commits_nothing_that_cleaning_moved_alone() {
        let placed = |is_relocated| Entry::Placed { lpn: 0, ppn: 0, is_relocated, check: 7 };
        assert_eq!(sent_after(placed(true)), 0);
        assert_eq!(sent_after(placed(false)), 1, "the summary");
        assert_eq!(sent_after(Entry::Lost { lpn: 0, ppn: 0 }), 1, "that it is lost stays so");
    }
}
