//! Cleaning cost in closed form and numerically, the division of space, the least possible.
//!
//! Everything here is pure arithmetic over MULTILOG's notation (section 3, table 3):
//! `over_provisioning` is alpha, `size` is s_i (a fraction of the logical pages), `share` is f_si
//! (a fraction of the updates), p_gc is the chance that a page is valid when its erase block is
//! cleaned. MULTILOG is Stoica and Ailamaki, "Improving Flash Write Performance by Using Update
//! Frequency", VLDB 2013.

mod bound;
mod division;
mod error;
mod held;
mod lifetime;
mod mean_field;
mod parity_ages;
mod polynomial;
mod random_placement;
#[cfg(test)]
mod tests;
mod turnover;
mod uniform;
mod update_sets;
mod valid_pages;

pub use bound::{
    Bin, Binning, Bound, UpdateBins, cleaning_cost_bound, cleaning_cost_bound_of_counts,
};
pub use division::{Division, divide_space, divide_space_pairwise, separated_cleaning_cost};
pub use error::{MAX_OVER_PROVISIONING, ModelError};
pub use held::cleaning_cost_bound_of_held;
pub use lifetime::{Wear, lifetime_years};
pub use mean_field::{p_gc_d_choices, p_gc_greedy, p_gc_window_greedy};
pub use parity_ages::{
    ageing_rates, codeword_failure, converged_ages, loss_on_failure, next_ages, raw_bit_error_rate,
};
pub use polynomial::{BetaCoefficients, PolynomialFit, beta_polynomial, polynomial_fit};
pub use random_placement::{RandomPlacement, kmodal_random, kmodal_random_approx};
pub use uniform::{
    cleaning_cost, cleaning_cost_derivative, cleaning_cost_derivative_approx, cleaning_cost_lru,
    p_gc_approx, p_gc_lru, write_amplification, write_amplification_lru,
};
pub use update_sets::UpdateSets;
pub use valid_pages::{
    WindowBenefit, markov_pdf, mean_valid_pages, thinned, valid_pages_pdf, window_benefit,
};

pub(crate) use error::check_over_provisioning;
