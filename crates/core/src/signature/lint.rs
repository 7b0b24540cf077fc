//! What a signature must be like, so that it neither slows a scan down nor cries wolf.

use std::collections::BTreeSet;

use regex::Regex;

use super::{Complaint, Severity, Signature, is_capture};
use crate::catalogue::{Class, Stops};
use crate::check::CHECKS;
use crate::names::is_name;

/// Shorter ones are found all over healthy logs.
const SHORTEST_LITERAL: usize = 6;

/// What fits on one line of a terminal beside its mark.
const LONGEST_TITLE: usize = 72;

/// A character that stands as itself in JSON, in Go's quoted strings and in logfmt, however often they are nested.
fn stands_as_itself(letter: char) -> bool {
    matches!(letter, ' '..='~') && !matches!(letter, '"' | '\\' | '<' | '>' | '&' | '\'')
}

/// Everything that is wrong with these signatures, alone and together; `known` are signatures they may refer to.
pub fn complaints(signatures: &[Signature], known: &[Signature]) -> Vec<Complaint> {
    let ids: BTreeSet<&str> = signatures.iter().chain(known).map(|one| one.id.as_str()).collect();
    let mut complaints: Vec<Complaint> = Vec::new();
    for signature in signatures {
        let alone = text(signature).into_iter().chain(classes(signature)).chain(literals(signature));
        let alone = alone.chain(references(signature, &ids));
        complaints.extend(alone.chain(lines(signature)).map(|what| Complaint::of(&signature.id, what)));
    }
    complaints.extend(overlaps(signatures));
    complaints
}

fn text(signature: &Signature) -> Vec<String> {
    let mut wrong = Vec::new();
    let Signature { id, title, severity, remedy, next, cause, .. } = signature;
    let part = |part: &str| {
        !part.is_empty() && part.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-')) && !part.ends_with('-')
    };
    if !id.split_once('.').is_some_and(|(family, name)| part(family) && part(name)) {
        wrong.push("the id is not family.name in lower case".to_owned());
    }
    if title.chars().count() > LONGEST_TITLE || title.ends_with('.') || title.is_empty() {
        wrong.push(format!("the title is empty, ends with a full stop, or is longer than {LONGEST_TITLE}"));
    }
    if cause.trim().is_empty() {
        wrong.push("the cause is empty".to_owned());
    }
    for command in remedy.iter().chain(next).chain(&signature.prevent) {
        let literal = |text: &str| command.split(|c: char| !c.is_ascii_alphanumeric() && c != ':').any(|it| it == text);
        for (text, name) in [("NODE", "node"), ("HOST:6443", "server")].into_iter().filter(|(text, _)| literal(text)) {
            wrong.push(format!("has {text} in {command:?}: write {{{name}}}, and the real one is put in"));
        }
        let does = command.split("    # ").next().unwrap_or_default();
        let calls = does.split([' ', ';', '(', '|']).any(|word| word == "crictl");
        if calls && !command.contains("without crictl") && !id.contains("crictl") {
            wrong.push(format!(
                "{command:?} needs crictl, which many machines have not: say what does \"without crictl\""
            ));
        }
    }
    if *severity >= Severity::Warning && remedy.is_empty() && next.is_empty() {
        wrong.push("there is neither a remedy nor a next command".to_owned());
    }
    wrong
}

/// Who names a cause of its own says what a join does about it, and what it stops. Where a check judges the same, the
/// check says it; what is never a cause has nothing to say.
fn classes(signature: &Signature) -> Vec<String> {
    let named = [
        ("class", signature.class.is_some()),
        ("role", signature.role.is_some()),
        ("stops", signature.stops.is_some()),
    ];
    let complain = |(key, there): (&str, bool)| match (&signature.shows, signature.severity >= Severity::Warning) {
        (Some(check), _) if there => Some(format!("says a {key}, and shows {check}: the check's counts")),
        (None, false) if there => Some(format!("says a {key}, and is never a cause")),
        (None, true) if !there && key == "class" => {
            let classes = Class::ALL.map(Class::name).join(", ");
            Some(format!("there is no class: what does a join do about it? One of {classes}"))
        }
        (None, true) if !there && key == "stops" => {
            let stops = Stops::ALL.map(Stops::name).join(", ");
            Some(format!("there is no stops: what does it stop on a node while it lasts? One of {stops}"))
        }
        (None, true) if !there => {
            Some("there is no role: root (it says why) or symptom (it says only that)".to_owned())
        }
        _ => None,
    };
    named.into_iter().filter_map(complain).collect()
}

fn literals(signature: &Signature) -> Vec<String> {
    let mut wrong = Vec::new();
    match (signature.literals.is_empty(), signature.last_words) {
        (true, false) => wrong.push("there is no literal".to_owned()),
        (false, true) => wrong.push("has a literal, and last words need none".to_owned()),
        _ => {}
    }
    for literal in &signature.literals {
        if literal.len() < SHORTEST_LITERAL {
            wrong.push(format!("the literal {literal:?} is shorter than {SHORTEST_LITERAL}"));
        }
        if !literal.chars().all(stands_as_itself) {
            wrong.push(format!("the literal {literal:?} has a character that is escaped in JSON, or is no ASCII"));
        }
    }
    wrong
}

