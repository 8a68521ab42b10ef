//! The far end of a tunnel, and the stack's part in the exit of bundles.

use super::support::{Bundle, Toy, token};
use super::{LINKS, RandomRun};
use farlink_base::{DeleteReason, EndpointId, LinkId, Payload, Refusal};
use farlink_bpa::{Answer, Edge, Input, Numbers, Reading, TunnelCodes};

impl RandomRun {
    /// Sends a genuine or forged signal of the far end, or a bundle in its tunnel.
    pub fn far_end(&mut self) {
        self.last += 1;
        let codes = TunnelCodes::default();
        let payload = if self.rng.chance(0.5) {
            let answer = self.pick(&[Answer::Taken, Answer::Redundant, Answer::Depleted]);
            let given = self.tunnelled.get(self.rng.below(1 + self.tunnelled.len() as u64) as usize).copied();
            let first = given.unwrap_or(self.last);
            let run =
                Numbers { sequence: 0, destination: EndpointId::Null, first, last: first + self.pick(&[0, 0, 1]) };
            Toy.tunnel_signal(codes, answer, &vec![run; self.pick(&[1, 1, 3])])
        } else {
            Toy.carry(codes, self.pick(&[0, self.last]), None, Payload::from(&b"inside"[..]))
        };
        let bundle = Bundle::new(EndpointId::ipn(3, 0), EndpointId::ipn(1, 0), self.last).payload(payload);
        let bundle = bundle.facts(farlink_base::Facts::ADMIN).lifetime_ms(self.pick(&[400, 60_000]));
        let (ticket, link) = (self.last, LinkId(self.pick(&LINKS)));
        self.tokens.insert(ticket, None);
        let (bundle, hop) = bundle.parts();
        self.tell(Input::Arrived { link, token: token(ticket), bundle, hop });
    }
    /// Plays the stack's part in the exit of an inner bundle.
    pub fn comes_out(&mut self) {
        if let Some((delivery, result)) = self.judged.pop() {
            return self.tell(Input::Judged { delivery, result });
        }
        if let Some(token) = self.insides.pop() {
            let (bundle, link) = (self.bundle(), LinkId::TUNNEL);
            self.hops.entry(bundle.meta.id).or_insert_with(|| bundle.hop.clone());
            let (bundle, hop) = bundle.parts();
            let error = farlink_base::Malformed { offset: 1, reason: "random" };
            let input = match self.rng.below(10) {
                0 => Input::Malformed { link, token, error },
                1 => Input::Unwanted { link, token, bundle, reason: Refusal::NotAcceptable },
                _ => Input::Arrived { link, token, bundle, hop },
            };
            return self.tell(input);
        }
        let Some((delivery, payload)) = self.opens.pop() else { return };
        let input = match self.rng.below(10) {
            0 => Input::Unreadable { what: Reading::Delivery(delivery), for_good: false },
            1 => Input::Insecure { delivery, reason: DeleteReason::FailedSecurity },
            _ => Input::Outer { delivery, payload },
        };
        self.tell(input);
    }
}
