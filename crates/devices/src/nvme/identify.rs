//! Descriptions of a namespace and its controller, from the pages of Identify. All numbers in them
//! are little-endian.
//!
//! "Base" and "NVM" as in `abi.rs`.

use super::abi::{HANDLE_BYTES, HANDLES_HEADER_BYTES, MOST_RANGES, PAGE_BYTES};

/// A page as it comes.
pub(super) type Page = [u8; PAGE_BYTES];

/// The unit of the controller's longest transfer: its smallest page, which is 4 KiB at least. The
/// register that has it cannot be read from here, so a controller with larger pages gets shorter
/// commands than it takes.
const CONTROLLER_PAGE_BYTES: u64 = 4096;

/// The controller (Base, figure "Identify Controller Data Structure").
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Controller {
    pub model: String,
    /// Longest transfer in bytes (MDTS); none without a limit.
    pub most_bytes: Option<u64>,
    /// True if writes may be lost without a flush (VWC).
    pub has_volatile_cache: bool,
    /// It has Dataset Management, and Write Zeroes (ONCS).
    pub has_deallocate: bool,
    pub has_write_zeroes: bool,
    /// Flexible Data Placement may be enabled in its endurance groups (CTRATT).
    pub has_fdp: bool,
}

impl Controller {
    pub fn parse(page: &Page) -> Self {
        let commands = u16_at(page, 520);
        Self {
            model: String::from_utf8_lossy(&page[24..64]).trim().to_owned(),
            most_bytes: (page[77] > 0)
                .then(|| CONTROLLER_PAGE_BYTES.checked_shl(page[77].into()).unwrap_or(u64::MAX)),
            has_volatile_cache: page[525] & 1 != 0,
            has_deallocate: commands & 1 << 2 != 0,
            has_write_zeroes: commands & 1 << 3 != 0,
            has_fdp: u32_at(page, 96) & 1 << 19 != 0,
        }
    }
}

/// Limits of its commands (NVM, figure "I/O Command Set Specific Identify Controller Data
/// Structure"): 0 for none, and all 0 of an older controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandLimits {
    /// Longest Write Zeroes, as a power of two of [`CONTROLLER_PAGE_BYTES`] (WZSL).
    zeroed: u8,
    /// Most ranges of a Dataset Management command (DMRL).
    ranges: u8,
    /// Most sectors of a range (DMRSL).
    range_sectors: u32,
    /// Most sectors of all its ranges (DMSL).
    all_sectors: u64,
}

impl CommandLimits {
    pub fn parse(page: &Page) -> Self {
        Self {
            zeroed: page[1],
            ranges: page[3],
            range_sectors: u32_at(page, 4),
            all_sectors: u64_at(page, 8),
        }
    }

    /// Longest Write Zeroes in bytes.
    pub fn zeroed_bytes(&self) -> u64 {
        let bytes = CONTROLLER_PAGE_BYTES.checked_shl(self.zeroed.into());
        if self.zeroed == 0 { u64::MAX } else { bytes.unwrap_or(u64::MAX) }
    }

    /// The ranges by which so many sectors are deallocated with one command: as many of them as it
    /// takes. What is left stays as it was, as a controller may treat all of it.
    pub fn ranges(&self, mut first: u64, sectors: u64) -> Vec<(u64, u32)> {
        let or_else = |limit: u64, none: u64| if limit == 0 { none } else { limit };
        let most_ranges = or_else(self.ranges.into(), MOST_RANGES as u64).min(MOST_RANGES as u64);
        let longest = or_else(self.range_sectors.into(), u32::MAX.into());
        let mut left = sectors.min(or_else(self.all_sectors, u64::MAX));
        let mut ranges = Vec::new();
        while left > 0 && (ranges.len() as u64) < most_ranges {
            let taken = left.min(longest);
            ranges.push((first, taken as u32));
            (first, left) = (first + taken, left - taken);
        }
        ranges
    }
}

/// The namespace (NVM, figure "Identify Namespace Data Structure").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Namespace {
    pub sectors: u64,
    /// Bytes of a sector, as a power of two.
    pub sector_shift: u32,
    /// Sectors that Write Zeroes may deallocate (DLFEAT).
    pub deallocates_zeroes: bool,
}

