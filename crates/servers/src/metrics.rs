//! What a volume has done, as numbers and as the text that Prometheus reads.

use std::fmt::Write as _;

use block::{Completion, FlashWork};
use layers::{LAYERS, Stack, Watch};
use units::{IoOp, Nanos};

use crate::Header;

/// Latencies are counted below 1, 2, 4, ... microseconds, the last one above all.
const BUCKETS: usize = 26;

/// What was done of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpFigures {
    /// Those that succeeded.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that failed.
    pub failed: u64,
    /// Nanoseconds of all that ended.
    pub latency_ns: u64,
    /// Of those, by time: number n counts what took less than 2^n microseconds and no less than
    /// half of that; the last one, what took longer.
    pub by_time: [u64; BUCKETS],
}

impl OpFigures {
    pub(crate) fn ended(&mut self, bytes: u64, latency_ns: Nanos, is_failed: bool) {
        if is_failed {
            self.failed += 1;
        } else {
            self.count += 1;
            self.bytes += bytes;
        }
        self.latency_ns += latency_ns;
        let micros = latency_ns / 1000;
        let bucket = (u64::BITS - micros.leading_zeros()) as usize;
        self.by_time[bucket.min(BUCKETS - 1)] += 1;
    }
}

/// One counter of one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerFigure {
    /// Place of the layer, 0 at the top.
    pub level: usize,
    /// Its name.
    pub layer: &'static str,
    /// Name, with the unit last.
    pub name: &'static str,
    /// One line.
    pub help: &'static str,
    /// Goes up and down.
    pub is_level: bool,
    /// How many.
    pub value: u64,
}

/// What a volume has done since it was opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// The volume.
    pub header: Header,
    /// Bytes that its users have.
    pub capacity_bytes: u64,
    /// Nanoseconds since it was opened.
    pub open_ns: Nanos,
    /// What clients asked, by [`IoOp`].
    pub requests: [OpFigures; IoOp::ALL.len()],
    /// Requests under way.
    pub outstanding: u64,
    /// What the device was sent, by [`IoOp`].
    pub below: [OpFigures; IoOp::ALL.len()],
    /// Counters of the layers, from the top down.
    pub layers: Vec<LayerFigure>,
    /// What the flash of the device did, where somebody can tell: an emulated drive.
    pub flash: Option<FlashWork>,
    /// What happened first to make it of no use, if something did.
    pub broken: Option<String>,
}

/// Counts what the device below is sent.
#[derive(Debug, Default)]
pub struct Gauge {
    pub(crate) below: [OpFigures; IoOp::ALL.len()],
}

impl Watch for Gauge {
    fn ended(&mut self, op: IoOp, length: u32, completion: &Completion) {
        let took = completion.completed_at.saturating_sub(completion.submitted_at);
        let is_failed = completion.reply.outcome.is_err();
        self.below[op as usize].ended(u64::from(length), took, is_failed);
    }
}

/// Counters of all layers.
pub(crate) fn of_layers(stack: &Stack) -> Vec<LayerFigure> {
    let mut figures = Vec::new();
    let mut counts = Vec::new();
    for (level, layer) in stack.layers().iter().enumerate() {
        counts.clear();
        layer.count(&mut counts);
        let counters = LAYERS
            .iter()
            .find(|entry| entry.info.name == layer.name())
            .map_or(&[][..], |entry| entry.counters);
        figures.extend(counters.iter().zip(&counts).map(|(counter, &value)| LayerFigure {
            level,
            layer: layer.name(),
            name: counter.name,
            help: counter.help,
            is_level: counter.is_level,
            value,
        }));
    }
    figures
}

