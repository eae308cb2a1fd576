//! Settings of the layer.

use registry::{Args, Param, ParamKind, Spec, SpecError, parse_bytes};

use units::Nanos;

use super::NAME;
use super::layout::VolumeLayout;
use crate::time::parse_time;
use crate::{Facts, LayerError};

/// Parameters in the registry.
pub(super) const PARAMS: &[Param] = &[
    Param {
        name: "page",
        kind: ParamKind::Bytes { min: 512, max: 65_536 },
        default: "4Ki",
        help: "bytes that are mapped as one; a power of two",
    },
    Param {
        name: "segment",
        kind: ParamKind::Text,
        default: "auto",
        help: "bytes that are cleaned as one; auto: the device's erase block or reclaim unit, 1Mi \
               if that is not known",
    },
    Param {
        name: "over_provisioning",
        kind: ParamKind::Number { min: 0.001, max: 100.0 },
        default: "10%",
        help: "space beyond what the host is promised, as a fraction of that",
    },
    Param {
        name: "placement",
        kind: ParamKind::Text,
        // docs/layers.md shows the measurements: policies that learn how often pages are written
        // begin anew whenever the volume is opened, and each stream is another place that a cheap
        // drive has to write to.
        default: "none",
        help: "placement policy: which stream a page goes to; none: all go to one",
    },
    Param {
        name: "hints",
        kind: ParamKind::Choice(&["yes", "no"]),
        default: "no",
        help: "whether writes with a hint of their lifetime go to a log of that lifetime (none, \
               short, medium, long, extreme); needs placement=none and summaries=ring",
    },
    Param {
        name: "victim",
        kind: ParamKind::Text,
        default: "auto",
        help: "victim policy; auto: that of the placement policy's authors",
    },
    Param {
        name: "align",
        kind: ParamKind::Text,
        default: "off",
        help: "bytes that writes are gathered to and aligned to; auto: from which on larger writes \
               bring little; off: each write as it came",
    },
    Param {
        name: "pad",
        kind: ParamKind::Choice(&["yes", "no"]),
        default: "yes",
        help: "whether gathered writes that a flush sends early are filled up to their alignment",
    },
    Param {
        name: "checkpoint_every",
        kind: ParamKind::Text,
        default: "auto",
        help: "bytes written between checkpoints of the map; auto: 128 times its size, at least 64Mi",
    },
    Param {
        name: "summary_pages",
        kind: ParamKind::Text,
        default: "auto",
        help: "most summaries of what was written since a checkpoint, each of a page, 8 at the \
               least; auto: 1/128 of all pages, 32 at the least",
    },
    Param {
        name: "summaries",
        kind: ParamKind::Choice(&["auto", "ring", "segments"]),
        default: "auto",
        help: "where summaries lie: in a ring of their own; or in the segments, each behind its \
               pages, so that all is written in one place: for cards, with placement=none; auto: \
               in the segments if turns between places are known to be dear; as the volume was \
               made",
    },
    Param {
        name: "idle_clean",
        kind: ParamKind::Text,
        default: "off",
        help: "time without any command, such as 100ms, after which it cleans ahead of need; off: \
               cleaning goes along with writes alone",
    },
    Param {
        name: "idle_free",
        kind: ParamKind::Number { min: 0.0, max: 1.0 },
        default: "50%",
        help: "up to which share of the segments beyond those that the host can fill are free then",
    },
    Param {
        name: "trim",
        kind: ParamKind::Choice(&["no", "yes"]),
        default: "no",
        help: "whether freed segments are trimmed below: a drive that maps pages cleans less then",
    },
    Param {
        name: "checksums",
        kind: ParamKind::Choice(&["yes", "no"]),
        default: "yes",
        help: "whether the checksum of each page is kept with the map and what is read is held \
               against it, 4 bytes more a page; as the volume was made",
    },
    Param {
        name: "outstanding",
        kind: ParamKind::Integer { min: 1, max: 4096 },
        default: "64",
        help: "most writes outstanding below",
    },
    Param {
        name: "filled",
        kind: ParamKind::Choice(&["no", "yes"]),
        default: "no",
        help: "whether all pages are mapped from the start, as if written in order: for traces \
               played on a volume that is in use",
    },
];

