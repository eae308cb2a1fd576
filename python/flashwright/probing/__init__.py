"""Probing a drive.

What is probed, which experiments in which order, what they found, and where that is kept.
"""
