//! `carrick explain ID`: what an id means, why it matters, how to see it, how to fix it.

use std::collections::BTreeSet;

use carrick_core::catalogue::nearest;
use carrick_core::check::{self, CHECKS, Check, FixedBy, RegisteredCheck};
use carrick_core::fix;
use carrick_core::join::verify::{self, PROOFS, Proof};
use carrick_core::signature::{self, Phase, Severity, Signature};

use crate::exit::{Exit, Failure};
use crate::render::wrap::{reflow, wrap};
use crate::terminal::{self, BOLD, DIM, styled};

/// Explain an id that Carrick prints: what it means, why it matters for a join, how to fix it
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An id such as kubelet.standalone, or one of kubeadm's names such as Port-10250; none lists them all
    id: Option<String>,
}

pub fn run(args: &Args) -> Result<Exit, Failure> {
    let signatures = signature::built_in().map_err(|complaint| Failure::internal(complaint.to_string()))?;
    let text = match &args.id {
        None => list(&signatures),
        Some(id) => explain(id, &signatures, terminal::width())?,
    };
    terminal::print(&text).map_err(|error| Failure::internal(format!("stdout: {error}")))?;
    Ok(Exit::Ok)
}

/// Checks first, as they are judged; then what proves a join; then what is read in text.
fn list(signatures: &[Signature]) -> String {
    let checks = CHECKS.iter().map(|RegisteredCheck { check, .. }| (check.id, check.title));
    let read = signatures.iter().map(|signature| (signature.id.as_str(), signature.title.as_str()));
    let proofs = PROOFS.iter().map(|proof| (proof.id, proof.title));
    let width =
        checks.clone().chain(proofs.clone()).chain(read.clone()).map(|(id, _)| id.len()).max().unwrap_or_default();
    let line = |(id, title): (&str, &str)| format!("{id:width$}  {title}\n");
    let part = |name: &str, lines: String| format!("{}\n{lines}", styled(BOLD, name));
    let checks = part("CHECKS, judged on a machine, in a bundle, in pasted text", checks.map(line).collect());
    let read = part("SIGNATURES, read in logs and pasted text", read.map(line).collect());
    let proofs = part("EVIDENCE of a join, as carrick verify wants it", proofs.map(line).collect());
    format!("{checks}\n{proofs}\n{read}")
}

fn explain(id: &str, signatures: &[Signature], width: usize) -> Result<String, Failure> {
    let checks: Vec<String> = check::find(id).map(|registered| of_check(registered, signatures, width)).collect();
    if !checks.is_empty() {
        return Ok(checks.join("\n"));
    }
    if let Some(proof) = verify::find(id) {
        return Ok(of_proof(proof, width));
    }
    if let Some(signature) = signatures.iter().find(|signature| signature.id.eq_ignore_ascii_case(id)) {
        return Ok(of_signature(signature, signatures, width));
    }
    let nearest = nearest(id, ids(signatures));
    let hint = nearest.map_or("carrick explain lists them all".to_owned(), |id| format!("did you mean {id}?"));
    Err(Failure::usage(format!("{id:?} is not an id of Carrick's; {hint}")))
}

fn ids(signatures: &[Signature]) -> Vec<&str> {
    let mut ids: Vec<&str> = check::ids().collect();
    ids.extend(PROOFS.iter().map(|proof| proof.id));
    ids.extend(signatures.iter().map(|signature| signature.id.as_str()));
    ids
}

fn of_check(
    RegisteredCheck { check, explain, .. }: &RegisteredCheck,
    signatures: &[Signature],
    width: usize,
) -> String {
    let showing = signatures.iter().filter(|signature| signature.shows.as_deref() == Some(check.id));
    let parts = [
        format!("{}  {}", styled(BOLD, check.id), styled(DIM, check.subsystem.name())),
        reflow(explain, width),
        of_fix(check, width),
        in_a_join(&check.does(), width),
        wrap(check.stops.forbids(), width).join("\n"),
        named("kubeadm calls it", check.kubeadm.iter().copied(), width),
        named("Read in logs as", showing.map(|signature| signature.id.as_str()), width),
    ];
    paragraphs(&parts)
}

