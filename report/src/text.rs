//! Text cells: static words and reference-counted names, so that rows copy no text.

use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Text in a row; cheap to clone, because rows share node and link names.
#[derive(Clone)]
pub struct Text(TextStorage);

#[derive(Clone)]
enum TextStorage {
    Word(&'static str),
    Name(Arc<str>),
}

impl Text {
    /// Wraps a word of the schema, such as the name of an event.
    pub const fn word(word: &'static str) -> Text {
        Text(TextStorage::Word(word))
    }
}

impl Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        match &self.0 {
            TextStorage::Word(word) => word,
            TextStorage::Name(name) => name,
        }
    }
}
impl From<&str> for Text {
    fn from(name: &str) -> Text {
        Text(TextStorage::Name(name.into()))
    }
}
impl From<&String> for Text {
    fn from(name: &String) -> Text {
        name.as_str().into()
    }
}
impl From<String> for Text {
    fn from(name: String) -> Text {
        Text(TextStorage::Name(name.into()))
    }
}
impl From<Cow<'_, str>> for Text {
    fn from(name: Cow<'_, str>) -> Text {
        Text(TextStorage::Name(name.into()))
    }
}
impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self
    }
}

// Compared, ordered and hashed by content: a static word equals an owned name with the same text.
impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self[..] == other[..]
    }
}
impl Eq for Text {}
impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Text) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Text {
    fn cmp(&self, other: &Text) -> Ordering {
        self[..].cmp(&other[..])
    }
}
impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self[..].hash(state);
    }
}
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self[..], f)
    }
}
impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self[..], f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, HashMap};

    #[test]
    fn word_equals_name_of_same_text() {
        let (word, name) = (Text::word("created"), Text::from(String::from("created")));
        assert_eq!(word, name);
        assert_eq!(HashMap::from([(word.clone(), 1)]).get("created"), Some(&1));
        assert_eq!(BTreeMap::from([(name, 1)]).get(&word), Some(&1));
        assert!(word < Text::from("deleted") && format!("{word} {word:?}") == "created \"created\"");
    }
}
