//! A device that is looked at and not changed: what is written stays in memory.

use block::{BlockDevice, Command, Data, Failure, Limits, Serve, Sparse, Store};
use rustc_hash::FxHashSet;
use units::IoOp;

/// Reads what is below, but for what was written here, which is kept in memory sector by sector.
/// A stack that is opened above it recovers what it finds as it would on the device, and the
/// device stays as it was.
pub struct Overlay<'a> {
    below: Store<'a>,
    limits: Limits,
    written: Sparse,
    /// Sectors that were written or trimmed here, by number.
    changed: FxHashSet<u64>,
}

impl<'a> Overlay<'a> {
    /// Over a device that holds data.
    pub fn new(below: &'a mut dyn BlockDevice) -> Self {
        let limits = below.info().limits;
        Self {
            below: Store::new(below),
            limits,
            written: Sparse::new(limits),
            changed: FxHashSet::default(),
        }
    }

    /// Sectors that differ, or may, from those on the device.
    pub fn changed_sectors(&self) -> u64 {
        self.changed.len() as u64
    }

    fn sectors(&self, command: &Command) -> std::ops::Range<u64> {
        let sector = u64::from(self.limits.sector_bytes);
        command.offset / sector..command.end() / sector
    }

    fn read(&mut self, command: &Command) -> Result<Data, Failure> {
        let mut bytes = vec![0; command.length as usize];
        self.below.read(command.offset, &mut bytes)?;
        let sector = self.limits.sector_bytes;
        for (place, number) in self.sectors(command).enumerate() {
            if self.changed.contains(&number) {
                let own = Command::new(0, IoOp::Read, number * u64::from(sector), sector);
                let from = place * sector as usize;
                self.written.serve(&own)?.copy_to(&mut bytes[from..from + sector as usize]);
            }
        }
        Ok(Data::Whole(bytes.into()))
    }
}

/// A device, and behind it what is missing, of which every read fails.
pub struct Missing<'a> {
    below: Store<'a>,
    there: Limits,
    missing_bytes: u64,
}

impl<'a> Missing<'a> {
    /// With so many bytes missing, or none.
    pub fn new(below: &'a mut dyn BlockDevice, missing_bytes: u64) -> Self {
        let there = below.info().limits;
        Self { below: Store::new(below), there, missing_bytes }
    }
}

impl Serve for Missing<'_> {
    fn limits(&self) -> Limits {
        let capacity_bytes = self.there.capacity_bytes + self.missing_bytes;
        Limits { capacity_bytes, ..self.there }
    }

    fn serve(&mut self, command: &Command) -> Result<Data, Failure> {
        if command.end() > self.there.capacity_bytes {
            return Err(command.failed("the staging device is missing"));
        }
        let mut bytes = vec![0; command.length as usize];
        match command.op {
            IoOp::Read => self.below.read(command.offset, &mut bytes)?,
            IoOp::Write | IoOp::Trim | IoOp::Flush => {
                return Err(command.failed("it is only looked at"));
            }
        }
        Ok(Data::Whole(bytes.into()))
    }
}

impl Serve for Overlay<'_> {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn serve(&mut self, command: &Command) -> Result<Data, Failure> {
        match command.op {
            IoOp::Read => self.read(command),
            IoOp::Flush => Ok(Data::Absent),
            IoOp::Write | IoOp::Trim => {
                let sectors = self.sectors(command);
                self.changed.extend(sectors);
                self.written.serve(command)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use block::Immediate;

    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_the_device_stays_as_it_was() {
        let limits = Limits { capacity_bytes: 1 << 20, sector_bytes: 512, most_bytes: 4096 };
        let mut device = Immediate::sparse(limits);
        Store::new(&mut device).write(0, &[1; 4096]).unwrap();
        let mut over = Immediate::new(Overlay::new(&mut device));
        let mut store = Store::new(&mut over);
        store.write(512, &[2; 1024]).unwrap();
        store.trim(2048, 512).unwrap();
        let mut bytes = [9; 4096];
        store.read(0, &mut bytes).unwrap();
        let firsts: Vec<u8> = bytes.chunks(512).map(|sector| sector[0]).collect();
        assert_eq!(firsts, [1, 2, 2, 1, 0, 1, 1, 1]);
        assert_eq!(over.changed_sectors(), 3);
        drop(over);
        Store::new(&mut device).read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [1; 4096]);
    }
}
