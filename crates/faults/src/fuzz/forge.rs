//! Forged structures: a field is changed and the checksum mended, so that recovery gets past it.
//! It knows no more of the formats than where checksums are: docs/formats/stable_buffer.md,
//! log_volume.md, replicas.md and checksums.md.

use twox_hash::XxHash3_64;

use crate::Dice;

/// Bytes of a slot's header in a stable buffer, and those that its checksum covers.
const SLOT_HEADER: usize = 48;
const SLOT_COVERED: usize = 40;
/// Bytes of a slot's header that have a checksum of their own, and its place.
const SLOT_OWN: std::ops::Range<usize> = 12..16;
/// Bytes of its superblock that the checksum covers.
const BUFFER_COVERED: usize = 56;
/// Bytes of the superblock of replicas that the checksum covers.
const REPLICAS_COVERED: usize = 88;
/// Bytes of a log's superblock.
const LOG_SUPERBLOCK: usize = 64;
/// Pages of the longest structure of a log.
const MOST_PAGES: usize = 8;

/// A structure with a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Structure {
    /// The checksum behind what it covers.
    Behind { at: usize, covered: usize },
    /// The checksum in a header at `at`, which covers a page in two parts, too; the same header
    /// lies at `other`.
    Slot { at: usize, other: usize, page: [(usize, usize); 2], seed: u64 },
    /// The checksum before what it covers, with a seed: of a log, or of a table of checksums.
    Log { at: usize, length: usize, seed: u64 },
}

fn word(image: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(image[at..at + 8].try_into().expect("eight bytes"))
}

fn half(image: &[u8], at: usize) -> usize {
    u32::from_le_bytes(image[at..at + 4].try_into().expect("four bytes")) as usize
}

impl Structure {
    /// Gives the bytes that are worth changing.
    const fn fields(self) -> std::ops::Range<usize> {
        match self {
            Self::Behind { at, covered } => at..at + covered,
            Self::Slot { at, .. } => at..at + SLOT_COVERED,
            Self::Log { at, length, .. } => at + 8..at + length,
        }
    }

    /// Gives the place of the checksum, and its right value.
    fn checksum(self, image: &[u8]) -> (usize, u64) {
        match self {
            Self::Behind { at, covered } => {
                (at + covered, XxHash3_64::oneshot(&image[at..at + covered]))
            }
            Self::Slot { at, page, seed, .. } => {
                let mut covered = image[at..at + SLOT_COVERED].to_vec();
                let parts = page.map(|(from, bytes)| &image[from..from + bytes]);
                covered.extend_from_slice(&XxHash3_64::oneshot(&parts.concat()).to_le_bytes());
                (at + SLOT_COVERED, XxHash3_64::oneshot_with_seed(seed, &covered))
            }
            Self::Log { at, length, seed } => {
                (at, XxHash3_64::oneshot_with_seed(seed, &image[at + 8..at + length]))
            }
        }
    }

    fn is_sound(self, image: &[u8]) -> bool {
        let (at, sum) = self.checksum(image);
        word(image, at) == sum
    }
}

/// The structures of an image.
#[derive(Clone, Debug, Default)]
pub(super) struct Forge {
    structures: Vec<Structure>,
}

