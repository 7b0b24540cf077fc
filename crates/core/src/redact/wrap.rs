//! A value that goes on in the next line: wrapped base64, a list's next item, a block of YAML.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::kind::pair;
use super::shape::{Known, compile};
use super::value::{self, Ends};

/// A value of this length may have been wrapped; base64 is wrapped at 64 or 76.
const WRAPPED: usize = 40;
/// What a line after the first must have to be taken for more of it: a word of a sentence is shorter.
const SHORTEST: usize = 16;

/// No terminal and no program wraps at more.
const WIDEST: usize = 1000;

/// The only word of a line, without what quotes it, where base64 is all there is to it.
pub(super) fn core(line: &[u8]) -> Option<&[u8]> {
    let is_around = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`>|#,\\".contains(byte);
    let start = line.iter().position(|byte| !is_around(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !is_around(byte)).map_or(start, |last| last + 1);
    let core = line.get(start..end)?;
    core.iter().all(|&byte| is_letter(byte)).then_some(core)
}

/// Of base64 in any of its alphabets, of a JWT; an escaped line end has a backslash.
fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=_-.\\".contains(&byte)
}

/// Lines of base64 that go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wrapped {
    /// The length of the last line, once there was one.
    width: Option<usize>,
    /// The end of a private key may stand in one.
    pub key: bool,
}

/// A line of what was wrapped.
pub(super) enum More {
    /// Another may follow.
    Then(Wrapped),
    Last,
}

impl Wrapped {
    /// Where a value that stands at the end of its line, or nearly so, may go on in the next.
    pub(super) fn after(kind: &str, value: &[u8], rest: &[u8]) -> Option<Self> {
        let at_end = rest.iter().all(|byte| byte.is_ascii_whitespace() || b"\"'`\\,".contains(byte));
        let may = !matches!(kind, "bootstrap-token" | "certificate-key" | "url-password" | "password-hash");
        let is_base64 = value.len() >= WRAPPED && value.iter().all(|&byte| is_letter(byte));
        (may && at_end && is_base64).then_some(Wrapped { width: None, key: kind == "private-key" })
    }

    pub(super) fn key() -> Self {
        Wrapped { width: None, key: true }
    }

    /// What this line is of it; `None` where it is none.
    pub(super) fn takes(self, line: &[u8]) -> Option<More> {
        let core = core(line).filter(|core| core.iter().any(u8::is_ascii_alphanumeric))?;
        let fits = self.width.map_or((SHORTEST..=WIDEST).contains(&core.len()), |width| core.len() <= width);
        let last = self.width.is_some_and(|width| core.len() < width);
        let next = Wrapped { width: Some(core.len()), ..self };
        fits.then_some(if last { More::Last } else { More::Then(next) })
    }
}

/// What the next line is expected to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    CertificateKey,
    /// The argument of a flag.
    Argument(&'static str),
    /// `value: …`, below `name: DB_PASSWORD`; of what only may be a secret by its name, what looks like one.
    Pair {
        certain: bool,
    },
}

/// kubeadm: `[upload-certs] Using certificate key:`, and the key in the next line.
static KEY_AHEAD: LazyLock<Regex> =
    LazyLock::new(|| compile(r"(?i)certificate[-_ ]?keys?QUOTE?\s{0,4}[:=,]?\s{0,4}\\?\s*$"));
