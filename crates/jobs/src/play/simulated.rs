//! A source on a simulated drive, directly: what it answers, and what it does inside.

use std::collections::BTreeMap;
use std::path::Path;

use ssd::counting::erase_histogram;
use ssd::drive::load::flow;
use ssd::drive::measure::{Delay, DieShare, Latencies, OpSummary, RequestSink, TimeWindow};
use ssd::drive::media::{Cause, FlashOp};
use ssd::drive::profile::Profile;
use ssd::drive::run::{Outcome, RunError, RunSettings, simulate_told};
use ssd::drive::schemes::HandleCounts;
use ssd::drive::time::{PICOS_PER_NANO, PICOS_PER_SECOND, Picos};
use units::{IoOp, Progress};

use super::Asked;
use super::outcome::{
    Delayed, EnduranceGroup, Energy, Fdp, FlowOf, FlowRun, Handle, Run, Simulated,
};
use super::request_table::RequestTable;
use crate::JobError;
use crate::device::SimulatedDrive;
use crate::figures::{About, named, replication};
use crate::tables::{Columns, column};

/// Plays the sources of a job on a drive.
pub(super) fn play(
    asked: &Asked<'_>,
    drive: &SimulatedDrive,
    progress: &Progress,
) -> Result<Run, JobError> {
    let profile = drive.profile().map_err(|error| JobError::at(asked.at, error))?;
    let settings = settings(asked, drive, profile)?;
    let capacity = settings.profile.capacity_bytes();
    let (mut flows, mut about) = (Vec::new(), Vec::new());
    for given in asked.flows(capacity)? {
        flows.push(given.marked(flow(given.source()?, given.pace.player())));
        about.push(given.about);
    }
    progress.set_total(asked.total());
    let (page, pages) = (settings.profile.media.page_bytes, settings.profile.logical_pages());
    // Only an oracle asks, and the question has no way to fail: an error is found afterwards.
    let failed = std::cell::RefCell::new(None);
    let weights = || {
        asked.source.weights(page, pages, asked.play.fold).unwrap_or_else(|error| {
            *failed.borrow_mut() = Some(error.to_string());
            vec![1.0; pages as usize]
        })
    };
    let is_known = asked.play.flow.is_empty() && asked.source.has_weights();
    let known: Option<&dyn Fn() -> Vec<f64>> = if is_known { Some(&weights) } else { None };
    let path = asked.play.requests_to.as_deref().map(Path::new);
    let wrong_table = |error: traces::TraceError| JobError::at("requests_to", error);
    let mut table = path.map(RequestTable::new).transpose().map_err(wrong_table)?;
    let sink = table.as_mut().map(|table| table as &mut dyn RequestSink);
    let found = simulate_told(&settings, known, flows, sink, progress);
    if let Some(error) = failed.take() {
        return Err(JobError::at("source", error));
    }
    let found = found.map_err(|error| run_error(asked.at, error))?;
    table.map_or(Ok(()), RequestTable::finish).map_err(wrong_table)?;
    tables(asked, &settings.profile, &found)?;
    if let Some(timeline) = &found.timeline {
        let mut json = Vec::new();
        timeline.write_json(&mut json).map_err(|error| JobError::Run(error.to_string()))?;
        asked.add_text("timeline.json", String::from_utf8_lossy(&json).into_owned());
    }
    asked.add_text("profile.toml", settings.profile.to_toml());
    Ok(run(asked, &settings.profile, &about, &found))
}

fn run_error(at: &str, error: RunError) -> JobError {
    match error {
        RunError::Cancelled(cancelled) => cancelled.into(),
        RunError::Audit(_) | RunError::Sink(_) => JobError::Run(error.to_string()),
        RunError::Source(_) => JobError::at("source", error),
        RunError::Drive(_) | RunError::Refused(_) => JobError::at(at, error),
    }
}

