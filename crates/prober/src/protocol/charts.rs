//! A matrix as a finding, and back.

use super::{CellMeasured, DEPTHS, Matrix, ORDER, Protocol};
use crate::cell::{Access, Cell};
use crate::finding::{Axis, Chart, Finding, Point, Series, Value};
use crate::known::Known;

/// The charts of a matrix begin so; then access and kind follow, as in `matrix_random_read`.
const CHART: &str = "matrix_";

impl Matrix {
    /// Values and charts that hold all of it: [`Matrix::from_finding`] reads them back.
    #[must_use]
    pub fn to_finding(&self) -> Finding {
        let Protocol { area_bytes, warm_up_bytes, measured_bytes, condition_bytes, cell_ns, seed } =
            self.protocol;
        let why = "how the matrix was measured";
        let setting = |key: &str, number: f64| Value::setting(key, number, why);
        let values = vec![
            Value::number(
                "matrix_cells",
                self.cells.len() as f64,
                "kinds of load whose throughput was measured",
            ),
            setting("matrix_area_bytes", area_bytes as f64),
            setting("matrix_warm_up_bytes", warm_up_bytes as f64),
            setting("matrix_measured_bytes", measured_bytes as f64),
            setting("matrix_condition_bytes", condition_bytes as f64),
            setting("matrix_cell_ns", cell_ns as f64),
            setting("matrix_seed", f64::from(seed)),
        ];
        let charts =
            ORDER.iter().filter_map(|&(access, reads)| self.chart(access, reads)).collect();
        Finding { values, charts, ..Finding::default() }
    }

    fn chart(&self, access: Access, reads: f64) -> Option<Chart> {
        let (order, kind) = words(access, reads);
        let series: Vec<Series> = DEPTHS
            .iter()
            .map(|&depth| {
                let mut series = Series::new(format!("depth {depth}"));
                let cells = self.cells.iter().filter(|one| {
                    one.cell.access == access && one.cell.reads == reads && one.cell.depth == depth
                });
                for one in cells {
                    let size = f64::from(one.cell.size_bytes);
                    let [rate, low, high] =
                        [one.iops, one.interval[0], one.interval[1]].map(|iops| iops * size / 1e6);
                    series.points.push(Point {
                        x: size,
                        y: rate,
                        interval: Some([low, high]),
                        requests: Some(one.requests),
                    });
                }
                series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
                series
            })
            .filter(|series| !series.points.is_empty())
            .collect();
        if series.is_empty() {
            return None;
        }
        Some(Chart {
            name: format!("{CHART}{order}_{kind}"),
            title: format!("Throughput of {order} requests, {kind}"),
            x: Axis::log("Request size", "bytes"),
            y: Axis::log("Throughput", "MB/s"),
            series,
            marks: Vec::new(),
        })
    }

    /// The matrix with the most cells of those that findings hold, as one may be of reads alone;
    /// the last of several such.
    #[must_use]
    pub fn from_findings(known: &Known) -> Option<Self> {
        known
            .findings()
            .iter()
            .filter_map(Self::from_finding)
            .max_by_key(|matrix| matrix.cells.len())
    }

    /// The matrix that a finding holds; `None` if it holds none. Points that cannot be throughputs
    /// are left out.
    #[must_use]
    pub fn from_finding(finding: &Finding) -> Option<Self> {
        let whole = |key: &str| {
            let number = finding.values.iter().find(|value| value.key == key)?.number?;
            (number.is_finite() && number >= 0.0).then_some(number as u64)
        };
        let protocol = Protocol {
            area_bytes: whole("matrix_area_bytes").filter(|&bytes| bytes > 0)?,
            warm_up_bytes: whole("matrix_warm_up_bytes")?,
            measured_bytes: whole("matrix_measured_bytes")?,
            condition_bytes: whole("matrix_condition_bytes")?,
            cell_ns: whole("matrix_cell_ns").filter(|&time| time > 0)?,
            seed: whole("matrix_seed")? as u32,
        };
        let mut cells = Vec::new();
        for (access, reads) in ORDER {
            let (order, kind) = words(access, reads);
            let name = format!("{CHART}{order}_{kind}");
            let Some(chart) = finding.charts.iter().find(|chart| chart.name == name) else {
                continue;
            };
            let mut of_kind: Vec<CellMeasured> = chart
                .series
                .iter()
                .flat_map(|series| points(&protocol, series, access, reads))
                .collect();
            of_kind.sort_by_key(|one| std::cmp::Reverse((one.cell.depth, one.cell.size_bytes)));
            cells.extend(of_kind);
        }
        (!cells.is_empty()).then_some(Self { protocol, cells })
    }
}

fn points(protocol: &Protocol, series: &Series, access: Access, reads: f64) -> Vec<CellMeasured> {
    let Some(depth) = series
        .name
        .strip_prefix("depth ")
        .and_then(|depth| depth.parse::<u32>().ok())
        .filter(|&depth| depth > 0)
    else {
        return Vec::new();
    };
    let is_size = |x: f64| x.fract() == 0.0 && (1.0..f64::from(1_u32 << 30)).contains(&x);
    let good = series
        .points
        .iter()
        .filter(|point| is_size(point.x) && point.y.is_finite() && point.y > 0.0);
    good.map(|point| {
        let iops = |rate: f64| rate * 1e6 / point.x;
        let interval = point.interval.unwrap_or([point.y, point.y]).map(iops);
        let cell = Cell { access, reads, size_bytes: point.x as u32, depth };
        // Findings of before did not tell: as many as were sent then.
        let requests = point.requests.unwrap_or_else(|| protocol.least_requests(&cell));
        CellMeasured { cell, iops: iops(point.y), interval, requests }
    })
    .collect()
}

fn words(access: Access, reads: f64) -> (&'static str, &'static str) {
    let order = match access {
        Access::Sequential => "sequential",
        Access::Random => "random",
        Access::Stride(_) => "stride",
    };
    let kind = if reads >= 1.0 {
        "read"
    } else if reads <= 0.0 {
        "write"
    } else {
        "mix"
    };
    (order, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_with_writes_is_not_hidden_by_a_later_one_of_reads_alone() {
        let protocol = Protocol::new(1 << 30, 1_000_000_000, 120, None, 1);
        let cells: Vec<CellMeasured> = crate::protocol::standard_cells(4096)
            .into_iter()
            .map(|cell| CellMeasured { cell, iops: 1e3, interval: [9e2, 1.1e3], requests: 160 })
            .collect();
        let whole = Matrix { protocol, cells };
        let mut reads = whole.clone();
        reads.cells.retain(|one| one.cell.reads == 1.0);
        let known = Known::new(vec![whole.to_finding(), reads.to_finding()]);
        assert_eq!(
            Matrix::from_findings(&known).map(|matrix| matrix.cells.len()),
            Some(whole.cells.len())
        );
    }
}
