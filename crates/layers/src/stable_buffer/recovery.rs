//! Making an empty buffer, and opening an existing one: the translation table is rebuilt from the
//! slots (STABLEBUFFER 2.2).

use twox_hash::XxHash3_64;

use super::NAME;
use super::disk::{Geometry, HeaderPlace, NoSuperblock, Superblock};
use super::layer::StableBuffer;
use super::settings::BufferSettings;
use super::slot::{Content, Header, Readable};
use crate::{Failure, LayerError, Making, Opened, Store};

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
    // The identity depends on the old content, too: no two volumes on a device have the same.
    let mut previous = vec![0; limits.sector_bytes as usize];
    // A sector that cannot be read will be overwritten.
    let _ = store.read(last_sector(store), &mut previous);
    let identity = XxHash3_64::oneshot_with_seed(making.seed, &previous);
    let zeros = vec![0; AT_A_TIME as usize];
    // A staging device may be much larger than the part of it that is used.
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
    write_superblocks(&Superblock { identity, geometry, void_below: 0, is_closed: false }, store)
}

fn write_superblocks(superblock: &Superblock, store: &mut Store<'_>) -> Result<(), LayerError> {
    let sector = superblock.to_sector();
    store.write(superblock.geometry.area_offset, &sector)?;
    store.write(last_sector(store), &sector)?;
    Ok(store.flush()?)
}

/// Writes both superblocks again, of which one is right. Where the other was damaged and cannot be
/// written, as a layer below may refuse to write part of a bad page, the one has to suffice; then
/// it gives true if the last one is lost. One that is sound and older must not stay.
fn mend_superblocks(
    superblock: &Superblock,
    are_sound: [bool; 2],
    store: &mut Store<'_>,
) -> Result<Option<bool>, LayerError> {
    let sector = superblock.to_sector();
    let places = [superblock.geometry.area_offset, last_sector(store)];
    let mut lost = None;
    for ((at, is_sound), is_last) in places.into_iter().zip(are_sound).zip([false, true]) {
        match store.write(at, &sector) {
            Err(Failure::Io { .. }) if !is_sound => lost = Some(is_last),
            written => written?,
        }
    }
    store.flush()?;
    Ok(lost)
}

/// Opens the buffer that is below, in whatever state it was left.
///
/// # Errors
/// [`LayerError`].
pub fn open(making: &Making<'_>, store: &mut Store<'_>) -> Opened {
    let limits = store.limits();
    let mut settings = BufferSettings::new(making, limits)?;
    // Writes of a process that was killed may still be volatile: what is found has to stay.
    store.flush()?;
    let Superblocks { superblock, are_sound, are_as_they_should_be } =
        read_superblocks(&settings, store)?;
    settings.slots = superblock.geometry.slots;
    let found = needed_slots(&superblock, store)?;
    let lost = match are_as_they_should_be {
        true => None,
        false => mend_superblocks(&superblock, are_sound, store)?,
    };
    let mut buffer = StableBuffer::new(settings, superblock, limits);
    buffer.notes.lost = lost;
    buffer.restore(&found);
    Ok(Box::new(buffer))
}

/// Content of both superblocks.
pub(super) struct Superblocks {
    pub superblock: Superblock,
    /// True, for the first and the last one, if it is a superblock.
    are_sound: [bool; 2],
    /// True if both are right.
    are_as_they_should_be: bool,
}

