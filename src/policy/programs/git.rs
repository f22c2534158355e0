//! git: its global options, its subcommands, and which of their words are paths.

use std::path::Path;

use super::Word;
use super::table::{Call, Operands, Style, TABLE, Table, tree};
use crate::path::{Node, RelPath};
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;

/// What our printing leaves out of git's and ripgrep's reading (F3); `.env.example` is left out with its kin.
pub(crate) const NEVER: [&str; 6] = ["**/.env", "**/.env.*", "**/*.pem", "**/*.key", "**/id_rsa*", "secrets/**"];

const GLOBAL: &str = "--no-pager -P --no-optional-locks --literal-pathspecs -C=D --version --help -h \
    !!-c=D !!--config-env=D !!--exec-path=?D !!--git-dir=D !--work-tree=L !--namespace=D !-p,--paginate !--bare \
    !--no-replace-objects !--glob-pathspecs !--noglob-pathspecs !--icase-pathspecs !--attr-source=D !--super-prefix=D";

macro_rules! diff_options {
    ($more:literal) => {
        concat!(
            "-p,--patch -u -s,--no-patch -U,--unified=D --output-indicator-new=D --output-indicator-old=D --output-indicator-context=D \
            --raw --patch-with-raw --indent-heuristic --no-indent-heuristic --minimal --patience --histogram --anchored=D \
            --diff-algorithm=D --stat=?D --stat-width=D --stat-name-width=D --stat-count=D --stat-graph-width=D --compact-summary \
            --numstat --shortstat -X,--dirstat=?D --cumulative --dirstat-by-file=?D --summary --patch-with-stat -z --name-only --name-status \
            --submodule=?D --color=?D --no-color --color-moved=?D --no-color-moved --color-moved-ws=D --no-color-moved-ws --word-diff=?D \
            --word-diff-regex=D --color-words=?D --no-renames --rename-empty --no-rename-empty --check --ws-error-highlight=D --full-index \
            --binary --abbrev=?D --no-abbrev -B,--break-rewrites=?D -M,--find-renames=?D -C,--find-copies=?D --find-copies-harder \
            -D,--irreversible-delete -l=D --diff-filter=D -S=D -G=D --find-object=D --pickaxe-all --pickaxe-regex !!-O=R -R \
            --relative=?D --no-relative -a,--text --ignore-cr-at-eol --ignore-space-at-eol -b,--ignore-space-change \
            -w,--ignore-all-space --ignore-blank-lines -I,--ignore-matching-lines=D --inter-hunk-context=D -W,--function-context \
            --exit-code --quiet !!--ext-diff --no-ext-diff !!--textconv --no-textconv --ignore-submodules=?D --src-prefix=D \
            --dst-prefix=D --no-prefix --default-prefix --line-prefix=D --ita-invisible-in-index --ita-visible-in-index \
            --merge-base -c --cc --combined-all-paths --remerge-diff --diff-merges=D --no-diff-merges -m -t -r !--output=W \
            --skip-to=D --rotate-to=D --pathspec-file-nul !--pathspec-from-file=R --end-of-options ",
            $more
        )
    };
}

macro_rules! log_options {
    () => {
        "--oneline --graph --no-graph --decorate=?D --no-decorate --decorate-refs=D --decorate-refs-exclude=D --source --all --branches=?D \
        --tags=?D --remotes=?D --glob=D --exclude=D --exclude-hidden=D --reflog -g,--walk-reflogs --pretty=?D --format=D --date=D \
        --abbrev-commit --no-abbrev-commit -n,--max-count=D --skip=D --since=D --after=D --until=D --before=D --author=D \
        --committer=D --grep=D --grep-reflog=D --all-match --invert-grep -i,--regexp-ignore-case --basic-regexp \
        -E,--extended-regexp -F,--fixed-strings -P,--perl-regexp --merges --no-merges --min-parents=D --max-parents=D \
        --no-min-parents --no-max-parents --first-parent --exclude-first-parent-only --not --alternate-refs --cherry-mark \
        --cherry-pick --cherry --left-only --right-only --left-right --boundary --simplify-by-decoration --show-pulls \
        --full-history --dense --sparse --simplify-merges --ancestry-path=?D --date-order --author-date-order --topo-order \
        --reverse --follow --full-diff --log-size -L=D --no-walk=?D --do-walk !--show-signature --show-notes=?D --notes=?D --no-notes \
        --encoding=D --expand-tabs=?D --no-expand-tabs --mailmap --use-mailmap --no-mailmap --clear-decorations --parents --children \
        --show-linear-break=?D --count --relative-date --no-commit-id --root --cached --staged --ignore-missing --bisect \
        --no-show-signature --objects --timestamp --header --no-object-names -NUM"
    };
}

