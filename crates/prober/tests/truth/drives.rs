//! Random simulated drives whose inside is known, and what the prober says of them.

#![allow(dead_code, reason = "the test and the program each use a part of this")]

use block::BlockDevice as _;

use devices::{Simulated, SimulatedSettings};
use prober::{Bench, Known, Region, Settings, Verdict};
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use ssd::drive::profile::{self, Detector, FlushRule, InterfaceKind, Profile};
use ssd::drive::state::State;
use units::Progress;

/// A drive, and what is true of it.
#[derive(Clone, Debug)]
pub struct Drive {
    pub seed: u64,
    pub profile: Profile,
    pub state: State,
    pub chunk_bytes: u64,
    pub domains: u64,
    pub sub_domains: u64,
    pub is_static: bool,
}

/// Answer to one question.
#[derive(Clone, Debug)]
pub struct Said {
    pub text: String,
    pub is_right: bool,
    pub is_sure: bool,
    pub why: String,
}

/// Answers on a drive.
#[derive(Clone, Debug)]
pub struct Answers {
    pub chunk: Said,
    /// By the definition of the experiment: where channels leave no trace, dies count as domains.
    pub degree: Said,
    /// Channels and dies on each, traces or not.
    pub layout: Said,
    pub mapping: Said,
    pub units: Said,
    pub page: Said,
    pub notes: Vec<String>,
}

fn pick<T: Copy>(random: &mut Pcg64Mcg, from: &[T]) -> T {
    *from.choose(random).expect("there is something to choose from")
}

/// Evenly over the logarithm.
fn between(random: &mut Pcg64Mcg, low: f64, high: f64) -> f64 {
    (random.random_range(low.ln()..=high.ln()).exp() * 100.0).round() / 100.0
}

impl Drive {
    /// Drive number `number` of a campaign: chunk sizes and mappings take turns, everything else is
    /// drawn.
    ///
    /// Sizes and speeds belong together as they did on the market: small pages with slow channels
    /// and SATA, large ones with faster channels and SATA or NVMe. In about one of twelve, channels
    /// are faster than the link to the host.
    #[must_use]
    pub fn random(number: u64, campaign: u64, noise: f64) -> Self {
        let seed = campaign.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number;
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let random = &mut random;
        let chunk_bytes = 512_u32 << (number % 8);
        let is_static = number / 8 % 2 == 1;
        let pages: Vec<u32> =
            (9..=14).map(|power| 1 << power).filter(|&page| page <= chunk_bytes).collect();
        let page_bytes = pick(random, &pages);
        let (domains, sub_domains) = (random.random_range(2..=16), random.random_range(1..=4));
        let mut profile = profile::load("a16").expect("a built-in profile");
        profile.name = format!("random-{number}");
        media(random, &mut profile, page_bytes, domains, sub_domains, noise);
        interface(random, &mut profile);
        dram(random, &mut profile);
        ftl(random, &mut profile, chunk_bytes / page_bytes, is_static);
        profile
            .check()
            .unwrap_or_else(|error| panic!("drive {number} of campaign {campaign}: {error}"));
        let overwrites = f64::from(random.random_range(1..=3_u32)) / 2.0;
        let state =
            pick(random, &[State::Filled, State::Filled, State::Fresh, State::Aged { overwrites }]);
        let [chunk_bytes, domains, sub_domains] =
            [chunk_bytes, domains, sub_domains].map(u64::from);
        Self { seed, profile, state, chunk_bytes, domains, sub_domains, is_static }
    }

    /// Returns true if a channel takes longer for a page than the link to the host: otherwise two
    /// reads on one channel wait for nothing that they would not wait for anyway.
    #[must_use]
    pub fn are_channels_seen(&self) -> bool {
        let media = &self.profile.media;
        media.channel_mt_per_second * f64::from(media.channel_bits) / 8.0
            < self.profile.interface.link_mb_per_second
    }

    /// Runs the experiments on it.
    #[must_use]
    pub fn probe(&self, budget_seconds: u64) -> Answers {
        let progress = Progress::default();
        let settings = SimulatedSettings { state: self.state, seed: self.seed };
        let mut device =
            Simulated::new("sim", &self.profile, settings, &progress).expect("a checked profile");
        let sector = u64::from(device.info().limits.sector_bytes);
        let region = Region {
            offset: 0,
            length: device.info().limits.capacity_bytes.min(256 << 20) / sector * sector,
        };
        let settings = Settings {
            region,
            seed: self.seed,
            may_write: true,
            budget: budget_seconds * 1_000_000_000,
        };
        let mut bench = Bench::new(&mut device, settings, &progress);
        let mut known = Known::default();
        let mut notes = Vec::new();
        for name in ["chunk_size", "interleaving", "mapping"] {
            let (experiment, args) = prober::find(name).expect("a known experiment");
            let finding =
                experiment.run(&mut bench, &args, &known).expect("a simulated drive does not fail");
            notes.extend(finding.notes.iter().cloned());
            known.add(finding);
        }
        self.compare(&known, notes)
    }

