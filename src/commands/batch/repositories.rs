//! Reads a list of repositories, and finds the commit of each: another commit is another item.

use std::io::Read;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::clones::Clones;
use super::error::BatchError;
use crate::batch::item::{Fields, Item};
use crate::batch::keys::Keys;
use crate::batch::repository::{Address, check_reference};
use crate::policy::Policy;
use crate::workspace::item_source::{ListError, ListForm, read};

/// The field that names a repository unless `--key` names another.
const KEY: &str = "repository";

/// How many servers are asked at a time.
const THREADS: usize = 8;

/// A repository of the list.
struct Listed {
    line: u64,
    fields: Fields,
    address: Address,
    commit: String,
}

/// Reads the list to its end; each repository must be one that the policy lets be cloned.
pub(super) fn items(
    (name, stream): (&Path, &mut dyn Read),
    key: Option<&str>,
    policy: &Policy,
    clones: &Clones,
    take: &mut dyn FnMut(Item) -> Result<(), ListError>,
) -> Result<(), BatchError> {
    let failed = |cause: ListError| BatchError::List { name: name.display().to_string(), cause };
    let mut all = Vec::new();
    let mut stream = std::io::BufReader::new(stream);
    read(ListForm::Lines(b'\n'), &mut stream, &mut |line, fields| {
        let text = fields.get("line").and_then(Value::as_str).unwrap_or_default().trim();
        if !text.is_empty() {
            all.push(listed(line, text).map_err(|why| ListError::Line { line, why })?);
        }
        Ok(())
    })
    .map_err(failed)?;
    let refused = all.iter().find(|one| one.address.host.is_some() && !policy.may_clone(&one.address.key));
    if let Some(refused) = refused {
        return Err(BatchError::NotAllowed(refused.address.key.clone()));
    }
    find_commits(&mut all, clones);
    let mut keys = Keys::new(Some(key.unwrap_or(KEY).to_owned()));
    for one in all {
        let item = keys.item(one.line, one.fields, &one.commit).map_err(|cause| failed(cause.into()))?;
        take(item).map_err(failed)?;
    }
    Ok(())
}

/// Reads a line: an address with a branch or tag, or a record.
fn listed(line: u64, text: &str) -> Result<Listed, String> {
    let mut fields: Fields = match text.starts_with('{') {
        true => serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?,
        false => {
            let mut words = text.split_whitespace();
            let named = [("url", words.next()), ("ref", words.next())];
            if words.next().is_some() {
                return Err("it has more than an address and a branch or tag".to_owned());
            }
            let of = |(name, word): (&str, Option<&str>)| Some((name.to_owned(), Value::from(word?)));
            named.into_iter().filter_map(of).collect()
        }
    };
    let url = fields.get("url").and_then(Value::as_str).ok_or("the record has no text in `url`")?;
    let address = Address::parse(url).map_err(|error| error.to_string())?;
    match fields.get("ref") {
        None | Some(Value::Null) => {}
        Some(Value::String(reference)) => check_reference(reference).map_err(|error| error.to_string())?,
        Some(_) => return Err("`ref` is not a text".to_owned()),
    }
    for (name, value) in [(KEY, &address.key), ("owner", &address.owner), ("name", &address.name)] {
        fields.insert(name.to_owned(), Value::from(value.as_str()));
    }
    Ok(Listed { line, fields, address, commit: String::new() })
}

/// Finds the commit of each, several at a time. One that cannot be asked for has none: its item says why.
fn find_commits(all: &mut [Listed], clones: &Clones) {
    let left = Mutex::new(all.iter_mut());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(one) = { left.lock().unwrap_or_else(PoisonError::into_inner).next() } {
                    one.commit = clones.commit(&one.fields).unwrap_or_default();
                }
            });
        }
    });
}
