//! Reads types from the tree of a YAML document: a value is converted by the type that is asked for, not by its looks.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, Expected, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use super::node::{Kind, Node, Plain, Scalar};
use super::{plainly, unfit, unknown};
use crate::base::diagnostic::SPANNED;
use crate::base::{Diagnostic, Span};

/// What is wrong with a node. One pointer, because every reader returns it.
#[derive(Debug)]
pub struct Fault(Box<(What, Option<Span>)>);

#[derive(Debug)]
enum What {
    /// The value is not what is named.
    Unfit(String),
    /// The type did not find what it looks for: the key is where it is wrong.
    Structure(String),
    /// The type's own words on a value.
    Own(String),
}

impl Fault {
    fn at(what: What, span: Span) -> Fault {
        Fault(Box::new((what, Some(span))))
    }

    fn structure(message: String) -> Fault {
        Fault(Box::new((What::Structure(message), None)))
    }

    /// Adds the place, if there is none, of the key or of the value.
    #[inline(never)]
    fn or_at(mut self, key: Span, value: Span) -> Fault {
        let (what, span) = &mut *self.0;
        span.get_or_insert(if matches!(what, What::Own(_)) { value } else { key });
        self
    }

    /// Says it to the user; `text` is the document.
    pub(super) fn told(self, file: &str, text: &str) -> Diagnostic {
        let (what, span) = *self.0;
        let span = span.unwrap_or_default();
        let message = match what {
            What::Unfit(wanted) => unfit(text, span, &wanted),
            What::Structure(message) | What::Own(message) => message,
        };
        Diagnostic::at(file, span, message)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.0 {
            What::Unfit(text) | What::Structure(text) | What::Own(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Fault {
        Fault(Box::new((What::Own(message.to_string()), None)))
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn Expected) -> Fault {
        Fault::structure(format!("expected {}, found {}", plainly(&wanted.to_string()), plainly(&found.to_string())))
    }

    fn invalid_value(found: Unexpected<'_>, wanted: &dyn Expected) -> Fault {
        Fault::invalid_type(found, wanted)
    }

    fn unknown_variant(found: &str, known: &'static [&'static str]) -> Fault {
        Fault::structure(unknown("value", found, known))
    }

    fn unknown_field(found: &str, known: &'static [&'static str]) -> Fault {
        Fault::structure(unknown("key", found, known))
    }

    fn missing_field(field: &'static str) -> Fault {
        Fault::structure(format!("the key `{field}` is missing"))
    }
}

impl Node {
    fn unfit(&self, wanted: &str) -> Fault {
        Fault::at(What::Unfit(plainly(wanted)), self.span)
    }

    fn own(&self, message: &str) -> Fault {
        Fault::at(What::Own(message.to_owned()), self.span)
    }

    fn scalar(&self) -> Result<&Scalar, Fault> {
        match &self.kind {
            Kind::Scalar(scalar) => Ok(scalar),
            Kind::Map(_) | Kind::List(_) => Err(self.unfit("scalar")),
        }
    }

    fn mapping<'de, V: Visitor<'de>>(&self, are_fields: bool, visitor: V) -> Result<V::Value, Fault> {
        let Kind::Map(entries) = &self.kind else { return Err(self.unfit("mapping")) };
        let mut entries = Entries { rest: entries.iter(), value: self, key: self.span, are_fields };
        visitor.visit_map(&mut entries).map_err(|fault| fault.or_at(entries.key, self.span))
    }

    /// Returns a scalar whose tag, if it has one, allows what is wanted.
    fn tagged(&self, wanted: &str, allows: fn(Plain) -> bool) -> Result<&Scalar, Fault> {
        let scalar = self.scalar()?;
        if scalar.is_typed() && !allows(scalar.plain) { Err(self.unfit(wanted)) } else { Ok(scalar) }
    }

    fn string(&self) -> Result<&str, Fault> {
        let scalar = self.scalar()?;
        match scalar.plain {
            Plain::Text => Ok(&scalar.text),
            Plain::Null => Err(self.unfit("string")),
            _ if scalar.is_typed() => Err(self.unfit("string")),
            Plain::Bool(_) | Plain::Unsigned(_) | Plain::Signed(_) | Plain::Float(_) => Ok(&scalar.text),
        }
    }

