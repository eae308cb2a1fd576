//! Reads that are answered from the rest of a stripe (Yan et al., Tiny-Tail Flash, FAST '17,
//! section 4.3: GC-tolerant read).

use placement::Placement;
use units::Ppn;

use super::SuperblockMapped;
use crate::drive::media::{Cause, Command, Media, Tag};
use crate::drive::profile::{CommandOrder, MediaConfig, ParityReads};
use crate::drive::time::{Picos, picos_of_micros};

/// Rule for rebuilding a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rebuild {
    rule: ParityReads,
    /// True if reads of the host overtake waiting commands; then, if they interrupt the current
    /// one.
    overtakes: bool,
    interrupts: bool,
    suspend: Picos,
    read: Picos,
    program: Picos,
}

impl Rebuild {
    /// Makes the rule; `None` if no page is rebuilt.
    pub fn new(rule: ParityReads, media: &MediaConfig) -> Option<Self> {
        let mean = |times: &[f64]| picos_of_micros(times.iter().sum::<f64>() / times.len() as f64);
        (rule != ParityReads::None).then(|| Self {
            rule,
            overtakes: media.suspend || media.order == CommandOrder::ReadsFirst,
            interrupts: media.suspend,
            suspend: picos_of_micros(media.suspend_us),
            read: mean(&media.read_us),
            program: mean(&media.program_us),
        })
    }

    /// Time for which a read would wait for a die, as far as known: for its current operation, and
    /// for the commands before the read. Reads are distinguished from other waiting commands only
    /// where they overtake.
    fn wait(&self, die: u32, media: &Media) -> Picos {
        let state = media.die_state(die);
        let Some((op, ..)) = state.work else { return 0 };
        let rest = state.until.map_or(0, |until| until.saturating_sub(media.now()));
        let is_read = op == crate::drive::media::FlashOp::Read;
        let rest = if self.interrupts && !is_read { rest.min(self.suspend) } else { rest };
        let first = Picos::from(state.waiting_first) * self.read;
        let before = if self.overtakes { 0 } else { Picos::from(state.waiting) * self.program };
        rest + first + before
    }
}

impl<P: Placement> SuperblockMapped<P> {
    /// Returns true if a read that comes now has to wait for cleaning on a die.
    fn cleans(&self, die: u32, rebuild: &Rebuild, media: &Media) -> bool {
        let is_own =
            |cause| matches!(cause, Cause::Cleaning | Cause::WearLevelling | Cause::Folding);
        let works = media.works_on(die).is_some_and(|(_, cause, _)| is_own(cause));
        let waits = self.turns.as_ref().is_some_and(|turns| turns.is_at_work(die));
        works || (waits && !rebuild.overtakes)
    }

    /// Decides whether the data of `page` of the FTL is better rebuilt from its stripe than read.
    /// Then gives the reads and returns true.
    ///
    /// A stripe that is not completely programmed yet has no parity on flash: its pages are read
    /// directly. (The paper's drive has that parity in memory.) The reads of a page are given
    /// together, and none is cancelled; the time to compute the page is left out, as the controller
    /// does that while the data arrives.
    pub(super) fn rebuilds(&mut self, page: Ppn, bytes: u32, tag: Tag, media: &mut Media) -> bool {
        let Some(rebuild) = self.rebuild else { return false };
        let own = self.stripes.on_media(page);
        let die_of = |page: Ppn| media.layout().die_of(page);
        let die = die_of(own);
        let rest = || self.stripes.rest_of_group(page);
        let is_better = match rebuild.rule {
            ParityReads::None => false,
            ParityReads::Cleaning => {
                self.cleans(die, &rebuild, media)
                    && !rest().any(|other| self.cleans(die_of(other), &rebuild, media))
            }
            ParityReads::Busy => {
                let wait = rebuild.wait(die, media);
                let of_others = rest().map(|other| rebuild.wait(die_of(other), media)).max();
                wait > of_others.unwrap_or(Picos::MAX).saturating_add(rebuild.read)
            }
        };
        if !is_better || !rest().all(|other| media.is_programmed(other)) {
            return false;
        }
        let read = |page| Command::read(page, bytes, Cause::Reconstruction, tag);
        media.submit_parts(own, rest().map(read));
        self.rebuilt_pages += 1;
        true
    }
}
