"""The chapters of the book: a paper each."""

from __future__ import annotations

from experiments.book import multilog, parallelism, replication, scheduler, stable_buffer

CHAPTERS = (
    multilog.CHAPTER,
    stable_buffer.CHAPTER,
    scheduler.CHAPTER,
    replication.CHAPTER,
    parallelism.CHAPTER,
)