    fn bool(&self) -> Result<bool, Fault> {
        let scalar = self.tagged("boolean", |plain| matches!(plain, Plain::Bool(_)))?;
        match (scalar.plain, trimmed(&scalar.text)) {
            (Plain::Bool(value), _) => Ok(value),
            (_, "true" | "True" | "TRUE") => Ok(true),
            (_, "false" | "False" | "FALSE") => Ok(false),
            _ => Err(self.unfit("boolean")),
        }
    }

    fn whole(&self, kind: &str, least: i128, most: i128) -> Result<i128, Fault> {
        let scalar = self.tagged(kind, |plain| matches!(plain, Plain::Unsigned(_) | Plain::Signed(_)))?;
        let text = trimmed(&scalar.text);
        let number = match scalar.plain {
            _ if least == 0 && text.starts_with('-') => None,
            Plain::Unsigned(number) => Some(i128::from(number)),
            Plain::Signed(number) => Some(i128::from(number)),
            Plain::Text => whole(text),
            Plain::Null | Plain::Bool(_) | Plain::Float(_) => None,
        };
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| self.unfit(kind))
    }

    fn float(&self) -> Result<f64, Fault> {
        let scalar = self.tagged("floating point", |plain| matches!(plain, Plain::Float(_)))?;
        let wrong = || self.unfit("floating point");
        match scalar.plain {
            // Every number of ours is a limit or an amount: `.nan` would be lower than none and higher than none.
            Plain::Float(number) if number.is_finite() => Ok(number),
            Plain::Null | Plain::Bool(_) | Plain::Float(_) => Err(wrong()),
            Plain::Unsigned(_) | Plain::Signed(_) | Plain::Text => {
                trimmed(&scalar.text).parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(wrong)
            }
        }
    }
}

impl Scalar {
    /// Tells whether a tag says what it is.
    fn is_typed(&self) -> bool {
        self.tag.as_deref().is_some_and(|tag| tag != "!")
    }
}

fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}

/// Reads a whole number that untyped readers take for a text: one in quotes, or with `_` between its digits.
fn whole(text: &str) -> Option<i128> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0o" | "0O") => (8, &digits[2..]),
        Some("0b" | "0B") => (2, &digits[2..]),
        _ if digits.starts_with('0') && digits != "0" => return None,
        _ => (10, digits),
    };
    if digits.starts_with(['_', '+', '-']) || digits.ends_with('_') || digits.contains("__") {
        return None;
    }
    i128::from_str_radix(&digits.replace('_', ""), radix).ok().map(|number| sign * number)
}

macro_rules! whole_numbers {
    ($($method:ident $type:ident $visit:ident $as:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            let number = self.whole(stringify!($type), i128::from($type::MIN), i128::from($type::MAX))?;
            visitor.$visit($as::try_from(number).unwrap_or_default())
        })*
    };
}

