//! Cuts the power of stacks of layers at every write of the device, and judges what they recover.
//!
//! ```text
//! cargo run --release -p flashwright-faults --example campaign -- [KEY=VALUE ...]
//! ```
//!
//! `drawn` (so many stacks with parameters drawn at random, by the seed, in place of the others),
//! `stack` (a stack's text, `planted:BUG`, or `all`: every stack of `faults::subjects`), `cuts` (in
//! all, divided among them; 10,000), `fails` (episodes of each stack in which each command fails
//! once, at the device and between its layers; 0), `seed` (1), `device`, `sector`, `most` and
//! `tail` (bytes: of the device, a sector, the longest command, the end of a sector that stays
//! zero), `aside` (bytes of a second device, behind the first, for a layer's area; 0),
//! `errors`, `kills`, `trims`, `fua`, `signals`, `orderly` (`yes`, `no`), `operations`, `links`,
//! `volumes`, `depth` (of [`faults::Options`]), `told` (commands and replies that are told with a
//! fault), `exactly` (`yes`: the options as they are, which the replay of a fault wants), `shrink`
//! (tries; 40).

use std::process::ExitCode;
use std::time::Instant;

use faults::{
    Bug, Fault, Options, Subject, SubjectKind, Tally, campaign, drawn, each_command_fails, shrink,
    subjects, try_episode,
};

struct Arguments {
    subjects: Vec<Subject>,
    options: Options,
    cuts: u64,
    fails: u64,
    seed: u64,
    is_exact: bool,
    tries: u64,
}

fn number(key: &str, value: &str) -> Result<u64, String> {
    let plain: String = value.chars().filter(|c| *c != '_' && *c != ',').collect();
    plain.parse().map_err(|_| format!("{key}={value}: a whole number is needed"))
}

fn yes(key: &str, value: &str) -> Result<bool, String> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("{key}={value}: `yes` or `no` is needed")),
    }
}

fn planted(name: &str) -> Result<Subject, String> {
    let bug = Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == name);
    let names: Vec<String> = Bug::ALL.iter().map(|bug| format!("{bug:?}")).collect();
    Ok(Subject::planted(bug.ok_or_else(|| {
        format!("no such bug is planted: {name}; there are {}", names.join(", "))
    })?))
}

fn parse(arguments: &[String]) -> Result<Arguments, String> {
    let mut parsed = Arguments {
        subjects: subjects(),
        options: Options { with_errors: true, ..Options::default() },
        cuts: 10_000,
        fails: 0,
        seed: 1,
        is_exact: false,
        tries: 40,
    };
    let (mut device, mut sector, mut most, mut tail) = (None, None, None, None);
    let (mut aside, mut drawn_stacks) = (None, None);
    for argument in arguments {
        let (key, value) =
            argument.split_once('=').ok_or_else(|| format!("`{argument}` is not KEY=VALUE"))?;
        let options = &mut parsed.options;
        match key {
            "stack" if value == "all" => parsed.subjects = subjects(),
            "stack" => {
                parsed.subjects = match value.strip_prefix("planted:") {
                    Some(name) => vec![planted(name)?],
                    None => {
                        let known: Vec<Subject> = subjects()
                            .into_iter()
                            .filter(|subject| subject.to_string() == value)
                            .collect();
                        if known.is_empty() {
                            vec![Subject::registered(value, 1 << 20, 512)]
                        } else {
                            known
                        }
                    }
                };
            }
            "only" => parsed.subjects.retain(|subject| subject.to_string().contains(value)),
            "drawn" => drawn_stacks = Some(number(key, value)? as usize),
            "cuts" => parsed.cuts = number(key, value)?,
            "fails" => parsed.fails = number(key, value)?,
            "seed" => parsed.seed = number(key, value)?,
            "shrink" => parsed.tries = number(key, value)?,
            "device" => device = Some(number(key, value)?),
            "sector" => sector = Some(number(key, value)? as u32),
            "most" => most = Some(number(key, value)? as u32),
            "aside" => aside = Some(number(key, value)?),
            "tail" => tail = Some(number(key, value)? as u32),
            "operations" => options.operations = number(key, value)? as usize,
            "links" => options.links = number(key, value)? as usize,
            "volumes" => options.volumes = number(key, value)? as usize,
            "told" => options.told = number(key, value)? as usize,
            "depth" => options.depth = number(key, value)? as usize,
            "errors" => options.with_errors = yes(key, value)?,
            "kills" => options.with_kills = yes(key, value)?,
            "trims" => options.with_trims = yes(key, value)?,
            "fua" => options.with_fua = yes(key, value)?,
            "signals" => options.with_signals = yes(key, value)?,
            "orderly" => options.is_orderly = yes(key, value)?,
            "exactly" => parsed.is_exact = yes(key, value)?,
            _ => return Err(format!("`{key}` is unknown: see the head of examples/campaign.rs")),
        }
    }
    if let Some(count) = drawn_stacks {
        parsed.subjects = drawn(parsed.seed, count);
    }
    for subject in &mut parsed.subjects {
        if let Some(device) = device {
            subject.device_bytes = device + subject.staging_bytes;
        }
        if let Some(staging) = aside.filter(|_| subject.staging_bytes == 0) {
            *subject = subject.clone().aside(staging);
        }
        subject.sector_bytes = sector.unwrap_or(subject.sector_bytes);
        subject.most_bytes = most.unwrap_or(subject.most_bytes);
        subject.tail_bytes = tail.unwrap_or(subject.tail_bytes);
    }
    Ok(parsed)
}

