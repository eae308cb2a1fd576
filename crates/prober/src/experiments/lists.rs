//! Lists in parameters: numbers, orders of addresses, shares; and what can be said of them before
//! anything is measured.

use registry::{Args, Info, SpecError, Value, parse_bytes, parse_count, parse_number};

/// Bytes of the smallest sector of any drive.
const LEAST_SECTOR: u64 = 512;

/// A parameter that holds a list of numbers, with examples of what it may hold.
struct List {
    key: &'static str,
    some: &'static str,
    doublings: &'static str,
    multiple_of: u64,
}

const LISTS: [List; 3] = [
    List { key: "sizes", some: "4Ki+64Ki", doublings: "512..1Mi", multiple_of: LEAST_SECTOR },
    List { key: "depths", some: "1+8+32", doublings: "1..256", multiple_of: 1 },
    List { key: "streams", some: "1+2+8", doublings: "1..32", multiple_of: 1 },
];

/// Orders of addresses, in the order in which they are measured: random writes leave a drive in
/// another state than they found it in.
pub const ACCESSES: [&str; 3] = ["sequential", "stride", "random"];

/// The least that an experiment needs of a list: its key, numbers in it, and whether 1 has to be
/// one of them.
fn needed(experiment: &str) -> Option<(&'static str, usize, bool)> {
    match experiment {
        "depth_read" | "depth_write" => Some(("depths", 3, true)),
        "equations_read" | "equations_write" => Some(("sizes", 3, false)),
        "streams" => Some(("streams", 2, true)),
        _ => None,
    }
}

