//! A page to attach to an incident: one file, no script, nothing from the network. What is wrong and what fixes it come
//! first; pictures, subsystems and evidence follow.
//!
//! * [`markup`]: elements and escaped text; there is no other way to put something on the page
//! * [`causal`], [`timeline`]: the two pictures, each also said in words
//! * `html/style.css`: how it looks, by day, by night and on paper

use carrick_core::check::{Evidence, Outcome, Subsystem};
use carrick_core::report::{Cause, Health, Judged, Noted, Overall, Piece, Reading, Report};
use carrick_core::signature::{Phase, Severity};

use self::markup::{Markup, classed, element, nothing, said, style, text, void};
use super::counts;

mod causal;
mod fit;
mod markup;
mod svg;
mod timeline;

const STYLE: &str = include_str!("html/style.css");
/// Nothing may be loaded or run; only the page's own style sheet counts.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Evidence that is seen without unfolding; the rest of a long list proves no more.
const EVIDENCE: usize = 3;
/// Consequences named with the cause; the picture and the list below it have all of them.
const THEREFORE: usize = 8;
/// A longer line is folded behind its beginning.
const LONG: usize = 600;
const BEGINNING: usize = 160;

pub fn render(report: &Report) -> String {
    let sections = sections(report);
    let header = header(report, &sections);
    let main = element("main", [], sections.into_iter().map(|section| section.body));
    let body = element("body", [], [header, main, footer(report)]);
    element("html", [("lang", "en")], [head(report), body]).into_page()
}

fn head(report: &Report) -> Markup {
    let title = format!("{}: carrick {}", report.host, report.verb);
    element(
        "head",
        [],
        [
            void("meta", [("charset", "utf-8")]),
            void("meta", [("http-equiv", "Content-Security-Policy"), ("content", POLICY)]),
            void("meta", [("name", "viewport"), ("content", "width=device-width, initial-scale=1")]),
            void("meta", [("name", "color-scheme"), ("content", "light dark")]),
            said("title", "", &title),
            style(STYLE),
        ],
    )
}

fn header(report: &Report, sections: &[Section]) -> Markup {
    let machine = &report.machine;
    let mut about: Vec<String> = machine.os.iter().cloned().collect();
    about.extend(machine.containerd.as_ref().map(|version| format!("containerd {version}")));
    about.extend(machine.kubelet.as_ref().map(|version| format!("kubelet {version}")));
    if let Some(reading) = &report.reading {
        about.push(phase(reading.phase).to_owned());
        about.push(format!("{} lines, {} read", thousands(reading.lines), size(reading.bytes)));
    } else {
        about.push(format!("{} checks", report.findings.len()));
    }
    let linked = sections.iter().filter(|section| !section.title.is_empty());
    let link = |section: &Section| element("a", [("href", format!("#{}", section.id).as_str())], [text(section.title)]);
    let links: Vec<Markup> = linked.map(link).collect();
    let nav = if links.len() > 1 { element("nav", [("aria-label", "On this page")], links) } else { nothing() };
    let heading = [
        said("p", "kicker", &format!("carrick {}", report.verb)),
        said("h1", "", &report.host),
        said("p", "about", &about.join(" · ")),
        nav,
    ];
    element("header", [], heading)
}

fn footer(report: &Report) -> Markup {
    let words = format!(
        "Made by carrick {} ({}). Secrets that were recognised are masked; look through the evidence before you pass \
         this page on.",
        env!("CARGO_PKG_VERSION"),
        report.verb
    );
    element("footer", [], [said("p", "", &words)])
}

/// A part of the page; one without a title is not linked to.
struct Section {
    id: &'static str,
    title: &'static str,
    body: Markup,
}

fn sections(report: &Report) -> Vec<Section> {
    let mut all = vec![Section { id: "verdict", title: "", body: verdict(report) }];
    let no_cause = report.causes.is_empty();
    let none = Reading::default();
    let reading = report.reading.as_ref().unwrap_or(&none);
    if no_cause {
        // The evidence is not enough: what to run is the answer.
        all.push(section("next", "What to run next", commands(&reading.next)));
        all.push(section("findings", "Findings", findings(report)));
    }
    all.push(section("causes", "Other causes", report.causes.iter().enumerate().skip(1).map(other_cause).collect()));
    all.push(section("consequences", "What follows from what", consequences(report, reading)));
    all.push(section("timeline", "Timeline", timeline::draw(&reading.timeline)));
    all.push(section("subsystems", "Subsystems", subsystems(report)));
    all.push(section("pod-network", "The pod network on this machine", pod_network(reading)));
    all.push(section("advice", "What to do", advice(&report.causes)));
    let unrecognised: Vec<Evidence> = reading.unrecognised.iter().map(|it| it.evidence.clone()).collect();
    all.push(section("unrecognised", "Unrecognised errors", lines(&unrecognised)));
    all.push(section("normal", "Normal at this stage", list_of(&reading.normal)));
    if !no_cause {
        all.push(section("findings", "Findings", findings(report)));
    }
    let elsewhere = reading
        .elsewhere
        .iter()
        .map(|other| [said("h3", "", &other.node), list_of(&other.seen)].into_iter().collect::<Markup>());
    all.push(section("elsewhere", "Other nodes", elsewhere.collect()));
    if !no_cause {
        all.push(section("next", "What to run to know more", commands(&reading.next)));
    }
    all.retain(|section| !section.body.is_empty());
    all
}