const GREP: &str = "--cached !--no-index --index --untracked -v,--invert-match -i,--ignore-case -w,--word-regexp -a,--text -I !!--textconv \
    -r,--recursive --no-recursive --max-depth=D -E,--extended-regexp -G,--basic-regexp -F,--fixed-strings -P,--perl-regexp \
    -n,--line-number --column -h -H --full-name -l,--files-with-matches --name-only -L,--files-without-match -z,--null \
    -o,--only-matching -c,--count --color=?D --no-color --break --heading -C,--context=D -B,--before-context=D -A,--after-context=D \
    -NUM --threads=D -p,--show-function -W,--function-context -f=R -e=D --and --or --not --all-match -q,--quiet \
    !!-O,--open-files-in-pager=?D !!--ext-grep --exclude-standard --no-exclude-standard --recurse-submodules --parent-basename=D \
    -m,--max-count=D --no-textconv -y";

const BRANCH: &str = "-a,--all -r,--remotes -l,--list -v,--verbose -q,--quiet --show-current --color=?D --no-color --column=?D --no-column \
    --sort=D --contains=*D --no-contains=*D --merged=*D --no-merged=*D --points-at=D --format=D -i,--ignore-case --abbrev=?D --no-abbrev \
    --omit-empty !-d,--delete !-D !-m,--move !-M !-c,--copy !-C !-f,--force !-t,--track=?D !--no-track !-u,--set-upstream-to=D \
    !--unset-upstream !--edit-description !--create-reflog !--recurse-submodules";

const NOTHING: &str = "-v,--verbose -q,--quiet";

