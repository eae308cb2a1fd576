"""PARALLELISM sections 6.2 and 6.3: parallel queries of the Star Schema Benchmark."""
