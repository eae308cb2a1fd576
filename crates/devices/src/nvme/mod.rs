//! A namespace of an NVMe drive past the block layer: its own commands, through io_uring on its
//! character device (`/dev/ngXnY`, Linux 5.19 or newer).
//!
//! So each write gets its placement handle of a drive with Flexible Data Placement (FDP) on kernels
//! whose block layer has none (before 6.16). What may be written, and what is in use, is a matter
//! of the block device of the same namespace, which is held meanwhile (`open/nvme.rs`).
//!
//! None of it was run on a real drive: the machine that it was developed on has none. So what can
//! be told without one is apart (`abi.rs`, `identify.rs`, `status.rs`), and tested; and a stand-in
//! does on a file what the commands say (`stand_in.rs`).

mod abi;
mod ask;
mod identify;
#[cfg(test)]
mod stand_in;
mod status;

use std::fs::File;
use std::io;

use block::{Command, Data};
use io_uring::{cqueue, opcode, squeue, types};
use units::IoOp;

use crate::buffers::Place;
use crate::command_set::{CommandSet, Next};
use crate::hints::Hints;

pub(crate) use ask::ask;

use identify::{CommandLimits, Controller, Namespace};
use status::Status;

/// A namespace, as it and its controller say what they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nvme {
    number: u32,
    controller: Controller,
    namespace: Namespace,
    limits: CommandLimits,
    /// Placement identifiers by placement handle; empty where FDP is not enabled.
    placements: Vec<u16>,
}

impl Nvme {
    /// Bytes of a sector.
    pub const fn sector_bytes(&self) -> u32 {
        1 << self.namespace.sector_shift
    }

    pub const fn capacity_bytes(&self) -> u64 {
        self.namespace.capacity_bytes()
    }

    /// Longest read or write in bytes, by the controller and by the number of sectors that a
    /// command has room for.
    pub fn most_bytes(&self) -> u64 {
        let countable = u64::from(abi::MOST_SECTORS) << self.namespace.sector_shift;
        self.controller.most_bytes.map_or(countable, |most| most.min(countable))
    }

    /// Returns true if trims have an effect.
    pub const fn has_trim(&self) -> bool {
        self.controller.has_deallocate || self.trims_by_zeroes()
    }

    /// Returns true if zeros are a valid content of a trimmed sector.
    const fn trims_by_zeroes(&self) -> bool {
        self.controller.has_write_zeroes && self.namespace.deallocates_zeroes
    }

    /// Gives the model of the drive, and its number of placement handles, in words.
    pub fn model(&self) -> String {
        let handles = match self.placements.len() {
            0 => String::new(),
            handles => format!(", {handles} placement handles"),
        };
        format!("{}, NVMe passthrough{handles}", self.controller.model)
    }

    /// Streams of writes, from 1 on, are placement handles. Handle 0 is for writes of which nobody
    /// says how long they live: the drive takes it for those that come without the directive (Base,
    /// 8.1.8.4), so none is sent, and no hint has to share with them where there are other handles.
    pub fn hints(&self) -> Hints {
        match self.placements.len() {
            0 | 1 => Hints::dropped(),
            handles => Hints::new(u8::try_from(handles - 1).unwrap_or(u8::MAX)),
        }
    }

    fn command(&self, command: &Command, place: Place, stream: u8) -> abi::Command {
        let shift = self.namespace.sector_shift;
        let (first, sectors) = (command.offset >> shift, command.length >> shift);
        let at = |asked: abi::Command, bytes| abi::Command {
            address: place.address as u64,
            bytes,
            ..asked
        };
        match command.op {
            IoOp::Read => at(abi::Command::read(self.number, first, sectors), command.length),
            IoOp::Write => {
                // Without a volatile cache it is durable in any case.
                let is_fua = command.is_fua && self.controller.has_volatile_cache;
                let handle = (stream > 0).then(|| self.placements[usize::from(stream)]);
                let write = abi::Command::write(self.number, first, sectors, is_fua, handle);
                at(write, command.length)
            }
            IoOp::Flush => abi::Command::flush(self.number),
            IoOp::Trim if self.controller.has_deallocate => {
                let ranges = self.limits.ranges(first, sectors.into()).len() as u32;
                let deallocate = abi::Command::deallocate(self.number, ranges);
                at(deallocate, deallocate.bytes)
            }
            IoOp::Trim => {
                // What does not fit into one command stays as it was, which a trim may leave.
                let most = (self.limits.zeroed_bytes() >> shift).min(abi::MOST_SECTORS.into());
                let zeroed = u64::from(sectors).min(most) as u32;
                abi::Command::write_zeroes(self.number, first, zeroed)
            }
        }
    }
}

impl CommandSet for Nvme {
    type Entry = squeue::Entry128;
    type Completion = cqueue::Entry32;

    fn goes_through_ring(&self, op: IoOp) -> bool {
        op != IoOp::Flush || self.controller.has_volatile_cache
    }

    fn list(&self, command: &Command) -> Data {
        if command.op != IoOp::Trim || !self.controller.has_deallocate {
            return Data::Absent;
        }
        let shift = self.namespace.sector_shift;
        let ranges = self.limits.ranges(command.offset >> shift, (command.length >> shift).into());
        Data::copy_of(&abi::ranges(&ranges))
    }

    fn entry(&self, command: &Command, place: Place, stream: u8) -> squeue::Entry128 {
        let mut whole = [0; 80];
        whole[..abi::COMMAND_BYTES].copy_from_slice(&self.command(command, place, stream).encode());
        opcode::UringCmd80::new(types::Fixed(0), abi::URING_IO)
            .buf_index(place.registered)
            .cmd(whole)
            .build()
    }

    fn success(&self, _: &Command) -> i32 {
        0
    }

    /// A flush of a drive without a volatile cache: there is nothing to do.
    fn do_by_call(&self, _: &File, _: &Command) -> io::Result<()> {
        Ok(())
    }

    fn next(&mut self, _: &Command, result: i32) -> Next {
        match Status::of(result) {
            Some(status) if status.may_pass() => Next::Retry,
            Some(_) => Next::Fail,
            // The kernel cancels commands when it resets the controller.
            None if matches!(-result, libc::EAGAIN | libc::EINTR) => Next::Again,
            None => Next::Fail,
        }
    }

    fn status(&self, result: i32) -> Option<String> {
        // The kernel says so of a drive with several ways to it (multipath, which is what most are
        // to it) when the last one is gone; its block device is still there then.
        let no_way = "no way leads to the drive any more, or the kernel takes no such command";
        match Status::of(result) {
            Some(status) => Some(status.told()),
            None => (-result == libc::EINVAL).then(|| no_way.to_owned()),
        }
    }
}
