use serde_json::{Value, json};

use super::*;
use crate::{canonical, read, run};

fn played(settings: &Value) -> Value {
    let found = run("play", settings.to_string().as_bytes(), &Progress::default());
    let found = found.unwrap_or_else(|error| panic!("{settings}: {error}"));
    serde_json::from_str(&found.outcome).unwrap()
}

fn refused(settings: &Value) -> (String, String) {
    match run("play", settings.to_string().as_bytes(), &Progress::default()) {
        Err(JobError::Settings { at, message }) => (at, message),
        other => panic!("{settings}: {:?}", other.map(|found| found.outcome)),
    }
}

const RANDOM: &str = "io:random(reads=0.5,requests=500,range=4Mi)";

#[test]
fn every_device_has_a_run_under_every_stack_at_every_pace() {
    let found = played(&json!({
        "source": RANDOM, "on": ["intel-x25e", "memory(bytes=64Mi)"],
        "stack": ["direct", "scheduler(coalesce)"], "pace": ["1", "8"],
    }));
    let runs = found["runs"].as_array().unwrap();
    let key = |run: &Value| format!("{} {} {}", run["device"], run["stack"], run["pace"]);
    let keys: std::collections::BTreeSet<String> = runs.iter().map(key).collect();
    assert_eq!((runs.len(), keys.len()), (8, 8));
    assert!(runs.iter().all(|run| run["requests"] == 500 && run["layers"]["capacity_bytes"] != 0));
}

#[test]
fn the_drive_alone_takes_as_long_by_itself_as_below_no_layers() {
    let asked = |stack: Value| {
        played(&json!({
            "source": RANDOM, "on": ["intel-x25e"], "stack": stack, "pace": ["1"],
        }))["runs"][0]
            .clone()
    };
    let (inside, outside) = (asked(json!([])), asked(json!(["direct"])));
    let mean = |run: &Value| run["latency_ns"]["all"]["mean"].as_f64().unwrap();
    let (inner, outer) = (mean(&inside), mean(&outside));
    assert!((inner - outer).abs() < 1e-4 * inner, "{inner} and {outer} ns");
    assert_eq!(inside["written_bytes"], outside["written_bytes"]);
    assert!(inside["simulated"].is_object() && outside["simulated"].is_null());
}

#[test]
fn what_is_left_out_is_left_out_on_every_device() {
    for on in ["intel-x25e", "memory(bytes=64Mi)"] {
        let found = played(&json!({
            "source": "io:random(range=4Mi)", "on": [on], "requests": "400", "warm_up": 100,
        }));
        assert_eq!(found["runs"][0]["requests"], 300, "{on}");
    }
}

#[test]
fn a_run_ends_after_its_time_of_the_device() {
    for stack in [json!([]), json!(["direct"])] {
        let short = played(&json!({
            "source": "io:random(range=4Mi,reads=1,pause_us=100)", "on": ["intel-x25e"],
            "stack": stack, "duration": "5ms", "pace": ["open"],
        }));
        let requests = short["runs"][0]["requests"].as_u64().unwrap();
        assert!((49..=51).contains(&requests), "{stack}: {requests} in 5 ms, one each 100 us");
    }
}

#[test]
fn equal_work_has_equal_settings() {
    let canonical = |settings: Value| canonical("play", settings.to_string().as_bytes()).unwrap();
    let short = canonical(json!({
        "source": "io:random", "on": ["profile(nvme-tlc, state=aged, op=20%)"],
        "requests": "20k", "pace": ["8"],
    }));
    let long = canonical(json!({
        "source": {"of": "io:random"},
        "on": [{"profile": {"name": "nvme-tlc", "state": {"aged": {"overwrites": 2}}, "op": 0.2}}],
        "requests": 20_000, "pace": [{"closed": {"depth": 8}}], "seed": 1,
    }));
    assert_eq!(short, long);
    let again: Play = read(short.as_bytes()).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), short);
}

#[test]
fn what_is_wrong_is_named_by_its_setting() {
    for (changed, at, right) in [
        (json!({"requests": "ten"}), "requests", "write 4096, 10k or 1M"),
        (json!({"pace": ["closed(0)"]}), "pace[0]", "depth is 0"),
        (
            json!({"on": ["profile(intel-x25e, stat=aged)"]}),
            "on[0]",
            "there is no parameter `stat`",
        ),
        (json!({"on": ["profile(intel-x25e, media.chanels=4)"]}), "on[0]", "media.chanels"),
        (json!({"on": ["profile(intel-x25e, slices=4)"]}), "on[0]", "settled before a run"),
        (json!({"source": "io:randm"}), "source", "unknown request pattern"),
        (json!({"warm_up": 500}), "warm_up", "nothing is left to measure"),
        (json!({"untimed": "85%", "source": "io:random"}), "untimed", "no end to take a share of"),
        (json!({"pace": ["open"]}), "pace", "has no times"),
        (json!({"flow": ["flow(io:random, region=1Ti+1Gi)"]}), "flow[0]", "does not lie within"),
        (json!({"stack": ["schedler"]}), "stack", "schedler"),
        (json!({"page_size": 100}), "page_size", "512 bytes to 16 MiB"),
        (json!({"page_size": "8Ki"}), "page_size", "is of `synth:`, and io:random"),
        (json!({"seeed": 1}), "seeed", "unknown field"),
    ] {
        let mut settings = json!({"source": RANDOM, "on": ["intel-x25e"]});
        settings.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
        let (found, message) = refused(&settings);
        assert!(found == at && message.contains(right), "{settings}: {found}: {message}");
    }
}

#[test]
fn a_file_is_only_read_unless_writing_is_allowed() {
    let path = std::env::temp_dir().join(format!("flashwright-jobs-{}", std::process::id()));
    std::fs::write(&path, vec![7_u8; 1 << 20]).unwrap();
    let on = path.display().to_string();
    let source = "io:random(requests=20,range=64Ki)";
    let (at, message) = refused(&json!({"source": source, "on": [&on]}));
    assert!(at == "on[0]" && message.contains("add --write"), "{message}");
    let (at, message) = refused(&json!({"source": source, "on": [&on], "write": true}));
    assert!(at == "on[0]" && message.contains("data"), "{message}");
    assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 7), "nothing was written");
    let reads = "io:random(requests=20,range=64Ki,reads=1)";
    let stack = json!({"source": reads, "on": [&on], "stack": ["scheduler(coalesce)"]});
    assert!(refused(&stack).1.contains("layers write to it"));
    let found = played(&json!({"source": reads, "on": [&on]}));
    assert_eq!(found["runs"][0]["requests"], 20);
    std::fs::remove_file(&path).unwrap();
}
