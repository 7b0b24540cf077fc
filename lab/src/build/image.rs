//! Container images without a registry: OCI layouts in a tar, made from local programs, under the names kubeadm asks for.
//! Nothing in them has a time or an owner of its own: the same programs give the same digests.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use super::go::{COREDNS, ETCD_TAG, FLANNEL, KUBERNETES};
use super::root::Suite;
use super::{Part, Parts};
use crate::cache::{Cache, CacheKey, discard, hex};
use crate::error::{During, Result, said};
use crate::run::Run;

pub const PAUSE: &str = "registry.k8s.io/pause:3.10.1";
/// With a registry's host in the name: a bare `lab/busybox` would be looked up at Docker's.
pub const BUSYBOX: &str = "lab.local/busybox:1";

/// What they are made from.
pub const BELOW: &[Part] = &[
    DEBIAN,
    Part::Programs("kube"),
    Part::Programs("etcd"),
    Part::Programs("coredns"),
    Part::Programs("flannel"),
    Part::Programs("pause"),
];
const DEBIAN: Part = Part::Root(Suite::Bookworm);

/// The archives in the folder of the images: what a control plane runs, and what a worker does.
pub const CONTROL: &str = "control.tar";
pub const WORKER: &str = "worker.tar";

pub fn build(cache: &Cache, parts: &Parts) -> Result<PathBuf> {
    let mut key = CacheKey::new().entry(parts.place(DEBIAN)?).part("images 1");
    for part in BELOW.iter().filter(|part| **part != DEBIAN) {
        key = key.entry(parts.place(*part)?);
    }
    cache.entry("images", key, |place| {
        let mut layout = Layout::new(place)?;
        let images = images(&mut layout, parts)?;
        layout.archive(&place.join(CONTROL), &images)?;
        let worker: Vec<Image> = images.into_iter().filter(|image| image.worker).collect();
        layout.archive(&place.join(WORKER), &worker)?;
        discard(&layout.blobs)
    })
}

fn images(layout: &mut Layout, parts: &Parts) -> Result<Vec<Image>> {
    let (kube, debian) = (parts.programs("kube")?, parts.place(DEBIAN)?);
    let network = layout.layer(|tar| network_tools(tar, debian))?;
    let mut images = Vec::new();
    for program in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        images.push(layout.program(&format!("registry.k8s.io/{program}:{KUBERNETES}"), kube, program, &[])?);
    }
    let etcd = format!("registry.k8s.io/etcd:{ETCD_TAG}");
    images.push(layout.program(&etcd, parts.programs("etcd")?, "etcd", &[])?);
    let proxy = format!("registry.k8s.io/kube-proxy:{KUBERNETES}");
    images.push(layout.program(&proxy, kube, "kube-proxy", &[&network])?.on_workers());
    let coredns = format!("registry.k8s.io/coredns/coredns:{COREDNS}");
    images.push(layout.program(&coredns, parts.programs("coredns")?, "coredns", &[])?.on_workers());
    images.push(layout.program(PAUSE, parts.programs("pause")?, "pause", &[])?.on_workers());
    let flannel = format!("lab.local/flannel:{FLANNEL}");
    images.push(layout.program(&flannel, parts.programs("flannel")?, "flanneld", &[&network])?.on_workers());
    let busybox = layout.layer(|tar| shell_tools(tar, &debian.join("bin/busybox")))?;
    images.push(layout.image(BUSYBOX, "/bin/sh", &[&busybox])?.on_workers());
    Ok(images)
}

#[derive(Clone)]
struct Blob {
    digest: String,
    size: u64,
}

struct Image {
    name: String,
    manifest: Blob,
    blobs: Vec<Blob>,
    worker: bool,
}

impl Image {
    fn on_workers(mut self) -> Self {
        self.worker = true;
        self
    }
}

impl Blob {
    fn described(&self, kind: &str) -> Value {
        json!({ "mediaType": format!("application/vnd.oci.image.{kind}"), "digest": format!("sha256:{}", self.digest), "size": self.size })
    }
}

/// Blobs by digest, from which archives are put together.
struct Layout {
    blobs: PathBuf,
}

