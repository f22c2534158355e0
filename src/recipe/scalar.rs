//! Defines the scalars of a recipe file: texts that know their position, values as the file spells them, durations.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::base::{Location, Spanned};
use crate::policy::file::TimeLimit;

/// A text of the file, with its place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text {
    /// The text.
    pub value: String,
    /// Its place.
    pub place: Location,
}

impl Text {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.value
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        let spanned = Spanned::<String>::deserialize(deserializer)?;
        let place = Location { span: spanned.span, ..Location::default() };
        Ok(Text { value: spanned.value, place })
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.value)
    }
}

impl JsonSchema for Text {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        String::schema_name()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

/// A value as the file spells it: converted by the declared type, never by its looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Given {
    /// One.
    One(Text),
    /// Several.
    Many(Vec<Text>),
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Given, D::Error> {
        let spanned = Spanned::<Loose>::deserialize(deserializer)?;
        let place = Location { span: spanned.span, ..Location::default() };
        Ok(match spanned.value {
            Loose::One(value) => Given::One(Text { value, place }),
            Loose::Many(values) => Given::Many(values),
        })
    }
}

impl Serialize for Given {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Given::One(text) => text.serialize(serializer),
            Given::Many(texts) => texts.serialize(serializer),
        }
    }
}

impl JsonSchema for Given {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Given".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({"type": ["string", "number", "boolean", "array"], "items": {"type": ["string", "number", "boolean"]}})
    }
}

/// Stands before a number whose spelling is still to be looked up.
pub(crate) const NUMBER: char = '\0';

enum Loose {
    One(String),
    Many(Vec<Text>),
}

struct Word(Text);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Word, D::Error> {
        let spanned = Spanned::<Loose>::deserialize(deserializer)?;
        let place = Location { span: spanned.span, ..Location::default() };
        match spanned.value {
            Loose::One(value) => Ok(Word(Text { value, place })),
            Loose::Many(_) => Err(de::Error::custom("a list inside a list")),
        }
    }
}

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Loose, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Loose;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number, true or false, or a list of them")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Loose, E> {
                Ok(Loose::One(text.to_owned()))
            }
            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Loose, E> {
                Ok(Loose::One(value.to_string()))
            }
            // `1.10` is 1.1 here, and `0x1f` is 31: the mark lets `parse` look up how the file spells it.
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Loose, E> {
                Ok(Loose::One(format!("{NUMBER}{value}")))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Loose, E> {
                Ok(Loose::One(format!("{NUMBER}{value}")))
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Loose, E> {
                Ok(Loose::One(format!("{NUMBER}{value}")))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Loose, A::Error> {
                let mut words = Vec::new();
                while let Some(Word(word)) = seq.next_element()? {
                    words.push(word);
                }
                Ok(Loose::Many(words))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// One word of a command, or words that are repeated for each item of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    /// A word.
    Word(Text),
    /// Words that stand again for each item, which they name `{{ item }}`.
    Each {
        /// The parameter, a list.
        each: Text,
        /// The words.
        words: Vec<Text>,
    },
}

impl Argument {
    /// Returns how it is written, for people.
    pub fn shown(&self) -> String {
        match self {
            Argument::Word(text) => text.value.clone(),
            Argument::Each { each, words } => {
                let words: Vec<&str> = words.iter().map(Text::as_str).collect();
                format!("({} for each of {})", words.join(" "), each.value)
            }
        }
    }
}

/// The words of [`Argument::Each`] as the file has them.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EachFile {
    /// The parameter, a list.
    each: Text,
    /// Words that stand again for each item, which they name `{{ item }}`.
    words: Vec<Text>,
}

enum LooseArgument {
    Word(String),
    Each(EachFile),
}

impl<'de> Deserialize<'de> for Argument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Argument, D::Error> {
        let spanned = Spanned::<LooseArgument>::deserialize(deserializer)?;
        let place = Location { span: spanned.span, ..Location::default() };
        Ok(match spanned.value {
            LooseArgument::Word(value) => Argument::Word(Text { value, place }),
            LooseArgument::Each(EachFile { each, words }) => Argument::Each { each, words },
        })
    }
}

impl<'de> Deserialize<'de> for LooseArgument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LooseArgument, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = LooseArgument;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word, or `{each: PARAMETER, words: [..]}`")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<LooseArgument, E> {
                Ok(LooseArgument::Word(text.to_owned()))
            }
            // As for values: the mark lets `parse` look up how the file spells what is no text.
            fn visit_bool<E: de::Error>(self, value: bool) -> Result<LooseArgument, E> {
                Ok(LooseArgument::Word(format!("{NUMBER}{value}")))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<LooseArgument, E> {
                Ok(LooseArgument::Word(format!("{NUMBER}{value}")))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<LooseArgument, E> {
                Ok(LooseArgument::Word(format!("{NUMBER}{value}")))
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<LooseArgument, E> {
                Ok(LooseArgument::Word(format!("{NUMBER}{value}")))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<LooseArgument, A::Error> {
                EachFile::deserialize(de::value::MapAccessDeserializer::new(map)).map(LooseArgument::Each)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

impl Serialize for Argument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Argument::Word(text) => text.serialize(serializer),
            Argument::Each { each, words } => {
                EachFile { each: each.clone(), words: words.clone() }.serialize(serializer)
            }
        }
    }
}

impl JsonSchema for Argument {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Argument".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let each = generator.subschema_for::<EachFile>();
        schemars::json_schema!({"anyOf": [{"type": "string"}, each]})
    }
}

/// A duration, kept as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub std::time::Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        TimeLimit::deserialize(deserializer).map(|TimeLimit(time)| Time(time))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{}ms", self.0.as_millis()))
    }
}

impl JsonSchema for Time {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(ms|s|m|h)$"})
    }
}
