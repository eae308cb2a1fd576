//! The part of a trace that is played.

use units::{IoOp, IoRequest, Nanos, RequestSource, SourceError};

/// Selection of requests of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Requests before this time of the trace are passed over, in nanoseconds from its start.
    pub skip: Nanos,
    /// The first request this much later, or more, ends it, in nanoseconds; `Nanos::MAX` for the
    /// trace's own end.
    pub span: Nanos,
    /// Most requests taken.
    pub limit: u64,
    /// True for each operation, by its number, whose requests are taken.
    pub ops: [bool; IoOp::ALL.len()],
}

impl Default for Selection {
    fn default() -> Self {
        Self { skip: 0, span: Nanos::MAX, limit: u64::MAX, ops: [true; IoOp::ALL.len()] }
    }
}

impl Selection {
    /// Returns true if requests of this operation are taken.
    #[must_use]
    pub fn takes(&self, op: IoOp) -> bool {
        self.ops[op as usize]
    }
}

/// The selected requests of a source; their times count from the first of them. Requests of no
/// bytes that are no flushes are none.
pub struct Selected<S> {
    source: S,
    selection: Selection,
    base: Option<Nanos>,
    taken: u64,
    is_over: bool,
    empty: u64,
}

impl<S: RequestSource> Selected<S> {
    /// The part of a source.
    #[must_use]
    pub fn new(source: S, selection: Selection) -> Self {
        Self { source, selection, base: None, taken: 0, is_over: false, empty: 0 }
    }

    /// The whole.
    pub fn source(&mut self) -> &mut S {
        &mut self.source
    }

    /// Requests of no bytes that were passed over so far.
    #[must_use]
    pub fn empty(&self) -> u64 {
        self.empty
    }

    /// The request if it is taken, with its time from the first one taken.
    fn take(&mut self, mut request: IoRequest) -> Option<IoRequest> {
        let Selection { skip, span, limit, .. } = self.selection;
        if self.is_over || request.time_ns < skip {
            return None;
        }
        self.is_over = self.taken == limit || request.time_ns - skip >= span && span < Nanos::MAX;
        if self.is_over || !self.selection.takes(request.op) {
            return None;
        }
        if request.length == 0 && request.op != IoOp::Flush {
            self.empty += 1;
            return None;
        }
        self.taken += 1;
        let base = *self.base.get_or_insert(request.time_ns);
        request.time_ns = request.time_ns.saturating_sub(base);
        Some(request)
    }
}

impl<S: RequestSource> RequestSource for Selected<S> {
    fn requests(&self) -> Option<u64> {
        None
    }

    fn fill(&mut self, buffer: &mut [IoRequest]) -> Result<usize, SourceError> {
        let mut count = 0;
        // What is left over is filled again: less than asked for is only given at the end.
        while count < buffer.len() && !self.is_over {
            let got = self.source.fill(&mut buffer[count..])?;
            if got == 0 {
                break;
            }
            let looked_at = count..count + got;
            for number in looked_at {
                if let Some(taken) = self.take(buffer[number]) {
                    buffer[count] = taken;
                    count += 1;
                }
            }
        }
        Ok(count)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.source.rewind()?;
        (self.base, self.taken, self.is_over, self.empty) = (None, 0, false, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use units::VecRequests;

    use super::*;

    fn requests() -> impl Strategy<Value = Vec<IoRequest>> {
        let one = (0_u64..20, 0_u8..4, 0_u32..3);
        prop::collection::vec(one, 0..60).prop_map(|mut all| {
            all.sort_unstable_by_key(|request| request.0);
            let request = |(number, (time_ns, op, sectors)): (usize, (u64, u8, u32))| IoRequest {
                time_ns,
                op: IoOp::from_number(op).unwrap(),
                offset: number as u64 * 4096,
                length: if op == 3 { 0 } else { sectors * 512 },
                stream: 0,
                latency_ns: None,
                handle: 0,
                is_fua: false,
            };
            all.into_iter().enumerate().map(request).collect()
        })
    }

    proptest! {
        /// However few are asked for at a time, it is what a plain filter takes.
        #[test]
        fn is_a_filter(
            all in requests(),
            skip in 0_u64..20,
            span in prop::option::of(0_u64..20),
            limit in 0_u64..40,
            ops in any::<[bool; 4]>(),
            chunk in 1_usize..9,
        ) {
            let selection = Selection { skip, span: span.unwrap_or(u64::MAX), limit, ops };
            let fits = |request: &&IoRequest| {
                request.time_ns >= skip
                    && span.is_none_or(|span| request.time_ns - skip < span)
                    && ops[request.op as usize]
                    && (request.length > 0 || request.op == IoOp::Flush)
            };
            let mut expected: Vec<IoRequest> =
                all.iter().filter(fits).take(limit as usize).copied().collect();
            let base = expected.first().map_or(0, |request| request.time_ns);
            expected.iter_mut().for_each(|request| request.time_ns -= base);
            let mut selected = Selected::new(VecRequests::new(all.into()), selection);
            for _ in 0..2 {
                let (mut found, mut buffer) = (Vec::new(), vec![IoRequest::NOTHING; chunk]);
                loop {
                    let count = selected.fill(&mut buffer).unwrap();
                    found.extend_from_slice(&buffer[..count]);
                    if count < chunk {
                        break;
                    }
                }
                prop_assert_eq!(&found, &expected);
                selected.rewind().unwrap();
            }
        }
    }
}
