//! Changes bytes below stacks of layers, and judges what is read then.
//!
//! ```text
//! cargo run --release -p flashwright-faults --example rot -- \
//!     [flips=10000] [seed=1] [only=PART OF A STACK'S NAME] [stack=STACK]
//! ```
//!
//! `flips` are in all, divided among the stacks. A fault is printed with the seed that shows it again,
//! with `flips=1` and its stack.

use std::process::ExitCode;
use std::time::Instant;

use faults::rot::{Rotten, is_checked, rot};
use faults::{Subject, Wrong, subjects};

fn main() -> ExitCode {
    let (mut flips, mut seed, mut only, mut stack) = (10_000_u64, 1, String::new(), None);
    for argument in std::env::args().skip(1) {
        let parsed = match argument.split_once('=') {
            Some(("flips", value)) => value.parse().map(|value| flips = value).is_ok(),
            Some(("seed", value)) => value.parse().map(|value| seed = value).is_ok(),
            Some(("only", value)) => {
                only = value.to_owned();
                true
            }
            Some(("stack", value)) => {
                stack = Some(Subject::registered(value, 160 << 10, 512));
                true
            }
            _ => false,
        };
        if !parsed {
            eprintln!("`{argument}`: flips=, seed=, only= or stack= is needed");
            return ExitCode::from(2);
        }
    }
    let all = stack.map_or_else(subjects, |stack| vec![stack]);
    let all: Vec<Subject> = all
        .into_iter()
        .filter(|subject| is_checked(subject) && subject.to_string().contains(&only))
        .collect();
    let share = flips.div_ceil(all.len().max(1) as u64);
    let (mut sum, mut faults, began) = (Rotten::default(), 0, Instant::now());
    for subject in &all {
        let (mut tally, mut wrong) = (Rotten::default(), None);
        let mut number = seed;
        while tally.flips < share && wrong.is_none() {
            wrong = rot(subject, number, &mut tally).err().map(|Wrong(text)| (text, number));
            number += 1;
        }
        let Rotten { flips, noticed, refused, poisoned, sectors_judged, failed } = tally;
        println!(
            "{subject}: {flips} flips, {noticed} noticed ({refused} volumes refused, {poisoned} \
             poisoned, {failed} commands failed), {sectors_judged} sectors judged: {}",
            wrong.as_ref().map_or_else(
                || "no fault".to_owned(),
                |(text, seed)| format!("FAULT, seed {seed}: {text}")
            )
        );
        faults += u64::from(wrong.is_some());
        sum.add(&tally);
    }
    println!(
        "{} flips over {} stacks, {} noticed, {} sectors judged in {:.0} s: {faults} with faults",
        sum.flips,
        all.len(),
        sum.noticed,
        sum.sectors_judged,
        began.elapsed().as_secs_f64()
    );
    if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
