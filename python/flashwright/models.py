"""The models.

Cleaning cost in closed form and numerically, the division of space, the bound, lifetime. Functions
of one number take a float, or an array of any shape, and give the same. Each says in its docstring
which equation of MULTILOG (Stoica & Ailamaki, VLDB 2013) it is, in which units, and what it raises.
"""

from flashwright._core import (
    beta_polynomial,
    cleaning_cost,
    cleaning_cost_bound,
    cleaning_cost_bound_of_held,
    cleaning_cost_derivative,
    cleaning_cost_lru,
    kmodal_random,
    kmodal_separated,
    lifetime_years,
    markov_pdf,
    p_gc_approx,
    p_gc_d_choices,
    p_gc_greedy,
    p_gc_lru,
    p_gc_window_greedy,
    polynomial_fit,
    separated_cleaning_cost,
    valid_pages_pdf,
    window_benefit,
    write_amplification,
    write_amplification_lru,
)

__all__ = [
    "beta_polynomial",
    "cleaning_cost",
    "cleaning_cost_bound",
    "cleaning_cost_bound_of_held",
    "cleaning_cost_derivative",
    "cleaning_cost_lru",
    "kmodal_random",
    "kmodal_separated",
    "lifetime_years",
    "markov_pdf",
    "p_gc_approx",
    "p_gc_d_choices",
    "p_gc_greedy",
    "p_gc_lru",
    "p_gc_window_greedy",
    "polynomial_fit",
    "separated_cleaning_cost",
    "valid_pages_pdf",
    "window_benefit",
    "write_amplification",
    "write_amplification_lru",
]
