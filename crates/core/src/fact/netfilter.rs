//! What a chain of packet filter rules does to one packet, where some of it cannot be told.
//!
//! iptables and nftables are read into the same shape: rules already held against the packet ([`NetfilterRule::fits`]),
//! walked here. Every end that is possible is kept: only when all of them agree is there an answer.
//!
//! Shared: `iptables` and `nftables`.

use std::collections::BTreeMap;

use super::cidr::Cidr;
use super::listen::Proto;

/// The first packet of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub proto: Proto,
    pub port: u16,
    pub path: PacketPath,
}

/// Where it comes from and goes to, as far as that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketPath {
    /// From another machine to this one.
    Input {
        /// The link it comes in by, where known.
        link: Option<String>,
        /// The network it comes from: this machine's own, where its neighbours are.
        from: Option<Cidr>,
    },
    /// From a pod behind this bridge to a pod of another node.
    FromPods(Bridge),
    /// From a pod of another node to one behind this bridge.
    ToPods(Bridge),
    /// From a pod to another, of a network that is still to come.
    BetweenPods,
}

/// The bridge that pods of this node are on, and their range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridge {
    pub link: String,
    pub pods: Cidr,
}

impl Packet {
    pub fn is_forwarded(&self) -> bool {
        !matches!(self.path, PacketPath::Input { .. })
    }

    /// A rule about an incoming link. Bridges of pods and containers are never where another machine comes in; another
    /// card may be.
    pub fn link_fits(&self, rule: &str) -> Fits {
        match &self.path {
            PacketPath::Input { link: Some(link), .. } if is_named(link, rule) => Fits::Yes,
            PacketPath::Input { .. } if is_inner(rule) => Fits::No,
            PacketPath::Input { .. } => Fits::Maybe,
            PacketPath::FromPods(bridge) => Fits::of(is_named(&bridge.link, rule)),
            PacketPath::ToPods(bridge) => beyond(bridge, rule),
            PacketPath::BetweenPods => any_pod_link(rule),
        }
    }

    /// A rule about an outgoing link, which a packet for this machine has not.
    pub fn out_link_fits(&self, rule: &str) -> Fits {
        match &self.path {
            PacketPath::Input { .. } => Fits::Maybe,
            PacketPath::FromPods(bridge) => beyond(bridge, rule),
            PacketPath::ToPods(bridge) => Fits::of(is_named(&bridge.link, rule)),
            PacketPath::BetweenPods => any_pod_link(rule),
        }
    }

    /// A rule about the source. Where it speaks of strangers it may still be the cluster it speaks of.
    pub fn source_fits(&self, rule: Cidr) -> Fits {
        match &self.path {
            _ if rule.length() == 0 => Fits::Yes,
            PacketPath::Input { from: Some(from), .. } if rule.covers(from.network()) => Fits::Yes,
            PacketPath::FromPods(bridge) => range_fits(bridge.pods, rule),
            _ if rule.address.is_loopback() => Fits::No,
            _ => Fits::Maybe,
        }
    }

    /// Whether a rule's source has nothing to do with this machine's neighbours.
    pub fn is_stranger(&self, rule: Cidr) -> bool {
        match &self.path {
            PacketPath::Input { from, .. } => from.is_some_and(|from| !from.overlaps(rule)),
            PacketPath::FromPods(bridge) => !bridge.pods.overlaps(rule),
            PacketPath::ToPods(_) | PacketPath::BetweenPods => false,
        }
    }

    /// A rule about the destination: an address of this machine, or a pod's.
    pub fn destination_fits(&self, rule: Cidr) -> Fits {
        let broadcast = rule.address == std::net::IpAddr::from([255, 255, 255, 255]);
        match &self.path {
            _ if rule.length() == 0 => Fits::Yes,
            _ if rule.address.is_loopback() || rule.address.is_multicast() || broadcast => Fits::No,
            PacketPath::ToPods(bridge) => range_fits(bridge.pods, rule),
            PacketPath::Input { .. } | PacketPath::FromPods(_) | PacketPath::BetweenPods => Fits::Maybe,
        }
    }

    /// A rule about the kind of the destination: this machine's own addresses are `LOCAL`.
    pub fn destination_kind_fits(&self, kinds: &str) -> Fits {
        let own = if self.is_forwarded() { "UNICAST" } else { "LOCAL" };
        Fits::of(kinds.split(',').any(|kind| kind.eq_ignore_ascii_case(own)))
    }
}

/// Whether a rule's name of a link, which may end in a wildcard, is this link's.
fn is_named(link: &str, rule: &str) -> bool {
    rule.strip_suffix(['+', '*']).map_or(link == rule, |prefix| link.starts_with(prefix))
}

