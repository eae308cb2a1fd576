"""Transactions in a closed loop on a device: what is played, one run, its result."""
