//! Errors of a volume as a whole.

use block::BlockError;
use devices::DeviceError;
use layers::LayerError;
use thiserror::Error;

/// Error of making, opening or closing a volume.
#[derive(Debug, Error)]
pub enum VolumeError {
    /// The device could not be opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The stack could not be made or opened.
    #[error("{device}: {error}")]
    Layers {
        /// Name of the device below.
        device: String,
        /// Error of the stack.
        error: LayerError,
    },
    /// A command of the volume's own failed, or the device went.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// There is no volume on the device.
    #[error(
        "{device}: no volume is there: {reason}; `flashwright volume create` makes one (and \
         destroys what the device holds)"
    )]
    NoVolume {
        /// Name of the device that was looked at.
        device: String,
        /// Description of what is in the places of its headers.
        reason: String,
    },
    /// The device is too small for the stack.
    #[error("{device}: {reason}; with this stack the smallest possible size is {least}")]
    TooSmall {
        /// Name of the device.
        device: String,
        /// Description of what does not fit.
        reason: String,
        /// Least bytes of a device that suffices.
        least: u64,
    },
    /// There is a volume, and it cannot be opened as it was asked.
    #[error("{device}: {reason}")]
    Refused {
        /// Name of the device below.
        device: String,
        /// Reason, and the remedy.
        reason: String,
    },
    /// The kernel has no ublk, or we may not use it.
    #[error("{0}")]
    NoUblk(std::io::Error),
    /// The system refused something that a server needs.
    #[error("{action}: {source}")]
    System {
        /// Action that was tried.
        action: String,
        /// Error of the system.
        source: std::io::Error,
    },
}

impl VolumeError {
    /// Returns true if the cause is wrong use, not a failure on the way.
    #[must_use]
    pub const fn is_wrong_use(&self) -> bool {
        match self {
            Self::NoVolume { .. }
            | Self::TooSmall { .. }
            | Self::Refused { .. }
            | Self::NoUblk(_) => true,
            Self::Device(error) => {
                use DeviceError::{InUse, Refused, Spec};
                matches!(error, Spec { .. } | Refused { .. } | InUse { .. })
            }
            Self::Layers { error, .. } => {
                !matches!(error, LayerError::Device(_) | LayerError::Gone(_))
            }
            _ => false,
        }
    }
}
