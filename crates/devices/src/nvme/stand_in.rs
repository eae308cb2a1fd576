//! In a drive's place: does on a file what commands say, as far as their bytes in the ring say it,
//! through a ring whose entries are as large as those of NVMe commands; and refuses what it is told
//! to.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use block::{BlockDevice, Command, Data, DeviceInfo, DeviceKind, Limits, Reply};
use io_uring::{cqueue, opcode, squeue, types};
use units::{IoOp, Lifetime, Nanos};

use super::abi::{self, COMMAND_BYTES};
use super::identify::{CommandLimits, Controller, Namespace};
use super::status::Status;
use super::{CommandSet, Next, Nvme, Place};
use crate::content::is_nobodys;
use crate::real::{Opened, Real};

const CAPACITY: u64 = 1 << 20;
const SECTOR: u32 = 4096;

/// A drive with a volatile cache, Dataset Management and so many placement handles, numbered from
/// 0x10 on.
fn drive(handles: u16) -> Nvme {
    Nvme {
        number: 5,
        controller: Controller {
            model: "Stand-In".to_owned(),
            most_bytes: Some(64 << 10),
            has_volatile_cache: true,
            has_deallocate: true,
            has_write_zeroes: true,
            has_fdp: handles > 0,
        },
        namespace: Namespace {
            sectors: CAPACITY / u64::from(SECTOR),
            sector_shift: SECTOR.trailing_zeros(),
            deallocates_zeroes: true,
        },
        limits: CommandLimits::default(),
        placements: (0x10..0x10 + handles).collect(),
    }
}

/// The bytes of an entry, as the kernel reads them.
#[allow(unsafe_code, reason = "an entry has no other way to show them")]
fn bytes_of(entry: &squeue::Entry128) -> [u8; 128] {
    // SAFETY: it is 128 bytes of numbers.
    unsafe { std::mem::transmute_copy(entry) }
}

/// The command within an entry.
fn sent(entry: &squeue::Entry128) -> abi::Command {
    let bytes = bytes_of(entry);
    abi::Command::decode(bytes[48..48 + COMMAND_BYTES].try_into().unwrap())
}

/// The command and the registered buffer of an entry.
fn entry_of(nvme: &Nvme, command: &Command, place: Place, stream: u8) -> (abi::Command, [u8; 128]) {
    let entry = nvme.entry(command, place, stream);
    (sent(&entry), bytes_of(&entry))
}

#[derive(Default)]
struct Seen {
    commands: Vec<abi::Command>,
    /// The lists of Dataset Management: first sectors, and how many.
    ranges: Vec<(u64, u32)>,
    /// Results of the next reads and writes, which fail with them before any succeeds.
    refusals: VecDeque<i32>,
}

struct StandIn {
    nvme: Nvme,
    seen: Arc<Mutex<Seen>>,
    refused: i32,
}

impl CommandSet for StandIn {
    type Entry = squeue::Entry128;
    type Completion = cqueue::Entry32;

    fn goes_through_ring(&self, op: IoOp) -> bool {
        self.nvme.goes_through_ring(op)
    }

    fn list(&self, command: &Command) -> Data {
        self.nvme.list(command)
    }

    fn entry(&self, command: &Command, place: Place, stream: u8) -> squeue::Entry128 {
        let command = sent(&self.nvme.entry(command, place, stream));
        let mut seen = self.seen.lock().unwrap();
        seen.commands.push(command);
        if !seen.refusals.is_empty() && matches!(command.opcode, abi::READ | abi::WRITE) {
            return opcode::Nop::new().build().into();
        }
        let (file, address) = (types::Fixed(0), command.address as *mut u8);
        let first = u64::from(command.dwords[1]) << 32 | u64::from(command.dwords[0]);
        let offset = first * u64::from(SECTOR);
        let sectors = (command.dwords[2] & 0xffff) + 1;
        let punch = |offset, sectors: u32| {
            opcode::Fallocate::new(file, u64::from(sectors * SECTOR))
                .offset(offset)
                .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
                .build()
        };
        let done = match command.opcode {
            abi::READ => opcode::Read::new(file, address, command.bytes).offset(offset).build(),
            abi::WRITE => opcode::Write::new(file, address, command.bytes).offset(offset).build(),
            abi::FLUSH => opcode::Fsync::new(file).build(),
            abi::WRITE_ZEROES => punch(offset, sectors),
            abi::DATASET_MANAGEMENT => {
                let (first, sectors) = first_range(address);
                seen.ranges.push((first, sectors));
                punch(first * u64::from(SECTOR), sectors)
            }
            other => panic!("no such command: {other:#x}"),
        };
        done.into()
    }

