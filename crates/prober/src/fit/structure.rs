//! Structure of a drive, as experiments found it: it is put into a profile, and kept there.

use ssd::drive::profile::{Detector, Profile, ReadAheadConfig};

use super::scheme::Scheme;
use super::solve::tidy;
use crate::finding::{Value, Verdict};
use crate::known::Known;

/// Findings on the structure, as far as they can be used.
#[derive(Clone, Debug, Default)]
pub(super) struct Structure {
    domains: Option<Found>,
    sub_domains: Option<Found>,
    /// Units that work side by side in all: dies.
    units: Option<Found>,
    page_bytes: Option<Found>,
    chunk_bytes: Option<Found>,
    is_by_address: Option<(bool, bool)>,
    buffer_bytes: Option<Found>,
    logs: Option<Found>,
    /// Capacity of logs that are common to all, without the write buffer, in bytes.
    log_bytes: Option<u64>,
    /// Rate at which flash takes their data, in bytes per second.
    pub log_rate: Option<f64>,
    erase_block_bytes: Option<Found>,
    window_bytes: Option<Found>,
    cache_bytes: Option<Found>,
    streams: Option<Found>,
    /// True if a drive with log blocks takes writes to its logs in ascending order only; false for
    /// any order.
    is_ascending: bool,
    /// Properties that were looked for, and not found.
    has_no_logs: bool,
    has_no_buffer: bool,
    has_no_read_ahead: bool,
    has_no_cache: bool,
    /// Findings that could not be used, and why.
    pub notes: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    value: u64,
    is_sure: bool,
}

impl Structure {
    /// Takes the usable findings. Those out of range are noted and left out.
    pub fn of(known: &Known) -> Self {
        let mut notes = Vec::new();
        let mut number = |key: &str, least: f64, most: f64| {
            let value = known.value(key)?;
            let is_sure = value.verdict == Verdict::Sure;
            let number = value.number?;
            if !number.is_finite() || number < least || number > most {
                notes.push(format!(
                    "{key} = {number} was found, which no profile can have ({least} to {most}): it \
                     is not used"
                ));
                return None;
            }
            Some(Found { value: number.round() as u64, is_sure })
        };
        let mut structure = Self {
            domains: number("domains", 1.0, 64.0),
            sub_domains: number("sub_domains", 1.0, 16.0),
            units: number("parallel_units", 1.0, 1024.0),
            page_bytes: number("page_bytes", 512.0, 65_536.0),
            chunk_bytes: number("chunk_bytes", 512.0, 16e6),
            buffer_bytes: number("write_buffer_bytes", 0.0, 6e10)
                .map(|found| memory(found, known.value("write_buffer_bytes"))),
            logs: number("log_blocks", 1.0, 65_536.0),
            erase_block_bytes: number("superblock_bytes", 1024.0, 1e9).or(number(
                "erase_block_bytes",
                1024.0,
                1e9,
            )),
            window_bytes: number("read_ahead_window_bytes", 0.0, 6e10),
            cache_bytes: number("read_cache_bytes", 0.0, 6e10),
            streams: number("read_ahead_streams", 1.0, 1e4),
            is_ascending: known.word("log_order") == Some("ascending"),
            has_no_logs: is_missing(known, "log_blocks")
                && known.value("mapping").is_some()
                && known.value("log_bytes").is_none(),
            // One that flash empties as fast as it is filled has no size, but is one.
            has_no_buffer: is_missing(known, "write_buffer_bytes")
                && known.word("writes_are_buffered") != Some("yes"),
            has_no_read_ahead: is_missing(known, "read_ahead_window_bytes"),
            has_no_cache: is_missing(known, "read_cache_bytes"),
            ..Self::default()
        };
        // What the buffer took in was absorbed, too.
        let buffered = structure.buffer_bytes.map_or(0, |found| found.value);
        let absorbed = known.number("log_bytes").map(|bytes| bytes - buffered as f64);
        structure.log_bytes = absorbed
            .filter(|bytes| (LEAST_LOG_BYTES..6e10).contains(bytes))
            .map(|bytes| bytes as u64);
        structure.log_rate = known
            .number("log_write_bytes_per_second")
            .filter(|rate| rate.is_finite() && *rate > 0.0);
        if let Some(value) = known.value("mapping") {
            let is_sure = value.verdict == Verdict::Sure;
            match value.word.as_deref() {
                Some("lba") => structure.is_by_address = Some((true, is_sure)),
                Some("write_order") => structure.is_by_address = Some((false, is_sure)),
                other => notes.push(format!(
                    "mapping = {} is neither lba nor write_order: it is not used",
                    other.unwrap_or("nothing")
                )),
            }
        }
        if let Some(chunk) = structure.chunk_bytes.filter(|chunk| !chunk.value.is_multiple_of(512))
        {
            notes.push(format!(
                "chunk_bytes = {} is not of whole sectors of 512 bytes: it is not used",
                chunk.value
            ));
            structure.chunk_bytes = None;
        }
        structure.notes = notes;
        structure
    }