/// The text format of Prometheus, version 0.0.4.
#[must_use]
pub fn prometheus(figures: &Figures) -> String {
    let mut text = String::new();
    let volume = figures.header.uuid;
    let mut line = |name: &str, labels: &str, value: &dyn std::fmt::Display| {
        let separator = if labels.is_empty() { "" } else { "," };
        let _ = writeln!(text, "{name}{{volume=\"{volume}\"{separator}{labels}}} {value}");
    };
    line("flashwright_volume_capacity_bytes", "", &figures.capacity_bytes);
    line("flashwright_volume_openings_total", "", &figures.header.openings);
    line("flashwright_volume_open_seconds", "", &seconds(figures.open_ns));
    line("flashwright_volume_requests_outstanding", "", &figures.outstanding);
    line("flashwright_volume_broken", "", &u8::from(figures.broken.is_some()));
    let kinds = [("request", &figures.requests), ("device", &figures.below)];
    for (kind, all) in kinds {
        for op in IoOp::ALL {
            let (one, labels) = (&all[op as usize], format!("op=\"{}\"", op.name()));
            line(&format!("flashwright_volume_{kind}s_total"), &labels, &one.count);
            line(&format!("flashwright_volume_{kind}_bytes_total"), &labels, &one.bytes);
            line(&format!("flashwright_volume_{kind}_failures_total"), &labels, &one.failed);
            let name = format!("flashwright_volume_{kind}_seconds");
            let mut below = 0;
            for (bucket, count) in one.by_time[..BUCKETS - 1].iter().enumerate() {
                below += count;
                let labels = format!("{labels},le=\"{}\"", (1_u64 << bucket) as f64 / 1e6);
                line(&format!("{name}_bucket"), &labels, &below);
            }
            let all = one.count + one.failed;
            line(&format!("{name}_bucket"), &format!("{labels},le=\"+Inf\""), &all);
            line(&format!("{name}_sum"), &labels, &seconds(one.latency_ns));
            line(&format!("{name}_count"), &labels, &all);
        }
    }
    if let Some(work) = figures.flash {
        line("flashwright_flash_page_bytes", "", &work.page_bytes);
        line("flashwright_flash_page_reads_total", "", &work.page_reads);
        line("flashwright_flash_page_programs_total", "", &work.page_programs);
        line("flashwright_flash_erases_total", "", &work.erases);
    }
    for one in &figures.layers {
        let labels = format!("layer=\"{}\",level=\"{}\"", one.layer, one.level);
        let total = if one.is_level { "" } else { "_total" };
        line(&format!("flashwright_layer_{}{total}", one.name), &labels, &one.value);
    }
    typed(&text)
}

fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}

/// Puts a line with its type before the first line of each metric, and all lines of one together,
/// as the format asks.
fn typed(text: &str) -> String {
    let family = |line: &str| {
        let name = line.split('{').next().unwrap_or_default();
        let of_histogram = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .filter(|stem| stem.ends_with("_seconds"));
        of_histogram.unwrap_or(name).to_owned()
    };
    let mut families: Vec<(String, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        let name = family(line);
        match families.iter_mut().find(|(known, _)| *known == name) {
            Some((_, lines)) => lines.push(line),
            None => families.push((name, vec![line])),
        }
    }
    let mut whole = String::with_capacity(text.len() * 2);
    for (name, lines) in families {
        let kind = if lines[0].starts_with(&format!("{name}_bucket")) {
            "histogram"
        } else if name.ends_with("_total") {
            "counter"
        } else {
            "gauge"
        };
        let _ = writeln!(whole, "# TYPE {name} {kind}");
        for line in lines {
            let _ = writeln!(whole, "{line}");
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_where_they_belong() {
        let mut one = OpFigures::default();
        for nanos in [999, 1000, 1999, 2000, 3999, 4000, u64::MAX / 2] {
            one.ended(10, nanos, false);
        }
        one.ended(10, 1_000_000, true);
        assert_eq!((one.count, one.failed, one.bytes), (7, 1, 70));
        assert_eq!(one.by_time[..4], [1, 2, 2, 1]);
        assert_eq!((one.by_time[10], one.by_time[BUCKETS - 1]), (1, 1));
    }

    #[test]
    fn each_metric_has_one_type_and_its_lines_stand_together() {
        let mut figures = Figures {
            header: crate::header::tests::sample(),
            capacity_bytes: 1 << 20,
            open_ns: 1_500_000_000,
            requests: Default::default(),
            outstanding: 2,
            below: Default::default(),
            layers: Vec::new(),
            flash: None,
            broken: None,
        };
        figures.requests[IoOp::Write as usize].ended(4096, 3_000, false);
        let text = prometheus(&figures);
        let types: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
        let mut unique = types.clone();
        unique.dedup();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), types.len(), "{text}");
        let has = |line: &str| assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        let id = figures.header.uuid;
        has(&format!("flashwright_volume_requests_total{{volume=\"{id}\",op=\"write\"}} 1"));
        let name = "flashwright_volume_request_seconds_bucket";
        has(&format!("{name}{{volume=\"{id}\",op=\"write\",le=\"0.000002\"}} 0"));
        has(&format!("{name}{{volume=\"{id}\",op=\"write\",le=\"0.000004\"}} 1"));
        has("# TYPE flashwright_volume_request_seconds histogram");
    }
}
