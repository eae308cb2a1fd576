//! Flows of requests that are played beside the source of a job.

use serde::{Deserialize, Serialize};

use crate::pace::Pace;
use crate::source::{Part, checked_handle};
use crate::values::Region;
use crate::written::{Text, Written};

/// Requests that are played beside others until these end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// A trace file, `synth:...`, or a pattern.
    #[serde(alias = "")]
    pub source: Text<Part>,
    /// Pace of its requests.
    #[serde(default = "one_by_one")]
    pub pace: Text<Pace>,
    /// Priority, 0 to 255: of requests that wait for room, those of the highest go first.
    #[serde(default)]
    pub priority: u8,
    /// Placement handle of its writes, 0 to 127; left out, that of each request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<u8>,
    /// Queue of the host that it is sent to, from 0.
    #[serde(default)]
    pub queue: u32,
    /// Its addresses; left out, all of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
}

const fn one_by_one() -> Text<Pace> {
    Text(Pace::closed(1))
}

impl Written for Flow {
    const NAME: &str = "flow";

    /// `flow(SOURCE, pace=...)`, or the source alone.
    fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let flow = if text.starts_with("flow(") {
            registry::read::<Self>(text).map_err(|error| error.to_string())?
        } else {
            let source = Text(Part::read(text)?);
            Self { source, pace: one_by_one(), priority: 0, handle: None, queue: 0, region: None }
        };
        checked_handle(flow.handle)?;
        Ok(flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_has_all_that_is_its_own() {
        let text = "flow(io:random(reads=1,size=8Ki), pace=closed(4), priority=7, region=1Gi+2Gi)";
        let flow = Flow::read(text).unwrap();
        assert_eq!(flow.source.of, "io:random(reads=1,size=8Ki)");
        assert_eq!((*flow.pace, flow.priority), (Pace::closed(4), 7));
        assert_eq!(flow.region, Some(Region { offset: 1 << 30, length: 2 << 30 }));
        let json = serde_json::to_string(&flow).unwrap();
        assert_eq!(serde_json::from_str::<Flow>(&json).unwrap(), flow);
        assert_eq!(*Flow::read("io:random").unwrap().pace, Pace::closed(1));
        assert!(Flow::read("flow(io:random, handle=128)").is_err());
    }
}
