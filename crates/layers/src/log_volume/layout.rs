//! Layout: places of all structures on the device.

use std::ops::Range;

use units::Geometry;

use super::NAME;
use super::disk::{
    Form, SEGMENT_ENTRY_BYTES, SUMMARY_ENTRY_BYTES, SUMMARY_HEADER_BYTES, Sizes, TABLE_HEADER_BYTES,
};
use super::footer::footer_pages;
use super::settings::VolumeSettings;
use crate::{LayerError, Limits};

/// The highest bit of a page number has other uses, and a few of the highest values are special.
const MOST_PAGES: u64 = (1 << 31) - 16;
const MOST_SEGMENT_PAGES: u64 = 32_768;
/// Two pages of data, and one of the footer.
const LEAST_SEGMENT_PAGES: u64 = 3;
/// Least pages of a segment with summaries in it: fewer would hold little else.
const LEAST_PAGES_WITH_SUMMARIES: u32 = 16;
/// Segments without data of the host there: the one that is written to, the one that comes next,
/// and one for pages that cleaning moves.
const SEGMENTS_TO_TURN: u32 = 3;
/// Least spare pages of a segment there, on average: cleaning one writes that many beside its
/// pages, for summaries of those, of commits and of a checkpoint.
const LEAST_SPARE_PAGES: f64 = 10.0;
/// Number of copies of everything but the segments, each as a whole.
pub(super) const COPIES: u64 = 2;
/// Alignment of copies, in bytes: no sector, at most this large on drives, holds parts of both.
const SECTOR_BYTES: u64 = 4096;
/// Pages of a summary in a segment: itself and a copy behind it.
pub(super) const SUMMARY_COPIES: u32 = 2;

/// Sizes in a superblock, and all that follows from them. Offsets are in bytes from the start of
/// the device, or of the first of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VolumeLayout {
    pub page_bytes: u32,
    /// All pages of a segment.
    pub segment_pages: u32,
    /// Pages of a segment for data and summaries; its footer takes the others. Physical pages are
    /// numbered without footers.
    pub pages_per_segment: u32,
    pub segments: u32,
    pub logical_pages: u32,
    /// Most summaries that may be needed at a time.
    pub ring_pages: u32,
    pub form: Form,
    /// Pages of one root; there are two, written in turn.
    pub root_pages: u32,
    /// Pages of tables that hold the map.
    pub map_tables: u32,
    /// Number of pages of tables: those of the map, then those of the segments. Each has room for
    /// two versions.
    pub tables: u32,
    /// First byte of the superblock, behind which all but the segments lies.
    own_at: u64,
    /// Bytes from one copy of all that to the next.
    copy_bytes: u64,
    /// First byte of the segments, if they are not behind all else.
    segments_at: Option<u64>,
    roots_at: u64,
    tables_at: u64,
    ring_at: u64,
    pub data_at: u64,
}

impl VolumeLayout {
    /// Computes the layout from the sizes, with the superblock at this byte. All sizes are above 0
    /// and within their limits.
    pub fn of(sizes: Sizes, own_at: u64) -> Self {
        let Sizes {
            page_bytes,
            segment_pages,
            segments,
            logical_pages,
            ring_pages,
            form,
            segments_at,
        } = sizes;
        let footer = if form.in_segments { 0 } else { footer_pages(page_bytes, segment_pages) };
        let pages_per_segment = segment_pages - footer;
        let page = u64::from(page_bytes);
        let map_tables = logical_pages.div_ceil(per_page(
            page_bytes,
            TABLE_HEADER_BYTES,
            form.map_entry_bytes(),
        ));
        let tables = map_tables
            + segments.div_ceil(per_page(page_bytes, TABLE_HEADER_BYTES, SEGMENT_ENTRY_BYTES));
        let root_pages =
            (form.root_header_bytes() as u32 + tables.div_ceil(4)).div_ceil(page_bytes);
        let roots_at = own_at + page;
        let tables_at = roots_at + 2 * u64::from(root_pages) * page;
        let ring_at = tables_at + 2 * u64::from(tables) * page;
        let segment_bytes = u64::from(segment_pages) * page;
        let one = ring_at + ring_bytes(page_bytes, ring_pages, form) - own_at;
        let copy_bytes = one.next_multiple_of(SECTOR_BYTES.max(page));
        let own_end = own_at + COPIES * copy_bytes;
        let behind = || own_end.next_multiple_of(segment_bytes);
        let data_at = segments_at.unwrap_or_else(behind);
        Self {
            page_bytes,
            segment_pages,
            pages_per_segment,
            segments,
            logical_pages,
            ring_pages,
            form,
            root_pages,
            map_tables,
            tables,
            own_at,
            copy_bytes,
            segments_at,
            roots_at,
            tables_at,
            ring_at,
            data_at,
        }
    }

