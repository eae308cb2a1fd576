//! Checks of a profile: every range, and the conditions between keys.

use std::fmt::Display;
use std::ops::RangeInclusive;

use placement::{PLACEMENTS, VICTIMS};
use registry::{Info, Spec, SpecError};
use units::Geometry;

use super::set::exists;
use super::{
    CleaningPace, Detector, FlushOrder, FlushRule, InterfaceKind, Profile, ProfileError,
    SlcCacheKind, StaticRule, TrimRule,
};
use crate::drive::schemes::{SCHEMES, superblock_mapped};

/// Places in an erase block are kept in 16 bits.
const MOST_PAGES: u32 = 32_768;
/// Longest time of one operation in microseconds, 1000 s: longer ones are mistakes of units.
const MAX_US: f64 = 1e9;
/// Largest buffer or cache: 64 GiB.
const MAX_DRAM_BYTES: u64 = 1 << 36;

pub(super) type Checked = Result<(), ProfileError>;

impl Profile {
    /// Checks that every value is in its range, and that all fit together.
    ///
    /// # Errors
    /// The first that is wrong: [`ProfileError::BadValue`] with the key and the right values.
    pub fn check(&self) -> Result<(), ProfileError> {
        self.check_at(&self.place())
    }

    pub(super) fn check_at(&self, place: &str) -> Checked {
        let at = At { place };
        self.check_about(&at)?;
        self.check_sizes(&at)?;
        self.check_times(&at)?;
        self.check_interface(&at)?;
        self.check_controller(&at)?;
        self.check_dram(&at)?;
        self.check_read_ahead(&at)?;
        self.check_ftl(&at)?;
        self.check_slc_cache(&at)?;
        self.check_space(&at)?;
        self.check_wear(&at)?;
        self.check_fdp(&at)?;
        self.check_replication(&at)?;
        self.check_zones(&at)
    }

    fn check_about(&self, at: &At<'_>) -> Checked {
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let words = self.name.split('-').all(|word| !word.is_empty() && word.chars().all(is_word));
        at.require(words, "name", format!("\"{}\"", self.name), || {
            "must be lower-case words and digits joined by `-`".to_owned()
        })?;
        let one_line = !self.summary.trim().is_empty() && !self.summary.contains('\n');
        at.require(one_line, "summary", format!("{:?}", self.summary), || {
            "must be one line that says what the drive is".to_owned()
        })?;
        at.require(!self.sources.is_empty(), "sources", "[]", || {
            "must say where the figures are from, if only \"assumed\"".to_owned()
        })?;
        let tree = self.tree();
        for key in &self.fitted {
            at.require(exists(&tree, key), "fitted", format!("[... \"{key}\" ...]"), || {
                format!("must name keys of the profile, and there is no `{key}`")
            })?;
        }
        Ok(())
    }

    fn check_sizes(&self, at: &At<'_>) -> Checked {
        let m = &self.media;
        at.range("media.channels", m.channels, 1..=64)?;
        at.range("media.slices", m.slices, 1..=65_536)?;
        at.range("media.packages_per_channel", m.packages_per_channel, 1..=16)?;
        at.range("media.dies_per_package", m.dies_per_package, 1..=16)?;
        at.range("media.planes_per_die", m.planes_per_die, 1..=8)?;
        at.range("media.erase_blocks_per_plane", m.erase_blocks_per_plane, 4..=65_536)?;
        at.range("media.pages_per_erase_block", m.pages_per_erase_block, 2..=MOST_PAGES)?;
        let whole = m.pages_per_erase_block;
        for (key, part, whole, of) in [
            ("media.pages_per_program", m.pages_per_program, whole, "media.pages_per_erase_block"),
            (
                "media.pages_per_read",
                m.pages_per_read,
                m.pages_per_program,
                "media.pages_per_program",
            ),
        ] {
            at.range(key, part, 1..=64)?;
            at.require(whole.is_multiple_of(part), key, part, || {
                format!("must divide {of}, {whole}")
            })?;
        }
        at.range("media.page_bytes", m.page_bytes, 512..=65_536)?;
        at.require(m.page_bytes.is_multiple_of(512), "media.page_bytes", m.page_bytes, || {
            "must be a multiple of 512, a sector".to_owned()
        })?;
        let pages = self.physical_pages();
        at.require(
            pages <= Geometry::MAX_PHYSICAL_PAGES,
            "media",
            format!("{pages} pages"),
            || {
                format!(
                    "must be at most 2^31 = {} pages: use larger pages or fewer erase blocks",
                    Geometry::MAX_PHYSICAL_PAGES
                )
            },
        )?;
        at.range("media.factory_bad_share", m.factory_bad_share, 0.0..=0.2)?;
        at.range("media.time_noise", m.time_noise, 0.0..=0.5)
    }

