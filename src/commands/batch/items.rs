//! Runs each item of a batch.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;

use super::answers::Answers;
use super::clones::{Clones, Work};
use super::task::Task;
use crate::batch::item::Item;
use crate::cli::RunArgs;
use crate::cli::batch::BatchArgs;
use crate::emit::Report;
use crate::model::batch_answer::Answered;
use crate::model::config::ClientConfig;
use crate::model::transport::Transport;
use crate::run::error::Failure;
use crate::run::many::seat::Seat;
use crate::run::many::{self, item};
use crate::run::stages::Shared;
use crate::telemetry::BatchTelemetry;
use crate::workspace::batch_folder::BatchFolder;

/// The items, as the engine runs them.
#[derive(Clone, Copy)]
pub(super) struct Items<'a> {
    /// The flags of the batch.
    pub(super) arguments: &'a BatchArgs,
    /// Those of an item.
    pub(super) of_items: &'a RunArgs,
    /// What the items share.
    pub(super) shared: &'a Shared,
    /// What is done with each.
    pub(super) task: &'a Task,
    /// How the batch is reported.
    pub(super) telemetry: Option<&'a BatchTelemetry>,
    /// Clones of the items' repositories.
    pub(super) clones: Option<&'a Clones>,
    /// The directory.
    pub(super) folder: Option<&'a BatchFolder>,
    /// What the provider's Batch API has answered.
    pub(super) answers: Option<&'a Answers>,
}

impl many::Work for Items<'_> {
    fn run<'a>(&'a self, item: &'a Item, seat: &'a Seat<'a>) -> LocalBoxFuture<'a, Box<Report>> {
        async move {
            let Some(answers) = self.answers else { return self.one(item, seat).await };
            let answer = match answers.of(item) {
                Ok(answer) => answer,
                Err(error) => return item::not_run(Failure::output(format!("cannot read an answer: {error}"))),
            };
            let over = |config: &ClientConfig, inner: Arc<dyn Transport>| {
                Arc::new(Answered::new(inner, config, answer.clone())) as Arc<dyn Transport>
            };
            self.one(item, &seat.over(&over)).await
        }
        .boxed_local()
    }
}

impl Items<'_> {
    /// Runs an item.
    pub(super) async fn one(&self, item: &Item, seat: &Seat<'_>) -> Box<Report> {
        let values = match self.task.values(item) {
            Ok(values) => values,
            Err(error) => return item::not_run(error.into()),
        };
        let mut arguments = self.of_items.clone();
        let cassettes = &self.arguments.test;
        let name = format!("{}.jsonl", item.stem());
        arguments.test.record = cassettes.record.as_ref().map(|folder| folder.join(&name));
        arguments.test.replay = cassettes.replay.as_ref().map(|folder| folder.join(&name));
        let (shared, recipe, telemetry) = (self.shared, &self.task.recipe, self.telemetry);
        let Some(clones) = self.clones else {
            return item::run(shared, &arguments, Some(recipe), values, telemetry, seat).await;
        };
        let branch = self.arguments.combine.branch_each.as_deref();
        let work = Work { shared, arguments, recipe, values, branch, folder: self.folder, telemetry };
        clones.run(item, work, seat).await.unwrap_or_else(item::not_run)
    }
}
