//! Errors of opening a device.

use thiserror::Error;
use units::Cancelled;

/// Reasons why a device cannot be opened.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// The spec is wrong.
    #[error("device `{name}`: {reason}")]
    Spec {
        /// As the user wrote it.
        name: String,
        /// Says what is wrong, and what would be right.
        reason: String,
    },
    /// It cannot be opened, or asked what it is.
    #[error("device `{name}`: {action}: {source}")]
    Open {
        /// The device.
        name: String,
        /// The action that failed.
        action: &'static str,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Writing would destroy something, or is not possible.
    #[error("device `{name}` is not written to: {reason}")]
    Refused {
        /// The device.
        name: String,
        /// The reason, and what to do about it.
        reason: String,
    },
    /// Somebody else uses it.
    #[error("device `{name}` is not written to: {reason}")]
    InUse {
        /// The device.
        name: String,
        /// The user of the device, and what to do about it.
        reason: String,
    },
    /// The work was asked to stop.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// A simulated drive cannot be made.
    #[error("device `{name}`: {reason}")]
    Simulated {
        /// The device.
        name: String,
        /// The reason.
        reason: String,
    },
}
