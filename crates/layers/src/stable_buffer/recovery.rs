//! Making an empty buffer, and opening what is there: the translation table is built again from the
//! slots (STABLEBUFFER 2.2).

use twox_hash::XxHash3_64;

use super::NAME;
use super::disk::{Content, Geometry, Header, HeaderPlace, Superblock};
use super::layer::StableBuffer;
use super::settings::BufferSettings;
use crate::{LayerError, Making, Opened, Store};

/// Bytes that are read or written at a time.
const AT_A_TIME: u64 = 1 << 20;

fn last_sector(store: &Store<'_>) -> u64 {
    let limits = store.limits();
    let sector = u64::from(limits.sector_bytes);
    (limits.capacity_bytes / sector).saturating_sub(1) * sector
}

/// Writes an empty buffer at the end of what is below, or on a staging device.
///
/// # Errors
/// [`LayerError`].
pub fn format(making: &Making<'_>, store: &mut Store<'_>) -> Result<(), LayerError> {
    let limits = store.limits();
    let settings = BufferSettings::new(making, limits)?;
    let geometry = settings.geometry(limits)?;
    // What was there decides, too: no two volumes on a device have one identity.
    let mut previous = vec![0; limits.sector_bytes as usize];
    store.read(last_sector(store), &mut previous)?;
    let identity = XxHash3_64::oneshot_with_seed(making.seed, &previous);
    let zeros = vec![0; AT_A_TIME as usize];
    // A staging device may be much larger than what is used of it.
    let end = if geometry.is_aside {
        geometry.slot_offset(geometry.slots)
    } else {
        limits.capacity_bytes
    };
    let mut at = geometry.area_offset;
    while at < end {
        let length = AT_A_TIME.min(end - at);
        store.write(at, &zeros[..length as usize])?;
        at += length;
    }
    store.flush()?;
    write_superblocks(&Superblock { identity, geometry, void_below: 0 }, store)
}

fn write_superblocks(superblock: &Superblock, store: &mut Store<'_>) -> Result<(), LayerError> {
    let sector = superblock.to_sector();
    store.write(superblock.geometry.area_offset, &sector)?;
    store.write(last_sector(store), &sector)?;
    Ok(store.flush()?)
}

/// Opens the buffer that is below, whatever state it was left in.
///
/// # Errors
/// [`LayerError`].
pub fn open(making: &Making<'_>, store: &mut Store<'_>) -> Opened {
    let limits = store.limits();
    let mut settings = BufferSettings::new(making, limits)?;
    // What a process that was killed had written may still be volatile: what is found has to stay.
    store.flush()?;
    let (superblock, are_as_they_should_be) = read_superblocks(&settings, store)?;
    settings.slots = superblock.geometry.slots;
    let found = scan(&superblock, store)?;
    if !are_as_they_should_be {
        write_superblocks(&superblock, store)?;
    }
    let mut buffer = StableBuffer::new(settings, superblock, limits);
    buffer.restore(&found);
    Ok(Box::new(buffer))
}

/// What the superblock says, and whether both of its sectors say so, in this version. The one whose
/// note is the newer counts.
pub(super) fn read_superblocks(
    settings: &BufferSettings,
    store: &mut Store<'_>,
) -> Result<(Superblock, bool), LayerError> {
    let limits = store.limits();
    let offset = last_sector(store);
    let mut last = vec![0; limits.sector_bytes as usize];
    store.read(offset, &mut last)?;
    let at_end = Superblock::from_sector(&last, limits, settings.staging);
    // The one at the end says where the other is, but if it was damaged the parameters do, too.
    let begin = match &at_end {
        Ok(superblock) => superblock.geometry,
        Err(_) => settings.geometry(limits)?,
    };
    let mut first = vec![0; limits.sector_bytes as usize];
    store.read(begin.area_offset, &mut first)?;
    let superblock = match (at_end, Superblock::from_sector(&first, limits, settings.staging)) {
        (Ok(one), Ok(other)) if one.identity == other.identity => {
            if other.void_below > one.void_below { other } else { one }
        }
        (Ok(one), _) | (Err(_), Ok(one)) => one,
        (Err(reason), Err(_)) => {
            return Err(LayerError::NotFormatted { layer: NAME, offset, reason });
        }
    };
    let sector = superblock.to_sector();
    let are_as_they_should_be = last == sector && first == sector;
    let Geometry { page_bytes, slots, layout, .. } = superblock.geometry;
    let word = |layout| if layout == HeaderPlace::Beside { "beside" } else { "embedded" };
    let is_as_asked = page_bytes == settings.page_bytes
        && layout == settings.layout
        && (slots == settings.slots || !settings.is_size_given);
    if is_as_asked {
        return Ok((superblock, are_as_they_should_be));
    }
    let reason = format!(
        "it was formatted with {slots} slots of page={page_bytes} and layout={}, and is opened \
         with {} slots of page={} and layout={}",
        word(layout),
        settings.slots,
        settings.page_bytes,
        word(settings.layout)
    );
    Err(LayerError::Refused { layer: NAME, reason })
}

