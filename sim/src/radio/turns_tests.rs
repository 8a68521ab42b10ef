use super::*;

fn row(turns: Turns, order: TurnOrder, beams: u32) -> (Table, Vec<bool>) {
    // Four seats in a row, each in contact with the next: links 0-1, 1-2, 2-3 have indices 0, 1, 2.
    let sharing = Sharing { turns, order, beams };
    let mut table = Table::new(vec![(sharing, Rng::new(1))], 4);
    let joined = (0..3).map(|place| table.meet(place, 0, [place, place + 1])).collect();
    (table, joined)
}
fn begin(table: &mut Table, places: std::ops::Range<u32>) {
    // With every end waiting, the rules of turns alone decide who sends.
    places.for_each(|place| [0, 1].into_iter().for_each(|side| table.wait((place, side))));
}
fn asked(table: &mut Table, take: bool) -> Vec<End> {
    // Without `take` the asked ends have nothing to send, so their radios stay free for the others.
    let mut all = Vec::new();
    while let Some(end) = table.next() {
        if take {
            table.take(end);
        }
        all.push(end);
    }
    all
}

#[test]
fn seat_handles_one_transfer() {
    let (mut table, _) = row(Turns::Node, TurnOrder::Sender, u32::MAX);
    begin(&mut table, 0..3);
    // 0 sends to 1; 1 and 2 must wait for each other, and 2 sends to 3.
    assert_eq!(asked(&mut table, true), [(0, 0), (2, 0)]);
    table.release((0, 0));
    // 0 has no more; 1, the receiver, precedes its neighbours and turns to 0, its oldest contact.
    assert_eq!(asked(&mut table, true), [(0, 1)]);
    table.release((0, 1));
    // 2 is busy, and no other end waits at 0 and 1.
    assert_eq!(asked(&mut table, true), []);
    table.release((2, 0));
    assert_eq!(asked(&mut table, true), [(1, 1)], "2, who sent, has something for 1 and goes on");
    table.release((1, 1));
    assert_eq!(asked(&mut table, true), [(1, 0)], "1, who received; then 3, a neighbour, finds 2 busy");
    table.release((1, 0));
    assert_eq!(asked(&mut table, true), [(2, 1)]);
    table.release((2, 1));
    assert_eq!(asked(&mut table, true), [], "each had its turn, and nobody called again");
}

#[test]
fn refused_turn_is_not_asked_again() {
    let (mut table, _) = row(Turns::Node, TurnOrder::Sender, u32::MAX);
    begin(&mut table, 0..3);
    assert_eq!(asked(&mut table, false), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]);
    table.take((1, 0));
    table.release((1, 0));
    assert_eq!(asked(&mut table, false), []);
    table.wait((0, 1));
    table.wait((0, 1));
    assert_eq!(asked(&mut table, false), [(0, 1)]);
}

#[test]
fn independent_links_never_wait() {
    let (mut table, _) = row(Turns::Link, TurnOrder::Sender, u32::MAX);
    begin(&mut table, 0..3);
    assert_eq!(asked(&mut table, true), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]);
    table.wait((1, 0));
    assert_eq!(asked(&mut table, true), [], "it sends");
    table.release((1, 1));
    assert_eq!(asked(&mut table, true), []);
    table.release((1, 0));
    assert_eq!(asked(&mut table, true), [(1, 0)]);
}

fn after_one_sent(order: TurnOrder) -> Vec<End> {
    // 1 sent to 2 while all ends wait; the result is the order in which they are asked next.
    let (mut table, _) = row(Turns::Node, order, u32::MAX);
    begin(&mut table, 0..3);
    while table.next().is_some() {}
    table.take((1, 0));
    for end in [(2, 1), (1, 1), (0, 1), (1, 0), (2, 0), (0, 0)] {
        table.wait(end);
    }
    while table.next().is_some() {}
    table.release((1, 0));
    asked(&mut table, false)
}

#[test]
fn turn_order_follows_scenario() {
    // Ends: 1 to 0 and to 2; 2 to 1 and to 3; 0 to 1; 3 to 2.
    assert_eq!(after_one_sent(TurnOrder::Sender), [(0, 1), (1, 0), (1, 1), (2, 0), (0, 0), (2, 1)]);
    assert_eq!(after_one_sent(TurnOrder::Receiver), [(1, 1), (2, 0), (0, 1), (1, 0), (2, 1), (0, 0)]);
    let fair = after_one_sent(TurnOrder::Fair);
    assert_eq!((fair.len(), fair[5]), (6, (1, 0)), "who had a turn comes last: {fair:?}");
    let mut random = after_one_sent(TurnOrder::Random);
    assert_eq!(random, after_one_sent(TurnOrder::Random), "and the same again");
    random.sort_unstable();
    assert_eq!(random, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]);
}

#[test]
fn zero_time_turn_goes_first() {
    let (mut table, _) = row(Turns::Node, TurnOrder::Sender, u32::MAX);
    begin(&mut table, 0..3);
    assert_eq!(table.next(), Some((0, 0)));
    table.go_on((0, 0));
    table.go_on((0, 0));
    assert_eq!(asked(&mut table, false)[..2], [(0, 0), (0, 1)]);
}

#[test]
fn beams_follow_meeting_order() {
    let (mut table, joined) = row(Turns::Node, TurnOrder::Sender, 1);
    assert_eq!(joined, [true, false, true], "1 and 2 have theirs for others");
    let mut more = Vec::new();
    table.part(0, &mut more);
    assert!(more.is_empty(), "2 has its beam for 3");
    table.part(2, &mut more);
    assert_eq!((more, table.is_joined(1)), (vec![1], true));
    begin(&mut table, 1..2);
    assert_eq!(asked(&mut table, false), [(1, 0), (1, 1)]);
    assert_eq!((table.links_of(1), table.links_of(3).len()), (&[1][..], 0));
}

#[test]
fn freed_beam_goes_to_longest_waiting() {
    // 0 and 1 part. 1 has waited for 2 longer than 0 has, regardless of their order in the file.
    for [first, second] in [[0, 1], [1, 0]] {
        let sharing = Sharing { turns: Turns::Node, order: TurnOrder::Sender, beams: 1 };
        let mut table = Table::new(vec![(sharing, Rng::new(1))], 3);
        assert!(table.meet(0, 0, [first, second]));
        assert!(!table.meet(1, 0, [1, 2]) && !table.meet(2, 0, [0, 2]));
        let mut joined = Vec::new();
        table.part(0, &mut joined);
        assert_eq!((joined, table.is_joined(2)), (vec![1], false));
    }
}

#[test]
fn removed_link_frees_seats_once() {
    let (mut table, _) = row(Turns::Node, TurnOrder::Sender, u32::MAX);
    begin(&mut table, 0..3);
    assert_eq!(table.next(), Some((0, 0)));
    table.take((0, 0));
    // A transmission is released before its link goes.
    table.release((0, 0));
    table.part(0, &mut Vec::new());
    assert_eq!(asked(&mut table, true), [(1, 0)]);
    assert!(table.meet(0, 0, [0, 1]), "its place is used again");
    begin(&mut table, 0..1);
    assert_eq!(asked(&mut table, true), [], "1 is busy");
    table.release((1, 0));
    // 1 sent and continues with 0; 2 received and turns to 3.
    assert_eq!(asked(&mut table, true), [(0, 1), (2, 0)]);
}