    fn compare(&self, known: &Known, notes: Vec<String>) -> Answers {
        let say = |keys: &[&str], truth: &[String]| {
            let all: Vec<_> = known
                .findings()
                .iter()
                .flat_map(|finding| &finding.values)
                .filter(|value| keys.contains(&value.key.as_str()))
                .collect();
            let of = |key: &str| {
                let value = all.iter().find(|value| value.key == key)?;
                value.word.clone().or(value.number.map(|number| number.to_string()))
            };
            let said: Vec<String> =
                keys.iter().map(|key| of(key).unwrap_or_else(|| "-".to_owned())).collect();
            Said {
                is_right: said == truth,
                is_sure: !all.is_empty() && all.iter().all(|value| value.verdict == Verdict::Sure),
                why: all.first().map_or_else(String::new, |value| value.why.clone()),
                text: said.join(" x "),
            }
        };
        let numbers = |numbers: &[u64]| numbers.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mapping = if self.is_static { "lba" } else { "write_order" };
        let layout = say(&["domains", "sub_domains"], &numbers(&[self.domains, self.sub_domains]));
        let by_units =
            say(&["domains", "sub_domains"], &numbers(&[self.domains * self.sub_domains, 1]));
        let is_right = layout.is_right || (!self.are_channels_seen() && by_units.is_right);
        Answers {
            chunk: say(&["chunk_bytes"], &numbers(&[self.chunk_bytes])),
            degree: Said { is_right, ..layout.clone() },
            layout,
            units: say(&["parallel_units"], &numbers(&[self.domains * self.sub_domains])),
            page: say(&["page_bytes"], &numbers(&[u64::from(self.profile.media.page_bytes)])),
            mapping: say(&["mapping"], &[mapping.to_owned()]),
            notes,
        }
    }

    /// One line that says what it is.
    #[must_use]
    pub fn line(&self) -> String {
        let Profile {
            media, interface, controller, write_buffer, read_cache, read_ahead, ftl, ..
        } = &self.profile;
        format!(
            "chunk {} page {} {}x{} planes {} {} | tR {:?} tP {:?} {} MT/s cmd {} cache {} mp {} \
             noise {} | {:?} {} MB/s host {} read cmd {} page {} | buffer {} {:?} cache {} ahead \
             {:?} | op {} {:?}",
            self.chunk_bytes,
            media.page_bytes,
            self.domains,
            self.sub_domains,
            media.planes_per_die,
            ftl.scheme,
            media.read_us,
            media.program_us,
            media.channel_mt_per_second,
            media.command_us,
            media.cache_mode,
            media.multi_plane,
            media.time_noise,
            interface.kind,
            interface.link_mb_per_second,
            interface.host_us,
            controller.read_command_us,
            controller.page_us,
            write_buffer.bytes,
            write_buffer.flush,
            read_cache.bytes,
            read_ahead.detector,
            ftl.over_provisioning,
            self.state,
        )
    }
}

fn media(
    random: &mut Pcg64Mcg,
    profile: &mut Profile,
    page_bytes: u32,
    channels: u32,
    dies: u32,
    noise: f64,
) {
    let media = &mut profile.media;
    (media.channels, media.packages_per_channel, media.dies_per_package) = (channels, dies, 1);
    if dies.is_multiple_of(2) && random.random() {
        (media.packages_per_channel, media.dies_per_package) = (dies / 2, 2);
    }
    media.page_bytes = page_bytes;
    media.planes_per_die = pick(random, &[1, 1, 2, 4]);
    media.multi_plane = random.random();
    media.cache_mode = random.random();
    media.copy_back = random.random();
    media.suspend = random.random_bool(0.2);
    media.suspend_us = 10.0;
    media.time_noise = noise;
    let (types, read, program) = match page_bytes {
        ..=2048 => (1, between(random, 12.0, 50.0), between(random, 150.0, 400.0)),
        4096 => {
            (pick(random, &[1, 2, 3]), between(random, 25.0, 75.0), between(random, 200.0, 1000.0))
        }
        _ => (pick(random, &[2, 3]), between(random, 40.0, 100.0), between(random, 400.0, 1500.0)),
    };
    let spread = random.random_range(0.0..0.25);
    let by_type = |mean: f64, spread: f64| -> Vec<f64> {
        (0..types)
            .map(|kind| {
                mean * (1.0
                    + spread
                        * (2.0 * f64::from(kind) / f64::from((types - 1).max(1)) - 1.0)
                        * f64::from(u8::from(types > 1)))
            })
            .collect()
    };
    media.read_us = by_type(read, spread);
    media.program_us = by_type(program, 2.0 * spread);
    media.erase_us = between(random, 1000.0, 5000.0);
    media.command_us = between(random, 0.1, 2.0);
    media.channel_bits = 8;
    media.channel_mt_per_second = match page_bytes {
        ..=2048 => between(random, 20.0, 66.0),
        4096 => between(random, 40.0, 200.0),
        _ => between(random, 100.0, 800.0),
    };
    media.pages_per_erase_block = pick(random, &[32, 64, 128]);
    let block = u64::from(media.pages_per_erase_block * page_bytes);
    let planes = u64::from(channels * dies * media.planes_per_die);
    let bytes = pick(random, &[128_u64 << 20, 256 << 20, 512 << 20]);
    media.erase_blocks_per_plane = ((bytes / block / planes) as u32).max(32);
    if bytes / u64::from(page_bytes) > 1 << 18 {
        // Small pages make many: a smaller drive does.
        media.erase_blocks_per_plane = (((64 << 20) / block / planes) as u32).max(32);
    }
}

