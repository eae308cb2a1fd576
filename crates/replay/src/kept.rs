//! Data for traces that have none, and what a device has to hold of it afterwards.

use block::{
    BlockDevice, BlockError, Command, Completion, Data, DeviceInfo, Failure, Signal, Store,
    Telemetry,
};
use rustc_hash::FxHashMap;
use thiserror::Error;
use units::{IoOp, Nanos};

/// Bytes at the end of each sector that stay zero: some layers keep a header there.
const TAIL_BYTES: usize = 64;

/// A sector holds what it must not.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("sector {sector} holds {found}; right would be {right}")]
pub struct WrongData {
    /// Its number.
    pub sector: u64,
    /// Data that it holds, in words.
    pub found: String,
    /// Data that it may hold, in words.
    pub right: String,
}

/// Errors of checking the data that was kept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeptError {
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Failure),
    /// It is wrong.
    #[error(transparent)]
    Wrong(#[from] WrongData),
}

/// Ending of a run, before the device is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All was written back and flushed.
    Drained,
    /// The process was killed: what no flush has made durable may be lost.
    Killed,
}

/// Result of reading everything again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Sectors that were read and judged.
    pub sectors: u64,
    /// Sectors, of these, that hold the newest version that was acknowledged, or a later one.
    pub newest: u64,
}

/// Versions of a sector, by the numbers of the writes that gave them; 0 is what was there before.
#[derive(Clone, Copy, Debug, Default)]
struct Versions {
    durable: u32,
    acknowledged: u32,
    acknowledged_at: u64,
    submitted: u32,
    /// It was trimmed since: it may hold zeros, or any version from the durable one on.
    is_trimmed: bool,
}

/// Versions that each written sector may hold.
#[derive(Clone, Debug)]
pub struct Kept {
    seed: u64,
    sector_bytes: usize,
    sectors: FxHashMap<u64, Versions>,
    /// Time at which the last flush came that has ended.
    flushed_at: u64,
}

impl Kept {
    fn fill(&self, sector: u64, version: u32, to: &mut [u8]) {
        let end = to.len() - TAIL_BYTES.min(to.len());
        let words = [sector ^ self.seed, u64::from(version) | self.seed << 32];
        for (word, part) in words.iter().cycle().zip(to[..end].chunks_exact_mut(8)) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        to[end..].fill(0);
    }

    /// The version that a sector holds; none if it is neither zeros nor a whole one of this sector.
    fn version(&self, sector: u64, bytes: &[u8]) -> Option<u32> {
        if bytes.iter().all(|&byte| byte == 0) {
            return Some(0);
        }
        let word =
            bytes.get(8..12).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes)?;
        let mut whole = vec![0; bytes.len()];
        self.fill(sector, word, &mut whole);
        (whole == bytes && word > 0).then_some(word)
    }

    fn judge(&self, sector: u64, bytes: &[u8], least: u32) -> Result<u32, WrongData> {
        let Versions { durable, submitted, is_trimmed, .. } = self.sectors[&sector];
        let found = self.version(sector, bytes);
        let is_right = found.is_some_and(|version| {
            (least..=submitted).contains(&version)
                || is_trimmed && (version == 0 || (durable..=submitted).contains(&version))
        });
        if let Some(version) = found.filter(|_| is_right) {
            return Ok(version);
        }
        let found = match found {
            None => "bytes that were never written there".to_owned(),
            Some(0) => "zeros".to_owned(),
            Some(version) => format!("what write {version} gave it"),
        };
        let or_zeros = if is_trimmed { ", or zeros" } else { "" };
        let right = format!("what write {least} to {submitted} gave it{or_zeros}");
        Err(WrongData { sector, found, right })
    }

    /// A version of this sector has been acknowledged.
    fn acknowledge(&mut self, sector: u64, version: u32, now: u64) {
        let flushed_at = self.flushed_at;
        let kept = self.sectors.entry(sector).or_default();
        if kept.acknowledged_at < flushed_at {
            kept.durable = kept.acknowledged;
        }
        if version > kept.acknowledged {
            (kept.acknowledged, kept.acknowledged_at) = (version, now);
            kept.is_trimmed = false;
        }
    }

    /// Reads all that was written, and judges it.
    ///
    /// # Errors
    /// [`KeptError`].
    pub fn check(&self, store: &mut Store<'_>, ending: Ending) -> Result<Found, KeptError> {
        const AT_ONCE: usize = 256;
        let mut numbers: Vec<u64> = self.sectors.keys().copied().collect();
        numbers.sort_unstable();
        let mut found = Found::default();
        let mut bytes = vec![0; AT_ONCE * self.sector_bytes];
        let runs =
            numbers.chunk_by(|one, next| one + 1 == *next).flat_map(|run| run.chunks(AT_ONCE));
        for run in runs {
            let bytes = &mut bytes[..run.len() * self.sector_bytes];
            store.read(run[0] * self.sector_bytes as u64, bytes)?;
            for (&sector, bytes) in run.iter().zip(bytes.chunks_exact(self.sector_bytes)) {
                let kept = self.sectors[&sector];
                let is_durable = kept.acknowledged_at < self.flushed_at;
                let durable = if is_durable { kept.acknowledged } else { kept.durable };
                let least = if ending == Ending::Drained { kept.acknowledged } else { durable };
                let version = self.judge(sector, bytes, least)?;
                found.sectors += 1;
                found.newest += u64::from(version >= kept.acknowledged);
            }
        }
        Ok(found)
    }
}

