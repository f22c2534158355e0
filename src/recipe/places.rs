//! Records the position of each key of a recipe, so that a mistake found later can still name its line.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::base::{Location, Spanned};

/// The places of keys by their path, such as `output.rules[0].id`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places(BTreeMap<String, Location>);

impl Places {
    /// Returns the place of a key; where the file does not have it, that of what it would be in.
    pub fn of(&self, path: &str) -> Option<Location> {
        let mut path = path;
        loop {
            if let Some(place) = self.0.get(path) {
                return Some(place.clone());
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }

    /// Returns the places of a file that is built on another: where both have a key, the file's own.
    #[must_use]
    pub fn over(self, parent: Places) -> Places {
        let mut places = parent.0;
        places.extend(self.0);
        Places(places)
    }
}

/// A document as it is, with the place of every key.
pub(super) enum Node {
    /// Keys and what is below them.
    Map(Vec<(Spanned<String>, Node)>),
    /// Items.
    List(Vec<Spanned<Node>>),
    /// A scalar.
    Scalar(Value),
}

impl Node {
    /// Returns the place of every key and item.
    pub(super) fn places(&self, file: &Arc<str>) -> Places {
        let mut places = BTreeMap::new();
        self.collect("", file, &mut places);
        Places(places)
    }

    fn collect(&self, path: &str, file: &Arc<str>, places: &mut BTreeMap<String, Location>) {
        match self {
            Node::Map(entries) => {
                for (key, below) in entries {
                    let path = if path.is_empty() { key.value.clone() } else { format!("{path}.{}", key.value) };
                    below.collect(&path, file, places);
                    places.insert(path, Location { file: Arc::clone(file), span: key.span });
                }
            }
            Node::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    item.value.collect(&path, file, places);
                    places.insert(path, Location { file: Arc::clone(file), span: item.span });
                }
            }
            Node::Scalar(_) => {}
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Node;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map, a list or a scalar")
            }
            fn visit_str<E>(self, text: &str) -> Result<Node, E> {
                Ok(Node::Scalar(text.into()))
            }
            fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
                Ok(Node::Scalar(value.into()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
                Ok(Node::Scalar(value.into()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
                Ok(Node::Scalar(value.into()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
                Ok(Node::Scalar(value.into()))
            }
            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Scalar(Value::Null))
            }
            fn visit_none<E>(self) -> Result<Node, E> {
                Ok(Node::Scalar(Value::Null))
            }
            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
                Node::deserialize(deserializer)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Node::List(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Node::Map(entries))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_not_there_has_the_place_of_what_it_would_stand_in() {
        let text = "recipe: 1\noutput:\n  kind: json\n  rules:\n    - {id: a}\n";
        let node: Node = crate::base::document::yaml::parse("r.yaml", text).unwrap();
        let places = node.places(&"r.yaml".into());
        let of = |path: &str| places.of(path).map(|place| (place.span.line, place.span.column));
        assert_eq!((of("output.kind"), of("output.schema")), (Some((3, 3)), Some((2, 1))));
        assert_eq!((of("output.rules[0].id"), of("output.rules[3]"), of("gone.x")), (Some((5, 8)), Some((4, 3)), None));
    }
}
