//! The trait of a layer: it takes commands from above, gives commands to below, and keeps a
//! contract with both.

use units::Nanos;

use crate::counter::Counter;
use crate::{Command, Data, Extent, Failure, Limits, Reply, ScrubState, Signal};

/// Actions that a layer wants done: it fills the lists, and the one who runs it empties them.
#[derive(Debug, Default)]
pub struct Actions {
    /// Commands for what is below, in this order.
    pub down: Vec<Command>,
    /// Replies to what is above.
    pub up: Vec<Reply>,
}

impl Actions {
    /// Sends a command below.
    pub fn send(&mut self, command: Command) {
        self.down.push(command);
    }

    /// Replies to a command from above.
    pub fn reply(&mut self, id: u32, outcome: Result<Data, Failure>) {
        self.up.push(Reply { id, outcome });
    }
}

/// A layer between a host and a device: a state machine without I/O. It is told of events and their
/// times, and answers with actions; whoever runs it carries them out, in virtual time, in real
/// time, or in a test that cuts the power.
///
/// # The contract
/// Upwards and downwards alike it is that of the crate [`block`], and every layer keeps it towards
/// what is above if what is below does. A layer waits only for replies from below and for the time
/// told by [`Layer::wakes_at`]. It turns neither a flush nor FUA into less. If a write, trim or
/// flush of the layer's own fails on which something acknowledged depends, the layer is poisoned:
/// every command from then on fails with [`Failure::Poisoned`], except reads where the layer knows
/// that they give what was last written.
pub trait Layer: Send {
    /// Gives the name in the registry.
    fn name(&self) -> &'static str;

    /// Gives the limits of commands from above.
    fn limits(&self) -> Limits;

    /// Takes a command from above. Its id belongs to the sender.
    ///
    /// # Panics
    /// As [`Command::check`].
    fn submit(&mut self, command: Command, now: Nanos, actions: &mut Actions);

    /// Takes the reply to a command of its own.
    fn replied(&mut self, reply: Reply, now: Nanos, actions: &mut Actions);

    /// Gives the time at which it wants to be woken, in nanoseconds on the clock that it is told: a
    /// time that has passed means at once.
    fn wakes_at(&self) -> Option<Nanos> {
        None
    }

    /// Wakes it, as the time that it gave has come.
    fn wake(&mut self, now: Nanos, actions: &mut Actions) {
        let _ = (now, actions);
    }

    /// Takes a signal. It is sent to each layer of a stack, from the top down.
    fn signal(&mut self, signal: Signal, now: Nanos, actions: &mut Actions) {
        let _ = (signal, now, actions);
    }

    /// Returns true if it does nothing of its own and holds nothing back: this is so some time
    /// after [`Signal::Drain`].
    fn is_idle(&self) -> bool;

    /// Gives the progress of a pass over all that has checksums ([`Signal::Scrub`]); none for a
    /// layer that keeps no checksums.
    fn scrub(&self) -> Option<ScrubState> {
        None
    }

    /// Gives the places that are known to be bad, and those that the last pass could not read, in
    /// its own addresses: first byte and bytes, ascending, at most `most` places. Places that touch
    /// are joined.
    fn bad_places(&self, most: usize) -> Vec<(u64, u64)> {
        let _ = most;
        Vec::new()
    }

    /// Gives the alignment, in bytes, of trims that are writes of zeros; none if it promises no
    /// more than the contract.
    fn zeroing_bytes(&self) -> Option<u32> {
        None
    }

    /// Describes the first of these bytes, of which there is at least one: holes or data, and the
    /// length.
    fn extent(&self, offset: u64, length: u64) -> Extent {
        let _ = offset;
        Extent { length, is_hole: false }
    }

    /// Gives its counters.
    fn counters(&self) -> &'static [Counter] {
        &[]
    }

    /// Adds the values of its counters, in the order of [`Layer::counters`].
    fn count(&self, into: &mut Vec<u64>) {
        let _ = into;
    }
}
