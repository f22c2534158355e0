//! Tables for programs that read, print or compare files.

use super::search::{grep, patterns, rg};
use super::table::{Call, Operands, Style, TABLE, Table};
use super::word::Word;
use crate::path::Node;
use crate::policy::decision::Denial;
use crate::policy::effect::{Effect, Pattern};

const SORT: &str = "-b,--ignore-leading-blanks -d,--dictionary-order -f,--ignore-case -g,--general-numeric-sort \
    -i,--ignore-nonprinting -M,--month-sort -h,--human-numeric-sort -n,--numeric-sort -R,--random-sort \
    --random-source=R -r,--reverse --sort=D -V,--version-sort --batch-size=D -c --check=?D -C !!--compress-program=D \
    --debug --files0-from=F -k,--key=D -m,--merge !-o,--output=W -s,--stable -S,--buffer-size=D -t,--field-separator=D \
    !-T,--temporary-directory=W --parallel=D -u,--unique -z,--zero-terminated --help --version";

const GREP: &str = "-E,--extended-regexp -F,--fixed-strings -G,--basic-regexp -P,--perl-regexp -e,--regexp=D -f,--file=R \
    -i,--ignore-case -y --no-ignore-case -v,--invert-match -w,--word-regexp -x,--line-regexp -c,--count \
    --color,--colour=?D -L,--files-without-match -l,--files-with-matches -m,--max-count=D -o,--only-matching -q,--quiet,--silent \
    -s,--no-messages -b,--byte-offset -H,--with-filename -h,--no-filename --label=D -n,--line-number -T,--initial-tab \
    -u,--unix-byte-offsets -Z,--null -A,--after-context=D -B,--before-context=D -C,--context=D -NUM --group-separator=D \
    --no-group-separator -a,--text --binary-files=D -D,--devices=D -d,--directories=D --exclude=D --exclude-from=R \
    --exclude-dir=D -I --include=D -r,--recursive -R,--dereference-recursive --line-buffered -U,--binary -z,--null-data \
    -V,--version --help";

const RG: &str = "-e,--regexp=D -f,--file=R --files -s,--case-sensitive -i,--ignore-case -S,--smart-case -v,--invert-match \
    --no-invert-match -w,--word-regexp -x,--line-regexp -F,--fixed-strings --no-fixed-strings -P,--pcre2 --no-pcre2 --engine=D \
    -U,--multiline --no-multiline --multiline-dotall --crlf --no-crlf --null-data -a,--text --no-text --mmap --no-mmap \
    -m,--max-count=D --max-columns=D -M=D --max-columns-preview -A,--after-context=D -B,--before-context=D -C,--context=D \
    --context-separator=D --no-context-separator --field-context-separator=D --field-match-separator=D -n,--line-number \
    -N,--no-line-number --column --no-column -b,--byte-offset -c,--count --count-matches -l,--files-with-matches \
    --files-without-match -o,--only-matching -p,--pretty --color=D --colors=D --heading --no-heading -H,--with-filename \
    -I,--no-filename -0,--null --vimgrep -r,--replace=D --passthru,--passthrough -q,--quiet --json --no-json --stats --no-stats \
    --sort=D --sortr=D --sort-files --trim --no-trim -g,--glob=D --iglob=D --glob-case-insensitive -t,--type=D -T,--type-not=D \
    --type-add=D --type-clear=D --type-list -d,--max-depth,--maxdepth=D --max-filesize=D -.,--hidden --no-hidden --no-ignore \
    --ignore --no-ignore-dot --no-ignore-exclude --no-ignore-files --no-ignore-global --no-ignore-parent --no-ignore-vcs \
    --no-ignore-messages --ignore-file=R --ignore-file-case-insensitive --no-require-git --require-git -u,--unrestricted \
    -L,--follow --no-follow --one-file-system --binary --no-binary -E,--encoding=D --no-encoding -j,--threads=D \
    --dfa-size-limit=D --regex-size-limit=D --block-buffered --line-buffered --no-block-buffered --no-line-buffered \
    --no-unicode --unicode --no-messages --messages --no-config --debug --trace !!--pre=D !--pre-glob=D --no-pre \
    !!--hostname-bin=D --hyperlink-format=D !-z,--search-zip --no-search-zip --include-zero --path-separator=D \
    --stop-on-nonmatch --print0 --no-glob-case-insensitive --no-max-columns-preview --no-byte-offset --no-multiline-dotall \
    --no-one-file-system --no-include-zero --no-ignore-file-case-insensitive --pcre2-unicode --no-pcre2-unicode --no-sort-files --generate=D \
    --no-auto-hybrid-regex --auto-hybrid-regex -h,--help -V,--version --pcre2-version";

