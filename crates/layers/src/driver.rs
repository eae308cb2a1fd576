//! Driver of layers over a device, which is a device itself.

use std::borrow::BorrowMut;
use std::collections::VecDeque;
use std::sync::Arc;

use block::{
    BlockDevice, BlockError, Command, Completion, Data, DeviceInfo, Extent, Failure, LayerCount,
    LayerWork, Reply, SharedBytes, Signal, Telemetry, Waker,
};
use rustc_hash::FxHashMap;
use units::{IoOp, Nanos};

use crate::{Actions, Layer, Meter, Stack, Watch};

/// Drives a stack of layers over a device, and makes one device of both: in real time or in virtual
/// time, as the device's clock goes.
///
/// As a [`BlockDevice`] it does all that it can at each call. To look on between the commands that
/// the device gets, take the single steps: [`Driver::accept`], [`Driver::take_replies`],
/// [`Driver::send_next`], [`Driver::wake`] and [`Driver::hear`].
pub struct Driver<D, S = Stack, W = ()> {
    device: D,
    stack: S,
    watch: W,
    info: DeviceInfo,
    actions: Actions,
    /// Commands for which the device has had no room.
    waiting: VecDeque<Command>,
    /// Commands that the device has.
    sent: FxHashMap<u32, (IoOp, u32)>,
    /// Times at which commands of the host came, by their ids.
    since: FxHashMap<u32, Nanos>,
    ended: Vec<Completion>,
    done: Vec<Completion>,
    failure: Option<Failure>,
}

impl<D: BlockDevice, S: BorrowMut<Stack>> Driver<D, S> {
    /// Makes a driver of a stack that was opened over this device.
    #[must_use]
    pub fn new(device: D, stack: S) -> Self {
        Self::watched(device, stack, ())
    }
}

impl<D: BlockDevice, S: BorrowMut<Stack>, W: Watch> Driver<D, S, W> {
    /// Makes a driver as [`Driver::new`] does, with an observer.
    #[must_use]
    pub fn watched(device: D, stack: S, watch: W) -> Self {
        let mut info = device.info().clone();
        info.limits = stack.borrow().limits();
        if let Some(top) = stack.borrow().layers().first() {
            (info.has_trim, info.zeroing_bytes) = (true, top.zeroing_bytes());
        }
        Self {
            device,
            stack,
            watch,
            info,
            actions: Actions::default(),
            waiting: VecDeque::new(),
            sent: FxHashMap::default(),
            since: FxHashMap::default(),
            ended: Vec::new(),
            done: Vec::new(),
            failure: None,
        }
    }

    /// Gives the device below.
    pub const fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Gives the waker that ends a wait in [`Driver::hear`], if the device has one.
    pub fn device_waker(&mut self) -> Option<Waker> {
        self.device.waker()
    }

