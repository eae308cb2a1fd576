//! A volume on a device: creating, opening and closing it.

use std::time::Duration;

use block::{BlockDevice, BlockError, Failure, Limits, Part, Spanned, Store};
use devices::{Access, DeviceError};
use layers::{Driver, Facts, Stack};
use units::Progress;
use uuid::Uuid;

use crate::device::open_device;
use crate::headers::{About, clear_headers, find, write_header};
use crate::layout::{ALIGN_BYTES, Creating, check_room, layers_failed, plan, refused, unix_s};
use crate::memory::{Depth, VolumeMemory};
use crate::metrics::Gauge;
use crate::staging::{self, Below, Second};
use crate::{Header, Shape, VolumeError, changes, smallest};

/// Arguments of opening a volume.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The device, as [`devices::open`] takes it.
    pub device: String,
    /// Most commands under way at the device, 1 ... 4096.
    pub queue_depth: u32,
    /// Place of the staging device, if the volume has one and it is not at its last place.
    pub staging: Option<String>,
    /// Most memory that the volume may take, in bytes: it is not opened if it may need more
    /// ([`VolumeMemory`]). Fewer and shorter commands are then under way.
    pub memory_bytes: Option<u64>,
    /// Interval at which all that has checksums is read in idle time, by [`crate::Service`]; none
    /// for reading it only on request.
    pub scrub_every: Option<Duration>,
}

impl Opening {
    /// Makes the arguments for up to 128 commands at a time.
    #[must_use]
    pub fn new(device: &str) -> Self {
        Self {
            device: device.to_owned(),
            queue_depth: 128,
            staging: None,
            memory_bytes: None,
            scrub_every: None,
        }
    }

    fn depth(&self) -> Depth {
        Depth::within(self.queue_depth, self.memory_bytes)
    }
}

impl About {
    fn memory_within(&self, device: &str, most: Option<u64>) -> VolumeMemory {
        let depth = Depth::within(Opening::new(device).queue_depth, most);
        let there = self.staging.as_ref().filter(|found| found.problem.is_none());
        let aside = there.map_or(0, |found| found.data_bytes);
        let mut memory =
            VolumeMemory::of(&self.header, self.header.data_bytes + aside, depth, most);
        if self.header.pair.is_some() && there.is_none() {
            memory.layers = Err("it is known with both of its devices".to_owned());
        }
        memory
    }
}

/// Devices and headers of a volume that was closed.
pub(crate) struct Closed {
    pub device: Box<dyn BlockDevice>,
    pub header: Header,
    pub second: Option<Second>,
}

pub(crate) type VolumeDriver = Driver<Below, Stack, Gauge>;

/// A volume that was opened: the stack over its part of the device.
pub struct Volume {
    pub(crate) driver: VolumeDriver,
    header: Header,
    /// Header of the staging device.
    staging: Option<Header>,
    notes: Vec<String>,
    /// True if there is no header on the device.
    is_bare: bool,
    memory: VolumeMemory,
    /// Interval at which all that has checksums is read; none for reading it only on request.
    pub(crate) scrub_every: Option<Duration>,
}

impl Volume {
    /// Opens a device as it is, without header or layers: to serve an emulated drive. Its header is
    /// made up.
    ///
    /// # Errors
    /// [`VolumeError`]: in particular if the device is in use.
    pub fn bare(opening: &Opening) -> Result<Self, VolumeError> {
        let depth = opening.depth();
        let device = open_device(&opening.device, Access::DestroyData, depth)?;
        let limits = device.info().limits;
        let header = Header {
            uuid: Uuid::new_v4(),
            generation: 0,
            openings: 0,
            is_clean: false,
            incompatible: 0,
            read_only_compatible: 0,
            sector_bytes: limits.sector_bytes,
            device_bytes: limits.capacity_bytes,
            data_offset: 0,
            data_bytes: limits.capacity_bytes,
            seed: 0,
            created_unix_s: 0,
            scrubbed_unix_s: 0,
            stack: "direct".to_owned(),
            facts: Facts::default(),
            pair: None,
        };
        let memory = VolumeMemory::of(&header, limits.capacity_bytes, depth, opening.memory_bytes);
        memory.check(&opening.device, opening.memory_bytes)?;
        let below = Spanned::new(Part::new(device, 0, limits.capacity_bytes), None);
        let driver = Driver::watched(below, Stack::new(limits), Gauge::default());
        Ok(Self {
            driver,
            header,
            staging: None,
            notes: Vec::new(),
            is_bare: true,
            memory,
            scrub_every: None,
        })
    }

