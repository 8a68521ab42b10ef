//! Values of placeholders for one node of a scenario.

use super::file::{Dialect, DriverFile, IdScheme, Parameter};
use crate::driver::NodeContext;
use anyhow::{Result, bail};
use farlink_routing::contact_plan;
use farlink_scenario::{Custody, LinkEnd, Medium, Node, SENDER_SERVICE, first_delay, first_rate};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;

/// First of a node's ports that no layer uses. A host runs nothing else, so all ports are free.
const FIRST_PORT: u16 = 18_100;

/// Values of all placeholders of a node's commands and files.
///
/// # Errors
/// Feature of the scenario that the implementation lacks.
pub fn values(file: &DriverFile, node: &NodeContext<'_>) -> Result<Value> {
    let here = &node.scenario.nodes[node.index];
    check_ids(file, &here.name, &here.ids[0])?;
    check_node(file, here)?;
    let ports: Map<String, Value> =
        file.start.ports.iter().zip(FIRST_PORT..).map(|(name, port)| (name.get_ref().clone(), json!(port))).collect();
    Ok(json!({
        "node": node_values(node, node.index),
        "layers": layers(file, node)?,
        "links": links(file, node)?,
        "services": services(node),
        "routes": routes(node),
        "port": ports,
        "parameter": parameters(file, node)?,
        "contacts": contacts(file, node),
    }))
}

fn check_ids(file: &DriverFile, name: &str, id: &str) -> Result<()> {
    let implementation = file.name.get_ref();
    match file.ids {
        IdScheme::Ipn if !id.starts_with("ipn:") => {
            bail!("node `{name}` has the ID {id}, and {implementation} has ipn IDs\nhint: e.g. id = \"ipn:2.0\"")
        }
        IdScheme::Dtn if !id.starts_with("dtn:") => {
            bail!("node `{name}` has the ID {id}, and {implementation} has dtn IDs\nhint: e.g. id = \"dtn://b/\"")
        }
        _ => Ok(()),
    }
}

/// Refuses node settings that no driver can set up, because results would look as if the node had them.
fn check_node(file: &DriverFile, node: &Node) -> Result<()> {
    let asked = [
        ("security", !node.security.is_empty()),
        ("custody", node.custody != Custody::None),
        ("tunnels", !node.tunnels.is_empty()),
        ("compressed reports", node.compressed_reports.is_some()),
        ("quotas", !node.quotas.is_empty()),
    ];
    let (name, version) = (file.name.get_ref(), node.settings().bundle_version);
    if !file.bundles.get_ref().contains(&version) {
        let versions: Vec<String> = file.bundles.get_ref().iter().map(u8::to_string).collect();
        bail!(
            "node `{}` has bundle_version = {version}, which {name} does not make\nhint: it makes version {}",
            node.name,
            versions.join(", ")
        );
    }
    match asked.iter().find(|(_, asked)| *asked) {
        Some((what, _)) => bail!(
            "node `{}` has {what}, which drivers cannot set up\nhint: take it out, or use parameters and files of {}",
            node.name,
            name
        ),
        None => Ok(()),
    }
}

fn node_values(node: &NodeContext<'_>, index: usize) -> Value {
    let of = &node.scenario.nodes[index];
    json!({
        "name": of.name,
        "id": of.ids[0],
        "number": of.number.0,
        "folder": node.folder.display().to_string(),
        "bundle_version": of.settings().bundle_version,
    })
}

/// Name of a layer in the implementation's own configuration.
fn word<'a>(file: &'a DriverFile, node: &NodeContext<'_>, layer: &str) -> Result<&'a str> {
    let known = file.layer.get_ref();
    match known.get(layer) {
        Some(entry) => Ok(&entry.get_ref().word),
        None => bail!(
            "node `{}` has a link over {layer}, which {} lacks\nhint: it has {}",
            node.scenario.nodes[node.index].name,
            file.name.get_ref(),
            known.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
        ),
    }
}

fn layers(file: &DriverFile, node: &NodeContext<'_>) -> Result<Vec<Value>> {
    let layer = |layer: farlink_scenario::NodeLayer| {
        let word = word(file, node, layer.kind.name)?;
        Ok(json!({ "name": layer.kind.name, "word": word, "port": layer.port }))
    };
    node.scenario.layers_of(node.index).into_iter().map(layer).collect()
}

