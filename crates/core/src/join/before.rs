//! What was on a machine before kubeadm ran, so that a failed attempt takes away what came since, and nothing else.
//!
//! Nothing is emptied: each path that came is named, a directory goes once it is empty, and a link is removed, never followed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::prepare;
use crate::fact::mounts::{MOUNTINFO, is_at_or_under};
use crate::fact::unit::UnitState;
use crate::fact::{Facts, Known, Source, Why, dir_key, join_state, kubeconfig, kubelet_config, listing, pki, unit};
use crate::plan::protect::Protected;

/// The kubelet's own directories: what comes into them during an attempt is what kubeadm and the kubelet wrote. Not `pods`: on
/// what is in there the container of a static pod may run; nor `plugins`, where drivers put their sockets.
const KUBELETS: [&str; 5] = [
    "/var/lib/kubelet",
    pki::DIR,
    "/var/lib/kubelet/checkpoints",
    "/var/lib/kubelet/device-plugins",
    "/var/lib/kubelet/pod-resources",
];

/// Directories that kubeadm and the kubelet make where they are missing, and into which others write, too.
const SHARED: [&str; 8] = [
    "/etc/kubernetes",
    join_state::MANIFESTS,
    "/etc/kubernetes/pki",
    "/var/lib/kubelet",
    "/usr/libexec/kubernetes",
    "/usr/libexec/kubernetes/kubelet-plugins",
    "/usr/libexec/kubernetes/kubelet-plugins/volume",
    "/usr/libexec/kubernetes/kubelet-plugins/volume/exec",
];

/// What kubeadm alone writes, in the order in which it does. A join by hand writes all of it anew.
const KUBEADMS: [&str; 5] =
    [kubeconfig::BOOTSTRAP, pki::CA, kubelet_config::INSTANCE, kubelet_config::FILE, unit::KUBEADM_FLAGS];

/// What a kubelet makes, and makes anew when it is started again.
const OF_A_KUBELET: [&str; 9] = [
    "kubelet.sock",
    "kubelet.crt",
    "kubelet.key",
    "kubelet_internal_checkpoint",
    "cpu_manager_state",
    "memory_manager_state",
    "dra_manager_state",
    "allocated_pods_state",
    "actuated_pods_state",
];

/// kubeadm says what it does as it does it. A file may be written after its last word, and a disk may know of that word
/// only when it writes down the rest.
const AFTER_ITS_WORD: i64 = 10;

/// What is looked at to compare what was put back.
pub fn compared() -> impl Iterator<Item = Source> {
    let files = prepare::MADE.into_iter().map(Source::File);
    files.chain([Source::Dir(pki::DIR), Source::Query(&unit::SHOW)])
}

/// What is looked at, before and after.
pub fn sources() -> impl Iterator<Item = Source> {
    let dirs: BTreeSet<&'static str> = KUBELETS.into_iter().chain(SHARED).collect();
    dirs.into_iter().map(Source::Dir).chain([Source::File(MOUNTINFO)])
}

/// A machine before kubeadm ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineBefore {
    /// The names in each of the kubelet's directories. One that could not be listed is not here: nothing in it is known to
    /// be new.
    holds: BTreeMap<String, BTreeSet<String>>,
    /// Shared directories that were not there.
    absent: BTreeSet<String>,
    /// Whether systemd ran the kubelet, or started it again and again while it waited for a configuration.
    kubelet_up: Option<bool>,
    /// How its unit was; a record of an older Carrick does not say.
    #[serde(default)]
    kubelet: Option<UnitBefore>,
    /// The files of a join that were there before preparation; a record of an older Carrick does not say.
    #[serde(default)]
    files: Option<BTreeSet<String>>,
}

/// How systemd had a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct UnitBefore {
    active_state: String,
    unit_file_state: String,
}

impl UnitBefore {
    fn of(unit: &UnitState) -> Self {
        UnitBefore { active_state: unit.active_state.clone(), unit_file_state: unit.unit_file_state.clone() }
    }

