//! A plan as it is shown: for people each change in a sentence, why, and what a file's lines become; for programs as JSON.
//! What would be refused is told where it stands, so that a plan never promises what applying it would not do.
#![deny(clippy::match_wildcard_for_single_variants, clippy::wildcard_enum_match_arm)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use carrick_core::plan::printed::{PlanReport, PlannedStep};
use carrick_core::plan::protect::{PlanRefusal, Protected};
use carrick_core::plan::{Items, Plan};
use carrick_core::shown;
use carrick_engine::act::{Grounded, shown_change};

use crate::exit::Failure;
use crate::render::wrap;
use crate::terminal::{self, BOLD, DIM, FAIL, OK, styled};

/// Where the sentences of a plan begin: behind their numbers.
pub const INDENT: usize = 6;

/// What would keep a plan from being carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// The line it would end with.
    why: Option<String>,
    /// The steps that are the reason, by their place in the plan.
    steps: BTreeMap<usize, String>,
}

impl Refused {
    pub fn by(protected: &Protected, steps: &[Grounded]) -> Self {
        let plan = Plan { steps: steps.iter().map(|grounded| grounded.step.clone()).collect() };
        let why = protected.refusal(&plan).map(|refusal| format!("refused, nothing was changed: {refusal}"));
        let refused = |(at, grounded): (usize, &Grounded)| match protected.refuse(&grounded.step.effect)? {
            PlanRefusal::Path { path, why, .. } => Some((at, format!("{path} is protected ({why})"))),
            whole @ PlanRefusal::ControlPlane(_) => Some((at, whole.to_string())),
        };
        Refused { why, steps: steps.iter().enumerate().filter_map(refused).collect() }
    }

    /// As a whole, whatever its steps are.
    pub fn because(why: String) -> Self {
        Refused { why: Some(why), steps: BTreeMap::new() }
    }

    /// The end that applying the plan would have.
    pub fn ends(&self) -> Result<(), Failure> {
        self.why.clone().map_or(Ok(()), |why| Err(Failure::failed(why)))
    }
}

/// A plan that is not refused, for people.
pub fn told(host: &str, steps: &[Grounded]) -> String {
    told_with(host, steps, &Refused::default())
}

/// The same, with what of it would be refused.
pub fn told_with(host: &str, steps: &[Grounded], refused: &Refused) -> String {
    at_width(host, steps, refused, terminal::width())
}

fn at_width(host: &str, steps: &[Grounded], refused: &Refused, width: usize) -> String {
    let count = if steps.len() == 1 { "1 change".to_owned() } else { format!("{} changes", steps.len()) };
    let mut out = format!("{} · {count}\n\n", styled(BOLD, host));
    for (at, grounded) in steps.iter().enumerate() {
        let why = grounded.step.why.join(", ");
        let _ = writeln!(out, "  {:>2}  {}", at + 1, with_note(&grounded.step.effect.to_string(), &why, width));
        if let Some(why) = refused.steps.get(&at) {
            for line in wrap::wrap(&shown::in_line(&format!("refused: {why}")), wrap::beside(INDENT, width)) {
                let _ = writeln!(out, "      {}", styled(FAIL, &line));
            }
        }
        for line in shown_change(grounded.old.as_ref(), grounded.new.as_ref()).into_iter().chain(items(grounded)) {
            out.push_str(&changed(&line, width));
        }
    }
    out
}

/// A line that goes or comes: `- ` or `+ ` before it. What does not fit goes on under its text.
fn changed(line: &str, width: usize) -> String {
    let style = if line.starts_with('-') { FAIL } else { OK };
    let line = shown::in_line(line);
    let (mark, text) = line.split_once(' ').unwrap_or((&line, ""));
    let within = text.chars().take_while(|c| c.is_whitespace()).count();
    let lead: String = text.chars().take(within).collect();
    let mut out = String::new();
    for (n, part) in wrap::wrap(text.trim_start(), wrap::beside(INDENT + 2 + within, width)).iter().enumerate() {
        let part = styled(style, &format!("{} {lead}{part}", if n == 0 { mark } else { " " }));
        let _ = writeln!(out, "      {part}");
    }
    out
}

/// A sentence and what is noted behind it, dimmed; all set under where the sentence begins. Names of files in it may have line
/// ends of their own.
pub fn with_note(sentence: &str, note: &str, width: usize) -> String {
    let (room, note) = (wrap::beside(INDENT, width), shown::in_line(note));
    let mut lines = wrap::wrap(&shown::in_line(sentence), room);
    match lines.last_mut() {
        Some(last) if last.chars().count() + 2 + note.chars().count() <= room => {
            let _ = write!(last, "  {}", styled(DIM, &note));
        }
        _ => lines.extend(wrap::wrap(&note, room).iter().map(|line| styled(DIM, line))),
    }
    lines.join(&format!("\n{:INDENT$}", ""))
}

/// What a sentence sums up, one by one: files and pods all of them, of thousands of chains the first.
fn items(grounded: &Grounded) -> Vec<String> {
    const FEW: usize = 5;
    let (items, shown) = match grounded.step.effect.items() {
        Items::Each(items) => (items, items.len()),
        Items::Many(items) => (items, FEW),
    };
    let more = items.len().saturating_sub(shown);
    let rest = (more > 0).then(|| format!("- and {more} more; --plan -o json names them"));
    items.iter().take(shown).map(|item| format!("- {item}")).chain(rest).collect()
}

/// A plan for programs, with what of it would be refused.
pub fn as_json(host: &str, steps: &[Grounded], refused: &Refused) -> Result<String, Failure> {
    written(&planned(host, steps, refused))
}