impl<'de> Deserializer<'de> for &Node {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.kind {
            Kind::Map(_) => self.deserialize_map(visitor),
            Kind::List(_) => self.deserialize_seq(visitor),
            Kind::Scalar(scalar) => match scalar.plain {
                Plain::Null => visitor.visit_unit(),
                Plain::Bool(value) => visitor.visit_bool(value),
                Plain::Unsigned(number) => visitor.visit_u64(number),
                Plain::Signed(number) => visitor.visit_i64(number),
                Plain::Float(number) if number.is_finite() => visitor.visit_f64(number),
                Plain::Float(_) => Err(self.unfit("a finite number")),
                Plain::Text => visitor.visit_str(&scalar.text),
            },
        }
    }

    whole_numbers! {
        deserialize_u8 u8 visit_u64 u64
        deserialize_u16 u16 visit_u64 u64
        deserialize_u32 u32 visit_u64 u64
        deserialize_u64 u64 visit_u64 u64
        deserialize_i8 i8 visit_i64 i64
        deserialize_i16 i16 visit_i64 i64
        deserialize_i32 i32 visit_i64 i64
        deserialize_i64 i64 visit_i64 i64
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_bool(self.bool()?)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_f64(self.float()?)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_str(self.string()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.kind {
            Kind::Scalar(Scalar { plain: Plain::Null, .. }) => visitor.visit_none(),
            Kind::Map(_) | Kind::List(_) | Kind::Scalar(_) => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.kind {
            Kind::Scalar(Scalar { plain: Plain::Null, .. }) => visitor.visit_unit(),
            Kind::Map(_) | Kind::List(_) | Kind::Scalar(_) => Err(self.unfit("unit")),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Fault> {
        if name == SPANNED { visitor.visit_map(Place(self)) } else { visitor.visit_newtype_struct(self) }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.kind {
            Kind::List(items) => {
                visitor.visit_seq(Items(items.iter())).map_err(|fault| fault.or_at(self.span, self.span))
            }
            Kind::Map(_) | Kind::Scalar(_) => Err(self.unfit("sequence")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.mapping(false, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.mapping(true, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let (variant, value) = match &self.kind {
            Kind::Scalar(_) => (self, None),
            Kind::Map(entries) => match entries.as_slice() {
                [(variant, value)] => (variant, Some(value)),
                _ => return Err(self.own("a mapping of one key is needed here")),
            },
            Kind::List(_) => return Err(self.unfit("scalar")),
        };
        variant.tagged("string", |plain| plain == Plain::Text)?;
        visitor.visit_enum(Variant { variant, value })
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! { i128 u128 bytes byte_buf unit_struct tuple tuple_struct }
}

impl<'de> IntoDeserializer<'de, Fault> for &Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// The items of a list.
struct Items<'a>(std::slice::Iter<'a, Node>);

impl<'de> de::SeqAccess<'de> for Items<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some(item) = self.0.next() else { return Ok(None) };
        seed.deserialize(item).map(Some).map_err(|fault| fault.or_at(item.span, item.span))
    }
}

/// The entries of a mapping.
struct Entries<'a> {
    rest: std::slice::Iter<'a, (Node, Node)>,
    /// The value of the key that was read last.
    value: &'a Node,
    /// The place of that key.
    key: Span,
    /// Whether the keys are those of a type.
    are_fields: bool,
}

impl<'a> Entries<'a> {
    fn next(&mut self) -> Result<Option<&'a Node>, Fault> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        (self.value, self.key) = (value, key.span);
        match &key.kind {
            Kind::Scalar(scalar)
                if self.are_fields && scalar.is_typed() && scalar.tag.as_deref() != Some("tag:yaml.org,2002:str") =>
            {
                Err(key.own("a key with a tag"))
            }
            Kind::Scalar(_) | Kind::Map(_) | Kind::List(_) => Ok(Some(key)),
        }
    }
}

impl<'de> de::MapAccess<'de> for Entries<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some(key) = self.next()? else { return Ok(None) };
        seed.deserialize(key).map(Some).map_err(|fault| fault.or_at(key.span, key.span))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(self.value).map_err(|fault| fault.or_at(self.key, self.value.span))
    }
}

/// A node with its place, as [`SPANNED`] wants it.
struct Place<'a>(&'a Node);

impl<'de> de::MapAccess<'de> for Place<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Span { line, column } = self.0.span;
        seed.deserialize((u64::from(line) << 32 | u64::from(column)).into_deserializer()).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(self.0)
    }
}

/// A variant: a word, or one key with what belongs to it.
struct Variant<'a> {
    variant: &'a Node,
    value: Option<&'a Node>,
}

impl Variant<'_> {
    fn value(&self) -> Result<&Node, Fault> {
        self.value.ok_or_else(|| self.variant.unfit("mapping"))
    }
}

impl<'de> de::EnumAccess<'de> for Variant<'_> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Fault> {
        let Kind::Scalar(Scalar { text, .. }) = &self.variant.kind else { return Err(self.variant.unfit("scalar")) };
        let span = self.variant.span;
        let variant =
            seed.deserialize(text.as_str().into_deserializer()).map_err(|fault: Fault| fault.or_at(span, span))?;
        Ok((variant, self))
    }
}

