//! What the lab builds, kept outside the clone under a name made from its inputs: the same inputs are never built twice,
//! and changed inputs never meet an old result. An entry is made beside its place and renamed, so a half-made one is
//! never seen.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use ring::digest::{Context, SHA256};

use crate::error::{During, Result, said};

/// Sixty-four bits tell a few hundred entries apart.
const KEY_LENGTH: usize = 16;

pub struct Cache {
    root: PathBuf,
    built: Mutex<Vec<String>>,
}

/// Gathers what a result depends on. Each part is framed by its length, so that no two lists look alike.
#[derive(Clone)]
pub struct CacheKey(Context);

impl CacheKey {
    pub fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    pub fn part(mut self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    pub fn file(self, path: &Path) -> Result<Self> {
        Ok(self.part(fs::read(path).at("read", path)?))
    }

    /// An entry's place is its content's name.
    pub fn entry(self, path: &Path) -> Self {
        self.part(path.file_name().unwrap_or_default().as_encoded_bytes())
    }

    fn name(self) -> String {
        hex(self.0.finish().as_ref()).chars().take(KEY_LENGTH).collect()
    }
}

pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Cache {
    /// `$CARRICK_LAB_CACHE`, else the user's cache folder.
    pub fn open() -> Result<Self> {
        let root =
            match (std::env::var_os("CARRICK_LAB_CACHE"), std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))
            {
                (Some(named), ..) => PathBuf::from(named),
                (None, Some(caches), _) => PathBuf::from(caches).join("carrick-lab"),
                (None, None, Some(home)) => PathBuf::from(home).join(".cache/carrick-lab"),
                (None, None, None) => {
                    return said(
                        "neither CARRICK_LAB_CACHE nor HOME is set: where should the lab keep what it builds?",
                    );
                }
            };
        Self::at(&root)
    }

    pub fn at(root: &Path) -> Result<Self> {
        fs::create_dir_all(root).at("make", root)?;
        let root = fs::canonicalize(root).at("find", root)?;
        Ok(Self { root, built: Mutex::default() })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory `kind-KEY`, where it is there.
    pub fn find(&self, kind: &str, key: CacheKey) -> Option<PathBuf> {
        Some(self.place(kind, key)).filter(|place| place.exists())
    }

    fn place(&self, kind: &str, key: CacheKey) -> PathBuf {
        self.root.join(format!("{kind}-{}", key.name()))
    }

    /// The directory `kind-KEY`, made by `build` where it is not there yet.
    pub fn entry(&self, kind: &str, key: CacheKey, build: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let place = self.place(kind, key);
        if let Ok(entry) = File::open(&place) {
            // For `prune`; an entry that cannot be touched is still good.
            let _ = entry.set_modified(SystemTime::now());
            return Ok(place);
        }
        let raw = self.root.join(format!("half-{kind}"));
        discard(&raw)?;
        fs::create_dir_all(&raw).at("make", &raw)?;
        build(&raw)?;
        fs::rename(&raw, &place).at("put in place", &place)?;
        if let Ok(mut built) = self.built.lock() {
            built.push(kind.to_owned());
        }
        Ok(place)
    }

    /// Removes entries that no run has used for a long time: of older versions, or of a branch long merged.
    pub fn prune(&self) -> Result<()> {
        for entry in fs::read_dir(&self.root).at("list", &self.root)?.flatten() {
            let used = entry.metadata().and_then(|entry| entry.modified());
            let unused = used.is_ok_and(|used| used.elapsed().is_ok_and(|unused| unused > KEPT_UNUSED));
            if unused && is_entry(&entry.file_name().to_string_lossy()) {
                discard(&entry.path())?;
            }
        }
        Ok(())
    }

    /// What this run had to build.
    pub fn built(&self) -> Vec<String> {
        self.built.lock().map(|built| built.clone()).unwrap_or_default()
    }
}

/// Long enough for a branch that is worked on now and then.
const KEPT_UNUSED: Duration = Duration::from_hours(14 * 24);

/// Whether a name is `KIND-KEY`; there are other things in the cache, which are not ours to judge by their age.
fn is_entry(name: &str) -> bool {
    name.rsplit_once('-')
        .is_some_and(|(_, key)| key.len() == KEY_LENGTH && key.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Removes a tree, which may not be there.
pub fn discard(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.at("remove", path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_built_once_and_a_failed_one_is_not_there() {
        let dir = tempfile::tempdir().expect("a scratch folder");
        let cache = Cache::at(dir.path()).expect("a cache");
        let failed = cache.entry("thing", CacheKey::new().part("a"), |place| {
            fs::write(place.join("half"), "").during(String::new)?;
            said("no luck")
        });
        assert!(failed.is_err());
        let path = cache.entry("thing", CacheKey::new().part("a"), |place| {
            assert!(!place.join("half").exists(), "a half-made entry was taken over");
            fs::write(place.join("whole"), "").during(String::new)
        });
        let path = path.expect("built");
        assert!(path.join("whole").exists());
        assert_eq!(cache.entry("thing", CacheKey::new().part("a"), |_| said("built twice")).expect("cached"), path);
        assert_eq!(cache.built(), ["thing"]);
    }

    #[test]
    fn only_entries_that_nobody_used_for_long_are_removed() {
        let dir = tempfile::tempdir().expect("a scratch folder");
        let cache = Cache::at(dir.path()).expect("a cache");
        let old = SystemTime::now() - KEPT_UNUSED - Duration::from_mins(1);
        for name in ["thing-0123456789abcdef", "used-0123456789abcdef", "labs", "thing-short"] {
            let place = dir.path().join(name);
            fs::create_dir(&place).expect("made");
            if !name.starts_with("used") {
                File::open(&place).and_then(|place| place.set_modified(old)).expect("aged");
            }
        }
        cache.prune().expect("pruned");
        let mut left: Vec<String> = fs::read_dir(dir.path())
            .expect("listed")
            .flatten()
            .map(|entry| entry.file_name().display().to_string())
            .collect();
        left.sort();
        assert_eq!(left, ["labs", "thing-short", "used-0123456789abcdef"]);
    }

    #[test]
    fn keys_tell_lists_apart() {
        assert_ne!(CacheKey::new().part("ab").part("c").name(), CacheKey::new().part("a").part("bc").name());
        assert_eq!(CacheKey::new().part("ab").name(), CacheKey::new().part("ab").name());
    }
}
