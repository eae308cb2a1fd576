"""Figures and tables of the published papers, computed again."""