fn of_proof(proof: &Proof, width: usize) -> String {
    let ground = format!("{} · needed for --until {}", proof.subsystem.name(), proof.until.name());
    paragraphs(&[format!("{}  {}", styled(BOLD, proof.id), styled(DIM, &ground)), reflow(proof.explain(), width)])
}

/// What `check --fix` would do about it and how to take that back, or why it does nothing.
fn of_fix(check: &Check, width: usize) -> String {
    match check.fixed_by {
        FixedBy::Operator(why) => wrap(&format!("With --fix: nothing; {why}."), width).join("\n"),
        FixedBy::Carrick(_) => {
            let fixes = fix::of(check.id).map(|it| reflow(&format!("With --fix: {}", it.explain), width));
            fixes.collect::<Vec<_>>().join("\n")
        }
    }
}

/// What a join does about it; of a sign that is never a cause, nothing.
fn does(signature: &Signature) -> Option<String> {
    match &signature.shows {
        Some(check) => check::find(check).next().map(|registered| registered.check.does()),
        None => signature.class.map(|class| class.does().to_owned()),
    }
}

fn in_a_join(does: &str, width: usize) -> String {
    wrap(&format!("In a join, carrick {does}."), width).join("\n")
}

fn of_signature(signature: &Signature, signatures: &[Signature], width: usize) -> String {
    let ground = format!("{} · {}", signature.subsystem.name(), signature.severity.name());
    let title = format!("Read in logs: {}.", signature.title);
    let related = [
        named("The check that judges it", signature.shows.as_deref(), width),
        named("Follows from", reasons(signature, signatures), width),
        named("Brings about", signature.explains.iter().map(String::as_str), width),
        named("Over when later seen", signature.cleared_by.iter().map(String::as_str), width),
    ];
    let related: Vec<&str> = related.iter().map(String::as_str).filter(|line| !line.is_empty()).collect();
    let parts = [
        format!("{}  {}", styled(BOLD, &signature.id), styled(DIM, &ground)),
        wrap(&title, width).join("\n"),
        wrap(&Signature::open(&signature.cause), width).join("\n"),
        wrap(&when_it_counts(signature), width).join("\n"),
        does(signature).map(|does| in_a_join(&does, width)).unwrap_or_default(),
        signature.about().map(|about| wrap(about.stops.forbids(), width).join("\n")).unwrap_or_default(),
        related.join("\n"),
        indented("Fix:", signature.remedy.iter().map(|command| Signature::open_command(command))),
        indented("So that it does not come again:", signature.prevent.iter().map(|text| Signature::open_command(text))),
        indented("Where to look next:", signature.next.iter().cloned()),
        indented("It reads like:", example(signature, width)),
        indented("Read on:", signature.references.iter().cloned()),
    ];
    paragraphs(&parts)
}

/// What is told under which id, where a signature says that it brings this one about.
fn reasons<'a>(of: &Signature, signatures: &'a [Signature]) -> BTreeSet<&'a str> {
    let brings_about = |one: &&Signature| one.explains.iter().any(|id| *id == of.id || id == of.cause_id());
    let ids = signatures.iter().filter(brings_about).map(Signature::cause_id);
    ids.filter(|id| *id != of.cause_id()).collect()
}

fn when_it_counts(signature: &Signature) -> String {
    let counts = match (signature.severity, signature.phase) {
        (Severity::Sign, Phase::Before) => "It only shows that the machine has not joined; never a cause.",
        (Severity::Sign, Phase::Joining) => "It only shows that a join was tried; never a cause.",
        (Severity::Sign, Phase::Joined) => "It only shows that the node has joined; never a cause.",
        (Severity::Good, Phase::Before) => "A good sign; never a cause.",
        (Severity::Good, Phase::Joining) => "A good sign: a join was tried.",
        (Severity::Good, Phase::Joined) => "A good sign: the node has joined.",
        (Severity::Benign, _) => "Noise; never a cause.",
        (_, Phase::Before) => "It counts at every stage.",
        (_, Phase::Joining) => "It counts from a join on; before, it is normal.",
        (_, Phase::Joined) => "It counts once the node has joined; before, it is normal.",
    };
    let lasts = signature.lasts.map(|seconds| format!(" It has to go on for {seconds} s.")).unwrap_or_default();
    let otherwise = match (&signature.shows, &signature.otherwise) {
        (Some(shows), Some(otherwise)) => format!(" Where {shows} passes, it is {otherwise}."),
        _ => String::new(),
    };
    format!("{counts}{lasts}{otherwise}")
}

