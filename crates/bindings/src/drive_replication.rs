//! Statistics of page copies, as a dict.

use block::CopyWork;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use units::Nanos;

fn share(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}

/// The block `replication` of a result, of a stretch of time.
pub fn replication_dict<'py>(
    py: Python<'py>,
    copies: &CopyWork,
    elapsed: Nanos,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, count) in &copies.counts {
        dict.set_item(name, count)?;
    }
    let count = |name: &str| copies.count(name);
    for kind in ["reads", "writes"] {
        let counts = ["one", "two", "more"].map(|ios| count(&format!("{kind}_of_{ios}")));
        let all = counts.iter().sum();
        dict.set_item(format!("{kind}_by_ios"), counts.map(|count| share(count, all)))?;
    }
    let written = count("replica_page_writes");
    dict.set_item("extra_writes", share(written, count("host_page_writes")))?;
    let of_writes = count("copies_of_writes");
    let of_all = of_writes + count("copies_of_reads");
    dict.set_item("extra_writes_by_writes", share(of_writes, of_all))?;
    dict.set_item("predicted_copies", copies.predicted)?;
    dict.set_item("groups_by_size", copies.groups_by_size.clone())?;
    for (name, size) in &copies.sizes {
        dict.set_item(name, size)?;
    }
    let of_time = |&time: &Nanos| if elapsed == 0 { 0.0 } else { time as f64 / elapsed as f64 };
    let interference: Vec<f64> = copies.interference.iter().map(of_time).collect();
    dict.set_item("interference", interference)?;
    Ok(dict)
}