    /// Runs; is being started, once or again and again; does not run. How it came to its end says nothing of what is put back.
    fn runs(&self) -> &'static str {
        match self.active_state.as_str() {
            "active" | "reloading" => "running",
            "activating" => "being started",
            _ => "stopped",
        }
    }

    /// One that is started anew may be up already, or not yet.
    fn is_as(&self, before: &Self) -> bool {
        let is_up = |unit: &Self| unit.runs() != "stopped";
        let as_started = before.runs() == "being started" && is_up(self);
        (self.runs() == before.runs() || as_started) && self.unit_file_state == before.unit_file_state
    }
}

impl fmt::Display for UnitBefore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.runs(), self.unit_file_state)
    }
}

/// What is to go again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CameSince {
    /// What the attempt made, the contents of a directory before it.
    pub made: Vec<String>,
    /// Directories that go where nobody has put anything into them.
    pub shared: Vec<String>,
}

impl MachineBefore {
    /// How the kubelet is, and which files of a join are here, before preparation holds the one back and removes the others.
    pub fn unprepared(facts: &Facts) -> Self {
        let unit = facts.unit_state("kubelet").ok();
        let kubelet_up = unit.as_ref().map(|unit| unit.is_active() || unit.active_state == "activating");
        let files = prepare::leftovers(facts).ok().map(|files| files.into_iter().collect());
        MachineBefore { kubelet_up, kubelet: unit.as_ref().map(UnitBefore::of), files, ..Self::default() }
    }

    /// What of the files of a join is not as it was; to be looked at before a kubelet runs again, which makes some of its own.
    pub fn differing_files(&self, now: &Facts) -> Known<Vec<String>> {
        let Some(before) = &self.files else { return Ok(Vec::new()) };
        let now: BTreeSet<String> = prepare::leftovers(now)?.into_iter().collect();
        let gone = before.difference(&now).map(|path| format!("{path} is not back"));
        let new = now.difference(before).map(|path| format!("{path} is still there"));
        Ok(gone.chain(new).collect())
    }

    /// How the kubelet's unit is, where that is not as it was.
    pub fn differing_kubelet(&self, now: &Facts) -> Known<Option<String>> {
        let Some(before) = &self.kubelet else { return Ok(None) };
        let now = UnitBefore::of(&now.unit_state("kubelet")?);
        Ok((!now.is_as(before)).then(|| format!("kubelet.service is {now}; it was {before}")))
    }

    /// What is there right before kubeadm starts: what preparation removed comes back by its undo.
    pub fn with_places(self, facts: &Facts) -> Self {
        let known = |path: &&str| Some(((*path).to_owned(), names(facts, path)?));
        let absent = |path: &&&str| facts.dir(path).is_err_and(|missing| missing.why == Why::Absent);
        let absent = SHARED.iter().filter(absent).map(|&path| path.to_owned()).collect();
        MachineBefore { holds: KUBELETS.iter().filter_map(known).collect(), absent, ..self }
    }

    /// Without the paths that have gone.
    pub fn without_places(self) -> Self {
        MachineBefore { holds: BTreeMap::new(), absent: BTreeSet::new(), ..self }
    }

    /// After a join that was cut off when it said its last word: what came later, and is no file that kubeadm or a kubelet is
    /// known to make, is somebody else's, as if it had been there before. With their paths.
    pub fn sparing(mut self, now: &Facts, last_word: Timestamp) -> (Self, Vec<String>) {
        let mut theirs = Vec::new();
        for (dir, before) in &mut self.holds {
            for entry in now.dir(dir).unwrap_or_default() {
                let path = format!("{dir}/{}", entry.name);
                // A directory goes only where it is empty.
                let is_theirs =
                    !entry.is_dir() && is_newer(&entry, Some(last_word)) && !is_of_a_join(&path, &entry.name);
                if is_theirs && before.insert(entry.name) {
                    theirs.push(path);
                }
            }
        }
        (self, theirs)
    }

