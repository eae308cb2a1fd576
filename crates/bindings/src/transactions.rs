//! Transactions in a closed loop on block devices.

use std::path::PathBuf;

use ::block::{BlockDevice, LayerWork, Part};
use ::layers::Driver;
use ::registry::Spec;
use ::traces::accesses::{AccessTrace, BenchmarkLoad, Database, REGISTRY, TransactionSource};
use ::transactions::{
    Amount, BUFFERS, Granularity, IO_KINDS, LogSettings, Measured, PlayError, RULES, Settings,
    WAITS, Writer,
};
use hdrhistogram::Histogram;
use numpy::IntoPyArray as _;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use ssd::drive::measure::LEAST_FOR_P9999;
use units::Nanos;

use crate::devices::Device;
use crate::drive_replication::replication_dict;
use crate::errors;
use crate::layers::{facts_of, open_blank, part_of};
use crate::progress::{self, Progress};
use crate::registry::info_dicts;
use crate::traces::{source_dicts, trace_error};

enum Load {
    Benchmark(BenchmarkLoad),
    Trace(Box<AccessTrace>),
}

/// Transactions that can be played: a benchmark by its specification, or a trace of page accesses.
#[pyclass(frozen, name = "Transactions", module = "flashwright._core")]
pub struct LoadedTransactions {
    load: Load,
    database: Database,
}

impl LoadedTransactions {
    /// Writes the database, if that is wanted and it fits, and plays; no figures if it could not
    /// be written.
    fn play(
        &self,
        device: &mut dyn BlockDevice,
        loaded: bool,
        settings: &Settings,
        progress: &units::Progress,
    ) -> (Option<Measured>, Result<(), PlayError>) {
        let mut source: Box<dyn TransactionSource> = match &self.load {
            Load::Benchmark(load) => load.source(settings.clients, settings.seed),
            Load::Trace(trace) => trace.clone(),
        };
        let bytes = self.database.bytes();
        if loaded
            && bytes <= settings.length
            && let Err(error) = ::transactions::load(device, settings.offset, bytes, progress)
        {
            return (None, Err(error));
        }
        let (measured, played) = ::transactions::play(device, &mut *source, settings, progress);
        (Some(measured), played)
    }
}

#[pymethods]
impl LoadedTransactions {
    /// Database of the transactions: name, page_bytes, pages, bytes, rows, kinds, scale (from which
    /// its size follows), relations (name, is_index, first_page, pages).
    #[getter]
    fn database<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (about, dict) = (&self.database, PyDict::new(py));
        dict.set_item("name", &about.name)?;
        dict.set_item("page_bytes", about.page_bytes)?;
        dict.set_item("pages", about.pages)?;
        dict.set_item("bytes", about.bytes())?;
        dict.set_item("rows", about.rows)?;
        dict.set_item("kinds", &about.kinds)?;
        let scale = PyDict::new(py);
        for (name, value) in &about.scale {
            scale.set_item(name, value)?;
        }
        dict.set_item("scale", scale)?;
        let relations = about.relations.iter().map(|relation| {
            let dict = PyDict::new(py);
            dict.set_item("name", &relation.name)?;
            dict.set_item("is_index", relation.is_index)?;
            dict.set_item("first_page", relation.first_page)?;
            dict.set_item("pages", relation.pages)?;
            Ok(dict)
        });
        dict.set_item("relations", relations.collect::<PyResult<Vec<_>>>()?)?;
        Ok(dict)
    }

    /// Counts of a trace: committed, aborted, unfinished, reads, writes; None of a benchmark.
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Load::Trace(trace) = &self.load else { return Ok(None) };
        let (counts, dict) = (trace.counts(), PyDict::new(py));
        dict.set_item("committed", counts.committed)?;
        dict.set_item("aborted", counts.aborted)?;
        dict.set_item("unfinished", counts.unfinished)?;
        dict.set_item("reads", counts.reads)?;
        dict.set_item("writes", counts.writes)?;
        Ok(Some(dict))
    }

    /// The file read, with its sha256; none of a benchmark.
    #[getter]
    fn sources<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        match &self.load {
            Load::Benchmark(_) => Ok(Vec::new()),
            Load::Trace(trace) => source_dicts(py, std::slice::from_ref(trace.source())),
        }
    }
}

