//! The models of MULTILOG section 4, on numbers and on numpy arrays; then those of arrays with
//! parity: how their drives age, and what is lost when one fails.
//!
//! Functions of one number take a float and give a float, or take an array (or nested list) and
//! give an array of the same shape.

use std::borrow::Cow;

use ::models::{
    BetaCoefficients, Binning, ModelError, UpdateBins, UpdateSets, Wear,
    beta_polynomial as beta_of, polynomial_fit as fit_polynomial,
};
use numpy::ndarray::{ArrayD, IxDyn};
use numpy::{
    AllowTypeChange, PyArrayDyn, PyArrayLike1, PyArrayLikeDyn, PyReadonlyArray1, PyUntypedArray,
};
use pyo3::prelude::*;

use crate::errors::input_error;
use crate::values::Array;

/// A list or an array of numbers.
type Floats<'py> = PyArrayLike1<'py, f64, AllowTypeChange>;

/// Applies a model of one number to a float or to every entry of an array, without the GIL.
fn each<'py>(
    numbers: &Bound<'py, PyAny>,
    model: impl Fn(f64) -> Result<f64, ModelError> + Send + Sync,
) -> PyResult<Bound<'py, PyAny>> {
    let py = numbers.py();
    if numbers.cast::<PyUntypedArray>().is_err()
        && let Ok(number) = numbers.extract::<f64>()
    {
        return Ok(py.detach(|| model(number)).map_err(input_error)?.into_pyobject(py)?.into_any());
    }
    let array: PyArrayLikeDyn<'py, f64, AllowTypeChange> = numbers.extract()?;
    let (shape, flat): (Vec<usize>, Vec<f64>) =
        (array.as_array().shape().to_vec(), array.as_array().iter().copied().collect());
    let results = py
        .detach(|| flat.into_iter().map(model).collect::<Result<Vec<f64>, _>>())
        .map_err(input_error)?;
    let results =
        ArrayD::from_shape_vec(IxDyn(&shape), results).expect("one result for each number");
    Ok(PyArrayDyn::from_owned_array(py, results).into_any())
}

fn in_range(
    what: &'static str,
    value: f64,
    ok: bool,
    right: &'static str,
) -> Result<f64, ModelError> {
    if ok { Ok(value) } else { Err(ModelError::OutOfRange { what, value, right }) }
}

fn alpha(value: f64) -> Result<f64, ModelError> {
    in_range(
        "over-provisioning",
        value,
        value >= 0.0 && value.is_finite(),
        "0 or above (0.2 means 20 %)",
    )
}

fn chance(value: f64) -> Result<f64, ModelError> {
    in_range("p_gc", value, (0.0..=1.0).contains(&value), "from 0 to 1")
}

/// The numbers, copied only where they do not lie in a row.
fn slice<'a>(list: &'a Floats<'_>) -> Cow<'a, [f64]> {
    list.as_slice().map_or_else(|_| Cow::Owned(list.as_array().to_vec()), Cow::Borrowed)
}

fn update_sets(sizes: &Floats<'_>, shares: &Floats<'_>) -> PyResult<UpdateSets> {
    UpdateSets::new(&slice(sizes), &slice(shares)).map_err(input_error)
}

/// Cleaning cost p / (1 - p) of a p_gc from 0 to 1: relocation writes for each host write (MULTILOG
/// eq. 1).
#[pyfunction]
pub fn cleaning_cost<'py>(p_gc: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    each(p_gc, |p| chance(p).map(::models::cleaning_cost))
}

/// Write amplification 1 / (1 - p) of a p_gc from 0 to 1: page programs for each host write
/// (MULTILOG eq. 1).
#[pyfunction]
pub fn write_amplification<'py>(p_gc: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    each(p_gc, |p| chance(p).map(::models::write_amplification))
}

/// p_gc of uniform updates cleaned by LRU (MULTILOG eq. 3), for over-provisioning 0 or above.
#[pyfunction]
pub fn p_gc_lru<'py>(over_provisioning: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    each(over_provisioning, |a| alpha(a).map(::models::p_gc_lru))
}

