//! The sockets container runtimes answer on.

use super::{Facts, Known, Source};

pub const SOURCES: &[Source] = &[Source::Dir("/run/containerd"), Source::Dir("/run/crio"), Source::Dir("/run")];

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
    pub fn unit(self) -> &'static str {
        match self {
            Runtime::Containerd => "containerd",
            Runtime::Crio => "crio",
            Runtime::CriDockerd => "cri-docker",
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

    /// The runtime this machine is meant to use: the one that answered, else the one whose socket is there, else the
    /// one that is installed; containerd where nothing tells another.
    pub fn runtime(&self) -> Runtime {
        let endpoint = self.runtime_status().ok().and_then(|status| status.endpoint).unwrap_or_default();
        let answered = SOCKETS.iter().find(|(_, _, name)| endpoint.ends_with(&format!("/{name}"))).map(|it| it.0);
        let socket = || self.runtime_sockets().ok()?.first().copied();
        let installed = || {
            SOCKETS.map(|it| it.0).into_iter().find(|it| self.unit_state(it.unit()).is_ok_and(|state| state.is_there()))
        };
        answered.or_else(socket).or_else(installed).unwrap_or(Runtime::Containerd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{Why, unit};
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
    fn every_runtime_has_its_socket_where_it_is_looked_for() {
        for (runtime, dir, name) in SOCKETS {
            assert_eq!(runtime.socket(), format!("{dir}/{name}"));
        }
    }
}