fn interface(random: &mut Pcg64Mcg, profile: &mut Profile) {
    let page = profile.media.page_bytes;
    let channel = profile.media.channel_mt_per_second;
    let interface = &mut profile.interface;
    let controller = &mut profile.controller;
    let is_nvme = page >= 4096 && random.random();
    if is_nvme {
        (interface.kind, interface.queues, interface.queue_depth) =
            (InterfaceKind::Nvme, pick(random, &[1, 4, 8]), 256);
        interface.link_mb_per_second = between(random, 1500.0, 7000.0);
        interface.host_us = between(random, 3.0, 10.0);
        controller.read_command_us = between(random, 0.2, 3.0);
        controller.page_us = pick(random, &[0.0, 0.2, 0.4]);
    } else {
        (interface.kind, interface.queues, interface.queue_depth) = (InterfaceKind::Sata, 1, 32);
        let links: &[f64] = match page {
            ..=1024 => &[130.0, 270.0],
            2048 | 4096 => &[270.0, 550.0],
            _ => &[550.0],
        };
        interface.link_mb_per_second = pick(random, links);
        interface.host_us = between(random, 5.0, 40.0);
        interface.read_frames_us = between(random, 0.5, 5.0);
        interface.write_frames_us = interface.read_frames_us;
        controller.read_command_us = between(random, 1.0, 10.0);
        controller.page_us = pick(random, &[0.0, 0.5, 1.0]);
    }
    let link = interface.link_mb_per_second;
    if random.random_bool(0.08) {
        profile.media.channel_mt_per_second = (link * random.random_range(1.1..3.0)).round();
    } else if channel > 0.8 * link {
        profile.media.channel_mt_per_second = (link * random.random_range(0.2..0.8)).round();
    }
    controller.write_command_us = controller.read_command_us;
    controller.turnaround_us = pick(random, &[0.0, 5.0]);
    controller.writes_wait_for_reads = random.random_bool(0.3);
}

fn dram(random: &mut Pcg64Mcg, profile: &mut Profile) {
    let page = u64::from(profile.media.page_bytes);
    let buffer = &mut profile.write_buffer;
    buffer.bytes = pick(random, &[0, 16, 64, 512]) * page;
    if buffer.bytes > 0 {
        buffer.flush = pick(
            random,
            &[FlushRule::Eager, FlushRule::Eager, FlushRule::WhenFull, FlushRule::Batches],
        );
        buffer.flush_pages = pick(random, &[1, 4, 8]);
        buffer.in_flight_pages = pick(random, &[0, 4, 16]);
    }
    profile.read_cache.bytes = pick(random, &[0, 256 << 10, 1 << 20, 4 << 20]);
    let ahead = &mut profile.read_ahead;
    if profile.read_cache.bytes > 0 {
        ahead.detector = pick(random, &[Detector::None, Detector::LastRequest, Detector::Table]);
        // At 1 every read would fetch ahead, which no drive does.
        ahead.trigger_requests = random.random_range(2..=4);
        ahead.window_bytes = pick(random, &[32 << 10, 128 << 10]);
        ahead.streams = 8;
    } else {
        ahead.detector = Detector::None;
    }
}

fn ftl(random: &mut Pcg64Mcg, profile: &mut Profile, chunk_pages: u32, is_static: bool) {
    let allocation = if is_static { "static" } else { "dynamic" };
    profile.ftl.scheme = format!("page_mapped(allocation={allocation},chunk_pages={chunk_pages})");
    profile.ftl.over_provisioning = between(random, 0.15, 0.5);
    // Random writes fill planes unevenly by chance. In a real drive a plane holds so many chunks
    // that this is nothing; in one as small as these a plane would run full and be passed over, and
    // then the order of writes says little indeed.
    let media = &profile.media;
    let plane_pages = f64::from(media.erase_blocks_per_plane * media.pages_per_erase_block);
    let is_tight = |over_provisioning: f64| {
        let logical = plane_pages / (1.0 + over_provisioning);
        let spare = plane_pages - logical - 4.0 * f64::from(media.pages_per_erase_block);
        let chunks = f64::from(chunk_pages);
        spare / chunks < 4.0 * (logical / chunks).sqrt() + 4.0
    };
    while is_tight(profile.ftl.over_provisioning) {
        profile.ftl.over_provisioning += 0.05;
    }
    let cleaning = &mut profile.cleaning;
    cleaning.start_below_free = pick(random, &[0.0, 0.02]);
    cleaning.background_below_free = pick(random, &[0.0, 0.05]);
    cleaning.idle_us = 50_000.0;
}
