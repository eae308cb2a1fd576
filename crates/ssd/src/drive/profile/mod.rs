//! Device profiles: descriptions of drives, as TOML.
//!
//! A built-in profile is one file in `profiles/` and one line in [`PROFILES`].

mod check;
mod check_placement;
mod cleaning;
mod error;
mod parity;
mod replication;
mod schema;
mod set;
mod slc;
#[cfg(test)]
mod tests;

pub use cleaning::{CleaningConfig, CleaningPace};
pub use error::ProfileError;
pub use parity::ParityReads;
pub use replication::{CopyDie, CountedBy, ReplicationConfig, ReplicationPolicy};
pub use schema::*;
pub use slc::SlcBlocks;

use crate::drive::layout::Layout;

/// A profile that comes with the program.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// The name on the command line, the same as in the file.
    pub name: &'static str,
    text: &'static str,
}

macro_rules! built_in {
    ($($name:literal),+ $(,)?) => {
        &[$(BuiltIn {
            name: $name,
            text: include_str!(concat!("../../../profiles/", $name, ".toml")),
        }),+]
    };
}

/// All built-in profiles: one line each.
pub static PROFILES: &[BuiltIn] = built_in![
    "mtron-pro-7500",
    "mtron-sata7035",
    "intel-x25e",
    "intel-x25m",
    "intel-335",
    "ocz-vertex-ex",
    "ocz-vector",
    "samsung-mcbqe32g",
    "usb-stick",
    "sd-card",
    "sd-card-a2",
    "emmc-51",
    "replication-table-2",
    "nvme-tlc",
    "nvme-qlc",
    "sk-hynix-pe8110",
    "samsung-pm9a3",
    "micron-7450-pro",
    "kioxia-cm7-r-4",
    "a16",
];

impl BuiltIn {
    /// The profile.
    ///
    /// # Panics
    /// If the file that was built in is wrong: a bug.
    #[must_use]
    pub fn profile(&self) -> Profile {
        parse(self.text, &format!("profile `{}`", self.name))
            .unwrap_or_else(|error| panic!("a built-in profile is wrong: {error}"))
    }

    /// Summary in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        self.profile().summary
    }

    /// The text of the file, with its comments: a user can copy it to make a profile.
    #[must_use]
    pub const fn text(&self) -> &'static str {
        self.text
    }
}

/// Finds a built-in profile by its name.
///
/// # Errors
/// [`ProfileError::UnknownProfile`] lists the known names.
pub fn load(name: &str) -> Result<Profile, ProfileError> {
    let found = PROFILES.iter().find(|entry| entry.name == name).ok_or_else(|| {
        ProfileError::UnknownProfile {
            name: name.to_owned(),
            known: PROFILES.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", "),
        }
    })?;
    Ok(found.profile())
}

/// Reads a profile and checks it. `place` is the source of the text, such as a path: it begins
/// every error.
///
/// # Errors
/// [`ProfileError::Syntax`] with line and column if the text is not TOML, a key is unknown or
/// missing, or a value is of the wrong type; otherwise those of [`Profile::check`].
pub fn parse(text: &str, place: &str) -> Result<Profile, ProfileError> {
    let profile: Profile =
        toml::from_str(text).map_err(|error| ProfileError::syntax(text, place, &error))?;
    profile.check_at(place)?;
    Ok(profile)
}

/// Keys that were added to the schema after profiles had been hashed: the key with its group, and
/// the default.
const LATER: [(&str, &str); 53] = [
    ("media", "pages_per_read = 1"),
    ("media", "pages_per_program = 1"),
    ("media", "part_read_us = []"),
    ("media", "most_suspensions = 16"),
    ("media", "slices = 1"),
    ("media", "suspend_at_points = false"),
    ("media", "read_retry_mean = []"),
    ("media", "read_retry_cycles = []"),
    ("media", "worn_cycles = 0"),
    ("controller", "write_gap_us = 0.0"),
    ("controller", "relocation_gap_us = 0.0"),
    ("controller", "read_gap_us = 0.0"),
    ("controller", "write_slack_us = 0.0"),
    ("controller", "trickle_gap_us = 0.0"),
    ("controller", "trickle_slack_us = 0.0"),
    ("interface", "zone_gap_us = 0.0"),
    ("write_buffer", "power_loss_protected = false"),
    ("write_buffer", "merges = true"),
    ("cleaning", "occupies_die = false"),
    ("cleaning", "pace = \"burst\""),
    ("cleaning", "burst_stripes = 0.0"),
    ("cleaning", "rotates = false"),
    ("cleaning", "window_period_us = 0.0"),
    ("cleaning", "window_share = 0.5"),
    ("cleaning", "window_start = 0.0"),
    ("ftl", "parity_dies = 0"),
    ("ftl", "stripe_dies = 0"),
    ("ftl", "parity_reads = \"none\""),
    ("ftl", "trim = \"free\""),
    ("ftl", "trim_us = 0.0"),
    ("ftl", "trim_page_us = 0.0"),
    ("wear_levelling", "age_cycles = 20.0"),
    ("wear_levelling", "age_every = 10"),
    ("fdp", "handles = 0"),
    ("fdp", "isolation = \"initially\""),
    ("slc_cache", "kind = \"none\""),
    ("slc_cache", "bytes = 0"),
    ("slc_cache", "keep_free = 0.0"),
    ("slc_cache", "bits_per_cell = 3"),
    ("slc_cache", "read_us = 0.0"),
    ("slc_cache", "program_us = 0.0"),
    ("slc_cache", "erase_us = 0.0"),
    ("slc_cache", "idle_us = 100000.0"),
    ("slc_cache", "wear = 1.0"),
    ("replication", "policy = \"none\""),
    ("replication", "budget = 0.1"),
    ("replication", "most_places = 4"),
    ("replication", "patience_us = 0.0"),
    ("replication", "epoch_s = 60.0"),
    ("replication", "recency_share = 0.5"),
    ("replication", "read_threshold = 0.05"),
    ("replication", "counted = \"page\""),
    ("replication", "die = \"rested\""),
];