/// Makes transactions of a benchmark, such as `tpcc(bytes=2400M)`. Raises InputError.
#[pyfunction]
fn benchmark_transactions(spec: &str) -> PyResult<LoadedTransactions> {
    let load = BenchmarkLoad::parse(spec).map_err(errors::input_error)?;
    let database = load.source(1, 1).database().clone();
    Ok(LoadedTransactions { load: Load::Benchmark(load), database })
}

/// Reads a trace of page accesses. With `repeated` it begins again at its end. Raises InputError.
#[pyfunction]
#[pyo3(signature = (path, *, repeated=false))]
#[allow(clippy::needless_pass_by_value, reason = "as Python hands them over")]
fn load_transactions(
    py: Python<'_>,
    path: PathBuf,
    repeated: bool,
) -> PyResult<LoadedTransactions> {
    let trace = py.detach(|| AccessTrace::load(&path, repeated)).map_err(trace_error)?;
    let database = trace.database().clone();
    Ok(LoadedTransactions { load: Load::Trace(Box::new(trace)), database })
}

/// Lists the variants that can be named: `benchmarks`, `buffers` and `lock_rules`.
#[pyfunction]
fn transaction_variants(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("benchmarks", info_dicts(py, REGISTRY.iter().map(|entry| &entry.info))?)?;
    dict.set_item("buffers", info_dicts(py, BUFFERS.iter())?)?;
    dict.set_item("lock_rules", info_dicts(py, RULES.iter().map(|(info, _)| info))?)?;
    Ok(dict)
}

fn play_error(error: PlayError) -> PyErr {
    match error {
        PlayError::Device(error) => errors::run_error(error),
        PlayError::Source(error) => errors::run_error(error),
        PlayError::Unusable { .. } | PlayError::Spec(_) => errors::input_error(error),
        PlayError::Cancelled(cancelled) => errors::cancelled(cancelled),
    }
}

fn nanos(key: &str, seconds: f64) -> PyResult<Nanos> {
    if (0.0..=1e9).contains(&seconds) {
        return Ok((seconds * 1e9).round() as Nanos);
    }
    Err(errors::input_error(format!("{key} is {seconds}: it must be from 0 to 1e9")))
}

fn amount(name: &str, transactions: Option<u64>, seconds: Option<f64>) -> PyResult<Amount> {
    Ok(Amount {
        transactions: transactions.unwrap_or(u64::MAX),
        time: seconds.map_or(Ok(Nanos::MAX), |seconds| nanos(name, seconds))?,
    })
}

/// Keyword arguments of `play_transactions`, as a dict.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Given {
    clients: u32,
    pool_pages: u32,
    buffer: String,
    locks: String,
    lock_rule: String,
    cpu_us: f64,
    log_bytes: u64,
    log_record_bytes: u32,
    log_grouped: bool,
    log_flushed: bool,
    writer_ms: f64,
    writer_pages: u32,
    blocked_us: f64,
    part_bytes: u32,
    warm_up_transactions: Option<u64>,
    warm_up_seconds: Option<f64>,
    transactions: Option<u64>,
    seconds: Option<f64>,
    seed: u64,
}

