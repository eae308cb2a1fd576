//! The devices that jobs run on: simulated drives, arrays of them, files, disks, memory.

use std::collections::BTreeMap;
use std::path::Path;

use block::{BlockDevice, DeviceInfo, Limits, WithData};
use devices::{Access, DeviceError, Opening, Simulated, SimulatedSettings};
use registry::Spec;
use serde::{Deserialize, Serialize};
use ssd::drive::array::{ArrayConfig, ArrayKind, ArrayReads};
use ssd::drive::profile::{self, PROFILES, Profile};
use units::Progress;

use crate::JobError;
use crate::values::{Count, OverProvisioning, Region, Share, Size};
use crate::written::{Text, Written};

/// A device, and what belongs to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Device {
    /// A simulated drive.
    Profile(SimulatedDrive),
    /// Several simulated drives as one.
    Array(SimulatedArray),
    /// A block device, or a file in its place.
    #[serde(alias = "file")]
    Disk(Disk),
    /// Memory, a hard disk or an emulated drive, by its spec: `memory(bytes=1Gi)`.
    Spec(String),
}

/// A drive before the first request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum State {
    /// Erased.
    Fresh,
    /// Erased but for the pages that the source touches, which were written once, in order.
    Loaded,
    /// Each page was written once, in order.
    #[default]
    Filled,
    /// Filled, then overwritten at random.
    Aged {
        /// Random page writes, in capacities of the drive: 0 to 1000.
        #[serde(default = "twice")]
        overwrites: f64,
    },
}

const fn twice() -> f64 {
    2.0
}

impl Written for State {
    const NAME: &str = "state";
}

/// The capacity of a drive: bytes, or `own` for that of its profile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capacity {
    /// Capacity of the profile.
    Own,
    /// A number of bytes.
    #[serde(untagged)]
    Bytes(Size),
}

/// A simulated drive: a profile with changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SimulatedDrive {
    /// A built-in profile, or the path of a TOML file.
    #[serde(alias = "")]
    pub name: String,
    /// The drive before the first request.
    #[serde(default)]
    pub state: Text<State>,
    /// Over-provisioning: (physical - logical) / logical.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<OverProvisioning>,
    /// Placement policy, which chooses the stream of a page, with the victim policy of its authors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    /// Victim policy, which chooses the erase block that is cleaned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim: Option<String>,
    /// Bytes of the drive; left out, those of the disk that a recording is of, else the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// Share of the drive that holds data; left out, what the file system of a recording said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<Share>,
    /// One of so many slices of the drive is simulated; left out, as few as time and memory allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<Count>,
    /// The text of the profile, in place of that of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toml: Option<String>,
    /// Name of the drive in results; left out, its profile and the changes to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Other keys of the profile, such as `media.channels`.
    #[serde(flatten)]
    pub changes: BTreeMap<String, String>,
}

/// Several simulated drives of one profile as one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedArray {
    /// Arrangement of the drives: `mirrored`, `striped`, `raid5(unit=64Ki)`, ...
    pub kind: String,
    /// Settings of each drive; all are alike.
    pub of: Text<SimulatedDrive>,
    /// Number of drives, 2 to 64; left out, 2 if they are mirrored, else 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drives: Option<Count>,
    /// Number of the drive, from 0, that is taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Count>,
}

/// A block device or a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Its path.
    #[serde(alias = "")]
    pub path: String,
    /// Only this part of it is touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
    /// It is first made a file of this size, filled with data, if it does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<Size>,
    /// Completions are asked for instead of waited for, if the kernel allows it.
    #[serde(default, skip_serializing_if = "is_not")]
    pub polled: bool,
    /// Terabytes that its maker lets be written to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tbw: Option<f64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
const fn is_not(value: &bool) -> bool {
    !*value
}

impl Written for SimulatedDrive {
    const NAME: &str = "profile";

    /// `nvme-tlc` or `profile(nvme-tlc, op=20%)`.
    fn read(text: &str) -> Result<Self, String> {
        match Device::read(text)? {
            Device::Profile(drive) => Ok(drive),
            _ => Err(format!("`{text}` is no simulated drive; right would be a profile's name")),
        }
    }
}

impl Written for Device {
    const NAME: &str = "device";

    fn read(text: &str) -> Result<Self, String> {
        const NAMES: [&str; 4] = ["profile", "array", "disk", "file"];
        let (text, spec) = (text.trim(), Spec::parse(text));
        let name = spec.as_ref().map_or(text, |spec| spec.name.as_str());
        if NAMES.contains(&name) && text.contains('(') {
            let device: Self = registry::read(text).map_err(|error| error.to_string())?;
            return device.checked();
        }
        if devices::is_spec(name) {
            return Ok(Self::Spec(text.to_owned()));
        }
        if text.is_empty() {
            return Err("it is empty: name a profile, or the path of a device or file".to_owned());
        }
        if is_profile(text) {
            return Ok(Self::Profile(SimulatedDrive {
                name: text.to_owned(),
                ..Default::default()
            }));
        }
        Ok(Self::Disk(Disk { path: text.to_owned(), ..Default::default() }))
    }
}

