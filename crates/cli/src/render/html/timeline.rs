//! The timeline: a lane for each program, time from left to right, silences cut short and marked with their length. Marks
//! carry the numbers of the table below, which says the same in words.

use carrick_core::report::TimelineEvent;
use carrick_core::signature::Severity;
use jiff::Timestamp;

use super::fit;
use super::markup::{Markup, classed, element, nothing, said, text};
use super::svg::{self, DrawingWidth, MARK, length};
use super::{evidence_place, fold};

/// More marks than this hide one another; the worst are drawn.
const MOST: usize = 100;
/// More lanes than this are no overview; the rest share one.
const LANES: usize = 9;
/// More rows than this are folded.
const ROWS: usize = 40;
/// The programs of a join, in the order in which it goes through them.
const USUAL: [&str; 7] = ["systemd", "kubeadm", "kubelet", "containerd", "cni", "csr", "node"];

pub fn draw(events: &[TimelineEvent]) -> Markup {
    if events.is_empty() {
        return nothing();
    }
    let drawn = chosen(events);
    let picture = Scale::moments(&drawn).map_or_else(nothing, |_| {
        let rooms = DrawingWidth::BOTH.map(|room| picture(room, &drawn));
        classed("figure", "timeline", rooms.into_iter().chain([legend(), left_out(drawn.len(), events.len())]))
    });
    let rows = table(events);
    let rows =
        if events.len() > ROWS { fold(&format!("All {} events as a table", events.len()), [rows]) } else { rows };
    [picture, rows].into_iter().collect()
}

/// An event that has a place in the picture.
struct Drawn<'a> {
    number: usize,
    event: &'a TimelineEvent,
    from: Timestamp,
    until: Timestamp,
}

/// Those with a time that can be read; where there are too many, the worst.
fn chosen(events: &[TimelineEvent]) -> Vec<Drawn<'_>> {
    let mut drawn: Vec<Drawn> = events
        .iter()
        .enumerate()
        .filter_map(|(n, event)| {
            let from: Timestamp = event.at.parse().ok()?;
            let until = event.until.as_ref().and_then(|until| until.parse().ok()).unwrap_or(from).max(from);
            Some(Drawn { number: n + 1, event, from, until })
        })
        .collect();
    drawn.sort_by_key(|one| std::cmp::Reverse(one.event.severity));
    drawn.truncate(MOST);
    drawn.sort_by_key(|one| (one.from, one.number));
    drawn
}

/// Where a moment is, from left to right.
struct Scale {
    spans: Vec<Span>,
}

struct Span {
    from: i64,
    to: i64,
    left: f64,
    width: f64,
    /// Nothing happened in it.
    silent: bool,
}

impl Scale {
    /// The first and the last moment.
    fn moments(drawn: &[Drawn]) -> Option<(Timestamp, Timestamp)> {
        Some((drawn.first()?.from, drawn.iter().map(|one| one.until).max()?))
    }

    fn of(drawn: &[Drawn], left: f64, width: f64) -> Option<Self> {
        /// Room for "59 min 59 s"; where there are many, at most half of the picture is silence.
        const SILENCE: f64 = 84.0;
        let (first, last) = Self::moments(drawn)?;
        let mut spans = cut(drawn, first.as_second(), last.as_second());
        let silences = length(spans.iter().filter(|span| span.silent).count());
        let silence = SILENCE.min(width / 2.0 / silences.max(1.0));
        let busy = width - silence * silences;
        // Half of the room by time, half in equal parts: a second in which all went wrong is not a line without width.
        let share = |span: &Span| seconds(span.to - span.from);
        let total: f64 = spans.iter().filter(|span| !span.silent).map(share).sum::<f64>().max(1.0);
        let parts = length(spans.iter().filter(|span| !span.silent).count()).max(1.0);
        let mut at = left;
        for span in &mut spans {
            span.left = at;
            span.width = if span.silent { silence } else { busy * (0.5 * share(span) / total + 0.5 / parts) };
            at += span.width;
        }
        Some(Scale { spans })
    }

    fn x(&self, moment: Timestamp) -> f64 {
        let second = moment.as_second();
        let span = self.spans.iter().find(|span| second <= span.to).or(self.spans.last());
        span.map_or(0.0, |span| {
            let within = seconds(second - span.from) / seconds(span.to - span.from).max(1.0);
            span.left + span.width * within.clamp(0.0, 1.0)
        })
    }
}