/// Settings, from the parameters.
#[derive(Clone, Debug)]
pub(super) struct VolumeSettings {
    pub page_bytes: u32,
    pub segment_bytes: u64,
    pub over_provisioning: f64,
    pub placement: Spec,
    /// Victim policy; none for the one of the placement policy's authors.
    pub victim: Option<Spec>,
    /// Alignment of writes; none if they are not gathered.
    pub align_bytes: Option<u32>,
    pub pads: bool,
    /// Bytes between checkpoints; none for a value by the size of the map.
    pub checkpoint_every_bytes: Option<u64>,
    /// Pages of the ring; none for a value by the size of the device.
    pub summary_pages: Option<u32>,
    pub are_summaries_in_segments: bool,
    /// Time without commands after which cleaning begins; none for no cleaning in idle time.
    pub idle_after: Option<Nanos>,
    pub idle_free: f64,
    pub trims: bool,
    pub keeps_checksums: bool,
    pub outstanding: usize,
    pub is_filled: bool,
    pub takes_hints: bool,
    /// First byte of a second device, on which all but the segments lies; none if there is no such
    /// device.
    pub aside: Option<u64>,
}

impl VolumeSettings {
    pub fn read(args: &Args, facts: &Facts) -> Result<Self, LayerError> {
        let page_bytes = args.integer("page") as u32;
        if !page_bytes.is_power_of_two() {
            return Err(bad("page", &page_bytes.to_string(), "a power of two").into());
        }
        let segment_bytes = match args.text("segment") {
            "auto" => {
                facts.erase_block_bytes.unwrap_or(1 << 20).next_multiple_of(u64::from(page_bytes))
            }
            text => size("segment", text, u64::from(page_bytes) * 2, 1 << 40)?,
        };
        if !segment_bytes.is_multiple_of(u64::from(page_bytes)) {
            return Err(bad("segment", &segment_bytes.to_string(), "whole pages").into());
        }
        let align_bytes = match args.text("align") {
            "off" | "no" => None,
            "auto" => Some(facts.write_bytes.ok_or(LayerError::Unknown {
                layer: NAME,
                what: "the size of writes from which on larger ones bring little",
                parameter: "align",
            })?),
            text => Some(size("align", text, 512, 1 << 30)? as u32),
        };
        let auto = |key: &'static str, least: u64, most: u64| match args.text(key) {
            "auto" => Ok(None),
            text => size(key, text, least, most).map(Some),
        };
        let placement = Spec::parse(args.text("placement"))?;
        let summaries = args.text("summaries");
        let are_summaries_in_segments = summaries == "segments";
        if args.text("hints") == "yes" && (placement.name != "none" || are_summaries_in_segments) {
            return Err(LayerError::Refused {
                layer: NAME,
                reason: "hints=yes chooses the log of a page, and so do placement=... and \
                         summaries=segments: leave out either hints=yes or the other"
                    .to_owned(),
            });
        }
        let mut settings = Self {
            page_bytes,
            segment_bytes,
            over_provisioning: args.number("over_provisioning"),
            placement,
            victim: if args.text("victim") == "auto" {
                None
            } else {
                Some(Spec::parse(args.text("victim"))?)
            },
            // Part of a page cannot be aligned.
            align_bytes: align_bytes.map(|bytes| bytes.next_multiple_of(page_bytes)),
            pads: args.text("pad") == "yes",
            checkpoint_every_bytes: auto("checkpoint_every", 1, u64::MAX)?,
            summary_pages: auto("summary_pages", 8, 1 << 20)?.map(|pages| pages as u32),
            are_summaries_in_segments,
            idle_after: parse_time(NAME, "idle_clean", args.text("idle_clean"), "off")?,
            idle_free: args.number("idle_free"),
            trims: args.text("trim") == "yes",
            keeps_checksums: args.text("checksums") == "yes",
            outstanding: args.integer("outstanding") as usize,
            is_filled: args.text("filled") == "yes",
            takes_hints: args.text("hints") == "yes",
            aside: facts.staging_offset,
        };
        if summaries == "auto" {
            settings.are_summaries_in_segments =
                facts.are_turns_dear() && settings.may_have_summaries_in_segments();
        }
        Ok(settings)
    }

    fn may_have_summaries_in_segments(&self) -> bool {
        let pages = (self.segment_bytes / u64::from(self.page_bytes)) as u32;
        self.placement.name == "none"
            && !self.takes_hints
            && self.aside.is_none()
            && VolumeLayout::check_spare(self, pages).is_ok()
    }
}

