//! A layer in which a command fails: an error in the middle of a stack.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use block::{Command, Limits, Reply};
use layers::{Actions, Layer};
use units::{IoOp, Nanos};

use crate::ErrorPlan;

/// Plan of a failure, and its state.
#[derive(Debug)]
struct Plan {
    plan: ErrorPlan,
    left: AtomicU64,
    has_failed: AtomicBool,
}

/// Layer that passes on all commands between two layers, except those that are to fail.
pub struct Failing {
    plan: Arc<Plan>,
    limits: Limits,
    /// Commands that were passed on and whose replies become failures: they take effect all the
    /// same.
    failing: Vec<Command>,
}

/// Handle that asks a [`Failing`] somewhere in a stack if it has failed.
#[derive(Clone, Debug)]
pub struct HasFailed(Arc<Plan>);

impl HasFailed {
    /// Returns true if a command failed.
    #[must_use]
    pub fn get(&self) -> bool {
        self.0.has_failed.load(Relaxed)
    }
}

impl Failing {
    /// Makes a layer over something with these limits. Where the number in the plan is odd, the
    /// command that fails is passed on all the same and takes effect.
    #[must_use]
    pub fn new(plan: ErrorPlan, limits: Limits) -> (Self, HasFailed) {
        let left = AtomicU64::new(plan.at);
        let plan = Arc::new(Plan { plan, left, has_failed: AtomicBool::new(false) });
        let asked = HasFailed(Arc::clone(&plan));
        (Self { plan, limits, failing: Vec::new() }, asked)
    }

    fn fails(&self, op: IoOp) -> bool {
        let Plan { plan, left, has_failed } = &*self.plan;
        if has_failed.load(Relaxed) {
            return plan.is_lasting && op != IoOp::Read;
        }
        if plan.op.is_some_and(|only| only != op) {
            return false;
        }
        let is_now = left.load(Relaxed) == 0;
        if is_now {
            has_failed.store(true, Relaxed);
        } else {
            left.fetch_sub(1, Relaxed);
        }
        is_now
    }
}

impl Layer for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn submit(&mut self, command: Command, _now: Nanos, actions: &mut Actions) {
        if !self.fails(command.op) {
            actions.send(command);
        } else if self.plan.plan.at.is_multiple_of(2) {
            actions.reply(command.id, Err(command.failed("fault between layers")));
        } else {
            self.failing.push(command.clone());
            actions.send(command);
        }
    }

    fn replied(&mut self, reply: Reply, _now: Nanos, actions: &mut Actions) {
        let Reply { id, mut outcome } = reply;
        if let Some(at) = self.failing.iter().position(|command| command.id == id) {
            outcome = Err(self.failing.swap_remove(at).failed("fault between layers"));
        }
        actions.reply(id, outcome);
    }

    fn is_idle(&self) -> bool {
        true
    }
}
