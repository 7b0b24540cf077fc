//! Listens to programs while they work: their lines go through the same engine as a paste, as they come.
//!
//! What a paste excuses is excused here: what is normal at this stage, what a later line clears, what has to last. There is
//! one difference: in a paste all has been said, and here the line that clears another may still come. So a line that
//! something may clear has to stand for a moment before anybody stops for it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::last_words::LastWords;
use super::line;
use super::names::MachineNames;
use super::past::{BoundPods, Lapsed};
use super::progress::ReachedPhases;
use super::scan::{Scan, Sighting};
use super::suspect::{self, Suspect};
use crate::catalogue::{self, Stops};
use crate::check::Evidence;
use crate::fact::journal::{JournalEntry, JournalReader};
use crate::report::Confidence;
use crate::signature::{Library, Phase, Severity};

/// A line that is followed by the one that clears it is followed by it sooner than this.
const STANDS: SignedDuration = SignedDuration::from_secs(3);
/// Logs of containers that are told apart: a node's network has a handful, each a few times where it crash-loops.
const MOST_LOGS: usize = 256;

/// Everything heard of a machine's programs since an attempt began.
pub struct Listener<'l> {
    library: &'l Library,
    scan: Scan<'l>,
    node: Option<String>,
    /// Where the journal was heard to.
    cursor: Option<String>,
    /// Up to when a log was heard.
    logs: BTreeMap<String, Timestamp>,
    kubelet: Processes,
    /// Whether something was said since it was last weighed.
    has_news: bool,
    counted: BTreeMap<String, Counted>,
    lapsed: Lapsed,
}

/// What the kubelets said, process by process: the one that speaks now, and the one before it.
#[derive(Default)]
struct Processes {
    pid: Option<u32>,
    now: LastWords,
    before: LastWords,
}

/// What counts, since when, and what was made of it.
struct Counted {
    since: Timestamp,
    told: bool,
    /// Time alone makes nothing more of it.
    settled: bool,
}

/// What follows from what was heard.
#[derive(Clone, Debug)]
pub enum Heard {
    /// Something is wrong, and the programs go on.
    Counts(HeardCause),
    /// Nothing excuses it, and it will not pass.
    Stands(HeardCause),
    /// What counted before is over.
    Over(String),
}

/// A cause that was heard.
#[derive(Clone, Debug)]
pub struct HeardCause {
    pub id: String,
    pub why: String,
    pub confidence: Confidence,
    pub evidence: Vec<Evidence>,
    pub remedy: Vec<String>,
    pub explains: Vec<String>,
}

impl<'l> Listener<'l> {
    /// `now` gives a year to times that have none. `node`: whose lines count.
    pub fn new(library: &'l Library, node: Option<String>, now: Timestamp) -> Self {
        Listener {
            library,
            scan: Scan::new(library, now),
            node,
            cursor: None,
            logs: BTreeMap::new(),
            kubelet: Processes::default(),
            has_news: false,
            counted: BTreeMap::new(),
            lapsed: Lapsed::default(),
        }
    }

    /// Which pods are on the node by now: what was said of one that is gone is over.
    pub fn has_pods(&mut self, pods: BoundPods) {
        self.has_news |= self.lapsed.set_pods(pods);
    }

    /// Where the journal was heard to.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// What `journalctl -o json` printed of units since it was last heard.
    pub fn hear_journal(&mut self, text: &str) {
        let (mut reader, mut entries) = (JournalReader::new(), Vec::new());
        reader.push(text.as_bytes(), |entry| entries.push(entry));
        self.cursor = reader.cursor().map(str::to_owned).or(self.cursor.take());
        reader.finish(|entry| entries.push(entry));
        for entry in &entries {
            self.hear_entry(entry);
        }
    }

