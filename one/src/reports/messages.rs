//! Reports of messages: `CreatedMessagesReport`, `DeliveredMessagesReport`, `MessageDeliveryReport`,
//! `MessageDelayReport`.

use super::{Happened, Lines, Names, Out};
use crate::java::fixed;
use std::io::Write as _;

/// Kinds of reports of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A line for each new message.
    Created,
    /// A line for each delivered message, with its path.
    Delivered,
    /// A line with the share of delivered messages, each time that it changes.
    Share,
    /// The delays of delivered messages, sorted, with their distribution.
    Delay,
}

/// Writer of a report of messages.
pub struct Messages {
    kind: MessageKind,
    warmup: f64,
    places: usize,
    begun: bool,
    created: u64,
    delivered: u64,
    delays: Vec<f64>,
}

impl Messages {
    /// Begins a report with numbers of `places` decimals; messages of the first `warmup` seconds are left out.
    pub fn new(kind: MessageKind, places: usize, warmup: f64) -> Messages {
        Messages { kind, warmup, places, begun: false, created: 0, delivered: 0, delays: Vec::new() }
    }
    fn header(&mut self, out: &mut Out) -> std::io::Result<()> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        let header = match self.kind {
            MessageKind::Created => "# time  ID  size  fromHost  toHost  TTL  isResponse",
            MessageKind::Delivered => {
                "# time  ID  size  hopcount  deliveryTime  fromHost  toHost  remainingTtl  isResponse  path"
            }
            MessageKind::Share => "# time  created  delivered  delivered/created",
            MessageKind::Delay => "# messageDelay  cumulativeProbability",
        };
        writeln!(out, "{header}")
    }
}

impl Lines for Messages {
    fn line(&mut self, out: &mut Out, now: f64, happened: &Happened, names: &Names) -> std::io::Result<()> {
        self.header(out)?;
        let (number, delivery) = match *happened {
            Happened::Created { message, .. } => (message, None),
            Happened::Done { message, hops, path, first: true, .. } => (message, Some((hops, path))),
            _ => return Ok(()),
        };
        let message = &names.messages[number as usize];
        if message.created < self.warmup {
            return Ok(());
        }
        match delivery {
            None => self.created += 1,
            Some(_) => self.delivered += 1,
        }
        let delay = now - message.created;
        let [time, late] = [now, delay].map(|seconds| fixed(seconds, self.places));
        let [from, to] = [message.from, message.to].map(|host| &names.hosts[host as usize]);
        let left = message.minutes_left(now).map_or("n/a".into(), |minutes| minutes.to_string());
        let (id, size) = (&message.id, message.size);
        match (self.kind, delivery) {
            (MessageKind::Created, None) => writeln!(out, "{time} {id} {size} {from} {to} {left} N "),
            (MessageKind::Delivered, Some((hops, path))) => {
                let path = names.path(path).join("->");
                writeln!(out, "{time} {id} {size} {hops} {late} {from} {to} {left} N {path}")
            }
            (MessageKind::Share, _) => {
                let share = fixed(self.delivered as f64 / self.created as f64, self.places);
                writeln!(out, "{time} {} {} {share}", self.created, self.delivered)
            }
            (MessageKind::Delay, Some(_)) => {
                self.delays.push(delay);
                Ok(())
            }
            _ => Ok(()),
        }
    }
    fn end(&mut self, out: &mut Out, now: f64) -> std::io::Result<()> {
        self.header(out)?;
        if self.kind != MessageKind::Delay {
            return Ok(());
        }
        if self.delays.is_empty() {
            return writeln!(out, "# no messages delivered in sim time {}", fixed(now, self.places));
        }
        self.delays.sort_unstable_by(f64::total_cmp);
        let (mut sum, share) = (0.0, 1.0 / self.created as f64);
        self.delays.iter().try_for_each(|&delay| {
            sum += share;
            writeln!(out, "{} {}", fixed(delay, self.places), fixed(sum, self.places))
        })
    }
}
