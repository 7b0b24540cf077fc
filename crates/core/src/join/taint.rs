//! A taint: what a join gives its Node, and what a Node has.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::request::{is_qualified, is_word};

/// What kubectl prints as `key=value:effect`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taint {
    pub key: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    pub effect: String,
}

impl Taint {
    /// A pod that does not tolerate it does not run here.
    pub fn keeps_off(&self) -> bool {
        matches!(self.effect.as_str(), "NoSchedule" | "NoExecute")
    }

    /// Who sets it, and takes it away, is Kubernetes itself.
    pub fn is_kubernetes_own(&self) -> bool {
        let prefixes = ["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "node-role.kubernetes.io/"];
        prefixes.iter().any(|prefix| self.key.starts_with(prefix))
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.value.is_empty() { "" } else { "=" };
        write!(f, "{}{sign}{}:{}", self.key, self.value, self.effect)
    }
}

impl FromStr for Taint {
    type Err = String;

    /// `key=value:Effect` or `key:Effect`, as kubectl takes it.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?} is not KEY[=VALUE]:NoSchedule|PreferNoSchedule|NoExecute");
        let (rest, effect) = text.rsplit_once(':').ok_or_else(expected)?;
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect);
        if !known || !is_qualified(key) || !(value.is_empty() || is_word(value)) {
            return Err(expected());
        }
        Ok(Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_read_as_kubectl_prints_it() {
        for text in ["node.example/gate=cni:NoSchedule", "gpu:NoExecute"] {
            assert_eq!(text.parse::<Taint>().unwrap().to_string(), text);
        }
        let Taint { key, value, effect } = "node.example/gate=cni:NoSchedule".parse().unwrap();
        assert_eq!((&*key, &*value, &*effect), ("node.example/gate", "cni", "NoSchedule"));
        for text in ["gpu", "gpu:Never", "-gpu:NoExecute", "gpu=a b:NoExecute"] {
            assert!(text.parse::<Taint>().is_err(), "{text}");
        }
    }
}
