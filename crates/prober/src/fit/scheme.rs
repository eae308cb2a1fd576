//! The parameters of an FTL scheme, taken apart and put together again.

use registry::Spec;
use ssd::drive::profile::Profile;
use ssd::drive::schemes::SCHEMES;

/// A scheme. Parameters that it does not have are 0 and left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scheme {
    pub name: &'static str,
    /// Log or replacement superblocks.
    pub logs: u32,
    pub interleave: u32,
    pub merges_at_once: u32,
    pub maps_in_memory: u32,
    pub allocation: String,
    pub chunk_pages: u32,
}

impl Scheme {
    /// The scheme of a checked profile.
    pub fn of(profile: &Profile) -> Self {
        let mut found = Self::page_mapped("dynamic", 1);
        let Ok(spec) = Spec::parse(&profile.ftl.scheme) else { return found };
        let Some(info) = SCHEMES.iter().find(|info| info.is_called(&spec.name)) else {
            return found;
        };
        let Ok(args) = info.accept(&spec) else { return found };
        let has = |key: &str| info.params.iter().any(|param| param.name == key);
        let whole = |key: &str| if has(key) { args.integer(key) as u32 } else { 0 };
        found.name = info.name;
        found.logs = whole("log_blocks").max(whole("open_blocks"));
        found.interleave = whole("interleave");
        found.merges_at_once = whole("merges_at_once");
        found.maps_in_memory = whole("maps_in_memory");
        found.chunk_pages = whole("chunk_pages");
        found.allocation =
            if has("allocation") { args.text("allocation").to_owned() } else { String::new() };
        found
    }

    pub fn page_mapped(allocation: &str, chunk_pages: u32) -> Self {
        Self {
            name: "page_mapped",
            logs: 0,
            interleave: 0,
            merges_at_once: 0,
            maps_in_memory: 0,
            allocation: allocation.to_owned(),
            chunk_pages,
        }
    }

    pub fn with_logs(name: &'static str, logs: u32, interleave: u32) -> Self {
        Self {
            name,
            logs,
            interleave,
            merges_at_once: 1,
            maps_in_memory: 0,
            allocation: String::new(),
            chunk_pages: 0,
        }
    }

    pub fn is_log_block(&self) -> bool {
        self.logs > 0
    }

    /// Puts it into a profile. Another scheme's other parameters are lost (`dftl` keeps its cache
    /// as it is written).
    pub fn put(&self, profile: &mut Profile) {
        if self.name == "dftl" {
            return;
        }
        profile.ftl.scheme = if self.is_log_block() {
            let key = if self.name == "block_mapped" { "open_blocks" } else { "log_blocks" };
            let Self { name, logs, interleave, merges_at_once, maps_in_memory, .. } = self;
            format!(
                "{name}({key}={logs},interleave={interleave},merges_at_once={merges_at_once},\
                 maps_in_memory={maps_in_memory})"
            )
        } else {
            format!("page_mapped(allocation={},chunk_pages={})", self.allocation, self.chunk_pages)
        };
    }
}