    /// The same without what is a guess of how the media are made up: reads tell better which of
    /// the starts is right.
    pub fn without_guesses(&self) -> Self {
        let sure = |found: Option<Found>| found.filter(|found| found.is_sure);
        let mut without = self.clone();
        let Self { page_bytes, chunk_bytes, domains, sub_domains, units, .. } = &mut without;
        for found in [page_bytes, chunk_bytes, domains, sub_domains, units] {
            *found = sure(*found);
        }
        without
    }

    /// The profile with all that was found. What cannot be brought together with the rest is left
    /// as it was.
    pub fn put(&self, profile: &Profile) -> Profile {
        let mut changed = profile.clone();
        let mut attempt = |change: &dyn Fn(&mut Profile)| {
            let mut tried = changed.clone();
            change(&mut tried);
            tidy(&mut tried);
            if tried.check().is_ok() {
                changed = tried;
            }
        };
        if let Some(found) = self.page_bytes.filter(|found| found.value.is_multiple_of(512)) {
            attempt(&|profile| pages(profile, found.value));
        }
        if let Some(found) = self.chunk_bytes {
            attempt(&|profile| chunk(profile, found.value));
        }
        attempt(&|profile| self.family(profile));
        if let Some((is_by_address, _)) = self.is_by_address {
            attempt(&|profile| mapping(profile, is_by_address));
        }
        if let Some(found) = self.domains {
            attempt(&|profile| profile.media.channels = found.value as u32);
        }
        if let Some(found) = self.sub_domains {
            attempt(&|profile| {
                profile.media.packages_per_channel = found.value as u32;
                profile.media.dies_per_package = 1;
            });
        }
        if let (None, Some(found)) = (self.domains, self.units) {
            attempt(&|profile| dies(profile, found.value as u32));
        }
        if let Some(found) = self.buffer_bytes {
            attempt(&|profile| profile.write_buffer.bytes = found.value);
        }
        if self.has_no_buffer {
            attempt(&|profile| profile.write_buffer.bytes = 0);
        }
        if let Some(found) = self.logs {
            attempt(&|profile| {
                let mut scheme = Scheme::of(profile);
                if scheme.is_log_block() {
                    scheme.logs = found.value as u32;
                    scheme.put(profile);
                }
            });
        }
        if self.erase_block_bytes.is_none() && self.has_no_logs {
            // Fewer pages are of old log-block drives.
            attempt(&|profile| {
                if profile.media.pages_per_erase_block < 64 {
                    profile.media.pages_per_erase_block = 128;
                }
            });
        }
        if let Some(found) = self.erase_block_bytes {
            attempt(&|profile| {
                if !self.has_geometry() {
                    fewer_planes(profile, found.value);
                }
                // What shows from outside is what is erased together: a superblock.
                let layout = profile.layout();
                let scheme = Scheme::of(profile);
                let wide = if !scheme.is_log_block() || scheme.interleave == 0 {
                    layout.planes()
                } else {
                    scheme.interleave
                };
                let pages = found.value / u64::from(profile.media.page_bytes) / u64::from(wide);
                profile.media.pages_per_erase_block = pages as u32;
            });
        }
        attempt(&|profile| self.read_ahead(profile));
        changed
    }

    /// Returns true if it is known what works side by side. Reads alone, one at a time, do not
    /// tell.
    pub fn has_geometry(&self) -> bool {
        self.domains.is_some()
    }

    /// Bytes that logs common to all hold, if random writes were absorbed in that many.
    pub fn log_bytes(&self) -> Option<u64> {
        self.log_bytes
            .filter(|_| self.logs.is_none() && !matches!(self.is_by_address, Some((false, true))))
    }

    /// Gives the number of channels, sure or not.
    pub fn channels(&self) -> Option<u32> {
        self.domains.map(|found| found.value as u32)
    }

