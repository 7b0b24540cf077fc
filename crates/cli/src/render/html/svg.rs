//! What the pictures share: two widths of page, marks whose shape says as much as their colour, and the frame with its
//! title and description for those who do not see it.

use carrick_core::signature::Severity;

use super::markup::{Markup, classed, element, said, text};

/// A picture is drawn twice and the style sheet shows one: text that is scaled down to a phone cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawingWidth {
    Wide,
    Narrow,
}

impl DrawingWidth {
    pub const BOTH: [DrawingWidth; 2] = [DrawingWidth::Wide, DrawingWidth::Narrow];

    pub fn name(self) -> &'static str {
        match self {
            DrawingWidth::Wide => "wide",
            DrawingWidth::Narrow => "narrow",
        }
    }

    /// In pixels: the page's column, and that of a phone of 390 less its margins.
    pub fn width(self) -> f64 {
        match self {
            DrawingWidth::Wide => 880.0,
            DrawingWidth::Narrow => 350.0,
        }
    }
}

/// The frame of a picture. `name` makes its ids; there is one of a name and room on a page.
pub fn picture(
    room: DrawingWidth,
    name: &str,
    height: f64,
    title: &str,
    about: &str,
    inside: impl IntoIterator<Item = Markup>,
) -> Markup {
    let (title_id, about_id) = (format!("{name}-{}-title", room.name()), format!("{name}-{}-about", room.name()));
    let head = [
        element("title", [("id", title_id.as_str())], [text(title)]),
        element("desc", [("id", about_id.as_str())], [text(about)]),
    ];
    let labels = format!("{title_id} {about_id}");
    let view = format!("0 0 {} {}", number(room.width()), number(height));
    let attributes =
        [("class", room.name()), ("viewBox", view.as_str()), ("role", "img"), ("aria-labelledby", labels.as_str())];
    element("svg", attributes, head.into_iter().chain(inside))
}

pub fn path(class: &str, line: &str) -> Markup {
    element("path", [("class", class), ("d", line)], [])
}

pub fn rectangle(class: &str, left: f64, top: f64, width: f64, height: f64) -> Markup {
    let [left, top, width, height] = [left, top, width, height].map(number);
    let place = [("x", &left), ("y", &top), ("width", &width), ("height", &height)];
    let place = place.into_iter().map(|(name, value)| (name, value.as_str()));
    element("rect", std::iter::once(("class", class)).chain(place), [])
}

/// A line of text; `y` is where its letters stand.
pub fn label(class: &str, x: f64, y: f64, words: &str) -> Markup {
    element("text", [("class", class), ("x", &number(x)), ("y", &number(y))], [text(words)])
}

/// As [`label`], read upwards.
pub fn upright(class: &str, x: f64, y: f64, words: &str) -> Markup {
    let turn = format!("rotate(-90 {} {})", number(x), number(y));
    let attributes = [("class", class), ("x", &number(x)), ("y", &number(y)), ("transform", &turn)];
    element("text", attributes, [text(words)])
}

/// Pointing at something shows no more than this; the page has the rest.
const HINT: usize = 160;

/// A group of shapes with the words that are shown when it is pointed at.
pub fn group(class: &str, hint: &str, inside: impl IntoIterator<Item = Markup>) -> Markup {
    let short: String = hint.chars().take(HINT).collect();
    classed("g", class, std::iter::once(said("title", "", &short)).chain(inside))
}

/// Half of a mark's height and width.
pub const MARK: f64 = 10.0;

/// Where a number in a mark stands: a triangle has its room at the bottom.
pub fn number_below(severity: Severity) -> f64 {
    if severity == Severity::Warning { 7.5 } else { 4.0 }
}

/// The shape that stands for a severity, around a point.
pub fn mark(severity: Severity, x: f64, y: f64) -> Markup {
    let (left, right, top, bottom) = (x - MARK, x + MARK, y - MARK, y + MARK);
    let line = match severity {
        Severity::Sign | Severity::Good | Severity::Benign => circle(x, y, MARK - 0.5),
        Severity::Warning => polygon(&[(x, top - 3.0), (right + 3.0, bottom), (left - 3.0, bottom)]),
        Severity::Error => polygon(&[(left, top), (right, top), (right, bottom), (left, bottom)]),
        Severity::Fatal => {
            let corner = MARK * 0.42;
            polygon(&[
                (x - corner, top - 1.0),
                (x + corner, top - 1.0),
                (right + 1.0, y - corner),
                (right + 1.0, y + corner),
                (x + corner, bottom + 1.0),
                (x - corner, bottom + 1.0),
                (left - 1.0, y + corner),
                (left - 1.0, y - corner),
            ])
        }
    };
    path(&format!("mark {}", class(severity)), &line)
}

/// The shape alone, for a legend or beside a word that says the same.
pub fn sign(severity: Severity) -> Markup {
    let attributes = [("class", "sign"), ("viewBox", "0 0 26 26"), ("aria-hidden", "true")];
    element("svg", attributes, [mark(severity, 13.0, 13.0)])
}

pub fn class(severity: Severity) -> &'static str {
    match severity {
        Severity::Sign | Severity::Good => "good",
        Severity::Benign => "benign",
        Severity::Warning => "warning",
        Severity::Error => "error",
        Severity::Fatal => "fatal",
    }
}

fn circle(x: f64, y: f64, radius: f64) -> String {
    let (left, across, r) = (number(x - radius), number(radius * 2.0), number(radius));
    format!("M{left} {} a{r} {r} 0 1 0 {across} 0 a{r} {r} 0 1 0 -{across} 0z", number(y))
}

fn polygon(corners: &[(f64, f64)]) -> String {
    let corners: Vec<String> = corners.iter().map(|(x, y)| format!("{} {}", number(*x), number(*y))).collect();
    format!("M{}z", corners.join(" L"))
}

/// A coordinate, to a tenth of a pixel.
pub fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// A count as a length.
pub fn length(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
