//! Speaks the Batch API of an OpenAI-compatible provider: files, and batches of their requests.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use super::attempt::Failure;
use super::client::Client;
use super::config::ClientConfig;
use super::endpoint::Endpoint;
use super::retry::Verdict;
use super::transport::{Method, WireRequest};
use super::{ModelError, Usage};
use crate::base::digest::sha256;

/// How long a file may take to be sent or read, up to the first byte.
const OF_A_FILE: Duration = Duration::from_secs(1_800);

/// Batches that a provider lists at once.
const LISTED: usize = 100;

/// Pages of that list that are looked at.
const PAGES: usize = 20;

/// What separates the parts of an upload. No line of JSON holds it, as each begins with a brace.
const BOUNDARY: &str = "qwen-batch-7MA4YWxkTrZu0gW";

/// A provider's Batch API.
pub struct BatchApi {
    config: ClientConfig,
    client: Client,
}

/// A batch, as the provider describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoteBatch {
    /// Its id.
    pub id: String,
    /// Its status, such as `in_progress`.
    pub status: String,
    /// The files with answers and errors.
    pub files: [Option<String>; 2],
    /// Requests that are done, and all of them.
    pub counts: (u64, u64),
    /// What went wrong with all of it.
    pub message: Option<String>,
}

impl RemoteBatch {
    fn of(value: &Value) -> Option<RemoteBatch> {
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let count = |name: &str| value["request_counts"][name].as_u64().unwrap_or_default();
        Some(RemoteBatch {
            id: text(&value["id"])?,
            status: text(&value["status"])?,
            files: [text(&value["output_file_id"]), text(&value["error_file_id"])],
            counts: (count("completed") + count("failed"), count("total")),
            message: text(&value["errors"]["data"][0]["message"]),
        })
    }

    /// Tells whether nothing more comes.
    pub fn has_ended(&self) -> bool {
        ["completed", "failed", "expired", "cancelled"].contains(&self.status.as_str())
    }
}

/// Why a batch was not created.
#[derive(Debug)]
pub enum NotCreated {
    /// The provider refused it.
    Refused(ModelError),
    /// No answer came: it may be there.
    Unknown(ModelError),
}

impl BatchApi {
    /// Prepares the way to the server of a configuration; refuses what [`Client::new`] refuses.
    pub fn new(mut config: ClientConfig) -> Result<BatchApi, ModelError> {
        // A file takes as long as it takes.
        config.timers.lifetime = Duration::ZERO;
        config.timers.first_byte = Some(config.timers.first_byte.unwrap_or_default().max(OF_A_FILE));
        Ok(BatchApi { client: Client::new(config.clone())?, config })
    }

    /// Returns the digest of key and endpoint.
    pub fn account(&self) -> String {
        let key = self.config.key.as_ref().map(|key| key.expose()).unwrap_or_default();
        let endpoint = Endpoint::parse(&self.config.base_url).map(|endpoint| endpoint.to_string()).unwrap_or_default();
        sha256(format!("{endpoint}\n{key}").as_bytes())
    }

    /// Returns the host, with its port where it is not the usual one.
    pub fn host(&self) -> String {
        self.client.state().endpoint.authority()
    }

    /// Returns what it costs as a part of the usual price, where that is known.
    pub fn rate(&self) -> Option<f64> {
        self.client.quirks.batch_price
    }

    /// Uploads a file of requests under a name and returns its id.
    pub async fn upload(&self, name: &str, content: &[u8]) -> Result<String, ModelError> {
        let head = format!(
            "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n\
             --{BOUNDARY}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
             content-type: application/jsonl\r\n\r\n"
        );
        let body = [head.as_bytes(), content, format!("\r\n--{BOUNDARY}--\r\n").as_bytes()].concat();
        let mut request = self.client.wire_request(Method::Post, "files", body);
        request.headers.push(("content-type".to_owned(), format!("multipart/form-data; boundary={BOUNDARY}")));
        let answer = self.ask(&request).await?;
        answer["id"].as_str().map(str::to_owned).ok_or_else(|| self.unclear("the uploaded file"))
    }

    /// Creates the batch of a file of requests. It is sent once: a second one would be paid for, too.
    pub async fn create(&self, file: &str, window: &str) -> Result<RemoteBatch, NotCreated> {
        // On a kept connection a request may be sent again by itself.
        let client = Client::new(self.config.clone()).map_err(NotCreated::Refused)?;
        let body =
            json!({"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": window}).to_string();
        let request = client.wire_request(Method::Post, "batches", body.into_bytes());
        match client.attempt(None).fetch(request).await {
            Ok(body) => serde_json::from_str(&body)
                .ok()
                .and_then(|value| RemoteBatch::of(&value))
                .ok_or_else(|| NotCreated::Unknown(self.unclear("the new batch"))),
            Err(failure) => {
                let is_refused = failure.last || failure.status.is_some_and(|status| (300..500).contains(&status));
                let error = self.error(*failure);
                Err(if is_refused { NotCreated::Refused(error) } else { NotCreated::Unknown(error) })
            }
        }
    }

