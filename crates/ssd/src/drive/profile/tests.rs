//! Every built-in profile, and every kind of error with its text.

use proptest::prelude::*;
use toml::Value;

use super::*;

/// The least that a profile needs.
const PLAIN: &str = r#"name = "plain"
summary = "a drive"
sources = ["assumed"]
fitted = []
[media]
channels = 2
packages_per_channel = 1
dies_per_package = 2
planes_per_die = 2
erase_blocks_per_plane = 64
pages_per_erase_block = 32
page_bytes = 4096
read_us = [50]
program_us = [500]
erase_us = 2000
channel_mt_per_second = 200
[interface]
kind = "sata"
link_mb_per_second = 300
queue_depth = 32
[ftl]
scheme = "page_mapped"
over_provisioning = 0.25
"#;

fn plain() -> Profile {
    parse(PLAIN, "plain.toml").unwrap()
}

/// The error of PLAIN with one text in place of another.
fn changed(from: &str, to: &str) -> String {
    assert_eq!(PLAIN.matches(from).count(), 1, "{from}");
    parse(&PLAIN.replace(from, to), "my.toml").unwrap_err().to_string()
}

/// The error of overrides of a built-in profile.
fn overridden(name: &str, overrides: &[&str]) -> String {
    load(name).unwrap().with_overrides(overrides).unwrap_err().to_string()
}

/// All keys of a profile with a value each, in groups.
fn keys(profile: &Profile) -> Vec<(String, Value)> {
    let mut keys = Vec::new();
    for (name, value) in profile.tree() {
        match value {
            Value::Table(inner) => {
                keys.extend(inner.into_iter().map(|(key, value)| (format!("{name}.{key}"), value)));
            }
            value => keys.push((name, value)),
        }
    }
    keys
}

#[test]
fn every_profile_is_right_and_survives_being_written() {
    for entry in PROFILES {
        let profile = load(entry.name).unwrap();
        assert_eq!(profile.name, entry.name);
        profile.check().unwrap();
        assert_eq!(parse(&profile.to_toml(), entry.name).unwrap(), profile);
        assert_eq!(entry.summary(), profile.summary);
        assert_eq!(u64::from(profile.layout().physical_pages()), profile.physical_pages());
        assert!(profile.logical_pages() < profile.layout().physical_pages());
        let alpha = profile.physical_pages() as f64 / f64::from(profile.logical_pages()) - 1.0;
        assert!((alpha - profile.ftl.over_provisioning).abs() < 1e-5, "{}: {alpha}", entry.name);
    }
    assert_eq!(load("a16").unwrap().physical_pages() * 4096, 16 << 30);
}

#[test]
fn capacities_are_those_on_the_label() {
    for (name, label) in [
        ("mtron-pro-7500", 32e9),
        ("mtron-sata7035", 16e9),
        ("intel-x25e", 32e9),
        ("intel-x25m", 80e9),
        ("ocz-vertex-ex", 120e9),
        ("samsung-mcbqe32g", 32e9),
        ("usb-stick", 8e9),
        ("sd-card", 8e9),
        // Slices of 1/16.
        ("sd-card-a2", 4e9),
        ("emmc-51", 4e9),
        // Slices of 1/8.
        ("ocz-vector", 32e9),
        ("intel-335", 30e9),
    ] {
        let bytes = load(name).unwrap().capacity_bytes() as f64;
        assert!((bytes / label - 1.0).abs() < 0.001, "{name} has {bytes} bytes");
    }
}

#[test]
fn what_is_left_out_has_its_default() {
    let profile = plain();
    assert_eq!(
        (profile.media.channel_bits, profile.interface.queues, profile.write_buffer.bytes),
        (8, 1, 0)
    );
    assert_eq!((profile.ftl.placement.as_str(), profile.ftl.victim.as_str()), ("none", ""));
    assert_eq!((profile.logical_pages(), profile.layout().dies()), (13_107, 4));
}

#[test]
fn unknown_profiles_are_told_the_known_ones() {
    let error = load("x25e").unwrap_err().to_string();
    assert!(
        error.starts_with("unknown device profile `x25e`; known are: mtron-pro-7500, "),
        "{error}"
    );
    assert!(error.ends_with("a16; or give the path of a .toml file"), "{error}");
}