/// A flag by itself: an item of a list, or the last word before the line goes on.
static FLAG_AHEAD: LazyLock<Regex> = LazyLock::new(|| {
    const FLAG: &str = r"--[a-z0-9-]{0,40}(?P<f>password|passphrase|token|secret|api-key|secret-key|access-key)";
    compile(&format!(
        r"(?i)(?:^[\s>|\[]*(?:-\s+)?QUOTE?{FLAG}QUOTE?,?\s*\\?\s*$|\s{}\s*\\\s*$)",
        FLAG.replace("<f>", "<g>")
    ))
});
/// A name that is a value, and the last of its line.
static NAME_AHEAD: LazyLock<Regex> = LazyLock::new(|| {
    let (certain, possible) = (pair::CERTAIN, pair::POSSIBLE);
    compile(&format!(
        r"(?i)\b(?:name|key)(?:QUOTE)?\s{{0,8}}[:=]\s{{0,8}}QUOTE?(?:(?P<n>{certain})|(?P<p>{possible}))QUOTE?\s*,?\s*$"
    ))
});
static ITS_VALUE: LazyLock<Regex> = LazyLock::new(|| compile(r"(?i)^[\s>|]*QUOTE?valueQUOTE?\s*[:=]\s*"));
static CERTIFICATE_KEY: LazyLock<Regex> = LazyLock::new(|| compile(r"^[\s>|\x22'-]*(?P<s>[0-9a-f]{64})\b"));
static ARGUMENT: LazyLock<Regex> = LazyLock::new(|| compile(r"^[\s>|]*(?:-\s+)?"));

impl Awaited {
    pub(super) fn after(line: &[u8]) -> Option<Self> {
        if KEY_AHEAD.is_match(line) {
            return Some(Awaited::CertificateKey);
        }
        if let Some(found) = NAME_AHEAD.captures(line) {
            let (name, certain) =
                found.name("n").map(|name| (name, true)).or(found.name("p").map(|name| (name, false)))?;
            return (!value::names_something_else(name.as_bytes())).then_some(Awaited::Pair { certain });
        }
        let found = FLAG_AHEAD.captures(line)?;
        let flag = found.name("f").or(found.name("g"))?;
        let is_token = flag.as_bytes().eq_ignore_ascii_case(b"token");
        Some(Awaited::Argument(if is_token { "token" } else { "credential" }))
    }

    /// The value that this line begins with.
    pub(super) fn value(self, line: &[u8]) -> Option<(&'static str, std::ops::Range<usize>)> {
        match self {
            Awaited::CertificateKey => {
                let value = CERTIFICATE_KEY.captures(line)?.name("s")?.range();
                Some(("certificate-key", value))
            }
            Awaited::Pair { certain } => {
                let from = ITS_VALUE.find(line)?.end();
                let (value, ends) = value::at(line, from, Ends::Line)?;
                let quoted = ends != Ends::Line;
                let known = Known { name: b"", value: line.get(value.clone())?, after: line.get(value.end..)?, quoted };
                let is_secret = if certain { value::no_path(&known) } else { value::random(&known) };
                is_secret.then_some(("credential", value))
            }
            Awaited::Argument(kind) => {
                let from = ARGUMENT.find(line)?.end();
                let (value, ends) = value::at(line, from, Ends::Word)?;
                let quoted = ends != Ends::Word;
                let known = Known { name: b"", value: line.get(value.clone())?, after: line.get(value.end..)?, quoted };
                (!known.value.starts_with(b"-") && value::any(&known)).then_some((kind, value))
            }
        }
    }
}

/// `password: |`, and the value in the lines below that are further in.
static BLOCK_AHEAD: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"(?i)^(?P<i>[\s>]*(?:-\s+)?)QUOTE?[a-z0-9_.-]{0,60}(?:password|passphrase|token|secret|api[-_]?key)QUOTE?\s*:\s*[|>][0-9+-]{0,2}\s*$",
    )
});

/// A block of YAML that is a secret: it goes on while lines are further in than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    indent: usize,
    begun: bool,
}

impl Block {
    pub(super) fn after(line: &[u8]) -> Option<Self> {
        Some(Block { indent: BLOCK_AHEAD.captures(line)?.name("i")?.len(), begun: false })
    }

    /// Whether this line belongs to it; then, whether it is the first.
    pub(super) fn takes(self, line: &[u8]) -> Option<bool> {
        let indent = line.iter().take_while(|byte| b" \t>".contains(byte)).count();
        (line.trim_ascii().is_empty() || indent > self.indent).then_some(!self.begun)
    }

    pub(super) fn begun(self) -> Self {
        Block { begun: true, ..self }
    }
}