fn section(id: &'static str, title: &'static str, inside: Markup) -> Section {
    if inside.is_empty() {
        return Section { id, title, body: nothing() };
    }
    let heading = format!("{id}-heading");
    let attributes = [("id", id), ("aria-labelledby", heading.as_str())];
    let title_element = element("h2", [("id", heading.as_str())], [text(title)]);
    Section { id, title, body: element("section", attributes, [title_element, inside]) }
}

/// The answer: the root cause with its proof and its fix, or that there is none.
fn verdict(report: &Report) -> Markup {
    let (class, word) = overall(report.verdict);
    let chip = said("span", &format!("chip {class}"), word);
    let inside: Markup = match report.causes.first() {
        Some(root) => {
            let sure = format!("root cause, {}", causal::confidence(root.confidence));
            let chips = classed("p", "chips", [chip, text(" "), said("span", "chip plain", &sure)]);
            [chips, said("h2", "", &root.title), cause_body(root), fix(root), therefore(report, root)]
                .into_iter()
                .collect()
        }
        None => [classed("p", "chips", [chip]), said("h2", "", &without_cause(report))].into_iter().collect(),
    };
    element("section", [("id", "verdict"), ("class", &format!("verdict {class}"))], [inside])
}

fn overall(verdict: Overall) -> (&'static str, &'static str) {
    match verdict {
        Overall::Pass => ("ok", "pass"),
        Overall::Unknown => ("unknown", "unknown"),
        Overall::Warn => ("warn", "warning"),
        Overall::Fail => ("fail", "fail"),
    }
}

fn without_cause(report: &Report) -> String {
    let sentence = match (report.reading.is_some(), report.verdict) {
        (true, Overall::Pass) => "Nothing is wrong, as far as this capture shows",
        (true, Overall::Unknown) => "The cause cannot be told from this capture",
        (true, Overall::Warn) => "Nothing is broken; there are warnings",
        (true, Overall::Fail) => "Something is broken, and its cause is not in this capture",
        (false, Overall::Pass) => "Ready to join",
        (false, Overall::Unknown) => "Cannot tell whether it is ready to join",
        (false, Overall::Warn) => "Can join, with care",
        (false, Overall::Fail) => "Not ready to join",
    };
    let counts = counts(report);
    match (counts.is_empty(), report.findings.is_empty() && report.reading.is_none()) {
        (false, _) => format!("{sentence}: {counts}."),
        (true, true) => format!("{sentence}: nothing was seen."),
        (true, false) => format!("{sentence}."),
    }
}

/// Why, and the proof.
fn cause_body(cause: &Cause) -> Markup {
    [said("p", "why", &cause.why), said("code", "id", &cause.id), evidence(&cause.evidence, EVIDENCE)]
        .into_iter()
        .collect()
}

/// What followed, a line each.
fn therefore(report: &Report, root: &Cause) -> Markup {
    let Some(reading) = &report.reading else { return nothing() };
    let follows = |symptom: &Noted| symptom.because.contains(&root.id) || root.explains.contains(&symptom.id);
    let all: Vec<(usize, &Noted)> =
        reading.symptoms.iter().enumerate().filter(|(_, symptom)| follows(symptom)).collect();
    let more = all.len().saturating_sub(THEREFORE);
    let more = (more > 0).then(|| said("li", "place", &format!("and {more} more, below")));
    let items: Vec<Markup> = all
        .into_iter()
        .take(THEREFORE)
        .map(|(n, symptom)| {
            let link = element("a", [("href", format!("#symptom-{}", n + 1).as_str())], [text(&symptom.title)]);
            let place = symptom.evidence.first().and_then(|seen| seen.line).map(|line| format!(" line {line}"));
            element("li", [], [link, said("span", "place", &place.unwrap_or_default())])
        })
        .chain(more)
        .collect();
    if items.is_empty() {
        return nothing();
    }
    [said("h3", "", "Therefore"), classed("ol", "therefore", items)].into_iter().collect()
}