/// Cuts time where nothing happened for long.
fn cut(drawn: &[Drawn], first: i64, last: i64) -> Vec<Span> {
    let span = |from, to, silent| Span { from, to, left: 0.0, width: 0.0, silent };
    let mut spans = Vec::new();
    let mut begun = first;
    for one in drawn {
        let at = one.from.as_second();
        let silent = one.event.silence.and_then(|silence| i64::try_from(silence).ok()).unwrap_or_default();
        let since = at.saturating_sub(silent).max(begun);
        if silent > 0 && since < at {
            spans.push(span(begun, since, false));
            spans.push(span(since, at, true));
            begun = at;
        }
    }
    spans.push(span(begun, last.max(begun), false));
    spans
}

fn seconds(count: i64) -> f64 {
    // A second more or less in a century does not show.
    f64::from(i32::try_from(count).unwrap_or(i32::MAX))
}

/// A program's events, in as many rows as keep them from hiding one another.
struct Lane<'a> {
    name: &'a str,
    rows: Vec<Vec<&'a Drawn<'a>>>,
}

const ROW: f64 = 2.0 * MARK + 6.0;
const SMALL: f64 = 12.0;
/// The line with the times, at the top.
const TIMES: f64 = 22.0;

fn lanes<'a>(drawn: &'a [Drawn<'a>], scale: &Scale) -> Vec<Lane<'a>> {
    let mut names: Vec<&str> = Vec::new();
    for one in drawn {
        if !names.contains(&one.event.program.as_str()) {
            names.push(&one.event.program);
        }
    }
    names.sort_by_key(|name| USUAL.iter().position(|usual| usual.eq_ignore_ascii_case(name)).unwrap_or(USUAL.len()));
    let others = if names.len() > LANES { names.split_off(LANES - 1) } else { Vec::new() };
    let is_of = |name: &str, one: &Drawn| match name {
        "others" => others.contains(&one.event.program.as_str()),
        name => one.event.program == name,
    };
    let others_lane = (!others.is_empty()).then_some("others");
    let names = names.iter().copied().chain(others_lane);
    names.map(|name| Lane { name, rows: rows(drawn.iter().filter(|one| is_of(name, one)), scale) }).collect()
}

fn rows<'a>(drawn: impl Iterator<Item = &'a Drawn<'a>>, scale: &Scale) -> Vec<Vec<&'a Drawn<'a>>> {
    let mut rows: Vec<(f64, Vec<&Drawn>)> = Vec::new();
    for one in drawn {
        let (begins, ends) = (scale.x(one.from) - MARK - 3.0, scale.x(one.until) + MARK + 3.0);
        match rows.iter_mut().find(|(taken, _)| *taken <= begins) {
            Some((taken, row)) => {
                *taken = ends;
                row.push(one);
            }
            None => rows.push((ends, vec![one])),
        }
    }
    rows.into_iter().map(|(_, row)| row).collect()
}

fn picture(room: DrawingWidth, drawn: &[Drawn]) -> Markup {
    // A phone has no room for names beside the lanes: they stand above them.
    let (left, above) = match room {
        DrawingWidth::Wide => (124.0, 6.0),
        DrawingWidth::Narrow => (2.0, 20.0),
    };
    let margin = MARK + 3.0;
    let Some(scale) = Scale::of(drawn, left + margin, room.width() - left - 2.0 * margin) else { return nothing() };
    let lanes = lanes(drawn, &scale);
    let height_of = |lane: &Lane| above + ROW * length(lane.rows.len()) + 6.0;
    let header = header(&scale);
    let height = header + lanes.iter().map(height_of).sum::<f64>();
    let mut shapes = silences(&scale, header, height);
    shapes.extend(times(&scale, drawn, room));
    let mut top = header;
    for lane in &lanes {
        shapes.push(svg::path("rule", &format!("M0 {} H{}", svg::number(top), svg::number(room.width()))));
        let (x, y, space) = match room {
            DrawingWidth::Wide => (2.0, top + above + MARK + 7.0, left - 8.0),
            DrawingWidth::Narrow => (2.0, top + 15.0, room.width() - 4.0),
        };
        shapes.push(svg::label("lane", x, y, &fit::lines(lane.name, SMALL, space, 1).concat()));
        for (n, row) in lane.rows.iter().enumerate() {
            let y = top + above + ROW * (length(n) + 0.5);
            shapes.extend(row.iter().map(|one| event(one, &scale, y)));
        }
        top += height_of(lane);
    }
    svg::picture(room, "timeline", height, "When it happened", &in_words(drawn), shapes)
}

fn event(one: &Drawn, scale: &Scale, y: f64) -> Markup {
    let (from, until) = (scale.x(one.from), scale.x(one.until));
    let severity = one.event.severity;
    let bar = (until - from > 1.0)
        .then(|| svg::rectangle(&format!("bar {}", svg::class(severity)), from, y - 4.0, until - from + MARK, 8.0));
    let number = svg::label("number", from, y + svg::number_below(severity), &one.number.to_string());
    let hint = format!("{}. {} {}: {}", one.number, clock(one.from), one.event.program, one.event.title);
    svg::group("event", &hint, bar.into_iter().chain([svg::mark(severity, from, y), number]))
}

