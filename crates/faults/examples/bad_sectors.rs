//! Damages each sector and each structure of a small volume of every stack, one at a time, and says
//! what that costs.
//!
//! ```text
//! cargo run --release -p flashwright-faults --example bad_sectors -- [KEY=VALUE ...]
//! ```
//!
//! `only` (part of a stack's name), `stack` (a whole one, as it is printed), `sector` (bytes: only
//! devices with such sectors), `state` (`closed`, `unclean`; both), `seed` (1), `sectors` (`yes`,
//! `no`: each sector for itself, too, where it is shorter than 4 KiB; yes), `flips` (of each kind of
//! structure; 200), `out` (a folder for `cases.jsonl`, with one line a case and the command that
//! repeats it, and `table.csv`), `doc` (a file of Markdown, in which the table between its marks is
//! made again), `damage` (this one alone, as a line of `cases.jsonl` has it: with `stack`, `state`
//! and `seed`).

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use faults::Subject;
use faults::bad_sectors::{
    Case, Damage, How, Made, Row, State, Table, Verdict, Wanted, cases, of_subject, subjects,
};
use serde_json::json;

const COMMAND: &str = "cargo run --release -p flashwright-faults --example bad_sectors --";
const BEGIN: &str = "<!-- measured: make bad-sectors -->";
const END: &str = "<!-- end -->";

struct Arguments {
    only: String,
    stack: Option<String>,
    sector: Option<u64>,
    states: Vec<State>,
    seed: u64,
    wanted: Wanted,
    out: Option<String>,
    doc: Option<String>,
    damage: Option<Damage>,
}

fn parse(arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut parsed = Arguments {
        only: String::new(),
        stack: None,
        sector: None,
        states: State::ALL.to_vec(),
        seed: 1,
        wanted: Wanted { with_sectors: true, flips: 200 },
        out: None,
        doc: None,
        damage: None,
    };
    for argument in arguments {
        let (key, value) =
            argument.split_once('=').ok_or_else(|| format!("`{argument}` is not KEY=VALUE"))?;
        let number =
            || value.parse().map_err(|_| format!("{key}={value}: a whole number is needed"));
        let text = value.to_owned();
        match key {
            "only" => parsed.only = text,
            "stack" => parsed.stack = Some(text),
            "sector" => parsed.sector = Some(number()?),
            "state" => {
                parsed.states.retain(|state| state.name() == value);
                if parsed.states.is_empty() {
                    return Err(format!("state={value}: `closed` or `unclean` is needed"));
                }
            }
            "seed" => parsed.seed = number()?,
            "flips" => parsed.wanted.flips = number()? as usize,
            "sectors" if ["yes", "no"].contains(&value) => {
                parsed.wanted.with_sectors = value == "yes";
            }
            "out" => parsed.out = Some(text),
            "doc" => parsed.doc = Some(text),
            "damage" => parsed.damage = Some(value.parse()?),
            _ => return Err(format!("`{argument}`: see the head of examples/bad_sectors.rs")),
        }
    }
    Ok(parsed)
}

/// Those that were asked for.
fn wanted(arguments: &Arguments) -> Vec<Subject> {
    let is_wanted = |subject: &Subject| {
        let name = subject.to_string();
        name.contains(&arguments.only)
            && arguments.stack.as_ref().is_none_or(|stack| *stack == name)
            && arguments.sector.is_none_or(|sector| sector == u64::from(subject.sector_bytes))
    };
    subjects().into_iter().filter(is_wanted).collect()
}

/// Where single cases go.
struct Lines(Option<BufWriter<File>>);

impl Lines {
    fn add(
        &mut self,
        (subject, state, seed): (&Subject, State, u64),
        case: &Case,
        verdict: &Verdict,
    ) -> std::io::Result<()> {
        let Some(to) = &mut self.0 else { return Ok(()) };
        let (stack, state) = (subject.to_string(), state.name());
        let damage = case.damage.to_string();
        let sector = subject.sector_bytes;
        let command = format!(
            "{COMMAND} 'stack={stack}' sector={sector} state={state} seed={seed} damage={damage}"
        );
        let line = json!({
            "stack": stack, "sector_bytes": sector, "state": state, "seed": seed,
            "how": case.how.name(), "damage": damage, "hits": case.hits, "copies": case.copies,
            "is_every_copy": case.is_every_copy, "refused": verdict.refused,
            "lost_bytes": verdict.lost_bytes, "stale_bytes": verdict.stale_bytes,
            "wrong_bytes": verdict.wrong_bytes, "fault": verdict.fault(),
            "unusable": verdict.unusable, "command": command,
        });
        writeln!(to, "{line}")
    }
}

