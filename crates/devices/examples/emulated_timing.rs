//! Timing accuracy of an emulated drive: its response times beside those of the simulated drive,
//! and beside the best that the machine can do.
//!
//! `cargo run --release -p flashwright-devices --example emulated_timing -- DRIVE`, where DRIVE is
//! such as `emulated(profile=a16,size=256Mi)`

use std::time::{Duration, Instant};

use block::{BlockDevice, Command, Data};
use devices::{Access, Opening, open_emulated};
use units::{IoOp, Nanos, Progress};

/// Requests at each depth.
const REQUESTS: u32 = 20_000;
/// An answer is in time within it.
const IN_TIME: Duration = Duration::from_micros(20);

/// The share of instants that a thread that does nothing but look at the clock comes to in time:
/// interrupts, and other guests of a virtual machine's host, have the rest.
fn share_of_the_machine() -> f64 {
    let begun = Instant::now();
    let (mut last, mut missed) = (begun, Duration::ZERO);
    while last - begun < Duration::from_secs(3) {
        let now = Instant::now();
        missed += (now - last).saturating_sub(IN_TIME);
        last = now;
    }
    1.0 - missed.as_secs_f64() / (last - begun).as_secs_f64()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spec = std::env::args().nth(1).unwrap_or("emulated(profile=intel-x25e,size=1Gi)".into());
    for depth in [1, 8] {
        let mut opening = Opening::new(&spec, Access::DestroyData);
        opening.holds_data = true;
        let mut device = open_emulated(&opening, &Progress::default())?;
        let pages = device.info().limits.capacity_bytes / 4096;
        let (mut sent, mut ended, mut state) = (0, 0, 1_u64);
        let mut completed = Vec::new();
        while ended < REQUESTS {
            while sent < REQUESTS && sent - ended < depth {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let offset = (state >> 33) % pages * 4096;
                let id = sent;
                device.submit(if sent % 2 == 0 {
                    Command::new(id, IoOp::Read, offset, 4096)
                } else {
                    Command::write(id, offset, Data::zeros(4096))
                });
                sent += 1;
            }
            device.wait(Nanos::MAX, &mut completed)?;
            ended += completed.drain(..).count() as u32;
        }
        let late = device.lateness();
        println!(
            "{spec}, depth {depth}: {} of {} answers within 20 us or 2 % ({:.2} %), the latest \
             {} us",
            late.in_time,
            late.commands,
            100.0 * late.in_time as f64 / late.commands as f64,
            late.most_ns / 1000
        );
    }
    println!(
        "of a thread that only looks at the clock: {:.2} % of all instants within 20 us",
        100.0 * share_of_the_machine()
    );
    Ok(())
}