const LS: &str = "-a,--all -A,--almost-all --author -b,--escape --block-size=D -B,--ignore-backups -c -C --color=?D \
    -d,--directory -D,--dired -f -F --classify=?D --file-type --format=D --full-time -g --group-directories-first -G,--no-group \
    -h,--human-readable --si -H,--dereference-command-line --dereference-command-line-symlink-to-dir --hide=D --hyperlink=?D \
    --indicator-style=D -i,--inode -I,--ignore=D -k,--kibibytes -l -L,--dereference -m -n,--numeric-uid-gid -N,--literal -o -p \
    -q,--hide-control-chars --show-control-chars -Q,--quote-name --quoting-style=D -r,--reverse -R,--recursive -s,--size -S \
    --sort=D --time=D --time-style=D -t -T,--tabsize=D -u -U -v -w,--width=D -x -X -Z,--context --zero -1 --help --version";

const DIFF: &str = "--normal -q,--brief -s,--report-identical-files -c -C=D --context=?D -u -U=D --unified=?D -NUM -e,--ed -n,--rcs \
    -y,--side-by-side -W,--width=D --left-column --suppress-common-lines -p,--show-c-function -F,--show-function-line=D \
    --label=D -L=D -t,--expand-tabs -T,--initial-tab --tabsize=D --suppress-blank-empty !-l,--paginate -r,--recursive \
    --no-dereference -N,--new-file -P --unidirectional-new-file --ignore-file-name-case --no-ignore-file-name-case -x,--exclude=D \
    -X,--exclude-from=R -S,--starting-file=D --from-file=L --to-file=L -i,--ignore-case -E,--ignore-tab-expansion \
    -Z,--ignore-trailing-space -b,--ignore-space-change -w,--ignore-all-space -B,--ignore-blank-lines -I,--ignore-matching-lines=D \
    -a,--text --strip-trailing-cr -D,--ifdef=D --GTYPE-group-format=D --line-format=D --old-line-format=D \
    --new-line-format=D --unchanged-line-format=D --old-group-format=D --new-group-format=D --unchanged-group-format=D \
    --changed-group-format=D -d,--minimal --horizon-lines=D --speed-large-files --color=?D --palette=D --help -v,--version";

const TREE: &str = "-a -d -l -f -x -L=D -R -P=D -I=D --gitignore --gitfile=R --ignore-case --matchdirs --metafirst !!--info \
    --infofile=R --noreport --charset=D --filelimit=D !-o=W -q -N -Q -p -u -g -s -h --si --du -D --timefmt=D -F --inodes --device \
    -v -t -c -U -r --dirsfirst --filesfirst --sort=D -i -A -S -n -C -X -J -H=D -T=D --nolinks --hintro=R --houtro=R \
    --fromfile --fromtabfile --prune --help --version";

const NONE: &str = "--help --version";

/// What shows pages of the system by their names.
const PAGES: Table = Table { operands: Operands::Special, special: Some(pages), ..TABLE };

