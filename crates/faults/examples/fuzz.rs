//! Hands mutilated images to the recovery of stacks of layers.
//!
//! ```text
//! cargo run --release -p flashwright-faults --example fuzz -- \
//!     [images=100000] [seed=1] [only=PART OF A STACK'S NAME]
//! ```

use std::process::ExitCode;
use std::time::Instant;

use faults::fuzz::{Images, Outcomes};
use faults::{Dice, SubjectKind, subjects};

fn main() -> ExitCode {
    let (mut count, mut seed, mut only) = (100_000, 1, String::new());
    for argument in std::env::args().skip(1) {
        let parsed = match argument.split_once('=') {
            Some(("images", value)) => value.parse().map(|value| count = value).is_ok(),
            Some(("seed", value)) => value.parse().map(|value| seed = value).is_ok(),
            Some(("only", value)) => {
                only = value.to_owned();
                true
            }
            _ => false,
        };
        if !parsed {
            eprintln!("`{argument}`: images=NUMBER, seed=NUMBER or only=TEXT is needed");
            return ExitCode::from(2);
        }
    }
    let is_tried = |subject: &faults::Subject| {
        matches!(subject.kind, SubjectKind::Registered(_)) && subject.to_string().contains(&only)
    };
    // Stacks without a form on the device have nothing to recover.
    let has_form = |subject: &faults::Subject| {
        Images::new(subject, seed).map_or(true, |images| images.structures() > 0)
    };
    let subjects: Vec<_> =
        subjects().into_iter().filter(|subject| is_tried(subject) && has_form(subject)).collect();
    let share = count / subjects.len().max(1) as u64;
    let mut faults = 0;
    // A panic is told as a fault.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    for subject in subjects {
        let start = Instant::now();
        let mut outcomes = Outcomes::default();
        let mut wrong = None;
        // Other volumes, and other images of them, every thousand.
        'all: for first in (0..share).step_by(1000) {
            let images = match Images::new(&subject, seed + first) {
                Ok(images) => images,
                Err(error) => {
                    wrong = Some(error.0);
                    break 'all;
                }
            };
            for number in first..share.min(first + 1000) {
                let mut dice = Dice::new(seed + number);
                let image = images.mutilate(&mut dice);
                if let Err(error) =
                    images.open(&subject, image, &mut dice, &mut outcomes, &mut |_| ())
                {
                    wrong = Some(format!("image {number}: {}", error.0));
                    break 'all;
                }
            }
        }
        let Outcomes { tried, opened, refused } = outcomes;
        let found = wrong.as_deref().unwrap_or("no fault");
        faults += u64::from(wrong.is_some());
        println!(
            "{subject}: {tried} images, {opened} opened, {refused} refused, {:.1} s: {found}",
            start.elapsed().as_secs_f64()
        );
    }
    if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
