//! The sockets container runtimes answer on.

use super::{Capture, Facts, Known, Source, kubeconfig, kubelet_config, pki, process, unit};

pub const SOURCES: &[Source] = &[Source::Dir("/run/containerd"), Source::Dir("/run/crio"), Source::Dir("/run")];

/// The key of the socket that a person named: nothing of the machine, but what its runtime is to be judged by.
const NAMED: &str = "cri named";

/// What says on which socket the kubelet of a machine that has joined asks its runtime.
pub const OF_KUBELET: &[Source] = &[
    Source::File(kubeconfig::KUBELET),
    Source::File(pki::CLIENT),
    Source::File(pki::CA),
    Source::File(kubelet_config::FILE),
    Source::Query(&kubelet_config::DROP_INS),
    Source::File(unit::KUBEADM_FLAGS),
    Source::File(unit::DEFAULTS),
    Source::File(unit::SYSCONFIG),
    Source::Query(&unit::KUBELET),
    Source::Query(&process::KUBELET),
];

/// A runtime kubeadm knows by its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    Containerd,
    Crio,
    CriDockerd,
}

/// In the order in which kubeadm looks.
const SOCKETS: [(Runtime, &str, &str); 3] = [
    (Runtime::Containerd, "/run/containerd", "containerd.sock"),
    (Runtime::Crio, "/run/crio", "crio.sock"),
    (Runtime::CriDockerd, "/run", "cri-dockerd.sock"),
];

impl Runtime {
    pub fn name(self) -> &'static str {
        match self {
            Runtime::Containerd => "containerd",
            Runtime::Crio => "CRI-O",
            Runtime::CriDockerd => "cri-dockerd",
        }
    }

    /// The name of its systemd unit.
    pub const fn unit(self) -> &'static str {
        match self {
            Runtime::Containerd => "containerd",
            Runtime::Crio => "crio",
            Runtime::CriDockerd => "cri-docker",
        }
    }

    /// By the path it listens on: runtimes keep the name of their socket wherever it is put.
    fn by_socket(path: &str) -> Option<Self> {
        let file = path.rsplit('/').next()?;
        SOCKETS.iter().find(|(_, _, name)| *name == file).map(|it| it.0)
    }

    /// By what it calls itself over CRI.
    fn by_name(name: &str) -> Option<Self> {
        match name {
            "containerd" => Some(Runtime::Containerd),
            "cri-o" => Some(Runtime::Crio),
            "docker" => Some(Runtime::CriDockerd),
            _ => None,
        }
    }

    pub fn socket(self) -> &'static str {
        match self {
            Runtime::Containerd => "/run/containerd/containerd.sock",
            Runtime::Crio => "/run/crio/crio.sock",
            Runtime::CriDockerd => "/run/cri-dockerd.sock",
        }
    }
}

impl Facts {
    /// The runtimes whose sockets are there. A socket that is there need not answer.
    pub fn runtime_sockets(&self) -> Known<Vec<Runtime>> {
        let mut found = Vec::new();
        for (runtime, dir, name) in SOCKETS {
            if self.entry(dir, name)?.is_some_and(|entry| entry.is_socket()) {
                found.push(runtime);
            }
        }
        Ok(found)
    }

    /// The only socket that counts is the one that a person named (`--cri-socket`), whatever others there are.
    pub fn name_socket(&mut self, path: &str) {
        self.insert(NAMED.to_owned(), Ok(Capture::text(path)));
    }

    /// The path of the socket that a person named.
    pub fn named_socket(&self) -> Option<&str> {
        self.get(NAMED).ok().map(|named| named.text.as_str())
    }

    /// The path of the socket on which the kubelet asks its runtime, on a machine that has joined: on its command line, else
    /// in its configuration. `None`: it has not joined, or nothing names one.
    pub fn kubelets_socket(&self) -> Option<String> {
        const FLAG: &str = "--container-runtime-endpoint";
        if !self.has_joined() {
            return None;
        }
        // What runs decides; where nothing runs, what would.
        let of_command = |name: &str| self.kubelet_command().ok()?.flag(name).map(|(value, _)| value.to_owned());
        let flag = |name: &str| match self.kubelet_process() {
            Ok(Some(process)) => process.flag(name).map(str::to_owned),
            _ => of_command(name),
        };
        let configured = || {
            let is_read = flag("--config").is_none_or(|path| path == kubelet_config::FILE);
            self.kubelet_config().ok().filter(|_| is_read)?.container_runtime_endpoint
        };
        let endpoint = flag(FLAG).or_else(configured)?;
        let path = endpoint.strip_prefix("unix://").unwrap_or(&endpoint);
        path.starts_with('/').then(|| path.to_owned())
    }

    /// The socket that alone counts: a person named it, or the kubelet of a machine that has joined uses it.
    pub fn chosen_socket(&self) -> Option<String> {
        self.named_socket().map(str::to_owned).or_else(|| self.kubelets_socket())
    }