/// MULTILOG's closed approximation of `p_gc_lru` (eq. 4), e^(-0.9 alpha) / (1 + alpha).
#[pyfunction]
pub fn p_gc_approx<'py>(over_provisioning: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    each(over_provisioning, |a| alpha(a).map(::models::p_gc_approx))
}

/// Cleaning cost of `p_gc_lru`; infinite at 0.
#[pyfunction]
pub fn cleaning_cost_lru<'py>(
    over_provisioning: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    each(over_provisioning, |a| alpha(a).map(::models::cleaning_cost_lru))
}

/// p_gc of Greedy on uniform updates, for erase blocks of `pages_per_erase_block` pages, in the
/// limit of many (mean field).
#[pyfunction]
pub fn p_gc_greedy<'py>(
    over_provisioning: &Bound<'py, PyAny>,
    pages_per_erase_block: usize,
) -> PyResult<Bound<'py, PyAny>> {
    each(over_provisioning, |a| ::models::p_gc_greedy(a, pages_per_erase_block))
}

/// p_gc of the best of `choices` erase blocks drawn at random, on uniform updates (mean field).
#[pyfunction]
pub fn p_gc_d_choices<'py>(
    over_provisioning: &Bound<'py, PyAny>,
    pages_per_erase_block: usize,
    choices: u32,
) -> PyResult<Bound<'py, PyAny>> {
    each(over_provisioning, |a| ::models::p_gc_d_choices(a, pages_per_erase_block, choices))
}

/// p_gc of Window-Greedy on uniform updates, with the oldest fraction `window` of all erase blocks
/// in the window: 0 is LRU, 1 is Greedy (mean field).
#[pyfunction]
pub fn p_gc_window_greedy<'py>(
    over_provisioning: &Bound<'py, PyAny>,
    pages_per_erase_block: usize,
    window: f64,
) -> PyResult<Bound<'py, PyAny>> {
    each(over_provisioning, |a| ::models::p_gc_window_greedy(a, pages_per_erase_block, window))
}

/// One log's term of MULTILOG eq. 11: how the cleaning cost changes with the log's space; negative.
/// `z` is physical pages for each valid page of the log (1 or above), `update_share` and `size` its
/// fractions of all updates and of all pages. `approximate` uses -W(-z e^-z) ~ e^(-0.9 (z - 1)).
#[pyfunction]
#[pyo3(signature = (z, update_share, size, *, approximate = false))]
pub fn cleaning_cost_derivative<'py>(
    z: &Bound<'py, PyAny>,
    update_share: f64,
    size: f64,
    approximate: bool,
) -> PyResult<Bound<'py, PyAny>> {
    in_range("update share", update_share, (0.0..=1.0).contains(&update_share), "from 0 to 1")
        .map_err(input_error)?;
    in_range("size", size, size > 0.0 && size <= 1.0, "above 0 and at most 1")
        .map_err(input_error)?;
    let slope = if approximate {
        ::models::cleaning_cost_derivative_approx
    } else {
        ::models::cleaning_cost_derivative
    };
    each(z, |z| {
        Ok(slope(in_range("z", z, z >= 1.0 && z.is_finite(), "1 or above")?, update_share, size))
    })
}

/// Distribution of the valid pages of an erase block (MULTILOG eq. 5): entry k is the chance of k.
#[pyfunction]
pub fn valid_pages_pdf(pages_per_erase_block: usize, p_valid: f64) -> PyResult<Array<f64>> {
    chance(p_valid).map_err(input_error)?;
    Ok(Array(::models::valid_pages_pdf(pages_per_erase_block, p_valid)))
}

/// The distribution after `updates` steps of MULTILOG's Markov chain on a device of
/// `logical_pages`.
#[pyfunction]
pub fn markov_pdf(
    py: Python<'_>,
    pdf: Floats<'_>,
    logical_pages: u64,
    updates: u64,
) -> PyResult<Array<f64>> {
    let pdf = slice(&pdf).into_owned();
    let after = py.detach(|| ::models::markov_pdf(&pdf, logical_pages, updates));
    after.map(Array).map_err(input_error)
}

