//! Serde support for link specifications: a table with the keys and texts of [`DirectionSpec::set`]. An unknown key is
//! an error that lists the known ones.

use crate::spec::{DirectionSpec, LinkSpec};
use alloc::string::{String, ToString};
use core::fmt;
use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const FIELDS: &[&str] = &{
    let mut names = [""; DirectionSpec::KEYS.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = DirectionSpec::KEYS[i].0;
        i += 1;
    }
    names
};

impl Serialize for DirectionSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for key in FIELDS {
            if let Some(value) = self.get(key) {
                map.serialize_entry(key, &value)?;
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for DirectionSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = DirectionSpec;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of link properties, each as text with its unit")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DirectionSpec, A::Error> {
                let mut spec = DirectionSpec::default();
                while let Some(key) = map.next_key::<String>()? {
                    if !FIELDS.contains(&key.as_str()) {
                        return Err(A::Error::unknown_field(&key, FIELDS));
                    }
                    let value: Text = map.next_value()?;
                    spec.set(&key, &value.0).map_err(A::Error::custom)?;
                }
                // Tables and windows can be checked only when all keys are known.
                spec.check("").map_err(A::Error::custom)?;
                Ok(spec)
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

/// Value of a key: text with a unit, or a plain number (a probability).
struct Text(String);
impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrNumber;
        impl Visitor<'_> for TextOrNumber {
            type Value = Text;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text with a unit, such as \"600 ms\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_string()))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }
        }
        deserializer.deserialize_any(TextOrNumber)
    }
}

/// Serialized form of a [`LinkSpec`]: `{ forward = {..}, reverse = {..} }`, each optional.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkTable {
    #[serde(default)]
    forward: DirectionSpec,
    #[serde(default)]
    reverse: DirectionSpec,
}

impl Serialize for LinkSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        LinkTable { forward: self.forward.clone(), reverse: self.reverse.clone() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LinkSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let LinkTable { forward, reverse } = LinkTable::deserialize(deserializer)?;
        Ok(LinkSpec { forward, reverse })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PRESETS;

    #[test]
    fn presets_round_trip_through_serde() {
        for (name, _) in PRESETS {
            let spec = LinkSpec::preset(name).unwrap();
            let text = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<LinkSpec>(&text).unwrap(), spec, "{text}");
        }
    }

    #[test]
    fn unknown_key_or_unit_is_error() {
        let read = |text| serde_json::from_str::<DirectionSpec>(text).map_err(|e| e.to_string());
        assert!(read(r#"{"rate":"1 Mbit/s","loss":0.01,"corrupt":0}"#).is_ok());
        assert!(read(r#"{"speed":"1 Mbit/s"}"#).unwrap_err().contains("unknown field `speed`, expected one of `rate`"));
        assert!(read(r#"{"delay":"600"}"#).unwrap_err().contains("600 ms"));
        assert!(serde_json::from_str::<LinkSpec>(r#"{"backward":{}}"#).is_err());
    }
}
