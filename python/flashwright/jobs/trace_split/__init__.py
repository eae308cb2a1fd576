"""`trace_split`: a trace of many volumes as a store, by volume and time."""
