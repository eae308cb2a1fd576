//! The Python module `flashwright._core`: all PyO3 code, nothing else.
//!
//! A file for a crate, or for what Python asks of it; the module at the end names all that Python
//! sees.

#![allow(clippy::needless_pass_by_value, reason = "arguments are as Python hands them over")]
#![allow(clippy::too_many_arguments, reason = "keyword arguments of Python")]

#[macro_use]
mod values;
mod array;
mod devices;
mod drive;
mod errors;
mod ftrace;
mod jobs;
mod layers;
mod models;
mod numbers;
mod probe;
mod progress;
mod python_policy;
mod registry;
mod simulate;
mod sqlite_log;
mod traces;
mod volumes;
mod workload;

/// The computing core of Flashwright, behind the Python package. Long work takes a `Progress`, and
/// releases the GIL.
#[pyo3::pymodule]
mod _core {
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "as Python names it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    /// Set where a wheel is built; a source tree asks git.
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "as Python names it")]
    const __revision__: Option<&str> = option_env!("FLASHWRIGHT_REVISION");
    #[pymodule_export]
    const NO_STREAM: u32 = crate::python_policy::NONE;
    #[pymodule_export]
    const NOT_WANTED_FILE: u32 = traces::ftrace::NOT_WANTED;

    #[pymodule_export]
    use crate::{
        array::{simulate_array, simulate_array_lives},
        devices::{Device, create_file, open_device, simulated_device},
        drive::{causes, check_profile, delays, profile_summary, profile_toml},
        errors::{
            Cancelled, FlashwrightError, ImpossibleError, InputError, InputWarning, RunError,
        },
        ftrace::{decode_calls, decode_fields, write_blk_stream},
        jobs::{
            ArrowTable, LoadedSource, device_label, job_names, job_schema, job_settings,
            load_source, offered_bytes, pace_text, read_setting, run_job,
        },
        layers::{check_stack, settled_stack},
        models::{
            Division, LeastCost, PolynomialFit, RandomPlacement, WindowBenefit, ageing_rates,
            beta_polynomial, cleaning_cost, cleaning_cost_bound, cleaning_cost_bound_of_held,
            cleaning_cost_derivative, cleaning_cost_lru, codeword_failure, converged_ages,
            kmodal_random, kmodal_separated, lifetime_years, loss_on_failure, markov_pdf,
            next_ages, p_gc_approx, p_gc_d_choices, p_gc_greedy, p_gc_lru, p_gc_window_greedy,
            polynomial_fit, raw_bit_error_rate, valid_pages_pdf, window_benefit,
            write_amplification,
        },
        probe::{experiment, fit_profile, probe, read_bytes_per_second, request_seconds},
        progress::Progress,
        python_policy::FlashState,
        registry::{
            listing, parse_bytes, parse_count, parse_duration, placement_is_oracle, variants,
        },
        simulate::{judge, simulate},
        sqlite_log::SqliteLog,
        traces::{Trace, convert_trace, open_trace, trace_stats, write_synthetic},
        volumes::{
            Volume, allocate_file, check_free, check_ublk, check_volume, check_volume_memory,
            create_volume, destroy_volume, device_needed, emulated_parts, remove_left_ublk,
            renew_volume, resize_volume, restage_volume, salvage_volume, unstage_volume,
            volume_about,
        },
        workload::{Workload, load_workload},
    };
}
