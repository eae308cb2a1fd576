//! Statistics, free of devices: estimates with intervals, fits, periods, steps.
