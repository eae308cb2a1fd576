//! Stacks whose parameters are drawn at random, of all that the registry has: what nobody thought
//! of putting together.

use block::Immediate;
use layers::{Entry, LAYERS, LayerError};
use placement::{PLACEMENTS, VICTIMS};
use registry::{Param, ParamKind};

use crate::{Dice, Subject};

/// A parameter is left as it is by default this often.
const LEFT: f64 = 0.6;
/// Greatest number that is drawn where a device of a few hundred KiB makes no use of more.
const MOST: u64 = 64;
/// Values of texts: of each of these parameters, and of all others.
const TEXTS: &[(&str, &[&str])] = &[
    ("segment", &["4Ki", "8Ki", "16Ki", "32Ki"]),
    ("align", &["off", "1Ki", "4Ki", "8Ki"]),
    ("checkpoint_every", &["auto", "1", "8Ki", "64Ki"]),
    ("summary_pages", &["8", "9", "16", "64"]),
    ("idle_clean", &["off", "20us", "1ms"]),
    ("size", &["4Ki", "8Ki", "16Ki", "32Ki"]),
    ("patience", &["auto", "1us", "200us"]),
    ("methods", &["defer", "coalesce", "defer,coalesce"]),
    ("buffer", &["off", "1", "4Ki", "16Ki", "64Ki"]),
    ("flush_time", &["off", "1us", "2ms"]),
    ("age", &["off", "100us", "2ms"]),
    ("delay", &["5s", "20us", "1ms"]),
    ("sequential", &["auto", "off", "2Ki", "8Ki"]),
    ("focused_area", &["auto", "2Ki", "8Ki"]),
];
const NUMBERS: &[&str] = &["auto", "0.5", "1", "3", "40"];

fn text(name: &str, dice: &mut Dice) -> String {
    let named = |entries: &[&'static str], dice: &mut Dice| dice.pick(entries).to_owned();
    match name {
        "placement" => {
            let names: Vec<&str> = PLACEMENTS.iter().map(|entry| entry.info.name).collect();
            named(&names, dice)
        }
        "victim" => {
            let names: Vec<&str> = VICTIMS.iter().map(|info| info.name).collect();
            named(&names, dice)
        }
        _ => {
            let known = TEXTS.iter().find(|(known, _)| *known == name);
            named(known.map_or(NUMBERS, |(_, values)| values), dice)
        }
    }
}

/// A whole number between both, small ones as likely as large ones.
fn between(min: u64, max: u64, dice: &mut Dice) -> u64 {
    let octaves = (max / min.max(1)).ilog2() as usize;
    let least = min.max(1) << dice.below(octaves + 1);
    (least + dice.below(least as usize) as u64).clamp(min, max)
}

fn value(param: &Param, dice: &mut Dice) -> String {
    match param.kind {
        ParamKind::Integer { min, max } => between(min, max.min(min.max(MOST)), dice).to_string(),
        ParamKind::Bytes { min, max } => {
            let octaves = (max.min(8 << 10) / min.max(512)).ilog2() as usize;
            (min.max(512) << dice.below(octaves + 1)).to_string()
        }
        ParamKind::Number { min, max } => {
            let most = max.min(2.0);
            format!("{:.3}", min + (most - min) * dice.below(1000) as f64 / 1000.0)
        }
        ParamKind::Choice(words) => dice.pick(words).to_owned(),
        ParamKind::Text => text(param.name, dice),
    }
}

fn layer(entry: &Entry, dice: &mut Dice) -> String {
    let mut given = Vec::new();
    for param in entry.info.params {
        // A log in the parameters of a scheduler is drawn as a layer of its own.
        if param.name == "log" || dice.chance(LEFT) && param.name != "segment" {
            continue;
        }
        given.push(format!("{}={}", param.name, value(param, dice)));
    }
    match given.is_empty() {
        true => entry.info.name.to_owned(),
        false => format!("{}({})", entry.info.name, given.join(",")),
    }
}

/// One stack on a device, whether it can be made or not.
fn draw(dice: &mut Dice) -> Subject {
    let layers = 1 + dice.weighted(&[6, 3, 1]);
    let stack: Vec<String> = (0..layers).map(|_| layer(dice.pick(LAYERS), dice)).collect();
    let sector_bytes = if dice.chance(0.8) { 512 } else { 4096 };
    let device_bytes = (16 + dice.below(112) as u64) * 4096;
    let mut subject = Subject::registered(&stack.join("|"), device_bytes, sector_bytes);
    subject.most_bytes = dice.pick(&[8 << 10, 64 << 10, 64 << 10]);
    if dice.chance(0.2) { subject.aside((4 + dice.below(28) as u64) * 4096) } else { subject }
}

/// So many stacks that can be made, with the devices they lie on.
///
/// # Panics
/// If a stack that was made cannot be opened: that is a bug.
#[must_use]
pub fn drawn(seed: u64, count: usize) -> Vec<Subject> {
    let mut dice = Dice::new(seed ^ 0xd7a3);
    let mut found = Vec::new();
    while found.len() < count {
        let subject = draw(&mut dice);
        let mut device = Immediate::sparse(subject.limits());
        match subject.format(seed, &mut device) {
            Ok(()) => {}
            Err(LayerError::Device(_) | LayerError::Gone(_) | LayerError::Corrupt { .. }) => {
                panic!("{subject}: an empty device was not formatted")
            }
            Err(_) => continue,
        }
        if let Err(error) = subject.open(seed, &mut device) {
            panic!("{subject} was made, and cannot be opened: {error}");
        }
        found.push(subject);
    }
    found
}
