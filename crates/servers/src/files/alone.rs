//! A device below files, for tests: all that happens depends only on seeds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use block::{BlockDevice, Command, Completion, Data, Failure};
use bytes::Bytes;
use units::{IoOp, Lifetime, Nanos};

use super::{Batch, Medium};

/// A device of a single thread: writes go on only while that waits for something.
pub struct Alone<D>(Mutex<Work<D>>);

struct Work<D> {
    device: D,
    batches: HashMap<u32, Arc<Batch>>,
    replies: HashMap<u32, Result<Data, Failure>>,
    next: u32,
    is_off: bool,
    completed: Vec<Completion>,
}

impl<D: BlockDevice> Alone<D> {
    pub fn new(device: D) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Work {
            device,
            batches: HashMap::new(),
            replies: HashMap::new(),
            next: 0,
            is_off: false,
            completed: Vec::new(),
        })))
    }

    /// Gives the device, when nothing else uses it any more.
    pub fn device_of(medium: Arc<Self>) -> D {
        Arc::into_inner(medium).unwrap().0.into_inner().unwrap().device
    }

    /// Looks at the device.
    pub fn with<T>(&self, look: impl FnOnce(&mut D) -> T) -> T {
        look(&mut self.0.lock().unwrap().device)
    }

    /// Returns true if it has lost its power.
    pub fn is_off(&self) -> bool {
        self.0.lock().unwrap().is_off
    }

    fn call(&self, op: IoOp, offset: u64, length: u32) -> Result<Data, Failure> {
        let mut work = self.0.lock().unwrap();
        let id = work.submit(Command::new(0, op, offset, length));
        while !work.replies.contains_key(&id) {
            work.go_on();
        }
        work.replies.remove(&id).unwrap()
    }
}

impl<D: BlockDevice> Work<D> {
    fn submit(&mut self, command: Command) -> u32 {
        let id = self.next;
        self.next += 1;
        if self.is_off {
            self.ended(id, Err(command.failed("there is no power")));
        } else {
            while self.device.outstanding() + 1 >= self.device.info().queue_depth {
                self.go_on();
            }
            self.device.submit(Command { id, ..command });
        }
        id
    }

    fn ended(&mut self, id: u32, outcome: Result<Data, Failure>) {
        match self.batches.remove(&id) {
            Some(batch) => batch.end(outcome.map(|_| ())),
            None => drop(self.replies.insert(id, outcome)),
        }
    }

    fn go_on(&mut self) {
        let mut completed = std::mem::take(&mut self.completed);
        let waited = self.device.wait(Nanos::MAX, &mut completed);
        for Completion { reply, .. } in completed.drain(..) {
            self.ended(reply.id, reply.outcome);
        }
        self.completed = completed;
        if waited.is_err() {
            self.is_off = true;
            let gone = Command::new(0, IoOp::Flush, 0, 0).failed("there is no power");
            for (_, batch) in self.batches.drain() {
                batch.end(Err(gone.clone()));
            }
            for id in 0..self.next {
                self.replies.entry(id).or_insert_with(|| Err(gone.clone()));
            }
        }
    }
}

impl<D: BlockDevice> Medium for Alone<D> {
    fn capacity_bytes(&self) -> u64 {
        self.0.lock().unwrap().device.info().limits.capacity_bytes
    }

    fn sector_bytes(&self) -> u32 {
        self.0.lock().unwrap().device.info().limits.sector_bytes
    }

    fn owner(&self) -> [u8; 16] {
        [9; 16]
    }

    fn read(&self, offset: u64, length: u32) -> Result<Data, Failure> {
        let most = self.0.lock().unwrap().device.info().limits.most_bytes;
        let mut all = Data::Absent;
        for at in (0..length).step_by(most as usize) {
            let length = most.min(length - at);
            all.append(self.call(IoOp::Read, offset + u64::from(at), length)?);
        }
        Ok(all)
    }

    fn write(&self, offset: u64, data: Bytes, lifetime: Lifetime, batch: &Arc<Batch>) {
        let mut work = self.0.lock().unwrap();
        let most = work.device.info().limits.most_bytes as usize;
        for at in (0..data.len()).step_by(most) {
            let part = data.slice(at..data.len().min(at + most));
            let command = Command::write(0, offset + at as u64, Data::Whole(part));
            let command = Command { lifetime, ..command };
            batch.begin();
            let id = work.next;
            work.batches.insert(id, batch.clone());
            work.submit(command);
        }
    }

    fn settle(&self, batch: &Batch) -> Result<(), Failure> {
        while !batch.is_over() {
            self.0.lock().unwrap().go_on();
        }
        batch.wait()
    }

    fn flush(&self) -> Result<(), Failure> {
        self.call(IoOp::Flush, 0, 0).map(|_| ())
    }

    fn trim(&self, offset: u64, length: u64) -> Result<(), Failure> {
        self.call(IoOp::Trim, offset, length as u32).map(|_| ())
    }
}
