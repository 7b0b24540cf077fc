//! The chains of kube-proxy, CNI plugins and flannel in iptables, and what takes them out again.
//!
//! Only chains by these names go, and the rules elsewhere that lead to them. Every other rule is not mentioned in what is
//! handed to `iptables-restore --noflush`, and so stays as it is.

use crate::fact::firewall::{IPTABLES, LEGACY};
use crate::fact::iptables::words;
use crate::fact::keep::RULESET;
use crate::fact::{Facts, Known, Query, Source, Why};

/// What the names of those chains begin with.
pub const PREFIXES: [&str; 3] = ["KUBE-", "CNI-", "FLANNEL-"];

const NFT: Query = Query { name: "iptables-nft-save", argv: &["iptables-nft-save"], keep: RULESET };
const NFT6: Query = Query { name: "ip6tables-nft-save", argv: &["ip6tables-nft-save"], keep: RULESET };
const LEGACY6: Query = Query { name: "ip6tables-legacy-save", argv: &["ip6tables-legacy-save"], keep: RULESET };
const IP6TABLES: Query = Query { name: "ip6tables-save", argv: &["ip6tables-save"], keep: RULESET };

pub const SOURCES: &[Source] = &[
    Source::Query(&NFT),
    Source::Query(&LEGACY),
    Source::Query(&NFT6),
    Source::Query(&LEGACY6),
    Source::Query(&IPTABLES),
    Source::Query(&IP6TABLES),
];

/// A family's programs: `-save` and `-restore` are appended. The kernel has two sets of rules, and a program for each; the
/// plain name is one of the two, and counts only where neither is there.
struct Family {
    variants: [(&'static str, &'static Query); 2],
    plain: (&'static str, &'static Query),
}

const FAMILIES: [Family; 2] = [
    Family { variants: [("iptables-nft", &NFT), ("iptables-legacy", &LEGACY)], plain: ("iptables", &IPTABLES) },
    Family { variants: [("ip6tables-nft", &NFT6), ("ip6tables-legacy", &LEGACY6)], plain: ("ip6tables", &IP6TABLES) },
];

/// Whether Carrick would ever run this program's `-save` and `-restore`.
pub fn is_tool(name: &str) -> bool {
    FAMILIES.iter().any(|family| family.plain.0 == name || family.variants.iter().any(|(tool, _)| *tool == name))
}

/// What of a table goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub name: String,
    /// Chains by one of the names.
    pub chains: Vec<String>,
    /// Rules in other chains that lead to one of them: chain and rule, as they were printed.
    pub leads: Vec<String>,
    /// Its COMMIT was seen: nothing is missing.
    pub whole: bool,
}

/// Reads what `iptables-save` prints.
pub fn find(save: &str) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for line in save.lines() {
        if let Some(name) = line.strip_prefix('*') {
            tables.push(Table { name: name.trim().to_owned(), ..Table::default() });
            continue;
        }
        let Some(table) = tables.last_mut().filter(|table| !table.whole) else { continue };
        if line.trim_end() == "COMMIT" {
            table.whole = true;
        } else if let Some(chain) = line.strip_prefix(':').and_then(|rest| rest.split_whitespace().next()) {
            table.chains.extend(Some(chain.to_owned()).filter(|chain| is_ours(chain)));
        } else if let Some(rule) = line.strip_prefix("-A ")
            && leads_to_ours(rule)
        {
            table.leads.push(rule.to_owned());
        }
    }
    tables
}

fn is_ours(chain: &str) -> bool {
    PREFIXES.iter().any(|prefix| chain.starts_with(prefix))
}

/// A rule of somebody else's chain whose target is one of ours. A comment may say `-j KUBE-X` as well: it is in quotes.
fn leads_to_ours(rule: &str) -> bool {
    let words = words(rule);
    let chain = words.first().map(|(chain, _)| chain.as_str()).unwrap_or_default();
    let is_jump =
        |(word, quoted): &(String, bool)| !quoted && matches!(word.as_str(), "-j" | "--jump" | "-g" | "--goto");
    let target = words.iter().zip(words.iter().skip(1)).find(|(word, _)| is_jump(word)).map(|(_, (target, _))| target);
    !is_ours(chain) && target.is_some_and(|target| is_ours(target))
}

/// What `iptables-restore --noflush` is given: a table changes as a whole, or not at all. `None` where there is nothing.
pub fn removal(tables: &[Table]) -> Option<String> {
    let mut script = String::new();
    for Table { name, chains, leads, .. } in tables.iter().filter(|table| table.whole && !is_empty(table)) {
        let lines = std::iter::once(format!("*{name}"))
            .chain(leads.iter().map(|rule| format!("-D {rule}")))
            .chain(chains.iter().map(|chain| format!("-F {chain}")))
            .chain(chains.iter().map(|chain| format!("-X {chain}")))
            .chain(std::iter::once("COMMIT".to_owned()));
        for line in lines {
            script.push_str(&line);
            script.push('\n');
        }
    }
    Some(script).filter(|script| !script.is_empty())
}

fn is_empty(table: &Table) -> bool {
    table.chains.is_empty() && table.leads.is_empty()
}

