//! Terminal: drawing, key presses, and real time.

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

/// Interval at which the size of the terminal is checked; less than a second, the limit of `is_pressed`.
const LOOK: Duration = Duration::from_millis(50);

/// Command of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyCommand {
    /// Pause or resume.
    Pause,
    /// Raise the speed limit.
    Faster,
    /// Lower the speed limit.
    Slower,
    /// Remove or restore the speed limit.
    Free,
    /// Choose the next node.
    Next,
    /// Choose the previous node.
    Previous,
    /// Choose the tenth node ahead.
    FarNext,
    /// Choose the tenth node back.
    FarPrevious,
    /// Choose no node.
    Nobody,
    /// End the run with its results so far.
    Quit,
    /// Redraw the picture.
    Redraw,
}

/// Screen on which the view is drawn.
pub trait Screen {
    /// Real time since a fixed moment.
    fn now(&mut self) -> Duration;
    /// Draws one picture.
    ///
    /// # Errors
    /// If the screen is lost.
    fn draw(&mut self, picture: &mut dyn FnMut(&mut Frame<'_>)) -> io::Result<()>;
    /// Waits for input, at most this long; `None` if none came or if it is no command.
    ///
    /// # Errors
    /// As for [`Screen::draw`].
    fn key(&mut self, wait: Duration) -> io::Result<Option<KeyCommand>>;
}

/// Reason, with a hint, why a run cannot be watched here.
pub fn hindrance() -> Option<&'static str> {
    if !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
        return Some(
            "`--watch` needs a terminal for standard input and output\n\
             hint: leave it out; the map of `farlink report RUN` shows the run afterwards",
        );
    }
    if std::env::var("TERM").is_ok_and(|kind| kind == "dumb") {
        return Some("`--watch` needs a terminal with cursor control, but TERM is `dumb`\nhint: leave it out");
    }
    None
}

/// Terminal of this process, restored on drop and on a panic.
pub struct TerminalScreen {
    /// Never dropped: with a lost terminal its destructor would print an error to that terminal and panic.
    terminal: ManuallyDrop<DefaultTerminal>,
    begun: Instant,
    /// Last known columns and lines.
    size: (u16, u16),
}

impl TerminalScreen {
    /// Switches the terminal to the view.
    ///
    /// # Errors
    /// If the terminal does not support the view; the terminal is restored first.
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
    // A lost terminal needs no restoring: errors are ignored.
    let _ = ratatui::try_restore();
    // Drawing hides the cursor.
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
            // crossterm would wait for ever on a lost terminal, so it is asked only once input has arrived.
            if is_pressed(left.min(LOOK))? && event::poll(Duration::ZERO)? {
                return Ok(match event::read()? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => meaning(key),
                    // Not every terminal reports this, which is why the size is polled, too.
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

/// Whether input arrives within this time, which must be below a second.
///
/// # Errors
/// If the terminal is lost.
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
        return Err(io::Error::new(io::ErrorKind::NotConnected, "the terminal was closed"));
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
        // `=` is the unshifted `+` on many keyboards.
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
        // Tests may also be run by hand, in a terminal.
        if !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
            assert!(hindrance().is_some_and(|why| why.contains("hint:")));
        }
    }
}
