//! Locks that transactions hold until they end: strict two-phase locking.

use registry::Info;
use units::lists::NONE;

/// Treatment of a transaction whose lock others hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It waits, and is restarted if its waiting would close a cycle.
    Detect,
    /// It waits if it is older than all that it would wait for, and is restarted otherwise.
    WaitDie,
    /// It is restarted.
    NoWait,
}

/// All rules.
pub static RULES: &[(Info, Rule)] = &[
    (
        Info {
            name: "detect",
            aliases: &["deadlock"],
            summary: "wait; restart whoever would close a circle of waiting",
            source: "Gray, Notes on Data Base Operating Systems, 1978; PostgreSQL",
            params: &[],
        },
        Rule::Detect,
    ),
    (
        Info {
            name: "wait_die",
            aliases: &[],
            summary: "wait for younger transactions, restart before older ones",
            source: "Rosenkrantz, Stearns & Lewis, TODS 3(2), 1978",
            params: &[],
        },
        Rule::WaitDie,
    ),
    (
        Info {
            name: "no_wait",
            aliases: &["immediate_restart"],
            summary: "restart at once",
            source: "Agrawal, Carey & Livny, TODS 12(4), 1987: immediate-restart",
            params: &[],
        },
        Rule::NoWait,
    ),
];

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The client has it, or had it before.
    Granted,
    /// It gets it later, from [`Locks::release_all`].
    Waits,
    /// It has to give up all that it holds and start again.
    Restart,
}

#[derive(Clone, Copy)]
struct Lock {
    id: u32,
    next_in_bucket: u32,
    /// Requests in the order in which they came.
    first: u32,
}

#[derive(Clone, Copy)]
struct Request {
    client: u32,
    lock: u32,
    is_exclusive: bool,
    is_granted: bool,
    /// It is granted, and waits to be exclusive.
    wants_more: bool,
    next_of_lock: u32,
    next_of_client: u32,
}

/// Locks, their holders, and those who wait for them. First come, first served, but for those who
/// hold a lock and want it exclusively: they wait only for its other holders. Memory grows with the
/// locks held at one time, not with what can be locked; a lock is found by a multiplication.
pub struct Locks {
    rule: Rule,
    buckets: Vec<u32>,
    shift: u32,
    locks: Vec<Lock>,
    free_locks: Vec<u32>,
    requests: Vec<Request>,
    free_requests: Vec<u32>,
    of_client: Vec<u32>,
    /// The request that each client waits with.
    waits_with: Vec<u32>,
    /// Time at which each client's transaction began, for the rules that ask.
    ages: Vec<u64>,
    /// Scratch of the search for circles.
    seen: Vec<bool>,
    stack: Vec<u32>,
}

const BUCKETS: u32 = 1 << 14;

impl Locks {
    /// For `clients` clients.
    #[must_use]
    pub fn new(clients: u32, rule: Rule) -> Self {
        let clients = clients as usize;
        Self {
            rule,
            buckets: vec![NONE; BUCKETS as usize],
            shift: u32::BITS - BUCKETS.ilog2(),
            locks: Vec::new(),
            free_locks: Vec::new(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            of_client: vec![NONE; clients],
            waits_with: vec![NONE; clients],
            ages: vec![0; clients],
            seen: vec![false; clients],
            stack: Vec::with_capacity(clients),
        }
    }

    /// A client's transaction begins: the lower the number, the older. It keeps it when it is
    /// restarted.
    pub fn begin(&mut self, client: u32, age: u64) {
        debug_assert_eq!(self.of_client[client as usize], NONE, "it holds locks from before");
        self.ages[client as usize] = age;
    }

    /// Asks for a lock.
    pub fn request(&mut self, client: u32, id: u32, is_exclusive: bool) -> Answer {
        let lock = self.find_or_make(id);
        let own = self.own(lock, client);
        if own != NONE {
            let request = self.requests[own as usize];
            if request.is_exclusive || !is_exclusive {
                return Answer::Granted;
            }
            self.requests[own as usize].wants_more = true;
            if !self.has_blocker(own) {
                let request = &mut self.requests[own as usize];
                (request.is_exclusive, request.wants_more) = (true, false);
                return Answer::Granted;
            }
            return self.wait_or_restart(client, own);
        }
        let request = self.add(lock, client, is_exclusive);
        if !self.has_blocker(request) {
            self.requests[request as usize].is_granted = true;
            return Answer::Granted;
        }
        self.wait_or_restart(client, request)
    }

    /// Takes all locks and the wait of a client away, and puts into `woken` whoever got what it
    /// waited for.
    pub fn release_all(&mut self, client: u32, woken: &mut Vec<u32>) {
        self.waits_with[client as usize] = NONE;
        let mut request = std::mem::replace(&mut self.of_client[client as usize], NONE);
        while request != NONE {
            let Request { lock, next_of_client, .. } = self.requests[request as usize];
            self.unlink(lock, request);
            self.free_requests.push(request);
            self.grant(lock, woken);
            request = next_of_client;
        }
    }

    /// Locks held or waited for.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.len() - self.free_requests.len()
    }