    /// As the kernel ends calls on a file.
    fn success(&self, command: &Command) -> i32 {
        match command.op {
            IoOp::Read | IoOp::Write => command.length as i32,
            _ => self.nvme.success(command),
        }
    }

    fn do_by_call(&self, file: &File, command: &Command) -> io::Result<()> {
        self.nvme.do_by_call(file, command)
    }

    fn next(&mut self, command: &Command, result: i32) -> Next {
        assert_eq!(result, 0, "what the file does succeeds");
        self.refused = self.seen.lock().unwrap().refusals.pop_front().unwrap();
        self.nvme.next(command, self.refused)
    }

    fn status(&self, _: i32) -> Option<String> {
        self.nvme.status(self.refused)
    }
}

#[allow(unsafe_code, reason = "as a drive reads the memory of commands")]
fn first_range(list: *const u8) -> (u64, u32) {
    // SAFETY: the command names the place of its list, which is a page.
    let range = unsafe { list.cast::<[u8; 16]>().read() };
    (
        u64::from_le_bytes(range[8..].try_into().unwrap()),
        u32::from_le_bytes(range[4..8].try_into().unwrap()),
    )
}

/// A device whose drive is a file of zeros, and what the drive sees.
fn device(nvme: Nvme, holds_data: bool) -> (Real<StandIn>, File, Arc<Mutex<Seen>>) {
    let file = tempfile::tempfile().unwrap();
    file.set_len(CAPACITY).unwrap();
    let info = DeviceInfo {
        name: "stand-in".to_owned(),
        model: nvme.model(),
        kind: DeviceKind::File,
        limits: Limits { capacity_bytes: CAPACITY, sector_bytes: SECTOR, most_bytes: 64 << 10 },
        queue_depth: 4,
        is_read_only: false,
        has_trim: nvme.has_trim(),
        zeroing_bytes: None,
        is_virtual: false,
        holds_data,
    };
    let seen = Arc::<Mutex<Seen>>::default();
    let opened = Opened {
        info,
        file: file.try_clone().unwrap(),
        claim: Some(file.try_clone().unwrap()),
        is_loop: false,
        is_polled: false,
        hints: nvme.hints(),
    };
    let stand_in = StandIn { nvme, seen: seen.clone(), refused: 0 };
    (Real::new(opened, stand_in).unwrap(), file, seen)
}

fn done(device: &mut Real<StandIn>, command: Command) -> Reply {
    device.submit(command);
    let mut completed = Vec::new();
    while completed.is_empty() {
        device.wait(Nanos::MAX, &mut completed).unwrap();
    }
    completed.pop().unwrap().reply
}

fn write(offset: u64, byte: u8, lifetime: Lifetime) -> Command {
    let data = Data::copy_of(&[byte; SECTOR as usize]);
    Command { lifetime, ..Command::write(1, offset, data) }
}

