//! Ageing of the drives of an array with parity, and data loss when one of them fails.
//!
//! DIFF-RAID is M. Balakrishnan, A. Kadav, V. Prabhakaran, D. Malkhi, "Differential RAID:
//! Rethinking RAID for SSD Reliability", EuroSys 2010 (ACM TOS 6(2), 2010). Its text was not
//! available: this follows its abstract and the formulas as others quote them.

use crate::ModelError;

const AGE: &str = "a share of the erase limit, from 0 to 1";

/// Page writes of each drive for each page that the host writes, by the share of the parity that
/// the drive holds (DIFF-RAID's ageing rates, of which the paper prints the ratios).
///
/// A page written at random is one write of data, to any of the other drives alike, and one of
/// parity: (1 - p) / (n - 1) + p, in percent and times n - 1 the paper's p (n - 1) + (100 - p).
/// `full_stripes`, 0 ... 1, is the share of the host's pages that come as whole stripes: those
/// write parity once, and so wear all drives alike.
///
/// `parity` has an entry of 0 ... 1 for each of at least two drives; the entries add up to 1.
///
/// # Errors
/// [`ModelError`] names what is out of range.
pub fn ageing_rates(parity: &[f64], full_stripes: f64) -> Result<Vec<f64>, ModelError> {
    check_drives(parity.len())?;
    let is_share = |share: f64| (0.0..=1.0).contains(&share);
    for (index, &value) in parity.iter().enumerate() {
        if !is_share(value) {
            let (what, right) = ("parity", "a share from 0 to 1");
            return Err(ModelError::EntryOutOfRange { what, index, value, right });
        }
    }
    let sum: f64 = parity.iter().sum();
    if (sum - 1.0).abs() > 1e-6 {
        return Err(ModelError::NotAWhole { what: "shares of the parity", sum });
    }
    ModelError::check(
        is_share(full_stripes),
        "share of full stripes",
        full_stripes,
        "from 0 to 1",
    )?;
    let others = (parity.len() - 1) as f64;
    let at_random = |p: f64| p + (1.0 - p) / others;
    Ok(parity
        .iter()
        .map(|&p| (1.0 - full_stripes) * at_random(p) + full_stripes / others)
        .collect())
}

fn check_drives(drives: usize) -> Result<(), ModelError> {
    ModelError::check(drives >= 2, "drives", drives as f64, "at least 2")
}

fn check_rates(rates: &[f64]) -> Result<(), ModelError> {
    check_drives(rates.len())?;
    for (index, &value) in rates.iter().enumerate() {
        if !(value > 0.0 && value.is_finite()) {
            let (what, right) = ("rate", "above 0");
            return Err(ModelError::EntryOutOfRange { what, index, value, right });
        }
    }
    Ok(())
}

/// The ages of the drives when the next one is replaced, from the ages at the last replacement: the
/// recurrence of DIFF-RAID's replacement, which shifts parity so that the oldest remaining drive
/// takes the place of the replaced one, and the new drive takes the last place.
///
/// `ages` are shares of the erase limit, 0 ... 1, in the order of their places, with the drive to
/// be replaced first; `rates` are those of the places ([`ageing_rates`]), in any unit. The next
/// drive to be replaced is the one that reaches 1 first. Rebuilding and moving parity cost nothing
/// here.
///
/// # Errors
/// [`ModelError`] names what is out of range.
pub fn next_ages(ages: &[f64], rates: &[f64]) -> Result<Vec<f64>, ModelError> {
    check_rates(rates)?;
    if ages.len() != rates.len() {
        let (first_length, second_length) = (ages.len(), rates.len());
        let (first, second) = ("ages", "rates");
        return Err(ModelError::Lengths { first, first_length, second, second_length });
    }
    for (index, &value) in ages.iter().enumerate() {
        if !(0.0..=1.0).contains(&value) {
            return Err(ModelError::EntryOutOfRange { what: "ages", index, value, right: AGE });
        }
    }
    // Oldest first: a drive may have overtaken another in a place with less parity.
    let mut left = ages[1..].to_vec();
    left.sort_by(|a, b| b.total_cmp(a));
    left.push(0.0);
    let until = left.iter().zip(rates).map(|(age, rate)| (1.0 - age) / rate);
    let until = until.fold(f64::INFINITY, f64::min);
    let mut next: Vec<f64> =
        left.iter().zip(rates).map(|(age, rate)| (age + until * rate).min(1.0)).collect();
    next.sort_by(|a, b| b.total_cmp(a));
    Ok(next)
}