pub(crate) const TABLES: &[Table] = &[
    Table { names: "ls dir vdir", options: LS, operands: Operands::List, special: Some(ls), ..TABLE },
    Table {
        names: "nl",
        options: "-b,--body-numbering=D -d,--section-delimiter=D -f,--footer-numbering=D -h,--header-numbering=D \
            -i,--line-increment=D -l,--join-blank-lines=D -n,--number-format=D -p,--no-renumber -s,--number-separator=D \
            -v,--starting-line-number=D -w,--number-width=D --help --version",
        ..TABLE
    },
    Table {
        names: "cat tac",
        options: "-A,--show-all -b,--number-nonblank -e -E,--show-ends -n,--number -s,--squeeze-blank -t -T,--show-tabs -u \
            -v,--show-nonprinting --help --version",
        special: None,
        ..TABLE
    },
    Table {
        names: "head",
        options: "-c,--bytes=D -n,--lines=D -q,--quiet,--silent -v,--verbose -z,--zero-terminated -NUM --help --version",
        ..TABLE
    },
    Table {
        names: "tail",
        options: "-c,--bytes=D -f --follow=?D -F -n,--lines=D --max-unchanged-stats=D --pid=D -q,--quiet,--silent --retry \
            -s,--sleep-interval=D -v,--verbose -z,--zero-terminated -NUM --help --version",
        ..TABLE
    },
    Table {
        names: "wc",
        options: "-c,--bytes -m,--chars -l,--lines --files0-from=F -L,--max-line-length -w,--words --total=D --help --version",
        ..TABLE
    },
    Table {
        names: "grep egrep fgrep",
        options: GREP,
        operands: Operands::TextThenRead("-e,-f"),
        special: Some(grep),
        ..TABLE
    },
    Table {
        names: "rg",
        options: RG,
        operands: Operands::TextThenRead("-e,-f,--files,--type-list"),
        style: Style::Whole,
        special: Some(rg),
        ..TABLE
    },
    Table { names: "sort", options: SORT, ..TABLE },
    Table {
        names: "uniq",
        options: "-c,--count -d,--repeated -D --all-repeated=?D -f,--skip-fields=D --group=?D -i,--ignore-case -s,--skip-chars=D \
            -u,--unique -w,--check-chars=D -z,--zero-terminated --help --version",
        operands: Operands::Special,
        special: Some(uniq),
        ..TABLE
    },
    Table {
        names: "cut",
        options: "-b,--bytes=D -c,--characters=D -d,--delimiter=D -f,--fields=D -n --complement -s,--only-delimited \
            --output-delimiter=D -z,--zero-terminated --help --version",
        ..TABLE
    },
    Table {
        names: "tr",
        options: "-c,-C,--complement -d,--delete -s,--squeeze-repeats -t,--truncate-set1 --help --version",
        operands: Operands::Data,
        style: Style::First,
        ..TABLE
    },
    Table { names: "diff", options: DIFF, operands: Operands::Special, special: Some(diff), ..TABLE },
    Table {
        names: "stat",
        options: "-L,--dereference -f,--file-system --cached=D -c,--format=D --printf=D -t,--terse --help --version",
        operands: Operands::List,
        ..TABLE
    },
    Table {
        names: "file",
        options: "-b,--brief -c,--checking-printout !!-C,--compile -d --debug -e,--exclude=D --exclude-quiet=D --extension -E \
            -F,--separator=D -f,--files-from=F -h,--no-dereference -i,--mime --apple --mime-type --mime-encoding -k,--keep-going \
            -l,--list -L,--dereference -m,--magic-file=D -N,--no-pad -n,--no-buffer -p,--preserve-date -P,--parameter=D -r,--raw \
            -s,--special-files -S,--no-sandbox -v,--version !-z,--uncompress !-Z,--uncompress-noreport -0,--print0 --help",
        special: Some(file),
        ..TABLE
    },
    Table {
        names: "tree",
        options: TREE,
        operands: Operands::List,
        style: Style::Whole,
        special: Some(tree_program),
        ..TABLE
    },
    Table {
        names: "du",
        options: "-0,--null -a,--all --apparent-size -B,--block-size=D -b,--bytes -c,--total -D,--dereference-args -d,--max-depth=D \
            --files0-from=F -H -h,--human-readable --inodes -k -L,--dereference -l,--count-links -m -P,--no-dereference \
            -S,--separate-dirs --si -s,--summarize -t,--threshold=D --time=?D --time-style=D -X,--exclude-from=R --exclude=D \
            -x,--one-file-system --help --version",
        operands: Operands::List,
        special: Some(du),
        ..TABLE
    },
    Table {
        names: "df",
        options: "-a,--all -B,--block-size=D -h,--human-readable -H,--si -i,--inodes -k -l,--local -P,--portability -T,--print-type \
            --total --output=?D --help --version",
        operands: Operands::List,
        ..TABLE
    },
    Table {
        names: "basename",
        options: "-a,--multiple -s,--suffix=D -z,--zero --help --version",
        operands: Operands::Data,
        ..TABLE
    },
    Table { names: "dirname", options: "-z,--zero --help --version", operands: Operands::Data, ..TABLE },
    Table {
        names: "realpath",
        options: "-e,--canonicalize-existing -m,--canonicalize-missing -L,--logical -P,--physical -q,--quiet --relative-to=L \
            --relative-base=L -s,--strip,--no-symlinks -z,--zero --help --version",
        operands: Operands::List,
        ..TABLE
    },
    Table {
        names: "readlink",
        options: "-f,--canonicalize -e,--canonicalize-existing -m,--canonicalize-missing -n,--no-newline -q,--quiet -s,--silent \
            -v,--verbose -z,--zero --help --version",
        operands: Operands::List,
        ..TABLE
    },
    Table {
        names: "seq",
        options: "-f,--format=D -s,--separator=D -w,--equal-width -NUM --help --version",
        operands: Operands::Data,
        style: Style::First,
        ..TABLE
    },
    Table { names: "rev", options: "-0,--zero -h,--help -V,--version", ..TABLE },
    Table { names: "paste", options: "-d,--delimiters=D -s,--serial -z,--zero-terminated --help --version", ..TABLE },
    Table {
        names: "comm",
        options: "-1 -2 -3 --check-order --nocheck-order --output-delimiter=D --total -z,--zero-terminated --help --version",
        ..TABLE
    },
    Table {
        names: "join",
        options: "-a=D -e=D -i,--ignore-case -j=D -o=D -t=D -v=D -1=D -2=D --check-order --nocheck-order --header -z --help --version",
        ..TABLE
    },
    Table { names: "fold", options: "-b,--bytes -s,--spaces -w,--width=D -NUM --help --version", ..TABLE },
    Table {
        names: "fmt",
        options: "-c,--crown-margin -p,--prefix=D -s,--split-only -t,--tagged-paragraph -u,--uniform-spacing -w,--width=D -g,--goal=D -NUM --help --version",
        ..TABLE
    },
    Table {
        names: "expand unexpand",
        options: "-a,--all --first-only -i,--initial -t,--tabs=D -NUM --help --version",
        ..TABLE
    },
    Table {
        names: "column",
        options: "-t,--table -s,--separator=D -o,--output-separator=D -N,--table-columns=D -R,--table-right=D -T,--table-truncate=D \
            -H,--table-hide=D -J,--json -n,--table-name=D -c,--output-width=D -x,--fillrows -L,--keep-empty-lines -e,--table-header-repeat -d \
            -h,--help -V,--version",
        ..TABLE
    },
    Table {
        names: "date",
        options: "-d,--date=D -f,--file=R -I,--iso-8601=?D -R,--rfc-email --rfc-3339=D -r,--reference=L -u,--utc,--universal \
            --debug !-s,--set=D --help --version",
        operands: Operands::Data,
        special: Some(clock),
        ..TABLE
    },
    Table {
        names: "sha256sum sha1sum sha224sum sha384sum sha512sum md5sum b2sum cksum",
        options: "-a,--algorithm=D -b,--binary -c,--check --tag -t,--text -z,--zero --ignore-missing --quiet --status --strict -w,--warn \
            -l,--length=D --untagged --raw --base64 --help --version",
        special: Some(sums),
        ..TABLE
    },
    Table {
        names: "shasum",
        options: "-a,--algorithm=D -b,--binary -c,--check -t,--text -U -0 -q,--quiet -s,--status -h,--help -v,--version",
        special: Some(sums),
        ..TABLE
    },
    Table {
        names: "od",
        options: "-A,--address-radix=D -j,--skip-bytes=D -N,--read-bytes=D -S=D --strings=?D -t,--format=D -v,--output-duplicates \
            -w,--width=?D --traditional --endian=D -a -b -c -d -f -i -l -o -s -x --help --version",
        ..TABLE
    },
    Table {
        names: "hexdump hd",
        options: "-b -c -C,--canonical -d -o -x -e=D -f=R -n=D -s=D -v -h,--help -V,--version",
        ..TABLE
    },
    Table {
        names: "xxd",
        options: "-a,-autoskip -b,-bits -c,-cols=D -C,-capitalize -d -E,-EBCDIC -e -g,-group,-groupsize=D -h,-help -i,-include -l,-len=D \
            -n,-name=D -o,-offset=D -p,-ps,-plain,-postscript -r,-revert -s,-seek,-skip=D -t -u,-uppercase -v,-version -R=D",
        operands: Operands::Special,
        style: Style::SingleDash,
        special: Some(xxd),
        ..TABLE
    },
    Table {
        names: "strings",
        options: "-a,--all -f,--print-file-name -n,--bytes=D -t,--radix=D -o -e,--encoding=D -s=D -w -d -NUM -h,--help -v,--version",
        ..TABLE
    },
    Table {
        names: "cmp",
        options: "-b,--print-bytes -i,--ignore-initial=D -l,--verbose -n,--bytes=D -s,--quiet,--silent --help -v,--version",
        ..TABLE
    },
    Table { names: "base64 base32", options: "-d,--decode -i,--ignore-garbage -w,--wrap=D --help --version", ..TABLE },
    Table { names: "tsort", options: NONE, ..TABLE },
    Table {
        names: "zcat gzcat",
        options: "-f,--force -h,--help -k,--keep -l,--list -n,--no-name -q,--quiet -r,--recursive -v,--verbose -V,--version",
        operands: Operands::Special,
        special: Some(unpacked),
        ..TABLE
    },
    Table { names: "true false :", options: NONE, operands: Operands::Data, ..TABLE },
    Table {
        names: "which",
        options: "-a,--all -s --skip-alias --skip-functions --help --version",
        operands: Operands::Data,
        ..TABLE
    },
    Table { names: "type", options: "-a -f -p -P -t", operands: Operands::Data, ..TABLE },
    Table {
        names: "man",
        options: "-k,--apropos -f,--whatis -w,--where,--path,--location -a,--all -s,-S,--sections=N -h,--help -V,--version !!-C,--config-file=D !!-P,--pager=D !!-H,--html=?D",
        ..PAGES
    },
    Table {
        names: "info",
        options: "-a,--all -k,--apropos=D -n,--node=D -O,--usage -w,--where,--location -h,--help --version",
        ..PAGES
    },
    Table {
        names: "uname arch nproc hostname whoami id groups uptime tty logname",
        options: "-a,--all -s -n -r -v -m -p -i -o -u -g -G --all --help --version",
        operands: Operands::None,
        ..TABLE
    },
    Table {
        names: "printenv env",
        options: "-0,--null --help --version",
        operands: Operands::Special,
        special: Some(environment),
        ..TABLE
    },
    Table {
        names: "sleep expr factor numfmt echo printf pwd test [",
        options: "",
        operands: Operands::Data,
        style: Style::First,
        special: None,
        ..TABLE
    },
    Table { names: "exit break continue", options: "", operands: Operands::Data, ..TABLE },
    Table {
        names: "tee",
        options: "-a,--append -i,--ignore-interrupts -p --output-error=?D --help --version",
        operands: Operands::Write,
        ..TABLE
    },
    Table {
        names: "shellcheck",
        options: "!!-a,--check-sourced -C,--color=?D -i,--include=D -e,--exclude=D -f,--format=D --list-optional --norc --rcfile=R \
            -o,--enable=D ~-P,--source-path=T -s,--shell=D -S,--severity=D -V,--version -W,--wiki-link-count=D ~-x,--external-sources --help",
        ..TABLE
    },
];