    /// Looks for the batch of a file of requests.
    pub async fn find(&self, file: &str) -> Result<Option<RemoteBatch>, ModelError> {
        let mut found = None;
        let see = |batch: &Value| {
            found = (batch["input_file_id"] == file).then(|| RemoteBatch::of(batch)).flatten();
            found.is_none()
        };
        self.list("batches", "", see).await?;
        Ok(found)
    }

    /// Returns the ids of all files that were uploaded under a name: each upload whose answer was lost left one.
    pub async fn uploads(&self, name: &str) -> Result<Vec<String>, ModelError> {
        let mut ids = Vec::new();
        let see = |file: &Value| {
            ids.extend(file["id"].as_str().filter(|_| file["filename"] == name).map(str::to_owned));
            true
        };
        self.list("files", "&purpose=batch", see).await?;
        Ok(ids)
    }

    /// Shows what the provider lists, for as long as `see` wants more.
    async fn list(
        &self,
        operation: &'static str,
        filter: &str,
        mut see: impl FnMut(&Value) -> bool,
    ) -> Result<(), ModelError> {
        let mut after = String::new();
        for _ in 0..PAGES {
            let query = format!("?limit={LISTED}{filter}{after}");
            let page = self.ask(&self.request(Method::Get, operation, &query)).await?;
            let listed = page["data"].as_array().map(Vec::as_slice).unwrap_or_default();
            if !listed.iter().all(&mut see) {
                break;
            }
            let Some(last) = listed.last().and_then(|entry| entry["id"].as_str()) else { break };
            if page["has_more"] != true {
                break;
            }
            after = format!("&after={last}");
        }
        Ok(())
    }

    /// Asks how far a batch is; `None` if the provider knows it no more.
    pub async fn look(&self, batch: &str) -> Result<Option<RemoteBatch>, ModelError> {
        match self.ask(&self.request(Method::Get, "batches", &format!("/{batch}"))).await {
            Ok(value) => RemoteBatch::of(&value).map(Some).ok_or_else(|| self.unclear("the batch")),
            Err(error) if error.status == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Cancels a batch, and returns its status.
    pub async fn cancel(&self, batch: &str) -> Result<String, ModelError> {
        let value = self.ask(&self.request(Method::Post, "batches", &format!("/{batch}/cancel"))).await?;
        Ok(RemoteBatch::of(&value).map_or_else(|| "cancelling".to_owned(), |batch| batch.status))
    }

    /// Writes the content of a file; the inner error is that of `out`. A file that the provider knows no more is empty.
    pub async fn download(&self, file: &str, out: &mut (dyn Write + Send)) -> Result<std::io::Result<()>, ModelError> {
        let request = self.request(Method::Get, "files", &format!("/{file}/content"));
        match self.client.attempt(None).save(request, out).await {
            Ok(written) => Ok(written),
            Err(failure) if failure.status == Some(404) => Ok(Ok(())),
            Err(failure) => Err(self.error(*failure)),
        }
    }

    /// Deletes a file, if it is there.
    pub async fn delete(&self, file: &str) -> Result<(), ModelError> {
        match self.ask(&self.request(Method::Delete, "files", &format!("/{file}"))).await {
            Err(error) if error.status != Some(404) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn request(&self, method: Method, operation: &'static str, more: &str) -> WireRequest {
        let mut request = self.client.wire_request(method, operation, Vec::new());
        request.url.push_str(more);
        request
    }

    /// Sends what may be sent again, until it is answered or refused.
    async fn ask(&self, request: &WireRequest) -> Result<Value, ModelError> {
        let mut retry = self.client.retries(self.config.retry.jitter_seed);
        loop {
            let failure = match self.client.attempt(None).fetch(request.clone()).await {
                Ok(body) => return Ok(serde_json::from_str(&body).unwrap_or_default()),
                Err(failure) => failure,
            };
            match retry.next(&failure.class, failure.retry_after, None) {
                Verdict::After(wait) if !failure.last => tokio::time::sleep(wait).await,
                Verdict::After(_) | Verdict::GiveUp(_) => return Err(self.error(*failure)),
            }
        }
    }

    fn error(&self, failure: Failure) -> ModelError {
        self.client.error(failure, 1, Usage::default(), None)
    }

    /// Says that an answer does not describe what it should.
    fn unclear(&self, what: &str) -> ModelError {
        ModelError {
            class: super::ErrorClass::Server,
            message: format!("{} did not describe {what}", self.host()),
            hint: None,
            status: None,
            request_id: None,
            requests: 1,
            usage: Box::default(),
        }
    }
}
