//! Parameters of policies: one definition serves configuration, `--help`, documentation and forms.

use crate::ConfigError;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Numeric parameter of a router, a congestion control or a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Param {
    /// Key in configuration files, such as `copies`.
    pub name: &'static str,
    /// One sentence about the effect and the reason for the default.
    pub help: &'static str,
    /// Unit of the value ("s", "B", "" for a plain number).
    pub unit: &'static str,
    /// Value if the key is absent.
    pub default: f64,
    /// Smallest value accepted.
    pub min: f64,
    /// Largest value accepted.
    pub max: f64,
}

/// Resolves the values of the parameters `known`, in their order, from `given` or the defaults. `path` names the
/// section in errors.
///
/// # Errors
/// If a name is unknown (the hint suggests a similar one) or a value is out of range.
pub fn resolve_params(known: &[Param], given: &[(String, f64)], path: &str) -> Result<Vec<f64>, ConfigError> {
    let mut values: Vec<f64> = known.iter().map(|p| p.default).collect();
    for (name, value) in given {
        let Some(index) = known.iter().position(|p| p.name == name) else {
            let hint = match nearest_name(name, known.iter().map(|p| p.name)) {
                Some(near) => format!("did you mean `{near}`?"),
                None if known.is_empty() => "it takes no parameters".into(),
                None => {
                    format!("known parameters: {}", known.iter().map(|p| p.name).collect::<Vec<_>>().join(", "))
                }
            };
            return Err(ConfigError { path: format!("{path}.{name}"), expected: "unknown parameter".into(), hint });
        };
        let param = &known[index];
        // NaN is in no range, so it is refused here.
        if !(param.min..=param.max).contains(value) {
            return Err(ConfigError {
                path: format!("{path}.{name}"),
                expected: format!("{value} is not between {} and {} {}", param.min, param.max, param.unit)
                    .trim_end()
                    .into(),
                hint: format!("the default is {}: {}", param.default, param.help),
            });
        }
        values[index] = *value;
    }
    Ok(values)
}

/// Candidate most similar to `name`; `None` if none is similar enough for "did you mean".
pub fn nearest_name<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // One edit is allowed, plus one for every three of the candidate's first nine characters: in a short key, a few
    // edits make another word.
    let close = |(distance, candidate): &(usize, &str)| *distance <= 1 + candidate.chars().count().min(9) / 3;
    candidates.map(|c| (edit_distance(name, c), c)).filter(close).min_by_key(|(d, _)| *d).map(|(_, c)| c)
}

/// Levenshtein distance of two words, of which at most 64 characters count.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    // One row of the distance matrix suffices (Wagner and Fischer, 1974).
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Param] =
        &[Param { name: "copies", help: "Copies at most.", unit: "", default: 8.0, min: 1.0, max: 64.0 }];

    #[test]
    fn params_resolve_with_defaults_and_hints() {
        assert_eq!(resolve_params(KNOWN, &[], "router"), Ok(alloc::vec![8.0]));
        assert_eq!(resolve_params(KNOWN, &[("copies".into(), 2.0)], "router"), Ok(alloc::vec![2.0]));
        let error = resolve_params(KNOWN, &[("copys".into(), 2.0)], "router").unwrap_err();
        assert_eq!((error.path.as_str(), error.hint.as_str()), ("router.copys", "did you mean `copies`?"));
        // Just outside of both bounds; NaN, which is neither below nor above, must not slip through.
        for bad in [0.0, 65.0, f64::NAN] {
            assert!(resolve_params(KNOWN, &[("copies".into(), bad)], "router").is_err());
        }
    }

    #[test]
    fn nearest_names_are_near() {
        let names = ["sabr", "static", "epidemic"];
        assert_eq!(nearest_name("sbar", names.into_iter()), Some("sabr"));
        assert_eq!(nearest_name("epidemc", names.into_iter()), Some("epidemic"));
        assert_eq!(nearest_name("prophet", names.into_iter()), None);
    }
}
