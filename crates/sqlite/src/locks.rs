//! Locks among the connections of this process, and the memory that they share for a write-ahead
//! log. A volume is open in one process, so that no other process has to be locked out.

use std::ffi::c_int;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sqlite3::{
    LOCK_EXCLUSIVE, LOCK_NONE, LOCK_PENDING, LOCK_RESERVED, LOCK_SHARED, SHM_LOCKS, SHM_SHARED,
    SHM_UNLOCK,
};

/// Bytes of a region of shared memory.
pub const REGION_BYTES: usize = 32 << 10;

/// A region: words that any thread may change.
type Region = Box<[AtomicU64]>;

/// State that the connections of a database share.
#[derive(Debug, Default)]
pub struct Shared {
    locks: Mutex<Locks>,
    memory: Mutex<Memory>,
}

/// SQLite's five states (<https://sqlite.org/lockingv3.html>, section 3).
#[derive(Debug, Default)]
struct Locks {
    /// Number of connections with SHARED or more.
    shared: usize,
    reserved: bool,
    pending: bool,
    exclusive: bool,
}

#[derive(Debug, Default)]
struct Memory {
    users: usize,
    regions: Vec<Region>,
    /// Number of connections that share each lock.
    shared: [usize; SHM_LOCKS],
    exclusive: [bool; SHM_LOCKS],
}

/// Locks and memory that one connection has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// SQLite's lock level.
    pub level: c_int,
    uses_memory: bool,
    shared: u8,
    exclusive: u8,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Raises a connection's lock. Returns true if it could: on the way to EXCLUSIVE it may stay
    /// PENDING.
    pub fn lock(&self, held: &mut Held, wanted: c_int) -> bool {
        let mut locks = lock(&self.locks);
        if held.level >= wanted {
            return true;
        }
        match wanted {
            LOCK_SHARED => {
                if locks.pending || locks.exclusive {
                    return false;
                }
                locks.shared += 1;
            }
            LOCK_RESERVED => {
                if locks.reserved || locks.pending {
                    return false;
                }
                locks.reserved = true;
            }
            _ => {
                let is_others = held.level < LOCK_RESERVED && locks.reserved
                    || held.level < LOCK_PENDING && locks.pending;
                if is_others {
                    return false;
                }
                locks.pending = true;
                held.level = LOCK_PENDING;
                if wanted == LOCK_PENDING {
                    return true;
                }
                if locks.shared > 1 {
                    return false;
                }
                locks.exclusive = true;
            }
        }
        held.level = wanted;
        true
    }

    /// Lowers a connection's lock to SHARED or NONE.
    pub fn unlock(&self, held: &mut Held, wanted: c_int) {
        let mut locks = lock(&self.locks);
        if held.level <= wanted {
            return;
        }
        if held.level >= LOCK_RESERVED {
            // A connection that is PENDING without RESERVED has let no other have RESERVED.
            (locks.reserved, locks.pending) = (false, locks.pending && held.level < LOCK_PENDING);
            locks.exclusive &= held.level < LOCK_EXCLUSIVE;
        }
        if wanted == LOCK_NONE {
            locks.shared -= 1;
        }
        held.level = wanted;
    }

    /// Returns true if a connection is about to write.
    pub fn is_reserved(&self) -> bool {
        let locks = lock(&self.locks);
        locks.reserved || locks.pending || locks.exclusive
    }

    /// Gives a region of the shared memory: none if it does not exist and is not to be made.
    pub fn map(&self, held: &mut Held, region: usize, makes: bool) -> Option<*const AtomicU64> {
        let mut memory = lock(&self.memory);
        if !held.uses_memory {
            held.uses_memory = true;
            memory.users += 1;
        }
        while makes && memory.regions.len() <= region {
            let words = REGION_BYTES / size_of::<AtomicU64>();
            memory.regions.push((0..words).map(|_| AtomicU64::new(0)).collect());
        }
        memory.regions.get(region).map(|region| region.as_ptr())
    }

    /// Takes or gives back locks `first ... first + count - 1` of the shared memory. Returns true
    /// if it could.
    pub fn lock_memory(&self, held: &mut Held, first: usize, count: usize, flags: c_int) -> bool {
        let mut memory = lock(&self.memory);
        let mask = |index: usize| 1_u8 << index;
        let range = first..(first + count).min(SHM_LOCKS);
        if flags & SHM_UNLOCK != 0 {
            range.for_each(|index| memory.give_back(held, index));
            return true;
        }
        if flags & SHM_SHARED != 0 {
            for index in range.clone() {
                if memory.exclusive[index] && held.exclusive & mask(index) == 0 {
                    return false;
                }
            }
            for index in range {
                if held.shared & mask(index) == 0 {
                    held.shared |= mask(index);
                    memory.shared[index] += 1;
                }
            }
            return true;
        }
        for index in range.clone() {
            let own = usize::from(held.shared & mask(index) != 0);
            let is_own = held.exclusive & mask(index) != 0;
            if memory.exclusive[index] && !is_own || memory.shared[index] > own {
                return false;
            }
        }
        for index in range {
            held.exclusive |= mask(index);
            memory.exclusive[index] = true;
        }
        true
    }

    /// Ends a connection's use of the shared memory. It is freed with the last one.
    pub fn unmap(&self, held: &mut Held) {
        let mut memory = lock(&self.memory);
        if !std::mem::take(&mut held.uses_memory) {
            return;
        }
        (0..SHM_LOCKS).for_each(|index| memory.give_back(held, index));
        memory.users -= 1;
        if memory.users == 0 {
            memory.regions.clear();
        }
    }
}

