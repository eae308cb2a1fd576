//! Knowledge of the future: the time at which each page that the host writes will be out of date.

use units::{PageSource, SourceError};

/// The clock, in host page writes from 1 on, at which each version of a page dies: when the page is
/// written again, or trimmed. It covers a whole run, and is found by playing the source once. Takes
/// four bytes for each page that is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Future {
    deaths: Vec<u32>,
}

impl Future {
    /// Time of death of versions that live to the end of the run.
    pub const NEVER: u32 = u32::MAX;

    /// Computes the future of `passes` through the source; with `is_filled`, of a run before which
    /// every page is written once, in order.
    ///
    /// # Errors
    /// As [`PageSource::fill`]; and if there are 2^32 - 1 page writes or more.
    pub fn of(
        source: &mut dyn PageSource,
        passes: u32,
        is_filled: bool,
    ) -> Result<Self, SourceError> {
        let pages = source.logical_pages();
        let filled = if is_filled { pages } else { 0 };
        // The number of the newest version of each page; never the last number, which is no write.
        let mut newest: Vec<u32> =
            (0..pages).map(|page| if is_filled { page } else { Self::NEVER }).collect();
        let mut deaths = vec![Self::NEVER; filled as usize];
        let mut buffer = vec![units::PageOp(0); 1 << 13];
        for _ in 0..passes {
            source.rewind()?;
            loop {
                let count = source.fill(&mut buffer)?;
                if count == 0 {
                    break;
                }
                for operation in &buffer[..count] {
                    let written = deaths.len() as u32;
                    let version = &mut newest[operation.lpn().index()];
                    if *version != Self::NEVER {
                        deaths[*version as usize] = written;
                    }
                    *version = if operation.is_trim() { Self::NEVER } else { written };
                    if !operation.is_trim() {
                        deaths.push(Self::NEVER);
                    }
                }
                if deaths.len() + buffer.len() >= Self::NEVER as usize {
                    return Err("2^32 page writes or more are too many to know in advance".into());
                }
            }
        }
        Ok(Self { deaths })
    }

    /// Time of death of the version that the host writes as its `written`th page, counted from 0;
    /// never for one beyond the known future.
    #[inline]
    #[must_use]
    pub fn death(&self, written: usize) -> u32 {
        self.deaths.get(written).copied().unwrap_or(Self::NEVER)
    }

    /// Times of death of all versions, in the order in which they are written.
    #[must_use]
    pub fn deaths(&self) -> &[u32] {
        &self.deaths
    }
}

#[cfg(test)]
mod tests {
    use units::{Lpn, PageOp, VecSource};

    use super::*;

    #[test]
    fn versions_die_when_they_are_written_again_or_trimmed() {
        let (write, trim) = (|lpn| PageOp::write(Lpn(lpn)), |lpn| PageOp::trim(Lpn(lpn)));
        let operations = [write(0), write(1), trim(1), write(0), trim(1)];
        let mut source = VecSource::new(3, operations.to_vec().into());
        let never = Future::NEVER;
        let once = Future::of(&mut source, 1, false).unwrap();
        assert_eq!(once.deaths(), [2, 2, never]);
        let twice = Future::of(&mut source, 2, true).unwrap();
        // Three pages of the fill, then 0, 1, 0 and once more.
        assert_eq!(twice.deaths(), [3, 4, never, 5, 5, 6, 8, 8, never]);
    }
}
