"""Many runs at once: every policy, over-provisioning and workload of a comparison."""