/// All cases of one stack, left in one state.
fn campaign(
    subject: &Subject,
    state: State,
    arguments: &Arguments,
    lines: &mut Lines,
    table: &mut Table,
) -> Result<(), String> {
    let seed = arguments.seed;
    let made = Made::of_subject(subject, state, seed).map_err(|wrong| wrong.0)?;
    let placed = subject.structures(seed).map_err(|error| error.to_string())?;
    let open = of_subject(subject, seed);
    if let Some(damage) = &arguments.damage {
        println!("{subject}, {}, {damage}: {:#?}", state.name(), made.try_case(damage, &open));
        return Ok(());
    }
    for case in cases(&made, &placed, arguments.wanted, seed) {
        let verdict = made.try_case(&case.damage, &open);
        if let Some(fault) = verdict.fault() {
            println!("FAULT in {subject}, {}, seed {seed}, {}: {fault}", state.name(), case.damage);
        }
        table.count(state, &case, &verdict);
        lines.add((subject, state, seed), &case, &verdict).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn kib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}

fn show(row: &Row, what: &str) -> String {
    format!(
        "  {what:64} {:6} {:6} {:6} {:6} {:8} {:9.1} {:7.1} {:7.1} {:6.1} {:6}",
        row.copies,
        row.cases,
        row.opened,
        row.refused,
        row.refused_with_copies,
        kib(row.lost_bytes),
        kib(row.most_lost_bytes),
        kib(row.stale_bytes),
        kib(row.wrong_bytes),
        row.unusable
    )
}

const HEAD: [&str; 10] = [
    "copies", "cases", "opened", "refused", "needless", "KiB lost", "at most", "stale", "wrong",
    "unfit",
];

fn print(title: &str, table: &Table) {
    println!("{title}");
    let [a, b, c, d, e, f, g, h, i, j] = HEAD;
    println!("  {:64} {a} {b:>6} {c} {d:>6} {e} {f:>9} {g} {h:>7} {i:>6} {j:>6}", "");
    for ((how, state, hits), row) in &table.0 {
        println!("{}", show(row, &format!("{}, {state}: {hits}", how.name())));
    }
}

fn csv(to: &mut String, stack: &str, table: &Table) {
    for ((how, state, hits), row) in &table.0 {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let _ = writeln!(
            to,
            "{},{},{state},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            quoted(stack),
            how.name(),
            quoted(hits),
            row.copies,
            row.cases,
            row.every_copy,
            row.opened,
            row.refused,
            row.refused_with_copies,
            row.lost_bytes,
            row.most_lost_bytes,
            row.stale_bytes,
            row.wrong_bytes,
            row.faults,
            row.unusable
        );
    }
}

const CSV_HEAD: &str = "stack,how,state,hits,copies,cases,every_copy,opened,refused,\
                        refused_with_copies,lost_bytes,most_lost_bytes,stale_bytes,wrong_bytes,\
                        faults,unusable\n";

/// The table of the docs: what one bad sector of each structure costs, over all stacks.
fn markdown(all: &Table) -> String {
    let mut rows: Vec<(String, [Row; 4])> = Vec::new();
    for ((how, state, hits), row) in &all.0 {
        // A place that touches several structures says nothing of either.
        if hits.contains(" + ") {
            continue;
        }
        let at = match rows.iter().position(|(name, _)| name == hits) {
            Some(at) => at,
            None => {
                rows.push((hits.clone(), std::array::from_fn(|_| Row::default())));
                rows.len() - 1
            }
        };
        let column = match (how, *state) {
            (How::Place | How::Sector, "closed") => 0,
            (How::Place | How::Sector, _) => 1,
            (How::Flip, _) => 2,
            (How::EveryCopy, _) => 3,
        };
        rows[at].1[column].add(row);
    }
    rows.sort_by(|(one, _), (other, _)| one.cmp(other));
    let cell = |row: &Row| match row {
        Row { cases: 0, .. } => "none tried".to_owned(),
        row => {
            let lost = match (row.opened, row.lost_bytes) {
                (0, _) => String::new(),
                (_, 0) => ", nothing lost".to_owned(),
                (opened, lost) => {
                    let most = kib(row.most_lost_bytes);
                    format!(", {:.1} KiB lost, at most {most:.1}", kib(lost) / opened as f64)
                }
            };
            format!("{} of {} open{lost}", row.opened, row.cases)
        }
    };
    let mut text = "| structure | copies | a bad sector, closed | a bad sector, after a kill | a \
                    flipped bit | every copy bad |\n|---|---|---|---|---|---|\n"
        .to_owned();
    for (name, cells) in &rows {
        let copies = cells.iter().filter(|row| row.cases > 0).map(|row| row.copies).min();
        let _ = write!(text, "| {name} | {} ", copies.unwrap_or(1));
        for row in cells {
            let _ = write!(text, "| {} ", cell(row));
        }
        text.push_str("|\n");
    }
    text
}

/// Puts the table between its marks.
fn write_doc(path: &str, table: &str) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let missing = || format!("{path}: `{BEGIN}` and `{END}` are needed around the table");
    let (before, rest) = text.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    let text = format!("{before}{BEGIN}\n\n{table}\n{END}{after}");
    fs::write(path, text).map_err(|error| format!("{path}: {error}"))
}