/// The height of what stands above the lanes: times, and below them the lengths of silences.
fn header(scale: &Scale) -> f64 {
    let length = |span: &Span| if span.lies() { SMALL } else { fit::wide(&span.length(), SMALL) };
    let lengths = scale.spans.iter().filter(|span| span.silent).map(length);
    TIMES + lengths.fold(0.0, f64::max) + 10.0
}

impl Span {
    fn length(&self) -> String {
        duration(u64::try_from(self.to - self.from).unwrap_or_default())
    }

    /// Whether its length has room from left to right; else it is read upwards.
    fn lies(&self) -> bool {
        fit::wide(&self.length(), SMALL) <= self.width - 2.0
    }
}

fn silences(scale: &Scale, top: f64, bottom: f64) -> Vec<Markup> {
    let band = |span: &Span| {
        let (left, width) = (span.left + MARK, (span.width - 2.0 * MARK).max(2.0));
        let band = svg::rectangle("silence", left, TIMES, width, bottom - TIMES);
        let middle = span.left + span.width / 2.0;
        let words = if span.lies() {
            svg::label("length", middle, top - 7.0, &span.length())
        } else if span.width >= SMALL {
            svg::upright("length upright", middle + 4.0, top - 5.0, &span.length())
        } else {
            // Too many for even that: the table has them.
            nothing()
        };
        svg::group("gap", &format!("{} without a word", span.length()), [band, words])
    };
    scale.spans.iter().filter(|span| span.silent).map(band).collect()
}

/// The time at both ends of what is not silent, where there is room for it.
fn times(scale: &Scale, drawn: &[Drawn], room: DrawingWidth) -> Vec<Markup> {
    let one_day = drawn.iter().all(|one| drawn.first().is_some_and(|first| date(first.from) == date(one.until)));
    let words = |second: i64| match Timestamp::from_second(second) {
        Ok(moment) if one_day => clock(moment),
        Ok(moment) => moment.strftime("%d %b %H:%M").to_string(),
        Err(_) => String::new(),
    };
    let mut taken = 0.0;
    let mut labels = Vec::new();
    for span in scale.spans.iter().filter(|span| !span.silent) {
        for (second, x) in [(span.from, span.left), (span.to, span.left + span.width)] {
            let words = words(second);
            let half = fit::wide(&words, SMALL) / 2.0;
            let x = x.clamp(half, (room.width() - half).max(half));
            if x - half >= taken {
                taken = x + half + 4.0;
                labels.push(svg::label("time", x, 14.0, &words));
            }
        }
    }
    labels
}

fn in_words(drawn: &[Drawn]) -> String {
    let Some((first, last)) = Scale::moments(drawn) else { return String::new() };
    let longest = drawn.iter().filter_map(|one| one.event.silence).max();
    let silence = longest.map(|seconds| format!(" The longest silence is {}.", duration(seconds))).unwrap_or_default();
    format!(
        "{} events from {} {} to {} {} UTC.{silence} The table below has all of them.",
        drawn.len(),
        date(first),
        clock(first),
        date(last),
        clock(last)
    )
}

fn legend() -> Markup {
    let severities = [Severity::Fatal, Severity::Error, Severity::Warning, Severity::Benign, Severity::Good];
    let signs = severities.map(|severity| classed("span", "key", [svg::sign(severity), text(svg::class(severity))]));
    let bar = text("A bar lasts as long as the event was repeated; grey is silence, cut short. Times are UTC.");
    classed("figcaption", "legend", signs.into_iter().chain([bar]))
}

fn left_out(drawn: usize, all: usize) -> Markup {
    if drawn == all {
        return nothing();
    }
    said("p", "note", &format!("{drawn} of {all} events are drawn: the worst of those whose time is known."))
}

/// What all rows would say: said once, above them.
struct Shared<'a> {
    day: Option<String>,
    source: Option<&'a str>,
}

impl<'a> Shared<'a> {
    fn of(events: &'a [TimelineEvent]) -> Self {
        let day = |event: &TimelineEvent| event.at.parse().ok().map(date);
        let first = events.first();
        let same_day = |day_of_first: &String| events.iter().all(|event| day(event).as_ref() == Some(day_of_first));
        let source = first.map(|event| event.evidence.source.as_str()).filter(|source| {
            !source.is_empty()
                && events.iter().all(|event| event.evidence.source == *source && event.evidence.line.is_some())
        });
        Shared { day: first.and_then(day).filter(same_day), source }
    }

