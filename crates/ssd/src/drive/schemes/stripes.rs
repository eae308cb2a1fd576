//! Layout of the pages of a superblock: one erase block on each plane of each die, written in step.

use units::{Divider, EraseBlockId, Geometry, Ppn};

use crate::drive::media::Layout;
use crate::drive::profile::SlcBlocks;

/// Numbers of pages and units that belong together on a drive of superblocks.
#[derive(Clone, Copy, Debug)]
pub struct Together {
    /// Pages of a plane that one read senses.
    pub per_read: u32,
    /// Pages of a plane that one program writes.
    pub per_program: u32,
    /// True if one command works on all planes of a die.
    pub multi_plane: bool,
    /// Units of each group of a stripe that hold parity: 0 or 1.
    pub parity: u32,
    /// Units of a group, which divide those of a stripe; 0 for all.
    pub group: u32,
}

/// The order of a superblock's pages.
///
/// A *program unit* is written by one program of a die: `pages_per_program` pages on each of its
/// planes, or on one of them where planes do not work together. Units go to the dies in turn, each
/// channel once and then the next die of each; a *stripe* is one unit on each. Within a unit, the
/// pages that one read senses (`pages_per_read` pages of a plane) come first, then the same of the
/// next plane, so that a long read uses all planes.
///
/// Superblock `n` is the `n`-th erase block of each plane that is not bad from the factory.
///
/// With parity, one unit of each group of a stripe holds the exclusive or of the others: on the
/// next die of the group with each stripe, as in RAID 5, so that reads use all dies equally. Groups
/// are consecutive dies, so that they lie on as many channels as possible.
#[derive(Clone, Debug)]
pub struct Stripes {
    /// Pages of a superblock, without parity.
    pub pages: u32,
    /// Pages of a program unit.
    pub unit_pages: u32,
    /// Pages of the smallest part of a unit that can be programmed by itself: those of one plane's
    /// program, if a unit's pages lie there plane by plane; else the unit.
    pub least_pages: u32,
    /// Shapes of program units: with all bits of a cell, and with one.
    shapes: [Shape; 2],
    /// True for superblocks that are written with one bit per cell; empty where none ever is.
    in_slc: Vec<bool>,
    /// Planes of a unit.
    planes: u32,
    pages_per_block: u32,
    superblocks: u32,
    /// Units of a stripe: dies, or planes where those do not work together.
    units: u32,
    /// Units of a group, which has parity of its own.
    group: u32,
    /// Parity units of a group.
    parity: u32,
    /// The erase blocks of each superblock: die by die in the order of a stripe, plane by plane.
    blocks: Vec<EraseBlockId>,
    by_superblock: Divider,
    /// Divides by the number of data units of a stripe.
    by_die: Divider,
    /// Divides by the number of data units of a group.
    by_group: Divider,
    by_plane: Divider,
}

/// Shape of a program unit.
#[derive(Clone, Copy, Debug)]
struct Shape {
    unit_pages: u32,
    per_read: u32,
    per_program: u32,
    /// Distance in an erase block from one program to the next, in places.
    step: u32,
    by_unit: Divider,
    by_least: Divider,
    by_read: Divider,
}

impl Shape {
    fn new(per_read: u32, per_program: u32, step: u32, planes: u32) -> Self {
        let unit_pages = per_program * planes;
        let least_pages = if per_read == per_program { per_program } else { unit_pages };
        Self {
            unit_pages,
            per_read,
            per_program,
            step,
            by_unit: Divider::new(unit_pages),
            by_least: Divider::new(least_pages),
            by_read: Divider::new(per_read),
        }
    }
}

