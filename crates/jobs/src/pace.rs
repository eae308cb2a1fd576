//! Pace of requests.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::values::{Factor, Micros};
use crate::written::Written;

/// Pace at which the requests of a flow are sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Pace {
    /// A number outstanding; each is followed by the next after some time to think.
    Closed {
        /// Requests outstanding, from 1 to 1048576.
        #[serde(default = "one")]
        depth: u32,
        /// From the end of one to the start of the next in its place, in microseconds.
        #[serde(default = "no_time")]
        think: Micros,
    },
    /// Each at its time in the trace, however late the device is.
    Open {
        /// Speed, as a multiple of the recorded one.
        #[serde(default = "as_recorded")]
        factor: Factor,
    },
    /// Each when the trace's interval since the one before was sent has passed, with a number
    /// outstanding at most.
    Intervals {
        /// Requests outstanding at most.
        #[serde(default = "one")]
        depth: u32,
        /// Speed, as a multiple of the recorded one.
        #[serde(default = "as_recorded")]
        factor: Factor,
    },
}

const fn one() -> u32 {
    1
}

const fn no_time() -> Micros {
    Micros(0.0)
}

const fn as_recorded() -> Factor {
    Factor(1.0)
}

impl Pace {
    /// Requests outstanding, without time to think.
    #[must_use]
    pub const fn closed(depth: u32) -> Self {
        Self::Closed { depth, think: no_time() }
    }

    /// Returns true if requests are due at times of the trace.
    #[must_use]
    pub fn is_timed(self) -> bool {
        !matches!(self, Self::Closed { .. })
    }

    /// Requests that it has outstanding on a device at most; none if the trace's clock says it.
    #[must_use]
    pub fn depth(self) -> Option<u32> {
        match self {
            Self::Closed { depth, .. } | Self::Intervals { depth, .. } => Some(depth),
            Self::Open { .. } => None,
        }
    }

    /// As the player has it.
    #[must_use]
    pub fn player(self) -> player::Pace {
        match self {
            Self::Closed { depth, think } => {
                player::Pace::Closed { depth, think: (think.0 * 1e3).round() as u64 }
            }
            Self::Open { factor } => player::Pace::Open { factor: factor.0 },
            Self::Intervals { depth, factor } => {
                player::Pace::Intervals { depth, factor: factor.0 }
            }
        }
    }

    fn checked(self) -> Result<Self, String> {
        const MOST_DEPTH: u32 = 1 << 20;
        match self {
            Self::Closed { depth, .. } | Self::Intervals { depth, .. }
                if !(1..=MOST_DEPTH).contains(&depth) =>
            {
                Err(format!("depth is {depth}: it must be from 1 to {MOST_DEPTH}"))
            }
            Self::Closed { think, .. } if !(0.0..=1e12).contains(&think.0) => {
                Err(format!("think is {}: it must be a time from 0 to 1e12 us", think.0))
            }
            pace => Ok(pace),
        }
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let factor = |factor: Factor| match factor.0 {
            1.0 => String::new(),
            other => format!("factor={other}"),
        };
        let closing = |name: &str, words: &[String]| {
            let said: Vec<&str> =
                words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
            if said.is_empty() { name.to_owned() } else { format!("{name}({})", said.join(",")) }
        };
        let text = match *self {
            Self::Closed { depth, think: Micros(0.0) } => format!("closed({depth})"),
            Self::Closed { depth, think } => format!("closed({depth},think={}us)", think.0),
            Self::Open { factor: by } => closing("open", &[factor(by)]),
            Self::Intervals { depth, factor: by } => {
                closing("intervals", &[depth.to_string(), factor(by)])
            }
        };
        f.write_str(&text)
    }
}

impl Written for Pace {
    const NAME: &str = "pace";

    /// A plain number is a closed pace of that depth.
    fn read(text: &str) -> Result<Self, String> {
        if let Some(depth) = registry::parse_count(text) {
            let depth = u32::try_from(depth).unwrap_or(u32::MAX);
            return Self::closed(depth).checked();
        }
        registry::read::<Self>(text).map_err(|error| error.to_string())?.checked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_written_in_few_words() {
        let thinking = Pace::Closed { depth: 32, think: Micros(5.0) };
        assert_eq!(Pace::read("closed(32, think=5us)"), Ok(thinking));
        assert_eq!(Pace::read("8"), Ok(Pace::closed(8)));
        assert_eq!(Pace::read("closed"), Ok(Pace::closed(1)));
        assert_eq!(Pace::read("open(2)"), Ok(Pace::Open { factor: Factor(2.0) }));
        let half = Pace::Intervals { depth: 4, factor: Factor(0.5) };
        assert_eq!(Pace::read("intervals(4, factor=0.5)"), Ok(half));
        for wrong in ["0", "closed(0)", "open(factor=0)", "closed(1,think=-1)", "opn"] {
            assert!(Pace::read(wrong).is_err(), "{wrong}");
        }
        for text in ["closed(8)", "closed(32,think=5us)", "open", "open(factor=2)", "intervals(1)"]
        {
            assert_eq!(Pace::read(text).unwrap().to_string(), text);
        }
    }
}
