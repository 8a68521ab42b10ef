//! Reader of the fields of one event: from a line, or as sample values, in which case it records the fields requested.

use crate::names::{self, EventNames};
use farlink_base::NodeId;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Mutex;

/// Fields of one event.
pub struct EventLine<'a> {
    /// Fields of the line; `None` for a sample.
    fields: Option<Map<String, Value>>,
    asked: RefCell<Vec<String>>,
    pub(crate) names: &'a EventNames,
}

impl<'a> EventLine<'a> {
    pub fn parse(json: &str, names: &'a EventNames) -> Result<Self, String> {
        let fields = serde_json::from_str(json).map_err(|why| why.to_string())?;
        Ok(EventLine { fields: Some(fields), asked: RefCell::default(), names })
    }
    /// Reader that returns a valid sample value for every field, and no number twice.
    pub fn sample(names: &'a EventNames) -> Self {
        EventLine { fields: None, asked: RefCell::default(), names }
    }
    /// Fields requested so far; a `?` follows those that may be absent.
    pub fn asked(&self) -> Vec<String> {
        self.asked.borrow().clone()
    }
    fn value<T>(&self, name: &str, read: impl Fn(&Value) -> Option<T>, sample: impl Fn(u64) -> T) -> Result<T, String> {
        match &self.fields {
            Some(fields) => fields.get(name).and_then(read).ok_or_else(|| format!("`{name}` is missing or wrong")),
            None => {
                let mut asked = self.asked.borrow_mut();
                // The field is listed already if `has` was called for it.
                if !asked.iter().any(|known| known.trim_end_matches('?') == name) {
                    asked.push(name.into());
                }
                // The count of fields so far makes each number unique.
                Ok(sample(asked.len() as u64))
            }
        }
    }
    /// Whether an optional field is present.
    pub fn has(&self, name: &str) -> bool {
        match &self.fields {
            Some(fields) => fields.contains_key(name),
            None => {
                self.asked.borrow_mut().push(format!("{name}?"));
                true
            }
        }
    }
    pub fn number(&self, name: &str) -> Result<u64, String> {
        self.value(name, Value::as_u64, |n| n)
    }
    pub fn signed(&self, name: &str) -> Result<i64, String> {
        self.value(name, Value::as_i64, |n| -(n as i64))
    }
    pub fn flag(&self, name: &str) -> Result<bool, String> {
        self.value(name, Value::as_bool, |_| true)
    }
    pub fn text(&self, name: &str, sample: &str) -> Result<Cow<'_, str>, String> {
        let own = |value: &Value| value.as_str().map(|text| Cow::Owned(text.to_string()));
        self.value(name, own, |_| Cow::Owned(sample.to_string()))
    }
    pub fn endpoint(&self, name: &str) -> Result<(NodeId, u64), String> {
        let text = self.text(name, "ipn:7.9")?;
        names::parse_endpoint(&text).ok_or_else(|| format!("`{name}`: `{text}` is no endpoint"))
    }
}

/// Most distinct reasons interned; an events file has a few dozen.
const REASONS: usize = 1000;

/// Interns a text for the lifetime of the process, as events carry reasons as `&'static str`.
pub fn interned(text: &str) -> &'static str {
    static KNOWN: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(found) = known.get(text) {
        return found;
    }
    if known.len() >= REASONS {
        // Still a valid event: only its reason is lost.
        return "(reason not kept: too many)";
    }
    // Leaks are bounded by `REASONS`: a hostile file cannot fill memory.
    let kept: &'static str = Box::leak(text.to_string().into_boxed_str());
    known.insert(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_line_is_explained() {
        let names = EventNames::sample();
        let said = |json: &str| names.read(json).unwrap_err();
        assert!(said("not json").contains("expected"), "{}", said("not json"));
        assert!(said("{}").contains("`time_ns` is missing"));
        assert!(said("{\"time_ns\":1,\"event\":\"exploded\"}").contains("no event `exploded`"));
        assert!(said("{\"time_ns\":1,\"event\":\"link_down\",\"link\":\"mars\"}").contains("no link is called `mars`"));
        assert!(
            said("{\"time_ns\":1,\"event\":\"created\",\"bundle\":\"7\"}").contains("`bundle` is missing or wrong")
        );
        assert!(said("{\"time_ns\":1,\"event\":\"store_failed\",\"file\":5000000000}").contains("`file`"));
    }

    #[test]
    fn equal_reasons_are_interned_once() {
        let (one, two) = (interned("why"), interned(&String::from("why")));
        assert!(std::ptr::eq(one, two));
    }
}
