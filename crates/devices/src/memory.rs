//! Memory of this process as a block device, to measure what the way to a device costs.

use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use block::{
    BlockDevice, BlockError, Command, Completion, Data, DeviceInfo, DeviceKind, Failure, Limits,
    Reply, SharedBytes,
};
use bytes::BytesMut;
use registry::{Args, Info, Param, ParamKind};
use units::{IoOp, Nanos};

use crate::clock::Clock;
use crate::content::Content;
use crate::{Access, DeviceError, Opening};

/// Entry of the memory device in the registry: name, parameters, source.
pub(crate) const INFO: Info = Info {
    name: "memory",
    aliases: &[],
    summary: "memory of this process: what the way to a device costs without a device",
    source: "",
    params: &[
        Param {
            name: "bytes",
            kind: ParamKind::Bytes { min: 512, max: 1 << 40 },
            default: "1Gi",
            help: "capacity: whole sectors",
        },
        Param {
            name: "sector",
            kind: ParamKind::Bytes { min: 512, max: 65_536 },
            default: "512",
            help: "bytes of a sector: a power of two",
        },
    ],
};

/// A device that copies at once whatever is submitted, in real time: the copy is part of
/// [`BlockDevice::submit`], and the command is completed at the next [`BlockDevice::wait`]. What
/// was never written is zero and takes no memory.
pub struct Memory {
    info: DeviceInfo,
    bytes: Arc<Bytes>,
    buffer: Vec<u8>,
    content: Content,
    clock: Clock,
    done: Vec<Completion>,
}

impl Memory {
    pub(crate) fn open(opening: &Opening, args: &Args) -> Result<Self, DeviceError> {
        let wrong = |reason: String| DeviceError::Spec { name: opening.spec.clone(), reason };
        let (capacity_bytes, sector) = (args.integer("bytes"), args.integer("sector") as u32);
        if !sector.is_power_of_two() || !capacity_bytes.is_multiple_of(u64::from(sector)) {
            return Err(wrong(format!(
                "{capacity_bytes} bytes are not of whole sectors of {sector}, or {sector} is not a \
                 power of two"
            )));
        }
        let most_bytes = opening.most_bytes.max(sector).next_multiple_of(sector);
        let mut content = Content::new(1);
        let mut buffer = vec![0; most_bytes as usize];
        content.fill(&mut buffer);
        let info = DeviceInfo {
            name: opening.spec.clone(),
            model: String::new(),
            kind: DeviceKind::Memory,
            limits: Limits { capacity_bytes, sector_bytes: sector, most_bytes },
            queue_depth: opening.queue_depth,
            is_read_only: opening.access == Access::ReadOnly,
            has_trim: true,
            zeroing_bytes: Some(sector),
            is_virtual: false,
            holds_data: opening.holds_data,
        };
        let bytes = Arc::new(Bytes::new(capacity_bytes));
        Ok(Self { info, bytes, buffer, content, clock: Clock::start(), done: Vec::new() })
    }

    fn carry_out(&mut self, command: &Command) -> Data {
        let (offset, length) = (command.offset, command.length as usize);
        match command.op {
            IoOp::Read if self.info.holds_data => {
                let mut bytes = BytesMut::zeroed(length);
                self.bytes.read(offset, &mut bytes);
                return Data::Whole(bytes.freeze());
            }
            IoOp::Read => self.bytes.read(offset, &mut self.buffer[..length]),
            IoOp::Write if self.info.holds_data => {
                let mut at = offset;
                for piece in command.data.pieces() {
                    self.bytes.write(at, piece);
                    at += piece.len() as u64;
                }
            }
            IoOp::Write => {
                let data = &mut self.buffer[..length];
                self.content.stamp(data);
                self.bytes.write(offset, data);
            }
            IoOp::Trim => self.bytes.zero(offset, u64::from(command.length)),
            IoOp::Flush => {}
        }
        Data::Absent
    }
}

/// Bytes of a piece.
const PIECE: u64 = 1 << 20;

/// A piece takes no memory until it is written to.
type Piece = RwLock<Option<Box<[u8]>>>;

/// Bytes of which each piece has a lock of its own.
struct Bytes {
    pieces: Box<[Piece]>,
}

