//! Contents of each drive of a striped array, followed version by version: for tests, and for runs
//! that are audited.
//!
//! The simulator moves no data. Here each sector of data that is written becomes a number, which
//! names the sector and its version; a drive holds the numbers that were last written to it, and
//! parity is computed from the numbers that were read, as a controller would do.

use super::places::{Drives, Places};
use super::strokes::Stroke;

/// Bytes of a sector, the unit in which contents are followed.
const SECTOR: u64 = 512;

/// Data that a job has read, and versions that it may find.
#[derive(Clone, Debug, Default)]
struct Work {
    /// Exclusive or of the data read, by sector of the unit.
    sum: Vec<u64>,
    /// Oldest version that a read may find, by column and sector of the unit.
    least: Vec<u32>,
}

/// All sectors of an array.
#[derive(Clone, Debug)]
pub struct Oracle {
    /// Sectors of a unit; then of a drive.
    unit: usize,
    drive: usize,
    columns: usize,
    /// Indexed by drive and its sector.
    held: Vec<u64>,
    /// For each sector of the array: the version that was given out last; then the last one that
    /// was completed.
    given: Vec<u32>,
    ended: Vec<u32>,
    /// The last version that was a trim.
    trimmed: Vec<u32>,
    /// Indexed by number of the job.
    work: Vec<Work>,
    fault: Option<String>,
}

/// The content of a sector. It is 0 for sectors that were never written, or were trimmed.
fn content(sector: usize, version: u32) -> u64 {
    let mixed = (sector as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed & !0xffff_ffff) | u64::from(version)
}

fn each(drives: Drives) -> impl Iterator<Item = u32> {
    (0..16).filter(move |drive| drives & (1 << drive) != 0)
}

impl Oracle {
    /// The oracle of an array on which nothing was written.
    pub fn new(places: &Places, stripes: u32) -> Self {
        let unit = places.unit().div_ceil(SECTOR) as usize;
        let (drive, columns) = (unit * stripes as usize, places.columns() as usize);
        let sectors = drive * columns;
        Self {
            unit,
            drive,
            columns,
            held: vec![0; drive * places.drives() as usize],
            given: vec![0; sectors],
            ended: vec![0; sectors],
            trimmed: vec![0; sectors],
            work: Vec::new(),
            fault: None,
        }
    }

