//! Defines the values of a policy file that are a text or something longer, sizes and time limits.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How changes are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// Changes are shown.
    DryRun,
    /// Changes are written to the working tree.
    Apply,
    /// Changes become a commit.
    Commit,
    /// Changes become a commit on a new branch.
    Branch,
}

/// The policy that this one extends.
#[derive(Debug, Clone, PartialEq, Eq, schemars::JsonSchema)]
pub enum Extends {
    /// `builtin:NAME`.
    Builtin(String),
    /// `{file: F, sha256: …}`.
    File {
        /// The path, relative to the file that extends it.
        file: String,
        /// SHA-256 of the file, in hexadecimal.
        sha256: String,
    },
}

/// How changes are delivered by default, and which deliveries flags may request.
#[derive(Debug, Clone, PartialEq, Eq, schemars::JsonSchema)]
pub struct Changes {
    /// Delivery without a flag.
    pub default: Delivery,
    /// Deliveries that flags may request.
    pub allow: Vec<Delivery>,
}

/// One word of `cmd` or `args`, or a list of words of which any one matches.
#[derive(Debug, Clone, PartialEq, Eq, schemars::JsonSchema)]
pub struct Element(pub Vec<String>);

/// Hosts that a process may reach.
#[derive(Debug, Clone, PartialEq, Eq, schemars::JsonSchema)]
pub enum Hosts {
    /// Any host.
    Any,
    /// These hosts.
    Only(Vec<String>),
}

/// A call in a test: a command, or `{TOOL: MAIN ARGUMENT}`, or `{TOOL: {ARGUMENTS}}`.
#[derive(Debug, Clone, PartialEq, schemars::JsonSchema)]
pub enum TestCall {
    /// A shell command.
    Command(String),
    /// A tool and its input.
    Tool(String, Value),
}

/// A variable that commands inherit: `NAME`, or `NAME=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq, schemars::JsonSchema)]
pub struct PassedVariable(pub String);

/// A size such as `2MiB`; the unit is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, schemars::JsonSchema)]
pub struct Bytes(pub u64);

/// A duration such as `5m`; the unit is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, schemars::JsonSchema)]
pub struct TimeLimit(#[schemars(with = "String")] pub Duration);

// Values that are either text or something longer: serde's untagged enums would lose the position of an error.
macro_rules! text_or {
    ($type:ty, $expecting:literal, $text:expr $(, seq $seq:expr)? $(, map $helper:ty => $map:expr)?) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct V;
                impl<'de> Visitor<'de> for V {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$type, E> {
                        let read: fn(&str) -> Result<$type, String> = $text;
                        read(text).map_err(E::custom)
                    }
                    fn visit_bool<E: de::Error>(self, value: bool) -> Result<$type, E> {
                        self.visit_str(if value { "true" } else { "false" })
                    }
                    fn visit_u64<E: de::Error>(self, value: u64) -> Result<$type, E> {
                        self.visit_str(&value.to_string())
                    }
                    fn visit_i64<E: de::Error>(self, value: i64) -> Result<$type, E> {
                        self.visit_str(&value.to_string())
                    }
                    fn visit_f64<E: de::Error>(self, value: f64) -> Result<$type, E> {
                        // The spelling is lost (`1.10` would be `1.1`), and the spelling is what is meant.
                        Err(E::custom(format!("write the number {value} in quotes")))
                    }
                    $(fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<$type, A::Error> {
                        let read: fn(Vec<String>) -> Result<$type, String> = $seq;
                        let words = Vec::<String>::deserialize(de::value::SeqAccessDeserializer::new(seq))?;
                        read(words).map_err(de::Error::custom)
                    })?
                    $(fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<$type, A::Error> {
                        let read: fn($helper) -> Result<$type, String> = $map;
                        let helper = <$helper>::deserialize(de::value::MapAccessDeserializer::new(map))?;
                        read(helper).map_err(de::Error::custom)
                    })?
                }
                deserializer.deserialize_any(V)
            }
        }
    };
}

text_or!(PassedVariable, "the name of a variable, or NAME=VALUE", |text| {
    let name = text.split_once('=').map_or(text, |(name, _)| name);
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    match is_name {
        true => Ok(PassedVariable(text.to_owned())),
        false => Err(format!("`{text}`: write the name of a variable, or `NAME=VALUE`")),
    }
});

text_or!(
    Element,
    "a word or a list of words",
    |text| Ok(Element(vec![text.to_owned()])),
    seq | words | Ok(Element(words))
);

text_or!(
    Hosts,
    "`any` or a list of hosts",
    |text| if text == "any" { Ok(Hosts::Any) } else { Err(format!("`{text}`: write `any` or a list of hosts")) },
    seq | hosts | Ok(Hosts::Only(hosts))
);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExtendsFile {
    file: String,
    sha256: String,
}

text_or!(
    Extends, "`builtin:NAME`, or a file with its sha256",
    |text| match text.strip_prefix("builtin:") {
        Some(name) => Ok(Extends::Builtin(name.to_owned())),
        None => Err(format!("`{text}`: write `builtin:NAME`, or `{{file: {text}, sha256: …}}`")),
    },
    map ExtendsFile => |file| Ok(Extends::File { file: file.file, sha256: file.sha256 })
);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangesInFull {
    default: Delivery,
    allow: Vec<Delivery>,
}

text_or!(
    Changes, "`dry-run`, `apply`, `commit`, or `{default: …, allow: […]}`",
    |text| {
        use Delivery::{Apply, Branch, Commit, DryRun};
        let (default, allow) = match text {
            "dry-run" => (DryRun, vec![DryRun]),
            "apply" => (Apply, vec![DryRun, Apply]),
            "commit" => (Commit, vec![DryRun, Apply, Commit, Branch]),
            other => return Err(format!("unknown value `{other}` of `changes`; known are dry-run, apply, commit")),
        };
        Ok(Changes { default, allow })
    },
    map ChangesInFull => |full| {
        if full.allow.contains(&full.default) || full.default == Delivery::DryRun {
            Ok(Changes { default: full.default, allow: full.allow })
        } else {
            Err("`changes.default` is not in `changes.allow`".to_owned())
        }
    }
);

text_or!(
    TestCall, "a command, or a tool with its input",
    |text| Ok(TestCall::Command(text.to_owned())),
    map BTreeMap<String, Value> => |mut map| match (map.pop_first(), map.is_empty()) {
        (Some((tool, input)), true) => Ok(TestCall::Tool(tool, input)),
        _ => Err("a test names one tool".to_owned()),
    }
);

text_or!(Bytes, "a size such as `2MiB`", |text| parse_bytes(text).map(Bytes));
text_or!(TimeLimit, "a duration such as `5m`", |text| parse_time(text).map(TimeLimit));

fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "B" => 1,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "" => return Err(format!("`{text}` has no unit; write for example `{text}B` or `2MiB`")),
        _ => return Err(format!("`{text}` is not a size; units are B, kB, MB, GB, KiB, MiB, GiB")),
    };
    let number: Option<u64> = number.parse().ok();
    number.and_then(|n| n.checked_mul(factor)).ok_or_else(|| format!("`{text}` is not a size such as `2MiB`"))
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let millis: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "" => return Err(format!("`{text}` has no unit; write for example `{text}s` or `5m`")),
        _ => return Err(format!("`{text}` is not a duration; units are ms, s, m, h")),
    };
    let number: Option<u64> = number.parse().ok();
    let millis = number.and_then(|n| n.checked_mul(millis));
    millis.map(Duration::from_millis).ok_or_else(|| format!("`{text}` is not a duration such as `5m`"))
}
