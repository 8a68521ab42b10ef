//! Names and parameters of the router and the congestion control.

use super::keys;
use farlink_base::{ConfigError, Param, resolve_params};
use farlink_config::{Input, Reader, Section};

/// Registered policy.
#[derive(Clone, Copy)]
struct PolicyConfig {
    name: &'static str,
    params: &'static [Param],
    /// Whether the policy needs an oracle, which no real node has.
    oracle: bool,
}

/// Name and parameters of a policy.
type Chosen = (String, Vec<(String, f64)>);

/// Reads `[router]`.
pub fn router(top: &Reader<'_>) -> Chosen {
    let known = farlink_routing::routers().iter();
    let known = known.map(|router| PolicyConfig { name: router.name, params: router.params, oracle: router.oracle });
    let unknown = |name: &str| farlink_routing::make_router(name, &[], &[], 0).err();
    policy(top, "router", &keys::ROUTER, &known.collect::<Vec<_>>(), unknown)
}

/// Reads `[control]`.
pub fn control(top: &Reader<'_>) -> Chosen {
    let known = farlink_congestion::controls().iter();
    let known =
        known.map(|control| PolicyConfig { name: control.name, params: control.params, oracle: control.oracle });
    let unknown = |name: &str| farlink_congestion::make_control(name, &[], 0).err();
    policy(top, "control", &keys::CONTROL, &known.collect::<Vec<_>>(), unknown)
}

/// Reads a policy; `unknown` gives the error for an unregistered name.
fn policy(
    top: &Reader<'_>,
    name: &str,
    section: &'static Section,
    known: &[PolicyConfig],
    unknown: impl Fn(&str) -> Option<ConfigError>,
) -> Chosen {
    let Some((path, table)) = top.raw_table(name) else {
        return (Reader::new(top.errors, section, Vec::new()).text("name").unwrap_or_default(), Vec::new());
    };
    let reader = Reader::new(top.errors, section, vec![(path.clone(), table)]);
    let chosen = reader.text("name").unwrap_or_default();
    let policy = known.iter().find(|policy| policy.name == chosen);
    match policy {
        Some(policy) if policy.oracle => {
            let real: Vec<&str> = known.iter().filter(|policy| !policy.oracle).map(|policy| policy.name).collect();
            let error = ConfigError::needs_oracle(String::new(), &chosen, &real);
            reader.fail("name", error.expected, error.hint);
        }
        // A name that is not text was reported already.
        None if !chosen.is_empty() || !reader.given("name") => {
            unknown(&chosen).into_iter().for_each(|error| reader.fail("name", error.expected, error.hint));
        }
        _ => {}
    }
    let mut params = Vec::new();
    for (key, value) in table.iter().filter(|(key, _)| key.get_ref() != "name") {
        let path = format!("{path}.{}", key.get_ref());
        let number = match Input::Given(value.get_ref()).parameter() {
            Ok(number) => number,
            Err(why) => {
                let hint = "parameters are numbers or quantities";
                top.errors.at(&path, Some(value.span().start), why, hint);
                continue;
            }
        };
        let param = (key.get_ref().to_string(), number);
        if let Some(error) =
            policy.and_then(|policy| resolve_params(policy.params, std::slice::from_ref(&param), &path).err())
        {
            let expected = match error.expected.as_str() {
                "unknown parameter" => format!("`{chosen}` has no such parameter"),
                other => other.to_string(),
            };
            top.errors.at(&path, Some(key.span().start), expected, error.hint);
        }
        params.push(param);
    }
    (chosen, params)
}
