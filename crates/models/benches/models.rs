//! Timing of the models: `cargo bench -p flashwright-models`. Prints one line per model: the best
//! of several rounds, on one core.

use std::hint::black_box;
use std::time::Instant;

use models::{
    Binning, UpdateBins, UpdateSets, cleaning_cost_derivative, cleaning_cost_derivative_approx,
    divide_space, kmodal_random,
};

fn seconds<T>(rounds: u32, mut work: impl FnMut() -> T) -> f64 {
    let once = |work: &mut dyn FnMut() -> T| {
        let start = Instant::now();
        black_box(work());
        start.elapsed().as_secs_f64()
    };
    (0..rounds).map(|_| once(&mut work)).fold(f64::INFINITY, f64::min)
}

fn report(what: &str, seconds: f64) {
    println!("{what:60} {:12.3} us", seconds * 1e6);
}

fn main() {
    let zs: Vec<f64> = (0..1000).map(|i| 1.01 + f64::from(i) * 1e-3).collect();
    let slopes = |slope: fn(f64, f64, f64) -> f64| {
        seconds(100, || zs.iter().map(|&z| slope(z, 0.3, 0.1)).sum::<f64>()) / zs.len() as f64
    };
    report("slope of the cleaning cost, exact", slopes(cleaning_cost_derivative));
    report("slope of the cleaning cost, approximate", slopes(cleaning_cost_derivative_approx));

    let powers: Vec<f64> = (0..40).map(|i| 2f64.powi(i)).collect();
    let whole: f64 = powers.iter().sum();
    let sizes: Vec<f64> = powers.iter().map(|p| p / whole).collect();
    let sets = UpdateSets::new(&sizes, &[1.0 / 40.0; 40]).expect("forty sets");
    report(
        "division of space, 40 sets a factor of two apart",
        seconds(200, || divide_space(&sets, 0.2)),
    );
    report("random placement, the same", seconds(200, || kmodal_random(&sets, 0.2)));

    let million = 1_000_000;
    let shares: Vec<f64> = (1..=million).map(|i| 1.0 / f64::from(i)).collect();
    let whole: f64 = shares.iter().sum();
    let shares: Vec<f64> = shares.iter().map(|share| share / whole).collect();
    let each =
        UpdateSets::new(&vec![1e-6; million as usize], &shares).expect("a set for each page");
    report("division of space, a million sets", seconds(3, || divide_space(&each, 0.2)));

    let pages = 26_000_000_u32;
    let weights: Vec<f64> = (1..=pages).map(|rank| f64::from(rank).powf(-0.99)).collect();
    let counts: Vec<u32> = weights.iter().map(|w| (w * 1e6) as u32).collect();
    for (name, binning) in [
        ("powers of two", Binning::PowersOfTwo),
        ("ratio 1.01", Binning::Ratio(1.01)),
        ("exact", Binning::Exact),
    ] {
        report(
            &format!("bound of 26 M weights, {name}"),
            seconds(2, || {
                UpdateBins::of_weights(&weights, binning).and_then(|bins| bins.bound(0.2))
            }),
        );
        report(
            &format!("bound of 26 M counts, {name}"),
            seconds(2, || UpdateBins::of_counts(&counts, binning).and_then(|bins| bins.bound(0.2))),
        );
    }
}