#[test]
fn an_entry_is_a_command_to_the_device_of_a_ring() {
    let mut memory = [0_u8; 8];
    let place = Place { address: memory.as_mut_ptr(), registered: Some(9) };
    let mut read = Command::new(1, IoOp::Read, 8 * 4096, 3 * 4096);
    let (command, bytes) = entry_of(&drive(0), &read, place, 0);
    let expected = abi::Command::read(5, 8, 3);
    assert_eq!(command, abi::Command { address: place.address as u64, bytes: 12_288, ..expected });
    // IORING_OP_URING_CMD of a registered file, `cmd_op`, IORING_URING_CMD_FIXED, `buf_index`.
    assert_eq!((bytes[0], bytes[1]), (46, 1));
    assert_eq!(bytes[8..12], abi::URING_IO.to_ne_bytes());
    assert_eq!(bytes[28..32], 1_u32.to_ne_bytes());
    assert_eq!(bytes[40..42], 9_u16.to_ne_bytes());
    assert_eq!(bytes[48 + COMMAND_BYTES..], [0; 8]);
    read.op = IoOp::Write;
    let (command, bytes) = entry_of(&drive(0), &read, Place { registered: None, ..place }, 0);
    assert_eq!((command.opcode, command.bytes), (abi::WRITE, 12_288));
    assert_eq!(bytes[28..32], [0; 4], "no registered buffer");
}

/// Handle 0 is for those that say nothing, and needs no directive.
#[test]
fn lifetimes_become_placement_handles() {
    let place = Place { address: std::ptr::null_mut(), registered: None };
    let directives = |handles| {
        let nvme = drive(handles);
        let hints = nvme.hints();
        Lifetime::ALL.map(|lifetime| {
            assert!(!hints.has_to_be_told(lifetime), "no kernel keeps any");
            let write = write(0, 1, lifetime);
            let [_, _, control, specific, ..] =
                entry_of(&nvme, &write, place, hints.stream(lifetime)).0.dwords;
            assert_eq!(control >> 20, if specific > 0 { 2 } else { 0 }, "the directive's type");
            specific >> 16
        })
    };
    assert_eq!(directives(0), [0; 5]);
    assert_eq!(directives(1), [0; 5]);
    assert_eq!(directives(2), [0, 0x11, 0x11, 0x11, 0x11]);
    assert_eq!(directives(3), [0, 0x11, 0x12, 0x12, 0x12]);
    assert_eq!(directives(128), [0, 0x11, 0x12, 0x13, 0x14]);
}

#[test]
fn what_a_drive_has_not_is_not_asked_of_it() {
    let place = Place { address: std::ptr::null_mut(), registered: None };
    let mut simple = drive(0);
    assert_eq!(simple.model(), "Stand-In, NVMe passthrough");
    assert_eq!(drive(8).model(), "Stand-In, NVMe passthrough, 8 placement handles");
    simple.controller.has_deallocate = false;
    let trim = Command::new(1, IoOp::Trim, 4096, 1 << 31);
    assert!(simple.has_trim() && simple.list(&trim).is_absent());
    let (command, _) = entry_of(&simple, &trim, place, 0);
    assert_eq!((command.opcode, command.bytes), (abi::WRITE_ZEROES, 0));
    assert_eq!(command.dwords[..3], [1, 0, 0x0200_ffff], "as much as one command takes");
    simple.namespace.deallocates_zeroes = false;
    assert!(!simple.has_trim());
    let fua = Command { is_fua: true, ..write(0, 1, Lifetime::NotSet) };
    assert_eq!(entry_of(&simple, &fua, place, 0).0.dwords[2], 0x4000_0000);
    simple.controller.has_volatile_cache = false;
    assert_eq!(entry_of(&simple, &fua, place, 0).0.dwords[2], 0);
    assert!(!simple.goes_through_ring(IoOp::Flush) && simple.goes_through_ring(IoOp::Trim));
    simple.controller.most_bytes = None;
    assert_eq!(simple.most_bytes(), 65_536 * 4096);
}

