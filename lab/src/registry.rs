//! A registry of container images with one image in it, in the lab's own network: what a machine has to pull comes from here.
//! As much of the OCI distribution protocol as containerd speaks to pull, over plain HTTP.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use tar::Archive;

use crate::error::{During, Error, Result};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// A machine of the lab asks at once, or not at all.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than any request of a client that pulls.
const LONGEST_HEAD: u64 = 16 << 10;

/// An image as an archive has it: blobs by digest, and which of them is the manifest.
struct Image {
    blobs: BTreeMap<String, Vec<u8>>,
    manifest: String,
}

pub struct Registry {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    over: Arc<AtomicBool>,
    serving: Option<JoinHandle<()>>,
}

impl Registry {
    /// Serves an image of an OCI archive at an address of the namespace that the calling thread is in.
    pub fn start(at: Ipv4Addr, archive: &Path, image: &str) -> Result<Self> {
        let image = Image::read(archive, image)?;
        let listener = TcpListener::bind((at, 0)).during(|| format!("cannot listen at {at}"))?;
        let address = listener.local_addr().during(|| "cannot learn the port".to_owned())?;
        let (asked, over) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicBool>::default());
        let (noted, ends) = (Arc::clone(&asked), Arc::clone(&over));
        let serving = thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                // A client that goes away in the middle asks again, or fails the case that wants it.
                let _ = image.serve(client, |path| {
                    if let Ok(mut asked) = noted.lock() {
                        asked.push(path.to_owned());
                    }
                });
            }
        });
        Ok(Self { address, asked, over, serving: Some(serving) })
    }

    /// The paths that were asked for so far.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().map(|asked| asked.clone()).unwrap_or_default()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // It waits for a client: this is one.
        let _ = TcpStream::connect_timeout(&self.address, PATIENCE);
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

impl Image {
    fn read(archive: &Path, image: &str) -> Result<Self> {
        let mut blobs = BTreeMap::new();
        let mut index = Value::Null;
        let mut archive_file = Archive::new(File::open(archive).at("open", archive)?);
        for entry in archive_file.entries().at("read", archive)? {
            let mut entry = entry.at("read", archive)?;
            let path = entry.path().at("read", archive)?.display().to_string();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).at("read", archive)?;
            match path.strip_prefix("blobs/sha256/") {
                Some(digest) => drop(blobs.insert(format!("sha256:{digest}"), bytes)),
                None if path == "index.json" => index = serde_json::from_slice(&bytes).unwrap_or_default(),
                None => {}
            }
        }
        let mut manifests = index["manifests"].as_array().into_iter().flatten();
        let found = manifests.find(|one| one["annotations"]["io.containerd.image.name"] == image);
        let manifest = found.and_then(|one| one["digest"].as_str()).map(str::to_owned);
        let manifest = manifest.ok_or_else(|| Error::Said(format!("{} has no {image}", archive.display())))?;
        Ok(Self { blobs, manifest })
    }

    /// Answers one request, after its path was noted.
    fn serve(&self, mut client: TcpStream, note: impl FnOnce(&str)) -> std::io::Result<()> {
        client.set_read_timeout(Some(PATIENCE))?;
        client.set_write_timeout(Some(PATIENCE))?;
        let mut head = BufReader::new(client.try_clone()?.take(LONGEST_HEAD)).lines();
        let first = head.next().transpose()?.unwrap_or_default();
        while head.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
        let (method, path) = first.split_once(' ').unwrap_or_default();
        let path = path.split([' ', '?']).next().unwrap_or_default();
        note(path);
        let (status, kind, digest, body) = self.answer(path);
        let digest = digest.map(|digest| format!("Docker-Content-Digest: {digest}\r\n")).unwrap_or_default();
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{digest}Connection: close\r\n\r\n"
        );
        client.write_all(head.as_bytes())?;
        if method == "HEAD" { Ok(()) } else { client.write_all(body) }
    }

    fn answer(&self, path: &str) -> (&'static str, &'static str, Option<&str>, &[u8]) {
        let last = path.rsplit('/').next().unwrap_or_default();
        let (digest, kind) = if !path.contains("/manifests/") {
            (last, "application/octet-stream")
        } else if last.starts_with("sha256:") {
            (last, MANIFEST)
        } else {
            (self.manifest.as_str(), MANIFEST)
        };
        match self.blobs.get_key_value(digest) {
            Some((digest, blob)) => ("200 OK", kind, Some(digest), blob),
            None if path == "/v2/" => ("200 OK", "application/json", None, b"{}"),
            None => ("404 Not Found", "application/json", None, b"{}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_digests_and_blobs_are_found_and_others_are_not() {
        let blobs =
            [("sha256:aa", "manifest"), ("sha256:bb", "layer")].map(|(digest, text)| (digest.to_owned(), text.into()));
        let image = Image { blobs: blobs.into(), manifest: "sha256:aa".to_owned() };
        for (path, status, kind, body) in [
            ("/v2/", "200 OK", "application/json", "{}"),
            ("/v2/pause/manifests/3.10.1", "200 OK", MANIFEST, "manifest"),
            ("/v2/pause/manifests/sha256:aa", "200 OK", MANIFEST, "manifest"),
            ("/v2/pause/blobs/sha256:bb", "200 OK", "application/octet-stream", "layer"),
            ("/v2/pause/blobs/sha256:cc", "404 Not Found", "application/json", "{}"),
            ("/v2/pause/manifests/sha256:cc", "404 Not Found", "application/json", "{}"),
        ] {
            let (is, of, _, there) = image.answer(path);
            assert_eq!((is, of, there), (status, kind, body.as_bytes()), "{path}");
        }
    }

    #[test]
    fn it_answers_over_http_and_ends() {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("images.tar");
        let mut tar = tar::Builder::new(File::create(&archive).unwrap());
        let index =
            r#"{"manifests": [{"digest": "sha256:aa", "annotations": {"io.containerd.image.name": "here/pause:1"}}]}"#;
        for (name, text) in [("index.json", index), ("blobs/sha256/aa", "manifest")] {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_cksum();
            tar.append_data(&mut header, name, text.as_bytes()).unwrap();
        }
        tar.into_inner().unwrap();
        let registry = Registry::start(Ipv4Addr::LOCALHOST, &archive, "here/pause:1").unwrap();
        let mut client = TcpStream::connect(registry.address).unwrap();
        client.write_all(b"GET /v2/pause/manifests/1?ns=here HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
        let mut said = String::new();
        client.read_to_string(&mut said).unwrap();
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with("\r\n\r\nmanifest"), "{said}");
        assert_eq!(registry.asked(), ["/v2/pause/manifests/1"]);
        assert!(Registry::start(Ipv4Addr::LOCALHOST, &archive, "here/other:1").is_err());
    }
}
