//! The view on the screen: a line for the store, subscriptions, topics, and what the keys do.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Row, Table, TableState};

use super::model::{Board, Status, SubscriptionLine, TopicLine};
use crate::out::{count, thousands};

/// Which list the keys move in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum List {
    #[default]
    Subscriptions,
    Topics,
}

/// Where the user is.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) list: List,
    /// Of each list: the line, and the column it is sorted by.
    pub(super) lines: [TableState; 2],
    pub(super) sorts: [usize; 2],
}

const SORTS: [[&str; 4]; 2] = [
    ["lag", "oldest", "rate", "name"],
    ["rate", "records", "name", "name"],
];

impl Place {
    fn sort(&self, list: List) -> &'static str {
        SORTS[list as usize][self.sorts[list as usize] % SORTS[0].len()]
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, board: &Board, place: &mut Place) {
    let wanted = u16::try_from(board.subscriptions.len()).unwrap_or(u16::MAX);
    // Their lines, border and head, but never more than half.
    let half = frame.area().height.saturating_sub(2) / 2;
    let upper = wanted.saturating_add(3).clamp(4, half.max(4));
    let [head, upper, lower, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(upper),
        Constraint::Min(4),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(title(board), head);
    subscriptions(frame, upper, board, place);
    topics(frame, lower, board, place);
    let keys = " q quit   Tab other list   ↑↓ PgUp PgDn move   s sort ";
    let keys = Line::styled(keys, Style::new().add_modifier(Modifier::DIM));
    frame.render_widget(keys, foot);
}

fn title(board: &Board) -> Line<'_> {
    let owner = match board.owner {
        Some(pid) => Span::styled(format!("owner {pid}"), Style::new().fg(Color::Green)),
        None => Span::styled("no owner", Style::new().fg(Color::Yellow)),
    };
    let topics = count(board.topics.len() as u64, "topic", "topics");
    let records = board.topics.iter().map(|topic| topic.records).sum();
    Line::from(vec![
        Span::styled(" tidelog ", Style::new().add_modifier(Modifier::REVERSED)),
        Span::raw(format!(" {}   ", board.path)),
        owner,
        Span::raw(format!(
            "   {topics}   {}   {}/s",
            count(records, "record", "records"),
            rate(board.rate)
        )),
    ])
}

fn subscriptions(frame: &mut Frame<'_>, area: Rect, board: &Board, place: &mut Place) {
    let mut lines: Vec<&SubscriptionLine> = board.subscriptions.iter().collect();
    let sort = place.sort(List::Subscriptions);
    lines.sort_by(|a, b| {
        let by = match sort {
            "lag" => b.records.cmp(&a.records),
            "oldest" => b.age.cmp(&a.age),
            "rate" => b.rate.total_cmp(&a.rate),
            _ => std::cmp::Ordering::Equal,
        };
        by.then_with(|| (&a.topic, &a.name).cmp(&(&b.topic, &b.name)))
    });
    let rows = lines.into_iter().map(|it| {
        Row::new([
            Cell::from(it.name.as_str()),
            Cell::from(it.topic.as_str()),
            right(thousands(it.records)),
            right(bytes(it.bytes)),
            right(it.age.map(age).unwrap_or_default()),
            right(format!("{}/s", rate(it.rate))),
            right(left(it)),
            Cell::from(Span::styled(chart(&it.trend), colour(it.status))),
            Cell::from(Span::styled(it.status.text(), colour(it.status))),
        ])
    });
    let widths = [
        Constraint::Fill(3),
        Constraint::Fill(3),
        Constraint::Length(12),
        Constraint::Length(9),
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Length(8),
        Constraint::Length(super::model::TREND as u16),
        Constraint::Length(14),
    ];
    let heads = [
        "subscription",
        "topic",
        "lag",
        "bytes",
        "oldest",
        "commits",
        "left",
        "lag, lately",
        "status",
    ];
    let table = Table::new(rows, widths);
    list(frame, area, (table, heads), (List::Subscriptions, place));
}

