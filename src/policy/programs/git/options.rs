//! Lists the options of git in the form of the tables.

pub(super) const GLOBAL: &str = "--no-pager -P --no-optional-locks --literal-pathspecs -C=D --version --help -h \
    !!-c=K !!--config-env=D !!--exec-path=?D !!--git-dir=D !--work-tree=L !--namespace=D !-p,--paginate !--bare \
    !--no-replace-objects !--glob-pathspecs !--noglob-pathspecs !--icase-pathspecs !--attr-source=G !--super-prefix=D";

macro_rules! diff_options {
    ($more:literal) => {
        concat!(
            "-p,--patch,-u -s,--no-patch -U,--unified=?D --output-indicator-new=D --output-indicator-old=D --output-indicator-context=D \
            --raw --patch-with-raw --indent-heuristic --no-indent-heuristic --minimal --patience --histogram --anchored=D \
            --diff-algorithm=D --stat=?D --stat-width=D --stat-name-width=D --stat-count=D --stat-graph-width=D --compact-summary \
            --numstat --shortstat -X,--dirstat=?D --cumulative --dirstat-by-file=?D --summary --patch-with-stat -z --name-only --name-status \
            --submodule=?D --color=?D --no-color --color-moved=?D --no-color-moved --color-moved-ws=D --no-color-moved-ws --word-diff=?D \
            --word-diff-regex=D --color-words=?D --no-renames --rename-empty --no-rename-empty --check --ws-error-highlight=D --full-index \
            --binary --abbrev=?D --no-abbrev -B,--break-rewrites=?D -M,--find-renames=?D -C,--find-copies=?D --find-copies-harder \
            -D,--irreversible-delete -l=D --diff-filter=D -S=D -G=D !!--find-object=D --pickaxe-all --pickaxe-regex !!-O=R -R \
            --relative=?D --no-relative -a,--text --ignore-cr-at-eol --ignore-space-at-eol -b,--ignore-space-change \
            -w,--ignore-all-space --ignore-blank-lines -I,--ignore-matching-lines=D --inter-hunk-context=D -W,--function-context \
            --exit-code --quiet !!--ext-diff --no-ext-diff !!--textconv --no-textconv --ignore-submodules=?D --src-prefix=D \
            --dst-prefix=D --no-prefix --default-prefix --line-prefix=D --ita-invisible-in-index --ita-visible-in-index \
            --merge-base !!--stdin !!--indexed-objects !!--dd -c --cc --combined-all-paths --remerge-diff --diff-merges=D --no-diff-merges -m -t -r !--output=W \
            --skip-to=D --rotate-to=D --pathspec-file-nul --pathspec-from-file=F --end-of-options ",
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
        --full-history --dense --sparse --simplify-merges --ancestry-path=?G --date-order --author-date-order --topo-order \
        --reverse --follow !!--full-diff --log-size -L=D --no-walk=?D --do-walk !--show-signature --show-notes=?D --notes=?D --no-notes \
        --encoding=D --expand-tabs=?D --no-expand-tabs --mailmap --use-mailmap --no-mailmap --clear-decorations --parents --children \
        --show-linear-break=?D --count --relative-date --no-commit-id --root --cached --staged --ignore-missing --bisect \
        --no-show-signature --objects --timestamp --header --no-object-names -NUM"
    };
}

pub(super) const GREP: &str = "--cached !--no-index --index --untracked -v,--invert-match -i,--ignore-case -w,--word-regexp -a,--text -I !!--textconv \
    -r,--recursive --no-recursive --max-depth=D -E,--extended-regexp -G,--basic-regexp -F,--fixed-strings -P,--perl-regexp \
    -n,--line-number --column -h -H --full-name -l,--files-with-matches --name-only -L,--files-without-match -z,--null \
    -o,--only-matching -c,--count --color=?D --no-color --break --heading -C,--context=D -B,--before-context=D -A,--after-context=D \
    -NUM --threads=D -p,--show-function -W,--function-context -f=R -e=D --and --or --not --all-match -q,--quiet \
    !!-O,--open-files-in-pager=?D !!--ext-grep --exclude-standard --no-exclude-standard --recurse-submodules --parent-basename=D \
    -m,--max-count=D --no-textconv -y";

pub(super) const BRANCH: &str = "-a,--all -r,--remotes -l,--list -v,--verbose -q,--quiet --show-current --color=?D --no-color --column=?D --no-column \
    --sort=D --contains=*G --no-contains=*G --merged=*G --no-merged=*G --points-at=G --format=D -i,--ignore-case --abbrev=?D --no-abbrev \
    --omit-empty !-d,--delete !-D !-m,--move !-M !-c,--copy !-C !-f,--force !-t,--track=?D !--no-track !-u,--set-upstream-to=G \
    !--unset-upstream !--edit-description !--create-reflog !--recurse-submodules";

/// Options after which log shows no contents.
pub(super) const SILENT: &str = concat!(
    log_options!(),
    " -s --stat --stat-width --stat-name-width --stat-count --stat-graph-width --compact-summary --numstat --shortstat -X --cumulative \
    --dirstat-by-file --summary --name-only --name-status -z --color --no-color --no-renames --rename-empty --no-rename-empty -B -M -C \
    --find-copies-harder -D -l --diff-filter --relative --no-relative --quiet --exit-code --no-ext-diff --no-textconv --ignore-submodules \
    -t -r --abbrev --no-abbrev --no-diff-merges --end-of-options"
);

/// What `stash list` hands to log; no option that shows or searches contents.
pub(super) const SILENT_LOG: &str = concat!(
    "-s,--no-patch --stat=?D --shortstat --numstat --name-only --name-status --summary --color=?D --no-color --abbrev=?D -q,--quiet -z ",
    log_options!()
);

pub(super) use {diff_options, log_options};