fn fix(cause: &Cause) -> Markup {
    if cause.remedy.is_empty() {
        return nothing();
    }
    [said("h3", "", "Fix"), commands(&cause.remedy)].into_iter().collect()
}

fn other_cause((n, cause): (usize, &Cause)) -> Markup {
    let sure = said("span", "chip plain", causal::confidence(cause.confidence));
    let heading = element("h3", [], [text(&cause.title), text(" "), sure]);
    let id = format!("cause-{}", n + 1);
    element("article", [("id", id.as_str())], [heading, cause_body(cause), fix(cause)])
}

/// The picture, and under it the same as a list with its evidence.
fn consequences(report: &Report, reading: &Reading) -> Markup {
    let list = reading.symptoms.iter().enumerate().map(|(n, symptom)| {
        let id = format!("symptom-{}", n + 1);
        element("article", [("id", id.as_str()), ("class", "noted")], noted(symptom))
    });
    std::iter::once(causal::draw(report, reading)).chain(list).collect()
}

fn list_of(all: &[Noted]) -> Markup {
    all.iter().map(|one| classed("article", "noted", noted(one))).collect()
}

fn noted(noted: &Noted) -> [Markup; 4] {
    let because = match noted.because.as_slice() {
        [] => String::new(),
        ids => format!(" · because of {}", ids.join(", ")),
    };
    let times = if noted.count > 1 { format!(" · {} times", thousands(noted.count)) } else { String::new() };
    let about = format!(" · {}{times}{because}", called(noted.subsystem));
    [
        said("h4", "", &noted.title),
        said("p", "why", &noted.why),
        classed("p", "meta", [said("code", "", &noted.id), text(&about)]),
        folded_evidence(&noted.evidence),
    ]
}

fn subsystems(report: &Report) -> Markup {
    let cell = |name: Subsystem, verdict: Health, why: &str| {
        let (class, word, severity) = health(verdict);
        let verdict = classed("p", "health", [svg::sign(severity), said("strong", "", word)]);
        classed("li", class, [said("h3", "", called(name)), verdict, said("p", "why", why)])
    };
    let cells: Vec<Markup> = report.subsystems.iter().map(|one| cell(one.name, one.verdict, &one.why)).collect();
    if cells.is_empty() { nothing() } else { classed("ul", "subsystems", cells) }
}

fn pod_network(reading: &Reading) -> Markup {
    if reading.pod_network.is_empty() {
        return nothing();
    }
    let piece = |piece: &Piece| [said("dt", "", piece.what), said("dd", "", &piece.says)];
    classed("dl", "pieces", reading.pod_network.iter().flat_map(piece))
}

fn health(health: Health) -> (&'static str, &'static str, Severity) {
    match health {
        Health::Healthy => ("ok", "healthy", Severity::Good),
        Health::Broken => ("fail", "broken", Severity::Fatal),
        Health::Degraded => ("warn", "degraded", Severity::Warning),
        Health::Expected => ("expected", "as expected", Severity::Benign),
        Health::NotSeen => ("unknown", "not seen", Severity::Benign),
    }
}

fn called(subsystem: Subsystem) -> &'static str {
    match subsystem {
        Subsystem::Machine => "Machine",
        Subsystem::Kernel => "Kernel",
        Subsystem::Filesystem => "Filesystem and mounts",
        Subsystem::Runtime => "Container runtime",
        Subsystem::Kubelet => "Kubelet",
        Subsystem::Network => "Network and NFS",
        Subsystem::Cni => "Pod network (CNI)",
        Subsystem::Permissions => "Permissions",
        Subsystem::ControlPlane => "Control plane",
        Subsystem::Time => "Time",
    }
}

/// Everything to do in one place: now, and so that it does not come again.
fn advice(causes: &[Cause]) -> Markup {
    let steps = |title: &str, of: fn(&Cause) -> &[String]| {
        let steps: Vec<Markup> = causes
            .iter()
            .filter(|cause| !of(cause).is_empty())
            .map(|cause| element("li", [], [said("p", "why", &cause.title), commands(of(cause))]))
            .collect();
        if steps.is_empty() {
            return nothing();
        }
        [said("h3", "", title), classed("ol", "steps", steps)].into_iter().collect()
    };
    // With one cause, the fix above is all there is to do now.
    let now = if causes.len() > 1 { steps("Now", |cause| &cause.remedy) } else { nothing() };
    [now, steps("So that it does not come again", |cause| &cause.prevent)].into_iter().collect()
}

/// Each to be selected with one click, none broken.
fn commands(commands: &[String]) -> Markup {
    commands.iter().map(|command| classed("pre", "command", [said("code", "", command)])).collect()
}

