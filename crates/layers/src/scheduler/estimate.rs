//! Estimate of the time to write out all held writes (SCHEDULER 4.3.4, 7.2.3).

use units::Nanos;

use crate::Facts;
use crate::facts::EquationPiece;

/// Time of a write by its length.
#[derive(Clone, Debug, PartialEq)]
pub enum Estimate {
    /// The time is not known: 0.
    Unknown,
    /// Any write takes this time.
    Constant(Nanos),
    /// The time follows a performance equation.
    Equation(Vec<EquationPiece>),
    /// The time is a share of a write of a fixed length, into which it is gathered.
    Share {
        /// Time of that write over its bytes.
        byte_ns: f64,
    },
}

impl Estimate {
    /// Makes an estimate for writes that are sent as they are.
    pub fn of_writes(pieces: &[EquationPiece]) -> Self {
        if pieces.is_empty() { Self::Unknown } else { Self::Equation(pieces.to_vec()) }
    }

    /// Makes an estimate for writes that are gathered into ones of `gathered_bytes`.
    pub fn of_gathered(pieces: &[EquationPiece], gathered_bytes: u32) -> Self {
        Facts::write_time(pieces, u64::from(gathered_bytes)).map_or(Self::Unknown, |time_ns| {
            Self::Share { byte_ns: time_ns as f64 / f64::from(gathered_bytes) }
        })
    }

    /// Gives the estimated time of one write, in nanoseconds.
    pub fn time_ns(&self, length: u64) -> Nanos {
        match self {
            Self::Unknown => 0,
            Self::Constant(time_ns) => *time_ns,
            Self::Equation(pieces) => Facts::write_time(pieces, length).unwrap_or(0),
            Self::Share { byte_ns } => (byte_ns * length as f64).round() as Nanos,
        }
    }
}
