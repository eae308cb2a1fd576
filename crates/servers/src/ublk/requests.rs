//! Translation of the kernel's requests, and of their outcomes. Nothing here needs a kernel with
//! ublk.

use block::Failure;
use bytes::Bytes;
use devices::ublk::{Attributes, Descriptor, FUA, NO_UNMAP, Op, SECTOR};
use units::Lifetime;

use crate::Shape;
use crate::{Outcome, Request};

/// Longest read or write: as `libublk` and `ublksrv` have it.
pub const MOST_BYTES: u32 = 512 << 10;

/// Gives the attributes of a volume as a block device.
pub fn attributes(shape: &Shape, is_read_only: bool) -> Attributes {
    // A trim of less than a page has no effect.
    let discard_bytes = shape.zeroing_bytes.map_or(shape.sector_bytes, |bytes| bytes as u32);
    Attributes {
        capacity_bytes: shape.capacity_bytes,
        sector_bytes: shape.sector_bytes,
        most_bytes: MOST_BYTES,
        is_read_only,
        discard_bytes: shape.has_trim.then_some(discard_bytes),
    }
}

/// Gives the first byte, and the number of bytes.
const fn range(descriptor: Descriptor) -> Option<(u64, u64)> {
    match descriptor.first_sector.checked_mul(SECTOR) {
        Some(offset) => Some((offset, descriptor.sectors as u64 * SECTOR)),
        None => None,
    }
}

/// Gives the request of a descriptor for a volume of these attributes. `buffer` has the bytes to be
/// written, or room for those of a read.
///
/// # Errors
/// The error number of a request that is not possible.
pub fn request(
    descriptor: Descriptor,
    attributes: &Attributes,
    buffer: &[u8],
) -> Result<Request, i32> {
    let op = descriptor.op().ok_or(libc::EOPNOTSUPP)?;
    if op == Op::Flush {
        return Ok(Request::Flush);
    }
    if attributes.is_read_only && op != Op::Read {
        return Err(libc::EROFS);
    }
    let is_within = |&(offset, length): &(u64, u64)| {
        offset.checked_add(length).is_some_and(|end| end <= attributes.capacity_bytes)
    };
    let (offset, length) = range(descriptor).filter(is_within).ok_or(libc::EINVAL)?;
    let is_fua = descriptor.has(FUA);
    match op {
        Op::Read | Op::Write if length > buffer.len() as u64 => Err(libc::EINVAL),
        Op::Read => Ok(Request::Read { offset, length: length as u32 }),
        Op::Write => {
            let data = Bytes::copy_from_slice(&buffer[..length as usize]);
            Ok(Request::Write { offset, data, is_fua, lifetime: Lifetime::NotSet })
        }
        Op::Discard if attributes.discard_bytes.is_none() => Err(libc::EOPNOTSUPP),
        Op::Discard => Ok(Request::Trim { offset, length, is_fua }),
        Op::WriteZeroes => {
            let unmaps = !descriptor.has(NO_UNMAP);
            Ok(Request::Zero { offset, length, is_fua, unmaps })
        }
        Op::Flush => unreachable!("it was told apart above"),
    }
}