    fn check_times(&self, at: &At<'_>) -> Checked {
        let m = &self.media;
        at.range("media.most_suspensions", m.most_suspensions, 1..=255)?;
        let part_reads = (!m.part_read_us.is_empty()).then_some(&m.part_read_us);
        let times = [("media.read_us", &m.read_us), ("media.program_us", &m.program_us)];
        for (key, times) in
            times.into_iter().chain(part_reads.map(|times| ("media.part_read_us", times)))
        {
            at.require((1..=8).contains(&times.len()), key, format!("{times:?}"), || {
                "must hold 1 to 8 times, one a page type".to_owned()
            })?;
            for time in times {
                at.range(key, *time, 0.001..=MAX_US)?;
            }
        }
        let (reads, programs) = (m.read_us.len(), m.program_us.len());
        at.require(
            reads == programs || reads == 1 || programs == 1,
            "media.program_us",
            format!("{:?}", m.program_us),
            || {
                format!(
                    "must hold as many page types as media.read_us, {reads}, or one time for all"
                )
            },
        )?;
        at.range("media.erase_us", m.erase_us, 0.001..=MAX_US)?;
        at.range("media.command_us", m.command_us, 0.0..=MAX_US)?;
        at.range("media.channel_mt_per_second", m.channel_mt_per_second, 0.1..=1e6)?;
        at.require(
            [8, 16, 32, 64].contains(&m.channel_bits),
            "media.channel_bits",
            m.channel_bits,
            || "must be 8, 16, 32 or 64".to_owned(),
        )?;
        at.range("media.suspend_us", m.suspend_us, 0.0..=MAX_US)?;
        at.range("media.endurance_spread", m.endurance_spread, 0.0..=0.5)?;
        self.check_retries(at)?;
        let e = &self.energy;
        at.range("energy.read_nj", e.read_nj, 0.0..=1e12)?;
        at.range("energy.program_nj", e.program_nj, 0.0..=1e12)?;
        at.range("energy.erase_nj", e.erase_nj, 0.0..=1e12)?;
        at.range("energy.transfer_pj_per_byte", e.transfer_pj_per_byte, 0.0..=1e9)?;
        at.range("energy.idle_mw", e.idle_mw, 0.0..=1e6)
    }

    fn check_retries(&self, at: &At<'_>) -> Checked {
        let (means, cycles) = (&self.media.read_retry_mean, &self.media.read_retry_cycles);
        for &mean in means {
            at.range("media.read_retry_mean", mean, 0.0..=20.0)?;
        }
        for &cycles in cycles {
            at.range("media.read_retry_cycles", cycles, 0.0..=1e9)?;
        }
        at.require(
            means.len() == cycles.len() && cycles.is_sorted_by(|left, right| left < right),
            "media.read_retry_cycles",
            format!("{cycles:?}"),
            || format!("must be ascending, and as many as media.read_retry_mean: {}", means.len()),
        )
    }

    fn check_interface(&self, at: &At<'_>) -> Checked {
        let i = &self.interface;
        at.range("interface.link_mb_per_second", i.link_mb_per_second, 0.001..=1e6)?;
        at.range("interface.host_us", i.host_us, 0.0..=MAX_US)?;
        at.range("interface.zone_gap_us", i.zone_gap_us, 0.0..=MAX_US)?;
        let (deepest, most) = match i.kind {
            InterfaceKind::Sata => (32, 1),
            InterfaceKind::Nvme => (65_535, 1_024),
            InterfaceKind::Usb => (1, 1),
        };
        let kind = format!("{:?}", i.kind).to_lowercase();
        at.require(
            (1..=deepest).contains(&i.queue_depth),
            "interface.queue_depth",
            i.queue_depth,
            || format!("must be {} for interface.kind = {kind}", span(1, deepest)),
        )?;
        at.require((1..=most).contains(&i.queues), "interface.queues", i.queues, || {
            format!("must be {} for interface.kind = {kind}", span(1, most))
        })
    }

