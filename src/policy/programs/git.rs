//! Judges git: its global options, its subcommands, and which of their words are paths.

mod apply;
mod attached;
mod changes;
mod content;
mod held;
mod history;
mod keeps;
#[cfg(test)]
mod names_tests;
mod objects;
mod options;
mod shows;
#[cfg(test)]
mod tests;
mod words;

use super::table::{Dashes, Operands, Style, TABLE, Table};
use changes::{add, branch, commit, config, maintenance, moved, rebase, remote, remove, symbolic_ref, tag, work_tree};
use held::{clone, formats, ids_of_words, init, runs, submodules, tells_ids, worktree};
use keeps::keeps;
use options::{BRANCH, GLOBAL, GREP, SILENT_LOG, diff_options, log_options};
use shows::{archive, blame, cat_file, diff, grep, ids, log, merge_tree, past_the_rules, reflog, revisions};
use shows::{stashes, status};

pub(crate) use attached::attached;
pub(crate) use content::revisions_named;
pub(crate) use keeps::reaches_hosts;

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
            names: "rev-list",
            options: concat!("--use-bitmap-index !!--stdin ", log_options!()),
            style: Style::Whole,
            operands: Operands::Special,
            special: Some(revisions),
            ..TABLE
        },
        Table {
            names: "shortlog",
            options: concat!("-s,--summary -n,--numbered -e,--email --group=D -w=?D !!--stdin ", log_options!()),
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
        Table {
            names: "symbolic-ref",
            options: "-q,--quiet --short --no-recurse !-d,--delete !-m=D",
            operands: Operands::Data,
            special: Some(symbolic_ref),
            ..TABLE
        },
        Table {
            names: "remote",
            options: "-v,--verbose -q,--quiet -n",
            operands: Operands::Special,
            special: Some(remote),
            ..TABLE
        },
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
            names: "submodule",
            operands: Operands::Special,
            special: Some(runs),
            writes_nothing: false,
            subcommands: &[Table {
                names: "status",
                options: "--cached -q,--quiet",
                operands: Operands::List,
                special: Some(submodules),
                ..TABLE
            }],
            ..TABLE
        },
        Table {
            names: "bisect filter-branch",
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
            subcommands: &[Table {
                names: "list",
                options: "--porcelain -v,--verbose -z --expire=D",
                operands: Operands::None,
                ..TABLE
            }],
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
        Table {
            names: "config",
            options: "--get --get-all -z,--null --name-only --type=D --bool --int --default=D --local --global --system --show-scope ~-f,--file=R !-F=R \
                !!--blob=D",
            operands: Operands::Special,
            special: Some(config),
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
            names: "bugreport cherry column commit-graph gc get-tar-commit-id hash-object help index-pack interpret-trailers last-modified multi-pack-index notes pack-redundant pack-refs patch-id prune-packed refs repack replay rerere show-index sparse-checkout stripspace unpack-objects update-server-info verify-commit verify-tag write-tree",
            options: "!!--exec=D !!--upload-pack=D !!--receive-pack=D !!--extcmd=D !!--blob=D !!--reuse-message=D !!--reedit-message=D !!--stdin-paths --output=W -o=W -f,--file=R -F=R !!-C=D !!-c=D",
            operands: Operands::Special,
            special: Some(work_tree),
            writes_nothing: false,
            ..TABLE
        },
    ],
};
