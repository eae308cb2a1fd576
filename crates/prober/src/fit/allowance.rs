//! Allowance of a search, and the signal for its end.
//!
//! Two bounds: simulations, which make the outcome the same on every machine, and real time, which
//! does not but holds for drives that are slow to simulate, too. Whichever is reached first ends
//! all simulations at once; what was found until then is what is found.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use units::Progress;

/// The bounds, and what of them is used up.
pub(super) struct Allowance {
    start: Instant,
    longest: Option<Duration>,
    most_cells: usize,
    cells: AtomicUsize,
    /// Share that may be spent for now, as bits: all others are of it.
    part: AtomicU64,
    /// Share of the whole at which the stage that is under way ends, as bits.
    until: AtomicU64,
    /// Cancelled at the end of the time: all simulations of the search hear of it.
    pub search: Progress,
    /// Cancelled only if somebody asks to stop.
    pub outcome: Progress,
}

impl Allowance {
    /// So many cells may be simulated, within so much time.
    pub fn new(most_cells: usize, longest: Option<Duration>) -> Self {
        Self {
            start: Instant::now(),
            longest,
            most_cells: most_cells.max(1),
            cells: AtomicUsize::new(0),
            part: AtomicU64::new(1.0_f64.to_bits()),
            until: AtomicU64::new(1.0_f64.to_bits()),
            search: Progress::default(),
            outcome: Progress::default(),
        }
    }

    /// Cells simulated so far.
    pub fn cells(&self) -> usize {
        self.cells.load(Ordering::Relaxed)
    }

    /// Takes as many simulations of so many cells each as are left, at most `wanted`. Returns their
    /// number.
    pub fn take(&self, wanted: usize, cells_each: usize) -> usize {
        if self.is_out_of_time() {
            return 0;
        }
        let left =
            ((self.most_cells as f64 * self.part()).round() as usize).saturating_sub(self.cells());
        let taken = wanted.min(left / cells_each.max(1));
        // What does not fit any more ends the search, or it would go on asking.
        let cells = if taken < wanted { left } else { taken * cells_each };
        self.cells.fetch_add(cells, Ordering::Relaxed);
        taken
    }

    /// Gives the share that is spent of the allowance for now.
    pub fn spent(&self) -> f64 {
        let of_time = self.longest.map_or(0.0, |longest| {
            self.start.elapsed().as_secs_f64() / longest.as_secs_f64().max(1e-9)
        });
        (self.cells() as f64 / self.most_cells as f64).max(of_time) / self.part()
    }

    /// From now on no more than this part of the whole may be spent: the rest is held back for what
    /// comes after. Shares are of the part.
    pub fn set_part(&self, part: f64) {
        self.part.store(part.to_bits(), Ordering::Relaxed);
    }

    fn part(&self) -> f64 {
        f64::from_bits(self.part.load(Ordering::Relaxed))
    }

    /// Begins a stage that ends at this share of the whole.
    pub fn set_until(&self, share: f64) {
        self.until.store(share.to_bits(), Ordering::Relaxed);
    }

    /// Returns true if the stage under way is to end.
    pub fn is_over(&self) -> bool {
        self.spent() >= f64::from_bits(self.until.load(Ordering::Relaxed))
    }

    pub fn is_out_of_time(&self) -> bool {
        self.longest.is_some_and(|longest| self.start.elapsed() >= longest)
    }

    /// Works, and tells the simulations when time is over or `progress` is asked to stop: they may
    /// take longer than what is left.
    pub fn watch<T>(&self, progress: &Progress, work: impl FnOnce() -> T) -> T {
        const LOOK: Duration = Duration::from_millis(50);
        let (working, ended) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                    if progress.advance(0).is_err() {
                        self.search.cancel();
                        self.outcome.cancel();
                    } else if self.is_out_of_time() {
                        self.search.cancel();
                    }
                }
            });
            let done = work();
            drop(working);
            done
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        let allowance = Allowance::new(100, None);
        assert_eq!((allowance.take(3, 20), allowance.spent()), (3, 0.6));
        allowance.set_until(0.5);
        assert!(allowance.is_over());
        allowance.set_until(1.0);
        assert!(!allowance.is_over());
        assert_eq!((allowance.take(3, 20), allowance.take(1, 1), allowance.spent()), (2, 0, 1.0));
    }

    #[test]
    fn what_is_held_back_is_not_taken() {
        let allowance = Allowance::new(100, None);
        allowance.set_part(0.5);
        assert_eq!(
            (allowance.take(2, 20), allowance.spent(), allowance.take(1, 20), allowance.spent()),
            (2, 0.8, 0, 1.0)
        );
        allowance.set_part(1.0);
        assert_eq!((allowance.spent(), allowance.take(2, 20)), (0.5, 2));
    }

    #[test]
    fn the_end_of_the_time_reaches_what_is_being_simulated() {
        let (allowance, progress) =
            (Allowance::new(usize::MAX, Some(Duration::from_millis(1))), Progress::default());
        allowance.watch(&progress, || while allowance.search.advance(0).is_ok() {});
        assert!(
            allowance.is_over()
                && allowance.take(1, 1) == 0
                && allowance.outcome.advance(0).is_ok()
        );
        progress.cancel();
        allowance.watch(&progress, || while allowance.outcome.advance(0).is_ok() {});
    }
}
