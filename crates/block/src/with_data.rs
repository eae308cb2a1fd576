//! Data in memory beside a device that holds none.

use rustc_hash::FxHashMap;
use units::{IoOp, Nanos};

use crate::{
    BlockDevice, BlockError, Command, Completion, Data, DeviceInfo, Serve, Signal, Sparse,
    Telemetry,
};

/// A device that holds no data, such as a simulated drive, with the bytes kept in memory beside it:
/// commands take the device's time, and reads return what was written. Bytes take effect when their
/// command is submitted, which the contract allows.
pub struct WithData<D> {
    device: D,
    info: DeviceInfo,
    bytes: Sparse,
    /// Data of the reads under way, by command number.
    reads: FxHashMap<u32, Data>,
    completed: Vec<Completion>,
}

impl<D: BlockDevice> WithData<D> {
    /// A device full of zeros.
    ///
    /// # Panics
    /// If the device holds data itself.
    #[must_use]
    pub fn new(device: D) -> Self {
        assert!(!device.info().holds_data, "{} holds data itself", device.info().name);
        let mut info = DeviceInfo { holds_data: true, ..device.info().clone() };
        // The bytes do not depend on the inner device's trims: trimmed bytes always become zeros.
        info.zeroing_bytes = info.has_trim.then_some(info.limits.sector_bytes);
        let bytes = Sparse::new(info.limits);
        Self { device, info, bytes, reads: FxHashMap::default(), completed: Vec::new() }
    }
}

impl<D: BlockDevice> BlockDevice for WithData<D> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&mut self) -> Nanos {
        self.device.now()
    }

    fn outstanding(&self) -> u32 {
        self.device.outstanding()
    }

    fn submit(&mut self, command: Command) {
        if self.info.refuses(&command).is_none()
            && let Ok(data) = self.bytes.serve(&command)
            && command.op == IoOp::Read
        {
            self.reads.insert(command.id, data);
        }
        self.device.submit(Command { data: Data::Absent, ..command });
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        let waited = self.device.wait(until, &mut self.completed);
        completed.extend(self.completed.drain(..).map(|mut completion| {
            let data = self.reads.remove(&completion.reply.id);
            if let (Some(data), Ok(brought)) = (data, &mut completion.reply.outcome) {
                *brought = data;
            }
            completion
        }));
        waited
    }

    fn telemetry(&self) -> Telemetry {
        self.device.telemetry()
    }

    fn signal(&mut self, signal: Signal) {
        self.device.signal(signal);
    }
}
