//! The causal picture: what brought about what. Causes to the left, what follows from them to the right; on a phone, what
//! follows stands below its cause.

use carrick_core::report::{Confidence, Reading, Report};

use super::fit;
use super::markup::{Markup, classed, nothing};
use super::svg::{self, DrawingWidth, length, number};

/// More boxes than this are no picture any more; the lists below it have all of them.
const MOST: usize = 24;
/// How far from a cause something may be drawn; a longer chain ends in the last column.
const COLUMNS: usize = 3;

struct Node<'a> {
    id: &'a str,
    title: &'a str,
    /// Above the title: what it is.
    kind: String,
    class: &'static str,
    /// How many steps from a cause.
    column: usize,
}

struct Graph<'a> {
    nodes: Vec<Node<'a>>,
    /// From, to.
    edges: Vec<(usize, usize)>,
}

pub fn draw(report: &Report, reading: &Reading) -> Markup {
    if report.causes.is_empty() || reading.symptoms.is_empty() {
        return nothing();
    }
    let graph = Graph::of(report, reading);
    let about = graph.in_words();
    let drawn = DrawingWidth::BOTH.map(|room| {
        let boxes = match room {
            DrawingWidth::Wide => in_columns(&graph),
            DrawingWidth::Narrow => as_tree(&graph),
        };
        let height = boxes.iter().map(|one| one.top + one.height).fold(0.0, f64::max) + 2.0;
        let arrows =
            graph.edges.iter().filter(|(from, to)| graph.is_drawn(room, *from, *to)).filter_map(|(from, to)| {
                let (from, to) = (boxes.get(*from)?, boxes.get(*to)?);
                Some(if room == DrawingWidth::Wide { arrow_across(from, to) } else { arrow_down(from, to) })
            });
        let shapes = arrows.chain(boxes.iter().map(Placed::draw)).collect::<Vec<_>>();
        svg::picture(room, "causal", height, "What brought about what", &about, shapes)
    });
    classed("figure", "causal", drawn)
}

impl<'a> Graph<'a> {
    fn of(report: &'a Report, reading: &'a Reading) -> Self {
        let causes = report.causes.iter().enumerate().map(|(n, cause)| Node {
            id: &cause.id,
            title: &cause.title,
            kind: format!("{} · {}", if n == 0 { "root cause" } else { "cause" }, confidence(cause.confidence)),
            class: if n == 0 { "root" } else { "cause" },
            column: 0,
        });
        let symptoms = reading.symptoms.iter().map(|symptom| Node {
            id: &symptom.id,
            title: &symptom.title,
            kind: if symptom.count > 1 { format!("seen {} times", symptom.count) } else { "seen once".to_owned() },
            class: "symptom",
            column: 1,
        });
        let nodes: Vec<Node> = causes.chain(symptoms).take(MOST).collect();
        let mut graph = Graph { nodes, edges: Vec::new() };
        graph.edges = graph.links(report, reading);
        graph.settle();
        graph.simplify();
        graph
    }

    fn links(&self, report: &Report, reading: &Reading) -> Vec<(usize, usize)> {
        let find = |id: &str| self.nodes.iter().position(|node| node.id == id);
        let explained = report.causes.iter().flat_map(|cause| cause.explains.iter().map(|id| (&cause.id, id)));
        let followed = reading.symptoms.iter().flat_map(|symptom| symptom.because.iter().map(|id| (id, &symptom.id)));
        let mut edges: Vec<(usize, usize)> =
            explained.chain(followed).filter_map(|(from, to)| Some((find(from)?, find(to)?))).collect();
        edges.sort_unstable();
        edges.dedup();
        edges
    }

    /// Puts everything a column behind what it follows from. As many rounds as there are columns: a circle ends too.
    fn settle(&mut self) {
        for _ in 0..COLUMNS {
            for (from, to) in &self.edges {
                let behind = self.nodes.get(*from).map_or(0, |node| node.column + 1).min(COLUMNS - 1);
                if let Some(node) = self.nodes.get_mut(*to).filter(|node| node.class == "symptom") {
                    node.column = node.column.max(behind);
                }
            }
        }
    }

    /// Only arrows that lead on, and none that is also said by two others.
    fn simplify(&mut self) {
        let column = |n: usize| self.nodes.get(n).map(|node| node.column);
        let forward: Vec<(usize, usize)> =
            self.edges.iter().copied().filter(|(from, to)| column(*from) < column(*to)).collect();
        let by_way = |from, to| forward.iter().any(|edge| edge.0 == from && forward.contains(&(edge.1, to)));
        self.edges = forward.iter().copied().filter(|(from, to)| !by_way(*from, *to)).collect();
    }

    /// Whether two boxes stand in columns side by side.
    fn are_beside(&self, from: usize, to: usize) -> bool {
        let column = |n: usize| self.nodes.get(n).map(|node| node.column);
        column(from).map(|column| column + 1) == column(to)
    }