impl Given {
    fn settings(&self, offset: u64, length: u64) -> PyResult<Settings> {
        let locks = match self.locks.as_str() {
            "row" => Granularity::Row,
            "page" => Granularity::Page,
            "none" => Granularity::Nothing,
            other => {
                return Err(errors::input_error(format!(
                    "locks is `{other}`: it must be row, page or none"
                )));
            }
        };
        let rule = Spec::parse(&self.lock_rule).map_err(errors::input_error)?;
        let rule = ::registry::find("lock rule", RULES, |(info, _)| info, &rule)
            .map_err(errors::input_error)?;
        let log = (self.log_bytes > 0).then_some(LogSettings {
            region_bytes: self.log_bytes,
            record_bytes: self.log_record_bytes,
            is_grouped: self.log_grouped,
            is_flushed: self.log_flushed,
        });
        let writer = (self.writer_pages > 0).then_some(Writer {
            interval: nanos("writer_ms", self.writer_ms / 1e3)?.max(1000),
            pages: self.writer_pages,
        });
        let no_warm_up = self.warm_up_transactions.is_none() && self.warm_up_seconds.is_none();
        let warm_up_transactions = if no_warm_up { Some(0) } else { self.warm_up_transactions };
        Ok(Settings {
            clients: self.clients,
            pool_pages: self.pool_pages,
            buffer: Spec::parse(&self.buffer).map_err(errors::input_error)?,
            locks,
            rule: rule.1,
            cpu: nanos("cpu_us", self.cpu_us / 1e6)?,
            log,
            writer,
            blocked: nanos("blocked_us", self.blocked_us / 1e6)?,
            part_bytes: self.part_bytes,
            offset,
            length,
            seed: self.seed,
            warm_up: amount("warm_up_seconds", warm_up_transactions, self.warm_up_seconds)?,
            measured: amount("seconds", self.transactions, self.seconds)?,
        })
    }
}

/// Plays transactions on a device, in a region of `region_bytes` (to the device's end if left out)
/// from `region_offset` on. `given` is how, as a dict: clients, pool_pages, buffer (a spec), locks
/// (row, page, none), lock_rule, cpu_us of each page access, log_bytes (0: no log),
/// log_record_bytes, log_grouped, log_flushed, writer_ms and writer_pages (0: no background
/// writer), blocked_us, part_bytes, warm_up_transactions, warm_up_seconds, transactions, seconds
/// (each None for no limit), seed. With `loaded` the database is first written once, in order.
///
/// Gives the figures with `tables`. A play that is stopped or fails gives what it measured: `ended`
/// is "cancelled" or "failed", with `error`. Raises InputError if it does not fit. Progress counts
/// transactions, or milliseconds of the device if their number is not limited.
///
/// With a `stack` of layers, from the top to the bottom with `|` between them, these lie between
/// the transactions and the region, as they are when just formatted; `facts` is what is known of
/// the device, for parameters that are `auto`. The figures then have `layers`: layer and counters
/// of each, over the measured part (levels as they are at its end).
#[pyfunction]
#[pyo3(signature = (
    device, load, given, *, loaded=true, region_offset=0, region_bytes=None, stack=None,
    facts=None, progress=None
))]
#[allow(
    clippy::too_many_arguments,
    clippy::needless_pass_by_value,
    reason = "keyword arguments of Python"
)]
fn play_transactions<'py>(
    py: Python<'py>,
    device: &Device,
    load: &LoadedTransactions,
    given: Given,
    loaded: bool,
    region_offset: u64,
    region_bytes: Option<u64>,
    stack: Option<&str>,
    facts: Option<&Bound<'py, PyDict>>,
    progress: Option<&Bound<'py, Progress>>,
) -> PyResult<Bound<'py, PyDict>> {
    let capacity = device.about().limits.capacity_bytes;
    let length = region_bytes.unwrap_or(capacity.saturating_sub(region_offset));
    let stack = match stack.filter(|&stack| stack != "direct") {
        None => None,
        Some(text) => {
            let part = part_of(device.about(), region_offset, Some(length))?;
            Some(open_blank(text, &facts_of(facts)?, given.seed, &part)?)
        }
    };
    // Layers offer less than the region has, from byte 0 on.
    let place =
        stack.as_ref().map_or((region_offset, length), |stack| (0, stack.limits().capacity_bytes));
    let settings = given.settings(place.0, place.1)?;
    if settings.clients == 0 || settings.clients > 65_536 {
        let clients = settings.clients;
        return Err(errors::input_error(format!("clients is {clients}: it must be 1 to 65536")));
    }
    let progress = progress::shared(progress);
    let mut held = device.lock()?;
    let held = &mut **held;
    let (measured, played) = py.detach(|| {
        let Some(stack) = stack else {
            return load.play(held, loaded, &settings, &progress);
        };
        let mut driver = Driver::new(Part::new(held, region_offset, length), stack);
        let (measured, played) = load.play(&mut driver, loaded, &settings, &progress);
        // Layers may have commands of their own under way, which the device must not keep.
        let settled = driver.settle().map_err(PlayError::from);
        (measured, played.and(settled))
    });
    let (measured, ended, error) = match (measured, played) {
        (Some(measured), Ok(())) => (measured, None, None),
        (Some(measured), Err(PlayError::Cancelled(_))) => (measured, Some("cancelled"), None),
        (Some(measured), Err(error @ PlayError::Device(_))) => {
            (measured, Some("failed"), Some(error.to_string()))
        }
        (_, Err(error)) => return Err(play_error(error)),
        (None, Ok(())) => unreachable!("what was played was measured"),
    };
    let dict = figures(py, &measured, &load.database.kinds, settings.clients)?;
    dict.set_item("ended", ended)?;
    dict.set_item("error", error)?;
    Ok(dict)
}

