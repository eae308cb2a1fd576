//! Mutilated images for recovery: whatever a device holds, opening it ends, panics nowhere, and
//! reads no more than a device has.

mod forge;

use std::panic::{AssertUnwindSafe, catch_unwind};

use block::{Failure, Limits, Store};
use layers::{Driver, LayerError};
use units::IoOp;

use self::forge::Forge;
use crate::episode::MOST_READS;
use crate::workload::{Act, Workload};
use crate::{CrashDevice, Dice, Loss, Manners, Media, Subject, Value, Wrong};

/// Images of a device at several times of a volume's life, and one of another volume.
#[derive(Clone, Debug)]
pub struct Images {
    limits: Limits,
    seed: u64,
    /// Images of this volume, from the oldest on.
    own: Vec<Vec<u8>>,
    /// Image of another volume.
    other: Vec<u8>,
    /// Structures with a checksum in each image of this volume.
    forges: Vec<Forge>,
}

/// Step of trying an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The image is about to be opened.
    Opening,
    /// The image was opened or refused.
    Opened,
}

/// Counts of mutilated images, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Images that were tried.
    pub tried: u64,
    /// Images that were opened, and then read and written.
    pub opened: u64,
    /// Images that were refused with an error.
    pub refused: u64,
}

impl Images {
    /// Formats and writes the volumes.
    ///
    /// # Errors
    /// [`Wrong`] if that fails.
    pub fn new(subject: &Subject, seed: u64) -> Result<Self, Wrong> {
        let other = grow(subject, seed ^ 1, 1)?.pop().unwrap_or_default();
        let own = grow(subject, seed, 4)?;
        let forges =
            own.iter().map(|image| Forge::new(image, subject.sector_bytes as usize)).collect();
        Ok(Self { limits: subject.limits(), seed, own, other, forges })
    }

    /// Gives the number of structures with a checksum in the image that has most of them.
    #[must_use]
    pub fn structures(&self) -> usize {
        self.forges.iter().map(Forge::len).max().unwrap_or(0)
    }

    /// Gives one of the images, mutilated.
    #[must_use]
    pub fn mutilate(&self, dice: &mut Dice) -> Vec<u8> {
        let number = dice.below(self.own.len());
        let mut image = self.own[number].clone();
        let is_forged = dice.chance(0.5);
        for _ in 0..=dice.below(4) {
            if is_forged {
                self.forges[number].change(&mut image, &self.wild(), dice);
            } else {
                self.change(&mut image, dice);
            }
        }
        image
    }

    /// Gives numbers that are likely to be wrong: limits of types and of the device.
    const fn wild(&self) -> [u64; 14] {
        let bytes = self.limits.capacity_bytes;
        [
            0,
            1,
            2,
            0xff,
            0xffff,
            1 << 31,
            u32::MAX as u64,
            u64::MAX,
            u64::MAX - 1,
            u64::MAX / 2,
            1 << 63,
            bytes,
            bytes - 1,
            bytes / 4096,
        ]
    }

    fn change(&self, image: &mut [u8], dice: &mut Dice) {
        let size = self.limits.sector_bytes as usize;
        let sectors = image.len() / size;
        // The first structures are read first: half of the changes go there.
        let at = if dice.chance(0.5) { dice.below(sectors.min(16)) } else { dice.below(sectors) };
        let most = if dice.chance(0.5) { 1 } else { (sectors - at).min(64) };
        let count = 1 + dice.below(most);
        let range = at * size..((at + count).min(sectors)) * size;
        let from = dice.below(sectors - range.len() / size + 1) * size;
        match dice.below(9) {
            0 => {
                for _ in 0..=dice.below(8) {
                    let byte = range.start + dice.below(range.len());
                    image[byte] ^= 1 << dice.below(8);
                }
            }
            1 => image[range].fill(dice.pick(&[0, 0xff, 0xa5])),
            2 => image[range].iter_mut().for_each(|byte| *byte = dice.below(256) as u8),
            3 => image[range.start..].fill(0),
            4 => image.copy_within(from..from + range.len(), range.start),
            5 => image[range.clone()].copy_from_slice(&self.other[range]),
            6 | 7 => {
                let older = &self.own[dice.below(self.own.len())];
                image[range.clone()].copy_from_slice(&older[range]);
            }
            _ => {
                let word = range.start
                    + 4 * dice.below(size / 4 - 1).min(dice.below(size / 4 - 1)).min(24);
                let wild = [
                    0,
                    1,
                    2,
                    0xff,
                    0xffff,
                    1 << 31,
                    u64::MAX,
                    u64::MAX - 1,
                    1 << 63,
                    self.limits.capacity_bytes,
                    image.len() as u64 - 1,
                ];
                image[word..word + 8].copy_from_slice(&dice.pick(&wild).to_le_bytes());
            }
        }
    }

