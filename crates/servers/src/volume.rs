//! A volume on a device: made, opened, closed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use block::{BlockDevice, BlockError, Failure, Limits, Part, Spanned, Store};
use devices::{Access, DeviceError};
use layers::{Driver, Facts, LayerError, Stack};
use units::Progress;
use uuid::Uuid;

use crate::found::{clear_headers, find, write_header};
use crate::memory::{Depth, VolumeMemory};
use crate::metrics::Gauge;
use crate::service::Shape;
use crate::staging::{self, Below, Second, Staging, StagingFound};
use crate::{HEADER_BYTES, Header, VolumeError, least, resize};

/// The stack's part begins and ends at multiples of it, so that pages of layers are not split over
/// sectors, flash pages or, as a rule, stripes of the device below.
pub(crate) const ALIGN_BYTES: u64 = 1 << 20;
/// A device has room for both headers and some data.
pub(crate) const LEAST_BYTES: u64 = 4 * ALIGN_BYTES;

/// What a volume is made of.
#[derive(Clone, Debug)]
pub struct Creating {
    /// The device, as [`devices::open`] takes it.
    pub device: String,
    /// The layers, from the top to the bottom; `direct` for none.
    pub stack: String,
    /// What is known of the device.
    pub facts: Facts,
    /// Seed of whatever the layers draw.
    pub seed: u64,
    /// What the device holds may be destroyed.
    pub destroys: bool,
    /// A second device, on which the area of one of the stack's layers is to lie.
    pub staging: Option<Staging>,
}

/// How a volume is opened.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The device, as [`devices::open`] takes it.
    pub device: String,
    /// Most commands outstanding at the device, 1 ... 4096.
    pub queue_depth: u32,
    /// Where the staging device is, if the volume has one and it is not where it was last.
    pub staging: Option<String>,
    /// The most that the volume may take in memory, in bytes: it is not opened if it may need more
    /// ([`VolumeMemory`]). Fewer commands are then outstanding, and shorter ones.
    pub memory_bytes: Option<u64>,
    /// How often all that has checksums is read in idle time, by [`crate::Service`]; none for only
    /// when that is asked.
    pub scrub_every: Option<Duration>,
}

impl Opening {
    /// Up to 128 commands at a time.
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

/// What was found on a device, without opening the volume.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    /// The header that holds.
    pub header: Header,
    /// Bytes of the device now.
    pub device_bytes: u64,
    /// What a reader should know: a damaged copy, a device of another size.
    pub notes: Vec<String>,
    /// Its staging device, if it has one and was asked for it.
    pub staging: Option<StagingFound>,
    /// The most that it takes in memory, if that was asked for.
    pub memory: Option<VolumeMemory>,
    /// By whom it is used now, if that was asked for and it is.
    pub user: Option<String>,
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

/// What a volume was on, after it was closed.
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
    /// That of the staging device.
    staging: Option<Header>,
    notes: Vec<String>,
    /// There is no header on the device.
    is_bare: bool,
    memory: VolumeMemory,
    /// How often all that has checksums is read.
    pub(crate) scrub_every: Option<Duration>,
}

impl Volume {
    /// A device as it is, without header or layers: to serve an emulated drive. What it says of
    /// itself is made up.
    ///
    /// # Errors
    /// [`VolumeError`]: above all if the device is in use.
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
    /// [`VolumeError`]: above all if the device holds something and may not be destroyed, is too
    /// small, or the stack does not fit.
    pub fn create(creating: &Creating) -> Result<Self, VolumeError> {
        let access = if creating.destroys { Access::DestroyData } else { Access::Write };
        let device = open_device(&creating.device, access, Opening::new("").queue_depth)?;
        Self::create_on(device, creating)
    }

