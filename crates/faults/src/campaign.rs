//! Episodes until there were enough power cuts; and what to do with a fault: the one command that
//! shows it again, and a smaller form of it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use units::IoOp;

use crate::{ErrorPlan, Options, Subject, Tally, Wrong, live};

/// A fault that was found.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Description of the fault.
    pub what: String,
    /// Seed of the episode.
    pub seed: u64,
    /// Options of the episode.
    pub options: Options,
    /// Power cuts until it was found.
    pub cuts: u64,
}

/// Lives an episode; a panic is a fault, too.
///
/// # Errors
/// [`Wrong`].
pub fn try_episode(
    subject: &Subject,
    options: &Options,
    seed: u64,
    tally: &mut Tally,
) -> Result<(), Wrong> {
    let lived = catch_unwind(AssertUnwindSafe(|| live(subject, options, seed, tally)));
    lived.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Wrong(format!("panics: {}", text.unwrap_or_default())))
    })
}

/// Runs episodes from this seed on, until there were so many power cuts. `told` hears the state
/// after each, and ends the campaign with `false`.
///
/// # Errors
/// The first [`Fault`].
pub fn campaign(
    subject: &Subject,
    options: &Options,
    seed: u64,
    cuts: u64,
    told: &mut dyn FnMut(&Tally, u64) -> bool,
) -> Result<Tally, Box<Fault>> {
    let mut tally = Tally::default();
    for number in 0.. {
        let seed = seed.wrapping_add(number);
        // Every third episode has errors, some are quiet in one way or another: each finds what the
        // others hide.
        let varied = vary(options, seed);
        let fault = |wrong: Wrong, tally: &Tally| {
            Box::new(Fault { what: wrong.0, seed, options: varied, cuts: tally.cuts })
        };
        try_episode(subject, &varied, seed, &mut tally).map_err(|wrong| fault(wrong, &tally))?;
        if tally.cuts >= cuts || !told(&tally, seed) {
            break;
        }
    }
    Ok(tally)
}

/// Runs episodes in each of which one command fails: every one that the device is sent, and every
/// one that a layer sends to the layer below it, once alone and once with all that follow; until an
/// episode ends before the command would come. Gives the number of commands that failed.
///
/// # Errors
/// The first [`Fault`].
pub fn each_command_fails(
    subject: &Subject,
    options: &Options,
    seed: u64,
    layers: usize,
) -> Result<u64, Box<Fault>> {
    let mut failed = 0;
    for level in 0..layers.max(1) {
        for (op, is_lasting) in IoOp::ALL.into_iter().flat_map(|op| [(op, false), (op, true)]) {
            for at in 0.. {
                let plan = Some(ErrorPlan { at, op: Some(op), is_lasting, level });
                let planned = Options { plan, ..*options };
                let mut tally = Tally::default();
                try_episode(subject, &planned, seed, &mut tally).map_err(|wrong| {
                    let what = format!("{} ({plan:?})", wrong.0);
                    Box::new(Fault { what, seed, options: planned, cuts: tally.cuts })
                })?;
                if tally.errors == 0 {
                    break;
                }
                failed += 1;
            }
        }
    }
    Ok(failed)
}

/// Gives the options of the episode of this seed.
#[must_use]
pub const fn vary(options: &Options, seed: u64) -> Options {
    let is_burst = seed % 6 == 3;
    Options {
        with_errors: options.with_errors && seed % 3 == 2,
        with_trims: options.with_trims && seed % 4 != 1,
        with_fua: options.with_fua && seed % 5 != 2,
        is_orderly: options.is_orderly || seed.is_multiple_of(7),
        operations: if seed % 6 == 4 {
            4 * options.operations
        } else if is_burst {
            options.operations / 6 + 1
        } else {
            options.operations
        },
        // Cuts and kills in bursts: what each leaves adds up.
        links: if is_burst { 12 * options.links } else { options.links },
        ..*options
    }
}

/// Cuts that are spent on making a fault smaller.
const MOST_CUTS: u64 = 60_000;

/// Finds a smaller episode with a fault, by a few tries of each change with seeds near the fault's
/// own.
#[must_use]
pub fn shrink(subject: &Subject, fault: &Fault, tries: u64) -> Fault {
    let mut best = fault.clone();
    let changes: [fn(&mut Options); 10] = [
        |options| options.volumes = 1,
        |options| options.with_errors = false,
        |options| options.with_kills = false,
        |options| options.with_trims = false,
        |options| options.with_signals = false,
        |options| options.with_fua = false,
        |options| options.is_orderly = true,
        |options| options.links = 1.max(options.links / 2),
        |options| options.operations = 4.max(options.operations / 2),
        |options| options.links = 1,
    ];
    let depths: [usize; 3] = [1, 2, 4];
    let mut spent = Tally::default();
    let mut try_with = |options: Options, best: &mut Fault| {
        if options == best.options {
            return;
        }
        for seed in best.seed..best.seed + tries {
            if spent.cuts > MOST_CUTS {
                return;
            }
            let mut tally = Tally::default();
            let tried = try_episode(subject, &options, seed, &mut tally);
            spent.add(&tally);
            if let Err(wrong) = tried {
                *best = Fault { what: wrong.0, seed, options, cuts: tally.cuts };
                return;
            }
        }
    };
    for _ in 0..4 {
        for change in changes {
            let mut options = best.options;
            change(&mut options);
            try_with(options, &mut best);
        }
    }
    for depth in depths {
        if depth < best.options.depth {
            try_with(Options { depth, ..best.options }, &mut best);
        }
    }
    best
}
