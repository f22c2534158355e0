//! Handles what a server sends on its own: requests to the client, and notifications.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ErrorCode, ErrorData, Implementation, ProgressNotificationParam, ProgressToken,
    ProtocolVersion,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use tokio::sync::Notify;

/// What the server has sent, for those who wait for it.
#[derive(Clone, Default)]
pub(super) struct News {
    progress: Arc<Mutex<HashMap<ProgressToken, Arc<Notify>>>>,
    tools_changed: Arc<AtomicBool>,
}

impl News {
    /// Begins to listen for the progress of a request.
    pub(super) fn listen(&self, token: ProgressToken) -> Listening {
        let heard = Arc::new(Notify::new());
        self.lock().insert(token.clone(), Arc::clone(&heard));
        Listening { news: self.clone(), token, heard }
    }

    /// Tells, once, whether the server said that its tools have changed.
    pub(super) fn take_tools_changed(&self) -> bool {
        self.tools_changed.swap(false, Ordering::Relaxed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ProgressToken, Arc<Notify>>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The progress of one request.
pub(super) struct Listening {
    news: News,
    token: ProgressToken,
    heard: Arc<Notify>,
}

impl Listening {
    /// Waits for the next word.
    pub(super) async fn next(&self) {
        self.heard.notified().await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.news.lock().remove(&self.token);
    }
}

/// Answers the server: roots are given, sampling is refused, and nobody is there to be asked anything.
#[derive(Clone)]
pub(super) struct Handler {
    /// The workspace as the server sees it.
    pub(super) root: String,
    pub(super) news: News,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(rmcp::model::RootsCapabilities::default());
        ClientConfig::new(capabilities, Implementation::new("qwen-run", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    #[expect(deprecated, reason = "servers of today ask for roots")]
    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        let root = rmcp::model::Root::new(self.root.clone()).with_name("workspace");
        Ok(rmcp::model::ListRootsResult::new(vec![root]))
    }

    #[expect(deprecated, reason = "refused, but it may still come")]
    async fn create_message(
        &self,
        _params: rmcp::model::CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::CreateMessageResult, ErrorData> {
        Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            "sampling is not supported: this client runs unattended and does not share its model",
            None,
        ))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        if let Some(heard) = self.news.lock().get(&params.progress_token) {
            heard.notify_one();
        }
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.news.tools_changed.store(true, Ordering::Relaxed);
    }
}