    /// Opens an image; if that succeeds, reads all of it and writes to it. `told` hears when
    /// opening begins and when it has ended, well or not.
    ///
    /// # Errors
    /// [`Wrong`] if something panics, or more is read than makes sense.
    pub fn open(
        &self,
        subject: &Subject,
        image: Vec<u8>,
        dice: &mut Dice,
        outcomes: &mut Outcomes,
        told: &mut dyn FnMut(Moment),
    ) -> Result<(), Wrong> {
        outcomes.tried += 1;
        let mut media =
            Media::new(self.limits.sector_bytes, image.len() / self.limits.sector_bytes as usize);
        *media.raw() = image;
        let mut device = CrashDevice::new(self.limits, Manners::default(), media, dice.seed());
        let tried = catch_unwind(AssertUnwindSafe(|| {
            told(Moment::Opening);
            let opened = subject.open(self.seed, &mut device);
            told(Moment::Opened);
            if device.bytes_read > MOST_READS * self.limits.capacity_bytes {
                return Err(Wrong(format!(
                    "opening read {} bytes of a device of {}",
                    device.bytes_read, self.limits.capacity_bytes
                )));
            }
            match opened {
                Ok(mut stack) => {
                    outcomes.opened += 1;
                    // Reads of a forged volume may fail, and it may be full, but nothing may panic.
                    let mut driver = Driver::new(&mut device, &mut stack);
                    let _ = write_on(subject, &mut Store::new(&mut driver), dice, 60, 1 << 40);
                    Ok(())
                }
                Err(LayerError::Spec(error)) => Err(Wrong(error.to_string())),
                Err(_) => {
                    outcomes.refused += 1;
                    Ok(())
                }
            }
        }));
        tried.unwrap_or_else(|panic| {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(Wrong(format!("panics: {}", text.unwrap_or_default())))
        })
    }
}

/// Gives images of a volume that is written between them.
fn grow(subject: &Subject, seed: u64, images: usize) -> Result<Vec<Vec<u8>>, Wrong> {
    let limits = subject.limits();
    let media = Media::new(
        limits.sector_bytes,
        (limits.capacity_bytes / u64::from(limits.sector_bytes)) as usize,
    );
    let mut dice = Dice::new(seed);
    let mut device = CrashDevice::new(limits, Manners::default(), media, dice.seed());
    let wrong = |error: LayerError| Wrong(format!("cannot be made: {error}"));
    subject.format(seed, &mut device).map_err(wrong)?;
    let mut stack = subject.open(seed, &mut device).map_err(wrong)?;
    let mut grown = Vec::new();
    for image in 0..images {
        let first_write = 1 + 1000 * image as u64;
        let mut driver = Driver::new(&mut device, &mut stack);
        write_on(subject, &mut Store::new(&mut driver), &mut dice, 80, first_write)
            .map_err(|failure| Wrong(format!("cannot be written: {failure}")))?;
        driver.settle().map_err(|error| Wrong(error.to_string()))?;
        let mut fork = device.fork(&Loss::All, &mut None);
        let mut image = vec![0; limits.capacity_bytes as usize];
        Store::new(&mut fork).read(0, &mut image).map_err(|failure| Wrong(failure.to_string()))?;
        device.join(fork, &mut None);
        grown.push(image);
    }
    Ok(grown)
}

/// Reads all, and then does random things, one after the other.
fn write_on(
    subject: &Subject,
    volume: &mut Store<'_>,
    dice: &mut Dice,
    acts: usize,
    first_write: u64,
) -> Result<(), Failure> {
    let limits = volume.limits();
    let (size, sectors) = (
        limits.sector_bytes as usize,
        (limits.capacity_bytes / u64::from(limits.sector_bytes)) as usize,
    );
    volume.read(0, &mut vec![0; limits.capacity_bytes as usize])?;
    let most = (limits.most_bytes / limits.sector_bytes) as usize;
    let mut workload = Workload::new(sectors, limits.sector_bytes, most.min(sectors / 3).max(1));
    for number in 0..acts as u64 {
        let Act::Command { op, sectors, .. } = workload.next(dice) else { continue };
        let (offset, mut bytes) = ((sectors.start * size) as u64, vec![0; sectors.len() * size]);
        match op {
            IoOp::Read => volume.read(offset, &mut bytes)?,
            IoOp::Write => {
                for (sector, part) in sectors.zip(bytes.chunks_exact_mut(size)) {
                    Value::of_write(first_write + number).fill(
                        sector as u64,
                        subject.tail_bytes as usize,
                        part,
                    );
                }
                volume.write(offset, &bytes)?;
            }
            IoOp::Trim => volume.trim(offset, bytes.len() as u32)?,
            IoOp::Flush => volume.flush()?,
        }
    }
    Ok(())
}
