//! Making an empty table, and opening an existing one.

use super::NAME;
use super::commands::TRIES;
use super::disk::{Geometry, NoSuperblock, Superblock, last_sector};
use super::intent::{Mark, VOID};
use super::layer::Checksums;
use super::settings::ChecksumSettings;
use crate::hash::{UNKNOWN, checksum};
use crate::{LayerError, Limits, Making, Opened, Store};

/// Bytes that are read or written at a time.
pub(super) const AT_A_TIME: u64 = 1 << 20;
/// Stand-in for the checksum of a page that was lost with its block: no page has it, so that each
/// page differs and gets its own.
const LOST: u32 = 1;

/// Writes an empty table at the end of what is below.
///
/// # Errors
/// [`LayerError`].
pub fn format(making: &Making<'_>, store: &mut Store<'_>) -> Result<(), LayerError> {
    let limits = store.limits();
    let geometry = ChecksumSettings::new(making, limits)?.geometry(limits)?;
    // The identity depends on the old content, too: no two tables on a device have the same.
    let mut previous = vec![0; limits.sector_bytes as usize];
    // A sector that cannot be read will be overwritten.
    let _ = store.read(geometry.last_sector(), &mut previous);
    let superblock = Superblock { identity: checksum(making.seed, &previous), geometry };
    let zeros = vec![0; AT_A_TIME as usize];
    let mut at = geometry.area_offset();
    while at < limits.capacity_bytes {
        let length = AT_A_TIME.min(limits.capacity_bytes - at);
        store.write(at, &zeros[..length as usize])?;
        at += length;
    }
    for sector in 0..geometry.mark_sectors() as u32 {
        store.write(geometry.marks_offset(sector), &superblock.to_marks(sector, &[]))?;
    }
    store.flush()?;
    write_superblocks(&superblock, store)
}

fn write_superblocks(superblock: &Superblock, store: &mut Store<'_>) -> Result<(), LayerError> {
    let sector = superblock.to_sector();
    store.write(superblock.geometry.area_offset(), &sector)?;
    store.write(superblock.geometry.last_sector(), &sector)?;
    Ok(store.flush()?)
}

/// Opens the table that is below, in whatever state it was left.
///
/// # Errors
/// [`LayerError`].
pub fn open(making: &Making<'_>, store: &mut Store<'_>) -> Opened {
    let limits = store.limits();
    let settings = ChecksumSettings::new(making, limits)?;
    // Writes of a process that was killed may still be volatile: what is found has to stay.
    store.flush()?;
    let (superblock, are_as_they_should_be) = read_superblocks(&settings, limits, store)?;
    if !are_as_they_should_be {
        write_superblocks(&superblock, store)?;
    }
    let found = Found::read(&superblock, store)?;
    found.write_marks(&superblock, store)?;
    let bad = found.bad_structures;
    Ok(Box::new(Checksums::new(
        &settings,
        superblock,
        limits,
        (found.sums, &found.marked, &found.voids, bad),
    )))
}

/// Reads the superblock; gives true with it if both of its sectors hold it.
pub(super) fn read_superblocks(
    settings: &ChecksumSettings,
    limits: Limits,
    store: &mut Store<'_>,
) -> Result<(Superblock, bool), LayerError> {
    let offset = last_sector(limits.capacity_bytes, limits.sector_bytes);
    // A copy that cannot be read counts as damaged: either copy is enough.
    let mut last = vec![0; limits.sector_bytes as usize];
    let last_read = store.read(offset, &mut last);
    let at_end = Superblock::from_sector(&last, limits);
    // The one at the end tells the place of the other; if it is damaged the parameters do, too.
    let begin = match &at_end {
        Ok(superblock) => superblock.geometry,
        Err(_) => settings.geometry(limits)?,
    };
    let mut first = vec![0; limits.sector_bytes as usize];
    let first_read = store.read(begin.area_offset(), &mut first);
    let superblock = match (at_end, Superblock::from_sector(&first, limits)) {
        (Ok(one), _) | (Err(_), Ok(one)) => one,
        (Err(NoSuperblock::Older(version)), _) => return Err(LayerError::older(NAME, version)),
        (Err(NoSuperblock::Other(reason)), Err(_)) => {
            last_read.and(first_read)?;
            return Err(LayerError::NotFormatted { layer: NAME, offset, reason });
        }
    };
    let sector = superblock.to_sector();
    let are_as_they_should_be = last == sector && first == sector;
    let Geometry { page_bytes, block_bytes, .. } = superblock.geometry;
    if page_bytes == settings.page_bytes && block_bytes == settings.block_bytes {
        return Ok((superblock, are_as_they_should_be));
    }
    let reason = format!(
        "it was formatted with page={page_bytes} and block={block_bytes}, and is opened with \
         page={} and block={}",
        settings.page_bytes, settings.block_bytes
    );
    Err(LayerError::Refused { layer: NAME, reason })
}

/// Content of the table.
pub(super) struct Found {
    pub sums: Vec<u32>,
    /// Regions that are marked, ascending.
    pub marked: Vec<Mark>,
    /// Regions without a checksum, whatever their blocks say.
    pub voids: Vec<u32>,
    /// Sectors of marks that have to be written.
    changed: Vec<u32>,
    /// Blocks and sectors of marks that were damaged.
    pub bad_structures: u64,
}

