//! What is found by trying: with it the settings as recorded write what the server counted.

use units::Progress;
use wal::postgres::model::{Search, Settings};

use super::facts::Server;
use super::settings::PostgresWhatIf;
use super::{Prepared, Run};
use crate::JobError;

/// Shortest and longest flush, and page of the background writer, in microseconds.
const FLUSHES_US: (f64, f64) = (10.0, 1e6);
const PAGES_US: (f64, f64) = (10.0, 1e5);
/// Least and most that the background writer may write of the pages that it comes to.
const SHARES: (f64, f64) = (0.01, 1.0);

impl Prepared {
    /// Time of a flush: that with which as many follow as are given, if they are. Other settings
    /// have it, too.
    pub(super) fn flush_us(
        &self,
        asked: &PostgresWhatIf,
        commits: u64,
        progress: &Progress,
    ) -> Result<i64, JobError> {
        let Some(flushes) = asked.flushes else { return Ok(self.recorded.flush_us) };
        // Where each commit has its own, none shares one.
        if flushes == 0 || flushes >= commits {
            return Ok(0);
        }
        // A flush begins with the first commit after the one before it.
        let window_us = (self.window.end_us - self.window.begin_us) as f64;
        let guess = window_us / flushes as f64 - window_us / commits as f64;
        let search = Search { range: FLUSHES_US, guess, rises: false, takes_last: true };
        let found = search.find(flushes, |flush_us| {
            let settings = Settings { flush_us: flush_us as i64, ..self.recorded.clone() };
            let run = Run::as_recorded(settings, None, 0);
            self.replay(&asked.log, &run, progress).map(|(figures, ..)| figures.log_flushes)
        })?;
        // At the lower end it makes no difference.
        Ok(if found < 1.1 * FLUSHES_US.0 { 0 } else { found as i64 })
    }

    /// Finds what makes the background writer write as many pages as the server counted. Other
    /// settings have it, too.
    ///
    /// Where it did not keep up, rounds were too few: a disk that is busy holds it up, for a time a
    /// page. Elsewhere it came to all pages, and left some.
    pub(super) fn fit_background(
        &mut self,
        asked: &PostgresWhatIf,
        (factor, commits): (Option<f64>, u64),
        progress: &Progress,
    ) -> Result<(), JobError> {
        let counted = self.server.as_ref().and_then(|server| server.counted.background_pages);
        let Some(pages) = counted.filter(|pages| *pages > 0) else { return Ok(()) };
        // Reads decide which pages are in the buffers, and so how many are to be written.
        if let Some(fitted) =
            asked.fitted.as_ref().filter(|fitted| fitted.reads.map(|reads| reads.0) == factor)
        {
            self.recorded.background_page_us = fitted.background_page_us.0.round() as i64;
            self.recorded.background_share = fitted.background_share.0;
            return Ok(());
        }
        let with = |background_page_us, background_share| -> Result<u64, JobError> {
            let settings =
                Settings { background_page_us, background_share, ..self.recorded.clone() };
            let run = Run::as_recorded(settings, factor, commits);
            let (figures, ..) = self.replay(&asked.log, &run, progress)?;
            Ok(figures.data_pages.map_or(0, |[_, by_background, _]| by_background))
        };
        if self.server.as_ref().is_some_and(Server::keeps_up_in_background) {
            let search = Search { range: SHARES, guess: 1.0, rises: true, takes_last: false };
            self.recorded.background_share = search.find(pages, |share| with(0, share))?;
            return Ok(());
        }
        if with(0, 1.0)? <= pages {
            self.recorded.background_page_us = 0;
            return Ok(());
        }
        // As many as if each round wrote the most that it may.
        let window_us = (self.window.end_us - self.window.begin_us) as f64;
        let Settings { bgwriter_delay_us, bgwriter_lru_maxpages, .. } = self.recorded;
        let between_us = bgwriter_delay_us as f64 / f64::from(bgwriter_lru_maxpages.max(1));
        let guess = (window_us / pages as f64 - between_us).max(PAGES_US.0);
        let search = Search { range: PAGES_US, guess, rises: false, takes_last: false };
        let found = search.find(pages, |page_us| with(page_us as i64, 1.0))?;
        self.recorded.background_page_us = found as i64;
        Ok(())
    }
}