impl Memory {
    fn give_back(&mut self, held: &mut Held, index: usize) {
        let mask = 1_u8 << index;
        if held.shared & mask != 0 {
            self.shared[index] -= 1;
        }
        if held.exclusive & mask != 0 {
            self.exclusive[index] = false;
        }
        held.shared &= !mask;
        held.exclusive &= !mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite3::SHM_UNLOCK as UNLOCK;

    const EXCLUSIVE: c_int = 8;

    #[test]
    fn one_writes_when_nobody_reads() {
        let shared = Shared::default();
        let (mut a, mut b) = (Held::default(), Held::default());
        assert!(shared.lock(&mut a, LOCK_SHARED) && shared.lock(&mut b, LOCK_SHARED));
        assert!(shared.lock(&mut a, LOCK_RESERVED) && shared.is_reserved());
        assert!(!shared.lock(&mut b, LOCK_RESERVED));
        assert!(!shared.lock(&mut a, LOCK_EXCLUSIVE), "b reads");
        assert_eq!(a.level, LOCK_PENDING);
        let mut c = Held::default();
        assert!(!shared.lock(&mut c, LOCK_SHARED), "no new readers while a waits");
        shared.unlock(&mut b, LOCK_NONE);
        assert!(shared.lock(&mut a, LOCK_EXCLUSIVE));
        assert!(!shared.lock(&mut c, LOCK_SHARED));
        shared.unlock(&mut a, LOCK_SHARED);
        assert!(!shared.is_reserved() && shared.lock(&mut c, LOCK_SHARED));
        shared.unlock(&mut a, LOCK_NONE);
        assert!(shared.lock(&mut c, LOCK_EXCLUSIVE), "a hot journal is rolled back so");
    }

    #[test]
    fn two_that_want_to_write_do_not_both() {
        let shared = Shared::default();
        let (mut a, mut b) = (Held::default(), Held::default());
        assert!(shared.lock(&mut a, LOCK_SHARED) && shared.lock(&mut b, LOCK_SHARED));
        assert!(!shared.lock(&mut a, LOCK_EXCLUSIVE), "b reads");
        assert!(!shared.lock(&mut b, LOCK_RESERVED) && !shared.lock(&mut b, LOCK_EXCLUSIVE));
        assert_eq!(b.level, LOCK_SHARED);
        shared.unlock(&mut a, LOCK_NONE);
        assert!(shared.lock(&mut b, LOCK_EXCLUSIVE));
    }

    #[test]
    fn locks_of_memory_are_shared_or_one_connections() {
        let shared = Shared::default();
        let (mut a, mut b) = (Held::default(), Held::default());
        assert_eq!(shared.map(&mut a, 0, false), None);
        let place = shared.map(&mut a, 1, true);
        assert!(place.is_some() && shared.map(&mut b, 1, false) == place);
        assert!(shared.lock_memory(&mut a, 3, 1, 2 | SHM_SHARED));
        assert!(shared.lock_memory(&mut b, 3, 1, 2 | SHM_SHARED));
        assert!(!shared.lock_memory(&mut a, 0, 8, 2 | EXCLUSIVE));
        assert!(shared.lock_memory(&mut b, 3, 1, UNLOCK | SHM_SHARED));
        assert!(shared.lock_memory(&mut b, 4, 2, 2 | EXCLUSIVE));
        assert!(!shared.lock_memory(&mut a, 5, 1, 2 | SHM_SHARED));
        shared.unmap(&mut b);
        assert!(shared.lock_memory(&mut a, 5, 1, 2 | EXCLUSIVE));
        shared.unmap(&mut a);
        assert_eq!(shared.map(&mut a, 0, false), None, "with the last user it is gone");
    }
}
