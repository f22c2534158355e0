//! Has the provider's Batch API answer the items: their first requests go out in files, and when the answers are here, each
//! run is made again and gets its own.

use std::collections::{HashSet, VecDeque};
use std::io::Write as _;
use std::time::{Duration, Instant};

use super::answers::Answers;
use super::error::BatchError;
use super::items::Items;
use super::prepared::{Halt, Prepared, prepare};
use super::provider_error::ProviderError;
use crate::base::{Code, Diagnostic};
use crate::batch::item::Item;
use crate::batch::journal::is_final;
use crate::batch::provider::{AllSent, Line, Sent, Step, answers_of, input_of};
use crate::batch::tally::Stop;
use crate::bounded;
use crate::cli::batch::BatchArgs;
use crate::emit::{Progress, words_count};
use crate::event::RunError;
use crate::exit::Exit;
use crate::model::ModelError;
use crate::model::batch_api::{BatchApi, NotCreated, RemoteBatch};
use crate::run::error::{ConnectError, Failure, RecipeError};
use crate::run::many::records::{Records, without_run};
use crate::run::many::{Plan, interrupted, out_of_time};
use crate::run::output::signals::{self, Signals};
use crate::run::stages::model;
use crate::workspace::batch_folder::{BatchFolder, append_provider};
use crate::workspace::batch_reader::BatchReader;
use crate::workspace::item_list::ItemList;

/// How often the provider is asked at first.
const SOON: Duration = Duration::from_secs(10);

/// How often at last.
const LATE: Duration = Duration::from_secs(300);

/// What of all prompts may be the same before a prompt cache costs less than half the price.
const SHARED: u64 = 62;

/// Refuses flags that do not go together with the provider's Batch API.
pub(super) fn check_flags(arguments: &BatchArgs) -> Result<(), BatchError> {
    let BatchArgs { api, totals, test, source, course, .. } = arguments;
    if !api.is_batch() {
        return if api.window.is_some() { Err(BatchError::Window) } else { Ok(()) };
    }
    let flags = [
        (totals.total_cost_usd.is_some(), "--total-cost-usd: all requests are sent at once"),
        (totals.total_tokens.is_some(), "--total-tokens: all requests are sent at once"),
        (totals.rpm.is_some(), "--rpm"),
        (totals.tpm.is_some(), "--tpm"),
        (test.record.is_some(), "--record"),
        (test.replay.is_some(), "--replay"),
        (source.repos.is_some(), "--repos"),
    ];
    if let Some((_, flag)) = flags.into_iter().find(|(is_given, _)| *is_given) {
        return Err(BatchError::Api(flag));
    }
    let window = api.window.map_or(3_600, |window| window.as_secs());
    match course.out {
        None => Err(BatchError::ApiOut),
        Some(_) if window == 0 || window % 3_600 > 0 => Err(BatchError::Hours),
        Some(_) => Ok(()),
    }
}

/// The provider's Batch API, as a batch uses it.
pub(super) struct Provider<'a> {
    items: Items<'a>,
    list: &'a ItemList,
    records: &'a Records<'a>,
    folder: &'a BatchFolder,
    started: Instant,
    api: BatchApi,
    sent: AllSent,
    answers: Answers,
}

