use super::*;
use crate::{DeviceKind, Immediate, Limits, Serve, Sparse, Store};

const LIMITS: Limits = Limits { capacity_bytes: 8192, sector_bytes: 512, most_bytes: 4096 };

/// Keeps what it is sent, and fails what is written to byte 512.
struct Noting(Sparse, Vec<(IoOp, u64, u32)>);

impl Noting {
    fn device() -> Immediate<Self> {
        Immediate::new(Self(Sparse::new(LIMITS), Vec::new()))
    }
}

impl Serve for Noting {
    fn limits(&self) -> Limits {
        LIMITS
    }

    fn serve(&mut self, command: &Command) -> Result<Data, Failure> {
        self.1.push((command.op, command.offset, command.length));
        if command.op == IoOp::Write && command.offset == 512 {
            return Err(command.failed("scratched"));
        }
        self.0.serve(command)
    }
}

#[test]
fn bytes_of_the_second_follow_those_of_the_first() {
    let mut device = Spanned::new(Noting::device(), Some(Noting::device()));
    assert_eq!(device.info().limits.capacity_bytes, 16_384);
    let mut store = Store::new(&mut device);
    let bytes: Vec<u8> = (0..12_288_u32).map(|n| (n / 512) as u8 + 1).collect();
    store.write(2048, &bytes).unwrap();
    let mut read = vec![0; 16_384];
    store.read(0, &mut read).unwrap();
    assert!(read[2048..14_336] == bytes && read[..2048] == [0; 2048]);
    store.trim(7680, 1024).unwrap();
    store.read(7168, &mut read[..2048]).unwrap();
    let firsts: Vec<u8> = read[..2048].chunks(512).map(|sector| sector[0]).collect();
    assert_eq!(firsts, [11, 0, 0, 14]);
    let (first, second) = device.parts();
    let trims = |noted: &Noting| noted.1.iter().filter(|one| one.0 == IoOp::Trim).count();
    assert_eq!((trims(first), trims(second.unwrap())), (1, 1), "one in two parts");
    assert!(first.1.contains(&(IoOp::Write, 6144, 2048)), "{:?}", first.1);
    assert!(second.unwrap().1.contains(&(IoOp::Write, 0, 2048)), "{:?}", second.unwrap().1);
}

#[test]
fn a_failure_says_on_which_device_and_fails_the_whole_command() {
    let mut device = Spanned::new(Noting::device(), Some(Noting::device()));
    let failure = Store::new(&mut device).write(8704, &[1; 512]).unwrap_err();
    let expected = "write of 512 bytes at byte 8704 failed: on memory: scratched";
    assert_eq!(failure.to_string(), expected);
    Store::new(&mut device).write(0, &[1; 512]).unwrap();
}

#[test]
fn one_device_alone_is_what_it_was() {
    let mut device = Spanned::new(Noting::device(), None);
    assert_eq!(device.info(), Noting::device().info());
    let failure = Store::new(&mut device).write(512, &[1; 512]).unwrap_err();
    assert_eq!(failure.to_string(), "write of 512 bytes at byte 512 failed: scratched");
    assert_eq!(device.outstanding(), 0);
}

/// Takes a time for each command, on a clock that begins somewhere.
struct Late {
    info: DeviceInfo,
    now: Nanos,
    takes: Nanos,
    under_way: Vec<(Command, Nanos)>,
    /// The next flush fails.
    fails: bool,
}

impl Late {
    fn new(sector_bytes: u32, begins: Nanos, takes: Nanos) -> Self {
        let info = DeviceInfo {
            name: format!("late-{takes}"),
            model: String::new(),
            kind: DeviceKind::Memory,
            limits: Limits { sector_bytes, ..LIMITS },
            queue_depth: 4,
            is_read_only: false,
            has_trim: takes > 1000,
            zeroing_bytes: None,
            is_virtual: true,
            holds_data: false,
        };
        Self { info, now: begins, takes, under_way: Vec::new(), fails: false }
    }
}

