//! Making an empty map, and opening an existing one.

use super::NAME;
use super::bits::Bits;
use super::format::{Bad, Geometry};
use super::layer::{Flaw, Holes};
use super::settings::HoleSettings;
use crate::{Layer, LayerError, Making, Opened, Store};

/// Bytes that are read or written at a time.
pub(super) const AT_A_TIME: u64 = 1 << 20;
/// Reads of a sector before it counts as bad.
const TRIES: u32 = 3;

/// Writes an empty map at the end of what is below.
///
/// # Errors
/// [`LayerError`].
pub fn format(making: &Making<'_>, store: &mut Store<'_>) -> Result<(), LayerError> {
    let limits = store.limits();
    let geometry = HoleSettings::new(making, limits)?.geometry;
    let zeros = vec![0; AT_A_TIME as usize];
    let mut at = geometry.homes_bytes();
    while at < limits.capacity_bytes {
        let length = AT_A_TIME.min(limits.capacity_bytes - at);
        store.write(at, &zeros[..length as usize])?;
        at += length;
    }
    // The first block, which is never zeros, marks a copy as a map.
    for copy in [0, 1] {
        let block = geometry.encoded_block(0, 1, std::iter::empty());
        store.write(geometry.block_offset(copy, 0), &block)?;
    }
    Ok(store.flush()?)
}

/// Opens the map that is below.
///
/// # Errors
/// [`LayerError`].
pub fn open(making: &Making<'_>, store: &mut Store<'_>) -> Opened {
    open_with(making, store, Flaw::None)
}

/// Opens a layer of a stack of its own that leaves out an order, for the campaign of power cuts.
///
/// # Errors
/// [`LayerError`].
pub fn open_flawed(making: &Making<'_>, store: &mut Store<'_>, flaw: Flaw) -> Opened {
    open_with(making, store, flaw)
}

fn open_with(making: &Making<'_>, store: &mut Store<'_>, flaw: Flaw) -> Opened {
    let limits = store.limits();
    let settings = HoleSettings::new(making, limits)?;
    // Writes of a process that was killed may still be volatile: what is found has to stay.
    store.flush()?;
    let found = Found::read(&settings.geometry, store);
    if let Some((block, bad)) = found.lost.first() {
        return Err(bad.error(settings.geometry.block_offset(0, *block)));
    }
    found.mend(&settings.geometry, store)?;
    let mut layer = Holes::new(settings, limits, found.bits, flaw);
    layer.counts.bad_blocks = found.bad;
    Ok(Box::new(layer))
}

/// Opens what is left: pages of lost blocks are given as they lie below.
///
/// # Errors
/// [`LayerError`].
pub fn salvage(making: &Making<'_>, store: &mut Store<'_>, notes: &mut Vec<String>) -> Opened {
    let limits = store.limits();
    let settings = HoleSettings::new(making, limits)?;
    let found = Found::read(&settings.geometry, store);
    let geometry = settings.geometry;
    for (block, _) in &found.lost {
        let pages = geometry.pages_in(*block);
        let page = u64::from(geometry.page_bytes);
        notes.push(format!(
            "both copies of block {block} of the map of `{NAME}` are bad: what was trimmed between \
             byte {} and byte {} reads as what lies there",
            pages.start * page,
            pages.end * page
        ));
    }
    Ok(Box::new(Holes::new(settings, limits, found.bits, Flaw::None)) as Box<dyn Layer>)
}

/// Content of the map's blocks on the device.
pub(super) struct Found {
    pub bits: Bits,
    /// Blocks whose first copy is older than the second, or damaged, ascending; the same for the
    /// second copy.
    outdated: [Vec<u64>; 2],
    /// Number of damaged copies.
    pub bad: u64,
    /// Blocks without a good copy, each with the reason.
    pub lost: Vec<(u64, Bad)>,
}

impl Found {
    pub fn read(geometry: &Geometry, store: &mut Store<'_>) -> Self {
        let (mut outdated, mut bad, mut lost) = ([Vec::new(), Vec::new()], 0, Vec::new());
        let mut bits = Bits::new(*geometry);
        let at_a_time = AT_A_TIME / u64::from(geometry.sector_bytes);
        for first in (0..geometry.blocks()).step_by(at_a_time as usize) {
            let count = at_a_time.min(geometry.blocks() - first);
            let copies = [0, 1].map(|copy| read_blocks(geometry, copy, (first, count), store));
            for place in 0..count {
                let block = first + place;
                let said = copies.each_ref().map(|copy| match &copy[place as usize] {
                    None => Err(Bad::Other("it cannot be read".to_owned())),
                    Some(bytes) => geometry.decoded_block(block, bytes),
                });
                bad += said.iter().filter(|one| one.is_err()).count() as u64;
                let newest = match &said {
                    [Ok(one), Ok(two)] => *if one.0 >= two.0 { one } else { two },
                    [Ok(one), Err(_)] | [Err(_), Ok(one)] => *one,
                    [Err(reason), Err(_)] => {
                        lost.push((block, reason.clone()));
                        continue;
                    }
                };
                for (copy, outdated) in said.iter().zip(&mut outdated) {
                    if !copy.as_ref().is_ok_and(|one| one.0 == newest.0) {
                        outdated.push(block);
                    }
                }
                bits.load(block, newest.0, newest.1);
            }
        }
        Self { bits, outdated, bad, lost }
    }

    /// Makes both copies equal before anything else is done: of two that differ the newer one may
    /// be damaged one day. A copy that cannot be written stays as it is, as one is enough.
    ///
    /// # Errors
    /// [`LayerError`] if the writes cannot be made durable.
    fn mend(&self, geometry: &Geometry, store: &mut Store<'_>) -> Result<(), LayerError> {
        let of_unit = geometry.blocks_of_unit();
        for (copy, blocks) in (0..).zip(&self.outdated) {
            for of_one in blocks.chunk_by(|one, next| one / of_unit == next / of_unit) {
                let first = of_one[0] / of_unit * of_unit;
                let _ =
                    store.write(geometry.block_offset(copy, first), &self.unit(geometry, first));
            }
        }
        if self.outdated.iter().any(|blocks| !blocks.is_empty()) {
            store.flush()?;
        }
        Ok(())
    }

    /// Gives the blocks of a unit, as they were found.
    fn unit(&self, geometry: &Geometry, first: u64) -> Vec<u8> {
        let blocks = first..(first + geometry.blocks_of_unit()).min(geometry.blocks());
        let mut bytes: Vec<u8> = blocks.flat_map(|block| self.bits.image(block)).collect();
        bytes.resize(geometry.unit_bytes as usize, 0);
        bytes
    }
}

/// Reads the blocks of a copy, each if it can be read.
fn read_blocks(
    geometry: &Geometry,
    copy: u64,
    (first, count): (u64, u64),
    store: &mut Store<'_>,
) -> Vec<Option<Vec<u8>>> {
    let size = geometry.sector_bytes as usize;
    let mut bytes = vec![0; count as usize * size];
    if store.read(geometry.block_offset(copy, first), &mut bytes).is_ok() {
        return bytes.chunks(size).map(|block| Some(block.to_vec())).collect();
    }
    let mut one = |block| {
        let mut bytes = vec![0; size];
        let at = geometry.block_offset(copy, block);
        (0..TRIES).any(|_| store.read(at, &mut bytes).is_ok()).then_some(bytes)
    };
    (first..first + count).map(&mut one).collect()
}