fn topics(frame: &mut Frame<'_>, area: Rect, board: &Board, place: &mut Place) {
    let mut lines: Vec<&TopicLine> = board.topics.iter().collect();
    let sort = place.sort(List::Topics);
    lines.sort_by(|a, b| {
        let by = match sort {
            "rate" => b.rate.total_cmp(&a.rate),
            "records" => b.records.cmp(&a.records),
            _ => std::cmp::Ordering::Equal,
        };
        by.then_with(|| a.name.cmp(&b.name))
    });
    let rows = lines.into_iter().map(|it| {
        Row::new([
            Cell::from(it.name.as_str()),
            right(it.partitions.to_string()),
            right(thousands(it.records)),
            right(format!("{}/s", rate(it.rate))),
            Cell::from(Span::styled(chart(&it.trend), Style::new().fg(Color::Cyan))),
            Cell::from(it.note),
        ])
    });
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(10),
        Constraint::Length(15),
        Constraint::Length(9),
        Constraint::Length(super::model::TREND as u16),
        Constraint::Length(14),
    ];
    let heads = [
        "topic",
        "partitions",
        "records",
        "appends",
        "appends, lately",
        "",
    ];
    list(
        frame,
        area,
        (Table::new(rows, widths), heads),
        (List::Topics, place),
    );
}

/// A list in its frame, with the line marked where the user is.
fn list<const N: usize>(
    frame: &mut Frame<'_>,
    area: Rect,
    (table, heads): (Table<'_>, [&'static str; N]),
    (of, place): (List, &mut Place),
) {
    let here = place.list == of;
    let name = match of {
        List::Subscriptions => "subscriptions",
        List::Topics => "topics",
    };
    let border = match here {
        true => Style::new().fg(Color::Cyan),
        false => Style::new().add_modifier(Modifier::DIM),
    };
    let block = Block::new()
        .borders(Borders::ALL)
        .border_style(border)
        .title(format!(" {name}, by {} ", place.sort(of)));
    let numbers = [
        "lag",
        "bytes",
        "oldest",
        "commits",
        "left",
        "partitions",
        "records",
        "appends",
    ];
    let head = heads.map(|text| match numbers.contains(&text) {
        true => right(text.to_owned()),
        false => Cell::from(text),
    });
    let head = Row::new(head).style(Style::new().add_modifier(Modifier::BOLD));
    let marked = match here {
        true => Style::new().add_modifier(Modifier::REVERSED),
        false => Style::new(),
    };
    let table = table.header(head).row_highlight_style(marked).block(block);
    frame.render_stateful_widget(table, area, &mut place.lines[of as usize]);
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).alignment(Alignment::Right))
}

fn colour(status: Status) -> Style {
    Style::new().fg(match status {
        Status::Expired | Status::Failed => Color::Red,
        Status::Paused => Color::Magenta,
        Status::Lagging => Color::Yellow,
        Status::CaughtUp => Color::Green,
    })
}

/// How long it takes to catch up at the pace of the last commits, if nothing more came.
fn left(it: &SubscriptionLine) -> String {
    if it.records == 0 || it.rate < 0.1 {
        return String::new();
    }
    age(Duration::from_secs_f64(
        (it.records as f64 / it.rate).min(1e9),
    ))
}

/// Figures as a row of bars, the greatest one full.
fn chart(figures: &[u64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = figures.iter().copied().max().unwrap_or(0).max(1);
    let bar = |figure: &u64| match figure {
        0 => ' ',
        figure => BARS[(u128::from(*figure) * 7 / u128::from(most)) as usize],
    };
    figures.iter().map(bar).collect()
}

/// A number a second: 0, 0.4, 12, 1.2k, 3.4M.
fn rate(rate: f64) -> String {
    match rate {
        rate if rate < 0.05 => "0".to_owned(),
        rate if rate < 9.95 => format!("{rate:.1}"),
        rate if rate < 999.5 => format!("{rate:.0}"),
        rate if rate < 999_500.0 => format!("{:.1}k", rate / 1e3),
        rate => format!("{:.1}M", rate / 1e6),
    }
}

/// Bytes in a unit of four digits at the most: 999 B, 1.2 MB.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    let mut size = bytes as f64;
    let mut unit = "B";
    for next in UNITS {
        if size < 999.5 {
            break;
        }
        (size, unit) = (size / 1e3, next);
    }
    match unit {
        "B" => format!("{bytes} B"),
        unit => format!("{size:.1} {unit}"),
    }
}

