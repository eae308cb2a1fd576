//! Tests that span several models.

mod mean_field_simulated;
mod placement_of_sets;