pub(crate) const GIT: Table = Table {
    names: "git",
    options: GLOBAL,
    operands: Operands::Special,
    style: Style::First,
    writes_nothing: true,
    special: None,
    subcommands: &[
        Table {
            names: "status",
            options: "-s,--short -b,--branch --show-stash --porcelain=?D --long -v,--verbose -u,--untracked-files=?D --ignore-submodules=?D \
                --ignored=?D -z,--null --column=?D --no-column --ahead-behind --no-ahead-behind --renames --no-renames --find-renames=?D -M=?D \
                !--pathspec-from-file=R",
            special: Some(listing),
            operands: Operands::Special,
            ..TABLE
        },
        Table {
            names: "diff",
            options: diff_options!("--cached --staged !--no-index -1,--base -2,--ours -3,--theirs -0"),
            operands: Operands::Special,
            special: Some(diff),
            ..TABLE
        },
        Table {
            names: "diff-tree diff-index diff-files whatchanged range-diff",
            options: diff_options!(
                "--cached --stdin --root --no-commit-id --pretty=?D --format=D -v --always -q --no-dual-color --creation-factor=D --left-only --right-only"
            ),
            operands: Operands::Special,
            special: Some(diff),
            ..TABLE
        },
        Table {
            names: "log",
            options: concat!(diff_options!(""), log_options!()),
            operands: Operands::Special,
            special: Some(log),
            ..TABLE
        },
        Table {
            names: "show",
            options: concat!(diff_options!(""), log_options!()),
            operands: Operands::Special,
            special: Some(diff),
            ..TABLE
        },
        Table {
            names: "rev-list reflog shortlog",
            options: concat!(
                "-s,--summary -n,--numbered -e,--email --group=D -w=?D --use-bitmap-index ",
                log_options!()
            ),
            style: Style::Whole,
            operands: Operands::Special,
            special: Some(revisions),
            ..TABLE
        },
        Table {
            names: "blame annotate",
            options: "-b --root --show-stats -L=D --score-debug -f,--show-name -n,--show-number -p,--porcelain --line-porcelain -c -t -l -s \
                -e,--show-email -w -M=?D -C=?D --date=D --since=D --abbrev=D --no-abbrev --ignore-rev=D --ignore-revs-file=R --color-lines --color-by-age \
                --reverse=?D --first-parent --progress --no-progress --incremental --contents=R --encoding=D --minimal -S=R -h \
                !!--textconv !!--ext-diff !--output=W --diff-algorithm=D --indent-heuristic --no-indent-heuristic",
            operands: Operands::Special,
            special: Some(blame),
            ..TABLE
        },
        Table { names: "grep", options: GREP, operands: Operands::Special, special: Some(grep), ..TABLE },
        Table {
            names: "ls-files",
            options: "-c,--cached -d,--deleted -m,--modified -o,--others -i,--ignored -s,--stage --directory --no-empty-directory -u,--unmerged \
                -k,--killed --resolve-undo -z --deduplicate -x,--exclude=D -X,--exclude-from=R --exclude-per-directory=R --exclude-standard \
                --error-unmatch --with-tree=D -t -v -f --full-name --recurse-submodules --abbrev=?D --debug --eol --sparse --format=D",
            operands: Operands::Special,
            special: Some(listing),
            ..TABLE
        },
        Table {
            names: "ls-tree",
            options: "-d -r -t -l,--long -z --name-only --name-status --object-only --full-name --full-tree --abbrev=?D --format=D",
            operands: Operands::Special,
            special: Some(listing),
            ..TABLE
        },
        Table {
            names: "rev-parse",
            options: "--show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir --git-common-dir --is-inside-work-tree \
                --is-inside-git-dir --is-bare-repository --is-shallow-repository --abbrev-ref=?D --short=?D --symbolic --symbolic-full-name \
                --verify -q,--quiet --revs-only --no-revs --flags --no-flags --default=D --not --all --branches=?D --tags=?D --remotes=?D --glob=D \
                --exclude=D --disambiguate=D --since=D --after=D --until=D --before=D --show-object-format=?D --show-superproject-working-tree \
                --git-path=D --local-env-vars --path-format=D --prefix=D --sq --end-of-options --show-ref-format --output-object-format=D",
            operands: Operands::Data,
            style: Style::Whole,
            special: Some(named_blobs),
            ..TABLE
        },
        Table {
            names: "merge-base",
            options: "-a,--all --octopus --independent --is-ancestor --fork-point",
            operands: Operands::Data,
            ..TABLE
        },
        Table { names: "branch", options: BRANCH, operands: Operands::Special, special: Some(branch), ..TABLE },
        Table {
            names: "describe name-rev cherry show-branch merge-tree",
            options: "--all --tags --contains --abbrev=D --candidates=D --exact-match --debug --long --match=D --exclude=D --always --first-parent --dirty=?D --broken=?D --name-only --refs=D --no-undefined -v --write-tree --messages --no-messages",
            operands: Operands::Data,
            ..TABLE
        },
        Table {
            names: "for-each-ref show-ref",
            options: "--count=D --sort=D --format=D --points-at=D --merged=*D --no-merged=*D --contains=*D --no-contains=*D --head --tags --heads --branches -d,--dereference -s,--hash=?D --verify -q,--quiet --abbrev=?D --exists --color=?D -p,--perl --shell --ignore-case --omit-empty --exclude=D",
            operands: Operands::Data,
            ..TABLE
        },
        Table {
            names: "cat-file",
            options: "-t -s -e -p --allow-unknown-type --mailmap --no-mailmap --use-mailmap !!--textconv !!--filters",
            operands: Operands::Special,
            special: Some(revisions),
            ..TABLE
        },
        Table {
            names: "count-objects version check-ref-format var check-mailmap",
            options: "-v,--verbose -H,--human-readable --build-options --branch --allow-onelevel",
            operands: Operands::Data,
            ..TABLE
        },
        Table {
            names: "check-ignore check-attr",
            options: "-q,--quiet -v,--verbose -z -n,--non-matching --no-index -a,--all --cached --source=D",
            operands: Operands::List,
            ..TABLE
        },
        Table {
            names: "add stage",
            options: "-n,--dry-run -v,--verbose -f,--force -A,--all -u,--update -N,--intent-to-add --renormalize --no-all --ignore-removal --refresh --ignore-errors --ignore-missing --sparse --chmod=D !-i,--interactive !-p,--patch !-e,--edit !--pathspec-from-file=R --no-ignore-removal",
            operands: Operands::Special,
            special: Some(add),
            ..TABLE
        },
        Table {
            names: "commit",
            options: "-m,--message=D -a,--all -q,--quiet -n,--no-verify -s,--signoff !-F,--file=R !-C,--reuse-message=D !-c,--reedit-message=D !--amend !--allow-empty !--author=D !--date=D !-t,--template=R !-e,--edit !--no-edit !-v,--verbose !-p,--patch !-i,--include !-o,--only !-S,--gpg-sign=?D !--fixup=D !--squash=D !--trailer=D !--dry-run !--pathspec-from-file=R !-u,--untracked-files=?D !--short !--cleanup=D",
            operands: Operands::Special,
            special: Some(commit),
            ..TABLE
        },
        Table {
            names: "stash",
            options: "-q,--quiet -u,--include-untracked -k,--keep-index -m,--message=D --index -a,--all -S,--staged -p,--patch --stat --oneline",
            operands: Operands::Special,
            special: Some(work_tree),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "tag",
            options: "-l,--list=*D -n=?D --sort=D --contains=*D --no-contains=*D --merged=*D --no-merged=*D --points-at=D --format=D --column=?D --no-column -i,--ignore-case --color=?D !-a,--annotate !-s,--sign !-d,--delete !-f,--force !-m,--message=D !-F,--file=R !-u=D !-v,--verify",
            operands: Operands::Special,
            special: Some(tag),
            ..TABLE
        },
        Table { names: "remote", options: NOTHING, operands: Operands::Special, special: Some(remote), ..TABLE },
        Table {
            names: "rm",
            options: "-f,--force -n,--dry-run !-r --cached --ignore-unmatch -q,--quiet --sparse !--pathspec-from-file=R",
            operands: Operands::Special,
            special: Some(remove),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "mv",
            options: "-f,--force -k -n,--dry-run -v,--verbose --sparse",
            operands: Operands::Special,
            special: Some(super::files::move_to),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "checkout switch restore reset revert cherry-pick merge pull clean am",
            options: "-q,--quiet -f,--force --ours --theirs -b=D -B=D -c,--create=D -C=D --detach -s,--source=D -S,--staged -W,--worktree --no-commit --abort --continue --skip --soft --mixed --hard --keep --merge --ff-only --no-ff --ff --rebase=?D --no-rebase --no-edit -n --dry-run -d -x -X=D -m,--message=D -t,--track=?D --no-track --orphan=D --autostash --all --tags --prune --depth=D --progress !!--upload-pack=D !-p,--patch !--pathspec-from-file=R --no-verify",
            operands: Operands::Special,
            special: Some(work_tree),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "fetch",
            options: "-q,--quiet -v,--verbose -p,--prune -t,--tags --no-tags --all --depth=D --deepen=D --unshallow -f,--force -j,--jobs=D -n --dry-run --progress --no-progress !!--upload-pack=D -k,--keep -a,--append --recurse-submodules=?D --no-recurse-submodules -4 -6",
            operands: Operands::Special,
            special: Some(keeps),
            ..TABLE
        },
        Table {
            names: "push ls-remote",
            options: "-q,--quiet -v,--verbose -u,--set-upstream -f,--force --all --tags --heads --refs -n,--dry-run --force-with-lease=?D --delete -d !!--receive-pack=D !!--exec=D !!--upload-pack=D --no-verify --get-url --exit-code --symref --sort=D",
            operands: Operands::Special,
            special: Some(keeps),
            ..TABLE
        },
        Table {
            names: "clone",
            options: "-q,--quiet -v,--verbose --depth=D -b,--branch=D --single-branch --no-single-branch --no-checkout --bare --mirror --recurse-submodules=?D --recursive -j,--jobs=D --filter=D --no-tags --sparse -o,--origin=D !!-u,--upload-pack=D !!-c,--config=D !!--template=D !--separate-git-dir=W !--reference=L",
            operands: Operands::Special,
            special: Some(clone),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "init",
            options: "-q,--quiet --bare -b,--initial-branch=D !!--template=D !--separate-git-dir=W --object-format=D --shared=?D",
            operands: Operands::Write,
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "apply",
            options: "--stat --numstat --summary --check --index --cached -3,--3way -R,--reverse --reject -z -p=D -C=D --inaccurate-eof --recount --unidiff-zero -v,--verbose -q,--quiet --whitespace=D --exclude=D --include=D --directory=D -N,--intent-to-add --allow-empty",
            operands: Operands::Read,
            writes_nothing: false,
            special: Some(keeps),
            ..TABLE
        },
        Table {
            names: "rebase",
            options: "-q,--quiet -i,--interactive --onto=D --continue --abort --skip --autostash !!-x,--exec=D --root --no-ff -f -s,--strategy=D -X=D --update-refs --autosquash --no-autosquash --keep-base --no-verify",
            operands: Operands::Special,
            special: Some(keeps),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "bisect submodule filter-branch difftool mergetool",
            options: "!!-x,--extcmd=D !!--tree-filter=D !!--index-filter=D !!--msg-filter=D !!--env-filter=D !!--commit-filter=D !!--tag-name-filter=D !!--parent-filter=D",
            operands: Operands::Special,
            special: Some(runs),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "archive",
            options: "--format=D -l,--list -v,--verbose --prefix=D -o,--output=W --add-file=R --add-virtual-file=D --worktree-attributes --remote=D !!--exec=D -NUM",
            operands: Operands::Special,
            special: Some(revisions),
            ..TABLE
        },
        Table {
            names: "format-patch",
            options: concat!(
                "-o,--output-directory=O --stdout -n,--numbered -N,--no-numbered -s,--signoff -v,--reroll-count=D --cover-letter --subject-prefix=D --in-reply-to=D --to=D --cc=D --attach=?D --inline=?D ",
                log_options!()
            ),
            operands: Operands::Special,
            special: Some(revisions),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "worktree",
            options: "-f,--force -b=D -B=D -d,--detach --checkout --no-checkout --lock -q,--quiet --porcelain -v,--verbose -z",
            operands: Operands::Special,
            special: Some(worktree),
            writes_nothing: false,
            ..TABLE
        },
        // Others, under `shell.default: allow` alone. One that is not named here may be an alias, or start a program.
        Table {
            names: "bugreport bundle cherry column commit-graph commit-tree config diagnose fast-export fast-import fsck gc get-tar-commit-id hash-object help index-pack interpret-trailers last-modified maintenance mailinfo mailsplit merge-file merge-index merge-one-file mktag mktree multi-pack-index notes pack-objects pack-redundant pack-refs patch-id prune prune-packed quiltimport read-tree refs repack replace replay request-pull rerere show-index sparse-checkout stripspace symbolic-ref unpack-file unpack-objects update-index update-ref update-server-info verify-commit verify-pack verify-tag write-tree",
            options: "!!--exec=D !!--upload-pack=D !!--receive-pack=D !!--extcmd=D --output=W -o=W",
            operands: Operands::Special,
            special: Some(work_tree),
            writes_nothing: false,
            ..TABLE
        },
    ],
};