/// Gives the spec with the variant that a new volume gets, where that depends on facts of the
/// device: it is kept when the area moves to another device, or comes back.
///
/// # Errors
/// [`LayerError`] if parameters are wrong.
pub(super) fn settled(spec: &Spec, args: &Args, facts: &Facts) -> Result<Spec, LayerError> {
    let mut settled = spec.clone();
    if args.text("summaries") == "auto" && facts.are_turns_dear() {
        let is_one = VolumeSettings::read(args, facts)?.are_summaries_in_segments;
        let form = if is_one { "segments" } else { "ring" };
        settled.given.retain(|(key, _)| key != "summaries");
        settled.given.push(("summaries".to_owned(), form.to_owned()));
    }
    Ok(settled)
}

fn size(key: &'static str, text: &str, least: u64, most: u64) -> Result<u64, SpecError> {
    let right =
        || format!("a size from {least} to {most} bytes, or one of the words that its help names");
    parse_bytes(text)
        .filter(|bytes| (least..=most).contains(bytes))
        .ok_or_else(|| bad(key, text, &right()))
}

fn bad(key: &str, value: &str, right: &str) -> SpecError {
    SpecError::BadValue {
        name: NAME,
        key: key.to_owned(),
        value: value.to_owned(),
        right: right.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PatternTimes;

    fn facts(partitioned_ns: f64) -> Facts {
        let times = PatternTimes { sequential_ns: 1.5e6, partitioned_ns, focused_ns: 1.5e6 };
        Facts { times: Some(times), erase_block_bytes: Some(2 << 20), ..Facts::default() }
    }

    fn form(text: &str, facts: &Facts) -> (bool, String) {
        let spec = Spec::parse(text).unwrap();
        let args = super::super::ENTRY.info.accept(&spec).unwrap();
        let settings = VolumeSettings::read(&args, facts).unwrap();
        (settings.are_summaries_in_segments, settled(&spec, &args, facts).unwrap().to_string())
    }

    /// An SD card of class 4 takes 707 ms for a write when streams take turns, and 1.5 ms in order.
    #[test]
    fn summaries_lie_in_segments_where_turns_are_dear() {
        let card = facts(707e6);
        let (is_one, settled) = form("log_volume(over_provisioning=28%)", &card);
        assert!(is_one);
        assert_eq!(settled, "log_volume(over_provisioning=28%,summaries=segments)");
        assert!(form("log_volume(summaries=auto)", &card).0);
        assert!(!form("log_volume(summaries=ring)", &card).0);
        for unchanged in [&facts(1.5e6), &Facts::default()] {
            assert_eq!(form("log_volume", unchanged), (false, "log_volume".to_owned()));
        }
    }

    /// A variant that is not possible is not chosen.
    #[test]
    fn summaries_lie_in_a_ring_where_segments_cannot_hold_them() {
        let card = facts(707e6);
        for text in
            ["log_volume(placement=sepbit)", "log_volume(hints=yes)", "log_volume(segment=32Ki)"]
        {
            assert!(!form(text, &card).0, "{text}");
        }
        let aside = Facts { staging_offset: Some(1 << 30), ..card };
        assert_eq!(form("log_volume", &aside), (false, "log_volume(summaries=ring)".to_owned()));
    }
}
