//! Charts as SVG.

use farhop_proto::base::counted;
use farhop_sim::engine::FlowReport;
use plotters::chart::MeshStyle;
use plotters::coord::CoordTranslate;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;

/// Colours that people with any colour vision can tell apart (Okabe and Ito, 2008).
pub(super) const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(80, 80, 80),
];
pub(super) const FONT: &str = "sans-serif";
const GRID: RGBColor = RGBColor(225, 225, 225);
pub(super) const INK: RGBColor = RGBColor(40, 40, 40);

/// What a chart is drawn on.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
/// The result of drawing; writing into a string does not fail.
pub(super) type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<std::io::Error>>;
/// A chart while it is being drawn.
pub(super) type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

/// Draws a picture of this height, as SVG.
pub(super) fn svg(height: u32, draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (860, height)).into_drawing_area();
        let drawn = area.fill(&WHITE).and_then(|()| draw(&area)).and_then(|()| area.present());
        drawn.expect("drawing into a string does not fail");
    }
    svg
}

/// The style of axes and their grid.
pub(super) fn style<X, Y, DB>(mesh: &mut MeshStyle<'_, '_, X, Y, DB>)
where
    X: Ranged,
    Y: Ranged,
    DB: DrawingBackend,
{
    mesh.label_style((FONT, 13).into_font().color(&INK))
        .axis_desc_style((FONT, 14).into_font().color(&INK))
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT);
}

/// An empty chart with a title and labelled axes.
pub(super) fn frame<'a, 'b>(
    area: &'a Area<'b>,
    title: &str,
    (x, x_words): (Axis, &str),
    (y, y_words): (Axis, &str),
) -> Drawn<Chart<'a, 'b>> {
    let mut chart = ChartBuilder::on(area)
        .margin(14)
        .caption(title, (FONT, 17).into_font().color(&INK))
        .x_label_area_size(46)
        .y_label_area_size(60)
        .build_cartesian_2d(x, y)?;
    let mut mesh = chart.configure_mesh();
    style(&mut mesh);
    mesh.x_desc(x_words).y_desc(y_words).draw()?;
    Ok(chart)
}

/// Draws the legend of what was drawn.
pub(super) fn legend<'a, 'b: 'a, CT: CoordTranslate>(
    chart: &mut ChartContext<'a, SVGBackend<'b>, CT>,
    position: SeriesLabelPosition,
) -> Drawn {
    chart
        .configure_series_labels()
        .position(position)
        .background_style(WHITE.mix(0.85))
        .border_style(GRID)
        .label_font((FONT, 13).into_font().color(&INK))
        .draw()
}

/// Height of a line of the legend, and of the space above and below all lines, with half of a mark
/// below them.
const LINE: f64 = 16.0;
const BESIDE: f64 = 36.0;

/// Approximate height of the title and of the labels below the axis.
const AROUND: f64 = 100.0;

/// The space that the legend takes: it is above the lines of a chart, so that it hides none.
pub(super) struct Names {
    /// Height of the picture.
    pub(super) height: u32,
    /// The fraction of the height inside the axes that is left to the lines.
    pub(super) left: f64,
}

impl Names {
    /// A legend of `count` lines, in a picture that is `height` high if the legend is short.
    pub(super) fn above(count: usize, height: u32) -> Self {
        let (plot, names) = (f64::from(height) - AROUND, BESIDE + LINE * count as f64);
        let lines = (plot - names).max(plot * 2.0 / 3.0);
        Self { height: (AROUND + names + lines) as u32, left: lines / (names + lines) }
    }
}

/// Longest time over which goodput is averaged in a chart, in seconds.
const SMOOTH_S: f64 = 1.0;
/// Least points of the line of a short run, if its measurements are fine enough.
const LEAST_POINTS: f64 = 10.0;

/// One bar of [`bars`].
pub(crate) struct Bar {
    /// Lines under the bar.
    pub(crate) label: Vec<String>,
    /// Parts from the bottom up, in Mb/s.
    pub(crate) parts: [f64; 2],
    /// The published value, in Mb/s.
    pub(crate) published: Option<f64>,
}

impl Bar {
    fn total(&self) -> f64 {
        self.parts.iter().sum()
    }

    /// The larger of the bar's height and the published value.
    fn height(&self) -> f64 {
        self.total().max(self.published.unwrap_or(0.0))
    }
}

/// Goodput over time of each flow.
pub(crate) fn over_time(title: &str, flows: &[FlowReport]) -> String {
    // The last line of the legend counts the flows that have no colour of their own.
    let names = Names::above(flows.len().min(COLOURS.len() + 1), 340);
    svg(names.height, |area| draw_over_time(area, title, flows, &names))
}