    /// The first fault found.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    fn rows(stroke: &Stroke) -> std::ops::Range<usize> {
        let (from, to) = (u64::from(stroke.from), u64::from(stroke.to));
        (from / SECTOR) as usize..to.div_ceil(SECTOR) as usize
    }

    fn sector(&self, stripe: u32, column: u32, row: usize) -> usize {
        (stripe as usize * self.columns + column as usize) * self.unit + row
    }

    fn at(&self, drive: u32, stripe: u32, row: usize) -> usize {
        drive as usize * self.drive + stripe as usize * self.unit + row
    }

    /// Begins a job: its reads must not find versions older than those completed now.
    pub fn begin(&mut self, job: u32, stripe: u32) {
        if self.work.len() <= job as usize {
            self.work.resize_with(job as usize + 1, Work::default);
        }
        let sectors = self.columns * self.unit;
        let first = stripe as usize * sectors;
        let work = &mut self.work[job as usize];
        work.sum.clear();
        work.sum.resize(self.unit, 0);
        work.least.clear();
        work.least.extend_from_slice(&self.ended[first..first + sectors]);
    }

    /// Begins a job that writes: its data gets its versions.
    pub fn begin_write(
        &mut self,
        places: &Places,
        parity: u32,
        stripe: u32,
        strokes: &[Stroke],
        is_trim: bool,
    ) {
        for stroke in strokes {
            for drive in each(stroke.data) {
                let column = places.column_of(drive, parity);
                for row in Self::rows(stroke) {
                    let sector = self.sector(stripe, column, row);
                    self.given[sector] += 1;
                    if is_trim {
                        self.trimmed[sector] = self.given[sector];
                    }
                }
            }
        }
    }

    fn new_content(&self, sector: usize) -> u64 {
        let version = self.given[sector];
        if self.trimmed[sector] == version { 0 } else { content(sector, version) }
    }

    /// Records that a drive returned its rows to a job.
    pub fn read(&mut self, job: u32, drive: u32, stripe: u32, stroke: &Stroke) {
        for row in Self::rows(stroke) {
            self.work[job as usize].sum[row] ^= self.held[self.at(drive, stripe, row)];
        }
    }

    /// Records that a drive wrote its rows of a job: data, or the parity that follows from what the
    /// job read.
    pub fn write(
        &mut self,
        places: &Places,
        parity: u32,
        job: u32,
        drive: u32,
        stripe: u32,
        stroke: &Stroke,
    ) {
        for row in Self::rows(stroke) {
            let new = if drive == parity {
                let data = each(stroke.data).map(|of| {
                    let column = places.column_of(of, parity);
                    self.new_content(self.sector(stripe, column, row))
                });
                data.fold(self.work[job as usize].sum[row], |sum, one| sum ^ one)
            } else {
                let column = places.column_of(drive, parity);
                self.new_content(self.sector(stripe, column, row))
            };
            let at = self.at(drive, stripe, row);
            self.held[at] = new;
        }
    }

    /// Records the end of a write.
    pub fn end_write(&mut self, places: &Places, parity: u32, stripe: u32, strokes: &[Stroke]) {
        for stroke in strokes {
            for drive in each(stroke.data) {
                let column = places.column_of(drive, parity);
                for row in Self::rows(stroke) {
                    let sector = self.sector(stripe, column, row);
                    self.ended[sector] = self.given[sector];
                }
            }
        }
    }

    /// Checks the result of a read of a column: the contents of its drive or, with `rebuilt`, what
    /// the job read from all the others.
    pub fn found(
        &mut self,
        places: &Places,
        job: u32,
        drive: u32,
        stripe: u32,
        stroke: &Stroke,
        rebuilt: bool,
    ) {
        let column = places.column_of(drive, places.parity_of(stripe));
        for row in Self::rows(stroke) {
            let sector = self.sector(stripe, column, row);
            let work = &self.work[job as usize];
            let content =
                if rebuilt { work.sum[row] } else { self.held[self.at(drive, stripe, row)] };
            let least = work.least[column as usize * self.unit + row];
            self.judge(sector, content, least);
        }
    }

    fn judge(&mut self, sector: usize, found: u64, least: u32) {
        let is_nothing = found == 0 && (least == 0 || self.trimmed[sector] >= least);
        let version = found as u32;
        let is_newest =
            found == content(sector, version) && (least..=self.given[sector]).contains(&version);
        if !is_nothing && !is_newest && self.fault.is_none() {
            let given = self.given[sector];
            self.fault = Some(format!(
                "sector {sector} of the array holds {found:016x}: no version of it from {least} \
                 to {given}"
            ));
        }
    }

    /// Checks all stripes when no request is under way: each drive's data is the newest version,
    /// and so is the rebuilt data of a missing one.
    pub fn check(&mut self, places: &Places, stripes: u32, missing: Drives) {
        for stripe in 0..stripes {
            let parity = places.parity_of(stripe);
            let drives = places.all() & !missing;
            for row in 0..self.unit {
                let held = |drive| self.held[self.at(drive, stripe, row)];
                let sum = each(drives).fold(0, |sum, drive| sum ^ held(drive));
                if missing == 0 && sum != 0 && self.fault.is_none() {
                    self.fault =
                        Some(format!("the parity of stripe {stripe}, row {row}, is wrong"));
                }
                for column in 0..places.columns() {
                    let drive = places.drive_of(column, parity);
                    let is_missing = missing & (1 << drive) != 0;
                    let found =
                        if is_missing { sum } else { self.held[self.at(drive, stripe, row)] };
                    let sector = self.sector(stripe, column, row);
                    self.judge(sector, found, self.ended[sector]);
                }
            }
        }
    }
}