impl Forge {
    /// Finds the structures that are sound.
    pub fn new(image: &[u8], sector_bytes: usize) -> Self {
        let mut structures = Vec::new();
        let (mut volume, mut log_page, mut slot_page, mut buffer) = (0, 0, 0, 0);
        for at in (0..image.len()).step_by(sector_bytes) {
            if image[at..].starts_with(b"FWSTBUF\0") {
                (slot_page, buffer) = (half(image, at + 16), word(image, at + 32));
                structures.push(Structure::Behind { at, covered: BUFFER_COVERED });
            } else if image[at..].starts_with(b"FWREPLIC") {
                structures.push(Structure::Behind { at, covered: REPLICAS_COVERED });
            } else if image[at + 8..].starts_with(b"FWCHK") {
                let lengths = (1..=MOST_PAGES).map(|sectors| sectors * sector_bytes);
                let lengths = lengths.filter(|length| at + length <= image.len());
                let seeds = [0, word(image, at + 16)];
                structures.extend(
                    lengths
                        .flat_map(|length| seeds.map(|seed| Structure::Log { at, length, seed })),
                );
            } else if image[at + 8..].starts_with(b"FWLOGVOL") {
                (log_page, volume) = (half(image, at + 20), word(image, at + 24));
                structures.push(Structure::Log { at, length: LOG_SUPERBLOCK, seed: 0 });
            }
        }
        for at in (0..image.len()).step_by(sector_bytes) {
            if image[at..].starts_with(b"FWSL") && slot_page > 2 * SLOT_HEADER {
                let end = |slot_bytes: usize| at + slot_bytes - SLOT_HEADER;
                let (beside, embedded) = (end(sector_bytes + slot_page), end(slot_page));
                let second = at + SLOT_HEADER;
                let kept = slot_page - SLOT_HEADER;
                let layouts = [
                    (beside, [(at + sector_bytes, kept), (second, SLOT_HEADER)]),
                    (
                        embedded,
                        [
                            (embedded - SLOT_HEADER, SLOT_HEADER),
                            (second, kept.saturating_sub(2 * SLOT_HEADER)),
                        ],
                    ),
                ];
                let whole =
                    layouts.into_iter().filter(|(other, _)| other + SLOT_HEADER <= image.len());
                structures.extend(whole.map(|(other, page)| Structure::Slot {
                    at,
                    other,
                    page,
                    seed: buffer,
                }));
            }
            if image[at + 8..].starts_with(b"FWLOG") {
                let lengths = (1..=MOST_PAGES)
                    .map(|pages| pages * log_page)
                    .filter(|&length| length > 8 && at + length <= image.len());
                structures.extend(lengths.map(|length| Structure::Log {
                    at,
                    length,
                    seed: volume,
                }));
            }
        }
        structures.retain(|structure| structure.is_sound(image));
        Self { structures }
    }

    /// Gives the number of structures.
    pub const fn len(&self) -> usize {
        self.structures.len()
    }

    /// Changes a field of one structure, and mends its checksum.
    pub fn change(&self, image: &mut [u8], wild: &[u64], dice: &mut Dice) {
        if self.structures.is_empty() {
            return;
        }
        let structure = dice.pick(&self.structures);
        let fields = structure.fields();
        for _ in 0..=dice.below(3) {
            // Heads are short, and lists behind them are long: as many changes to the one as to the
            // other.
            let reach = if dice.chance(0.5) { fields.len().min(64) } else { fields.len() };
            let size = dice.pick(&[1, 2, 4, 8]);
            let at = fields.start + dice.below(reach / size) * size;
            let value = match dice.below(3) {
                0 => dice.pick(wild),
                1 => dice.seed(),
                _ => {
                    let mut own = [0; 8];
                    own[..size].copy_from_slice(&image[at..at + size]);
                    u64::from_le_bytes(own).wrapping_add(dice.below(9) as u64).wrapping_sub(4)
                }
            };
            image[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        }
        if let Structure::Slot { at, .. } = structure {
            let own = &mut image[at..at + SLOT_COVERED];
            let covered = [&own[..SLOT_OWN.start], &own[SLOT_OWN.end..]].concat();
            let sum = XxHash3_64::oneshot(&covered) as u32;
            own[SLOT_OWN].copy_from_slice(&sum.to_le_bytes());
        }
        let (at, sum) = structure.checksum(image);
        image[at..at + 8].copy_from_slice(&sum.to_le_bytes());
        // Headers that differ are no more than a torn slot.
        if let Structure::Slot { at, other, .. } = structure
            && dice.chance(0.8)
        {
            image.copy_within(at..at + SLOT_HEADER, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_structure_has_a_right_checksum() {
        let mut image = vec![0; 2048];
        image[512..520].copy_from_slice(b"FWSTBUF\0");
        let sum = XxHash3_64::oneshot(&image[512..512 + BUFFER_COVERED]);
        image[512 + BUFFER_COVERED..512 + BUFFER_COVERED + 8].copy_from_slice(&sum.to_le_bytes());
        let forge = Forge::new(&image, 512);
        assert_eq!(forge.len(), 1);
        let (before, mut dice) = (image.clone(), Dice::new(1));
        forge.change(&mut image, &[7], &mut dice);
        assert!(image != before && forge.structures[0].is_sound(&image));
    }
}
