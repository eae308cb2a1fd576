//! Commands of a device as entries of a ring, and the meaning of their results.

use std::fs::File;
use std::io;

use block::{Command, Data, DeviceInfo, DeviceKind};
use io_uring::{cqueue, opcode, squeue, types};
use units::IoOp;

use crate::buffers::Place;
use crate::control;

/// `BLOCK_URING_CMD_DISCARD` of `linux/blkdev.h`.
const DISCARD_COMMAND: u32 = 0x1200;

/// Set of commands that a device understands. Its file is the ring's registered file 0.
pub(crate) trait CommandSet: Send {
    /// Entry of the submission queue.
    type Entry: squeue::EntryMarker;
    /// Entry of the completion queue.
    type Completion: cqueue::EntryMarker;

    /// Returns true if the ring takes such a command; otherwise a call does it, which blocks.
    fn goes_through_ring(&self, op: IoOp) -> bool;

    /// Gives the list that the device reads with a command that has no data of its own.
    fn list(&self, command: &Command) -> Data {
        let _ = command;
        Data::Absent
    }

    /// The command, with the place that its data or list has, and the stream of what it writes; 0
    /// is none.
    fn entry(&self, command: &Command, place: Place, stream: u8) -> Self::Entry;

    /// The result of a command that simply succeeded.
    fn success(&self, command: &Command) -> i32;

    /// Does a command that the ring does not take.
    fn do_by_call(&self, file: &File, command: &Command) -> io::Result<()>;

    /// Decides on a command with any other result.
    fn next(&mut self, command: &Command, result: i32) -> Next;

    /// Gives the device's status in words, if a result is none of the kernel's errors.
    fn status(&self, result: i32) -> Option<String> {
        let _ = result;
        None
    }
}

/// Next step for a command that did not simply succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It is sent again: nothing was tried yet.
    Again,
    /// It is sent again a few times: its failure may pass.
    Retry,
    /// It is done by a call that blocks.
    ByCall,
    /// It has failed.
    Fail,
}

/// Commands of a block device or file, as calls of the kernel.
///
/// A polled device asks the hardware for completions instead of sleeping until an interrupt;
/// flushes and trims are not possible there and are done by calls that block. So are trims of block
/// devices before Linux 6.12.
#[derive(Debug)]
pub(crate) struct KernelCommands {
    /// Trims are discards, and promise nothing; otherwise they make holes, which read as zeros.
    discards: bool,
    is_polled: bool,
    /// The kernel takes trims of block devices through the ring.
    can_ring_trim: bool,
}

impl KernelCommands {
    pub fn new(info: &DeviceInfo, is_polled: bool) -> Self {
        let is_block = info.kind == DeviceKind::BlockDevice;
        Self {
            discards: is_block && info.zeroing_bytes.is_none(),
            is_polled,
            can_ring_trim: !is_block || !is_polled,
        }
    }
}

impl CommandSet for KernelCommands {
    type Entry = squeue::Entry;
    type Completion = cqueue::Entry;

    fn goes_through_ring(&self, op: IoOp) -> bool {
        match op {
            IoOp::Read | IoOp::Write => true,
            IoOp::Flush => !self.is_polled,
            IoOp::Trim => self.can_ring_trim,
        }
    }

    fn entry(&self, command: &Command, place: Place, stream: u8) -> squeue::Entry {
        let Command { op, offset, length, is_fua, .. } = *command;
        let file = types::Fixed(0);
        let flags = if is_fua { libc::RWF_DSYNC } else { 0 };
        match (op, place.registered) {
            (IoOp::Read, Some(buffer)) => {
                opcode::ReadFixed::new(file, place.address, length, buffer).offset(offset).build()
            }
            (IoOp::Read, None) => {
                opcode::Read::new(file, place.address, length).offset(offset).build()
            }
            (IoOp::Write, Some(buffer)) => {
                opcode::WriteFixed::new(file, place.address, length, buffer)
                    .offset(offset)
                    .rw_flags(flags)
                    .write_stream(stream)
                    .build()
            }
            (IoOp::Write, None) => {
                let write = opcode::Write::new(file, place.address, length).offset(offset);
                write.rw_flags(flags).write_stream(stream).build()
            }
            (IoOp::Flush, _) => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build(),
            (IoOp::Trim, _) if self.discards => {
                let mut range = [0; 16];
                range[..8].copy_from_slice(&u64::from(length).to_ne_bytes());
                opcode::UringCmd16::new(file, DISCARD_COMMAND).addr(Some(offset)).cmd(range).build()
            }
            (IoOp::Trim, _) => opcode::Fallocate::new(file, u64::from(length))
                .offset(offset)
                .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
                .build(),
        }
    }

    fn success(&self, command: &Command) -> i32 {
        match command.op {
            IoOp::Read | IoOp::Write => command.length as i32,
            IoOp::Flush | IoOp::Trim => 0,
        }
    }

    fn do_by_call(&self, file: &File, command: &Command) -> io::Result<()> {
        let (offset, length) = (command.offset, u64::from(command.length));
        match command.op {
            IoOp::Flush => file.sync_data(),
            _ if self.discards => control::discard(file, offset, length),
            _ => control::punch_hole(file, offset, length),
        }
    }

    fn next(&mut self, command: &Command, result: i32) -> Next {
        match -result {
            libc::EAGAIN | libc::EINTR => Next::Again,
            libc::EOPNOTSUPP | libc::EINVAL
                if command.op == IoOp::Trim && self.discards && self.can_ring_trim =>
            {
                self.can_ring_trim = false;
                Next::ByCall
            }
            _ => Next::Fail,
        }
    }
}
