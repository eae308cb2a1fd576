//! The continuous values of a profile that are fitted, each with its range and the kinds of load
//! that it shows in.

use ssd::drive::profile::{Detector, Profile};

use super::scheme::Scheme;
use crate::analysis::estimate::mean;
use crate::protocol::CellMeasured;

/// Kinds of load, as bits.
pub(super) const READS: u8 = 1;
pub(super) const WRITES: u8 = 2;
pub(super) const MIXES: u8 = 4;
const ALL: u8 = READS | WRITES | MIXES;

/// A value that is fitted.
#[derive(Clone, Copy)]
pub(super) struct Parameter {
    pub key: &'static str,
    /// In which kinds of load it shows.
    pub phases: u8,
    pub range: (f64, f64),
    /// Added before the logarithm is taken: values far below count as 0, which they can reach.
    floor: f64,
    /// 0, or values are multiples of it.
    whole: Whole,
    get: fn(&Profile) -> f64,
    set: fn(&mut Profile, f64),
    is_active: fn(&Profile) -> bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Whole {
    No,
    Ones,
    Pages,
}

impl Parameter {
    /// Gives its place in the search.
    pub fn position(&self, profile: &Profile) -> f64 {
        ((self.get)(profile) + self.floor).ln()
    }

    /// Puts it to a place of the search, within its range.
    pub fn put(&self, profile: &mut Profile, position: f64) {
        let value = (position.exp() - self.floor).clamp(self.range.0, self.range.1);
        let value = match self.whole {
            // Four digits: a profile is read by people.
            Whole::No => round(value),
            Whole::Ones => value.round(),
            Whole::Pages => {
                let page = f64::from(profile.media.page_bytes);
                (value / page).round().max(1.0) * page
            }
        };
        (self.set)(profile, value);
    }

    /// A step from here that is large enough to change the value.
    pub fn step(&self, profile: &Profile) -> f64 {
        const STEP: f64 = 0.05;
        // Whole erase blocks.
        if self.key == "cleaning.start_below_free" {
            return 0.3;
        }
        let unit = match self.whole {
            Whole::No => return STEP,
            Whole::Ones => 1.0,
            Whole::Pages => f64::from(profile.media.page_bytes),
        };
        let value = (self.get)(profile);
        STEP.max(((value + 1.01 * unit + self.floor) / (value + self.floor)).ln())
    }

    /// Returns true if its steps have a least size.
    pub fn is_whole(&self) -> bool {
        self.whole != Whole::No
    }

    pub fn is_active(&self, profile: &Profile) -> bool {
        (self.is_active)(profile)
    }

    /// The parameter for a drive of these shortest times: a step of a time that is next to nothing
    /// must still be a few hundredths of what a request takes, or no slope shows in which it could
    /// grow.
    pub fn for_times(mut self, shortest: ShortestTimes) -> Self {
        const SHARE: f64 = 0.5;
        let time_us = match self.key {
            "controller.page_us" | "media.command_us" => shortest.page_us,
            "interface.host_us"
            | "interface.read_frames_us"
            | "interface.write_frames_us"
            | "controller.read_command_us"
            | "controller.write_command_us"
            | "controller.turnaround_us"
            | "controller.write_hold_us"
            | "controller.drain_us"
            | "media.suspend_us" => shortest.request_us,
            _ => return self,
        };
        self.floor = (SHARE * time_us).clamp(0.02, 50.0);
        self
    }

    /// Puts it to a place that is the same for all profiles that have it.
    fn level(&self, profile: &mut Profile) {
        (self.set)(profile, self.range.0.max(1.0));
    }
}

/// The shortest times that were measured, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ShortestTimes {
    /// From the end of one request to that of the next.
    pub request_us: f64,
    /// The same by 4 KiB of the request.
    pub page_us: f64,
}

impl ShortestTimes {
    pub fn of(cells: &[CellMeasured]) -> Self {
        let shortest = |units: fn(&CellMeasured) -> f64| {
            cells.iter().map(|one| 1e6 / one.iops / units(one)).fold(f64::INFINITY, f64::min)
        };
        Self {
            request_us: shortest(|_| 1.0),
            page_us: shortest(|one| f64::from(one.cell.size_bytes.div_ceil(4096))),
        }
    }
}

/// The profile without what is fitted: two that are the same here differ in values alone.
pub(super) fn structure_of(profile: &Profile) -> Profile {
    let mut levelled = profile.clone();
    levelled.fitted.clear();
    // What was scaled and rounded several times keeps its shape but for the last digits.
    all().filter(|one| one.is_active(profile)).for_each(|one| one.level(&mut levelled));
    for times in [&mut levelled.media.read_us, &mut levelled.media.program_us] {
        times.iter_mut().for_each(|time| *time = (*time * 20.0).round() / 20.0);
    }
    levelled
}

fn round(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let scale = 10_f64.powi(4 - value.abs().log10().floor() as i32 - 1);
    let rounded = (value * scale).round() / scale;
    if rounded.is_finite() { rounded } else { value }
}

/// Keeps the ratios of the page types.
fn scale(values: &mut [f64], to: f64) {
    let by = to / mean(values);
    values.iter_mut().for_each(|value| *value = round((*value * by).max(0.001)));
}

fn always(_: &Profile) -> bool {
    true
}

fn has_buffer(profile: &Profile) -> bool {
    profile.write_buffer.bytes > 0
}

