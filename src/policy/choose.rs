//! Chooses which policy texts apply: the first grants, the others narrow.

use super::builtin::EDIT;
use super::layers::{LayerText, Standing};

/// Where a repository keeps its policy.
pub const REPOSITORY: &str = ".qwen/policy.yaml";

/// The texts that exist, and what the flags say.
#[derive(Debug, Default)]
pub struct Candidates {
    /// What `--policy`, else `QWEN_POLICY`, names.
    pub named: Option<LayerText>,
    /// The named file as the tree under review has it, where that differs.
    pub named_in_tree: Option<LayerText>,
    /// The repository's file in the trusted commit.
    pub trusted: Option<LayerText>,
    /// The text of the repository's file in the tree.
    pub in_tree: Option<String>,
    /// Whether the files of the tree are trusted.
    pub trusts_tree: bool,
    /// The machine's policy.
    pub machine: Option<LayerText>,
    /// The built-in policy of `--approval-mode` or `--yolo`.
    pub mode: Option<&'static str>,
    /// Whether `--apply`, `--commit` or `--branch` was given.
    pub delivers: bool,
}

/// The texts that apply.
#[derive(Debug)]
pub struct Selection {
    /// The one that grants.
    pub first: LayerText,
    /// Those that narrow.
    pub narrowing: Vec<LayerText>,
    /// Warnings about files that only narrow.
    pub warnings: Vec<String>,
}

impl LayerText {
    /// Tells whether this is a file's text, and not a built-in policy.
    pub fn is_file(&self) -> bool {
        !self.name.starts_with("builtin:")
    }
}

impl Candidates {
    /// Chooses. The error is the name of a mode's policy that does not exist.
    pub fn choose(self) -> Result<Selection, &'static str> {
        let (mut narrowing, mut warnings) = (Vec::new(), Vec::new());
        narrowing.extend(self.named_in_tree);
        let is_named = self.named.is_some();
        let repository = |text: String, standing| LayerText { name: REPOSITORY.to_owned(), text, standing };
        // A delivery flag is the operator's decision, so the plain mode may deliver.
        let mode = self.mode.map(|mode| if mode == "default" && self.delivers { EDIT } else { mode });
        let builtin = |name: &'static str| LayerText::builtin(name).ok_or(name);
        let mut in_tree = self.in_tree;
        let first = match (self.named, &self.trusted) {
            (Some(named), Some(trusted)) => {
                // A file that is named does not narrow itself.
                let other = Some(trusted).filter(|trusted| trusted.text != named.text);
                narrowing.extend(other.map(|text| LayerText { standing: Standing::Repository, ..text.clone() }));
                named
            }
            (Some(named), None) => named,
            (None, Some(trusted)) => trusted.clone(),
            (None, None) => match in_tree.take_if(|_| self.trusts_tree) {
                Some(text) => repository(text, Standing::Operator),
                None => builtin(mode.unwrap_or(if self.delivers { EDIT } else { "default" }))?,
            },
        };
        let is_trusted =
            |text: &String| self.trusted.as_ref().is_some_and(|trusted| trusted.text == *text) || first.text == *text;
        if let Some(text) = in_tree.filter(|text| !is_trusted(text) && (is_named || !self.trusts_tree)) {
            match (&self.trusted, self.trusts_tree) {
                (_, true) => {}
                (Some(trusted), false) => {
                    let name = &trusted.name;
                    warnings.push(format!("policy: .qwen/policy.yaml of the tree only restricts; {name} applies"));
                }
                (None, false) => {
                    warnings
                        .push("policy: .qwen/policy.yaml only restricts (`qwen policy trust` widens it)".to_owned());
                }
            }
            narrowing.push(repository(text, Standing::Repository));
        }
        // In addition to a file a mode narrows and never adds.
        if let Some(mode) = mode.filter(|_| first.is_file() || is_named) {
            narrowing.push(builtin(mode)?);
        }
        narrowing.extend(self.machine);
        Ok(Selection { first, narrowing, warnings })
    }
}
