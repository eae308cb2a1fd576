//! Notes the changes that a resize has still to make, and makes them however often that is
//! interrupted (`docs/formats/volume.md`).

mod note;

use block::{BlockDevice, BlockError, Failure, Part, Store};
use layers::Change;

use crate::header::RESIZING;
use crate::headers::{write, write_header};
use crate::layout::refused;
use crate::{HEADER_BYTES, Header, VolumeError};

pub(crate) use note::Note;

/// Bytes that are copied or cleared at a time.
pub(crate) const STEP_BYTES: u64 = 1 << 20;

/// Notes durably what is to be changed. From then on the changes will be made.
pub(crate) fn begin(
    device: &mut dyn BlockDevice,
    header: &mut Header,
    note: &Note,
) -> Result<(), VolumeError> {
    let mut marked = header.clone();
    marked.generation += 1;
    marked.incompatible |= RESIZING;
    let bytes = note.encode(&marked);
    let room = header.data_offset - HEADER_BYTES as u64;
    if bytes.len() as u64 > room {
        return Err(refused(
            device,
            format!(
                "what has to be moved is in too many pieces to be noted, {} bytes of {room}: \
                 write less to it, or take another size",
                bytes.len()
            ),
        ));
    }
    write(device, HEADER_BYTES as u64, &bytes)?;
    let second = second_note(header);
    if bytes.len() as u64 <= header.data_offset - second {
        write(device, second, &bytes)?;
    }
    write_header(device, &marked)?;
    *header = marked;
    Ok(())
}

/// Gives the place of the second copy of a note, if it is so short that there is room for two.
pub(crate) const fn second_note(header: &Header) -> u64 {
    let (begin, end) = (HEADER_BYTES as u64, header.data_offset);
    begin + (end - begin).div_ceil(2).next_multiple_of(begin)
}

/// Reads the note of a header that is marked to have one: either copy is enough.
pub(crate) fn noted(device: &mut dyn BlockDevice, header: &Header) -> Result<Note, VolumeError> {
    let mut reasons = Vec::new();
    for place in [HEADER_BYTES as u64, second_note(header)] {
        match read_note(device, header, place) {
            Ok(note) => return Ok(note),
            Err(reason) => reasons.push(format!("at byte {place}: {reason}")),
        }
    }
    Err(refused(
        device,
        format!("its resize was cut short and cannot be finished: {}", reasons.join("; ")),
    ))
}

/// Reads a note, and nothing behind it, which is not needed.
fn read_note(device: &mut dyn BlockDevice, header: &Header, place: u64) -> Result<Note, String> {
    let room = header.data_offset - place;
    let mut store = Store::new(device);
    let mut bytes = vec![0; HEADER_BYTES.min(room as usize)];
    store.read(place, &mut bytes).map_err(|failure| failure.to_string())?;
    let length = Note::length(&bytes).next_multiple_of(HEADER_BYTES as u64);
    if length > bytes.len() as u64 && length <= room {
        let mut rest = vec![0; length as usize - bytes.len()];
        store.read(place + bytes.len() as u64, &mut rest).map_err(|failure| failure.to_string())?;
        bytes.extend_from_slice(&rest);
    }
    Note::decode(&bytes, header)
}

/// Makes all changes of the note, and then writes a header without the mark.
pub(crate) fn finish(device: &mut dyn BlockDevice, header: &Header) -> Result<Header, VolumeError> {
    let note = noted(device, header)?;
    let name = device.info().name.clone();
    let bytes = header.data_bytes.max(note.data_bytes);
    let mut part =
        Part::new(&mut *device, header.data_offset, bytes).in_sectors_of(header.sector_bytes);
    apply(&note.changes, &mut Store::new(&mut part))
        .map_err(|failure| BlockError::Failed { name, failure })?;
    let header = Header {
        generation: header.generation + 1,
        incompatible: header.incompatible & !RESIZING,
        data_bytes: note.data_bytes,
        is_clean: true,
        ..header.clone()
    };
    write_header(device, &header)?;
    Ok(header)
}

/// Makes changes, durably.
pub(crate) fn apply(changes: &[Change], store: &mut Store<'_>) -> Result<(), Failure> {
    let steps = |bytes: u64| {
        (0..bytes)
            .step_by(STEP_BYTES as usize)
            .map(move |from| (from, STEP_BYTES.min(bytes - from)))
    };
    let mut buffer = vec![0; STEP_BYTES as usize];
    for change in changes {
        match change {
            Change::Zero { at, bytes } => {
                buffer.fill(0);
                for (from, length) in steps(*bytes) {
                    store.write(at + from, &buffer[..length as usize])?;
                }
            }
            Change::Put { at, data } => store.write(*at, data)?,
            Change::Copy { from, to, bytes } => {
                for (step, length) in steps(*bytes) {
                    let buffer = &mut buffer[..length as usize];
                    store.read(from + step, buffer)?;
                    store.write(to + step, buffer)?;
                }
            }
        }
    }
    store.flush()
}
