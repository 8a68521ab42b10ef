//! Offers the bundles of an arriving block to the agent: those of its red part with a verdict to wait for, those of its
//! green part without.

use super::Split;
use super::import::{Import, OfferedBundle};
use super::offering::BundlePart;
use super::segment::SessionId;
use farlink_base::layer::{Output, Ticket};
use farlink_base::{Event, EventClass, LinkId, Map, Refusal, Sink};

/// Offers what came in one session.
pub(super) struct Offers<'a> {
    pub(super) id: SessionId,
    pub(super) link: LinkId,
    pub(super) split: Split,
    /// The next ticket.
    pub(super) next: &'a mut u64,
}
impl Offers<'_> {
    fn ticket(&mut self) -> Ticket {
        *self.next += 1;
        Ticket(*self.next - 1)
    }
    /// Bundle by bundle what was pushed; `complete` with the last of it.
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
            // It counts like a bundle that cannot be read.
            let verdict = Some(Err(Refusal::NotAcceptable));
            import.offered.push(OfferedBundle { ticket: self.ticket(), verdict });
            self.lost(out);
        }
    }
    /// The rest of what was pushed, which is green: to a bundle that began in the red part what belongs to it.
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
    /// Tells that an aggregate holds what is for no service here.
    fn lost(&self, out: &mut impl Sink<Output>) {
        if out.wants(EventClass::Link) {
            let reason = "LTP service data that are for no service here";
            out.push(Output::Event(Event::Malformed { link: Some(self.link), offset: 0, reason }));
        }
    }
}
