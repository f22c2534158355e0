//! Judges git: its global options, its subcommands, and which of their words are paths.

mod apply;
mod content;
mod held;
mod objects;
mod options;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use content::NEVER;

use super::Word;
use super::table::{Call, Dashes, Operands, Style, TABLE, Table, arity};
use crate::path::Node;
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;
pub(crate) use content::revisions_named;
use content::{Order, confine, refuse_ids, refuse_known_ids};
use held::{Kept, clone, formats, ids_of_words, init, refuse_held, refuse_restored, runs, tells_ids, worktree};
use options::{BRANCH, GLOBAL, GREP, NOTHING, SILENT, SILENT_LOG, diff_options, log_options};
use words::{Operand, as_written, denied_magic, is_exclusion, lines, one, only_files, words};

pub(crate) const GIT: Table = Table {
    names: "git",
    options: GLOBAL,
    operands: Operands::Special,
    style: Style::First,
    writes_nothing: true,
    dash_values: true,
    special: None,
    dashes: Dashes::Operands,
    subcommands: &[
        Table {
            names: "status",
            options: "-s,--short -b,--branch --show-stash --porcelain=?D --long -v,--verbose -u,--untracked-files=?D --ignore-submodules=?D \
                --ignored=?D -z,--null --column=?D --no-column --ahead-behind --no-ahead-behind --renames --no-renames --find-renames=?D -M=?D \
                --pathspec-from-file=F",
            special: Some(status),
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
                "-NUM -n,--max-count=D --cached --root --no-commit-id --pretty=?D --format=D -v --always -q --no-dual-color --creation-factor=D --left-only --right-only"
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
            names: "reflog",
            options: log_options!(),
            style: Style::Whole,
            operands: Operands::Special,
            special: Some(reflog),
            ..TABLE
        },
        Table {
            names: "rev-list shortlog",
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
                -e,--show-email -w -M=?D -C=?D --date=D --since=D --abbrev=D --no-abbrev --ignore-rev=G --ignore-revs-file=R --color-lines --color-by-age \
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
                --error-unmatch --with-tree=G -t -v -f --full-name --recurse-submodules --abbrev=?D --debug --eol --sparse --format=D",
            operands: Operands::Special,
            special: Some(ids),
            ..TABLE
        },
        Table {
            names: "ls-tree",
            options: "-d -r -t -l,--long -z --name-only --name-status --object-only --full-name --full-tree --abbrev=?D --format=D",
            operands: Operands::Special,
            special: Some(ids),
            ..TABLE
        },
        Table {
            names: "rev-parse",
            options: "--show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir --git-common-dir --is-inside-work-tree \
                --is-inside-git-dir --is-bare-repository --is-shallow-repository --abbrev-ref=?D --short=?D --symbolic --symbolic-full-name \
                --verify -q,--quiet --revs-only --no-revs --flags --no-flags --default=G --not --all --branches=?D --tags=?D --remotes=?D --glob=D \
                --exclude=D --disambiguate=D --since=D --after=D --until=D --before=D --show-object-format=?D --show-superproject-working-tree \
                --git-path=D --local-env-vars --path-format=D !!--prefix=D --sq --end-of-options --show-ref-format --output-object-format=D",
            operands: Operands::Revisions,
            style: Style::Whole,
            special: Some(ids_of_words),
            ..TABLE
        },
        Table {
            names: "merge-base",
            options: "-a,--all --octopus --independent --is-ancestor --fork-point",
            operands: Operands::Revisions,
            ..TABLE
        },
        Table { names: "branch", options: BRANCH, operands: Operands::Special, special: Some(branch), ..TABLE },
        Table {
            names: "merge-tree",
            options: "--write-tree --messages --no-messages --name-only --allow-unrelated-histories --merge-base=G --quiet -z !!--trivial-merge !!--stdin",
            operands: Operands::Special,
            special: Some(merge_tree),
            ..TABLE
        },
        Table {
            names: "describe name-rev cherry show-branch",
            options: "--all --tags --contains --abbrev=D --candidates=D --exact-match --debug --long --match=D --exclude=D --always --first-parent --dirty=?D --broken=?D --name-only --refs=D --no-undefined -v --write-tree --messages --no-messages",
            operands: Operands::Revisions,
            ..TABLE
        },
        Table {
            names: "for-each-ref show-ref",
            options: "--count=D --sort=D --format=D --points-at=G --merged=*G --no-merged=*G --contains=*G --no-contains=*G --head --tags --heads --branches -d,--dereference -s,--hash=?D --verify -q,--quiet --abbrev=?D --exists --color=?D -p,--perl --shell --ignore-case --omit-empty --exclude=D",
            operands: Operands::Data,
            special: Some(formats),
            ..TABLE
        },
        Table {
            names: "cat-file",
            options: "-t -s -e -p --allow-unknown-type --mailmap --no-mailmap --use-mailmap !!--textconv !!--filters",
            operands: Operands::Special,
            special: Some(cat_file),
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
            options: "-q,--quiet -v,--verbose -z -n,--non-matching --no-index -a,--all --cached --source=G",
            operands: Operands::List,
            ..TABLE
        },
        Table {
            names: "add stage",
            options: "-n,--dry-run -v,--verbose -f,--force -A,--all -u,--update -N,--intent-to-add --renormalize --no-all --ignore-removal --refresh --ignore-errors --ignore-missing --sparse --chmod=D !!-i,--interactive !!-p,--patch !!-e,--edit --pathspec-from-file=F --no-ignore-removal",
            operands: Operands::Special,
            special: Some(add),
            ..TABLE
        },
        Table {
            names: "commit",
            options: "-m,--message=D -a,--all -q,--quiet -n,--no-verify -s,--signoff !-F,--file=R !-C,--reuse-message=G !-c,--reedit-message=G !--amend !--allow-empty !--author=D !--date=D !-t,--template=R !-e,--edit !--no-edit !!-v,--verbose !!-p,--patch !!--interactive !-i,--include !-o,--only !-S,--gpg-sign=?D !--fixup=G !--squash=G !--trailer=D !--dry-run --pathspec-from-file=F !-u,--untracked-files=?D !--short !--cleanup=D",
            operands: Operands::Special,
            special: Some(commit),
            ..TABLE
        },
        Table {
            names: "stash",
            options: "-q,--quiet -u,--include-untracked -k,--keep-index -m,--message=D --index -a,--all -S,--staged !!-p,--patch",
            operands: Operands::Special,
            special: Some(work_tree),
            writes_nothing: false,
            subcommands: &[
                Table {
                    names: "list",
                    options: SILENT_LOG,
                    operands: Operands::Special,
                    special: Some(stashes),
                    ..TABLE
                },
                Table {
                    names: "show",
                    options: "-q,--quiet -u,--include-untracked --only-untracked --no-include-untracked --stat --oneline --numstat --shortstat \
                        --name-only --name-status --summary",
                    operands: Operands::Special,
                    special: Some(stashes),
                    ..TABLE
                },
            ],
            ..TABLE
        },
        Table {
            names: "tag",
            options: "-l,--list=*D -n=?D --sort=D --contains=*G --no-contains=*G --merged=*G --no-merged=*G --points-at=G --format=D --column=?D --no-column -i,--ignore-case --color=?D !-a,--annotate !-s,--sign !-d,--delete !-f,--force !-m,--message=D !-F,--file=R !-u=D !-v,--verify",
            operands: Operands::Special,
            special: Some(tag),
            ..TABLE
        },
        Table { names: "remote", options: NOTHING, operands: Operands::Special, special: Some(remote), ..TABLE },
        Table {
            names: "rm",
            options: "-f,--force -n,--dry-run !-r --cached --ignore-unmatch -q,--quiet --sparse --pathspec-from-file=F",
            operands: Operands::Special,
            special: Some(remove),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "mv",
            options: "-f,--force -k -n,--dry-run -v,--verbose --sparse",
            operands: Operands::Special,
            special: Some(moved),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "checkout",
            options: "-q,--quiet -f,--force --ours -2 --theirs -3 -b=D -B=D -d,--detach -m,--merge --conflict=D --orphan=D -l -t,--track=?D --no-track \
                --guess --no-guess --overlay --no-overlay --ignore-skip-worktree-bits --overwrite-ignore --no-overwrite-ignore --progress --no-progress \
                --ignore-other-worktrees --recurse-submodules=?D --no-recurse-submodules !!-p,--patch --pathspec-from-file=F --pathspec-file-nul",
            operands: Operands::Special,
            special: Some(work_tree),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "switch",
            options: "-q,--quiet -f,--force --discard-changes -c,--create=D -C,--force-create=D -d,--detach -m,--merge --conflict=D --orphan=D \
                -t,--track=?D --no-track --guess --no-guess --overwrite-ignore --progress --no-progress --ignore-other-worktrees \
                --recurse-submodules=?D --no-recurse-submodules",
            operands: Operands::Special,
            special: Some(work_tree),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "restore",
            options: "-q,--quiet -s,--source=G -S,--staged -W,--worktree -m,--merge --conflict=D --ours -2 --theirs -3 --ignore-unmerged --overlay \
                --no-overlay --ignore-skip-worktree-bits --progress --no-progress --recurse-submodules=?D --no-recurse-submodules !!-p,--patch \
                --pathspec-from-file=F --pathspec-file-nul",
            operands: Operands::Special,
            special: Some(work_tree),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "reset",
            options: "-q,--quiet --no-quiet --soft --mixed --hard --merge --keep -N,--intent-to-add --refresh --no-refresh --recurse-submodules=?D \
                --no-recurse-submodules !!-p,--patch --pathspec-from-file=F --pathspec-file-nul",
            operands: Operands::Special,
            special: Some(work_tree),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "revert cherry-pick",
            options: "-n,--no-commit --continue --abort --quit --skip -e,--edit --no-edit -m,--mainline=D -r -s,--signoff -x --ff -S,--gpg-sign=?D \
                --no-gpg-sign --strategy=D -X,--strategy-option=D --allow-empty --allow-empty-message --keep-redundant-commits --empty=D --cleanup=D \
                --rerere-autoupdate --no-rerere-autoupdate --reference",
            operands: Operands::Special,
            special: Some(work_tree),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "merge",
            options: "-q,--quiet -v,--verbose -n,--no-stat --stat --compact-summary -e,--edit --no-edit --commit --no-commit --ff --no-ff --ff-only --squash \
                --no-squash --log=?D --no-log --signoff --no-signoff -s,--strategy=D -X,--strategy-option=D -m,--message=D -F,--file=R --into-name=D \
                -S,--gpg-sign=?D --no-gpg-sign --verify-signatures --no-verify-signatures --progress --no-progress --autostash --no-autostash \
                --allow-unrelated-histories --rerere-autoupdate --no-rerere-autoupdate --overwrite-ignore --no-overwrite-ignore --cleanup=D --abort \
                --continue --quit --no-verify --verify",
            operands: Operands::Special,
            special: Some(work_tree),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "pull",
            options: "-q,--quiet -v,--verbose -n,--no-stat --stat --compact-summary -e,--edit --no-edit --commit --no-commit --ff --no-ff --ff-only --squash \
                --no-squash --log=?D --no-log --signoff --no-signoff -s,--strategy=D -X,--strategy-option=D -S,--gpg-sign=?D --no-gpg-sign \
                --verify-signatures --no-verify-signatures --progress --no-progress --autostash --no-autostash --allow-unrelated-histories --cleanup=D \
                --no-verify --verify -r,--rebase=?D --no-rebase -a,--append -f,--force --all -p,--prune -t,--tags --no-tags --prune-tags -j,--jobs=D -k,--keep --depth=D --deepen=D \
                --shallow-since=D --shallow-exclude=D --unshallow --update-shallow --refmap=D -o,--server-option=D -4,--ipv4 -6,--ipv6 --set-upstream \
                --dry-run --negotiation-tip=G --recurse-submodules=?D --no-recurse-submodules --atomic !!--upload-pack=D",
            operands: Operands::Special,
            special: Some(work_tree),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "clean",
            options: "-q,--quiet -d -f,--force -n,--dry-run -x -X -e,--exclude=D !!-i,--interactive",
            operands: Operands::Special,
            special: Some(work_tree),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "am",
            options: "-q,--quiet -3,--3way --no-3way -s,--signoff -u,--utf8 --no-utf8 -k,--keep --keep-non-patch -b --keep-cr --no-keep-cr -c,--scissors \
                --no-scissors -m,--message-id --no-message-id --quoted-cr=D --whitespace=D --ignore-space-change --ignore-whitespace --directory=D \
                --exclude=D --include=D -C=D -p=D --patch-format=D --reject --resolvemsg=D --continue -r,--resolved --skip --abort --quit --retry \
                --allow-empty --empty=D --committer-date-is-author-date --ignore-date --rerere-autoupdate --no-rerere-autoupdate -S,--gpg-sign=?D \
                --no-gpg-sign -n,--no-verify !!-i,--interactive !!--show-current-patch=?D",
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
            operands: Operands::Special,
            special: Some(init),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "apply",
            options: "--stat --numstat --summary --check --index --cached -3,--3way -R,--reverse --reject -z -p=D -C=D --inaccurate-eof --recount --unidiff-zero -v,--verbose -q,--quiet --whitespace=D --exclude=D --include=D --directory=D -N,--intent-to-add --allow-empty \
                --apply --allow-overlap --allow-binary-replacement --binary --ours --theirs --union --ignore-space-change --ignore-whitespace --no-add \
                --build-fake-ancestor=W !!--unsafe-paths",
            operands: Operands::Read,
            writes_nothing: false,
            special: Some(apply::apply),
            ..TABLE
        },
        Table {
            names: "rebase",
            options: "-q,--quiet -i,--interactive --onto=G --continue --abort --skip --autostash !!-x,--exec=D !!--show-current-patch=?D --root --no-ff -f -s,--strategy=D -X,--strategy-option=D --update-refs --autosquash --no-autosquash --keep-base --no-verify",
            operands: Operands::Special,
            special: Some(rebase),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "bisect submodule filter-branch",
            options: "!!-x,--extcmd=D !!--tree-filter=D !!--index-filter=D !!--msg-filter=D !!--env-filter=D !!--commit-filter=D !!--tag-name-filter=D !!--parent-filter=D",
            operands: Operands::Special,
            special: Some(runs),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "archive",
            options: "--format=D -l,--list -v,--verbose --prefix=D -o,--output=W --add-file=R --add-virtual-file=D --worktree-attributes !!--remote=D !!--exec=D -NUM",
            operands: Operands::Special,
            special: Some(archive),
            ..TABLE
        },
        Table {
            names: "format-patch",
            options: concat!(
                "-o,--output-directory=O --stdout -n,--numbered -N,--no-numbered -s,--signoff -v,--reroll-count=D --cover-letter --subject-prefix=D --in-reply-to=D --to=D --cc=D --attach=?D --inline=?D ",
                log_options!()
            ),
            operands: Operands::Special,
            special: Some(diff),
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
        // These reach contents by their ids, or write them to other paths, past the rules on paths.
        Table {
            names: "bundle commit-tree diagnose difftool fast-export fast-import merge-file merge-index merge-one-file mergetool mktag mktree \
                mailsplit pack-objects quiltimport read-tree replace request-pull unpack-file update-index update-ref",
            operands: Operands::Raw,
            special: Some(past_the_rules),
            ..TABLE
        },
        Table {
            names: "maintenance",
            options: "--auto --detach --no-detach --quiet --no-quiet --schedule=?D --task=D",
            operands: Operands::Special,
            special: Some(maintenance),
            writes_nothing: false,
            ..TABLE
        },
        Table {
            names: "mailinfo",
            options: "-k -b -m,--message-id -u -n --encoding=D --scissors --no-scissors --quoted-cr=D",
            operands: Operands::Write,
            special: Some(keeps),
            writes_nothing: false,
            ..TABLE
        },
        // They print ids, of files as well.
        Table {
            names: "fsck prune verify-pack",
            options: "--full --no-full --strict --no-dangling --dangling --connectivity-only --progress --no-progress --reflogs --no-reflogs --root --tags \
                --expire=D",
            operands: Operands::Revisions,
            special: Some(tells_ids),
            writes_nothing: false,
            ..TABLE
        },
        // Others, under `shell.default: allow` alone. One that is not named here may be an alias, or start a program.
        Table {
            names: "bugreport cherry column commit-graph config gc get-tar-commit-id hash-object help index-pack interpret-trailers last-modified multi-pack-index notes pack-redundant pack-refs patch-id prune-packed refs repack replay rerere show-index sparse-checkout stripspace symbolic-ref unpack-objects update-server-info verify-commit verify-tag write-tree",
            options: "!!--exec=D !!--upload-pack=D !!--receive-pack=D !!--extcmd=D !!--blob=D !!--reuse-message=D !!--reedit-message=D !!--stdin-paths --output=W -o=W -f,--file=R -F=R !!-C=D !!-c=D",
            operands: Operands::Special,
            special: Some(work_tree),
            writes_nothing: false,
            ..TABLE
        },
    ],
};

// If the repository's configuration names drivers, commands that start one are denied.
fn drivers(call: &Call<'_>) -> Result<(), Denial> {
    match call.cx.facts.git.drivers.first() {
        Some(driver) => {
            Err(call.deny(format!("it would start `{driver}` of the repository's configuration")).by("G11"))
        }
        None => Ok(()),
    }
}

fn diff(call: &mut Call<'_>) -> Result<(), Denial> {
    drivers(call)?;
    if call.values("--submodule").iter().any(|word| !word.text.starts_with("log") && !word.text.starts_with("short")) {
        return Err(call.deny("`--submodule=diff` shows files of another repository"));
    }
    let operands = std::mem::take(&mut call.operands);
    lines(call)?;
    if call.has("--no-index") {
        operands.iter().for_each(|word| call.read_tree(word, false));
        call.operands = operands;
        return Ok(());
    }
    let named = words(call, &operands, true)?;
    refuse_ids(call, named.revisions())?;
    let every = ["--all", "--branches", "--tags", "--remotes", "--glob", "--reflog", "-g"];
    if call.name.ends_with(" show") && every.iter().any(|name| call.has(name)) {
        refuse_held(call, "whatever a reference names", "name the commits")?;
    }
    if call.has("-L") {
        followed(call);
    } else if !call.name.ends_with(" show") && named.blobs().next().is_some() {
        // Two files that are named: git takes no pathspecs there.
        only_files(call, &named)?;
        if named.blobs().count() + named.paths().len() != operands.len() || call.dashes.is_some() {
            return Err(call.deny("files of a commit together with other revisions").hint("write `REVISION -- PATH`"));
        }
    } else {
        confine(call, &named, Order::OptionsFirst)?;
    }
    call.operands = operands;
    Ok(())
}

// `-L` shows lines of a file, which it would follow to earlier names.
fn followed(call: &mut Call<'_>) {
    let mut printed = call.words.to_vec();
    let at = printed.iter().rposition(|word| word.text == "--").unwrap_or(printed.len());
    printed.insert(at, Word::literal("--no-renames"));
    call.out.printed = Some(printed);
}

fn log(call: &mut Call<'_>) -> Result<(), Denial> {
    let silent = |name: &str| name == "-NUM" || name == "--literal-pathspecs" || arity(SILENT, name).is_some();
    let shows = call.has("-L") || call.found.iter().any(|found| !silent(&found.name));
    if shows && call.has("--follow") {
        let denial = call.deny("`--follow` shows a file under its earlier names");
        return Err(denial.hint("leave `--follow` out, or the patch"));
    }
    if shows {
        return diff(call);
    }
    revisions(call)
}

// Without a patch only names and messages are shown: a directory is not read.
fn revisions(call: &mut Call<'_>) -> Result<(), Denial> {
    let tells_ids =
        |name: &str| ["--object", "--filter", "--missing", "--indexed"].iter().any(|known| name.starts_with(known));
    if call.found.iter().any(|found| tells_ids(&found.name)) {
        refuse_held(call, "its id", "leave the objects out: then only commits are shown")?;
    }
    let operands = std::mem::take(&mut call.operands);
    let named = words(call, &operands, false)?;
    refuse_known_ids(call, named.revisions())?;
    call.operands = operands;
    Ok(())
}

fn blame(call: &mut Call<'_>) -> Result<(), Denial> {
    let operands = std::mem::take(&mut call.operands);
    let named = words(call, &operands, true)?;
    refuse_known_ids(call, named.revisions())?;
    call.operands = operands;
    Ok(())
}

fn reflog(call: &mut Call<'_>) -> Result<(), Denial> {
    let writes = |word: &Word| matches!(word.text.as_str(), "expire" | "delete" | "drop" | "write");
    if call.operands.first().is_some_and(writes) {
        call.out.writes_git = true;
        return if call.is_open() { Ok(()) } else { Err(call.deny("only the listing is allowed")) };
    }
    log(call)
}

fn cat_file(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.unknown {
        return Err(call.deny("an option that is not known might show what may not be read"));
    }
    let operands = std::mem::take(&mut call.operands);
    let named = words(call, &operands, true)?;
    if !["-t", "-s", "-e"].iter().any(|name| call.has(name)) {
        refuse_ids(call, named.revisions())?;
        let peels = |word: &Word| word.text == "tree" || word.text.contains("^{") && !word.text.contains("^{commit}");
        // A directory is shown as the ids of what is in it.
        if operands.iter().any(peels) || only_files(call, &named).is_err() {
            refuse_held(call, "the ids of its files", "write `git ls-tree --name-only`")?;
        }
    }
    call.operands = operands;
    Ok(())
}

// A tree that is not a commit's: what is in it has other paths there than the rules name.
fn refuse_tree(call: &Call<'_>, word: &Word) -> Result<(), Denial> {
    if !word.text.contains(':') {
        return Ok(());
    }
    let denial = call.deny(format!("`{}` has other paths than the rules name", word.text));
    Err(denial.hint("name a commit, and the paths after `--`"))
}

fn archive(call: &mut Call<'_>) -> Result<(), Denial> {
    let operands = std::mem::take(&mut call.operands);
    if operands.is_empty() {
        return Ok(());
    }
    let dashes = call.dashes.replace(1);
    let named = words(call, &operands, true)?;
    call.dashes = dashes;
    refuse_ids(call, named.revisions())?;
    named.blobs().try_for_each(|word| refuse_tree(call, word))?;
    confine(call, &named, Order::Mixed)?;
    call.operands = operands;
    Ok(())
}

// The old form, of three trees, shows contents.
fn merge_tree(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.operands.len() > 2 || call.unknown {
        return Err(call.deny("it shows contents in this form").hint("write `git merge-tree --write-tree A B`"));
    }
    let base = call.values("--merge-base");
    base.iter().chain(&call.operands).try_for_each(|word| refuse_tree(call, word))?;
    refuse_ids(call, &call.operands)?;
    if !call.has("--name-only") && !call.has("--quiet") {
        refuse_held(call, "its id", "write `--name-only`")?;
    }
    Ok(())
}

fn past_the_rules(call: &mut Call<'_>) -> Result<(), Denial> {
    Err(call.deny("it reaches contents past the rules on paths"))
}

// The id of a file tells of its contents.
fn ids(call: &mut Call<'_>) -> Result<(), Denial> {
    listing(call)?;
    call.values("--with-tree").iter().try_for_each(|word| refuse_tree(call, word))?;
    let names = ["--name-only", "--name-status"];
    let tree = call.name.ends_with(" ls-tree");
    let shows = match tree {
        true => !names.iter().any(|name| call.has(name)),
        false => ["-s", "-u", "--format", "--debug"].iter().any(|name| call.has(name)) || call.unknown,
    };
    refuse_known_ids(call, call.operands.iter().take(usize::from(tree)))?;
    if !shows {
        return Ok(());
    }
    let operands = std::mem::take(&mut call.operands);
    for word in operands.iter().skip(usize::from(tree)).filter(|word| word.literal && !word.text.starts_with(':')) {
        as_written(call, &word.text)?;
        call.read(word);
    }
    if let Some(word) = operands.first().filter(|_| tree) {
        one(call, &word.text, &Operand::Revision, false)?;
        refuse_held(call, "its id", "write `--name-only`")?;
    }
    if !tree {
        let before = call.dashes.replace(0);
        let named = words(call, &operands, false)?;
        call.dashes = before;
        confine(call, &named, Order::Mixed)?;
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
    // `git grep x -- path`: with the pattern after `--` nothing is left before it.
    if call.has("--no-index") {
        rest.iter().for_each(|word| call.read_tree(word, false));
        if rest.is_empty() {
            call.read_tree(&Word::literal("."), false);
        }
    } else if call.has("--recurse-submodules") {
        return Err(call.deny("`--recurse-submodules` searches other repositories"));
    } else {
        let named = words(call, &rest, true)?;
        refuse_ids(call, named.revisions())?;
        only_files(call, &named)?;
        confine(call, &named, Order::OptionsFirst)?;
    }
    call.operands = operands;
    Ok(())
}

// They take options of log and diff, but no pathspecs that could leave out what may not be read.
fn stashes(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.unknown || call.has("-L") {
        return Err(call.deny("an option might show what may not be read").hint("use `git stash show --stat`"));
    }
    if let Some(word) = call.operands.iter().find(|word| !word.literal || word.text.contains(':')) {
        return Err(call.deny(format!("`{}` is not a stash", word.text)));
    }
    refuse_ids(call, &call.operands)
}

// `-v` shows the staged change, even of files that must not be read: the printed command leaves it out.
fn status(call: &mut Call<'_>) -> Result<(), Denial> {
    listing(call)?;
    // The second form shows the ids of what changed.
    let shows_ids = call.values("--porcelain").iter().any(|word| !matches!(word.text.as_str(), "1" | "v1"));
    if shows_ids && call.has("-v") {
        return Err(call.deny("`-v` shows the staged change, whatever may be read").hint("leave `-v` out"));
    }
    if shows_ids {
        let operands = std::mem::take(&mut call.operands);
        let before = call.dashes.replace(0);
        let named = words(call, &operands, false)?;
        call.dashes = before;
        confine(call, &named, Order::Mixed)?;
        call.operands = operands;
        return Ok(());
    }
    if !call.has("-v") {
        return Ok(());
    }
    let verbose = |word: &Word| matches!(word.text.as_str(), "-v" | "-vv" | "--verbose");
    let kept: Vec<Word> = call.words.iter().filter(|word| !verbose(word)).cloned().collect();
    if kept.iter().any(|word| word.text.starts_with("--v") || is_bundle_with(&word.text, 'v')) {
        return Err(call.deny("`-v` shows the staged change, whatever may be read").hint("use `git diff --cached`"));
    }
    call.out.printed = Some(kept);
    Ok(())
}

fn is_bundle_with(word: &str, letter: char) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.contains(letter)
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
            && !is_exclusion(&word.text);
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

fn branch(call: &mut Call<'_>) -> Result<(), Denial> {
    formats(call)?;
    let changes = ["-d", "-D", "-m", "-M", "-c", "-C", "-f", "-t", "-u", "--unset-upstream", "--edit-description"];
    let lists = ["-l", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at", "--show-current"];
    if changes.iter().any(|name| call.has(name))
        || (!call.operands.is_empty() && !lists.iter().any(|name| call.has(name)))
    {
        call.out.writes_git = true;
        if !call.is_open() {
            return Err(call.deny("only listing branches is allowed").hint("use --list before a pattern"));
        }
        // The first one is the new branch, or the one that is changed.
        let revisions: Vec<Word> = call.operands.iter().skip(1).cloned().collect();
        revisions_named(call, &revisions)?;
    }
    Ok(())
}

fn tag(call: &mut Call<'_>) -> Result<(), Denial> {
    formats(call)?;
    let lists = ["-l", "-n", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at"];
    if !call.operands.is_empty() && !lists.iter().any(|name| call.has(name)) {
        call.out.writes_git = true;
        if !call.is_open() {
            return Err(call.deny("only listing tags is allowed"));
        }
        if let Some(word) = call.operands.iter().find(|word| word.text.contains(':')) {
            return Err(call.deny(format!("`{}` is not a commit", word.text)));
        }
        refuse_ids(call, &call.operands)?;
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
    // Directories: what git keeps of them in `.git` is not judged; a denied file that is named is.
    words(call, &operands, false)?;
    for word in &operands {
        // A directory all of whose files are denied.
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

/// Tells whether a subcommand speaks to other hosts.
pub(crate) fn reaches_hosts(table: &Table) -> bool {
    table.names.split_whitespace().any(|name| matches!(name, "fetch" | "push" | "remote"))
}

pub(super) fn keeps(call: &mut Call<'_>) -> Result<(), Denial> {
    call.out.writes_git = true;
    if call.operands.iter().any(|word| !word.literal) {
        return Err(call.deny("a word of it is not known"));
    }
    if let Some(word) = call.operands.iter().find(|word| word.text.starts_with("ext::")) {
        return Err(call.deny(format!("`{}` runs a program", word.text)).by("G11"));
    }
    on_this_machine(call)?;
    let moved = [call.values("-X"), call.values("-s"), call.values("--strategy")].concat();
    if let Some(word) = moved.iter().find(|word| word.text.starts_with("subtree")) {
        return Err(call.deny(format!("`{}` writes files to other paths", word.text)));
    }
    refuse_ids(call, moved.iter().chain(&call.operands))
}

// A repository by its path holds files under other paths than the rules name, and may be outside.
fn on_this_machine(call: &Call<'_>) -> Result<(), Denial> {
    if !["fetch", "pull", "push", "ls-remote"].iter().any(|name| call.name.ends_with(&format!(" {name}"))) {
        return Ok(());
    }
    // After an option that is not known the repository may be a later word.
    let several = if call.unknown { usize::MAX } else { 1 };
    for word in call.operands.iter().take(several) {
        let text = word.text.as_str();
        let path = !text.contains(':') && (text.contains('/') || text.starts_with(['.', '~']));
        if path || text.starts_with("file:") || text.contains("::") || call.node(text)? == Some(Node::Dir) {
            let denial = call.deny(format!("`{text}` is a repository on this machine, whose files no rule names"));
            return Err(denial.hint("name a remote of this repository"));
        }
    }
    Ok(())
}

// `register` and `start` write the user's own settings and timers.
fn maintenance(call: &mut Call<'_>) -> Result<(), Denial> {
    match call.operands.first() {
        Some(word) if word.text == "run" => keeps(call),
        _ => Err(call.deny("only `run` keeps to this repository")),
    }
}

fn rebase(call: &mut Call<'_>) -> Result<(), Denial> {
    keeps(call)?;
    revisions_named(call, &call.operands.clone())?;
    refuse_restored(call, &Kept::All)
}

// What a subcommand that was read brings from commits into the work tree; `paths` are the words that name some of it.
fn restored(call: &Call<'_>, first: &str, paths: &[String]) -> Kept {
    let has = |names: &[&str]| names.iter().any(|name| call.has(name));
    let makes_branch = call.operands.is_empty()
        && has(&["-b", "-B", "-c", "-C", "--orphan"])
        && !has(&["-f", "-m", "--discard-changes"])
        && !call.unknown;
    let subcommand = call.name.rsplit(' ').next().unwrap_or_default();
    match subcommand {
        "reset" if !has(&["--hard", "--merge", "--keep"]) && !call.unknown => Kept::Nothing,
        "checkout" | "switch" if makes_branch => Kept::Nothing,
        "checkout" if !paths.is_empty() => Kept::Paths(paths.to_vec()),
        "restore" if has(&["-S"]) && !has(&["-W"]) && !call.unknown => Kept::Nothing,
        "restore" => Kept::Paths(paths.to_vec()),
        "stash" if matches!(first, "drop" | "clear" | "create" | "store") => Kept::Nothing,
        "sparse-checkout" if matches!(first, "" | "list") => Kept::Nothing,
        "reset" | "checkout" | "switch" | "stash" | "revert" | "cherry-pick" | "merge" | "pull" | "am"
        | "quiltimport" | "sparse-checkout" => Kept::All,
        _ => Kept::Nothing,
    }
}

// Subcommands that change the work tree: a word that is a path there is read and written.
fn work_tree(call: &mut Call<'_>) -> Result<(), Denial> {
    drivers(call)?;
    keeps(call)?;
    let subcommand = call.name.rsplit(' ').next().unwrap_or_default().to_owned();
    let is = |name: &str| subcommand == name;
    if is("restore") {
        call.values("-s").iter().try_for_each(|word| refuse_tree(call, word))?;
    }
    let operands = std::mem::take(&mut call.operands);
    let before = call.dashes.unwrap_or(usize::MAX);
    let mut paths = Vec::new();
    for (index, word) in operands.iter().enumerate() {
        let kind = if index < before { Operand::Revision } else { Operand::Path };
        if index < before && (is("checkout") || is("restore") || is("reset") && !word.text.starts_with(':')) {
            refuse_tree(call, word)?;
        }
        let effects = call.out.effects.len();
        let is_path = one(call, &word.text, &kind, false)?;
        if index >= before || is_path && call.dashes.is_none() {
            paths.push(word.text.clone());
        }
        if is_path && !is("stash") {
            let read: Vec<Effect> = call.out.effects[effects..].to_vec();
            for effect in read {
                if let Effect::Read(path) = effect {
                    let folder = call.node(&path)? == Some(Node::Dir);
                    call.out.effects.push(if folder { Effect::WriteTree(path) } else { Effect::Write(path) });
                }
            }
        }
    }
    let first = operands.first().map(|word| word.text.clone()).unwrap_or_default();
    call.operands = operands;
    refuse_restored(call, &restored(call, &first, &paths))
}

// The index holds names as they are written, whatever the links of the work tree.
fn moved(call: &mut Call<'_>) -> Result<(), Denial> {
    call.operands.iter().filter(|word| word.literal).try_for_each(|word| as_written(call, &word.text))?;
    super::files::move_to(call)
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
