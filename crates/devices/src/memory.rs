//! Memory of this process as a block device, to measure what the way to a device costs.

use block::{
    BlockDevice, BlockError, Command, Completion, Data, DeviceInfo, DeviceKind, Limits, Reply,
};
use memmap2::{MmapMut, MmapOptions};
use registry::{Args, Info, Param, ParamKind};
use units::{IoOp, Nanos};

use crate::clock::Clock;
use crate::content::Content;
use crate::{Access, DeviceError, Opening};

/// How memory is named.
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
    bytes: MmapMut,
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
        let memory = MmapOptions::new().len(capacity_bytes as usize).no_reserve_swap().map_anon();
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
            is_virtual: false,
            holds_data: opening.holds_data,
        };
        let bytes = memory.map_err(|source| DeviceError::Open {
            name: info.name.clone(),
            action: "getting its memory",
            source,
        })?;
        Ok(Self { info, bytes, buffer, content, clock: Clock::start(), done: Vec::new() })
    }

    fn carry_out(&mut self, command: &Command) -> Data {
        let range = command.offset as usize..command.end() as usize;
        match command.op {
            IoOp::Read if self.info.holds_data => return Data::copy_of(&self.bytes[range]),
            IoOp::Read => self.buffer[..range.len()].copy_from_slice(&self.bytes[range]),
            IoOp::Write if self.info.holds_data => command.data.copy_to(&mut self.bytes[range]),
            IoOp::Write => {
                let data = &mut self.buffer[..range.len()];
                self.content.stamp(data);
                self.bytes[range].copy_from_slice(data);
            }
            IoOp::Trim => self.bytes[range].fill(0),
            IoOp::Flush => {}
        }
        Data::Absent
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
}
