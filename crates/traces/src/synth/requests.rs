//! A synthetic workload as the requests of a trace.

use units::{IoOp, IoRequest, PageOp, PageSource as _, RequestSource, SourceError};

use super::Synthetic;

/// Requests of one page each, in batches. They have no times: the clock counts them.
pub struct Requests {
    source: Synthetic,
    page_bytes: u32,
    operations: Vec<PageOp>,
    count: u64,
}

impl Requests {
    /// The requests of this source, of pages of `page_bytes` bytes.
    #[must_use]
    pub fn new(source: Synthetic, page_bytes: u32) -> Self {
        Self { source, page_bytes, operations: Vec::new(), count: 0 }
    }

    /// Appends the next requests, up to `most`, and returns how many: 0 at the end.
    ///
    /// # Panics
    /// Never: a synthetic source cannot fail.
    pub fn read_batch(&mut self, out: &mut Vec<IoRequest>, most: usize) -> usize {
        let read = self.draw(most);
        out.extend(
            (self.count..)
                .zip(&self.operations[..read])
                .map(|(number, &operation)| request(number, operation, self.page_bytes)),
        );
        self.count += read as u64;
        read
    }

    fn draw(&mut self, most: usize) -> usize {
        self.operations.resize(most, PageOp(0));
        self.source.fill(&mut self.operations).expect("a synthetic source cannot fail")
    }
}

#[inline]
fn request(number: u64, operation: PageOp, page_bytes: u32) -> IoRequest {
    IoRequest {
        time_ns: number,
        op: if operation.is_trim() { IoOp::Trim } else { IoOp::Write },
        offset: u64::from(operation.lpn().0) * u64::from(page_bytes),
        length: page_bytes,
        stream: 0,
        latency_ns: None,
        handle: 0,
        is_fua: false,
    }
}

impl RequestSource for Requests {
    fn requests(&self) -> Option<u64> {
        self.source.operations()
    }

    fn fill(&mut self, buffer: &mut [IoRequest]) -> Result<usize, SourceError> {
        let read = self.draw(buffer.len());
        for ((number, &operation), out) in (self.count..).zip(&self.operations[..read]).zip(buffer)
        {
            *out = request(number, operation, self.page_bytes);
        }
        self.count += read as u64;
        Ok(read)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.count = 0;
        self.source.rewind()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synth::Workload;

    #[test]
    fn both_ways_to_read_give_the_same() {
        let workload = Workload::parse("zipf(pages=1000,updates=5000)", 7).unwrap();
        let mut batches = Vec::new();
        let mut source = Requests::new(workload.synthetic(), 4096);
        while source.read_batch(&mut batches, 999) > 0 {}
        source.rewind().unwrap();
        let mut filled = vec![batches[0]; 6000];
        assert_eq!(
            (
                source.requests(),
                source.fill(&mut filled).unwrap(),
                source.fill(&mut [batches[0]]).unwrap()
            ),
            (Some(5000), 5000, 0)
        );
        assert_eq!(filled[..5000], batches[..]);
    }
}
