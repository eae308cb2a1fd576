//! The campaign's short form: 10,000 power cuts over all stacks, and as many over some that are
//! drawn at random. The long one is `examples/campaign.rs`.

use faults::{Options, Subject, campaign, drawn, subjects};

const CUTS: u64 = 10_000;

#[test]
fn no_stack_loses_or_invents_anything_at_a_power_cut() {
    cut(&subjects());
}

#[test]
fn no_stack_of_parameters_drawn_at_random_does_so() {
    let drawn = drawn(3, 60);
    cut(&drawn);
    for entry in layers::LAYERS {
        let is_there = drawn.iter().any(|stack| stack.to_string().contains(entry.info.name));
        assert!(is_there, "`{}` was not drawn", entry.info.name);
    }
}

fn cut(subjects: &[Subject]) {
    let share = CUTS.div_ceil(subjects.len() as u64);
    for (number, subject) in subjects.iter().enumerate() {
        let options = Options { with_errors: true, operations: 40, links: 3, ..Options::default() };
        // Seeds far apart: what one stack was not tried with, another is.
        let seed = 1000 * number as u64;
        if let Err(fault) = campaign(subject, &options, seed, share, &mut |_, _| true) {
            panic!(
                "{subject} ({} bytes), seed {}, after {} cuts: {}",
                subject.device_bytes, fault.seed, fault.cuts, fault.what
            );
        }
    }
}

#[test]
fn every_layer_of_the_registry_is_in_the_campaign() {
    let tried: Vec<String> = subjects().iter().map(ToString::to_string).collect();
    for entry in layers::LAYERS {
        assert!(
            tried.iter().any(|stack| stack.contains(entry.info.name)),
            "`{}` is in no stack of the campaign",
            entry.info.name
        );
    }
}