impl<'a> Provider<'a> {
    /// Opens the way to the provider, and reads what was handed to it. Sends nothing.
    pub(super) fn open(
        items: Items<'a>,
        (list, records, folder): (&'a ItemList, &'a Records<'a>, &'a BatchFolder),
        started: Instant,
    ) -> Result<Provider<'a>, Failure> {
        let wishes = items.task.recipe.file.model.clone().unwrap_or_default();
        let config = model::server(items.of_items, items.shared, &wishes)?;
        let api = BatchApi::new(config).map_err(ConnectError::Options)?;
        let sent = folder.provider()?;
        if sent.open().any(|sent| sent.account != api.account()) {
            return Err(ProviderError::Account.into());
        }
        Ok(Provider { items, list, records, folder, started, api, sent, answers: Answers::default() })
    }

    /// Hands what is new to the provider and waits for all answers. Items without one are taken out of the plan.
    pub(super) async fn exchange(
        &mut self,
        plan: &mut Plan,
        progress: &mut Progress<'_>,
    ) -> Result<Option<Halt>, Failure> {
        self.answers = self.read()?;
        let mut fresh = VecDeque::new();
        for turn in &plan.queue {
            let item = self.item(turn.n)?;
            let is_answered = self.answers.good_of(&item).is_some() && self.records.is_done(&item);
            if is_answered || !self.answers.is_on_the_way(&item) {
                fresh.push_back(*turn);
            }
        }
        if !fresh.is_empty() {
            match prepare(self.items, (self.list, self.folder), fresh, self.started, progress)? {
                Ok(prepared) => self.keep(prepared, progress)?,
                Err(halt) => return Ok(Some(halt)),
            }
        }
        signals::end_in_order(|_| {});
        let (mut signals, limit) = (Signals::listen().ok(), self.items.arguments.totals.total_wall_time);
        let left = limit.map(|limit| limit.saturating_sub(self.started.elapsed()));
        let late = async {
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        };
        let halt = tokio::select! {
            biased;
            done = self.answered(progress) => match done {
                Ok(()) => None,
                Err(failure) => Some(Halt { stop: Stop::Same(failure.exit), error: *failure.error }),
            },
            exit = signals::next_of(signals.as_mut()) => Some(Halt { stop: Stop::Signal(exit), error: interrupted() }),
            () = late => Some(Halt { stop: Stop::Total, error: out_of_time(limit.unwrap_or_default()) }),
        };
        if halt.is_none() {
            let too_large = std::mem::take(&mut self.answers.too_large);
            self.answers = self.read()?;
            self.answers.too_large = too_large;
            self.leave_out(plan)?;
        }
        Ok(halt)
    }

    /// Returns the answers, as items get them.
    pub(super) fn answers(&self) -> &Answers {
        &self.answers
    }

    fn item(&self, n: u32) -> Result<Item, Failure> {
        self.list.item(n).map_err(|error| Failure::output(format!("cannot read the list: {error}")))
    }

    fn read(&self) -> Result<Answers, Failure> {
        let reader = BatchReader::open(self.folder.path());
        let answers = reader.and_then(|reader| Answers::read(&reader, &self.sent));
        answers.map_err(|error| Failure::output(format!("cannot read what the provider was asked: {error}")))
    }

    fn note(&mut self, line: Line) -> Result<(), Failure> {
        append_provider(self.folder.path(), &line)?;
        self.sent.add(&line);
        Ok(())
    }

    /// Gives the prepared requests their place, and says what they are.
    fn keep(&mut self, prepared: Prepared, progress: &mut Progress<'_>) -> Result<(), Failure> {
        let Prepared { files, too_large, common } = prepared;
        self.answers.too_large = too_large;
        let share = common.percent();
        if let Some(share) = share.filter(|share| *share > SHARED) {
            let prompt = self.items.task.recipe.file.prompt.as_ref();
            let message = format!(
                "{share}% of each request is the same for all items: above {SHARED}% ordinary requests cost less \
                 where they are cached"
            );
            let warning = prompt.map(|prompt| Diagnostic::new(Code::W111, prompt.place.clone(), message));
            match warning {
                Some(warning) if self.items.arguments.context.strict => {
                    return Err(RecipeError::Wrong(vec![warning]).into());
                }
                Some(warning) => progress.warn(&warning.brief()),
                None => {}
            }
        }
        let requests = files.iter().map(|(_, items)| items).sum();
        let said = share.map(|share| format!("; {share}% of each is the same for all")).unwrap_or_default();
        let price = self.api.rate().map(|rate| format!(", at {:.0}% of the price", rate * 100.0)).unwrap_or_default();
        if requests > 0 {
            progress.note(&format!(
                "{} for the Batch API of {}{price}: no cache, answers in minutes to a day{said}",
                words_count(requests, "request"),
                self.api.host()
            ));
        }
        for (file, items) in files {
            let n = self.sent.0.iter().map(|sent| sent.n).max().unwrap_or_default() + 1;
            self.folder.place(file, &input_of(n))?;
            let time = jiff::Timestamp::now().to_string();
            self.note(Line::Input { n, items, account: self.api.account(), time })?;
        }
        Ok(())
    }

    /// Brings all batches to their end.
    async fn answered(&mut self, progress: &mut Progress<'_>) -> Result<(), Failure> {
        let open: Vec<Sent> = self.sent.open().filter(|sent| sent.step < Step::Created).cloned().collect();
        for sent in open {
            self.hand_over(sent, progress).await?;
        }
        let mut wait = SOON;
        let mut said = String::new();
        loop {
            let open: Vec<(u32, String)> = self
                .sent
                .open()
                .filter(|sent| sent.step == Step::Created)
                .filter_map(|sent| Some((sent.n, sent.batch.clone()?)))
                .collect();
            let mut states = Vec::new();
            for (n, batch) in open {
                let gone = || RemoteBatch { status: "not known any more".to_owned(), ..RemoteBatch::default() };
                match self.ask(self.api.look(&batch).await)? {
                    Some(remote) if !remote.has_ended() => {
                        let (done, all) = remote.counts;
                        states.push(format!("{batch}: {} {done}/{all}", remote.status));
                    }
                    ended => self.collect(n, &batch, ended.unwrap_or_else(gone), progress).await?,
                }
            }
            if states.is_empty() {
                return Ok(());
            }
            let state = states.join(" · ");
            if state != said {
                progress.note(&state);
                said = state;
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LATE);
        }
    }

    /// Words an error of the provider.
    fn ask<T>(&self, answer: Result<T, ModelError>) -> Result<T, ProviderError> {
        answer.map_err(|error| ProviderError::of(&self.api.host(), error))
    }

    /// Uploads a file of requests and creates its batch, each once.
    async fn hand_over(&mut self, mut sent: Sent, progress: &mut Progress<'_>) -> Result<(), Failure> {
        let n = sent.n;
        if sent.step == Step::Input {
            let content = bounded::regular(&self.folder.path().join(input_of(n)), bounded::PRODUCT);
            let content = content.map_err(|error| Failure::output(format!("cannot read {}: {error}", input_of(n))))?;
            let file = self.ask(self.api.upload(&sent.file_name(), &content).await)?;
            sent.file = Some(file.clone());
            self.note(Line::Uploaded { n, file })?;
        }
        let file = sent.file.clone().unwrap_or_default();
        let found = match sent.step {
            Step::Creating | Step::Missing => self.ask(self.api.find(&file).await)?,
            Step::Input | Step::Uploaded | Step::Created | Step::Ended | Step::Collected => None,
        };
        let batch = match found {
            Some(found) => found.id,
            // It may be listed later than it is there: not before the next call it is created again.
            None if sent.step == Step::Creating => return Err(self.not_found(n)?.into()),
            None => self.create(n, &file).await?,
        };
        progress.note(&format!("{} handed to {} as {batch}", words_count(sent.items, "request"), self.api.host()));
        self.note(Line::Created { n, batch })
    }

    /// Creates a batch and returns its id. If its answer is lost, it is looked for.
    async fn create(&mut self, n: u32, file: &str) -> Result<String, Failure> {
        let hours = self.items.arguments.api.window.map_or(24, |window| window.as_secs() / 3_600);
        self.note(Line::Create { n })?;
        let error = match self.api.create(file, &format!("{hours}h")).await {
            Ok(remote) => return Ok(remote.id),
            Err(NotCreated::Refused(error)) => {
                // It is not there, so the next call may create it.
                self.note(Line::Uploaded { n, file: file.to_owned() })?;
                return Err(ProviderError::of(&self.api.host(), error).into());
            }
            Err(NotCreated::Unknown(error)) => error,
        };
        match self.api.find(file).await {
            Ok(Some(found)) => Ok(found.id),
            Ok(None) => Err(self.not_found(n)?.into()),
            Err(_) => Err(ProviderError::Answer(error).into()),
        }
    }

    fn not_found(&mut self, n: u32) -> Result<ProviderError, Failure> {
        self.note(Line::Missing { n })?;
        Ok(ProviderError::Unknown(self.api.host()))
    }

    /// Downloads the answers of a batch that has ended.
    async fn collect(
        &mut self,
        n: u32,
        batch: &str,
        ended: RemoteBatch,
        progress: &mut Progress<'_>,
    ) -> Result<(), Failure> {
        let RemoteBatch { status, files, message, .. } = ended;
        for (file, name) in files.iter().zip(answers_of(n)) {
            let Some(file) = file else { continue };
            let mut out = self.folder.temporary()?;
            let written = self.ask(self.api.download(file, &mut out).await)?;
            let written = written.and_then(|()| out.flush()).and_then(|()| out.as_file().sync_all());
            written.map_err(|error| Failure::output(format!("cannot write {name}: {error}")))?;
            self.folder.place(out, &name)?;
        }
        self.note(Line::Ended { n, status, message, files: files.into_iter().flatten().collect() })?;
        let ended = self.sent.0.iter().find(|sent| sent.n == n);
        if let Some(why) = ended.map(why_not).filter(|why| !why.is_empty()) {
            progress.warn(&format!("{batch}{why}"));
        }
        Ok(())
    }

    /// Takes out of the plan what the provider has not answered: the next call asks again.
    fn leave_out(&self, plan: &mut Plan) -> Result<(), Failure> {
        let course = &self.items.arguments.course;
        let mut left = VecDeque::new();
        for turn in std::mem::take(&mut plan.queue) {
            let item = self.item(turn.n)?;
            let Some(n) = self.answers.missing_of(&item) else {
                left.push_back(turn);
                continue;
            };
            let attempt = turn.tries + 1;
            let may_retry = course.retry_on.contains(&Exit::Unavailable.code()) && attempt < course.item_attempts;
            let why = self.sent.0.iter().find(|sent| sent.n == n).map(why_not).unwrap_or_default();
            let message = format!("the provider's Batch API has no answer for it{why}");
            let error = RunError { code: "unavailable".into(), message, retryable: true, ..RunError::default() };
            let mut ended = without_run(&item, attempt, (Exit::Unavailable, error));
            ended.r#final = is_final(ended.exit_code, may_retry, false);
            if ended.r#final {
                plan.tally.end(Exit::Unavailable, true, u32::MAX, None);
            }
            self.records.give_up(ended)?;
        }
        plan.queue = left;
        Ok(())
    }

    /// Deletes the files of batches whose good answers are all in the journal, at the provider and here.
    pub(super) async fn settle(&mut self, progress: &mut Progress<'_>) -> Result<(), Failure> {
        let mut unused = HashSet::new();
        for n in 1..=self.list.len() {
            let item = self.item(n)?;
            if !self.records.is_done(&item) {
                unused.extend(self.answers.good_of(&item));
            }
        }
        self.folder.sync()?;
        let over = |sent: &&Sent| sent.step == Step::Ended && !unused.contains(&sent.n);
        let over: Vec<Sent> = self.sent.open().filter(over).cloned().collect();
        for sent in over {
            let mut left = None;
            let uploads = match self.api.uploads(&sent.file_name()).await {
                Ok(uploads) => uploads,
                // A provider that lists no files has those that are known.
                Err(error) if matches!(error.status, Some(400 | 404 | 405 | 501)) => Vec::new(),
                Err(error) => {
                    left = Some(error);
                    Vec::new()
                }
            };
            for file in uploads.iter().chain(&sent.file).chain(&sent.files) {
                left = self.api.delete(file).await.err().or(left);
            }
            if let Some(error) = left {
                progress.warn(&format!("files are left at the provider: {}", error.message));
                continue;
            }
            self.note(Line::Collected { n: sent.n })?;
            answers_of(sent.n).iter().chain([&input_of(sent.n)]).for_each(|name| self.folder.remove(name));
        }
        Ok(())
    }
}

/// Says how a batch of the provider ended, unless it was completed.
fn why_not(sent: &Sent) -> String {
    if sent.status == "completed" {
        return String::new();
    }
    let message = sent.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
    format!(": {}{message}", sent.status)
}
