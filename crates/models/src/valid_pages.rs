//! The number of valid pages of an erase block, and the benefit of a cleaning window (MULTILOG 4.1,
//! "Greedy cleaning policy": eq. 5, the Markov chain, the benefit of a window of B erase blocks).
//!
//! A distribution is a slice with entry k = the chance of exactly k valid pages, k = 0 ... C. (The
//! paper writes its vectors from C down to 0.)

use crate::{ModelError, check_over_provisioning, p_gc_lru};

/// Eq. 5: the distribution of the number of valid pages in an erase block of
/// `pages_per_erase_block` pages (C), each of which is valid with chance `p_valid` (0 to 1) on its
/// own: binomial. The paper takes p_valid from eq. 4; [`p_gc_lru`] (eq. 3) is exact.
///
/// # Panics
/// If `p_valid` is not from 0 to 1.
#[must_use]
pub fn valid_pages_pdf(pages_per_erase_block: usize, p_valid: f64) -> Vec<f64> {
    assert!((0.0..=1.0).contains(&p_valid), "p_valid is {p_valid}: it must be from 0 to 1");
    let c = pages_per_erase_block;
    let mut pdf = vec![0.0; c + 1];
    if p_valid == 0.0 || p_valid == 1.0 {
        pdf[if p_valid == 0.0 { 0 } else { c }] = 1.0;
        return pdf;
    }
    // From the most likely count outwards by ratios of neighbours: no factorial, and nothing
    // overflows.
    let odds = p_valid / (1.0 - p_valid);
    let mode = (((c + 1) as f64 * p_valid) as usize).min(c);
    pdf[mode] = 1.0;
    for k in mode..c {
        pdf[k + 1] = pdf[k] * odds * (c - k) as f64 / (k + 1) as f64;
    }
    for k in (0..mode).rev() {
        pdf[k] = pdf[k + 1] * (k + 1) as f64 / ((c - k) as f64 * odds);
    }
    let sum: f64 = pdf.iter().sum();
    pdf.iter_mut().for_each(|p| *p /= sum);
    pdf
}

/// Mean of a distribution: the average number of valid pages.
#[must_use]
pub fn mean_valid_pages(pdf: &[f64]) -> f64 {
    pdf.iter().enumerate().map(|(k, p)| k as f64 * p).sum()
}

/// The distribution after the paper's chain took `updates` steps (n) on a device of `logical_pages`
/// (N): PDF M^n, exactly.
///
/// M takes k valid pages to k - 1 with chance k / N and leaves them with chance (N - k) / N. (The
/// scanned matrix has two misprints: (N - C - 1) / N in its second row is (N - C + 1) / N, and its
/// last rows are (.. (N - 1) / N, 1 / N) and (.. 0, 1).) Done by repeated squaring of the
/// triangular matrix: time grows as C^3 log n, meant for C up to some hundreds. [`thinned`] is its
/// limit for large N and takes C^2.
///
/// # Errors
/// [`ModelError::OutOfRange`] if there are fewer logical pages than pages in the erase block.
pub fn markov_pdf(pdf: &[f64], logical_pages: u64, updates: u64) -> Result<Vec<f64>, ModelError> {
    let states = pdf.len();
    let n = logical_pages as f64;
    ModelError::check(
        states >= 1 && n >= (states - 1) as f64,
        "logical pages",
        n,
        "at least the pages of an erase block",
    )?;
    // Row k of the lower triangle: chances of going from k to j <= k valid pages.
    let mut power = vec![0.0; states * states];
    for k in 0..states {
        power[k * states + k] = (n - k as f64) / n;
        if k > 0 {
            power[k * states + k - 1] = k as f64 / n;
        }
    }
    let mut now = pdf.to_vec();
    let mut left = updates;
    while left > 0 {
        if left & 1 == 1 {
            let mut next = vec![0.0; states];
            for (k, p) in now.iter().enumerate() {
                for (to, m) in next[..=k].iter_mut().zip(&power[k * states..]) {
                    *to += p * m;
                }
            }
            now = next;
        }
        left >>= 1;
        if left > 0 {
            power = squared(&power, states);
        }
    }
    Ok(now)
}

fn squared(lower: &[f64], states: usize) -> Vec<f64> {
    let mut square = vec![0.0; states * states];
    for k in 0..states {
        for through in 0..=k {
            let m = lower[k * states + through];
            if m == 0.0 {
                continue;
            }
            let (from, to) = (through * states, k * states);
            for j in 0..=through {
                square[to + j] += m * lower[from + j];
            }
        }
    }
    square
}