// Where the repository's configuration names drivers, what starts one is denied.
fn drivers(call: &Call<'_>) -> Result<(), Denial> {
    match call.cx.git_drivers.first() {
        Some(driver) => {
            Err(call.deny(format!("it would start `{driver}` of the repository's configuration")).by("G11"))
        }
        None => Ok(()),
    }
}

enum Operand {
    Revision,
    Path,
}

/// Judges the words of a subcommand as revisions or pathspecs; returns whether any names a path.
fn words(call: &mut Call<'_>, operands: &[Word], recursive: bool) -> Result<bool, Denial> {
    let before = call.dashes.unwrap_or(usize::MAX);
    let mut paths = false;
    for (index, word) in operands.iter().enumerate() {
        if !word.literal {
            return Err(call.deny("a word of it is not known"));
        }
        let kind = if index < before { Operand::Revision } else { Operand::Path };
        paths |= one(call, &word.text, &kind, recursive)?;
    }
    Ok(paths)
}

fn one(call: &mut Call<'_>, text: &str, kind: &Operand, recursive: bool) -> Result<bool, Denial> {
    if text.is_empty() {
        return Ok(false);
    }
    if matches!(kind, Operand::Revision) && text.starts_with('-') {
        return Err(call.deny(format!("the word `{text}` looks like an option")));
    }
    if let Some(magic) = text.strip_prefix(':') {
        return pathspec_or_index(call, magic, text, kind, recursive);
    }
    if matches!(kind, Operand::Revision)
        && let Some((revision, _)) = text.split_once(':')
    {
        // A blob of a revision. `^{/text:more}` has a colon too: every reading must pass.
        if !text.contains("^{/") || text.rfind('}') < text.rfind(':') {
            let _ = revision;
            let tails = text.match_indices(':').map(|(at, _)| &text[at + 1..]).collect::<Vec<_>>();
            for path in tails {
                blob(call, path)?;
            }
            return Ok(false);
        }
        return Ok(false);
    }
    if call.has("--literal-pathspecs") || !text.contains(['*', '?', '[']) {
        return path(call, text, kind, recursive);
    }
    for folder in call.cx.folders {
        let start = folder.under(call.cx.root);
        call.cx.paths.search(&start, std::slice::from_ref(&text.to_owned()))?;
    }
    // The wildcard of a pathspec also matches slashes; what it could reach is counted by its literal start.
    if recursive {
        let prefix = text.split(['*', '?', '[']).next().unwrap_or_default();
        let folder = prefix.rsplit_once('/').map_or(".", |(folder, _)| folder);
        let name = text.rsplit('/').next().unwrap_or(text);
        call.out.effects.push(Effect::ReadTree {
            path: if folder.is_empty() { ".".to_owned() } else { folder.to_owned() },
            follow_links: false,
            left_out: Vec::new(),
            only: vec![name.to_owned()],
            skips_hidden: false,
        });
    }
    Ok(true)
}

