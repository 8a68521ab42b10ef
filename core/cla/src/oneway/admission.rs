//! Admission of incoming streams. Neighbours are identified by address. The number of other peers is limited, so that
//! each neighbour can connect.

use super::layer::OneWay;
use super::receiving::ReceivingStream;
use crate::streams::links::{configured, dynamic_max};
use core::net::IpAddr;
use farlink_base::layer::Output;
use farlink_base::{Duration, Instant, LinkId, Sink, StreamId};

/// Most streams of one neighbour. More than one is allowed, because a stream that the neighbour has lost still looks
/// open here.
const STREAMS_OF_ONE: usize = 8;
/// Silence after which a peer without a configured link may be dropped to make room for another.
const SILENT: Duration = Duration::from_secs(60);
/// Silence within a bundle after which a stream may be dropped for a new one of the same neighbour, which has probably
/// lost the old one.
const STALLED: Duration = Duration::from_secs(10);

/// Reason why a stream is rejected, with the link concerned, if known.
type Unwelcome = (Option<LinkId>, &'static str);

impl OneWay {
    /// Admits a peer that connected, on its configured link or a new dynamic one.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        stream: StreamId,
        from: IpAddr,
        out: &mut impl Sink<Output>,
    ) -> Result<(), Unwelcome> {
        if !stream.is_passive() || self.receiving.contains_key(&stream) {
            return Err((None, "an unexpected stream"));
        }
        if self.shutdown {
            return Err((None, "the node is shutting down"));
        }
        let link_id = match self.link_at(from) {
            Some(link) => {
                self.admit_neighbour(now, link, out).map_err(|why| (Some(link), why))?;
                link
            }
            None => {
                self.admit_dynamic(now, out).map_err(|why| (None, why))?;
                self.dynamic_link()
            }
        };
        self.receive(now, stream, link_id, from);
        if let Some(link) = self.links.get_mut(&link_id) {
            link.by.receiving.push(stream);
        }
        self.note_peer(link_id, out);
        Ok(())
    }

    fn admit_neighbour(
        &mut self,
        now: Instant,
        link_id: LinkId,
        out: &mut impl Sink<Output>,
    ) -> Result<(), &'static str> {
        let Some(link) = self.links.get(&link_id) else { return Ok(()) };
        if link.closed {
            return Err("its link is disabled");
        }
        let open = link.by.receiving.iter().filter_map(|stream| self.receiving.get(stream)).filter(|found| found.open);
        if open.clone().count() >= STREAMS_OF_ONE {
            let stalled = || open.clone().filter(|found| found.is_stalled(now, STALLED));
            // Only open streams are counted and dropped; a closed one may still hold bundles.
            let of_it = |found: &ReceivingStream| found.open && link.by.receiving.contains(&found.stream);
            let idle = self.longest_silent(now, Duration::ZERO, of_it);
            // Prefer a stream without a bundle in progress, because dropping it loses nothing.
            let longest = idle.or_else(|| stalled().min_by_key(|found| found.last_received).map(|found| found.stream));
            let Some(longest) = longest else { return Err("a neighbour with too many streams") };
            self.drop_one(now, longest, out);
        }
        // Even at the session limit, each configured neighbour may still connect once.
        let most = self.config.sessions as usize + configured(&self.links);
        if self.is_full() && !self.drop_dynamic(now, out) && self.sessions() >= most {
            return Err("no room for more streams");
        }
        Ok(())
    }
    fn admit_dynamic(&mut self, now: Instant, out: &mut impl Sink<Output>) -> Result<(), &'static str> {
        if !self.config.accept_unknown {
            return Err("an unknown node");
        }
        let full = self.is_full() || self.dynamic_streams() >= dynamic_max(&self.links, self.config.sessions);
        if full && !self.drop_dynamic(now, out) {
            return Err("no room for more unknown nodes");
        }
        Ok(())
    }

    fn sessions(&self) -> usize {
        self.sending.len() + self.receiving.len()
    }
    fn is_full(&self) -> bool {
        self.sessions() >= self.config.sessions as usize
    }
    fn dynamic_streams(&self) -> usize {
        self.links.values().filter(|link| !link.configured).map(|link| link.by.receiving.len()).sum()
    }
    /// Stream to drop, among those that match. Candidates have no bundle in progress or are closed, and were silent for
    /// at least `least` or since they were opened. Order: streams without bundles before closed ones that still hold
    /// some, then streams that never received a byte, then the longest silent.
    fn longest_silent(
        &self,
        now: Instant,
        least: Duration,
        among: impl Fn(&ReceivingStream) -> bool,
    ) -> Option<StreamId> {
        let silent = self.receiving.values().filter(|found| {
            (found.is_idle() || !found.open)
                && (!found.heard || now.since(found.last_received) >= least)
                && among(found)
        });
        silent.min_by_key(|found| (!found.is_idle(), found.heard, found.last_received)).map(|found| found.stream)
    }
    fn drop_dynamic(&mut self, now: Instant, out: &mut impl Sink<Output>) -> bool {
        let longest = self.longest_silent(now, SILENT, |found| found.link.is_dynamic());
        longest.is_some_and(|stream| {
            self.drop_one(now, stream, out);
            true
        })
    }
    fn drop_one(&mut self, now: Instant, stream: StreamId, out: &mut impl Sink<Output>) {
        self.turn_away(now, stream, out);
        self.forget(stream, out);
    }
}