    /// Makes a volume, and opens it.
    ///
    /// # Errors
    /// [`VolumeError`]: in particular if the device holds something and may not be destroyed, is
    /// too small, or the stack does not fit.
    pub fn create(creating: &Creating) -> Result<Self, VolumeError> {
        let access = if creating.destroys { Access::DestroyData } else { Access::Write };
        let device = open_device(&creating.device, access, Opening::new("").queue_depth)?;
        Self::create_on(device, creating)
    }

    /// Does the same on a device that is open.
    pub(crate) fn create_on(
        mut device: Box<dyn BlockDevice>,
        creating: &Creating,
    ) -> Result<Self, VolumeError> {
        let limits = device.info().limits;
        let mut header = plan(&creating.stack, &creating.facts, &*device)
            .map_err(|error| smallest::unplanned(error, creating, limits))?;
        header.seed = creating.seed;
        let depth = Opening::new("").depth();
        let second = creating.staging.as_ref();
        let mut second = second
            .map(|second| staging::begin(second, depth, &creating.device, &mut header))
            .transpose()?;
        let staging_bytes = second.as_ref().map(|second| second.header.data_bytes);
        header.stack = layers::settled(&header.stack, &header.layer_facts()).map_err(|error| {
            smallest::refused(&creating.device, error, &header, limits, staging_bytes)
        })?;
        check_room(&header, &*device)?;
        let other = second.as_mut().map(|second| (&mut *second.device, &second.header));
        let mut below = staging::below(&mut *device, &header, other);
        layers::format(&header.stack, &header.layer_facts(), header.seed, &mut below).map_err(
            |error| smallest::refused(&creating.device, error, &header, limits, staging_bytes),
        )?;
        if let Some(second) = &mut second {
            write_header(&mut *second.device, &second.header)?;
        }
        write_header(&mut *device, &header)?;
        let mut volume = Self::open_on(device, second, header, Vec::new())?;
        volume.clear_beginning()?;
        Ok(volume)
    }

    /// Opens the volume on a device, which is recovered if it was not closed.
    ///
    /// # Errors
    /// [`VolumeError`]: in particular if there is none, or the device has become too small for it.
    pub fn open(opening: &Opening) -> Result<Self, VolumeError> {
        let depth = opening.depth();
        let mut device = open_device(&opening.device, Access::DestroyData, depth)?;
        let About { header, mut notes, .. } = find(&mut *device)?;
        let mut header = Self::ready(&mut *device, header, &mut notes)?;
        let second = staging::open(
            &opening.device,
            &mut header,
            opening.staging.as_deref(),
            Access::DestroyData,
            depth,
        )?;
        notes.extend(second.iter().flat_map(|second| second.notes.clone()));
        let most = opening.memory_bytes;
        let mut volume = Self::open_within(device, second, header, notes, (depth, most))?;
        volume.scrub_every = opening.scrub_every;
        Ok(volume)
    }

    /// Opens the volume of this header, which lies on one device.
    pub(crate) fn open_found(
        mut device: Box<dyn BlockDevice>,
        header: Header,
        mut notes: Vec<String>,
    ) -> Result<Self, VolumeError> {
        let header = Self::ready(&mut *device, header, &mut notes)?;
        Self::open_on(device, None, header, notes)
    }

    /// Checks that it may be written to, and finishes a resize that was interrupted.
    pub(crate) fn ready(
        device: &mut dyn BlockDevice,
        header: Header,
        notes: &mut Vec<String>,
    ) -> Result<Header, VolumeError> {
        let unknown = header.unknown_for_writing();
        if unknown != 0 {
            return Err(refused(
                device,
                format!(
                    "it has features {unknown:#x} that this program does not know, and may only \
                     be read by it: use a newer one"
                ),
            ));
        }
        if header.is_resizing() {
            notes.clear();
            return changes::finish(device, &header);
        }
        Ok(header)
    }