// The environment that a command sees is one of an allow list; a program after `env` was dealt with by the shell.
fn environment(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.name == "env" && !call.operands.is_empty() {
        return Err(call.deny("a program or an assignment after `env`").by("G4"));
    }
    Ok(())
}

// A list of sums names the files that are read.
// `date MMDDhhmm` sets the clock.
fn clock(call: &mut Call<'_>) -> Result<(), Denial> {
    match call.operands.iter().find(|word| !word.text.starts_with('+')) {
        None => Ok(()),
        Some(word) => Err(call.deny(format!("`{}` may set the clock", word.text)).hint("write a format after `+`")),
    }
}

fn sums(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.has("-c") {
        let denial = call.deny("the files that the list names are not known");
        return Err(denial.hint("print the sums of the files that you name, and compare them"));
    }
    Ok(())
}

fn unpacked(call: &mut Call<'_>) -> Result<(), Denial> {
    let recursive = call.has("-r");
    for word in call.operands.clone() {
        if recursive { call.read_tree(&word, false) } else { call.read(&word) }
    }
    Ok(())
}

// Its options end at the first file: a word with a dash after that is the file to write.
fn xxd(call: &mut Call<'_>) -> Result<(), Denial> {
    if !call.words.ends_with(&call.operands) {
        return Err(call.deny("an option after the file").hint("write the options before the file"));
    }
    uniq(call)
}

