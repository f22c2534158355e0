//! Combines the layers of a policy: the first one grants, later ones narrow.
//!
//! Performs no I/O: callers pass in the files' texts, and whether each is trusted.

use std::sync::Arc;

use super::builtin;
use super::file::{Extends, PolicyFile, TestCase};
use super::rules::read::located;
use super::rules::{List, Over, Rules};
use crate::base::{Diagnostic, digest};
use crate::event::{Limits, PolicyFacts};

/// The source of the layer that keeps the items of a batch from its directory.
pub(crate) const OF_BATCH: &str = "batch";

/// A policy text with its standing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerText {
    /// The name that messages carry: the file as the user knows it, or `builtin:NAME`.
    pub name: String,
    /// The file's text.
    pub text: String,
    /// Whose word it is.
    pub standing: Standing,
}

/// Whose word a policy text is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Standing {
    /// An operator's: the first layer, or `/etc/qwen/policy.yaml`.
    Operator,
    /// Anybody's: a repository's file that only narrows.
    #[default]
    Repository,
}

impl LayerText {
    /// Returns a built-in policy as a layer; `None` if no policy has this name.
    pub fn builtin(name: &str) -> Option<LayerText> {
        let text = builtin::text(name)?.to_owned();
        Some(LayerText { name: format!("builtin:{name}"), text, standing: Standing::Operator })
    }
}

/// Why the layers do not make a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayerError {
    /// A file was not understood.
    #[error(transparent)]
    Yaml(#[from] Diagnostic),
    /// `extends` names something that is not there.
    #[error("{file}: `extends`: {what}")]
    Extends {
        /// The file that extends.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// Inline tests decided otherwise.
    #[error("{}", .0.join("\n"))]
    Tests(Vec<String>),
}

/// Where the rules of a layer are from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Origin {
    /// The policy's own name.
    pub(crate) name: String,
    /// The file, `builtin:NAME` or the setting.
    pub(crate) source: String,
    pub(crate) sha256: String,
    pub(crate) standing: Standing,
}

impl Origin {
    pub(crate) fn is_builtin(&self) -> bool {
        self.source.starts_with("builtin:")
    }
}

/// One layer, together with what it extends.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layer {
    pub(crate) origin: Origin,
    /// The first layer: what it does not allow is denied.
    pub(crate) grants: bool,
    pub(crate) rules: Rules,
    pub(crate) tests: List<TestCase>,
}

/// The rules in effect: a layer that grants, and layers that narrow.
#[derive(Debug, Clone)]
pub struct Policy {
    pub(super) layers: Arc<Vec<Layer>>,
}

impl Policy {
    /// Combines layers: the first grants, the others narrow. `parents` finds the files that `extends` names.
    pub fn new(first: &LayerText, narrowing: &[LayerText], parents: Parents<'_>) -> Result<Policy, LayerError> {
        let mut all = read(first, parents)?;
        if let Some(grants) = all.first_mut() {
            grants.grants = true;
        }
        for text in narrowing {
            all.extend(read(text, parents)?);
        }
        Ok(Policy { layers: Arc::new(all) })
    }

    /// Returns a built-in policy; `None` if no policy has this name.
    pub fn builtin(name: &str) -> Option<Policy> {
        Layer::builtin(name).map(|layer| Policy { layers: Arc::new(vec![Layer { grants: true, ..layer }]) })
    }

    /// Adds a layer that narrows.
    #[must_use]
    pub(crate) fn and(&self, layer: Layer) -> Policy {
        let mut layers = self.layers.as_ref().clone();
        layers.push(layer);
        Policy { layers: layers.into() }
    }

    /// Returns name, digest and layers.
    pub fn facts(&self) -> PolicyFacts {
        let digests: String = self.layers.iter().map(|layer| layer.origin.sha256.as_str()).collect();
        PolicyFacts {
            name: self.layers.first().map(|layer| layer.origin.name.clone()).unwrap_or_default(),
            sha256: digest::sha256(digests.as_bytes()),
            layers: self.layers.iter().map(|layer| layer.origin.source.clone()).collect(),
        }
    }
}

