//! The animated map of a run whose nodes have positions: movements, radio contacts, store occupancy, and paths of
//! bundles. Only a report with a map contains scripts.
//!
//! `gather.rs` reduces the tables, `pack.rs` encodes them as text, and `map.js` draws.

mod gather;
mod pack;
mod ways;

use super::sections::{close, open};
use super::svg::escape;
use crate::format::Quantity;
pub use gather::Play;
use std::fmt::Write;

// Durations of the animation offered, in seconds; the second is the default.
const LENGTHS: [(f64, &str); 5] =
    [(20.0, "20 s"), (60.0, "1 min"), (180.0, "3 min"), (600.0, "10 min"), (3600.0, "an hour")];

/// Writes the maps of these runs, each under its label.
pub fn draw(out: &mut String, runs: &[(&str, &Play)]) {
    if runs.is_empty() {
        return;
    }
    open(
        out,
        "Map: where were the nodes?",
        "Positions of the nodes, with lines between those in radio range, coloured by store occupancy. \
         Press Play or drag the time slider; a bundle's number, or a node's name for one of its bundles, shows where \
         copies went. Keys, once it has the focus: space \
         plays and pauses, arrows move the time, + and - change the speed.",
    );
    for (index, (label, play)) in runs.iter().enumerate() {
        if runs.len() > 1 {
            let _ = write!(out, "<h3>{}</h3>", escape(label));
        }
        one(out, index, play);
    }
    let _ = write!(out, "<script>{}</script>", include_str!("map.js"));
    close(out);
}

fn one(out: &mut String, index: usize, play: &Play) {
    let about = format!("Map of {} nodes over {}", play.names.len(), Quantity::Seconds.text(play.duration_s));
    let _ = write!(
        out,
        "<noscript><p class=\"caption\">The map is drawn by a script of this page, and scripts are off.</p></noscript>\
         <div class=\"playback\" hidden>\
         <canvas tabindex=\"0\" role=\"img\" aria-label=\"{}\"></canvas>\
         <p class=\"told\" aria-live=\"off\"></p>\
         <div class=\"controls\"><button type=\"button\" class=\"play\">Play</button>\
         <input class=\"time\" type=\"range\" min=\"0\" max=\"1000\" value=\"0\" step=\"1\" aria-label=\"Time\">\
         <output class=\"clock\"></output></div><div class=\"controls\">\
         <label>whole run in <select class=\"pace\">",
        escape(&about)
    );
    for (place, (seconds, text)) in LENGTHS.iter().enumerate() {
        let chosen = if place == 1 { " selected" } else { "" };
        let _ = write!(out, "<option value=\"{seconds}\"{chosen}>{text}</option>");
    }
    let hint = if play.has_ways() { "number or node" } else { "not recorded" };
    let disabled = if play.has_ways() { "" } else { " disabled" };
    let _ = write!(
        out,
        "</select></label><label>bundle <input class=\"bundle\" type=\"search\" list=\"bundles-{index}\" \
         placeholder=\"{hint}\"{disabled}></label><datalist id=\"bundles-{index}\"></datalist>\
         <label><input class=\"names\" type=\"checkbox\"> names</label></div>\
         <div class=\"legend fills\"><span>store:</span><span class=\"key f0\">empty</span><span class=\"key f1\"></span>\
         <span class=\"key f2\"></span><span class=\"key f3\"></span><span class=\"key f4\">full</span>\
         <span>{}</span></div><p class=\"caption matches\"></p><ol class=\"way\"></ol>",
        escape(&play.scale)
    );
    for sentence in &play.left_out {
        let _ = write!(out, "<p class=\"caption\">{}</p>", escape(sentence));
    }
    let _ = write!(out, "<script type=\"application/json\">{}</script></div>", pack::json(play));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_data_cannot_escape_script() {
        let play = Play {
            names: vec!["</script><script>alert(1)</script>".into(), "<!--".into()],
            duration_s: 10.0,
            ..Play::default()
        };
        let mut page = String::new();
        draw(&mut page, &[("a<b", &play), ("c", &play)]);
        let (ends, scripts) = (page.matches("</script>").count(), page.matches("<script").count());
        assert_eq!((ends, scripts), (3, 3), "two of data and one that draws");
        assert!(!page.contains("alert(1)</") && !page.contains("<!--") && page.contains("a&lt;b"));
        let mut none = String::new();
        draw(&mut none, &[]);
        assert_eq!(none, "", "no map, no script");
    }

    #[test]
    fn map_script_makes_no_requests() {
        let script = include_str!("map.js");
        for outside in ["http:", "https:", "fetch(", "XMLHttp", "import ", "import(", "eval(", "innerHTML", "</"] {
            assert!(!script.contains(outside), "{outside}");
        }
    }
}