    /// What a box stands below where there is room for one arrow only.
    fn parent(&self, node: usize) -> Option<usize> {
        self.edges.iter().find(|(from, to)| *to == node && self.are_beside(*from, *to)).map(|(from, _)| *from)
    }

    /// An arrow that would run behind other boxes is not drawn but said.
    fn is_drawn(&self, room: DrawingWidth, from: usize, to: usize) -> bool {
        match room {
            DrawingWidth::Wide => self.are_beside(from, to),
            DrawingWidth::Narrow => self.parent(to) == Some(from),
        }
    }

    fn said_of(&self, room: DrawingWidth, node: usize) -> String {
        let hidden = self.edges.iter().filter(|(from, to)| *to == node && !self.is_drawn(room, *from, *to));
        let ids: Vec<&str> = hidden.filter_map(|(from, _)| self.nodes.get(*from)).map(|node| node.id).collect();
        if ids.is_empty() { String::new() } else { format!("also from {}", ids.join(", ")) }
    }

    fn in_words(&self) -> String {
        let name = |n: usize| self.nodes.get(n).map_or("", |node| node.id);
        let words: Vec<String> =
            self.edges.iter().map(|(from, to)| format!("{} brought about {}", name(*from), name(*to))).collect();
        if words.is_empty() { "Nothing was seen to follow from a cause.".to_owned() } else { words.join("; ") + "." }
    }
}

pub fn confidence(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Certain => "certain",
        Confidence::Likely => "likely",
        Confidence::Possible => "possible",
    }
}

/// A node's box with its text, broken to fit.
struct Placed<'a> {
    node: &'a Node<'a>,
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    kind: String,
    title: Vec<String>,
    /// Below it, in small letters.
    notes: Vec<String>,
}

const PADDING: f64 = 12.0;
const TITLE: f64 = 14.0;
const SMALL: f64 = 12.0;
const LINE: f64 = 19.0;
/// A longer title is no title; it stands in full below the picture.
const TITLE_LINES: usize = 4;
/// Between boxes that stand on one another.
const APART: f64 = 16.0;

impl<'a> Placed<'a> {
    fn new(node: &'a Node<'a>, also: &str, left: f64, width: f64) -> Self {
        let room = width - 2.0 * PADDING;
        let one = |words: &str| fit::lines(words, SMALL, room, 1).concat();
        let title = fit::lines(node.title, TITLE, room, TITLE_LINES);
        let notes: Vec<String> = [node.id, also].into_iter().filter(|note| !note.is_empty()).map(one).collect();
        let height = PADDING + LINE * length(1 + title.len() + notes.len()) + PADDING / 2.0;
        Placed { left, top: 1.0, width, height, kind: one(&node.kind), title, notes, node }
    }

    fn middle(&self) -> f64 {
        self.top + self.height / 2.0
    }

    fn draw(&self) -> Markup {
        let left = self.left + PADDING;
        let line = |n: usize| self.top + PADDING + LINE * length(n) + SMALL;
        let frame = svg::rectangle("box", self.left, self.top, self.width, self.height);
        let kind = svg::label("kind", left, line(0), &self.kind);
        let titles = self.title.iter().map(|words| ("name", words));
        let below = titles.chain(self.notes.iter().map(|words| ("kind", words))).enumerate();
        let below = below.map(|(n, (class, words))| svg::label(class, left, line(n + 1), words));
        let class = format!("node {}", self.node.class);
        svg::group(&class, self.node.title, [frame, kind].into_iter().chain(below))
    }
}

/// Columns side by side, each in the middle of the height.
fn in_columns<'a>(graph: &'a Graph<'a>) -> Vec<Placed<'a>> {
    let columns = graph.nodes.iter().map(|node| node.column).max().unwrap_or_default() + 1;
    let between = if columns > 2 { 64.0 } else { 110.0 };
    let width = (DrawingWidth::Wide.width() - 2.0 - between * length(columns - 1)) / length(columns);
    let mut boxes: Vec<Placed> = graph
        .nodes
        .iter()
        .enumerate()
        .map(|(n, node)| {
            let left = 1.0 + (width + between) * length(node.column);
            Placed::new(node, &graph.said_of(DrawingWidth::Wide, n), left, width)
        })
        .collect();
    let height_of = |boxes: &[Placed], column| {
        boxes.iter().filter(|one| one.node.column == column).map(|one| one.height + APART).sum::<f64>() - APART
    };
    let tallest = (0..columns).map(|column| height_of(&boxes, column)).fold(0.0, f64::max);
    for column in 0..columns {
        let mut top = 1.0 + (tallest - height_of(&boxes, column)) / 2.0;
        for one in boxes.iter_mut().filter(|one| one.node.column == column) {
            one.top = top;
            top += one.height + APART;
        }
    }
    boxes
}