/// Gain of one choice from a cleaning window of B erase blocks over LRU.
#[pyclass(frozen, get_all, module = "flashwright._core")]
pub struct WindowBenefit {
    /// Mean valid pages of the oldest erase block.
    lru_valid_pages: f64,
    /// Mean of the least valid pages among the B oldest.
    least_valid_pages: f64,
    /// The difference: relocations saved.
    benefit: f64,
    /// The formula as printed in MULTILOG 4.1, which is not sound (0 or below).
    benefit_as_printed: f64,
}

/// The benefit of a window of `window` erase blocks over LRU (MULTILOG 4.1, "Greedy benefit").
#[pyfunction]
pub fn window_benefit(
    py: Python<'_>,
    over_provisioning: f64,
    pages_per_erase_block: usize,
    logical_pages: u64,
    window: u64,
) -> PyResult<WindowBenefit> {
    let found = py.detach(|| {
        ::models::window_benefit(over_provisioning, pages_per_erase_block, logical_pages, window)
    });
    let found = found.map_err(input_error)?;
    Ok(WindowBenefit {
        lru_valid_pages: found.lru_valid_pages,
        least_valid_pages: found.least_valid_pages,
        benefit: found.benefit,
        benefit_as_printed: found.benefit_as_printed,
    })
}

/// Update sets mixed in one log.
#[pyclass(frozen, get_all, module = "flashwright._core")]
pub struct RandomPlacement {
    /// p_gc of each set.
    p_gc: Array<f64>,
    /// p_gc of the log as a whole.
    p_avg: f64,
    /// Relocation writes for each host write.
    cleaning_cost: f64,
    /// Page programs for each host write.
    write_amplification: f64,
}

/// Sets of pages of different update frequency mixed in one log cleaned by LRU (MULTILOG eq. 6-9,
/// for any number of sets). `sizes` and `shares` of updates add up to 1. `approximate` takes the
/// closed formula of 4.2.1.
#[pyfunction]
#[pyo3(signature = (sizes, shares, over_provisioning, *, approximate = false))]
pub fn kmodal_random(
    py: Python<'_>,
    sizes: Floats<'_>,
    shares: Floats<'_>,
    over_provisioning: f64,
    approximate: bool,
) -> PyResult<RandomPlacement> {
    let sets = update_sets(&sizes, &shares)?;
    let model = if approximate { ::models::kmodal_random_approx } else { ::models::kmodal_random };
    let found = py.detach(|| model(&sets, over_provisioning)).map_err(input_error)?;
    Ok(RandomPlacement {
        write_amplification: found.write_amplification(),
        p_gc: Array(found.p_gc),
        p_avg: found.p_avg,
        cleaning_cost: found.cleaning_cost,
    })
}

/// Spare space divided between logs that each hold one update set.
#[pyclass(frozen, get_all, module = "flashwright._core")]
pub struct Division {
    /// Spare space of each log as a fraction of all logical pages; adds up to the
    /// over-provisioning.
    betas: Array<f64>,
    /// p_gc of each log.
    p_gc: Array<f64>,
    /// Relocation writes for each host write.
    cleaning_cost: f64,
    /// Page programs for each host write.
    write_amplification: f64,
}

/// Sets of pages each in its own log, spare space divided as well as can be (MULTILOG eq. 10-13).
/// `sizes` and `shares` of updates add up to 1.
#[pyfunction]
pub fn kmodal_separated(
    py: Python<'_>,
    sizes: Floats<'_>,
    shares: Floats<'_>,
    over_provisioning: f64,
) -> PyResult<Division> {
    let sets = update_sets(&sizes, &shares)?;
    let found = py.detach(|| ::models::divide_space(&sets, over_provisioning));
    let found = found.map_err(input_error)?;
    Ok(Division {
        write_amplification: found.write_amplification(),
        betas: Array(found.betas),
        p_gc: Array(found.p_gc),
        cleaning_cost: found.cleaning_cost,
    })
}

