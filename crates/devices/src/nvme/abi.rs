//! NVMe commands as the kernel takes them (`linux/nvme_ioctl.h`), and their fields as the
//! standards have them: numbers and layouts alone, so that all of it is tested where there is no
//! such drive.
//!
//! "Base" is the NVM Express Base Specification 2.1, "NVM" the NVM Command Set Specification 1.0.

/// Bytes of `struct nvme_passthru_cmd` and of `struct nvme_uring_cmd`, which differ only in what
/// the last four are: a result of the kernel's, or nothing.
pub(super) const COMMAND_BYTES: usize = 72;
/// Bytes that Identify returns (Base, 5.1.13).
pub(super) const PAGE_BYTES: usize = 4096;

/// `NVME_IOCTL_ID`: the number of a namespace.
pub(super) const NAMESPACE_NUMBER: u32 = number(0, 0x40, 0);
/// `NVME_IOCTL_ADMIN_CMD`: a command of the controller, waited for.
pub(super) const ADMIN: u32 = number(READ_WRITE, 0x41, COMMAND_BYTES);
/// `NVME_IOCTL_IO_CMD`: a command of the namespace, waited for.
pub(super) const IO: u32 = number(READ_WRITE, 0x43, COMMAND_BYTES);
/// `NVME_URING_CMD_IO`: a command of the namespace, through io_uring.
pub(super) const URING_IO: u32 = number(READ_WRITE, 0x80, COMMAND_BYTES);

/// `_IOC_READ | _IOC_WRITE`.
const READ_WRITE: u32 = 3;

/// `_IOC('N', ...)`.
const fn number(direction: u32, command: u32, bytes: usize) -> u32 {
    direction << 30 | (bytes as u32) << 16 | (b'N' as u32) << 8 | command
}

/// Opcodes of the controller (Base, figure "Opcodes for Admin Commands").
const IDENTIFY: u8 = 0x06;
/// Opcodes of the namespace (Base, "Opcodes for I/O Commands", and NVM, section 3).
pub(super) const FLUSH: u8 = 0x00;
pub(super) const WRITE: u8 = 0x01;
pub(super) const READ: u8 = 0x02;
pub(super) const WRITE_ZEROES: u8 = 0x08;
pub(super) const DATASET_MANAGEMENT: u8 = 0x09;
const IO_MANAGEMENT_RECEIVE: u8 = 0x12;

/// Pages of Identify, by their CNS (Base, 5.1.13.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Namespace = 0x00,
    Controller = 0x01,
    /// Controller data of the NVM command set: limits of its commands.
    ControllerOfCommandSet = 0x06,
}

/// Sectors of one command at most: their number less one has 16 bits.
pub(super) const MOST_SECTORS: u32 = 1 << 16;
/// Ranges of a Dataset Management command at most (NVM, 3.2.3).
pub(super) const MOST_RANGES: usize = 256;
/// Bytes of a range of it.
const RANGE_BYTES: usize = 16;
/// Bytes of a header, and of each descriptor behind it, of the reclaim unit handle status (Base,
/// 7.3.1.1).
pub(super) const HANDLES_HEADER_BYTES: usize = 16;
pub(super) const HANDLE_BYTES: usize = 32;

/// In command dword 12 of a write: done only when it is durable (NVM, 3.2.6).
const FUA: u32 = 1 << 30;
/// The directive type data placement, in bits 20 to 23 of command dword 12 (Base, 8.1.8.4).
const DATA_PLACEMENT: u32 = 2 << 20;
/// In command dword 12 of Write Zeroes: the sectors may be deallocated (NVM, 3.2.8).
const DEALLOCATE_ZEROES: u32 = 1 << 25;
/// In command dword 11 of Dataset Management: deallocate.
const DEALLOCATE: u32 = 1 << 2;
/// The management operation reclaim unit handle status, of I/O Management Receive.
const HANDLES: u32 = 1;

/// One command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Command {
    pub opcode: u8,
    /// Number of the namespace; 0 for a command of the controller as a whole.
    pub namespace: u32,
    /// Address of its data, and their length.
    pub address: u64,
    pub bytes: u32,
    /// Command dwords 10 to 15.
    pub dwords: [u32; 6],
}

