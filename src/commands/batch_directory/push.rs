//! Pushes the change of each item to a branch of its own repository, and opens its pull request. What is done already is
//! asked of the server: the directory may have come from anywhere.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::PathBuf;

use serde::Serialize;

use super::branches::template_names;
use super::chosen::{Chosen, order, part};
use super::destination::Destination;
use super::error::{BatchError, DeliverBatchError};
use super::opened::Batch;
use crate::base::private_file;
use crate::batch::item::Item;
use crate::batch::repository::Address;
use crate::cli::batch_directory::DeliverArgs;
use crate::commands::batch::clones::Clones;
use crate::commands::batch::holder;
use crate::commands::ci::push::{COMMITTER, Push, TREE};
use crate::commands::console::print;
use crate::deliver::inert::inert;
use crate::deliver::{Delivery, Person};
use crate::emit::safe::one_line;
use crate::emit::words::commit;
use crate::emit::{Format, to_line};
use crate::exit::Exit;
use crate::git::{Whole, server};
use crate::github::{GitHub, GitHubError, Proposed};
use crate::policy::Policy;
use crate::run::Failure;
use crate::run::finish::apply::{Fit, Request, apply};
use crate::run::output::signals;
use crate::run::place::Place;
use crate::secret::Secret;
use crate::settings::Environment;
use crate::workspace::batch_folder::BatchFolder;
use crate::workspace::temporary::Temporary;

/// The file of a batch's directory in which a call notes for people what it has pushed. Nothing reads it.
const LOG: &str = "deliver.jsonl";

/// The trailer with the digest of the change as the item ended with it: a branch whose commit has it has the change.
const PATCH: &str = "Qwen-Patch";

/// Characters of an answer in the text of a pull request.
const ANSWER: usize = 4_000;

/// What was done for an item: a line of the log.
#[derive(Debug, Clone, Default, Serialize)]
struct Pushed {
    key: String,
    /// The digest of the change.
    patch_sha256: String,
    branch: String,
    /// The commit on the server; `None`: the change is there already.
    commit: Option<String>,
    /// The page of its pull request.
    pull_request: Option<String>,
}

/// What all items have in common.
struct Pushing<'a> {
    batch: &'a Batch,
    arguments: &'a DeliverArgs,
    environment: &'a Environment,
    policy: Policy,
    /// Where repositories are cloned; `None`: the items are about the workspace.
    clones: Option<Clones>,
    items: HashMap<String, Item>,
    token: Option<Secret>,
    github: Option<GitHub>,
}

/// Pushes the changes, a line each. One that cannot be pushed does not keep the others from it.
pub(super) async fn run(
    batch: &Batch,
    chosen: &[Chosen],
    arguments: &DeliverArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let mut pushing = Pushing::open(batch, chosen, arguments, environment)?;
    let template = arguments.combine.branch_each.as_deref();
    let names = template_names(batch, chosen, template)?;
    let directory = batch.directory().ok_or(BatchError::NoDirectory)?;
    // Of two at once, both would push.
    let held = BatchFolder::open(directory, &holder())?;
    held.replace(LOG, b"")?;
    let path = directory.join(LOG);
    let mut exit = Exit::Ok;
    // An item is pushed and noted, or neither; a signal ends the batch after it.
    Whole::to_the_end();
    for (one, name) in chosen.iter().zip(names) {
        if let Some(interrupted) = signals::interrupted() {
            return Err(interrupted);
        }
        let sha256 = one.ended.product.patch_sha256.clone().unwrap_or_default();
        let line = Pushed { key: one.item.key.clone(), patch_sha256: sha256, branch: name, ..Pushed::default() };
        let (pushed, failure) = match pushing.one(one, line).await {
            Ok(pushed) => (pushed, None),
            Err((pushed, failure)) => (pushed, Some(failure)),
        };
        // A branch that is there is noted, also if its pull request is missing.
        if failure.is_none() || pushed.commit.is_some() {
            append(&path, &pushed)?;
        }
        print(out, &(shown(&pushed, failure.as_ref(), arguments.output_format) + "\n"))?;
        if let Some(failure) = failure {
            exit = exit.or_worse(failure.exit);
            if failure.error.retryable {
                // The next one would meet the same limit.
                break;
            }
        }
    }
    Ok(exit)
}

fn shown(pushed: &Pushed, failure: Option<&Failure>, format: Format) -> String {
    let (key, name) = (one_line(&pushed.key), one_line(&pushed.branch));
    let error = failure.map(|failure| &failure.error.message);
    match format {
        Format::Json | Format::StreamJson | Format::Result => {
            let mut value = serde_json::to_value(pushed).unwrap_or_default();
            value["error"] = serde_json::json!(error);
            to_line(&value)
        }
        Format::Text | Format::Patch => match (error, &pushed.commit) {
            (Some(why), _) => format!("fail {key} {name}: {}", one_line(why)),
            (None, None) => format!("ok {key} nothing to do: already applied"),
            (None, Some(id)) => {
                let url = pushed.pull_request.as_ref().map(|url| format!(" {}", one_line(url))).unwrap_or_default();
                format!("ok {key} {name} {}{url}", commit(id))
            }
        },
    }
}

