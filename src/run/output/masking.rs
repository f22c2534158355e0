//! Masks secrets in what the model reads, and keeps them out of changes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::change::text::Decoded;
use crate::policy::Policy;
use crate::policy::redact::{self, Secrets};
use crate::run::error::{Failure, SetupError};
use crate::run::recipe::Active;
use crate::secret::Secret;
use crate::settings::Environment;
use crate::workspace::Watch;

/// The secrets of a run.
pub struct Masking {
    /// The secrets.
    pub secrets: Arc<Secrets>,
    /// Masks them in a text and counts them.
    pub mask: Box<dyn Fn(String) -> (String, u64) + Send + Sync>,
    /// Whether the policy has them masked.
    pub redacts: bool,
}

impl Masking {
    /// Collects the secrets of [these variables](secret_variables), and what the policy's patterns find.
    pub fn new(policy: &Policy, variables: &BTreeMap<String, String>) -> Result<Masking, SetupError> {
        let secrets = Secrets::new(variables, &policy.secret_patterns()).map_err(SetupError::SecretPatterns)?;
        let (secrets, redacts) = (Arc::new(secrets), policy.redacts());
        let masked = Arc::clone(&secrets);
        let mask = Box::new(move |text| if redacts { redact::mask(&masked, text) } else { (text, 0) });
        Ok(Masking { secrets, mask, redacts })
    }

    /// Returns what keeps parts of secrets out of parts of texts; `None` if the policy has nothing masked.
    pub fn watch(&self) -> Option<Arc<dyn Watch>> {
        self.redacts.then(|| Arc::new(OfSecrets(Arc::clone(&self.secrets))) as Arc<dyn Watch>)
    }

    /// Masks secrets in a text that is a part of something, and counts them.
    pub fn mask_part(&self, text: String) -> (String, u64) {
        if !self.redacts {
            return (text, 0);
        }
        let (masked, count) = self.secrets.mask_part(&text);
        (masked.into_owned(), count)
    }

    /// Hides secrets in a text; existing placeholders are not altered.
    pub fn without_secrets(&self, text: String) -> String {
        if self.redacts { self.secrets.hide(&text).into_owned() } else { text }
    }
}

struct OfSecrets(Arc<Secrets>);

impl Watch for OfSecrets {
    fn notice(&self, text: &[u8], is_part: bool) {
        match std::str::from_utf8(text) {
            Ok(text) => self.0.notice(text, is_part),
            Err(_) => Decoded::from_bytes(text).iter().for_each(|decoded| self.0.notice(&decoded.text, is_part)),
        }
    }

    fn masked(&self, text: &str) -> String {
        self.0.mask_part(text).0.into_owned()
    }

    fn secrets(&self, text: &str) -> Vec<Range<usize>> {
        self.0.all_in(text).iter().map(|found| found.at..found.at + found.text.len()).collect()
    }
}

/// Masks secrets in what is published besides a change: messages of commits, texts of pull requests, names of files.
pub fn published(text: &str, policy: &Policy, secrets: &Secrets) -> String {
    match policy.redacts() || policy.refuses_secrets() {
        true => secrets.hide(text).into_owned(),
        false => text.to_owned(),
    }
}

/// Masks the secrets of the environment in an error: it may quote a file that was read before any policy.
pub fn in_failure(mut failure: Failure, environment: &Environment) -> Failure {
    if let Ok(secrets) = Secrets::new(&secret_variables(environment, None, None), &[]) {
        for text in std::iter::once(&mut failure.error.message).chain(failure.error.hint.as_mut()) {
            *text = secrets.hide(text).into_owned();
        }
    }
    failure
}

/// Collects the secrets that a command without a model looks for.
pub fn secrets_of(policy: &Policy, environment: &Environment) -> Result<Secrets, SetupError> {
    Secrets::new(&secret_variables(environment, None, None), &policy.secret_patterns())
        .map_err(SetupError::SecretPatterns)
}

/// Returns the variables in which secrets are looked for: the process's, those of `.env` files, the key in use, and the
/// recipe's secret parameters.
pub fn secret_variables(
    environment: &Environment,
    key: Option<&Secret>,
    recipe: Option<&Active>,
) -> BTreeMap<String, String> {
    let mut variables = environment.variables.clone();
    for (name, (value, _)) in &environment.additional {
        variables.entry(name.clone()).or_insert_with(|| value.clone());
    }
    if let Some(key) = key.filter(|key| !variables.values().any(|value| value.trim() == key.expose())) {
        variables.insert("API_KEY".to_owned(), key.expose().to_owned());
    }
    variables.extend(recipe.into_iter().flat_map(Active::secrets));
    variables
}
