//! A part of a device, taken for a device.

use std::sync::Arc;

use units::{IoOp, Nanos};

use crate::shared::SharedPart;
use crate::{
    BlockDevice, BlockError, Command, Completion, DeviceInfo, Extent, SharedBytes, Signal,
    Telemetry, Waker,
};

/// Bytes of a device from an offset on, as a device that begins at byte 0: what layers are put on,
/// where they may not have all of it.
pub struct Part<D> {
    device: D,
    offset: u64,
    info: DeviceInfo,
}

impl<D: BlockDevice> Part<D> {
    /// So many bytes of a device from an offset on.
    ///
    /// # Panics
    /// If they are not of whole sectors, none, or not all on the device.
    #[must_use]
    pub fn new(device: D, offset: u64, length: u64) -> Self {
        let mut info = device.info().clone();
        let sector = u64::from(info.limits.sector_bytes);
        let end = offset.checked_add(length).expect("an end of 64 bits");
        assert!(
            length > 0
                && end <= info.limits.capacity_bytes
                && offset.is_multiple_of(sector)
                && length.is_multiple_of(sector),
            "{length} bytes from {offset} on are no whole sectors of a device of {} bytes",
            info.limits.capacity_bytes
        );
        info.limits.capacity_bytes = length;
        let is_aligned = |bytes: &u32| offset.is_multiple_of(u64::from(*bytes));
        info.zeroing_bytes = info.zeroing_bytes.filter(is_aligned);
        Self { device, offset, info }
    }

    /// The same in sectors of so many bytes, which a power cut may tear where they are longer than
    /// the device's.
    ///
    /// # Panics
    /// If they are not whole sectors of the device, or the part is not whole ones of them.
    #[must_use]
    pub fn in_sectors_of(mut self, sector_bytes: u32) -> Self {
        let limits = &mut self.info.limits;
        assert!(
            sector_bytes.is_multiple_of(limits.sector_bytes)
                && limits.capacity_bytes.is_multiple_of(u64::from(sector_bytes)),
            "{} bytes in sectors of {} are no whole sectors of {sector_bytes}",
            limits.capacity_bytes,
            limits.sector_bytes
        );
        limits.sector_bytes = sector_bytes;
        limits.most_bytes = (limits.most_bytes / sector_bytes * sector_bytes).max(sector_bytes);
        self.info.zeroing_bytes = self.info.zeroing_bytes.map(|bytes| bytes.max(sector_bytes));
        self
    }

    /// The whole device again.
    pub fn into_inner(self) -> D {
        self.device
    }
}

impl<D: BlockDevice> BlockDevice for Part<D> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&mut self) -> Nanos {
        self.device.now()
    }

    fn outstanding(&self) -> u32 {
        self.device.outstanding()
    }

    fn submit(&mut self, mut command: Command) {
        command.check(self.info.limits);
        if command.op != IoOp::Flush {
            command.offset += self.offset;
        }
        self.device.submit(command);
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        self.device.wait(until, completed)
    }

    fn telemetry(&self) -> Telemetry {
        self.device.telemetry()
    }

    fn extent(&mut self, offset: u64, length: u64) -> Extent {
        self.device.extent(self.offset + offset, length)
    }

    fn signal(&mut self, signal: Signal) {
        self.device.signal(signal);
    }

    fn waker(&mut self) -> Option<Waker> {
        self.device.waker()
    }

    fn shared(&mut self) -> Option<Arc<dyn SharedBytes>> {
        let whole = self.device.shared()?;
        Some(Arc::new(SharedPart { whole, offset: self.offset }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Data, Failure, Immediate, Limits, Serve};

    /// Keeps what it is sent.
    struct Noting(Vec<(IoOp, u64, u32)>);

    impl Serve for Noting {
        fn limits(&self) -> Limits {
            Limits { capacity_bytes: 32 << 10, sector_bytes: 512, most_bytes: 8192 }
        }

        fn serve(&mut self, command: &Command) -> Result<Data, Failure> {
            self.0.push((command.op, command.offset, command.length));
            Ok(Data::Absent)
        }
    }

    #[test]
    fn commands_are_moved_to_where_the_part_is() {
        let mut device = Immediate::new(Noting(Vec::new()));
        let mut part = Part::new(&mut device, 8192, 4096);
        assert_eq!(part.info().limits.capacity_bytes, 4096);
        part.submit(Command::write(1, 3584, Data::zeros(512)));
        part.submit(Command::new(2, IoOp::Read, 0, 4096));
        part.submit(Command::new(3, IoOp::Flush, 0, 0));
        let mut done = Vec::new();
        part.wait(Nanos::MAX, &mut done).unwrap();
        assert_eq!(done.len(), 3);
        assert_eq!(
            device.0,
            [(IoOp::Write, 11_776, 512), (IoOp::Read, 8192, 4096), (IoOp::Flush, 0, 0)]
        );
    }

    #[test]
    fn its_sectors_may_be_several_of_the_device() {
        let mut device = Immediate::new(Noting(Vec::new()));
        let part = Part::new(&mut device, 8192, 8192).in_sectors_of(4096);
        let limits = Limits { capacity_bytes: 8192, sector_bytes: 4096, most_bytes: 8192 };
        assert_eq!(part.info().limits, limits);
    }

    #[test]
    #[should_panic(expected = "not within 4096 bytes")]
    fn nothing_behind_it_is_reached() {
        let mut device = Immediate::new(Noting(Vec::new()));
        Part::new(&mut device, 8192, 4096).submit(Command::write(1, 3584, Data::zeros(1024)));
    }
}
