//! Victim policies: they choose the frame that gives up its page.

use units::lists::{Lists, NONE};

/// A way to choose victims.
pub(super) enum Policy {
    /// Frames from the one that was not used for longest on.
    Lru {
        order: Lists,
    },
    Clock {
        uses: Vec<u8>,
        is_used: Vec<bool>,
        most: u8,
        hand: u32,
    },
    /// As LRU; the first `window` frames are looked at.
    CflruE {
        order: Lists,
        window: u32,
    },
}

impl Policy {
    pub fn lru(frames: u32) -> Self {
        Self::Lru { order: Lists::new(frames, 1) }
    }

    pub fn clock(frames: u32, most: u8) -> Self {
        let frames = frames as usize;
        Self::Clock { uses: vec![0; frames], is_used: vec![false; frames], most, hand: 0 }
    }

    pub fn cflru_e(frames: u32, window: f64) -> Self {
        let window = (f64::from(frames) * window) as u32;
        Self::CflruE { order: Lists::new(frames, 1), window }
    }

    pub fn inserted(&mut self, frame: u32) {
        match self {
            Self::Lru { order } | Self::CflruE { order, .. } => order.push_back(0, frame),
            Self::Clock { is_used, .. } => is_used[frame as usize] = true,
        }
    }

    pub fn removed(&mut self, frame: u32) {
        match self {
            Self::Lru { order } | Self::CflruE { order, .. } => order.remove(0, frame),
            Self::Clock { is_used, uses, .. } => {
                (is_used[frame as usize], uses[frame as usize]) = (false, 0);
            }
        }
    }

    #[inline]
    pub fn touched(&mut self, frame: u32) {
        match self {
            Self::Lru { order } | Self::CflruE { order, .. } => order.move_to_back(0, frame),
            Self::Clock { uses, most, .. } => {
                let uses = &mut uses[frame as usize];
                *uses = (*uses + 1).min(*most);
            }
        }
    }

    pub fn victim(
        &mut self,
        is_idle: impl Fn(u32) -> bool,
        is_dirty: impl Fn(u32) -> bool,
        blocked: impl Fn(u32) -> f64,
    ) -> Option<u32> {
        match self {
            Self::Lru { order } => {
                let mut frame = order.first(0);
                while frame != NONE && !is_idle(frame) {
                    frame = order.next(frame);
                }
                (frame != NONE).then_some(frame)
            }
            Self::Clock { uses, is_used, most, hand } => {
                let frames = uses.len() as u32;
                for _ in 0..frames * (u32::from(*most) + 1) {
                    let frame = *hand;
                    *hand = (frame + 1) % frames;
                    let at = frame as usize;
                    if !is_used[at] || !is_idle(frame) {
                        continue;
                    }
                    if uses[at] == 0 {
                        return Some(frame);
                    }
                    uses[at] -= 1;
                }
                None
            }
            Self::CflruE { order, window } => {
                let mut best: Option<(u32, f64)> = None;
                let (mut frame, mut looked) = (order.first(0), 0);
                while frame != NONE && (looked < *window || best.is_none()) {
                    if is_idle(frame) {
                        // Behind the window it is LRU.
                        if looked >= *window || !is_dirty(frame) {
                            return Some(frame);
                        }
                        let chance = blocked(frame);
                        if best.is_none_or(|(_, least)| chance < least) {
                            best = Some((frame, chance));
                        }
                    }
                    looked += 1;
                    frame = order.next(frame);
                }
                best.map(|(frame, _)| frame)
            }
        }
    }

    /// The first `among` frames in the order in which they would be victims, without regard to who
    /// uses them.
    pub fn in_order(&self, among: usize, mut with: impl FnMut(u32)) {
        match self {
            Self::Lru { order } | Self::CflruE { order, .. } => {
                let mut frame = order.first(0);
                for _ in 0..among {
                    if frame == NONE {
                        break;
                    }
                    with(frame);
                    frame = order.next(frame);
                }
            }
            Self::Clock { uses, is_used, hand, .. } => {
                let frames = uses.len();
                for ahead in 0..among.min(frames) {
                    let frame = (*hand as usize + ahead) % frames;
                    if is_used[frame] && uses[frame] == 0 {
                        with(frame as u32);
                    }
                }
            }
        }
    }
}