    /// Opens it, whatever memory it takes.
    pub(crate) fn open_on(
        device: Box<dyn BlockDevice>,
        second: Option<Second>,
        header: Header,
        notes: Vec<String>,
    ) -> Result<Self, VolumeError> {
        let depth = Depth::from(device.info().queue_depth);
        Self::open_within(device, second, header, notes, (depth, None))
    }

    /// Opens it within a limit of memory. The header is marked as open first, so that a crash is
    /// detected.
    fn open_within(
        mut device: Box<dyn BlockDevice>,
        mut second: Option<Second>,
        mut header: Header,
        notes: Vec<String>,
        (depth, most): (Depth, Option<u64>),
    ) -> Result<Self, VolumeError> {
        let data_bytes =
            header.data_bytes + second.as_ref().map_or(0, |second| second.header.data_bytes);
        let memory = VolumeMemory::of(&header, data_bytes, depth, most);
        memory.check(&device.info().name, most)?;
        let ahead = second.as_ref().map_or(0, |second| second.header.generation);
        header.generation = header.generation.max(ahead) + 1;
        header.openings += 1;
        header.is_clean = false;
        let other = second.as_mut().map(|second| (&mut second.device, &mut second.header));
        staging::write_headers(&mut *device, &header, other)?;
        let name = device.info().name.clone();
        let (second, staging) = match second {
            Some(Second { device, header, .. }) => (Some(device), Some(header)),
            None => (None, None),
        };
        let mut below = staging::below(device, &header, second.zip(staging.as_ref()));
        let stack = layers::open(&header.stack, &header.layer_facts(), header.seed, &mut below)
            .map_err(|error| layers_failed(&name, error))?;
        let driver = Driver::watched(below, stack, Gauge::default());
        Ok(Self { driver, header, staging, notes, is_bare: false, memory, scrub_every: None })
    }

    /// Gives the most memory that it takes.
    #[must_use]
    pub const fn memory(&self) -> &VolumeMemory {
        &self.memory
    }

    /// Gives its header.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Gives the first command to the device that failed, and by which something may be lost: not a
    /// read.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.driver.failure().filter(|failure| !failure.loses_nothing())
    }

    /// Notes that a pass over all that has checksums has ended now, for the next header.
    pub(crate) fn was_scrubbed(&mut self) {
        self.header.scrubbed_unix_s = unix_s();
    }

    /// Gives the notes on damage of its opening.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Gives the bytes that its users have.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.driver.info().limits.capacity_bytes
    }

    /// Gives its shape as a block device.
    pub(crate) fn shape(&self) -> Shape {
        let info = self.driver.info();
        Shape {
            capacity_bytes: info.limits.capacity_bytes,
            sector_bytes: info.limits.sector_bytes,
            has_trim: info.has_trim,
            zeroing_bytes: info.zeroing_bytes.map(u64::from),
        }
    }

    /// Gives the limits of the stack's part of the device.
    pub(crate) fn limits_below(&mut self) -> Limits {
        self.driver.device_mut().info().limits
    }

    /// Writes zeros to the beginning of a new volume: old content of the device is not taken for
    /// data of its users.
    fn clear_beginning(&mut self) -> Result<(), VolumeError> {
        let name = self.driver.info().name.clone();
        let mut bytes = vec![0; self.capacity_bytes().min(ALIGN_BYTES) as usize];
        let mut store = Store::new(&mut self.driver);
        // Bytes that cannot be read are overwritten in any case.
        let is_clear = store.read(0, &mut bytes).is_ok() && bytes.iter().all(|&byte| byte == 0);
        if is_clear {
            return Ok(());
        }
        bytes.fill(0);
        let cleared = store.write(0, &bytes).and_then(|()| store.flush());
        Ok(cleared.map_err(|failure| BlockError::Failed { name, failure })?)
    }

    /// Gives the stack as a device, for exclusive use: by tests, and to copy data into it.
    pub fn device(&mut self) -> &mut dyn BlockDevice {
        &mut self.driver
    }

    /// Writes back all that is held back, makes it durable, and marks the volume clean.
    ///
    /// [`VolumeError`] if that fails: the volume is not marked then, and the next opening recovers
    /// the durable state.
    pub fn close(self) -> Result<(), VolumeError> {
        self.close_to_header().map(|_| ())
    }

    /// Closes it, and gives the last header.
    ///
    /// # Errors
    /// As [`Volume::close`].
    pub fn close_to_header(self) -> Result<Header, VolumeError> {
        Ok(self.close_to_devices()?.header)
    }

    /// Closes it, and gives its devices, with the headers that were written last.
    pub(crate) fn close_to_devices(mut self) -> Result<Closed, VolumeError> {
        self.driver.drain(&mut || true)?;
        let name = self.driver.info().name.clone();
        Store::new(&mut self.driver)
            .flush()
            .map_err(|failure| BlockError::Failed { name, failure })?;
        self.driver.settle()?;
        // The flush may have made a log write, and a layer below hold that back.
        self.driver.drain(&mut || true)?;
        let (device, second) = self.driver.into_parts().0.into_parts();
        let (mut device, mut second) = (device.into_inner(), second.map(Part::into_inner));
        if !self.is_bare {
            self.header.generation += 1;
            self.header.is_clean = true;
            let other = second.as_mut().zip(self.staging.as_mut());
            staging::write_headers(&mut *device, &self.header, other)?;
        }
        let second = second.zip(self.staging).map(|(device, header)| Second {
            device,
            header,
            notes: Vec::new(),
        });
        Ok(Closed { device, header: self.header, second })
    }
}