/// Checks what parameters say of requests, as far as that does not depend on the device.
///
/// # Errors
/// [`SpecError::BadValue`] with what is wrong, and an example of what would be right.
pub fn check(info: &Info, args: &Args) -> Result<(), SpecError> {
    for (key, value) in args.iter() {
        match value {
            Value::Integer(size) if key == "size" && !size.is_multiple_of(LEAST_SECTOR) => {
                let down = size / LEAST_SECTOR * LEAST_SECTOR;
                let right = format!(
                    "a multiple of {LEAST_SECTOR} bytes, the smallest sector: {down} and {} are",
                    down + LEAST_SECTOR
                );
                return Err(bad(info.name, key, &size.to_string(), right));
            }
            Value::Text(text) if key == "accesses" => {
                accesses(info.name, text, "sequential").map(|_| ())?;
            }
            Value::Text(text) if key == "mixes" => shares(info.name, key, text).map(|_| ())?,
            Value::Text(text) if LISTS.iter().any(|list| list.key == key) => {
                // What `auto` stands for depends on the time.
                let auto = info
                    .params
                    .iter()
                    .any(|param| param.name == key && param.default == "auto")
                    .then_some("1..256");
                if auto.is_none() || text != "auto" {
                    enough(info.name, key, text, &chosen(info.name, key, text, auto)?)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn enough(name: &'static str, key: &str, text: &str, numbers: &[u64]) -> Result<(), SpecError> {
    match needed(name) {
        Some((of, count, with_one))
            if of == key && (numbers.len() < count || (with_one && numbers[0] != 1)) =>
        {
            let one = if with_one { ", of which one is 1" } else { "" };
            let example =
                LISTS.iter().find(|list| list.key == key).map_or("", |list| list.doublings);
            Err(bad(
                name,
                key,
                text,
                format!(
                    "a list of at least {count} numbers{one}, such as {example} for all doublings"
                ),
            ))
        }
        _ => Ok(()),
    }
}

fn bad(name: &'static str, key: &str, value: &str, right: String) -> SpecError {
    SpecError::BadValue { name, key: key.to_owned(), value: value.to_owned(), right }
}

/// Whole numbers: `4Ki+64Ki`, or `512..1Mi` for all of these that are twice the one before; in
/// order, each once.
///
/// # Errors
/// A message that says what is wrong.
fn numbers(text: &str, parse: fn(&str) -> Option<u64>) -> Result<Vec<u64>, String> {
    let number = |text: &str| match parse(text.trim()) {
        None => Err(format!("`{}` is no whole number", text.trim())),
        Some(0) => Err("0 is not allowed".to_owned()),
        Some(number) => Ok(number),
    };
    let mut all = Vec::new();
    for part in text.split('+') {
        match part.split_once("..") {
            Some((from, to)) => {
                let (from, to) = (number(from)?, number(to)?);
                if from > to {
                    return Err(format!("`{}` runs backwards", part.trim()));
                }
                all.extend(
                    std::iter::successors(Some(from), |&value| value.checked_mul(2))
                        .take_while(|&value| value <= to),
                );
            }
            None => all.push(number(part)?),
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// The numbers of a parameter; `auto`, where it may be `auto`, stands for these.
///
/// # Errors
/// [`SpecError::BadValue`] if it is no list of such numbers.
pub fn chosen(
    name: &'static str,
    key: &'static str,
    text: &str,
    auto: Option<&str>,
) -> Result<Vec<u64>, SpecError> {
    let List { some, doublings, multiple_of, .. } =
        LISTS.iter().find(|list| list.key == key).expect("it is one of the lists");
    let listed = if text == "auto" { auto.unwrap_or(text) } else { text };
    let parse = if *multiple_of > 1 { parse_bytes } else { parse_count };
    let found = numbers(listed, parse).and_then(|found| {
        match found.iter().find(|number| !number.is_multiple_of(*multiple_of)) {
            Some(odd) => Err(format!("{odd} is not a multiple of {multiple_of}")),
            None => Ok(found),
        }
    });
    found.map_err(|wrong| {
        let auto = if auto.is_some() { ", or `auto`" } else { "" };
        let right = format!(
            "numbers joined by `+` such as {some}, or all doublings such as {doublings}{auto}: \
             {wrong}"
        );
        bad(name, key, text, right)
    })
}

/// Orders of addresses joined by `+`, in the order in which they are measured; `auto` stands for
/// these.
///
/// # Errors
/// [`SpecError::BadValue`] if one is unknown.
pub fn accesses(
    name: &'static str,
    text: &str,
    auto: &str,
) -> Result<Vec<&'static str>, SpecError> {
    let asked: Vec<&str> =
        if text == "auto" { auto } else { text }.split('+').map(str::trim).collect();
    if let Some(unknown) = asked.iter().find(|name| !ACCESSES.contains(name)) {
        let right = format!(
            "`auto`, or some of {} joined by `+`: there is no order `{unknown}`",
            ACCESSES.join(", ")
        );
        return Err(bad(name, "accesses", text, right));
    }
    Ok(ACCESSES.into_iter().filter(|name| asked.contains(name)).collect())
}

/// Shares joined by `+`.
///
/// # Errors
/// [`SpecError::BadValue`] if one is not from 0 to 1.
pub fn shares(name: &'static str, key: &str, text: &str) -> Result<Vec<f64>, SpecError> {
    let share = |part: &str| {
        parse_number(part.trim())
            .filter(|share| (0.0..=1.0).contains(share))
            .ok_or_else(|| part.trim().to_owned())
    };
    text.split('+').map(share).collect::<Result<_, _>>().map_err(|wrong| {
        bad(
            name,
            key,
            text,
            format!("shares from 0 to 1 joined by `+`, such as 0+0.5: `{wrong}` is none"),
        )
    })
}

#[cfg(test)]
mod tests {
    use registry::ParamKind;

    use super::*;
    use crate::experiments::{EXPERIMENTS, find};

    fn wrong(text: &str) -> String {
        match find(text) {
            Ok(_) => panic!("{text} is taken"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn lists_are_read() {
        assert_eq!(numbers("4Ki+64k", parse_bytes).unwrap(), [4096, 65_536]);
        assert_eq!(numbers("512..4Ki", parse_bytes).unwrap(), [512, 1024, 2048, 4096]);
        assert_eq!(numbers("8+1..4+2", parse_count).unwrap(), [1, 2, 4, 8]);
        assert!(
            ["", "0", "4..1", "x", "1..", "0..4"]
                .iter()
                .all(|text| numbers(text, parse_count).is_err())
        );
        assert_eq!(accesses("a", "random + sequential", "").unwrap(), ["sequential", "random"]);
        assert_eq!(shares("a", "mixes", "0+50%").unwrap(), [0.0, 0.5]);
    }

    #[test]
    fn wrong_lists_are_told_before_anything_is_measured() {
        let cases = [
            (
                "throughput_read(depths=0+8)",
                "depths=0+8 is not numbers joined by `+` such as 1+8+32, or all doublings such as \
                 1..256, or `auto`: 0 is not allowed",
            ),
            ("throughput_read(sizes=1Mi..4Ki)", "`1Mi..4Ki` runs backwards"),
            ("throughput_read(sizes=4Ki+1000)", "1000 is not a multiple of 512"),
            ("throughput_read(depths=1+x)", "`x` is no whole number"),
            ("throughput_read(accesses=zigzag)", "there is no order `zigzag`"),
            (
                "throughput_write(mixes=0+2)",
                "shares from 0 to 1 joined by `+`, such as 0+0.5: `2` is none",
            ),
            (
                "mix(size=1000)",
                "size=1000 is not a multiple of 512 bytes, the smallest sector: 512 and 1024 are",
            ),
            ("response_time_read(size=513)", "512 and 1024 are"),
            (
                "depth_read(depths=2+4)",
                "a list of at least 3 numbers, of which one is 1, such as 1..256",
            ),
            ("depth_write(depths=auto)", "`auto` is no whole number"),
            ("equations_read(sizes=4Ki)", "at least 3 numbers, such as 512..1Mi"),
            ("streams(streams=2+4)", "at least 2 numbers, of which one is 1, such as 1..32"),
            ("ill_mapped(depths=0)", "0 is not allowed"),
        ];
        for (text, told) in cases {
            assert!(wrong(text).contains(told), "{text}: {}", wrong(text));
        }
    }

    #[test]
    fn every_list_in_a_parameter_is_checked() {
        for entry in EXPERIMENTS {
            for param in entry.info.params.iter().filter(|param| param.kind == ParamKind::Text) {
                let text = format!("{}({}=0..-)", entry.info.name, param.name);
                assert!(wrong(&text).contains(&format!("{}=0..- is not", param.name)), "{text}");
            }
            find(entry.info.name).unwrap();
        }
    }
}
