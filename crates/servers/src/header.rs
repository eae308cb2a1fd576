//! The header of a volume, byte by byte as in `docs/formats/volume.md`.

use layers::Facts;
use twox_hash::XxHash3_64;
use uuid::Uuid;

use crate::facts;

/// Bytes of one copy.
pub const HEADER_BYTES: usize = 4096;

const MAGIC: [u8; 8] = *b"FWVOLUME";
const VERSION: u16 = 1;
/// Place of the text of the stack; that of the facts follows it.
const TEXT: usize = 136;
/// Longest stack, facts and path together, in bytes.
const MOST_TEXT: usize = HEADER_BYTES - TEXT;
/// Place of the time when all was read last, if the texts leave room.
const SCRUBBED: usize = HEADER_BYTES - 8;
/// Greatest generation and number of openings: both grow, and must not begin again at 0.
const MOST_COUNTED: u64 = u64::MAX >> 1;
/// Flag: changes for another size are noted behind the first header, and are not made yet.
pub(crate) const RESIZING: u64 = 1;
/// Flag: the volume has a staging device.
const PAIRED: u64 = 2;
/// Flags that a program has to know to open a volume.
const KNOWN_INCOMPATIBLE: u64 = PAIRED | RESIZING;
/// Flags that it has to know to write to it: none yet.
const KNOWN_READ_ONLY: u64 = 0;

/// Part of a volume on one of its two devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The pages.
    Homes,
    /// The area of the layer that has it there.
    Staging,
}

/// Knowledge that one of a volume's two devices has of the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Part on this device.
    pub role: Role,
    /// True if the other device is known to have a header of this generation; it may be false only
    /// on the staging device.
    pub is_settled: bool,
    /// Last place of the other device.
    pub other: String,
}

/// Header of a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// UUID, drawn when it was made.
    pub uuid: Uuid,
    /// Number that grows each time the header is written: the copy with the greater one is valid.
    pub generation: u64,
    /// Number of openings for writing.
    pub openings: u64,
    /// True if all that was acknowledged is in its place, and nothing has to be recovered.
    pub is_clean: bool,
    /// Flags of features without which it cannot be opened.
    pub incompatible: u64,
    /// Flags of features without which it can only be read.
    pub read_only_compatible: u64,
    /// Bytes of a sector of the device.
    pub sector_bytes: u32,
    /// Bytes of the device when it was made or resized; the copy at the end stands before them.
    pub device_bytes: u64,
    /// First byte of the stack's part of the device.
    pub data_offset: u64,
    /// Bytes of that part.
    pub data_bytes: u64,
    /// Seed of all random draws of the layers.
    pub seed: u64,
    /// Time when it was made, in seconds since 1970.
    pub created_unix_s: u64,
    /// Time when the last pass over all that has checksums ended, in seconds since 1970; 0 for
    /// never. It is not kept if texts are so long that there is no room for it.
    pub scrubbed_unix_s: u64,
    /// The layers, as `flashwright play --stack` takes them; `direct` for none.
    pub stack: String,
    /// Facts of the device for the layers.
    pub facts: Facts,
    /// Knowledge of the other device, if the volume has two.
    pub pair: Option<Pair>,
}

/// Reason why bytes are no header that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoHeader {
    /// Something else is there, or nothing.
    Foreign(&'static str),
    /// A header was there, and it is damaged.
    Damaged(String),
    /// The header was made by a newer program.
    TooNew(String),
}

impl NoHeader {
    /// Gives the reason in words.
    pub fn reason(&self) -> &str {
        match self {
            Self::Foreign(reason) => reason,
            Self::Damaged(reason) | Self::TooNew(reason) => reason,
        }
    }
}

impl Header {
    /// Checks that stack, facts and path fit in a header.
    ///
    /// # Errors
    /// The number of bytes that are too many.
    pub fn room(stack: &str, about: &Facts, pair: Option<&Pair>) -> Result<(), usize> {
        let length = texts(stack, about, pair);
        if length > MOST_TEXT { Err(length - MOST_TEXT) } else { Ok(()) }
    }

