//! Implements `web_fetch`: pages of the web as text, marked as untrusted data.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::web::fence;
use super::web::fetch::{FetchError, Limits, fetch};
use super::web::page::{Format, page};
use super::{Call, CallFuture, Effects, ToolContext, ToolError, ToolOutput, TypedTool};
use crate::policy::check::urls_in;
use crate::policy::{Access, Grant};
use crate::tool_name::ToolId;

/// Characters of all pages of a call.
const CHARS: usize = 100_000;

/// Pages of a call.
const PAGES: usize = 20;

/// The tool, with what a fetch may do.
pub struct WebFetch {
    limits: Arc<Limits>,
    secret: Arc<[u8]>,
}

impl WebFetch {
    /// Makes the tool. The marks around pages are made with `secret`.
    pub fn new(limits: Limits, secret: &[u8]) -> WebFetch {
        WebFetch { limits: Arc::new(limits), secret: secret.into() }
    }
}

impl TypedTool for WebFetch {
    type Args = FetchArgs;
    const ID: ToolId = ToolId::WebFetch;
    const EFFECTS: Effects = Effects::Reads;
    const DESCRIPTION: &'static str = "Read web pages: give a url, or a prompt with URLs in it.";

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {
            "url": {"type": "string"},
            "prompt": {"type": "string", "description": "What you want to know"},
            "format": {"type": "string", "enum": ["auto", "markdown", "text", "html"]}}})
    }

    fn call(&self, args: FetchArgs) -> Result<Box<dyn Call>, ToolError> {
        let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let prompt = given(args.prompt);
        let mut urls = match (given(args.url), &prompt) {
            (Some(url), _) => vec![url.trim().to_owned()],
            (None, Some(prompt)) => urls_in(prompt),
            (None, None) => return Err(ToolError::arguments("params must have required property 'url'")),
        };
        let mut seen = std::collections::HashSet::new();
        urls.retain(|url| seen.insert(url.clone()));
        if urls.is_empty() {
            return Err(ToolError::arguments(
                "The 'prompt' must contain at least one valid URL (starting with https://).",
            ));
        }
        if urls.len() > PAGES {
            return Err(ToolError::arguments(format!("at most {PAGES} URLs are fetched by one call")));
        }
        let format = args.format.unwrap_or(Format::Auto);
        Ok(Box::new(FetchCall {
            urls,
            prompt,
            format,
            limits: Arc::clone(&self.limits),
            secret: Arc::clone(&self.secret),
        }))
    }
}

/// What the model gives.
#[derive(Deserialize)]
pub struct FetchArgs {
    url: Option<String>,
    prompt: Option<String>,
    format: Option<Format>,
}

struct FetchCall {
    urls: Vec<String>,
    prompt: Option<String>,
    format: Format,
    limits: Arc<Limits>,
    secret: Arc<[u8]>,
}

impl Call for FetchCall {
    fn accesses(&self) -> Vec<Access> {
        let access = |url: &String| Access::Fetch { url: url.clone(), resolves_to: None, redirects: Vec::new() };
        self.urls.iter().map(access).collect()
    }

    fn subject(&self, _root: &Path) -> String {
        super::common::names::brief(&self.urls.join(" "))
    }

    fn run<'a>(self: Box<Self>, _grant: &'a Grant, _cx: &'a ToolContext<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            let fetches = self.urls.iter().map(|url| self.one(url));
            let pages = futures_util::future::join_all(fetches).await;
            if let Some(error) =
                pages.iter().filter_map(|page| page.as_ref().err()).find(|error| error.denial.is_some())
            {
                return Err(error.clone());
            }
            if let Some(Err(error)) = pages.iter().find(|page| page.is_err())
                && pages.iter().all(Result::is_err)
            {
                return Err(error.clone());
            }
            let mut room = CHARS;
            let mut text = String::new();
            for (url, page) in self.urls.iter().zip(&pages) {
                match page {
                    Ok((about, page)) => {
                        text.push_str(&format!("Content of {url} ({about}). {}", fence(page, &self.secret, &mut room)))
                    }
                    Err(error) => text.push_str(&format!("Error for {url}: {}\n", error.message)),
                }
            }
            if let Some(prompt) = &self.prompt {
                text.push_str(&format!("\nThe question was: {prompt}"));
            }
            let read = pages.iter().filter(|page| page.is_ok()).count();
            Ok(ToolOutput::text(text, format!("Read {read} of {} pages", pages.len())))
        })
    }
}

impl FetchCall {
    /// Fetches one URL; a file's page on GitHub is read raw where the policy lets it.
    async fn one(&self, url: &str) -> Result<(String, String), ToolError> {
        let raw = raw_of(url).filter(|raw| (self.limits.judge)(raw, None).is_ok());
        let fetched = fetch(raw.as_deref().unwrap_or(url), &self.limits).await.map_err(|error| match error {
            FetchError::Denied(denial) => ToolError::denied(denial),
            FetchError::Failed(problem) => ToolError::failed(format!("Error during fetch for {url}: {problem}")),
        })?;
        let (at, cut) = (fetched.url.clone(), fetched.cut);
        let page = page(fetched, self.format).await.map_err(ToolError::failed)?;
        let moved = if at.as_str() == url { String::new() } else { format!(", from {at}") };
        let cut = if cut { format!(", only its first {} bytes", self.limits.bytes) } else { String::new() };
        Ok((format!("{}{moved}{cut}", page.about), page.text))
    }
}

/// `https://github.com/ORG/NAME/blob/REF/PATH` shows a page around the file; this is the file.
fn raw_of(url: &str) -> Option<String> {
    let rest = url.strip_prefix("https://github.com/")?;
    let rest = rest.split(['?', '#']).next()?;
    let mut parts = rest.splitn(4, '/');
    let (owner, repository, blob, path) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let whole = blob == "blob" && path.contains('/') && !owner.is_empty() && !repository.is_empty();
    whole.then(|| format!("https://raw.githubusercontent.com/{owner}/{repository}/{path}"))
}

#[cfg(test)]
mod tests;
