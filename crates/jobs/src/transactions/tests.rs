use serde_json::{Value, json};

use super::*;
use crate::{canonical, run};

const SMALL: &str = "profile(replication-table-2, media.erase_blocks_per_plane=512)";

fn settings(changed: &Value) -> Value {
    let mut settings = json!({"source": "tpcb(bytes=40M)", "on": SMALL, "transactions": 300});
    settings.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
    settings
}

fn played(changed: &Value) -> (Value, Vec<&'static str>) {
    let settings = settings(changed).to_string();
    let found = run("transactions", settings.as_bytes(), &Progress::default());
    let found = found.unwrap_or_else(|error| panic!("{settings}: {error}"));
    let tables = found.tables.into_iter().map(|(name, _)| name).collect();
    (serde_json::from_str(&found.outcome).unwrap(), tables)
}

#[test]
fn what_clients_see_adds_up() {
    let (found, tables) = played(&json!({"clients": 5, "no_log": true, "warm_up": 50}));
    assert_eq!((&found["committed"], &found["ended"]), (&json!(300), &Value::Null));
    let number = |value: &Value| value.as_f64().unwrap();
    let shares = |key: &str| found[key].as_object().unwrap().values().map(number).sum::<f64>();
    assert!((shares("client_share") - 1.0).abs() < 1e-9);
    assert!((shares("die_share") - 1.0).abs() < 0.01);
    assert_eq!(found["by_kind"]["account_update"], found["response_ns"]);
    assert_eq!((&found["io_ns"]["log"]["count"], &found["locks"]), (&json!(0), &json!("row")));
    assert_eq!(
        (found["pool_pages"].as_u64(), found["layers"].as_array().unwrap().len()),
        (Some(1024), 0)
    );
    assert_eq!(tables, ["windows", "response"]);
}

#[test]
fn a_pool_may_be_a_share_of_the_database() {
    let (found, _) = played(&json!({"pool": "1%"}));
    let pages = found["database"]["pages"].as_u64().unwrap();
    assert_eq!(found["pool_pages"].as_u64().unwrap(), pages.div_ceil(100));
}

#[test]
fn a_region_is_all_that_is_written() {
    let region = 1_u64 << 20;
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(130 << 20).unwrap();
    let path = file.path().display();
    let on = format!("disk({path}, region={region}+128Mi)");
    let (found, _) = played(&json!({"on": on, "write": true, "transactions": 20}));
    assert_eq!(
        (found["offset_bytes"].as_u64(), &found["about"]["kind"]),
        (Some(region), &json!("file"))
    );
    let held = std::fs::read(file.path()).unwrap();
    assert!(held[..region as usize].iter().chain(&held[129 << 20..]).all(|byte| *byte == 0));
}

#[test]
fn equal_work_has_equal_settings() {
    let canonical = |changed: &Value| {
        canonical("transactions", settings(changed).to_string().as_bytes()).unwrap()
    };
    let short = json!({"pool": "2k", "cpu": "1ms", "writer_interval": "1s", "log": "1Mi"});
    let long =
        json!({"pool": 2000, "cpu": 1000, "writer_interval": 1000, "log": 1 << 20, "seed": 1});
    assert_eq!(canonical(&short), canonical(&long));
}

#[test]
fn what_is_wrong_is_named_by_its_setting() {
    for (changed, at, right) in [
        (json!({"source": "tpcx"}), "source", "built in are: tpcc, tpcb, tatp"),
        (json!({"source": "tpcb(bytes=90G)"}), "source", "right would be a smaller database"),
        (json!({"source": "tpcb(pages=3)"}), "source", "pages"),
        (json!({"clients": 0}), "clients", "1 to 65536"),
        (json!({"pool": 0}), "pool", "at least one page"),
        (json!({"pool": "5G"}), "pool", "at most"),
        (json!({"transactions": 0}), "transactions", "write 1 or more"),
        (json!({"buffer": "mru"}), "buffer", "known are: lru, clock, cflru_e"),
        (json!({"lock_rule": "hope"}), "lock_rule", "known are: detect, wait_die"),
        (json!({"locks": "rows"}), "locks", "unknown variant"),
        (json!({"stack": "shield"}), "stack", "unknown layer `shield`"),
        (json!({"facts": "measure"}), "facts", "give --stack too"),
        (json!({"stack": "replicas(page=8Ki)", "facts": "measure"}), "facts", "before a run"),
        (json!({"log": "16Ki"}), "log", "at least"),
        (json!({"cpu": "1e13s"}), "cpu", "from 0 to 1e9"),
        (json!({"on": "profile(intel-x25e, slices=4)"}), "on", "leave them out"),
        (json!({"on": {"spec": ""}}), "on", "no device is named"),
        (json!({"on": "profile(intel-x25e, state=loaded)"}), "on", "fresh, filled or aged"),
        (json!({"cilents": 1}), "cilents", "unknown field"),
    ] {
        let settings = settings(&changed).to_string();
        match run("transactions", settings.as_bytes(), &Progress::default()) {
            Err(JobError::Settings { at: found, message }) => {
                assert!(found == at && message.contains(right), "{changed}: {found}: {message}");
            }
            other => panic!("{changed}: {:?}", other.map(|found| found.outcome)),
        }
    }
}

#[test]
fn a_file_is_written_only_if_that_is_allowed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(130 << 20).unwrap();
    let settings = settings(&json!({"on": file.path()})).to_string();
    let error = run("transactions", settings.as_bytes(), &Progress::default()).unwrap_err();
    assert!(matches!(&error, JobError::Settings { at, .. } if at == "on"));
    assert!(error.to_string().contains("add --write"), "{error}");
}
