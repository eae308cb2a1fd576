//! Devices that carry out a command when it is submitted, in time that passes only while somebody
//! waits.

use rustc_hash::FxHashMap;
use units::{IoOp, Nanos};

use crate::{
    BlockDevice, BlockError, Command, Completion, Data, DeviceInfo, DeviceKind, Failure, Limits,
    Reply,
};

/// Devices that carry out one command after the other.
pub trait Serve: Send {
    /// Limits of the commands.
    fn limits(&self) -> Limits;

    /// Carries out a command, and gives the data of a read.
    ///
    /// # Errors
    /// [`Failure`] of the command.
    fn serve(&mut self, command: &Command) -> Result<Data, Failure>;
}

/// Bytes in memory: those that were written, and zeros elsewhere. Takes memory only for what was
/// written, whatever the capacity.
#[derive(Clone, Debug)]
pub struct Sparse {
    limits: Limits,
    sectors: FxHashMap<u64, Box<[u8]>>,
}

impl Sparse {
    /// A device full of zeros.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, sectors: FxHashMap::default() }
    }

    fn numbers(&self, offset: u64, length: usize) -> std::ops::Range<u64> {
        let sector = u64::from(self.limits.sector_bytes);
        offset / sector..offset / sector + length as u64 / sector
    }

    fn read(&self, offset: u64, to: &mut [u8]) {
        let numbers = self.numbers(offset, to.len());
        for (number, part) in numbers.zip(to.chunks_mut(self.limits.sector_bytes as usize)) {
            match self.sectors.get(&number) {
                Some(bytes) => part.copy_from_slice(bytes),
                None => part.fill(0),
            }
        }
    }

    fn write(&mut self, offset: u64, from: &[u8]) {
        let numbers = self.numbers(offset, from.len());
        for (number, part) in numbers.zip(from.chunks(self.limits.sector_bytes as usize)) {
            self.sectors.insert(number, part.into());
        }
    }
}

impl Serve for Sparse {
    fn limits(&self) -> Limits {
        self.limits
    }

    /// Trimmed bytes read as zeros.
    fn serve(&mut self, command: &Command) -> Result<Data, Failure> {
        match command.op {
            IoOp::Read => {
                let mut bytes = vec![0; command.length as usize];
                self.read(command.offset, &mut bytes);
                return Ok(Data::Whole(bytes.into()));
            }
            IoOp::Write => self.write(command.offset, &command.data.joined().unwrap_or_default()),
            IoOp::Trim => {
                for number in self.numbers(command.offset, command.length as usize) {
                    self.sectors.remove(&number);
                }
            }
            IoOp::Flush => {}
        }
        Ok(Data::Absent)
    }
}

/// A device that holds data and takes no time: for volumes that are made or inspected in memory,
/// and for tests.
#[derive(Clone, Debug)]
pub struct Immediate<S> {
    inner: S,
    info: DeviceInfo,
    now: Nanos,
    done: Vec<Completion>,
}

impl<S: Serve> Immediate<S> {
    /// A device that is called `memory`.
    #[must_use]
    pub fn new(inner: S) -> Self {
        let info = DeviceInfo {
            name: "memory".to_owned(),
            model: String::new(),
            kind: DeviceKind::Memory,
            limits: inner.limits(),
            queue_depth: 1 << 16,
            is_read_only: false,
            has_trim: true,
            zeroing_bytes: None,
            is_virtual: true,
            holds_data: true,
        };
        Self { inner, info, now: 0, done: Vec::new() }
    }
}

impl<S> std::ops::Deref for Immediate<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.inner
    }
}

impl<S> std::ops::DerefMut for Immediate<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.inner
    }
}

impl Immediate<Sparse> {
    /// A device full of zeros.
    #[must_use]
    pub fn sparse(limits: Limits) -> Self {
        let mut device = Self::new(Sparse::new(limits));
        device.info.zeroing_bytes = Some(limits.sector_bytes);
        device
    }
}

impl<S: Serve> BlockDevice for Immediate<S> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&mut self) -> Nanos {
        self.now
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
        let outcome = refused.map_or_else(|| self.inner.serve(&command), Err);
        let reply = Reply { id: command.id, outcome };
        self.done.push(Completion { reply, submitted_at: self.now, completed_at: self.now });
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        assert!(until < Nanos::MAX || self.outstanding() > 0, "something is waited for");
        if self.done.is_empty() {
            self.now = self.now.max(until);
        }
        completed.append(&mut self.done);
        Ok(())
    }
}