    /// The same on a device that is open.
    pub(crate) fn create_on(
        mut device: Box<dyn BlockDevice>,
        creating: &Creating,
    ) -> Result<Self, VolumeError> {
        let limits = device.info().limits;
        let mut header = plan(&creating.stack, &creating.facts, &*device)
            .map_err(|error| least::unplanned(error, creating, limits))?;
        header.seed = creating.seed;
        let depth = Opening::new("").depth();
        let second = creating.staging.as_ref();
        let mut second = second
            .map(|second| staging::begin(second, depth, &creating.device, &mut header))
            .transpose()?;
        let staging_bytes = second.as_ref().map(|second| second.header.data_bytes);
        header.stack = layers::settled(&header.stack, &header.layer_facts()).map_err(|error| {
            least::refused(&creating.device, error, &header, limits, staging_bytes)
        })?;
        check_room(&header, &*device)?;
        let other = second.as_mut().map(|second| (&mut *second.device, &second.header));
        let mut below = staging::below(&mut *device, &header, other);
        layers::format(&header.stack, &header.layer_facts(), header.seed, &mut below).map_err(
            |error| least::refused(&creating.device, error, &header, limits, staging_bytes),
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
    /// [`VolumeError`]: above all if there is none, or the device has become too small for it.
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

    /// Whether it may be written to. A resize that was cut short is finished.
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
            return resize::finish(device, &header);
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

    /// The header says first that it is open, so that a crash from then on is known.
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

    /// The most that it takes in memory.
    #[must_use]
    pub const fn memory(&self) -> &VolumeMemory {
        &self.memory
    }

    /// What it says of itself.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The first command to the device that failed, and by which something may be lost: not a read.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.driver.failure().filter(|failure| !failure.loses_nothing())
    }

    /// A pass over all that has checksums has ended now: said by the header that is written next.
    pub(crate) fn was_scrubbed(&mut self) {
        self.header.scrubbed_unix_s = unix_s();
    }

    /// What was odd when it was opened.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Bytes that its users have.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.driver.info().limits.capacity_bytes
    }

    /// Bytes whose multiples a trim turns to zeros, if it does: a log volume forgets pages, and
    /// these are the largest. Layers above it may keep what was trimmed for a while.
    pub(crate) fn unmap_bytes(&self) -> Option<u64> {
        let top = self.driver.stack().layers().first()?;
        (top.name() == "log_volume").then_some(1 << 16)
    }

    /// What it is to those who address it as a block device.
    pub(crate) fn shape(&self) -> Shape {
        let info = self.driver.info();
        Shape {
            capacity_bytes: info.limits.capacity_bytes,
            sector_bytes: info.limits.sector_bytes,
            has_trim: info.has_trim,
            unmap_bytes: self.unmap_bytes(),
        }
    }

    /// What may be asked of the stack's part of the device.
    pub(crate) fn limits_below(&mut self) -> Limits {
        self.driver.device_mut().info().limits
    }

    /// What a new volume begins with is zero: nothing that the device held before is taken for
    /// something of its users'.
    fn clear_beginning(&mut self) -> Result<(), VolumeError> {
        let name = self.driver.info().name.clone();
        let mut bytes = vec![0; self.capacity_bytes().min(ALIGN_BYTES) as usize];
        let mut store = Store::new(&mut self.driver);
        // What cannot be read is written all the more.
        let is_clear = store.read(0, &mut bytes).is_ok() && bytes.iter().all(|&byte| byte == 0);
        if is_clear {
            return Ok(());
        }
        bytes.fill(0);
        let cleared = store.write(0, &bytes).and_then(|()| store.flush());
        Ok(cleared.map_err(|failure| BlockError::Failed { name, failure })?)
    }

    /// The stack as a device, for who works on it alone: tests, and copies into it.
    pub fn device(&mut self) -> &mut dyn BlockDevice {
        &mut self.driver
    }

    /// Writes back all that is held back, makes it durable, and marks the volume clean.
    ///
    /// # Errors
    /// [`VolumeError`] if that fails: the volume is not marked then, and the next opening recovers
    /// what was durable.
    pub fn close(self) -> Result<(), VolumeError> {
        self.close_to_header().map(|_| ())
    }

    /// The same: what the volume says of itself then.
    ///
    /// # Errors
    /// As [`Volume::close`].
    pub fn close_to_header(self) -> Result<Header, VolumeError> {
        Ok(self.close_to_devices()?.header)
    }