impl Namespace {
    /// Fails with what is wrong with it, and what would be right.
    pub fn parse(page: &Page) -> Result<Self, String> {
        let sectors = u64_at(page, 0);
        if sectors == 0 {
            return Err("the namespace has no sectors: it is not active".to_owned());
        }
        // Its two upper bits are apart, and 0 where there are 16 formats or fewer.
        let used = usize::from(page[26] & 0xf | (page[26] & 0x60) >> 1);
        let format = &page[128 + 4 * used..][..4];
        let metadata_bytes = u16::from_le_bytes([format[0], format[1]]);
        if metadata_bytes > 0 {
            return Err(format!(
                "its format {used} has {metadata_bytes} bytes of metadata with each sector; give \
                 it one without (nvme format --lbaf, which destroys its data)"
            ));
        }
        let sector_shift = u32::from(format[2]);
        if !(9..=12).contains(&sector_shift) {
            return Err(format!(
                "its format {used} has sectors of 2^{sector_shift} bytes, not of 512 to 4096"
            ));
        }
        if sectors.leading_zeros() < sector_shift {
            return Err(format!("it says that it has {sectors} sectors: more than can be counted"));
        }
        Ok(Self { sectors, sector_shift, deallocates_zeroes: page[33] & 1 << 3 != 0 })
    }

    pub const fn capacity_bytes(&self) -> u64 {
        self.sectors << self.sector_shift
    }
}

/// Bytes of the reclaim unit handle status, by its header; as much as a page holds.
pub(super) fn handles_bytes(status: &[u8]) -> usize {
    let said = usize::from(u16_at(status, 14));
    HANDLES_HEADER_BYTES
        + said.min((PAGE_BYTES - HANDLES_HEADER_BYTES) / HANDLE_BYTES) * HANDLE_BYTES
}