    fn check_controller(&self, at: &At<'_>) -> Checked {
        let c = &self.controller;
        at.range("controller.read_command_us", c.read_command_us, 0.0..=MAX_US)?;
        at.range("controller.write_command_us", c.write_command_us, 0.0..=MAX_US)?;
        at.range("controller.page_us", c.page_us, 0.0..=MAX_US)?;
        at.range("controller.write_hold_us", c.write_hold_us, 0.0..=MAX_US)?;
        at.range("controller.drain_us", c.drain_us, 0.0..=MAX_US)?;
        at.range("controller.turnaround_us", c.turnaround_us, 0.0..=MAX_US)?;
        at.range("controller.write_gap_us", c.write_gap_us, 0.0..=MAX_US)?;
        at.range("controller.relocation_gap_us", c.relocation_gap_us, 0.0..=MAX_US)?;
        at.range("controller.read_gap_us", c.read_gap_us, 0.0..=MAX_US)?;
        at.range("controller.write_slack_us", c.write_slack_us, 0.0..=MAX_US)?;
        at.range("controller.trickle_gap_us", c.trickle_gap_us, 0.0..=MAX_US)?;
        at.range("controller.trickle_slack_us", c.trickle_slack_us, 0.0..=MAX_US)
    }

    fn check_dram(&self, at: &At<'_>) -> Checked {
        let page = u64::from(self.media.page_bytes);
        for (key, bytes) in [
            ("write_buffer.bytes", self.write_buffer.bytes),
            ("read_cache.bytes", self.read_cache.bytes),
        ] {
            at.require(bytes == 0 || (page..=MAX_DRAM_BYTES).contains(&bytes), key, bytes, || {
                format!("must be 0 for none, or {} (a page to 64 GiB)", span(page, MAX_DRAM_BYTES))
            })?;
        }
        let buffer = &self.write_buffer;
        if buffer.bytes == 0 {
            return Ok(());
        }
        let pages = (buffer.bytes / page) as u32;
        let is_plain = buffer.flush == FlushRule::Eager && buffer.order == FlushOrder::Fifo;
        at.require(buffer.merges || is_plain, "write_buffer.merges", false, || {
            "must be true unless write_buffer.flush is eager and write_buffer.order fifo".to_owned()
        })?;
        let least = u32::from(buffer.flush != FlushRule::Eager);
        at.require(
            (least..=pages).contains(&buffer.flush_pages),
            "write_buffer.flush_pages",
            buffer.flush_pages,
            || format!("must be {}: the buffer holds {pages} pages", span(least, pages)),
        )?;
        at.require(
            buffer.in_flight_pages <= pages,
            "write_buffer.in_flight_pages",
            buffer.in_flight_pages,
            || format!("must be {}: the buffer holds {pages} pages", span(0, pages)),
        )
    }

    fn check_read_ahead(&self, at: &At<'_>) -> Checked {
        let ahead = &self.read_ahead;
        if ahead.detector == Detector::None {
            return Ok(());
        }
        at.range("read_ahead.trigger_requests", ahead.trigger_requests, 1..=1_024)?;
        let page = u64::from(self.media.page_bytes);
        let cache = self.read_cache.bytes;
        at.require(
            (page..=cache).contains(&ahead.window_bytes),
            "read_ahead.window_bytes",
            ahead.window_bytes,
            || {
                format!(
                    "must be at least a page, {page}, and at most read_cache.bytes, {cache}, where \
                     what is read ahead is kept"
                )
            },
        )?;
        if ahead.detector == Detector::Table {
            at.range("read_ahead.streams", ahead.streams, 1..=1_024)
        } else {
            Ok(())
        }
    }

