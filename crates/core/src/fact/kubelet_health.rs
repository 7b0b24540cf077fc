//! Whether the kubelet that runs still works: what its healthz port says, and when it last renewed its Node's lease. The
//! first is asked of every live machine, the second where the kubelet's own credential may be used.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Facts, Known, Missing, OrAbsent, Source, Why};

/// The kubelet's own answer, over the machine's loopback.
pub const HEALTHZ: &str = "kubelet-healthz";
/// The Node's lease, as the API server has it.
pub const LEASE: &str = "node-lease";

pub const SOURCES: &[Source] = &[Source::Api(HEALTHZ), Source::Api(LEASE)];

/// Where a kubelet answers unless its configuration says otherwise.
const USUAL_PORT: u16 = 10248;
/// For how long a lease is good where it does not say so itself.
const USUAL: i64 = 40;

/// A Node's lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletLease {
    /// By the kubelet's clock, which is this machine's.
    pub renewed_at: Timestamp,
    pub lasts: SignedDuration,
}

pub fn parse_lease(text: &str) -> Result<KubeletLease, String> {
    let lease: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let renewed = lease.pointer("/spec/renewTime").and_then(Value::as_str).ok_or("it was never renewed")?;
    let renewed_at = renewed.parse().map_err(|_| format!("{renewed:?} is no time"))?;
    let lasts = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_i64).filter(|seconds| *seconds > 0);
    Ok(KubeletLease { renewed_at, lasts: SignedDuration::from_secs(lasts.unwrap_or(USUAL)) })
}

impl Facts {
    /// The first line of what the kubelet answers. `TimedOut`: it takes connections, and answers none.
    pub fn kubelet_healthz(&self) -> Known<&str> {
        Ok(self.api(HEALTHZ)?.text.lines().next().unwrap_or_default())
    }

    /// Where the kubelet answers, on the loopback; `None`: nowhere.
    pub fn kubelet_healthz_port(&self) -> Option<u16> {
        let config = match self.kubelet_config() {
            // Some file may name another port.
            Err(_) if self.kubelet_drop_ins().is_err_and(|missing| missing.why != Why::NotCollected) => return None,
            config => config.ok(),
        };
        let port = config.and_then(|config| config.healthz_port).unwrap_or(USUAL_PORT);
        (port != 0).then_some(port)
    }

    /// `None`: there is no lease.
    pub fn kubelet_lease(&self) -> Known<Option<KubeletLease>> {
        let Some(lease) = self.api(LEASE).or_absent()? else { return Ok(None) };
        parse_lease(&lease.text).map(Some).map_err(|detail| Missing::broken("api node-lease", detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{Why, kubelet_config};
    use crate::testing::facts;
    use proptest::prelude::*;

    #[test]
    fn a_lease_is_read_as_the_api_server_has_it() {
        let text = r#"{"spec":{"renewTime":"2026-11-18T10:00:00.123456Z","leaseDurationSeconds":20}}"#;
        let known = facts().with_api(LEASE, text).kubelet_lease().unwrap().unwrap();
        assert_eq!((known.renewed_at.to_string().as_str(), known.lasts.as_secs()), ("2026-11-18T10:00:00.123456Z", 20));
        let other = facts().with_api(LEASE, r#"{"spec":{"renewTime":"2026-11-18T10:00:00Z"}}"#);
        assert_eq!(other.kubelet_lease().unwrap().unwrap().lasts.as_secs(), 40);
        assert!(facts().with_api(LEASE, r#"{"spec":{}}"#).kubelet_lease().is_err());
        assert_eq!(facts().without(Source::Api(LEASE), Why::Absent).kubelet_lease(), Ok(None));
        assert_eq!(facts().kubelet_lease().unwrap_err().why, Why::NotAsked);
    }

    #[test]
    fn the_port_is_the_one_of_its_configuration() {
        let with = |line: &str| {
            facts()
                .with_file(kubelet_config::FILE, &format!("kind: KubeletConfiguration\n{line}\n"))
                .kubelet_healthz_port()
        };
        assert_eq!((with(""), with("healthzPort: 1248"), with("healthzPort: 0")), (Some(10248), Some(1248), None));
        assert_eq!(facts().kubelet_healthz_port(), Some(10248));
    }

    proptest! {
        #[test]
        fn any_text_may_be_a_lease(text in ".*") {
            let _ = parse_lease(&text);
        }
    }
}
