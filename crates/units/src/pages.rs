//! A workload as an FTL sees it: a sequence of page writes and trims over dense logical pages.

use crate::Lpn;

/// A page write, or the trim of a page. Four bytes: the highest bit marks a trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct PageOp(pub u32);

impl PageOp {
    const TRIM: u32 = 1 << 31;

    /// A write of the page.
    ///
    /// # Panics
    /// If the page number is 2^31 or more.
    #[inline]
    #[must_use]
    pub const fn write(lpn: Lpn) -> Self {
        assert!(lpn.0 < Self::TRIM, "logical page numbers are below 2^31");
        Self(lpn.0)
    }

    /// A trim of the page.
    ///
    /// # Panics
    /// If the page number is 2^31 or more.
    #[inline]
    #[must_use]
    pub const fn trim(lpn: Lpn) -> Self {
        assert!(lpn.0 < Self::TRIM, "logical page numbers are below 2^31");
        Self(lpn.0 | Self::TRIM)
    }

    /// The page.
    #[inline]
    #[must_use]
    pub const fn lpn(self) -> Lpn {
        Lpn(self.0 & !Self::TRIM)
    }

    /// Returns true if the page is trimmed, not written.
    #[inline]
    #[must_use]
    pub const fn is_trim(self) -> bool {
        self.0 & Self::TRIM != 0
    }
}

/// Error of a source of page operations: that of the trace or generator behind it.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// A sequence of page operations that can be played from the start any number of times, always the
/// same.
pub trait PageSource: Send {
    /// Number of logical pages: every page number of the sequence is below it.
    fn logical_pages(&self) -> u32;

    /// Number of operations in one pass, if it is known.
    fn operations(&self) -> Option<u64>;

    /// Puts the next operations into `buffer` and returns their number: less than the buffer's
    /// length only at the end, then 0.
    ///
    /// # Errors
    /// Any error of the source, such as a trace file that cannot be read.
    fn fill(&mut self, buffer: &mut [PageOp]) -> Result<usize, SourceError>;

    /// Goes back to the first operation.
    ///
    /// # Errors
    /// As [`PageSource::fill`].
    fn rewind(&mut self) -> Result<(), SourceError>;
}

/// The fraction of the host writes, 0 to 1, during which each logical page holds data, in the last
/// of `passes` through the source over a device that starts filled. All 1 for a source that never
/// trims.
///
/// # Errors
/// As [`PageSource::fill`].
pub fn held_fractions(source: &mut dyn PageSource, passes: u32) -> Result<Vec<f64>, SourceError> {
    let pages = source.logical_pages() as usize;
    // Write at which each page began to hold data; `u64::MAX` for one that holds none.
    let mut since = vec![0u64; pages];
    let mut held = vec![0u64; pages];
    let mut clock = 0;
    let mut buffer = vec![PageOp(0); 1 << 13];
    for _ in 0..passes {
        source.rewind()?;
        clock = 0;
        held.fill(0);
        since.iter_mut().filter(|since| **since != u64::MAX).for_each(|since| *since = 0);
        loop {
            let count = source.fill(&mut buffer)?;
            if count == 0 {
                break;
            }
            for operation in &buffer[..count] {
                let page = operation.lpn().index();
                if !operation.is_trim() {
                    since[page] = since[page].min(clock);
                    clock += 1;
                } else if since[page] != u64::MAX {
                    held[page] += clock - since[page];
                    since[page] = u64::MAX;
                }
            }
        }
    }
    let to_the_end =
        |(&held, &since): (&u64, &u64)| held + if since == u64::MAX { 0 } else { clock - since };
    Ok(held.iter().zip(&since).map(|pair| to_the_end(pair) as f64 / clock.max(1) as f64).collect())
}

/// A sequence held in memory and shared: cloning it is cheap, so many runs can read one trace.
#[derive(Clone, Debug)]
pub struct VecSource {
    logical_pages: u32,
    operations: std::sync::Arc<[PageOp]>,
    next: usize,
}

impl VecSource {
    /// A source of these operations over `logical_pages` pages.
    ///
    /// # Panics
    /// If an operation names a page outside `logical_pages`.
    #[must_use]
    pub fn new(logical_pages: u32, operations: std::sync::Arc<[PageOp]>) -> Self {
        assert!(
            operations.iter().all(|op| op.lpn().0 < logical_pages),
            "an operation names a page outside the footprint"
        );
        Self { logical_pages, operations, next: 0 }
    }

    /// All operations.
    #[must_use]
    pub fn all(&self) -> &[PageOp] {
        &self.operations
    }
}

impl PageSource for VecSource {
    fn logical_pages(&self) -> u32 {
        self.logical_pages
    }

    fn operations(&self) -> Option<u64> {
        Some(self.operations.len() as u64)
    }

    fn fill(&mut self, buffer: &mut [PageOp]) -> Result<usize, SourceError> {
        let rest = &self.operations[self.next..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.next += count;
        Ok(count)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.next = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trims_end_the_time_that_a_page_is_held() {
        let (write, trim) = (|lpn| PageOp::write(Lpn(lpn)), |lpn| PageOp::trim(Lpn(lpn)));
        let operations =
            [write(0), trim(1), trim(1), write(0), write(2), trim(2), write(1), write(0)];
        let mut source = VecSource::new(4, operations.to_vec().into());
        // Five writes: page 1 is gone from the second to the fourth, page 2 from the fourth on,
        // page 3 is never touched.
        assert_eq!(held_fractions(&mut source, 1).unwrap(), [1.0, 0.6, 0.6, 1.0]);
        // In the second pass page 2 holds nothing until its write, and nothing after its trim.
        assert_eq!(held_fractions(&mut source, 2).unwrap(), [1.0, 0.6, 0.2, 1.0]);
    }
}
