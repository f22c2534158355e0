//! Lists the names of files that are never read (F3: secrets) and never written (F4: files that run or configure
//! something later), whatever the rules say.

use std::collections::HashSet;
use std::sync::LazyLock;

pub(crate) use super::glob::fold;
use super::glob::fold_name;
use crate::path::RelPath;

/// Names that are never read, at any depth (F3), in small letters: keys, and files in which programs keep passwords. `*`
/// stands for any beginning or end, `DIRECTORY/*` for all in one of that name.
const SECRETS: [&str; 26] = [
    ".env",
    ".env.*",
    ".envrc",
    ".envrc.*",
    "*.pem",
    "*.key",
    "*.ppk",
    "*.kdbx",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    ".git-credentials",
    ".netrc",
    "_netrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".dockercfg",
    ".vault-token",
    ".ssh/*",
    ".gnupg/*",
    ".aws/credentials",
    ".docker/config.json",
    ".kube/config",
    ".cargo/credentials*",
];

/// Returns what is never read as globs; `.env.example` is left out with its kin.
pub(crate) fn never_read<'g>() -> impl Iterator<Item = &'g str> {
    static GLOBS: LazyLock<Vec<String>> = LazyLock::new(|| {
        let glob = |name: &&str| match name.strip_suffix("/*") {
            Some(folder) => format!("**/{folder}/**"),
            None => format!("**/{name}"),
        };
        SECRETS.iter().map(glob).chain(["secrets/**".to_owned()]).collect()
    });
    GLOBS.iter().map(String::as_str)
}

/// Names that are never written, at any depth (F4), in small letters; names that are never read are added to them. A
/// machine or another person's editor acts on such a file without being asked: it runs it, takes settings or
/// instructions from it, or lets it say who decides.
const PROTECTED: [&str; 7] = [
    // Version control and its hooks.
    ".git .gitmodules .gitattributes .lfsconfig .githooks .husky .huskyrc .hg .hgrc .jj .sl .svn .pre-commit-config.yaml \
     .pre-commit-hooks.yaml .overcommit.yml .overcommit captainhook.json grumphp.yml .lefthook prek.toml \
     codeowners owners_aliases .ghooks.lua .rusty-hook.toml .mergify.yml .kodiak.toml .pullapprove.yml .bulldozer.yml bors.toml .reviewpad.yml .cm .gitstream .policy.yml .dependabot .renovaterc .renovaterc.js \
     .renovaterc.json .renovaterc.json5 renovate.json renovate.json5 .mergify .coderabbit.yaml .trunk",
    // Builds of a server.
    ".github .gitlab .gitea .forgejo .circleci .buildkite .woodpecker .semaphore .builds .tekton .teamcity .azure-pipelines .azuredevops \
     .harness .prow .zuul.d zuul.d .jenkins .screwdriver .pipelines .concourse .vela .taskcluster.yml .drone.star .drone.jsonnet \
     .cirrus.star .build.yml .build.yaml azure-pipelines jenkinsfile jenkinsfile.groovy jenkinsfile.ci jenkinsfile.cd jenkinsfile.pr \
     jenkinsfile.release jenkinsfile.nightly jenkinsfile.deploy wercker.yml .scrutinizer.yml codeship-services.yml codeship-steps.yml bitrise.yml \
     codemagic.yaml codefresh.yml bamboo-specs netlify.toml amplify.yml heroku.yml .readthedocs.yaml .readthedocs.yml vercel.json render.yaml \
     nixpacks.toml railway.toml railway.json .platform.app.yaml .platform .upsun .lagoon.yml .do \
     apphosting.yaml .packit.yaml .packit.yml .copr ci_scripts .eas .rwx .depot .tangled .radicle .onedev-buildspec.yml .agola .ebextensions \
     .restyled.yaml",
    // Editors, and machines made for one.
    ".vscode .vscode-server .idea .devcontainer .devcontainer.json .fleet .zed .nova .vs .theia .helix .lapce .idx .run .codesandbox \
     .stackblitzrc .externaltoolbuilders .exrc .vimrc .gvimrc .lvimrc .vim .nvimrc .nvim.lua .nvim .dir-locals.el .dir-locals-2.el .emacs \
     .emacs.d .kakrc hie.yaml .bsp buildserver.json rust-analyzer.toml .rust-analyzer.toml .gitpod .gitpod.yml .gitpod.dockerfile .replit replit.nix",
    // Assistants.
    ".qwen .mcp.json qwen.md agent.md agents.md agents.override.md agents.local.md .agents .agent claude.md claude.local.md .claude gemini.md .gemini \
     .codex .continue .cursor .cursorrules .windsurf .windsurfrules .clinerules .cline .roo .roorules .roomodes .kilocode .kilocodemodes \
     .kiro .amazonq .augment .augment-guidelines .junie .trae .goosehints .goose .openhands .opencode opencode.json opencode.jsonc .cody \
     .tabnine .copilot .amp .factory .crush .crush.json crush.json crush.md .rules warp.md .warp .qoder .codebuddy codebuddy.md .iflow iflow.md \
     replit.md .sourcegraph",
    // Package managers, version managers and build tools, for what they load before all else.
    ".npmrc bunfig.toml .pnp.cjs .pnp.loader.mjs .buckconfig .python-version .python-versions .rvmrc .rbenv-vars hk.pkl .pypirc .pip pip.conf pip.ini .condarc .gemrc .bazelrc .bazeliskrc .bazelversion .jvmopts .mill-jvm-opts .mill-opts directory.build.rsp .sbtopts .sbtrc .pnpmfile.cjs .pnpmfile.mjs .tool-versions .mise .miserc.toml .corepack.env .poetry .pdm-plugins .tflint.d \
     .rtx.toml sitecustomize.py usercustomize.py .wgetrc .curlrc",
    // Shells, and what reads the environment from a directory.
    ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .bashenv .profile .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .mkshrc \
     .cshrc .tcshrc .login .logout .inputrc .direnvrc .direnv .devbox devbox.json shell.nix default.nix flake.nix flake.lock devenv.nix devenv.yaml devenv.lock .autoenv.zsh .autoenv .screenrc .tmux.conf",
    // Interpreters and debuggers.
    ".gdbinit .gdbearlyinit .perldb .byebugrc .jdbrc _irbrc $irbrc irbrc .luarc.json .lazy.lua .solargraph.yml .psysh.php .lldbinit .pdbrc .pdbrc.py .pythonrc .pythonstartup .irbrc .pryrc .psqlrc .sqliterc .rprofile .renviron .ghci .iex.exs .erlang .noderc \
     .octaverc .ocamlinit .proverc .pdm-python",
];