impl Stripes {
    /// Makes the layout of a drive's superblocks. `is_bad` tells the erase blocks that are bad from
    /// the factory.
    pub fn new(layout: &Layout, together: Together, is_bad: impl Fn(EraseBlockId) -> bool) -> Self {
        let Together { per_read, per_program, multi_plane, parity, group } = together;
        let planes = if multi_plane { layout.planes_per_die } else { 1 };
        let rounds = layout.planes_per_die / planes;
        let dies = (0..layout.dies_per_channel).flat_map(|die| {
            (0..layout.channels).map(move |channel| channel * layout.dies_per_channel + die)
        });
        let dies: Vec<u32> = dies.collect();
        let firsts = (0..rounds).flat_map(|round| {
            dies.iter().map(move |die| die * layout.planes_per_die + round * planes)
        });
        let good_blocks: Vec<Vec<EraseBlockId>> = firsts
            .flat_map(|first| first..first + planes)
            .map(|plane| {
                let first = plane * layout.blocks_per_plane;
                let all = (first..first + layout.blocks_per_plane).map(EraseBlockId);
                all.filter(|&block| !is_bad(block)).collect()
            })
            .collect();
        let superblocks = good_blocks.iter().map(Vec::len).min().unwrap_or(0);
        let blocks = (0..superblocks).flat_map(|n| good_blocks.iter().map(move |good| good[n]));
        let whole = Shape::new(per_read, per_program, per_program, planes);
        let unit_pages = whole.unit_pages;
        let least_pages = if per_read == per_program { per_program } else { unit_pages };
        let units = layout.dies() * rounds;
        let group = if group == 0 { units } else { group };
        let data_units = units - parity * (units / group);
        let pages = layout.pages_per_block * planes * data_units;
        Self {
            pages,
            unit_pages,
            least_pages,
            shapes: [whole; 2],
            in_slc: Vec::new(),
            planes,
            pages_per_block: layout.pages_per_block,
            superblocks: superblocks as u32,
            units,
            group,
            parity,
            blocks: blocks.collect(),
            by_superblock: Divider::new(pages),
            by_die: Divider::new(data_units),
            by_group: Divider::new(group - parity),
            by_plane: Divider::new(planes),
        }
    }

    /// Allows superblocks with one bit per cell, written in the order of their word lines.
    #[must_use]
    pub fn with_slc(mut self, slc: SlcBlocks) -> Self {
        let per_read = self.shapes[0].per_read.min(slc.per_program);
        self.shapes[1] = Shape::new(per_read, slc.per_program, slc.per_word_line, self.planes);
        self.in_slc = vec![false; self.superblocks as usize];
        self
    }

    /// Data pages of a superblock with one bit per cell.
    pub fn slc_pages(&self, slc: SlcBlocks) -> u32 {
        slc.word_lines * self.shapes[1].unit_pages * self.data_units()
    }

    /// Sets a superblock to be written with one bit per cell, or with all.
    pub fn set_slc(&mut self, superblock: u32, is_slc: bool) {
        self.in_slc[superblock as usize] = is_slc;
    }

    #[inline]
    fn shape(&self, superblock: u32) -> &Shape {
        &self.shapes[usize::from(!self.in_slc.is_empty() && self.in_slc[superblock as usize])]
    }

    /// The geometry as the FTL sees it: erase blocks are superblocks.
    pub fn geometry(&self, page_bytes: u32, logical_pages: u32) -> Geometry {
        Geometry {
            page_bytes,
            pages_per_erase_block: self.pages,
            logical_pages,
            erase_blocks: self.superblocks,
        }
    }

    /// Number of superblocks.
    pub fn superblocks(&self) -> u32 {
        self.superblocks
    }

    /// The erase blocks of a superblock.
    pub fn blocks_of(&self, superblock: u32) -> &[EraseBlockId] {
        let count = (self.units * self.planes) as usize;
        &self.blocks[superblock as usize * count..][..count]
    }

    /// Pages of a stripe, without parity.
    pub fn stripe_pages(&self) -> u32 {
        self.unit_pages * self.data_units()
    }

    /// Number of data units in a stripe.
    fn data_units(&self) -> u32 {
        self.units - self.parity * (self.units / self.group)
    }

    /// Number of units in a group.
    pub fn group(&self) -> u32 {
        self.group
    }