/// Reads the text of a file that another one of this standing extends, by the path as written; the error says why it
/// cannot be read. The digest is checked here.
pub type Parents<'a> = &'a dyn Fn(Standing, &str) -> Result<String, String>;

/// Reads no file: for texts that are at hand whole.
///
/// # Errors
///
/// Always.
pub fn no_parents(_: Standing, _: &str) -> Result<String, String> {
    Err("files cannot be extended here".to_owned())
}

/// Reads a text into its layers: one, or under [`Standing::Repository`] one for each file of the `extends` chain and one for
/// the built-in policy at its end, since parent and child are both asked there.
pub(crate) fn read(text: &LayerText, parents: Parents<'_>) -> Result<Vec<Layer>, LayerError> {
    read_below(text, parents, 0)
}

fn read_below(text: &LayerText, parents: Parents<'_>, depth: usize) -> Result<Vec<Layer>, LayerError> {
    let failed = |what: String| LayerError::Extends { file: text.name.clone(), what };
    if depth > 8 {
        return Err(failed("more than eight levels of `extends`".to_owned()));
    }
    // Any file may be named by a repository's: what is in it is not shown, nor its digest.
    let is_hidden = text.standing == Standing::Repository && depth > 0;
    let file = PolicyFile::parse(&text.name, &text.text).map_err(|error| match is_hidden {
        true => {
            Diagnostic::at(&text.name, error.span, "it is not a policy (`qwen policy check --policy FILE` says why)")
        }
        false => error,
    })?;
    let extends = file.extends.clone();
    let layer = Layer::new(&text.name, &text.text, text.standing, file)?;
    let parent = match extends {
        None => return Ok(vec![layer]),
        Some(Extends::Builtin(name)) => {
            let known = builtin::BUILTINS.map(|(name, _)| name);
            LayerText::builtin(&name)
                .ok_or_else(|| failed(format!("unknown policy builtin:{name}; known are {}", known.join(", "))))?
        }
        Some(Extends::File { file, sha256 }) => {
            let content =
                parents(text.standing, &file).map_err(|why| failed(format!("{file} cannot be read: {why}")))?;
            let found = digest::sha256(content.as_bytes());
            if !found.eq_ignore_ascii_case(&sha256) {
                return Err(failed(match text.standing {
                    Standing::Operator => format!("{file} has the digest {found}, not {sha256}"),
                    Standing::Repository => format!("{file} has another digest than {sha256}"),
                }));
            }
            LayerText { name: file, text: content, standing: text.standing }
        }
    };
    let mut above = read_below(&parent, parents, depth + 1)?;
    // A built-in policy is one layer, whoever names it; what it extends is no policy of the repository's.
    above.iter_mut().for_each(|layer| layer.origin.standing = text.standing);
    match text.standing {
        Standing::Operator => {
            let parent = above.pop().expect("an operator's text is one layer");
            Ok(vec![layer.over(parent)])
        }
        Standing::Repository => {
            above.push(layer);
            Ok(above)
        }
    }
}

impl Layer {
    /// Returns a built-in policy as a layer; `None` if no policy has this name.
    pub(crate) fn builtin(name: &str) -> Option<Layer> {
        let text = LayerText::builtin(name)?;
        Some(read(&text, &no_parents).expect("a test reads every built-in policy").remove(0))
    }

    /// Tells whether the layer keeps the items of a batch from its directory.
    pub(crate) fn is_of_batch(&self) -> bool {
        self.origin.source == OF_BATCH
    }

    /// Makes an operator's layer of a file that was made here; `whole` is what its digest is made of.
    pub(crate) fn made(source: &str, whole: &str, file: PolicyFile) -> Result<Layer, Diagnostic> {
        file.check(source)?;
        Layer::new(source, whole, Standing::Operator, file)
    }