    fn hear_entry(&mut self, entry: &JournalEntry) {
        let Some(message) = &entry.message else { return };
        let unit = entry.unit.as_deref().map_or("", |unit| unit.trim_end_matches(".service"));
        let program = entry.program.as_deref().unwrap_or(unit);
        if unit == "kubelet" && program != "systemd" {
            self.kubelet.hear(entry.pid, message);
        }
        let pid = entry.pid.map(|pid| format!("[{pid}]")).unwrap_or_default();
        self.scan.begin(&format!("journalctl -u {unit}"), false);
        for line in message.lines() {
            // As journalctl itself writes it: signatures go by who said something, too.
            self.scan.push(format!("{} {program}{pid}: {line}\n", entry.at).as_bytes());
        }
        self.has_news = true;
    }

    /// The end of a container's log: what of it was not heard yet, and not said before `since`. Each line has its time.
    pub fn hear_log(&mut self, container: &str, source: &str, text: &str, since: Timestamp) -> LastWords {
        let heard = self.logs.get(container).copied();
        let (mut words, mut last) = (LastWords::default(), heard);
        self.scan.begin(source, false);
        for raw in text.lines() {
            let lines = line::read(raw.as_bytes(), 0..raw.len(), since);
            let Some(at) = lines.iter().find_map(|line| line.at) else { continue };
            if at < since {
                continue;
            }
            for line in &lines {
                words.hear(line::message(&line.text));
            }
            if heard.is_none_or(|heard| at > heard) {
                self.scan.push(format!("{raw}\n").as_bytes());
                (last, self.has_news) = (last.max(Some(at)), true);
            }
        }
        if let Some(last) = last.filter(|_| self.logs.len() < MOST_LOGS || heard.is_some()) {
            self.logs.insert(container.to_owned(), last);
        }
        words
    }

    /// The last words of a kubelet that ended: of the one that spoke last, or of the one before where another runs already.
    pub fn kubelet_words(&self, runs_again: bool) -> &LastWords {
        if runs_again && self.kubelet.before != LastWords::default() { &self.kubelet.before } else { &self.kubelet.now }
    }

    /// What counts by now, on a machine that has come so far; each once.
    pub fn weigh(&mut self, reached: Phase, now: Timestamp) -> Vec<Heard> {
        let undecided = self.counted.values().any(|counted| !counted.settled);
        if !std::mem::take(&mut self.has_news) && !undecided {
            return Vec::new();
        }
        let sightings = self.scan.so_far();
        let names = MachineNames::default();
        let is_here = |sighting: &&Sighting| names.is_about(self.node.as_deref(), sighting.node.as_deref());
        let here: Vec<&Sighting> = sightings.iter().filter(is_here).collect();
        let progress = ReachedPhases::of(self.library, &here, Some(reached), true);
        let suspects = suspect::weigh(self.library, &here, &[], &progress, &self.lapsed).suspects;
        let counts = |suspect: &&Suspect| suspect.severity >= Severity::Error;
        let mut heard = Vec::new();
        for suspect in suspects.iter().filter(counts) {
            let new = Counted { since: now, told: false, settled: false };
            let counted = self.counted.entry(suspect.id.clone()).or_insert(new);
            let stood = now.duration_since(counted.since) >= STANDS;
            if !counted.settled && stood && ends(suspect) {
                (counted.told, counted.settled) = (true, true);
                heard.push(Heard::Stands(cause(suspect)));
            } else if !counted.told && (suspect.severity == Severity::Fatal || (stood && goes_on(suspect))) {
                (counted.told, counted.settled) = (true, !ends(suspect));
                heard.push(Heard::Counts(cause(suspect)));
            }
        }
        let is_over = |id: &String| !suspects.iter().any(|suspect| suspect.id == *id);
        let over: Vec<String> = self.counted.keys().filter(|id| is_over(id)).cloned().collect();
        for id in over {
            let told = self.counted.remove(&id).is_some_and(|counted| counted.told);
            heard.extend(told.then_some(Heard::Over(id)));
        }
        heard
    }
}

impl Processes {
    fn hear(&mut self, pid: Option<u32>, message: &str) {
        if pid.is_some() && pid != self.pid {
            self.before = std::mem::take(&mut self.now);
            self.pid = pid;
        }
        message.lines().for_each(|line| self.now.hear(line));
    }
}