/// The link on the other side of this node's pods: a tunnel or a card, never their own bridge.
fn beyond(bridge: &Bridge, rule: &str) -> Fits {
    if rule == "*" || rule == "+" {
        Fits::Yes
    } else if rule == bridge.link || is_of_containers(rule) {
        Fits::No
    } else {
        Fits::Maybe
    }
}

fn any_pod_link(rule: &str) -> Fits {
    if is_of_containers(rule) { Fits::No } else { Fits::Maybe }
}

fn range_fits(range: Cidr, rule: Cidr) -> Fits {
    if rule.covers(range.network()) {
        Fits::Yes
    } else if rule.overlaps(range) {
        Fits::Maybe
    } else {
        Fits::No
    }
}

/// A link of pods and containers: no other machine comes in by it.
pub fn is_inner(link: &str) -> bool {
    is_of_containers(link) || super::net::is_of_pod_network(link)
}

/// A link of containers and machines that are no pods.
fn is_of_containers(link: &str) -> bool {
    // docker calls the bridges of networks that somebody made `br-` and twelve hex digits.
    let id = link.strip_prefix("br-").unwrap_or_default();
    let is_of_docker = id.len() == 12 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    ["lo", "docker0", "virbr0", "podman0"].contains(&link) || is_of_docker
}

/// Whether a rule speaks of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fits {
    Yes,
    No,
    Maybe,
}

impl Fits {
    pub fn of(fits: bool) -> Self {
        if fits { Fits::Yes } else { Fits::No }
    }

    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Fits::No, _) | (_, Fits::No) => Fits::No,
            (Fits::Yes, Fits::Yes) => Fits::Yes,
            _ => Fits::Maybe,
        }
    }

    pub fn or(self, other: Self) -> Self {
        self.not().and(other.not()).not()
    }

    #[allow(clippy::should_implement_trait)] // `!fits` reads as if it were a bool.
    pub fn not(self) -> Self {
        match self {
            Fits::Yes => Fits::No,
            Fits::No => Fits::Yes,
            Fits::Maybe => Fits::Maybe,
        }
    }
}

/// What a rule does with a packet it fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Accept,
    /// Drop or reject.
    Block,
    Return,
    Jump(String),
    Goto(String),
    /// A program outside the kernel decides, or something unheard of.
    Ask,
    /// Sets a mark that later rules may read.
    Mark,
    /// Logs, counts: the packet goes on.
    Nothing,
}

/// A rule, held against the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetfilterRule {
    /// For a packet nobody has marked, as one from another machine is.
    pub fits: Fits,
    /// Once a rule has marked it.
    pub fits_marked: Fits,
    pub action: Action,
    /// As a person finds it.
    pub text: String,
}

/// The chains of one table.
pub type Chains = BTreeMap<String, Vec<NetfilterRule>>;

/// A chain that the kernel calls, and what it does with what no rule decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseChain {
    pub chain: String,
    pub accepts: bool,
    /// The policy, as a person finds it.
    pub text: String,
}

/// Whether the packet gets in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passage {
    Open,
    /// The rule that stops it, whatever the rest of the ruleset says.
    Blocked(String),
    /// The word of firewalld or ufw that it is stopped. Neither lists every rule there is.
    SaidBlocked(String),
    /// The rule it hangs on.
    CannotTell(String),
}

impl Passage {
    /// Both have to let it pass.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Passage::Blocked(rule), _) | (_, Passage::Blocked(rule)) => Passage::Blocked(rule),
            (Passage::CannotTell(rule), _) | (_, Passage::CannotTell(rule)) => Passage::CannotTell(rule),
            (Passage::SaidBlocked(word), _) | (_, Passage::SaidBlocked(word)) => Passage::SaidBlocked(word),
            (Passage::Open, Passage::Open) => Passage::Open,
        }
    }
}

/// Rules looked at before giving up: a busy node has some ten thousand, all of which are passed once; a ruleset that
/// comes
/// to more has been made to.
const MAX_STEPS: u32 = 200_000;
/// The kernel allows 16 jumps within each other.
const MAX_DEPTH: u32 = 32;

/// The ends a chain can come to.
#[derive(Default)]
struct Ends {
    accepted: bool,
    blocked: Option<String>,
    falls_through: bool,
    /// The first rule that may or may not fit.
    hangs_on: Option<String>,
}

impl Ends {
    fn merge(&mut self, other: Ends) {
        self.accepted |= other.accepted;
        self.blocked = self.blocked.take().or(other.blocked);
        self.hangs_on = self.hangs_on.take().or(other.hangs_on);
    }
}

/// Walks base chains one after the other; a mark set in one is seen in the next.
#[derive(Default)]
pub struct Walk {
    marked: bool,
    steps: u32,
}

