"""Volumes that databases use: layers on a device, served to the system.

What a volume is and keeps is in the crate `servers`; here are the processes around it: the one that
serves it, and what mounts a file system on it and takes all of that away again.
"""
