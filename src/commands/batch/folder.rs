//! Opens the directory of a batch: a new one, or one that continues.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::error::BatchError;
use crate::base::digest::sha256;
use crate::base::{Span, Spanned};
use crate::batch::journal::Journal;
use crate::batch::plan::{Batch, files};
use crate::batch::shard::{self, Shard};
use crate::bounded;
use crate::checkouts::{Around, refuse_links};
use crate::cli::RunArgs;
use crate::cli::batch::BatchArgs;
use crate::git::trusted::committed_in_checkout;
use crate::policy::file::{Paths, PolicyFile, ReadPaths, WritePaths};
use crate::policy::layers::{Layer, OF_BATCH};
use crate::recipe::Recipe;
use crate::run::error::Failure;
use crate::run::output::outputs::checkouts;
use crate::run::stages::{Shared, model};
use crate::workspace::batch_folder::BatchFolder;

/// A batch whose journal was read.
pub(super) struct Opened {
    /// The directory, if one keeps it.
    pub(super) folder: Option<BatchFolder>,
    /// The batch.
    pub(super) batch: Batch,
    /// What happened so far.
    pub(super) journal: Journal,
    /// What the owner should know.
    pub(super) warnings: Vec<String>,
}

/// Opens the directory that `--out` names. `batch` is what it belongs to if it is new.
pub(super) fn open(
    arguments: &BatchArgs,
    shared: &Shared,
    shard: Option<Shard>,
    batch: Batch,
) -> Result<Opened, Failure> {
    let Some(out) = &arguments.course.out else {
        return Ok(Opened { folder: None, batch, journal: Journal::default(), warnings: Vec::new() });
    };
    let path = path_of(arguments, shared, shard).unwrap_or_default();
    let shown = out.display().to_string();
    refuse_links(&existing(&path).0.join("batch.json"), &checkouts(&shared.place.checkout.around))
        .map_err(|cause| BatchError::Link { path: shown.clone(), cause })?;
    refuse_committed(&path, &shared.place.checkout.around)
        .map_err(|cause| BatchError::Link { path: shown.clone(), cause })?;
    if let Some(shard) = shard {
        same_division(&shared.environment.cwd.join(out), shard)?;
    }
    let mut folder = BatchFolder::open(&path, &holder())?;
    let (mut warnings, mut journal) = (Vec::new(), Journal::default());
    if folder.read_journal(&mut |line| journal.add(line))? {
        warnings.push("the last line of the journal was incomplete and is gone: its item runs again".to_owned());
    }
    let sent = folder.provider()?;
    let batch = match folder.batch()? {
        Some(_) if arguments.course.restart => {
            if sent.open().any(|sent| sent.is_out() && !sent.is_cancelled) {
                return Err(BatchError::AtProvider(shown).into());
            }
            let name = folder.set_journal_aside()?;
            warnings.push(format!("the batch begins again; its old journal is {name}"));
            journal = Journal::default();
            begun(&folder, batch)?
        }
        Some(old) if old.plan_sha256 == batch.plan_sha256 => old,
        Some(old) if journal.keys() > 0 || sent.open().next().is_some() => {
            let differences = batch.plan.differences(&old.plan).join(", ");
            return Err(BatchError::Other { path: shown, differences }.into());
        }
        // Nothing has run yet.
        Some(_) | None => begun(&folder, batch)?,
    };
    Ok(Opened { folder: Some(folder), batch, journal, warnings })
}

/// Writes what the directory belongs to from here on.
fn begun(folder: &BatchFolder, batch: Batch) -> Result<Batch, Failure> {
    folder.begin(&batch)?;
    Ok(batch)
}

/// Returns the directory of this call's batch, or shard of one.
pub(super) fn path_of(arguments: &BatchArgs, shared: &Shared, shard: Option<Shard>) -> Option<PathBuf> {
    let out = shared.environment.cwd.join(arguments.course.out.as_ref()?);
    Some(shard.map_or(out.clone(), |shard| out.join(shard.directory())))
}

/// Keeps the items of a batch from its own directory: there is what was said of the others.
pub(super) fn hide(arguments: &BatchArgs, shared: &mut Shared) -> Result<(), Failure> {
    let Some(out) = path_of(arguments, shared, None) else { return Ok(()) };
    let (at, rest) = existing(&out);
    let Ok(real) = at.canonicalize() else { return Ok(()) };
    let real = real.join(rest);
    let Some(below) = real.strip_prefix(shared.place.root()).ok().and_then(|path| path.to_str()) else { return Ok(()) };
    if below.is_empty() {
        let shown = arguments.course.out.as_deref().unwrap_or(&out).display().to_string();
        return Err(BatchError::OutIsWorkspace(shown).into());
    }
    let below = globset::escape(below.trim_end_matches('/'));
    let globs =
        || [below.clone(), format!("{below}/**")].map(|glob| Spanned { value: glob, span: Span::default() }).into();
    let file = PolicyFile {
        paths: Some(Paths {
            read: Some(ReadPaths { allow: None, deny: globs() }),
            write: Some(WritePaths { deny: globs(), ..WritePaths::default() }),
            protected: None,
        }),
        ..PolicyFile::default()
    };
    let layer = Layer::made(OF_BATCH, &below, file)
        .map_err(|cause| BatchError::Hide { path: below.clone(), cause: Box::new(cause) })?;
    shared.policy.policy = shared.policy.policy.and(layer);
    Ok(())
}

