//! The Go programs: each wrapper module under `lab/go/` pins one release by its `go.sum`; here is what is built from it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Part, root};
use crate::cache::{Cache, CacheKey};
use crate::error::{During, Result, said};
use crate::need::{GCC, LIBC, Tools};
use crate::run::{Done, Run, pause, which};
use crate::say;

pub const KUBERNETES: &str = "v1.34.4";
/// Older than kubeadm 1.34 supports, and the last that speaks only v1beta3.
pub const OLD_KUBERNETES: &str = "v1.29.15";
pub const ETCD_TAG: &str = "3.6.5-0";
pub const COREDNS: &str = "v1.12.1";
pub const FLANNEL: &str = "v0.26.7";

/// What the modules' `go` lines ask for.
const OLDEST_GO: (u32, u32) = (1, 24);
/// kube-apiserver alone takes three minutes on two idle cores; a busy machine may take five times that.
const BUILD_DEADLINE: Duration = Duration::from_mins(40);
/// A module proxy that says "too many requests" means a minute, not a second.
const PROXY_PAUSE: Duration = Duration::from_secs(40);
const PROXY_TRIES: usize = 20;

struct Module {
    name: &'static str,
    programs: &'static [(&'static str, &'static str)],
    stamp: Stamp,
}

/// How a program learns its own version, which Go modules do not tell it.
#[derive(Clone, Copy)]
enum Stamp {
    Plain,
    Kubernetes {
        version: &'static str,
        minor: &'static str,
    },
    /// flannel's udp backend is C, and has to be linked statically to run in an image of its own.
    FlannelInC,
}

