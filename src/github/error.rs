//! Defines why GitHub gives no answer.

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GitHubError {
    /// It cannot be asked at all.
    #[error("{0}")]
    Setup(String),
    /// It is not there, or breaks off. Whatever was asked of it may have happened.
    #[error("{0} does not answer: {1}")]
    Transport(String, String),
    /// It asks to wait, for longer than a job should.
    #[error("{what}: GitHub asks to wait, and the job waited long enough ({message})")]
    Limit {
        /// What was asked.
        what: String,
        /// Its words.
        message: String,
    },
    /// It refuses.
    #[error("{what}: GitHub responded {status}: {message}")]
    Refused {
        /// What was asked.
        what: String,
        /// The HTTP status.
        status: u16,
        /// Its words.
        message: String,
    },
    /// Its answer is not what its documentation says.
    #[error("{what}: GitHub's answer has no {field}")]
    Answer {
        /// What was asked.
        what: String,
        /// What is missing.
        field: &'static str,
    },
}

/// What GitHub says to a job whose token has too few permissions.
const NO_ACCESS: &str = "Resource not accessible by";

impl GitHubError {
    /// Tells whether the same request may succeed later.
    pub fn may_pass(&self) -> bool {
        match self {
            GitHubError::Setup(_) | GitHubError::Answer { .. } => false,
            GitHubError::Transport(..) | GitHubError::Limit { .. } => true,
            GitHubError::Refused { status, .. } => matches!(status, 429 | 500..=599),
        }
    }

    /// Tells whether the request may have taken effect although it failed.
    pub fn is_uncertain(&self) -> bool {
        match self {
            GitHubError::Setup(_) | GitHubError::Answer { .. } | GitHubError::Limit { .. } => false,
            GitHubError::Transport(..) => true,
            GitHubError::Refused { status, .. } => (500..=599).contains(status),
        }
    }

    /// Tells whether the token has too few permissions for it.
    pub fn lacks_permission(&self) -> bool {
        matches!(self, GitHubError::Refused { status: 403, message, .. } if message.starts_with(NO_ACCESS))
            || self.has_status(401)
    }

    /// Tells whether GitHub refused with this status.
    pub fn has_status(&self, wanted: u16) -> bool {
        matches!(self, GitHubError::Refused { status, .. } if *status == wanted)
    }
}