/// Groups that have only such keys: if all their keys are left out, the groups are left out, too.
const LATER_GROUPS: [&str; 3] = ["fdp", "slc_cache", "replication"];

impl Profile {
    /// The profile as TOML, including keys that were omitted. Only keys that were added to the
    /// schema later are left out where they have their default, so that a profile's hash stays the
    /// same.
    ///
    /// # Panics
    /// If a number does not fit TOML's 63 bits: [`Profile::check`] does not let it pass.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let text = toml::to_string_pretty(self)
            .unwrap_or_else(|error| panic!("a checked profile can be written as TOML: {error}"));
        let mut group = "";
        let mut kept = String::with_capacity(text.len());
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                group = name;
            }
            if !LATER.contains(&(group, line)) {
                kept.push_str(line);
                kept.push('\n');
            }
        }
        for group in LATER_GROUPS {
            let head = format!("\n[{group}]\n");
            let rest = kept.find(&head).map(|at| (at, at + head.len()));
            if let Some((at, end)) =
                rest.filter(|&(_, end)| kept[end..].is_empty() || kept[end..].starts_with("\n["))
            {
                kept.replace_range(at..end, "");
            }
        }
        kept
    }

    /// Structure of the media.
    ///
    /// # Panics
    /// If the sizes are out of range: the profile has to be checked.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let m = &self.media;
        Layout::new(
            m.channels,
            m.packages_per_channel * m.dies_per_package,
            m.planes_per_die,
            m.erase_blocks_per_plane,
            m.pages_per_erase_block,
            m.page_bytes,
        )
    }

    /// Pages that one program of a die writes.
    #[must_use]
    pub fn program_unit_pages(&self) -> u32 {
        let planes = if self.media.multi_plane { self.media.planes_per_die } else { 1 };
        self.media.pages_per_program * planes
    }

    /// Number of all pages of the media, including bad erase blocks.
    #[must_use]
    pub fn physical_pages(&self) -> u64 {
        let m = &self.media;
        let factors = [
            m.channels,
            m.packages_per_channel,
            m.dies_per_package,
            m.planes_per_die,
            m.erase_blocks_per_plane,
            m.pages_per_erase_block,
        ];
        factors.iter().fold(1, |product, factor| u64::from(*factor).saturating_mul(product))
    }

    /// Number of pages of the media that can hold data permanently: all but parity and a static SLC
    /// cache.
    #[must_use]
    pub fn data_pages(&self) -> u64 {
        let cache = u64::from(self.slc_fixed_superblocks()).saturating_mul(self.superblock_pages());
        self.pages_without_parity().saturating_sub(cache)
    }

    fn pages_without_parity(&self) -> u64 {
        let dies = self.group_dies();
        self.physical_pages() / dies * (dies - u64::from(self.ftl.parity_dies).min(dies))
    }

    /// Number of pages that the host can address: `data_pages / (1 + over_provisioning)`, rounded
    /// down.
    ///
    /// # Panics
    /// If they are more than 2^31: the profile has to be checked.
    #[must_use]
    pub fn logical_pages(&self) -> u32 {
        let pages = (self.data_pages() as f64 / (1.0 + self.ftl.over_provisioning)).floor();
        assert!(pages <= f64::from(1_u32 << 31), "a checked profile has at most 2^31 pages");
        pages as u32
    }

    /// Bytes that the host can address.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.logical_pages()) * u64::from(self.media.page_bytes)
    }
}
