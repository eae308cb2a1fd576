//! Each kind of command of the device fails once, at every place: the host hears of it, or nothing
//! was lost.

use faults::{ErrorPlan, Options, SubjectKind, Tally, each_command_fails, subjects, try_episode};
use units::IoOp;

#[test]
fn whatever_command_fails_nothing_that_was_acknowledged_as_durable_is_lost() {
    for subject in subjects() {
        let mut tally = Tally::default();
        for op in IoOp::ALL {
            for at in 0..8 {
                for is_lasting in [false, true] {
                    let plan = Some(ErrorPlan { at, op: Some(op), is_lasting, level: 0 });
                    let options = Options {
                        operations: 40,
                        links: 2,
                        volumes: 1,
                        cut_share: 0.05,
                        plan,
                        ..Options::default()
                    };
                    let seed = at + 100 * op as u64;
                    if let Err(wrong) = try_episode(&subject, &options, seed, &mut tally) {
                        panic!("{subject}, seed {seed}, {plan:?}: {}", wrong.0);
                    }
                }
            }
        }
        assert!(tally.errors > 8, "{subject}: {tally:?}");
    }
}

/// Not only below a stack, but in its middle: whatever one layer sends to the next.
#[test]
fn each_command_between_the_layers_of_a_stack_fails_once() {
    let options =
        Options { operations: 24, links: 1, volumes: 1, cut_share: 0.02, ..Options::default() };
    let mut failed = 0;
    for subject in subjects() {
        let SubjectKind::Registered(text) = &subject.kind else { continue };
        let layers = layers::parse(text).unwrap().len();
        if layers > 1 {
            match each_command_fails(&subject, &options, 7, layers) {
                Ok(commands) => failed += commands,
                Err(fault) => panic!("{subject}, seed {}: {}", fault.seed, fault.what),
            }
        }
    }
    assert!(failed > 500, "{failed} commands failed");
}
