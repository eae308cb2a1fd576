//! Trims: they wait for homes, and writes of their pages wait for them.

use units::{IoOp, Nanos};

use super::flights::Own;
use super::layer::Replicas;
use crate::{Actions, Command, Data, Failure, Gather, ParentPart};

/// A trim of bytes of the host that lie side by side at home.
#[derive(Debug)]
pub struct Trim {
    part: ParentPart,
    start: u64,
    end: u64,
    is_sent: bool,
}

impl Replicas {
    pub(super) fn trim(&mut self, command: &Command, now: Nanos, actions: &mut Actions) {
        let mut pieces = Vec::new();
        let mut start = command.offset;
        while start < command.end() {
            let end = command.end().min(start + self.geometry.beside(start));
            pieces.push((start, end));
            start = end;
        }
        let parent = self.gather.begin(command.id, pieces.len() as u32);
        for (place, (start, end)) in pieces.into_iter().enumerate() {
            let part = Gather::part(parent, place as u32);
            self.trims.insert(Trim { part, start, end, is_sent: false });
        }
        self.send_trims(now, actions);
    }

    /// Returns true if a trim of any of these pages has not ended.
    pub(super) fn is_trimming(&self, start: u64, end: u64) -> bool {
        let pages = self.pages_of(start, end);
        self.trims.iter().any(|(_, trim)| {
            let others = self.pages_of(trim.start, trim.end);
            others.start < pages.end && pages.start < others.end
        })
    }

    /// Sends the trims of pages whose homes hold all earlier writes.
    pub(super) fn send_trims(&mut self, now: Nanos, actions: &mut Actions) {
        if self.trims.iter().all(|(_, trim)| trim.is_sent) {
            return;
        }
        let waiting: Vec<usize> =
            self.trims.iter().filter(|(_, trim)| !trim.is_sent).map(|(key, _)| key).collect();
        for key in waiting {
            let (start, end) = (self.trims[key].start, self.trims[key].end);
            let pages = self.pages_of(start, end);
            let known: Vec<u64> = if pages.end - pages.start < self.pages.len() as u64 {
                pages.clone().filter(|page| self.pages.contains_key(page)).collect()
            } else {
                self.pages.keys().copied().filter(|page| pages.contains(page)).collect()
            };
            if !known.iter().all(|page| self.pages[page].is_quiet()) {
                continue;
            }
            for page in known {
                self.counts.invalidated += self.drop_replicas(page);
            }
            self.changes_all(pages);
            self.trims[key].is_sent = true;
            let offset = self.geometry.home_offset(start);
            let command = Command::new(0, IoOp::Trim, offset, (end - start) as u32);
            self.send(Own::Trim(key as u32), command, now, actions);
        }
    }

    pub(super) fn trimmed(
        &mut self,
        key: u32,
        outcome: Result<Data, Failure>,
        now: Nanos,
        actions: &mut Actions,
    ) {
        let Trim { part, start, end, .. } = self.trims.remove(key as usize);
        self.changes_all(self.pages_of(start, end));
        self.ends_at_home(self.pages_of(start, end));
        self.gather.ended(part, outcome.map(|_| Data::Absent), actions);
        for _ in 0..self.held.len() {
            let Some(command) = self.held.pop_front() else { break };
            if self.is_trimming(command.offset, command.end()) {
                self.held.push_back(command);
            } else {
                self.write(command, now, actions);
            }
        }
    }

    /// Fails the trims that wait, as the layer is poisoned.
    pub(super) fn fail_waiting_trims(&mut self, poison: &Failure, actions: &mut Actions) {
        let Self { trims, gather, .. } = self;
        trims.retain(|_, trim| {
            if !trim.is_sent {
                gather.ended(trim.part, Err(poison.clone()), actions);
            }
            trim.is_sent
        });
    }
}
