//! Commands that an owner may give up, that race with others for the same result, or that end with
//! the last of several.
//!
//! Commands with a plain owner cost no more for this: [`Media::finish`] looks here only while the
//! list is not empty.

use units::Ppn;

use super::Media;
use super::command::{Command, FlashOp, Tag};
use super::slots::{CommandSlot, Entry, Group, NONE};
use crate::drive::time::Picos;

/// Name of a command that was given to the media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandId {
    pub(super) slot: CommandSlot,
    // A slot is reused only after its command is done, which is later, so this tells commands
    // apart.
    pub(super) issued_at: Picos,
}

/// Progress of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It waits for its die.
    Waiting,
    /// The die works on it, or was interrupted.
    Running,
    /// It is done or was given up.
    Ended,
}

/// Fate of a command that loses a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loser {
    /// It is given up, as by [`Media::give_up`].
    IsGivenUp,
    /// It continues, and its end is reported under this tag.
    GoesOn(Tag),
}

/// A command whose end is not simply reported to its owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Apart {
    slot: CommandSlot,
    role: Role,
}

#[derive(Clone, Copy, Debug)]
enum Role {
    /// It runs, and its end is not reported.
    GivenUp,
    /// It races with the others of this number.
    Rival { race: u32, loser: Loser },
    /// It ends when all of this number have ended.
    Part { whole: u32 },
}

impl Media {
    /// Gives the progress of a command.
    #[must_use]
    pub fn stage(&self, id: CommandId) -> Stage {
        let entry = self.slots.get(id.slot);
        if entry.issued_at != id.issued_at {
            return Stage::Ended;
        }
        let die = &self.dies[self.layout.die_of(entry.command.page) as usize];
        let is_in = |first: CommandSlot| self.slots.from(first).any(|slot| slot == id.slot);
        let waits = [die.urgent, die.queue, die.later].map(|queue| is_in(queue.first()));
        if waits.contains(&true) {
            return Stage::Waiting;
        }
        let is_given_up = self
            .apart
            .iter()
            .any(|apart| apart.slot == id.slot && matches!(apart.role, Role::GivenUp));
        if !is_given_up && die.groups().any(|group| is_in(group.unsent().unwrap_or(NONE))) {
            return Stage::Running;
        }
        Stage::Ended
    }

    /// Gives up a command, whose end is then not reported. Returns its progress: one that waited
    /// vanishes, at no cost; one that runs continues, takes the die's time, and is counted in
    /// [`super::MediaCounters::in_vain`]; the end of one that has ended is reported all the same,
    /// or was.
    ///
    /// The page of a program that vanishes stays erased, but is skipped as soon as a later page of
    /// its erase block is programmed.
    ///
    /// # Panics
    /// If it is an erase that is not done: the tables of a scheme rely on it.
    pub fn give_up(&mut self, id: CommandId) -> Stage {
        let stage = self.stage(id);
        if stage == Stage::Ended {
            return stage;
        }
        let command = self.slots.get(id.slot).command;
        assert!(command.op != FlashOp::Erase, "an erase is not given up");
        if let Some(Role::Rival { race, .. }) = self.take_apart(id.slot) {
            self.end_race_of_one(race);
        } else if let Some(witness) = &mut self.witness {
            witness.lost_owner(&command, stage == Stage::Running);
        }
        self.drop_command(id.slot);
        stage
    }

    /// Gives a command that races with one under way: the one that ends first is reported, under
    /// the tag that both have. `first_loses` and `loses` set the fate of the first and of this one
    /// if it loses. Any number may race, each new one with any of those before it.
    ///
    /// If the first has ended already, the command is given alone: the owner has to check
    /// [`Media::stage`].
    ///
    /// # Panics
    /// If the tags differ, or one is an erase.
    pub fn submit_rival(
        &mut self,
        of: CommandId,
        first_loses: Loser,
        command: Command,
        loses: Loser,
    ) -> CommandId {
        let is_under_way = self.stage(of) != Stage::Ended;
        let first = self.slots.get(of.slot).command;
        let id = self.submit_named(command);
        if !is_under_way {
            return id;
        }
        assert!(
            first.tag == command.tag,
            "commands race for the same end: {:?} is not {:?}",
            command.tag,
            first.tag
        );
        assert!(
            first.op != FlashOp::Erase && command.op != FlashOp::Erase,
            "an erase does not race"
        );
        let known = self.apart.iter().find_map(|apart| match apart.role {
            Role::Rival { race, .. } if apart.slot == of.slot => Some(race),
            _ => None,
        });
        let race = known.unwrap_or_else(|| {
            self.races = self.races.wrapping_add(1);
            self.apart.push(Apart {
                slot: of.slot,
                role: Role::Rival { race: self.races, loser: first_loses },
            });
            self.races
        });
        self.apart.push(Apart { slot: id.slot, role: Role::Rival { race, loser: loses } });
        id
    }

