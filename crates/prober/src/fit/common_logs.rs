//! Drives whose logs are common to all places.
//!
//! From outside such a drive takes so many bytes of random writes at once and then merges nearly
//! all that they lie in: the next wave comes after as many again. How many bytes that are decides
//! which requests meet a wave. How they are divided into superblocks, over which dies, and what
//! merges and the buffer do side by side does not show by itself: each is simulated in turn, with
//! the others as they fit best so far. Times come first: with a program or a command that is far
//! off, every shape is, and the least bad one is no better than others.

use ssd::drive::profile::Profile;
use units::Cancelled;

use super::analytic;
use super::scheme::Scheme;
use super::simulate::Simulator;
use super::solve::{Candidate, Goal, evaluate, tidy};
use crate::protocol::CellMeasured;

/// Sizes of superblocks that are tried.
const SUPERBLOCK_BYTES: [u64; 4] = [1 << 20, 2 << 20, 4 << 20, 8 << 20];
/// Dies of a channel that are tried.
const DIES: [u32; 3] = [1, 4, 16];
/// Merges at once that are tried.
const MERGES: [u32; 2] = [8, 1];
/// Pages that a write buffer programs at once, as far as tried; 0 is as many as there are.
const IN_FLIGHT: [u32; 4] = [0, 8, 16, 32];
/// Pages of usual erase blocks.
const USUAL_PAGES: u64 = 64;
/// Erases of chips with such, in microseconds.
const USUAL_ERASE_US: f64 = 1_500.0;

/// Properties that do not show by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub superblock_bytes: u64,
    pub dies: u32,
    pub merges: u32,
    pub copy_back: bool,
    pub in_flight_pages: u32,
}

impl Shape {
    /// Shape with which the search begins.
    pub const USUAL: Self = Self {
        superblock_bytes: 2 << 20,
        dies: 4,
        merges: 8,
        copy_back: true,
        in_flight_pages: 16,
    };

    /// Gives shapes with other superblocks and other pages in flight. Both decide how fast a log
    /// fills and is merged: changed one by one, the one settles where the other happens to be.
    pub fn begins() -> Vec<Self> {
        let of_size = |superblock_bytes| {
            IN_FLIGHT.map(|in_flight_pages| Self {
                superblock_bytes,
                in_flight_pages,
                ..Self::USUAL
            })
        };
        SUPERBLOCK_BYTES.into_iter().flat_map(of_size).collect()
    }

    /// Gives shapes that differ in one thing, by thing.
    pub fn neighbours(self) -> [Vec<Self>; 5] {
        let others = [
            DIES.map(|dies| Self { dies, ..self }).to_vec(),
            vec![Self { copy_back: !self.copy_back, ..self }],
            MERGES.map(|merges| Self { merges, ..self }).to_vec(),
            IN_FLIGHT.map(|in_flight_pages| Self { in_flight_pages, ..self }).to_vec(),
            SUPERBLOCK_BYTES.map(|superblock_bytes| Self { superblock_bytes, ..self }).to_vec(),
        ];
        others.map(|others| others.into_iter().filter(|one| *one != self).collect())
    }
}

/// As many logs as hold these bytes, and the one for sequential writes.
fn logs(log_bytes: u64, superblock_bytes: u64) -> u32 {
    (log_bytes as f64 / superblock_bytes as f64).round().clamp(1.0, 65_535.0) as u32 + 1
}

/// Pages that are programmed at once, as far as the buffer decides: one in each die if it says
/// nothing.
fn at_once(profile: &Profile) -> u32 {
    let m = &profile.media;
    match profile.write_buffer.in_flight_pages {
        0 => m.channels * m.packages_per_channel * m.dies_per_package,
        pages => pages,
    }
}

/// The profile with programs, all of one time, at which flash takes so many bytes per second.
fn paced(profile: &Profile, bytes_per_second: f64) -> Profile {
    let mut changed = profile.clone();
    let us =
        f64::from(at_once(profile)) * f64::from(profile.media.page_bytes) / bytes_per_second * 1e6;
    changed.media.program_us.iter_mut().for_each(|time| *time = us);
    changed
}

/// The profile with programs that take as long with the transfer of a page as they did without.
/// Those of other dies go on meanwhile.
fn without_transfer(profile: &Profile) -> Profile {
    const LEAST: f64 = 0.3;
    let mut changed = profile.clone();
    let m = &mut changed.media;
    let transfer_us =
        f64::from(m.page_bytes) / (m.channel_mt_per_second * f64::from(m.channel_bits) / 8.0);
    m.program_us.iter_mut().for_each(|time| *time = (*time - transfer_us).max(*time * LEAST));
    changed
}