/// Reads the superblock, and checks both of its sectors. The one with the newer note counts. One
/// that cannot be read counts as damaged: either is enough.
pub(super) fn read_superblocks(
    settings: &BufferSettings,
    store: &mut Store<'_>,
) -> Result<Superblocks, LayerError> {
    let limits = store.limits();
    let offset = last_sector(store);
    let mut last = vec![0; limits.sector_bytes as usize];
    let last_read = store.read(offset, &mut last);
    let at_end = Superblock::from_sector(&last, limits, settings.staging);
    // The one at the end tells the place of the other; if it is damaged the parameters do, too.
    let begin = match &at_end {
        Ok(superblock) => superblock.geometry,
        Err(_) => settings.geometry(limits)?,
    };
    let mut first = vec![0; limits.sector_bytes as usize];
    let first_read = store.read(begin.area_offset, &mut first);
    let at_begin = Superblock::from_sector(&first, limits, settings.staging);
    let are_sound = [at_begin.is_ok(), at_end.is_ok()];
    let superblock = match (at_end, at_begin) {
        (Ok(one), Ok(other)) if one.identity == other.identity => {
            // A volume in use was closed before.
            let age = |one: &Superblock| (one.void_below, !one.is_closed);
            if age(&other) > age(&one) { other } else { one }
        }
        (Ok(one), _) | (Err(_), Ok(one)) => one,
        (Err(NoSuperblock::Older(version)), Err(_))
        | (Err(_), Err(NoSuperblock::Older(version))) => {
            return Err(LayerError::older(NAME, version));
        }
        (Err(NoSuperblock::Other(reason)), Err(_)) => {
            last_read.and(first_read)?;
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
        return Ok(Superblocks { superblock, are_sound, are_as_they_should_be });
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

/// Content of a slot that was found.
pub(super) struct Found {
    header: Header,
    /// The page's checksum; none if the page is bad.
    checksum: Option<u64>,
}

impl Found {
    /// Returns true if its page cannot be flushed.
    pub(super) const fn is_bad(&self) -> bool {
        self.checksum.is_none()
    }
}

/// Reads all that may be needed of the slots, by ascending sequence number. If no slot is needed,
/// none is read, and damage in them does no harm.
pub(super) fn needed_slots(
    superblock: &Superblock,
    store: &mut Store<'_>,
) -> Result<Vec<Found>, LayerError> {
    if superblock.is_closed {
        return Ok(Vec::new());
    }
    let mut scan = Scan::new(superblock);
    let geometry = superblock.geometry;
    let size = geometry.slot_bytes();
    let at_a_time = (AT_A_TIME / size).max(1).min(u64::from(geometry.slots)) as u32;
    let mut bytes = vec![0; (u64::from(at_a_time) * size) as usize];
    for first in (0..geometry.slots).step_by(at_a_time as usize) {
        let slots = at_a_time.min(geometry.slots - first);
        let bytes = &mut bytes[..(u64::from(slots) * size) as usize];
        let are_read = store.read(geometry.slot_offset(first), bytes).is_ok();
        for (slot, bytes) in (first..).zip(bytes.chunks_mut(size as usize)) {
            let readable =
                if are_read { Readable::ALL } else { read_slot(&geometry, slot, store, bytes) };
            scan.take(slot, bytes, readable)?;
        }
    }
    scan.end(store)
}

/// Reads a slot, and if that fails each sector of it.
fn read_slot(geometry: &Geometry, slot: u32, store: &mut Store<'_>, bytes: &mut [u8]) -> Readable {
    let offset = geometry.slot_offset(slot);
    if store.read(offset, bytes).is_ok() {
        return Readable::ALL;
    }
    let size = geometry.sector_bytes as usize;
    let sectors = (offset..).step_by(size).zip(bytes.chunks_mut(size));
    let are_read: Vec<bool> = sectors.map(|(at, sector)| store.read(at, sector).is_ok()).collect();
    let all = !are_read.contains(&false);
    Readable { first: are_read[0], last: are_read[are_read.len() - 1], all }
}

/// State of a pass over the slots.
struct Scan<'a> {
    superblock: &'a Superblock,
    found: Vec<Found>,
    /// Sectors with headers of torn slots. They are wiped, durably: a later write of the same bytes
    /// that is torn, too, must not complete a slot that counts as lost now.
    torn: Vec<u64>,
    /// Sectors with damaged headers of whole slots, and the right bytes.
    mended: Vec<(u64, Vec<u8>)>,
}

impl<'a> Scan<'a> {
    const fn new(superblock: &'a Superblock) -> Self {
        Self { superblock, found: Vec::new(), torn: Vec::new(), mended: Vec::new() }
    }

    fn take(&mut self, slot: u32, bytes: &mut [u8], readable: Readable) -> Result<(), LayerError> {
        let Superblock { identity, geometry, void_below, .. } = *self.superblock;
        let sector = geometry.sector_bytes as usize;
        let places = geometry.header_sectors(slot);
        let (header, checksum) = match geometry.slot_content(identity, slot, bytes, readable) {
            Content::Nothing => return Ok(()),
            Content::Unknown => return Err(unknown(&geometry, slot)),
            Content::Torn => {
                self.torn.extend(places);
                return Ok(());
            }
            Content::Bad(header) => (header, None),
            Content::Whole { header, checksum, is_damaged } => {
                if is_damaged {
                    geometry.mend(&header, checksum, bytes);
                    let sectors = [&bytes[..sector], &bytes[bytes.len() - sector..]];
                    self.mended.extend(places.into_iter().zip(sectors.map(<[u8]>::to_vec)));
                }
                (header, Some(checksum))
            }
        };
        header.check(&geometry)?;
        if header.sequence >= void_below {
            self.found.push(Found { header, checksum });
        }
        Ok(())
    }

    fn end(mut self, store: &mut Store<'_>) -> Result<Vec<Found>, LayerError> {
        self.found.sort_unstable_by_key(|one| one.header.sequence);
        let is_twice = |pair: &&[Found]| pair[0].header.sequence == pair[1].header.sequence;
        if let Some([one, other]) = self.found.windows(2).find(is_twice) {
            let (one, other) = (&one.header, &other.header);
            let reason = format!(
                "slots {} and {} have one sequence number, {}",
                one.slot, other.slot, one.sequence
            );
            let offset = self.superblock.geometry.slot_offset(other.slot);
            return Err(LayerError::Corrupt { layer: NAME, offset, reason });
        }
        let zeros = vec![0; self.superblock.geometry.sector_bytes as usize];
        for &at in &self.torn {
            store.write(at, &zeros)?;
        }
        for (at, bytes) in &self.mended {
            // The other header is enough.
            let _ = store.write(*at, bytes);
        }
        if !self.torn.is_empty() || !self.mended.is_empty() {
            store.flush()?;
        }
        Ok(self.found)
    }
}

/// Gives the error of a slot without a sound header. A power cut tears no sector, so that it leaves
/// a header; without one, the slot may have held any page, and no older version of a page could be
/// distinguished from the newest.
fn unknown(geometry: &Geometry, slot: u32) -> LayerError {
    LayerError::Corrupt {
        layer: NAME,
        offset: geometry.slot_offset(slot),
        reason: format!(
            "both headers of slot {slot}, in its first and its last sector, cannot be read or are \
             not what was written there: any page may have been in it, and the volume was not \
             closed"
        ),
    }
}

impl Superblock {
    /// Gives the header of a page in a slot.
    pub fn header(&self, slot: u32, page: u64, sequence: u64) -> Header {
        Header { identity: self.identity, slot, page, sequence, is_mark: false }
    }
}

impl StableBuffer {
    /// Takes over the slots that were found, in the order in which they were written. The newest
    /// version of a page is in the buffer again; it may have been flushed before, and flushing it
    /// again changes nothing.
    fn restore(&mut self, found: &[Found]) {
        self.sequence = self.superblock.void_below.max(1);
        for Found { header, checksum } in found {
            let Header { slot, page: number, sequence, .. } = *header;
            let page = self.table.find_or_add(number);
            self.table.take_this(slot);
            self.table.sent(slot, page);
            self.checks.replaced(self.table.page(page).slot);
            self.table.written(slot);
            self.table.durable(slot);
            match checksum {
                Some(checksum) => self.checks.set(slot, *checksum, sequence),
                None => self.checks.is_bad_now(slot),
            }
            self.sequence = sequence + 1;
        }
        let numbers = found.iter().map(|found| found.header.page);
        let pages: Vec<u32> = numbers.filter_map(|number| self.table.find(number)).collect();
        for page in pages {
            let entry = self.table.page_mut(page);
            if !entry.is_candidate && !self.checks.is_bad(entry.slot) {
                entry.is_candidate = true;
                let number = entry.number;
                self.candidates += 1;
                self.recognition.insert(number, &self.settings.tuning);
            }
        }
    }
}