/// The distribution when each valid page outlives the updates with chance `survival` on its own.
///
/// With survival (1 - 1/N)^n this is PDF M^n up to order C / N: pages of one block do not die quite
/// independently, since one update hits one page only (two given pages both survive with chance
/// (1 - 2/N)^n, not (1 - 1/N)^2n). The mean is exactly the same. It is exact for N to infinity with
/// n / N fixed, where eq. 2 stands as well.
///
/// # Panics
/// If `survival` is not from 0 to 1.
#[must_use]
pub fn thinned(pdf: &[f64], survival: f64) -> Vec<f64> {
    let mut after = vec![0.0; pdf.len()];
    for (k, p) in pdf.iter().enumerate().filter(|(_, p)| **p > 0.0) {
        for (to, chance) in after.iter_mut().zip(valid_pages_pdf(k, survival)) {
            *to += p * chance;
        }
    }
    after
}

/// Benefit of a cleaning window of B erase blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowBenefit {
    /// Mean valid pages of the oldest erase block, the victim of LRU: C p_gc.
    pub lru_valid_pages: f64,
    /// Mean of the least number of valid pages among the B oldest erase blocks.
    pub least_valid_pages: f64,
    /// `lru_valid_pages` - `least_valid_pages`: relocations saved by one choice among B; 0 or
    /// above.
    pub benefit: f64,
    /// The formula as printed: sum over i = 2 ... B of (C p_1 - C p_i); 0 or below. See
    /// [`window_benefit`].
    pub benefit_as_printed: f64,
}