    /// The runtime this machine is meant to use: the one that was named, or that its kubelet uses, else the one that answered,
    /// else the one whose socket is there, else the one that is installed; containerd where nothing tells another.
    pub fn runtime(&self) -> Runtime {
        let (named, status) = (self.chosen_socket(), self.runtime_status().unwrap_or_default());
        let answered = named.as_deref().or(status.endpoint.as_deref()).and_then(Runtime::by_socket);
        let answered = answered.or_else(|| Runtime::by_name(status.name.as_deref()?));
        let socket = || self.runtime_sockets().ok()?.first().copied().filter(|_| named.is_none());
        let installed = || {
            SOCKETS.map(|it| it.0).into_iter().find(|it| self.unit_state(it.unit()).is_ok_and(|state| state.is_there()))
        };
        answered.or_else(socket).or_else(installed).unwrap_or(Runtime::Containerd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Why;
    use crate::fact::join_state::sample::{clean, joined, kubelet_state};
    use crate::fact::pki::sample::SampleAuthority;
    use crate::testing::facts;

    const SOCKET: &str = "srw-rw----";

    #[test]
    fn only_sockets_count() {
        let known = facts()
            .with_dir("/run/containerd", &[(SOCKET, "containerd.sock"), (SOCKET, "containerd.sock.ttrpc")])
            .without_dir("/run/crio")
            .with_dir("/run", &[("drwxr-xr-x", "cri-dockerd.sock")]);
        assert_eq!(known.runtime_sockets(), Ok(vec![Runtime::Containerd]));
        assert!(known.without(Source::Dir("/run/crio"), Why::Denied).runtime_sockets().is_err());
    }

    #[test]
    fn the_runtime_is_the_one_that_answered_then_the_socket_then_the_unit() {
        let unit = facts().with_query(
            &unit::SHOW,
            "Id=crio.service\nLoadState=loaded\n\nId=containerd.service\nLoadState=not-found\n",
        );
        assert_eq!(unit.runtime(), Runtime::Crio);
        let socket = unit
            .with_dir("/run", &[(SOCKET, "cri-dockerd.sock")])
            .without_dir("/run/crio")
            .without_dir("/run/containerd");
        assert_eq!(socket.runtime(), Runtime::CriDockerd);
        let status = r#"{"endpoint":"unix:///run/containerd/containerd.sock","status":{"conditions":[]}}"#;
        assert_eq!(socket.with_cri("status", status).runtime(), Runtime::Containerd);
        assert_eq!(facts().runtime(), Runtime::Containerd);
    }

    #[test]
    fn the_runtime_that_was_named_is_the_one_whatever_else_there_is() {
        let status = |name: &str| format!(r#"{{"version":{{"runtimeName":"{name}"}},"status":{{"conditions":[]}}}}"#);
        for (path, calls_itself, expected) in [
            ("/run/cri-dockerd.sock", None, Runtime::CriDockerd),
            ("/run/elsewhere/containerd.sock", None, Runtime::Containerd),
            ("/run/my.sock", Some("cri-o"), Runtime::Crio),
            ("/run/my.sock", Some("docker"), Runtime::CriDockerd),
            ("/run/my.sock", Some("new"), Runtime::Containerd),
            ("/run/my.sock", None, Runtime::Containerd),
        ] {
            let mut known = facts().with_dir("/run/crio", &[(SOCKET, "crio.sock")]);
            if let Some(name) = calls_itself {
                known = known.with_cri("status", &status(name));
            }
            known.name_socket(path);
            assert_eq!((known.runtime(), known.named_socket()), (expected, Some(path)), "{path} {calls_itself:?}");
        }
    }

    #[test]
    fn a_kubelet_that_has_joined_says_which_socket_it_uses() {
        let ca = SampleAuthority::make();
        let config = |endpoint: &str| kubelet_config::sample::with("").replace("\"\"", endpoint);
        let joined = || joined(&ca).with_file(kubelet_config::FILE, &config("unix:///run/elsewhere/containerd.sock"));
        let flags = "KUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=unix:///run/crio/crio.sock\"\n";
        let command = |facts: Facts| {
            facts.with_query(&unit::KUBELET, &unit::sample::packaged()).with_file(unit::KUBEADM_FLAGS, flags)
        };
        let runs = |facts: Facts, args: &str| {
            let state = format!("{}MainPID=7\n", kubelet_state("active", "running"));
            facts
                .with_query(&unit::SHOW, &state)
                .with_query(&process::KUBELET, &format!("7 60 /usr/bin/kubelet --kubeconfig=/k {args}\n"))
        };
        let elsewhere = Some("/run/elsewhere/containerd.sock");
        for (name, facts, expected) in [
            ("by its configuration", joined(), elsewhere),
            ("by kubeadm's flags, which count more", command(joined()), Some("/run/crio/crio.sock")),
            ("by its command line", runs(joined(), "--container-runtime-endpoint /run/x.sock"), Some("/run/x.sock")),
            ("the flags came after it was started", runs(command(joined()), ""), elsewhere),
            ("it reads another configuration", runs(joined(), "--config=/etc/kubelet.yaml"), None),
            ("the kubelet's default", joined().with_file(kubelet_config::FILE, &config("\"\"")), None),
            ("over TCP", joined().with_file(kubelet_config::FILE, &config("tcp://127.0.0.1:1")), None),
            ("left by a join that is over", joined().with_file(pki::CLIENT, &ca.node("system:node:w1", 2026)), None),
            ("never joined", clean().with_file(kubelet_config::FILE, &config("unix:///run/x.sock")), None),
        ] {
            assert_eq!(facts.kubelets_socket().as_deref(), expected, "{name}");
            let mut facts = facts;
            facts.name_socket("/run/my.sock");
            assert_eq!(facts.chosen_socket().as_deref(), Some("/run/my.sock"), "{name}: a person's word counts first");
        }
        assert_eq!(command(joined()).runtime(), Runtime::Crio);
    }

    #[test]
    fn every_runtime_has_its_socket_where_it_is_looked_for() {
        for (runtime, dir, name) in SOCKETS {
            assert_eq!(runtime.socket(), format!("{dir}/{name}"));
        }
    }
}
