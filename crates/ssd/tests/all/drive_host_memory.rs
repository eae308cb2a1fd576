//! The host memory buffer of a drive without DRAM, against closed forms.

use ssd::drive::profile::Profile;
use ssd::drive::run::Outcome;
use ssd::drive::state::State;
use units::IoOp;

use crate::drive::{Endless, assert_within, profile, run, settings};

/// A page and its 4 KiB at 333 MB/s.
const READ: f64 = 75.0 + 4096.0 / 333.0;

/// 10,922 pages, whose map takes 11 translation pages; the drive itself holds one entry.
fn without_dram(bytes: &str) -> Profile {
    let scheme = format!("dftl(cached_entries=1,host_memory_bytes={bytes},host_memory_us=3)");
    profile(&[
        ("media.erase_blocks_per_plane", "256"),
        ("media.pages_per_erase_block", "64"),
        ("ftl.scheme", &scheme),
    ])
}

fn reads(profile: &Profile) -> Outcome {
    let mut settings = settings(profile, State::Filled, 1, 20_000);
    settings.warm_up_requests = 1000;
    run(&settings, Endless::random(IoOp::Read, profile, 5))
}

#[test]
fn a_translation_comes_from_the_host_as_often_as_it_has_room() {
    for (bytes, share) in [("0", 0.0), ("20Ki", 5.0 / 11.0), ("1Mi", 1.0)] {
        let outcome = reads(&without_dram(bytes));
        let expected = READ + share * 3.0 + (1.0 - share) * READ;
        let mean = outcome.latencies.of(IoOp::Read).latency.mean / 1e3;
        assert_within(mean, expected, 0.01, &format!("{bytes} bytes of the host's"));
        let hits = outcome.scheme.mapping_host_hits as f64 / outcome.requests as f64;
        assert!((hits - share).abs() < 0.02, "{hits} of {share}");
    }
}

/// Written and cleaned, reads still find what was written: the oracle of `drive_properties` is over
/// this scheme, too. Here: what is in the host's memory is not read from flash to be changed.
#[test]
fn writes_need_not_read_what_the_host_holds() {
    let mapping_reads = |bytes: &str| {
        let profile = without_dram(bytes);
        let mut settings = settings(&profile, State::Aged { overwrites: 1.0 }, 4, 4000);
        settings.warm_up_requests = 1000;
        let outcome = run(&settings, Endless::random(IoOp::Write, &profile, 5));
        let of = ssd::drive::media::Cause::Mapping as usize;
        outcome.media.operations[ssd::drive::media::FlashOp::Read as usize][of]
    };
    assert!(mapping_reads("0") > 2000, "{}", mapping_reads("0"));
    assert_eq!(mapping_reads("1Mi"), 0);
}
