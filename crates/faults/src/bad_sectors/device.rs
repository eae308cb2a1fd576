//! A device of which sectors cannot be read.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{Command, Data, Failure, Limits, Serve};
use units::IoOp;

struct Sectors {
    sector_bytes: u64,
    bytes: Vec<u8>,
    /// Of each sector whether it cannot be read.
    are_bad: Vec<bool>,
}

/// Memory with bad sectors: a read that touches one fails, and a write makes it whole. A clone is
/// another handle of the same memory.
#[derive(Clone)]
pub struct Damaged {
    sectors: Arc<Mutex<Sectors>>,
    limits: Limits,
    /// First byte of the memory that is this handle's.
    begin: u64,
}

impl Damaged {
    /// Memory of these bytes, all of which can be read.
    #[must_use]
    pub fn new(limits: Limits, bytes: Vec<u8>) -> Self {
        let sector_bytes = u64::from(limits.sector_bytes);
        let are_bad = vec![false; bytes.len() / limits.sector_bytes as usize];
        let sectors = Arc::new(Mutex::new(Sectors { sector_bytes, bytes, are_bad }));
        Self { sectors, limits, begin: 0 }
    }

    /// A part of it, as a device of its own.
    #[must_use]
    pub fn part(&self, range: Range<u64>) -> Self {
        let limits = Limits { capacity_bytes: range.end - range.start, ..self.limits };
        Self { sectors: Arc::clone(&self.sectors), limits, begin: self.begin + range.start }
    }

    fn lock(&self) -> MutexGuard<'_, Sectors> {
        // A layer that panics leaves the memory as it is.
        self.sectors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of all bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.lock().bytes.clone()
    }

    /// Sectors that these bytes touch cannot be read any more.
    pub fn spoil(&self, range: &Range<u64>) {
        let mut sectors = self.lock();
        let size = sectors.sector_bytes;
        let touched = (range.start / size) as usize..range.end.div_ceil(size) as usize;
        sectors.are_bad[touched].fill(true);
    }

    /// One bit becomes the other.
    pub fn flip(&self, byte: u64, bit: u8) {
        self.lock().bytes[byte as usize] ^= 1 << bit;
    }
}

impl Serve for Damaged {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn serve(&mut self, command: &Command) -> Result<Data, Failure> {
        let mut sectors = self.lock();
        let (start, end) = (self.begin + command.offset, self.begin + command.end());
        let size = sectors.sector_bytes;
        let numbers = (start / size) as usize..(end / size) as usize;
        let range = start as usize..end as usize;
        match command.op {
            IoOp::Read if sectors.are_bad[numbers.clone()].contains(&true) => {
                return Err(command.failed("Input/output error (os error 5)"));
            }
            IoOp::Read => return Ok(Data::copy_of(&sectors.bytes[range])),
            IoOp::Write => {
                sectors.are_bad[numbers].fill(false);
                command.data.copy_to(&mut sectors.bytes[range]);
            }
            IoOp::Trim => sectors.bytes[range].fill(0),
            IoOp::Flush => {}
        }
        Ok(Data::Absent)
    }
}