fn references(signature: &Signature, ids: &BTreeSet<&str>) -> Vec<String> {
    let mut wrong = Vec::new();
    let is_check = |id: &str| CHECKS.iter().any(|registered| registered.check.id == id);
    if is_check(&signature.id) {
        wrong.push("the id is a check's: say `shows` instead".to_owned());
    }
    if let Some(shows) = signature.shows.as_deref().filter(|shows| !is_check(shows)) {
        wrong.push(format!("shows {shows}, which is no check"));
    }
    if let Some(otherwise) = signature.otherwise.as_deref().filter(|id| !is_check(id) && !ids.contains(id)) {
        wrong.push(format!("is otherwise {otherwise}, which is neither a signature nor a check"));
    }
    if signature.otherwise.is_some() && signature.shows.is_none() {
        wrong.push("says `otherwise` without `shows`: no check decides".to_owned());
    }
    for id in &signature.explains {
        if !is_check(id) && !ids.contains(id.as_str()) {
            wrong.push(format!("explains {id}, which is neither a signature nor a check"));
        }
        if id == signature.cause_id() || id == &signature.id {
            wrong.push(format!("explains {id}, itself"));
        }
    }
    for id in signature.over.iter().chain(&signature.cleared_by).filter(|id| !ids.contains(id.as_str())) {
        wrong.push(format!("names {id}, which is no signature"));
    }
    wrong
}

fn lines(signature: &Signature) -> Vec<String> {
    let regex = match Regex::new(&signature.regex) {
        Ok(regex) => regex,
        Err(error) => return vec![format!("the regex does not compile: {error}")],
    };
    let mut wrong = Vec::new();
    let has_literal =
        |line: &str| signature.last_words || signature.literals.iter().any(|literal| line.contains(literal.as_str()));
    if signature.hit.is_empty() {
        wrong.push("there is no [[hit]] line".to_owned());
    }
    if signature.miss.is_empty() {
        wrong.push("there is no [[miss]] line".to_owned());
    }
    for hit in &signature.hit {
        match regex.captures(&hit.line) {
            Some(captures) if has_literal(&hit.line) => {
                let remedies = signature.remedy.iter().chain(&signature.prevent).chain(&signature.next);
                let in_remedies = remedies.flat_map(|text| placeholders(text)).filter(|name| !is_name(name));
                let mut open = in_remedies.chain(placeholders(&signature.cause));
                let open = open.find(|name| captures.name(name).is_none());
                wrong.extend(open.map(|name| format!("{{{name}}} is no capture of the hit {:?}", hit.line)));
            }
            Some(_) => wrong.push(format!("no literal is in the hit {:?}", hit.line)),
            None => wrong.push(format!("does not match its hit {:?}", hit.line)),
        }
    }
    for miss in &signature.miss {
        if regex.is_match(&miss.line) {
            wrong.push(format!("matches its miss {:?}", miss.line));
        }
        if !has_literal(&miss.line) {
            wrong.push(format!("no literal is in the miss {:?}: it proves nothing", miss.line));
        }
    }
    wrong
}

/// The names of captures in a text.
fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    text.split('{')
        .skip(1)
        .filter_map(|part| part.split_once('}').map(|(name, _)| name))
        .filter(|name| is_capture(name))
}

/// Two signatures that both speak on a line, neither being over the other. What only shows how far a machine is says nothing
/// that another could contradict, and last words are heard only where nobody else speaks.
fn overlaps(signatures: &[Signature]) -> Vec<Complaint> {
    let signatures: Vec<&Signature> =
        signatures.iter().filter(|it| it.severity > Severity::Sign && !it.last_words).collect();
    let regexes: Vec<Option<Regex>> = signatures.iter().map(|signature| Regex::new(&signature.regex).ok()).collect();
    let mut complaints = Vec::new();
    for signature in &signatures {
        for line in signature.hit.iter().map(|hit| hit.line.as_str()) {
            for (other, regex) in signatures.iter().zip(&regexes) {
                let stated = other.over.contains(&signature.id) || signature.over.contains(&other.id);
                let hits = other.literals.iter().any(|literal| line.contains(literal.as_str()))
                    && regex.as_ref().is_some_and(|regex| regex.is_match(line));
                if other.id != signature.id && hits && !stated {
                    let what = format!("{} hits its line {line:?} too, and neither is over the other", other.id);
                    complaints.push(Complaint::of(&signature.id, what));
                }
            }
        }
    }
    complaints
}

/// What is wrong with an operator's own signatures, beside those built in.
pub fn own(signatures: &[Signature], built_in: &[Signature]) -> Vec<Complaint> {
    let mut complaints = complaints(signatures, built_in);
    for signature in signatures.iter().filter(|own| built_in.iter().any(|known| known.id == own.id)) {
        complaints.push(Complaint::of(&signature.id, "the id is one of Carrick's own"));
    }
    complaints
}
