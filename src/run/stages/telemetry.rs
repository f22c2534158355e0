//! Decides whether and where a run is reported to OpenTelemetry.

use std::path::PathBuf;
use std::sync::Arc;

use super::shared::Shared;
use crate::base::trace::Trace;
use crate::checkouts::refuse_links;
use crate::cli::RunArgs;
use crate::cli::run::TelemetryArgs;
use crate::run::error::SetupError;
use crate::run::output::outputs::{self, checkouts, number_of};
use crate::settings::{Environment, TelemetrySettings, Valued};
use crate::telemetry::{BatchTelemetry, Config, Targets, Wishes};

/// How a run is reported.
#[derive(Debug, Clone)]
pub struct Reported {
    /// Where to.
    pub config: Config,
    /// The trace that it is a part of.
    pub trace: Arc<Trace>,
    /// What the owner should know.
    pub warnings: Vec<String>,
}

impl Reported {
    /// Decides how the run of this id is reported; `None` where nobody asked for it. Opens nothing.
    pub fn open(shared: &Shared, arguments: &RunArgs, id: &str) -> Result<Option<Reported>, SetupError> {
        let flags = of_flags(&arguments.telemetry);
        let settings = of_settings(&shared.settings.telemetry);
        let (allow_http, mut warnings) = (arguments.model.allow_http, Vec::new());
        let variables = &shared.environment.variables;
        let Some(mut config) = Config::resolve(variables, &flags, &settings, allow_http, &mut warnings)? else {
            return Ok(None);
        };
        if let Targets::File(path) = &mut config.targets {
            *path = shared.environment.cwd.join(&*path);
            let checkouts = checkouts(&shared.place.checkout.around);
            // It is appended to: the last part is followed, too.
            let all_of_it = if path.is_symlink() { path.join("report") } else { path.clone() };
            let refused = refuse_links(&all_of_it, &checkouts);
            refused.map_err(|cause| SetupError::Outfile { path: path.display().to_string(), cause })?;
        }
        let trace = Arc::new(config.trace(number_of(id)));
        Ok(Some(Reported { config, trace, warnings }))
    }

    /// Decides how the run of an item of a batch is reported.
    pub fn of_item(batch: &BatchTelemetry, id: &str) -> Reported {
        let trace = batch.trace_of_item(number_of(id));
        Reported { config: batch.config().clone(), trace, warnings: Vec::new() }
    }

    /// Begins to report a batch of so many items.
    pub fn batch(self, items: u64) -> BatchTelemetry {
        BatchTelemetry::begin(self.config, self.trace, items, outputs::now())
    }

    /// Returns the file that reports are appended to, if that is where they go.
    pub fn file(&self) -> Option<&PathBuf> {
        match &self.config.targets {
            Targets::File(path) => Some(path),
            Targets::Servers { .. } => None,
        }
    }
}

fn of_flags(flags: &TelemetryArgs) -> Wishes {
    Wishes {
        enabled: flags.telemetry,
        endpoint: flags.telemetry_otlp_endpoint.clone(),
        protocol: flags.telemetry_otlp_protocol.clone(),
        outfile: flags.telemetry_outfile.clone(),
        contents: flags.telemetry_log_prompts,
    }
}

/// Returns what the settings say.
pub fn of_settings(settings: &TelemetrySettings) -> Wishes {
    let text = |value: &Option<Valued<String>>| value.as_ref().map(|value| value.value.clone());
    Wishes {
        enabled: settings.enabled.as_ref().map(|value| value.value),
        endpoint: text(&settings.endpoint),
        protocol: text(&settings.protocol),
        outfile: text(&settings.outfile),
        contents: settings.log_prompts.as_ref().map(|value| value.value),
    }
}

/// Returns the address of the CI run that this process is a part of.
pub fn ci_run(environment: &Environment) -> Option<String> {
    let value = |name: &str| environment.variables.get(name).filter(|value| !value.is_empty()).cloned();
    let of_github = || {
        let (server, repository) = (value("GITHUB_SERVER_URL")?, value("GITHUB_REPOSITORY")?);
        Some(format!("{server}/{repository}/actions/runs/{}", value("GITHUB_RUN_ID")?))
    };
    of_github().or_else(|| value("CI_PIPELINE_URL")).or_else(|| value("BUILD_URL"))
}
