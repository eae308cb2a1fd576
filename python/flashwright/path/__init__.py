"""Studies of the write path.

One benchmark, run with one thing changed at a time, and what each layer made of its writes.
"""