impl<'de> de::VariantAccess<'de> for Variant<'_> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        self.value.map_or(Ok(()), de::Deserialize::deserialize)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        let value = self.value()?;
        seed.deserialize(value).map_err(|fault| fault.or_at(value.span, value.span))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.value()?.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Fault> {
        self.value()?.deserialize_struct("", fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use crate::base::document::yaml::parse;

    fn shown<T: DeserializeOwned + std::fmt::Debug>(value: &str) -> String {
        parse::<T>("f", value).map_or("-".to_owned(), |value| format!("{value:?}"))
    }

    #[test]
    fn the_type_that_is_asked_for_decides_what_a_value_is() {
        let values = "5,-5,-0,'5',0x1f,'0x1f',0o17,1_000,012,256,18446744073709551616,1.10,1e3,1e999,.inf,.nan,inf,true,\
            True,'true',yes,~,'',|\n  5\n,!!str 5,!!int 5,!!int '5',!!float 5,!!bool 'true',\
            !!str ~,!!null '',! 5,!!binary aGk=,!own 5";
        let line = |value: &str| {
            let kinds = [shown::<u8>(value), shown::<i64>(value), shown::<f64>(value), shown::<bool>(value)];
            let others = [shown::<Option<String>>(value), shown::<serde_json::Value>(value)];
            format!("{value:?}: {} | {}", kinds.join(" "), others.join(" "))
        };
        insta::assert_snapshot!(values.split(',').map(line).collect::<Vec<_>>().join("\n"), @r##"
        "5": 5 5 5.0 - | Some("5") Number(5)
        "-5": - -5 -5.0 - | Some("-5") Number(-5)
        "-0": - 0 -0.0 - | Some("-0") Number(0)
        "'5'": 5 5 5.0 - | Some("5") String("5")
        "0x1f": 31 31 - - | Some("0x1f") Number(31)
        "'0x1f'": 31 31 - - | Some("0x1f") String("0x1f")
        "0o17": 15 15 - - | Some("0o17") Number(15)
        "1_000": - 1000 - - | Some("1_000") String("1_000")
        "012": - - 12.0 - | Some("012") String("012")
        "256": - 256 256.0 - | Some("256") Number(256)
        "18446744073709551616": - - 1.8446744073709552e19 - | Some("18446744073709551616") Number(1.8446744073709552e+19)
        "1.10": - - 1.1 - | Some("1.10") Number(1.1)
        "1e3": - - 1000.0 - | Some("1e3") Number(1000.0)
        "1e999": - - - - | Some("1e999") -
        ".inf": - - - - | Some(".inf") -
        ".nan": - - - - | Some(".nan") -
        "inf": - - - - | Some("inf") String("inf")
        "true": - - - true | Some("true") Bool(true)
        "True": - - - true | Some("True") Bool(true)
        "'true'": - - - true | Some("true") String("true")
        "yes": - - - - | Some("yes") String("yes")
        "~": - - - - | None Null
        "''": - - - - | Some("") String("")
        "|\n  5\n": 5 5 5.0 - | Some("5\n") String("5\n")
        "!!str 5": - - - - | Some("5") String("5")
        "!!int 5": 5 5 - - | - Number(5)
        "!!int '5'": 5 5 - - | - Number(5)
        "!!float 5": - - 5.0 - | - Number(5.0)
        "!!bool 'true'": - - - true | - Bool(true)
        "!!str ~": - - - - | Some("~") String("~")
        "!!null ''": - - - - | None Null
        "! 5": 5 5 5.0 - | Some("5") String("5")
        "!!binary aGk=": - - - - | - -
        "!own 5": - - - - | - -
        "##);
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    #[expect(dead_code, reason = "only shown")]
    enum Choice {
        One,
        Two(u64),
        Three { x: String },
    }

    #[test]
    fn a_choice_is_a_word_or_a_mapping_of_one_key() {
        let values = [
            "one",
            "{one: ~}",
            "{two: 5}",
            "{three: {x: a}}",
            "two",
            "{one: 1}",
            "four",
            "{four: 1}",
            "{}",
            "[one]",
            "5",
        ];
        let shown = |value: &&str| match parse::<Choice>("f", value) {
            Ok(choice) => format!("{choice:?}"),
            Err(error) => error.to_string(),
        };
        insta::assert_snapshot!(values.iter().map(shown).collect::<Vec<_>>().join("\n"), @r##"
        One
        One
        Two(5)
        Three { x: "a" }
        f:1:1: expected a mapping (`key: value`), found `two`
        f:1:7: `one` takes nothing, not `1`
        f:1:1: unknown value `four`; known are one, two, three
        f:1:2: unknown value `four`; known are one, two, three
        f:1:1: a mapping of one key is needed here
        f:1:1: expected one value, found a list
        f:1:1: unknown value `5`; known are one, two, three
        "##);
    }
}
