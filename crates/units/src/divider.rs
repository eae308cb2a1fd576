//! Division of page numbers by a divisor that is known only at run time, without a division.

/// Divides any number below 2^31 by `1 ... 2^31` through one multiplication (Granlund &
/// Montgomery, PLDI 1994).
#[derive(Clone, Copy, Debug)]
pub struct Divider {
    magic: u64,
    shift: u32,
    divisor: u32,
}

impl Divider {
    /// The divider by `divisor`.
    ///
    /// # Panics
    /// If it is not from 1 to 2^31.
    #[must_use]
    pub fn new(divisor: u32) -> Self {
        assert!((1..=1 << 31).contains(&divisor), "the divisor is from 1 to 2^31");
        let shift = 32 + divisor.next_power_of_two().trailing_zeros();
        Self { magic: (1u64 << shift).div_ceil(u64::from(divisor)), shift, divisor }
    }

    /// `number` divided, without what is left over.
    #[inline]
    #[must_use]
    pub fn quotient(self, number: u32) -> u32 {
        debug_assert!(number < 1 << 31);
        ((u64::from(number) * self.magic) >> self.shift) as u32
    }

    /// The quotient and the remainder.
    #[inline]
    #[must_use]
    pub fn split(self, number: u32) -> (u32, u32) {
        let quotient = self.quotient(number);
        (quotient, number - quotient * self.divisor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_division(
            number in 0u32..1 << 31,
            divisor in prop_oneof![1u32..=4096, 1u32..=1 << 31],
        ) {
            let near = number / divisor * divisor;
            for number in [number, near, near.saturating_sub(1), (1 << 31) - 1] {
                prop_assert_eq!(
                    Divider::new(divisor).split(number),
                    (number / divisor, number % divisor)
                );
            }
        }
    }
}
