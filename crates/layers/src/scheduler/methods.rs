//! Methods: the scheduler's techniques that are combined (SCHEDULER table 7.2), and its limits.

use registry::{Args, Spec, SpecError, parse_bytes};
use units::Nanos;

use super::INFO;
use super::estimate::Estimate;
use super::held::Order;
use crate::Making;
use crate::time::parse_time;
use crate::{Facts, LayerError};

/// Techniques in use. Deferring is the base of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Methods {
    is_direct: bool,
    coalesces: bool,
    converts: bool,
    aligns: bool,
}

/// Layers that a scheduler stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expansion {
    /// No layer: requests go on as they come.
    Direct,
    /// The scheduler alone.
    Alone,
    /// The scheduler, and the log below it that converts and aligns.
    Over(Spec),
}

/// Settings of a scheduler.
#[derive(Clone, Debug)]
pub struct SchedulerSettings {
    /// Order in which writes are written out, if overlapping ones of a window are merged.
    pub merging: Option<Order>,
    /// True if merged writes that lie side by side become one command.
    pub joins: bool,
    /// Event that closes the window.
    pub window: WindowEnd,
    /// Most bytes held; none for no limit.
    pub buffer_bytes: Option<u64>,
    /// Longest estimated time of writing out a window, in nanoseconds.
    pub flush_time: Option<Nanos>,
    /// Longest time that a write is held before its window is closed, in nanoseconds.
    pub age: Option<Nanos>,
    /// Estimate of the time of a write.
    pub estimate: Estimate,
    /// Most writes of a batch under way.
    pub depth: usize,
}

/// Event that closes the window beside FLUSH and the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowEnd {
    /// The end of a checkpoint.
    CheckpointEnd,
    /// The beginning of a checkpoint.
    CheckpointBegin,
    /// No other event.
    Flush,
}

fn bad(key: &str, value: &str, right: &str) -> SpecError {
    SpecError::BadValue {
        name: INFO.name,
        key: key.to_owned(),
        value: value.to_owned(),
        right: right.to_owned(),
    }
}

impl Methods {
    /// Reads `defer,coalesce`, in any order, or the paper's `dfr_cls`.
    fn parse(text: &str) -> Result<Self, SpecError> {
        let wrong = |right| Err(bad("methods", text, right));
        let mut methods =
            Self { is_direct: false, coalesces: false, converts: false, aligns: false };
        let words: Vec<&str> = text.split([',', '_', '+']).map(str::trim).collect();
        for (number, word) in words.iter().enumerate() {
            if words[..number].contains(word) {
                return wrong("a list without a word that is there twice");
            }
            match *word {
                "direct" | "drt" => methods.is_direct = true,
                "defer" | "dfr" => (),
                "coalesce" | "cls" => methods.coalesces = true,
                "convert" | "cnv" => methods.converts = true,
                "align" | "aln" => methods.aligns = true,
                _ => {
                    return wrong(
                        "a list of defer, coalesce, convert, align, nor a name such as \
                         dfr_cls_cnv_aln",
                    );
                }
            }
        }
        if methods.is_direct && words.len() > 1 {
            return wrong("possible: drt means none of the others");
        }
        if methods.aligns && !methods.converts {
            return wrong("possible: what is aligned are converted writes; write convert,align");
        }
        Ok(methods)
    }
}

