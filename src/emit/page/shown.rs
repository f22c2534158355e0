//! Holds what a page shows.

use super::changes::Changes;
use super::state::sentence;
use super::transcript::{Turn, turns};
use crate::emit::findings::Findings;
use crate::emit::material::{Material, patch_of};
use crate::emit::safe::one_line_of;

/// Characters of a title.
const TITLE: usize = 120;

/// What a page shows.
pub(super) struct Shown<'a> {
    pub(super) material: &'a Material,
    pub(super) name: &'a str,
    pub(super) changes: Option<Changes>,
    pub(super) findings: Findings,
    pub(super) turns: Vec<Turn<'a>>,
}

impl<'a> Shown<'a> {
    /// Reads the patch of a result, and puts its events in order.
    pub(super) fn new(material: &'a Material, name: &'a str) -> Shown<'a> {
        Shown {
            material,
            name,
            changes: patch_of(&material.report.changes).and_then(Changes::read),
            findings: material.findings(),
            turns: turns(&material.events),
        }
    }

    /// What the run was asked for, else what it is about.
    pub(super) fn title(&self) -> String {
        let report = &self.material.report;
        let of_run = self.material.started().and_then(|started| started.title.as_deref());
        let recipe = report.ran.recipe.as_ref().map(|recipe| recipe.name.as_str());
        let title = of_run.filter(|title| !title.trim().is_empty()).or(recipe).map(str::trim);
        title.map_or_else(|| sentence(report), |title| one_line_of(title, TITLE))
    }
}