    /// Gives the bytes of all texts.
    fn texts(&self) -> usize {
        texts(&self.stack, &self.facts, self.pair.as_ref())
    }

    /// Gives the bytes of one copy: `is_last` for the one at the end of the device.
    ///
    /// # Panics
    /// If [`Header::room`] fails.
    #[must_use]
    pub fn encode(&self, is_last: bool) -> [u8; HEADER_BYTES] {
        let about = facts::to_text(&self.facts);
        let mut bytes = [0; HEADER_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(8, &MAGIC);
        put(16, &VERSION.to_le_bytes());
        put(18, &u16::from(is_last).to_le_bytes());
        put(20, &self.sector_bytes.to_le_bytes());
        put(24, self.uuid.as_bytes());
        let paired = if self.pair.is_some() { PAIRED } else { 0 };
        put(40, &(self.incompatible | paired).to_le_bytes());
        put(48, &self.read_only_compatible.to_le_bytes());
        put(56, &self.generation.to_le_bytes());
        put(64, &self.openings.to_le_bytes());
        put(72, &self.device_bytes.to_le_bytes());
        put(80, &self.data_offset.to_le_bytes());
        put(88, &self.data_bytes.to_le_bytes());
        put(96, &self.seed.to_le_bytes());
        put(104, &self.created_unix_s.to_le_bytes());
        put(112, &u64::from(self.is_clean).to_le_bytes());
        put(120, &(self.stack.len() as u32).to_le_bytes());
        put(124, &(about.len() as u32).to_le_bytes());
        put(TEXT, self.stack.as_bytes());
        put(TEXT + self.stack.len(), about.as_bytes());
        if let Some(Pair { role, is_settled, other }) = &self.pair {
            put(128, &(other.len() as u32).to_le_bytes());
            put(132, &(if *role == Role::Homes { 1_u16 } else { 2 }).to_le_bytes());
            put(134, &u16::from(*is_settled).to_le_bytes());
            put(TEXT + self.stack.len() + about.len(), other.as_bytes());
        }
        if self.texts() <= SCRUBBED - TEXT {
            bytes[SCRUBBED..].copy_from_slice(&self.scrubbed_unix_s.to_le_bytes());
        }
        let checksum = XxHash3_64::oneshot(&bytes[8..]);
        bytes[..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the header from bytes that were found at the beginning or, with `is_last`, at the end.
    ///
    /// # Errors
    /// [`NoHeader`].
    pub fn decode(bytes: &[u8; HEADER_BYTES], is_last: bool) -> Result<Self, NoHeader> {
        let eight = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let four = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let two = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two"));
        if bytes[8..16] != MAGIC {
            let is_empty = bytes.iter().all(|&byte| byte == 0);
            return Err(NoHeader::Foreign(if is_empty { "zeros" } else { "other data" }));
        }
        if eight(0) != XxHash3_64::oneshot(&bytes[8..]) {
            return Err(NoHeader::Damaged("a header whose checksum does not fit".to_owned()));
        }
        let (version, incompatible) = (two(16), eight(40));
        if version != VERSION || incompatible & !KNOWN_INCOMPATIBLE != 0 {
            return Err(NoHeader::TooNew(format!(
                "a header of version {version} with features {incompatible:#x}, and this program \
                 knows version {VERSION} and features {KNOWN_INCOMPATIBLE:#x}: use a newer one"
            )));
        }
        let odd = |what: &str| Err(NoHeader::Damaged(format!("a header with {what}")));
        if two(18) != u16::from(is_last) {
            return odd("the mark of the other copy: the device was moved or cut");
        }
        let (stack_bytes, facts_bytes) = (four(120) as usize, four(124) as usize);
        let is_paired = incompatible & PAIRED != 0;
        let other_bytes = if is_paired { four(128) as usize } else { 0 };
        let texts = stack_bytes.saturating_add(facts_bytes).saturating_add(other_bytes);
        if texts > MOST_TEXT {
            return odd("texts longer than itself");
        }
        let text = |from: usize, length: usize| std::str::from_utf8(&bytes[from..from + length]);
        let (Ok(stack), Ok(about), Ok(other)) = (
            text(TEXT, stack_bytes),
            text(TEXT + stack_bytes, facts_bytes),
            text(TEXT + stack_bytes + facts_bytes, other_bytes),
        ) else {
            return odd("texts that are not UTF-8");
        };
        let about = match facts::from_text(about) {
            Ok(about) => about,
            Err(error) => return odd(&format!("facts that cannot be read ({error})")),
        };
        if [eight(56), eight(64)].iter().any(|&count| count > MOST_COUNTED) {
            return odd("a generation or openings that no volume comes to");
        }
        let role = match two(132) {
            _ if !is_paired => None,
            1 => Some(Role::Homes),
            2 => Some(Role::Staging),
            _ => return odd("no role for its device, of two"),
        };
        let (is_settled, other) = (two(134) == 1, other.to_owned());
        Ok(Self {
            uuid: Uuid::from_bytes(bytes[24..40].try_into().expect("sixteen")),
            generation: eight(56),
            openings: eight(64),
            is_clean: eight(112) == 1,
            incompatible: incompatible & !PAIRED,
            read_only_compatible: eight(48),
            sector_bytes: four(20),
            device_bytes: eight(72),
            data_offset: eight(80),
            data_bytes: eight(88),
            seed: eight(96),
            created_unix_s: eight(104),
            scrubbed_unix_s: if texts <= SCRUBBED - TEXT { eight(SCRUBBED) } else { 0 },
            stack: stack.to_owned(),
            facts: about,
            pair: role.map(|role| Pair { role, is_settled, other }),
        })
    }

    /// Gives the facts of the device for the layers.
    #[must_use]
    pub fn layer_facts(&self) -> Facts {
        let staging_offset = self.pair.as_ref().map(|_| self.data_bytes);
        Facts { staging_offset, ..self.facts.clone() }
    }

    /// Gives the facts of the device for the layers, as text: JSON.
    #[must_use]
    pub fn facts_text(&self) -> String {
        facts::to_text(&self.facts)
    }

    /// Gives the flags that this program does not know, and with which it may only read.
    #[must_use]
    pub const fn unknown_for_writing(&self) -> u64 {
        self.read_only_compatible & !KNOWN_READ_ONLY
    }

    /// Returns true if a resize is under way: it has to be finished when the volume is opened.
    #[must_use]
    pub const fn is_resizing(&self) -> bool {
        self.incompatible & RESIZING != 0
    }

    /// Gives the first byte of the copy at the end of a device of this size.
    #[must_use]
    pub const fn last_place(device_bytes: u64) -> u64 {
        (device_bytes / HEADER_BYTES as u64 - 1) * HEADER_BYTES as u64
    }
}

fn texts(stack: &str, about: &Facts, pair: Option<&Pair>) -> usize {
    stack.len() + facts::to_text(about).len() + pair.map_or(0, |pair| pair.other.len())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn sample() -> Header {
        Header {
            uuid: Uuid::from_u128(0x1234_5678_9abc_def0_1122_3344_5566_7788),
            generation: 7,
            openings: 3,
            is_clean: true,
            incompatible: 0,
            read_only_compatible: 0,
            sector_bytes: 512,
            device_bytes: 1 << 30,
            data_offset: 1 << 20,
            data_bytes: (1 << 30) - (2 << 20),
            seed: 1,
            created_unix_s: 1_790_000_000,
            scrubbed_unix_s: 0,
            stack: "scheduler(defer)|log_volume".to_owned(),
            facts: Facts { write_bytes: Some(32768), ..Facts::default() },
            pair: None,
        }
    }

    #[test]
    fn a_header_comes_back_as_it_was() {
        for is_last in [false, true] {
            let bytes = sample().encode(is_last);
            assert_eq!(Header::decode(&bytes, is_last), Ok(sample()));
            let error = Header::decode(&bytes, !is_last).unwrap_err();
            assert!(error.reason().contains("other copy"), "{error:?}");
        }
    }

    #[test]
    fn a_header_of_two_devices_comes_back_and_older_programs_refuse_it() {
        for (role, is_settled) in [(Role::Homes, true), (Role::Staging, false)] {
            let pair = Some(Pair { role, is_settled, other: "/dev/fast".to_owned() });
            let header = Header { pair, ..sample() };
            let bytes = header.encode(false);
            assert_eq!(Header::decode(&bytes, false), Ok(header));
            assert_eq!(bytes[40..48], 2_u64.to_le_bytes(), "a feature that has to be known");
        }
        assert_eq!(sample().encode(false)[128..136], [0; 8], "as ever, without a second device");
    }

    /// Where texts reach that far the time is not kept, and no text is taken for it.
    #[test]
    fn the_time_of_the_last_scrub_is_kept_if_there_is_room() {
        let scrubbed_unix_s = 1_795_000_000;
        for (texts, kept) in [(SCRUBBED - TEXT, scrubbed_unix_s), (SCRUBBED - TEXT + 1, 0)] {
            let mut header = Header { scrubbed_unix_s, ..sample() };
            header.stack = "s".repeat(texts - header.texts() + header.stack.len());
            let back = Header::decode(&header.encode(true), true).unwrap();
            assert_eq!(back, Header { scrubbed_unix_s: kept, ..header }, "{texts} bytes of texts");
        }
    }

    #[test]
    fn a_flipped_byte_anywhere_is_found() {
        let bytes = sample().encode(false);
        for at in 0..HEADER_BYTES {
            let mut flipped = bytes;
            flipped[at] ^= 1 << (at % 8);
            assert!(Header::decode(&flipped, false).is_err(), "byte {at}");
        }
    }

    /// Otherwise the next opening would begin at 0, and the older copy would be the newer one.
    #[test]
    fn a_generation_that_could_not_grow_is_no_header() {
        for (generation, openings) in [(u64::MAX, 1), (1, u64::MAX)] {
            let header = Header { generation, openings, ..sample() };
            let error = Header::decode(&header.encode(false), false).unwrap_err();
            assert!(error.reason().contains("no volume comes to"), "{error:?}");
        }
    }

    #[test]
    fn what_is_newer_is_told_from_what_is_damaged() {
        let mut newer = sample();
        newer.incompatible = 4;
        let error = Header::decode(&newer.encode(false), false).unwrap_err();
        assert!(matches!(&error, NoHeader::TooNew(why) if why.contains("0x4")), "{error:?}");
        newer = sample();
        newer.read_only_compatible = 1;
        let read = Header::decode(&newer.encode(false), false).unwrap();
        assert_eq!(read.unknown_for_writing(), 1, "it may still be read");
        let zeros = Header::decode(&[0; HEADER_BYTES], false).unwrap_err();
        assert_eq!(zeros.reason(), "zeros");
    }

    /// A header of version 1, as it was once written: volumes of users look like this.
    #[test]
    fn the_bytes_of_version_1_stay_what_they_are() {
        let bytes = sample().encode(false);
        assert_eq!(&bytes[8..24], b"FWVOLUME\x01\0\0\0\0\x02\0\0");
        assert_eq!(&bytes[TEXT..TEXT + 27], b"scheduler(defer)|log_volume");
        assert_eq!(&bytes[TEXT + 27..TEXT + 48], br#"{"write_bytes":32768}"#);
        assert_eq!(XxHash3_64::oneshot(&bytes), 11_938_973_502_558_382_556);
    }
}
