//! Parity of stripes, what it is used for, and windows of cleaning: checks of their keys.

use serde::{Deserialize, Serialize};

use super::check::{At, Checked};
use super::{CleaningPace, Profile};

/// Choice of the reads that are answered from the rest of their stripe: a page is the exclusive or
/// of those at its place on the other dies (Yan et al., Tiny-Tail Flash, FAST '17, section 4.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParityReads {
    /// None.
    #[default]
    None,
    /// Those of a die that works for cleaning, unless another of the stripe does, too.
    Cleaning,
    /// Those of a die that would let them wait for longer, by the time of a read, than any other of
    /// the stripe, whatever it is at.
    Busy,
}

impl Profile {
    pub(super) fn check_parity(&self, at: &At<'_>) -> Checked {
        let (m, parity) = (&self.media, self.ftl.parity_dies);
        at.range("ftl.parity_dies", parity, 0..=1)?;
        self.check_use_of_parity(at)?;
        if parity == 0 {
            return Ok(());
        }
        at.require(self.is_of_superblocks(), "ftl.parity_dies", parity, || {
            "must be 0 unless ftl.scheme is superblock_mapped".to_owned()
        })?;
        let dies = m.channels * m.packages_per_channel * m.dies_per_package;
        at.require(dies > 1, "ftl.parity_dies", parity, || {
            "must be 0 on a drive of one die: parity is of other dies".to_owned()
        })?;
        let in_step = m.multi_plane || m.planes_per_die == 1;
        at.require(in_step, "ftl.parity_dies", parity, || {
            "must be 0 unless media.multi_plane is true: otherwise units are planes, and parity \
             may lie on a die whose data it is of"
                .to_owned()
        })
    }

    fn check_use_of_parity(&self, at: &At<'_>) -> Checked {
        let (ftl, m) = (&self.ftl, &self.media);
        let dies = m.channels * m.packages_per_channel * m.dies_per_package;
        let group = ftl.stripe_dies;
        let divides = group == 0 || (group > 1 && dies.is_multiple_of(group));
        at.require(divides && group <= dies, "ftl.stripe_dies", group, || {
            format!("must be 0, or at least 2 and divide the dies, {dies}")
        })?;
        let has_parity = ftl.parity_dies > 0;
        at.require(has_parity || group == 0, "ftl.stripe_dies", group, || {
            "must be 0 without ftl.parity_dies".to_owned()
        })?;
        let reads = format!("{:?}", ftl.parity_reads).to_lowercase();
        let reads_none = ftl.parity_reads == ParityReads::None;
        at.require(has_parity || reads_none, "ftl.parity_reads", reads, || {
            "must be none without ftl.parity_dies".to_owned()
        })?;
        let rotates = self.cleaning.rotates;
        at.require(has_parity || !rotates, "cleaning.rotates", rotates, || {
            "must be false without ftl.parity_dies".to_owned()
        })
    }

    pub(super) fn check_windows(&self, at: &At<'_>) -> Checked {
        let c = &self.cleaning;
        at.range("cleaning.window_period_us", c.window_period_us, 0.0..=1e9)?;
        at.range("cleaning.window_share", c.window_share, 0.001..=1.0)?;
        at.range("cleaning.window_start", c.window_start, 0.0..=1.0)?;
        let has_windows = c.window_period_us > 0.0;
        let scheme = &self.ftl.scheme;
        let knows = self.is_page_mapped() || self.is_of_superblocks();
        at.require(!has_windows || knows, "cleaning.window_period_us", c.window_period_us, || {
            format!(
                "must be 0 for ftl.scheme = {scheme}: page_mapped and superblock_mapped have it"
            )
        })?;
        let credits = c.pace == CleaningPace::Credits;
        at.require(!has_windows || !credits, "cleaning.pace", "credits", || {
            "must be burst with cleaning.window_period_us: what is saved up is spent in windows"
                .to_owned()
        })?;
        let occupies = c.occupies_die;
        at.require(!has_windows || !occupies, "cleaning.occupies_die", occupies, || {
            "must be false with cleaning.window_period_us: a window ends between two commands"
                .to_owned()
        })
    }

    /// Dies of a group that has parity of its own.
    pub(super) fn group_dies(&self) -> u64 {
        match self.ftl.stripe_dies {
            0 => u64::from(self.layout().dies()),
            group => u64::from(group),
        }
    }
}
