//! Plays flows of requests: whose turn it is and when ([`Flows`], which knows no device and no
//! clock), and the loop that plays them on a [`block::BlockDevice`] ([`play()`]).
//!
//! A simulated drive in virtual time has a loop of its own around the same [`Flows`]
//! (`ssd::drive::load`), since it steps in picoseconds from event to event.

mod ahead;
mod figures;
mod flows;
mod latency_map;
mod lookahead;
mod pace;
mod play;

pub use ahead::{Ahead, Next, ReadAhead};
pub use figures::FlowFigures;
pub use flows::{Flow, Flows, Turn};
pub use latency_map::{LatencyCell, LatencyMap};
pub use lookahead::{Lookahead, Shifted};
pub use pace::{Pace, scaled};
pub use play::{Ended, Listener, Sending, Stopped, Timekeeping, play};
