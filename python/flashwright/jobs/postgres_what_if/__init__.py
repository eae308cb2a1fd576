"""`postgres_what_if`: what other settings of a PostgreSQL server would have written."""