fn append(path: &std::path::Path, pushed: &Pushed) -> Result<(), Failure> {
    let written = private_file::append(path, (to_line(pushed) + "\n").as_bytes());
    let unwritten = |error| Failure::output(format!("cannot write {}: {error}", path.display()));
    written.map_err(unwritten)
}

impl<'a> Pushing<'a> {
    fn open(
        batch: &'a Batch,
        chosen: &[Chosen],
        arguments: &'a DeliverArgs,
        environment: &'a Environment,
    ) -> Result<Pushing<'a>, Failure> {
        let description = batch.parts.first().map(|part| &part.description).ok_or(BatchError::NoDirectory)?;
        let of_repositories = description.source.kind == "repos";
        if !of_repositories && arguments.combine.branch_each.is_none() {
            return Err(DeliverBatchError::PushWhat.into());
        }
        let given = ["QWEN_GIT_TOKEN", "GITHUB_TOKEN"].iter().find_map(|name| environment.value(name));
        let token = given.map(|text| Secret::parse(&text)).transpose();
        let token = token.map_err(|error| DeliverBatchError::Token(error.to_string()))?;
        if arguments.pull_request && token.is_none() {
            return Err(DeliverBatchError::NoToken.into());
        }
        let place = Place::open(arguments.workspace.cd.as_deref(), environment)?;
        // Also for clones it is that of the directory in which the command was called.
        let policy = place.policy(arguments.policy.as_deref(), true, environment)?.policy;
        let clones = match of_repositories {
            true => {
                let cache = place.cache(environment);
                let programs = place.checkout.programs.clone();
                Some(Clones::open(cache, programs, environment, &format!("deliver {}", description.batch_id))?)
            }
            false => None,
        };
        let keys: HashSet<&str> = chosen.iter().map(|one| one.item.key.as_str()).collect();
        let items = if of_repositories { batch.items_of(&keys)? } else { HashMap::new() };
        Ok(Pushing { batch, arguments, environment, policy, clones, items, token, github: None })
    }

    /// Pushes the change of an item. What was done is told also if the rest fails.
    async fn one(&mut self, one: &Chosen, mut line: Pushed) -> Result<Pushed, (Pushed, Failure)> {
        let done = async {
            let flags = &self.arguments.combine;
            let own = self.cloned(one).await?;
            let directory = own.as_ref().map(|(_, path)| path.as_path()).or(self.arguments.workspace.cd.as_deref());
            let place = Place::open(directory, self.environment)?;
            let address = self.address(one, &place)?;
            if address.host.is_some() && self.clones.is_some() && !self.policy.may_clone(&address.key) {
                return Err(DeliverBatchError::NotAllowed(address.key).into());
            }
            let to = Destination::open(&place, &self.policy, self.environment, flags)?;
            let base = to.site().repository.and_then(|repository| repository.branch.clone());
            line.commit = self.push(one, &line.branch, &to, &address, base.as_deref())?;
            if let Some(commit) = line.commit.as_deref().filter(|_| self.arguments.pull_request) {
                let base = base.ok_or(DeliverBatchError::NoBase)?;
                let (title, body) = self.text(one, &to)?;
                let (title, body, draft) = (title.as_str(), body.as_str(), self.arguments.draft);
                let proposed = Proposed { head: &line.branch, base: &base, title, body, draft, labels: &[] };
                line.pull_request = Some(self.propose(proposed, commit, &address).await?);
            }
            Ok(())
        };
        let done: Result<(), Failure> = done.await;
        match done {
            Ok(()) => Ok(line),
            Err(failure) => Err((line, failure)),
        }
    }

    async fn cloned(&self, one: &Chosen) -> Result<Option<(Temporary, PathBuf)>, Failure> {
        let Some(clones) = &self.clones else { return Ok(None) };
        let item = self.items.get(&one.item.key).ok_or(BatchError::NoDirectory)?;
        let directory = clones.directory()?;
        let path = clones.cloned(item, directory.path()).await?;
        Ok(Some((directory, path)))
    }

    /// Returns where the change goes: the item's repository, or the workspace's `origin`.
    fn address(&self, one: &Chosen, place: &Place) -> Result<Address, Failure> {
        let url = match self.items.get(&one.item.key) {
            Some(item) => item.field("url").and_then(|url| url.as_str()).map(str::to_owned),
            None => place
                .repository()
                .and_then(|repository| repository.git().line(&["config", "--get", "remote.origin.url"], b"").ok()),
        };
        let url = url.ok_or(DeliverBatchError::NoOrigin)?;
        Ok(Address::parse(&url).map_err(|error| DeliverBatchError::Address(error.to_string()))?)
    }

    /// Commits the change on a branch of a name of our own, and pushes it under the name that it is to have.
    fn push(
        &self,
        one: &Chosen,
        name: &str,
        to: &Destination<'_>,
        address: &Address,
        base: Option<&str>,
    ) -> Result<Option<String>, Failure> {
        let (rules, site) = (to.rules(), to.site());
        let repository = site.repository.ok_or(DeliverBatchError::NoRepository)?;
        let own = Temporary::outside("push-", site.root).map_err(DeliverBatchError::Temporary)?;
        let git = server::git(repository, own.path()).map_err(DeliverBatchError::Temporary)?;
        let server = address.host.as_ref().map(|host| format!("https://{host}"));
        let kept: Vec<String> = base.map(str::to_owned).into_iter().collect();
        let below: Vec<String> = repository.head.iter().cloned().collect();
        let (token, server) = (self.token.as_ref(), server.as_deref());
        let push = Push { git, branch: name, kept: &kept, below: &below, token, server };
        let local = format!("qwen-push-{}", to.run_id);
        let patch = part(self.batch, one)?;
        let description = &self.batch.parts.first().ok_or(BatchError::NoDirectory)?.description;
        let given = self.arguments.combine.message.as_deref();
        let mut order = order(given, description, std::slice::from_ref(one), &|text| rules.hide(text))?;
        let committer = Person { name: COMMITTER.0.to_owned(), email: COMMITTER.1.to_owned() };
        (order.author, order.committer) = (Some(committer.clone()), Some(committer));
        order.message.push_str(&format!("{PATCH}: {}\n", patch.sha256.as_deref().unwrap_or_default()));
        if let Some(tip) = push.made_with(&order.message)? {
            return Ok(Some(tip));
        }
        let expected = push.look()?;
        order.tree_trailer = Some(TREE);
        let request = Request {
            input: &patch.patch,
            wanted: None,
            digest: patch.sha256.as_deref(),
            fit: Fit::Merge,
            how: Delivery::Branch { name: local.clone(), order },
            max_files: None,
            max_patch_bytes: None,
        };
        let Some(commit) = apply(&request, &rules, &site)?.delivered.commit else { return Ok(None) };
        let pushed = push.push(&commit, expected.as_deref());
        // The commit is on the server or nowhere.
        let _gone = repository.git().run(&["update-ref", "-d", &format!("refs/heads/{local}"), &commit], b"");
        pushed?;
        Ok(Some(commit))
    }

    /// Returns title and text of the pull request of an item.
    fn text(&self, one: &Chosen, to: &Destination<'_>) -> Result<(String, String), Failure> {
        let description = &self.batch.parts.first().ok_or(BatchError::NoDirectory)?.description;
        let given = self.arguments.combine.message.as_deref();
        let order = order(given, description, std::slice::from_ref(one), &|text| to.hide(text))?;
        let title = order.message.lines().next().unwrap_or_default().to_owned();
        let answer = match &one.ended.product.output {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let answer = inert(&to.hide(&answer).chars().take(ANSWER).collect::<String>());
        let body = format!("{answer}\n\n{}", order.message.lines().skip(1).collect::<Vec<_>>().join("\n"));
        Ok((title, body.trim().to_owned()))
    }

    /// Opens the pull request of a branch, or brings it up to date, and returns its page. One that somebody has closed stays
    /// closed.
    async fn propose(&mut self, proposed: Proposed<'_>, commit: &str, address: &Address) -> Result<String, Failure> {
        let failed = |error: GitHubError| {
            let error = DeliverBatchError::GitHub { later: error.may_pass(), message: error.to_string() };
            Failure::from(error)
        };
        let repository = format!("{}/{}", address.owner, address.name);
        let github = match self.github.take() {
            Some(github) => github.about(&repository).map_err(failed)?,
            None => GitHub::new(&self.api(address)?, &repository, self.token.clone()).map_err(failed)?,
        };
        let url = match github.closed_pull(&proposed, commit).await {
            Ok(None) => github.propose(&proposed).await.map(|opened| opened.url),
            closed => closed.map(Option::unwrap_or_default),
        };
        self.github = Some(github);
        url.map_err(failed)
    }

    fn api(&self, address: &Address) -> Result<String, DeliverBatchError> {
        if let Some(api) = self.environment.value("GITHUB_API_URL") {
            return Ok(api);
        }
        match address.host.as_deref() {
            Some("github.com") => Ok("https://api.github.com".to_owned()),
            Some(host) => Ok(format!("https://{host}/api/v3")),
            None => Err(DeliverBatchError::NoOrigin),
        }
    }
}
