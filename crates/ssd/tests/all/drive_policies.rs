//! Every placement policy on every built-in drive that maps pages, from 7 % of over-provisioning on.

use placement::PLACEMENTS;
use ssd::drive::profile::{BuiltIn, PROFILES, Profile};
use ssd::drive::run::simulate;
use ssd::drive::state::State;
use units::{IoOp, Progress};

use crate::drive::{Endless, settings};

/// The drive with its channels, dies, planes and erase blocks, of so many programs each.
fn scaled(builtin: &BuiltIn, changes: &[(&str, &str)]) -> Profile {
    let mut profile = builtin.profile();
    let pages = (2 * profile.media.pages_per_program).to_string();
    profile.set("media.pages_per_erase_block", &pages).unwrap();
    profile.set("ftl.victim", "").unwrap();
    for (key, value) in changes {
        profile.set(key, value).unwrap();
    }
    profile.check().unwrap_or_else(|error| panic!("{error}"));
    profile
}

/// Runs random writes, audited. The streams that there was no room for, or why the
/// drive cannot be.
fn runs(profile: &Profile, state: State) -> Result<usize, String> {
    let pages = profile.logical_pages() as usize;
    let weights = || vec![1.0; pages];
    let settings = settings(profile, state, 64, 1000);
    let source = Box::new(Endless::random(IoOp::Write, profile, 3));
    let outcome = simulate(&settings, Some(&weights), source, &Progress::default())
        .map_err(|error| error.to_string())?;
    assert_eq!(outcome.requests, 1000);
    assert!(outcome.write_amplification >= 1.0 && outcome.worn_out.is_none());
    Ok(outcome.streams_left_out)
}

#[test]
fn every_policy_runs_on_every_built_in_drive_from_7_percent_on() {
    let mut left_out = 0;
    for builtin in PROFILES {
        let scheme = builtin.profile().ftl.scheme;
        if !["page_mapped", "superblock_mapped"].iter().any(|own| scheme.starts_with(own)) {
            continue;
        }
        // Nobody knows the future of a drive with a clock.
        for entry in PLACEMENTS.iter().filter(|entry| entry.info.name != "future_knowledge") {
            let changes = |scheme| {
                let place = ("ftl.placement", entry.info.name);
                scaled(builtin, &[place, ("ftl.over_provisioning", "7%"), ("ftl.scheme", scheme)])
            };
            let what = format!("{} on {}", entry.info.name, builtin.name);
            let found = runs(&changes("superblock_mapped"), State::Aged { overwrites: 0.2 });
            left_out += found.unwrap_or_else(|error| panic!("{what}, superblocks: {error}"));
            if let Err(error) = runs(&changes(&scheme), State::Fresh) {
                // One clear line that says what would work.
                assert!(!error.contains('\n') && error.contains("superblock_mapped"), "{error}");
            }
        }
    }
    assert!(left_out > 0, "no drive is too tight for a policy: this test shows nothing");
}
