//! Energy of a run.

use serde::Serialize;

use crate::drive::media::FlashOp;
use crate::drive::profile::EnergyConfig;
use crate::drive::time::{PICOS_PER_SECOND, Picos};

/// Energy of a run in joules: an estimate.
///
/// It is counts times the profile's energy of an operation, with the same energy for each page of a
/// kind, whatever its data, page type or wear; everything else that draws power (controller, DRAM,
/// link) is one constant, busy or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Energy {
    /// Page reads, in joules.
    pub read_joules: f64,
    /// Page programs.
    pub program_joules: f64,
    /// Erases.
    pub erase_joules: f64,
    /// Bytes on the channels.
    pub transfer_joules: f64,
    /// Everything else, all the time.
    pub idle_joules: f64,
    /// The sum.
    pub total_joules: f64,
    /// The sum over the elapsed time, in watts; 0 if no time has passed.
    pub mean_watts: f64,
}

impl Energy {
    /// Computes the energy of a run with so many `operations`, in the order of [`FlashOp::ALL`],
    /// and so many bytes on the channels. A copy-back costs a read and a program. `None` if the
    /// profile gives no energy at all: no figure is better than 0 joules.
    #[must_use]
    pub fn of(
        config: &EnergyConfig,
        operations: &[u64; FlashOp::ALL.len()],
        transferred_bytes: u64,
        elapsed: Picos,
    ) -> Option<Self> {
        if *config == EnergyConfig::default() {
            return None;
        }
        let [reads, programs, erases, copies] = operations.map(|count| count as f64);
        let seconds = elapsed as f64 / PICOS_PER_SECOND as f64;
        let read_joules = (reads + copies) * config.read_nj * 1e-9;
        let program_joules = (programs + copies) * config.program_nj * 1e-9;
        let erase_joules = erases * config.erase_nj * 1e-9;
        let transfer_joules = transferred_bytes as f64 * config.transfer_pj_per_byte * 1e-12;
        let idle_joules = seconds * config.idle_mw * 1e-3;
        let total_joules =
            read_joules + program_joules + erase_joules + transfer_joules + idle_joules;
        let mean_watts = if elapsed == 0 { 0.0 } else { total_joules / seconds };
        Some(Self {
            read_joules,
            program_joules,
            erase_joules,
            transfer_joules,
            idle_joules,
            total_joules,
            mean_watts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> EnergyConfig {
        EnergyConfig {
            read_nj: 1000.0,
            program_nj: 5000.0,
            erase_nj: 20_000.0,
            transfer_pj_per_byte: 10.0,
            idle_mw: 500.0,
        }
    }

    fn close(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= expected.abs() * 1e-12
    }

    #[test]
    fn each_part_has_its_unit() {
        let mut operations = [0; FlashOp::ALL.len()];
        operations[FlashOp::Read as usize] = 1_000_000;
        operations[FlashOp::Program as usize] = 100_000;
        operations[FlashOp::Erase as usize] = 10_000;
        operations[FlashOp::CopyBack as usize] = 100_000;
        let energy =
            Energy::of(&config(), &operations, 1_000_000_000, 2 * PICOS_PER_SECOND).unwrap();
        assert!(close(energy.read_joules, 1.1));
        assert!(close(energy.program_joules, 1.0));
        assert!(close(energy.erase_joules, 0.2));
        assert!(close(energy.transfer_joules, 0.01));
        assert!(close(energy.idle_joules, 1.0));
        assert!(close(energy.total_joules, 3.31));
        assert!(close(energy.mean_watts, 1.655));
    }

    #[test]
    fn a_run_without_time_has_no_power() {
        assert_eq!(Energy::of(&config(), &[0; 4], 0, 0), Some(Energy::default()));
        let energy = Energy::of(&config(), &[1, 0, 0, 0], 0, 0).unwrap();
        assert!(close(energy.total_joules, 1e-6) && energy.mean_watts == 0.0);
    }

    #[test]
    fn a_profile_without_figures_gives_none() {
        assert_eq!(Energy::of(&EnergyConfig::default(), &[1, 2, 3, 4], 5, 6), None);
    }
}