fn settings(
    asked: &Asked<'_>,
    drive: &SimulatedDrive,
    profile: Profile,
) -> Result<RunSettings, JobError> {
    let play = asked.play;
    let untimed = asked.untimed()?;
    if untimed > 0 && asked.source.part.handle.is_some() {
        let said = "with untimed requests go by handles of their own; give `handle=` of a \
                    pattern, or a trace with the column";
        return Err(JobError::at("source", format!("handle: {said}")));
    }
    let most = asked.most_requests(untimed);
    asked.check_warm_up(most)?;
    // Those of other flows count there, too, and end with the source.
    let most = if asked.beside.is_empty() { most } else { asked.asked_requests() };
    let touched = asked.touched_bytes().div_ceil(u64::from(profile.media.page_bytes));
    let pages = touched.min(u64::from(profile.logical_pages())) as u32;
    let most_time = play.duration.map(|limit| (limit.0 * PICOS_PER_SECOND as f64) as Picos);
    Ok(RunSettings {
        state: drive.state.simulated(pages),
        profile,
        pace: ssd::drive::load::Pace::OPEN, // each flow has its own
        seed: play.seed,
        most_requests: most.unwrap_or(u64::MAX),
        most_time: most_time.unwrap_or(Picos::MAX),
        untimed_requests: untimed,
        warm_up_requests: play.warm_up.0,
        timeline_spans: play.timeline.0 as usize,
        audit: play.audit,
    })
}

fn run(asked: &Asked<'_>, profile: &Profile, about: &[FlowOf], found: &Outcome) -> Run {
    let mut flows: Vec<FlowRun> = about
        .iter()
        .zip(&found.flows)
        .map(|(about, flow)| FlowRun::of(about, flow, PICOS_PER_SECOND))
        .collect();
    for (flow, latencies) in flows.iter_mut().zip(&found.flow_latencies) {
        flow.latency_ns = Some(by_op(latencies, |summary| summary.latency.into()));
    }
    Run {
        device: asked.device.to_owned(),
        stack: None,
        pace: asked.pace_text(),
        about: About {
            name: asked.device.to_owned(),
            model: profile.summary.clone(),
            kind: "simulated".to_owned(),
            capacity_bytes: profile.capacity_bytes(),
            sector_bytes: traces::synth::patterns::SECTOR_BYTES,
            queue_depth: profile.interface.queue_depth * profile.interface.queues,
        },
        requests: found.requests,
        read_bytes: found.drive.read_bytes,
        written_bytes: found.drive.written_bytes,
        iops: found.iops(),
        bytes_per_second: found.bytes_per_second(),
        seconds: found.simulated_seconds(),
        latency_ns: by_op(&found.latencies, |summary| summary.latency.into()),
        flows,
        ended: found.worn_out.as_ref().map(|_| "worn_out".to_owned()),
        error: found.worn_out.as_ref().map(ToString::to_string),
        simulated: Some(simulated(found)),
        sent: None,
        layers: None,
    }
}

fn by_op<T>(latencies: &Latencies, of: impl Fn(&OpSummary) -> T) -> BTreeMap<String, T> {
    let ops = IoOp::ALL.map(|op| (op.name(), latencies.of(op)));
    let occurred = ops.into_iter().filter(|(_, summary)| summary.latency.count > 0);
    let all = [("all", latencies.all())];
    occurred.chain(all).map(|(op, summary)| (op.to_owned(), of(&summary))).collect()
}