/// The least cleaning cost of a workload, and how space is divided to reach it. `float(bound)` is
/// the cleaning cost.
#[pyclass(frozen, get_all, module = "flashwright._core", name = "Bound")]
pub struct LeastCost {
    /// Alpha that was divided.
    over_provisioning: f64,
    /// Grouping of pages: "exact", "powers_of_two", or "ratio 1.001" and the like.
    binning: String,
    /// Relocation writes for each host write.
    cleaning_cost: f64,
    /// Page programs for each host write.
    write_amplification: f64,
    /// Relocation writes over all page programs.
    p_gc_overall: f64,
    /// Pages of each bin, hottest bin first.
    pages: Array<u64>,
    /// Update weight of the coldest page of each bin, in the unit of the input.
    lowest: Array<f64>,
    /// Update weight of the hottest page of each bin.
    highest: Array<f64>,
    /// Fraction of all pages in each bin.
    sizes: Array<f64>,
    /// Fraction of all updates that goes to each bin.
    shares: Array<f64>,
    /// Spare space of each bin as a fraction of all pages; adds up to the over-provisioning.
    betas: Array<f64>,
    /// p_gc of each bin.
    p_gc: Array<f64>,
}

impl LeastCost {
    fn of(bound: ::models::Bound, binning: Binning) -> Self {
        let bins = || bound.bins.iter();
        Self {
            over_provisioning: bound.over_provisioning,
            binning: binning_name(binning),
            cleaning_cost: bound.cleaning_cost,
            write_amplification: bound.write_amplification,
            p_gc_overall: bound.p_gc_overall(),
            pages: bins().map(|bin| bin.pages).collect(),
            lowest: bins().map(|bin| bin.lowest).collect(),
            highest: bins().map(|bin| bin.highest).collect(),
            sizes: Array(bound.sizes),
            shares: Array(bound.shares),
            betas: Array(bound.betas),
            p_gc: Array(bound.p_gc),
        }
    }
}

#[pymethods]
impl LeastCost {
    fn __float__(&self) -> f64 {
        self.cleaning_cost
    }

    fn __repr__(&self) -> String {
        format!(
            "Bound(over_provisioning={}, cleaning_cost={:.6}, write_amplification={:.6}, bins={}, \
             binning='{}')",
            self.over_provisioning,
            self.cleaning_cost,
            self.write_amplification,
            self.pages.0.len(),
            self.binning
        )
    }
}

fn binning_of(binning: &Bound<'_, PyAny>) -> PyResult<Binning> {
    if let Ok(ratio) = binning.extract::<f64>() {
        return Ok(Binning::Ratio(ratio));
    }
    let name: String = binning.extract()?;
    match name.as_str() {
        "exact" => Ok(Binning::Exact),
        "powers_of_two" => Ok(Binning::PowersOfTwo),
        _ => Err(input_error(format!(
            "binning is `{name}`: it must be exact, powers_of_two, or a ratio of 1.001 or above"
        ))),
    }
}

fn binning_name(binning: Binning) -> String {
    match binning {
        Binning::Exact => "exact".to_owned(),
        Binning::PowersOfTwo => "powers_of_two".to_owned(),
        Binning::Ratio(ratio) => format!("ratio {ratio}"),
    }
}

/// The least cleaning cost of any placement by update frequency (MULTILOG Algorithm 1).
///
/// `weights` has one entry a page, its update frequency in any unit or (uint32, the fastest) its
/// number of updates; 0 is a page that holds data and is never updated; pages that were never
/// written are to be left out. `binning` is "exact", "powers_of_two" (the paper's bins) or the
/// ratio of the bins' edges. For one over-provisioning gives a `Bound`, for a list of them a list,
/// binning only once.
#[pyfunction]
#[pyo3(signature = (weights, over_provisioning, binning = None))]
pub fn cleaning_cost_bound<'py>(
    weights: &Bound<'py, PyAny>,
    over_provisioning: &Bound<'py, PyAny>,
    binning: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = weights.py();
    let binning = binning.map_or(Ok(Binning::Exact), binning_of)?;
    let bins = if let Ok(counts) = weights.extract::<PyReadonlyArray1<'py, u32>>() {
        let counts = counts
            .as_slice()
            .map_or_else(|_| Cow::Owned(counts.as_array().to_vec()), Cow::Borrowed);
        py.detach(|| UpdateBins::of_counts(&counts, binning))
    } else {
        let weights: Floats<'py> = weights.extract()?;
        let weights = slice(&weights);
        py.detach(|| UpdateBins::of_weights(&weights, binning))
    };
    let bins = bins.map_err(input_error)?;
    let bound = |alpha: f64| -> PyResult<Bound<'py, LeastCost>> {
        let bound = py.detach(|| bins.bound(alpha)).map_err(input_error)?;
        Bound::new(py, LeastCost::of(bound, bins.binning()))
    };
    if over_provisioning.cast::<PyUntypedArray>().is_err()
        && let Ok(alpha) = over_provisioning.extract::<f64>()
    {
        return Ok(bound(alpha)?.into_any());
    }
    let alphas: Floats<'py> = over_provisioning.extract()?;
    let bounds = slice(&alphas).iter().map(|&alpha| bound(alpha)).collect::<PyResult<Vec<_>>>()?;
    bounds.into_pyobject(py)
}