fn summary<'py>(py: Python<'py>, histogram: &Histogram<u64>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("count", histogram.len())?;
    dict.set_item("mean", if histogram.is_empty() { 0.0 } else { histogram.mean() })?;
    for (name, quantile) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
        dict.set_item(name, histogram.value_at_quantile(quantile))?;
    }
    let is_known = histogram.len() >= LEAST_FOR_P9999;
    dict.set_item("p9999", is_known.then(|| histogram.value_at_quantile(0.9999)))?;
    dict.set_item("max", histogram.max())?;
    dict.set_item("worst_percent_mean", Measured::mean_of_worst_percent(histogram))?;
    Ok(dict)
}

fn figures<'py>(
    py: Python<'py>,
    measured: &Measured,
    kinds: &[&str],
    clients: u32,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let seconds = measured.elapsed as f64 / 1e9;
    let per = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    dict.set_item("seconds", seconds)?;
    dict.set_item("committed", measured.committed)?;
    dict.set_item("transactions_per_second", per(measured.committed))?;
    dict.set_item("restarts", measured.restarts)?;
    let each = measured.restarts as f64 / measured.committed.max(1) as f64;
    dict.set_item("restarts_per_transaction", each)?;
    dict.set_item("response_ns", summary(py, &measured.all_responses())?)?;
    dict.set_item("last_attempt_ns", summary(py, &measured.last_attempt)?)?;
    dict.set_item("lock_wait_ns", summary(py, &measured.lock_waits)?)?;
    let by_kind = PyDict::new(py);
    for (name, histogram) in kinds.iter().zip(&measured.response) {
        by_kind.set_item(name, summary(py, histogram)?)?;
    }
    dict.set_item("by_kind", by_kind)?;
    dict.set_item("accesses", measured.accesses)?;
    dict.set_item("hits", measured.hits)?;
    let io = PyDict::new(py);
    for (name, figures) in IO_KINDS.iter().zip(&measured.io) {
        let one = summary(py, &figures.latency)?;
        one.set_item("blocked", figures.blocked)?;
        io.set_item(name, one)?;
    }
    dict.set_item("io_ns", io)?;
    dict.set_item("checkpoints", measured.checkpoints)?;
    let client_share = PyDict::new(py);
    let all = (measured.elapsed * u64::from(clients)).max(1) as f64;
    for (wait, name) in WAITS {
        client_share.set_item(name, measured.waited[wait as usize] as f64 / all)?;
    }
    dict.set_item("client_share", client_share)?;
    dict.set_item("die_share", die_share(py, measured)?)?;
    dict.set_item("flash", flash(py, measured)?)?;
    if let Some(copies) = &measured.device.copies {
        dict.set_item("replication", replication_dict(py, copies, measured.elapsed)?)?;
    }
    if !measured.device.layers.is_empty() {
        dict.set_item("layers", layer_counts(py, &measured.device.layers)?)?;
    }
    dict.set_item("warm_up_transactions", measured.warm_up.0)?;
    dict.set_item("warm_up_seconds", measured.warm_up.1 as f64 / 1e9)?;
    let tables = PyDict::new(py);
    tables.set_item("windows", windows(py, measured)?)?;
    tables.set_item("response", classes(py, measured, kinds)?)?;
    dict.set_item("tables", tables)?;
    Ok(dict)
}

