//! Random simulated drives that map by erase blocks, and drives with every rule of a write buffer:
//! what the prober says of superblocks, logs and buffers.

#![allow(dead_code, reason = "the test and the program each use a part of this")]

use block::BlockDevice as _;

use devices::{Simulated, SimulatedSettings};
use prober::{Bench, Known, Region, Settings, Value, Verdict};
use rand::SeedableRng as _;
use rand::seq::IndexedRandom as _;
use rand_pcg::Pcg64Mcg;
use ssd::drive::profile::{self, Profile};
use ssd::drive::state::State;
use units::Progress;

/// Experiments, in the order of a probe.
const EXPERIMENTS: [&str; 4] = ["write_buffer", "erase_block_size", "focused", "logs"];

/// Largest relative error of a buffer's size.
const OF_BUFFER: f64 = 0.25;

/// A drive, and what is true of it.
#[derive(Clone, Debug)]
pub struct Hybrid {
    pub number: u64,
    seed: u64,
    pub profile: Profile,
    superblock_bytes: u64,
    logs: Option<u64>,
}

/// Answer to one question.
#[derive(Clone, Debug)]
pub struct Said {
    pub key: &'static str,
    pub truth: Option<f64>,
    pub value: Option<Value>,
}

impl Said {
    #[must_use]
    pub fn is_sure(&self) -> bool {
        self.value.as_ref().is_some_and(|value| value.verdict == Verdict::Sure)
    }

    #[must_use]
    pub fn is_right(&self) -> bool {
        let tolerance = if self.key == "write_buffer_bytes" { OF_BUFFER } else { 0.001 };
        let found = self.value.as_ref().and_then(|value| value.number);
        match (found, self.truth) {
            (Some(found), Some(truth)) => (found / truth - 1.0).abs() <= tolerance,
            (None, None) => true,
            _ => false,
        }
    }
}

impl Hybrid {
    /// Drive number `number` of a campaign: schemes and rules of the buffer take turns, everything
    /// else is drawn.
    ///
    /// # Panics
    /// If a profile cannot be.
    #[must_use]
    pub fn random(number: u64, campaign: u64, noise: f64) -> Self {
        let seed = campaign.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number;
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut pick = |from: &[u32]| *from.choose(&mut random).expect("there is one");
        let (channels, dies) = (pick(&[1, 2, 4]), pick(&[1, 2]));
        let planes = channels * dies;
        let (page, pages) = (pick(&[2048, 4096]), pick(&[64, 128]));
        let logs = pick(&[2, 3, 4, 6, 8, 12]);
        let interleave = pick(&[0, planes, planes.div_ceil(2)]);
        let (merges, maps) = (pick(&[1, 1, 2, 4]), pick(&[0, 0, 1, 3]));
        let program_us = pick(&[200, 400, 800]);
        let buffer_bytes = u64::from(pick(&[0, 64, 256, 1024, 4096])) << 10;
        let host_us = pick(&[5, 20, 60]);
        let wide = if interleave == 0 { planes } else { interleave };
        let superblock = u64::from(wide * page * pages);
        let rest = format!("interleave={interleave},merges_at_once={merges},maps_in_memory={maps}");
        let (scheme, known_logs) = match number % 3 {
            0 => (format!("bast(log_blocks={logs},{rest})"), Some(u64::from(logs))),
            1 => (format!("fast(log_blocks={logs},{rest})"), None),
            _ => (format!("block_mapped(open_blocks={logs},{rest})"), Some(u64::from(logs))),
        };
        let rule = ["eager", "when_full", "batches"][(number / 3 % 3) as usize];
        let blocks = (768 << 20) / u64::from(page * pages * planes);
        let mut profile = profile::load("a16").expect("a built-in profile");
        for (key, value) in [
            ("media.channels", channels.to_string()),
            ("media.packages_per_channel", "1".to_owned()),
            ("media.dies_per_package", dies.to_string()),
            ("media.planes_per_die", "1".to_owned()),
            ("media.erase_blocks_per_plane", blocks.to_string()),
            ("media.pages_per_erase_block", pages.to_string()),
            ("media.page_bytes", page.to_string()),
            ("media.program_us", format!("[{program_us}]")),
            ("media.time_noise", noise.to_string()),
            ("interface.link_mb_per_second", pick(&[100, 250]).to_string()),
            ("interface.host_us", host_us.to_string()),
            ("write_buffer.bytes", buffer_bytes.to_string()),
            ("write_buffer.flush_pages", "16".to_owned()),
            ("write_buffer.flush", rule.to_owned()),
            ("ftl.over_provisioning", "0.2".to_owned()),
            ("ftl.scheme", scheme),
        ] {
            profile.set(key, &value).unwrap_or_else(|error| panic!("{key}={value}: {error}"));
        }
        profile.check().unwrap_or_else(|error| panic!("drive {number} of {campaign}: {error}"));
        Self { number, seed, profile, superblock_bytes: superblock, logs: known_logs }
    }

    /// Runs the experiments on it.
    ///
    /// # Panics
    /// If a simulated drive fails.
    #[must_use]
    pub fn probe(&self, budget_seconds: u64) -> Vec<Said> {
        let progress = Progress::default();
        let settings = SimulatedSettings { state: State::Filled, seed: self.seed };
        let mut device =
            Simulated::new("sim", &self.profile, settings, &progress).expect("a checked profile");
        let region = Region { offset: 0, length: device.info().limits.capacity_bytes };
        let budget = budget_seconds * 1_000_000_000;
        let settings = Settings { region, seed: self.seed, may_write: true, budget };
        let mut bench = Bench::new(&mut device, settings, &progress);
        let mut known = Known::default();
        for name in EXPERIMENTS {
            let (experiment, args) = prober::find(name).expect("a known experiment");
            let finding =
                experiment.run(&mut bench, &args, &known).expect("a simulated drive does not fail");
            known.add(finding);
        }
        let buffer = self.profile.write_buffer.bytes as f64;
        let truths = [
            ("write_buffer_bytes", (buffer > 0.0).then_some(buffer)),
            ("superblock_bytes", Some(self.superblock_bytes as f64)),
            ("log_blocks", self.logs.map(|logs| logs as f64)),
        ];
        truths
            .into_iter()
            .filter(|(key, truth)| *key != "log_blocks" || truth.is_some())
            .map(|(key, truth)| Said { key, truth, value: known.value(key).cloned() })
            .collect()
    }

    /// One line that says what it is.
    #[must_use]
    pub fn line(&self) -> String {
        let Profile { media, interface, write_buffer, ftl, .. } = &self.profile;
        format!(
            "{} | {}x{} dies, pages {} x {}, tP {:?} | host {} us, {} MB/s | buffer {} {:?}",
            ftl.scheme,
            media.channels,
            media.dies_per_package,
            media.pages_per_erase_block,
            media.page_bytes,
            media.program_us,
            interface.host_us,
            interface.link_mb_per_second,
            write_buffer.bytes,
            write_buffer.flush
        )
    }
}
