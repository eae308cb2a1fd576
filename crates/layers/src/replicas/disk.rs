//! Format on the device: two superblocks beside the pages. `docs/formats/replicas.md` draws them.

use bytes::{Buf, BufMut};
use twox_hash::XxHash3_64;

use super::NAME;
use super::geometry::Geometry;
use super::settings::ReplicaSettings;
use crate::{LayerError, Limits, Making, Opened, Store};

const MAGIC: [u8; 8] = *b"FWREPLIC";
const VERSION: u16 = 1;
/// Bytes that the checksum covers; it comes behind them.
const COVERED: usize = 88;

/// Superblock of the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    pub geometry: Geometry,
    /// Identity, drawn when the volume was made.
    pub identity: u64,
}

impl Superblock {
    /// Writes the superblock into a sector.
    pub fn to_sector(self) -> Vec<u8> {
        let Self { geometry, identity } = self;
        let mut sector = Vec::with_capacity(geometry.sector_bytes as usize);
        sector.put_slice(&MAGIC);
        sector.put_u16_le(VERSION);
        sector.put_u16_le(0);
        sector.put_u32_le(geometry.sector_bytes);
        sector.put_u32_le(geometry.page_bytes);
        sector.put_u32_le(geometry.partitions);
        sector.put_u64_le(geometry.device_bytes);
        sector.put_u64_le(geometry.head_bytes);
        sector.put_u64_le(geometry.partition_bytes);
        sector.put_u64_le(geometry.home_bytes);
        sector.put_u64_le(identity);
        sector.resize(COVERED, 0);
        let checksum = XxHash3_64::oneshot(&sector);
        sector.put_u64_le(checksum);
        sector.resize(geometry.sector_bytes as usize, 0);
        sector
    }

    /// Reads the superblock from a sector.
    ///
    /// # Errors
    /// The reason why it is no superblock of a volume on this device.
    fn from_sector(sector: &[u8], limits: Limits) -> Result<Self, String> {
        let (covered, mut after) = sector.split_at(COVERED);
        let mut from = covered;
        let mut magic = [0; 8];
        from.copy_to_slice(&mut magic);
        if magic != MAGIC {
            return Err("there is other data, or none".to_owned());
        }
        let version = from.get_u16_le();
        if version != VERSION {
            return Err(format!("its format is of version {version}, and {VERSION} is known"));
        }
        if after.get_u64_le() != XxHash3_64::oneshot(covered) {
            return Err("its checksum is wrong".to_owned());
        }
        from.advance(2);
        let (sector_bytes, page_bytes, partitions) =
            (from.get_u32_le(), from.get_u32_le(), from.get_u32_le());
        let [device_bytes, head_bytes, partition_bytes, home_bytes] =
            [(); 4].map(|()| from.get_u64_le());
        if (device_bytes, sector_bytes) != (limits.capacity_bytes, limits.sector_bytes) {
            return Err(format!(
                "it was written for a device of {device_bytes} bytes in sectors of {sector_bytes}, \
                 and this one has {} in sectors of {}",
                limits.capacity_bytes, limits.sector_bytes
            ));
        }
        let geometry = Geometry {
            sector_bytes,
            page_bytes,
            partitions,
            head_bytes,
            partition_bytes,
            home_bytes,
            device_bytes,
        };
        Ok(Self { geometry, identity: from.get_u64_le() })
    }
}

/// Writes the superblocks of an empty volume. Pages hold what lies at their homes.
///
/// # Errors
/// [`LayerError`].
pub fn format(making: &Making<'_>, store: &mut Store<'_>) -> Result<(), LayerError> {
    let settings = ReplicaSettings::read(making.args)?;
    let geometry = settings.geometry(store.limits())?;
    // The identity depends on the old content, too: no two volumes on a device have the same.
    let mut previous = vec![0; geometry.sector_bytes as usize];
    // A sector that cannot be read will be overwritten.
    let _ = store.read(0, &mut previous);
    let identity = XxHash3_64::oneshot_with_seed(making.seed, &previous);
    write(&Superblock { geometry, identity }, store)
}

fn write(superblock: &Superblock, store: &mut Store<'_>) -> Result<(), LayerError> {
    let sector = superblock.to_sector();
    store.write(superblock.geometry.second_superblock(), &sector)?;
    store.write(0, &sector)?;
    Ok(store.flush()?)
}

/// Opens the volume, in whatever state it was left: every page has the content of its home.
///
/// # Errors
/// [`LayerError`].
pub fn open(making: &Making<'_>, store: &mut Store<'_>) -> Opened {
    let settings = ReplicaSettings::read(making.args)?;
    let limits = store.limits();
    let expected = settings.geometry(limits)?;
    // A copy that cannot be read counts as damaged: either copy is enough.
    let [(first, first_read), (second, second_read)] =
        [0, expected.second_superblock()].map(|offset| {
            let mut sector = vec![0; limits.sector_bytes as usize];
            let read = store.read(offset, &mut sector);
            (sector, read)
        });
    let superblock =
        match (Superblock::from_sector(&first, limits), Superblock::from_sector(&second, limits)) {
            (Ok(one), _) | (Err(_), Ok(one)) => one,
            (Err(reason), Err(_)) => {
                first_read.and(second_read)?;
                return Err(LayerError::NotFormatted { layer: NAME, offset: 0, reason });
            }
        };
    if superblock.geometry != expected {
        return Err(LayerError::Refused {
            layer: NAME,
            reason: difference(&superblock.geometry, &expected),
        });
    }
    let sector = superblock.to_sector();
    if first != sector || second != sector {
        write(&superblock, store)?;
    }
    let layer = super::layer::Replicas::new(settings, superblock.geometry, limits, making.seed);
    Ok(Box::new(layer))
}

fn difference(there: &Geometry, asked: &Geometry) -> String {
    let said = |geometry: &Geometry| {
        let Geometry { partitions, page_bytes, partition_bytes, home_bytes, .. } = *geometry;
        format!(
            "partitions={partitions}, page={page_bytes} and {} bytes of replicas in each of \
             {partition_bytes}",
            partition_bytes.saturating_sub(home_bytes)
        )
    };
    format!("it was formatted with {}, and is opened with {}", said(there), said(asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { capacity_bytes: 1 << 20, sector_bytes: 512, most_bytes: 1 << 16 };

    #[test]
    fn a_superblock_is_read_as_it_was_written_and_not_if_a_bit_differs() {
        let geometry = Geometry::new(LIMITS, 4, 4096, 0.1).unwrap();
        let superblock = Superblock { geometry, identity: 77 };
        let sector = superblock.to_sector();
        assert_eq!(sector.len(), 512);
        assert_eq!(Superblock::from_sector(&sector, LIMITS), Ok(superblock));
        for bit in 0..8 * (COVERED + 8) {
            let mut other = sector.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::from_sector(&other, LIMITS).is_err(), "bit {bit}");
        }
        let larger = Limits { capacity_bytes: 2 << 20, ..LIMITS };
        assert!(Superblock::from_sector(&sector, larger).unwrap_err().contains("1048576"));
    }
}
