//! What a layer is: it takes commands from above, gives commands to below, and keeps a contract
//! with both.

use units::Nanos;

use crate::{Command, Data, Failure, Limits, Reply, ScrubState, Signal};

/// What a layer wants done: filled by it, and emptied by whoever runs it.
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

/// A layer between a host and a device: a state machine without I/O. It is told what happens and
/// when, and answers with what it wants done; whoever runs it does that, in virtual time, in real
/// time, or in a test that cuts the power.
///
/// # The contract
/// Upwards and downwards alike it is that of the crate [`block`], and every layer keeps it towards
/// what is above if what is below does. Nothing is waited for but replies from below and the time
/// told by [`Layer::wakes_at`]. A layer turns neither a flush nor FUA into less. A write, trim or
/// flush of the layer's own that fails, on which something acknowledged depends, poisons it: every
/// command from then on fails with [`Failure::Poisoned`], but for reads where the layer knows that
/// they give what was last written.
pub trait Layer: Send {
    /// The name in the registry.
    fn name(&self) -> &'static str;

    /// What may be asked of it.
    fn limits(&self) -> Limits;

    /// A command from above. Its id belongs to who sent it.
    ///
    /// # Panics
    /// As [`Command::check`].
    fn submit(&mut self, command: Command, now: Nanos, actions: &mut Actions);

    /// The end of a command of its own.
    fn replied(&mut self, reply: Reply, now: Nanos, actions: &mut Actions);

    /// When it wants to be woken, in nanoseconds on the clock that it is told: a time that has
    /// passed means at once.
    fn wakes_at(&self) -> Option<Nanos> {
        None
    }

    /// The time that it told has come.
    fn wake(&mut self, now: Nanos, actions: &mut Actions) {
        let _ = (now, actions);
    }

    /// Something beside commands. It is told to each layer of a stack, from the top down.
    fn signal(&mut self, signal: Signal, now: Nanos, actions: &mut Actions) {
        let _ = (signal, now, actions);
    }

    /// Whether it does nothing of its own and holds nothing back: after [`Signal::Drain`] and some
    /// time it does.
    fn is_idle(&self) -> bool;

    /// How far it is with a pass over all that has checksums ([`Signal::Scrub`]); none of a layer
    /// that keeps no checksums.
    fn scrub(&self) -> Option<ScrubState> {
        None
    }

    /// What it knows to be bad, and what the last pass could not read, in its own addresses: first
    /// byte and bytes, ascending, at most `most` places. What touches is one place.
    fn bad_places(&self, most: usize) -> Vec<(u64, u64)> {
        let _ = most;
        Vec::new()
    }

    /// What it has counted, in the order of the registry's [`crate::Counter`]s.
    fn count(&self, into: &mut Vec<u64>) {
        let _ = into;
    }
}