/// Returns true if a plain word names a profile: a built-in one, or the path of a TOML file.
fn is_profile(name: &str) -> bool {
    let path = Path::new(name);
    let is_toml = || path.extension().is_some_and(|extension| extension == "toml");
    PROFILES.iter().any(|known| known.name == name) || is_toml() && path.is_file()
}

impl Device {
    fn checked(self) -> Result<Self, String> {
        let drive = match &self {
            Self::Profile(drive) => drive,
            Self::Array(array) => {
                let drives = array.drives.map_or(2, |drives| drives.0);
                if !(2..=64).contains(&drives) {
                    return Err(format!("drives is {drives}: it must be from 2 to 64"));
                }
                &array.of.0
            }
            Self::Disk(_) | Self::Spec(_) => return Ok(self),
        };
        drive.check()?;
        Ok(self)
    }

    /// Its path and the region of it that may be written, if it is a block device or a file.
    pub(crate) fn place(&self) -> Option<(&str, Option<Region>)> {
        match self {
            Self::Disk(disk) => Some((&disk.path, disk.region)),
            _ => None,
        }
    }

    /// Gives the name of the device in results: as few words as tell it from others.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Profile(drive) => drive.label(),
            Self::Array(array) => {
                let without = array.missing.map(|drive| format!(" without drive {}", drive.0));
                let (kind, drives) = (&array.kind, array.number());
                format!("{kind} of {drives} {}{}", array.of.label(), without.unwrap_or_default())
            }
            Self::Disk(disk) => disk.path.clone(),
            Self::Spec(spec) => spec.clone(),
        }
    }
}

impl SimulatedDrive {
    fn check(&self) -> Result<(), String> {
        if let State::Aged { overwrites } = *self.state
            && !(0.0..=1000.0).contains(&overwrites)
        {
            return Err(format!("overwrites is {overwrites}: it must be a number from 0 to 1000"));
        }
        if let Some(key) = self.changes.keys().find(|key| !key.contains('.') && *key != "name") {
            return Err(format!(
                "there is no parameter `{key}`; known are: state, op, placement, victim, capacity, \
                 fill, slices, and keys of the profile such as media.channels"
            ));
        }
        for (key, given) in [
            ("ftl.over_provisioning", self.op.is_some()),
            ("ftl.placement", self.placement.is_some()),
            ("ftl.victim", self.victim.is_some()),
        ] {
            if given && self.changes.contains_key(key) {
                return Err(format!("`{key}` is given twice"));
            }
        }
        Ok(())
    }

    /// The profile's name, and what is changed of it.
    fn label(&self) -> String {
        if let Some(label) = &self.label {
            return label.clone();
        }
        let short = [
            ("op", self.op.map(|op| format!("{}%", round(op.0 * 100.0)))),
            ("placement", self.placement.clone()),
            ("victim", self.victim.clone()),
        ];
        let changed = short.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        let keys = self.changes.clone().into_iter();
        let state = match *self.state {
            State::Filled => None,
            State::Fresh => Some("fresh".to_owned()),
            State::Loaded => Some("loaded".to_owned()),
            State::Aged { overwrites: 2.0 } => Some("aged".to_owned()),
            State::Aged { overwrites } => Some(format!("aged({overwrites})")),
        };
        let said: Vec<String> = changed
            .chain(keys)
            .chain(state.map(|state| ("state".to_owned(), state)))
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        if said.is_empty() {
            self.name.clone()
        } else {
            format!("{}({})", self.name, said.join(","))
        }
    }

