//! Differences between two worlds as text: node, bundle or session, with both sides next to each other.

use super::trace::{NodeTrace, Step};
use farlink_scenario::Scenario;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// All differences between the worlds; empty without any.
pub fn differences(scenario: &Scenario, simulated: &[NodeTrace], real: &[NodeTrace]) -> String {
    let mut text = String::new();
    for (node, (s, r)) in scenario.nodes.iter().zip(simulated.iter().zip(real)) {
        let place = format!("scenario `{}`, seed {}, node `{}`", scenario.name, scenario.seed, node.name);
        for key in keys(&s.decisions, &r.decisions) {
            let bundle = key.as_ref().map_or_else(|| "no bundle".into(), ToString::to_string);
            let sides = [&s.decisions, &r.decisions].map(|side| side.get(key).map_or(&[][..], |steps| &steps[..]));
            // Times differ between worlds: only the order of decisions counts.
            if !sides[0].iter().map(|step| &step.what).eq(sides[1].iter().map(|step| &step.what)) {
                let show = |step: &Step| format!("{:8.3} s {}", step.at.as_secs_f64(), step.what);
                let same = |a: &Step, b: &Step| a.what == b.what;
                beside(&mut text, &format!("{place}, {bundle}"), sides, show, same);
            }
        }
        for key in keys(&s.sessions, &r.sessions) {
            let sides = [&s.sessions, &r.sessions].map(|side| side.get(key).map_or(&[][..], |segments| &segments[..]));
            if sides[0] != sides[1] {
                let title = format!("{place}, LTP session {} of engine {}", key.1, key.0);
                let [simulated, real] = [only(sides[0], sides[1]), only(sides[1], sides[0])];
                beside(&mut text, &title, [&simulated, &real], |what| what.to_string(), |_, _| false);
            }
        }
    }
    text
}

/// Greatest delay of a link change between real nodes behind the same change in the simulation, which follows the plan.
pub fn lateness(simulated: &[NodeTrace], real: &[NodeTrace]) -> Duration {
    let sides = simulated.iter().zip(real);
    let late = sides.flat_map(|(s, r)| s.links.iter().zip(&r.links).map(|(s, r)| r.at.saturating_sub(s.at)));
    late.max().unwrap_or_default()
}

fn keys<'a, K: Ord, V>(a: &'a BTreeMap<K, V>, b: &'a BTreeMap<K, V>) -> std::collections::BTreeSet<&'a K> {
    a.keys().chain(b.keys()).collect()
}

fn only<'a>(here: &'a [String], there: &[String]) -> Vec<&'a String> {
    // Segments of a session have no common order in both worlds, so they are compared by their counts.
    let count = |side: &[String], what: &String| side.iter().filter(|other| *other == what).count();
    here.iter().filter(|what| count(here, what) > count(there, what)).collect()
}

/// Most rows shown of one bundle or session.
const ROWS: usize = 30;

fn beside<T>(
    text: &mut String,
    title: &str,
    [left, right]: [&[T]; 2],
    show: impl Fn(&T) -> String,
    same: impl Fn(&T, &T) -> bool,
) {
    let wide = left.iter().map(|step| show(step).len()).max().unwrap_or(0).max("simulated".len());
    let _ = writeln!(text, "{title}:\n    {:wide$} | real", "simulated");
    let rows = left.len().max(right.len());
    for row in 0..rows.min(ROWS) {
        let (l, r) = (left.get(row), right.get(row));
        let mark = if l.zip(r).is_some_and(|(l, r)| same(l, r)) { ' ' } else { '!' };
        let [l, r] = [l, r].map(|side| side.map(&show).unwrap_or_else(|| "-".into()));
        let _ = writeln!(text, "  {mark} {l:wide$} | {r}");
    }
    if rows > ROWS {
        let _ = writeln!(text, "    and {} more", rows - ROWS);
    }
}