#[test]
fn syntax_errors_have_line_and_column() {
    assert_eq!(
        changed("channels = 2\n", "chanels = 2\n"),
        "my.toml, line 6, column 1: unknown key `chanels`, expected one of `channels`, \
         `packages_per_channel`, `dies_per_package`, `planes_per_die`, `erase_blocks_per_plane`, \
         `pages_per_erase_block`, `slices`, `page_bytes`, `pages_per_read`, `pages_per_program`, \
         `read_us`, `part_read_us`, `program_us`, `erase_us`, `command_us`, \
         `channel_mt_per_second`, `channel_bits`, `multi_plane`, `cache_mode`, `copy_back`, \
         `suspend`, `suspend_at_points`, `suspend_us`, `most_suspensions`, `order`, \
         `endurance_cycles`, `endurance_spread`, \
         `factory_bad_share`, `read_retry_mean`, `read_retry_cycles`, `worn_cycles`, `time_noise`"
    );
    let error = changed("channels = 2\n", "channels = \n");
    assert!(
        error.starts_with("my.toml, line 6, column 12: ") && error.lines().count() == 1,
        "{error}"
    );
    assert_eq!(
        changed("page_bytes = 4096\n", ""),
        "my.toml, line 5, column 1: missing key `page_bytes`"
    );
    assert_eq!(
        changed("page_bytes = 4096", "page_bytes = 4e3"),
        "my.toml, line 12, column 14: found floating point `4000.0`, expected a whole number from \
         0 to 4294967295"
    );
    assert_eq!(
        changed("\"sata\"", "\"scsi\""),
        "my.toml, line 18, column 8: unknown variant `scsi`, expected one of `sata`, `nvme`, `usb`"
    );
    assert_eq!(
        changed("channels = 2\n", "channels = -2\n"),
        "my.toml, line 6, column 12: found integer `-2`, expected a whole number from 0 to \
         4294967295"
    );
}

#[test]
fn every_range_is_held_where_the_file_is_named() {
    for (from, to, error) in [
        ("channels = 2\n", "channels = 65\n", "media.channels = 65: must be from 1 to 64"),
        (
            "page_bytes = 4096",
            "page_bytes = 4000",
            "media.page_bytes = 4000: must be a multiple of 512, a sector",
        ),
        ("[50]", "[]", "media.read_us = []: must hold 1 to 8 times, one a page type"),
        ("[50]", "[50, nan]", "media.read_us = NaN: must be from 0.001 to 1000000000"),
        ("[50]", "[1, 2]\nchannel_bits = 12", "media.channel_bits = 12: must be 8, 16, 32 or 64"),
        (
            "\"plain\"",
            "\"My drive\"",
            "name = \"My drive\": must be lower-case words and digits joined by `-`",
        ),
        ("\"a drive\"", "\"\"", "summary = \"\": must be one line that says what the drive is"),
        (
            "[\"assumed\"]",
            "[]",
            "sources = []: must say where the figures are from, if only \"assumed\"",
        ),
        (
            "fitted = []",
            "fitted = [\"media.reed_us\"]",
            "fitted = [... \"media.reed_us\" ...]: must name keys of the profile, and there is no \
             `media.reed_us`",
        ),
        (
            "queue_depth = 32",
            "queue_depth = 33",
            "interface.queue_depth = 33: must be from 1 to 32 for interface.kind = sata",
        ),
        (
            "queue_depth = 32",
            "queue_depth = 32\nqueues = 2",
            "interface.queues = 2: must be 1 for interface.kind = sata",
        ),
        (
            "kind = \"sata\"",
            "kind = \"usb\"",
            "interface.queue_depth = 32: must be 1 for interface.kind = usb",
        ),
        ("0.25", "0", "ftl.over_provisioning = 0: must be from 0.001 to 100"),
    ] {
        assert_eq!(changed(from, to), format!("my.toml: {error}"));
    }
}