/// The least cleaning cost, one for each over-provisioning, of pages that hold data only part of
/// the time, as where a workload trims.
///
/// `weights` and `held` have one entry a page: its update frequency in any unit, and the fraction
/// of all host writes, 0 to 1, during which it holds data. Our extension of MULTILOG Algorithm 1.
/// Raises InputError.
#[pyfunction]
pub fn cleaning_cost_bound_of_held<'py>(
    py: Python<'py>,
    weights: Floats<'py>,
    held: Floats<'py>,
    over_provisionings: Vec<f64>,
) -> PyResult<Vec<f64>> {
    let (weights, held) = (slice(&weights), slice(&held));
    py.detach(|| ::models::cleaning_cost_bound_of_held(&weights, &held, &over_provisionings))
        .map_err(input_error)
}

/// A fit of MULTILOG's polynomial for the best beta of two sets (4.2.2).
#[pyclass(frozen, get_all, module = "flashwright._core")]
pub struct PolynomialFit {
    /// f_r: update frequency of the first set's pages over the other's.
    frequency_ratio: f64,
    /// c00, c10, c01, c11, c02, c12, c03 (powers of alpha, of s).
    coefficients: BetaCoefficients,
    /// Root mean square error of beta, as a fraction of all logical pages.
    rmse: f64,
    /// Largest error of beta, same unit.
    max_error: f64,
    /// Largest cleaning cost lost by dividing space so, as a fraction of the least; infinite where
    /// a set would get no space.
    max_cost_loss: f64,
}

/// Fits the polynomial by least squares over sizes 0.01 ... 0.99 and over-provisioning `least` ...
/// `most`.
#[pyfunction]
#[pyo3(signature = (frequency_ratio = 2.0, least = 0.01, most = 1.0))]
pub fn polynomial_fit(
    py: Python<'_>,
    frequency_ratio: f64,
    least: f64,
    most: f64,
) -> PyResult<PolynomialFit> {
    let fit = py.detach(|| fit_polynomial(frequency_ratio, (least, most))).map_err(input_error)?;
    Ok(PolynomialFit {
        frequency_ratio,
        coefficients: fit.coefficients,
        rmse: fit.rmse,
        max_error: fit.max_error,
        max_cost_loss: fit.max_cost_loss,
    })
}

/// Beta of the first of two sets by the polynomial with these coefficients, at one or more
/// over-provisionings.
#[pyfunction]
pub fn beta_polynomial<'py>(
    size: f64,
    over_provisioning: &Bound<'py, PyAny>,
    coefficients: BetaCoefficients,
) -> PyResult<Bound<'py, PyAny>> {
    each(over_provisioning, |alpha| Ok(beta_of(size, alpha, &coefficients)))
}

/// Years until the most worn erase block reaches its endurance. `wear_spread` is its erases over
/// the mean.
#[pyfunction]
#[pyo3(signature = (
    endurance_cycles, physical_capacity_bytes, write_amplification, host_bytes_per_day,
    wear_spread = 1.0
))]
pub fn lifetime_years(
    endurance_cycles: f64,
    physical_capacity_bytes: f64,
    write_amplification: f64,
    host_bytes_per_day: f64,
    wear_spread: f64,
) -> PyResult<f64> {
    let wear = Wear {
        endurance_cycles,
        physical_capacity_bytes,
        write_amplification,
        host_bytes_per_day,
        wear_spread,
    };
    ::models::lifetime_years(&wear).map_err(input_error)
}

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