    /// The dies in the order of a stripe, in which those of a group are consecutive. Only where a
    /// unit is a die.
    pub fn dies(&self, layout: &Layout) -> impl Iterator<Item = u32> + use<'_> {
        let (layout, planes) = (layout.clone(), self.planes as usize);
        let count = self.units as usize * planes;
        self.blocks.iter().take(count).step_by(planes).map(move |&b| layout.die_of_block(b))
    }

    /// The superblock of a page of the FTL, and the page's offset there.
    #[inline]
    pub fn split(&self, page: Ppn) -> (u32, u32) {
        self.by_superblock.split(page.0)
    }

    /// Returns true if the next page of the superblock begins another program unit.
    #[inline]
    pub fn ends_unit(&self, superblock: u32, offset: u32) -> bool {
        self.shape(superblock).by_unit.split(offset + 1).1 == 0
    }

    /// Returns true if the pages up to this one can be programmed as they are.
    #[inline]
    pub fn ends_program(&self, superblock: u32, offset: u32) -> bool {
        self.shape(superblock).by_least.split(offset + 1).1 == 0
    }

    /// The unit of each group of a stripe that holds its parity.
    #[inline]
    fn parity_unit(&self, superblock: u32, stripe: u32) -> u32 {
        (superblock + stripe) % self.group
    }

    /// The die of a data unit, by the unit's number in the stripe.
    #[inline]
    fn die_of(&self, superblock: u32, stripe: u32, number: u32) -> u32 {
        if self.parity == 0 {
            return number;
        }
        let (group, number) = self.by_group.split(number);
        let within = number + u32::from(number >= self.parity_unit(superblock, stripe));
        group * self.group + within
    }

    /// The pages on the media of which a page of the FTL is the exclusive or, if there is parity:
    /// those at its place in the other units of its group.
    pub fn rest_of_group(&self, page: Ppn) -> impl Iterator<Item = Ppn> + use<'_> {
        let (superblock, offset) = self.split(page);
        let (unit, within) = self.shape(superblock).by_unit.split(offset);
        let (stripe, number) = self.by_die.split(unit);
        let own = self.die_of(superblock, stripe, number);
        let first = own / self.group * self.group;
        (first..first + self.group)
            .filter(move |&die| die != own)
            .map(move |die| self.in_unit(superblock, stripe, die, within))
    }

    /// The page on the media of a page of the FTL.
    #[inline]
    pub fn on_media(&self, page: Ppn) -> Ppn {
        let (superblock, offset) = self.split(page);
        let (unit, within) = self.shape(superblock).by_unit.split(offset);
        let (stripe, number) = self.by_die.split(unit);
        self.in_unit(superblock, stripe, self.die_of(superblock, stripe, number), within)
    }

    #[inline]
    fn in_unit(&self, superblock: u32, stripe: u32, die: u32, within: u32) -> Ppn {
        let shape = self.shape(superblock);
        let (sensed, page_of_read) = shape.by_read.split(within);
        let (read, plane) = self.by_plane.split(sensed);
        let planes = self.planes;
        let place = (superblock * self.units + die) * planes + plane;
        let block = self.blocks[place as usize].0;
        let place = stripe * shape.step + read * shape.per_read + page_of_read;
        Ppn(block * self.pages_per_block + place)
    }

    /// The pages on the media that hold the parity of a group of a stripe, if the page of the FTL
    /// at this offset is the last one of its data.
    pub fn parity_after(
        &self,
        superblock: u32,
        offset: u32,
    ) -> impl Iterator<Item = Ppn> + use<'_> {
        let shape = self.shape(superblock);
        let (unit, within) = shape.by_unit.split(offset);
        let (stripe, number) = self.by_die.split(unit);
        let (group, number) = self.by_group.split(number);
        let is_last = within + 1 == shape.unit_pages && number + 1 == self.group - self.parity;
        let pages = if self.parity > 0 && is_last { shape.unit_pages } else { 0 };
        (0..pages).map(move |within| {
            let die = group * self.group + self.parity_unit(superblock, stripe);
            self.in_unit(superblock, stripe, die, within)
        })
    }

    /// The erase blocks of a superblock, each with the number of its pages that are programmed when
    /// this many of the superblock's are written: as many as possible. With all bits of a cell.
    pub fn programmed(
        &self,
        superblock: u32,
        written: u32,
    ) -> impl Iterator<Item = (EraseBlockId, u32)> + use<'_> {
        let whole = &self.shapes[0];
        let (units, rest) = whole.by_unit.split(written);
        debug_assert!(rest.is_multiple_of(self.least_pages), "programs are of whole pages");
        let (stripes, dies) = self.by_die.split(units);
        let planes = rest / whole.per_program;
        let (by_plane, per_program) = (self.by_plane, whole.per_program);
        let parity = (self.parity > 0).then(|| self.parity_unit(superblock, stripes));
        let (group, of_group) = (self.group, self.group - self.parity);
        self.blocks_of(superblock).iter().zip(0..).map(move |(&block, place)| {
            let (die, plane) = by_plane.split(place);
            // By the number of its unit among the data units: those before it are written, and a
            // part of it; parity once its group's are.
            let within = die % group;
            let number = die / group * of_group + within;
            let is_written = match parity {
                Some(parity) if parity == within => (die / group + 1) * of_group <= dies,
                parity => {
                    let number = number - u32::from(parity.is_some_and(|parity| parity < within));
                    number < dies || (number == dies && plane < planes)
                }
            };
            (block, (stripes + u32::from(is_written)) * per_program)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two channels of two dies of two planes; three erase blocks per plane, of 12 pages.
    fn stripes() -> (Layout, Stripes) {
        let layout = Layout::new(2, 2, 2, 3, 12, 4096);
        let stripes = Stripes::new(&layout, TOGETHER, |_| false);
        (layout, stripes)
    }

    const TOGETHER: Together =
        Together { per_read: 2, per_program: 6, multi_plane: true, parity: 0, group: 0 };

    #[test]
    fn every_page_has_a_place_of_its_own_in_its_superblock() {
        let (layout, stripes) = stripes();
        assert_eq!((stripes.pages, stripes.unit_pages, stripes.stripe_pages()), (96, 12, 48));
        let mut seen = vec![false; layout.physical_pages() as usize];
        for page in 0..layout.physical_pages() {
            let on_media = stripes.on_media(Ppn(page));
            assert!(!std::mem::replace(&mut seen[on_media.index()], true));
            let block = layout.block_of(on_media);
            assert_eq!(block.0 % layout.blocks_per_plane, stripes.split(Ppn(page)).0);
        }
    }

    #[test]
    fn what_is_sensed_together_is_next_to_each_other_and_units_go_round_the_dies() {
        let (layout, stripes) = stripes();
        let place = |page: u32| {
            let (block, place) = layout.split(stripes.on_media(Ppn(page)));
            (layout.plane_of(block), place)
        };
        // Two pages of plane 0, two of plane 1, and again, up to the word line's end.
        assert_eq!([0, 1, 2, 3, 4, 5].map(place), [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3)]);
        // The next unit is on the other channel, the third on the second die of the first.
        assert_eq!([place(12), place(24), place(36)], [(4, 0), (2, 0), (6, 0)]);
        // The second stripe begins where the first has ended.
        assert_eq!(place(48), (0, 6));
    }

    #[test]
    fn units_that_are_written_are_programmed() {
        let (layout, stripes) = stripes();
        for units in 0..=8 {
            let written = units * stripes.unit_pages;
            let programmed: Vec<_> = stripes.programmed(1, written).collect();
            assert_eq!(programmed.len(), 8);
            let all: u32 = programmed.iter().map(|&(_, pages)| pages).sum();
            assert_eq!(all, written);
            for page in 0..stripes.pages {
                let (block, place) = layout.split(stripes.on_media(Ppn(stripes.pages + page)));
                let pages = programmed.iter().find(|&&(known, _)| known == block).unwrap().1;
                assert_eq!(place < pages, page < written, "page {page} of {units} units");
            }
        }
    }

    #[test]
    fn parity_goes_round_the_dies_and_takes_one_of_each_stripe() {
        let (layout, _) = stripes();
        let stripes = Stripes::new(&layout, Together { parity: 1, ..TOGETHER }, |_| false);
        assert_eq!((stripes.pages, stripes.stripe_pages()), (72, 36));
        let mut seen = vec![false; layout.physical_pages() as usize];
        let mut parity_dies = Vec::new();
        for page in 0..3 * stripes.pages {
            let (superblock, offset) = stripes.split(Ppn(page));
            let at = std::iter::once(stripes.on_media(Ppn(page)));
            let parity: Vec<Ppn> = stripes.parity_after(superblock, offset).collect();
            assert_eq!(parity.len(), if (offset + 1) % 36 == 0 { 12 } else { 0 });
            parity_dies.extend(parity.first().map(|&page| layout.die_of(page)));
            for page in at.chain(parity) {
                assert!(!std::mem::replace(&mut seen[page.index()], true));
            }
        }
        assert!(seen.iter().all(|&seen| seen), "data and parity fill the media");
        // In the order of a stripe: dies 0, 2, 1, 3.
        assert_eq!(parity_dies, [0, 2, 2, 1, 1, 3]);
    }

    /// Groups of two dies of the four: as many units for data as for parity.
    #[test]
    fn groups_have_parity_of_their_own() {
        let (layout, _) = stripes();
        let together = Together { parity: 1, group: 2, ..TOGETHER };
        let stripes = Stripes::new(&layout, together, |_| false);
        assert_eq!((stripes.pages, stripes.stripe_pages(), stripes.group()), (48, 24, 2));
        assert_eq!(stripes.dies(&layout).collect::<Vec<_>>(), [0, 2, 1, 3]);
        let mut seen = vec![false; layout.physical_pages() as usize];
        for page in 0..3 * stripes.pages {
            let (superblock, offset) = stripes.split(Ppn(page));
            let own = stripes.on_media(Ppn(page));
            let parity: Vec<Ppn> = stripes.parity_after(superblock, offset).collect();
            assert_eq!(parity.len(), if (offset + 1) % 12 == 0 { 12 } else { 0 });
            let [other] = stripes.rest_of_group(Ppn(page)).collect::<Vec<_>>()[..] else {
                panic!("a group is of two")
            };
            let groups = [own, other].map(|page| layout.die_of(page) % 2);
            assert_eq!(groups[0], groups[1]);
            for page in std::iter::once(own).chain(parity) {
                assert!(!std::mem::replace(&mut seen[page.index()], true));
            }
        }
        assert!(seen.iter().all(|&seen| seen), "data and parity fill the media");
    }

    /// Each page is the exclusive or of the rest of its group. So the sets of pages that belong
    /// together are the same for all of their pages.
    #[test]
    fn the_rest_of_a_group_and_the_page_are_one_set() {
        let (layout, _) = stripes();
        for group in [0, 2] {
            let together = Together { parity: 1, group, ..TOGETHER };
            let stripes = Stripes::new(&layout, together, |_| false);
            let mut sets = std::collections::BTreeMap::new();
            for page in (0..3 * stripes.pages).map(Ppn) {
                let own = stripes.on_media(page);
                let mut set: Vec<u32> = stripes.rest_of_group(page).map(|page| page.0).collect();
                set.push(own.0);
                set.sort_unstable();
                assert_eq!(set.len() as u32, stripes.group());
                assert!(
                    set.windows(2)
                        .all(|pair| { layout.die_of(Ppn(pair[0])) != layout.die_of(Ppn(pair[1])) })
                );
                *sets.entry(set).or_insert(0) += 1;
            }
            assert!(sets.values().all(|&count| count == stripes.group() - 1));
        }
    }

    #[test]
    fn what_is_written_is_programmed_with_its_parity() {
        for group in [0, 2] {
            written_with_parity(group);
        }
    }

    fn written_with_parity(group: u32) {
        let (layout, _) = stripes();
        let together = Together { parity: 1, group, ..TOGETHER };
        let stripes = Stripes::new(&layout, together, |_| false);
        for superblock in 0..3 {
            for units in 0..=stripes.pages / stripes.unit_pages {
                let mut expected = std::collections::BTreeMap::new();
                for offset in 0..units * stripes.unit_pages {
                    let page = stripes.on_media(Ppn(superblock * stripes.pages + offset));
                    for page in
                        std::iter::once(page).chain(stripes.parity_after(superblock, offset))
                    {
                        *expected.entry(layout.block_of(page).0).or_insert(0) += 1;
                    }
                }
                for (block, pages) in stripes.programmed(superblock, units * stripes.unit_pages) {
                    assert_eq!(pages, expected.get(&block.0).copied().unwrap_or(0), "{units}");
                }
            }
        }
    }

    #[test]
    fn with_one_bit_a_cell_each_word_line_holds_a_program_of_its_own() {
        let (layout, stripes) = stripes();
        // Word lines of six pages programmed at once: two of one bit each.
        let slc = SlcBlocks { per_program: 2, per_word_line: 6, word_lines: 2 };
        let mut stripes = stripes.with_slc(slc);
        assert_eq!(stripes.slc_pages(slc), 96 / 3);
        stripes.set_slc(1, true);
        let place = |page: u32| {
            let (block, place) = layout.split(stripes.on_media(Ppn(96 + page)));
            (layout.plane_of(block), place)
        };
        assert_eq!([0, 1, 2, 3].map(place), [(0, 0), (0, 1), (1, 0), (1, 1)]);
        assert_eq!([4, 15, 16, 31].map(place), [(4, 0), (7, 1), (0, 6), (7, 7)]);
        assert!(stripes.ends_unit(1, 3) && !stripes.ends_unit(0, 3));
        // Other superblocks are unchanged.
        assert_eq!(layout.split(stripes.on_media(Ppn(4))).1, 2);
    }
}
