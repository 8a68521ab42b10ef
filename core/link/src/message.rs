//! Transmission of whole messages over a direction, for simulations without packets. One message is transmitted at a
//! time; it is cut off when the link goes down.

use crate::direction::LinkDirection;
use crate::statistics::DropReason;
use farlink_base::Instant;

/// A message under transmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmission {
    began: Instant,
    wire_bytes: u64,
    whole: bool,
    /// Time at which the driver must end the transmission: its last bit is sent, or the link goes down.
    pub until: Instant,
}

/// Fate of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageFate {
    /// Sent completely; its last bit arrives at this time.
    Arrives(Instant),
    /// Sent completely, but lost on the way.
    Lost,
    /// Stopped before its last bit was sent; no part of it is usable.
    CutOff,
}

impl Transmission {
    /// Whether the last bit was sent by `now`.
    pub fn is_out(&self, now: Instant) -> bool {
        self.whole && now >= self.until
    }
}

impl LinkDirection {
    /// Starts to transmit a message of `wire_bytes` at `now`; the caller has added headers and overhead. The counters
    /// count messages where [`LinkDirection::transmit`] counts packets.
    ///
    /// # Errors
    /// [`DropReason::Down`] if the link is down or its rate stays 0; [`DropReason::QueueFull`] while the direction
    /// transmits another message.
    pub fn begin_message(&mut self, now: Instant, wire_bytes: u64) -> Result<Transmission, DropReason> {
        let (up, window_end) = self.availability.at(now);
        if up && self.transmitter.free > now {
            return Err(DropReason::QueueFull);
        }
        let end = self.transmitter.rate.finish(now, wire_bytes);
        let until = end.min(window_end);
        // At a rate that stays 0 the message would never end.
        if !up || until == Instant::MAX {
            return Err(DropReason::Down);
        }
        self.statistics.sent += 1;
        self.statistics.sent_bytes += wire_bytes;
        self.transmitter.free = until;
        Ok(Transmission { began: now, wire_bytes, whole: end <= window_end, until })
    }

    /// Ends a transmission: on time, or earlier, which cuts it off. The transmitter is then free. With `losses`, random
    /// loss and bit errors apply to messages as to packets.
    pub fn end_message(&mut self, now: Instant, transmission: Transmission, losses: bool) -> MessageFate {
        let Transmission { began, wire_bytes, whole, until } = transmission;
        let left = now.min(until);
        self.transmitter.free = left;
        self.statistics.busy += left - began;
        if !whole || left < until {
            self.drop_packet(DropReason::WindowEnd, wire_bytes);
            return MessageFate::CutOff;
        }
        let at = self.arrival(left);
        if let Some(reason) = self.message_loss(wire_bytes).filter(|_| losses) {
            self.drop_packet(reason, wire_bytes);
            return MessageFate::Lost;
        }
        self.statistics.delivered += 1;
        self.statistics.delivered_bytes += wire_bytes;
        MessageFate::Arrives(at)
    }

    /// Suspends an unfinished transmission, and returns the number of bytes left for a later one. The bytes sent count
    /// as delivered at once; the message counts only when its last bit was sent.
    pub fn suspend_message(&mut self, now: Instant, transmission: Transmission) -> u64 {
        let Transmission { began, wire_bytes, until, .. } = transmission;
        let left = now.min(until);
        self.transmitter.free = left;
        // At least one byte is left, because a complete transmission is ended, not suspended.
        let out = self.transmitter.rate.out_by(began, left).min(wire_bytes.saturating_sub(1));
        let counted = &mut self.statistics;
        counted.busy += left - began;
        // The message and its remaining bytes are counted again when the rest is transmitted.
        counted.sent -= 1;
        counted.sent_bytes -= wire_bytes - out;
        counted.delivered_bytes += out;
        wire_bytes - out
    }

