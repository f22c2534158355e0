//! Prints JSON that is valid for every parser and harmless for every terminal and CI log.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

use super::safe::{break_hash_commands, is_active};

/// Returns a value as JSON on one line.
///
/// Characters that a terminal acts on are written as `\uXXXX`, which JSON leaves to the writer.
pub fn to_line<T: Serialize>(value: &T) -> String {
    written(value, Guarded(CompactFormatter))
}

/// As [`to_line`], for people: indented.
pub fn to_pretty<T: Serialize>(value: &T) -> String {
    written(value, Guarded(PrettyFormatter::new()))
}

fn written<T: Serialize>(value: &T, formatter: impl Formatter) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8(bytes).expect("the serializer writes UTF-8"),
        // A type that does not serialise is a bug; the reader still gets one line of JSON.
        Err(error) => format!("{{\"error\":{{\"message\":{:?}}}}}", error.to_string()),
    }
}

/// A formatter that escapes what JSON allows raw and a terminal does not.
struct Guarded<F>(F);

macro_rules! as_inner {
    ($($name:ident($($argument:ident: $kind:ty),*));* $(;)?) => {
        $(fn $name<W: ?Sized + Write>(&mut self, writer: &mut W $(, $argument: $kind)*) -> io::Result<()> {
            self.0.$name(writer $(, $argument)*)
        })*
    };
}

impl<F: Formatter> Formatter for Guarded<F> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if !fragment.contains(is_active) && !fragment.contains("##") {
            return writer.write_all(fragment.as_bytes());
        }
        for c in break_hash_commands(fragment, "#\\u0023").chars() {
            if is_active(c) {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            } else {
                writer.write_all(c.encode_utf8(&mut [0; 4]).as_bytes())?;
            }
        }
        Ok(())
    }

    as_inner! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        end_object_key();
        begin_object_value();
        end_object_value();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_a_terminal_acts_on_is_escaped() {
        assert_eq!(
            to_line(&json!({"a": "\u{1b}[31m\u{9b}\u{202e}\u{e0041} ##[error] ## x"})),
            r##"{"a":"\u001b[31m\u009b\u202e\udb40\udc41 #\u0023[error] ## x"}"##
        );
    }

    proptest! {
        #[test]
        fn escaping_does_not_change_the_value(text in "(.|[\\x00-\\x1f]|\u{9b}|\u{202e}|##\\[|\"|\\\\)*") {
            let value = json!({ text.clone(): [text] });
            let line = to_line(&value);
            prop_assert!(!line.contains(is_active) && !line.contains("##[") && !line.contains('\n'));
            prop_assert_eq!(&serde_json::from_str::<Value>(&line).unwrap(), &value);
            prop_assert_eq!(&serde_json::from_str::<Value>(&to_pretty(&value)).unwrap(), &value);
        }
    }
}
