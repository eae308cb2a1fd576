use std::path::Path;

use arrow_array::RecordBatch;
use serde_json::{Value, json};
use tempfile::TempDir;
use traces::store::TableWriter;
use units::Progress;

use crate::{Found, JobError, run};

type Tables = Vec<(&'static str, RecordBatch)>;

fn done(job: &str, settings: &Value) -> Result<(Value, Tables), JobError> {
    let Found { outcome, tables, .. } =
        run(job, settings.to_string().as_bytes(), &Progress::default())?;
    Ok((serde_json::from_str(&outcome).unwrap(), tables))
}

fn refused(job: &str, settings: &Value) -> (String, String) {
    match done(job, settings) {
        Err(JobError::Settings { at, message }) => (at, message),
        other => panic!("{job} was not refused: {other:?}"),
    }
}

fn keep(path: &Path, table: &RecordBatch) -> String {
    let mut writer = TableWriter::new(path, table.schema(), &[]).unwrap();
    writer.write(table).unwrap();
    writer.finish().unwrap();
    path.to_string_lossy().into_owned()
}

fn near(found: &Value, right: &Value, share: f64) {
    let (found, right) = (found.as_f64().unwrap(), right.as_f64().unwrap());
    assert!((found - right).abs() <= share * right, "{found} is not near {right}");
}

/// From nothing to the figures of a fleet: what its parts say is what the whole is.
#[test]
fn a_fleet_is_made_split_studied_and_merged() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let asked = json!({"out": at("fleet.csv.gz"), "files": 2, "volumes": 20, "requests": "30k",
        "days": 2, "largest": "64Mi"});
    let (made, _) = done("fleet_synth", &asked).unwrap();
    assert_eq!(made["files"], json!([at("fleet-000.csv.gz"), at("fleet-001.csv.gz")]));

    let asked = json!({"sources": made["files"], "out": at("store"), "memory": "1Mi"});
    let (store, tables) = done("trace_split", &asked).unwrap();
    assert_eq!(store["requests"], 30_000);
    assert_eq!(store["volumes"], made["volumes"]);
    assert_eq!(store["written_bytes"], made["written_bytes"]);
    assert_eq!(tables[0].1.num_rows() as u64, made["volumes"].as_u64().unwrap());
    let (again, _) = done("trace_split", &asked).unwrap();
    assert_eq!((&again["resumed_requests"], &again["parts"]), (&json!(30_000), &store["parts"]));

    let mut sketches = Vec::new();
    let mut page_writes = 0;
    for number in 0..20 {
        let asked = json!({"volume": at(&format!("store/volume={number}")), "exact": true});
        let (studied, tables) = done("volume_study", &asked).unwrap();
        assert_eq!((&studied["volume"], &studied["is_counted"]), (&json!(number), &json!(true)));
        page_writes += studied["page_writes"].as_u64().unwrap();
        sketches.push(keep(&folder.path().join(format!("{number}.parquet")), &tables[0].1));
    }
    let (merged, _) = done("fleet_merge", &json!({"sketches": sketches})).unwrap();
    assert_eq!(merged["volumes"], 20);
    assert_eq!(merged["page_writes"], page_writes);
    assert_eq!(merged["writes"], made["writes"]);
    near(&merged["written_pages"], &merged["counted_written_pages"], 0.02);
    near(&merged["read_pages"], &merged["counted_read_pages"], 0.02);
    for kind in ["sizes", "gaps", "lifetimes", "rewrite_distances"] {
        let [found, exact] =
            ["quantiles", "exact_quantiles"].map(|name| merged[kind][name].as_array().unwrap());
        assert_eq!((found.len(), exact.len()), (10, 10));
        found.iter().zip(exact).for_each(|(found, exact)| near(found, exact, 0.001));
    }

    let twice = json!({"sketches": [sketches[0], sketches[0]]});
    let (merged, _) = done("fleet_merge", &twice).unwrap();
    assert_eq!((&merged["volumes"], &merged["counted_written_pages"]), (&json!(1), &Value::Null));
    let large = json!({"volume": at("store/volume=1"), "page_size": "16k"});
    let table = &done("volume_study", &large).unwrap().1[0].1;
    let large = keep(&folder.path().join("large.parquet"), table);
    let (at, said) = refused("fleet_merge", &json!({"sketches": [sketches[0], large]}));
    assert_eq!(at, "sketches");
    assert!(said.contains("row 0 is of pages of 16384 bytes, not of 4096"), "{said}");
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    for (job, settings, place, right) in [
        ("fleet_synth", json!({"out": ""}), "out", "the name of a file"),
        ("fleet_synth", json!({"out": at("x.csv"), "days": 0}), "days", "right would be 1 to"),
        ("fleet_synth", json!({"out": at("x.csv"), "skew": -1}), "skew", "lower than"),
        ("trace_split", json!({"out": at("s")}), "sources", "one file at least"),
        ("trace_split", json!({"sources": [at("none.csv")], "out": at("s")}), "sources", "No such"),
        ("trace_split", json!({"sources": ["x"], "out": "s", "threads": 0}), "threads", "1 to 64"),
        ("volume_study", json!({"volume": at("none")}), "volume", "none: list failed"),
        ("volume_study", json!({"volume": ".", "page_size": 100}), "page_size", "512 or more"),
        ("volume_study", json!({"volume": folder.path()}), "volume", "it holds no parts"),
        ("fleet_merge", json!({}), "sketches", "one at least"),
    ] {
        let (found, said) = refused(job, &settings);
        assert_eq!(found, place, "{said}");
        assert!(said.contains(right) && !said.contains('\n'), "{said}");
    }
}