    /// The same; its devices go on, with the headers that were written last.
    pub(crate) fn close_to_devices(mut self) -> Result<Closed, VolumeError> {
        self.driver.drain(&mut || true)?;
        let name = self.driver.info().name.clone();
        Store::new(&mut self.driver)
            .flush()
            .map_err(|failure| BlockError::Failed { name, failure })?;
        self.driver.settle()?;
        // The flush may have made a log write, and what is below it stage that.
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

/// What is on a device, which is only read, as is its staging device, if it has one: that is looked
/// for at `staging`, or where it was last.
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

/// Who uses a device, in words.
fn user(device: &str) -> Option<String> {
    let mut opening = devices::Opening::new(device, Access::ReadOnly);
    opening.alone = true;
    match devices::open_watched(&opening, &Progress::default()) {
        Err(DeviceError::InUse { reason, .. }) => Some(reason),
        _ => None,
    }
}

/// Whether the volume on a device, with its staging device at `staging` or where it was last, can
/// be opened with so many bytes of memory ([`Opening::memory_bytes`]). Both are only read.
///
/// # Errors
/// [`VolumeError`]: above all if it may need more.
pub fn check_memory(device: &str, staging: Option<&str>, most: u64) -> Result<(), VolumeError> {
    about(device, staging)?.memory_within(device, Some(most)).check(device, Some(most))
}

/// Makes both headers unreadable: what the volume held is lost. The rest of the device is left.
/// The staging device's headers go, too, if it is there. That itself is destroyed alone if it
/// belongs to nobody any more.
///
/// # Errors
/// [`VolumeError`]: also if there is no volume, so that nothing else is destroyed, or the device is
/// the staging device of one that is there.
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

pub(crate) fn open_device(
    spec: &str,
    access: Access,
    depth: impl Into<Depth>,
) -> Result<Box<dyn BlockDevice>, VolumeError> {
    let depth = depth.into();
    let mut opening = devices::Opening::new(spec, access);
    opening.holds_data = true;
    (opening.queue_depth, opening.most_bytes) = (depth.commands, depth.most_bytes);
    let opened = devices::open_watched(&opening, &Progress::default());
    opened.map_err(|error| match access {
        Access::Write => staging::named(error).into(),
        _ => error.into(),
    })
}

/// Where everything lies.
pub(crate) fn plan(
    stack: &str,
    facts: &Facts,
    device: &dyn BlockDevice,
) -> Result<Header, VolumeError> {
    let limits = device.info().limits;
    let (device_bytes, sector_bytes) = (limits.capacity_bytes, limits.sector_bytes);
    if sector_bytes as usize > HEADER_BYTES {
        return Err(refused(
            device,
            format!("sectors of {sector_bytes} bytes; at most {HEADER_BYTES} are possible"),
        ));
    }
    if device_bytes < LEAST_BYTES {
        return Err(refused(
            device,
            format!("{device_bytes} bytes; a volume needs {LEAST_BYTES} or more"),
        ));
    }
    let (data_offset, data_bytes) = part_of(facts, device_bytes);
    let stack = match stack.trim() {
        "" => "direct",
        stack => stack,
    };
    Ok(Header {
        uuid: Uuid::new_v4(),
        generation: 1,
        openings: 0,
        is_clean: true,
        incompatible: 0,
        read_only_compatible: 0,
        sector_bytes,
        device_bytes,
        data_offset,
        data_bytes,
        seed: 0,
        created_unix_s: unix_s(),
        scrubbed_unix_s: 0,
        stack: stack.to_owned(),
        facts: facts.clone(),
        pair: None,
    })
}

/// Seconds since 1970.
pub(crate) fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Where the stack's part of a device of this size begins, and how many bytes it has.
pub(crate) fn part_of(facts: &Facts, device_bytes: u64) -> (u64, u64) {
    // An erase block of an odd size is none to begin at.
    let erase_block = facts.erase_block_bytes.filter(|bytes| {
        bytes.is_power_of_two() && (ALIGN_BYTES..=device_bytes / 64).contains(bytes)
    });
    let data_offset = erase_block.unwrap_or(ALIGN_BYTES);
    let end = Header::last_place(device_bytes) / ALIGN_BYTES * ALIGN_BYTES;
    (data_offset, end - data_offset)
}

/// Whether all that a header says fits into it.
pub(crate) fn check_room(header: &Header, device: &dyn BlockDevice) -> Result<(), VolumeError> {
    Header::room(&header.stack, &header.facts, header.pair.as_ref()).map_err(|excess| {
        refused(
            device,
            format!(
                "stack, facts and the staging device's path are {excess} bytes too long for the \
                 header; leave out facts that its layers do not need"
            ),
        )
    })
}

pub(crate) fn refused(device: &dyn BlockDevice, reason: String) -> VolumeError {
    VolumeError::Refused { device: device.info().name.clone(), reason }
}

pub(crate) fn layers_failed(device: &str, error: LayerError) -> VolumeError {
    VolumeError::Layers { device: device.to_owned(), error }
}

#[cfg(test)]
#[path = "volume_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "bad_sectors_tests.rs"]
mod bad_sectors_tests;