/// Gives the layers that a scheduler with these parameters stands for.
///
/// # Errors
/// [`SpecError`] if the parameters make no sense.
pub fn expand(args: &Args) -> Result<Expansion, SpecError> {
    let methods = Methods::parse(args.text("methods"))?;
    let log = args.text("log");
    let mut spec = Spec::parse(log)?;
    let aligned = spec.given.iter().position(|(key, _)| key == "align");
    if methods.is_direct {
        return Ok(Expansion::Direct);
    }
    if !methods.converts {
        return match log {
            "log_volume" => Ok(Expansion::Alone),
            _ => Err(bad("log", log, "possible without convert among the methods")),
        };
    }
    match (methods.aligns, aligned.map(|place| spec.given[place].1.as_str())) {
        (false, None | Some("off" | "no")) => {
            spec.given.retain(|(key, _)| key != "align");
            spec.given.push(("align".to_owned(), "off".to_owned()));
        }
        (false, Some(_)) => {
            return Err(bad("log", log, "possible without align among the methods"));
        }
        (true, None) => spec.given.push(("align".to_owned(), "auto".to_owned())),
        (true, Some("off" | "no")) => {
            return Err(bad("log", log, "possible with align among the methods"));
        }
        (true, Some(_)) => (),
    }
    Ok(Expansion::Over(spec))
}

/// Reads the settings from the parameters, and from the device's facts.
///
/// # Errors
/// [`LayerError`] for values that cannot be read, and for a limit of time without an estimate.
pub fn settings(making: &Making<'_>) -> Result<SchedulerSettings, LayerError> {
    let args = making.args;
    let methods = Methods::parse(args.text("methods"))?;
    let time = |key: &str, none: &str| parse_time(INFO.name, key, args.text(key), none);
    let flush_time = time("flush_time", "off")?;
    let estimate = match time("write_time", "auto")? {
        Some(time_ns) => Estimate::Constant(time_ns),
        None => estimate(methods, args, making.facts)?,
    };
    if flush_time.is_some() && estimate == Estimate::Unknown {
        return Err(LayerError::Unknown {
            layer: INFO.name,
            what: "the time of a write by its length",
            parameter: "write_time",
        });
    }
    Ok(SchedulerSettings {
        merging: methods.coalesces.then(|| {
            if args.text("order") == "arrival" { Order::Arrival } else { Order::Ascending }
        }),
        joins: methods.coalesces && args.text("join") == "yes",
        window: match args.text("window") {
            "checkpoint_begin" => WindowEnd::CheckpointBegin,
            "flush" => WindowEnd::Flush,
            _ => WindowEnd::CheckpointEnd,
        },
        buffer_bytes: buffer(args)?,
        flush_time,
        age: time("age", "off")?,
        estimate,
        depth: args.integer("depth") as usize,
    })
}

fn estimate(methods: Methods, args: &Args, facts: &Facts) -> Result<Estimate, SpecError> {
    if !methods.converts {
        return Ok(Estimate::of_writes(&facts.random_write));
    }
    let log = Spec::parse(args.text("log"))?;
    let given =
        log.given.iter().find(|(key, _)| key == "align").and_then(|(_, value)| parse_bytes(value));
    let gathered = given
        .and_then(|bytes| u32::try_from(bytes).ok())
        .filter(|bytes| *bytes > 0)
        .or(facts.write_bytes);
    Ok(match gathered {
        Some(gathered) if methods.aligns => {
            Estimate::of_gathered(&facts.sequential_write, gathered)
        }
        _ => Estimate::of_writes(&facts.sequential_write),
    })
}

