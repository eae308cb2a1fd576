//! Each kind of command of the device fails once, at every place: the host hears of it, or nothing
//! was lost.

use faults::{ErrorPlan, Options, Tally, subjects, try_episode};
use units::IoOp;

#[test]
fn whatever_command_fails_nothing_that_was_acknowledged_as_durable_is_lost() {
    for subject in subjects() {
        let mut tally = Tally::default();
        for op in IoOp::ALL {
            for at in 0..8 {
                for is_lasting in [false, true] {
                    let plan = Some(ErrorPlan { at, op: Some(op), is_lasting });
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
