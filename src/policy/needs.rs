//! Tells what a policy could ever grant, so that a recipe whose needs cannot be met fails before its first token.
//!
//! The answer is generous: `true` means that some call might be allowed, and each call is still decided by itself.

use super::file::DefaultRule;
use super::layers::Layer;
use super::programs::is_listed;
use super::rules::Rule;
use super::{Policy, glob::Glob};

impl Policy {
    /// Tells whether some command that begins with these words might be allowed.
    pub fn could_run(&self, words: &[&str]) -> bool {
        self.layers.iter().all(|layer| {
            if layer.rules.shell.default == Some(DefaultRule::Allow) || (!layer.grants && !layer.rules.shell.present) {
                return true;
            }
            layer.rules.shell.allow.iter().flatten().chain(&layer.rules.shell.of_all_ecosystems).any(|rule| {
                rule.value
                    .cmd
                    .iter()
                    .zip(words)
                    .all(|(element, word)| is_listed(element.0.iter().map(String::as_str), word))
            })
        })
    }

    /// Tells whether some file that this glob matches might be written.
    pub fn could_write(&self, glob: &str) -> bool {
        self.layers.iter().all(|layer| shares_prefix(layer, layer.rules.paths.write.allow.as_deref(), glob))
    }

    /// Tells whether some file that this glob matches might be read.
    pub fn could_read(&self, glob: &str) -> bool {
        self.layers.iter().all(|layer| shares_prefix(layer, layer.rules.paths.read.allow.as_deref(), glob))
    }

    /// Tells whether some page of this host might be fetched.
    pub fn could_reach(&self, host: &str) -> bool {
        self.layers.iter().all(|layer| {
            if layer.rules.network.default == Some(DefaultRule::Allow) {
                return true;
            }
            match &layer.rules.network.allow {
                None => !layer.grants && layer.rules.network.default.is_none(),
                Some(allow) => allow.iter().any(|rule| {
                    let known = rule.value.host.as_str();
                    let below = known.strip_prefix("*.").is_some_and(|zone| host.ends_with(&format!(".{zone}")));
                    known == host || below || host.strip_prefix("*.").is_some_and(|zone| known.ends_with(zone))
                }),
            }
        })
    }
}

fn shares_prefix(layer: &Layer, allow: Option<&[Rule<Glob>]>, glob: &str) -> bool {
    let literal = |glob: &str| glob.split(['*', '?', '[', '{']).next().unwrap_or_default().to_owned();
    match allow {
        None => !layer.grants,
        Some(allow) => allow.iter().any(|rule| {
            let (known, asked) = (literal(rule.value.text()), literal(glob));
            known.starts_with(&asked) || asked.starts_with(&known)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_rule_could_meet_is_out_of_reach() {
        let policy = Policy::builtin("ci-dev").unwrap();
        assert!(policy.could_run(&["cargo", "test"]) && policy.could_run(&["cargo"]));
        assert!(!policy.could_run(&["cargo", "publish"]) && !policy.could_run(&["docker"]));
        assert!(policy.could_write("src/**") && !policy.could_reach("docs.rs"));
        assert!(!Policy::builtin("read-only").unwrap().could_write("src/**"));
        assert!(Policy::builtin("open").unwrap().could_run(&["anything"]));
    }
}
