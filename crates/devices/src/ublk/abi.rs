//! The protocol between ublk and its server, by `linux/ublk_cmd.h`: numbers and layouts alone, so
//! that all of it is tested where no kernel has ublk.

/// Bytes of a sector in whatever ublk says, whatever the sectors of the block device are.
pub const SECTOR: u64 = 512;
/// Bytes of a descriptor (`struct ublksrv_io_desc`).
pub(super) const DESCRIPTOR_BYTES: usize = 24;
/// Bytes of the part of a control command that names the device (`struct ublksrv_ctrl_cmd`).
pub(super) const CONTROL_BYTES: usize = 32;
/// Bytes of `struct ublksrv_ctrl_dev_info`.
pub(super) const DEVICE_INFO_BYTES: usize = 64;
/// Bytes of `struct ublk_params` as far as its discards: what Linux 6.0 knows.
pub(super) const PARAMETER_BYTES: usize = 60;
/// The kernel chooses the number.
pub(super) const ANY_NUMBER: u32 = u32::MAX;
/// `UBLK_IO_RES_ABORT`: the device is stopped, and the tag gets no request any more.
pub(super) const ABORTED: i32 = -libc::ENODEV;

/// `UBLK_F_CMD_IOCTL_ENCODE`.
const IOCTL_ENCODED: u64 = 1 << 6;
/// `UBLK_PARAM_TYPE_BASIC` and `UBLK_PARAM_TYPE_DISCARD`.
const PARAMETER_TYPES: u32 = 1 | 1 << 1;
/// `UBLK_ATTR_...`.
const IS_READ_ONLY: u32 = 1;
const HAS_VOLATILE_CACHE: u32 = 1 << 2;
const HAS_FUA: u32 = 1 << 3;

/// `UBLK_IO_OP_...`: what a descriptor asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "as the kernel has them")]
pub enum Op {
    Read,
    Write,
    Flush,
    Discard,
    WriteZeroes,
}

/// `UBLK_IO_F_FUA`: done only when it is durable.
pub const FUA: u32 = 1 << 13;
/// `UBLK_IO_F_NOUNMAP`: zeros for which room is to be kept.
pub const NO_UNMAP: u32 = 1 << 15;

/// One request of the kernel (`struct ublksrv_io_desc`), without the address that we gave it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Bits 0 to 7 the operation, those above flags.
    pub op_flags: u32,
    /// Number of sectors of [`SECTOR`] bytes.
    pub sectors: u32,
    /// The first of them.
    pub first_sector: u64,
}

impl Descriptor {
    /// Gives the operation; none if this program does not know it.
    #[must_use]
    pub const fn op(&self) -> Option<Op> {
        match self.op_flags & 0xff {
            0 => Some(Op::Read),
            1 => Some(Op::Write),
            2 => Some(Op::Flush),
            3 => Some(Op::Discard),
            5 => Some(Op::WriteZeroes),
            _ => None,
        }
    }

    /// Returns true if it has this flag.
    #[must_use]
    pub const fn has(&self, flag: u32) -> bool {
        self.op_flags & flag != 0
    }

    pub(super) fn decode(bytes: &[u8; DESCRIPTOR_BYTES]) -> Self {
        Self {
            op_flags: u32_at(bytes, 0),
            sectors: u32_at(bytes, 4),
            first_sector: u64_at(bytes, 8),
        }
    }
}

/// Properties that a block device is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Bytes of the device: whole sectors.
    pub capacity_bytes: u64,
    /// Bytes of its sectors, logical and physical: a power of two, 512 ... 4096.
    pub sector_bytes: u32,
    /// Longest read or write, in bytes.
    pub most_bytes: u32,
    /// Writes are refused.
    pub is_read_only: bool,
    /// Bytes that a discard has to cover whole to bring anything; none where it has no discard.
    pub discard_bytes: Option<u32>,
}

/// Longest discard, in sectors: 1 GiB.
const MOST_DISCARDED: u32 = 1 << 21;
/// Longest request for zeros, in sectors: 32 MiB, as they may have to be written.
const MOST_ZEROED: u32 = 1 << 16;

impl Attributes {
    pub(super) fn encode(&self) -> [u8; PARAMETER_BYTES] {
        let mut bytes = [0; PARAMETER_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        let shift = self.sector_bytes.trailing_zeros() as u8;
        let attributes =
            HAS_VOLATILE_CACHE | HAS_FUA | if self.is_read_only { IS_READ_ONLY } else { 0 };
        put(0, &(PARAMETER_BYTES as u32).to_ne_bytes());
        put(4, &PARAMETER_TYPES.to_ne_bytes());
        put(8, &attributes.to_ne_bytes());
        // Of logical and physical sectors, of the best and of the least request.
        put(12, &[shift; 4]);
        put(16, &(self.most_bytes / SECTOR as u32).to_ne_bytes());
        put(24, &(self.capacity_bytes / SECTOR).to_ne_bytes());
        let (granularity, most) = match self.discard_bytes.filter(|_| !self.is_read_only) {
            Some(bytes) => (bytes, MOST_DISCARDED),
            // The kernel takes no granularity of 0, and no discards where the longest is 0.
            None => (self.sector_bytes, 0),
        };
        let zeroed = if self.is_read_only { 0 } else { MOST_ZEROED };
        put(44, &granularity.to_ne_bytes());
        put(48, &most.to_ne_bytes());
        put(52, &zeroed.to_ne_bytes());
        put(56, &1_u16.to_ne_bytes());
        bytes
    }
}

/// Numbering of commands: as those of `ioctl` (from Linux 6.4 on), or plain, which newer kernels
/// may be built without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbering {
    Ioctl,
    Plain,
}