/// The worst first; what is well, folded.
fn findings(report: &Report) -> Markup {
    let of = |outcome: Outcome, ignored: bool| {
        report.findings.iter().filter(move |finding| finding.verdict == outcome && finding.ignored == ignored)
    };
    let worst = [
        (Outcome::Fail, "Fails", "fail"),
        (Outcome::Warn, "Warns", "warn"),
        (Outcome::Unknown, "Cannot be told", "unknown"),
    ];
    let shown = worst.into_iter().map(|(outcome, title, class)| {
        let all: Vec<Markup> = of(outcome, false).map(|finding| shown_finding(finding, class)).collect();
        if all.is_empty() { nothing() } else { std::iter::once(said("h3", "", title)).chain(all).collect() }
    });
    let ignored: Vec<&Judged> = report.findings.iter().filter(|finding| finding.ignored).collect();
    let rest = [
        ("Ignored", ignored),
        ("Passes", of(Outcome::Pass, false).collect()),
        ("Does not apply", of(Outcome::Skip, false).collect()),
    ];
    let rest = rest.into_iter().map(|(title, findings)| folded_findings(title, &findings));
    shown.chain(rest).collect()
}

fn shown_finding(finding: &Judged, class: &str) -> Markup {
    let about = format!(" · {}", called(finding.subsystem));
    let explains = match finding.explains.as_slice() {
        [] => nothing(),
        ids => said("p", "meta", &format!("brings about {}", ids.join(", "))),
    };
    let label = if finding.verdict == Outcome::Unknown { "Try" } else { "Fix" };
    let remedy = match finding.remedy.as_slice() {
        [] => nothing(),
        remedy => [said("p", "label", label), commands(remedy)].into_iter().collect(),
    };
    let inside = [
        said("h4", "", &finding.title),
        classed("p", "meta", [said("code", "", finding.id), text(&about)]),
        explains,
        evidence(&finding.evidence, EVIDENCE),
        remedy,
    ];
    classed("article", &format!("finding {class}"), inside)
}

fn folded_findings(title: &str, findings: &[&Judged]) -> Markup {
    if findings.is_empty() {
        return nothing();
    }
    let lines = findings
        .iter()
        .map(|finding| element("li", [], [said("code", "", finding.id), text(" "), text(&finding.title)]));
    fold(&format!("{title}: {}", findings.len()), [classed("ul", "passes", lines)])
}

/// The first few open, the rest folded.
fn evidence(all: &[Evidence], open: usize) -> Markup {
    let (shown, rest) = all.split_at(open.min(all.len()));
    let more = match rest.len() {
        0 => nothing(),
        count => fold(&format!("{count} more"), [lines(rest)]),
    };
    [lines(shown), more].into_iter().collect()
}

fn folded_evidence(all: &[Evidence]) -> Markup {
    match all.len() {
        0 => nothing(),
        1 => fold("Evidence", [lines(all)]),
        count => fold(&format!("Evidence: {count} lines"), [lines(all)]),
    }
}

fn lines(all: &[Evidence]) -> Markup {
    if all.is_empty() {
        return nothing();
    }
    classed("ul", "evidence", all.iter().map(|one| element("li", [], evidence_line(one))))
}

fn evidence_line(evidence: &Evidence) -> [Markup; 2] {
    let place = evidence_place(evidence);
    let place = if place.is_empty() { nothing() } else { said("span", "place", &place) };
    let length = evidence.text.chars().count();
    if length <= LONG {
        return [place, said("pre", "", &evidence.text)];
    }
    let beginning: String = evidence.text.chars().take(BEGINNING).collect();
    let summary = format!("{beginning}… ({} characters)", thousands(u64::try_from(length).unwrap_or(u64::MAX)));
    [place, fold(&summary, [said("pre", "", &evidence.text)])]
}

/// `journal, line 12`.
fn evidence_place(evidence: &Evidence) -> String {
    match (evidence.source.is_empty(), evidence.line) {
        (false, Some(line)) => format!("{}, line {line}", evidence.source),
        (false, None) => evidence.source.clone(),
        (true, Some(line)) => format!("line {line}"),
        (true, None) => String::new(),
    }
}

fn fold(summary: &str, inside: impl IntoIterator<Item = Markup>) -> Markup {
    element("details", [], std::iter::once(said("summary", "", summary)).chain(inside))
}

fn phase(phase: Option<Phase>) -> &'static str {
    match phase {
        None => "how far the join came is unknown",
        Some(Phase::Before) => "before a join",
        Some(Phase::Joining) => "while joining",
        Some(Phase::Joined) => "joined",
    }
}

/// `1,204`.
fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{}.{} GB", bytes / 1_000_000_000, bytes / 100_000_000 % 10),
    }
}

#[cfg(test)]
mod tests;