/// A command under way: its sectors, the version that it writes, and of a read what it must bring
/// at least.
#[derive(Debug)]
struct UnderWay {
    op: IoOp,
    first: u64,
    sectors: u64,
    version: u32,
    came: u64,
    least: Vec<u32>,
}

/// A device that holds data, for whoever sends commands without: it gives writes bytes that tell
/// the sector and the number of the write, and judges what reads bring.
pub struct Keeping<D> {
    device: D,
    info: DeviceInfo,
    kept: Kept,
    under_way: FxHashMap<u32, UnderWay>,
    writes: u32,
    clock: u64,
    wrong: Option<WrongData>,
    completed: Vec<Completion>,
}

impl<D: BlockDevice> Keeping<D> {
    /// Over a device of which nothing is known yet.
    ///
    /// # Panics
    /// If it holds no data.
    #[must_use]
    pub fn new(device: D, seed: u64) -> Self {
        assert!(device.info().holds_data, "{} holds data", device.info().name);
        let info = DeviceInfo { holds_data: false, ..device.info().clone() };
        let sector_bytes = info.limits.sector_bytes as usize;
        let kept = Kept { seed, sector_bytes, sectors: FxHashMap::default(), flushed_at: 0 };
        let (under_way, completed) = (FxHashMap::default(), Vec::new());
        Self { device, info, kept, under_way, writes: 0, clock: 1, wrong: None, completed }
    }

    /// Gives the data that the device has to hold now.
    ///
    /// # Errors
    /// [`WrongData`] if a read returned data that it must not return.
    pub fn into_kept(self) -> Result<Kept, WrongData> {
        self.wrong.map_or(Ok(self.kept), Err)
    }

    fn begin(&mut self, command: &mut Command) {
        let size = self.kept.sector_bytes as u64;
        let (first, sectors) = (command.offset / size, u64::from(command.length) / size);
        self.clock += 1;
        let mut least = Vec::new();
        match command.op {
            IoOp::Write => {
                self.writes += 1;
                let mut bytes = vec![0; command.length as usize];
                for (sector, part) in (first..).zip(bytes.chunks_exact_mut(size as usize)) {
                    self.kept.fill(sector, self.writes, part);
                    self.kept.sectors.entry(sector).or_default().submitted = self.writes;
                }
                command.data = Data::Whole(bytes.into());
            }
            IoOp::Trim => {
                for sector in first..first + sectors {
                    if let Some(kept) = self.kept.sectors.get_mut(&sector) {
                        kept.is_trimmed = true;
                    }
                }
            }
            IoOp::Read => {
                let acknowledged =
                    |sector| self.kept.sectors.get(&sector).map_or(0, |s| s.acknowledged);
                least.extend((first..first + sectors).map(acknowledged));
            }
            IoOp::Flush => {}
        }
        let (op, version, came) = (command.op, self.writes, self.clock);
        self.under_way.insert(command.id, UnderWay { op, first, sectors, version, came, least });
    }

    fn end(&mut self, completion: &Completion) {
        let Some(ended) = self.under_way.remove(&completion.reply.id) else { return };
        let Ok(data) = &completion.reply.outcome else { return };
        self.clock += 1;
        match ended.op {
            IoOp::Write => {
                for sector in ended.first..ended.first + ended.sectors {
                    self.kept.acknowledge(sector, ended.version, self.clock);
                }
            }
            IoOp::Flush => self.kept.flushed_at = self.kept.flushed_at.max(ended.came),
            IoOp::Read => {
                let bytes = data.joined().unwrap_or_default();
                let sectors = bytes.chunks_exact(self.kept.sector_bytes).zip(ended.least);
                for (sector, (bytes, least)) in (ended.first..).zip(sectors) {
                    if self.kept.sectors.contains_key(&sector) && self.wrong.is_none() {
                        self.wrong = self.kept.judge(sector, bytes, least).err();
                    }
                }
            }
            IoOp::Trim => {}
        }
    }
}

