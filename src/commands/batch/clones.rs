//! Clones the repository of an item for as long as the item runs, and keeps the branch that it makes there.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::error::BatchError;
use crate::base::private_file;
use crate::batch::item::{Fields, Item};
use crate::batch::repository::Address;
use crate::cli::RunArgs;
use crate::commands::batch_directory::branches::filled;
use crate::emit::Report;
use crate::git::Programs;
use crate::git::clone::{Origin, remove};
use crate::recipe::Recipe;
use crate::run::error::Failure;
use crate::run::many::item::run;
use crate::run::many::seat::Seat;
use crate::run::place::Place;
use crate::run::stages::Shared;
use crate::secret::Secret;
use crate::settings::Environment;
use crate::telemetry::BatchTelemetry;
use crate::workspace::batch_folder::BatchFolder;
use crate::workspace::temporary::Temporary;

/// The variable with the token for the hosts that the policy names.
const TOKEN: &str = "QWEN_GIT_TOKEN";

/// The variable with the file of certificates that are trusted, as git has it.
const CERTIFICATES: &str = "GIT_SSL_CAINFO";

/// Where the repositories of a batch are cloned.
pub(in crate::commands) struct Clones {
    parent: PathBuf,
    cwd: PathBuf,
    programs: Programs,
    token: Option<Secret>,
    certificates: Option<String>,
}

/// What the item of a repository is to do.
pub(super) struct Work<'a> {
    pub(super) shared: &'a Shared,
    pub(super) arguments: RunArgs,
    pub(super) recipe: &'a Recipe,
    pub(super) values: Map<String, Value>,
    /// The template of `--branch-each`.
    pub(super) branch: Option<&'a str>,
    pub(super) folder: Option<&'a BatchFolder>,
    pub(super) telemetry: Option<&'a BatchTelemetry>,
}

impl Clones {
    /// Makes the directory of the clones. What a killed call of the same batch left there is removed.
    pub(in crate::commands) fn open(
        cache: Option<PathBuf>,
        programs: Programs,
        environment: &Environment,
        batch: &str,
    ) -> Result<Clones, Failure> {
        let cache = cache.ok_or(BatchError::NoCache)?;
        let parent = cache.join("batch").join(&crate::base::digest::sha256(batch.as_bytes())[..16]);
        let unwritten = |cause| BatchError::Clones { path: parent.display().to_string(), cause };
        remove(&parent).and_then(|()| private_file::folder(&parent)).map_err(unwritten)?;
        let given = environment.value(TOKEN);
        let token =
            given.map(|text| Secret::parse(&text)).transpose().map_err(|error| BatchError::Token(error.to_string()))?;
        let certificates = environment.value(CERTIFICATES);
        Ok(Clones { parent, cwd: environment.cwd.clone(), programs, token, certificates })
    }

    /// Returns the commit that would be cloned, if it can be asked for.
    pub(super) fn commit(&self, fields: &Fields) -> Option<String> {
        let address = address(fields)?;
        self.origin(&address, &self.url(&address), fields).commit(&self.programs, &self.parent)
    }

    fn origin<'a>(&'a self, address: &'a Address, url: &'a str, fields: &'a Fields) -> Origin<'a> {
        let reference = fields.get("ref").and_then(Value::as_str);
        let certificates = self.certificates.as_deref();
        Origin { url, reference, host: address.host.as_deref(), token: self.token.as_ref(), certificates }
    }

    /// Returns the address as git gets it: a path is one of the directory in which the batch was called.
    fn url(&self, address: &Address) -> String {
        match address.host {
            Some(_) => address.url.clone(),
            None => self.cwd.join(&address.url).display().to_string(),
        }
    }

    /// Runs an item in a clone of its repository, which is removed afterwards.
    pub(super) async fn run(&self, item: &Item, work: Work<'_>, seat: &Seat<'_>) -> Result<Box<Report>, Failure> {
        let directory = self.directory()?;
        let to = self.cloned(item, directory.path()).await?;
        let shared = work.shared.elsewhere(Place::open(Some(&to), &work.shared.environment)?)?;
        let mut arguments = work.arguments;
        if let Some(template) = work.branch {
            arguments.changes.branch = Some(filled(template, &item.key, item.n, &work.recipe.facts().name));
        }
        let report = run(&shared, &arguments, Some(work.recipe), work.values, work.telemetry, seat).await;
        if let (Some(folder), Some(branch)) =
            (work.folder, report.git.branch.as_ref().filter(|_| report.git.commit.is_some()))
        {
            let bundle = bundle(&shared.place, branch)?;
            folder.keep(&format!("{}.bundle", item.stem()), &bundle)?;
        }
        Ok(report)
    }

    /// Makes the directory of a clone, which is removed with what is returned.
    pub(in crate::commands) fn directory(&self) -> Result<Temporary, Failure> {
        let unwritten = |cause| BatchError::Clones { path: self.parent.display().to_string(), cause };
        Ok(Temporary::inside(&self.parent, "clone-").map_err(unwritten)?)
    }

    /// Clones the repository of an item, and returns where it is.
    pub(in crate::commands) async fn cloned(&self, item: &Item, within: &Path) -> Result<PathBuf, Failure> {
        let address = address(&item.fields).ok_or_else(|| BatchError::NotAllowed(item.key.clone()))?;
        let (url, fields) = (self.url(&address), item.fields.clone());
        let (programs, token, certificates) = (self.programs.clone(), self.token.clone(), self.certificates.clone());
        let (within, to) = (within.to_owned(), within.join("work"));
        let target = to.clone();
        // Git is waited for beside the other items of this thread.
        let cloning = tokio::task::spawn_blocking(move || {
            let reference = fields.get("ref").and_then(Value::as_str);
            let (token, certificates) = (token.as_ref(), certificates.as_deref());
            let origin = Origin { url: &url, reference, host: address.host.as_deref(), token, certificates };
            origin.clone_to(&programs, &within, &target)
        });
        let cloned = cloning.await.map_err(|panic| Failure::output(format!("the clone ended early: {panic}")))?;
        cloned.map_err(|cause| BatchError::NotCloned { key: item.key.clone(), cause })?;
        Ok(to)
    }
}

impl Drop for Clones {
    /// Removes the directory of the clones. What cannot be removed is removed by the next call.
    fn drop(&mut self) {
        let _left = remove(&self.parent);
    }
}

fn address(fields: &Fields) -> Option<Address> {
    Address::parse(fields.get("url")?.as_str()?).ok()
}

/// Returns a branch as a bundle that fits the commit which was cloned.
fn bundle(place: &Place, branch: &str) -> Result<Vec<u8>, BatchError> {
    let repository = place.repository().ok_or(BatchError::NoBundle(String::new()))?;
    let base = repository.head.as_ref().map(|head| format!("^{head}"));
    let reference = format!("refs/heads/{branch}");
    let arguments = ["bundle", "create", "--quiet", "-", &reference].map(str::to_owned);
    let arguments: Vec<String> = arguments.into_iter().chain(base).collect();
    repository.git().run(&arguments, b"").map_err(|error| BatchError::NoBundle(error.to_string()))
}