pub fn written(plan: &PlanReport) -> Result<String, Failure> {
    let json = serde_json::to_string_pretty(plan).map_err(|error| Failure::internal(error.to_string()))?;
    Ok(json + "\n")
}

pub fn planned(host: &str, steps: &[Grounded], refused: &Refused) -> PlanReport {
    let each = |(at, Grounded { step, was, old, new, .. }): (usize, &Grounded)| {
        let change = shown_change(old.as_ref(), new.as_ref());
        PlannedStep { refused: refused.steps.get(&at).cloned(), ..PlannedStep::new(step, was, change) }
    };
    let steps = steps.iter().enumerate().map(each).collect();
    PlanReport { refused: refused.why.clone(), ..PlanReport::new(host, steps) }
}

#[cfg(test)]
mod tests {
    use carrick_core::plan::{Effect, PlaceState, RunningContainers, Step};
    use carrick_host::File;

    use carrick_engine::act::StepProgress;

    use super::super::Steps;
    use super::*;

    fn plan() -> Vec<Grounded> {
        let step = |effect: Effect, why: &str| {
            let step = Step { effect, why: vec![why.to_owned()] };
            Grounded { step, was: PlaceState::Absent, becomes: PlaceState::Moment, old: None, new: None }
        };
        let path = "/etc/systemd/system/kubelet.service.d/05-carrick.conf".to_owned();
        let text = "Environment=\"KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf\"\n";
        let file = File::new(text.as_bytes().to_vec(), 0o644);
        let write = Effect::Write { path, text: text.to_owned(), mode: 0o644, in_place: false };
        let running = RunningContainers { containers: Some(7), go_on: Some(true) };
        vec![
            Grounded { new: Some(file), ..step(write, "kubelet.standalone") },
            step(Effect::Sysctl { key: "net.ipv4.ip_forward".into(), value: "1".into() }, "kernel.ip-forward"),
            step(Effect::RestartRuntime { unit: "containerd".into(), running }, "runtime.cgroup-driver"),
        ]
    }

    fn shown(refused: &Refused, width: usize) -> String {
        anstream::adapter::strip_str(&at_width("w1", &plan(), refused, width)).to_string()
    }

    #[test]
    fn what_is_too_long_goes_on_under_itself_and_no_word_is_broken() {
        assert_eq!(
            shown(&Refused::default(), 80),
            "w1 · 3 changes

   1  write /etc/systemd/system/kubelet.service.d/05-carrick.conf
      kubelet.standalone
      + Environment=\"KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf
        --kubeconfig=/etc/kubernetes/kubelet.conf\"
   2  set net.ipv4.ip_forward to 1  kernel.ip-forward
   3  restart containerd and wait for it to answer; 7 containers run on it and
      go on running  runtime.cgroup-driver
"
        );
        let long = |line: &&str| line.chars().count() > 40 && line.trim_start_matches([' ', '+']).contains(' ');
        assert_eq!(shown(&Refused::default(), 40).lines().find(long), None);
    }

    #[test]
    fn what_would_be_refused_is_told_in_its_place_with_the_end_it_would_have() {
        let protected = Protected { named: vec!["/etc/systemd".into()], ..Protected::default() };
        let refused = Refused::by(&protected, &plan());
        let text = shown(&refused, 80);
        let why = "/etc/systemd/system/kubelet.service.d/05-carrick.conf is protected (--protect /etc/systemd)";
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("kubelet.standalone refused: {why} + Environment=")), "{text}");
        let json = as_json("w1", &plan(), &refused).unwrap();
        assert!(
            json.starts_with("{\n  \"schema\": \"carrick.plan/v1\",\n  \"host\": \"w1\",\n") && json.ends_with("\n}\n")
        );
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json, serde_json::json!(planned("w1", &plan(), &refused)));
        assert_eq!(json["steps"][0]["refused"], why);
        assert_eq!(json["steps"][1].get("refused"), None);
        let end = refused.ends().unwrap_err();
        let effect = "write /etc/systemd/system/kubelet.service.d/05-carrick.conf";
        assert_eq!(end.to_string(), format!("refused, nothing was changed: would {effect}: {why}"));
        assert_eq!((json["refused"].as_str(), end.exit), (Some(end.to_string().as_str()), crate::exit::Exit::Failed));
    }

    /// Who may name a file may put a line end into its name; a line of the plan is Carrick's own.
    #[test]
    fn a_name_with_a_line_end_stays_in_its_line() {
        let forged = "/etc/cni/net.d/a\n   9  remove nothing";
        assert_eq!(with_note(&format!("remove {forged}"), "x\n!!", 80).lines().count(), 1);
        assert_eq!(changed(&format!("- {forged}"), 80).lines().count(), 1);
        let mut steps = Steps::new();
        steps.tell(&StepProgress::Begins(0, format!("remove {forged}")));
        assert!(!steps.doing.contains('\n'), "{:?}", steps.doing);
    }

    #[test]
    fn a_control_plane_is_refused_as_a_whole_and_what_is_allowed_is_not() {
        let control = Protected { control_plane: vec!["/etc/kubernetes/admin.conf".into()], ..Protected::default() };
        let refused = Refused::by(&control, &plan());
        assert!(refused.ends().unwrap_err().to_string().contains("this is a control plane"));
        assert!(!shown(&refused, 80).contains("refused"));
        assert!(Refused::by(&control, &[]).ends().is_ok());
        assert_eq!(Refused::by(&Protected::default(), &plan()), Refused::default());
        assert_eq!(planned("w1", &plan(), &Refused::default()).refused, None);
    }
}