    /// The profile with all changes.
    ///
    /// # Errors
    /// A message that says what is wrong with it, and what would be right.
    pub fn profile(&self) -> Result<Profile, String> {
        let is_built_in = PROFILES.iter().any(|known| known.name == self.name);
        let text = match &self.toml {
            Some(toml) => Some(toml.clone()),
            None if is_built_in => None,
            None => std::fs::read_to_string(&self.name).ok(),
        };
        let loaded = match text {
            Some(text) => profile::parse(&text, &self.name),
            None => profile::load(&self.name),
        };
        let mut changes = self.changes.clone();
        let own = [
            ("ftl.over_provisioning", self.op.map(|op| op.0.to_string())),
            ("ftl.placement", self.placement.clone()),
            ("ftl.victim", self.victim.clone().or_else(|| self.victim_of_authors())),
        ];
        changes.extend(own.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        let changes: Vec<String> =
            changes.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        loaded.and_then(|found| found.with_overrides(&changes)).map_err(|error| error.to_string())
    }

    /// The victim policy that the placement's authors use, unless another is named.
    fn victim_of_authors(&self) -> Option<String> {
        let placement = self.placement.as_ref()?;
        if self.changes.contains_key("ftl.victim") {
            return None;
        }
        let name = placement.split('(').next()?;
        let known = placement::PLACEMENTS.iter().find(|entry| entry.info.is_called(name))?;
        Some(known.victim.to_owned())
    }
}

fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

impl State {
    /// As the simulator has it; `pages` are those that a source touches.
    #[must_use]
    pub fn simulated(self, pages: u32) -> ssd::drive::state::State {
        match self {
            Self::Fresh => ssd::drive::state::State::Fresh,
            Self::Loaded => ssd::drive::state::State::Loaded { pages },
            Self::Filled => ssd::drive::state::State::Filled,
            Self::Aged { overwrites } => ssd::drive::state::State::Aged { overwrites },
        }
    }
}

impl SimulatedArray {
    fn number(&self) -> u64 {
        let few = if self.kind.starts_with("mirrored") { 2 } else { 4 };
        self.drives.map_or(few, |drives| drives.0)
    }

    /// As the simulator has it.
    ///
    /// # Errors
    /// A message that says what is wrong, and what would be right.
    pub fn config(&self) -> Result<ArrayConfig, String> {
        let kind = ArrayKind::parse(&self.kind).map_err(|error| error.to_string())?;
        let missing = self.missing.map(|drive| u32::try_from(drive.0).unwrap_or(u32::MAX));
        let drives = self.number() as u32;
        let config = ArrayConfig { drives, kind, reads: ArrayReads::Home, missing };
        config.check().map_err(|error| error.to_string())?;
        Ok(config)
    }
}

/// Settings with which a device is opened for a job.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// Access to a disk or file.
    pub access: Access,
    /// Seed of all that is random.
    pub seed: u64,
    /// Most requests outstanding on a device that is not simulated.
    pub queue_depth: u32,
    /// Bytes of the longest request to it.
    pub most_bytes: u32,
    /// True if writes carry bytes, and reads give them back.
    pub holds_data: bool,
}

impl Device {
    /// Gives what may be done to it.
    #[must_use]
    pub fn access(&self, write: bool, destroy_data: &[String]) -> Access {
        match self {
            Self::Disk(disk) if destroy_data.contains(&disk.path) => Access::DestroyData,
            Self::Disk(_) if !write => Access::ReadOnly,
            _ => Access::Write,
        }
    }

    /// The part of it that is used: its first byte, and what there is to know of it. `at` names the
    /// setting in errors.
    ///
    /// # Errors
    /// [`JobError::Settings`] if it is not of whole sectors, or not there.
    pub fn part(&self, at: &str, info: &DeviceInfo) -> Result<(u64, DeviceInfo), JobError> {
        let whole = Region { offset: 0, length: info.limits.capacity_bytes };
        let region = self.place().and_then(|(_, region)| region);
        let Region { offset, length } = region.unwrap_or(whole);
        let sector = u64::from(info.limits.sector_bytes);
        let end = offset.checked_add(length);
        let is_within = end.is_some_and(|end| end <= info.limits.capacity_bytes);
        if !is_within || !offset.is_multiple_of(sector) || !length.is_multiple_of(sector) {
            return Err(JobError::at(
                at,
                format!(
                    "{}: a region of {length} bytes from byte {offset} on is not of whole sectors \
                     of {sector} within its {} bytes",
                    info.name, info.limits.capacity_bytes
                ),
            ));
        }
        let limits = Limits { capacity_bytes: length, ..info.limits };
        Ok((offset, DeviceInfo { limits, ..info.clone() }))
    }

    /// Returns true if a size is asked for that is not the profile's own.
    pub(crate) fn has_size(&self) -> bool {
        let drive = match self {
            Self::Profile(drive) => drive,
            Self::Array(array) => &array.of.0,
            Self::Disk(_) | Self::Spec(_) => return false,
        };
        drive.capacity.is_some() || drive.fill.is_some() || drive.slices.is_some()
    }