fn path(call: &mut Call<'_>, text: &str, kind: &Operand, recursive: bool) -> Result<bool, Denial> {
    let node = call.node(text)?;
    let exists = node.is_some();
    for folder in call.cx.folders {
        let named = call.cx.paths.name_only(folder, Path::new(text));
        if named.is_err() {
            call.out.effects.push(Effect::Read(text.to_owned()));
        }
    }
    match (node, kind) {
        (Some(Node::Dir), _) if recursive => call.out.effects.push(tree(text, false)),
        (Some(_), _) | (None, Operand::Path) => call.out.effects.push(Effect::Read(text.to_owned())),
        // A revision: nothing of that name is on disk, and the name itself is not denied.
        (None, Operand::Revision) => {}
    }
    Ok(exists || matches!(kind, Operand::Path))
}

// `rev:path` is relative to the repository, or to the folder if it begins with a dot.
fn blob(call: &mut Call<'_>, path: &str) -> Result<(), Denial> {
    if path.is_empty() {
        return Ok(());
    }
    let whole = if path.starts_with("./") || path.starts_with("../") || path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{}/{path}", call.cx.root.display())
    };
    call.out.effects.push(Effect::Read(whole));
    Ok(())
}

fn pathspec_or_index(
    call: &mut Call<'_>,
    magic: &str,
    text: &str,
    kind: &Operand,
    recursive: bool,
) -> Result<bool, Denial> {
    let top = |path: &str| {
        RelPath::new(path.trim_start_matches('/')).map(|path| path.under(call.cx.root).display().to_string())
    };
    if let Some(rest) = magic.strip_prefix("(top)").or_else(|| magic.strip_prefix('/')) {
        // `:/text` is also a search among commit messages; as a path it must pass.
        let whole = top(rest).ok_or_else(|| call.deny(format!("the pathspec `{text}` leaves the repository")))?;
        return match whole.contains(['*', '?', '[']) {
            true => one(call, &whole, &Operand::Path, recursive),
            false => path(call, &whole, kind, recursive),
        };
    }
    if magic.starts_with("(exclude)") || magic.starts_with('!') || magic.starts_with('^') {
        return if magic.starts_with("(exclude)") { Ok(false) } else { Err(denied_magic(call, text)) };
    }
    if magic.starts_with('(') || matches!(kind, Operand::Path) {
        return Err(denied_magic(call, text));
    }
    // `:path` and `:N:path` name a file of the index.
    let path = match magic.split_once(':') {
        Some((stage, path)) if stage.len() == 1 && stage.bytes().all(|b| b.is_ascii_digit()) => path,
        _ => magic,
    };
    blob(call, path)?;
    Ok(false)
}

