//! Kernel settings, now and at boot.
//!
//! What others say at boot is not touched: a file of ours that is read after theirs says otherwise. Only a line of
//! /etc/sysctl.conf is commented out, because `sysctl --system` reads that after all files.
//!
//! Shared: `forwarding`, `forwarding_at_boot` and `inotify`.

use std::fmt::Write as _;

use super::{MARK, own_file};
use crate::fact::sysctl::{CONF, SysctlSetting};
use crate::fact::{Facts, Known};
use crate::plan::{Edit, Effect};

const DIR: &str = "/etc/sysctl.d";

/// A setting and what it should be.
pub struct RequiredSysctl {
    /// Below `/proc/sys`.
    pub path: &'static str,
    pub value: &'static str,
    pub fits: fn(&str) -> bool,
    /// It fits where nobody sets it.
    pub by_default: bool,
}

impl RequiredSysctl {
    fn key(&self) -> String {
        self.path.replace('/', ".")
    }

    fn is_wrong(&self, setting: &SysctlSetting) -> bool {
        !(self.fits)(&setting.value)
    }
}

/// The settings that are known to be wrong now, set. One that the kernel does not have comes with its module.
pub fn now(facts: &Facts, wanted: &[RequiredSysctl]) -> Vec<Effect> {
    let is_wrong =
        |setting: &&RequiredSysctl| matches!(facts.sysctl(setting.path), Ok(Some(value)) if !(setting.fits)(&value));
    let wrong = wanted.iter().filter(is_wrong);
    wrong.map(|setting| Effect::Sysctl { key: setting.key(), value: setting.value.to_owned() }).collect()
}

/// The settings that would be wrong after a boot, in a file of ours. What a file that is read after ours sets otherwise
/// cannot be fixed so, and is not tried.
pub fn at_boot(facts: &Facts, name: &str, wanted: &[RequiredSysctl]) -> Known<Vec<Effect>> {
    let ours = format!("{DIR}/{name}");
    let mut lines = String::new();
    let mut against = Vec::new();
    for setting in wanted {
        let others: Vec<SysctlSetting> =
            facts.sysctls_at_boot(setting.path)?.into_iter().filter(|other| other.source != ours).collect();
        let is_wrong = others.last().map_or(!setting.by_default, |last| setting.is_wrong(last));
        let has_last_word = others.last().is_some_and(|last| file_name(&last.source) > name);
        if is_wrong && !has_last_word {
            let _ = writeln!(lines, "{} = {}", setting.key(), setting.value);
            against.extend(facts.sysctls_in_conf(setting.path)?.into_iter().filter(|other| setting.is_wrong(other)));
        }
    }
    let text = format!("{MARK}{lines}");
    if lines.is_empty() || facts.file(&ours).is_ok_and(|there| there.text == text) {
        return Ok(Vec::new());
    }
    let mut effects = own_file(facts, DIR, name, text);
    effects.extend(commented_out(facts, &against)?);
    Ok(effects)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The lines as they stand in the file, not as they were understood.
fn commented_out(facts: &Facts, settings: &[SysctlSetting]) -> Known<Option<Effect>> {
    if settings.is_empty() {
        return Ok(None);
    }
    let is_one = |number: u32| settings.iter().any(|setting| setting.line == number);
    let lines = facts.file(CONF)?.lines().filter(|(number, _)| is_one(*number)).map(|(_, line)| line.to_owned());
    Ok(Some(Effect::Edit { path: CONF.to_owned(), edit: Edit::CommentOut { lines: lines.collect() } }))
}