    /// Gives the stack of layers.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        self.stack.borrow()
    }

    /// Gives the observer.
    #[must_use]
    pub const fn watch(&self) -> &W {
        &self.watch
    }

    /// Gives the first command that failed below, whatever the layers made of it: one by which
    /// nothing can be lost only if no other has failed.
    #[must_use]
    pub const fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Gives back the device and the stack. Commands under way are forgotten, as if the process had
    /// been killed.
    pub fn into_parts(self) -> (D, S) {
        (self.device, self.stack)
    }

    fn compute(&mut self, work: impl FnOnce(&mut Stack, &mut Actions)) {
        let since = self.watch.computing();
        work(self.stack.borrow_mut(), &mut self.actions);
        self.watch.computed(since);
    }

    /// Hands a command of the host to the topmost layer.
    ///
    /// # Panics
    /// As [`Command::check`].
    pub fn accept(&mut self, command: Command) {
        let now = self.device.now();
        self.since.insert(command.id, now);
        self.compute(|stack, actions| stack.submit(command, now, actions));
    }

    /// Sends a signal to all layers, or to the one at a level.
    pub fn tell(&mut self, signal: Signal, level: Option<usize>) {
        let now = self.device.now();
        self.compute(|stack, actions| match level {
            Some(level) => stack.signal_at(level, signal, now, actions),
            None => stack.signal(signal, now, actions),
        });
    }

    /// Takes the replies to the host that have come since the last call.
    pub fn take_replies(&mut self, replies: &mut Vec<Completion>) {
        let now = self.device.now();
        let replies_now = self.actions.up.drain(..).map(|reply| {
            let submitted_at = self.since.remove(&reply.id).unwrap_or(now);
            Completion { reply, submitted_at, completed_at: now }
        });
        replies.append(&mut self.done);
        replies.extend(replies_now);
    }

    /// Sends the next command that the device has room for, and gives its kind. A trim on a device
    /// without trims is carried out by doing nothing.
    pub fn send_next(&mut self) -> Option<IoOp> {
        self.waiting.extend(self.actions.down.drain(..));
        let command = self.waiting.front()?;
        let (id, op, length) = (command.id, command.op, command.length);
        let now = self.device.now();
        if op == IoOp::Trim && !self.device.info().has_trim {
            self.waiting.pop_front();
            self.compute(|stack, actions| {
                stack.replied(Reply { id, outcome: Ok(Data::Absent) }, now, actions);
            });
            return Some(op);
        }
        if self.device.outstanding() >= self.device.info().queue_depth {
            return None;
        }
        let command = self.waiting.pop_front()?;
        self.sent.insert(id, (op, length));
        self.watch.sent(op, now);
        self.device.submit(command);
        Some(op)
    }

    /// Wakes the layers whose time has come; returns true if there were any.
    pub fn wake(&mut self) -> bool {
        let now = self.device.now();
        let is_time = self.stack.borrow().wakes_at().is_some_and(|at| at <= now);
        if is_time {
            self.compute(|stack, actions| stack.wake(now, actions));
        }
        is_time
    }

    /// Waits for the device until it has ended something, a layer wants to be woken or the clock
    /// reaches `until`, and tells the layers.
    ///
    /// # Errors
    /// [`BlockError::Gone`].
    ///
    /// # Panics
    /// If the device ends what it was not sent, or there is nothing to wait for.
    pub fn hear(&mut self, until: Nanos) -> Result<(), BlockError> {
        let until = until.min(self.stack.borrow().wakes_at().unwrap_or(Nanos::MAX));
        assert!(
            until < Nanos::MAX || self.device.outstanding() > 0,
            "{} commands are never replied to: a bug of a layer",
            self.since.len()
        );
        let outcome = self.device.wait(until, &mut self.ended);
        let now = self.device.now();
        let mut ended = std::mem::take(&mut self.ended);
        for completion in ended.drain(..) {
            let Some((op, length)) = self.sent.remove(&completion.reply.id) else {
                panic!(
                    "{}: the end of command {}, which was not sent",
                    self.info.name, completion.reply.id
                )
            };
            self.watch.ended(op, length, &completion);
            if let Err(failure) = &completion.reply.outcome
                && self
                    .failure
                    .as_ref()
                    .is_none_or(|first| first.loses_nothing() && !failure.loses_nothing())
            {
                self.failure = Some(failure.clone());
            }
            self.compute(|stack, actions| stack.replied(completion.reply, now, actions));
        }
        self.ended = ended;
        outcome
    }

    /// Does all that can be done without waiting.
    fn carry_out(&mut self) {
        let mut done = std::mem::take(&mut self.done);
        loop {
            self.take_replies(&mut done);
            if self.send_next().is_none() {
                break;
            }
        }
        self.done = done;
    }

    /// Waits until something happens or the clock reaches `until`.
    fn step(&mut self, until: Nanos) -> Result<(), BlockError> {
        if !self.wake() {
            self.hear(until)?;
        }
        self.carry_out();
        let now = self.device.now();
        self.watch.stepped(self.stack.borrow(), now);
        Ok(())
    }

    /// Waits until the device has nothing outstanding and the layers want nothing of it.
    ///
    /// # Errors
    /// [`BlockError::Gone`].
    pub fn settle(&mut self) -> Result<(), BlockError> {
        self.carry_out();
        while !self.sent.is_empty() || !self.waiting.is_empty() {
            self.step(Nanos::MAX)?;
        }
        Ok(())
    }

    /// Lets the layers write back all that they hold back, from the top down, and waits for it. It
    /// goes on as long as `goes_on`, which is asked now and then, gives `true`. A failure is told
    /// by [`Driver::failure`].
    ///
    /// # Errors
    /// [`BlockError::Gone`].
    pub fn drain(&mut self, goes_on: &mut dyn FnMut() -> bool) -> Result<(), BlockError> {
        // Else the layer that is drained first would wait for all that those below it still read.
        self.tell(Signal::ScrubEnds, None);
        for level in 0..self.stack.borrow().layers().len() {
            self.tell(Signal::Drain, Some(level));
            self.carry_out();
            while !self.stack.borrow().layers()[level].is_idle()
                || !self.sent.is_empty()
                || !self.waiting.is_empty()
            {
                self.step(Nanos::MAX)?;
                if !goes_on() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl<D: BlockDevice, S: BorrowMut<Stack>> Driver<D, S, Meter> {
    /// Takes a sample of what the layers have counted now.
    pub fn sample(&mut self, now: Nanos) {
        self.watch.sample(self.stack.borrow(), now);
    }
}

impl<D: BlockDevice, S: BorrowMut<Stack> + Send, W: Watch + Send> BlockDevice for Driver<D, S, W> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&mut self) -> Nanos {
        self.device.now()
    }

    fn outstanding(&self) -> u32 {
        (self.since.len() + self.done.len()) as u32
    }

    fn submit(&mut self, command: Command) {
        assert!(
            self.outstanding() < self.info.queue_depth,
            "at most {} commands are outstanding",
            self.info.queue_depth
        );
        match self.info.refuses(&command) {
            None => {
                self.accept(command);
                self.carry_out();
            }
            Some(failure) => {
                let now = self.device.now();
                let reply = Reply { id: command.id, outcome: Err(failure) };
                self.done.push(Completion { reply, submitted_at: now, completed_at: now });
            }
        }
    }

    fn wait(&mut self, until: Nanos, completed: &mut Vec<Completion>) -> Result<(), BlockError> {
        loop {
            if !self.done.is_empty() {
                completed.append(&mut self.done);
                return Ok(());
            }
            if self.device.now() >= until {
                return Ok(());
            }
            self.carry_out();
            if self.done.is_empty() {
                self.step(until)?;
            }
        }
    }

    fn telemetry(&self) -> Telemetry {
        let below = self.device.telemetry();
        let own = self.stack.borrow().layers().iter().map(|layer| layer_work(&**layer));
        Telemetry { layers: own.chain(below.layers).collect(), ..below }
    }

    fn extent(&mut self, offset: u64, length: u64) -> Extent {
        match self.stack.borrow().layers().first() {
            Some(top) => top.extent(offset, length),
            None => self.device.extent(offset, length),
        }
    }

    fn signal(&mut self, signal: Signal) {
        self.tell(signal, None);
        self.carry_out();
    }

    fn waker(&mut self) -> Option<Waker> {
        self.device.waker()
    }

    /// Gives the shared bytes of the device, if no layer is over it.
    fn shared(&mut self) -> Option<Arc<dyn SharedBytes>> {
        if self.stack.borrow().layers().is_empty() { self.device.shared() } else { None }
    }
}

/// Gives all counters of a layer, each with its name.
fn layer_work(layer: &dyn Layer) -> LayerWork {
    let mut values = Vec::new();
    layer.count(&mut values);
    let counts = layer.counters().iter().zip(values).map(|(counter, value)| LayerCount {
        name: counter.name,
        value,
        is_level: counter.is_level,
    });
    LayerWork { layer: layer.name(), counts: counts.collect() }
}

/// Layers over a device, as a store: for tests.
#[cfg(test)]
pub fn through<T>(
    stack: &mut Stack,
    device: &mut dyn BlockDevice,
    work: impl FnOnce(&mut block::Store<'_>) -> T,
) -> T {
    let mut driver = Driver::new(device, stack);
    let done = work(&mut block::Store::new(&mut driver));
    driver.settle().expect("the device stays");
    done
}

#[cfg(test)]
mod tests {
    use block::{Immediate, Limits, Serve, Store};

    use super::*;
    use crate::{Facts, format, open};

    const LIMITS: Limits =
        Limits { capacity_bytes: 1 << 20, sector_bytes: 512, most_bytes: 64 << 10 };

    #[test]
    fn a_stack_without_layers_is_the_device() {
        let mut driver = Driver::new(Immediate::sparse(LIMITS), Stack::new(LIMITS));
        driver.submit(Command::write(4, 4096, Data::copy_of(&[3; 512])));
        driver.submit(Command::new(5, IoOp::Flush, 0, 0));
        let mut done = Vec::new();
        while driver.outstanding() > 0 {
            driver.wait(Nanos::MAX, &mut done).unwrap();
        }
        let mut ids: Vec<u32> = done.iter().map(|one| one.reply.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, [4, 5]);
        driver.drain(&mut || true).unwrap();
        let mut bytes = [0; 1024];
        Store::new(&mut driver).read(4096, &mut bytes).unwrap();
        assert_eq!(bytes.iter().filter(|&&byte| byte == 3).count(), 512);
    }

    /// Fails commands of these kinds.
    struct Failing(Vec<IoOp>);

    impl Serve for Failing {
        fn limits(&self) -> Limits {
            LIMITS
        }

        fn serve(&mut self, command: &Command) -> Result<Data, Failure> {
            match self.0.contains(&command.op) {
                true => Err(command.failed("it is worn out")),
                false => Ok(Data::copy_of(&vec![0; command.length as usize])),
            }
        }
    }

    #[test]
    fn the_failure_that_may_have_lost_something_is_kept() {
        let all = vec![IoOp::Read, IoOp::Trim, IoOp::Write, IoOp::Flush];
        let mut device = Immediate::new(Failing(all));
        let mut driver = Driver::new(&mut device, Stack::new(LIMITS));
        let mut tried = Vec::new();
        for op in [IoOp::Read, IoOp::Trim, IoOp::Write, IoOp::Flush] {
            let length = if op == IoOp::Flush { 0 } else { 512 };
            let mut command = Command::new(tried.len() as u32, op, 0, length);
            if op == IoOp::Write {
                command.data = Data::copy_of(&[1; 512]);
            }
            driver.submit(command);
            driver.settle().unwrap();
            tried.push(driver.failure().unwrap().to_string());
        }
        assert_eq!(tried[0], tried[1], "a trim is no worse than a read");
        assert_ne!(tried[1], tried[2]);
        assert_eq!(tried[2], tried[3], "the first that may have lost something");
        assert!(!driver.failure().unwrap().loses_nothing());
    }

    /// Regression: a drained layer waited for all that a pass below it had still to read.
    #[test]
    fn a_drain_ends_a_pass_of_any_layer() {
        let limits = Limits { capacity_bytes: 8 << 20, ..LIMITS };
        let log = "log_volume(page=4Ki,segment=64Ki,over_provisioning=50%)";
        for text in [log.to_owned(), format!("scheduler(coalesce)|{log}")] {
            let mut device = Immediate::sparse(limits);
            format(&text, &Facts::default(), 1, &mut device).unwrap();
            let stack = open(&text, &Facts::default(), 1, &mut device).unwrap();
            let mut driver = Driver::new(&mut device, stack);
            let pages = driver.info().limits.capacity_bytes / 4096;
            let mut store = Store::new(&mut driver);
            (0..pages).for_each(|page| store.write(page * 4096, &[page as u8; 4096]).unwrap());
            store.flush().unwrap();
            driver.drain(&mut || true).unwrap();
            driver.tell(Signal::Scrub, None);
            driver.drain(&mut || true).unwrap();
            let state = driver.stack().layers().last().unwrap().scrub().unwrap();
            assert!(state.pages_left == 0 && state.pages_read < pages, "{text}: {state:?}");
        }
    }

    #[test]
    fn what_layers_counted_is_told_by_name() {
        let text = "scheduler(defer)|stable_buffer(size=64Ki,page=4Ki)";
        let mut device = Immediate::sparse(LIMITS);
        format(text, &Facts::default(), 1, &mut device).unwrap();
        let stack = open(text, &Facts::default(), 1, &mut device).unwrap();
        let mut driver = Driver::new(&mut device, stack);
        let before = driver.telemetry();
        let mut store = Store::new(&mut driver);
        (0..5).for_each(|page| store.write(page * 8192, &[1; 4096]).unwrap());
        store.flush().unwrap();
        let work = driver.telemetry().since(&before).layers;
        let value = |level: usize, name: &str| {
            work[level].counts.iter().find(|count| count.name == name).unwrap().value
        };
        assert_eq!(
            work.iter().map(|one| one.layer).collect::<Vec<_>>(),
            ["scheduler", "stable_buffer"]
        );
        assert_eq!((value(0, "taken_writes"), value(1, "buffered_pages")), (5, 5));
        // A level stays what it is.
        let slots = value(1, "used_slots");
        let now = driver.telemetry();
        let again = now.clone().since(&now).layers;
        let used = again[1].counts.iter().find(|count| count.name == "used_slots").unwrap();
        assert!(slots > 0 && used.value == slots && used.is_level);
        assert!(again[0].counts.iter().all(|count| count.is_level || count.value == 0));
    }

    /// A stack is formatted, used, left and opened again, on nothing but a device.
    #[test]
    fn a_stack_lives_on_a_device() {
        let text = "scheduler(defer)|stable_buffer(size=64Ki,page=4Ki)";
        let mut device = Immediate::sparse(LIMITS);
        format(text, &Facts::default(), 1, &mut device).unwrap();
        let stack = open(text, &Facts::default(), 1, &mut device).unwrap();
        let mut driver = Driver::new(&mut device, stack);
        let mut store = Store::new(&mut driver);
        (0..20).for_each(|page| store.write(page * 8192, &[page as u8 + 1; 4096]).unwrap());
        store.flush().unwrap();
        let stack = open(text, &Facts::default(), 1, &mut device).unwrap();
        let mut driver = Driver::new(&mut device, stack);
        let mut store = Store::new(&mut driver);
        for page in 0..20_u64 {
            let mut bytes = [0; 8192];
            store.read(page * 8192, &mut bytes).unwrap();
            assert!(
                bytes[..4096] == [page as u8 + 1; 4096] && bytes[4096..] == [0; 4096],
                "page {page}"
            );
        }
    }
}