/// Each below what it follows from first, a step to the right.
fn as_tree<'a>(graph: &'a Graph<'a>) -> Vec<Placed<'a>> {
    const STEP: f64 = 26.0;
    let mut boxes: Vec<Placed> = graph
        .nodes
        .iter()
        .enumerate()
        .map(|(n, node)| {
            let left = 1.0 + STEP * length(depth(graph, n));
            Placed::new(node, &graph.said_of(DrawingWidth::Narrow, n), left, DrawingWidth::Narrow.width() - left - 1.0)
        })
        .collect();
    let mut top = 1.0;
    for n in in_order(graph) {
        if let Some(one) = boxes.get_mut(n) {
            one.top = top;
            top += one.height + APART;
        }
    }
    boxes
}

fn depth(graph: &Graph, node: usize) -> usize {
    // A parent stands in an earlier column: this ends.
    graph.parent(node).map_or(0, |parent| depth(graph, parent) + 1)
}

/// Every node once, children behind their parent.
fn in_order(graph: &Graph) -> Vec<usize> {
    fn visit(graph: &Graph, node: usize, order: &mut Vec<usize>) {
        order.push(node);
        for child in (0..graph.nodes.len()).filter(|child| graph.parent(*child) == Some(node)) {
            visit(graph, child, order);
        }
    }
    let mut order = Vec::new();
    for root in (0..graph.nodes.len()).filter(|node| graph.parent(*node).is_none()) {
        visit(graph, root, &mut order);
    }
    order
}

const HEAD: f64 = 8.0;

fn arrow_across(from: &Placed, to: &Placed) -> Markup {
    let (x1, y1, x2, y2) = (from.left + from.width, from.middle(), to.left, to.middle());
    let bend = (x2 - x1) / 2.0;
    let line = format!(
        "M{} {} C{} {} {} {} {} {}",
        number(x1),
        number(y1),
        number(x1 + bend),
        number(y1),
        number(x2 - bend),
        number(y2),
        number(x2 - HEAD),
        number(y2)
    );
    [svg::path("edge", &line), head(x2, y2)].into_iter().collect()
}

fn arrow_down(from: &Placed, to: &Placed) -> Markup {
    let (x, y) = (from.left + PADDING, to.middle());
    let line = format!("M{} {} V{} H{}", number(x), number(from.top + from.height), number(y), number(to.left - HEAD));
    [svg::path("edge", &line), head(to.left, y)].into_iter().collect()
}

fn head(x: f64, y: f64) -> Markup {
    let line = format!("M{} {} l-{HEAD} -4.5 v9z", number(x), number(y));
    svg::path("head", &line)
}

#[cfg(test)]
mod tests {
    use carrick_core::report::example;

    use super::*;

    fn edges(graph: &Graph) -> Vec<String> {
        let name = |n: usize| graph.nodes[n].id;
        graph.edges.iter().map(|(from, to)| format!("{} > {}", name(*from), name(*to))).collect()
    }

    #[test]
    fn what_two_arrows_say_is_not_said_by_a_third() {
        let report = example::standalone_kubelet();
        let graph = Graph::of(&report, report.reading.as_ref().unwrap());
        assert_eq!(
            edges(&graph),
            [
                "kubelet.standalone > kubeadm.tls-timeout",
                "kubelet.standalone > kubeadm.kubelet-conf-missing",
                "kubeadm.tls-timeout > node.never-registered",
            ]
        );
    }

    #[test]
    fn a_circle_ends() {
        let mut report = example::standalone_kubelet();
        let reading = report.reading.as_mut().unwrap();
        reading.symptoms[0].because = vec!["node.never-registered".to_owned(), "kubeadm.tls-timeout".to_owned()];
        reading.symptoms[2].because = vec!["kubeadm.tls-timeout".to_owned()];
        report.causes[0].explains = vec!["kubelet.standalone".to_owned()];
        let reading = report.reading.as_ref().unwrap();
        assert_eq!(edges(&Graph::of(&report, reading)), ["kubelet.standalone > kubeadm.kubelet-conf-missing"]);
        assert!(!draw(&report, reading).is_empty());
    }

    #[test]
    fn boxes_stay_in_the_picture_and_off_one_another() {
        for report in [example::standalone_kubelet(), example::hostile_and_crowded()] {
            let graph = Graph::of(&report, report.reading.as_ref().unwrap());
            for (room, boxes) in [(DrawingWidth::Wide, in_columns(&graph)), (DrawingWidth::Narrow, as_tree(&graph))] {
                assert!(boxes.len() <= MOST);
                for (n, one) in boxes.iter().enumerate() {
                    assert!(one.left >= 0.0 && one.top >= 0.0 && one.left + one.width <= room.width());
                    let covers = |other: &Placed| {
                        one.left < other.left + other.width
                            && other.left < one.left + one.width
                            && one.top < other.top + other.height
                            && other.top < one.top + one.height
                    };
                    assert!(!boxes[n + 1..].iter().any(covers), "{}", one.node.id);
                }
            }
        }
    }
}