/// The benefit of a window of `window` erase blocks (B; 1 is LRU) over LRU: uniform updates on
/// `logical_pages` (N), erase blocks of `pages_per_erase_block` (C) pages, `over_provisioning`
/// above 0.
///
/// The i-th oldest erase block was filled (i - 1) C (1 - p_gc) host updates after the oldest, so
/// its pages are valid with chance p_i = p_gc e^((i - 1) C (1 - p_gc) / N), and its distribution is
/// eq. 5 at p_i (this is the chain run backwards, for large N).
///
/// **The printed formula, Benefit = sum_(i=2..B) (PDF_old - PDF_i) [C ... 0]', is not sound**: with
/// PDF_i the distribution at place i it adds up differences of means that are all negative (younger
/// erase blocks have more valid pages), and falls without limit as B grows. It is returned as
/// `benefit_as_printed`. The quantity that the text asks for, "the average number of valid pages
/// saved from relocation", is the mean of the oldest minus the mean of the minimum, E V_1 - E
/// min(V_1 .. V_B); the printed sum is exactly that if PDF_old and PDF_i are read as the
/// distributions of the minimum over the first i - 1 and i erase blocks. It is returned as
/// `benefit`.
///
/// Even so it is the gain of a *single* choice from a log that LRU left behind. A policy that
/// chooses so each time takes the best blocks away, leaves the worse ones in the window, and gains
/// far less: [`crate::p_gc_window_greedy`] is its steady state.
///
/// # Errors
/// [`ModelError::OutOfRange`] if a number is out of range; the window may hold at most all (1 +
/// alpha) N / C erase blocks.
pub fn window_benefit(
    over_provisioning: f64,
    pages_per_erase_block: usize,
    logical_pages: u64,
    window: u64,
) -> Result<WindowBenefit, ModelError> {
    check_over_provisioning(over_provisioning)?;
    let (c, n) = (pages_per_erase_block as f64, logical_pages as f64);
    ModelError::check(c >= 1.0, "pages per erase block", c, "at least 1")?;
    ModelError::check(n >= c, "logical pages", n, "at least the pages of an erase block")?;
    let erase_blocks = (1.0 + over_provisioning) * n / c;
    ModelError::check(
        window >= 1 && window as f64 <= erase_blocks,
        "window",
        window as f64,
        "from 1 to the number of erase blocks",
    )?;

    let p_gc = p_gc_lru(over_provisioning);
    let younger_by = c * (1.0 - p_gc) / n;
    // at_least[v - 1]: the chance that no erase block so far has fewer than v valid pages.
    let mut at_least = vec![1.0; pages_per_erase_block];
    let mut as_printed = 0.0;
    for place in 0..window {
        let p = (p_gc * (place as f64 * younger_by).exp()).min(1.0);
        as_printed += c * (p_gc - p);
        let mut tail = 0.0;
        for (chance, p) in
            at_least.iter_mut().zip(&valid_pages_pdf(pages_per_erase_block, p)[1..]).rev()
        {
            tail += p;
            *chance *= f64::min(tail, 1.0);
        }
    }
    let (lru, least) = (c * p_gc, at_least.iter().sum());
    Ok(WindowBenefit {
        lru_valid_pages: lru,
        least_valid_pages: least,
        benefit: lru - least,
        benefit_as_printed: as_printed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }

    /// M as a full matrix, one step at a time.
    fn stepped(pdf: &[f64], logical_pages: u64, updates: u64) -> Vec<f64> {
        let mut now = pdf.to_vec();
        for _ in 0..updates {
            let mut next = vec![0.0; now.len()];
            for (k, p) in now.iter().enumerate() {
                let dies = k as f64 / logical_pages as f64;
                next[k] += p * (1.0 - dies);
                if k > 0 {
                    next[k - 1] += p * dies;
                }
            }
            now = next;
        }
        now
    }

    proptest! {
        #[test]
        fn eq_5_is_a_binomial(c in 1_usize..200, p in 0.0_f64..=1.0) {
            let pdf = valid_pages_pdf(c, p);
            prop_assert!((pdf.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            let mean = mean_valid_pages(&pdf);
            prop_assert!((mean - c as f64 * p).abs() < 1e-9);
            let variance: f64 =
                pdf.iter().enumerate().map(|(k, q)| (k as f64 - mean).powi(2) * q).sum();
            prop_assert!((variance - c as f64 * p * (1.0 - p)).abs() < 1e-8);
        }

        #[test]
        fn squaring_equals_stepping(
            c in 1_usize..20,
            extra in 0_u64..500,
            updates in 0_u64..300,
            p in 0.0_f64..=1.0,
        ) {
            let (pdf, n) = (valid_pages_pdf(c, p), c as u64 + extra);
            prop_assert!(
                largest_difference(
                    &markov_pdf(&pdf, n, updates).unwrap(),
                    &stepped(&pdf, n, updates)
                ) < 1e-12
            );
        }

        #[test]
        fn thinning_is_the_chain_up_to_c_over_n(
            c in 1_usize..65,
            log_n in 7_u32..20,
            turns in 0.0_f64..3.0,
        ) {
            let n = 1_u64 << log_n;
            let updates = (turns * n as f64) as u64;
            let fresh = valid_pages_pdf(c, 1.0);
            let survival = (1.0 - 1.0 / n as f64).powf(updates as f64);
            let (chain, thin) =
                (markov_pdf(&fresh, n, updates).unwrap(), thinned(&fresh, survival));
            prop_assert!((mean_valid_pages(&chain) - mean_valid_pages(&thin)).abs() < 1e-7);
            let allowed = c as f64 / n as f64;
            prop_assert!(
                largest_difference(&chain, &thin) < allowed,
                "{} {allowed}",
                largest_difference(&chain, &thin)
            );
        }

        #[test]
        fn wider_windows_gain_more(alpha in 0.02_f64..2.0, c in 1_usize..100, window in 1_u64..60) {
            let at = |window| window_benefit(alpha, c, 1 << 20, window).unwrap();
            let (one, some, more) = (at(1), at(window), at(window + 1));
            prop_assert!(one.benefit.abs() < 1e-9 && one.benefit_as_printed == 0.0);
            prop_assert!(more.benefit >= some.benefit - 1e-12 && some.least_valid_pages >= 0.0);
            prop_assert!(more.benefit_as_printed < some.benefit_as_printed);
        }
    }

    #[test]
    fn thinning_composes_binomials() {
        let pdf = thinned(&valid_pages_pdf(64, 0.8), 0.5);
        assert!(largest_difference(&pdf, &valid_pages_pdf(64, 0.4)) < 1e-14);
    }

    #[test]
    fn chain_links_the_places_of_a_window() {
        let (alpha, c, n) = (0.2, 64, 1 << 20);
        let p_gc = p_gc_lru(alpha);
        let places = 500.0;
        let updates = places * f64::from(c) * (1.0 - p_gc);
        let younger = valid_pages_pdf(64, p_gc * (updates / f64::from(n)).exp());
        let oldest = markov_pdf(&younger, 1 << 20, updates.round() as u64).unwrap();
        assert!(largest_difference(&oldest, &valid_pages_pdf(64, p_gc)) < 1e-5);
    }

    #[test]
    fn wrong_windows_are_refused() {
        assert!(window_benefit(0.25, 64, 64 * 100, 125).is_ok());
        assert!(window_benefit(0.25, 64, 64 * 100, 126).is_err());
        assert!(window_benefit(0.25, 64, 64 * 100, 0).is_err());
        assert!(markov_pdf(&valid_pages_pdf(8, 0.5), 7, 1).is_err());
    }
}