#[test]
fn what_does_not_go_together_is_told() {
    for (overrides, error) in [
        (
            vec!["media.read_us=[1,2]", "media.program_us=[1,2,3]"],
            "media.program_us = [1.0, 2.0, 3.0]: must hold as many page types as media.read_us, 2, \
             or one time for all",
        ),
        (
            vec![
                "media.channels=64",
                "media.packages_per_channel=16",
                "media.erase_blocks_per_plane=8192",
            ],
            "media = 4294967296 pages: must be at most 2^31 = 2147483648 pages: use larger pages \
             or fewer erase blocks",
        ),
        (
            vec!["write_buffer.bytes=100"],
            "write_buffer.bytes = 100: must be 0 for none, or from 4096 to 68719476736 (a page to \
             64 GiB)",
        ),
        (
            vec!["write_buffer.bytes=64Ki", "write_buffer.flush=when_full"],
            "write_buffer.flush_pages = 0: must be from 1 to 16: the buffer holds 16 pages",
        ),
        (
            vec!["write_buffer.bytes=64Ki", "write_buffer.in_flight_pages=17"],
            "write_buffer.in_flight_pages = 17: must be from 0 to 16: the buffer holds 16 pages",
        ),
        (
            vec!["read_ahead.detector=table"],
            "read_ahead.trigger_requests = 0: must be from 1 to 1024",
        ),
        (
            vec![
                "read_ahead.detector=table",
                "read_ahead.trigger_requests=2",
                "read_ahead.window_bytes=64Ki",
            ],
            "read_ahead.window_bytes = 65536: must be at least a page, 4096, and at most \
             read_cache.bytes, 0, where what is read ahead is kept",
        ),
        (
            vec!["ftl.over_provisioning=4%"],
            "cleaning.start_below_free = 0.05: must be below 0.0385, or ftl.over_provisioning \
             larger: a full drive has no more free, and would always clean",
        ),
        (
            vec!["media.factory_bad_share=0.1"],
            "media.factory_bad_share = 0.1: must be below 0.0654, or ftl.over_provisioning larger: \
             the good erase blocks do not hold all logical pages",
        ),
        (
            vec!["ftl.scheme=bast", "cleaning.occupies_die=true"],
            "cleaning.occupies_die = true: must be false unless ftl.scheme is page_mapped",
        ),
        (
            vec!["wear_levelling.static_rule=life"],
            "media.endurance_cycles = 0: must be above 0 where wear_levelling.static_rule goes by \
             the life that remains",
        ),
        (
            vec!["ftl.victim=grady"],
            "ftl.victim = \"grady\": unknown victim policy `grady`; known are: lru, greedy, \
             window_greedy, d_choices, cost_benefit, lfs_cost_benefit, random",
        ),
        (
            vec!["ftl.placement=dac(x=1)"],
            "ftl.placement = \"dac(x=1)\": `dac` has no parameter `x`; known are: ",
        ),
        (
            vec!["ftl.scheme=bast(logs=4)"],
            "ftl.scheme = \"bast(logs=4)\": `bast` has no parameter `logs`; known are: log_blocks",
        ),
        (
            vec!["ftl.scheme=nftl"],
            "ftl.scheme = \"nftl\": unknown FTL scheme `nftl`; known are: page_mapped",
        ),
        (
            vec!["ftl.scheme=bast(log_blocks=4"],
            "ftl.scheme = \"bast(log_blocks=4\": `bast(log_blocks=4`: the closing bracket is \
             missing; write name or name(key=value,...)",
        ),
    ] {
        let got = overridden("a16", &overrides);
        assert!(got.starts_with(&format!("profile `a16`: {error}")), "{overrides:?}: {got}");
    }
}

#[test]
fn overrides_keep_the_type_of_their_key() {
    let overrides = [
        "controller.read_command_us=28",
        "media.read_us=[25,900]",
        "write_buffer.bytes = 16Mi",
        "media.suspend=true",
        "media.order=reads_first",
        "ftl.over_provisioning=20%",
    ];
    let profile = load("a16").unwrap().with_overrides(&overrides).unwrap();
    assert_eq!((profile.controller.read_command_us, profile.write_buffer.bytes), (28.0, 16 << 20));
    assert_eq!(
        (profile.media.read_us.as_slice(), profile.media.suspend),
        ([25.0, 900.0].as_slice(), true)
    );
    assert_eq!(
        (profile.media.order, profile.ftl.over_provisioning),
        (CommandOrder::ReadsFirst, 0.2)
    );
    assert!(profile.fitted.ends_with(&[
        "media.suspend".to_owned(),
        "media.order".to_owned(),
        "ftl.over_provisioning".to_owned()
    ]));
    let spec = plain()
        .with_overrides(&[
            "ftl.scheme=bast(log_blocks=4,interleave=0)",
            "media.read_us=7",
            "name=mine",
            "fitted=[\"ftl\"]",
        ])
        .unwrap();
    assert_eq!(
        (spec.ftl.scheme.as_str(), spec.media.read_us[0], spec.name.as_str()),
        ("bast(log_blocks=4,interleave=0)", 7.0, "mine")
    );
    assert_eq!(spec.fitted, ["ftl"]);
}