    pub fn kubelet_up(&self) -> Option<bool> {
        self.kubelet_up
    }

    /// What came since, but for what is protected, or has a mount at it or below it.
    pub fn came_since(&self, now: &Facts, protected: &Protected) -> Known<CameSince> {
        let mounts = now.mounts()?;
        let may_go = |path: &String| {
            let mounted = mounts.0.iter().any(|mount| is_at_or_under(&mount.point, path));
            !mounted && protected.keeps(path).is_none()
        };
        let mut made = Vec::new();
        for (dir, before) in &self.holds {
            let names = names(now, dir).unwrap_or_default();
            made.extend(names.difference(before).map(|name| format!("{dir}/{name}")));
        }
        let mut shared: Vec<String> = self.absent.iter().filter(|path| now.dir(path).is_ok()).cloned().collect();
        for paths in [&mut made, &mut shared] {
            paths.retain(may_go);
            // What is in a directory stands behind it, and goes before it.
            paths.sort_by(|one, other| other.cmp(one));
        }
        Ok(CameSince { made, shared })
    }
}

/// What of a join on this machine is not of the kubeadm that wrote its last word then; `None`: it never said one. A person may
/// have reset, or joined, by hand since; what is not proven to be ours is theirs.
pub fn by_hand(now: &Facts, last_word: Option<Timestamp>) -> Known<Vec<String>> {
    let (mut theirs, mut is_ours) = (Vec::new(), false);
    for path in KUBEADMS {
        let Some(entry) = entry(now, path)? else { continue };
        if is_newer(&entry, last_word) {
            theirs.push(path.to_owned());
        } else {
            is_ours = true;
        }
    }
    // A kubelet that ours has started may get its certificate at any time.
    let conf = entry(now, kubeconfig::KUBELET)?.filter(|entry| !is_ours && is_newer(entry, last_word));
    theirs.extend(conf.map(|_| kubeconfig::KUBELET.to_owned()));
    Ok(theirs)
}

fn is_newer(entry: &listing::DirectoryEntry, last_word: Option<Timestamp>) -> bool {
    last_word.is_none_or(|at| entry.mtime > at.as_second().saturating_add(AFTER_ITS_WORD))
}

fn entry(facts: &Facts, path: &str) -> Known<Option<listing::DirectoryEntry>> {
    let (dir, name) = path.rsplit_once('/').unwrap_or_default();
    facts.entry(dir, name)
}

/// Whether kubeadm, or a kubelet at any start, makes a file of this name.
fn is_of_a_join(path: &str, name: &str) -> bool {
    KUBEADMS.contains(&path) || OF_A_KUBELET.contains(&name) || name.starts_with("kubelet-client")
}

