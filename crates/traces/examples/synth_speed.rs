//! Page writes a second that each synthetic workload gives out on one core, and requests of each
//! pattern; the best of five passes.
//!
//! `cargo run --release -p flashwright-traces --example synth_speed [pages]`

use std::hint::black_box;
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use traces::synth::{REGISTRY, Workload, patterns};
use units::{IoOp, IoRequest, PageOp};

const UPDATES: u32 = 20_000_000;

fn main() {
    let pages = std::env::args().nth(1).unwrap_or_else(|| "1Mi".to_owned());
    let names = REGISTRY.iter().map(|entry| entry.info.name).chain([
        "zipf(permute=no,",
        "zipf(s=1.5,",
        "mixed(of=zipf,",
    ]);
    for name in names {
        let open = if name.contains('(') { "" } else { "(" };
        let text = format!("{name}{open}pages={pages},updates={UPDATES})");
        let workload = Workload::parse(&text, 1).expect("specs in this list are right");
        let mut source = workload.source();
        let mut buffer = vec![PageOp(0); 8192];
        let best = best_of_five(|| {
            source.rewind().expect("synthetic sources do not fail");
            while source.fill(&mut buffer).expect("synthetic sources do not fail") > 0 {
                black_box(&buffer);
            }
        });
        println!("{text:<32} {:>7.1} M/s", f64::from(UPDATES) / best / 1e6);
    }
    patterns();
    let zipf =
        rand_distr::Zipf::new(f64::from(1 << 20), 0.99).expect("the parameters are in range");
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(1);
    let best = best_of_five(|| {
        black_box((0..UPDATES).map(|_| rng.sample(zipf)).sum::<f64>());
    });
    println!(
        "{:<32} {:>7.1} M/s",
        "rand_distr::Zipf, for comparison",
        f64::from(UPDATES) / best / 1e6
    );
}

fn patterns() {
    for entry in patterns::REGISTRY {
        let text = format!("{}(reads=0.5,requests={UPDATES})", entry.info.name);
        let mut source = patterns::parse(&text, 1, 1 << 40, 512).expect("the pattern is right");
        let mut buffer = vec![
            IoRequest {
                time_ns: 0,
                op: IoOp::Flush,
                offset: 0,
                length: 0,
                stream: 0,
                latency_ns: None,
                handle: 0,
                is_fua: false
            };
            4096
        ];
        let best = best_of_five(|| {
            source.rewind().expect("patterns do not fail");
            while source.fill(&mut buffer).expect("patterns do not fail") > 0 {
                black_box(&buffer);
            }
        });
        println!("{text:<42} {:>7.1} M/s", f64::from(UPDATES) / best / 1e6);
    }
}

fn best_of_five(mut run: impl FnMut()) -> f64 {
    let time = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    (0..5).map(|_| time(&mut run)).fold(f64::INFINITY, f64::min)
}
