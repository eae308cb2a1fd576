//! Memory of requests that are under way.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::Request;

/// Bytes of the record of a request, and of its commands.
const SMALL_BYTES: u64 = 4096;

/// Gives the most memory that a request takes: its bytes as they came or go, and once more in the
/// layers.
pub fn bytes_of(request: &Request) -> u64 {
    let (_, length) = request.range();
    let moved = match request {
        Request::Read { .. } | Request::Write { .. } => length,
        Request::Zero { .. } | Request::Trim { .. } | Request::Flush => 0,
    };
    bytes_of_moved(moved)
}

/// Gives the most memory of a request that reads or writes so many bytes.
pub const fn bytes_of_moved(length: u64) -> u64 {
    SMALL_BYTES + 2 * length
}

/// Gate that lets requests in as long as there is memory for them; others wait.
#[derive(Debug)]
pub struct Gate {
    most: u64,
    inside: AtomicU64,
    waiting: AtomicUsize,
    turn: Mutex<()>,
    left: Condvar,
}

impl Gate {
    pub fn new(most: u64) -> Self {
        Self {
            most,
            inside: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            turn: Mutex::new(()),
            left: Condvar::new(),
        }
    }

    /// Gives the bytes of all requests that are inside.
    pub fn inside(&self) -> u64 {
        self.inside.load(Ordering::Relaxed)
    }

    /// Waits for room. A request that is larger than all of it goes in alone.
    fn enter(&self, bytes: u64) {
        if self.try_enter(bytes) {
            return;
        }
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while !self.try_enter(bytes) {
            turn = self.left.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    fn try_enter(&self, bytes: u64) -> bool {
        let has_room = |inside: u64| inside == 0 || inside.saturating_add(bytes) <= self.most;
        self.inside
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |inside| {
                has_room(inside).then(|| inside + bytes)
            })
            .is_ok()
    }

    /// Makes room again.
    fn leave(&self, bytes: u64) {
        self.inside.fetch_sub(bytes, Ordering::SeqCst);
        // A request that found no room before this was counted as waiting before that.
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            self.left.notify_all();
        }
    }
}

/// Room in memory for a request, given back when it is dropped.
#[derive(Debug)]
pub struct Room {
    gate: Arc<Gate>,
    bytes: u64,
}

impl Room {
    /// Waits for room, and takes it.
    pub fn of(gate: &Arc<Gate>, bytes: u64) -> Self {
        gate.enter(bytes);
        Self { gate: gate.clone(), bytes }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.gate.leave(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_finds_no_room_waits_until_there_is_some() {
        let gate = Arc::new(Gate::new(10));
        gate.enter(6);
        gate.enter(4);
        let (sender, entered) = mpsc::channel();
        let other = gate.clone();
        let waiting = thread::spawn(move || {
            other.enter(5);
            sender.send(()).unwrap();
        });
        assert!(entered.recv_timeout(Duration::from_millis(50)).is_err(), "it waits");
        gate.leave(4);
        assert!(entered.recv_timeout(Duration::from_millis(50)).is_err(), "4 are too few");
        gate.leave(6);
        entered.recv().unwrap();
        waiting.join().unwrap();
        assert_eq!(gate.inside(), 5);
    }

    #[test]
    fn what_is_larger_than_all_goes_in_alone() {
        let gate = Gate::new(10);
        gate.enter(1000);
        gate.leave(1000);
        assert_eq!(gate.inside(), 0);
    }
}