/// Commands of the control device, by their plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control {
    DeviceInfo = 0x02,
    Add = 0x04,
    Delete = 0x05,
    Start = 0x06,
    Stop = 0x07,
    SetParameters = 0x08,
}

/// Commands of a device's queue, by their plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fetch {
    First = 0x20,
    CommitAndNext = 0x21,
}

impl Numbering {
    pub fn control(self, command: Control) -> u32 {
        self.number(command as u32, CONTROL_BYTES, command != Control::DeviceInfo)
    }

    pub fn fetch(self, command: Fetch) -> u32 {
        self.number(command as u32, 16, true)
    }

    fn number(self, plain: u32, bytes: usize, writes: bool) -> u32 {
        let (read, write) = (2 << 30, u32::from(writes) << 30);
        match self {
            Self::Ioctl => read | write | (bytes as u32) << 16 | u32::from(b'u') << 8 | plain,
            Self::Plain => plain,
        }
    }
}

/// `struct ublksrv_ctrl_cmd`: of a device, with a buffer and a value. It belongs to no queue.
pub(super) fn control(number: u32, address: u64, length: u16, value: u64) -> [u8; CONTROL_BYTES] {
    let mut bytes = [0; CONTROL_BYTES];
    bytes[..4].copy_from_slice(&number.to_ne_bytes());
    bytes[4..6].copy_from_slice(&u16::MAX.to_ne_bytes());
    bytes[6..8].copy_from_slice(&length.to_ne_bytes());
    bytes[8..16].copy_from_slice(&address.to_ne_bytes());
    bytes[16..24].copy_from_slice(&value.to_ne_bytes());
    bytes
}

/// `struct ublksrv_ctrl_dev_info` of a device that is to be made, with one queue.
pub(super) fn device_info(
    depth: u16,
    most_bytes: u32,
    numbering: Numbering,
) -> [u8; DEVICE_INFO_BYTES] {
    let mut bytes = [0; DEVICE_INFO_BYTES];
    let flags = if numbering == Numbering::Ioctl { IOCTL_ENCODED } else { 0 };
    bytes[..2].copy_from_slice(&1_u16.to_ne_bytes());
    bytes[2..4].copy_from_slice(&depth.to_ne_bytes());
    bytes[8..12].copy_from_slice(&most_bytes.to_ne_bytes());
    bytes[12..16].copy_from_slice(&ANY_NUMBER.to_ne_bytes());
    bytes[24..32].copy_from_slice(&flags.to_ne_bytes());
    bytes
}

/// The device that the kernel made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Added {
    pub number: u32,
    pub depth: u16,
    pub most_bytes: u32,
    /// Process of its server; 0 or -1 without one.
    pub server: i32,
}

impl Added {
    pub fn decode(bytes: &[u8; DEVICE_INFO_BYTES]) -> Self {
        Self {
            number: u32_at(bytes, 12),
            depth: u16::from_ne_bytes([bytes[2], bytes[3]]),
            most_bytes: u32_at(bytes, 8),
            server: u32_at(bytes, 16) as i32,
        }
    }
}