    /// Draws the loss of a message that was sent completely. Every generator draws once per such message, lost or not.
    fn message_loss(&mut self, bytes: u64) -> Option<DropReason> {
        let lost = self.impairments.lost(&self.spec.loss).then_some(DropReason::Loss);
        let wrong = self.impairments.bit_error(self.spec.bit_error_rate, bytes).then_some(DropReason::BitError);
        lost.or(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ContactWindow, DirectionSpec, Loss};
    use alloc::vec::Vec;
    use farlink_base::{DataRate, Duration};

    const MS: u64 = 1_000_000;

    fn link(windows: &[(u64, u64)]) -> LinkDirection {
        let window = |w: &(u64, u64)| ContactWindow::new(Instant(w.0 * MS), Instant(w.1 * MS));
        let windows = (!windows.is_empty()).then(|| windows.iter().map(window).collect::<Vec<_>>());
        let spec = DirectionSpec::new(DataRate(8_000_000), Duration::from_millis(100));
        LinkDirection::new(DirectionSpec { windows, ..spec }, 1)
    }

    /// Sends a message to its end; returns the time of the end, ms, and the message's fate.
    fn send(link: &mut LinkDirection, at: u64, bytes: u64) -> Result<(u64, MessageFate), DropReason> {
        let transmission = link.begin_message(Instant(at * MS), bytes)?;
        Ok((transmission.until.0 / MS, link.end_message(transmission.until, transmission, true)))
    }

    #[test]
    fn message_takes_rate_and_delay() {
        let mut link = link(&[]);
        let first = link.begin_message(Instant(0), 5000).unwrap();
        assert_eq!(link.begin_message(Instant(4 * MS), 1), Err(DropReason::QueueFull));
        assert_eq!(link.end_message(first.until, first, true), MessageFate::Arrives(Instant(105 * MS)));
        assert_eq!(send(&mut link, 5, 1000), Ok((6, MessageFate::Arrives(Instant(106 * MS)))));
        assert_eq!((link.statistics().sent, link.statistics().busy), (2, Duration::from_millis(6)));
    }

    #[test]
    fn window_end_cuts_off_message() {
        let mut link = link(&[(10, 20), (30, 40)]);
        assert_eq!(send(&mut link, 0, 1), Err(DropReason::Down));
        // 8 Mbit/s are 1,000 B per ms, so 10,001 B do not fit into 10 ms.
        assert_eq!(send(&mut link, 10, 10_001), Ok((20, MessageFate::CutOff)));
        assert_eq!(send(&mut link, 30, 10_000), Ok((40, MessageFate::Arrives(Instant(140 * MS)))));
        assert_eq!(link.statistics().dropped_by(DropReason::WindowEnd), 1);
    }

    #[test]
    fn stopped_message_frees_link() {
        let mut link = link(&[]);
        let stopped = link.begin_message(Instant(0), 5000).unwrap();
        assert_eq!(link.end_message(Instant(2 * MS), stopped, true), MessageFate::CutOff);
        let counted = *link.statistics();
        assert_eq!((counted.delivered, counted.dropped_total(), counted.busy), (0, 1, Duration::from_millis(2)));
        assert_eq!(send(&mut link, 2, 1000), Ok((3, MessageFate::Arrives(Instant(103 * MS)))));
    }

    #[test]
    fn suspended_message_resumes_and_counts_once() {
        let mut link = link(&[(10, 20), (30, 40)]);
        let first = link.begin_message(Instant(10 * MS), 15_000).unwrap();
        assert!(!first.is_out(first.until) && first.until == Instant(20 * MS));
        assert_eq!(link.suspend_message(first.until, first), 5_000);
        let second = link.begin_message(Instant(30 * MS), 5_000).unwrap();
        assert!(!second.is_out(Instant(34 * MS)) && second.is_out(Instant(35 * MS)));
        assert_eq!(link.end_message(second.until, second, true), MessageFate::Arrives(Instant(135 * MS)));
        let counted = *link.statistics();
        assert_eq!((counted.sent, counted.delivered, counted.dropped_total()), (1, 1, 0));
        assert_eq!((counted.sent_bytes, counted.delivered_bytes), (15_000, 15_000));
        assert_eq!(counted.busy, Duration::from_millis(15));
    }

    #[test]
    fn message_losses_are_optional() {
        // The number of arrivals of 10,000 messages with a loss of 20 % has a standard deviation of 40.
        let spec = DirectionSpec { loss: Loss::Bernoulli(0.2), ..DirectionSpec::default() };
        let arrived = |losses: bool| {
            let mut link = LinkDirection::new(spec.clone(), 5);
            let mut arrives = |n| {
                let transmission = link.begin_message(Instant(n), 10).unwrap();
                matches!(link.end_message(Instant(n), transmission, losses), MessageFate::Arrives(_))
            };
            (0..10_000u64).filter(|n| arrives(*n)).count()
        };
        assert_eq!(arrived(false), 10_000);
        assert!(arrived(true).abs_diff(8000) < 150, "{}", arrived(true));
    }
}
