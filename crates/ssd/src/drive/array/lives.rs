//! The lives of the drives of an array with parity: how far apart uneven parity keeps their ages.
//!
//! Random pages are written, each with its parity, on drives whose FTLs do all their work in no
//! time. A drive whose mean erase block has reached the erase limit is replaced by a new one, which
//! is written whole; then the oldest remaining drive takes the first place of the shares, and so
//! on, and the new one the last (DIFF-RAID's replacement, which its abstract describes; the text of
//! its sections was not available). Units whose place changes by that are written once.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use units::{Lpn, PageOp, Progress};

use super::run::{Maker, places_of};
use super::striped::places::Places;
use super::{ArrayConfig, ArrayError, Member};
use crate::drive::build::visit_drive;
use crate::drive::profile::Profile;
use crate::drive::run::RunError;
use crate::drive::state::State;

/// Settings of a simulation of drives' lives.
#[derive(Clone, Debug)]
pub struct LivesSettings {
    /// Profile of the drives.
    pub profile: Profile,
    /// The array, which must have parity.
    pub config: ArrayConfig,
    /// Erases of the mean erase block at which a drive is replaced: 10 ... 100,000.
    pub erase_limit: f64,
    /// Number of replacements after which it ends.
    pub replacements: u32,
    /// Share of the host's pages that are written as whole rows of a stripe, 0 ... 1.
    pub full_stripes: f64,
    /// Seed of the writes and of each drive's policies.
    pub seed: u64,
}

/// Replacement of a drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Replacement {
    /// The drive that was replaced.
    pub drive: u32,
    /// Pages that the host had written until then.
    pub host_pages: u64,
    /// Age of each drive at that time, as a share of the erase limit, oldest first.
    pub ages: Vec<f64>,
    /// Pages written to the new drive.
    pub rebuilt_pages: u64,
    /// Pages written to the other drives since parity moved.
    pub moved_pages: u64,
}

/// Outcome of such a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Lives {
    /// Replacements, in order of time.
    pub replacements: Vec<Replacement>,
    /// Page programs for each page written to a drive, by place of the shares, over the second half
    /// of the replacements.
    pub write_amplification: Vec<f64>,
    /// Pages written to drives for each page of the host, likewise.
    pub rates: Vec<f64>,
}

/// Pages that are written between two checks of the ages: one part in this many of a drive's.
const LOOKS: u32 = 16;

struct Array<'a> {
    settings: &'a LivesSettings,
    places: Places,
    stripes: u32,
    rows: u32,
    drives: Vec<Box<dyn Member>>,
    made: u64,
    /// Pages to be written, by drive.
    pages: Vec<Vec<PageOp>>,
    /// Pages written to each drive since it was made; then those of the drive in each place.
    given: Vec<u64>,
    in_place: Tally,
    progress: &'a Progress,
}

/// Work of the drives in each place of the shares.
#[derive(Default)]
struct Tally {
    given: Vec<u64>,
    programmed: Vec<u64>,
    host: u64,
}

fn programs(drive: &dyn Member) -> u64 {
    let counters = drive.scheme_counters();
    counters.host_page_writes + counters.relocated_pages + counters.mapping_page_writes
}

impl Array<'_> {
    fn new_drive(&mut self, state: State) -> Result<Box<dyn Member>, ArrayError> {
        let seed = self.settings.seed + self.made;
        self.made += 1;
        let maker = Maker { state, seed, progress: self.progress };
        let made =
            visit_drive(&self.settings.profile, seed, None, maker).map_err(RunError::from)?;
        Ok(made?)
    }

    fn age(&self, drive: usize) -> f64 {
        self.drives[drive].erases_mean() / self.settings.erase_limit
    }

    /// Writes `count` pages of the host, each with its parity, or whole rows with theirs.
    fn write(&mut self, random: &mut Pcg64Mcg, count: u32) -> u64 {
        let columns = self.places.columns();
        let mut written = 0;
        // Whole rows have more pages, so fewer of them are drawn in proportion.
        let share = self.settings.full_stripes;
        let rows = share / (share + (1.0 - share) * f64::from(columns));
        for _ in 0..count {
            let stripe = random.random_range(0..self.stripes);
            let page = PageOp::write(Lpn(stripe * self.rows + random.random_range(0..self.rows)));
            let parity = self.places.parity_of(stripe);
            if rows > 0.0 && random.random_bool(rows) {
                self.pages.iter_mut().for_each(|pages| pages.push(page));
                written += u64::from(columns);
                continue;
            }
            let drive = self.places.drive_of(random.random_range(0..columns), parity);
            self.pages[drive as usize].push(page);
            self.pages[parity as usize].push(page);
            written += 1;
        }
        self.hand_over();
        written
    }

    fn hand_over(&mut self) {
        for (drive, pages) in self.pages.iter_mut().enumerate() {
            self.given[drive] += pages.len() as u64;
            for some in pages.chunks(1 << 13) {
                self.drives[drive].apply_untimed(some);
            }
            pages.clear();
        }
    }

    /// Replaces a drive, and gives it the last place. Returns the number of pages written to it and
    /// to the others.
    fn replace(&mut self, gone: u32) -> Result<[u64; 2], ArrayError> {
        let before = self.places.clone();
        self.drives[gone as usize] = self.new_drive(State::Filled)?;
        self.given[gone as usize] = 0;
        let mut order: Vec<u8> = (0..self.places.drives() as u8).collect();
        order.retain(|&drive| u32::from(drive) != gone);
        order.sort_by(|&a, &b| self.age(b as usize).total_cmp(&self.age(a as usize)));
        order.push(gone as u8);
        self.places.set_drive_in(order);
        let mut moved = 0;
        for stripe in 0..self.stripes {
            let (old, new) = (before.parity_of(stripe), self.places.parity_of(stripe));
            if old == new {
                continue;
            }
            for drive in (0..self.places.drives()).filter(|&drive| drive != gone) {
                if before.content(drive, old) != self.places.content(drive, new) {
                    let pages = stripe * self.rows..(stripe + 1) * self.rows;
                    let pages = pages.map(|lpn| PageOp::write(Lpn(lpn)));
                    self.pages[drive as usize].extend(pages);
                    moved += u64::from(self.rows);
                }
            }
        }
        self.hand_over();
        Ok([u64::from(self.stripes) * u64::from(self.rows), moved])
    }

    /// Pages written to the drive in each place, and pages that it programmed, since it was made.
    fn stand(&self) -> Vec<[u64; 2]> {
        let of = |&drive: &u8| {
            let drive = drive as usize;
            [self.given[drive], programs(&*self.drives[drive])]
        };
        self.places.drive_in().iter().map(of).collect()
    }
}