fn run(arguments: &Arguments) -> Result<bool, String> {
    let all = wanted(arguments);
    if all.is_empty() {
        return Err("no stack has such a name: see faults::subjects".to_owned());
    }
    let out = arguments.out.as_deref().map(Path::new);
    let io = |error: std::io::Error| error.to_string();
    let mut lines = Lines(None);
    if let Some(out) = out {
        fs::create_dir_all(out).map_err(io)?;
        lines.0 = Some(BufWriter::new(File::create(out.join("cases.jsonl")).map_err(io)?));
    }
    let (began, mut sum, mut text) = (Instant::now(), Table::default(), CSV_HEAD.to_owned());
    for (number, subject) in all.iter().enumerate() {
        let mut table = Table::default();
        for &state in &arguments.states {
            campaign(subject, state, arguments, &mut lines, &mut table)
                .map_err(|reason| format!("{subject}: {reason}"))?;
        }
        if arguments.damage.is_some() {
            continue;
        }
        let (sector, kib) = (subject.sector_bytes, subject.device_bytes / 1024);
        print(&format!("{subject} ({kib} KiB, sectors of {sector})"), &table);
        csv(&mut text, &subject.to_string(), &table);
        sum.add(&table);
        let (of, seconds) = (all.len(), began.elapsed().as_secs_f64());
        eprintln!("  {} of {of} stacks, {seconds:.0} s", number + 1);
    }
    if arguments.damage.is_some() {
        return Ok(true);
    }
    print(&format!("all {} stacks", all.len()), &sum);
    let mut total = Table::default();
    for how in [How::Place, How::Sector, How::Flip, How::EveryCopy] {
        for state in State::ALL {
            let key = (how, state.name(), "everything".to_owned());
            total.0.insert(key, sum.sum(how, state));
        }
    }
    print("in all", &total);
    if let Some(out) = out {
        fs::write(out.join("table.csv"), text).map_err(io)?;
        lines.0.map_or(Ok(()), |mut to| to.flush()).map_err(io)?;
    }
    if let Some(doc) = &arguments.doc {
        write_doc(doc, &markdown(&sum))?;
    }
    let faults: u64 = total.0.values().map(|row| row.faults).sum();
    let cases: u64 = total.0.values().map(|row| row.cases).sum();
    println!("{cases} cases in {:.0} s: {faults} with faults", began.elapsed().as_secs_f64());
    Ok(faults == 0)
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(parsed) => parsed,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    // A panic is told with its case.
    std::panic::set_hook(Box::new(|_| {}));
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
