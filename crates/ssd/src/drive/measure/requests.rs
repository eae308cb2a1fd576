//! Individual requests, for users who want more than distributions.

use units::{IoOp, Nanos};

use super::latency::{ByDelay, RequestDelays};
use crate::drive::time::nanos_of;

/// A request that was measured. Times are in nanoseconds since the first request of the run,
/// including the warm-up, as in the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredRequest {
    /// Time at which it was sent.
    pub submitted: Nanos,
    /// Its latency, rounded as everywhere else.
    pub latency: Nanos,
    /// Its delays, which add up to exactly `latency`.
    pub delays: ByDelay<Nanos>,
    /// The operation.
    pub op: IoOp,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u32,
    /// Index of its flow.
    pub flow: u32,
}

/// Receiver of each request that is measured, in the order in which they end.
pub trait RequestSink {
    /// Takes the next request.
    fn add(&mut self, request: &MeasuredRequest);

    /// Reports the reason if no more can be taken. Called now and then, so that a run does not go
    /// on for hours after its disk is full.
    ///
    /// # Errors
    /// The reason, in words.
    fn check(&mut self) -> Result<(), String>;
}

/// The delays in nanoseconds. They are rounded cumulatively, so that each is less than a nanosecond
/// off, none that is 0 becomes more, and they add up to the rounded sum.
#[must_use]
pub fn in_nanos(delays: &RequestDelays) -> ByDelay<Nanos> {
    let (mut sum, mut told) = (0, 0);
    ByDelay(delays.0.map(|picos| {
        sum += picos;
        let before = told;
        told = nanos_of(sum);
        told - before
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::drive::measure::Delay;
    use crate::drive::time::PICOS_PER_NANO;

    #[test]
    fn parts_that_are_rounded_one_by_one_would_not_add_up() {
        let mut delays = ByDelay([0; Delay::COUNT]);
        delays.0[..3].fill(400);
        let mut expected = ByDelay([0; Delay::COUNT]);
        expected.0[1] = 1;
        assert_eq!(in_nanos(&delays), expected);
    }

    proptest! {
        #[test]
        fn parts_add_up_to_the_rounded_latency(
            picos in prop::collection::vec(prop_oneof![Just(0), 0..5_000_u64, 0..1_u64 << 45], Delay::COUNT),
        ) {
            let delays: RequestDelays = ByDelay(picos.try_into().unwrap());
            let found = in_nanos(&delays);
            prop_assert_eq!(found.0.iter().sum::<Nanos>(), nanos_of(delays.total()));
            for delay in Delay::ALL {
                let (exact, told) = (delays[delay], found[delay] * PICOS_PER_NANO);
                prop_assert!(exact.abs_diff(told) < 1_001, "{exact} ps are told as {told}");
                prop_assert!(exact > 0 || told == 0);
            }
        }
    }
}