/// Describes the volume on a device. The device is only read, as is its staging device, if it has
/// one, at `staging` or at its last place.
///
/// # Errors
/// [`VolumeError`].
pub fn about(device: &str, staging: Option<&str>) -> Result<About, VolumeError> {
    let mut about = find(&mut *open_device(device, Access::ReadOnly, 1)?)?;
    about.staging = staging::look(device, &about.header, staging, &mut about.notes);
    about.memory = Some(about.memory_within(device, None));
    if !about.header.is_clean {
        about.user = user(device);
    }
    Ok(about)
}

/// Describes the user of a device.
fn user(device: &str) -> Option<String> {
    let mut opening = devices::Opening::new(device, Access::ReadOnly);
    opening.alone = true;
    match devices::open_watched(&opening, &Progress::default()) {
        Err(DeviceError::InUse { reason, .. }) => Some(reason),
        _ => None,
    }
}

/// Checks that the volume on a device, with its staging device at `staging` or at its last place,
/// can be opened with so many bytes of memory ([`Opening::memory_bytes`]). Both are only read.
///
/// # Errors
/// [`VolumeError`]: in particular if it may need more.
pub fn check_memory(device: &str, staging: Option<&str>, most: u64) -> Result<(), VolumeError> {
    about(device, staging)?.memory_within(device, Some(most)).check(device, Some(most))
}

/// Makes both headers unreadable: the content of the volume is lost. The rest of the device is
/// left. The staging device's headers are destroyed, too, if it is there. A staging device alone is
/// destroyed only if it belongs to no volume any more.
///
/// # Errors
/// [`VolumeError`]: also if there is no volume, so that nothing else is destroyed, or the device is
/// the staging device of an existing volume.
pub fn destroy(device: &str) -> Result<About, VolumeError> {
    let mut about = about(device, None)?;
    staging::is_left(device, &about.header)?;
    let mut opened = open_device(device, Access::DestroyData, 1)?;
    clear_headers(&mut *opened)?;
    if let Some(found) = &mut about.staging
        && found.problem.is_none()
        && let Err(error) = open_device(&found.device, Access::DestroyData, 1)
            .and_then(|mut other| clear_headers(&mut *other))
    {
        found.problem = Some(error.to_string());
    }
    Ok(about)
}

#[cfg(test)]
#[path = "volume_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "bad_sectors_tests.rs"]
mod bad_sectors_tests;

#[cfg(test)]
#[path = "trims_tests.rs"]
mod trims_tests;
