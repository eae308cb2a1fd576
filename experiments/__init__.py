"""Figures and tables of published papers, and validations: computed again, from a clone."""
