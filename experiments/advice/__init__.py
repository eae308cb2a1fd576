"""Advice held against what was measured: a matrix of databases, workloads, drives and changes."""
