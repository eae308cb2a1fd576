"""Benchmarks on real databases: one, or several that differ in what is asked for.

Each is run as often as the others, and what each layer made of its writes is laid side by side.
"""