impl Walk {
    pub fn passage(&mut self, chains: &Chains, base: &BaseChain) -> Passage {
        let mut ends = self.chain(chains, &base.chain, 0);
        if ends.falls_through {
            if base.accepts {
                ends.accepted = true;
            } else {
                ends.blocked = ends.blocked.or_else(|| Some(base.text.clone()));
            }
        }
        match ends.blocked {
            None => Passage::Open,
            Some(rule) if !ends.accepted => Passage::Blocked(rule),
            Some(rule) => Passage::CannotTell(ends.hangs_on.unwrap_or(rule)),
        }
    }

    fn chain(&mut self, chains: &Chains, name: &str, depth: u32) -> Ends {
        let mut ends = Ends::default();
        for rule in chains.get(name).map(Vec::as_slice).unwrap_or_default() {
            self.steps = self.steps.saturating_add(1);
            if depth > MAX_DEPTH || self.steps > MAX_STEPS {
                ends.merge(undecided("too many rules to follow"));
                ends.falls_through = true;
                return ends;
            }
            let fits = if self.marked { rule.fits_marked } else { rule.fits };
            if fits == Fits::No {
                continue;
            }
            let step = self.step(chains, rule, depth);
            let ends_here = !step.falls_through && fits == Fits::Yes;
            let returns = matches!(rule.action, Action::Return | Action::Goto(_)) && fits == Fits::Yes;
            if fits == Fits::Maybe && rule.action != Action::Nothing {
                ends.hangs_on.get_or_insert_with(|| rule.text.clone());
            }
            let falls_to_caller = step.falls_through && matches!(rule.action, Action::Return | Action::Goto(_));
            ends.merge(step);
            ends.falls_through |= falls_to_caller;
            if ends_here || returns {
                return ends;
            }
        }
        ends.falls_through = true;
        ends
    }

    fn step(&mut self, chains: &Chains, rule: &NetfilterRule, depth: u32) -> Ends {
        let on = Ends { falls_through: true, ..Ends::default() };
        match &rule.action {
            Action::Accept => Ends { accepted: true, ..Ends::default() },
            Action::Block => Ends { blocked: Some(rule.text.clone()), ..Ends::default() },
            Action::Jump(chain) | Action::Goto(chain) => self.chain(chains, chain, depth + 1),
            Action::Ask => undecided(&rule.text),
            Action::Mark => {
                self.marked = true;
                on
            }
            Action::Return | Action::Nothing => on,
        }
    }
}