impl Command {
    pub const fn identify(page: Page, namespace: u32) -> Self {
        let dwords = [page as u32, 0, 0, 0, 0, 0];
        let bytes = PAGE_BYTES as u32;
        Self { opcode: IDENTIFY, namespace, address: 0, bytes, dwords }
    }

    /// Asks for the reclaim unit handle status of a namespace; as many bytes of it, which are whole
    /// dwords.
    pub const fn handles(namespace: u32, bytes: u32) -> Self {
        let dwords = [HANDLES, bytes / 4 - 1, 0, 0, 0, 0];
        Self { opcode: IO_MANAGEMENT_RECEIVE, namespace, address: 0, bytes, dwords }
    }

    pub const fn flush(namespace: u32) -> Self {
        Self { opcode: FLUSH, namespace, address: 0, bytes: 0, dwords: [0; 6] }
    }

    pub const fn read(namespace: u32, first: u64, sectors: u32) -> Self {
        Self::of_sectors(READ, namespace, first, sectors)
    }

    /// With a placement identifier, or without the directive.
    pub const fn write(
        namespace: u32,
        first: u64,
        sectors: u32,
        is_fua: bool,
        placement: Option<u16>,
    ) -> Self {
        let mut write = Self::of_sectors(WRITE, namespace, first, sectors);
        if is_fua {
            write.dwords[2] |= FUA;
        }
        if let Some(identifier) = placement {
            write.dwords[2] |= DATA_PLACEMENT;
            write.dwords[3] = (identifier as u32) << 16;
        }
        write
    }

    /// Zeros that need no room.
    pub const fn write_zeroes(namespace: u32, first: u64, sectors: u32) -> Self {
        let mut zeroes = Self::of_sectors(WRITE_ZEROES, namespace, first, sectors);
        zeroes.dwords[2] |= DEALLOCATE_ZEROES;
        zeroes
    }

    /// Deallocates the ranges of a [list](ranges).
    pub const fn deallocate(namespace: u32, ranges: u32) -> Self {
        let (opcode, bytes) = (DATASET_MANAGEMENT, PAGE_BYTES as u32);
        Self { opcode, namespace, address: 0, bytes, dwords: [ranges - 1, DEALLOCATE, 0, 0, 0, 0] }
    }

    const fn of_sectors(opcode: u8, namespace: u32, first: u64, sectors: u32) -> Self {
        let dwords = [first as u32, (first >> 32) as u32, sectors - 1, 0, 0, 0];
        Self { opcode, namespace, address: 0, bytes: 0, dwords }
    }

    /// As the kernel has it, in the order of bytes of the machine.
    pub fn encode(&self) -> [u8; COMMAND_BYTES] {
        let mut bytes = [0; COMMAND_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &[self.opcode]);
        put(4, &self.namespace.to_ne_bytes());
        put(24, &self.address.to_ne_bytes());
        put(36, &self.bytes.to_ne_bytes());
        for (number, dword) in self.dwords.iter().enumerate() {
            put(40 + 4 * number, &dword.to_ne_bytes());
        }
        bytes
    }

    #[cfg(test)]
    pub fn decode(bytes: &[u8; COMMAND_BYTES]) -> Self {
        let dword = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        Self {
            opcode: bytes[0],
            namespace: dword(4),
            address: u64::from_ne_bytes(bytes[24..32].try_into().unwrap()),
            bytes: dword(36),
            dwords: std::array::from_fn(|number| dword(40 + 4 * number)),
        }
    }
}

