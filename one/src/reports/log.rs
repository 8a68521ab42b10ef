//! `EventLogReport`: one line per event.

use super::{Happened, Lines, Names, Out};
use crate::java::double;
use std::io::Write as _;

/// Writer of `EventLogReport`.
#[derive(Default)]
pub struct EventLog {
    /// Time written last, with its text: most lines share their time with the line before.
    last: Option<(f64, String)>,
}

impl Lines for EventLog {
    fn line(&mut self, out: &mut Out, now: f64, happened: &Happened, names: &Names) -> std::io::Result<()> {
        let time = match &self.last {
            Some((time, text)) if *time == now => text,
            _ => &self.last.insert((now, double(now))).1,
        };
        let host = |number: u32| &names.hosts[number as usize];
        let id = |number: u32| &names.messages[number as usize].id;
        match *happened {
            Happened::Contact { a, b, up } => {
                writeln!(out, "{time} CONN {} {} {}", host(a), host(b), if up { "up" } else { "down" })
            }
            Happened::Created { message, from } => writeln!(out, "{time} C {} {}", host(from), id(message)),
            Happened::Started { from, to, message } => {
                writeln!(out, "{time} S {} {} {}", host(from), host(to), id(message))
            }
            Happened::Done { from, to, message, last, first, .. } => {
                let how = match (first, last) {
                    (true, _) => "D",
                    (false, true) => "A",
                    (false, false) => "R",
                };
                writeln!(out, "{time} DE {} {} {} {how}", host(from), host(to), id(message))
            }
            Happened::Aborted { from, to, message } => {
                writeln!(out, "{time} A {} {} {}", host(from), host(to), id(message))
            }
            Happened::Deleted { host: at, message, dropped, .. } => {
                writeln!(out, "{time} {} {} {}", if dropped { "DR" } else { "R" }, host(at), id(message))
            }
        }
    }
}
