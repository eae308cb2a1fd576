//! Opening a device by its spec.