fn denied_magic(call: &Call<'_>, text: &str) -> Denial {
    call.deny(format!("the pathspec magic of `{text}` is denied")).hint("use `:(exclude)PATH` or `:(top)PATH`")
}

// Adds pathspecs that leave the denied files out, where none was given.
fn exclude(call: &mut Call<'_>) {
    let mut printed: Vec<Word> = call.words.iter().filter(|word| word.text != "--literal-pathspecs").cloned().collect();
    if call.dashes.is_none() {
        printed.push(Word::literal("--"));
    }
    let never = NEVER.iter().map(|glob| (*glob).to_owned()).chain(call.cx.never_read.iter().cloned());
    printed.extend(never.map(|glob| Word::literal(format!(":(top,exclude,glob,icase){glob}"))));
    call.out.printed = Some(printed);
}

fn diff(call: &mut Call<'_>) -> Result<(), Denial> {
    drivers(call)?;
    let operands = std::mem::take(&mut call.operands);
    lines(call)?;
    if call.has("--no-index") {
        operands.iter().for_each(|word| call.read_tree(word, false));
        call.operands = operands;
        return Ok(());
    }
    let paths = words(call, &operands, true)?;
    let blobs = operands.iter().any(|word| word.text.contains(':'));
    trees(call, &operands, blobs && !call.name.ends_with("show"))?;
    if !paths && !blobs && !call.has("-L") {
        exclude(call);
    }
    call.operands = operands;
    Ok(())
}

fn log(call: &mut Call<'_>) -> Result<(), Denial> {
    let shows = [
        "-p",
        "-u",
        "-U",
        "-S",
        "-G",
        "-c",
        "--cc",
        "-m",
        "--word-diff",
        "--color-words",
        "--patch-with-stat",
        "-W",
        "--remerge-diff",
        "--diff-merges",
        "--patch-with-raw",
        "--binary",
    ];
    if shows.iter().any(|name| call.has(name)) {
        return diff(call);
    }
    lines(call)?;
    let operands = std::mem::take(&mut call.operands);
    // Without a patch only names and messages are shown: a folder is not read.
    words(call, &operands, false)?;
    call.operands = operands;
    Ok(())
}

// `rev:folder` is read with all below where contents are compared or searched.
fn trees(call: &mut Call<'_>, operands: &[Word], reads: bool) -> Result<(), Denial> {
    let before = call.dashes.unwrap_or(usize::MAX);
    for word in operands.iter().take(before).filter(|_| reads) {
        let Some((revision, path)) = word.text.split_once(':') else { continue };
        if revision.is_empty() || path.starts_with('(') {
            continue;
        }
        let relative = path.starts_with("./") || path.starts_with("../");
        let whole = if relative { path.to_owned() } else { format!("{}/{path}", call.cx.root.display()) };
        if call.node(&whole)? == Some(Node::Dir) {
            call.out.effects.push(tree(&whole, false));
        }
        // A folder of that revision that is gone since.
        call.out.effects.push(Effect::Read(format!("{}/x", whole.trim_end_matches('/'))));
    }
    Ok(())
}

