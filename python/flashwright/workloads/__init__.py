"""Database loads that are run against a device or recorded from one."""
