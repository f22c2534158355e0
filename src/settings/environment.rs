//! Captures the environment that the process was started with, once.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use super::Origin;

/// Variables, home and working directory. A test makes one up.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// The variables of the process; those that are not UTF-8 are left out.
    pub variables: BTreeMap<String, String>,
    /// Variables from a `.env` file or from `env` of the settings; the process's own win.
    pub additional: BTreeMap<String, (String, Origin)>,
    /// The home directory.
    pub home: Option<PathBuf>,
    /// The working directory.
    pub cwd: PathBuf,
}

impl Environment {
    /// Makes an environment of variables alone.
    #[cfg(test)]
    pub(crate) fn with(variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Environment { variables, ..Environment::default() }
    }

    /// Returns a variable that is set and not empty, with its origin.
    pub fn get(&self, name: &str) -> Option<(String, Origin)> {
        match self.variables.get(name).filter(|value| !value.trim().is_empty()) {
            Some(value) => Some((value.clone(), Origin::Variable(name.to_owned()))),
            None => self.additional.get(name).filter(|(value, _)| !value.trim().is_empty()).cloned(),
        }
    }

    /// Returns the value of a variable that is set and not empty.
    pub fn value(&self, name: &str) -> Option<String> {
        self.get(name).map(|(value, _)| value)
    }

    /// Tells whether a variable says yes: set, not empty, not `0`, not `false`.
    pub fn is_on(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// Returns the home directory as text; empty without one.
    pub fn home_text(&self) -> String {
        self.home.as_ref().map(|home| home.display().to_string()).unwrap_or_default()
    }

    /// Returns the variables as programs get them.
    pub fn for_programs(&self) -> BTreeMap<OsString, OsString> {
        self.variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// Tells whether a CI system started this process.
    pub fn is_ci(&self) -> bool {
        ["CI", "GITHUB_ACTIONS", "TF_BUILD"].into_iter().any(|name| self.is_on(name))
    }
}

impl std::fmt::Debug for Environment {
    /// Values may be secrets: only names are shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment")
            .field("variables", &self.variables.keys().collect::<Vec<_>>())
            .field("additional", &self.additional.keys().collect::<Vec<_>>())
            .field("home", &self.home)
            .field("cwd", &self.cwd)
            .finish()
    }
}
