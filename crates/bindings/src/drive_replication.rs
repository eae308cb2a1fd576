//! What copies of pages came to, as a dict.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ssd::drive::run::Outcome;
use ssd::drive::schemes::replicated::ReplicationFigures;

fn share(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}

/// The block `replication` of a result.
pub fn replication_dict<'py>(
    py: Python<'py>,
    copies: &ReplicationFigures,
    outcome: &Outcome,
) -> PyResult<Bound<'py, PyDict>> {
    let (dict, c) = (PyDict::new(py), &copies.counts);
    for (name, count) in c.named() {
        dict.set_item(name, count)?;
    }
    let by_ios = |counts: [u64; 3]| counts.map(|count| share(count, counts.iter().sum()));
    let reads = by_ios([c.reads_of_one, c.reads_of_two, c.reads_of_more]);
    let writes = by_ios([c.writes_of_one, c.writes_of_two, c.writes_of_more]);
    dict.set_item("reads_by_ios", reads)?;
    dict.set_item("writes_by_ios", writes)?;
    let written = outcome.scheme.replica_page_writes;
    dict.set_item("extra_writes", share(written, outcome.scheme.host_page_writes))?;
    let of_writes = c.copies_of_writes;
    dict.set_item("extra_writes_by_writes", share(of_writes, of_writes + c.copies_of_reads))?;
    dict.set_item("predicted_copies", copies.predicted_copies)?;
    dict.set_item("groups_by_size", copies.groups_by_size.clone())?;
    dict.set_item("budget_pages", copies.budget_pages)?;
    dict.set_item("used_pages", copies.used_pages)?;
    let interference: Vec<f64> = copies
        .interference
        .iter()
        .map(|&time| if outcome.elapsed == 0 { 0.0 } else { time as f64 / outcome.elapsed as f64 })
        .collect();
    dict.set_item("interference", interference)?;
    dict.set_item("map_bytes", copies.map_bytes)?;
    dict.set_item("valid_map_bytes", copies.valid_map_bytes)?;
    dict.set_item("counter_bytes", copies.counter_bytes)?;
    dict.set_item("most_queued_bytes", copies.most_queued_bytes)?;
    let in_vain: u64 = outcome.media.in_vain.iter().flatten().sum();
    dict.set_item("commands_in_vain", in_vain)?;
    dict.set_item("commands_withdrawn", outcome.media.vanished)?;
    Ok(dict)
}
