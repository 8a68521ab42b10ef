//! The terminal: what is drawn, which keys are pressed, and how time passes meanwhile.

use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::size;
use ratatui::{DefaultTerminal, Frame};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, IsTerminal};
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

/// How often it is looked whether the terminal has another size. Shorter than a second.
const LOOK: Duration = Duration::from_millis(50);

/// What somebody wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyCommand {
    /// Stand still, or go on.
    Pause,
    /// A higher limit of speed.
    Faster,
    /// A lower one.
    Slower,
    /// As fast as it can, or not.
    Free,
    /// The next node.
    Next,
    /// The one before.
    Previous,
    /// Ten nodes on.
    FarNext,
    /// Ten back.
    FarPrevious,
    /// No node.
    Nobody,
    /// The end, with the results so far.
    Quit,
    /// Nothing, but the picture is to be drawn anew.
    Redraw,
}

/// Where a view is drawn.
pub trait Screen {
    /// Real time since some moment.
    fn now(&mut self) -> Duration;
    /// Draws a picture.
    ///
    /// # Errors
    /// A screen that is there no more.
    fn draw(&mut self, picture: &mut dyn FnMut(&mut Frame<'_>)) -> io::Result<()>;
    /// The next key, if one is pressed within this time.
    ///
    /// # Errors
    /// As [`Screen::draw`].
    fn key(&mut self, wait: Duration) -> io::Result<Option<KeyCommand>>;
}

/// Why a run cannot be watched here, and what to do.
pub fn hindrance() -> Option<&'static str> {
    if !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
        return Some(
            "`--watch` needs a terminal, and standard input or output is none\n\
             hint: leave it out; the report's map plays the run afterwards: `farlink report RUN`",
        );
    }
    if std::env::var("TERM").is_ok_and(|kind| kind == "dumb") {
        return Some("`--watch` needs a terminal that can place text, and TERM is `dumb`\nhint: leave it out");
    }
    None
}

/// The terminal of this process. It is as before when this is dropped, and when anything panics.
pub struct TerminalScreen {
    /// Never dropped: of a terminal that is gone it would say so, to that terminal, and panic for it.
    terminal: ManuallyDrop<DefaultTerminal>,
    begun: Instant,
    /// Columns and lines as they were last.
    size: (u16, u16),
}

impl TerminalScreen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// A terminal that does not allow it; it is as before.
    pub fn open() -> io::Result<TerminalScreen> {
        match ratatui::try_init() {
            Ok(terminal) => Ok(TerminalScreen {
                terminal: ManuallyDrop::new(terminal),
                begun: Instant::now(),
                size: size().unwrap_or_default(),
            }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }
}
impl Drop for TerminalScreen {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    // A terminal that is gone needs nothing.
    let _ = ratatui::try_restore();
    let _ = execute!(io::stdout(), Show);
}

impl Screen for TerminalScreen {
    fn now(&mut self) -> Duration {
        self.begun.elapsed()
    }
    fn draw(&mut self, picture: &mut dyn FnMut(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(picture).map(drop)
    }
    fn key(&mut self, wait: Duration) -> io::Result<Option<KeyCommand>> {
        let end = Instant::now() + wait;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            // What reads the keys would wait for ever for those of a terminal that is gone: it is asked only where there
            // are some.
            if is_pressed(left.min(LOOK))? && event::poll(Duration::ZERO)? {
                return Ok(match event::read()? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => meaning(key),
                    Event::Resize(..) => Some(KeyCommand::Redraw),
                    _ => None,
                });
            }
            let size = size()?;
            if std::mem::replace(&mut self.size, size) != size {
                return Ok(Some(KeyCommand::Redraw));
            }
            if left.is_zero() {
                return Ok(None);
            }
        }
    }
}

/// Whether a key is pressed within this time.
///
/// # Errors
/// A terminal that is gone.
fn is_pressed(wait: Duration) -> io::Result<bool> {
    let keys = io::stdin();
    let mut asked = [PollFd::new(&keys, PollFlags::IN)];
    let wait = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
    match poll(&mut asked, Some(&wait)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let told = asked[0].revents();
    if told.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Err(io::Error::new(io::ErrorKind::NotConnected, "it is gone"));
    }
    Ok(told.contains(PollFlags::IN))
}

fn meaning(key: KeyEvent) -> Option<KeyCommand> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(KeyCommand::Quit),
            KeyCode::Char('l') => Some(KeyCommand::Redraw),
            _ => None,
        };
    }
    Some(match key.code {
        KeyCode::Char(' ') => KeyCommand::Pause,
        KeyCode::Char('+' | '=') => KeyCommand::Faster,
        KeyCode::Char('-') => KeyCommand::Slower,
        KeyCode::Char('m') => KeyCommand::Free,
        KeyCode::Tab | KeyCode::Down | KeyCode::Right => KeyCommand::Next,
        KeyCode::BackTab | KeyCode::Up | KeyCode::Left => KeyCommand::Previous,
        KeyCode::PageDown => KeyCommand::FarNext,
        KeyCode::PageUp => KeyCommand::FarPrevious,
        KeyCode::Esc => KeyCommand::Nobody,
        KeyCode::Char('q' | 'Q') => KeyCommand::Quit,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_c_quits_other_controls_ignored() {
        let of = |code, modifiers| meaning(KeyEvent::new(code, modifiers));
        assert_eq!(of(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(KeyCommand::Quit));
        assert_eq!(of(KeyCode::Char('q'), KeyModifiers::NONE), Some(KeyCommand::Quit));
        assert_eq!(of(KeyCode::Char('z'), KeyModifiers::CONTROL), None);
        assert_eq!(of(KeyCode::Char('x'), KeyModifiers::NONE), None);
    }

    #[test]
    fn missing_terminal_is_an_error() {
        // A test may be run by hand, in one.
        if !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
            assert!(hindrance().is_some_and(|why| why.contains("hint:")));
        }
    }
}