    fn wait_or_restart(&mut self, client: u32, request: u32) -> Answer {
        self.waits_with[client as usize] = request;
        let waits = match self.rule {
            Rule::NoWait => false,
            Rule::Detect => !self.closes_circle(client),
            Rule::WaitDie => {
                let (ages, age) = (&self.ages, self.ages[client as usize]);
                let mut is_older = true;
                self.each_blocker(request, |other| is_older &= age < ages[other as usize]);
                // Who wants a lock exclusively passes those who wait for it: they are not asked.
                is_older && !self.closes_circle(client)
            }
        };
        if waits {
            return Answer::Waits;
        }
        self.waits_with[client as usize] = NONE;
        Answer::Restart
    }

    /// Calls `with` with every client that has to let go before this request can be granted.
    fn each_blocker(&self, request: u32, mut with: impl FnMut(u32)) {
        let Request { client, lock, is_exclusive, wants_more, .. } =
            self.requests[request as usize];
        let wants = is_exclusive || wants_more;
        let mut at = self.locks[lock as usize].first;
        let mut is_ahead = true;
        while at != NONE {
            let other = self.requests[at as usize];
            is_ahead &= at != request;
            let conflicts = wants || other.is_exclusive;
            // One that waits to be exclusive goes before those who hold nothing yet.
            let passes = other.wants_more && !wants_more;
            let holds = other.is_granted && (conflicts || passes);
            let is_before = !other.is_granted && is_ahead && conflicts && !wants_more;
            if other.client != client && (holds || is_before) {
                with(other.client);
            }
            at = other.next_of_lock;
        }
    }

    fn has_blocker(&self, request: u32) -> bool {
        let mut found = false;
        self.each_blocker(request, |_| found = true);
        found
    }

    fn closes_circle(&mut self, client: u32) -> bool {
        let (mut seen, mut stack) =
            (std::mem::take(&mut self.seen), std::mem::take(&mut self.stack));
        seen.fill(false);
        stack.clear();
        stack.push(client);
        let mut is_closed = false;
        while let Some(next) = stack.pop() {
            let request = self.waits_with[next as usize];
            if request == NONE {
                continue;
            }
            self.each_blocker(request, |other| {
                is_closed |= other == client;
                if !std::mem::replace(&mut seen[other as usize], true) {
                    stack.push(other);
                }
            });
            if is_closed {
                break;
            }
        }
        (self.seen, self.stack) = (seen, stack);
        is_closed
    }

    /// Gives a lock to all that can have it now.
    fn grant(&mut self, lock: u32, woken: &mut Vec<u32>) {
        let mut at = self.locks[lock as usize].first;
        if at == NONE {
            self.drop_lock(lock);
            return;
        }
        while at != NONE {
            let request = self.requests[at as usize];
            if (!request.is_granted || request.wants_more) && !self.has_blocker(at) {
                let own = &mut self.requests[at as usize];
                own.is_exclusive |= own.wants_more;
                (own.is_granted, own.wants_more) = (true, false);
                self.waits_with[request.client as usize] = NONE;
                woken.push(request.client);
            }
            at = request.next_of_lock;
        }
    }

    fn bucket(&self, id: u32) -> usize {
        (id.wrapping_mul(0x9E37_79B9) >> self.shift) as usize
    }

    fn find_or_make(&mut self, id: u32) -> u32 {
        let bucket = self.bucket(id);
        let mut lock = self.buckets[bucket];
        while lock != NONE && self.locks[lock as usize].id != id {
            lock = self.locks[lock as usize].next_in_bucket;
        }
        if lock != NONE {
            return lock;
        }
        let made = Lock { id, next_in_bucket: self.buckets[bucket], first: NONE };
        let lock = take(&mut self.locks, &mut self.free_locks, made);
        self.buckets[bucket] = lock;
        lock
    }

    fn drop_lock(&mut self, lock: u32) {
        let Lock { id, next_in_bucket, .. } = self.locks[lock as usize];
        let bucket = self.bucket(id);
        let mut at = self.buckets[bucket];
        if at == lock {
            self.buckets[bucket] = next_in_bucket;
        } else {
            while self.locks[at as usize].next_in_bucket != lock {
                at = self.locks[at as usize].next_in_bucket;
            }
            self.locks[at as usize].next_in_bucket = next_in_bucket;
        }
        self.free_locks.push(lock);
    }

