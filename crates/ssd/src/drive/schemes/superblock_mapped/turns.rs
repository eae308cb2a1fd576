//! Turns of the dies in cleaning (Yan et al., Tiny-Tail Flash, FAST '17, section 4.2: rotating GC).

use std::collections::VecDeque;

use units::EraseBlockId;

use crate::drive::media::{Command, FlashOp, Media};
use crate::drive::schemes::stripes::Stripes;

/// The commands of cleaning by die. Where dies take turns, only one die of each group has commands
/// at a time; those for the others are held until it has completed them.
///
/// The paper's groups are the planes of equal number on all chips, each of which cleans one erase
/// block by copies within the plane. Here a superblock is cleaned on all its dies, and the commands
/// of a die wait for its turn; so a turn is some reads, programs or erases, not a whole erase
/// block. When writes wait for room nothing is held any more, just as the paper's drive does not
/// rotate when it runs out of space.
#[derive(Debug)]
pub(super) struct Turns {
    rotates: bool,
    /// Group of each die.
    group_of: Vec<u32>,
    /// Dies of each group.
    dies: Vec<Vec<u32>>,
    /// For each die: number of the scheme's commands given to it and not done.
    given: Vec<u32>,
    held: Vec<VecDeque<Command>>,
    /// For each group: the die whose turn it is, as its index in the group; then the number of
    /// commands given to all its dies.
    turn: Vec<usize>,
    given_to_group: Vec<u32>,
    /// True if all dies may work at once for now.
    is_pressed: bool,
}

impl Turns {
    pub fn new(rotates: bool, stripes: &Stripes, media: &crate::drive::media::Layout) -> Self {
        let dies: Vec<u32> = stripes.dies(media).collect();
        let groups: Vec<Vec<u32>> =
            dies.chunks(stripes.group() as usize).map(<[u32]>::to_vec).collect();
        let mut group_of = vec![0; dies.len()];
        for (group, dies) in (0..).zip(&groups) {
            dies.iter().for_each(|&die| group_of[die as usize] = group);
        }
        Self {
            rotates,
            group_of,
            given: vec![0; dies.len()],
            held: vec![VecDeque::new(); dies.len()],
            turn: vec![0; groups.len()],
            given_to_group: vec![0; groups.len()],
            dies: groups,
            is_pressed: false,
        }
    }

    /// Returns true if a die has commands that are not done.
    #[inline]
    pub fn is_at_work(&self, die: u32) -> bool {
        self.given[die as usize] > 0
    }

    /// Returns true if a program of an erase block is held, so that later ones for it must be held,
    /// too: its pages are programmed in order.
    pub fn holds_program_of(&self, block: EraseBlockId, media: &Media) -> bool {
        let held = &self.held[media.layout().die_of_block(block) as usize];
        held.iter().any(|command| {
            command.op == FlashOp::Program && media.layout().block_of(command.page) == block
        })
    }

    /// Gives a command now, or when it is the turn of its die.
    pub fn give(&mut self, command: Command, media: &mut Media) {
        let die = media.layout().die_of(command.page);
        if self.rotates && !self.is_pressed && !self.may_go(die) {
            self.held[die as usize].push_back(command);
            return;
        }
        self.submit(die, command, media);
    }

    fn may_go(&self, die: u32) -> bool {
        let group = self.group_of[die as usize] as usize;
        // No die of the group works, or this one alone does.
        self.held[die as usize].is_empty() && self.given_to_group[group] == self.given[die as usize]
    }

    fn submit(&mut self, die: u32, command: Command, media: &mut Media) {
        // The ends of other commands are not reported to the scheme.
        if command.tag.is_scheme() {
            let group = self.group_of[die as usize] as usize;
            self.given[die as usize] += 1;
            self.given_to_group[group] += 1;
            self.turn[group] = self.place_of(die);
        }
        media.submit(command);
    }

    fn place_of(&self, die: u32) -> usize {
        let dies = &self.dies[self.group_of[die as usize] as usize];
        dies.iter().position(|&other| other == die).unwrap_or(0)
    }

    /// Records that a command is done. If that was the last one, the next die has its turn.
    pub fn done(&mut self, command: &Command, media: &mut Media) {
        let die = media.layout().die_of(command.page);
        let group = self.group_of[die as usize] as usize;
        self.given[die as usize] -= 1;
        self.given_to_group[group] -= 1;
        self.next_turn(group, media);
    }

    fn next_turn(&mut self, group: usize, media: &mut Media) {
        let count = self.dies[group].len();
        let first = self.turn[group];
        for step in 1..=count {
            if self.given_to_group[group] > 0 {
                return;
            }
            let die = self.dies[group][(first + step) % count];
            self.give_held(die, media);
        }
    }

    fn give_held(&mut self, die: u32, media: &mut Media) {
        if self.held[die as usize].is_empty() {
            return;
        }
        media.hold();
        while let Some(command) = self.held[die as usize].pop_front() {
            self.submit(die, command, media);
        }
        media.release();
    }

    /// Sets whether writes wait for room, in which case no turns are kept.
    pub fn press(&mut self, is_pressed: bool, media: &mut Media) {
        if self.is_pressed == is_pressed {
            return;
        }
        self.is_pressed = is_pressed;
        if is_pressed {
            (0..self.held.len() as u32).for_each(|die| self.give_held(die, media));
        }
    }

    /// Returns true if no command is under way or held.
    pub fn is_quiet(&self) -> bool {
        self.given_to_group.iter().all(|&given| given == 0)
            && self.held.iter().all(VecDeque::is_empty)
    }
}