fn uniq(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.unknown {
        return Err(call.deny("which of its words is written is not known: an option is not known"));
    }
    let operands = std::mem::take(&mut call.operands);
    if let Some(input) = operands.first() {
        call.read(input);
    }
    if let Some(output) = operands.get(1) {
        if !call.is_open() {
            return Err(call.deny(format!("the second operand `{}` would be written", output.text)));
        }
        call.write(output);
    }
    call.operands = operands;
    Ok(())
}

// `ls -RL` goes through links.
fn ls(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.has("-R") && call.has("-L") {
        call.through_links()?;
    }
    Ok(())
}

fn du(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.has("-L") { call.through_links() } else { Ok(()) }
}

// Magic files are separated by colons; of a directory every file is read, and lines that are no magic are printed.
fn file(call: &mut Call<'_>) -> Result<(), Denial> {
    for value in call.values("-m") {
        for path in value.text.split(':').filter(|path| !path.is_empty()) {
            call.read_tree(&Word::literal(path), true);
        }
    }
    Ok(())
}

fn tree_program(call: &mut Call<'_>) -> Result<(), Denial> {
    // The value of a letter is the next word, and what is after the letter are more letters: each is read as such
    // only at the end of its word. Newer versions take a number after `-L`, older ones do not.
    let hides = |word: &Word| {
        let letters = word.text.strip_prefix('-').filter(|letters| !letters.starts_with('-')).unwrap_or_default();
        letters.find(['L', 'P', 'I', 'H', 'T', 'o']).is_some_and(|at| {
            let rest = &letters[at + 1..];
            !(rest.is_empty() || letters[at..].starts_with('L') && rest.bytes().all(|byte| byte.is_ascii_digit()))
        })
    };
    let words = call.words[1..].iter().take_while(|word| word.text != "--");
    if let Some(word) = words.into_iter().find(|word| hides(word)) {
        let denial = call.deny(format!("letters after one that takes a value in `{}`", word.text));
        return Err(denial.hint("write each option that takes a value separately, followed by its value"));
    }
    if call.has("-l") {
        call.through_links()?;
    }
    // `-R` with `-L` runs tree again in each directory and writes 00Tree.html there.
    // The names come out of the files then.
    if call.has("--fromfile") || call.has("--fromtabfile") {
        for word in call.operands.clone() {
            call.read(&word);
        }
    }
    if call.has("-R") && (call.has("-o") || call.has("-H")) {
        return Err(call.deny("`-R` writes files"));
    }
    Ok(())
}