fn simulated(found: &Outcome) -> Simulated {
    let delays = |summary: &OpSummary| {
        let all = Delay::ALL.into_iter().zip(summary.delays.0);
        all.map(|(delay, summary)| (delay.name().to_owned(), Delayed::from(summary))).collect()
    };
    let flash_operations = FlashOp::ALL.into_iter().map(|op| {
        let counts = Cause::ALL
            .into_iter()
            .map(|cause| (cause.name(), found.media.operations[op as usize][cause as usize]));
        (op.name().to_owned(), named(counts))
    });
    let more = [
        ("transferred_bytes", found.media.bytes_transferred),
        ("multi_plane_commands", found.media.multi_plane_commands),
        ("suspensions", found.media.suspensions),
        ("read_retries", found.media.read_retries),
        ("pages_from_memory", found.drive.pages_from_memory),
        ("unmapped_pages", found.drive.unmapped_pages),
        ("filled_pages", found.drive.filled_pages),
        ("untimed_page_writes", found.untimed.host_page_writes),
        ("untimed_relocated_pages", found.untimed.relocated_pages),
    ];
    let copies = found.replication.as_ref();
    let copies = copies.map(|one| devices::copy_work(one, &found.scheme, &found.media));
    Simulated {
        write_amplification: found.write_amplification,
        delays: by_op(&found.latencies, delays),
        die_share: found.die_share.named().map(|(name, part)| (name.to_owned(), part)).collect(),
        channel_share: found.channel_share.iter().sum::<f64>()
            / found.channel_share.len().max(1) as f64,
        counters: named(found.scheme.named().into_iter().chain(more)),
        flash_operations: flash_operations.collect(),
        zones: found.zones.as_ref().map(|zones| named(zones.named())),
        fdp: found.fdp.as_ref().map(fdp),
        replication: copies.map(|copies| replication(&copies, found.elapsed / PICOS_PER_NANO)),
        erases_mean: found.wear.erases_mean,
        erases_stddev: found.wear.erases_stddev,
        erases_min: found.wear.erases_min,
        erases_max: found.wear.erases_max,
        endurance_group: EnduranceGroup {
            percentage_used: found.endurance_group.percentage_used,
            available_spare_percent: found.endurance_group.available_spare,
            data_read_bytes: found.endurance_group.read_bytes,
            data_written_bytes: found.endurance_group.written_bytes,
            media_written_bytes: found.endurance_group.media_bytes,
        },
        energy: found.energy.map(|energy| Energy {
            read: energy.read_joules,
            program: energy.program_joules,
            erase: energy.erase_joules,
            transfer: energy.transfer_joules,
            idle: energy.idle_joules,
            total: energy.total_joules,
            mean_watts: energy.mean_watts,
        }),
        streams_left_out: found.streams_left_out as u64,
        table_bytes_per_page: found.table_bytes_per_page,
        event_hash: format!("{:016x}", found.event_hash),
        prepare_seconds: found.prepare_seconds,
        wall_seconds: found.wall_seconds,
    }
}

fn fdp(fdp: &ssd::drive::logs::FdpStatistics) -> Fdp {
    Fdp {
        host_bytes_with_metadata_written: fdp.host_bytes,
        media_bytes_with_metadata_written: fdp.media_bytes,
        media_bytes_erased: fdp.erased_bytes,
        reclaim_unit_bytes: fdp.unit_bytes,
        events: named(fdp.counts.events.named()),
        handles: fdp.counts.handles.iter().map(handle).collect(),
        relocated: fdp.counts.relocated.as_ref().map(handle),
    }
}

fn handle(counts: &HandleCounts) -> Handle {
    Handle {
        host_page_writes: counts.host_page_writes,
        relocated_pages: counts.relocated_pages,
        reclaim_units: counts.reclaim_units.into(),
        valid_pages: counts.valid_pages,
        available_pages: counts.available_pages.into(),
    }
}

