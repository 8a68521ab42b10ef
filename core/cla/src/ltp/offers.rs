//! Offers the bundles of a received block to the agent. Those of the red part await a verdict, those of the green part
//! do not.

use super::Split;
use super::import::{Import, OfferedBundle};
use super::offering::BundlePart;
use super::segment::SessionId;
use farlink_base::layer::{Output, Ticket};
use farlink_base::{Event, EventClass, LinkId, Map, Refusal, Sink};

/// Context for offering the bundles of one session.
pub(super) struct Offers<'a> {
    pub(super) id: SessionId,
    pub(super) link: LinkId,
    pub(super) split: Split,
    pub(super) next: &'a mut u64,
}
impl Offers<'_> {
    fn ticket(&mut self) -> Ticket {
        *self.next += 1;
        Ticket(*self.next - 1)
    }
    /// Offers the red data pushed so far, bundle by bundle; `complete`: no more follows.
    pub(super) fn red(
        &mut self,
        import: &mut Import,
        complete: bool,
        tickets: &mut Map<Ticket, SessionId>,
        out: &mut impl Sink<Output>,
    ) {
        let link = self.link;
        while let Some(BundlePart { ticket, bytes, last }) = import.offering.next(self.split, complete) {
            let total = (last && ticket.is_none()).then_some(bytes.len());
            let ticket = match ticket {
                Some(ticket) if import.is_refused(ticket) => continue,
                Some(ticket) => ticket,
                None => {
                    let ticket = self.ticket();
                    import.offered.push(OfferedBundle { ticket, verdict: None });
                    tickets.insert(ticket, self.id);
                    if !last {
                        import.offering.began(ticket, &bytes);
                    }
                    ticket
                }
            };
            out.push(Output::Offer { ticket, link, part: bytes, last, total, reliable: true });
        }
        if import.offering.has_lost() {
            // Dropped data counts as a malformed bundle.
            let verdict = Some(Err(Refusal::NotAcceptable));
            import.offered.push(OfferedBundle { ticket: self.ticket(), verdict });
            self.lost(out);
        }
    }
    /// Offers the green data pushed, which may begin with the rest of a bundle from the red part.
    pub(super) fn green(&mut self, import: &mut Import, out: &mut impl Sink<Output>) {
        let link = self.link;
        while let Some(BundlePart { ticket, bytes, last }) = import.offering.next(self.split, true) {
            if ticket.is_some_and(|ticket| import.is_refused(ticket)) {
                continue;
            }
            let (reliable, total) = (ticket.is_some(), ticket.is_none().then_some(bytes.len()));
            let ticket = ticket.unwrap_or_else(|| self.ticket());
            out.push(Output::Offer { ticket, link, part: bytes, last, total, reliable });
        }
        if import.offering.has_lost() {
            self.lost(out);
        }
    }
    /// Reports that a block has an item for an unknown service.
    fn lost(&self, out: &mut impl Sink<Output>) {
        if out.wants(EventClass::Link) {
            let reason = "LTP service data that are for no service here";
            out.push(Output::Event(Event::Malformed { link: Some(self.link), offset: 0, reason }));
        }
    }
}