#[test]
fn data_goes_through_the_ring_to_where_commands_say() {
    let (mut device, file, seen) = device(drive(5), true);
    assert!(device.shared().is_none(), "there is no page cache");
    let at = |offset| {
        let mut bytes = [0; SECTOR as usize];
        file.read_exact_at(&mut bytes, offset).unwrap();
        bytes
    };
    let kept = Command { is_fua: true, ..write(8192, 7, Lifetime::Long) };
    assert_eq!(done(&mut device, kept).outcome, Ok(Data::Absent));
    assert_eq!(at(8192), [7; SECTOR as usize]);
    done(&mut device, write(12_288, 8, Lifetime::NotSet)).outcome.unwrap();
    let read = done(&mut device, Command::new(2, IoOp::Read, 8192, 8192)).outcome.unwrap();
    assert_eq!(read.joined().unwrap()[4095..4097], [7, 8]);
    done(&mut device, Command::new(3, IoOp::Flush, 0, 0)).outcome.unwrap();
    done(&mut device, Command::new(4, IoOp::Trim, 8192, 4096)).outcome.unwrap();
    assert_eq!((at(8192), at(12_288)), ([0; SECTOR as usize], [8; SECTOR as usize]));
    let seen = seen.lock().unwrap();
    let opcodes: Vec<u8> = seen.commands.iter().map(|command| command.opcode).collect();
    let [flush, trim] = [abi::FLUSH, abi::DATASET_MANAGEMENT];
    assert_eq!(opcodes, [abi::WRITE, abi::WRITE, abi::READ, flush, trim]);
    assert_eq!(seen.commands[0].dwords, [2, 0, 0x4020_0000, 0x13 << 16, 0, 0]);
    assert_eq!(seen.commands[1].dwords, [3, 0, 0, 0, 0, 0]);
    assert_eq!(seen.ranges, [(2, 1)]);
}

#[test]
fn what_may_pass_is_sent_again_and_what_may_not_is_told() {
    let (mut device, _, seen) = device(drive(0), true);
    let read = || Command::new(1, IoOp::Read, 4096, 4096);
    seen.lock().unwrap().refusals = [0x0082, -libc::EINTR, 0x0082].into();
    done(&mut device, read()).outcome.unwrap();
    assert_eq!(seen.lock().unwrap().commands.len(), 4);
    seen.lock().unwrap().refusals = [0x4281].into();
    let told = done(&mut device, read()).outcome.unwrap_err().reason();
    assert_eq!(told, Status(0x4281).told());
    assert_eq!(seen.lock().unwrap().commands.len(), 5);
    seen.lock().unwrap().refusals = [-libc::EINVAL].into();
    let told = done(&mut device, read()).outcome.unwrap_err().reason();
    assert!(told.starts_with("no way leads to the drive any more"), "{told}");
    seen.lock().unwrap().refusals = [0x0082; 7].into();
    let told = done(&mut device, read()).outcome.unwrap_err().reason();
    assert_eq!(told, "the namespace is not ready (NVMe status 082h)");
    assert_eq!(seen.lock().unwrap().refusals.len(), 1, "sent once, and five times again");
}

#[test]
fn a_drive_without_a_cache_gets_no_flush() {
    let mut nvme = drive(0);
    nvme.controller.has_volatile_cache = false;
    let (mut device, _, seen) = device(nvme, true);
    done(&mut device, Command::new(1, IoOp::Flush, 0, 0)).outcome.unwrap();
    assert!(seen.lock().unwrap().commands.is_empty());
}

/// The list of a trim lies where the data of a write would.
#[test]
fn what_is_written_for_measurements_is_not_made_of_lists() {
    let (mut device, file, _) = device(drive(0), false);
    let mut bytes = [0; SECTOR as usize];
    for offset in [0, 4096, 8192] {
        done(&mut device, Command::new(1, IoOp::Trim, 0, 4096)).outcome.unwrap();
        done(&mut device, Command::new(2, IoOp::Write, offset, 4096)).outcome.unwrap();
        file.read_exact_at(&mut bytes, offset).unwrap();
        assert!(bytes.chunks(512).all(|piece| piece.iter().any(|&byte| byte != 0)));
        assert!(bytes.chunks(512).all(is_nobodys));
    }
}