// `-L 1,5:file` and `-L :function:file` show a file; `-L 1,5` of blame does not name one.
fn lines(call: &mut Call<'_>) -> Result<(), Denial> {
    for value in call.values("-L") {
        if let Some((_, file)) = value.text.rsplit_once(':') {
            call.out.effects.push(Effect::Read(file.to_owned()));
        }
    }
    Ok(())
}

fn blame(call: &mut Call<'_>) -> Result<(), Denial> {
    let operands = std::mem::take(&mut call.operands);
    words(call, &operands, true)?;
    call.operands = operands;
    Ok(())
}

fn revisions(call: &mut Call<'_>) -> Result<(), Denial> {
    let operands = std::mem::take(&mut call.operands);
    let operands_of_reflog = call.name.ends_with("reflog")
        && operands.first().is_some_and(|word| word.text != "show" && word.text != "list" && word.text != "exists");
    if operands_of_reflog && matches!(operands[0].text.as_str(), "expire" | "delete" | "drop" | "write") {
        call.out.writes_git = true;
        if !call.is_open() {
            return Err(call.deny("only the listing is allowed"));
        }
    }
    words(call, &operands, true)?;
    call.operands = operands;
    Ok(())
}

// Only an id is printed, but a blob that is named is still named.
fn named_blobs(call: &mut Call<'_>) -> Result<(), Denial> {
    for word in call.operands.clone().iter().filter(|word| word.text.contains(':')) {
        one(call, &word.text, &Operand::Revision, false)?;
    }
    Ok(())
}

fn listing(call: &mut Call<'_>) -> Result<(), Denial> {
    let operands = std::mem::take(&mut call.operands);
    for word in &operands {
        if !word.literal {
            continue;
        }
        let magic = word.text.starts_with(':')
            && !word.text.starts_with(":/")
            && !word.text.starts_with(":(top)")
            && !word.text.starts_with(":(exclude)");
        if magic {
            return Err(denied_magic(call, &word.text));
        }
        if !word.text.starts_with(':') && !word.text.contains(['*', '?', '[']) {
            call.effect(Effect::List, word);
        } else if word.text.contains("..") || word.text.starts_with('/') {
            return Err(call.deny(format!("the pathspec `{}` may leave the workspace", word.text)));
        }
    }
    call.operands = operands;
    Ok(())
}

fn grep(call: &mut Call<'_>) -> Result<(), Denial> {
    let given = call.has("-e") || call.has("-f");
    let operands = std::mem::take(&mut call.operands);
    let skipped = usize::from(!given);
    let rest: Vec<Word> =
        operands.iter().skip(skipped).filter(|word| word.text != "(" && word.text != ")").cloned().collect();
    call.dashes = call.dashes.map(|dashes| dashes.saturating_sub(skipped));
    // `git grep x -- path`: with the pattern behind `--` nothing is left before it.
    if call.has("--no-index") {
        rest.iter().for_each(|word| call.read_tree(word, false));
        if rest.is_empty() {
            call.read_tree(&Word::literal("."), false);
        }
    } else {
        let paths = words(call, &rest, true)?;
        let blobs = rest.iter().any(|word| word.text.contains(':'));
        trees(call, &rest, blobs)?;
        if !paths && !blobs {
            exclude(call);
        }
    }
    call.operands = operands;
    Ok(())
}

