//! One step of a layer that several shards use, with the resulting work for this stack and for others.

use super::layer_owner::{LayerOwner, Pace};
use super::remote_layer::{Do, RemoteLayer};
use super::{Across, Shared};
use crate::kinds::Layer;
use crate::outputs::LayerOutputs;
use crate::work::Work;
use alloc::vec::Vec;
use farlink_base::layer::{self, Input};
use farlink_base::{Instant, LinkId, Sink, StreamId};

/// Gives a layer of this shard an input of its stack (`Ok`), or lets it write to a stream (`Err`).
pub(crate) fn on_input<'a>(
    now: Instant,
    Shared { layer, owner }: &'a mut Shared,
    input: Result<Input, StreamId>,
    pace: Pace<'_>,
    outputs: &mut LayerOutputs<'a>,
) {
    if let Ok(input) = &input {
        let mut others = Vec::new();
        owner.observe(input, &mut others);
        others.into_iter().for_each(|(to, what)| outputs.across(to, what));
    }
    outputs.owner = Some(owner);
    match input {
        Ok(input) => step(now, layer, input, outputs),
        Err(stream) => layer.write(now, stream, outputs),
    }
    send_waiting(now, layer, pace, outputs);
}

/// Gives a layer of this shard an input of another shard.
pub(crate) fn on_shard_input<'a>(
    now: Instant,
    Shared { layer, owner }: &'a mut Shared,
    (from, input): (u8, Input),
    pace: Pace<'_>,
    outputs: &mut LayerOutputs<'a>,
) {
    let mut back = Vec::new();
    let input = owner.take(from, input, &mut back);
    back.into_iter().for_each(|what| outputs.across(from, what));
    outputs.owner = Some(owner);
    if let Some(input) = input {
        step(now, layer, input, outputs);
    }
    send_waiting(now, layer, pace, outputs);
}

/// Repeats the state of a link for a shard that has added it.
pub(crate) fn repeat_state(owner: &LayerOwner, (from, link): (u8, LinkId), outputs: &mut LayerOutputs<'_>) {
    let mut back = Vec::new();
    owner.repeat(link, &mut back);
    back.into_iter().for_each(|what| outputs.across(from, what));
}

fn step(now: Instant, layer: &mut Layer, input: Input, outputs: &mut LayerOutputs<'_>) {
    let waits = layer.handle_soon(now, input, outputs);
    let id = outputs.layer;
    // Writes go behind the work in the list, so that further bundles for the same stream join them.
    outputs.work.extend(waits.map(|stream| Work::Write(id, stream)));
}

/// Sends bundles of other shards while the layer takes them.
fn send_waiting(now: Instant, layer: &mut Layer, pace: Pace<'_>, outputs: &mut LayerOutputs<'_>) {
    let mut given = 0;
    while let Some(input) = outputs.owner.as_deref_mut().and_then(|owner| owner.next(given, pace)) {
        given += 1;
        step(now, layer, input, outputs);
    }
    let taken: Vec<(u8, Across)> = outputs.owner.as_deref_mut().into_iter().flat_map(LayerOwner::taken).collect();
    taken.into_iter().for_each(|(to, what)| outputs.across(to, what));
}

/// Gives a remote layer an input of this stack (`Ok`), or a message of its owner (`Err`).
pub(crate) fn step_remote(remote: &mut RemoteLayer, input: Result<Input, Across>, outputs: &mut LayerOutputs<'_>) {
    let mut todo = Vec::new();
    match input {
        Ok(input) => remote.on_input(input, &mut todo),
        Err(across) => remote.on_message(across, &mut todo),
    }
    for what in todo {
        match what {
            Do::Emit(output) => Sink::<layer::Output>::push(outputs, output),
            Do::Owner(what) => outputs.across(remote.owner(), what),
        }
    }
}