/// Simulates replacements of drives, in no virtual time.
///
/// # Errors
/// [`ArrayError`].
pub fn simulate_lives(settings: &LivesSettings, progress: &Progress) -> Result<Lives, ArrayError> {
    settings.config.check()?;
    if !(10.0..=100_000.0).contains(&settings.erase_limit) {
        return Err(ArrayError::EraseLimit(settings.erase_limit));
    }
    let places = places_of(&settings.profile, &settings.config)?;
    let places = places.filter(Places::has_parity).ok_or(ArrayError::NoParity)?;
    let drives = places.drives() as usize;
    let mut array = Array {
        settings,
        stripes: (settings.profile.capacity_bytes() / places.unit()) as u32,
        rows: (places.unit() / u64::from(settings.profile.media.page_bytes)) as u32,
        places,
        drives: Vec::new(),
        made: 0,
        pages: vec![Vec::new(); drives],
        given: vec![0; drives],
        in_place: Tally { given: vec![0; drives], programmed: vec![0; drives], host: 0 },
        progress,
    };
    for _ in 0..drives {
        let drive = array.new_drive(State::Filled)?;
        array.drives.push(drive);
    }
    live(&mut array)
}

fn live(array: &mut Array<'_>) -> Result<Lives, ArrayError> {
    let settings = array.settings;
    let mut random = Pcg64Mcg::seed_from_u64(settings.seed ^ 0x6c69_7665);
    let at_once = (array.stripes * array.rows / LOOKS).max(1);
    let (mut host_pages, mut replacements) = (0, Vec::new());
    let (mut before, mut host_before) = (array.stand(), 0);
    while (replacements.len() as u32) < settings.replacements {
        host_pages += array.write(&mut random, at_once);
        array.progress.advance(0).map_err(RunError::from)?;
        let oldest =
            |best: usize, drive| if array.age(drive) > array.age(best) { drive } else { best };
        let gone = (1..array.drives.len()).fold(0, oldest);
        let worn_out = array.drives.iter().position(|drive| drive.worn_out().is_some());
        if array.age(gone) < 1.0 && worn_out.is_none() {
            continue;
        }
        let gone = worn_out.unwrap_or(gone);
        if replacements.len() as u32 >= settings.replacements / 2 {
            for (place, (now, before)) in array.stand().iter().zip(&before).enumerate() {
                array.in_place.given[place] += now[0] - before[0];
                array.in_place.programmed[place] += now[1] - before[1];
            }
            array.in_place.host += host_pages - host_before;
        }
        let mut ages: Vec<f64> = (0..array.drives.len()).map(|drive| array.age(drive)).collect();
        ages.sort_by(|a, b| b.total_cmp(a));
        let [rebuilt_pages, moved_pages] = array.replace(gone as u32)?;
        let drive = gone as u32;
        replacements.push(Replacement { drive, host_pages, ages, rebuilt_pages, moved_pages });
        array.progress.advance(1).map_err(RunError::from)?;
        (before, host_before) = (array.stand(), host_pages);
    }
    let Tally { given, programmed, host } = &array.in_place;
    let each = |(programmed, given): (&u64, &u64)| *programmed as f64 / (*given).max(1) as f64;
    Ok(Lives {
        replacements,
        write_amplification: programmed.iter().zip(given).map(each).collect(),
        rates: given.iter().map(|&given| given as f64 / (*host).max(1) as f64).collect(),
    })
}