fn example(signature: &Signature, width: usize) -> Vec<String> {
    let line = signature.hit.first().map(|hit| hit.line.trim());
    line.map(|line| wrap(line, width.saturating_sub(INDENT.len()))).unwrap_or_default()
}

const INDENT: &str = "  ";

/// Names behind a word, or nothing where there are none.
fn named<'a>(what: &str, names: impl IntoIterator<Item = &'a str>, width: usize) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() { String::new() } else { wrap(&format!("{what}: {}", names.join(", ")), width).join("\n") }
}

/// Lines under a word, whole, so that a command can be copied; or nothing where there are none.
fn indented(what: &str, lines: impl IntoIterator<Item = String>) -> String {
    let lines: String = lines.into_iter().map(|line| format!("\n{INDENT}{line}")).collect();
    if lines.is_empty() { lines } else { format!("{what}{lines}") }
}

fn paragraphs(parts: &[String]) -> String {
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    parts.join("\n\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signatures() -> Vec<Signature> {
        signature::built_in().unwrap()
    }

    #[test]
    fn every_id_is_explained_within_the_width() {
        let signatures = signatures();
        for width in [40, 80, 120] {
            for id in ids(&signatures) {
                let text = explain(id, &signatures, width).unwrap();
                // Commands, references and words without a space stay whole.
                let too_wide =
                    |line: &&str| line.chars().count() > width && !line.starts_with(' ') && line.contains(' ');
                let styled = |line: &&str| line.contains('\u{1b}');
                assert_eq!(text.lines().filter(|line| !styled(line)).find(too_wide), None, "{id} at {width}");
            }
        }
    }

    #[test]
    fn every_check_says_what_fix_would_do_and_how_to_take_that_back() {
        let signatures = signatures();
        for id in check::ids() {
            let text = explain(id, &signatures, 80).unwrap();
            let fix = text.split("\n\n").find(|part| part.starts_with("With --fix: ")).unwrap();
            assert!(fix.contains("nothing;") || fix.replace('\n', " ").contains("`carrick undo`"), "{id}: {fix}");
        }
    }

    #[test]
    fn no_cause_is_shown_with_a_name_in_braces() {
        for signature in signatures() {
            let cause = Signature::open(&signature.cause);
            assert!(!cause.contains('{'), "{}: {cause}", signature.id);
        }
    }

    #[test]
    fn a_mistyped_id_gets_the_nearest_of_checks_and_signatures() {
        let signatures = signatures();
        for (typed, meant) in [
            ("machine.swpa", "did you mean machine.swap?"),
            ("verify.sandbx", "did you mean verify.sandbox?"),
            ("time.clock-behnd", "did you mean time.clock-behind?"),
            ("quite another thing altogether", "carrick explain lists them all"),
        ] {
            let failure = explain(typed, &signatures, 80).unwrap_err().to_string();
            assert!(failure.ends_with(meant), "{typed}: {failure}");
        }
    }

    #[test]
    fn the_list_has_checks_and_then_signatures() {
        let list = list(&signatures());
        let place = |id: &str| list.lines().position(|line| line.split(' ').next() == Some(id)).unwrap();
        assert!(place("kubelet.standalone") < place("verify.sandbox"));
        assert!(place("verify.sandbox") < place("kubelet.runs-alone"));
        assert_eq!(list.lines().count(), CHECKS.len() + PROOFS.len() + signatures().len() + 5);
    }
}
