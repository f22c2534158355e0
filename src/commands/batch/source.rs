//! Reads the list of a batch, whatever it comes from.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::Value;

use super::clones::Clones;
use super::error::BatchError;
use super::repositories;
use crate::base::digest::sha256;
use crate::batch::item::{Fields, Item};
use crate::batch::keys::Keys;
use crate::batch::plan::Source;
use crate::bounded;
use crate::checkouts::refuse_links_out;
use crate::cli::batch::{BatchArgs, SourceArgs};
use crate::path::RelPath;
use crate::run::stages::Shared;
use crate::workspace::ignore;
use crate::workspace::item_source::{ListError, ListForm, read};
use crate::workspace::junit_source;
use crate::workspace::walk::{Filter, walk};

/// Takes the items of a list, one after the other.
pub(super) type Take<'a> = dyn FnMut(Item) -> Result<(), ListError> + 'a;

/// Returns where the list comes from, for `batch.json`.
pub(super) fn described(arguments: &BatchArgs) -> Source {
    let source = &arguments.source;
    let shown = |path: &Path| vec![path.display().to_string()];
    let (kind, of) = match source {
        SourceArgs { items: Some(path), .. } => ("items", shown(path)),
        SourceArgs { lines: Some(path), .. } => ("lines", shown(path)),
        SourceArgs { from_junit: Some(path), .. } => ("from-junit", shown(path)),
        SourceArgs { repos: Some(path), .. } => ("repos", shown(path)),
        SourceArgs { each, .. } => ("each", each.clone()),
    };
    Source { kind: kind.to_owned(), of, key: arguments.items.key.clone() }
}

/// Reads the list to its end. `out` is the directory of the batch, whose files are none of its items.
pub(super) fn items(
    arguments: &BatchArgs,
    (shared, clones): (&Shared, Option<&Clones>),
    out: Option<&Path>,
    take: &mut Take<'_>,
) -> Result<(), BatchError> {
    let source = &arguments.source;
    if let Some(path) = &source.from_junit {
        return failed_tests(path, shared, take);
    }
    if let (Some(path), Some(clones)) = (&source.repos, clones) {
        let mut stream = open(path, shared)?;
        let key = arguments.items.key.as_deref();
        return repositories::items((path, &mut stream), key, &shared.policy.policy, clones, take);
    }
    let form = match (&source.items, &source.lines) {
        (Some(path), _) => {
            let name = path.display().to_string();
            Some((path, ListForm::of_name(&name).ok_or(BatchError::Form(name))?, arguments.items.key.clone()))
        }
        (None, Some(path)) => {
            let end = if arguments.items.null { 0 } else { b'\n' };
            Some((path, ListForm::Lines(end), Some("line".to_owned())))
        }
        (None, None) => None,
    };
    let Some((path, form, key)) = form else { return files(&source.each, shared, out, take) };
    let name = path.display().to_string();
    let failed = |cause: ListError| BatchError::List { name: name.clone(), cause };
    let stream = open(path, shared)?;
    let mut keys = Keys::new(key);
    let mut each = |line: u64, fields: Fields| take(keys.item(line, fields, "")?);
    read(form, &mut BufReader::new(stream), &mut each).map_err(failed)
}

/// Opens a list; `-` is standard input.
fn open(path: &Path, shared: &Shared) -> Result<Box<dyn Read>, BatchError> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdin()));
    }
    let failed = |error: std::io::Error| BatchError::List { name: path.display().to_string(), cause: error.into() };
    let whole = shared.environment.cwd.join(path);
    refuse_links_out(&whole).map_err(failed)?;
    Ok(Box::new(File::open(whole).map_err(failed)?))
}

/// Lists the failed tests of a report.
fn failed_tests(path: &Path, shared: &Shared, take: &mut Take<'_>) -> Result<(), BatchError> {
    let failed = |cause: ListError| BatchError::List { name: path.display().to_string(), cause };
    let whole = shared.environment.cwd.join(path);
    let bytes = refuse_links_out(&whole).and_then(|()| bounded::regular(&whole, bounded::PRODUCT));
    let bytes = bytes.map_err(|cause| failed(cause.into()))?;
    let mut keys = Keys::new(Some(junit_source::KEY.to_owned()));
    let mut each = |line: u64, fields: Fields| take(keys.item(line, fields, "")?);
    junit_source::read(&bytes, &mut each).map_err(failed)
}

/// Lists the files of the workspace that match.
fn files(patterns: &[String], shared: &Shared, out: Option<&Path>, take: &mut Take<'_>) -> Result<(), BatchError> {
    let (without, with): (Vec<&String>, Vec<&String>) = patterns.iter().partition(|pattern| pattern.starts_with('!'));
    let (wanted, left_out) = (globs(&with)?, globs(&without)?);
    let workspace = &shared.place.workspace;
    let facts = shared.place.facts(&shared.environment);
    let policy = &shared.policy.policy;
    let own = out.and_then(|out| out.canonicalize().ok());
    let own = own.as_deref().and_then(|out| RelPath::new(out.strip_prefix(workspace.root()).ok()?));
    let is_own = |path: &RelPath| own.as_ref().is_some_and(|own| path.as_path().starts_with(own.as_path()));
    let want = |path: &RelPath| {
        let path_of = path.as_path();
        wanted.is_match(path_of)
            && !left_out.is_match(path_of)
            && !is_own(path)
            && policy.may_read(path, &facts).is_ok()
    };
    let source = ignore::Source::new(workspace);
    let filter = Filter { git: true, enter: &|_| true, want: &want };
    let found = walk(&source, &RelPath::root(), &filter, &AtomicBool::new(false));
    let shown = patterns.join(" --each ");
    if found.files.is_empty() {
        return Err(BatchError::NoFile(shown));
    }
    let mut keys = Keys::new(Some("path".to_owned()));
    let mut all = || {
        for (at, file) in found.files.iter().enumerate() {
            let content = bounded::regular(&file.path.under(workspace.root()), bounded::PRODUCT)?;
            take(keys.item(at as u64 + 1, fields_of(&file.path), &sha256(&content))?)?;
        }
        Ok(())
    };
    all().map_err(|cause| BatchError::List { name: format!("--each {shown}"), cause })
}

fn globs(patterns: &[&String]) -> Result<GlobSet, BatchError> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let text = pattern.trim_start_matches('!').trim_start_matches("./");
        let wrong =
            |error: globset::Error| BatchError::Pattern { pattern: (*pattern).clone(), why: error.kind().to_string() };
        let glob: Glob = GlobBuilder::new(text).literal_separator(true).build().map_err(wrong)?;
        set.add(glob);
    }
    set.build().map_err(|error| BatchError::Pattern { pattern: String::new(), why: error.kind().to_string() })
}

fn fields_of(path: &RelPath) -> Fields {
    let text = |part: Option<&std::ffi::OsStr>| {
        Value::from(part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default())
    };
    let of = path.as_path();
    [
        ("path", Value::from(path.to_string_lossy())),
        ("name", text(of.file_name())),
        ("stem", text(of.file_stem())),
        ("ext", text(of.extension())),
        ("dir", text(of.parent().map(Path::as_os_str))),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
