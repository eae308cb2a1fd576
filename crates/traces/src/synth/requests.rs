//! A synthetic workload as the requests of a trace.

use units::{IoOp, IoRequest, PageOp, PageSource as _};

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
        self.operations.resize(most, PageOp(0));
        let read = self.source.fill(&mut self.operations).expect("a synthetic source cannot fail");
        out.extend(self.operations[..read].iter().zip(self.count..).map(|(operation, time_ns)| IoRequest {
            time_ns,
            op: if operation.is_trim() { IoOp::Trim } else { IoOp::Write },
            offset: u64::from(operation.lpn().0) * u64::from(self.page_bytes),
            length: self.page_bytes,
            stream: 0,
            latency_ns: None,
        }));
        self.count += read as u64;
        read
    }
}
