//! Records the position of each key of a recipe, so that a mistake found later can still name its line.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::document::yaml::{Kind, Node};
use crate::base::{Location, Span};

/// The places of keys by their path, such as `output.rules[0].id`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places(BTreeMap<String, Location>);

impl Places {
    /// Returns the place of every key and item of a file.
    pub(super) fn in_tree(top: &Node, file: &Arc<str>) -> Places {
        let mut places = BTreeMap::new();
        collect(top, "", file, &mut places);
        Places(places)
    }

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

fn collect(node: &Node, path: &str, file: &Arc<str>, places: &mut BTreeMap<String, Location>) {
    let mut add = |path: String, span: Span, below: &Node| {
        collect(below, &path, file, places);
        places.insert(path, Location { file: Arc::clone(file), span });
    };
    match &node.kind {
        Kind::Map(entries) => {
            for (key, below) in entries {
                let Some(name) = key.text() else { continue };
                add(if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }, key.span, below);
            }
        }
        Kind::List(items) => {
            for (index, item) in items.iter().enumerate() {
                add(format!("{path}[{index}]"), item.span, item);
            }
        }
        Kind::Scalar(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_not_there_has_the_place_of_what_it_would_stand_in() {
        let text = "recipe: 1\noutput:\n  kind: json\n  rules:\n    - {id: a}\n";
        let top = crate::base::document::yaml::tree("r.yaml", text).unwrap();
        let places = Places::in_tree(&top, &"r.yaml".into());
        let of = |path: &str| places.of(path).map(|place| (place.span.line, place.span.column));
        assert_eq!((of("output.kind"), of("output.schema")), (Some((3, 3)), Some((2, 1))));
        assert_eq!((of("output.rules[0].id"), of("output.rules[3]"), of("gone.x")), (Some((5, 8)), Some((4, 3)), None));
    }
}
