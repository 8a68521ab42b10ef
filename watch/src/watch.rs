//! Observer of a run: counts events, draws twenty pictures a second, handles keys, and delays the simulation to the
//! chosen speed.

use crate::facts::Facts;
use crate::pace::RunPace;
use crate::screen::{KeyCommand, Screen, TerminalScreen};
use crate::tally::WatchTally;
use crate::view::{self, Picture, Theme};
use farlink_base::{Event, EventClass, Instant};
use farlink_scenario::Scenario;
use farlink_sim::contacts::ContactEdge;
use farlink_sim::mobility::ways::Ways;
use farlink_sim::{Nodes, Observer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval between pictures in real time.
const FRAME: Duration = Duration::from_millis(50);
/// Number of events after which the clock is read in any case.
const LOOK: u32 = 32;
/// Most bundles of the chosen node that are queried.
const HELD: usize = 64;
/// Interval over which speed is measured, real time.
const MEASURED: Duration = Duration::from_secs(1);

/// Live view of a run. The screen is opened when the run begins, and restored on drop.
pub struct RunWatch<S> {
    facts: Facts,
    tally: WatchTally,
    ways: Ways,
    bounds: Option<[[f64; 2]; 2]>,
    pace: RunPace,
    theme: Theme,
    open: fn() -> std::io::Result<S>,
    screen: Option<S>,
    /// Error of the screen, after which the run continues without a view.
    lost: Option<std::io::Error>,
    stop: Arc<AtomicBool>,
    chosen: Option<usize>,
    steps: u32,
    /// Virtual time before which no picture is due, so that events need not read the clock.
    quiet_until: Instant,
    next_frame: Duration,
    redraw: bool,
    /// Measured speed, virtual seconds per second.
    speed: Option<f64>,
    /// Real and virtual time since which speed is measured.
    mark: (Duration, Instant),
}

impl RunWatch<TerminalScreen> {
    /// View of a scenario in the terminal of this process. The run ends when `stop` is set, by the key `q` or
    /// elsewhere.
    pub fn in_terminal(scenario: &Scenario, stop: Arc<AtomicBool>) -> RunWatch<TerminalScreen> {
        let theme = Theme { colour: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) };
        RunWatch::new(scenario, stop, theme.colour, TerminalScreen::open)
    }
}

impl<S: Screen> RunWatch<S> {
    /// View on a screen that is opened when the run begins.
    pub fn new(
        scenario: &Scenario,
        stop: Arc<AtomicBool>,
        colour: bool,
        open: fn() -> std::io::Result<S>,
    ) -> RunWatch<S> {
        let facts = Facts::new(scenario);
        let ways = Ways::of_scenario(scenario);
        RunWatch {
            tally: WatchTally::new(&facts),
            pace: RunPace::new(scenario.duration),
            theme: Theme { colour },
            bounds: ways.bounds(),
            facts,
            ways,
            open,
            screen: None,
            lost: None,
            stop,
            chosen: None,
            steps: 0,
            quiet_until: Instant::ZERO,
            next_frame: Duration::ZERO,
            redraw: true,
            speed: None,
            mark: (Duration::ZERO, Instant::ZERO),
        }
    }
    /// Restores the screen; returns the error that ended the view early, if any.
    pub fn finish(self) -> Option<std::io::Error> {
        self.lost
    }
    /// Screen, while it is open.
    pub fn screen(&mut self) -> Option<&mut S> {
        self.screen.as_mut()
    }

    /// Draws and handles keys until the event at virtual time `at` is due or the run is stopped.
    ///
    /// # Errors
    /// If the screen is lost.
    fn show(&mut self, screen: &mut S, at: Instant, nodes: &Nodes<'_>) -> std::io::Result<()> {
        loop {
            let real = screen.now();
            self.pace.keep_up(real, at);
            let mut shown = self.pace.at(real).min(at);
            if real >= self.next_frame || self.redraw {
                // Bounded, so that a key held down does not block the run.
                for _ in 0..64 {
                    let Some(key) = screen.key(Duration::ZERO)? else { break };
                    self.press(key, real, shown);
                }
                shown = self.pace.at(real).min(at);
                if self.redraw || !self.pace.is_paused() {
                    self.draw(screen, real, shown, nodes)?;
                }
                self.next_frame = real + FRAME;
                // The clock need not be read at events before this virtual time.
                self.quiet_until = self.pace.at(self.next_frame);
            }
            if self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let due = self.pace.until(real, at);
            if due == Some(Duration::ZERO) {
                return Ok(());
            }
            let wait = due.unwrap_or(FRAME).min(self.next_frame.saturating_sub(real));
            if let Some(key) = screen.key(wait.max(Duration::from_micros(100)))? {
                self.press(key, real, shown);
            }
        }
    }

