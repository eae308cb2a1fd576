//! The logs of placement and endurance of a simulated drive, as Python has them.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ssd::drive::logs::{EnduranceGroup, FdpStatistics};
use ssd::drive::schemes::HandleCounts;

/// The log of the endurance group.
pub fn endurance_group<'py>(
    py: Python<'py>,
    group: &EnduranceGroup,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("percentage_used", group.percentage_used)?;
    dict.set_item("available_spare_percent", group.available_spare)?;
    dict.set_item("data_read_bytes", group.read_bytes)?;
    dict.set_item("data_written_bytes", group.written_bytes)?;
    dict.set_item("media_written_bytes", group.media_bytes)?;
    Ok(dict)
}

/// FDP statistics, events and handles.
pub fn fdp_dict<'py>(py: Python<'py>, fdp: &FdpStatistics) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("host_bytes_with_metadata_written", fdp.host_bytes)?;
    dict.set_item("media_bytes_with_metadata_written", fdp.media_bytes)?;
    dict.set_item("media_bytes_erased", fdp.erased_bytes)?;
    dict.set_item("reclaim_unit_bytes", fdp.unit_bytes)?;
    let events = PyDict::new(py);
    for (name, count) in fdp.counts.events.named() {
        events.set_item(name, count)?;
    }
    dict.set_item("events", events)?;
    let handles = fdp.counts.handles.iter().map(|counts| handle_dict(py, counts));
    dict.set_item("handles", handles.collect::<PyResult<Vec<_>>>()?)?;
    let relocated = fdp.counts.relocated.map(|counts| handle_dict(py, &counts)).transpose()?;
    dict.set_item("relocated", relocated)?;
    Ok(dict)
}

fn handle_dict<'py>(py: Python<'py>, counts: &HandleCounts) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("host_page_writes", counts.host_page_writes)?;
    dict.set_item("relocated_pages", counts.relocated_pages)?;
    dict.set_item("reclaim_units", counts.reclaim_units)?;
    dict.set_item("valid_pages", counts.valid_pages)?;
    dict.set_item("available_pages", counts.available_pages)?;
    Ok(dict)
}