static MODULES: &[Module] = &[
    Module {
        name: "kube",
        programs: &[
            ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
            ("kubeadm", "k8s.io/kubernetes/cmd/kubeadm"),
            ("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
            ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
            ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
            ("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
            ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
        ],
        stamp: Stamp::Kubernetes { version: KUBERNETES, minor: "34" },
    },
    Module {
        name: "kube-1.29",
        programs: &[("kubeadm", "k8s.io/kubernetes/cmd/kubeadm"), ("kubelet", "k8s.io/kubernetes/cmd/kubelet")],
        stamp: Stamp::Kubernetes { version: OLD_KUBERNETES, minor: "29" },
    },
    Module {
        name: "etcd",
        programs: &[("etcd", "go.etcd.io/etcd/server/v3"), ("etcdutl", "go.etcd.io/etcd/etcdutl/v3")],
        stamp: Stamp::Plain,
    },
    Module { name: "coredns", programs: &[("coredns", "github.com/coredns/coredns")], stamp: Stamp::Plain },
    Module { name: "flannel", programs: &[("flanneld", "github.com/flannel-io/flannel")], stamp: Stamp::FlannelInC },
    Module {
        name: "cni-flannel",
        programs: &[("flannel", "github.com/containernetworking/plugins/plugins/meta/flannel")],
        stamp: Stamp::Plain,
    },
    Module { name: "pause", programs: &[("pause", "carrick.lab/pause")], stamp: Stamp::Plain },
];

/// Builds the modules among some parts; where their programs are.
pub fn build(cache: &Cache, wanted: &BTreeSet<Part>) -> Result<Vec<(Part, PathBuf)>> {
    let mut go = None;
    let mut built = Vec::new();
    for part in wanted {
        if let Part::Programs(name) = part {
            built.push((*part, module(name)?.build(cache, &mut go)?));
        }
    }
    Ok(built)
}

fn module(name: &str) -> Result<&'static Module> {
    match MODULES.iter().find(|module| module.name == name) {
        Some(module) => Ok(module),
        None => said(format!("lab/go has no module {name}")),
    }
}

/// What has to be installed here to build a module that is not there yet. Debian's Go comes with a compiler for C.
pub fn tools_to_build(cache: &Cache, name: &str, tools: &mut Tools) -> Result<()> {
    let module = module(name)?;
    let in_c = matches!(module.stamp, Stamp::FlannelInC) && which("go").is_some();
    if in_c && module.place(cache)?.is_none() {
        tools.wanted(&[GCC, LIBC], &format!("building {name}"));
    }
    Ok(())
}

/// Every program of the current release that is there; where two releases have the same, the newer.
pub fn current(cache: &Cache) -> Result<Vec<PathBuf>> {
    let mut programs = Vec::new();
    for module in MODULES.iter().filter(|module| module.name != "kube-1.29") {
        let place = module.place(cache)?;
        programs.extend(place.and_then(|place| fs::read_dir(place).ok()).into_iter().flatten().flatten());
    }
    Ok(programs.into_iter().map(|entry| entry.path()).collect())
}

impl Module {
    fn source(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("go").join(self.name)
    }

    fn key(&self) -> Result<CacheKey> {
        let source = self.source();
        let mut key = CacheKey::new().part(self.stamp.linker_flags()).file(&source.join("go.mod"))?;
        for optional in ["go.sum", "main.go"] {
            let file = source.join(optional);
            key = if file.exists() { key.file(&file)? } else { key };
        }
        for (name, package) in self.programs {
            key = key.part(name).part(package);
        }
        Ok(key)
    }

    /// Where its programs are, if they are built.
    fn place(&self, cache: &Cache) -> Result<Option<PathBuf>> {
        Ok(cache.find(&self.entry(), self.key()?))
    }

    fn entry(&self) -> String {
        format!("go-{}", self.name)
    }

    fn build(&self, cache: &Cache, go: &mut Option<Go>) -> Result<PathBuf> {
        cache.entry(&self.entry(), self.key()?, |place| {
            let go = match go {
                Some(go) => go,
                None => go.insert(Go::find(cache)?),
            };
            for (name, package) in self.programs {
                let took = self.build_one(go, &place.join(name), package)?;
                say::line(&format!("built {name} ({}) in {}", self.name, say::seconds(took)));
            }
            Ok(())
        })
    }

    fn build_one(&self, go: &Go, out: &Path, package: &str) -> Result<Duration> {
        let what = format!("building {package}");
        let mut took = Duration::ZERO;
        for _ in 0..PROXY_TRIES {
            let args = ["build", "-trimpath", "-ldflags", &self.stamp.linker_flags(), "-o"];
            let run = go.run(&self.source(), out, &args, package)?;
            let cgo = if matches!(self.stamp, Stamp::FlannelInC) { "1" } else { "0" };
            let done = run.env("CGO_ENABLED", cgo).deadline(BUILD_DEADLINE).narrated(&what).done()?;
            took += done.took;
            if !asked_too_often(&done) {
                done.success()?;
                return Ok(took);
            }
            say::line(&format!(
                "the Go module proxy says \"too many requests\"; {what} goes on in {} s",
                PROXY_PAUSE.as_secs()
            ));
            pause(PROXY_PAUSE)?;
        }
        said(format!("{what}: the Go module proxy kept saying \"too many requests\""))
    }
}

fn asked_too_often(done: &Done) -> bool {
    !done.status.success() && done.err.contains("429 Too Many Requests")
}

impl Stamp {
    fn linker_flags(self) -> String {
        match self {
            Self::Plain => "-s -w".to_owned(),
            Self::FlannelInC => {
                format!("-s -w -extldflags -static -X github.com/flannel-io/flannel/pkg/version.Version={FLANNEL}")
            }
            Self::Kubernetes { version, minor } => {
                let values =
                    [("gitVersion", version), ("gitMajor", "1"), ("gitMinor", minor), ("gitTreeState", "clean")];
                let packages = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];
                let set = packages
                    .iter()
                    .flat_map(|package| values.map(|(variable, value)| format!("-X {package}.{variable}={value}")));
                ["-s".to_owned(), "-w".to_owned()].into_iter().chain(set).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

/// A Go toolchain: the one on PATH, or Debian's, run inside a Debian root of its own.
enum Go {
    OnPath,
    Debian { root: PathBuf, caches: PathBuf },
}

impl Go {
    fn find(cache: &Cache) -> Result<Self> {
        if which("go").is_some() {
            let version = Run::new("go").args(["env", "GOVERSION"]).env("GOTOOLCHAIN", "local").ok()?;
            let version = version.trim();
            if parse(version).is_some_and(|have| have >= OLDEST_GO) {
                say::line(&format!("Go: {version} from PATH"));
                return Ok(Self::OnPath);
            }
            say::line(&format!("Go: {version} from PATH is too old (go{}.{} is asked for)", OLDEST_GO.0, OLDEST_GO.1));
        }
        say::line(&format!("Go: Debian 13's package {}", root::GO_PACKAGE));
        let caches = cache.root().join("go-caches");
        fs::create_dir_all(&caches).at("make", &caches)?;
        Ok(Self::Debian { root: root::with_go(cache)?, caches })
    }

    fn run(&self, source: &Path, out: &Path, args: &[&str], package: &str) -> Result<Run> {
        let run = match self {
            Self::OnPath => Run::new("go").args(args).arg(out).arg(package).within(source),
            Self::Debian { root, caches } => {
                let (Some(folder), Some(name)) = (out.parent(), out.file_name()) else {
                    return said(format!("{} is no place for a program", out.display()));
                };
                let inside = Path::new("/out").join(name);
                let run = Run::new("unshare").args(["--mount", "--propagation", "private", "sh", "-c"]);
                let run = run.arg(include_str!("../../files/go-in-root.sh")).arg("go-in-root");
                run.args([root.as_path(), source, folder, caches]).args(args).arg(inside).arg(package)
            }
        };
        Ok(run.env("GOFLAGS", "-mod=readonly -buildvcs=false").env("GOTOOLCHAIN", "local").without_env("GOROOT"))
    }
}

/// `go1.26.8` → (1, 26).
fn parse(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.strip_prefix("go")?.split(['.', 'r', 'b', '-', ' ']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_says_its_version_in_several_ways() {
        for (text, version) in
            [("go1.26.8", Some((1, 26))), ("go1.24rc2", Some((1, 24))), ("go1.24", Some((1, 24))), ("devel", None)]
        {
            assert_eq!(parse(text), version, "{text}");
        }
    }

    #[test]
    fn every_module_is_there_and_pinned() {
        for module in MODULES {
            module.key().expect("go.mod can be read");
            let pinned = module.source().join("go.sum").exists() || module.source().join("main.go").exists();
            assert!(pinned, "{}: neither go.sum nor a program of our own", module.name);
        }
    }
}
