//! What layers are formatted on and recovered from: bytes that are read and written one after the
//! other.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use units::{IoOp, Nanos};

use crate::{Actions, Command, Data, Failure, Limits, Reply, Stack};

/// Bytes on a device, or on layers above one, while nothing else goes on. Whoever makes a volume or
/// opens one has time to wait.
pub trait Store {
    /// What may be asked of it. Reads and writes here may be longer than `most_bytes`.
    fn limits(&self) -> Limits;

    /// Reads whole sectors.
    ///
    /// # Errors
    /// [`Failure`] if they cannot be read.
    fn read(&mut self, offset: u64, to: &mut [u8]) -> Result<(), Failure>;

    /// Writes whole sectors; durable after [`Store::flush`].
    ///
    /// # Errors
    /// [`Failure`] if they cannot be written.
    fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), Failure>;

    /// Makes durable what was written.
    ///
    /// # Errors
    /// [`Failure`] if that fails: it is unknown then what is durable.
    fn flush(&mut self) -> Result<(), Failure>;
}

/// Memory that holds what was written and zeros elsewhere: as large as it has to be, whatever the
/// capacity.
#[derive(Clone, Debug)]
pub struct Sparse {
    limits: Limits,
    sectors: FxHashMap<u64, Box<[u8]>>,
}

impl Sparse {
    /// Zeros all over.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, sectors: FxHashMap::default() }
    }

    fn sectors_of(&self, offset: u64, length: usize) -> std::ops::Range<u64> {
        let sector = u64::from(self.limits.sector_bytes);
        assert!(
            offset.is_multiple_of(sector)
                && (length as u64).is_multiple_of(sector)
                && offset + length as u64 <= self.limits.capacity_bytes,
            "byte {offset} and {length} bytes from there are whole sectors of {sector} within {}",
            self.limits.capacity_bytes
        );
        offset / sector..offset / sector + length as u64 / sector
    }
}

impl Store for Sparse {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn read(&mut self, offset: u64, to: &mut [u8]) -> Result<(), Failure> {
        let numbers = self.sectors_of(offset, to.len());
        for (number, part) in numbers.zip(to.chunks_mut(self.limits.sector_bytes as usize)) {
            match self.sectors.get(&number) {
                Some(bytes) => part.copy_from_slice(bytes),
                None => part.fill(0),
            }
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), Failure> {
        let numbers = self.sectors_of(offset, from.len());
        for (number, part) in numbers.zip(from.chunks(self.limits.sector_bytes as usize)) {
            self.sectors.insert(number, part.into());
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// Layers over a store, taken for a store: what the next layer above is formatted on and recovered
/// from.
pub struct Through<'a> {
    stack: &'a mut Stack,
    below: &'a mut dyn Store,
    now: Nanos,
}

impl<'a> Through<'a> {
    /// Nothing else goes on in the stack.
    #[must_use]
    pub fn new(stack: &'a mut Stack, below: &'a mut dyn Store) -> Self {
        Self { stack, below, now: 0 }
    }

    /// Carries out one command, in time that passes only where a layer waits for it.
    ///
    /// # Errors
    /// [`Failure`] of the command.
    ///
    /// # Panics
    /// If a layer does not reply though it waits for nothing.
    pub fn run(&mut self, op: IoOp, offset: u64, length: u32, data: Data) -> Result<Data, Failure> {
        let mut actions = Actions::default();
        self.stack.submit(
            Command { id: 0, op, offset, length, is_fua: false, data },
            self.now,
            &mut actions,
        );
        let mut waiting = VecDeque::new();
        loop {
            if let Some(reply) = actions.up.pop() {
                // What the layers still do of their own is done, too: nothing is left under way.
                waiting.extend(actions.down.drain(..));
                while let Some(command) = waiting.pop_front() {
                    let reply = carry_out(self.below, &command);
                    self.stack.replied(reply, self.now, &mut actions);
                    waiting.extend(actions.down.drain(..));
                }
                return reply.outcome;
            }
            waiting.extend(actions.down.drain(..));
            if let Some(command) = waiting.pop_front() {
                let reply = carry_out(self.below, &command);
                self.stack.replied(reply, self.now, &mut actions);
            } else {
                let at = self.stack.wakes_at();
                assert!(
                    at.is_some(),
                    "a {} at byte {offset} is never replied to: a bug of a layer",
                    op.name()
                );
                self.now = self.now.max(at.unwrap_or(0));
                self.stack.wake(self.now, &mut actions);
            }
        }
    }
}

/// Carries out a command on a store: its trims change nothing, and FUA is a flush.
pub fn carry_out(store: &mut dyn Store, command: &Command) -> Reply {
    let outcome = match command.op {
        IoOp::Read => {
            let mut bytes = vec![0; command.length as usize];
            store.read(command.offset, &mut bytes).map(|()| Data::Whole(bytes.into()))
        }
        IoOp::Write => {
            let bytes = command.data.joined().unwrap_or_default();
            store
                .write(command.offset, &bytes)
                .and_then(|()| if command.is_fua { store.flush() } else { Ok(()) })
                .map(|()| Data::Absent)
        }
        IoOp::Trim => Ok(Data::Absent),
        IoOp::Flush => store.flush().map(|()| Data::Absent),
    };
    Reply { id: command.id, outcome }
}

impl Store for Through<'_> {
    fn limits(&self) -> Limits {
        self.stack.limits()
    }

    fn read(&mut self, offset: u64, to: &mut [u8]) -> Result<(), Failure> {
        let most = self.limits().most_bytes as usize;
        for (number, part) in to.chunks_mut(most).enumerate() {
            let at = offset + (number * most) as u64;
            self.run(IoOp::Read, at, part.len() as u32, Data::Absent)?.copy_to(part);
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, from: &[u8]) -> Result<(), Failure> {
        let most = self.limits().most_bytes as usize;
        for (number, part) in from.chunks(most).enumerate() {
            let at = offset + (number * most) as u64;
            self.run(IoOp::Write, at, part.len() as u32, Data::copy_of(part))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.run(IoOp::Flush, 0, 0, Data::Absent).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_without_layers_is_the_store_itself() {
        let limits = Limits { capacity_bytes: 1 << 20, sector_bytes: 512, most_bytes: 1024 };
        let mut below = Sparse::new(limits);
        let mut stack = Stack::new(limits);
        let mut through = Through::new(&mut stack, &mut below);
        let bytes: Vec<u8> = (0..4096u32).map(|n| n as u8).collect();
        through.write(512, &bytes).unwrap();
        through.flush().unwrap();
        let mut read = vec![1; 4096 + 512];
        through.read(0, &mut read).unwrap();
        assert_eq!((&read[..512], &read[512..]), (&[0; 512][..], &bytes[..]));
    }
}
