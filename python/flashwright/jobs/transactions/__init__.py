"""What Rust does not do of the job `transactions`."""
