"""The models.

Cleaning cost in closed form and numerically, the division of space, the bound, lifetime; the ages
of drives in an array with parity, and what is lost when one fails (DIFF-RAID: Balakrishnan et al.,
EuroSys 2010). Functions of one number take a float, or an array of any shape, and give the same.
Each says in its docstring which equation of MULTILOG (Stoica & Ailamaki, VLDB 2013) it is, in which
units, and what it raises.
"""

from flashwright._core import (
    ageing_rates,
    beta_polynomial,
    cleaning_cost,
    cleaning_cost_bound,
    cleaning_cost_bound_of_held,
    cleaning_cost_derivative,
    cleaning_cost_lru,
    codeword_failure,
    converged_ages,
    kmodal_random,
    kmodal_separated,
    lifetime_years,
    loss_on_failure,
    markov_pdf,
    next_ages,
    p_gc_approx,
    p_gc_d_choices,
    p_gc_greedy,
    p_gc_lru,
    p_gc_window_greedy,
    polynomial_fit,
    raw_bit_error_rate,
    separated_cleaning_cost,
    valid_pages_pdf,
    window_benefit,
    write_amplification,
    write_amplification_lru,
)

__all__ = [
    "ageing_rates",
    "beta_polynomial",
    "cleaning_cost",
    "cleaning_cost_bound",
    "cleaning_cost_bound_of_held",
    "cleaning_cost_derivative",
    "cleaning_cost_lru",
    "codeword_failure",
    "converged_ages",
    "kmodal_random",
    "kmodal_separated",
    "lifetime_years",
    "loss_on_failure",
    "markov_pdf",
    "next_ages",
    "p_gc_approx",
    "p_gc_d_choices",
    "p_gc_greedy",
    "p_gc_lru",
    "p_gc_window_greedy",
    "polynomial_fit",
    "raw_bit_error_rate",
    "separated_cleaning_cost",
    "valid_pages_pdf",
    "window_benefit",
    "write_amplification",
    "write_amplification_lru",
]