    /// Gives the sizes from which it follows.
    pub const fn sizes(&self) -> Sizes {
        let Self {
            page_bytes,
            segment_pages,
            segments,
            logical_pages,
            ring_pages,
            form,
            segments_at,
            ..
        } = *self;
        Sizes { page_bytes, segment_pages, segments, logical_pages, ring_pages, form, segments_at }
    }

    /// Plans the largest volume that a device holds. With another device for all but the segments
    /// these lie where they would without it, so that the rest may come back.
    pub fn plan(settings: &VolumeSettings, below: Limits) -> Result<Self, LayerError> {
        let page = u64::from(settings.page_bytes);
        let device_bytes = settings.aside.unwrap_or(below.capacity_bytes);
        let all = device_bytes / settings.segment_bytes;
        let segment_pages = (settings.segment_bytes / page) as u32;
        Self::check_sizes(settings, below, device_bytes)?;
        let ring_pages = settings
            .summary_pages
            .unwrap_or(((all * u64::from(segment_pages) / 128) as u32).max(32));
        let form = Form {
            keeps_checksums: settings.keeps_checksums,
            in_segments: settings.are_summaries_in_segments,
        };
        if form.in_segments {
            Self::check_spare(settings, segment_pages)?;
        }
        let footer = footer_pages(settings.page_bytes, segment_pages);
        // The bytes of the tables depend on the number of segments that are left.
        for segments in (2..=all as u32).rev() {
            let physical = match form.in_segments {
                false => f64::from(segments) * f64::from(segment_pages - footer),
                true => {
                    f64::from(segments.saturating_sub(SEGMENTS_TO_TURN))
                        * f64::from(data_pages(settings.page_bytes, segment_pages))
                }
            };
            let logical_pages = (physical / (1.0 + settings.over_provisioning)) as u32;
            if logical_pages == 0 {
                break;
            }
            let sizes = Sizes {
                page_bytes: settings.page_bytes,
                segment_pages,
                segments,
                logical_pages,
                ring_pages,
                form,
                segments_at: None,
            };
            let layout = Self::of(sizes, 0);
            if layout.end() <= device_bytes {
                let Some(aside) = settings.aside else { return Ok(layout) };
                let segments_at = Some(layout.data_at);
                let layout = Self::of(Sizes { segments_at, ..sizes }, aside);
                layout.check_aside(below)?;
                return Ok(layout);
            }
        }
        Err(LayerError::TooSmall {
            layer: NAME,
            needed: 4 * settings.segment_bytes + COPIES * u64::from(ring_pages + 8) * page,
            there: device_bytes,
            remedy: "take a larger device, or give segment=... or summary_pages=...",
        })
    }

    /// Checks that pages and segments of these sizes are possible.
    fn check_sizes(
        settings: &VolumeSettings,
        below: Limits,
        device_bytes: u64,
    ) -> Result<(), LayerError> {
        let page = u64::from(settings.page_bytes);
        let refused = |reason: String| LayerError::Refused { layer: NAME, reason };
        if !page.is_multiple_of(u64::from(below.sector_bytes))
            || settings.page_bytes > below.most_bytes
        {
            let (sector, most) = (below.sector_bytes, below.most_bytes);
            return Err(refused(format!(
                "a page of {page} bytes is not of whole sectors of {sector} bytes, or longer than \
                 a command's {most}: give page=..."
            )));
        }
        let segment_pages = settings.segment_bytes / page;
        if !(LEAST_SEGMENT_PAGES..=MOST_SEGMENT_PAGES).contains(&segment_pages) {
            return Err(refused(format!(
                "a segment of {segment_pages} pages is not of {LEAST_SEGMENT_PAGES} to \
                 {MOST_SEGMENT_PAGES}: give segment=... or page=..."
            )));
        }
        let all = device_bytes / settings.segment_bytes;
        if all * segment_pages > MOST_PAGES {
            return Err(refused(format!(
                "a device of {device_bytes} bytes has more than {MOST_PAGES} pages of {page} \
                 bytes: give page=..."
            )));
        }
        Ok(())
    }

