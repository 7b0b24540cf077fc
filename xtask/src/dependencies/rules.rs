//! deny.toml, as far as it is used here; a key or a value beyond that is an error.

use std::fmt;

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    pub graph: Scope,
    pub licenses: Licences,
    pub bans: Bans,
    #[allow(dead_code, reason = "both can only be denied, and are")]
    sources: Sources,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    pub targets: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Licences {
    pub allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Bans {
    #[allow(dead_code, reason = "it can only be denied, and is")]
    multiple_versions: Deny,
    #[allow(dead_code, reason = "they can only be denied, and are")]
    wildcards: Deny,
    pub allow_wildcard_paths: bool,
    pub skip: Vec<Rule>,
    pub deny: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Sources {
    #[allow(dead_code, reason = "read to be refused where it is something else")]
    unknown_registry: Deny,
    #[allow(dead_code, reason = "read to be refused where it is something else")]
    unknown_git: Deny,
}

/// The one severity there is.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Deny {
    Deny,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    #[serde(rename = "crate")]
    pub named: Named,
    pub reason: String,
}

/// A crate in any version, or in those that begin so: `syn`, `syn@2`, `base64@0.23`.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Named {
    pub name: String,
    beginning: Option<String>,
}

impl TryFrom<String> for Named {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (name, beginning) = match text.split_once('@') {
            None => (text.as_str(), None),
            Some((name, beginning)) => (name, Some(beginning)),
        };
        let numbers = |text: &str| text.split('.').all(|part| part.parse::<u64>().is_ok());
        if name.is_empty() || beginning.is_some_and(|beginning| !numbers(beginning)) {
            return Err(format!("\"{text}\": a crate's name, or name@1 or name@0.2"));
        }
        Ok(Self { name: name.to_owned(), beginning: beginning.map(str::to_owned) })
    }
}

impl Named {
    pub fn is(&self, name: &str, version: &str) -> bool {
        let fits = |beginning: &String| {
            version.strip_prefix(beginning.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.name == name && self.beginning.as_ref().is_none_or(fits)
    }
}

impl fmt::Display for Named {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.beginning {
            None => out.write_str(&self.name),
            Some(beginning) => write!(out, "{}@{beginning}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_named_with_or_without_the_beginning_of_its_version() {
        for (rule, name, version, is) in [
            ("syn", "syn", "2.0.1", true),
            ("syn@2", "syn", "2.0.1", true),
            ("syn@2", "syn", "20.0.1", false),
            ("base64@0.2", "base64", "0.23.0", false),
            ("base64@0.23", "base64", "0.23.0", true),
            ("syn", "synthetic", "2.0.1", false),
        ] {
            assert_eq!(Named::try_from(rule.to_owned()).unwrap().is(name, version), is, "{rule} {name} {version}");
        }
    }
}