    /// Log blocks where some were counted, and none where none were seen.
    fn family(&self, profile: &mut Profile) {
        let scheme = Scheme::of(profile);
        if let Some(logs) = self.logs
            && (!scheme.is_log_block() || self.is_ascending != (scheme.name == "block_mapped"))
        {
            let name = if self.is_ascending { "block_mapped" } else { "bast" };
            if scheme.name != "fast" || self.is_ascending {
                Scheme::with_logs(name, logs.value as u32, 0).put(profile);
                profile.cleaning.start_below_free = 0.0;
                profile.cleaning.background_below_free = 0.0;
            }
        } else if self.has_no_logs && scheme.is_log_block() {
            Scheme::page_mapped("dynamic", 1).put(profile);
        }
    }

    /// A guess at what is read ahead or kept is no better than that of a start, and may be far off:
    /// only what is sure is taken.
    fn read_ahead(&self, profile: &mut Profile) {
        let sure =
            |found: Option<Found>| found.filter(|found| found.is_sure).map(|found| found.value);
        if let Some(bytes) = sure(self.cache_bytes) {
            profile.read_cache.bytes = bytes;
        } else if self.has_no_cache {
            profile.read_cache.bytes = 0;
        }
        if let Some(bytes) = sure(self.window_bytes).filter(|&bytes| bytes > 0) {
            let ahead = &mut profile.read_ahead;
            ahead.window_bytes = bytes;
            ahead.trigger_requests = ahead.trigger_requests.max(2);
            match sure(self.streams) {
                Some(1) => ahead.detector = Detector::LastRequest,
                Some(streams) => {
                    (ahead.detector, ahead.streams) = (Detector::Table, streams as u32);
                }
                None if ahead.detector == Detector::None => ahead.detector = Detector::LastRequest,
                None => {}
            }
        } else if self.has_no_read_ahead {
            profile.read_ahead = ReadAheadConfig::default();
        }
    }

    /// Returns true if the value of this key is sure, so that it need not be fitted.
    pub fn is_sure_of(&self, key: &str) -> bool {
        let sure = |found: Option<Found>| found.is_some_and(|found| found.is_sure);
        match key {
            "read_ahead.window_bytes" => sure(self.window_bytes),
            "read_cache.bytes" => sure(self.cache_bytes),
            "write_buffer.bytes" => sure(self.buffer_bytes),
            _ => false,
        }
    }

    fn keeps_family(&self, to: &Profile) -> bool {
        let scheme = Scheme::of(to);
        let is_logged = scheme.is_log_block();
        let keeps_mapping = match self.is_by_address {
            Some((is_by_address, true)) if self.has_no_logs => {
                !is_logged && is_by_address == (scheme.allocation == "static")
            }
            _ => true,
        };
        keeps_mapping
            && (self.logs.is_none()
                || (is_logged && (!self.is_ascending || scheme.name == "block_mapped")))
    }

    fn keeps_read_ahead(&self, a: &Profile, b: &Profile) -> bool {
        let is_same = a.read_ahead.detector == b.read_ahead.detector
            && a.read_ahead.window_bytes == b.read_ahead.window_bytes;
        !self.is_sure_of("read_ahead.window_bytes") || is_same
    }

    /// Returns true if a change keeps to the sure findings. Only those are checked that the search
    /// would otherwise change.
    pub fn allows(&self, from: &Profile, to: &Profile) -> bool {
        let sure = |found: Option<Found>| found.is_some_and(|found| found.is_sure);
        let (a, b) = (&from.media, &to.media);
        let ways =
            |m: &ssd::drive::profile::MediaConfig| m.packages_per_channel * m.dies_per_package;
        let keeps_buffer =
            !sure(self.buffer_bytes) || from.write_buffer.bytes == to.write_buffer.bytes;
        let keeps_logs = !sure(self.logs)
            || !Scheme::of(to).is_log_block()
            || Scheme::of(from).logs == Scheme::of(to).logs;
        let is_small =
            |profile: &Profile| u64::from(profile.media.pages_per_erase_block) < FEWEST_PAGES;
        let keeps_blocks =
            !sure(self.erase_block_bytes) || self.has_geometry() || is_small(from) || !is_small(to);
        keeps_blocks
            && (!sure(self.page_bytes) || a.page_bytes == b.page_bytes)
            && (!sure(self.domains) || a.channels == b.channels)
            && (!sure(self.sub_domains) || ways(a) == ways(b))
            && (!sure(self.units) || a.channels * ways(a) == b.channels * ways(b))
            && keeps_buffer
            && self.keeps_family(to)
            && self.keeps_read_ahead(from, to)
            && (!self.is_sure_of("read_cache.bytes") || from.read_cache == to.read_cache)
            && keeps_logs
    }
}