/// Beginnings and endings of more such names.
const KINDS: [(&str, &str); 38] = [
    (".renovaterc.", ""),
    ("jupyter_", "config.py"),
    ("jupyter_", "config.json"),
    ("jupyter_", "config.d"),
    (".aider", ""),
    (".huskyrc.", ""),
    ("husky.config.", ""),
    (".simple-git-hooks.", ""),
    ("simple-git-hooks.", ""),
    (".yarnrc", ""),
    (".roorules-", ""),
    (".clinerules-", ""),
    (".lintstagedrc", ""),
    ("lint-staged.config.", ""),
    (".gitlab-ci", ".yml"),
    (".gitlab-ci", ".yaml"),
    (".travis", ".yml"),
    (".cirrus", ".yml"),
    (".drone", ".yml"),
    (".drone", ".yaml"),
    (".woodpecker", ".yml"),
    (".woodpecker", ".yaml"),
    ("", ".jenkinsfile"),
    ("jenkinsfile-", ""),
    ("jenkinsfile_", ""),
    ("azure-pipelines", ".yml"),
    ("azure-pipelines", ".yaml"),
    (".vsts-ci", ".yml"),
    (".vsts-ci", ".yaml"),
    ("bitbucket-pipelines", ".yml"),
    ("", ".code-workspace"),
    ("", ".sublime-project"),
    ("", ".gocd.yaml"),
    ("", ".bazelrc"),
    ("lefthook.", ""),
    ("lefthook-local.", ""),
    (".lefthook.", ""),
    (".lefthook-local.", ""),
];

/// More such names of YAML files and the like, with or without a dot before them and with more words after them.
const STEMS: &str = "appveyor.yml buildspec.yml cloudbuild.yaml lefthook.yml mise.toml vela.yml screwdriver.yaml zuul.yaml prow.yaml \
    shippable.yml";

/// Directories, and the protected names in them, perhaps with more after a mark; `*`: whatever begins so.
const BELOW: [(&str, &str); 8] = [
    (".mvn", "extensions.xml jvm.config maven.config"),
    (".yarn", "plugins releases sdks"),
    (".cargo", "config*"),
    (".cargo-husky", "hooks"),
    (".bundle", "config plugin"),
    ("mise", "config"),
    (".config", "mise fish direnv git gh pip nvim helix kak zed systemd autostart lefthook husky"),
    (".gradle", "init.d init.gradle gradle.properties"),
];

/// Returns the names that are never read or written, and what others of them begin with.
pub(crate) fn known_names() -> impl Iterator<Item = &'static str> {
    let secrets = SECRETS.iter().filter_map(|name| name.split(['*', '/']).next()).filter(|name| !name.is_empty());
    let kinds = KINDS.into_iter().map(|(start, _)| start).filter(|start| !start.is_empty());
    let below = BELOW.into_iter().map(|(folder, _)| folder);
    PROTECTED.into_iter().chain([STEMS]).flat_map(str::split_whitespace).chain(kinds).chain(below).chain(secrets)
}

// A name of one of the stems: `mise.toml`, `.appveyor.yml`, `lefthook-local.json`, `buildspec-release.yaml`.
fn of_stem(name: &str) -> Option<&'static str> {
    let plain = name.trim_start_matches('.');
    let ends = [".yml", ".yaml", ".json", ".toml"];
    STEMS.split_whitespace().find(|known| {
        let stem = known.split('.').next().unwrap_or(known);
        let Some(rest) = plain.strip_prefix(stem) else { return false };
        let ending = rest.rfind('.').map_or(rest, |at| &rest[at..]);
        ends.contains(&ending) && (rest == ending || rest.starts_with(['.', '-', '_']))
    })
}