    fn new(source: &str, whole: &str, standing: Standing, mut file: PolicyFile) -> Result<Layer, Diagnostic> {
        let tests = located(std::mem::take(&mut file.tests), source, "tests");
        let name = file.name.take().unwrap_or_else(|| source.to_owned());
        let rules = Rules::of(file, source, standing == Standing::Operator)?;
        let origin = Origin { name, source: source.to_owned(), sha256: digest::sha256(whole.as_bytes()), standing };
        Ok(Layer { origin, grants: false, rules, tests })
    }

    fn over(self, parent: Layer) -> Layer {
        let sha256 = digest::sha256(format!("{}{}", parent.origin.sha256, self.origin.sha256).as_bytes());
        Layer {
            origin: Origin { sha256, ..self.origin },
            grants: self.grants,
            rules: self.rules.over(parent.rules),
            tests: self.tests.over(parent.tests),
        }
    }
}

/// Returns a limit that no layer raises: the granting layer's or `default`, and the lowest of the others.
pub(super) fn narrowed<T: Ord>(layers: &[Layer], default: T, limit: impl Fn(&Layer) -> Option<T>) -> T {
    let granted = layers.first().and_then(&limit).unwrap_or(default);
    layers.iter().skip(1).filter_map(limit).fold(granted, T::min)
}

/// Returns the lowest limit; one that is no number leaves nothing.
pub fn lowest<T: PartialOrd + Copy + Default>(limits: impl IntoIterator<Item = Option<T>>) -> Option<T> {
    limits.into_iter().flatten().fold(None, |least, limit| {
        let least = least.unwrap_or(limit);
        least.partial_cmp(&limit).map(|order| if order.is_gt() { limit } else { least }).or_else(|| Some(T::default()))
    })
}

