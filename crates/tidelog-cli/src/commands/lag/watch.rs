//! The loop of the live view: look, draw, wait for a key.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{BeginSynchronizedUpdate, EndSynchronizedUpdate};

use super::draw::{List, Place, draw};
use super::model::{Board, Look};
use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// So many lines a page has.
const PAGE: usize = 10;

/// Shows looks until the user has had enough.
pub(super) fn run(every: Duration, look: impl FnMut() -> Result<Look>) -> Result<Exit> {
    if !io::stdout().is_terminal() {
        let no = io::Error::new(
            io::ErrorKind::Unsupported,
            "it is no terminal, which --watch needs",
        );
        return Err(Failure::Output(no));
    }
    let mut terminal = ratatui::try_init().map_err(Failure::Output)?;
    let watched = watch(&mut terminal, every, look);
    // What went wrong first is told.
    let restored = ratatui::try_restore().map_err(Failure::Output);
    watched?;
    restored?;
    Ok(Exit::Success)
}

fn watch(
    terminal: &mut DefaultTerminal,
    every: Duration,
    mut look: impl FnMut() -> Result<Look>,
) -> Result<()> {
    let (mut board, mut place) = (Board::default(), Place::default());
    place
        .lines
        .iter_mut()
        .for_each(|lines| lines.select(Some(0)));
    let mut next = Instant::now();
    loop {
        let now = Instant::now();
        if now >= next {
            board.take(look()?, now);
            next = now + every;
        }
        show(terminal, &board, &mut place).map_err(Failure::Output)?;
        let pause = next.saturating_duration_since(Instant::now());
        // Keys that came together are followed by one drawing.
        let mut wait = pause;
        while event::poll(wait).map_err(Failure::Output)? {
            if !follow(&event::read().map_err(Failure::Output)?, &board, &mut place) {
                return Ok(());
            }
            wait = Duration::ZERO;
        }
    }
}

/// As one piece, so that no half of it is ever seen.
fn show(terminal: &mut DefaultTerminal, board: &Board, place: &mut Place) -> io::Result<()> {
    execute!(io::stdout(), BeginSynchronizedUpdate)?;
    terminal.draw(|frame| draw(frame, board, place))?;
    execute!(io::stdout(), EndSynchronizedUpdate)
}

/// Does what a key says; false if that is to end.
fn follow(event: &Event, board: &Board, place: &mut Place) -> bool {
    let Event::Key(key) = event else {
        return true;
    };
    if key.kind == KeyEventKind::Release {
        return true;
    }
    let lines = match place.list {
        List::Subscriptions => board.subscriptions.len(),
        List::Topics => board.topics.len(),
    };
    let at = place.lines[place.list as usize].selected().unwrap_or(0);
    let to = match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Tab | KeyCode::BackTab => {
            place.list = match place.list {
                List::Subscriptions => List::Topics,
                List::Topics => List::Subscriptions,
            };
            return true;
        }
        KeyCode::Char('s') => {
            let sort = &mut place.sorts[place.list as usize];
            *sort = sort.wrapping_add(1);
            at
        }
        KeyCode::Down | KeyCode::Char('j') => at + 1,
        KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
        KeyCode::PageDown => at + PAGE,
        KeyCode::PageUp => at.saturating_sub(PAGE),
        KeyCode::Home => 0,
        KeyCode::End => usize::MAX,
        _ => at,
    };
    let last = lines.saturating_sub(1);
    place.lines[place.list as usize].select(Some(to.min(last)));
    true
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use ratatui::crossterm::event::KeyEvent;

    use super::*;
    use crate::commands::lag::model::tests::look;

    /// Keys move within the list they are in, and not beyond its ends; Tab changes it; q ends all.
    #[test]
    fn keys_move_in_the_list_and_not_beyond_it() {
        let mut board = Board::default();
        board.take(look(1), Instant::now());
        let mut place = Place::default();
        let mut press = |code| {
            let goes_on = follow(&Event::Key(KeyEvent::from(code)), &board, &mut place);
            (
                goes_on,
                place.list,
                place.lines[place.list as usize].selected(),
            )
        };
        assert_eq!(press(KeyCode::Down), (true, List::Subscriptions, Some(1)));
        assert_eq!(
            press(KeyCode::PageDown),
            (true, List::Subscriptions, Some(3))
        );
        assert_eq!(press(KeyCode::Up), (true, List::Subscriptions, Some(2)));
        assert_eq!(press(KeyCode::Tab), (true, List::Topics, None));
        assert_eq!(press(KeyCode::End), (true, List::Topics, Some(2)));
        assert_eq!(press(KeyCode::Home), (true, List::Topics, Some(0)));
        assert!(!press(KeyCode::Char('q')).0);
    }
}