/// The length of a flow's measurement, in seconds from the start of the run.
fn measured_s(flow: &FlowReport) -> f64 {
    flow.over_time_mbps.len() as f64 * flow.bin_s
}

/// The goodput of a flow from its start to its end, averaged so that the line is readable.
fn smooth(flow: &FlowReport) -> Vec<(f64, f64)> {
    let first = (flow.start_s / flow.bin_s).floor() as usize;
    let end_s = flow.completed_s.map_or(f64::INFINITY, |took| flow.start_s + took);
    let end = ((end_s / flow.bin_s).ceil() as usize).min(flow.over_time_mbps.len());
    let ran = flow.over_time_mbps.get(first..end).unwrap_or_default();
    // Bytes of a flow of blocks come a block at a time. Over less than the time from one to the
    // next, their rate would be above what the radio carries.
    let filled = ran.iter().filter(|mbps| **mbps > 0.0).count().max(1);
    let step = SMOOTH_S.min(measured_s(flow) / LEAST_POINTS) / flow.bin_s;
    let apart = if filled * 2 < ran.len() { 2.0 * ran.len() as f64 / filled as f64 } else { 1.0 };
    let most = (ran.len() as f64 / LEAST_POINTS).max(step);
    let bins = step.max(apart).min(most).round().max(1.0) as usize;
    let mean = |(index, chunk): (usize, &[f64])| {
        let middle = (first + index * bins) as f64 + chunk.len() as f64 / 2.0;
        (middle * flow.bin_s, chunk.iter().sum::<f64>() / chunk.len() as f64)
    };
    let mut line: Vec<(f64, f64)> = ran.chunks(bins).enumerate().map(mean).collect();
    if let [first, .., last] = line[..] {
        line.insert(0, (flow.start_s, first.1));
        line.push((end_s.min(measured_s(flow)), last.1));
    }
    line
}

fn draw_over_time(area: &Area<'_>, title: &str, flows: &[FlowReport], names: &Names) -> Drawn {
    let lines: Vec<Vec<(f64, f64)>> = flows.iter().map(smooth).collect();
    let end = flows.iter().map(measured_s).fold(0.0, f64::max);
    let end = if end > 0.0 { end } else { SMOOTH_S };
    let top = lines.iter().flatten().map(|point| point.1).fold(0.1, f64::max) / names.left;
    let (x, y) = (Axis::Numbers(0.0..end), Axis::Numbers(0.0..top));
    let mut chart = frame(area, title, (x, "time, s"), (y, "goodput, Mb/s"))?;
    for (index, (flow, line)) in flows.iter().zip(lines).enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        if let [point] = line[..] {
            // A single point makes no line.
            chart.draw_series([Circle::new(point, 4, colour.filled())])?;
        }
        let series = chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
        if index >= COLOURS.len() {
            continue;
        }
        series
            .label(format!("{} ({})", flow.name, flow.transport))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    let nameless = flows.len().saturating_sub(COLOURS.len());
    if nameless > 0 {
        let nothing = LineSeries::new([], TRANSPARENT);
        chart.draw_series(nothing)?.label(format!("and {}", counted(nameless, "more flow")));
    }
    legend(&mut chart, SeriesLabelPosition::UpperRight)
}

/// Stacked bars of two directions, with the published value as a line across.
pub(crate) fn bars(title: &str, names: [&str; 2], bars: &[Bar]) -> String {
    svg(420, |area| draw_bars(area, title, names, bars))
}

fn draw_bars(area: &Area<'_>, title: &str, names: [&str; 2], bars: &[Bar]) -> Drawn {
    let top = bars.iter().map(Bar::height).fold(1.0, f64::max) * 1.18;
    let mut chart = ChartBuilder::on(area)
        .margin(14)
        .caption(title, (FONT, 17).into_font().color(&INK))
        .x_label_area_size(62)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..bars.len() as f64, Axis::Numbers(0.0..top))?;
    let mut mesh = chart.configure_mesh();
    style(&mut mesh);
    mesh.disable_x_mesh().disable_x_axis().y_desc("goodput, Mb/s").draw()?;
    let sides = |index: usize| (index as f64 + 0.2, index as f64 + 0.8);
    for (part, colour) in COLOURS.into_iter().take(2).enumerate() {
        let rectangles = bars.iter().enumerate().map(|(index, bar)| {
            let (from, (left, right)) = (bar.parts[..part].iter().sum::<f64>(), sides(index));
            Rectangle::new([(left, from), (right, from + bar.parts[part])], colour.filled())
        });
        chart
            .draw_series(rectangles)?
            .label(names[part])
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled()));
    }
    let across = |(index, bar): (usize, &Bar)| {
        let ((left, right), value) = (sides(index), bar.published?);
        Some(PathElement::new([(left - 0.08, value), (right + 0.08, value)], BLACK.stroke_width(2)))
    };
    chart
        .draw_series(bars.iter().enumerate().filter_map(across))?
        .label("published")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 12, y)], BLACK.stroke_width(2)));
    legend(&mut chart, SeriesLabelPosition::UpperLeft)?;
    for (index, bar) in bars.iter().enumerate() {
        let at = |value| chart.backend_coord(&(index as f64 + 0.5, value));
        label_bar(area, bar, at(bar.total()), at(0.0))?;
    }
    Ok(())
}

