//! Finds the smallest device for a stack, for the refusal of a smaller one.

use block::Limits;
use layers::{Facts, LayerError};

use crate::layout::{ALIGN_BYTES, LEAST_BYTES, part_of};
use crate::{Creating, HEADER_BYTES, Header, VolumeError};

/// No device is larger.
const MOST_STEPS: u64 = 1 << 40;

/// Why a stack was refused, with the smallest device on which it would not be, if this one is too
/// small. Of a staging device the bytes of its part are given.
pub(crate) fn refused(
    device: &str,
    error: LayerError,
    header: &Header,
    limits: Limits,
    staging_bytes: Option<u64>,
) -> VolumeError {
    let device = device.to_owned();
    let is_size = matches!(error, LayerError::TooSmall { .. } | LayerError::Refused { .. });
    let least = is_size
        .then(|| bytes(&header.stack, &header.facts, header.seed, limits, staging_bytes))
        .flatten();
    match least {
        Some(least) => VolumeError::TooSmall { device, reason: error.to_string(), least },
        None => VolumeError::Layers { device, error },
    }
}

/// The same of a device that has no room for the headers; what is wrong with another stays.
pub(crate) fn unplanned(error: VolumeError, creating: &Creating, limits: Limits) -> VolumeError {
    let Creating { device, stack, facts, seed, staging, .. } = creating;
    if limits.capacity_bytes >= LEAST_BYTES || staging.is_some() {
        return error;
    }
    match bytes(stack, facts, *seed, limits, None) {
        Some(least) => VolumeError::TooSmall {
            device: device.clone(),
            reason: format!("it has {} bytes", limits.capacity_bytes),
            least,
        },
        None => error,
    }
}

/// Bytes of the smallest device for a stack, in steps of 1 MiB; none if its size is not what is
/// wrong with a device, or a layer does not say it beforehand.
pub(crate) fn bytes(
    stack: &str,
    facts: &Facts,
    seed: u64,
    limits: Limits,
    staging_bytes: Option<u64>,
) -> Option<u64> {
    let of_steps = |steps: u64| (steps * ALIGN_BYTES + HEADER_BYTES as u64).max(LEAST_BYTES);
    let is_enough = |device_bytes: u64| {
        let data_bytes = part_of(facts, device_bytes).1;
        let facts = Facts { staging_offset: staging_bytes.map(|_| data_bytes), ..facts.clone() };
        let capacity_bytes = data_bytes + staging_bytes.unwrap_or(0);
        layers::capacity(stack, &facts, seed, Limits { capacity_bytes, ..limits }).is_ok()
    };
    if limits.capacity_bytes >= LEAST_BYTES && is_enough(limits.capacity_bytes) {
        return None;
    }
    let (mut below, mut enough) = (0, 1);
    while !is_enough(of_steps(enough)) {
        (below, enough) = (enough, enough * 2);
        if enough > MOST_STEPS {
            return None;
        }
    }
    while enough - below > 1 {
        let middle = below.midpoint(enough);
        if is_enough(of_steps(middle)) {
            enough = middle;
        } else {
            below = middle;
        }
    }
    Some(of_steps(enough))
}

#[cfg(test)]
mod tests {
    use crate::{Staging, Volume};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn create(stack: &str, bytes: u64, staging: Option<u64>) -> Result<(), VolumeError> {
        let folder = tempfile::tempdir().unwrap();
        let made = |name: &str, bytes| {
            let path = folder.path().join(name);
            std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let creating = Creating {
            device: made("device", bytes),
            stack: stack.to_owned(),
            facts: Facts::default(),
            seed: 1,
            destroys: false,
            staging: staging.map(|bytes| Staging { device: made("fast", bytes), destroys: false }),
        };
        Volume::create(&creating)?.close()
    }

    #[test]
    fn a_device_that_is_too_small_is_refused_with_the_smallest_size() {
        for (stack, staging) in [
            ("log_volume", None),
            ("log_volume(segment=1Mi,over_provisioning=30%)", None),
            ("scheduler|log_volume(placement=sepbit,hints=no)", None),
            ("stable_buffer", None),
            ("stable_buffer(size=9Mi)", None),
            ("log_volume|stable_buffer(size=2Mi)", None),
            ("stable_buffer|checksums", None),
            ("log_volume", Some(6 * MIB)),
        ] {
            // With a staging device it is looked at only when there is room for the headers.
            for bytes in [2 * MIB, 4 * MIB, 5 * MIB].into_iter().skip(staging.iter().count()) {
                let error = create(stack, bytes, staging).unwrap_err();
                let VolumeError::TooSmall { least, .. } = error else { panic!("{stack}: {error}") };
                assert!(error.is_wrong_use());
                assert!(error.to_string().ends_with(&format!("size is {least}")), "{error}");
                create(stack, least, staging).unwrap_or_else(|error| panic!("{stack}: {error}"));
                let error = create(stack, (least - MIB).max(LEAST_BYTES), staging).unwrap_err();
                let again =
                    matches!(error, VolumeError::TooSmall { least: again, .. } if again == least);
                assert!(again, "{stack}: {least}, {error}");
            }
        }
    }

    #[test]
    fn what_no_size_mends_names_none() {
        for (stack, staging) in [
            ("log_volume(hints=yes,placement=sepbit)", None),
            ("stable_buffer|log_volume", Some(6 * MIB)),
            ("log_volume(align=auto)", None),
        ] {
            let error = create(stack, 8 * MIB, staging).unwrap_err();
            assert!(!error.to_string().contains("smallest"), "{error}");
        }
    }
}
