//! What Ansible prints of a task: a result on one line, or a block of JSON or YAML under a line that names the machine.

use super::around::Around;
use super::json::Value;
use super::{narrated, plain};

/// `fatal: [w1]: FAILED! => …`
pub(super) struct Result<'t> {
    pub host: &'t str,
    /// What comes before it.
    pub outcome: &'t str,
    /// What comes after the arrow.
    pub said: &'t str,
}

/// How the outcome of a task begins.
const OUTCOMES: [&str; 8] =
    ["fatal", "failed", "ok", "changed", "skipping", "unreachable", "rescued", "FAILED - RETRYING"];

pub(super) fn result(line: &str) -> Option<Result<'_>> {
    let line = line.trim();
    let named = || {
        let (outcome, rest) = line.split_once(": [")?;
        let (host, rest) = rest.split_once(']')?;
        OUTCOMES.contains(&outcome).then_some((host, rest))
    };
    // Without a playbook: `w1 | FAILED! => {`.
    let alone = || {
        let (host, rest) = line.split_once(" | ")?;
        let outcome = ["FAILED", "UNREACHABLE", "CHANGED", "SUCCESS"].iter().any(|outcome| rest.starts_with(outcome));
        (outcome && !host.contains(' ')).then_some((host, rest))
    };
    let (host, rest) = named().or_else(alone)?;
    let said = rest.split_once("=>").map_or("", |(_, said)| said.trim());
    let outcome = line.strip_suffix(said).unwrap_or(line);
    Some(Result { host: machine(host), outcome, said })
}

/// `w1 -> cp1(10.0.0.1)` was given to cp1: it ran there.
fn machine(host: &str) -> &str {
    let host = host.rsplit_once("-> ").map_or(host, |(_, delegate)| delegate);
    host.split_once('(').map_or(host, |(name, _)| name).trim()
}

/// The machine whose result a line stands in, where results are printed over several lines.
pub(super) fn owner(around: &Around) -> Option<String> {
    let line = plain::text(around.owner()?);
    let result = result(&line)?;
    let open = matches!(result.said, "{" | "") || result.said.starts_with("changed=");
    open.then(|| result.host.to_owned())
}

/// Fields of a result that hold what a program printed: given out as it was printed, without the key.
pub(super) fn is_output(key: &str) -> bool {
    matches!(key, "stdout" | "stderr" | "msg" | "module_stdout" | "module_stderr" | "exception")
        || key.ends_with("_lines")
}

/// Fields that hold what was to be run, not what it printed.
pub(super) fn is_command(key: &str) -> bool {
    matches!(key, "cmd" | "_raw_params" | "invocation" | "module_args" | "command" | "args" | "script")
}

/// What Ansible itself says of a task: its outcome, and the short fields of its result. What programs printed is not in it,
/// nor a script that was run: that may hold any text it looks for.
pub(super) struct Summary {
    text: String,
    arguments: Vec<String>,
    empty: bool,
}

impl Summary {
    pub(super) fn new(outcome: &str) -> Self {
        Summary { text: format!("{outcome}{{"), arguments: Vec::new(), empty: true }
    }

    /// Takes a field of the result itself; false where it is none of Ansible's own words.
    pub(super) fn take(&mut self, path: &[&str], value: &Value) -> bool {
        let Some(key) = value.key else { return false };
        if value.text.trim_end().contains(['\n', '\r']) {
            return false;
        }
        let text = value.text.trim_end();
        if path == ["cmd"] && value.element && !narrated::source(text) {
            self.arguments.push(format!("\"{text}\""));
            return true;
        }
        let printed = is_output(key) && key != "msg";
        let script = is_command(key) && narrated::source(text);
        if !path.is_empty() || value.element || printed || script {
            return false;
        }
        let quote = if value.quoted { "\"" } else { "" };
        self.field(key, &format!("{quote}{text}{quote}"));
        true
    }

    fn field(&mut self, key: &str, value: &str) {
        let arguments = std::mem::take(&mut self.arguments);
        if !arguments.is_empty() {
            self.field("cmd", &format!("[{}]", arguments.join(", ")));
        }
        let comma = if std::mem::take(&mut self.empty) { "" } else { ", " };
        self.text.extend([comma, "\"", key, "\": ", value]);
    }

    pub(super) fn finish(mut self) -> String {
        let arguments = std::mem::take(&mut self.arguments);
        if !arguments.is_empty() {
            self.field("cmd", &format!("[{}]", arguments.join(", ")));
        }
        self.text + "}"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_machine() {
        let table = [
            (r#"fatal: [w1]: FAILED! => {"changed": true}"#, Some(("w1", r#"{"changed": true}"#))),
            (r#"fatal: [w1]: UNREACHABLE! => {"msg": "x"}"#, Some(("w1", r#"{"msg": "x"}"#))),
            ("failed: [w1] (item=kubelet) => {}", Some(("w1", "{}"))),
            ("ok: [w1 -> cp1(10.0.0.1)] => {", Some(("cp1", "{"))),
            ("fatal: [w1]: FAILED! => changed=true ", Some(("w1", "changed=true"))),
            ("w1 | FAILED! => {", Some(("w1", "{"))),
            ("w1 | CHANGED | rc=0 >>", Some(("w1", ""))),
            ("changed: [w1]", Some(("w1", ""))),
            ("error: [preflight] x", None),
            ("fatal: no", None),
        ];
        for (line, expected) in table {
            assert_eq!(result(line).map(|result| (result.host, result.said)), expected, "{line}");
        }
    }
}