    /// Checks that all that lies on another device than the segments fits there.
    pub fn check_aside(&self, below: Limits) -> Result<(), LayerError> {
        if self.segments_at.is_none() {
            return Ok(());
        }
        if self.form.in_segments {
            return Err(LayerError::Refused {
                layer: NAME,
                reason: "summaries=segments keeps the record of each commit beside its pages, so \
                         that a staging device would gain nothing: leave out one of both"
                    .to_owned(),
            });
        }
        if self.own_end() > below.capacity_bytes {
            return Err(LayerError::TooSmall {
                layer: NAME,
                needed: self.own_end() - self.own_at,
                there: below.capacity_bytes - self.own_at,
                remedy: "take a larger staging device, or give summary_pages=... or page=...",
            });
        }
        Ok(())
    }

    /// Checks that cleaning a segment gains more pages than its summaries take.
    pub fn check_spare(settings: &VolumeSettings, pages: u32) -> Result<(), LayerError> {
        let op = settings.over_provisioning;
        let spare = f64::from(data_pages(settings.page_bytes, pages)) * op / (1.0 + op);
        if pages >= LEAST_PAGES_WITH_SUMMARIES && spare >= LEAST_SPARE_PAGES {
            return Ok(());
        }
        let reason = format!(
            "a segment of {pages} pages has {spare:.1} to spare; with summaries=segments there \
             must be {LEAST_PAGES_WITH_SUMMARIES} pages and {LEAST_SPARE_PAGES} to spare: give \
             segment=... or over_provisioning=..."
        );
        Err(LayerError::Refused { layer: NAME, reason })
    }

    /// Gives the pages of a segment that may hold data, on average: all but those of summaries.
    pub fn data_pages_per_segment(&self) -> u32 {
        if self.form.in_segments {
            data_pages(self.page_bytes, self.segment_pages)
        } else {
            self.pages_per_segment
        }
    }

    /// Gives the most segments that can be spared, beside those whose pages the host is promised.
    pub fn spare_segments(&self) -> u32 {
        self.segments - self.logical_pages.div_ceil(self.data_pages_per_segment())
    }

    /// Returns true if sizes that were read from a device make sense there.
    pub fn is_sound(sizes: Sizes, below: Limits, aside: Option<u64>) -> bool {
        let Sizes {
            page_bytes,
            segment_pages,
            segments,
            logical_pages,
            ring_pages,
            form,
            segments_at,
        } = sizes;
        let pages = u64::from(segments) * u64::from(segment_pages);
        page_bytes.is_power_of_two()
            && (512..=65_536).contains(&page_bytes)
            && page_bytes.is_multiple_of(below.sector_bytes)
            && page_bytes <= below.most_bytes
            && (LEAST_SEGMENT_PAGES..=MOST_SEGMENT_PAGES).contains(&u64::from(segment_pages))
            && segments >= 2
            && pages <= MOST_PAGES
            && (1..pages).contains(&u64::from(logical_pages))
            && (8..=1 << 24).contains(&ring_pages)
            && (!form.in_segments || segment_pages >= LEAST_PAGES_WITH_SUMMARIES)
            && segments_at.is_some() == aside.is_some()
            && segments_at.is_none_or(|at| at < below.capacity_bytes)
            && Self::of(sizes, aside.unwrap_or(0)).fits(below)
    }

    fn fits(&self, below: Limits) -> bool {
        match self.segments_at {
            None => self.end() <= below.capacity_bytes,
            Some(at) => {
                at.is_multiple_of(u64::from(self.page_bytes))
                    && self.end() <= self.own_at
                    && self.check_aside(below).is_ok()
            }
        }
    }

    pub fn geometry(&self) -> Geometry {
        Geometry {
            page_bytes: self.page_bytes,
            pages_per_erase_block: self.pages_per_segment,
            logical_pages: self.logical_pages,
            erase_blocks: self.segments,
        }
    }

    fn end(&self) -> u64 {
        self.segment(self.segments)
    }

    /// Gives the end of all but the segments.
    fn own_end(&self) -> u64 {
        self.own_at + COPIES * self.copy_bytes
    }

    /// Gives the first byte of a copy of the superblock.
    pub const fn superblock(&self, copy: u64) -> u64 {
        self.own_at + copy * self.copy_bytes
    }

    /// Gives the first byte of a segment.
    pub fn segment(&self, segment: u32) -> u64 {
        self.data_at + u64::from(segment) * self.segment_bytes()
    }

    /// Gives the bytes of a segment, with its footer.
    pub fn segment_bytes(&self) -> u64 {
        u64::from(self.segment_pages) * u64::from(self.page_bytes)
    }

    /// Gives the pages of a segment's footer.
    pub const fn footer_pages(&self) -> u32 {
        self.segment_pages - self.pages_per_segment
    }

    /// Gives the first byte of a segment's footer.
    pub fn footer(&self, segment: u32) -> u64 {
        self.segment(segment) + u64::from(self.pages_per_segment) * u64::from(self.page_bytes)
    }