impl Layout {
    fn new(place: &Path) -> Result<Self> {
        let blobs = place.join("blobs");
        fs::create_dir_all(&blobs).at("make", &blobs)?;
        Ok(Self { blobs })
    }

    fn layer(&mut self, fill: impl FnOnce(&mut Tar) -> Result<()>) -> Result<Blob> {
        let raw = self.blobs.join("raw");
        let out = File::create(&raw).at("write", &raw)?;
        let mut tar = Builder::new(Digesting { inner: out, context: Context::new(&SHA256), size: 0 });
        fill(&mut tar)?;
        let written = tar.into_inner().at("write", &raw)?;
        let blob = Blob { digest: hex(written.context.finish().as_ref()), size: written.size };
        fs::rename(&raw, self.blobs.join(&blob.digest)).at("put in place", &raw)?;
        Ok(blob)
    }

    fn put(&mut self, value: &Value) -> Result<Blob> {
        let text = value.to_string();
        let blob =
            Blob { digest: hex(ring::digest::digest(&SHA256, text.as_bytes()).as_ref()), size: text.len() as u64 };
        fs::write(self.blobs.join(&blob.digest), text).at("write", &self.blobs)?;
        Ok(blob)
    }

    /// An image that is one program on top of other layers.
    fn program(&mut self, name: &str, folder: &Path, program: &str, below: &[&Blob]) -> Result<Image> {
        let layer = self.layer(|tar| {
            directory(tar, "tmp", 0o1777)?;
            directory(tar, "etc", 0o755)?;
            file(tar, &format!("usr/local/bin/{program}"), &folder.join(program))
        })?;
        let layers: Vec<&Blob> = below.iter().copied().chain([&layer]).collect();
        self.image(name, &format!("/usr/local/bin/{program}"), &layers)
    }

    fn image(&mut self, name: &str, entry_point: &str, layers: &[&Blob]) -> Result<Image> {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => return said(format!("the lab makes images for x86_64 and aarch64, not {other}")),
        };
        let config = self.put(&json!({
            "architecture": architecture,
            "os": "linux",
            "config": { "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], "Entrypoint": [entry_point] },
            "rootfs": { "type": "layers", "diff_ids": layers.iter().map(|layer| format!("sha256:{}", layer.digest)).collect::<Vec<_>>() },
        }))?;
        let manifest = self.put(&json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config.described("config.v1+json"),
            "layers": layers.iter().map(|layer| layer.described("layer.v1.tar")).collect::<Vec<_>>(),
        }))?;
        let blobs = layers.iter().map(|layer| (*layer).clone()).chain([config, manifest.clone()]).collect();
        Ok(Image { name: name.to_owned(), manifest, blobs, worker: false })
    }

    fn archive(&self, out: &Path, images: &[Image]) -> Result<()> {
        let file = File::create(out).at("write", out)?;
        let mut tar = Builder::new(file);
        let manifests = images.iter().map(|image| {
            let mut entry = image.manifest.described("manifest.v1+json");
            entry["annotations"] = json!({ "io.containerd.image.name": image.name });
            entry
        });
        let index = json!({ "schemaVersion": 2, "manifests": manifests.collect::<Vec<_>>() });
        for (name, text) in [("oci-layout", json!({ "imageLayoutVersion": "1.0.0" })), ("index.json", index)] {
            let text = text.to_string();
            let mut header = plain_header(EntryType::Regular, 0o644, text.len() as u64);
            tar.append_data(&mut header, name, text.as_bytes()).at("write", out)?;
        }
        let mut seen = BTreeSet::new();
        for blob in images.iter().flat_map(|image| &image.blobs).filter(|blob| seen.insert(blob.digest.clone())) {
            let path = self.blobs.join(&blob.digest);
            let content = File::open(&path).at("read", &path)?;
            let mut header = plain_header(EntryType::Regular, 0o644, blob.size);
            tar.append_data(&mut header, format!("blobs/sha256/{}", blob.digest), content).at("write", out)?;
        }
        tar.finish().at("write", out)
    }
}

type Tar = Builder<Digesting<File>>;

/// Knows the digest of what went through it.
struct Digesting<W> {
    inner: W,
    context: Context,
    size: u64,
}

impl<W: Write> Write for Digesting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.context.update(bytes.get(..written).unwrap_or_default());
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn plain_header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header
}

