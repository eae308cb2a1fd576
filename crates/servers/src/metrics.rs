//! Metrics of a volume, as numbers and as the text that Prometheus reads.

use std::fmt::{Display, Write as _};

use block::{Completion, DieTime, FlashWear, FlashWork};
use layers::{LAYERS, Stack, Watch};
use units::{IoOp, Nanos};

use crate::Header;

/// Number of buckets of latencies: below 1, 2, 4, ... microseconds, and the last one above all.
const BUCKETS: usize = 26;

/// Counts of requests or commands of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpFigures {
    /// Number that succeeded.
    pub count: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Number that failed.
    pub failed: u64,
    /// Sum of the latencies of all that ended, in nanoseconds.
    pub latency_ns: u64,
    /// Number that ended by latency: bucket n has those below 2^n microseconds and not below half
    /// of that; the last one has all longer ones.
    pub by_time: [u64; BUCKETS],
}

impl OpFigures {
    pub(crate) const BUCKETS: usize = BUCKETS;

    /// Gives the bucket of a latency.
    pub(crate) fn bucket(latency_ns: Nanos) -> usize {
        let micros = latency_ns / 1000;
        ((u64::BITS - micros.leading_zeros()) as usize).min(BUCKETS - 1)
    }

    /// Adds others.
    pub(crate) fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.failed += other.failed;
        self.latency_ns += other.latency_ns;
        for (sum, count) in self.by_time.iter_mut().zip(other.by_time) {
            *sum += count;
        }
    }

    pub(crate) fn ended(&mut self, bytes: u64, latency_ns: Nanos, is_failed: bool) {
        if is_failed {
            self.failed += 1;
        } else {
            self.count += 1;
            self.bytes += bytes;
        }
        self.latency_ns += latency_ns;
        self.by_time[Self::bucket(latency_ns)] += 1;
    }
}

/// One counter of one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerFigure {
    /// Level of the layer, 0 at the top.
    pub level: usize,
    /// Name of the layer.
    pub layer: &'static str,
    /// Name of the counter, with the unit last.
    pub name: &'static str,
    /// Description, in one line.
    pub help: &'static str,
    /// True if it is a level that goes up and down.
    pub is_level: bool,
    /// Value of the counter.
    pub value: u64,
}

/// Metrics of a volume since it was opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Header of the volume.
    pub header: Header,
    /// Bytes that its users have.
    pub capacity_bytes: u64,
    /// Time since it was opened, in nanoseconds.
    pub open_ns: Nanos,
    /// Requests of clients, by [`IoOp`].
    pub requests: [OpFigures; IoOp::ALL.len()],
    /// Number of requests under way.
    pub outstanding: u64,
    /// Most memory that they take, in bytes.
    pub request_memory_bytes: u64,
    /// Most memory that the volume takes, in bytes, if it has a bound.
    pub memory_most_bytes: Option<u64>,
    /// Commands that the device was sent, by [`IoOp`].
    pub below: [OpFigures; IoOp::ALL.len()],
    /// Counters of the layers, from the top down.
    pub layers: Vec<LayerFigure>,
    /// Work of the device's flash, if it is known: for an emulated drive.
    pub flash: Option<FlashWork>,
    /// Wear of that flash, if it is known.
    pub wear: Option<FlashWear>,
    /// Times of its dies, if they are known.
    pub dies: Option<DieTime>,
    /// Passes over all that has checksums that ended since it was opened.
    pub scrubs: u64,
    /// First failure that made it unusable, if there was one.
    pub broken: Option<String>,
}

/// Counts the commands that the device below is sent.
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

/// Gives the counters of all layers.
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

/// Writes the text format of Prometheus, version 0.0.4.
#[must_use]
pub fn prometheus(figures: &Figures) -> String {
    let mut text = Text { volume: figures.header.uuid.to_string(), families: Vec::new() };
    let gauges: [(&str, &str, &dyn Display); 6] = [
        ("volume_capacity_bytes", "Bytes that users have.", &figures.capacity_bytes),
        ("volume_open_seconds", "Since it was opened.", &seconds(figures.open_ns)),
        ("volume_requests_outstanding", "Requests under way.", &figures.outstanding),
        (
            "volume_request_memory_bytes",
            "Most memory that requests under way take.",
            &figures.request_memory_bytes,
        ),
        ("volume_broken", "1 if it is of no use any more.", &u8::from(figures.broken.is_some())),
        ("volume_openings", "How often it was opened.", &figures.header.openings),
    ];
    gauges.iter().for_each(|(name, help, value)| text.put(name, "gauge", help, "", value));
    let help = "Passes over all that has checksums that ended.";
    text.put("volume_scrubs_total", "counter", help, "", &figures.scrubs);
    if figures.header.scrubbed_unix_s > 0 {
        let help = "When the last of them ended, in seconds since 1970.";
        let when = &figures.header.scrubbed_unix_s;
        text.put("volume_scrub_ended_timestamp_seconds", "gauge", help, "", when);
    }
    if let Some(most) = figures.memory_most_bytes {
        let help = "Most memory that it takes, bounded from above.";
        text.put("volume_memory_most_bytes", "gauge", help, "", &most);
    }
    text.put_ops("request", "Requests of clients", &figures.requests);
    text.put_ops("device", "Commands to the device", &figures.below);
    if let Some(work) = figures.flash {
        text.put("flash_page_bytes", "gauge", "Bytes of a flash page.", "", &work.page_bytes);
        let sums = [
            ("flash_page_reads_total", "Flash pages read.", work.page_reads),
            ("flash_page_programs_total", "Flash pages programmed.", work.page_programs),
            ("flash_erases_total", "Erase blocks erased.", work.erases),
        ];
        sums.iter().for_each(|(name, help, sum)| text.put(name, "counter", help, "", sum));
    }
    if let Some(wear) = figures.wear {
        text.put_wear(wear);
    }
    if let Some(dies) = &figures.dies {
        text.put_dies(dies);
    }
    for one in &figures.layers {
        let labels = format!("layer=\"{}\",level=\"{}\"", one.layer, one.level);
        let (kind, end) = if one.is_level { ("gauge", "") } else { ("counter", "_total") };
        text.put(&format!("layer_{}{end}", one.name), kind, one.help, &labels, &one.value);
    }
    text.joined()
}

fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}

/// Lines by metric, as the format needs those of one metric together.
struct Text {
    volume: String,
    /// Names of metrics, each with its lines.
    families: Vec<(String, String)>,
}

impl Text {
    /// Adds one value of a metric.
    fn put(&mut self, name: &str, kind: &str, help: &str, labels: &str, value: &dyn Display) {
        self.put_part(name, "", kind, help, labels, value);
    }

    /// Adds one value of a metric that has several, by the `end` of their names.
    fn put_part(
        &mut self,
        name: &str,
        end: &str,
        kind: &str,
        help: &str,
        labels: &str,
        value: &dyn Display,
    ) {
        let name = format!("flashwright_{name}");
        let known = self.families.iter().position(|(known, _)| *known == name);
        let number = known.unwrap_or_else(|| {
            let head = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
            self.families.push((name.clone(), head));
            self.families.len() - 1
        });
        let (volume, comma) = (&self.volume, if labels.is_empty() { "" } else { "," });
        let lines = &mut self.families[number].1;
        let _ = writeln!(lines, "{name}{end}{{volume=\"{volume}\"{comma}{labels}}} {value}");
    }

    fn put_wear(&mut self, wear: FlashWear) {
        let (mean, help) = (wear.erases_mean, "Mean erases of an erase block, since it was new.");
        self.put("flash_wear_erases_mean", "gauge", help, "", &mean);
        let help = "Most erases of an erase block, since it was new.";
        self.put("flash_wear_erases_most", "gauge", help, "", &wear.erases_most);
        if wear.erases_rated > 0 {
            let help = "Erases that an erase block is rated for.";
            self.put("flash_wear_erases_rated", "gauge", help, "", &wear.erases_rated);
        }
    }

    fn put_dies(&mut self, dies: &DieTime) {
        for (die, &busy) in dies.busy.iter().enumerate() {
            let (labels, help) = (format!("die=\"{die}\""), "Time in which a die worked.");
            self.put("flash_die_busy_seconds_total", "counter", help, &labels, &seconds(busy));
        }
        for &(cause, time) in &dies.by_cause {
            let (labels, help) = (format!("cause=\"{cause}\""), "Time of all dies, by cause.");
            self.put("flash_dies_seconds_total", "counter", help, &labels, &seconds(time));
        }
    }

    /// Adds the counts of each kind of request or command.
    fn put_ops(&mut self, what: &str, which: &str, all: &[OpFigures; IoOp::ALL.len()]) {
        for op in IoOp::ALL {
            let (one, labels) = (&all[op as usize], format!("op=\"{}\"", op.name()));
            let sums = [
                ("s_total", format!("{which} that succeeded."), one.count),
                ("_bytes_total", "Its bytes; zeros count as written.".to_owned(), one.bytes),
                ("_failures_total", format!("{which} that failed."), one.failed),
            ];
            for (end, help, sum) in sums {
                self.put(&format!("volume_{what}{end}"), "counter", &help, &labels, &sum);
            }
            let (name, help) = (format!("volume_{what}_seconds"), format!("Times of: {which}."));
            let mut put = |end: &str, labels: &str, value: &dyn Display| {
                self.put_part(&name, end, "histogram", &help, labels, value);
            };
            let mut below = 0;
            for (bucket, count) in one.by_time[..BUCKETS - 1].iter().enumerate() {
                below += count;
                let limit = (1_u64 << bucket) as f64 / 1e6;
                put("_bucket", &format!("{labels},le=\"{limit}\""), &below);
            }
            let all = one.count + one.failed;
            put("_bucket", &format!("{labels},le=\"+Inf\""), &all);
            put("_sum", &labels, &seconds(one.latency_ns));
            put("_count", &labels, &all);
        }
    }

    fn joined(self) -> String {
        self.families.into_iter().map(|(_, lines)| lines).collect()
    }
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
            request_memory_bytes: 8192,
            memory_most_bytes: Some(1 << 30),
            below: Default::default(),
            layers: Vec::new(),
            flash: None,
            wear: None,
            dies: None,
            scrubs: 3,
            broken: None,
        };
        figures.requests[IoOp::Write as usize].ended(4096, 3_000, false);
        let text = prometheus(&figures);
        let types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
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