    fn caption(&self) -> String {
        let day = self.day.as_ref().map(|day| format!(" on {day}")).unwrap_or_default();
        let source = self.source.map(|source| format!("; lines are those of {source}")).unwrap_or_default();
        format!("Events in order of time{day} (UTC){source}")
    }
}

fn table(events: &[TimelineEvent]) -> Markup {
    let shared = Shared::of(events);
    let heads = ["No", "Time", "What happened"].map(|head| element("th", [("scope", "col")], [text(head)]));
    let head = element("thead", [], [element("tr", [], heads)]);
    let rows = events.iter().enumerate().flat_map(|(n, event)| rows_of(n + 1, event, &shared));
    classed("table", "events", [said("caption", "", &shared.caption()), head, element("tbody", [], rows)])
}

fn rows_of(number: usize, event: &TimelineEvent, shared: &Shared) -> [Markup; 2] {
    let silence = event.silence.map_or_else(nothing, |seconds| {
        let words = format!("{} without a word", duration(seconds));
        classed("tr", "silent", [element("td", [("colspan", "3")], [text(&words)])])
    });
    let time = match event.at.parse::<Timestamp>() {
        Ok(at) if shared.day.is_some() => text(&clock(at)),
        Ok(at) => [said("span", "day", &date(at)), text(&clock(at))].into_iter().collect(),
        Err(_) => text(&event.at),
    };
    let place = match (shared.source, event.evidence.line) {
        (Some(_), Some(line)) => format!("line {line}"),
        _ => evidence_place(&event.evidence),
    };
    let details = [
        classed("span", "severity", [svg::sign(event.severity), text(svg::class(event.severity))]),
        text(&format!(" · {} · ", event.program)),
        said("code", "", &event.id),
        text(&format!("{} · {place}", repeated(event))),
    ];
    let cells = [
        said("td", "count", &number.to_string()),
        classed("td", "when", [time]),
        classed("td", "what", [said("span", "title", &event.title), classed("span", "details", details)]),
    ];
    [silence, element("tr", [], cells)]
}

fn repeated(event: &TimelineEvent) -> String {
    let until = event.until.as_ref().map(|until| until.parse::<Timestamp>().map_or_else(|_| until.clone(), clock));
    match (event.count, until) {
        (0 | 1, _) => String::new(),
        (count, Some(until)) => format!(" · {count} times until {until}"),
        (count, None) => format!(" · {count} times"),
    }
}

fn clock(moment: Timestamp) -> String {
    moment.strftime("%H:%M:%S").to_string()
}

fn date(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%d").to_string()
}

/// `42 s`, `4 min 12 s`, `2 h 5 min`, `3 d 4 h`.
fn duration(seconds: u64) -> String {
    let two = |whole: u64, unit: &str, rest: u64, smaller: &str| match rest {
        0 => format!("{whole} {unit}"),
        rest => format!("{whole} {unit} {rest} {smaller}"),
    };
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

#[cfg(test)]
mod tests {
    use carrick_core::report::example;

    use super::*;

    #[test]
    fn lengths_of_time_read_as_people_say_them() {
        let rows =
            [(0, "0 s"), (59, "59 s"), (60, "1 min"), (252, "4 min 12 s"), (7_500, "2 h 5 min"), (97_200, "1 d 3 h")];
        for (seconds, words) in rows {
            assert_eq!(duration(seconds), words);
        }
    }

    #[test]
    fn time_runs_to_the_right_and_stays_in_the_picture() {
        for report in [example::standalone_kubelet(), example::hostile_and_crowded()] {
            let reading = report.reading.unwrap();
            let drawn = chosen(&reading.timeline);
            let scale = Scale::of(&drawn, 10.0, 300.0).unwrap();
            let places: Vec<f64> = drawn.iter().map(|one| scale.x(one.from)).collect();
            assert!(places.is_sorted(), "{places:?}");
            let all = drawn.iter().flat_map(|one| [scale.x(one.from), scale.x(one.until)]);
            assert!(all.into_iter().all(|x| (10.0..=310.1).contains(&x)));
        }
    }

    #[test]
    fn marks_in_a_row_keep_their_distance() {
        let report = example::hostile_and_crowded();
        let reading = report.reading.unwrap();
        let drawn = chosen(&reading.timeline);
        let scale = Scale::of(&drawn, 10.0, 300.0).unwrap();
        for lane in lanes(&drawn, &scale) {
            for pair in lane.rows.iter().flat_map(|row| row.windows(2)) {
                assert!(scale.x(pair[1].from) - scale.x(pair[0].until) >= 2.0 * MARK, "{}", lane.name);
            }
        }
    }
}