fn undecided(text: &str) -> Ends {
    Ends { accepted: true, blocked: Some(text.to_owned()), hangs_on: Some(text.to_owned()), falls_through: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Fits::{Maybe, No, Yes};

    fn rule(fits: Fits, action: Action) -> NetfilterRule {
        NetfilterRule { fits, fits_marked: fits, text: format!("{fits:?} {action:?}"), action }
    }

    fn walk(accepts: bool, rules: Vec<NetfilterRule>, others: &[(&str, Vec<NetfilterRule>)]) -> Passage {
        let mut chains: Chains = others.iter().map(|(name, rules)| ((*name).to_owned(), rules.clone())).collect();
        chains.insert("INPUT".into(), rules);
        Walk::default().passage(&chains, &BaseChain { chain: "INPUT".into(), accepts, text: "policy".into() })
    }

    fn jump(fits: Fits) -> NetfilterRule {
        rule(fits, Action::Jump("sub".into()))
    }

    fn goto(fits: Fits) -> NetfilterRule {
        rule(fits, Action::Goto("sub".into()))
    }

    #[test]
    fn three_values_combine() {
        assert_eq!([Yes.and(Yes), Yes.and(Maybe), Maybe.and(No), No.and(Yes)], [Yes, Maybe, No, No]);
        assert_eq!([Yes.or(No), Maybe.or(No), Maybe.or(Yes), No.or(No)], [Yes, Maybe, Yes, No]);
    }

    #[test]
    fn the_first_rule_that_fits_decides_and_then_the_policy() {
        assert_eq!(walk(true, vec![], &[]), Passage::Open);
        assert_eq!(walk(false, vec![], &[]), Passage::Blocked("policy".into()));
        assert_eq!(walk(false, vec![rule(Yes, Action::Accept), rule(Yes, Action::Block)], &[]), Passage::Open);
        assert_eq!(
            walk(true, vec![rule(No, Action::Accept), rule(Yes, Action::Block)], &[]),
            Passage::Blocked("Yes Block".into())
        );
        assert_eq!(walk(true, vec![rule(Yes, Action::Nothing)], &[]), Passage::Open);
    }

    #[test]
    fn what_may_fit_leaves_both_ends_open() {
        let maybe = rule(Maybe, Action::Accept);
        assert_eq!(walk(false, vec![maybe.clone()], &[]), Passage::CannotTell("Maybe Accept".into()));
        assert_eq!(walk(true, vec![maybe], &[]), Passage::Open, "both ends are the same");
        let block = rule(Maybe, Action::Block);
        assert_eq!(walk(true, vec![block.clone()], &[]), Passage::CannotTell("Maybe Block".into()));
        assert_eq!(walk(false, vec![block], &[]), Passage::Blocked("Maybe Block".into()));
        assert_eq!(walk(true, vec![rule(Yes, Action::Ask)], &[]), Passage::CannotTell("Yes Ask".into()));
        assert_eq!(walk(true, vec![rule(Maybe, Action::Nothing)], &[]), Passage::Open);
    }

    #[test]
    fn a_jump_comes_back_and_a_goto_does_not() {
        let empty = [("sub", vec![])];
        let block = rule(Yes, Action::Block);
        assert_eq!(walk(true, vec![jump(Yes), block.clone()], &empty), Passage::Blocked("Yes Block".into()));
        assert_eq!(walk(true, vec![goto(Yes), block.clone()], &empty), Passage::Open, "past the rest, to the policy");
        assert_eq!(walk(true, vec![goto(Maybe), block.clone()], &empty), Passage::CannotTell(goto(Maybe).text));
        let accepts = [("sub", vec![rule(Yes, Action::Accept)])];
        assert_eq!(walk(false, vec![jump(Yes), block.clone()], &accepts), Passage::Open);
        assert_eq!(walk(false, vec![jump(Maybe), block.clone()], &accepts), Passage::CannotTell(jump(Maybe).text));
        let returns = [("sub", vec![rule(Yes, Action::Return), rule(Yes, Action::Block)])];
        assert_eq!(walk(true, vec![jump(Yes)], &returns), Passage::Open);
        let may_return = [("sub", vec![rule(Maybe, Action::Return), rule(Yes, Action::Block)])];
        assert_eq!(walk(true, vec![jump(Yes)], &may_return), Passage::CannotTell("Maybe Return".into()));
    }

    #[test]
    fn marks_are_read_only_after_they_are_set() {
        let reads = NetfilterRule { fits: No, fits_marked: Maybe, action: Action::Block, text: "mark".into() };
        assert_eq!(walk(true, vec![reads.clone()], &[]), Passage::Open);
        assert_eq!(
            walk(true, vec![rule(Maybe, Action::Mark), reads.clone()], &[]),
            Passage::CannotTell("Maybe Mark".into())
        );
        assert_eq!(walk(true, vec![rule(No, Action::Mark), reads], &[]), Passage::Open);
    }

    #[test]
    fn a_ruleset_that_never_ends_is_not_followed_for_ever() {
        let around = vec![rule(Maybe, Action::Jump("INPUT".into())), rule(Maybe, Action::Jump("INPUT".into()))];
        assert!(matches!(walk(true, around, &[]), Passage::CannotTell(_)));
    }

    #[test]
    fn any_block_blocks() {
        let (open, blocked, unclear) = (Passage::Open, Passage::Blocked("b".into()), Passage::CannotTell("c".into()));
        assert_eq!(open.clone().and(open.clone()), open);
        assert_eq!(open.clone().and(unclear.clone()), unclear);
        assert_eq!(unclear.clone().and(blocked.clone()), blocked);
        assert_eq!(blocked.clone().and(unclear), blocked);
    }

    #[test]
    fn knows_what_a_packet_looks_like() {
        let path = PacketPath::Input { link: Some("eth0".into()), from: Some("192.168.4.61/24".parse().unwrap()) };
        let packet = Packet { proto: Proto::Tcp, port: 10250, path };
        for (rule, fits) in [
            ("eth0", Yes),
            ("eth+", Yes),
            ("eth*", Yes),
            ("lo", No),
            ("cni0", No),
            ("docker0", No),
            ("br-0123456789ab", No),
            ("br-lan", Maybe),
            ("eth1", Maybe),
        ] {
            assert_eq!(packet.link_fits(rule), fits, "{rule}");
        }
        for (rule, fits) in [
            ("0.0.0.0/0", Yes),
            ("192.168.0.0/16", Yes),
            ("192.168.4.0/24", Yes),
            ("192.168.4.62/32", Maybe),
            ("10.0.0.0/8", Maybe),
            ("127.0.0.0/8", No),
        ] {
            assert_eq!(packet.source_fits(rule.parse().unwrap()), fits, "{rule}");
        }
        assert!(packet.is_stranger("10.0.0.0/8".parse().unwrap()));
        assert!(!packet.is_stranger("192.168.4.62/32".parse().unwrap()));
        for (rule, fits) in [
            ("224.0.0.251/32", No),
            ("255.255.255.255/32", No),
            ("127.0.0.0/8", No),
            ("192.168.4.61/32", Maybe),
            ("0.0.0.0/0", Yes),
        ] {
            assert_eq!(packet.destination_fits(rule.parse().unwrap()), fits, "{rule}");
        }
    }
}
