//! Losses at a power cut of writes that were not durable.

use rustc_hash::FxHasher;
use std::hash::Hasher as _;

use crate::Dice;

/// Loss at a power cut: which of the writes that were not durable are left. Plain losses are as
/// likely as wild ones: each finds other faults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// Nothing is left.
    Nothing,
    /// All that took effect in the cache is left, and nothing of what was under way.
    Cache,
    /// All is left, also what was under way.
    All,
    /// Each write is left as a whole, with this probability.
    Writes {
        /// Probability of being left.
        probability: f64,
        /// Seed of the draws.
        salt: u64,
    },
    /// Each sector of each write is left, with this probability.
    Sectors {
        /// Probability of being left.
        probability: f64,
        /// Seed of the draws.
        salt: u64,
    },
    /// The writes before one are left; that one is torn.
    Before {
        /// Number of that write.
        command: u64,
        /// Seed of the draws.
        salt: u64,
    },
    /// The writes after one are left; that one is torn.
    After {
        /// Number of that write.
        command: u64,
        /// Seed of the draws.
        salt: u64,
    },
    /// All writes but one are left; that one is torn or lost.
    Without {
        /// Number of that write.
        command: u64,
        /// True if all of it is lost.
        is_whole: bool,
        /// Seed of the draws.
        salt: u64,
    },
    /// One write alone is left, torn or whole.
    Only {
        /// Number of that write.
        command: u64,
        /// True if all of it is left.
        is_whole: bool,
        /// Seed of the draws.
        salt: u64,
    },
}

impl Loss {
    /// Draws a loss of writes with these numbers.
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

    /// Returns true if a sector of the write with this number is left.
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

/// Gives a number from 0 to 1 that depends on these alone.
fn chance(salt: u64, command: u64, sector: usize) -> f64 {
    let mut hasher = FxHasher::default();
    hasher.write_u64(salt);
    hasher.write_u64(command);
    hasher.write_u64(sector as u64);
    let mixed = hasher.finish().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)) >> 11) as f64 / (1u64 << 53) as f64
}