fn command(subject: &Subject, fault: &Fault) -> String {
    let yes = |value: bool| if value { "yes" } else { "no" };
    let Options {
        operations,
        links,
        volumes,
        depth,
        is_orderly,
        with_trims,
        with_fua,
        with_signals,
        with_errors,
        with_kills,
        ..
    } = fault.options;
    let stack = match &subject.kind {
        SubjectKind::Registered(stack) => stack.clone(),
        SubjectKind::Planted(_) | SubjectKind::Holes(_) => subject.to_string(),
    };
    let size = match subject.kind {
        SubjectKind::Registered(_) => {
            let Subject { sector_bytes, most_bytes, tail_bytes, staging_bytes, .. } = subject;
            let device_bytes = subject.device_bytes - staging_bytes;
            format!(
                " device={device_bytes} sector={sector_bytes} most={most_bytes} tail={tail_bytes} \
                 aside={staging_bytes}"
            )
        }
        SubjectKind::Planted(_) | SubjectKind::Holes(_) => String::new(),
    };
    format!(
        "cargo run --release -p flashwright-faults --example campaign -- 'stack={stack}'{size} \
         exactly=yes cuts=1 shrink=0 seed={} operations={operations} links={links} \
         volumes={volumes} depth={depth} orderly={} trims={} fua={} signals={} errors={} kills={}",
        fault.seed,
        yes(is_orderly),
        yes(with_trims),
        yes(with_fua),
        yes(with_signals),
        yes(with_errors),
        yes(with_kills)
    )
}

fn tell(subject: &Subject, fault: &Fault, tries: u64) {
    println!(
        "FAULT in {subject} after {} cuts:\n  {}\n  {}",
        fault.cuts,
        fault.what,
        command(subject, fault)
    );
    if tries > 0 {
        let small = shrink(subject, fault, tries);
        println!(
            "smaller, after {} cuts:\n  {}\n  {}",
            small.cuts,
            small.what,
            command(subject, &small)
        );
    }
}

/// The campaign of one subject, or the very episode that is asked for.
fn cut(arguments: &Arguments, subject: &Subject, share: u64) -> Result<Tally, Box<Fault>> {
    let Arguments { options, seed, is_exact, .. } = *arguments;
    if is_exact {
        let mut tally = Tally::default();
        let fault = |what, cuts| Box::new(Fault { what, seed, options, cuts });
        return try_episode(subject, &options, seed, &mut tally)
            .map_err(|wrong| fault(wrong.0, tally.cuts))
            .map(|()| tally);
    }
    let (start, mut told) = (Instant::now(), Instant::now());
    campaign(subject, &options, seed, share, &mut |tally, seed| {
        if told.elapsed().as_secs() >= 10 {
            told = Instant::now();
            eprintln!(
                "  {subject}: {} of {share} cuts, {:.0} s, seed {seed}",
                tally.cuts,
                start.elapsed().as_secs_f64()
            );
        }
        true
    })
}

/// Each command of a stack fails, in small episodes: how many did.
fn fail(arguments: &Arguments, subject: &Subject) -> Result<u64, Box<Fault>> {
    let SubjectKind::Registered(text) = &subject.kind else { return Ok(0) };
    let layers = layers::parse(text).map_or(1, |layers| layers.len());
    let options =
        Options { operations: 24, links: 1, volumes: 1, cut_share: 0.02, ..Options::default() };
    (0..arguments.fails)
        .map(|episode| each_command_fails(subject, &options, arguments.seed + episode, layers))
        .sum()
}

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let arguments = match parse(&given) {
        Ok(parsed) => parsed,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    // A panic is told as a fault, with the command that shows it.
    if arguments.tries > 0 {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let (began, mut all, mut failed, mut faults) = (Instant::now(), Tally::default(), 0, 0);
    let share = arguments.cuts.div_ceil(arguments.subjects.len().max(1) as u64);
    for subject in &arguments.subjects {
        let start = Instant::now();
        match cut(&arguments, subject, share) {
            Ok(tally) => {
                all.add(&tally);
                println!(
                    "{subject} ({} KiB, sectors of {}): {} cuts ({} in recoveries), {} chained, {} \
                     kills ({} chained), {} errors, {} host commands, {} device writes, {} sectors \
                     judged, {} reads of what was poisoned, {:.1} s: no fault",
                    subject.device_bytes / 1024,
                    subject.sector_bytes,
                    tally.cuts,
                    tally.recovery_cuts,
                    tally.lasting_cuts,
                    tally.kills,
                    tally.lasting_kills,
                    tally.errors,
                    tally.host_commands,
                    tally.device_writes,
                    tally.sectors_judged,
                    tally.poisoned_reads,
                    start.elapsed().as_secs_f64()
                );
            }
            Err(fault) => {
                faults += 1;
                tell(subject, &fault, arguments.tries);
            }
        }
        match fail(&arguments, subject) {
            Ok(commands) => failed += commands,
            Err(fault) => {
                faults += 1;
                println!("FAULT in {subject}: {}\n  seed {}, with fails=1", fault.what, fault.seed);
            }
        }
    }
    println!(
        "{} cuts, {} kills and {failed} commands that failed over {} stacks in {:.0} s: {faults} \
         with faults",
        all.cuts,
        all.kills,
        arguments.subjects.len(),
        began.elapsed().as_secs_f64()
    );
    if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