/// Whether a join stops for it: it says what keeps the node or its pods from running, is sure enough, and will not pass.
fn ends(suspect: &Suspect) -> bool {
    let stays = |about: catalogue::About<'_>| !about.class.may_pass() && about.stops != Stops::Nothing;
    suspect.severity == Severity::Fatal
        && suspect.certainty > Confidence::Possible
        && catalogue::about(&suspect.id).is_some_and(stays)
}

/// What is no failure of its own has to be said again: every start shows a few of them once.
fn goes_on(suspect: &Suspect) -> bool {
    let lasted = suspect.first.zip(suspect.last).is_some_and(|(first, last)| last.duration_since(first) >= STANDS);
    suspect.count > 1 && lasted
}

fn cause(suspect: &Suspect) -> HeardCause {
    HeardCause {
        id: suspect.id.clone(),
        why: suspect.why.clone(),
        confidence: suspect.certainty,
        evidence: suspect.evidence.iter().rev().map(without_head).collect(),
        remedy: suspect.remedy.clone(),
        explains: suspect.explains.iter().cloned().collect(),
    }
}

/// A line as the program wrote it: its place in what was put together here says nothing.
fn without_head(seen: &Evidence) -> Evidence {
    Evidence::of(seen.source.clone(), line::message(&seen.text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::last_words::Weight;
    use super::*;
    use crate::diagnose::Case;
    use crate::judge::Ignore;
    use crate::testing::NOW;

    const DENIED: &str = r#"E1118 12:00:03.221871     512 kubelet_node_status.go:107] "Unable to register node with API server" err="admission webhook \"x.y\" denied the request: no" node="w1""#;
    const REGISTERED: &str =
        r#"I1118 12:00:04.201191     512 kubelet_node_status.go:78] "Successfully registered node" node="w1""#;
    const NO_NETWORK: &str = r#"E1118 12:00:05.1     512 kubelet.go:3011] "Container runtime network not ready" networkReady="NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized""#;
    const NO_CIDR: &str = "E1118 12:00:05.1       1 main.go:280] Error registering network: failed to acquire lease: node \"w1\" pod cidr not assigned";

    fn at(seconds: i64) -> Timestamp {
        NOW.checked_add(SignedDuration::from_secs(seconds)).unwrap()
    }

    /// A line of the kubelet's journal, as journalctl prints it.
    fn entry(second: i64, pid: u32, message: &str) -> String {
        let (micros, cursor) = (at(second).as_microsecond(), format!("s=1;i={second}"));
        serde_json::json!({"__CURSOR": cursor, "__REALTIME_TIMESTAMP": micros.to_string(), "MESSAGE": message, "_PID": pid.to_string(),
            "SYSLOG_IDENTIFIER": "kubelet", "_SYSTEMD_UNIT": "kubelet.service"})
        .to_string()
            + "\n"
    }

    /// What follows, in a word each.
    fn words(heard: &[Heard]) -> Vec<String> {
        let word = |heard: &Heard| match heard {
            Heard::Counts(cause) => format!("counts {}", cause.id),
            Heard::Stands(cause) => format!("stands {}", cause.id),
            Heard::Over(id) => format!("over {id}"),
        };
        heard.iter().map(word).collect()
    }

    fn library() -> Library {
        Library::built_in().unwrap()
    }

    fn listener(library: &Library) -> Listener<'_> {
        Listener::new(library, Some("w1".to_owned()), NOW)
    }

    #[test]
    fn a_fatal_line_is_told_at_once_and_ends_what_it_stands_over() {
        let library = library();
        let mut listener = listener(&library);
        listener.hear_journal(&entry(0, 512, DENIED));
        let told = listener.weigh(Phase::Joining, at(0));
        assert_eq!(words(&told), ["counts node.registration-denied"]);
        let Heard::Counts(cause) = &told[0] else { panic!() };
        assert_eq!(
            (cause.evidence[0].source.as_str(), cause.evidence[0].text.as_str()),
            ("journalctl -u kubelet", DENIED)
        );
        assert!(cause.why.contains("admission webhook x.y: no"), "{}", cause.why);
        assert_eq!(words(&listener.weigh(Phase::Joining, at(2))), [""; 0]);
        assert_eq!(words(&listener.weigh(Phase::Joining, at(3))), ["stands node.registration-denied"]);
        assert_eq!(words(&listener.weigh(Phase::Joining, at(9))), [""; 0], "once");
    }

    #[test]
    fn what_a_later_line_clears_ends_nothing() {
        let library = library();
        let mut listener = listener(&library);
        listener.hear_journal(&entry(0, 512, DENIED));
        assert_eq!(words(&listener.weigh(Phase::Joining, at(0))), ["counts node.registration-denied"]);
        listener.hear_journal(&entry(1, 512, REGISTERED));
        assert_eq!(words(&listener.weigh(Phase::Joined, at(4))), ["over node.registration-denied"]);
        assert_eq!(words(&listener.weigh(Phase::Joined, at(60))), [""; 0]);
    }

    #[test]
    fn what_only_may_be_the_cause_ends_nothing() {
        let library = library();
        let mut listener = listener(&library);
        let line = &library.find("runtime.init-died").unwrap().hit[0].line;
        listener.hear_journal(&entry(0, 512, line));
        assert_eq!(words(&listener.weigh(Phase::Joined, at(0))), ["counts runtime.init-died"]);
        assert_eq!(words(&listener.weigh(Phase::Joined, at(60))), [""; 0]);
    }

    #[test]
    fn what_was_said_of_a_pod_that_is_gone_is_over() {
        let library = library();
        let mut listener = listener(&library);
        let failed = |second| {
            let line = r#"E1118 12:00:05.1 512 pod_workers.go:1301] "Error syncing pod, skipping" err="failed to \"StartContainer\" for \"kube-flannel\" with ImagePullBackOff: \"Back-off pulling image\"" pod="kube-flannel/kube-flannel-ds-x7k2p""#;
            entry(second, 512, line)
        };
        listener.hear_journal(&(failed(0) + &failed(9)));
        assert_eq!(words(&listener.weigh(Phase::Joined, at(9))), [""; 0]);
        listener.hear_journal(&failed(12));
        assert_eq!(words(&listener.weigh(Phase::Joined, at(13))), ["counts cni.image-pull"]);
        let pods = |name: &str, second| BoundPods { names: [format!("kube-flannel/{name}")].into(), at: at(second) };
        listener.has_pods(pods("kube-flannel-ds-x7k2p", 14));
        assert_eq!(words(&listener.weigh(Phase::Joined, at(14))), [""; 0]);
        listener.has_pods(pods("kube-flannel-ds-9wvtz", 15));
        assert_eq!(
            words(&listener.weigh(Phase::Joined, at(15))),
            ["over cni.image-pull"],
            "its DaemonSet was corrected"
        );
    }

    #[test]
    fn what_is_normal_at_this_stage_is_nothing_and_what_every_start_shows_once_neither() {
        let library = library();
        let mut listener = listener(&library);
        for second in 0..9 {
            listener.hear_journal(&entry(second, 512, NO_NETWORK));
            assert_eq!(words(&listener.weigh(Phase::Joining, at(second))), [""; 0], "no Node yet");
        }
        let mut joined = self::listener(&library);
        joined.hear_journal(&entry(0, 512, NO_NETWORK));
        assert_eq!(words(&joined.weigh(Phase::Joined, at(0))), [""; 0]);
        assert_eq!(words(&joined.weigh(Phase::Joined, at(9))), [""; 0], "it was said once");
        joined.hear_journal(&entry(9, 512, NO_NETWORK));
        assert_eq!(words(&joined.weigh(Phase::Joined, at(10))), ["counts cni.config"]);
    }

    #[test]
    fn of_a_log_only_what_is_new_and_of_this_attempt_counts() {
        let library = library();
        let mut listener = listener(&library);
        let stamped = |second, line: &str| format!("{} stderr F {line}\n", at(second));
        let log =
            format!("cut off\n{}{}", stamped(-60, NO_CIDR), stamped(-59, "I1118 12:00:05.1       1 main.go:1] x"));
        assert_eq!(listener.hear_log("c1", "pod a/b", &log, NOW), LastWords::default());
        assert_eq!(words(&listener.weigh(Phase::Joined, at(0))), [""; 0], "before this attempt");
        let log = log + &stamped(1, NO_CIDR);
        let last = listener.hear_log("c1", "pod a/b", &log, NOW);
        assert_eq!(last.line(Weight::Error), Some(NO_CIDR));
        let heard = listener.weigh(Phase::Joined, at(1));
        assert_eq!(words(&heard), ["counts cni.no-pod-cidr"]);
        let Heard::Counts(cause) = &heard[0] else { panic!() };
        assert_eq!((cause.evidence[0].source.as_str(), cause.evidence[0].text.as_str()), ("pod a/b", NO_CIDR));
        let before = listener.scan.so_far()[0].count;
        listener.hear_log("c1", "pod a/b", &log, NOW);
        assert_eq!(listener.scan.so_far()[0].count, before, "heard once");
    }

    #[test]
    fn the_last_words_are_of_the_process_that_ended() {
        let library = library();
        let mut listener = listener(&library);
        let failed = |why: &str| format!("E1118 12:00:03.2     512 run.go:72] \"command failed\" err=\"{why}\"");
        listener.hear_journal(&(entry(0, 512, &failed("first")) + &entry(1, 512, "Usage:")));
        assert_eq!(listener.kubelet_words(false).line(Weight::Fatal), Some(failed("first").as_str()));
        assert_eq!(listener.cursor(), Some("s=1;i=1"));
        listener.hear_journal(&entry(11, 600, "I1118 12:00:03.2     600 server.go:1] hello"));
        assert_eq!(listener.kubelet_words(false).line(Weight::Plain), None, "this one has not said why");
        assert_eq!(listener.kubelet_words(true).line(Weight::Fatal), Some(failed("first").as_str()));
        // Nothing new: the place stays.
        listener.hear_journal("");
        assert_eq!(listener.cursor(), Some("s=1;i=11"));
    }

    #[test]
    fn other_nodes_lines_are_theirs() {
        let library = library();
        let mut listener = listener(&library);
        let other = NO_CIDR.replace("\"w1\"", "\"w9\"");
        listener.hear_journal(&entry(0, 1, &other));
        assert_eq!(words(&listener.weigh(Phase::Joined, at(0))), [""; 0]);
    }

    /// Lines that signatures know, each of one.
    fn known_lines() -> impl Strategy<Value = Vec<(String, i64)>> {
        let library = library();
        let lines: Vec<String> = library
            .iter()
            .flat_map(|it| it.hit.iter().map(|hit| hit.line.clone()))
            .filter(|it| !it.contains('\n'))
            .collect();
        prop::collection::vec((prop::sample::select(lines), 0i64..30), 1..8)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// What a paste of the same lines does not count as a suspect ends no attempt.
        #[test]
        fn no_line_that_a_paste_excuses_ends_an_attempt(lines in known_lines()) {
            let library = library();
            let (mut listener, mut second) = (Listener::new(&library, None, NOW), 0);
            let (mut scan, mut ended) = (Scan::new(&library, NOW), Vec::new());
            scan.begin("paste", false);
            for (line, wait) in &lines {
                second += wait;
                let line = line::message(line);
                listener.hear_journal(&entry(second, 512, line));
                scan.push(format!("{} kubelet[512]: {line}\n", at(second)).as_bytes());
            }
            for after in [0, 3, 60] {
                ended.extend(listener.weigh(Phase::Before, at(second + after)).into_iter().filter_map(|heard| match heard {
                    Heard::Stands(cause) => Some(cause.id),
                    Heard::Counts(_) | Heard::Over(_) => None,
                }));
            }
            let report = Case::of_text(&library, scan.finish(), at(second), None).report(&Ignore::default());
            let symptoms = report.reading.iter().flat_map(|reading| reading.symptoms.iter().map(|noted| &noted.id));
            let suspects: Vec<&String> = report.causes.iter().map(|cause| &cause.id).chain(symptoms).collect();
            for id in ended {
                prop_assert!(suspects.contains(&&id), "{} of {:?}", id, lines);
            }
        }
    }
}