/// Gives the result of a request for the kernel: bytes, or a negative error number. The data of a
/// read are copied into `buffer`.
pub fn result(descriptor: Descriptor, outcome: Outcome, buffer: &mut [u8]) -> i32 {
    let data = match outcome {
        Ok(data) => data,
        Err(Failure::Poisoned { .. }) => return -libc::ESHUTDOWN,
        Err(Failure::Io { .. }) => return -libc::EIO,
    };
    // It came as a request, so that its range is valid.
    let length = range(descriptor).map_or(0, |(_, length)| length) as usize;
    match descriptor.op() {
        Some(Op::Read) if data.len() == length => {
            data.copy_to(&mut buffer[..length]);
            length as i32
        }
        Some(Op::Read) => -libc::EIO,
        Some(Op::Write) => length as i32,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use block::Data;
    use units::IoOp;

    use super::*;

    const SHAPE: Shape =
        Shape { capacity_bytes: 1 << 20, sector_bytes: 4096, has_trim: true, zeroing_bytes: None };

    fn descriptor(op_flags: u32, first_sector: u64, sectors: u32) -> Descriptor {
        Descriptor { op_flags, sectors, first_sector }
    }

    fn asked(op_flags: u32, first_sector: u64, sectors: u32) -> Result<Request, i32> {
        let buffer: Vec<u8> = (0..8192).map(|at| (at % 251) as u8).collect();
        request(descriptor(op_flags, first_sector, sectors), &attributes(&SHAPE, false), &buffer)
    }

    #[test]
    fn every_operation_becomes_its_request() {
        assert_eq!(asked(0, 8, 16), Ok(Request::Read { offset: 4096, length: 8192 }));
        let Ok(Request::Write { offset, data, is_fua, lifetime: Lifetime::NotSet }) =
            asked(1, 16, 8)
        else {
            panic!("a write")
        };
        assert_eq!((offset, data.len(), data[252], is_fua), (8192, 4096, 1, false));
        assert_eq!(asked(2, 0, 0), Ok(Request::Flush));
        let trim = Request::Trim { offset: 4096, length: 1 << 19, is_fua: false };
        assert_eq!(asked(3, 8, 1024), Ok(trim));
        let zero = Request::Zero { offset: 0, length: 1 << 20, is_fua: false, unmaps: true };
        assert_eq!(asked(5, 0, 2048), Ok(zero));
    }

    #[test]
    fn flags_are_kept() {
        assert!(matches!(asked(1 | FUA, 0, 8), Ok(Request::Write { is_fua: true, .. })));
        assert!(matches!(asked(3 | FUA, 0, 8), Ok(Request::Trim { is_fua: true, .. })));
        let zero = asked(5 | FUA | NO_UNMAP, 0, 8);
        assert!(matches!(zero, Ok(Request::Zero { is_fua: true, unmaps: false, .. })));
        // Flags that only tell how the kernel would handle a failure change nothing.
        assert_eq!(asked(0x700, 8, 16), asked(0, 8, 16));
    }

    /// The kernel counts in 512 bytes whatever the sector of the device is, and the service takes
    /// any.
    #[test]
    fn parts_of_sectors_are_taken_as_they_are() {
        assert_eq!(asked(0, 1, 1), Ok(Request::Read { offset: 512, length: 512 }));
        let Ok(Request::Write { offset, data, .. }) = asked(1, 9, 3) else { panic!("a write") };
        assert_eq!((offset, data.len()), (4608, 1536));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(asked(0, 2041, 8), Err(libc::EINVAL), "behind the end");
        assert_eq!(asked(3, 2048, 1), Err(libc::EINVAL));
        assert_eq!(asked(1, u64::MAX, 8), Err(libc::EINVAL), "bytes beyond all numbers");
        assert_eq!(asked(1, u64::MAX / SECTOR, 8), Err(libc::EINVAL));
        assert_eq!(asked(1, 0, 17), Err(libc::EINVAL), "longer than the buffer");
        for op in [4, 10, 13, 18, 255] {
            assert_eq!(asked(op, 0, 8), Err(libc::EOPNOTSUPP), "operation {op}");
        }
    }

    #[test]
    fn a_device_for_reading_takes_nothing_else() {
        let attributes = attributes(&SHAPE, true);
        let ask = |op| request(descriptor(op, 0, 8), &attributes, &[0; 4096]);
        for op in [1, 3, 5] {
            assert_eq!(ask(op), Err(libc::EROFS));
        }
        assert_eq!(ask(0), Ok(Request::Read { offset: 0, length: 4096 }));
        assert_eq!(ask(2), Ok(Request::Flush));
    }

    #[test]
    fn a_discard_is_offered_where_there_is_one() {
        let of = |shape: Shape| attributes(&shape, false).discard_bytes;
        assert_eq!(of(SHAPE), Some(4096));
        assert_eq!(of(Shape { zeroing_bytes: Some(1 << 16), ..SHAPE }), Some(1 << 16));
        let none = Shape { has_trim: false, ..SHAPE };
        assert_eq!(of(none), None);
        let asked = request(descriptor(3, 0, 8), &attributes(&none, false), &[]);
        assert_eq!(asked, Err(libc::EOPNOTSUPP));
    }

    #[test]
    fn the_kernel_is_told_what_came_of_it() {
        let mut buffer = [0; 8192];
        let read = descriptor(0, 8, 2);
        let brought = Data::copy_of(&[7; 1024]);
        assert_eq!(result(read, Ok(brought), &mut buffer), 1024);
        assert_eq!((buffer[1023], buffer[1024]), (7, 0));
        assert_eq!(result(read, Ok(Data::Absent), &mut buffer), -libc::EIO, "it brought nothing");
        assert_eq!(result(descriptor(1 | FUA, 8, 2), Ok(Data::Absent), &mut buffer), 1024);
        for op in [2, 3, 5] {
            assert_eq!(result(descriptor(op, 0, 8), Ok(Data::Absent), &mut buffer), 0);
        }
    }

    #[test]
    fn failures_have_their_error_numbers() {
        let io = Failure::Io { op: IoOp::Write, offset: 0, length: 512, reason: "no room".into() };
        let poisoned = Failure::Poisoned { layer: "log_volume", cause: "a flush failed".into() };
        for op in [0, 1, 2, 3, 5] {
            let told = |failure: &Failure| {
                result(descriptor(op, 0, 1), Err(failure.clone()), &mut [0; 512])
            };
            assert_eq!(told(&io), -libc::EIO);
            assert_eq!(told(&poisoned), -libc::ESHUTDOWN);
        }
    }
}