/// A memory that was found. They come in powers of two, and what was measured is a little less or
/// more; one that is not sure may be as far off as its interval says.
fn memory(found: Found, measured: Option<&Value>) -> Found {
    const NEAR: std::ops::Range<f64> = 0.93..1.04;
    let interval = measured.filter(|_| !found.is_sure).and_then(|measured| measured.interval);
    let is_near = |whole: u64| match interval {
        Some([low, high]) => (low..=high).contains(&(whole as f64)),
        None => NEAR.contains(&(found.value as f64 / whole as f64)),
    };
    let above = found.value.next_power_of_two();
    let wholes = if found.value.saturating_mul(3) < above * 2 {
        [above / 2, above]
    } else {
        [above, above / 2]
    };
    Found {
        value: wholes.into_iter().find(|&whole| is_near(whole)).unwrap_or(found.value),
        ..found
    }
}

fn is_missing(known: &Known, key: &str) -> bool {
    let value = known
        .findings()
        .iter()
        .rev()
        .flat_map(|finding| &finding.values)
        .find(|value| value.key == key);
    value.is_some_and(|value| value.verdict == Verdict::NotFound)
}

/// Fewer bytes that are absorbed are no logs.
const LEAST_LOG_BYTES: f64 = 1e6;

/// Pages of the smallest erase blocks that drives of these interfaces had, and of usual ones, which
/// are begun with.
const FEWEST_PAGES: u64 = 32;
const USUAL_PAGES: u64 = 64;

/// No more dies side by side than superblocks of these bytes have room for, where requests one at a
/// time do not tell how many there are. What the channels do together stays.
fn fewer_planes(profile: &mut Profile, superblock_bytes: u64) {
    let scheme = Scheme::of(profile);
    if !scheme.is_log_block() || scheme.interleave != 0 {
        return;
    }
    while u64::from(profile.layout().planes()) * USUAL_PAGES * u64::from(profile.media.page_bytes)
        > superblock_bytes
    {
        let m = &mut profile.media;
        if m.channels > 1 {
            m.channels /= 2;
            m.channel_mt_per_second = (m.channel_mt_per_second * 2.0).min(1e5);
        } else if let Some(count) =
            [&mut m.packages_per_channel, &mut m.dies_per_package, &mut m.planes_per_die]
                .into_iter()
                .find(|count| **count > 1)
        {
            *count /= 2;
        } else {
            return;
        }
    }
}

/// So many dies, on as many of the channels as they can be divided between evenly.
fn dies(profile: &mut Profile, dies: u32) {
    let m = &mut profile.media;
    if m.channels * m.packages_per_channel * m.dies_per_package != dies {
        m.channels =
            (1..=m.channels).rev().find(|&channels| dies.is_multiple_of(channels)).unwrap_or(1);
        (m.packages_per_channel, m.dies_per_package) = (dies / m.channels, 1);
    }
}

/// Pages of the drive are at most a chunk; a chunk is whole pages.
fn chunk(profile: &mut Profile, bytes: u64) {
    let old = u64::from(profile.media.page_bytes);
    if bytes < old || !bytes.is_multiple_of(old) {
        // The largest page that divides the chunk.
        let page = (0..8)
            .map(|power| 65_536_u64 >> power)
            .find(|page| bytes.is_multiple_of(*page) && *page <= old)
            .unwrap_or(512);
        pages(profile, page);
    }
    let mut scheme = Scheme::of(profile);
    if !scheme.is_log_block() {
        scheme.chunk_pages = (bytes / u64::from(profile.media.page_bytes)) as u32;
        scheme.put(profile);
    }
}

/// Other pages in erase blocks of the same size.
fn pages(profile: &mut Profile, bytes: u64) {
    let m = &mut profile.media;
    m.pages_per_erase_block = (u64::from(m.pages_per_erase_block) * u64::from(m.page_bytes) / bytes)
        .clamp(2, 4096) as u32;
    m.page_bytes = bytes as u32;
}

fn mapping(profile: &mut Profile, is_by_address: bool) {
    let mut scheme = Scheme::of(profile);
    if scheme.is_log_block() {
        return;
    }
    let is_static = scheme.allocation == "static";
    if is_by_address != is_static {
        scheme.allocation = if is_by_address { "static" } else { "dynamic" }.to_owned();
        scheme.put(profile);
    }
}
