//! Choice of the pages that move when a volume is resized, and of their new places.

use std::ops::Range;

use crate::log_volume::disk::NOWHERE;
use crate::log_volume::layout::VolumeLayout;

/// The old volume, seen by the new one.
pub struct Held<'a> {
    pub old: &'a VolumeLayout,
    pub new: &'a VolumeLayout,
    /// Place of each logical page.
    pub map: &'a [u32],
    /// Returns true if a logical page stays in its place, which nothing else may take.
    pub keeps: &'a dyn Fn(u32) -> bool,
}

/// Result of packing. Places are physical pages of the old volume.
#[derive(Debug, PartialEq, Eq)]
pub struct Packing {
    /// Pages that move: the logical page, and its place.
    pub moving: Vec<(u32, u32)>,
    /// Their new places, and behind those as many others as were asked for.
    pub targets: Vec<u32>,
    /// Pages that neither volume needs, which may be used meanwhile.
    pub scratch: Vec<u32>,
    /// True for segments, by their numbers in the old volume, that the new one uses.
    pub used: Vec<bool>,
}

/// Error: there is no room.
#[derive(Debug, PartialEq, Eq)]
pub struct TooFull;

impl Held<'_> {
    const fn pages(&self) -> u32 {
        self.old.pages_per_segment
    }

    /// Gives the difference of a segment's numbers: that in the old volume less that in the new
    /// one.
    pub fn shift(&self) -> i64 {
        let segment = self.old.segment_bytes();
        (self.new.data_at / segment) as i64 - (self.old.data_at / segment) as i64
    }

    /// Gives the segments of the old volume that are segments of the new one.
    pub fn retained(&self) -> Range<u32> {
        let end = i64::from(self.new.segments) + self.shift();
        let end = end.clamp(0, i64::from(self.old.segments)) as u32;
        (self.shift().max(0) as u32).min(end)..end
    }

    /// Finds room for the pages that cannot stay, for `more` others, and for `scratch` pages
    /// meanwhile, so that at least `free` segments of the new volume hold nothing.
    ///
    /// Pages move to empty segments as long as enough of those are left, and then to unused pages
    /// of others: nothing reads these, and no recovery looks there once the old volume is drained.
    /// Where too few segments would be free, those with the fewest pages are emptied.
    ///
    /// # Errors
    /// [`TooFull`].
    pub fn pack(&self, more: usize, scratch: usize, free: u32) -> Result<Packing, TooFull> {
        let (pages, retained) = (self.pages() as usize, self.retained());
        let mut is_mapped = vec![false; self.old.segments as usize * pages];
        let mut kept = vec![0; self.old.segments as usize];
        let mut held = vec![0; self.old.segments as usize];
        for (lpn, &ppn) in (0..).zip(self.map).filter(|&(_, &ppn)| ppn != NOWHERE) {
            is_mapped[ppn as usize] = true;
            held[ppn as usize / pages] += 1;
            kept[ppn as usize / pages] += usize::from((self.keeps)(lpn));
        }
        let mut used: Vec<bool> = (0..)
            .zip(&kept)
            .map(|(segment, &kept)| kept > 0 && retained.contains(&segment))
            .collect();
        let empty: Vec<u32> = retained.clone().filter(|&one| held[one as usize] == 0).collect();
        let mut fullest: Vec<u32> = retained.filter(|&one| used[one as usize]).collect();
        fullest.sort_by_key(|&one| std::cmp::Reverse(kept[one as usize]));
        let for_scratch = scratch.div_ceil(pages);
        let new_segments = self.new.segments as usize;
        let sum = |of: &[usize]| fullest.iter().map(|&one| of[one as usize]).sum::<usize>();
        let mut need = kept.iter().sum::<usize>() - sum(&kept) + more;
        let mut holes = fullest.len() * pages - sum(&held);
        let to_fill = loop {
            let to_spare = new_segments.checked_sub(fullest.len() + free as usize);
            let to_fill = to_spare.unwrap_or(0).min(empty.len().saturating_sub(for_scratch));
            if to_spare.is_some() && need <= to_fill * pages + holes {
                break to_fill.min(need.div_ceil(pages));
            }
            let emptied = fullest.pop().ok_or(TooFull)? as usize;
            used[emptied] = false;
            need += kept[emptied];
            holes -= pages - held[emptied];
        };
        let places = |segment: u32| segment * self.pages()..(segment + 1) * self.pages();
        let is_free = |ppn: &u32| !is_mapped[*ppn as usize];
        let (filled, left) = empty.split_at(to_fill);
        let mut room = filled.iter().chain(&fullest).copied().flat_map(places).filter(is_free);
        let targets: Vec<u32> = room.by_ref().take(need).collect();
        targets.iter().for_each(|&ppn| used[ppn as usize / pages] = true);
        let holes: Vec<u32> = room.collect();
        let emptied = self.retained().filter(|&one| held[one as usize] > 0 && !used[one as usize]);
        let rest = left.iter().copied().chain(emptied).flat_map(places).filter(is_free);
        let scratch_places: Vec<u32> = rest.chain(holes).take(scratch).collect();
        if scratch_places.len() < scratch {
            return Err(TooFull);
        }
        let mut moving: Vec<(u32, u32)> = (0..)
            .zip(self.map.iter().copied())
            .filter(|&(lpn, ppn)| {
                ppn != NOWHERE && (self.keeps)(lpn) && !used[ppn as usize / pages]
            })
            .collect();
        moving.sort_unstable_by_key(|&(_, ppn)| ppn);
        Ok(Packing { moving, targets, scratch: scratch_places, used })
    }
}
