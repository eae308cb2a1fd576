//! Note of the changes that a resize has still to make, between the first header and the stack's
//! part: `docs/formats/volume.md`.

use layers::Change;
use twox_hash::XxHash3_64;

use crate::{HEADER_BYTES, Header};

const MAGIC: [u8; 8] = *b"FWRESIZE";
/// Bytes before the first change.
const HEAD_BYTES: usize = 64;
/// Bytes of a change, without those of its content.
const CHANGE_BYTES: usize = 32;
const ZERO: u64 = 0;
const PUT: u64 = 1;
const COPY: u64 = 2;

/// New size, and the changes for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Bytes of the stack's part after the resize.
    pub data_bytes: u64,
    /// Changes in their order; places are counted from the beginning of the stack's part.
    pub changes: Vec<Change>,
}

impl Note {
    /// Gives the bytes of the note for a header that is marked: whole units of a header's size.
    pub fn encode(&self, header: &Header) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(header.uuid.as_bytes());
        let put = |bytes: &mut Vec<u8>, values: &[u64]| {
            values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
        };
        put(&mut bytes, &[header.generation, self.data_bytes, self.changes.len() as u64, 0]);
        for change in &self.changes {
            match change {
                Change::Zero { at, bytes: length } => put(&mut bytes, &[ZERO, *at, 0, *length]),
                Change::Copy { from, to, bytes: length } => {
                    put(&mut bytes, &[COPY, *to, *from, *length]);
                }
                Change::Put { at, data } => {
                    put(&mut bytes, &[PUT, *at, 0, data.len() as u64]);
                    bytes.extend_from_slice(data);
                    bytes.resize(bytes.len().next_multiple_of(8), 0);
                }
            }
        }
        let length = bytes.len() as u64;
        bytes[HEAD_BYTES - 8..HEAD_BYTES].copy_from_slice(&length.to_le_bytes());
        let checksum = XxHash3_64::oneshot(&bytes[8..]);
        bytes[..8].copy_from_slice(&checksum.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(HEADER_BYTES), 0);
        bytes
    }

    /// Gives the length that the beginning of a note tells, in bytes; 0 if there are too few.
    pub fn length(bytes: &[u8]) -> u64 {
        let length = bytes.get(HEAD_BYTES - 8..HEAD_BYTES);
        length.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight")))
    }

    /// Reads the note of this header.
    ///
    /// # Errors
    /// The reason why these bytes are no such note.
    pub fn decode(bytes: &[u8], header: &Header) -> Result<Self, String> {
        let eight = |at: usize| {
            let bytes = bytes.get(at..at.checked_add(8)?)?;
            Some(u64::from_le_bytes(bytes.try_into().expect("eight")))
        };
        let length = eight(HEAD_BYTES - 8).unwrap_or(0) as usize;
        let is_whole = (HEAD_BYTES..=bytes.len()).contains(&length)
            && bytes[8..16] == MAGIC
            && eight(0) == Some(XxHash3_64::oneshot(&bytes[8..length]));
        if !is_whole {
            return Err("what was to be changed is not noted, or damaged".to_owned());
        }
        if bytes[16..32] != *header.uuid.as_bytes() || eight(32) != Some(header.generation) {
            return Err("what is noted belongs to another header".to_owned());
        }
        let contradicts = || "what is noted contradicts itself".to_owned();
        let (data_bytes, count) =
            eight(40).zip(eight(48)).filter(|&(bytes, _)| bytes > 0).ok_or_else(contradicts)?;
        let end = header.data_offset.checked_add(data_bytes);
        if end.is_none_or(|end| end > Header::last_place(header.device_bytes)) {
            return Err(contradicts());
        }
        let room = data_bytes.max(header.data_bytes);
        let sector = u64::from(header.sector_bytes);
        let (mut changes, mut at) = (Vec::new(), HEAD_BYTES);
        for _ in 0..count {
            let change = (|| {
                let [kind, to, from, length] =
                    [eight(at)?, eight(at + 8)?, eight(at + 16)?, eight(at + 24)?];
                at += CHANGE_BYTES;
                let is_within = |place: u64| {
                    place.is_multiple_of(sector)
                        && length.is_multiple_of(sector)
                        && place.checked_add(length).is_some_and(|end| end <= room)
                };
                match kind {
                    _ if !is_within(to) || !is_within(from) => None,
                    ZERO => Some(Change::Zero { at: to, bytes: length }),
                    COPY => Some(Change::Copy { from, to, bytes: length }),
                    PUT => {
                        let end = at.checked_add(length as usize)?;
                        let data = bytes.get(at..end)?.to_vec();
                        at = end.next_multiple_of(8);
                        Some(Change::Put { at: to, data })
                    }
                    _ => None,
                }
            })();
            changes.push(change.ok_or_else(contradicts)?);
        }
        Ok(Self { data_bytes, changes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::tests::sample;

    fn note() -> Note {
        let changes = vec![
            Change::Zero { at: 512, bytes: 1024 },
            Change::Put { at: 4096, data: vec![7; 512] },
            Change::Copy { from: 8192, to: 0, bytes: 512 },
        ];
        Note { data_bytes: 4 << 20, changes }
    }

    #[test]
    fn a_note_comes_back_as_it_was_and_no_flipped_bit_goes_unseen() {
        let header = sample();
        let bytes = note().encode(&header);
        assert_eq!(Note::decode(&bytes, &header), Ok(note()));
        let length = u64::from_le_bytes(bytes[56..64].try_into().unwrap()) as usize;
        for at in 0..length {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            assert!(Note::decode(&flipped, &header).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_note_of_another_header_is_not_taken() {
        let bytes = note().encode(&sample());
        let other = Header { generation: 8, ..sample() };
        assert!(Note::decode(&bytes, &other).unwrap_err().contains("another header"));
        assert!(Note::decode(&[0; 4096], &sample()).is_err());
    }

    #[test]
    fn what_lies_nowhere_is_refused() {
        for wrong in [
            Change::Zero { at: 1 << 40, bytes: 512 },
            Change::Zero { at: u64::MAX - 511, bytes: 512 },
            Change::Copy { from: 100, to: 0, bytes: 512 },
        ] {
            let bytes = Note { changes: vec![wrong], ..note() }.encode(&sample());
            assert!(Note::decode(&bytes, &sample()).unwrap_err().contains("contradicts"));
        }
        let far = Note { data_bytes: 1 << 40, ..note() }.encode(&sample());
        assert!(Note::decode(&far, &sample()).unwrap_err().contains("contradicts"));
    }
}