    fn check_ftl(&self, at: &At<'_>) -> Checked {
        let ftl = &self.ftl;
        at.spec(
            "ftl.scheme",
            &ftl.scheme,
            accepted("FTL scheme", SCHEMES, |info| info, &ftl.scheme),
        )?;
        let programs = self.media.pages_per_program;
        at.require(
            programs == 1 || self.is_of_superblocks() || self.zoned().is_some(),
            "media.pages_per_program",
            programs,
            || "must be 1 unless ftl.scheme is superblock_mapped or zoned".to_owned(),
        )?;
        at.spec(
            "ftl.placement",
            &ftl.placement,
            accepted("placement policy", PLACEMENTS, |entry| &entry.info, &ftl.placement),
        )?;
        if !ftl.victim.is_empty() {
            at.spec(
                "ftl.victim",
                &ftl.victim,
                accepted("victim policy", VICTIMS, |info| info, &ftl.victim),
            )?;
        }
        at.range("ftl.over_provisioning", ftl.over_provisioning, 0.001..=100.0)?;
        at.range("ftl.trim_us", ftl.trim_us, 0.0..=MAX_US)?;
        at.range("ftl.trim_page_us", ftl.trim_page_us, 0.0..=MAX_US)?;
        let costs = ftl.trim_us > 0.0 || ftl.trim_page_us > 0.0;
        at.require(!costs || ftl.trim != TrimRule::Free, "ftl.trim", "free", || {
            "must be at_once or lazy where ftl.trim_us or ftl.trim_page_us is above 0".to_owned()
        })?;
        self.check_parity(at)?;
        self.check_windows(at)
    }

    pub(super) fn is_of_superblocks(&self) -> bool {
        registry::Spec::parse(&self.ftl.scheme)
            .is_ok_and(|spec| superblock_mapped::INFO.is_called(&spec.name))
    }

    fn check_slc_cache(&self, at: &At<'_>) -> Checked {
        let slc = &self.slc_cache;
        at.range("slc_cache.bits_per_cell", slc.bits_per_cell, 2..=4)?;
        at.range("slc_cache.keep_free", slc.keep_free, 0.0..=1.0)?;
        at.range("slc_cache.wear", slc.wear, 0.0..=1.0)?;
        at.range("slc_cache.idle_us", slc.idle_us, 1.0..=MAX_US)?;
        let Some(blocks) = self.slc_blocks() else { return Ok(()) };
        let kind = format!("{:?}", slc.kind).to_lowercase();
        at.require(self.is_of_superblocks(), "slc_cache.kind", &kind, || {
            "must be none unless ftl.scheme is superblock_mapped".to_owned()
        })?;
        // A page that leaves the cache has lost its handle.
        at.require(self.fdp.handles == 0, "slc_cache.kind", &kind, || {
            "must be none with fdp.handles above 0".to_owned()
        })?;
        for (key, time) in [
            ("slc_cache.read_us", slc.read_us),
            ("slc_cache.program_us", slc.program_us),
            ("slc_cache.erase_us", slc.erase_us),
        ] {
            at.range(key, time, 0.001..=MAX_US)?;
        }
        let pages = self.media.pages_per_erase_block;
        at.require(blocks.word_lines > 0, "media.pages_per_erase_block", pages, || {
            format!("must be at least a word line, {} pages", blocks.per_word_line)
        })?;
        if slc.kind == SlcCacheKind::Static {
            let least = self.slc_superblock_pages() * u64::from(self.media.page_bytes);
            let count = self.slc_superblocks();
            let most = self.media.erase_blocks_per_plane / 2;
            at.require((1..=most).contains(&count), "slc_cache.bytes", slc.bytes, || {
                let most = u64::from(most) * least;
                format!("must be {}: 1 superblock to half of all", span(least, most))
            })?;
        }
        Ok(())
    }

