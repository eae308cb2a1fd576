//! Lifetime of the flash.

use crate::ModelError;

/// Days in a (Julian) year.
const DAYS_PER_YEAR: f64 = 365.25;

/// Quantities that determine the wear of the flash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wear {
    /// Erase cycles that an erase block endures, as the data sheet gives them (MULTILOG table 1:
    /// 5,000 ... 100,000). Above 0.
    pub endurance_cycles: f64,
    /// Bytes of flash, including spare space. Above 0.
    pub physical_capacity_bytes: f64,
    /// Page programs for each host write. 1 or above.
    pub write_amplification: f64,
    /// Bytes that the host writes in a day. 0 or above.
    pub host_bytes_per_day: f64,
    /// Erases of the most worn erase block over the mean of all: 1 is perfect wear levelling. 1 or
    /// above. The drive is assumed to fail with its first worn-out erase block.
    pub wear_spread: f64,
}

/// Years until the most worn erase block reaches its endurance: endurance cycles x physical bytes /
/// (write amplification x host bytes a day x wear spread x 365.25).
///
/// Infinite if the host writes nothing. Assumes that erase blocks are filled before each erase, as
/// a log-structured FTL does; retention, read disturb and spare blocks for bad ones are left out.
///
/// # Errors
/// [`ModelError::OutOfRange`] names the value out of range.
pub fn lifetime_years(wear: &Wear) -> Result<f64, ModelError> {
    let checks = [
        ("endurance", wear.endurance_cycles, 0.0, false, "a number of erase cycles above 0"),
        (
            "physical capacity",
            wear.physical_capacity_bytes,
            0.0,
            false,
            "a number of bytes above 0",
        ),
        ("write amplification", wear.write_amplification, 1.0, true, "1 or above"),
        ("host writes a day", wear.host_bytes_per_day, 0.0, true, "a number of bytes, 0 or above"),
        ("wear spread", wear.wear_spread, 1.0, true, "1 or above (most worn / mean)"),
    ];
    for (what, value, least, inclusive, right) in checks {
        ModelError::check(
            value.is_finite() && (value > least || (inclusive && value == least)),
            what,
            value,
            right,
        )?;
    }
    let worn_bytes_per_day = wear.write_amplification * wear.host_bytes_per_day * wear.wear_spread;
    Ok(wear.endurance_cycles * wear.physical_capacity_bytes / worn_bytes_per_day / DAYS_PER_YEAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEAR: Wear = Wear {
        endurance_cycles: 3000.0,
        physical_capacity_bytes: 120e9,
        write_amplification: 2.0,
        host_bytes_per_day: 100e9,
        wear_spread: 1.2,
    };

    #[test]
    fn by_hand() {
        // 3000 x 120 GB = 360 TB of programs; 240 GB per day on the most worn: 1500 days.
        assert!((lifetime_years(&WEAR).unwrap() - 1500.0 / 365.25).abs() < 1e-12);
        assert!(lifetime_years(&Wear { host_bytes_per_day: 0.0, ..WEAR }).unwrap().is_infinite());
    }

    #[test]
    fn impossible_wear_is_told() {
        let told =
            lifetime_years(&Wear { write_amplification: 0.9, ..WEAR }).unwrap_err().to_string();
        assert_eq!(told, "write amplification is 0.9: it must be 1 or above");
        assert!(lifetime_years(&Wear { endurance_cycles: f64::NAN, ..WEAR }).is_err());
        assert!(lifetime_years(&Wear { physical_capacity_bytes: 0.0, ..WEAR }).is_err());
        assert!(lifetime_years(&Wear { wear_spread: 0.5, ..WEAR }).is_err());
    }
}