/// Returns the lower of two limits, one by one.
pub fn lowest_of(a: &Limits, b: &Limits) -> Limits {
    fn low<T: PartialOrd + Copy + Default>(a: Option<T>, b: Option<T>) -> Option<T> {
        lowest([a, b])
    }
    Limits {
        turns: low(a.turns, b.turns),
        tool_calls: low(a.tool_calls, b.tool_calls),
        shell_calls: low(a.shell_calls, b.shell_calls),
        denials: low(a.denials, b.denials),
        same_denial: low(a.same_denial, b.same_denial),
        wall_time_ms: low(a.wall_time_ms, b.wall_time_ms),
        total_tokens: low(a.total_tokens, b.total_tokens),
        cost_usd: low(a.cost_usd, b.cost_usd),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use crate::policy::file::{Delivery, GitHubWrite, OnDeny, Unanalysable, WorkspaceMode};
    use crate::policy::grant::Network;

    fn text(name: &str, text: &str, standing: Standing) -> LayerText {
        LayerText { name: name.to_owned(), text: format!("version: 1\n{text}"), standing }
    }

    fn operator(yaml: &str) -> LayerText {
        text("p.yaml", yaml, Standing::Operator)
    }

    fn policy(first: &str, narrowing: &[&str]) -> Policy {
        let narrowing: Vec<_> = narrowing.iter().map(|yaml| text("repo.yaml", yaml, Standing::Repository)).collect();
        Policy::new(&operator(first), &narrowing, &no_parents).unwrap()
    }

    #[test]
    fn a_narrowing_layer_takes_away_and_never_gives() {
        let both =
            policy("tools: {allow: [read_file, edit]}", &["tools: {allow: [read_file, web_fetch]}", "name: silent"]);
        assert!(!both.denies_tool("read_file"));
        assert!(both.denies_tool("edit") && both.denies_tool("web_fetch"));
    }

    #[test]
    fn limits_are_the_lowest_and_answers_to_denials_the_strictest() {
        let both = policy(
            "on_deny: continue\nlimits: {turns: 5, tool_calls: 9}\nchanges: commit",
            &["on_deny: stop\nlimits: {turns: 9, denials: 2}\nchanges: apply"],
        );
        let limits = both.limits();
        assert_eq!((limits.turns, limits.tool_calls, limits.denials), (Some(5), Some(9), Some(2)));
        assert_eq!(both.on_deny(None, OnDeny::Fail), OnDeny::Stop);
        assert_eq!(both.changes().allow, [Delivery::DryRun, Delivery::Apply]);
    }

    #[test]
    fn a_limit_that_is_no_number_leaves_nothing() {
        let none = f64::NAN;
        for limits in [vec![none], vec![none, 1.0], vec![1.0, none], vec![1.0, none, 2.0]] {
            assert_eq!(lowest(limits.iter().copied().map(Some)), Some(0.0), "{limits:?}");
        }
        assert_eq!(lowest([Some(2.0), None, Some(1.0)]), Some(1.0));
        assert_eq!(lowest::<f64>([None]), None);
        let limits = |cost_usd: f64| Limits { cost_usd: Some(cost_usd), ..Limits::default() };
        assert_eq!(lowest_of(&limits(1.0), &limits(none)).cost_usd, Some(0.0));
        assert_eq!(lowest_of(&Limits::default(), &limits(none)).cost_usd, Some(0.0));
    }

    // What a policy gives, each number and choice so that a higher one gives more.
    fn given(policy: &Policy) -> Vec<u128> {
        let (redirects, query) = policy.web_limits();
        let (files, bytes) = policy.change_limits();
        let strictest = |flag| match policy.on_deny(flag, OnDeny::Fail) {
            OnDeny::Stop => 0,
            OnDeny::Fail => 1,
            OnDeny::Continue => 2,
        };
        let network = |default| match policy.mcp_network("docs", default) {
            Network::None => 0,
            Network::Hosts(hosts) => hosts.len() as u128,
            Network::Any => u128::MAX,
        };
        let limits = policy.limits();
        let most = |limit: Option<u64>| limit.map_or(u128::MAX, u128::from);
        let most_usd = |limit: Option<f64>| limit.map_or(u128::MAX, |usd| (usd * 1_000_000.0) as u128);
        vec![
            redirects.into(),
            query as u128,
            files.into(),
            bytes.into(),
            policy.max_inline() as u128,
            policy.copy_max().into(),
            policy.shell_timeout().as_millis(),
            strictest(None),
            strictest(Some(OnDeny::Continue)),
            network(Network::None),
            network(Network::Any),
            policy.may_write_to_github(GitHubWrite::PushHead).into(),
            policy.may_write_to_github(GitHubWrite::Comment).into(),
            policy.may_clone("github.com/acme/app").into(),
            policy.changes().allow.len() as u128,
            (policy.unanalysable() == Unanalysable::Sandboxed).into(),
            (policy.workspace_mode() == WorkspaceMode::InPlace).into(),
            (!policy.redacts()).into(),
            (!policy.refuses_secrets()).into(),
            policy.untrusted_input() as u128,
            most(limits.turns),
            most(limits.tool_calls),
            most_usd(limits.cost_usd),
            most_usd(policy.batch().total_cost_usd),
        ]
    }

    #[test]
    fn no_layer_raises_what_the_layers_before_it_give() {
        let texts = [
            "name: silent",
            "on_deny: continue\nchanges: commit\nlimits: {turns: 100000, tool_calls: 100000, cost_usd: 1000}\nuntrusted_input: allow\n\
             paths: {write: {max_files: 100000, max_bytes: 1GiB}}\nshell: {timeout: 2h, unanalysable: sandboxed}\n\
             network: {max_redirects: 10, query_max: 1000000}\nsandbox: {copy_max: 100GiB, workspace: in-place}\n\
             secrets: {redact: false, on_write: allow}\ngithub: {allow: [comment, push_head], max_inline: 100}\n\
             batch: {total_cost_usd: 1000, repos: {allow: [\"github.com/*/*\"]}}\n\
             mcp: {servers: {docs: {allow: [get], network: any}}}",
            "on_deny: stop\nchanges: dry-run\nlimits: {turns: 2, tool_calls: 2, cost_usd: 0.5}\npaths: {write: {max_files: 1, max_bytes: 10B}}\n\
             batch: {total_cost_usd: 0.5}\nshell: {timeout: 1s}\nnetwork: {max_redirects: 0, query_max: 1}\nsandbox: {copy_max: 1B}\n\
             github: {allow: [check], max_inline: 1}\nmcp: {servers: {docs: {allow: [get], network: [docs.rs]}}}",
        ];
        for first in texts {
            for second in texts {
                for third in texts {
                    let (two, three) = (policy(first, &[second]), policy(first, &[second, third]));
                    for (fewer, more) in [(policy(first, &[]), two.clone()), (two, three)] {
                        let raised = given(&fewer).iter().zip(given(&more)).position(|(few, many)| many > *few);
                        assert_eq!(raised, None, "{first}\n--\n{second}\n--\n{third}");
                    }
                }
            }
        }
        assert!(policy(texts[1], &[]).may_write_to_github(GitHubWrite::PushHead));
    }

    #[test]
    fn pins_of_an_operators_file_come_before_those_of_the_checkout() {
        let pins = |name: &str| format!("mcp: {{servers: {{docs: {{allow: [get], pins: {name}}}}}}}");
        let machine = text("/etc/qwen/policy.yaml", &pins("own.json"), Standing::Operator);
        let checkout = text("repo.yaml", &pins("theirs.json"), Standing::Repository);
        let policy = Policy::new(&operator("name: silent"), &[checkout, machine], &no_parents).unwrap();
        assert_eq!(policy.mcp_pins("docs").as_deref(), Some("own.json"));
    }

    #[test]
    fn an_operators_child_replaces_allows_and_adds_denies() {
        let parent = "version: 1\ntools: {allow: [edit], deny: [glob]}\n";
        let sum = digest::sha256(parent.as_bytes());
        let child = operator(&format!(
            "extends: {{file: base.yaml, sha256: {sum}}}\ntools: {{allow: [glob, read_file], deny: [task]}}"
        ));
        let find = |_: Standing, name: &str| (name == "base.yaml").then(|| parent.to_owned()).ok_or_else(String::new);
        let layers = read(&child, &find).unwrap();
        assert_eq!(layers.len(), 1);
        let allow: Vec<_> = layers[0].rules.tools.allow.iter().flatten().map(|rule| rule.value.as_str()).collect();
        let deny: Vec<_> = layers[0].rules.tools.deny.iter().map(|rule| rule.at.source.as_str()).collect();
        assert_eq!((allow, deny), (vec!["glob", "read_file"], vec!["base.yaml:2", "p.yaml:3"]));
        let changed = |_: Standing, _: &str| Ok(format!("{parent}#"));
        assert!(read(&child, &changed).unwrap_err().to_string().contains("digest"));
    }

    #[test]
    fn a_repositorys_parent_and_child_are_both_asked() {
        let child = text("repo.yaml", "extends: builtin:read-only\ntools: {allow: [edit]}", Standing::Repository);
        assert_eq!(read(&child, &no_parents).unwrap().len(), 2);
    }

    #[test]
    fn a_built_in_parent_is_one_layer_with_all_that_it_extends() {
        let child = text("repo.yaml", "extends: builtin:edit", Standing::Repository);
        let first = LayerText::builtin("edit").unwrap();
        let both = Policy::new(&first, &[child], &no_parents).unwrap();
        assert!(!both.denies_tool("edit") && both.changes().allow.contains(&Delivery::Apply));
        assert_eq!(both.facts().layers, ["builtin:edit", "builtin:edit", "repo.yaml"]);
    }

    #[test]
    fn only_an_operators_file_lifts_protection_and_runs_the_unanalysable() {
        let yaml = "paths: {protected: {remove: [QWEN.md]}}\nshell: {unanalysable: sandboxed}";
        let of = |standing| read(&text("x", yaml, standing), &no_parents).unwrap().remove(0);
        assert_eq!(of(Standing::Operator).rules.paths.unprotected.len(), 1);
        assert_eq!(of(Standing::Repository).rules.paths.unprotected.len(), 0);
        assert_eq!(policy("shell: {unanalysable: sandboxed}", &[yaml]).unanalysable(), Unanalysable::Deny);
    }
}
