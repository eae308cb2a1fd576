"""Rows that are read from numbers of sets, where a set gives no rows itself."""