/// The ages to which [`next_ages`] converges when rates fall from the first place to the last: the
/// drive in place k has aged in places n, n - 1, ... k, for the time between two replacements in
/// each, so its age is the sum of the rates from k on over the sum of all.
///
/// With equal rates these ages stay if the drives begin with them, but drives that begin alike stay
/// alike.
///
/// # Errors
/// [`ModelError`] if a rate is not above 0.
pub fn converged_ages(rates: &[f64]) -> Result<Vec<f64>, ModelError> {
    check_rates(rates)?;
    let all: f64 = rates.iter().sum();
    let mut age = 0.0;
    let mut ages: Vec<f64> = rates
        .iter()
        .rev()
        .map(|rate| {
            age += rate / all;
            age
        })
        .collect();
    ages.reverse();
    Ok(ages)
}

/// The raw bit error rate at an age, interpolated between points of (age, rate) by rising age: the
/// logarithm of the rate is linear between points, and constant before the first and after the
/// last.
///
/// Ages are in any unit; rates are errors per bit read, above 0 and below 1.
///
/// # Errors
/// [`ModelError`] if there is no point, ages do not rise or a rate is out of range.
pub fn raw_bit_error_rate(points: &[(f64, f64)], age: f64) -> Result<f64, ModelError> {
    ModelError::check(!points.is_empty(), "points of the error rate", 0.0, "at least 1")?;
    for (index, &(at, value)) in points.iter().enumerate() {
        if !(value > 0.0 && value < 1.0) {
            let (what, right) = ("error rate", "above 0 and below 1");
            return Err(ModelError::EntryOutOfRange { what, index, value, right });
        }
        if index > 0 && points[index - 1].0 >= at {
            let (what, right) = ("age of an error rate", "above the one before it");
            return Err(ModelError::EntryOutOfRange { what, index, value: at, right });
        }
    }
    ModelError::check(age.is_finite(), "age", age, "a number")?;
    let next = points.partition_point(|&(at, _)| at <= age);
    let Some((&(from, low), &(to, high))) =
        next.checked_sub(1).map(|at| &points[at]).zip(points.get(next))
    else {
        return Ok(points[next.saturating_sub(1)].1);
    };
    let share = (age - from) / (to - from);
    Ok((low.ln() + share * (high / low).ln()).exp())
}

/// The chance that a codeword has more errors than its code corrects: bits fail independently, each
/// with the raw bit error rate (Mielke et al., "Bit error rate in NAND flash memories", IRPS 2008,
/// whose uncorrectable bit error rate is this chance divided by the data bits of a codeword).
///
/// `rate` is 0 ... 1, `bits` includes the check bits of the codeword, `corrected` is below `bits`.
///
/// # Errors
/// [`ModelError`] names what is out of range.
pub fn codeword_failure(rate: f64, bits: u32, corrected: u32) -> Result<f64, ModelError> {
    ModelError::check((0.0..=1.0).contains(&rate), "error rate", rate, "from 0 to 1")?;
    let right = "below the bits of the codeword";
    ModelError::check(corrected < bits, "corrected bits", f64::from(corrected), right)?;
    if rate == 0.0 || rate == 1.0 {
        return Ok(rate);
    }
    let (ln_good, ln_odds) = ((-rate).ln_1p(), rate.ln() - (-rate).ln_1p());
    // The logarithm of the chance of k errors, from that of k - 1.
    let mut ln_term = f64::from(bits) * ln_good;
    let mut failure = 0.0;
    for k in 1..=bits {
        ln_term += (f64::from(bits - k + 1) / f64::from(k)).ln() + ln_odds;
        if k > corrected {
            let term = ln_term.exp();
            failure += term;
            let is_falling = f64::from(k) > f64::from(bits) * rate;
            if is_falling && term <= failure * 1e-17 {
                break;
            }
        }
    }
    Ok(f64::min(failure, 1.0))
}

