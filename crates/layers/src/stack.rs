//! Layers on top of each other.

use std::collections::VecDeque;

use units::Nanos;

use crate::{Actions, Command, Layer, Limits, Reply, Signal};

/// Command or reply between two layers. A level is the number of the layer that gets it.
enum Event {
    Down(usize, Command),
    Up(usize, Reply),
}

/// Layers on top of each other, which act as one layer. A stack without layers passes all on.
pub struct Stack {
    /// Layers from the top, which the host sees, to the bottom.
    layers: Vec<Box<dyn Layer>>,
    below: Limits,
    events: VecDeque<Event>,
    scratch: Actions,
}

impl Stack {
    /// Makes an empty stack over something with these limits.
    #[must_use]
    pub fn new(below: Limits) -> Self {
        Self { layers: Vec::new(), below, events: VecDeque::new(), scratch: Actions::default() }
    }

    /// Puts a layer on top.
    pub fn push(&mut self, layer: Box<dyn Layer>) {
        self.insert_above(self.layers.len(), layer);
    }

    /// Puts a layer above so many others, counted from the bottom.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn insert_above(&mut self, others: usize, layer: Box<dyn Layer>) {
        self.layers.insert(self.layers.len() - others, layer);
    }

    /// Gives the layers, from the top to the bottom.
    #[must_use]
    pub fn layers(&self) -> &[Box<dyn Layer>] {
        &self.layers
    }

    /// Gives the limits that it offers.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.layers.first().map_or(self.below, |layer| layer.limits())
    }

    /// Takes a command of the host.
    ///
    /// # Panics
    /// As [`Command::check`].
    pub fn submit(&mut self, command: Command, now: Nanos, actions: &mut Actions) {
        self.events.push_back(Event::Down(0, command));
        self.pass_on(now, actions);
    }

    /// Takes the reply to a command that was sent to the device.
    pub fn replied(&mut self, reply: Reply, now: Nanos, actions: &mut Actions) {
        match self.layers.len() {
            0 => actions.up.push(reply),
            layers => self.events.push_back(Event::Up(layers - 1, reply)),
        }
        self.pass_on(now, actions);
    }

    /// Gives the earliest time at which a layer wants to be woken.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Nanos> {
        self.layers.iter().filter_map(|layer| layer.wakes_at()).min()
    }

    /// Wakes the layers whose time has come.
    pub fn wake(&mut self, now: Nanos, actions: &mut Actions) {
        for level in 0..self.layers.len() {
            if self.layers[level].wakes_at().is_some_and(|at| at <= now) {
                self.layers[level].wake(now, &mut self.scratch);
                self.take(level);
                self.pass_on(now, actions);
            }
        }
    }

    /// Sends a signal to each layer, from the top down.
    pub fn signal(&mut self, signal: Signal, now: Nanos, actions: &mut Actions) {
        for level in 0..self.layers.len() {
            self.signal_at(level, signal, now, actions);
        }
    }

    /// Sends a signal to one layer: a drain of a stack begins below only when all is idle above.
    pub fn signal_at(&mut self, level: usize, signal: Signal, now: Nanos, actions: &mut Actions) {
        self.layers[level].signal(signal, now, &mut self.scratch);
        self.take(level);
        self.pass_on(now, actions);
    }

    /// Returns true if no layer does anything of its own or holds anything back.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.layers.iter().all(|layer| layer.is_idle())
    }

    /// Takes the actions of a layer.
    fn take(&mut self, level: usize) {
        self.events.extend(self.scratch.up.drain(..).map(|reply| match level {
            0 => Event::Up(usize::MAX, reply),
            _ => Event::Up(level - 1, reply),
        }));
        self.events
            .extend(self.scratch.down.drain(..).map(|command| Event::Down(level + 1, command)));
    }

    fn pass_on(&mut self, now: Nanos, actions: &mut Actions) {
        while let Some(event) = self.events.pop_front() {
            match event {
                Event::Up(usize::MAX, reply) => actions.up.push(reply),
                Event::Down(level, command) if level == self.layers.len() => {
                    actions.down.push(command);
                }
                Event::Up(level, reply) => {
                    self.layers[level].replied(reply, now, &mut self.scratch);
                    self.take(level);
                }
                Event::Down(level, command) => {
                    self.layers[level].submit(command, now, &mut self.scratch);
                    self.take(level);
                }
            }
        }
    }
}
