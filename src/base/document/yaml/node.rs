//! Defines the tree of a YAML document: what each node is, how the file spells it, and its position.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::Tagged;

use crate::base::{Diagnostic, Span};

/// The tag of a text whose bytes are written in base64.
const BINARY: &str = "tag:yaml.org,2002:binary";

/// A part of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where it begins.
    pub span: Span,
    /// What it is.
    pub kind: Kind,
    /// The bytes of it in the text; of lists and mappings only where they begin.
    bytes: std::ops::Range<usize>,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Keys with their values.
    Map(Vec<(Node, Node)>),
    /// Items.
    List(Vec<Node>),
    /// One value.
    Scalar(Scalar),
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub struct Scalar {
    /// The text, or how the file spells what is no text.
    pub text: String,
    /// What it is to a reader that expects nothing.
    pub plain: Plain,
    /// The tag in front of it.
    pub(super) tag: Option<String>,
}

/// What a scalar is by YAML's core schema.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Plain {
    /// Nothing, `~` or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number, 0 or more.
    Unsigned(u64),
    /// A whole number below 0.
    Signed(i64),
    /// Another number.
    Float(f64),
    /// Everything else.
    Text,
}

impl Node {
    /// Returns the text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar(scalar) => Some(&scalar.text),
            Kind::Map(_) | Kind::List(_) => None,
        }
    }

    /// Gives each scalar that is no text its spelling in the file.
    pub(super) fn spell(&mut self, file: &str) {
        match &mut self.kind {
            Kind::Map(entries) => entries.iter_mut().for_each(|(key, value)| {
                key.spell(file);
                value.spell(file);
            }),
            Kind::List(items) => items.iter_mut().for_each(|item| item.spell(file)),
            Kind::Scalar(Scalar { plain: Plain::Text, .. }) => {}
            Kind::Scalar(scalar) => {
                scalar.text = file.get(self.bytes.clone()).unwrap_or_default().trim_end().to_owned();
            }
        }
    }
}

impl Node {
    /// Refuses keys of a mapping that are one text as the file spells them, such as `1` and `"1"`, and binary texts.
    pub(super) fn check(&self, file: &str) -> Result<(), Diagnostic> {
        match &self.kind {
            Kind::Scalar(scalar) if scalar.tag.as_deref() == Some(BINARY) => {
                Err(Diagnostic::at(file, self.span, "`!!binary` is not supported; write the text itself"))
            }
            Kind::Scalar(_) => Ok(()),
            Kind::List(items) => items.iter().try_for_each(|item| item.check(file)),
            Kind::Map(entries) => {
                let mut seen = HashMap::new();
                for (key, value) in entries {
                    key.check(file)?;
                    if let Some((text, Span { line, column })) = key.text().zip(seen.insert(key.text(), key.span)) {
                        let message = format!("duplicate key `{text}`; the first one is at {file}:{line}:{column}");
                        return Err(Diagnostic::at(file, key.span, message));
                    }
                    value.check(file)?;
                }
                Ok(())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        let spanned = serde_yaml::Spanned::<Tagged<Kind>>::deserialize(deserializer)?;
        let Tagged(mut kind, found) = spanned.value;
        if let Kind::Scalar(Scalar { tag, .. }) = &mut kind {
            *tag = found;
        }
        let count = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok()).unwrap_or_default();
        let bytes = spanned.referenced.span();
        let start = count(bytes.byte_offset());
        Ok(Node { span: spanned.referenced.into(), kind, bytes: start..start + count(bytes.byte_len()) })
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Kind, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

/// Takes whatever there is.
struct Any;

fn scalar(plain: Plain, text: &str) -> Kind {
    Kind::Scalar(Scalar { text: text.to_owned(), plain, tag: None })
}

impl<'de> Visitor<'de> for Any {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map, a list or a scalar")
    }

    fn visit_str<E>(self, text: &str) -> Result<Kind, E> {
        Ok(scalar(Plain::Text, text))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Kind, E> {
        Ok(scalar(Plain::Bool(value), ""))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Kind, E> {
        Ok(scalar(Plain::Unsigned(value), ""))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Kind, E> {
        Ok(scalar(Plain::Signed(value), ""))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Kind, E> {
        Ok(scalar(Plain::Float(value), ""))
    }

    fn visit_unit<E>(self) -> Result<Kind, E> {
        Ok(scalar(Plain::Null, ""))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Kind, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Kind::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Kind, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Kind::Map(entries))
    }
}