impl Bytes {
    fn new(capacity: u64) -> Self {
        Self { pieces: (0..capacity.div_ceil(PIECE)).map(|_| RwLock::default()).collect() }
    }

    /// The pieces that a range touches: which, and the range's bytes within each.
    fn within(&self, offset: u64, length: u64) -> impl Iterator<Item = (&Piece, Range<usize>)> {
        let end = offset + length;
        (offset / PIECE..end.div_ceil(PIECE)).map(move |number| {
            let (first, last) = (number * PIECE, (number + 1) * PIECE);
            let range = (offset.max(first) - first) as usize..(end.min(last) - first) as usize;
            (&self.pieces[number as usize], range)
        })
    }

    fn read(&self, offset: u64, mut bytes: &mut [u8]) {
        for (piece, range) in self.within(offset, bytes.len() as u64) {
            let (into, rest) = bytes.split_at_mut(range.len());
            match &*piece.read().unwrap_or_else(PoisonError::into_inner) {
                Some(held) => into.copy_from_slice(&held[range]),
                None => into.fill(0),
            }
            bytes = rest;
        }
    }

    fn write(&self, offset: u64, mut bytes: &[u8]) {
        for (piece, range) in self.within(offset, bytes.len() as u64) {
            let (from, rest) = bytes.split_at(range.len());
            let mut held = piece.write().unwrap_or_else(PoisonError::into_inner);
            let held = held.get_or_insert_with(|| vec![0; PIECE as usize].into_boxed_slice());
            held[range].copy_from_slice(from);
            bytes = rest;
        }
    }

    fn zero(&self, offset: u64, length: u64) {
        for (piece, range) in self.within(offset, length) {
            let mut held = piece.write().unwrap_or_else(PoisonError::into_inner);
            if range.len() as u64 == PIECE {
                *held = None;
            } else if let Some(held) = &mut *held {
                held[range].fill(0);
            }
        }
    }
}

/// The part of the device that any thread may use by itself.
struct Shared {
    bytes: Arc<Bytes>,
    info: DeviceInfo,
}

impl Shared {
    fn check(&self, op: IoOp, offset: u64, length: u64) -> Result<(), Failure> {
        if !self.info.is_read_only {
            return Ok(());
        }
        let length = length.min(u64::from(u32::MAX)) as u32;
        Err(Failure::Io { op, offset, length, reason: "it was opened for reading only".into() })
    }
}

impl SharedBytes for Shared {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Failure> {
        self.bytes.read(offset, bytes);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8], _is_fua: bool) -> Result<(), Failure> {
        self.check(IoOp::Write, offset, bytes.len() as u64)?;
        self.bytes.write(offset, bytes);
        Ok(())
    }

    fn trim(&self, offset: u64, length: u64) -> Result<(), Failure> {
        self.check(IoOp::Trim, offset, length)?;
        self.bytes.zero(offset, length);
        Ok(())
    }

    fn flush(&self) -> Result<(), Failure> {
        Ok(())
    }
}

impl BlockDevice for Memory {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&mut self) -> Nanos {
        self.clock.now()
    }

    fn outstanding(&self) -> u32 {
        self.done.len() as u32
    }

    fn submit(&mut self, command: Command) {
        let refused = self.info.refuses(&command);
        assert!(
            self.outstanding() < self.info.queue_depth,
            "at most {} commands are outstanding",
            self.info.queue_depth
        );
        let submitted_at = self.clock.now();
        let outcome = refused.map_or_else(|| Ok(self.carry_out(&command)), Err);
        self.done.push(Completion {
            reply: Reply { id: command.id, outcome },
            submitted_at,
            completed_at: self.clock.now(),
        });
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        assert!(until < Nanos::MAX || self.outstanding() > 0, "something is waited for");
        if self.done.is_empty() {
            self.clock.sleep_until(until);
        }
        completed.append(&mut self.done);
        Ok(())
    }

    fn shared(&mut self) -> Option<Arc<dyn SharedBytes>> {
        let bytes = self.bytes.clone();
        self.info.holds_data.then(|| Arc::new(Shared { bytes, info: self.info.clone() }) as _)
    }
}
