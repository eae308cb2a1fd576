//! The short form of `examples/rot.rs`: one byte changes, and nothing is read that was not written.

use faults::rot::{Rotten, is_checked, rot};
use faults::{Subject, subjects};

const FLIPS: u64 = 30;

#[test]
fn a_byte_that_changes_is_noticed_or_changes_nothing() {
    let mut sum = Rotten::default();
    for subject in subjects().iter().filter(|subject| is_checked(subject)) {
        let mut tally = Rotten::default();
        for seed in 1..=FLIPS {
            if let Err(wrong) = rot(subject, seed, &mut tally) {
                panic!("{subject}, seed {seed}: {}", wrong.0);
            }
        }
        sum.add(&tally);
    }
    assert!(sum.flips > 500 && sum.noticed > sum.flips / 10, "{sum:?}");
}

/// With the idea taken out: without checksums wrong bytes are given.
#[test]
fn without_checksums_what_changed_is_found() {
    let subject = Subject::registered(
        "log_volume(page=1Ki,segment=8Ki,over_provisioning=60%,summary_pages=8,checksums=no)",
        128 << 10,
        512,
    );
    let found = (1..200).any(|seed| rot(&subject, seed, &mut Rotten::default()).is_err());
    assert!(found, "no wrong byte is given in 200 flips");
}
