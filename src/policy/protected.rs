//! Lists the names of files that are never read (F3: secrets) and never written (F4: files that run or configure
//! something later), whatever the rules say.

pub(crate) use super::glob::fold;
use super::glob::fold_name;
use crate::path::RelPath;

/// Names that are never written, at any depth (F4); names that are never read are added to them.
const PROTECTED: [&str; 54] = [
    ".git",
    ".github",
    ".qwen",
    ".husky",
    ".githooks",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".gitlab-ci.yml",
    ".gitmodules",
    ".gitattributes",
    ".pre-commit-config.yaml",
    ".npmrc",
    ".mcp.json",
    ".envrc",
    "qwen.md",
    "agents.md",
    "claude.md",
    "gemini.md",
    ".cursor",
    ".cursorrules",
    ".windsurf",
    ".claude",
    ".gemini",
    ".codex",
    ".continue",
    ".circleci",
    ".travis.yml",
    "jenkinsfile",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "mise.toml",
    ".mise.toml",
    ".tool-versions",
    ".buildkite",
    ".drone.yml",
    ".drone.yaml",
    ".drone.star",
    ".drone.jsonnet",
    ".woodpecker",
    ".woodpecker.yml",
    ".woodpecker.yaml",
    ".bazelrc",
    ".pnpmfile.cjs",
    ".pnpmfile.mjs",
    ".mise",
    ".pypirc",
    "codeowners",
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".inputrc",
];

/// Returns the names that are never read or written, and what others of them begin with.
pub(crate) fn known_names() -> impl Iterator<Item = &'static str> {
    let others =
        [".env", ".git-credentials", ".netrc", "id_rsa", ".aider", "lefthook.", ".yarnrc", ".mvn", ".yarn", ".cargo"];
    PROTECTED.into_iter().chain(others)
}

/// Tells whether the built-in lists protect a path.
pub(crate) fn is_protected(path: &RelPath) -> bool {
    let folded = fold(&path.to_string_lossy());
    protected_name(&folded).is_some() || secret_name(&folded).is_some()
}

/// Tells whether a path, or the target of a link, names git's own directory in any spelling.
pub(crate) fn names_git(path: &str) -> bool {
    path.split('/').any(|name| fold_name(name) == ".git")
}

/// Returns the secret name (F3: never read) that a folded path contains.
pub(crate) fn secret_name(folded: &str) -> Option<&'static str> {
    if folded.starts_with("secrets/") {
        return Some("secrets/");
    }
    folded.split('/').find_map(|name| match name {
        ".git" => Some("the contents of .git"),
        ".env" => Some(".env"),
        ".git-credentials" => Some(".git-credentials"),
        ".netrc" => Some(".netrc"),
        ".env.example" => None,
        _ if name.starts_with(".env.") => Some(".env.*"),
        _ if name.ends_with(".pem") => Some("*.pem"),
        _ if name.ends_with(".key") => Some("*.key"),
        _ if name.starts_with("id_rsa") => Some("id_rsa*"),
        _ => None,
    })
}

/// Returns the protected name (F4: never written) that a folded path contains.
pub(crate) fn protected_name(folded: &str) -> Option<&'static str> {
    let mut names = folded.split('/').peekable();
    while let Some(name) = names.next() {
        if let Some(known) = PROTECTED.iter().find(|known| **known == name) {
            return Some(known);
        }
        // `core.hooksPath` may name any directory: a hook's name in one that is called after hooks.
        if name.contains("hooks") && names.peek().is_some_and(|next| is_hook(next)) {
            return Some("git hooks");
        }
        if name.starts_with(".aider") {
            return Some(".aider*");
        }
        // In every format, with or without the dot, and the one for a single machine.
        if let Some(rest) = name.trim_start_matches('.').strip_prefix("lefthook")
            && (rest.starts_with('.') || rest.starts_with("-local."))
        {
            return Some("lefthook.*");
        }
        if name == ".mvn" && names.peek().is_some_and(|next| matches!(*next, "extensions.xml" | "jvm.config")) {
            return Some(".mvn/extensions.xml, .mvn/jvm.config");
        }
        if name == ".yarn" && names.peek().is_some_and(|next| matches!(*next, "plugins" | "releases")) {
            return Some(".yarn/plugins, .yarn/releases");
        }
        if name.starts_with(".yarnrc") {
            return Some(".yarnrc*");
        }
        if name == ".cargo" && names.peek().is_some_and(|next| next.starts_with("config")) {
            return Some(".cargo/config*");
        }
    }
    None
}

/// Tells whether a file's name is that of a hook that git starts on a machine where it is installed.
pub(crate) fn is_hook(name: &str) -> bool {
    matches!(
        name,
        "applypatch-msg"
            | "pre-applypatch"
            | "post-applypatch"
            | "pre-commit"
            | "pre-merge-commit"
            | "prepare-commit-msg"
            | "commit-msg"
            | "post-commit"
            | "pre-rebase"
            | "post-checkout"
            | "post-merge"
            | "pre-push"
            | "post-rewrite"
            | "pre-auto-gc"
            | "pre-receive"
            | "post-receive"
            | "post-update"
            | "reference-transaction"
            | "sendemail-validate"
            | "fsmonitor-watchman"
    )
}

/// Tells whether one part of a glob names a secret rather than merely matching it.
pub(crate) fn names_secret(part: &str) -> bool {
    let part = part.to_lowercase();
    if part.starts_with('*') && [".pem", ".key"].iter().any(|end| part.ends_with(end)) {
        return true;
    }
    let Ok(glob) = globset::GlobBuilder::new(&part).literal_separator(true).build() else { return true };
    let glob = glob.compile_matcher();
    let matches =
        [".env", ".env.local", ".git", ".git-credentials", ".netrc", "id_rsa", "id_rsa.pub", "a.pem", "a.key"]
            .iter()
            .any(|name| glob.is_match(name));
    match part.find('*') {
        None => matches,
        Some(star) => matches && part[..star].chars().filter(|c| !"[]\\".contains(*c)).count() >= 3,
    }
}

/// Expands the braces of a glob; `None` where that would be too many.
pub(crate) fn braces(pattern: &str) -> Option<Vec<String>> {
    let mut done = Vec::new();
    let mut pending = vec![pattern.to_owned()];
    while let Some(text) = pending.pop() {
        if done.len() + pending.len() > 200 {
            return None;
        }
        // The innermost first group: a closing brace and the last opening one before it.
        let group = text.find('}').and_then(|close| text[..close].rfind('{').map(|open| (open, close)));
        match group {
            None => done.push(text),
            Some((open, close)) => {
                for alternative in text[open + 1..close].split(',') {
                    pending.push(format!("{}{alternative}{}", &text[..open], &text[close + 1..]));
                }
            }
        }
    }
    Some(done)
}