impl<D: BlockDevice> BlockDevice for Keeping<D> {
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
        self.begin(&mut command);
        self.device.submit(command);
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        let waited = self.device.wait(until, &mut self.completed);
        let mut ended = std::mem::take(&mut self.completed);
        ended.iter().for_each(|completion| self.end(completion));
        completed.append(&mut ended);
        self.completed = ended;
        waited
    }

    fn telemetry(&self) -> Telemetry {
        self.device.telemetry()
    }

    fn signal(&mut self, signal: Signal) {
        self.device.signal(signal);
    }
}

#[cfg(test)]
mod tests {
    use block::{Immediate, Limits, Serve, Sparse};

    use super::*;

    const LIMITS: Limits =
        Limits { capacity_bytes: 1 << 20, sector_bytes: 512, most_bytes: 65_536 };

    fn send(device: &mut impl BlockDevice, commands: &[(IoOp, u64, u32)]) {
        for (id, &(op, offset, length)) in (0..).zip(commands) {
            device.submit(Command::new(id, op, offset, length));
            device.wait(Nanos::MAX, &mut Vec::new()).unwrap();
        }
    }

    #[test]
    fn what_was_written_is_found_again() {
        let mut device = Immediate::sparse(LIMITS);
        let mut keeping = Keeping::new(&mut device, 7);
        let written = [(IoOp::Write, 0, 4096), (IoOp::Write, 2048, 512), (IoOp::Flush, 0, 0)];
        send(&mut keeping, &written);
        send(&mut keeping, &[(IoOp::Read, 0, 8192), (IoOp::Trim, 512, 512), (IoOp::Write, 0, 512)]);
        let kept = keeping.into_kept().unwrap();
        let mut store = Store::new(&mut device);
        let found = kept.check(&mut store, Ending::Drained).unwrap();
        assert_eq!((found.sectors, found.newest), (8, 7), "one was trimmed, and holds zeros");
    }

    #[test]
    fn each_kind_of_loss_is_seen() {
        let mut device = Immediate::sparse(LIMITS);
        let mut keeping = Keeping::new(&mut device, 7);
        send(&mut keeping, &[(IoOp::Write, 0, 1024), (IoOp::Flush, 0, 0)]);
        let mut before = [0; 512];
        let durable = keeping.kept.clone();
        durable.fill(0, 1, &mut before);
        send(&mut keeping, &[(IoOp::Write, 0, 512)]);
        let kept = keeping.into_kept().unwrap();
        let mut store = Store::new(&mut device);
        store.write(0, &before).unwrap();
        let found = kept.check(&mut store, Ending::Killed).unwrap();
        assert_eq!((found.sectors, found.newest), (2, 1), "write 2 was not flushed");
        let wrong = kept.check(&mut store, Ending::Drained).unwrap_err().to_string();
        assert_eq!(
            wrong,
            "sector 0 holds what write 1 gave it; right would be what write 2 to 2 gave it"
        );
        for (bytes, told) in
            [([0; 512], "zeros"), ([9; 512], "bytes that were never written there")]
        {
            store.write(512, &bytes).unwrap();
            let wrong = kept.check(&mut store, Ending::Killed).unwrap_err().to_string();
            assert!(wrong.starts_with(&format!("sector 1 holds {told}")), "{wrong}");
        }
    }

    /// Gives what another sector holds.
    struct Misplaced(Sparse);

    impl Serve for Misplaced {
        fn limits(&self) -> Limits {
            LIMITS
        }

        fn serve(&mut self, command: &Command) -> Result<Data, Failure> {
            let is_read = command.op == IoOp::Read && command.offset > 0;
            let offset = command.offset - if is_read { 512 } else { 0 };
            self.0.serve(&Command { offset, ..command.clone() })
        }
    }

    #[test]
    fn a_read_that_brings_another_sector_is_seen() {
        let mut keeping = Keeping::new(Immediate::new(Misplaced(Sparse::new(LIMITS))), 7);
        send(&mut keeping, &[(IoOp::Write, 0, 4096), (IoOp::Read, 512, 512)]);
        let wrong = keeping.into_kept().unwrap_err();
        assert_eq!(
            (wrong.sector, wrong.found.as_str()),
            (1, "bytes that were never written there")
        );
    }
}
