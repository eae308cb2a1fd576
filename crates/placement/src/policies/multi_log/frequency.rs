//! Update frequency of the pages of each log.

use crate::Device;

/// Number of updates that the estimate from before a window counts for: with fewer than this in the
/// window, the old estimate prevails.
const PRIOR_UPDATES: f64 = 32.0;

/// The mean update frequency f_i of a page of each log, in updates per host write (MULTILOG table
/// 3).
///
/// The frequency of a page is kept rather than the log's share of updates, f_s = f_i x pages: pages
/// move between logs all the time, and the share follows them at once while the frequency changes
/// slowly. A new log is assumed to be half as hot as the one above it, as the update sets decrease
/// in powers of two (MULTILOG 5); counts then correct that.
#[derive(Debug)]
pub(super) struct Frequencies {
    of_page: Vec<f64>,
    counted: Vec<u32>,
    in_window: u32,
    window: u32,
}

impl Frequencies {
    pub fn new(logs: usize, logical_pages: u32) -> Self {
        Self {
            of_page: vec![1.0 / f64::from(logical_pages); logs],
            counted: vec![0; logs],
            in_window: 0,
            window: (logical_pages / 16).max(1024),
        }
    }

    /// Begins a new log below `above`.
    pub fn start(&mut self, log: usize, above: usize) {
        self.of_page[log] = self.of_page[above] / 2.0;
        self.counted[log] = 0;
    }

    /// Records that the host writes a page, which was in this log if it held data.
    #[inline]
    pub fn count(&mut self, log: Option<usize>, device: &Device) {
        if let Some(log) = log {
            self.counted[log] += 1;
        }
        self.in_window += 1;
        if self.in_window == self.window {
            self.close_window(device);
        }
    }

    /// Ends a window: takes the mean of a Gamma prior that had seen `PRIOR_UPDATES` before it.
    #[cold]
    fn close_window(&mut self, device: &Device) {
        for (log, (frequency, counted)) in
            self.of_page.iter_mut().zip(&mut self.counted).enumerate()
        {
            let exposure = f64::from(device.streams[log].valid_pages) * f64::from(self.window);
            *frequency =
                (f64::from(*counted) + PRIOR_UPDATES) / (exposure + PRIOR_UPDATES / *frequency);
            *counted = 0;
        }
        self.in_window = 0;
    }

    /// The log's share of host writes, f_s.
    #[inline]
    pub fn share(&self, log: usize, device: &Device) -> f64 {
        self.of_page[log] * f64::from(device.streams[log].valid_pages)
    }
}