/// Shares of the time of all dies, by cause, and idle.
fn die_share<'py>(py: Python<'py>, measured: &Measured) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(dies) = &measured.device.dies else { return Ok(None) };
    let dict = PyDict::new(py);
    let all = (measured.elapsed * u64::from(dies.dies)).max(1) as f64;
    let mut idle = 1.0;
    for (name, time) in &dies.by_cause {
        let share = *time as f64 / all;
        idle -= share;
        dict.set_item(name, share)?;
    }
    // An operation counts when it ends: those that began before the measured part count whole.
    dict.set_item("idle", idle.max(0.0))?;
    Ok(Some(dict))
}

fn layer_counts<'py>(py: Python<'py>, layers: &[LayerWork]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for work in layers {
        let (one, counters) = (PyDict::new(py), PyDict::new(py));
        for count in &work.counts {
            counters.set_item(count.name, count.value)?;
        }
        one.set_item("layer", work.layer)?;
        one.set_item("counters", counters)?;
        list.append(one)?;
    }
    Ok(list)
}

fn flash<'py>(py: Python<'py>, measured: &Measured) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(work) = &measured.device.flash else { return Ok(None) };
    let dict = PyDict::new(py);
    dict.set_item("page_bytes", work.page_bytes)?;
    dict.set_item("page_reads", work.page_reads)?;
    dict.set_item("page_programs", work.page_programs)?;
    dict.set_item("erases", work.erases)?;
    Ok(Some(dict))
}

fn windows<'py>(py: Python<'py>, measured: &Measured) -> PyResult<Bound<'py, PyDict>> {
    let (each, all) = measured.windows();
    let starts: Vec<u64> = (0..all.len() as u64).map(|number| number * each).collect();
    let seconds = starts
        .iter()
        .map(|&start| measured.elapsed.saturating_sub(start).clamp(1, each) as f64 / 1e9);
    let dict = PyDict::new(py);
    dict.set_item("seconds", seconds.collect::<Vec<f64>>().into_pyarray(py))?;
    let start_s: Vec<f64> = starts.iter().map(|&start| start as f64 / 1e9).collect();
    dict.set_item("start_s", start_s.into_pyarray(py))?;
    let column =
        |of: fn(&::transactions::Window) -> u64| -> Vec<u64> { all.iter().map(of).collect() };
    dict.set_item("committed", column(|w| w.committed).into_pyarray(py))?;
    dict.set_item("restarts", column(|w| w.restarts).into_pyarray(py))?;
    let means = all.iter().map(|w| w.response as f64 / w.committed.max(1) as f64);
    dict.set_item("mean_response_ns", means.collect::<Vec<f64>>().into_pyarray(py))?;
    dict.set_item("max_response_ns", column(|w| w.longest).into_pyarray(py))?;
    Ok(dict)
}

/// The classes of the histograms of response times that hold something.
fn classes<'py>(
    py: Python<'py>,
    measured: &Measured,
    kinds: &[&str],
) -> PyResult<Bound<'py, PyDict>> {
    let (mut names, mut from, mut to, mut counts) = (vec![], vec![], vec![], vec![]);
    for (name, histogram) in kinds.iter().zip(&measured.response) {
        for class in histogram.iter_recorded() {
            let value = class.value_iterated_to();
            names.push(*name);
            from.push(histogram.lowest_equivalent(value));
            to.push(histogram.highest_equivalent(value));
            counts.push(class.count_since_last_iteration());
        }
    }
    let dict = PyDict::new(py);
    dict.set_item("kind", names)?;
    dict.set_item("from_ns", from.into_pyarray(py))?;
    dict.set_item("to_ns", to.into_pyarray(py))?;
    dict.set_item("count", counts.into_pyarray(py))?;
    Ok(dict)
}

/// Adds the class and the functions to the module.
///
/// # Errors
/// Whatever Python raises.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LoadedTransactions>()?;
    module.add_function(wrap_pyfunction!(benchmark_transactions, module)?)?;
    module.add_function(wrap_pyfunction!(load_transactions, module)?)?;
    module.add_function(wrap_pyfunction!(transaction_variants, module)?)?;
    module.add_function(wrap_pyfunction!(play_transactions, module)?)
}
