"""Layers between a database and a device.

What they need to know of it, and what they gain or lose on it.
"""
