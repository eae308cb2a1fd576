//! What can go wrong with a volume as a whole.

use block::BlockError;
use devices::DeviceError;
use layers::LayerError;
use thiserror::Error;

/// Why a volume could not be made, opened or closed.
#[derive(Debug, Error)]
pub enum VolumeError {
    /// The device could not be opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The stack could not be made or opened.
    #[error("{device}: {error}")]
    Layers {
        /// The device below.
        device: String,
        /// Why.
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
        /// The device that was looked at.
        device: String,
        /// What is in the places of its headers.
        reason: String,
    },
    /// The device is too small for the stack.
    #[error("{device}: {reason}; with this stack the smallest possible size is {least}")]
    TooSmall {
        /// The device.
        device: String,
        /// What does not fit.
        reason: String,
        /// Bytes of a device that would do.
        least: u64,
    },
    /// There is one, and it cannot be opened as it was asked.
    #[error("{device}: {reason}")]
    Refused {
        /// The device below.
        device: String,
        /// Why, and what would be right.
        reason: String,
    },
    /// The kernel has no ublk, or we may not use it.
    #[error("{0}")]
    NoUblk(std::io::Error),
    /// The system refused something that a server needs.
    #[error("{action}: {source}")]
    System {
        /// What was tried.
        action: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl VolumeError {
    /// Whether wrong use is the reason, not a failure on the way.
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
