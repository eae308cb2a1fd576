//! Statistics, free of devices: estimates with intervals, fits, periods, steps.

pub mod cells;
pub mod estimate;
pub mod knee;
pub mod lines;
pub mod modes;
pub mod periods;
pub mod steps;
pub mod waits;