    /// Gives reads for [`super::Cause::Reconstruction`] that together rebuild the page `wanted`:
    /// only the last end is reported, with the delays of that read.
    ///
    /// # Panics
    /// If one is not such a read.
    pub fn submit_parts(&mut self, wanted: Ppn, commands: impl IntoIterator<Item = Command>) {
        self.races = self.races.wrapping_add(1);
        let whole = self.races;
        if let Some(witness) = &mut self.witness {
            witness.is_rebuilt(wanted);
        }
        for command in commands {
            assert!(command.is_part(), "only reads for it rebuild a page");
            let command = Command { from: wanted, ..command };
            // None ends before time passes, so no end is missed.
            let slot = self.submit_named(command).slot;
            self.apart.push(Apart { slot, role: Role::Part { whole } });
        }
    }

    /// Handles the end of a command that may be in the list. Returns true if it is not reported.
    #[cold]
    #[inline(never)]
    pub(super) fn ends_unheard(&mut self, slot: CommandSlot) -> bool {
        match self.take_apart(slot) {
            None => false,
            Some(Role::Part { whole }) => {
                let is_of =
                    |apart: &Apart| matches!(apart.role, Role::Part { whole: of } if of == whole);
                let is_last = !self.apart.iter().any(is_of);
                let &Entry { command, issued_at, .. } = self.slots.get(slot);
                if !is_last && let Some(witness) = &mut self.witness {
                    witness.done(&command, &self.layout, issued_at, self.now);
                }
                !is_last
            }
            Some(Role::Rival { race, .. }) => {
                self.end_race(race);
                false
            }
            Some(Role::GivenUp) => {
                let &Entry { command, issued_at, .. } = self.slots.get(slot);
                self.counters.in_vain[command.op as usize][command.cause as usize] += 1;
                if let Some(witness) = &mut self.witness {
                    witness.done(&command, &self.layout, issued_at, self.now);
                }
                true
            }
        }
    }

    /// Ends a race whose first command has ended: deals with the others.
    fn end_race(&mut self, race: u32) {
        while let Some((loser, of_loser)) = self.rival_of(race) {
            self.take_apart(loser);
            if let Some(witness) = &mut self.witness {
                witness.lost_race(&self.slots.get(loser).command);
            }
            match of_loser {
                Loser::IsGivenUp => self.drop_command(loser),
                Loser::GoesOn(tag) => self.slots.get_mut(loser).command.tag = tag,
            }
        }
    }

    fn rival_of(&self, race: u32) -> Option<(CommandSlot, Loser)> {
        self.apart.iter().find_map(|apart| match apart.role {
            Role::Rival { race: of, loser } if of == race => Some((apart.slot, loser)),
            _ => None,
        })
    }

    /// Ends a race that only one command is left in.
    fn end_race_of_one(&mut self, race: u32) {
        let is_of =
            |apart: &Apart| matches!(apart.role, Role::Rival { race: of, .. } if of == race);
        if self.apart.iter().filter(|apart| is_of(apart)).count() == 1 {
            self.apart.retain(|apart| !is_of(apart));
        }
    }

    fn take_apart(&mut self, slot: CommandSlot) -> Option<Role> {
        let place = self.apart.iter().position(|apart| apart.slot == slot)?;
        Some(self.apart.swap_remove(place).role)
    }

    /// Takes a waiting command out of its queue, or suppresses the report of a running one.
    /// Commands that waited behind it begin at the die's next event.
    fn drop_command(&mut self, slot: CommandSlot) {
        let command = self.slots.get(slot).command;
        let die = &mut self.dies[self.layout.die_of(command.page) as usize];
        let mut queues = [&mut die.urgent, &mut die.queue, &mut die.later].into_iter();
        if queues.any(|queue| queue.remove(slot, &mut self.slots)) {
            self.slots.give_back(slot);
            self.under_way -= 1;
            self.counters.vanished += 1;
        } else {
            self.apart.push(Apart { slot, role: Role::GivenUp });
        }
    }
}

impl super::die::Die {
    /// The commands that it works on, or was interrupted in.
    fn groups(&self) -> impl Iterator<Item = Group> {
        use super::die::{Array, Transfer};
        let array = (self.array != Array::Idle).then_some(self.array_group);
        let transfer = (self.transfer != Transfer::Idle).then_some(self.transfer_group);
        let loaded = self.loaded.map(|(group, _)| group);
        let suspended = self.suspended.map(|suspended| suspended.group);
        [array, transfer, loaded, suspended].into_iter().flatten()
    }
}