fn directory(tar: &mut Tar, name: &str, mode: u32) -> Result<()> {
    let mut header = plain_header(EntryType::Directory, mode, 0);
    tar.append_data(&mut header, name, io::empty()).during(|| format!("cannot add {name} to an image"))
}

fn file(tar: &mut Tar, name: &str, from: &Path) -> Result<()> {
    let content = File::open(from).at("read", from)?;
    let size = content.metadata().at("look at", from)?.len();
    let mut header = plain_header(EntryType::Regular, 0o755, size);
    tar.append_data(&mut header, name, content).at("add to an image:", from)
}

fn link(tar: &mut Tar, name: &str, target: &str) -> Result<()> {
    let mut header = plain_header(EntryType::Symlink, 0o777, 0);
    tar.append_link(&mut header, name, target).during(|| format!("cannot add {name} to an image"))
}

/// What kube-proxy and flannel call: iptables with its modules, conntrack and ip, and the libraries of all of them.
fn network_tools(tar: &mut Tar, debian: &Path) -> Result<()> {
    let modules = format!("usr/lib/{}-linux-gnu/xtables", std::env::consts::ARCH);
    for (name, target) in [("lib", "usr/lib"), ("bin", "usr/bin"), ("sbin", "usr/sbin")] {
        link(tar, name, target)?;
    }
    for folder in ["run", "etc", "lib64"] {
        directory(tar, folder, 0o755)?;
    }
    let mut programs: Vec<String> =
        ["usr/sbin/xtables-nft-multi", "usr/sbin/xtables-legacy-multi", "usr/sbin/conntrack", "usr/bin/ip"]
            .map(str::to_owned)
            .to_vec();
    programs.extend(names(&debian.join(&modules))?.into_iter().map(|name| format!("{modules}/{name}")));
    let mut libraries = BTreeSet::new();
    for program in &programs {
        file(tar, program, &resolved(debian, program)?)?;
        // A library that needs no other makes ldd fail; it says so on the other stream.
        let said = Run::new("chroot").arg(debian).args(["ldd", &format!("/{program}")]).done()?;
        libraries.extend(
            said.out
                .split_whitespace()
                .filter(|word| word.starts_with('/'))
                .map(|word| word.trim_end_matches(':').to_owned()),
        );
    }
    for library in libraries.iter().filter(|library| !programs.contains(&library.trim_start_matches('/').to_owned())) {
        let inside = library.trim_start_matches('/');
        let name = inside.strip_prefix("lib/").map_or(inside.to_owned(), |rest| format!("usr/lib/{rest}"));
        file(tar, &name, &resolved(debian, inside)?)?;
    }
    for tool in ["iptables", "ip6tables"] {
        for suffix in ["", "-save", "-restore"] {
            link(tar, &format!("usr/sbin/{tool}{suffix}"), "xtables-nft-multi")?;
        }
    }
    link(tar, "usr/sbin/ip", "../bin/ip")?;
    for table in ["etc/protocols", "etc/services"] {
        if debian.join(table).exists() {
            file(tar, table, &debian.join(table))?;
        }
    }
    Ok(())
}

/// The file behind a path inside a root, whose absolute links mean the root and not the machine's own `/`.
fn resolved(root: &Path, inside: &str) -> Result<PathBuf> {
    const LINKS: usize = 10;
    let mut place = root.join(inside);
    for _ in 0..LINKS {
        let Ok(target) = fs::read_link(&place) else { return Ok(place) };
        place = match target.strip_prefix("/") {
            Ok(absolute) => root.join(absolute),
            Err(_) => place.parent().unwrap_or(root).join(target),
        };
    }
    said(format!("{inside} is a link to a link to a link"))
}

fn shell_tools(tar: &mut Tar, busybox: &Path) -> Result<()> {
    directory(tar, "tmp", 0o1777)?;
    file(tar, "bin/busybox", busybox)?;
    let applets = Run::new(busybox).arg("--list").ok()?;
    for applet in applets.lines().filter(|applet| *applet != "busybox") {
        link(tar, &format!("bin/{applet}"), "busybox")?;
    }
    Ok(())
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .at("list", folder)?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}
