//! What a page must be like, whatever the report; and two whole pages, to be looked at.

use carrick_core::check::CheckPolicy;
use carrick_core::judge::{self, Ignore};
use carrick_core::report::example;

use super::*;

/// The pages the tests look at: as `diagnose` and `check` make them, with nothing in them, with too much in them.
fn pages() -> Vec<(&'static str, String)> {
    let machine = carrick_core::fact::example::troubled_worker();
    let check = judge::check(&machine, &CheckPolicy::default(), &Ignore::default());
    vec![
        ("diagnosis", render(&example::standalone_kubelet())),
        ("hostile", render(&example::hostile_and_crowded())),
        ("check", render(&check)),
        ("no reading", render(&Report { reading: None, ..example::standalone_kubelet() })),
        ("nothing wrong", render(&without_causes(Overall::Pass))),
        ("cause unknown", render(&without_causes(Overall::Unknown))),
        ("empty", render(&empty())),
    ]
}

fn empty() -> Report {
    Report {
        host: String::new(),
        verdict: Overall::Unknown,
        causes: Vec::new(),
        findings: Vec::new(),
        subsystems: Vec::new(),
        reading: Some(Reading::default()),
        ..example::standalone_kubelet()
    }
}

fn without_causes(verdict: Overall) -> Report {
    let mut report = example::standalone_kubelet();
    report.causes.clear();
    report.findings.clear();
    if let Some(reading) = &mut report.reading {
        reading.symptoms.clear();
    }
    Report { verdict, ..report }
}

/// A tag as it stands in a page.
struct Tag<'a> {
    name: &'a str,
    closing: bool,
    attributes: Vec<(&'a str, &'a str)>,
}

/// Every tag of a page, as simply as can be: in text, all marks are escaped.
fn tags(page: &str) -> Vec<Tag<'_>> {
    page.split('<')
        .skip(1)
        .map(|piece| {
            let (inside, _) = piece.split_once('>').unwrap_or_else(|| panic!("a tag without an end: {piece:.60}"));
            let closing = inside.starts_with('/');
            let inside = inside.trim_start_matches('/');
            let (name, rest) = inside.split_once(' ').unwrap_or((inside, ""));
            let mut parts = rest.split('"');
            let mut attributes = Vec::new();
            while let (Some(attribute), Some(value)) = (parts.next(), parts.next()) {
                attributes.push((attribute.trim().trim_end_matches('='), value));
            }
            Tag { name, closing, attributes }
        })
        .collect()
}

#[test]
fn every_tag_is_known_and_closed() {
    const KNOWN: &str = "a article body caption code dd desc details dl dt figcaption figure footer g h1 h2 h3 h4 head header html li \
                         main nav ol p path pre rect section span strong style summary svg table tbody td text th thead \
                         title tr ul";
    for (name, page) in pages() {
        let mut open: Vec<&str> = Vec::new();
        for tag in tags(&page).iter().filter(|tag| !matches!(tag.name, "!doctype" | "meta")) {
            assert!(KNOWN.split_whitespace().any(|known| known == tag.name), "{name}: <{}>", tag.name);
            if tag.closing {
                assert_eq!(open.pop(), Some(tag.name), "{name}");
            } else {
                open.push(tag.name);
            }
        }
        assert!(open.is_empty(), "{name}: {open:?}");
    }
}

#[test]
fn nothing_is_loaded_and_nothing_runs() {
    const KNOWN: &str = "aria-hidden aria-label aria-labelledby charset class colspan content d height href html http-equiv id \
                         lang name role scope transform viewBox width x y";
    for (name, page) in pages() {
        assert!(page.contains("content=\"default-src &#39;none&#39;; style-src &#39;unsafe-inline&#39;;"), "{name}");
        for tag in tags(&page) {
            for (attribute, value) in tag.attributes {
                assert!(KNOWN.split(' ').any(|known| known == attribute.trim()), "{name}: {} {attribute}", tag.name);
                assert!(attribute != "href" || value.starts_with('#'), "{name}: {attribute}={value}");
            }
        }
    }
    for word in ["url(", "@import", "<", "expression", "http"] {
        assert!(!STYLE.contains(word), "{word}");
    }
}