    fn own(&self, lock: u32, client: u32) -> u32 {
        let mut at = self.locks[lock as usize].first;
        while at != NONE && self.requests[at as usize].client != client {
            at = self.requests[at as usize].next_of_lock;
        }
        at
    }

    fn add(&mut self, lock: u32, client: u32, is_exclusive: bool) -> u32 {
        let made = Request {
            client,
            lock,
            is_exclusive,
            is_granted: false,
            wants_more: false,
            next_of_lock: NONE,
            next_of_client: self.of_client[client as usize],
        };
        let request = take(&mut self.requests, &mut self.free_requests, made);
        self.of_client[client as usize] = request;
        let mut at = self.locks[lock as usize].first;
        if at == NONE {
            self.locks[lock as usize].first = request;
            return request;
        }
        while self.requests[at as usize].next_of_lock != NONE {
            at = self.requests[at as usize].next_of_lock;
        }
        self.requests[at as usize].next_of_lock = request;
        request
    }

    fn unlink(&mut self, lock: u32, request: u32) {
        let next = self.requests[request as usize].next_of_lock;
        let mut at = self.locks[lock as usize].first;
        if at == request {
            self.locks[lock as usize].first = next;
            return;
        }
        while self.requests[at as usize].next_of_lock != request {
            at = self.requests[at as usize].next_of_lock;
        }
        self.requests[at as usize].next_of_lock = next;
    }
}

fn take<T>(all: &mut Vec<T>, free: &mut Vec<u32>, made: T) -> u32 {
    if let Some(at) = free.pop() {
        all[at as usize] = made;
        return at;
    }
    all.push(made);
    all.len() as u32 - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locks(rule: Rule) -> Locks {
        let mut locks = Locks::new(4, rule);
        (0..4).for_each(|client| locks.begin(client, u64::from(client)));
        locks
    }

    fn release(locks: &mut Locks, client: u32) -> Vec<u32> {
        let mut woken = Vec::new();
        locks.release_all(client, &mut woken);
        woken
    }

    #[test]
    fn shared_locks_are_shared_and_exclusive_ones_are_not() {
        let mut locks = locks(Rule::Detect);
        assert_eq!(locks.request(0, 7, false), Answer::Granted);
        assert_eq!(locks.request(1, 7, false), Answer::Granted);
        assert_eq!(locks.request(2, 7, true), Answer::Waits);
        // Nobody passes whoever waits.
        assert_eq!(locks.request(3, 7, false), Answer::Waits);
        assert!(release(&mut locks, 0).is_empty());
        assert_eq!(release(&mut locks, 1), [2]);
        assert_eq!(release(&mut locks, 2), [3]);
        assert!(release(&mut locks, 3).is_empty());
        assert_eq!(locks.requests(), 0);
    }

    #[test]
    fn who_holds_a_lock_passes_those_who_wait_for_it() {
        let mut locks = locks(Rule::Detect);
        locks.request(0, 7, false);
        locks.request(1, 7, false);
        assert_eq!(locks.request(2, 7, true), Answer::Waits);
        assert_eq!(locks.request(0, 7, true), Answer::Waits);
        // Both hold it and both want it alone: a circle.
        assert_eq!(locks.request(1, 7, true), Answer::Restart);
        assert_eq!(release(&mut locks, 1), [0]);
        assert_eq!(release(&mut locks, 0), [2]);
    }

    #[test]
    fn a_circle_is_found_over_several_locks() {
        let mut locks = locks(Rule::Detect);
        (0..3).for_each(|client| assert_eq!(locks.request(client, client, true), Answer::Granted));
        assert_eq!(locks.request(0, 1, true), Answer::Waits);
        assert_eq!(locks.request(1, 2, true), Answer::Waits);
        assert_eq!(locks.request(2, 0, true), Answer::Restart);
        assert_eq!(release(&mut locks, 2), [1]);
    }

    #[test]
    fn the_young_die_and_the_old_wait() {
        let mut locks = locks(Rule::WaitDie);
        locks.request(1, 7, true);
        assert_eq!(locks.request(2, 7, true), Answer::Restart);
        assert!(release(&mut locks, 2).is_empty());
        assert_eq!(locks.request(0, 7, true), Answer::Waits);
        assert_eq!(release(&mut locks, 1), [0]);
    }

    #[test]
    fn without_waiting_every_conflict_restarts() {
        let mut locks = locks(Rule::NoWait);
        locks.request(0, 7, false);
        assert_eq!(locks.request(1, 7, false), Answer::Granted);
        assert_eq!(locks.request(0, 7, true), Answer::Restart);
    }
}
