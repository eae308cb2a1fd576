//! What a power cut leaves of what was not durable.

use rustc_hash::FxHasher;
use std::hash::Hasher as _;

use crate::Dice;

/// What a power cut leaves of the writes that were not durable. Plain losses are as likely as wild
/// ones: each finds other faults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// Nothing of them.
    Nothing,
    /// All that took effect in the cache, and nothing of what was under way.
    Cache,
    /// All, also of what was under way.
    All,
    /// Each write whole, with this probability.
    Writes {
        /// Of being left.
        probability: f64,
        /// What chance hangs on.
        salt: u64,
    },
    /// Each sector of each write, with this probability.
    Sectors {
        /// Of being left.
        probability: f64,
        /// What chance hangs on.
        salt: u64,
    },
    /// Those before one write; it is torn.
    Before {
        /// The one.
        command: u64,
        /// What chance hangs on.
        salt: u64,
    },
    /// Those after one write; it is torn.
    After {
        /// The one.
        command: u64,
        /// What chance hangs on.
        salt: u64,
    },
    /// All but one, which is torn or lost.
    Without {
        /// The one.
        command: u64,
        /// Whether all of it is lost.
        is_whole: bool,
        /// What chance hangs on.
        salt: u64,
    },
    /// One alone, torn or whole.
    Only {
        /// The one.
        command: u64,
        /// Whether all of it is left.
        is_whole: bool,
        /// What chance hangs on.
        salt: u64,
    },
}

impl Loss {
    /// One of them, for writes with these numbers.
    pub fn draw(commands: &[u64], dice: &mut Dice) -> Self {
        let salt = dice.seed();
        let command = if commands.is_empty() { 0 } else { dice.pick(commands) };
        let probability = dice.pick(&[0.1, 0.3, 0.5, 0.7, 0.9]);
        let is_whole = dice.chance(0.5);
        match dice.below(9) {
            0 => Self::Nothing,
            1 => Self::Cache,
            2 => Self::All,
            3 => Self::Writes { probability, salt },
            4 => Self::Sectors { probability, salt },
            5 => Self::Before { command, salt },
            6 => Self::After { command, salt },
            7 => Self::Without { command, is_whole, salt },
            _ => Self::Only { command, is_whole, salt },
        }
    }

    /// Whether a sector is left of a write with this number.
    #[must_use]
    pub fn survives(&self, command: u64, sector: usize, is_under_way: bool) -> bool {
        match *self {
            Self::Nothing => false,
            Self::Cache => !is_under_way,
            Self::All => true,
            Self::Writes { probability, salt } => chance(salt, command, 0) < probability,
            Self::Sectors { probability, salt } => chance(salt, command, sector) < probability,
            Self::Before { command: one, salt } => {
                command < one || command == one && chance(salt, command, sector) < 0.5
            }
            Self::After { command: one, salt } => {
                command > one || command == one && chance(salt, command, sector) < 0.5
            }
            Self::Without { command: one, is_whole, salt } => {
                command != one || !is_whole && chance(salt, command, sector) < 0.5
            }
            Self::Only { command: one, is_whole, salt } => {
                command == one && (is_whole || chance(salt, command, sector) < 0.5)
            }
        }
    }
}

/// A number from 0 to 1 that depends on nothing else.
fn chance(salt: u64, command: u64, sector: usize) -> f64 {
    let mut hasher = FxHasher::default();
    hasher.write_u64(salt);
    hasher.write_u64(command);
    hasher.write_u64(sector as u64);
    let mixed = hasher.finish().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)) >> 11) as f64 / (1u64 << 53) as f64
}
