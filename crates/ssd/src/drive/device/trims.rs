//! Cost of TRIMs for the controller.
//!
//! A drive forgets the pages of a TRIM at once, as far as reads and cleaning can tell. That takes
//! its controller time, for the command and for each page of the map; some drives spend it before
//! they answer, others later, while requests that come then wait (PC Perspective, "TRIM Speed", in
//! its review of the Optane SSD 800P, 2018: stalls of other requests for each GB that was deleted,
//! drive by drive).

use crate::drive::profile::{FtlConfig, TrimRule};
use crate::drive::time::{Picos, picos_of_micros};

/// Pages of postponed work that the controller does at a time: a request that comes meanwhile waits
/// for their end.
const PAGES_AT_A_TIME: u64 = 64;

/// The times of TRIMs, and the postponed work.
#[derive(Debug)]
pub(super) struct Trims {
    rule: TrimRule,
    command: Picos,
    page: Picos,
    /// Number of pages whose time was postponed.
    put_off: u64,
}

impl Trims {
    pub fn new(config: &FtlConfig) -> Self {
        Self {
            rule: config.trim,
            command: picos_of_micros(config.trim_us),
            page: picos_of_micros(config.trim_page_us),
            put_off: 0,
        }
    }

    /// Time that the controller takes for a TRIM of so many pages, in addition to that of a
    /// command.
    pub fn time(&mut self, pages: u32) -> Picos {
        match self.rule {
            TrimRule::Free => 0,
            TrimRule::AtOnce => self.command + self.page * Picos::from(pages),
            TrimRule::Lazy => {
                self.put_off += u64::from(pages);
                self.command
            }
        }
    }

    /// Takes postponed work for the idle controller, if there is any, and gives its time.
    #[inline]
    pub fn work_off(&mut self) -> Option<Picos> {
        if self.put_off == 0 {
            return None;
        }
        let pages = self.put_off.min(PAGES_AT_A_TIME);
        self.put_off -= pages;
        Some(self.page * pages).filter(|&time| time > 0)
    }
}