fn branch(call: &mut Call<'_>) -> Result<(), Denial> {
    let changes = ["-d", "-D", "-m", "-M", "-c", "-C", "-f", "-t", "-u", "--unset-upstream", "--edit-description"];
    let lists = ["-l", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at", "--show-current"];
    if changes.iter().any(|name| call.has(name))
        || (!call.operands.is_empty() && !lists.iter().any(|name| call.has(name)))
    {
        call.out.writes_git = true;
        if !call.is_open() {
            return Err(call.deny("only listing branches is allowed").hint("use --list before a pattern"));
        }
    }
    Ok(())
}

fn tag(call: &mut Call<'_>) -> Result<(), Denial> {
    let lists = ["-l", "-n", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at"];
    if !call.operands.is_empty() && !lists.iter().any(|name| call.has(name)) {
        call.out.writes_git = true;
        if !call.is_open() {
            return Err(call.deny("only listing tags is allowed"));
        }
    }
    Ok(())
}

fn remote(call: &mut Call<'_>) -> Result<(), Denial> {
    let harmless =
        call.operands.first().is_none_or(|word| word.literal && matches!(word.text.as_str(), "show" | "get-url"));
    if !harmless {
        call.out.writes_git = true;
        if !call.is_open() {
            return Err(call.deny("only listing remotes is allowed"));
        }
    }
    Ok(())
}

fn add(call: &mut Call<'_>) -> Result<(), Denial> {
    drivers(call)?;
    call.out.writes_git = true;
    let operands = std::mem::take(&mut call.operands);
    call.dashes = Some(0);
    // Folders: what git keeps of them in `.git` is not judged; a denied file that is named is.
    words(call, &operands, false)?;
    for word in &operands {
        // A folder all of whose files are denied.
        if !word.text.contains(['*', '?', '[', ':']) && call.node(&word.text)? == Some(Node::Dir) {
            call.out.effects.push(Effect::Read(format!("{}/x", word.text.trim_end_matches('/'))));
        }
    }
    call.operands = operands;
    Ok(())
}

fn commit(call: &mut Call<'_>) -> Result<(), Denial> {
    drivers(call)?;
    call.out.writes_git = true;
    if !call.is_open() && !call.has("-m") {
        return Err(call.deny("it needs a message").hint("use -m MESSAGE"));
    }
    let operands = std::mem::take(&mut call.operands);
    if let Some(word) = operands.first().filter(|_| !call.is_open()) {
        let denial = call.deny(format!("it commits what was added, not `{}`", word.text));
        return Err(denial.hint("use git add PATH before it"));
    }
    call.dashes = Some(0);
    words(call, &operands, false)?;
    call.operands = operands;
    Ok(())
}

fn keeps(call: &mut Call<'_>) -> Result<(), Denial> {
    call.out.writes_git = true;
    if call.operands.iter().any(|word| !word.literal) {
        return Err(call.deny("a word of it is not known"));
    }
    if let Some(word) = call.operands.iter().find(|word| word.text.starts_with("ext::")) {
        return Err(call.deny(format!("`{}` runs a program", word.text)).by("G11"));
    }
    Ok(())
}

// Subcommands that change the work tree: a word that is a path there is read and written.
fn work_tree(call: &mut Call<'_>) -> Result<(), Denial> {
    drivers(call)?;
    keeps(call)?;
    let operands = std::mem::take(&mut call.operands);
    let before = call.dashes.unwrap_or(usize::MAX);
    for (index, word) in operands.iter().enumerate() {
        let kind = if index < before { Operand::Revision } else { Operand::Path };
        let effects = call.out.effects.len();
        if one(call, &word.text, &kind, false)? && !call.name.ends_with(" stash") {
            let read: Vec<Effect> = call.out.effects[effects..].to_vec();
            for effect in read {
                if let Effect::Read(path) = effect {
                    let folder = call.node(&path)? == Some(Node::Dir);
                    call.out.effects.push(if folder { Effect::WriteTree(path) } else { Effect::Write(path) });
                }
            }
        }
    }
    call.operands = operands;
    Ok(())
}

fn remove(call: &mut Call<'_>) -> Result<(), Denial> {
    call.out.writes_git = true;
    for word in call.operands.clone() {
        if !word.literal || word.text.starts_with(':') || word.text.contains(['*', '?', '[']) {
            return Err(call.deny(format!("what `{}` removes is not known", word.text)));
        }
        call.effect(if call.has("-r") { Effect::DeleteTree } else { Effect::Delete }, &word);
    }
    Ok(())
}

fn clone(call: &mut Call<'_>) -> Result<(), Denial> {
    keeps(call)?;
    let operands = call.operands.clone();
    match operands.as_slice() {
        [url] => {
            let name = url.text.trim_end_matches('/').trim_end_matches(".git");
            let name = name.rsplit(['/', ':']).next().unwrap_or(name);
            call.write(&Word::literal(name));
        }
        [_, folder, ..] => call.write(&folder.clone()),
        [] => {}
    }
    Ok(())
}

fn worktree(call: &mut Call<'_>) -> Result<(), Denial> {
    call.out.writes_git = true;
    if call.operands.first().is_some_and(|word| word.text != "list") {
        for word in call.operands.clone().iter().skip(1).take(1) {
            call.write(word);
        }
    }
    Ok(())
}

fn runs(call: &mut Call<'_>) -> Result<(), Denial> {
    keeps(call)?;
    if call.operands.iter().any(|word| matches!(word.text.as_str(), "run" | "foreach"))
        || call.name.ends_with("filter-branch")
    {
        return Err(call.deny("it runs programs that it is given"));
    }
    Ok(())
}