impl BlockDevice for Late {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&mut self) -> Nanos {
        self.now
    }

    fn outstanding(&self) -> u32 {
        self.under_way.len() as u32
    }

    fn submit(&mut self, command: Command) {
        assert!(self.info.refuses(&command).is_none() && self.outstanding() < 4);
        self.under_way.push((command, self.now));
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        let takes = self.takes;
        let next = self.under_way.iter().map(|(_, at)| at + takes).min().unwrap_or(Nanos::MAX);
        self.now = self.now.max(until.min(next));
        let now = self.now;
        self.under_way.retain(|(command, at)| {
            let is_done = at + takes <= now;
            if is_done {
                let fails = command.op == IoOp::Flush && std::mem::take(&mut self.fails);
                let outcome = if fails { Err(command.failed("broken")) } else { Ok(Data::Absent) };
                let reply = Reply { id: command.id, outcome };
                completed.push(Completion { reply, submitted_at: *at, completed_at: now });
            }
            !is_done
        });
        Ok(())
    }
}

/// The ids that end, with the time that each took by the pair's clock.
fn run(device: &mut Spanned<Late>) -> Vec<(u32, Nanos)> {
    let mut done = Vec::new();
    while device.outstanding() > 0 {
        device.wait(Nanos::MAX, &mut done).unwrap();
    }
    done.iter().map(|one| (one.reply.id, one.completed_at - one.submitted_at)).collect()
}

#[test]
fn a_flush_ends_when_both_devices_have_ended_it_whichever_is_later() {
    for (slow, fast) in [(5_000_000, 50_000), (50_000, 5_000_000)] {
        let pair = [Late::new(512, 1_000_000_000, slow), Late::new(512, 77, fast)];
        let [first, second] = pair;
        let mut device = Spanned::new(first, Some(second));
        device.submit(Command::new(1, IoOp::Flush, 0, 0));
        let ended = run(&mut device);
        let (id, took) = ended[0];
        assert!(ended.len() == 1 && id == 1, "{ended:?}");
        assert!((5_000_000..7_000_000).contains(&took), "{took} ns");
        assert!(device.now() >= 1_005_000_000, "the first's clock is told");
    }
}

#[test]
fn what_ends_on_one_is_told_while_the_other_has_something_under_way() {
    let [first, second] = [Late::new(512, 500, 20_000_000), Late::new(512, 0, 3_000_000)];
    let mut device = Spanned::new(first, Some(second));
    device.submit(Command::new(1, IoOp::Read, 0, 512));
    device.submit(Command::new(2, IoOp::Read, 8192, 512));
    let ended = run(&mut device);
    assert_eq!(ended[0], (2, 3_000_000));
    assert!(ended[1].0 == 1 && ended[1].1 < 20_600_000, "{ended:?}");
}

#[test]
fn limits_are_those_that_both_have_and_a_trim_goes_where_there_is_one() {
    let [first, second] = [Late::new(4096, 0, 2000), Late::new(512, 0, 1000)];
    let mut device = Spanned::new(first, Some(second));
    let info = device.info().clone();
    assert_eq!((info.limits.sector_bytes, info.limits.capacity_bytes), (4096, 16_384));
    assert!(info.has_trim);
    device.submit(Command::new(9, IoOp::Trim, 4096, 8192));
    device.submit(Command::new(8, IoOp::Trim, 8192, 4096));
    let mut ended: Vec<u32> = run(&mut device).iter().map(|one| one.0).collect();
    ended.sort_unstable();
    assert_eq!(ended, [8, 9]);
    let (first, second) = device.parts_mut();
    assert!(first.now() >= 2000 && second.unwrap().now() == 0, "the second got nothing");
}

/// Found by the campaign of `faults`: the second flush would be replied to before anybody knows of
/// the failure of the first, and would cover nothing of what that should have.
#[test]
fn a_flush_is_not_believed_while_the_failure_of_another_is_not_told() {
    for fails in [true, false] {
        let [mut first, second] = [Late::new(512, 0, 2000), Late::new(512, 0, 9_000_000)];
        first.fails = fails;
        let mut device = Spanned::new(first, Some(second));
        device.submit(Command::new(1, IoOp::Flush, 0, 0));
        let mut done = Vec::new();
        device.wait(4_000_000, &mut done).unwrap();
        assert!(done.is_empty(), "the second has not ended it");
        device.submit(Command::new(2, IoOp::Flush, 0, 0));
        while device.outstanding() > 0 {
            device.wait(Nanos::MAX, &mut done).unwrap();
        }
        let failed = |id| done.iter().any(|one| one.reply.id == id && one.reply.outcome.is_err());
        assert_eq!((done.len(), failed(1), failed(2)), (2, fails, fails));
    }
}