impl Found {
    /// Reads the marks and all blocks. A region with a damaged mark or block counts as marked: its
    /// pages are looked at.
    pub fn read(superblock: &Superblock, store: &mut Store<'_>) -> Result<Self, LayerError> {
        let geometry = superblock.geometry;
        let mut found = Self {
            sums: vec![UNKNOWN; geometry.pages as usize],
            marked: Vec::new(),
            voids: Vec::new(),
            changed: Vec::new(),
            bad_structures: 0,
        };
        // Two bits of each region.
        let mut bits_of = vec![0_u8; geometry.regions() as usize];
        let mut bytes = vec![0; geometry.sector_bytes as usize];
        let of_sector = geometry.marks_of_sector() as usize;
        for (sector, marks) in (0_u32..).zip(bits_of.chunks_mut(of_sector)) {
            let is_read = store.read(geometry.marks_offset(sector), &mut bytes).is_ok();
            if let Some(bits) = superblock.marks(sector, &bytes).filter(|_| is_read) {
                for (place, mark) in marks.iter_mut().enumerate() {
                    *mark = bits[place / 4] >> (place % 4 * 2) & 3;
                }
            } else {
                found.bad_structures += 1;
                found.changed.push(sector);
                // The mark is lost: the worst that it may have said is that there were trims.
                marks.fill(Mark::bits(true));
            }
        }
        let at_a_time = (AT_A_TIME.min(u64::from(store.limits().most_bytes))
            / u64::from(geometry.block_bytes)) as usize;
        let size = geometry.block_bytes as usize;
        let mut bytes = vec![0; at_a_time.min(bits_of.len()) * size];
        for (chunk, marks) in bits_of.chunks_mut(at_a_time).enumerate() {
            let first = (chunk * at_a_time) as u32;
            let bytes = &mut bytes[..marks.len() * size];
            let are_read = store.read(geometry.block_offset(first), bytes).is_ok();
            for ((region, mark), bytes) in (first..).zip(marks).zip(bytes.chunks_mut(size)) {
                let mut reads = || store.read(geometry.block_offset(region), bytes).is_ok();
                let is_read = are_read || (0..TRIES).any(|_| reads());
                found.take_block(superblock, (region, mark), is_read.then_some(&*bytes));
            }
        }
        let mark = |(region, bits): (u32, u8)| {
            (bits & 1 == 1).then_some(Mark { region, has_trims: bits & 2 == 2 })
        };
        let is_void = |&(_, bits): &(u32, u8)| bits == VOID;
        found.voids =
            (0..).zip(bits_of.iter().copied()).filter(is_void).map(|(region, _)| region).collect();
        found.marked = (0..).zip(bits_of).filter_map(mark).collect();
        Ok(found)
    }

    fn take_block(
        &mut self,
        superblock: &Superblock,
        (region, mark): (u32, &mut u8),
        bytes: Option<&[u8]>,
    ) {
        if *mark == VOID {
            return;
        }
        let geometry = superblock.geometry;
        let pages = geometry.pages_of(region);
        let sums = &mut self.sums[pages.start as usize..pages.end as usize];
        if bytes.is_some_and(|bytes| superblock.take_block(region, bytes, sums)) {
            // In a marked region, pages without a checksum may have been written, too.
            if *mark > 0 {
                sums.iter_mut().filter(|sum| **sum == UNKNOWN).for_each(|sum| *sum = LOST);
            }
            return;
        }
        sums.fill(LOST);
        // A power cut may tear the block of a region that is marked.
        if *mark == 0 {
            *mark = Mark::bits(false);
            self.bad_structures += 1;
            self.changed.push((u64::from(region) / geometry.marks_of_sector()) as u32);
        }
    }

    /// Marks what was not marked and has to be.
    fn write_marks(
        &self,
        superblock: &Superblock,
        store: &mut Store<'_>,
    ) -> Result<(), LayerError> {
        let geometry = superblock.geometry;
        let mut changed = self.changed.clone();
        changed.dedup();
        for &sector in &changed {
            let bits = self.bits_of(&geometry, sector);
            store.write(geometry.marks_offset(sector), &superblock.to_marks(sector, &bits))?;
        }
        if changed.is_empty() { Ok(()) } else { Ok(store.flush()?) }
    }

    /// The bits of a sector of marks.
    pub fn bits_of(&self, geometry: &Geometry, sector: u32) -> Vec<u8> {
        let of_sector = geometry.marks_of_sector();
        let mut bits = vec![0; of_sector as usize / 4];
        let first = u64::from(sector) * of_sector;
        let marks = self.marked.iter().map(|mark| (mark.region, Mark::bits(mark.has_trims)));
        for (region, value) in marks.chain(self.voids.iter().map(|&region| (region, VOID))) {
            let place = u64::from(region).checked_sub(first);
            if let Some(place) = place.filter(|place| *place < of_sector) {
                bits[place as usize / 4] |= value << (place % 4 * 2);
            }
        }
        bits
    }
}