/// The names in a directory, all of them; one that is not there has none. `None`: it is not known what is in it.
fn names(facts: &Facts, dir: &str) -> Option<BTreeSet<String>> {
    match facts.get(&dir_key(dir)) {
        // A part of the list does not say what else was there.
        Ok(listed) if listed.dropped > 0 => None,
        Ok(listed) => Some(listing::parse(&listed.text).into_iter().map(|entry| entry.name).collect()),
        Err(missing) => (missing.why == Why::Absent).then(BTreeSet::new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Capture;
    use crate::fact::unit::SHOW;
    use crate::testing::{NOW, facts};

    const FILE: &str = "-rw-------";
    const DIR: &str = "drwxr-xr-x";

    /// A machine on which nothing is but what a package makes.
    fn bare() -> Facts {
        let bare = sources().fold(facts(), |facts, source| match source {
            Source::Dir(path) => facts.without_dir(path),
            _ => facts,
        });
        let root = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n";
        bare.with_file(MOUNTINFO, root).with_dir("/etc/kubernetes", &[]).with_dir("/var/lib/kubelet", &[])
    }

    /// After kubeadm and the kubelet ran.
    fn attempted(facts: Facts) -> Facts {
        facts
            .with_dir("/etc/kubernetes", &[(DIR, "manifests"), (DIR, "pki")])
            .with_dir(join_state::MANIFESTS, &[])
            .with_dir("/etc/kubernetes/pki", &[])
            .with_dir(SHARED[4], &[(DIR, "kubelet-plugins")])
            .with_dir(SHARED[5], &[(DIR, "volume")])
            .with_dir(SHARED[6], &[(DIR, "exec")])
            .with_dir(SHARED[7], &[])
            .with_dir("/var/lib/kubelet", &[(FILE, "config.yaml"), (FILE, "data"), (DIR, "pki"), (DIR, "pods")])
            .with_dir(pki::DIR, &[(FILE, "kubelet.key"), ("lrwxrwxrwx", "kubelet-client-current.pem")])
    }

    fn since(before: &Facts, now: &Facts, protected: &Protected) -> CameSince {
        MachineBefore::default().with_places(before).came_since(now, protected).unwrap()
    }

    fn made(before: &Facts, now: &Facts, protected: &Protected) -> Vec<String> {
        since(before, now, protected).made
    }

    #[test]
    fn what_came_goes_the_inside_first_and_what_was_there_stays() {
        let came = since(&bare(), &attempted(bare()), &Protected::default());
        let pki = [
            "/var/lib/kubelet/pki/kubelet.key",
            "/var/lib/kubelet/pki/kubelet-client-current.pem",
            "/var/lib/kubelet/pki",
        ];
        let (pods, others) = ("/var/lib/kubelet/pods", ["/var/lib/kubelet/data", "/var/lib/kubelet/config.yaml"]);
        assert_eq!(came.made, [&[pods][..], &pki, &others].concat());
        let exec = SHARED.iter().rev().take(4).copied();
        let shared: Vec<&str> = exec.chain(["/etc/kubernetes/pki", join_state::MANIFESTS]).collect();
        assert_eq!(came.shared, shared, "what was there before is not among them");

        let earlier = bare().with_dir("/var/lib/kubelet", &[(FILE, "data"), (DIR, "pki")]);
        let earlier = earlier.with_dir(pki::DIR, &[(FILE, "kubelet.key")]).with_dir("/etc/kubernetes/pki", &[]);
        let came = since(&earlier, &attempted(earlier.clone()), &Protected::default());
        assert_eq!(came.made, [pods, pki[1], others[1]]);
        assert!(!came.shared.iter().any(|path| path == "/etc/kubernetes/pki"), "{came:?}");
    }

    #[test]
    fn what_is_not_known_to_be_new_stays() {
        let cut = Capture { dropped: 1, ..Capture::text("") };
        for unknown in [Err(Why::Denied), Err(Why::TimedOut), Ok(cut)] {
            let mut before = bare();
            before.insert(dir_key("/var/lib/kubelet"), unknown.clone());
            before.insert(dir_key("/etc/kubernetes/pki"), unknown.clone());
            let came = since(&before, &attempted(bare()), &Protected::default());
            assert!(came.made.iter().all(|path| path.starts_with("/var/lib/kubelet/pki/")), "{unknown:?}: {came:?}");
            assert!(!came.shared.iter().any(|path| path == "/etc/kubernetes/pki"), "{unknown:?}: {came:?}");
        }
        let nothing = MachineBefore::default().came_since(&attempted(bare()), &Protected::default());
        assert_eq!(nothing, Ok(CameSince::default()));
    }

    /// A directory of files that were written so many seconds after NOW.
    fn dated(facts: Facts, dir: &str, files: &[(&str, i64)]) -> Facts {
        let line = |&(name, after): &(&str, i64)| {
            let (mode, name, mtime) = (FILE.to_owned(), name.to_owned(), NOW.as_second() + after);
            listing::render(&listing::DirectoryEntry { mode, uid: 0, gid: 0, size: 1, mtime, name, target: None })
        };
        let mut facts = facts;
        facts.insert(dir_key(dir), Ok(Capture::text(files.iter().map(line).collect::<String>())));
        facts
    }

    #[test]
    fn what_is_newer_than_our_kubeadms_last_word_is_not_ours() {
        type Files<'a> = &'a [(&'a str, i64)];
        type Row<'a> = (&'a str, Files<'a>, Files<'a>, Option<Timestamp>, &'a [&'a str]);
        const ALL: [&str; 2] = [kubeconfig::BOOTSTRAP, kubelet_config::FILE];
        let conf = "kubelet.conf";
        // In /etc/kubernetes and in /var/lib/kubelet, by when; whose they are.
        let rows: [Row<'_>; 8] = [
            ("nothing", &[], &[], Some(NOW), &[]),
            ("ours", &[("bootstrap-kubelet.conf", -9)], &[("config.yaml", 5)], Some(NOW), &[]),
            ("ours, and its kubelet got its certificate later", &[(conf, 9999)], &[("config.yaml", 5)], Some(NOW), &[]),
            ("no kubeadm of ours ran", &[("bootstrap-kubelet.conf", -9)], &[("config.yaml", -9)], None, &ALL),
            ("joined again by hand", &[("bootstrap-kubelet.conf", 60)], &[("config.yaml", 60)], Some(NOW), &ALL),
            (
                "a part of it was written over",
                &[("bootstrap-kubelet.conf", -9)],
                &[("config.yaml", 60)],
                Some(NOW),
                &ALL[1..],
            ),
            ("reset by hand, and put there", &[(conf, 60)], &[], Some(NOW), &[kubeconfig::KUBELET]),
            ("instance", &[], &[("instance-config.yaml", 60)], Some(NOW), &[kubelet_config::INSTANCE]),
        ];
        for (what, etc, var, last_word, expected) in rows {
            let now = dated(dated(bare(), "/etc/kubernetes", etc), "/var/lib/kubelet", var);
            assert_eq!(by_hand(&now, last_word).unwrap(), expected, "{what}");
        }
        let unknown = bare().without(Source::Dir("/var/lib/kubelet"), Why::TimedOut);
        assert!(by_hand(&unknown, Some(NOW)).is_err(), "whose it is cannot be told");
    }

    #[test]
    fn what_somebody_put_there_after_a_join_was_cut_off_stays() {
        let now = dated(
            bare(),
            "/var/lib/kubelet",
            &[("data", 60), ("state", -9), ("config.yaml", 60), ("cpu_manager_state", 60)],
        );
        let now = dated(now, pki::DIR, &[("kubelet-client-1.pem", 60), ("ours.pem", 60)]);
        let (before, theirs) = MachineBefore::default().with_places(&bare()).sparing(&now, NOW);
        assert_eq!(theirs, ["/var/lib/kubelet/data", "/var/lib/kubelet/pki/ours.pem"]);
        let made = before.came_since(&now, &Protected::default()).unwrap().made;
        let pem = "/var/lib/kubelet/pki/kubelet-client-1.pem";
        let others = ["/var/lib/kubelet/state", "/var/lib/kubelet/cpu_manager_state", "/var/lib/kubelet/config.yaml"];
        assert_eq!(made, [&[others[0], pem][..], &others[1..]].concat());
    }

    #[test]
    fn a_mount_and_what_is_protected_stay() {
        let mounted = |point: &str| {
            let lines = format!("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / {point} rw - tmpfs tmpfs rw\n");
            attempted(bare()).with_file(MOUNTINFO, &lines)
        };
        let pods = "/var/lib/kubelet/pods".to_owned();
        let volume = mounted("/var/lib/kubelet/pods/a/volumes/kubernetes.io~secret/token");
        assert!(made(&bare(), &attempted(bare()), &Protected::default()).contains(&pods));
        assert!(!made(&bare(), &volume, &Protected::default()).contains(&pods));
        let of = |named: &str| Protected { named: vec![named.to_owned()], ..Protected::default() };
        assert!(!made(&bare(), &attempted(bare()), &of("/var/lib/kubelet/pods/mine")).contains(&pods));
        let own_disk = Protected { mounts: vec![pki::DIR.to_owned()], ..Protected::default() };
        assert!(!made(&bare(), &mounted(pki::DIR), &own_disk).iter().any(|path| path.starts_with(pki::DIR)));
        let marks = Protected { control_plane: vec!["/etc/kubernetes/admin.conf".into()], ..Protected::default() };
        assert_eq!(since(&bare(), &attempted(bare()), &marks), CameSince::default());
    }

    #[test]
    fn a_kubelet_that_waits_for_its_configuration_counts_as_up() {
        for (shown, up) in [
            ("ActiveState=active\nSubState=running", Some(true)),
            ("ActiveState=activating\nSubState=auto-restart", Some(true)),
            ("ActiveState=inactive\nSubState=dead", Some(false)),
            ("ActiveState=failed\nSubState=failed", Some(false)),
        ] {
            let facts = facts().with_query(&SHOW, &format!("Id=kubelet.service\nLoadState=loaded\n{shown}\n"));
            assert_eq!(MachineBefore::unprepared(&facts).kubelet_up(), up, "{shown}");
        }
        assert_eq!(MachineBefore::unprepared(&facts()).kubelet_up(), None);
    }

    /// That all was put back is said of what was compared, not of what was done.
    #[test]
    fn what_is_not_as_it_was_is_told() {
        let unit = |active: &str, enabled: &str| {
            let shown =
                format!("Id=kubelet.service\nLoadState=loaded\nActiveState={active}\nUnitFileState={enabled}\n");
            facts().with_query(&SHOW, &shown)
        };
        for (before, now, differs) in [
            (("active", "enabled"), ("active", "enabled"), None),
            (("activating", "enabled"), ("activating", "enabled"), None),
            (("activating", "enabled"), ("active", "enabled"), None),
            (("inactive", "disabled"), ("failed", "disabled"), None),
            (
                ("active", "enabled"),
                ("activating", "enabled"),
                Some("kubelet.service is being started, enabled; it was running, enabled"),
            ),
            (
                ("active", "enabled"),
                ("inactive", "enabled"),
                Some("kubelet.service is stopped, enabled; it was running, enabled"),
            ),
            (
                ("inactive", "enabled"),
                ("activating", "enabled"),
                Some("kubelet.service is being started, enabled; it was stopped, enabled"),
            ),
            (
                ("inactive", "disabled"),
                ("inactive", "enabled"),
                Some("kubelet.service is stopped, enabled; it was stopped, disabled"),
            ),
        ] {
            let record = MachineBefore::unprepared(&unit(before.0, before.1));
            assert_eq!(
                record.differing_kubelet(&unit(now.0, now.1)).unwrap().as_deref(),
                differs,
                "{before:?} {now:?}"
            );
        }
        assert!(MachineBefore::unprepared(&unit("active", "enabled")).differing_kubelet(&facts()).is_err());
        let bare = || prepare::MADE.into_iter().fold(facts(), Facts::without_file);
        let none = || bare().with_dir(pki::DIR, &[]);
        let conf = || none().with_file(kubeconfig::KUBELET, "");
        for (before, now, differs) in [
            (none(), none(), &[][..]),
            (conf(), conf(), &[]),
            (conf(), none(), &["/etc/kubernetes/kubelet.conf is not back"]),
            (none(), conf(), &["/etc/kubernetes/kubelet.conf is still there"]),
        ] {
            assert_eq!(MachineBefore::unprepared(&before).differing_files(&now).unwrap(), differs);
        }
        assert!(MachineBefore::unprepared(&none()).differing_files(&facts()).is_err());
        let older: MachineBefore = serde_json::from_str(r#"{"holds":{},"absent":[],"kubelet_up":true}"#).unwrap();
        assert_eq!((older.differing_files(&conf()), older.differing_kubelet(&none())), (Ok(Vec::new()), Ok(None)));
    }
}