/// Cleaning shows only where there is so little spare space that a measurement can use it up.
fn is_cleaned(profile: &Profile) -> bool {
    const MOST_BYTES: u64 = 4_000_000_000;
    let spare = profile.physical_pages().saturating_sub(u64::from(profile.logical_pages()))
        * u64::from(profile.media.page_bytes);
    spare < MOST_BYTES && !Scheme::of(profile).is_log_block()
}

/// Less than what is free when the drive is full.
fn set_start_below(profile: &mut Profile, value: f64) {
    let free = profile.ftl.over_provisioning / (1.0 + profile.ftl.over_provisioning);
    profile.cleaning.start_below_free = value.min(free * 0.9);
}

fn reads_ahead(profile: &Profile) -> bool {
    profile.read_ahead.detector != Detector::None
}

macro_rules! parameters {
    ($({
        $key:literal, $phases:expr, $low:expr => $high:expr, $floor:expr, $whole:ident,
        $($path:ident).+ as $kind:ty, $active:expr
    }),+ $(,)?) => {
        &[$(Parameter {
            key: $key, phases: $phases, range: ($low, $high), floor: $floor, whole: Whole::$whole,
            get: |profile| profile.$($path).+ as f64,
            set: |profile, value| profile.$($path).+ = value as $kind, is_active: $active,
        }),+]
    };
}

#[allow(clippy::cast_lossless, clippy::unnecessary_cast)]
static SIMPLE: &[Parameter] = parameters![
    { "interface.host_us", ALL, 0.0 => 5e3, 1.0, No, interface.host_us as f64, always },
    { "interface.link_mb_per_second", ALL, 0.5 => 1e5, 0.0, No,
      interface.link_mb_per_second as f64, always },
    { "interface.read_frames_us", READS | MIXES, 0.0 => 1e3, 0.5, No,
      interface.read_frames_us as f64, always },
    { "interface.write_frames_us", WRITES | MIXES, 0.0 => 1e3, 0.5, No,
      interface.write_frames_us as f64, always },
    { "controller.read_command_us", READS | MIXES, 0.0 => 5e3, 0.2, No,
      controller.read_command_us as f64, always },
    { "controller.write_command_us", WRITES | MIXES, 0.0 => 5e3, 0.2, No,
      controller.write_command_us as f64, always },
    { "controller.page_us", ALL, 0.0 => 1e3, 0.1, No, controller.page_us as f64, always },
    { "controller.turnaround_us", MIXES, 0.0 => 1e3, 1.0, No,
      controller.turnaround_us as f64, always },
    { "controller.write_hold_us", WRITES | MIXES, 0.0 => 1e3, 1.0, No,
      controller.write_hold_us as f64, |profile| profile.controller.writes_wait_for_reads },
    { "controller.drain_us", MIXES, 0.0 => 1e3, 1.0, No,
      controller.drain_us as f64, |profile| profile.controller.writes_wait_for_reads },
    { "media.erase_us", WRITES | MIXES, 50.0 => 1e5, 0.0, No, media.erase_us as f64, always },
    { "media.command_us", ALL, 0.0 => 100.0, 0.2, No, media.command_us as f64, always },
    { "media.channel_mt_per_second", ALL, 1.0 => 1e5, 0.0, No,
      media.channel_mt_per_second as f64, always },
    { "media.suspend_us", MIXES, 0.0 => 1e3, 1.0, No,
      media.suspend_us as f64, |profile| profile.media.suspend },
    { "write_buffer.in_flight_pages", WRITES | MIXES, 1.0 => 8192.0, 0.0, Ones,
      write_buffer.in_flight_pages as u32,
      |profile| has_buffer(profile) && profile.write_buffer.in_flight_pages > 0 },
    { "write_buffer.bytes", WRITES | MIXES, 512.0 => 1e9, 0.0, Pages,
      write_buffer.bytes as u64, has_buffer },
    { "read_ahead.window_bytes", READS, 512.0 => 6e7, 0.0, Pages,
      read_ahead.window_bytes as u64, reads_ahead },
    { "read_cache.bytes", READS | MIXES, 512.0 => 1e9, 0.0, Pages,
      read_cache.bytes as u64, |profile| profile.read_cache.bytes > 0 },
];

/// A time of the media that each type of pages has: what is fitted is their mean.
macro_rules! of_page_types {
    ($key:literal, $phases:expr, $low:expr => $high:expr, $field:ident) => {
        Parameter {
            key: $key,
            phases: $phases,
            range: ($low, $high),
            floor: 0.0,
            whole: Whole::No,
            get: |profile| mean(&profile.media.$field),
            set: |profile, value| scale(&mut profile.media.$field, value),
            is_active: always,
        }
    };
}

static OF_TYPES: &[Parameter] = &[
    Parameter {
        key: "cleaning.start_below_free",
        phases: WRITES | MIXES,
        range: (0.0, 0.3),
        floor: 0.01,
        whole: Whole::No,
        get: |profile| profile.cleaning.start_below_free,
        set: set_start_below,
        is_active: is_cleaned,
    },
    of_page_types!("media.read_us", ALL, 1.0 => 1e4, read_us),
    of_page_types!("media.program_us", WRITES | MIXES, 2.0 => 1e5, program_us),
];

/// All that are fitted.
pub(super) fn all() -> impl Iterator<Item = Parameter> {
    SIMPLE.iter().chain(OF_TYPES).copied()
}
