//! Victim choice on uniform updates for erase blocks of finite size, in the limit of many erase
//! blocks (mean field).
//!
//! Beyond MULTILOG, whose eq. 3 is the limit of large erase blocks. Notation here: time runs in
//! updates for each logical page, so that each valid page dies at rate 1; rho = 1 / (1 + alpha);
//! phi = erases for each erase block and unit of time; P_i = the chance that a victim has at most i
//! valid pages; x_i = the fraction of erase blocks with i valid pages. Erase blocks leave the
//! states above i by one page dying, and come back only as victims that are filled up again, hence
//! the balance (i + 1) x_(i+1) = phi P_i for i < C, which is the fixed point of Van Houdt, "A mean
//! field model for a class of garbage collection algorithms in flash-based solid state drives"
//! (SIGMETRICS 2013). Summed over i: rho C = phi (C - mean valid pages of a victim), that is p_gc =
//! 1 - rho / phi.

use crate::{ModelError, check_over_provisioning, valid_pages_pdf, write_amplification_lru};

fn check_block(pages_per_erase_block: usize) -> Result<(), ModelError> {
    let ok = (1..=1 << 20).contains(&pages_per_erase_block);
    ModelError::check(ok, "pages per erase block", pages_per_erase_block as f64, "from 1 to 2^20")
}

/// p_gc of Greedy (the erase block with the fewest valid pages, of all): uniform updates,
/// `over_provisioning` above 0, erase blocks of `pages_per_erase_block` (C) pages, infinitely many
/// of them.
///
/// The limit d to infinity of [`p_gc_d_choices`], which is closed: no erase block stays below some
/// count j + 1, victims have j or j + 1 valid pages, and with c the chance of j, H the harmonic
/// numbers: (c + C - j - 1) / (c / (j + 1) + H_C - H_(j+1)) = rho C. The same limit is treated by
/// Desnoyers ("Analytic models of SSD write performance", 2014) and, for C to infinity, by Bux and
/// Iliadis (2010), where it becomes eq. 2 of MULTILOG. 0 when spare space is so ample that victims
/// are empty (1 + alpha >= H_C).
///
/// # Errors
/// [`ModelError::OutOfRange`].
pub fn p_gc_greedy(
    over_provisioning: f64,
    pages_per_erase_block: usize,
) -> Result<f64, ModelError> {
    check_over_provisioning(over_provisioning)?;
    check_block(pages_per_erase_block)?;
    let c = pages_per_erase_block as f64;
    let valid = c / (1.0 + over_provisioning);
    // Sum of 1 / i for i above j + 1.
    let mut above = 0.0;
    for j in (0..pages_per_erase_block).rev() {
        let level = (j + 1) as f64;
        let certain = c - level;
        if certain + 1.0 <= valid * (above + 1.0 / level) {
            let chance = (valid * above - certain) / (1.0 - valid / level);
            return Ok((level - chance.clamp(0.0, 1.0)) / c);
        }
        above += 1.0 / level;
    }
    Ok(0.0)
}

/// p_gc of d-choices (the best of `choices` erase blocks drawn at random): uniform updates,
/// `over_provisioning` above 0, erase blocks of `pages_per_erase_block` (C) pages, infinitely many
/// of them. `choices` = 1 is random choice, p_gc = 1 / (1 + alpha) for any C.
///
/// Van Houdt's fixed point with P_i = 1 - (1 - F_i)^d, F_i = x_0 + ... + x_i. For a given phi the
/// balance gives 1 - F_i from 1 - F_(i+1), one root each of an increasing convex function, from
/// F_C = 1 down; the mean number of valid pages increases with phi, and phi is the one where it is
/// rho C.
///
/// # Errors
/// [`ModelError::OutOfRange`].
pub fn p_gc_d_choices(
    over_provisioning: f64,
    pages_per_erase_block: usize,
    choices: u32,
) -> Result<f64, ModelError> {
    check_over_provisioning(over_provisioning)?;
    check_block(pages_per_erase_block)?;
    ModelError::check(
        (1..=1 << 20).contains(&choices),
        "choices",
        f64::from(choices),
        "from 1 to 2^20",
    )?;
    let rho = 1.0 / (1.0 + over_provisioning);
    let valid = rho * pages_per_erase_block as f64;
    let d = choices as i32;
    let mean_valid_pages = |phi: f64| {
        let (mut sum, mut above) = (0.0, 0.0_f64);
        for i in (0..pages_per_erase_block).rev() {
            above = more_than(i, above, phi, d);
            sum += above;
        }
        sum
    };
    // No policy is worse than random choice, where phi = 1 / alpha, and none better than victims
    // without valid pages.
    let phi = root(rho, 1.0 / over_provisioning, |phi| mean_valid_pages(phi) - valid);
    Ok((1.0 - rho / phi).max(0.0))
}