/// For each drive: the chance that the array loses data when it fails, since one of the others then
/// has a codeword that cannot be corrected. The rebuild reads all data of every other drive.
///
/// `failures` has the chance of [`codeword_failure`] for each drive, `codewords` is the number of
/// codewords of each drive.
///
/// # Errors
/// [`ModelError`] names what is out of range.
pub fn loss_on_failure(failures: &[f64], codewords: f64) -> Result<Vec<f64>, ModelError> {
    check_drives(failures.len())?;
    let right = "a number, 0 or above";
    ModelError::check(codewords >= 0.0 && codewords.is_finite(), "codewords", codewords, right)?;
    for (index, &value) in failures.iter().enumerate() {
        if !(0.0..=1.0).contains(&value) {
            let (what, right) = ("chance of a failure", "from 0 to 1");
            return Err(ModelError::EntryOutOfRange { what, index, value, right });
        }
    }
    let kept = |drive: usize| {
        let others = failures.iter().enumerate().filter(|&(other, _)| other != drive);
        others.map(|(_, chance)| codewords * (-chance).ln_1p()).sum::<f64>()
    };
    // Without codewords nothing can be lost, even at certain failure: avoids 0 times infinity.
    let loss = |drive| if codewords == 0.0 { 0.0 } else { -kept(drive).exp_m1() };
    Ok((0..failures.len()).map(loss).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SKEWED: [f64; 5] = [0.8, 0.05, 0.05, 0.05, 0.05];

    fn near(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() < 1e-9, "{found:?} and {expected:?}");
        }
    }

    #[test]
    fn rates_are_in_the_papers_ratios() {
        let rates = ageing_rates(&SKEWED, 0.0).unwrap();
        let printed = |p: f64| p * 4.0 + (100.0 - p);
        assert!((rates[0] / rates[1] - printed(80.0) / printed(5.0)).abs() < 1e-12);
        // Two pages for each that is written at random, and n / (n - 1) of whole stripes.
        assert!((rates.iter().sum::<f64>() - 2.0).abs() < 1e-12);
        near(&ageing_rates(&SKEWED, 1.0).unwrap(), &[0.25; 5]);
        near(&ageing_rates(&[1.0, 0.0, 0.0], 0.0).unwrap(), &[1.0, 0.5, 0.5]);
    }

    #[test]
    fn drives_that_begin_alike_come_to_the_closed_form() {
        let rates = ageing_rates(&SKEWED, 0.0).unwrap();
        let fixed = converged_ages(&rates).unwrap();
        near(&next_ages(&fixed, &rates).unwrap(), &fixed);
        let mut ages: Vec<f64> = rates.iter().map(|rate| rate / rates[0]).collect();
        assert!((ages[1] - fixed[1]).abs() > 0.1, "they do not begin there");
        for _ in 0..200 {
            ages = next_ages(&ages, &rates).unwrap();
        }
        near(&ages, &fixed);
    }

    /// Without uneven parity all drives age alike.
    #[test]
    fn drives_with_even_parity_stay_alike() {
        let rates = ageing_rates(&[0.25; 4], 0.0).unwrap();
        near(&next_ages(&[1.0; 4], &rates).unwrap(), &[1.0, 1.0, 1.0, 0.0]);
        let fixed = converged_ages(&rates).unwrap();
        near(&fixed, &[1.0, 0.75, 0.5, 0.25]);
        near(&next_ages(&fixed, &rates).unwrap(), &fixed);
    }

    #[test]
    fn a_codeword_fails_as_often_as_a_binomial_says() {
        // Three bits, one of which is corrected: 3 p^2 (1 - p) + p^3.
        let p: f64 = 0.1;
        let by_hand = 3.0 * p * p * (1.0 - p) + p.powi(3);
        assert!((codeword_failure(p, 3, 1).unwrap() - by_hand).abs() < 1e-15);
        // Rare errors are Poisson: lambda^5 / 5! of more than four.
        let (bits, rate) = (4096, 1e-7);
        let poisson = (f64::from(bits) * rate).powi(5) / 120.0;
        let found = codeword_failure(rate, bits, 4).unwrap();
        assert!((found / poisson - 1.0).abs() < 0.01, "{found} and {poisson}");
        assert!((codeword_failure(0.5, 2048, 4).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(codeword_failure(0.0, 3, 1).unwrap(), 0.0);
    }

    #[test]
    fn loss_is_that_of_the_drives_that_are_left() {
        let lost = loss_on_failure(&[0.1, 0.0, 0.2], 2.0).unwrap();
        near(&lost, &[1.0 - 0.8 * 0.8, 1.0 - 0.81 * 0.64, 1.0 - 0.81]);
        near(&loss_on_failure(&[1.0, 1.0], 0.0).unwrap(), &[0.0, 0.0]);
    }

    #[test]
    fn error_rates_lie_on_lines_of_their_logarithm() {
        let points = [(0.0, 1e-8), (1.0, 1e-4)];
        let at = |age| raw_bit_error_rate(&points, age).unwrap();
        assert!((at(0.5) / 1e-6 - 1.0).abs() < 1e-9);
        assert!((at(0.0) / 1e-8 - 1.0).abs() < 1e-9);
        assert_eq!((at(-1.0), at(2.0)), (1e-8, 1e-4));
    }

    #[test]
    fn impossible_arrays_are_told() {
        let said = |error: ModelError| error.to_string();
        assert!(said(ageing_rates(&[1.0], 0.0).unwrap_err()).contains("at least 2"));
        assert!(said(ageing_rates(&[0.5, 0.4], 0.0).unwrap_err()).contains("add up to 0.9"));
        assert!(said(ageing_rates(&[1.5, -0.5], 0.0).unwrap_err()).contains("parity [0] is 1.5"));
        assert!(said(next_ages(&[1.0], &[1.0, 1.0]).unwrap_err()).contains("1 ages but 2 rates"));
        assert!(converged_ages(&[1.0, 0.0]).is_err());
        assert!(codeword_failure(1e-3, 8, 8).is_err());
        assert!(raw_bit_error_rate(&[(1.0, 1e-3), (1.0, 1e-2)], 1.0).is_err());
        assert!(loss_on_failure(&[0.1, 2.0], 1.0).is_err());
    }
}