    /// Opens it. `at` names the setting in errors.
    ///
    /// # Errors
    /// [`JobError::Settings`] if it cannot be opened or holds data where it is to be written;
    /// [`JobError::Cancelled`].
    pub fn open(
        &self,
        at: &str,
        how: Use,
        progress: &Progress,
    ) -> Result<Box<dyn BlockDevice>, JobError> {
        let wrong = |error: String| JobError::at(at, error);
        let (drive, config) = match self {
            Self::Profile(drive) => (drive, None),
            Self::Array(array) => (&array.of.0, Some(array.config().map_err(wrong)?)),
            Self::Disk(disk) => return disk.open(at, how, progress),
            Self::Spec(spec) => {
                return opened(at, Opening::new(spec, Access::Write), how, progress);
            }
        };
        if *drive.state == State::Loaded {
            let said = "state is `loaded`: it must be fresh, filled or aged here";
            return Err(JobError::at(at, said));
        }
        let profile = drive.profile().map_err(wrong)?;
        let settings = SimulatedSettings { state: drive.state.simulated(0), seed: how.seed };
        let name = self.label();
        let made = match &config {
            Some(config) => Simulated::array(&name, &profile, config, settings, progress),
            None => Simulated::new(&name, &profile, settings, progress),
        };
        let made = made.map_err(|error| device_error(at, error))?;
        Ok(if how.holds_data { Box::new(WithData::new(made)) } else { Box::new(made) })
    }
}

impl Disk {
    fn open(
        &self,
        at: &str,
        how: Use,
        progress: &Progress,
    ) -> Result<Box<dyn BlockDevice>, JobError> {
        let region = self.region.map(|region| region.offset..region.offset + region.length);
        let opening = Opening {
            polled: self.polled,
            region: Some(region.unwrap_or(0..u64::MAX)),
            ..Opening::new(&self.path, how.access)
        };
        opened(at, opening, how, progress)
    }
}

fn opened(
    at: &str,
    opening: Opening,
    how: Use,
    progress: &Progress,
) -> Result<Box<dyn BlockDevice>, JobError> {
    let opening = Opening {
        queue_depth: how.queue_depth,
        most_bytes: how.most_bytes,
        holds_data: how.holds_data,
        ..opening
    };
    devices::open_watched(&opening, progress).map_err(|error| device_error(at, error))
}

fn device_error(at: &str, error: DeviceError) -> JobError {
    match error {
        DeviceError::Cancelled(cancelled) => cancelled.into(),
        error => JobError::at(at, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Device {
        Device::read(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn what_belongs_to_a_drive_is_written_in_it() {
        let Device::Profile(drive) =
            read("profile(nvme-tlc, media.channels=4, op=20%, state=aged(overwrites=3), slices=8)")
        else {
            panic!("a profile")
        };
        assert_eq!((drive.name.as_str(), drive.op), ("nvme-tlc", Some(OverProvisioning(0.2))));
        assert_eq!((*drive.state, drive.slices), (State::Aged { overwrites: 3.0 }, Some(Count(8))));
        assert_eq!(drive.changes, BTreeMap::from([("media.channels".into(), "4".into())]));
        assert_eq!(drive.profile().unwrap().media.channels, 4);
        assert_eq!(drive.label(), "nvme-tlc(op=20%,media.channels=4,state=aged(3))");
        let placed = read("profile(nvme-tlc, placement=multi_log)");
        let Device::Profile(drive) = &placed else { panic!("a profile") };
        assert_eq!(drive.profile().unwrap().ftl.victim, "lru");
    }

    #[test]
    fn a_device_goes_through_json_and_back() {
        for text in [
            "nvme-tlc",
            "profile(nvme-tlc,state=fresh,capacity=256Gi,fill=40%,media.channels=4)",
            "profile(nvme-tlc,capacity=own)",
            "array(raid5(unit=64Ki),of=profile(intel-x25e,state=aged),drives=5,missing=1)",
            "disk(/dev/sdb,region=1Gi+4Gi,polled=yes,tbw=600)",
            "file(/tmp/x,create=4Gi)",
            "memory(bytes=1Gi)",
            "/dev/sdb",
        ] {
            let device = read(text);
            let json = serde_json::to_string(&Text(device.clone())).unwrap();
            let Text(again): Text<Device> = serde_json::from_str(&json).unwrap();
            assert_eq!(again, device, "{json}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, right) in [
            ("profile(nvme-tlc,chanels=4)", "there is no parameter `chanels`; known are: state"),
            ("profile(nvme-tlc,state=agd)", "unknown `agd`"),
            ("profile(nvme-tlc,state=aged(5000))", "overwrites is 5000"),
            ("profile(nvme-tlc,op=20%,ftl.over_provisioning=1)", "given twice"),
            ("array(raid5,of=nvme-tlc,drives=1)", "drives is 1"),
            ("disk(/dev/sdb,region=x)", "`x` is not a region"),
            ("", "it is empty"),
        ] {
            let error = Device::read(text).unwrap_err();
            assert!(error.contains(right), "{text}: {error}");
        }
        let Device::Profile(drive) = read("profile(nvme-tlc,media.chanels=4)") else { panic!() };
        assert!(drive.profile().unwrap_err().contains("media.chanels"));
    }
}