fn tables(asked: &Asked<'_>, profile: &Profile, found: &Outcome) -> Result<(), JobError> {
    let pace = asked.pace_text();
    let (of, mut tables) = (asked.rows_of(&pace), asked.tables.borrow_mut());
    let latencies: Vec<_> = IoOp::ALL
        .into_iter()
        .flat_map(|op| found.latencies.latency_rows(op).into_iter().map(move |row| (op, row)))
        .collect();
    tables.add(
        &of,
        "latency_histogram",
        vec![
            column("op", latencies.iter().map(|(op, _)| op.name())),
            column("value_ns", latencies.iter().map(|(_, row)| row.0)),
            column("count", latencies.iter().map(|(_, row)| row.1)),
        ],
    )?;
    let delays: Vec<_> = IoOp::ALL
        .into_iter()
        .flat_map(|op| Delay::ALL.map(|delay| (op, delay)))
        .flat_map(|(op, delay)| {
            let rows = found.latencies.delay_rows(op, delay).into_iter();
            rows.map(move |row| (op, delay, row))
        })
        .collect();
    tables.add(
        &of,
        "delay_histogram",
        vec![
            column("op", delays.iter().map(|(op, _, _)| op.name())),
            column("delay", delays.iter().map(|(_, delay, _)| delay.name())),
            column("value_ns", delays.iter().map(|(_, _, row)| row.0)),
            column("count", delays.iter().map(|(_, _, row)| row.1)),
        ],
    )?;
    asked.latency_over_time(&mut tables, &found.latency_map, found.elapsed, PICOS_PER_SECOND)?;
    tables.add(&of, "over_time", over_time(&found.windows))?;
    tables.add(&of, "dies", dies(profile, found))?;
    let erases = erase_histogram(&found.erase_counts);
    tables.add(
        &of,
        "wear",
        vec![
            column("erases", erases.iter().map(|&(erases, _)| erases)),
            column("erase_blocks", erases.iter().map(|&(_, blocks)| blocks)),
        ],
    )
}

/// A figure that a window without such requests does not have is null.
fn over_time(windows: &[TimeWindow]) -> Columns {
    type Number = fn(&TimeWindow) -> f64;
    type Figure = fn(&TimeWindow) -> Option<f64>;
    type Count = fn(&TimeWindow) -> u64;
    const NUMBERS: [(&str, Number); 3] = [
        ("iops", TimeWindow::iops),
        ("read_bytes_per_second", TimeWindow::read_bytes_per_second),
        ("written_bytes_per_second", TimeWindow::written_bytes_per_second),
    ];
    const FIGURES: [(&str, Figure); 4] = [
        ("write_amplification", TimeWindow::write_amplification),
        ("mean_read_ns", TimeWindow::mean_read_ns),
        ("mean_write_ns", TimeWindow::mean_write_ns),
        ("mean_flush_ns", TimeWindow::mean_flush_ns),
    ];
    const COUNTS: [(&str, Count); 9] = [
        ("reads", |w| w.reads),
        ("writes", |w| w.writes),
        ("flushes", |w| w.flushes),
        ("host_page_writes", |w| w.host_page_writes),
        ("relocated_pages", |w| w.relocated_pages),
        ("mapping_page_writes", |w| w.mapping_page_writes),
        ("parity_page_writes", |w| w.parity_page_writes),
        ("replica_page_writes", |w| w.replica_page_writes),
        ("erases", |w| w.erases),
    ];
    let start = windows.first().map_or(0, |window| window.start);
    let seconds = |picos: u64| picos as f64 / PICOS_PER_SECOND as f64;
    let mut columns = vec![
        column("seconds", windows.iter().map(|w| seconds(w.start + w.length - start))),
        column("length_seconds", windows.iter().map(|w| seconds(w.length))),
    ];
    columns.extend(NUMBERS.map(|(name, of)| column(name, windows.iter().map(of))));
    columns.extend(FIGURES.map(|(name, of)| column(name, windows.iter().map(of))));
    columns.extend(COUNTS.map(|(name, of)| column(name, windows.iter().map(of))));
    columns
}

fn dies(profile: &Profile, found: &Outcome) -> Columns {
    let layout = profile.layout();
    let shares: Vec<DieShare> =
        found.dies.iter().map(|busy| DieShare::of(busy, found.elapsed)).collect();
    let all = 0..found.dies.len() as u32;
    let mut columns = vec![
        column("die", all.clone()),
        column("channel", all.map(|die| layout.channel_of_die(die))),
    ];
    columns.extend(Cause::ALL.map(|cause| {
        column(cause.name(), shares.iter().map(move |share| share.by_cause[cause as usize]))
    }));
    columns.push(column("idle", shares.iter().map(|share| share.idle)));
    columns
}
