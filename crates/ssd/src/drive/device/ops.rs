//! Page operations under way, by the number of their tag.

use units::Lpn;

use super::RequestSlot;
use crate::drive::time::Picos;

/// Purpose of reading or writing a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpKind {
    /// The host reads it.
    Read,
    /// The host writes it, and waits.
    Write,
    /// The write-back buffer writes it.
    Flush,
    /// The host wrote a part of it: the rest is read, to be written with it.
    Fill,
    /// As `Fill`, of a page in the write-back buffer.
    FlushFill,
    /// Read-ahead.
    Ahead,
}

/// One page operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub kind: OpKind,
    pub lpn: Lpn,
    /// The request, where there is one.
    pub request: RequestSlot,
    /// Time at which the scheme was called.
    pub since: Picos,
}

/// All of them. Numbers are used again.
#[derive(Debug, Default)]
pub(super) struct Ops {
    all: Vec<Op>,
    free: Vec<u32>,
}

impl Ops {
    #[inline]
    pub fn put(&mut self, op: Op) -> u32 {
        if let Some(number) = self.free.pop() {
            self.all[number as usize] = op;
            return number;
        }
        self.all.push(op);
        (self.all.len() - 1) as u32
    }

    #[inline]
    pub fn take(&mut self, number: u32) -> Op {
        self.free.push(number);
        self.all[number as usize]
    }
}
