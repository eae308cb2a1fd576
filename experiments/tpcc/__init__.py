"""SCHEDULER's chapter 5: TPC-C on a real server over emulated drives, in place and in a log."""