/// Writes the sum above a bar, and its label below.
fn label_bar(area: &Area<'_>, bar: &Bar, top: (i32, i32), foot: (i32, i32)) -> Drawn {
    let centred =
        |size: i32| (FONT, size).into_font().color(&INK).pos(Pos::new(HPos::Center, VPos::Top));
    let total = format!("{:.2}", bar.total());
    area.draw(&Text::new(total, (top.0, top.1 - 20), centred(15)))?;
    for (line, text) in bar.label.iter().enumerate() {
        let at = (foot.0, foot.1 + 8 + 17 * line as i32);
        area.draw(&Text::new(text.clone(), at, centred(13)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(name: &str, bins: usize) -> FlowReport {
        FlowReport {
            name: name.into(),
            transport: "tcp/reno".into(),
            bin_s: 0.1,
            over_time_mbps: vec![3.0; bins],
            ..FlowReport::default()
        }
    }

    /// The number of points in the line of a chart's only flow.
    fn points(svg: &str) -> usize {
        let lines = svg.lines().filter(|line| line.starts_with("<polyline fill=\"none\""));
        let colour = "stroke=\"#0072B2\"";
        let lines: Vec<&str> = lines.filter(|line| line.contains(colour)).collect();
        let (_, points) = lines[0].split_once("points=\"").expect("a line has points");
        points.split('"').next().expect("they end").split_whitespace().count()
    }

    #[test]
    fn a_short_run_has_something_to_see_and_ends_where_its_axis_does() {
        let svg = over_time("short", &[flow("there", 10)]);
        assert_eq!(points(&svg), 10 + 2, "its steps and both ends: {svg}");
        assert!(svg.contains("\n1.0\n") && !svg.contains("\n1.1\n"), "{svg}");
        assert_eq!(points(&over_time("long", &[flow("there", 600)])), 60 + 2);
        let svg = over_time("one bin", &[flow("there", 1)]);
        assert!(svg.contains("<circle"), "{svg}");
        over_time("nothing", &[flow("there", 0)]);
    }

    #[test]
    fn a_flow_has_a_line_from_its_start_to_its_end() {
        let late = FlowReport { start_s: 20.0, completed_s: Some(10.0), ..flow("late", 600) };
        let line = smooth(&late);
        assert_eq!(line.len(), 10 + 2);
        assert_eq!((line[0].0, line.last().map(|point| point.0)), (20.0, Some(30.0)));
        assert!(smooth(&FlowReport { start_s: 90.0, ..late.clone() }).is_empty());
        let short = FlowReport { completed_s: Some(0.25), ..late };
        assert_eq!(smooth(&short).len(), 1, "what is over within a step is a point");
    }

    #[test]
    fn the_legend_says_how_many_flows_it_leaves_out() {
        let flows = |count: usize| vec![flow("one", 50); count];
        assert!(!over_time("few", &flows(7)).contains("more flow"));
        assert!(over_time("one more", &flows(8)).contains("and 1 more flow\n"));
        assert!(over_time("many", &flows(100)).contains("and 93 more flows"));
    }

    #[test]
    fn many_names_make_a_picture_higher_and_leave_the_lines_their_place() {
        let height = |names: &Names| f64::from(names.height) - AROUND;
        let few = Names::above(4, 460);
        assert_eq!((few.height, (few.left * height(&few)).round()), (460, 260.0));
        for count in [8, 12, 30] {
            let names = Names::above(count, 460);
            assert!(
                names.height > 460 && (names.left * height(&names)).round() == 240.0,
                "{count}"
            );
        }
    }

    #[test]
    fn a_chart_names_every_flow_and_its_units() {
        let svg = over_time("demo", &[flow("there", 50), flow("back", 50)]);
        for word in ["there (tcp/reno)", "back (tcp/reno)", "goodput, Mb/s", "time, s", "</svg>"] {
            assert!(svg.contains(word), "no {word} in {svg}");
        }
    }

    #[test]
    fn bars_say_their_sums() {
        let bar = Bar { label: vec!["wild".into()], parts: [3.25, 3.5], published: Some(6.0) };
        let svg = bars("demo", ["there", "back"], &[bar]);
        for word in ["6.75", "wild", "published"] {
            assert!(svg.contains(word), "no {word}");
        }
    }
}
