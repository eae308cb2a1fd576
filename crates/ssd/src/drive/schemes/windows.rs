//! Windows of time in which space is reclaimed, so that the host knows when it is not (Li et al.,
//! IODA, SOSP '21, section 3.3).

use crate::drive::media::{Cause, Media};
use crate::drive::profile::CleaningConfig;
use crate::drive::time::{Picos, picos_of_micros};

/// Alternating busy windows and predictable ones.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    period: Picos,
    busy: Picos,
    start: Picos,
}

impl Windows {
    /// The windows of a profile, if it has any.
    #[must_use]
    pub fn new(config: &CleaningConfig) -> Option<Self> {
        let period = picos_of_micros(config.window_period_us);
        let share = |share: f64| (period as f64 * share) as Picos;
        (period > 0).then(|| Self {
            period,
            busy: share(config.window_share).max(1),
            start: share(config.window_start) % period,
        })
    }

    /// Time since the start of the current period. There is a period even before the first window.
    fn since_begin(&self, now: Picos) -> Picos {
        (now % self.period + self.period - self.start) % self.period
    }

    /// Returns true if space may be reclaimed.
    #[inline]
    #[must_use]
    pub fn is_busy(&self, now: Picos) -> bool {
        self.since_begin(now) < self.busy
    }

    /// End of the current window, busy or predictable.
    #[must_use]
    pub fn ends_at(&self, now: Picos) -> Picos {
        let since = self.since_begin(now);
        now + if since < self.busy { self.busy } else { self.period } - since
    }
}

/// Time for which a die will still do work of the drive's own, if it does: that of the current
/// operation, as far as known.
pub(super) fn own_work(die: u32, media: &Media) -> Option<Picos> {
    let (_, cause, until) = media.works_on(die)?;
    let is_own = !matches!(cause, Cause::Host | Cause::Mapping | Cause::Reconstruction);
    is_own.then(|| if until == Picos::MAX { 0 } else { until.saturating_sub(media.now()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(share: f64, start: f64) -> Windows {
        let config = CleaningConfig {
            window_period_us: 100.0,
            window_share: share,
            window_start: start,
            ..CleaningConfig::default()
        };
        Windows::new(&config).expect("a period is given")
    }

    const US: Picos = 1_000_000;

    #[test]
    fn a_window_is_busy_for_its_share_from_its_start_on() {
        assert!(Windows::new(&CleaningConfig::default()).is_none());
        let windows = windows(0.25, 0.5);
        let times = [0, 49, 50, 74, 75, 149, 150].map(|us| windows.is_busy(us * US));
        assert_eq!(times, [false, false, true, true, false, false, true]);
        let ends = [0, 50, 74, 75, 150].map(|us| windows.ends_at(us * US) / US);
        assert_eq!(ends, [50, 75, 75, 150, 175]);
    }

    /// Arrays rely on this: with as many shares as drives, one drive is busy at any time.
    #[test]
    fn windows_of_an_array_take_turns() {
        let drives = [0.0, 0.25, 0.5, 0.75].map(|start| windows(0.25, start));
        for us in 0..1000 {
            let busy = drives.iter().filter(|drive| drive.is_busy(us * US)).count();
            assert_eq!(busy, 1);
        }
    }

    #[test]
    fn always_busy_is_no_window() {
        let windows = windows(1.0, 0.3);
        assert!((0..1000).all(|us| windows.is_busy(us * US)));
    }
}
