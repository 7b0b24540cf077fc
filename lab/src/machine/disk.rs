//! A machine's disk: an overlay over the shared layers, and plain folders where an overlay cannot lie on an overlay.

use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};

use crate::error::{During, Result, said};
use crate::run::Run;

/// containerd's snapshots are overlays themselves; etcd and the kubelet come along to keep all state in one place.
const PLAIN: &[&str] = &["containerd", "kubelet", "etcd"];

pub struct Disk {
    dir: PathBuf,
}

impl Disk {
    pub fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// What the machine sees as `/`.
    pub fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    /// What lies behind one of the plain folders, such as `containerd` for `/var/lib/containerd`.
    pub fn plain(&self, name: &str) -> PathBuf {
        self.dir.join("plain").join(name)
    }

    /// Mounts it: layers top first, and a copy of `containerd` as its image store.
    pub fn mount(&self, layers: &[&Path], containerd: Option<&Path>) -> Result<()> {
        for folder in ["upper", "work", "root", "plain"] {
            let place = self.dir.join(folder);
            fs::create_dir_all(&place).at("make", &place)?;
        }
        if let Some(template) = containerd {
            copy_tree(template, &self.plain("containerd"))?;
        }
        let layers = layers.iter().map(|layer| layer.display().to_string()).collect::<Vec<_>>().join(":");
        let dir = self.dir.display();
        let options = format!("lowerdir={layers},upperdir={dir}/upper,workdir={dir}/work\0");
        let options = std::ffi::CStr::from_bytes_with_nul(options.as_bytes()).map_err(io::Error::other);
        let options = options.during(|| format!("{dir} cannot be a mount option"))?;
        mount("carrick-lab", self.root(), "overlay", MountFlags::empty(), options).at("mount", &self.root())?;
        for name in PLAIN {
            let (from, to) = (self.plain(name), self.root().join("var/lib").join(name));
            for place in [&from, &to] {
                fs::create_dir_all(place).at("make", place)?;
            }
            mount_bind(&from, &to).at("mount", &to)?;
        }
        Ok(())
    }
}

/// A tree as it is, sharing what it can with what it is copied from.
pub fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    Run::new("cp").args(["-a", "--reflink=auto"]).arg(from).arg(to).ok().map(drop)
}

/// Makes a file system in a file, and mounts it. The file has holes where nothing was written. On XFS copies share what they are
/// copied from: an image store of 400 MB is there in 0.03 s, and takes no room.
pub fn mount_image(image: &Path, place: &Path) -> Result<()> {
    /// As a small server has it, and never filled: what machines write of their own is some megabytes each.
    const SIZE: u64 = 64 << 30;
    fs::File::create(image).and_then(|file| file.set_len(SIZE)).at("write", image)?;
    Run::new("mkfs.xfs").args(["-q", "-f", "-m", "reflink=1"]).arg(image).ok()?;
    Run::new("mount").args(["-o", "loop"]).arg(image).arg(place).ok().map(drop)
}

/// Unmounts everything below some folders, the latest first. Says so if anything stays: a tree with mounts in it must
/// never be removed, for what is mounted there is not ours.
pub fn unmount_below(folders: &[PathBuf]) -> Result<()> {
    for place in mounted_below(folders)?.iter().rev() {
        match unmount(place, UnmountFlags::DETACH) {
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error).at("unmount", place),
        }
    }
    match mounted_below(folders)?.as_slice() {
        [] => Ok(()),
        [first, ..] => said(format!("{} stays mounted", first.display())),
    }
}

pub fn mounted_below(folders: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let table = fs::read_to_string("/proc/self/mountinfo").during(|| "cannot read the mounts".to_owned())?;
    let places = table.lines().filter_map(|line| line.split(' ').nth(4)).map(|place| PathBuf::from(unescaped(place)));
    Ok(places.filter(|place| folders.iter().any(|folder| place.starts_with(folder))).collect())
}

/// The kernel writes blanks in paths as `\040`.
fn unescaped(place: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(place.to_owned(), |place, (code, character)| place.replace(code, character))
}