/// Tells whether the built-in lists protect a path.
pub(crate) fn is_protected(path: &RelPath) -> bool {
    let folded = fold(&path.to_string_lossy());
    protected_name(&folded).is_some() || secret_name(&folded).is_some()
}

/// Tells whether a path, or the target of a link, names git's own directory in any spelling, on any system.
pub(crate) fn names_git(path: &str) -> bool {
    path.split(['/', '\\']).any(|name| fold_name(name) == ".git")
}

/// Returns the secret name (F3: never read) that a folded path contains.
pub(crate) fn secret_name(folded: &str) -> Option<&'static str> {
    if folded.starts_with("secrets/") {
        return Some("secrets/");
    }
    let mut names = folded.split('/').peekable();
    while let Some(name) = names.next() {
        // Every name of every walk comes here: most differ in the first letter.
        let may_be = |secret: &str| secret.starts_with('*') || secret.as_bytes().first() == name.as_bytes().first();
        let is_secret = |secret: &&&str| {
            may_be(secret)
                && match secret.split_once('/') {
                    None => is_like(secret, name),
                    Some((folder, file)) => name == folder && names.peek().is_some_and(|next| is_like(file, next)),
                }
        };
        if name == ".git" {
            return Some("the contents of .git");
        }
        if name != ".env.example"
            && let Some(secret) = SECRETS.iter().find(is_secret)
        {
            return Some(secret);
        }
    }
    None
}

fn is_like(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (_, Some(start)) => name.starts_with(start),
        (Some(end), _) => name.ends_with(end),
        (None, None) => name == pattern,
    }
}

/// Returns the protected name (F4: never written) that a folded path contains.
pub(crate) fn protected_name(folded: &str) -> Option<&'static str> {
    static NAMES: LazyLock<HashSet<&str>> =
        LazyLock::new(|| PROTECTED.into_iter().flat_map(str::split_whitespace).collect());
    let mut names = folded.split(['/', '\\']).peekable();
    while let Some(name) = names.next() {
        let is_kind = |(start, end): &&(&str, &str)| {
            name.strip_prefix(start).is_some_and(|rest| rest.ends_with(end) && rest.len() + start.len() > end.len())
        };
        let kind = || KINDS.iter().find(is_kind).map(|(start, end)| if start.is_empty() { *end } else { *start });
        if let Some(known) = NAMES.get(name).copied().or_else(kind).or_else(|| of_stem(name)) {
            return Some(known);
        }
        // A directory of that name is what a program calls its own things.
        let Some(next) = names.peek() else { return (name == "owners").then_some("OWNERS") };
        // `core.hooksPath` may name any directory: a hook's name in one that is called after hooks.
        if name.contains("hooks") && is_hook(next) {
            return Some("git hooks");
        }
        let is_named = |known: &&str| match known.strip_suffix('*') {
            Some(start) => next.starts_with(start),
            None => next.strip_prefix(known).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric)),
        };
        let below = BELOW.iter().filter(|(folder, _)| *folder == name);
        if let Some(known) = below.flat_map(|(_, names)| names.split(' ')).find(is_named) {
            return Some(known);
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
    if part.starts_with('*') && SECRETS.iter().any(|name| name.starts_with('*') && part.ends_with(&name[1..])) {
        return true;
    }
    let Ok(glob) = globset::GlobBuilder::new(&part).literal_separator(true).build() else { return true };
    let glob = glob.compile_matcher();
    let is_named = |name: &&str| {
        !name.contains('/') && [".local", ".pub", "a", ""].iter().any(|text| glob.is_match(name.replace('*', text)))
    };
    let matches = glob.is_match(".git") || SECRETS.iter().any(is_named);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_what_is_never_read_are_its_globs() {
        let globs: Vec<_> = never_read()
            .map(|glob| globset::GlobBuilder::new(glob).literal_separator(true).build().unwrap().compile_matcher())
            .collect();
        for (path, denied) in [
            ("a/.env", true),
            (".env.local/x", false),
            ("a/b.kdbx", true),
            (".envrc", true),
            ("a/.envrc.local", true),
            (".envrcs", false),
            ("id_ed25519.pub", true),
            ("id_map.rs", false),
            (".ssh/config", true),
            ("a/.ssh/x/y", true),
            (".ssh", false),
            ("a/.aws/credentials", true),
            (".aws/config", false),
            (".cargo/credentials.toml", true),
            (".cargo/config.toml", false),
            ("credentials", false),
            ("secrets/x", true),
            ("a/secrets/x", false),
        ] {
            assert_eq!(globs.iter().any(|glob| glob.is_match(path)), denied, "{path}");
            // What a directory of such a name holds is never read either.
            let inside = path == ".env.local/x";
            assert_eq!(secret_name(path).is_some(), denied || inside, "{path}");
        }
    }
}