#[test]
fn every_link_leads_somewhere_and_every_id_is_unique() {
    for (name, page) in pages() {
        let tags = tags(&page);
        let all = |wanted: &str| -> Vec<&str> {
            let of = tags.iter().flat_map(|tag| &tag.attributes).filter(|(attribute, _)| *attribute == wanted);
            of.map(|(_, value)| *value).collect()
        };
        let ids = all("id");
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), ids.len(), "{name}: {ids:?}");
        for link in all("href") {
            assert!(ids.iter().any(|id| Some(*id) == link.strip_prefix('#')), "{name}: {link}");
        }
    }
}

#[test]
fn hostile_text_is_shown_and_does_nothing() {
    let page = render(&example::hostile_and_crowded());
    for tag in ["<script", "<img", "</style></title>", "onload='"] {
        assert!(!page.contains(tag), "{tag}");
    }
    assert_eq!(page.matches("</style>").count(), 1);
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(page.contains("]]&gt;--&gt;"));
    assert!(!page.chars().any(|c| c.is_control() && c != '\n'));
    assert!(!page.contains('\u{202e}'));
}

#[test]
fn the_answer_comes_first() {
    let page = render(&example::standalone_kubelet());
    let place = |words: &str| page.find(words).unwrap_or_else(|| panic!("no {words:?}"));
    let order = [
        ">fail<",
        ">root cause, certain<",
        "the kubelet runs without --kubeconfig",
        "line 243",
        "apt-get install --reinstall",
        ">Therefore<",
        "kubeadm gave up waiting",
        "<figure class=\"causal\">",
        "<figure class=\"timeline\">",
        "4 min 12 s",
        ">as expected<",
        "apt-mark hold",
        "Before a join this is as it should be",
        "homelab was NotReady",
        "kubectl get csr",
    ];
    let places: Vec<usize> = order.into_iter().map(place).collect();
    assert!(places.is_sorted(), "{:?}", order.iter().zip(places).collect::<Vec<_>>());
}

#[test]
fn a_report_that_knows_little_says_so() {
    let rows = [
        (without_causes(Overall::Pass), "Nothing is wrong, as far as this capture shows."),
        (without_causes(Overall::Unknown), "The cause cannot be told from this capture."),
        (without_causes(Overall::Fail), "Something is broken, and its cause is not in this capture."),
        (Report { reading: None, ..empty() }, "Cannot tell whether it is ready to join: nothing was seen."),
    ];
    for (report, words) in rows {
        let page = render(&report);
        assert!(page.contains(words), "{words}");
        assert!(!page.contains("class=\"causal\""), "{words}");
    }
    let unknown = render(&without_causes(Overall::Unknown));
    let next = unknown.find("What to run next").unwrap();
    assert!(unknown.find("id=\"timeline\"").is_some_and(|timeline| next < timeline));
}

#[test]
fn counts_and_sizes() {
    assert_eq!([0, 999, 1_204, 1_000_000].map(thousands), ["0", "999", "1,204", "1,000,000"]);
    assert_eq!([12, 104_448, 2_500_000, 1_250_000_000].map(size), ["12 bytes", "104 kB", "2 MB", "1.2 GB"]);
}

/// Kept as pages of their own, so that a change can be looked at; the lab opens them in a browser.
#[test]
fn whole_pages() {
    let settled = |page: String| page.replace(concat!("carrick ", env!("CARGO_PKG_VERSION")), "carrick VERSION");
    insta::assert_binary_snapshot!("diagnosis.html", settled(render(&example::standalone_kubelet())).into_bytes());
    insta::assert_binary_snapshot!("hostile.html", settled(render(&example::hostile_and_crowded())).into_bytes());
}
