//! One step of a layer that several shards use, with the resulting work for this stack and for others.

use super::desk::{Desk, Pace};
use super::elsewhere::{Do, Elsewhere};
use super::{Across, Shared};
use crate::joints::LayerJoint;
use crate::kinds::Layer;
use crate::stack::Work;
use alloc::vec::Vec;
use farlink_base::layer::{self, Input};
use farlink_base::{Instant, LinkId, Sink, StreamId};

/// Gives a layer of this shard an input of its stack, or a stream to write to.
pub(crate) fn tell<'a>(
    now: Instant,
    Shared { layer, desk }: &'a mut Shared,
    input: Result<Input, StreamId>,
    pace: Pace<'_>,
    joint: &mut LayerJoint<'a>,
) {
    if let Ok(input) = &input {
        let mut others = Vec::new();
        desk.told(input, &mut others);
        others.into_iter().for_each(|(to, what)| joint.across(to, what));
    }
    joint.desk = Some(desk);
    match input {
        Ok(input) => one(now, layer, input, joint),
        Err(stream) => layer.write(now, stream, joint),
    }
    go_on(now, layer, pace, joint);
}

/// Gives a layer of this shard an input of another shard.
pub(crate) fn hear<'a>(
    now: Instant,
    Shared { layer, desk }: &'a mut Shared,
    (from, input): (u8, Input),
    pace: Pace<'_>,
    joint: &mut LayerJoint<'a>,
) {
    let mut back = Vec::new();
    let input = desk.take(from, input, &mut back);
    back.into_iter().for_each(|what| joint.across(from, what));
    joint.desk = Some(desk);
    if let Some(input) = input {
        one(now, layer, input, joint);
    }
    go_on(now, layer, pace, joint);
}

/// Repeats the state of a link for a shard that has added it.
pub(crate) fn known(desk: &Desk, (from, link): (u8, LinkId), joint: &mut LayerJoint<'_>) {
    let mut back = Vec::new();
    desk.repeat(link, &mut back);
    back.into_iter().for_each(|what| joint.across(from, what));
}

fn one(now: Instant, layer: &mut Layer, input: Input, joint: &mut LayerJoint<'_>) {
    let waits = layer.handle_soon(now, input, joint);
    let id = joint.layer;
    // Writes go behind the work in the list, so that further bundles for the same stream join them.
    joint.work.extend(waits.map(|stream| Work::Write(id, stream)));
}

/// Sends bundles of other shards while the layer takes them.
fn go_on(now: Instant, layer: &mut Layer, pace: Pace<'_>, joint: &mut LayerJoint<'_>) {
    let mut given = 0;
    while let Some(input) = joint.desk.as_deref_mut().and_then(|desk| desk.next(given, pace)) {
        given += 1;
        one(now, layer, input, joint);
    }
    let taken: Vec<(u8, Across)> = joint.desk.as_deref_mut().into_iter().flat_map(Desk::taken).collect();
    taken.into_iter().for_each(|(to, what)| joint.across(to, what));
}

/// Gives a remote layer an input of this stack, or a message of its owner.
pub(crate) fn stand_in(elsewhere: &mut Elsewhere, said: Result<Input, Across>, joint: &mut LayerJoint<'_>) {
    let mut todo = Vec::new();
    match said {
        Ok(input) => elsewhere.tell(input, &mut todo),
        Err(across) => elsewhere.hear(across, &mut todo),
    }
    for what in todo {
        match what {
            Do::Say(output) => Sink::<layer::Output>::push(joint, output),
            Do::Owner(what) => joint.across(elsewhere.owner(), what),
        }
    }
}
