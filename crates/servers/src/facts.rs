//! Facts of the device for the layers, as the header keeps them: JSON with the names of
//! [`layers::Facts`].

use layers::{EquationPiece, Facts, PatternTimes, Thresholds};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(remote = "PatternTimes")]
struct Times {
    sequential_ns: f64,
    partitioned_ns: f64,
    focused_ns: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Thresholds")]
struct Least {
    sequential_pages: f64,
    partitioned_pages: f64,
    focused_pages: f64,
}

#[derive(Serialize, Deserialize)]
struct KeptTimes(#[serde(with = "Times")] PatternTimes);

#[derive(Serialize, Deserialize)]
struct KeptThresholds(#[serde(with = "Least")] Thresholds);

/// (to_bytes, intercept_ns, slope_ns)
type Piece = (u64, f64, f64);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    #[serde(skip_serializing_if = "Option::is_none")]
    write_bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    erase_block_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    focused_area_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<KeptTimes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thresholds: Option<KeptThresholds>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sequential_write: Vec<Piece>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    random_write: Vec<Piece>,
}

/// Writes facts as text.
pub fn to_text(facts: &Facts) -> String {
    let pieces = |pieces: &[EquationPiece]| {
        pieces.iter().map(|piece| (piece.to_bytes, piece.intercept_ns, piece.slope_ns)).collect()
    };
    let kept = Kept {
        write_bytes: facts.write_bytes,
        erase_block_bytes: facts.erase_block_bytes,
        focused_area_bytes: facts.focused_area_bytes,
        times: facts.times.map(KeptTimes),
        thresholds: facts.thresholds.map(KeptThresholds),
        sequential_write: pieces(&facts.sequential_write),
        random_write: pieces(&facts.random_write),
    };
    serde_json::to_string(&kept).expect("numbers and lists become text")
}

/// Reads facts from text.
///
/// # Errors
/// The reason why it is not valid.
pub fn from_text(text: &str) -> Result<Facts, String> {
    let kept: Kept = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let pieces = |pieces: Vec<Piece>| {
        let piece =
            |(to_bytes, intercept_ns, slope_ns)| EquationPiece { to_bytes, intercept_ns, slope_ns };
        pieces.into_iter().map(piece).collect()
    };
    Ok(Facts {
        write_bytes: kept.write_bytes,
        erase_block_bytes: kept.erase_block_bytes,
        focused_area_bytes: kept.focused_area_bytes,
        times: kept.times.map(|KeptTimes(times)| times),
        thresholds: kept.thresholds.map(|KeptThresholds(least)| least),
        sequential_write: pieces(kept.sequential_write),
        random_write: pieces(kept.random_write),
        // Headers keep it in another way.
        staging_offset: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_come_back_as_they_were() {
        let facts = Facts {
            write_bytes: Some(32768),
            times: Some(PatternTimes {
                sequential_ns: 1.5,
                partitioned_ns: 0.1 + 0.2,
                focused_ns: 1e9,
            }),
            random_write: vec![EquationPiece {
                to_bytes: 4096,
                intercept_ns: -3.25,
                slope_ns: 1.0 / 3.0,
            }],
            ..Facts::default()
        };
        assert_eq!(from_text(&to_text(&facts)).unwrap(), facts);
        assert_eq!(to_text(&Facts::default()), "{}");
        let error = from_text(r#"{"write_byte":3}"#).unwrap_err();
        assert!(error.contains("write_byte"), "{error}");
    }
}
