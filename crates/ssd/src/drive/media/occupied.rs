//! Dies that an owner has for itself: no other commands come between those of a cleaning.

use units::EraseBlockId;

use super::Media;
use super::slots::Queue;

impl Media {
    /// Reserves a die: from now on it carries out only commands of cleaning and wear levelling, and
    /// those given before. Others wait until [`Media::vacate`] was called as often.
    pub fn occupy(&mut self, die: u32) {
        self.dies[die as usize].occupants += 1;
    }

    /// Returns true if a die is reserved for cleaning.
    #[inline]
    #[must_use]
    pub fn is_occupied(&self, die: u32) -> bool {
        self.dies[die as usize].occupants > 0
    }

    /// Releases a die for one owner. With the last one, waiting commands begin.
    ///
    /// # Panics
    /// If nobody occupies the die.
    pub fn vacate(&mut self, die: u32) {
        let occupants = &mut self.dies[die as usize].occupants;
        *occupants = occupants.checked_sub(1).expect("a die is vacated by who occupied it");
        if *occupants == 0 {
            self.let_in(die, |_| true);
        }
    }

    /// Lets reads that wait for pages of an erase block go before commands given later: it is to be
    /// erased.
    pub fn let_reads_in(&mut self, block: EraseBlockId) {
        let layout = self.layout.clone();
        self.let_in(layout.die_of_block(block), |page| layout.block_of(page) == block);
    }

    fn let_in(&mut self, number: u32, may: impl Fn(units::Ppn) -> bool) {
        let die = &mut self.dies[number as usize];
        let mut waiting = std::mem::replace(&mut die.later, Queue::EMPTY);
        while !waiting.is_empty() {
            let slot = waiting.pop(&mut self.slots);
            let command = &self.slots.get(slot).command;
            let queue = if !may(command.page) {
                &mut die.later
            } else if self.features.overtakes(command) {
                &mut die.urgent
            } else {
                &mut die.queue
            };
            queue.push(slot, &mut self.slots);
        }
        if die.activity().is_none() {
            self.begin(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Ppn;

    use super::super::owners_tests::{COMMAND, ERASE, READ, US, config};
    use super::super::{Cause, Class, Command, Done, Stage, Tag};
    use super::*;

    const HOST: Tag = Tag::drive(1);

    fn host_read(page: u32) -> Command {
        Command::read(Ppn(page), 4096, Cause::Host, HOST)
    }

    /// Media whose first erase block is written, with a die that is reserved for cleaning it and
    /// has begun a read for that.
    fn cleaning() -> Media {
        let mut media = Media::new(&config());
        media.preset(EraseBlockId(0), 8);
        media.preset(EraseBlockId(1), 8);
        media.occupy(0);
        media.submit(Command::read(Ppn(0), 4096, Cause::Cleaning, Tag::scheme(0)));
        media
    }

    fn step(media: &mut Media) -> Vec<Done> {
        let mut done = Vec::new();
        while done.is_empty() {
            media.step(&mut done);
        }
        done
    }

    /// Between two commands of cleaning nothing else begins. Otherwise the read of the host would
    /// be done before the erase.
    #[test]
    fn nothing_comes_between_the_commands_of_a_cleaning() {
        let mut media = cleaning();
        let block = EraseBlockId(1);
        media.submit(host_read(media.layout().page_at(block, 3).0));
        assert_eq!(step(&mut media)[0].command.cause, Cause::Cleaning);
        media.submit(Command::erase(Ppn(0), Cause::Cleaning, Tag::scheme(0)));
        assert_eq!(media.now(), READ);
        assert_eq!(step(&mut media)[0].command.op, crate::drive::media::FlashOp::Erase);
        assert_eq!(media.now(), READ + ERASE);
        assert!(!media.is_idle(0));
        media.vacate(0);
        let read = step(&mut media)[0];
        assert_eq!((read.command.tag, media.now()), (HOST, READ + ERASE + READ));
        // Its latency is all in its delays: the read and the erase of the cleaning, and its own
        // time.
        assert_eq!(read.delays.die[Class::Cleaning as usize], READ);
        assert_eq!(read.delays.die[Class::Erase as usize], ERASE);
        assert_eq!(read.delays.service, READ);
        assert!(media.is_idle(0));
    }

    #[test]
    fn reads_of_what_is_to_be_erased_go_first() {
        let mut media = cleaning();
        media.submit(host_read(3));
        media.submit(host_read(media.layout().page_at(EraseBlockId(1), 3).0));
        step(&mut media);
        media.let_reads_in(EraseBlockId(0));
        media.submit(Command::erase(Ppn(0), Cause::Cleaning, Tag::scheme(0)));
        let order: Vec<u32> = (0..2).map(|_| step(&mut media)[0].command.page.0).collect();
        assert_eq!(order, [3, 0]);
        media.vacate(0);
        assert_eq!(media.now(), 2 * READ + ERASE);
        assert_eq!(step(&mut media).len(), 1);
    }

    #[test]
    fn what_waits_for_a_die_that_is_kept_can_be_given_up() {
        let mut media = cleaning();
        let id = media.submit_named(host_read(3));
        assert_eq!(media.stage(id), Stage::Waiting);
        assert_eq!(media.give_up(id), Stage::Waiting);
        step(&mut media);
        media.vacate(0);
        assert!(media.is_idle(0) && media.now() < READ + COMMAND + US);
    }
}
