//! Which suspect is the root: what nothing else that was found brings about.
//!
//! Signatures and checks say what they explain; chains are followed, also through what was not seen. What begins only
//! after another is over cannot be its reason.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::suspect::Suspect;
use crate::catalogue::{self, About, Role};
use crate::check::{Evidence, Needed, Subsystem};
use crate::names::Names;
use crate::report::{Cause, Confidence, Noted};
use crate::signature::{Library, Severity, Signature};

/// Causes with the root first, and what follows from them.
#[derive(Debug, Default)]
pub(super) struct Ordered {
    pub causes: Vec<Cause>,
    pub symptoms: Vec<Noted>,
    /// Where to look when the first cause is only what happened, not why.
    pub next: Vec<String>,
}

impl Ordered {
    /// Puts into every command what is known of the machine.
    pub(super) fn put_in(&mut self, names: &Names) {
        for Cause { remedy, prevent, .. } in &mut self.causes {
            names.fill_all(remedy);
            names.fill_all(prevent);
        }
        names.fill_all(&mut self.next);
    }
}

/// What brings about what, by the ids of causes.
struct Graph<'a> {
    library: &'a Library,
    edges: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Graph<'a> {
    fn new(library: &'a Library, suspects: &'a [Suspect]) -> Self {
        let cause_of = |id: &'a str| library.find(id).map_or(id, Signature::cause_id);
        let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for signature in library.iter() {
            let effects = signature.explains.iter().map(|id| cause_of(id));
            edges.entry(signature.cause_id()).or_default().extend(effects);
        }
        for suspect in suspects {
            edges.entry(&suspect.id).or_default().extend(suspect.explains.iter().map(|id| cause_of(id)));
        }
        Graph { library, edges }
    }

    /// What a suspect may be the reason of. Of a mere warning: what its check itself says, and no chain from there.
    fn reach(&self, suspect: &'a Suspect) -> BTreeSet<&'a str> {
        if suspect.severity >= Severity::Error {
            return self.consequences(&suspect.id);
        }
        suspect.explains.iter().map(|id| self.library.find(id).map_or(id.as_str(), Signature::cause_id)).collect()
    }

    /// Everything that follows from `id`, at any remove.
    fn consequences(&self, id: &'a str) -> BTreeSet<&'a str> {
        let mut all = BTreeSet::new();
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            for effect in self.edges.get(id).into_iter().flatten() {
                if all.insert(*effect) {
                    open.push(effect);
                }
            }
        }
        all
    }
}

/// Puts the suspects in order. Where none of them is trouble, a warning that stands on a failing line is the answer.
pub(super) fn order(library: &Library, suspects: &[Suspect]) -> Ordered {
    let ordered = ordered(library, suspects);
    if !ordered.causes.is_empty() || !suspects.iter().any(|suspect| suspect.failing) {
        return ordered;
    }
    let raised = |suspect: &Suspect| {
        let answers = suspect.failing && !is_symptom(suspect);
        let severity = if answers { Severity::Error } else { suspect.severity };
        let certainty = if answers { Confidence::Possible } else { suspect.certainty };
        Suspect { severity, certainty, ..suspect.clone() }
    };
    self::ordered(library, &suspects.iter().map(raised).collect::<Vec<_>>())
}

fn ordered(library: &Library, suspects: &[Suspect]) -> Ordered {
    let graph = Graph::new(library, suspects);
    let reach: Vec<BTreeSet<&str>> = suspects.iter().map(|suspect| graph.reach(suspect)).collect();
    let explains = |a: usize, b: usize| {
        a != b
            && (reach[a].contains(suspects[b].id.as_str()) || says_why(&suspects[a], &suspects[b]))
            && may_explain(&suspects[a], &suspects[b])
            && !is_guess(library, &suspects[a], &suspects[b])
            && !begins_after(&suspects[a], &suspects[b])
            // Of two that explain each other, the graver and surer is the reason.
            && !(reach[b].contains(suspects[a].id.as_str()) && weight(&suspects[b]) >= weight(&suspects[a]))
    };
    let everything = || 0..suspects.len();
    let reasons: Vec<Vec<usize>> = everything().map(|b| everything().filter(|&a| explains(a, b)).collect()).collect();
    let effects: Vec<Vec<usize>> =
        everything().map(|a| everything().filter(|&b| reasons[b].contains(&a)).collect()).collect();
    let is_root = |&n: &usize| {
        let suspect = &suspects[n];
        reasons[n].is_empty()
            && (is_trouble(suspect) || (suspect.checked && effects[n].iter().any(|&b| is_trouble(&suspects[b]))))
    };
    let mut roots: Vec<usize> = everything().filter(is_root).collect();
    roots.sort_by_key(|&n| {
        let suspect = &suspects[n];
        let effects = effects[n].len();
        (
            is_leftover(suspect),
            standing(suspect),
            Reverse(suspect.severity.max(Severity::Error)),
            Reverse(suspect.certainty.min(proof(suspect, effects))),
            Reverse(effects),
            stage(suspect.subsystem),
            suspect.first,
        )
    });
    let causes = roots.iter().map(|&n| cause(&suspects[n], effects[n].iter().map(|&b| &suspects[b]))).collect();
    let symptoms = everything()
        .filter(|&n| !reasons[n].is_empty() && is_trouble(&suspects[n]))
        .map(|n| symptom(&suspects[n], reasons[n].iter().filter(|&&a| reasons[a].is_empty()).map(|&a| &suspects[a])))
        .collect();
    let next = roots.first().map(|&n| suspects[n].next.clone()).unwrap_or_default();
    Ordered { causes, symptoms, next }
}

