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

/// Writes an empty buffer at the end of what is below.
///
/// # Errors
/// [`LayerError`].
pub fn format(making: &Making<'_>, store: &mut Store<'_>) -> Result<(), LayerError> {
    let limits = store.limits();
    let settings = BufferSettings::new(making, limits)?;
    let geometry = Geometry::at_end(limits, settings.page_bytes, settings.slots, settings.layout)?;
    // What was there decides, too: no two volumes on a device have one identity.
    let mut previous = vec![0; limits.sector_bytes as usize];
    store.read(last_sector(store), &mut previous)?;
    let identity = XxHash3_64::oneshot_with_seed(making.seed, &previous);
    let zeros = vec![0; AT_A_TIME as usize];
    let mut at = geometry.area_offset;
    while at < limits.capacity_bytes {
        let length = AT_A_TIME.min(limits.capacity_bytes - at);
        store.write(at, &zeros[..length as usize])?;
        at += length;
    }
    store.flush()?;
    let sector = Superblock { identity, geometry }.to_sector();
    store.write(geometry.area_offset, &sector)?;
    store.write(last_sector(store), &sector)?;
    store.flush()?;
    Ok(())
}

/// Opens the buffer at the end of what is below, whatever state it was left in.
///
/// # Errors
/// [`LayerError`].
pub fn open(making: &Making<'_>, store: &mut Store<'_>) -> Opened {
    let limits = store.limits();
    let mut settings = BufferSettings::new(making, limits)?;
    // What a process that was killed had written may still be volatile: what is found has to stay.
    store.flush()?;
    let superblock = read_superblock(&settings, store)?;
    settings.slots = superblock.geometry.slots;
    let found = scan(&superblock, store)?;
    let mut buffer = StableBuffer::new(settings, superblock, limits);
    buffer.restore(&found);
    Ok(Box::new(buffer))
}

fn read_superblock(
    settings: &BufferSettings,
    store: &mut Store<'_>,
) -> Result<Superblock, LayerError> {
    let limits = store.limits();
    let offset = last_sector(store);
    let mut sector = vec![0; limits.sector_bytes as usize];
    store.read(offset, &mut sector)?;
    let superblock = match Superblock::from_sector(&sector, limits) {
        Ok(superblock) => superblock,
        // The copy at the end tells where it begins, but if it was damaged the parameters do, too.
        Err(reason) => {
            let geometry =
                Geometry::at_end(limits, settings.page_bytes, settings.slots, settings.layout)?;
            store.read(geometry.area_offset, &mut sector)?;
            Superblock::from_sector(&sector, limits).map_err(|_| LayerError::NotFormatted {
                layer: NAME,
                offset,
                reason,
            })?
        }
    };
    let Geometry { page_bytes, slots, layout, .. } = superblock.geometry;
    let word = |layout| if layout == HeaderPlace::Beside { "beside" } else { "embedded" };
    let is_as_asked = page_bytes == settings.page_bytes
        && layout == settings.layout
        && (slots == settings.slots || !settings.is_size_given);
    if is_as_asked {
        return Ok(superblock);
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

/// Whatever is whole in the slots: sequence, slot, page; by ascending sequence. The headers of what
/// is not whole are wiped, durably: what has to be taken for lost now must not be completed by
/// parts of a later write of the same bytes.
fn scan(
    superblock: &Superblock,
    store: &mut Store<'_>,
) -> Result<Vec<(u64, u32, u64)>, LayerError> {
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
                Content::Torn => torn.push(slot),
                Content::Whole(header) => {
                    header.check(&geometry, slot)?;
                    found.push((header.sequence, slot, header.page));
                }
            }
        }
    }
    found.sort_unstable();
    if let Some(pair) = found.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let reason = format!(
            "slots {} and {} have one sequence number, {}",
            pair[0].1, pair[1].1, pair[0].0
        );
        return Err(LayerError::Corrupt {
            layer: NAME,
            offset: geometry.slot_offset(pair[1].1),
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
    fn restore(&mut self, found: &[(u64, u32, u64)]) {
        for &(sequence, slot, number) in found {
            let page = self.table.find_or_add(number);
            self.table.take_this(slot);
            self.table.sent(slot, page);
            self.table.written(slot);
            self.table.durable(slot);
            self.sequence = sequence + 1;
        }
        let pages: Vec<u32> =
            found.iter().filter_map(|&(.., number)| self.table.find(number)).collect();
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
