//! Judges where a search starts, and the patterns that select files.

use std::path::{Path, PathBuf};

use super::resolve::{PathRules, Place, Resolved};
use crate::path::{Node, RelPath};
use crate::policy::decision::Denial;
use crate::policy::protected::{braces, names_secret};

impl PathRules<'_> {
    /// Judges the directory where a search starts and the patterns that select files.
    pub(crate) fn search(&self, root: &Path, patterns: &[String]) -> Result<(Resolved, Place), Denial> {
        let base = RelPath::root();
        let (resolved, place) = self.inside(&base, root)?;
        let shown = root.to_string_lossy();
        if let Place::Workspace(path) | Place::Included(path) = &place {
            if resolved.node == Some(Node::Dir) || resolved.node.is_none() {
                let denied = self.read_denied(path, &shown).or_else(|| self.contents_denied(path, &shown));
                if let Some(denial) = denied {
                    return Err(Denial { rule: denial.rule, ..Denial::new(denial.reason) });
                }
            } else {
                self.read_resolved(&resolved, &place, &shown)?;
            }
        }
        for pattern in patterns {
            for one in braces(pattern).ok_or_else(|| Denial::new("too many braces in a pattern").by("F8"))? {
                self.pattern(&resolved.absolute, &one, pattern)?;
            }
        }
        Ok((resolved, place))
    }

    // A pattern may not leave the workspace, nor name what is denied; that `*` would match it does not count.
    fn pattern(&self, start: &Path, pattern: &str, shown: &str) -> Result<(), Denial> {
        if pattern.chars().any(char::is_control) || pattern.is_empty() {
            return Err(Denial::new("an empty pattern, or one with a control character").by("F7"));
        }
        let pattern = pattern.strip_prefix('!').unwrap_or(pattern);
        let components: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        let is_wild = |part: &&str| part.contains(['*', '?', '[']);
        let literal = components.iter().take_while(|part| !is_wild(part)).count();
        if components[literal..].contains(&"..") {
            let reason = format!("the pattern `{shown}` has `..` after a wildcard");
            return Err(Denial::new(reason).by("F8"));
        }
        let prefix = components[..literal].join("/");
        let text = if pattern.starts_with('/') { PathBuf::from(format!("/{prefix}")) } else { start.join(&prefix) };
        let (_, place) = self
            .inside(&RelPath::root(), &text)
            .map_err(|denial| Denial { reason: format!("the pattern `{shown}`: {}", denial.reason), ..denial })?;
        if let Place::Workspace(path) | Place::Included(path) = place {
            let denied = self
                .read_denied(&path, shown)
                .or_else(|| (literal < components.len()).then(|| self.contents_denied(&path, shown)).flatten());
            if let Some(denial) = denied {
                return Err(denial);
            }
            if literal == components.len() {
                self.read(&RelPath::root(), &text)?;
            }
        }
        for part in &components[literal..] {
            if names_secret(part) {
                return Err(Denial::new(format!("the pattern `{shown}` names files that are never read")).by("F8"));
            }
        }
        Ok(())
    }
}