/// When a join meets it: of two that fit equally well the one that blocks earlier is to be set right first.
fn stage(subsystem: Subsystem) -> u8 {
    match subsystem {
        // kubeadm's own checks
        Subsystem::Machine | Subsystem::Kernel | Subsystem::Filesystem | Subsystem::Permissions => 0,
        Subsystem::Runtime => 1,
        // discovery
        Subsystem::Time | Subsystem::Network => 2,
        Subsystem::ControlPlane => 3,
        // certificate and Node
        Subsystem::Kubelet => 4,
        // pods
        Subsystem::Cni => 5,
    }
}

/// Every join that fails leaves files. Where kubeadm did not say that it stumbled over them, they come after what made it
/// fail.
fn is_leftover(suspect: &Suspect) -> bool {
    let is_left = |about: About<'_>| about.needed == Needed::Leftover;
    catalogue::about(&suspect.id).is_some_and(is_left)
        && suspect.checked
        && suspect.first.is_none()
        && suspect.count == 1
}

/// It says only that something is wrong: who says why has the first word.
fn is_symptom(suspect: &Suspect) -> bool {
    catalogue::about(&suspect.id).is_some_and(|about| about.role == Role::Symptom)
}

/// Who says why comes first. Only what surely happened stands beside a mere guess at the reason.
fn standing(suspect: &Suspect) -> u8 {
    match (is_symptom(suspect), suspect.certainty) {
        (false, Confidence::Certain | Confidence::Likely) => 0,
        (false, Confidence::Possible) | (true, Confidence::Certain) => 1,
        (true, Confidence::Likely | Confidence::Possible) => 2,
    }
}

fn is_trouble(suspect: &Suspect) -> bool {
    suspect.severity >= Severity::Error
}

/// A line that is only a warning explains no failure; a fact about the machine may.
fn may_explain(a: &Suspect, b: &Suspect) -> bool {
    a.checked || a.severity >= Severity::Error.min(b.severity)
}

/// On every line on which one says only that something is wrong, the other says why.
fn says_why(a: &Suspect, b: &Suspect) -> bool {
    let on_one_line = |a: &Evidence, b: &Evidence| a.line.is_some() && (&a.source, a.line) == (&b.source, b.line);
    is_symptom(b)
        && !is_symptom(a)
        && !b.evidence.is_empty()
        && b.evidence.iter().all(|seen| a.evidence.iter().any(|other| on_one_line(other, seen)))
}

/// Words that nobody knows are no reason of what is certain.
fn is_guess(library: &Library, a: &Suspect, b: &Suspect) -> bool {
    b.certainty == Confidence::Certain && library.find(&a.id).is_some_and(|signature| signature.last_words)
}

fn weight(suspect: &Suspect) -> (bool, Severity, Confidence) {
    (suspect.checked, suspect.severity, suspect.certainty)
}

fn begins_after(a: &Suspect, b: &Suspect) -> bool {
    matches!((a.first, b.last), (Some(a), Some(b)) if a > b)
}

/// A fact about the machine that explains nothing of what went wrong, and that no line speaks of, is not proven to be
/// the reason.
fn proof(suspect: &Suspect, effects: usize) -> Confidence {
    let alone = suspect.checked && suspect.count == 1 && effects == 0;
    if alone { Confidence::Likely } else { Confidence::Certain }
}

fn cause<'a>(suspect: &Suspect, effects: impl Iterator<Item = &'a Suspect>) -> Cause {
    let explains: Vec<String> = effects.map(|effect| effect.id.clone()).collect();
    Cause {
        id: suspect.id.clone(),
        confidence: suspect.certainty.min(proof(suspect, explains.len())),
        title: suspect.title.clone(),
        why: suspect.why.clone(),
        evidence: suspect.evidence.clone(),
        remedy: suspect.remedy.clone(),
        prevent: suspect.prevent.clone(),
        explains,
    }
}

fn symptom<'a>(suspect: &Suspect, because: impl Iterator<Item = &'a Suspect>) -> Noted {
    Noted {
        id: suspect.id.clone(),
        subsystem: suspect.subsystem,
        title: suspect.title.clone(),
        why: suspect.why.clone(),
        count: suspect.count,
        evidence: suspect.evidence.iter().take(2).cloned().collect(),
        because: because.map(|reason| reason.id.clone()).collect(),
    }
}
