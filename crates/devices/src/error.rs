//! What can go wrong with a device.

use thiserror::Error;
use units::{Cancelled, IoOp};

/// Why a device cannot be opened or used.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// The spec is wrong.
    #[error("device `{name}`: {reason}")]
    Spec {
        /// As the user wrote it.
        name: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// It cannot be opened, or asked what it is.
    #[error("device `{name}`: {action}: {source}")]
    Open {
        /// The device.
        name: String,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// Writing would destroy something, or is not possible.
    #[error("device `{name}` is not written to: {reason}")]
    Refused {
        /// The device.
        name: String,
        /// Why, and what to do about it.
        reason: String,
    },
    /// A request failed.
    #[error("device `{name}`: {} of {length} bytes at byte {offset} failed: {reason}", .op.name())]
    Request {
        /// The device.
        name: String,
        /// What the request did.
        op: IoOp,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
        /// What happened, in words, with the system's error.
        reason: String,
    },
    /// The device is no longer what it was when it was opened, or does not answer.
    #[error("device `{name}`: {reason}")]
    Gone {
        /// The device.
        name: String,
        /// What happened.
        reason: String,
    },
    /// The work was asked to stop.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// A simulated drive has worn out, or cannot be made.
    #[error("device `{name}`: {reason}")]
    Simulated {
        /// The device.
        name: String,
        /// What happened.
        reason: String,
    },
}