fn diff(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.unknown {
        return Err(call.deny("which of its words are files is not known: an option is not known"));
    }
    let operands = std::mem::take(&mut call.operands);
    let given = [call.values("--from-file"), call.values("--to-file")].concat();
    if given.is_empty() {
        for word in &operands {
            let other = operands.iter().find(|other| *other != word).filter(|_| operands.len() == 2);
            compared(call, word, other)?;
        }
    }
    for one in &given {
        for other in &operands {
            compared(call, one, Some(other))?;
            compared(call, other, Some(one))?;
        }
    }
    call.operands = operands;
    Ok(())
}

// What is missing is an empty directory or file to these options: the other side is shown whole.
fn is_folder(call: &Call<'_>, word: &Word) -> Result<bool, Denial> {
    let node = call.node(&word.text)?;
    let fills = || ["-N", "-P", "--unidirectional-new-file"].iter().any(|name| call.has(name)) || call.unknown;
    Ok(node == Some(crate::path::Node::Dir) || node.is_none() && fills())
}

fn compared(call: &mut Call<'_>, word: &Word, other: Option<&Word>) -> Result<(), Denial> {
    if !word.literal || word.text == "-" {
        return Ok(());
    }
    if call.has("-r") {
        call.out.effects.push(Effect::ReadTree {
            path: word.text.clone(),
            // diff follows links unless it is told not to.
            follow_links: !call.has("--no-dereference"),
            left_out: patterns(call, "-x", Pattern::Name),
            only: Vec::new(),
            skips_hidden: false,
        });
    }
    match other {
        Some(other) if is_folder(call, word)? => folder_and_file(call, word, other)?,
        _ => call.read(word),
    }
    Ok(())
}

// `diff DIR FILE` compares DIR/FILE, and `diff DIR DIR` every file directly in both.
fn folder_and_file(call: &mut Call<'_>, folder: &Word, other: &Word) -> Result<(), Denial> {
    if is_folder(call, other)? {
        if !call.has("-r") {
            call.read_tree(folder, true);
        }
    } else {
        let name = other.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        call.out.effects.push(Effect::Read(format!("{}/{name}", folder.text)));
    }
    Ok(())
}

// A page that has no name of the system is a file of this directory, and a page may take in other files.
fn pages(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.unknown {
        return Err(call.deny("an option of it may name a file").hint("name a section and a page"));
    }
    for word in call.operands.clone() {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._+:@-[ ".contains(c);
        let named = !word.text.starts_with('.') && word.text.chars().all(plain);
        if !word.literal || !named || call.node(&word.text)?.is_some_and(|node| node != Node::Dir) {
            let denial = call.deny(format!("`{}` may be a file", word.text));
            return Err(denial.hint("name a section and a page; read files with `cat`"));
        }
        call.read(&word);
    }
    Ok(())
}
