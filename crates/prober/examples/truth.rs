//! The prober's truth: random simulated drives, whose inside is known, are probed. A table by
//! chunk, noise and mapping, and every failure.
//!
//! `truth [drives=200] [noise=0.05,0.2] [campaign=1] [threads=2] [seconds=60] [only=NUMBER,...]`

#[path = "../tests/truth/drives.rs"]
mod drives;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use drives::{Answers, Drive, Said};

/// Counts of one kind of drives and one question.
#[derive(Clone, Copy, Default)]
struct Tally {
    all: u32,
    right: u32,
    sure: u32,
    wrong_and_sure: u32,
}

impl Tally {
    fn add(&mut self, said: &Said) {
        self.all += 1;
        self.right += u32::from(said.is_right);
        self.sure += u32::from(said.is_right && said.is_sure);
        self.wrong_and_sure += u32::from(!said.is_right && said.is_sure);
    }
}

fn argument(name: &str, default: &str) -> String {
    let prefix = format!("{name}=");
    std::env::args()
        .find_map(|arg| arg.strip_prefix(&prefix).map(str::to_owned))
        .unwrap_or_else(|| default.to_owned())
}

fn number(name: &str, default: &str) -> u64 {
    let text = argument(name, default);
    text.parse().unwrap_or_else(|_| panic!("{name}={text}: must be a whole number"))
}

fn main() {
    let noises: Vec<f64> = argument("noise", "0.05,0.2")
        .split(',')
        .map(|noise| noise.parse().expect("noise is a number"))
        .collect();
    let (count, campaign, seconds) =
        (number("drives", "200"), number("campaign", "1"), number("seconds", "60"));
    let only: Vec<u64> =
        argument("only", "").split(',').filter_map(|number| number.parse().ok()).collect();
    let work: Vec<(f64, u64)> = noises
        .iter()
        .flat_map(|&noise| (0..count).map(move |drive| (noise, drive)))
        .filter(|(_, drive)| only.is_empty() || only.contains(drive))
        .collect();
    let next = AtomicUsize::new(0);
    let answers: Mutex<BTreeMap<usize, (Drive, Answers, f64)>> = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..number("threads", "2") {
            scope.spawn(|| {
                while let Some(&(noise, drive)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let index =
                        noises.iter().position(|&other| other == noise).expect("one of them")
                            * count as usize
                            + drive as usize;
                    let drive = Drive::random(drive, campaign, noise);
                    let start = std::time::Instant::now();
                    let said = drive.probe(seconds);
                    let took = start.elapsed().as_secs_f64();
                    answers.lock().expect("no thread panicked").insert(index, (drive, said, took));
                }
            });
        }
    });
    let answers = answers.into_inner().expect("no thread panicked");
    print_failures(&answers, count, !only.is_empty());
    print_table(&answers);
}

fn print_failures(answers: &BTreeMap<usize, (Drive, Answers, f64)>, count: u64, all: bool) {
    for (index, (drive, said, took)) in answers {
        let questions = [
            ("chunk", &said.chunk),
            ("degree", &said.degree),
            ("layout", &said.layout),
            ("mapping", &said.mapping),
            ("page", &said.page),
        ];
        if !all
            && questions[..4].iter().all(|(_, said)| said.is_right && said.is_sure)
            && *took < 10.0
        {
            continue;
        }
        println!("{}: {} ({took:.1} s)", *index as u64 % count, drive.line());
        for (name, said) in
            questions.into_iter().filter(|(_, said)| all || !said.is_right || !said.is_sure)
        {
            let verdict = if said.is_sure { "SURE" } else { "unsure" };
            println!(
                "   {name} {} {verdict} {}: {}",
                if said.is_right { "right" } else { "WRONG" },
                said.text,
                said.why
            );
        }
        for note in &said.notes {
            println!("   {note}");
        }
    }
}

fn print_table(answers: &BTreeMap<usize, (Drive, Answers, f64)>) {
    let mut rows: BTreeMap<(u64, String), [Tally; 6]> = BTreeMap::new();
    for (drive, said, _) in answers.values() {
        let noise = (drive.profile.media.time_noise * 1000.0).round() as u64;
        let mapping = if drive.is_static { "lba" } else { "write order" };
        for row in [
            format!("chunk {:>5}", drive.chunk_bytes),
            format!("mapping {mapping}"),
            "~ all".to_owned(),
        ] {
            let tallies = rows.entry((noise, row)).or_default();
            tallies[0].add(&said.chunk);
            tallies[1].add(&said.degree);
            tallies[2].add(&said.layout);
            tallies[3].add(&said.units);
            tallies[4].add(&said.mapping);
            tallies[5].add(&said.page);
        }
    }
    println!(
        "\nright / right and sure / wrong and sure, of drives. Degree: where channels are faster \
         than the link, dies may count as domains;\n(layout): never; (units), (page): beyond the \
         bar"
    );
    println!(
        "{:>6} {:20} {:>18} {:>18} {:>18} {:>18} {:>18} {:>18}",
        "noise", "drives", "chunk", "degree", "(layout)", "(units)", "mapping", "(page)"
    );
    for ((noise, row), tallies) in rows {
        let cells = tallies.map(|tally| {
            format!("{}/{}/{} of {}", tally.right, tally.sure, tally.wrong_and_sure, tally.all)
        });
        println!(
            "{:>4} % {row:20} {:>18} {:>18} {:>18} {:>18} {:>18} {:>18}",
            noise as f64 / 10.0,
            cells[0],
            cells[1],
            cells[2],
            cells[3],
            cells[4],
            cells[5]
        );
    }
    let took: f64 = answers.values().map(|(_, _, took)| took).sum();
    println!("{took:.0} s in all, {:.2} s a drive", took / answers.len().max(1) as f64);
}