/// 1 - F_i from 1 - F_(i+1) = `above`: the root s of (i + 1)(s - above) = phi (1 - s^d).
fn more_than(i: usize, above: f64, phi: f64, d: i32) -> f64 {
    let level = (i + 1) as f64;
    let mut s = (above + phi / level).min(1.0);
    for _ in 0..100 {
        let lower = s.powi(d - 1);
        let miss = level * (s - above) - phi * (1.0 - s * lower);
        let step = miss / (level + phi * f64::from(d) * lower);
        s -= step;
        if step <= 1e-15 {
            break;
        }
    }
    s
}

/// p_gc of Window-Greedy (the erase block with the fewest valid pages among the oldest; MULTILOG
/// 4.1) in its steady state: uniform updates, `over_provisioning` above 0, erase blocks of
/// `pages_per_erase_block` (C) pages, infinitely many of them, of which the fraction `window` (0
/// to 1) is in the window. 0 is LRU (eq. 3), 1 is Greedy.
///
/// Worked out for Flashwright; MULTILOG gives the benefit of one choice only. An erase block ages
/// outside the window for T = (1 - window) / phi and enters it with a binomial number of valid
/// pages (eq. 5 with e^-T; E_i its distribution function). Inside, the balance is (i + 1) x_(i+1) =
/// phi (P_i - E_i): below some count j victims are those that come in so low (P_i = E_i), from j +
/// 1 up none stays behind (P_i = 1). The window's content, sum x_i = window, gives j and P_j; the
/// mean number of valid pages, phi sum P_i = rho C, gives phi. Exact when the window holds many
/// erase blocks.
///
/// # Errors
/// [`ModelError::OutOfRange`].
pub fn p_gc_window_greedy(
    over_provisioning: f64,
    pages_per_erase_block: usize,
    window: f64,
) -> Result<f64, ModelError> {
    check_over_provisioning(over_provisioning)?;
    check_block(pages_per_erase_block)?;
    ModelError::check((0.0..=1.0).contains(&window), "window", window, "a fraction from 0 to 1")?;
    let rho = 1.0 / (1.0 + over_provisioning);
    let valid = rho * pages_per_erase_block as f64;
    let worst = rho * write_amplification_lru(over_provisioning);
    let phi =
        root(rho, worst, |phi| window_mean_valid_pages(pages_per_erase_block, window, phi) - valid);
    Ok((1.0 - rho / phi).max(0.0))
}

fn window_mean_valid_pages(pages_per_erase_block: usize, window: f64, phi: f64) -> f64 {
    let entering = valid_pages_pdf(pages_per_erase_block, (-(1.0 - window) / phi).exp());
    // At i: the chance that an erase block enters with more than i valid pages, 1 - E_i, and the
    // sum of E_l for l < i.
    let mut more = 0.0;
    let mut content = 0.0;
    for j in (0..pages_per_erase_block).rev() {
        more = f64::min(more + entering[j + 1], 1.0);
        let level = (j + 1) as f64;
        let at_most = content + more / level;
        if at_most >= window / phi {
            let victims_at_j = 1.0 - more + (window / phi - content) * level;
            let certain = (pages_per_erase_block - 1 - j) as f64;
            let lower: f64 =
                entering[..j].iter().enumerate().map(|(k, p)| p * (j - k) as f64).sum();
            return phi * (lower + victims_at_j + certain);
        }
        content = at_most;
    }
    phi * pages_per_erase_block as f64
}

/// The root of an increasing function between `low` and `high`, where it is at most and at least 0:
/// false position, with bisection wherever that is slow.
fn root(low: f64, high: f64, f: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (low, high);
    let (mut f_low, mut f_high) = (f(low), f(high));
    if f_low >= 0.0 {
        return low;
    }
    // The upper end may be the root itself, and then rounding decides its sign.
    if f_high <= 0.0 {
        return high;
    }
    for round in 0..300 {
        let secant = low - f_low * (high - low) / (f_high - f_low);
        let middle = if round % 3 == 2 || !(secant > low && secant < high) {
            0.5 * (low + high)
        } else {
            secant
        };
        let value = f(middle);
        if value < 0.0 {
            (low, f_low) = (middle, value);
        } else {
            (high, f_high) = (middle, value);
        }
        if value == 0.0 || high - low <= 4.0 * f64::EPSILON * high {
            break;
        }
    }
    if -f_low < f_high { low } else { high }
}