/// A length of time in its two greatest units: 12s, 3m 20s, 7d 4h.
pub(super) fn age(age: Duration) -> String {
    const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];
    let seconds = age.as_secs();
    if seconds < 1 {
        return format!("{}ms", age.subsec_millis());
    }
    let mut text = Vec::new();
    let mut rest = seconds;
    for (unit, length) in UNITS {
        if rest >= length && text.len() < 2 {
            text.push(format!("{}{unit}", rest / length));
            rest %= length;
        } else if !text.is_empty() {
            break;
        }
    }
    text.join(" ")
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::commands::lag::model::tests::look;

    const RECORDED: &str = include_str!("../../../../../docs/lag-watch.txt");

    fn after(seconds: u64) -> Board {
        let mut board = Board::default();
        let at = Instant::now();
        for second in 1..=seconds {
            board.take(look(second), at + Duration::from_secs(second));
        }
        board
    }

    fn screen(terminal: &Terminal<TestBackend>) -> String {
        let buffer = terminal.backend().buffer();
        let line = |y| {
            let cells = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol());
            cells.collect::<String>().trim_end().to_owned()
        };
        let lines: Vec<String> = (0..buffer.area.height).map(line).collect();
        lines.join("\n") + "\n"
    }

    /// The screen in the documentation is the one that is drawn. Where this fails on purpose, what is
    /// printed is what belongs there.
    #[test]
    fn the_recorded_screen_is_what_is_drawn() {
        let mut terminal = Terminal::new(TestBackend::new(132, 18)).unwrap();
        let board = after(12);
        terminal
            .draw(|frame| draw(frame, &board, &mut Place::default()))
            .unwrap();
        let drawn = screen(&terminal);
        assert_eq!(drawn, RECORDED, "\n{drawn}");
    }

    /// A store in which nothing moves: drawing it again changes not one cell, so nothing is sent to the
    /// terminal. Small and strange sizes are drawn, too.
    #[test]
    fn what_has_not_changed_is_not_sent_again() {
        let board = after(3);
        let mut place = Place::default();
        let mut terminal = Terminal::new(TestBackend::new(100, 40)).unwrap();
        terminal
            .draw(|frame| draw(frame, &board, &mut place))
            .unwrap();
        let before = terminal.backend().buffer().clone();
        terminal
            .draw(|frame| draw(frame, &board, &mut place))
            .unwrap();
        assert!(before.diff(terminal.backend().buffer()).is_empty());
        for (width, height) in [(1, 1), (20, 5), (300, 3), (10, 80)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal
                .draw(|frame| draw(frame, &board, &mut place))
                .unwrap();
        }
    }

    #[test]
    fn figures_read_as_people_say_them() {
        let ages = [
            (0, "0ms"),
            (59, "59s"),
            (200, "3m 20s"),
            (3600, "1h"),
            (90_000, "1d 1h"),
        ];
        for (seconds, text) in ages {
            assert_eq!(age(Duration::from_secs(seconds)), text);
        }
        for (number, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1200, "1.2 kB"),
            (20_000_000_000, "20.0 GB"),
        ] {
            assert_eq!(bytes(number), text);
        }
        for (number, text) in [
            (0.0, "0"),
            (0.42, "0.4"),
            (12.3, "12"),
            (1234.0, "1.2k"),
            (3.4e6, "3.4M"),
        ] {
            assert_eq!(rate(number), text);
        }
        assert_eq!(chart(&[0, 1, 8]), " ▁█");
    }
}
