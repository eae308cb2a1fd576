//! The models of arrays with parity: how their drives age, and what is lost when one fails.

use pyo3::prelude::*;

use crate::errors::input_error;
use crate::models::{Floats, slice};

/// Page writes that each drive of an array with parity gets for each page that the host writes at
/// random, by its share of the parity; `full_stripes` is the share of the host's pages that come as
/// whole stripes (DIFF-RAID's ageing rates). Shares are 0 to 1 and add up to 1. Raises InputError.
#[pyfunction]
#[pyo3(signature = (parity, *, full_stripes = 0.0))]
pub fn ageing_rates(parity: Floats<'_>, full_stripes: f64) -> PyResult<Vec<f64>> {
    ::models::ageing_rates(&slice(&parity), full_stripes).map_err(input_error)
}

/// Ages of drives when the next one is replaced, from those when the last one was (`ages`: shares
/// of the erase limit, that drive's first), by the `rates` of their places: the recurrence of
/// DIFF-RAID's replacement. Raises InputError.
#[pyfunction]
pub fn next_ages(ages: Floats<'_>, rates: Floats<'_>) -> PyResult<Vec<f64>> {
    ::models::next_ages(&slice(&ages), &slice(&rates)).map_err(input_error)
}

/// Ages to which `next_ages` converges where rates fall from the first place to the last: of each
/// place the sum of the rates from it on, over the sum of all. Raises InputError.
#[pyfunction]
pub fn converged_ages(rates: Floats<'_>) -> PyResult<Vec<f64>> {
    ::models::converged_ages(&slice(&rates)).map_err(input_error)
}

/// Raw bit error rate at an age, between points (age, rate) by rising age: its logarithm is a
/// straight line between two of them, and stays before the first and behind the last. Raises
/// InputError.
#[pyfunction]
pub fn raw_bit_error_rate(points: Vec<(f64, f64)>, age: f64) -> PyResult<f64> {
    ::models::raw_bit_error_rate(&points, age).map_err(input_error)
}

/// Chance that a codeword of so many bits has more errors than its code corrects, at a raw bit
/// error rate of 0 to 1 (binomial: Mielke et al., IRPS 2008). Raises InputError.
#[pyfunction]
pub fn codeword_failure(rate: f64, bits: u32, corrected: u32) -> PyResult<f64> {
    ::models::codeword_failure(rate, bits, corrected).map_err(input_error)
}

/// For each drive of an array with parity: the chance that data is lost when it fails, as a
/// codeword of another drive cannot be corrected then. `failures` has the chance of
/// `codeword_failure` of each drive, `codewords` is how many each has. Raises InputError.
#[pyfunction]
pub fn loss_on_failure(failures: Floats<'_>, codewords: f64) -> PyResult<Vec<f64>> {
    ::models::loss_on_failure(&slice(&failures), codewords).map_err(input_error)
}