/// The placement identifiers of a namespace by placement handle, from the reclaim unit handle
/// status (Base, 7.3.1.1): of each handle that of the lowest reclaim group.
///
/// Handles of a namespace stand for reclaim unit handles, each for another; an identifier has the
/// reclaim group in its upper bits, how many is not told here. So the lowest identifier of each
/// reclaim unit handle is that of its first group, and in their order they are the placement
/// handles.
pub(super) fn placements(status: &[u8]) -> Vec<u16> {
    let said = usize::from(u16_at(status, 14));
    let mut found: Vec<(u16, u16)> = status[HANDLES_HEADER_BYTES..]
        .chunks_exact(HANDLE_BYTES)
        .take(said)
        .map(|handle| (u16_at(handle, 0), u16_at(handle, 2)))
        .collect();
    found.sort_unstable();
    let mut known = Vec::new();
    found.retain(|&(_, handle)| {
        let is_new = !known.contains(&handle);
        known.push(handle);
        is_new
    });
    found.into_iter().map(|(identifier, _)| identifier).collect()
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(fields: &[(usize, &[u8])]) -> Page {
        let mut page = [0; PAGE_BYTES];
        for (at, bytes) in fields {
            page[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        page
    }

    #[test]
    fn a_controller_says_what_it_can() {
        let most = Controller::parse(&page(&[
            (24, b"A Drive With FDP                        "),
            (64, b"1.0     "),
            (77, &[7]),
            (96, &(1_u32 << 19).to_le_bytes()),
            (520, &0b1100_u16.to_le_bytes()),
            (525, &[0b111]),
        ]));
        let expected = Controller {
            model: "A Drive With FDP".to_owned(),
            most_bytes: Some(512 << 10),
            has_volatile_cache: true,
            has_deallocate: true,
            has_write_zeroes: true,
            has_fdp: true,
        };
        assert_eq!(most, expected);
        let least = Controller::parse(&page(&[
            (24, b"Old"),
            (96, &(!(1_u32 << 19)).to_le_bytes()),
            (520, &(!0b1100_u16).to_le_bytes()),
            (525, &[0b110]),
        ]));
        assert_eq!(least.most_bytes, None);
        assert!(!(least.has_volatile_cache || least.has_deallocate));
        assert!(!(least.has_write_zeroes || least.has_fdp));
        assert_eq!(Controller::parse(&page(&[(77, &[255])])).most_bytes, Some(u64::MAX));
    }

    /// Format 0 of sectors of 512 bytes, format 1 with metadata, format 17 of 4096 bytes.
    fn namespace(flbas: u8) -> Result<Namespace, String> {
        Namespace::parse(&page(&[
            (0, &(1_u64 << 30).to_le_bytes()),
            (25, &[17]),
            (26, &[flbas]),
            (33, &[0b1001]),
            (128, &[0, 0, 9, 0]),
            (132, &[8, 0, 9, 0]),
            (128 + 4 * 17, &[0, 0, 12, 2]),
        ]))
    }

    #[test]
    fn a_namespace_has_the_format_in_use() {
        let of = namespace(0).unwrap();
        assert_eq!((of.sector_shift, of.capacity_bytes()), (9, 512 << 30));
        assert!(of.deallocates_zeroes);
        // Bit 4 is another matter: where metadata would be.
        let of = namespace(0b0011_0001).unwrap();
        assert_eq!((of.sector_shift, of.capacity_bytes()), (12, 4 << 40));
    }

    #[test]
    fn what_cannot_be_used_is_refused_in_one_line() {
        let told = namespace(1).unwrap_err();
        assert!(told.starts_with("its format 1 has 8 bytes of metadata with each sector; "));
        let told = namespace(2).unwrap_err();
        assert!(told.contains("sectors of 2^0 bytes"), "{told}");
        let told = Namespace::parse(&page(&[])).unwrap_err();
        assert!(told.contains("not active"), "{told}");
        let whole = page(&[(0, &u64::MAX.to_le_bytes()), (128, &[0, 0, 9, 0])]);
        assert!(Namespace::parse(&whole).is_err());
    }

    #[test]
    fn a_trim_is_as_many_ranges_as_the_controller_takes() {
        let none = CommandLimits::default();
        assert_eq!(none.ranges(5, 1 << 23), [(5, 1 << 23)]);
        assert_eq!(none.zeroed_bytes(), u64::MAX);
        let limits = CommandLimits::parse(&page(&[
            (1, &[4]),
            (3, &[3]),
            (4, &100_u32.to_le_bytes()),
            (8, &1000_u64.to_le_bytes()),
        ]));
        assert_eq!(limits.zeroed_bytes(), 64 << 10);
        assert_eq!(limits.ranges(7, 250), [(7, 100), (107, 100), (207, 50)]);
        assert_eq!(limits.ranges(7, 1 << 30), [(7, 100), (107, 100), (207, 100)]);
        let in_all = CommandLimits { all_sectors: 130, ..limits };
        assert_eq!(in_all.ranges(7, 1 << 30), [(7, 100), (107, 30)]);
        let short = CommandLimits { range_sectors: 1, ..none };
        assert_eq!(short.ranges(0, 1 << 20).len(), 256);
    }

    /// The status of these handles: identifier, and reclaim unit handle.
    fn status(handles: &[(u16, u16)]) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_BYTES];
        bytes[14..16].copy_from_slice(&(handles.len() as u16).to_le_bytes());
        for (number, &(identifier, handle)) in handles.iter().enumerate() {
            let at = 16 + 32 * number;
            bytes[at..at + 2].copy_from_slice(&identifier.to_le_bytes());
            bytes[at + 2..at + 4].copy_from_slice(&handle.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn placement_handles_are_told_by_their_identifiers() {
        assert_eq!(placements(&status(&[])), [0; 0]);
        assert_eq!(placements(&status(&[(0, 4), (1, 2), (2, 9)])), [0, 1, 2]);
        // Two reclaim groups, told by the uppermost bit: the second is left to the drive.
        let two = [(0, 4), (0x8000, 4), (1, 2), (0x8001, 2)];
        assert_eq!(placements(&status(&two)), [0, 1]);
        assert_eq!(handles_bytes(&status(&two)), 16 + 4 * 32);
        assert_eq!(handles_bytes(&status(&[(0, 0); 127])), 4080);
        // More than there was room for.
        let mut many = status(&[]);
        many[14..16].copy_from_slice(&1000_u16.to_le_bytes());
        assert_eq!(handles_bytes(&many), 4080);
        let mut cut = status(&[(0, 0), (1, 1), (2, 2)]);
        cut.truncate(16 + 2 * 32);
        assert_eq!(placements(&cut), [0, 1]);
    }
}