/// The list of a Dataset Management command: first sectors, and how many from there on. It is as
/// long as the longest, as some controllers read that much whatever they are told (the kernel gives
/// them as much).
pub(super) fn ranges(of: &[(u64, u32)]) -> [u8; PAGE_BYTES] {
    let mut bytes = [0; PAGE_BYTES];
    for (range, &(first, sectors)) in bytes.chunks_exact_mut(RANGE_BYTES).zip(of) {
        range[4..8].copy_from_slice(&sectors.to_le_bytes());
        range[8..].copy_from_slice(&first.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a C compiler has them from `linux/nvme_ioctl.h`.
    #[test]
    fn requests_have_the_kernels_numbers() {
        assert_eq!(NAMESPACE_NUMBER, 0x4e40);
        assert_eq!(ADMIN, 0xc048_4e41);
        assert_eq!(IO, 0xc048_4e43);
        assert_eq!(URING_IO, 0xc048_4e80);
    }

    /// The places of `struct nvme_uring_cmd`, by `offsetof`.
    #[test]
    fn a_command_lies_where_the_kernel_looks() {
        let command = Command {
            opcode: 0x11,
            namespace: 0x2222_2222,
            address: 0x3333_3333_3333_3333,
            bytes: 0x4444_4444,
            dwords: [0xa0a0_a0a0, 0xb1b1_b1b1, 0xc2c2_c2c2, 0xd3d3_d3d3, 0xe4e4_e4e4, 0xf5f5_f5f5],
        };
        let bytes = command.encode();
        let filled = |value: u8| -> Vec<usize> {
            (0..COMMAND_BYTES).filter(|&at| bytes[at] == value).collect()
        };
        assert_eq!(filled(0x11), [0]);
        assert_eq!(filled(0x22), [4, 5, 6, 7]);
        assert_eq!(filled(0x33), (24..32).collect::<Vec<_>>());
        assert_eq!(filled(0x44), (36..40).collect::<Vec<_>>());
        for (number, value) in [0xa0, 0xb1, 0xc2, 0xd3, 0xe4, 0xf5].into_iter().enumerate() {
            let at = 40 + 4 * number;
            assert_eq!(filled(value), (at..at + 4).collect::<Vec<_>>());
        }
        assert_eq!(filled(0).len(), COMMAND_BYTES - 1 - 4 - 8 - 4 - 24, "nothing else is set");
        assert_eq!(Command::decode(&bytes), command);
    }

    #[test]
    fn questions_to_the_controller() {
        let asked = Command::identify(Page::Namespace, 7);
        assert_eq!((asked.opcode, asked.namespace, asked.bytes), (0x06, 7, 4096));
        assert_eq!(asked.dwords, [0, 0, 0, 0, 0, 0]);
        assert_eq!(Command::identify(Page::Controller, 0).dwords[0], 1);
        assert_eq!(Command::identify(Page::ControllerOfCommandSet, 0).dwords[0], 6);
        let asked = Command::handles(7, 4096);
        assert_eq!((asked.opcode, asked.namespace, asked.bytes), (0x12, 7, 4096));
        assert_eq!(asked.dwords, [1, 1023, 0, 0, 0, 0]);
    }

    #[test]
    fn reads_and_writes_name_sectors() {
        let read = Command::read(1, 0x1_2345_6789, 256);
        assert_eq!((read.opcode, read.namespace), (0x02, 1));
        assert_eq!(read.dwords, [0x2345_6789, 1, 255, 0, 0, 0]);
        let write = |is_fua, placement| Command::write(1, 8, 1, is_fua, placement);
        assert_eq!(write(false, None).opcode, 0x01);
        assert_eq!(write(false, None).dwords, [8, 0, 0, 0, 0, 0]);
        assert_eq!(write(true, None).dwords, [8, 0, 0x4000_0000, 0, 0, 0]);
        assert_eq!(write(false, Some(3)).dwords, [8, 0, 0x0020_0000, 0x0003_0000, 0, 0]);
        assert_eq!(write(true, Some(0)).dwords, [8, 0, 0x4020_0000, 0, 0, 0]);
        assert_eq!(Command::write(1, 0, MOST_SECTORS, false, None).dwords[2], 0xffff);
    }

    #[test]
    fn flushes_zeroes_and_deallocation() {
        assert_eq!(Command::flush(3), Command { namespace: 3, ..Command::default() });
        let zeroes = Command::write_zeroes(3, 16, 8);
        assert_eq!((zeroes.opcode, zeroes.bytes), (0x08, 0));
        assert_eq!(zeroes.dwords, [16, 0, 0x0200_0007, 0, 0, 0]);
        let deallocate = Command::deallocate(3, 2);
        assert_eq!((deallocate.opcode, deallocate.bytes), (0x09, 4096));
        assert_eq!(deallocate.dwords, [1, 4, 0, 0, 0, 0]);
        let list = ranges(&[(0x1_0000_0002, 5), (9, 1)]);
        assert_eq!(list[..16], [0, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(list[16..32], [0, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        assert!(list[32..].iter().all(|&byte| byte == 0));
        assert_eq!(MOST_RANGES * RANGE_BYTES, PAGE_BYTES);
    }
}