    /// Gives the segment of a physical page.
    #[inline]
    pub const fn segment_of(&self, ppn: u32) -> u32 {
        ppn / self.pages_per_segment
    }

    /// Gives the pages of the volume that these bytes touch.
    pub fn pages_of(&self, bytes: &Range<u64>) -> Range<u32> {
        let page = u64::from(self.page_bytes);
        (bytes.start / page) as u32..bytes.end.div_ceil(page) as u32
    }

    /// Gives the part of a page that these bytes cover, counted within the page.
    pub fn within(&self, bytes: &Range<u64>, lpn: u32) -> Range<u64> {
        let page = u64::from(self.page_bytes);
        let start = u64::from(lpn) * page;
        bytes.start.max(start) - start..bytes.end.min(start + page) - start
    }

    /// Gives the first byte of a physical page.
    #[inline]
    pub fn page(&self, ppn: u32) -> u64 {
        let place = ppn % self.pages_per_segment;
        self.segment(self.segment_of(ppn)) + u64::from(place) * u64::from(self.page_bytes)
    }

    /// Returns true if the second of two physical pages lies right behind the first.
    #[inline]
    pub const fn are_neighbours(&self, ppn: u32, next: u32) -> bool {
        next == ppn + 1 && !next.is_multiple_of(self.pages_per_segment)
    }

    /// Gives the first byte of a copy of the root of this number.
    pub fn root(&self, number: u64, copy: u64) -> u64 {
        self.roots_at + copy * self.copy_bytes + number % 2 * self.root_bytes() as u64
    }

    pub fn root_bytes(&self) -> usize {
        (self.root_pages * self.page_bytes) as usize
    }

    /// Gives the first byte of a copy of a page of the tables, in the first (1) or second (2) area.
    pub fn table(&self, index: u32, area: u8, copy: u64) -> u64 {
        self.tables_at
            + copy * self.copy_bytes
            + (u64::from(area - 1) * u64::from(self.tables) + u64::from(index))
                * u64::from(self.page_bytes)
    }

    /// Gives the first byte of a copy of the summary of this number.
    pub fn summary(&self, number: u64, copy: u64) -> u64 {
        self.ring_at
            + copy * self.copy_bytes
            + (number % u64::from(self.ring_pages)) * u64::from(self.page_bytes)
    }

    /// Gives the first bytes of the copies of the summary of this number, which ends the ring; none
    /// if there is no ring.
    pub fn end_of_ring(&self, number: u64) -> impl Iterator<Item = u64> + use<> {
        let layout = *self;
        let copies = if layout.form.in_segments { 0 } else { COPIES };
        (0..copies).map(move |copy| layout.summary(number, copy))
    }

    /// Gives the entries in a summary.
    pub fn entries_per_summary(&self) -> usize {
        per_page(self.page_bytes, SUMMARY_HEADER_BYTES, SUMMARY_ENTRY_BYTES) as usize
    }

    pub fn lpns_per_table(&self) -> u32 {
        per_page(self.page_bytes, TABLE_HEADER_BYTES, self.form.map_entry_bytes())
    }

    pub fn segments_per_table(&self) -> u32 {
        per_page(self.page_bytes, TABLE_HEADER_BYTES, SEGMENT_ENTRY_BYTES)
    }

    /// Gives the logical pages in a page of the tables of the map.
    pub fn lpns_of(&self, table: u32) -> Range<u32> {
        let per = self.lpns_per_table();
        table * per..((table + 1) * per).min(self.logical_pages)
    }

    /// Gives the segments in a page of the tables of the segments.
    pub fn segments_of(&self, table: u32) -> Range<u32> {
        let per = self.segments_per_table();
        let place = table - self.map_tables;
        place * per..((place + 1) * per).min(self.segments)
    }
}

/// Gives the pages of a segment for data, where the last pages of each segment hold a summary, and
/// one follows the pages of each full one.
fn data_pages(page_bytes: u32, segment_pages: u32) -> u32 {
    let per = per_page(page_bytes, SUMMARY_HEADER_BYTES, SUMMARY_ENTRY_BYTES) - 2;
    segment_pages.saturating_sub(SUMMARY_COPIES * (1 + segment_pages.div_ceil(per)))
}

fn ring_bytes(page_bytes: u32, ring_pages: u32, form: Form) -> u64 {
    if form.in_segments { 0 } else { u64::from(ring_pages) * u64::from(page_bytes) }
}

const fn per_page(page_bytes: u32, header_bytes: usize, entry_bytes: usize) -> u32 {
    (page_bytes - header_bytes as u32) / entry_bytes as u32
}
