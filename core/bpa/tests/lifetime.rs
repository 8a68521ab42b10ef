//! Bundle expiration (RFC 9171 section 5.5).

use crate::support::{Bundle, NOW_UTC, Node, from_two};
use farlink_base::{Clock, DeleteReason, DtnTime, Duration, EndpointId, Event, Refusal};
use farlink_bpa::Input;

fn here() -> EndpointId {
    EndpointId::ipn(1, 1)
}

/// Keeps 9171-5.5-2, 5050-5.5-1.
#[test]
fn expiry_ignores_wall_clock_steps() {
    // Expiration runs on the monotonic clock; a wall clock that jumps a year ahead expires nothing.
    let mut node = Node::new();
    node.receive(1, from_two(1, here()));
    let year_ahead = DtnTime(NOW_UTC.0 + 31_536_000_000);
    node.tell(Input::Clock(Clock { at: node.now, utc: Some(year_ahead), error_ms: 0 }));
    assert!(node.events().iter().any(|e| matches!(e, Event::ClockStepped { step_ms: 31_536_000_000 })));
    node.wait(Duration::from_secs(59));
    assert_eq!(node.held(), 1);
    node.wait(Duration::from_secs(2));
    assert_eq!((node.held(), node.deleted()), (0, vec![DeleteReason::Expired]));
}

/// Keeps 9171-5.5-1.
#[test]
fn arrival_expiry_uses_clock_and_age() {
    let mut node = Node::new();
    let made = |time: u64, age: Option<u64>| {
        let bundle = Bundle::new(EndpointId::ipn(2, 5), here(), time).created_ms(time).lifetime_ms(1000);
        if let Some(age) = age { bundle.age_ms(age) } else { bundle }
    };
    node.receive(1, made(NOW_UTC.0 - 2000, None));
    node.receive(2, made(NOW_UTC.0 + 999_999_999, None));
    node.receive(3, made(0, Some(1500)));
    node.receive(4, made(0, Some(500)));
    let expired = Err(Refusal::Expired);
    let mut verdicts = node.verdicts();
    verdicts.sort_by_key(|(ticket, _)| *ticket);
    assert_eq!(verdicts, [(1, expired), (2, Ok(())), (3, expired), (4, Ok(()))]);
    // Residence adds to the age; half a second was left.
    assert_eq!(node.held(), 2);
    node.wait_ms(400);
    assert_eq!(node.held(), 2);
    node.wait_ms(200);
    assert_eq!((node.held(), node.deleted().last()), (1, Some(&DeleteReason::Expired)));
    // Without a trusted clock the creation time cannot be compared.
    let mut node = Node::new();
    node.tell(Input::Clock(Clock::UNTRUSTED));
    node.receive(1, made(NOW_UTC.0 - 2000, Some(500)));
    node.receive(2, made(NOW_UTC.0, Some(1500)));
    assert_eq!(node.verdicts(), [(1, Ok(())), (2, expired)]);
}

/// Keeps 9171-5.4-2, 9171-5.5-2, 5050-5.4-2, 5050-5.4.2-3, 5050-5.5-1.
#[test]
fn late_timer_sends_nothing_expired() {
    let mut node = Node::new();
    node.ready(1, false);
    node.receive(1, from_two(1, EndpointId::ipn(3, 1)).lifetime_ms(1000));
    node.receive(2, from_two(2, here()).lifetime_ms(1000));
    // The lifetime ended one nanosecond ago, and its timer has not run yet.
    node.now += Duration::from_nanos(1_000_000_001);
    node.once(Input::Ready { link: farlink_base::LinkId(1), ready: true });
    node.settle();
    node.register(1);
    assert_eq!((node.sent().len(), node.deliveries().len()), (0, 0));
    node.wait_ms(50);
    assert_eq!((node.held(), node.deleted()), (0, vec![DeleteReason::Expired; 2]));
}

#[test]
fn expired_transmission_is_withdrawn() {
    let mut node = Node::new();
    node.receive(1, from_two(1, EndpointId::ipn(3, 1)).lifetime_ms(1000));
    let id = node.sent()[0].id;
    node.wait_ms(1100);
    assert_eq!((node.held(), node.deleted()), (0, vec![DeleteReason::Expired]));
    assert!(
        node.said.iter().any(|o| matches!(o, farlink_bpa::Output::Cancel { id: cancelled, .. } if *cancelled == id))
    );
    node.receive(2, from_two(2, EndpointId::ipn(3, 1)));
    node.fail(id, None);
    node.confirm(id);
    assert_eq!((node.held(), node.deleted().len(), node.agent.counts().sends), (1, 1, 1));
}

#[test]
fn expired_delivery_is_withdrawn() {
    let mut node = Node::new();
    node.register(1);
    node.receive(1, from_two(1, here()).lifetime_ms(1000));
    node.receive(2, from_two(2, here()));
    node.wait_ms(1100);
    assert_eq!((node.deliveries().len(), node.held()), (1, 1), "its bytes are with the application still");
    node.done(node.deliveries()[0].0, true);
    assert_eq!((node.deliveries().len(), node.held()), (2, 1), "the late answer gives the next its turn");
    node.done(node.deliveries()[1].0, true);
    assert_eq!(node.held(), 0);
}

#[test]
fn maximal_lifetime_never_ends() {
    // Creation time plus `u64::MAX` must saturate, not wrap.
    let mut node = Node::new();
    node.receive(1, from_two(1, here()).lifetime_ms(u64::MAX));
    node.wait(Duration::from_secs(1 << 30));
    assert_eq!(node.held(), 1);
}