fn links(file: &DriverFile, node: &NodeContext<'_>) -> Result<Vec<Value>> {
    let link = |end: LinkEnd| -> Result<Value> {
        let link = &node.scenario.links[end.link];
        if !link.appears.is_zero() || link.disappears.is_some() || link.found {
            bail!(
                "link `{}` appears, disappears or is discovered, which {} cannot follow\nhint: lower and raise it by \
                 a [[contact]] or a [[fault]]",
                link.name,
                file.name.get_ref()
            );
        }
        let own = if end.first { &link.forward } else { &link.reverse };
        let connects = link.layer.kind.medium != Medium::Streams || link.layer.connect.connects(end.first);
        let mut peer = node_values(node, end.peer);
        peer["address"] = json!(end.peer_address.to_string());
        peer["port"] = json!(end.port);
        Ok(json!({
            "name": link.name,
            "layer": link.layer.kind.name,
            "word": word(file, node, link.layer.kind.name)?,
            "port": end.port,
            "address": end.address.to_string(),
            "connects": connects,
            // 0 for a link without a limit of its rate.
            "rate_bit_s": first_rate(own).map_or(0, |rate| rate.bits_per_second()),
            "delay_s": first_delay(own).as_secs_f64(),
            // For implementations that count whole seconds or milliseconds. Rounded up, since too short a delay would
            // make them retransmit too early.
            "delay_whole_s": first_delay(own).as_secs_f64().ceil() as u64,
            "delay_ms": first_delay(own).as_nanos().div_ceil(1_000_000) as u64,
            "peer": peer,
        }))
    };
    node.scenario.ends_of(node.index).into_iter().map(link).collect()
}

fn parameters(file: &DriverFile, node: &NodeContext<'_>) -> Result<Map<String, Value>> {
    let here = &node.scenario.nodes[node.index];
    let default = |(name, parameter): (&String, &toml::Spanned<Parameter>)| {
        (name.clone(), json!(Parameter::text(&parameter.get_ref().default)))
    };
    let mut values: Map<String, Value> = file.parameter.iter().map(default).collect();
    for (name, text) in &here.implementation.parameters {
        let Some(parameter) = file.parameter.get(name).map(toml::Spanned::get_ref) else {
            let known: Vec<&str> = file.parameter.keys().map(String::as_str).collect();
            let hint =
                if known.is_empty() { "it has none".to_string() } else { format!("it has {}", known.join(", ")) };
            bail!("{} has no parameter `{name}` (node `{}`)\nhint: {hint}", file.name.get_ref(), here.name);
        };
        let permitted: Vec<String> = parameter.one_of.iter().map(Parameter::text).collect();
        if !permitted.is_empty() && !permitted.contains(text) {
            bail!("parameter `{name}` of node `{}` is `{text}`\nhint: one of {}", here.name, permitted.join(", "));
        }
        values.insert(name.clone(), json!(text));
    }
    Ok(values)
}

/// Contact plan in the dialect of the implementation; empty without one.
fn contacts(file: &DriverFile, node: &NodeContext<'_>) -> String {
    let Some(contacts) = &file.contacts else { return String::new() };
    let mut plan = node.scenario.contact_plan();
    // Times of the emitted plan count from the start of the run.
    plan.epoch = None;
    match contacts.dialect {
        Dialect::Ion => contact_plan::ion::emit(&plan).0,
        Dialect::Farlink => contact_plan::farlink::emit(&plan, &[]),
    }
}

/// Next hops to all nodes beyond the neighbours, by the fewest links.
fn routes(node: &NodeContext<'_>) -> Vec<Value> {
    let scenario = node.scenario;
    // Next hop of each node reached so far.
    let mut via: Vec<Option<usize>> = vec![None; scenario.nodes.len()];
    let mut reached = VecDeque::from([node.index]);
    while let Some(at) = reached.pop_front() {
        for end in scenario.ends_of(at) {
            if end.peer != node.index && via[end.peer].is_none() {
                via[end.peer] = Some(if at == node.index { end.peer } else { via[at].unwrap_or(end.peer) });
                reached.push_back(end.peer);
            }
        }
    }
    let beyond = via.iter().enumerate().filter_map(|(to, via)| Some((to, (*via)?))).filter(|(to, via)| to != via);
    beyond
        .map(|(to, via)| {
            let mut route = node_values(node, to);
            route["via"] = node_values(node, via);
            route
        })
        .collect()
}

/// Services with an application at the node: of traffic that arrives, and of traffic that it sends.
pub fn services(node: &NodeContext<'_>) -> Vec<u32> {
    let traffic = node.scenario.traffic.iter().enumerate();
    let services = traffic.flat_map(|(index, entry)| {
        let arrives = (entry.to == node.index).then_some(entry.service);
        let leaves = (entry.from == node.index).then_some(SENDER_SERVICE + index as u32);
        [arrives, leaves]
    });
    let mut services: Vec<u32> = services.flatten().collect();
    services.sort_unstable();
    services.dedup();
    services
}