/// For `sed -n -E`: of what `iptables-save` prints, all that [`find`] looks at, which is a few lines of thousands.
pub const LINES: &str = "/^-A (KUBE-|CNI-|FLANNEL-)/d; /^[*]|^COMMIT/p; /^(:|-A .*)(KUBE-|CNI-|FLANNEL-)/p";

/// Each program whose rules have chains that go, and these, as `TABLE CHAIN`. Rules that were not read whole, or not in time, are
/// not known: chains might be among them.
pub fn on(facts: &Facts) -> Known<Vec<(&'static str, Vec<String>)>> {
    let mut found = Vec::new();
    for Family { variants, plain } in &FAMILIES {
        let missing = |query: &Query| matches!(facts.query(query), Err(missing) if missing.why == Why::NoTool);
        let tools =
            if variants.iter().all(|(_, query)| missing(query)) { std::slice::from_ref(plain) } else { variants };
        for (tool, query) in tools {
            let chains = match facts.whole(query) {
                Ok(save) => named(&find(&save.text)),
                Err(missing) if matches!(missing.why, Why::NoTool | Why::NotCollected) => Vec::new(),
                Err(missing) => return Err(missing),
            };
            if !chains.is_empty() {
                found.push((*tool, chains));
            }
        }
    }
    Ok(found)
}

/// The chains of all tables, as `TABLE CHAIN`.
pub fn named(tables: &[Table]) -> Vec<String> {
    tables.iter().flat_map(|table| table.chains.iter().map(|chain| format!("{} {chain}", table.name))).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::testing::facts;
    use proptest::prelude::*;

    pub const SAVE: &str = r#"# Generated by iptables-save v1.8.9 (nf_tables)
*nat
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:DOCKER - [0:0]
:FLANNEL-POSTRTG - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-NPX46M4PTMTKRN6Y - [0:0]
:MINE-KUBE-LIKE - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -m comment --comment "not to -j KUBE-SERVICES" -j DOCKER
-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
-A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 443 -j KUBE-SVC-NPX46M4PTMTKRN6Y
-A MINE-KUBE-LIKE -j RETURN
COMMIT
*filter
:INPUT DROP [0:0]
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
COMMIT
"#;

    #[test]
    fn only_their_chains_go_and_what_leads_there() {
        assert_eq!(
            removal(&find(SAVE)).unwrap(),
            r#"*nat
-D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-D POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG
-F FLANNEL-POSTRTG
-F KUBE-SERVICES
-F KUBE-SVC-NPX46M4PTMTKRN6Y
-X FLANNEL-POSTRTG
-X KUBE-SERVICES
-X KUBE-SVC-NPX46M4PTMTKRN6Y
COMMIT
"#
        );
        assert_eq!(removal(&find("*filter\n:INPUT DROP [0:0]\n-A INPUT -j ACCEPT\nCOMMIT\n")), None);
    }

    #[test]
    fn a_table_that_was_cut_off_is_left_alone() {
        let cut = &SAVE[..SAVE.find("COMMIT").unwrap()];
        assert_eq!(removal(&find(cut)), None);
        assert_eq!(named(&find(cut)).len(), 3);
    }

    #[test]
    fn the_plain_program_counts_where_it_is_the_only_one() {
        let missing = |facts: Facts, query: &'static Query| facts.without(Source::Query(query), Why::NoTool);
        let both = facts().with_query(&NFT, SAVE).with_query(&LEGACY, "").with_query(&IPTABLES, SAVE);
        assert_eq!(on(&both).unwrap().iter().map(|(tool, _)| *tool).collect::<Vec<_>>(), ["iptables-nft"]);
        let plain = missing(missing(facts().with_query(&IPTABLES, SAVE), &NFT), &LEGACY);
        assert_eq!(on(&plain).unwrap().iter().map(|(tool, _)| *tool).collect::<Vec<_>>(), ["iptables"]);
        assert_eq!(on(&plain).unwrap()[0].1[0], "nat FLANNEL-POSTRTG");
        assert!(on(&facts()).unwrap().is_empty());
        assert!(is_tool("ip6tables-legacy") && !is_tool("iptables-nft-save") && !is_tool("rm"));
    }

    proptest! {
        #[test]
        fn no_other_chain_and_no_other_rule_is_named(
            rules in prop::collection::vec(r#"-A (INPUT|MINE|KUBE-A|CNI-1) (-m comment --comment "[-a-zA-Z ]{0,12}" )?(-j|-g) (ACCEPT|MINE|KUBE-A|FLANNEL-F)"#, 0..9),
            noise in ".{0,60}",
        ) {
            let save = format!("*nat\n:INPUT ACCEPT [0:0]\n:MINE - [0:0]\n:KUBE-A - [0:0]\n{}\n{noise}\nCOMMIT\n", rules.join("\n"));
            for line in removal(&find(&save)).unwrap_or_default().lines() {
                let (order, rest) = line.split_once(' ').unwrap_or((line, ""));
                match order {
                    "*nat" | "COMMIT" => {}
                    "-F" | "-X" => prop_assert!(is_ours(rest), "{line}"),
                    "-D" => prop_assert!(!is_ours(rest) && save.contains(&format!("-A {rest}")), "{line}"),
                    _ => prop_assert!(line.starts_with('*'), "{line}"),
                }
            }
            let _ = removal(&find(&noise));
        }
    }
}
