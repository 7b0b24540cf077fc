//! The links of flannel and of the bridge plugin: deleted only where they are what their names say.

use serde_json::Value;

use super::ResetRefusal;
use crate::fact::Facts;
use crate::fact::net::LINKS as SHOWN;
use crate::plan::protect::LINKS;

/// What a link of each name is.
const KINDS: [(&str, &str); 2] = [("cni0", "bridge"), ("flannel.1", "vxlan")];

/// Those that are here, to be deleted.
pub(super) fn on(facts: &Facts) -> Result<Vec<String>, ResetRefusal> {
    let mut found = Vec::new();
    for name in LINKS {
        let Some(link) = facts.link(name)? else { continue };
        let kind = KINDS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
        if link.kind.as_deref() != kind {
            let is = link.kind.unwrap_or_else(|| "a network card".to_owned());
            return Err(ResetRefusal::Link { name, why: format!("it is no {}, but {is}", kind.unwrap_or_default()) });
        }
        if facts.default_routes()?.iter().any(|route| route.links.iter().any(|link| link == name)) {
            return Err(ResetRefusal::Link { name, why: "the machine's default route goes through it".to_owned() });
        }
        if let Some(member) = member_of(&facts.query(&SHOWN)?.text, name) {
            return Err(ResetRefusal::Link { name, why: format!("{member} is part of it, and is no pod's") });
        }
        found.push(name.to_owned());
    }
    Ok(found)
}

/// The first link in a bridge that is not one end of a pod's.
fn member_of(text: &str, bridge: &str) -> Option<String> {
    let links: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    let part = |link: &Value, pointer: &str| link.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let strange = links.iter().find(|link| {
        part(link, "/master").as_deref() == Some(bridge) && part(link, "/linkinfo/info_kind").as_deref() != Some("veth")
    });
    strange.and_then(|link| part(link, "/ifname"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::net::ROUTES;
    use crate::testing::facts;

    const BRIDGE: &str = r#"{"ifname":"cni0","linkinfo":{"info_kind":"bridge"}}"#;

    fn with(links: &[&str], route: &str) -> Result<Vec<String>, ResetRefusal> {
        let links = format!("[{}]", links.join(","));
        on(&facts().with_query(&SHOWN, &links).with_query(&ROUTES, &format!("[{route}]")))
    }

    #[test]
    fn only_what_they_seem_to_be() {
        let vxlan = r#"{"ifname":"flannel.1","linkinfo":{"info_kind":"vxlan"}}"#;
        let pod = r#"{"ifname":"veth1","master":"cni0","linkinfo":{"info_kind":"veth"}}"#;
        let route = r#"{"dst":"default","dev":"eth0"}"#;
        assert_eq!(with(&[BRIDGE, pod, vxlan], route), Ok(vec!["cni0".to_owned(), "flannel.1".to_owned()]));
        assert_eq!(with(&[r#"{"ifname":"eth0"}"#], route), Ok(Vec::new()));
        let rows: [(&[&str], &str, &str); 4] = [
            (&[r#"{"ifname":"cni0"}"#], route, "it is no bridge, but a network card"),
            (&[r#"{"ifname":"flannel.1","linkinfo":{"info_kind":"veth"}}"#], route, "it is no vxlan, but veth"),
            (&[BRIDGE], r#"{"dst":"default","dev":"cni0"}"#, "the machine's default route goes through it"),
            (&[BRIDGE, r#"{"ifname":"eth1","master":"cni0"}"#], route, "eth1 is part of it, and is no pod's"),
        ];
        for (links, route, says) in rows {
            let refusal = with(links, route).unwrap_err().to_string();
            assert!(refusal.contains(says), "{refusal}");
        }
        assert!(on(&facts()).is_err());
    }
}