    fn press(&mut self, key: KeyCommand, real: Duration, shown: Instant) {
        self.redraw = true;
        let count = self.facts.nodes.len();
        let step = |chosen: Option<usize>, by: usize| match chosen {
            None => Some(if by < count { 0 } else { count.saturating_sub(1) }),
            Some(node) => Some((node + by) % count.max(1)),
        };
        match key {
            KeyCommand::Pause => self.pace.pause(real, shown),
            KeyCommand::Faster => self.pace.change(real, shown, true),
            KeyCommand::Slower => self.pace.change(real, shown, false),
            KeyCommand::Free => self.pace.release(real, shown),
            KeyCommand::Next => self.chosen = step(self.chosen, 1),
            KeyCommand::Previous => self.chosen = step(self.chosen, count.saturating_sub(1)),
            KeyCommand::FarNext => self.chosen = step(self.chosen, 10),
            KeyCommand::FarPrevious => self.chosen = step(self.chosen, count.saturating_sub(10 % count.max(1))),
            KeyCommand::Nobody => self.chosen = None,
            KeyCommand::Quit => self.stop.store(true, Ordering::Relaxed),
            KeyCommand::Redraw => {}
        }
        self.mark = (real, shown);
        // Keys may change the pace, so the speed is measured anew.
        self.speed = None;
    }

    fn draw(&mut self, screen: &mut S, real: Duration, shown: Instant, nodes: &Nodes<'_>) -> std::io::Result<()> {
        self.redraw = false;
        let measured = real.saturating_sub(self.mark.0);
        if measured >= MEASURED && !self.pace.is_paused() {
            self.speed = Some(shown.since(self.mark.1).as_secs_f64() / measured.as_secs_f64());
            self.mark = (real, shown);
        }
        let count = self.facts.nodes.len();
        let time_s = shown.as_secs_f64();
        let places = match self.ways.is_empty() {
            true => Vec::new(),
            false => (0..count).map(|node| self.ways.at(node, time_s)).collect(),
        };
        for place in places.iter().flatten() {
            // A position outside widens the bounds: those of the movement models are approximate.
            let [low, high] = self.bounds.get_or_insert([*place; 2]);
            for axis in 0..2 {
                (low[axis], high[axis]) = (low[axis].min(place[axis]), high[axis].max(place[axis]));
            }
        }
        let held = self.chosen.map_or_else(Vec::new, |node| nodes.bundles(node, shown, HELD));
        let picture = Picture {
            facts: &self.facts,
            tally: &self.tally,
            theme: self.theme,
            pace: &self.pace,
            speed: self.speed,
            shown,
            places: &places,
            bounds: self.bounds.unwrap_or([[0.0; 2], [1.0; 2]]),
            usage: (0..count).map(|node| nodes.usage(node)).collect(),
            down: (0..count).map(|node| nodes.is_down(node)).collect(),
            chosen: self.chosen.filter(|node| *node < count),
            held: &held,
        };
        screen.draw(&mut |frame| view::draw(frame, &picture))
    }
}

impl<S: Screen> Observer for RunWatch<S> {
    fn wants(&self, class: EventClass) -> bool {
        // The view shows bundles and links, not segments.
        class != EventClass::Segment
    }
    fn samples(&self) -> bool {
        false
    }
    fn event(&mut self, at: Instant, node: usize, event: &Event) {
        self.tally.event(&self.facts, at, node, event);
    }
    fn contact(&mut self, edge: &ContactEdge) {
        self.tally.contact(&self.facts, edge);
    }
    fn reach(&mut self, at: Instant, nodes: &Nodes<'_>) {
        self.steps = self.steps.wrapping_add(1);
        // Reading the clock for every event would slow an unlimited run.
        let soon = self.pace.is_free() || at < self.quiet_until;
        if self.lost.is_some() || soon && !self.steps.is_multiple_of(LOOK) {
            return;
        }
        // The screen is taken out of the view for the call, as drawing borrows both.
        let opened = self.screen.take().map_or_else(self.open, Ok);
        let shown = opened.and_then(|mut screen| {
            let shown = self.show(&mut screen, at, nodes);
            shown.map(|()| screen)
        });
        match shown {
            Ok(screen) => self.screen = Some(screen),
            Err(error) => self.lost = Some(error),
        }
    }
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