/// `struct ublksrv_io_cmd` of the one queue, which has number 0: a tag, what its last request came
/// to, and where the bytes of its next one are.
pub(super) fn fetch(tag: u16, result: i32, address: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
    bytes[4..8].copy_from_slice(&result.to_ne_bytes());
    bytes[8..].copy_from_slice(&address.to_ne_bytes());
    bytes
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a C compiler has them from `linux/ublk_cmd.h`.
    #[test]
    fn commands_have_the_kernels_numbers() {
        let ioctl = Numbering::Ioctl;
        assert_eq!(ioctl.control(Control::DeviceInfo), 0x8020_7502);
        assert_eq!(ioctl.control(Control::Add), 0xc020_7504);
        assert_eq!(ioctl.control(Control::Delete), 0xc020_7505);
        assert_eq!(ioctl.control(Control::Start), 0xc020_7506);
        assert_eq!(ioctl.control(Control::Stop), 0xc020_7507);
        assert_eq!(ioctl.control(Control::SetParameters), 0xc020_7508);
        assert_eq!(ioctl.fetch(Fetch::First), 0xc010_7520);
        assert_eq!(ioctl.fetch(Fetch::CommitAndNext), 0xc010_7521);
        assert_eq!(Numbering::Plain.control(Control::Add), 4);
        assert_eq!(Numbering::Plain.fetch(Fetch::CommitAndNext), 0x21);
    }

    #[test]
    fn what_goes_to_the_kernel_lies_where_it_looks() {
        let bytes = control(7, 0x1122_3344_5566_7788, 60, 99);
        assert_eq!((u32_at(&bytes, 0), u32_at(&bytes, 4)), (7, 60 << 16 | 0xffff));
        assert_eq!((u64_at(&bytes, 8), u64_at(&bytes, 16)), (0x1122_3344_5566_7788, 99));
        assert_eq!(u64_at(&bytes, 24), 0);

        let bytes = fetch(5, -libc::EIO, 0xabcd);
        assert_eq!((u32_at(&bytes, 0), u32_at(&bytes, 4) as i32), (5 << 16, -libc::EIO));
        assert_eq!(u64_at(&bytes, 8), 0xabcd);

        let mut bytes = device_info(128, 1 << 19, Numbering::Ioctl);
        assert_eq!(u32_at(&bytes, 0), 128 << 16 | 1);
        assert_eq!((u32_at(&bytes, 8), u32_at(&bytes, 12)), (1 << 19, u32::MAX));
        assert_eq!(u64_at(&bytes, 24), 64);
        assert_eq!(u64_at(&device_info(1, 1, Numbering::Plain), 24), 0);
        bytes[12..20].copy_from_slice(&[3, 0, 0, 0, 9, 0, 0, 0]);
        let added = Added::decode(&bytes);
        assert_eq!(added, Added { number: 3, depth: 128, most_bytes: 1 << 19, server: 9 });
    }

    #[test]
    fn a_device_is_said_to_be_what_it_is() {
        let attributes = Attributes {
            capacity_bytes: 3 << 40,
            sector_bytes: 4096,
            most_bytes: 1 << 19,
            is_read_only: false,
            discard_bytes: Some(1 << 16),
        };
        let bytes = attributes.encode();
        assert_eq!((u32_at(&bytes, 0), u32_at(&bytes, 4)), (60, 3));
        assert_eq!(u32_at(&bytes, 8), 0b1100, "a volatile cache, and FUA");
        assert_eq!(bytes[12..16], [12; 4]);
        assert_eq!((u32_at(&bytes, 16), u32_at(&bytes, 20)), (1024, 0));
        assert_eq!((u64_at(&bytes, 24), u64_at(&bytes, 32)), (3 << 31, 0));
        let discards: Vec<u32> = (40..56).step_by(4).map(|at| u32_at(&bytes, at)).collect();
        assert_eq!(discards, [0, 1 << 16, 1 << 21, 1 << 16]);
        assert_eq!(bytes[56..], [1, 0, 0, 0]);
    }

    #[test]
    fn what_a_device_does_not_take_is_not_offered() {
        let none = Attributes {
            capacity_bytes: 1 << 20,
            sector_bytes: 512,
            most_bytes: 4096,
            is_read_only: false,
            discard_bytes: None,
        };
        let bytes = none.encode();
        assert_eq!((u32_at(&bytes, 44), u32_at(&bytes, 48)), (512, 0), "no discards");
        assert_ne!(u32_at(&bytes, 52), 0, "zeros all the same");
        let read_only = Attributes { is_read_only: true, discard_bytes: Some(512), ..none };
        let bytes = read_only.encode();
        assert_eq!(u32_at(&bytes, 8), 0b1101);
        assert_eq!((u32_at(&bytes, 48), u32_at(&bytes, 52)), (0, 0));
    }

    #[test]
    fn descriptors_are_read_as_the_kernel_writes_them() {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        bytes[..4].copy_from_slice(&(FUA | NO_UNMAP | 5).to_ne_bytes());
        bytes[4..8].copy_from_slice(&8_u32.to_ne_bytes());
        bytes[8..16].copy_from_slice(&(1_u64 << 40).to_ne_bytes());
        let descriptor = Descriptor::decode(&bytes);
        assert_eq!((descriptor.sectors, descriptor.first_sector), (8, 1 << 40));
        assert_eq!(descriptor.op(), Some(Op::WriteZeroes));
        assert!(descriptor.has(FUA) && descriptor.has(NO_UNMAP));
        let ops: Vec<Option<Op>> =
            (0..6).map(|op_flags| Descriptor { op_flags, ..Descriptor::default() }.op()).collect();
        let known = [Some(Op::Read), Some(Op::Write), Some(Op::Flush), Some(Op::Discard)];
        assert_eq!(ops[..4], known);
        assert_eq!(ops[4..], [None, Some(Op::WriteZeroes)], "WRITE_SAME is none");
    }
}