/// What was found in a slot.
pub(super) struct Found {
    sequence: u64,
    slot: u32,
    /// Number of the page.
    page: u64,
    /// The page's checksum.
    checksum: u64,
}

/// Whatever is whole in the slots and may be needed, by ascending sequence. The headers of what is
/// not whole are wiped, durably: what has to be taken for lost now must not be completed by parts
/// of a later write of the same bytes.
pub(super) fn scan(
    superblock: &Superblock,
    store: &mut Store<'_>,
) -> Result<Vec<Found>, LayerError> {
    let geometry = superblock.geometry;
    let at_a_time = (AT_A_TIME / geometry.slot_bytes()).max(1) as u32;
    let mut bytes =
        vec![0; (u64::from(at_a_time.min(geometry.slots)) * geometry.slot_bytes()) as usize];
    let (mut found, mut torn) = (Vec::new(), Vec::new());
    for first in (0..geometry.slots).step_by(at_a_time as usize) {
        let slots = at_a_time.min(geometry.slots - first);
        let bytes = &mut bytes[..(u64::from(slots) * geometry.slot_bytes()) as usize];
        store.read(geometry.slot_offset(first), bytes)?;
        for (slot, bytes) in (first..).zip(bytes.chunks(geometry.slot_bytes() as usize)) {
            match geometry.slot_content(superblock.identity, bytes) {
                Content::Nothing => {}
                Content::Unreadable => return Err(unreadable(&geometry, slot)),
                Content::Torn => torn.push(slot),
                Content::Whole(header, checksum) => {
                    header.check(&geometry, slot)?;
                    let Header { page, sequence, .. } = header;
                    if sequence >= superblock.void_below {
                        found.push(Found { sequence, slot, page, checksum });
                    }
                }
            }
        }
    }
    found.sort_unstable_by_key(|one| one.sequence);
    if let Some(pair) = found.windows(2).find(|pair| pair[0].sequence == pair[1].sequence) {
        let reason = format!(
            "slots {} and {} have one sequence number, {}",
            pair[0].slot, pair[1].slot, pair[0].sequence
        );
        return Err(LayerError::Corrupt {
            layer: NAME,
            offset: geometry.slot_offset(pair[1].slot),
            reason,
        });
    }
    let zeros = vec![0; geometry.sector_bytes as usize];
    for &slot in &torn {
        store.write(geometry.header_sector(slot), &zeros)?;
    }
    if !torn.is_empty() {
        store.flush()?;
    }
    Ok(found)
}

/// A power cut tears no sector, so a header is always one that was written. One that is not may
/// have been that of any page: no older version of any could be distinguished from the newest.
fn unreadable(geometry: &Geometry, slot: u32) -> LayerError {
    LayerError::Corrupt {
        layer: NAME,
        offset: geometry.header_sector(slot),
        reason: format!("the header of slot {slot} is not what was written there"),
    }
}

impl Superblock {
    /// What is written beside a page.
    pub fn header(&self, page: u64, sequence: u64) -> Header {
        Header { identity: self.identity, page, sequence }
    }
}

impl StableBuffer {
    /// Takes what was found for what was written in this order. The newest version of a page is in
    /// the buffer again; whether it was flushed before is not known, and flushing it again changes
    /// nothing.
    fn restore(&mut self, found: &[Found]) {
        self.sequence = self.superblock.void_below.max(1);
        for &Found { sequence, slot, page: number, checksum } in found {
            let page = self.table.find_or_add(number);
            self.table.take_this(slot);
            self.table.sent(slot, page);
            self.table.written(slot);
            self.table.durable(slot);
            self.checks.set(slot, checksum);
            self.sequence = sequence + 1;
        }
        let pages: Vec<u32> =
            found.iter().filter_map(|found| self.table.find(found.page)).collect();
        for page in pages {
            let entry = self.table.page_mut(page);
            if !entry.is_candidate {
                entry.is_candidate = true;
                let number = entry.number;
                self.candidates += 1;
                self.recognition.insert(number, &self.settings.tuning);
            }
        }
    }
}