/// Refuses a directory of which a commit holds results, of shards as well: whoever wrote the commit would decide what
/// counts as done.
pub(in crate::commands) fn refuse_committed(path: &Path, around: &Around) -> std::io::Result<()> {
    let Ok(real) = path.canonicalize() else { return Ok(()) };
    let shards = shards_in(&real);
    let names = [files::BATCH, files::JOURNAL, files::PROVIDER, files::OF_ITEMS]
        .into_iter()
        .chain(shards.iter().map(String::as_str));
    match committed_in_checkout(around, &real, &names.collect::<Vec<_>>()) {
        true => Err(std::io::Error::other("git tracks results in this directory, which would count as done")),
        false => Ok(()),
    }
}

/// Names the directories of shards in a directory.
fn shards_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(shard::DIRECTORY) && name.contains("-of-")).collect()
}

/// Splits a path into what exists of it and the rest.
pub(in crate::commands) fn existing(path: &Path) -> (&Path, PathBuf) {
    let (mut at, mut rest) = (path, PathBuf::new());
    while at.symlink_metadata().is_err()
        && let (Some(parent), Some(name)) = (at.parent(), at.file_name())
    {
        rest = Path::new(name).join(&rest);
        at = parent;
    }
    (at, rest)
}

/// Refuses a directory that has shards of another division.
fn same_division(out: &Path, shard: Shard) -> Result<(), BatchError> {
    let ending = format!("-of-{}", shard.of());
    match shards_in(out).into_iter().find(|name| !name.ends_with(&ending)) {
        Some(found) => Err(BatchError::OtherShards { path: out.display().to_string(), found }),
        None => Ok(()),
    }
}

/// Names this process to others.
pub(in crate::commands) fn holder() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("process {} on {host}", std::process::id())
}

/// Returns the model's name as far as it is known before a request.
pub(super) fn model(arguments: &RunArgs, shared: &Shared, recipe: &Recipe) -> Result<String, Failure> {
    let wishes = recipe.file.model.clone().unwrap_or_default();
    Ok(model::name(arguments, shared, &wishes)?.unwrap_or_default())
}

/// Returns the digest of a file that every item is shown; a range of its lines has its own.
fn digest_of_file(named: &str, shared: &Shared) -> Value {
    let path = match named.rsplit_once(':') {
        Some((path, range)) if range.starts_with(|c: char| c.is_ascii_digit()) => path,
        _ => named,
    };
    let bytes = bounded::regular(&shared.environment.cwd.join(path), bounded::PRODUCT).unwrap_or_default();
    Value::from(sha256(&[named.as_bytes(), b"\n", &bytes].concat()))
}

/// Returns the flags that decide about answers; of texts, which may be secret, the digests.
pub(super) fn flags(arguments: &BatchArgs, shared: &Shared) -> Result<BTreeMap<String, Value>, Failure> {
    let digest = |text: &str| Value::from(sha256(text.as_bytes()));
    let mut flags = BTreeMap::new();
    let mut add = |name: &str, value: Value| drop(flags.insert(name.to_owned(), value));
    let (task, model, context) = (&arguments.task, &arguments.model, &arguments.context);
    for param in &task.params {
        let name = param.split('=').next().unwrap_or_default();
        add(&format!("--param {name}"), digest(param));
    }
    if let Some(path) = &task.params_file {
        let text = shared.trusted.named_text(shared.place.top(), &shared.environment.cwd.join(path));
        add("--params-file", digest(&text.unwrap_or_default()));
    }
    if !task.files.is_empty() {
        let texts = task.files.iter().map(|file| digest_of_file(file, shared));
        add("--file", texts.collect());
    }
    if let Some(schema) = &task.json_schema {
        let text = schema.strip_prefix('@').map(|path| {
            shared.trusted.named_text(shared.place.top(), &shared.environment.cwd.join(path)).unwrap_or_default()
        });
        add("--json-schema", digest(text.as_deref().unwrap_or(schema)));
    }
    let texts =
        [("--system-prompt", &context.system_prompt), ("--append-system-prompt", &context.append_system_prompt)];
    for (name, text) in texts {
        text.iter().for_each(|text| add(name, digest(text)));
    }
    let numbers = [("--temperature", model.temperature), ("--top-p", model.top_p)];
    for (name, number) in numbers {
        number.iter().for_each(|number| add(name, json!(number)));
    }
    for (name, number) in [("--seed", model.seed), ("--max-output-tokens", model.max_output_tokens)] {
        number.iter().for_each(|number| add(name, json!(number)));
    }
    if !task.checks.verify.is_empty() {
        add("--verify", json!(task.checks.verify));
    }
    if arguments.api.is_batch() {
        add("--api", Value::from("batch"));
    }
    if context.bare {
        add("--bare", Value::Bool(true));
    }
    if let (Some(_), Some(template)) = (&arguments.source.repos, &arguments.combine.branch_each) {
        add("--branch-each", digest(template));
    }
    if arguments.items.trust_items {
        add("--trust-items", Value::Bool(true));
    }
    Ok(flags)
}
