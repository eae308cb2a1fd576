"""The models.

Cleaning cost in closed form and numerically, the division of space, the bound, lifetime; the ages
of drives in an array with parity, and what is lost when one fails (DIFF-RAID: Balakrishnan et al.,
EuroSys 2010). Functions of one number take a float, or an array of any shape, and give the same.
Each says in its docstring which equation of MULTILOG (Stoica & Ailamaki, VLDB 2013) it is, in which
units, and what it raises.
"""

from flashwright._core import ageing_rates as ageing_rates
from flashwright._core import beta_polynomial as beta_polynomial
from flashwright._core import cleaning_cost as cleaning_cost
from flashwright._core import cleaning_cost_bound as cleaning_cost_bound
from flashwright._core import cleaning_cost_bound_of_held as cleaning_cost_bound_of_held
from flashwright._core import cleaning_cost_derivative as cleaning_cost_derivative
from flashwright._core import cleaning_cost_lru as cleaning_cost_lru
from flashwright._core import codeword_failure as codeword_failure
from flashwright._core import converged_ages as converged_ages
from flashwright._core import kmodal_random as kmodal_random
from flashwright._core import kmodal_separated as kmodal_separated
from flashwright._core import lifetime_years as lifetime_years
from flashwright._core import loss_on_failure as loss_on_failure
from flashwright._core import markov_pdf as markov_pdf
from flashwright._core import next_ages as next_ages
from flashwright._core import p_gc_approx as p_gc_approx
from flashwright._core import p_gc_d_choices as p_gc_d_choices
from flashwright._core import p_gc_greedy as p_gc_greedy
from flashwright._core import p_gc_lru as p_gc_lru
from flashwright._core import p_gc_window_greedy as p_gc_window_greedy
from flashwright._core import polynomial_fit as polynomial_fit
from flashwright._core import raw_bit_error_rate as raw_bit_error_rate
from flashwright._core import valid_pages_pdf as valid_pages_pdf
from flashwright._core import window_benefit as window_benefit
from flashwright._core import write_amplification as write_amplification
