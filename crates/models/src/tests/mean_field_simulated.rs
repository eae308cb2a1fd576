//! The mean-field limits against a plain simulation of each policy, against each other, and at
//! their ends.

use crate::{p_gc_d_choices, p_gc_greedy, p_gc_lru, p_gc_window_greedy};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

enum Victim {
    Window(usize),
    Choices(usize),
}

/// p_gc of uniform updates on a log of plain vectors: no index, nothing shared with the code under
/// test.
fn simulated(alpha: f64, c: usize, logical: usize, victim: &Victim) -> f64 {
    let mut rng = Pcg64Mcg::seed_from_u64(7);
    let total = ((1.0 + alpha) * logical as f64 / c as f64).round() as usize;
    let mut pages: Vec<Vec<usize>> = vec![Vec::new()];
    let mut home = vec![usize::MAX; logical];
    let mut valid = vec![0_usize];
    // Closed erase blocks, oldest first; the last of `pages` is open.
    let mut closed: Vec<usize> = Vec::new();
    let mut open = 0;
    let (mut relocated, mut programmed) = (0_u64, 0_u64);
    let updates = 40 * logical;
    for update in 0..logical + updates {
        let page = if update < logical { update } else { rng.random_range(0..logical) };
        if home[page] != usize::MAX {
            valid[home[page]] -= 1;
            home[page] = usize::MAX;
        }
        let counted = update >= logical + updates / 2;
        // A victim that is all valid makes no room: go on to the next.
        while pages[open].len() == c {
            closed.push(open);
            if closed.len() < total {
                pages.push(Vec::new());
                valid.push(0);
                open = pages.len() - 1;
                continue;
            }
            let place = match victim {
                Victim::Window(window) => (0..*window).min_by_key(|&i| valid[closed[i]]).unwrap(),
                Victim::Choices(d) => (0..*d)
                    .map(|_| rng.random_range(0..closed.len()))
                    .min_by_key(|&i| valid[closed[i]])
                    .unwrap(),
            };
            open = closed.remove(place);
            let mut moved: Vec<usize> =
                pages[open].iter().copied().filter(|&p| home[p] == open).collect();
            // A page written twice into one erase block is there twice.
            moved.sort_unstable();
            moved.dedup();
            assert_eq!(moved.len(), valid[open]);
            if counted {
                relocated += moved.len() as u64;
                programmed += c as u64;
            }
            pages[open] = moved;
        }
        pages[open].push(page);
        home[page] = open;
        valid[open] += 1;
    }
    relocated as f64 / programmed as f64
}

#[test]
fn policies_behave_as_their_limits_say() {
    let (c, logical) = (16, 16 << 10);
    for alpha in [0.1, 0.3] {
        let blocks = ((1.0 + alpha) * 1024.0) as usize;
        let cases = [
            ("greedy", Victim::Window(blocks - 1), p_gc_greedy(alpha, c).unwrap()),
            ("a tenth", Victim::Window(blocks / 10), p_gc_window_greedy(alpha, c, 0.1).unwrap()),
            ("lru", Victim::Window(1), p_gc_lru(alpha)),
            ("two choices", Victim::Choices(2), p_gc_d_choices(alpha, c, 2).unwrap()),
            ("ten choices", Victim::Choices(10), p_gc_d_choices(alpha, c, 10).unwrap()),
            ("random", Victim::Choices(1), p_gc_d_choices(alpha, c, 1).unwrap()),
        ];
        for (name, victim, limit) in cases {
            let found = simulated(alpha, c, logical, &victim);
            println!(
                "{alpha} {name}: simulated {found:.5}, limit {limit:.5}, {:+.2} %",
                100.0 * (found / limit - 1.0)
            );
            assert!(
                (found / limit - 1.0).abs() < 0.01,
                "{alpha} {name}: simulated {found}, limit {limit}"
            );
        }
    }
}

proptest! {
    #[test]
    fn windows_go_from_lru_to_greedy(
        exponent in -3.0_f64..1.0,
        c in 2_usize..300,
        a in 0.0_f64..1.0,
        b in 0.0_f64..1.0,
    ) {
        let alpha = 10f64.powf(exponent);
        let p = |window| p_gc_window_greedy(alpha, c, window).unwrap();
        prop_assert!((p(0.0) - p_gc_lru(alpha)).abs() < 1e-9);
        prop_assert!((p(1.0) - p_gc_greedy(alpha, c).unwrap()).abs() < 1e-9);
        prop_assert!(p(a.max(b)) <= p(a.min(b)) + 1e-12);
    }

    #[test]
    fn more_choices_cost_less_down_to_greedy(
        exponent in -2.0_f64..1.0,
        c in 1_usize..300,
        d in 1_u32..200,
    ) {
        let alpha = 10f64.powf(exponent);
        let p = |d| p_gc_d_choices(alpha, c, d).unwrap();
        prop_assert!((p(1) - 1.0 / (1.0 + alpha)).abs() < 1e-9);
        prop_assert!(p(d + 1) <= p(d) + 1e-12);
        prop_assert!(p(d) >= p_gc_greedy(alpha, c).unwrap() - 1e-9);
        prop_assert!((p(1 << 20) - p_gc_greedy(alpha, c).unwrap()).abs() < 1e-3);
    }

    #[test]
    fn greedy_is_at_most_lru_and_meets_it_for_large_erase_blocks(
        exponent in -2.0_f64..0.5,
        c in 2_usize..200,
        more in 1.01_f64..2.0,
    ) {
        let alpha = 10f64.powf(exponent);
        let p = p_gc_greedy(alpha, c).unwrap();
        prop_assert!((0.0..=p_gc_lru(alpha)).contains(&p));
        prop_assert!(p_gc_greedy(alpha * more, c).unwrap() <= p);
        prop_assert!((p_gc_greedy(alpha, 1 << 20).unwrap() - p_gc_lru(alpha)).abs() < 2e-6);
    }
}

#[test]
fn impossible_arguments_are_told() {
    assert!(p_gc_greedy(0.0, 64).is_err() && p_gc_greedy(0.1, 0).is_err());
    assert!(p_gc_d_choices(0.1, 64, 0).is_err() && p_gc_window_greedy(0.1, 64, 1.1).is_err());
}