/// The profile with a controller that takes as long for each write as the most writes per second
/// leave it: those that its buffer took in.
fn commanded(profile: &Profile, cells: &[CellMeasured]) -> Profile {
    let mut changed = profile.clone();
    let most =
        cells.iter().filter(|one| one.cell.reads <= 0.0).map(|one| one.iops).fold(0.0, f64::max);
    if most > 0.0 {
        changed.controller.write_command_us = (1e6 / most - changed.controller.page_us).max(0.0);
    }
    changed
}

/// Facts that are known before any shape is tried.
pub(super) struct Begin<'a> {
    pub front: &'a Profile,
    /// Capacity of the logs, in bytes.
    pub log_bytes: u64,
    /// Rate at which flash takes the logs' data, in bytes per second, if it was measured.
    pub log_rate: Option<f64>,
    /// Number of channels, if there is a guess.
    pub channels: Option<u32>,
    pub cells: &'a [CellMeasured],
}

impl Begin<'_> {
    /// The profile with logs of this shape; `None` if there can be none.
    pub fn shaped(&self, shape: Shape) -> Option<Profile> {
        let mut base = analytic::plain(self.front).unwrap_or_else(|| self.front.clone());
        let m = &mut base.media;
        if let Some(channels) = self.channels {
            m.channel_mt_per_second =
                (m.channel_mt_per_second * f64::from(m.channels) / f64::from(channels)).min(1e5);
            m.channels = channels;
        }
        (m.packages_per_channel, m.dies_per_package) = (shape.dies, 1);
        (m.erase_us, m.copy_back) = (USUAL_ERASE_US, shape.copy_back);
        base.write_buffer.in_flight_pages = shape.in_flight_pages;
        // The fastest cells may have met nothing but the buffer.
        let programs = self
            .log_rate
            .map_or_else(|| analytic::programs(&base, self.cells), |rate| paced(&base, rate));
        let mut base = commanded(&without_transfer(&programs), self.cells);
        let planes = base.layout().planes();
        let pages = shape.superblock_bytes / u64::from(base.media.page_bytes);
        let wide = (pages / USUAL_PAGES).clamp(1, u64::from(planes)) as u32;
        base.media.pages_per_erase_block = (pages / u64::from(wide)) as u32;
        let interleave = if wide == planes { 0 } else { wide };
        let scheme =
            Scheme::with_logs("fast", logs(self.log_bytes, shape.superblock_bytes), interleave);
        Scheme { merges_at_once: shape.merges, ..scheme }.put(&mut base);
        (base.cleaning.start_below_free, base.cleaning.background_below_free) = (0.0, 0.0);
        tidy(&mut base);
        base.check().is_ok().then_some(base)
    }

    fn best_of(
        &self,
        simulator: &Simulator<'_>,
        goal: &Goal,
        shapes: &[Shape],
    ) -> Result<Option<(Shape, Candidate)>, Cancelled> {
        let (shapes, profiles): (Vec<Shape>, Vec<Profile>) =
            shapes.iter().filter_map(|&shape| Some((shape, self.shaped(shape)?))).unzip();
        let found = evaluate(simulator, goal, profiles)?;
        Ok(shapes.into_iter().zip(found).min_by(|(_, a), (_, b)| a.cost.total_cmp(&b.cost)))
    }

    /// The best shape that one thing after the other leads to, and those that it was found by, best
    /// first.
    pub fn search(
        &self,
        simulator: &Simulator<'_>,
        goal: &Goal,
    ) -> Result<Vec<Profile>, Cancelled> {
        const SWEEPS: usize = 2;
        let Some((mut shape, mut best)) = self.best_of(simulator, goal, &Shape::begins())? else {
            return Ok(Vec::new());
        };
        let mut found = vec![best.profile.clone()];
        for _ in 0..SWEEPS {
            let before = shape;
            for thing in 0..shape.neighbours().len() {
                if simulator.allowance.is_over() {
                    break;
                }
                let next = self.best_of(simulator, goal, &shape.neighbours()[thing])?;
                if let Some((other, better)) =
                    next.filter(|(_, candidate)| candidate.cost < best.cost)
                {
                    (shape, best) = (other, better);
                    found.insert(0, best.profile.clone());
                }
            }
            if shape == before {
                break;
            }
        }
        Ok(found)
    }
}