    fn check_space(&self, at: &At<'_>) -> Checked {
        let logical = self.logical_pages();
        at.require(logical > 0, "ftl.over_provisioning", self.ftl.over_provisioning, || {
            "must leave at least one logical page".to_owned()
        })?;
        let good = self.data_pages() as f64 * (1.0 - self.media.factory_bad_share);
        let spare = 1.0 - f64::from(logical) / good;
        at.require(spare > 0.0, "media.factory_bad_share", self.media.factory_bad_share, || {
            let most = self.ftl.over_provisioning / (1.0 + self.ftl.over_provisioning);
            format!(
                "must be below {most:.4}, or ftl.over_provisioning larger: the good erase blocks \
                 do not hold all logical pages"
            )
        })?;
        let c = &self.cleaning;
        at.range("cleaning.start_below_free", c.start_below_free, 0.0..=0.5)?;
        at.require(
            c.start_below_free < spare,
            "cleaning.start_below_free",
            c.start_below_free,
            || {
                format!(
                    "must be below {spare:.4}, or ftl.over_provisioning larger: a full drive has \
                     no more free, and would always clean"
                )
            },
        )?;
        at.range("cleaning.background_below_free", c.background_below_free, 0.0..=1.0)?;
        // Without a least time a busy die would be checked again and again, and no time would pass.
        let least_idle = if c.background_below_free > 0.0 { 1.0 } else { 0.0 };
        at.range("cleaning.idle_us", c.idle_us, least_idle..=MAX_US)?;
        at.range("cleaning.burst_stripes", c.burst_stripes, 0.0..=1e6)?;
        let can_occupy = !c.occupies_die || self.is_page_mapped();
        at.require(can_occupy, "cleaning.occupies_die", true, || {
            "must be false unless ftl.scheme is page_mapped".to_owned()
        })?;
        let is_paced = c.pace == CleaningPace::Credits;
        at.require(!is_paced || self.is_of_superblocks(), "cleaning.pace", "credits", || {
            "must be burst unless ftl.scheme is superblock_mapped".to_owned()
        })?;
        at.require(!is_paced || c.start_below_free > 0.0, "cleaning.start_below_free", 0, || {
            "must be above 0 where cleaning.pace is credits: from there on host writes earn them"
                .to_owned()
        })
    }

    fn check_wear(&self, at: &At<'_>) -> Checked {
        let w = &self.wear_levelling;
        at.range("wear_levelling.life_below", w.life_below, 0.0..=1.0)?;
        at.range("wear_levelling.spread_above", w.spread_above, 0.0..=10.0)?;
        at.range("wear_levelling.age_cycles", w.age_cycles, 2.0..=1e6)?;
        at.range("wear_levelling.age_every", w.age_every, 1..=1_000_000)?;
        at.require(
            matches!(w.static_rule, StaticRule::None | StaticRule::Age)
                || self.media.endurance_cycles > 0,
            "media.endurance_cycles",
            0,
            || {
                "must be above 0 where wear_levelling.static_rule goes by the life that remains"
                    .to_owned()
            },
        )
    }
}

/// Source of the profile: it begins every error.
pub(super) struct At<'a> {
    place: &'a str,
}

impl At<'_> {
    pub(super) fn require(
        &self,
        holds: bool,
        key: &str,
        value: impl Display,
        right: impl FnOnce() -> String,
    ) -> Checked {
        if holds {
            return Ok(());
        }
        Err(ProfileError::BadValue {
            place: self.place.to_owned(),
            key: key.to_owned(),
            value: value.to_string(),
            right: right(),
        })
    }

    pub(super) fn range<T: PartialOrd + Display + Copy>(
        &self,
        key: &str,
        value: T,
        range: RangeInclusive<T>,
    ) -> Checked {
        self.require(range.contains(&value), key, value, || {
            format!("must be {}", span(*range.start(), *range.end()))
        })
    }

    fn spec(&self, key: &str, value: &str, checked: Result<(), SpecError>) -> Checked {
        checked
            .or_else(|error| self.require(false, key, format!("\"{value}\""), || error.to_string()))
    }
}

fn span<T: PartialEq + Display + Copy>(least: T, most: T) -> String {
    if least == most { format!("{least}") } else { format!("from {least} to {most}") }
}

fn accepted<T>(
    kind: &'static str,
    entries: &[T],
    info: impl Fn(&T) -> &Info,
    text: &str,
) -> Result<(), SpecError> {
    let spec = Spec::parse(text)?;
    let entry = registry::find(kind, entries, &info, &spec)?;
    info(entry).accept(&spec).map(|_| ())
}