fn buffer(args: &Args) -> Result<Option<u64>, SpecError> {
    match args.text("buffer") {
        "off" => Ok(None),
        text => parse_bytes(text).filter(|bytes| *bytes > 0).map(Some).ok_or_else(|| {
            bad("buffer", text, "a number of bytes of at least 1, such as 64Mi, nor `off`")
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<Expansion, String> {
        let args = INFO.accept(&Spec::parse(text).unwrap()).map_err(|error| error.to_string())?;
        expand(&args).map_err(|error| error.to_string())
    }

    /// SCHEDULER table 7.2.
    #[test]
    fn the_papers_names_and_words_mean_the_same() {
        for (name, words) in [
            ("drt", "direct"),
            ("dfr", "defer"),
            ("dfr_cls", "defer,coalesce"),
            ("dfr_cnv", "defer,convert"),
            ("dfr_cls_cnv", "defer,coalesce,convert"),
            ("dfr_cnv_aln", "defer,convert,align"),
            ("dfr_cls_cnv_aln", "defer,coalesce,convert,align"),
        ] {
            assert_eq!(Methods::parse(name), Methods::parse(words));
            assert_eq!(
                expanded(&format!("scheduler({name})")),
                expanded(&format!("scheduler({words},buffer=1Mi)"))
            );
        }
        assert_eq!(Methods::parse("convert,align"), Methods::parse("dfr_cnv_aln"));
        assert_eq!(expanded("scheduler(drt)"), Ok(Expansion::Direct));
        assert_eq!(expanded("scheduler"), Ok(Expansion::Alone));
    }

    #[test]
    fn what_converts_lies_over_a_log() {
        let over = |text| match expanded(text) {
            Ok(Expansion::Over(spec)) => spec.to_string(),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(over("scheduler(dfr_cnv)"), "log_volume(align=off)");
        assert_eq!(over("scheduler(convert,align)"), "log_volume(align=auto)");
        assert_eq!(
            over("scheduler(convert,align,log=log_volume(segment=4Mi,align=64Ki))"),
            "log_volume(segment=4Mi,align=64Ki)"
        );
    }

    #[test]
    fn combinations_that_make_no_sense_are_refused() {
        for (text, part) in [
            ("scheduler(defer,align)", "write convert,align"),
            ("scheduler(drt,cls)", "drt means none"),
            ("scheduler(cls,cls)", "there twice"),
            ("scheduler(merge)", "methods=merge is not a list of defer"),
            ("scheduler(convert,log=log_volume(align=64Ki))", "without align"),
            ("scheduler(convert,align,log=log_volume(align=off))", "with align"),
            ("scheduler(defer,log=log_volume(page=8Ki))", "without convert"),
        ] {
            let error = expanded(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn limits_are_read_and_wrong_ones_told() {
        let made = |text: &str, facts: &Facts| {
            let args = INFO.accept(&Spec::parse(text).unwrap()).unwrap();
            settings(&Making { args: &args, facts, seed: 0 }).map_err(|error| error.to_string())
        };
        let none = Facts::default();
        let set = made("scheduler(dfr,buffer=off,flush_time=250ms,write_time=8ms)", &none).unwrap();
        assert_eq!(
            (set.buffer_bytes, set.flush_time, set.estimate.time_ns(4096)),
            (None, Some(250_000_000), 8_000_000)
        );
        assert_eq!(
            made("scheduler(flush_time=1.5,write_time=80us)", &none).unwrap().flush_time,
            Some(1_500_000_000)
        );
        assert_eq!(
            (set.age, made("scheduler(age=30s)", &none).unwrap().age),
            (None, Some(30_000_000_000))
        );
        for (text, part) in [
            ("scheduler(buffer=0)", "buffer=0 is not a number of bytes of at least 1"),
            ("scheduler(flush_time=3h)", "flush_time=3h is not a time above 0 such as 3s"),
            ("scheduler(age=soon)", "age=soon is not a time above 0"),
            ("scheduler(flush_time=-1s)", "is not a time above 0"),
            ("scheduler(flush_time=3s)", "give write_time=..."),
        ] {
            let error = made(text, &none).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let piece = |intercept_ns| crate::facts::EquationPiece {
            to_bytes: 1 << 20,
            intercept_ns,
            slope_ns: 1.0,
        };
        let facts = Facts {
            random_write: vec![piece(8e6)],
            sequential_write: vec![piece(1e5)],
            write_bytes: Some(65536),
            ..Facts::default()
        };
        let estimated = |text| made(text, &facts).unwrap().estimate.time_ns(4096);
        assert_eq!(estimated("scheduler(dfr_cls,flush_time=3s)"), 8_004_096);
        assert_eq!(estimated("scheduler(dfr_cnv)"), 104_096);
        assert_eq!(estimated("scheduler(dfr_cnv_aln)"), 10_346);
    }
}
