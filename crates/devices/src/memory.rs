//! Memory of this process as a block device, to measure what the way to a device costs.