#[test]
fn wrong_overrides_are_told_and_change_nothing() {
    for (text, error) in [
        (
            "depth",
            "`depth` is not an override; write key=value, such as controller.read_command_us=28",
        ),
        (
            "controller.read_us=1",
            "profile `a16`: no key `controller.read_us`; known in `controller` are: drain_us, \
             page_us, read_command_us, read_gap_us, relocation_gap_us, trickle_gap_us, \
             trickle_slack_us, turnaround_us, write_command_us, write_gap_us, write_hold_us, \
             write_slack_us, writes_wait_for_reads",
        ),
        (
            "cpu.read_us=1",
            "profile `a16`: no key `cpu.read_us`; known are: cleaning, controller, energy, fdp, \
              fitted, ftl, interface, media, name, read_ahead, read_cache, replication, slc_cache, \
             sources, summary, wear_levelling, write_buffer",
        ),
        (
            "read_cache=1",
            "profile `a16`: no key `read_cache`; `read_cache` is a group of keys: read_cache.bytes",
        ),
        ("name.x=1", "profile `a16`: no key `name.x`; `name` is a value, not a group of keys"),
        ("media.read_us.x=1", "profile `a16`: no key `media.read_us.x`; known in `media` are: "),
        (
            "media.channels=two",
            "profile `a16`: media.channels = two: must be a whole number of 0 or more, such as 32 \
             or 16Mi",
        ),
        (
            "media.channels=8G",
            "profile `a16`: media.channels = 8G: found integer `8000000000`, expected a whole \
             number from 0 to 4294967295",
        ),
        (
            "media.erase_us=fast",
            "profile `a16`: media.erase_us = fast: must be a number, such as 2.5 or 7%",
        ),
        (
            "media.read_us=[25,x]",
            "profile `a16`: media.read_us = [25,x]: must be numbers, such as [25,900]",
        ),
        ("media.suspend=1", "profile `a16`: media.suspend = 1: must be true or false"),
        (
            "media.order=lifo",
            "profile `a16`: media.order = lifo: unknown variant `lifo`, expected `fifo` or \
             `reads_first`",
        ),
        (
            "fitted=media",
            "profile `a16`: fitted = media: must be a list of texts, such as [\"media.read_us\"]",
        ),
        ("fitted=[1]", "profile `a16`: fitted = [1]: found integer `1`, expected a string"),
    ] {
        let got = overridden("a16", &[text]);
        assert!(got.starts_with(error), "{text}: {got}");
        if let Some((key, value)) = text.split_once('=') {
            let mut profile = load("a16").unwrap();
            assert!(profile.set(key, value).is_err());
            assert_eq!(profile, load("a16").unwrap());
        }
    }
}

#[test]
fn docs_tell_every_key() {
    let docs = include_str!("../../../../../docs/profiles.md");
    for (key, _) in keys(&plain()) {
        assert!(docs.contains(&format!("| `{key}` |")), "docs/profiles.md has no row for `{key}`");
    }
    for entry in PROFILES {
        assert!(
            docs.contains(&format!("| `{}` |", entry.name)),
            "docs/profiles.md has no row for the profile `{}`",
            entry.name
        );
    }
}

#[test]
fn what_is_fitted_is_in_the_file() {
    for entry in PROFILES {
        let written: toml::Table = entry.text().parse().unwrap();
        for key in &entry.profile().fitted {
            assert!(
                set::exists(&written, key),
                "{}: `{key}` is said to be fitted and is left to its default",
                entry.name
            );
        }
    }
}

proptest! {
    /// Whatever is given, an override is taken with its type or refused in one line, and what is
    /// taken can be written and read.
    #[test]
    fn any_override_is_taken_or_refused(index in 0_usize..64,
        value in "\\PC{0,12}|[0-9]{1,12}|-?[0-9.]{1,6}(e[0-9]{1,3})?|\\[[0-9,]{0,9}\\]|true|inf|\
                  nan") {
        let mut profile = plain();
        let keys = keys(&profile);
        let key = &keys[index % keys.len()].0;
        match profile.set(key, &value) {
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
            Ok(()) => match profile.check() {
                Ok(()) => prop_assert_eq!(parse(&profile.to_toml(), "written").unwrap(), profile),
                Err(error) => prop_assert!(!error.to_string().contains('\n')),
            },
        }
    }
}

/// Placement by the host: left out of the text where there is none, so that hashes stay.
#[test]
fn handles_are_in_the_text_only_where_there_are_some() {
    assert!(!plain().to_toml().contains("fdp"), "{}", plain().to_toml());
    let changes = ["ftl.scheme=superblock_mapped", "fdp.handles=3"];
    let two = plain().with_overrides(&changes).unwrap();
    assert!(two.to_toml().contains("\n[fdp]\nhandles = 3\n"), "{}", two.to_toml());
    assert_eq!(parse(&two.to_toml(), "again").unwrap(), two);
    let none = two.with_overrides(&["fdp.handles=0", "fdp.isolation=persistently"]).unwrap();
    assert!(none.to_toml().contains("\n[fdp]\nisolation = \"persistently\"\n"));
    assert_eq!(parse(&none.to_toml(), "again").unwrap(), none);
    let error = two.with_overrides(&["fdp.handles=129"]).unwrap_err().to_string();
    assert!(error.ends_with("fdp.handles = 129: must be from 0 to 128"), "{error}");
    let error = two.with_overrides(&["ftl.placement=separate"]).unwrap_err().to_string();
    assert!(error.contains("the host says where pages go"), "{error}");
}
