//! The table of C and C++ compilers. Their options have one dash, long names and glued values, and some load code
//! (`-fplugin=`), start programs (`-wrapper`, `-B`) or take words from files (`@file`, `-specs=`): what is not listed is
//! denied.

use super::{Call, Denial, Operands, Style, TOOL, Table, Word};
use crate::path::RelPath;
use crate::policy::names::named;
use crate::policy::programs::Stdin;
use crate::policy::programs::unknown::words_as_paths;
use crate::policy::programs::word::is_plain_code;

pub(super) const TABLES: &[Table] = &[
    Table {
        names: "gcc g++ cc c++ clang clang++",
        options: "",
        operands: Operands::Raw,
        special: Some(compiles),
        ..TOOL
    },
    Table {
        names: "clang-tidy",
        options: "-checks=D -warnings-as-errors=D -quiet -fix -fix-errors -fix-notes -format-style={none|file|llvm|google|webkit|mozilla} \
            -header-filter=D -exclude-header-filter=D -line-filter=D -list-checks -explain-config -dump-config -verify-config -use-color=?D \
            -allow-no-checks -enable-check-profile -export-fixes=W -extra-arg=D -extra-arg-before=D -config-file={.clang-tidy} -version -help \
            -p=I !-config=P !-load=R !-plugins=R !-vfsoverlay=R !-store-check-profile=O",
        operands: Operands::Special,
        style: Style::SingleDash,
        special: Some(tidied),
        ..TOOL
    },
];

const FLAGS: &str = "-c -S -E -P -C -v -w -s -g -O -pipe -pthread -ansi -pedantic -pedantic-errors -shared -static -static-libgcc \
    -static-libstdc++ -static-pie -pie -no-pie -rdynamic -nostdlib -nostdinc -nostdinc++ -nostartfiles -nodefaultlibs -M -MM -MD -MMD -MP \
    -MG -Qunused-arguments -save-temps --coverage -print-search-dirs -print-multiarch -dumpversion -dumpfullversion -dumpmachine -dM -### \
    -Q --analyze";

/// Options with a value, attached or in the next word: files that are written, directories and files that are read, text.
const WRITTEN: [&str; 2] = ["-o", "-MF"];
const READ: [&str; 7] = ["-isystem", "-iquote", "-idirafter", "-include", "-imacros", "-I", "-L"];
const TEXT: [&str; 6] = ["-D", "-U", "-MT", "-MQ", "-x", "-l"];

/// Names before `=` of options that begin with `-f` and name no file.
const CHOICES: &str = "-fsanitize -fno-sanitize -fsanitize-recover -fno-sanitize-recover -fvisibility -fdiagnostics-color -fcolor-diagnostics -flto \
    -fmax-errors -ferror-limit -fmessage-length -ftemplate-depth -fconstexpr-depth -fcf-protection -ftrivial-auto-var-init -fstrict-flex-arrays \
    -ffp-contract -ffp-model -fexcess-precision -fopenmp -ftabstop -fdiagnostics-show-location -ftls-model -falign-functions -finline-limit";

/// Beginnings of options of the family `-m` whose value, a path or code, is the next word.
const VALUES: [&str; 4] = ["-mllvm", "-mmlir", "-module", "-mthread-model"];

/// Beginnings of options about what debuggers read.
const GDB: &str =
    "-ggdb -gdwarf -gsplit-dwarf -gz -gno- -gline- -gcolumn-info -gstabs -gbtf -gctf -gstrict-dwarf -glldb -gmlt";

/// What may be passed on to the linker.
const TO_LINKER: &str = "--as-needed --no-as-needed --gc-sections -z relro now noexecstack defs --no-undefined --fatal-warnings -s -S --strip-all \
    --strip-debug -O1 -O2 --whole-archive --no-whole-archive --start-group --end-group -Bstatic -Bdynamic -dead_strip --build-id \
    --export-dynamic -E";

/// Beginnings of options that have more files written, beside the one that is named.
const MAKES: &str = "-MD -MMD -save-temps --coverage --analyze -gsplit-dwarf -fdump -fsave -fprofile -fcs-profile -fcreate-profile -fmemory-profile \
    -fcoverage -ftest-coverage -ftime-trace -ftime-report -fstack-usage -fcallgraph-info -fopt-info -fauto-profile -fcompare-debug -frepo \
    -fmodule -fmodules -fcxx-modules -fimplicit-module -fbuiltin-module -fpch -femit -fdeps -fcrash -fproc-stat -fxray -fthin -flto -fgnu-rtl -fada -fgo \
    -fdiagnostics-format -fdiagnostics-add -fdiagnostics-set -fdiagnostics-generate -fplugin -fpass";

/// Ends of names of sources, objects and libraries. Any other file would be read as words for the linker.
const FILES: &str = "c cc cp cpp cxx c++ C CPP h hh hpp hxx h++ i ii m mm s S sx o obj a so";

fn compiles(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.is_open() {
        return words_as_paths(call, &call.words[1..]);
    }
    compiled(call, &call.words[1..])
}

/// Judges the options and files of a compiler, which other tools take as well.
pub(super) fn compiled(call: &mut Call<'_>, all: &[Word]) -> Result<(), Denial> {
    inline(call, all)?;
    let mut words = all.iter();
    let mut to_nowhere = false;
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        if !word.literal {
            return Err(call.deny(format!("the word `{text}` is not known")));
        }
        if !text.starts_with('-') {
            operand(call, word)?;
            continue;
        }
        if let Some(linked) = text.strip_prefix("-Wl,") {
            passed_to_linker(call, linked)?;
            continue;
        }
        // Its source is its standard input.
        if text == "-" || is_flag(text) {
            continue;
        }
        let options = WRITTEN.into_iter().chain(READ).chain(TEXT).filter(|option| text.starts_with(option));
        let Some(option) = options.max_by_key(|option| option.len()) else {
            return Err(call.deny(format!("the option `{text}` is not known to be harmless")));
        };
        let value = match &text[option.len()..] {
            "" => words.next().cloned(),
            glued => Some(Word { text: glued.to_owned(), literal: word.literal }),
        };
        let is_output = |value: &Word| option == "-o" && value.text == "-";
        let known = |value: &Word| value.literal && (is_output(value) || !value.text.starts_with(['-', '@', '=']));
        let Some(value) = value.filter(known) else {
            return Err(call.deny(format!("the value of `{option}` is not known")));
        };
        if WRITTEN.contains(&option) && value.text == "/dev/null" {
            to_nowhere = true;
        } else if WRITTEN.contains(&option) {
            call.write(&value);
        } else if READ.contains(&option) {
            call.read(&value);
        } else if value.text.contains(['/', '\\']) && !matches!(option, "-D" | "-U") {
            return Err(call.deny(format!("`{}` may be a path", value.text)));
        }
    }
    let makes_more = |text: &str| MAKES.split_whitespace().any(|start| text.starts_with(start));
    match all.iter().find(|word| to_nowhere && makes_more(&word.text)) {
        Some(word) => Err(call.deny(format!("`{}` may write a file beside `/dev/null`", word.text))),
        None => Ok(()),
    }
}

// What it compiles from its standard input: a file is judged as one that is named, text must be plain C or C++.
fn inline(call: &Call<'_>, words: &[Word]) -> Result<(), Denial> {
    let texts = || words.iter().map(|word| word.text.as_str());
    let given = |name: &'static str| {
        let apart = texts().zip(texts().skip(1)).filter(move |(option, _)| *option == name).map(|(_, value)| value);
        apart.chain(texts().filter_map(move |text| text.strip_prefix(name)).filter(|value| !value.is_empty()))
    };
    let is_plain = || given("-x").all(|language| named("c c++", language)) && given("-D").all(is_plain_code);
    let is_judged = match call.cx.stdin {
        Stdin::Empty | Stdin::Taken | Stdin::File => true,
        Stdin::Plain => is_plain(),
        Stdin::Pipe | Stdin::Data => false,
    };
    if is_judged || !texts().any(|text| text == "-") {
        return Ok(());
    }
    Err(call.deny("what it compiles on its standard input may name files").hint("write it to a file, and name that"))
}

// Words for the linker, of which some name a file that it writes, or directories that it and the program look into.
fn passed_to_linker(call: &mut Call<'_>, words: &str) -> Result<(), Denial> {
    let mut words = words.split(',');
    while let Some(word) = words.next() {
        let (name, attached) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        let value = match name {
            "-Map" | "-rpath" | "-soname" | "--soname" | "-h" => attached.or_else(|| words.next()).unwrap_or_default(),
            _ if named(TO_LINKER, word) => continue,
            _ => "",
        };
        if value.is_empty() || value.starts_with(['-', '@']) || value.contains('%') {
            return Err(call.deny(format!("`{word}` for the linker is not known to be harmless")));
        }
        match name {
            "-Map" => call.write(&Word::literal(value)),
            "-soname" | "--soname" | "-h" if !value.contains('/') => {}
            _ => value.split(':').filter(|path| *path != "$ORIGIN").for_each(|path| call.read(&Word::literal(path))),
        }
    }
    Ok(())
}

// Options that are one word, and name no file.
pub(super) fn is_flag(text: &str) -> bool {
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "-+=_.,".contains(c));
    let family = |start: &str| text.starts_with(start) && plain(text);
    match text.split_once('=') {
        _ if named(FLAGS, text) => true,
        _ if text.starts_with("-Wa,") || text.starts_with("-Wp,") => false,
        // Some compilers have options with a value in the next word among these.
        _ if text.starts_with("-g") => named("-g0 -g1 -g2 -g3", text) || GDB.split(' ').any(family),
        _ if VALUES.iter().any(|start| text.starts_with(start)) => false,
        Some(("-fuse-ld", linker)) => named("lld gold mold bfd", linker),
        Some((name, _)) if text.starts_with("-f") => named(CHOICES, name) && plain(text),
        _ => ["-f", "-W", "-m", "-O", "-std=", "-stdlib=", "-print-", "--help=", "--target="].into_iter().any(family),
    }
}

// `clang-tidy src/a.c -- -I.`, `clang-tidy -p build src/a.c`. Of options that it takes from a database it leaves out those that
// load plugins; those in its configuration may load code: that must be as it was.
fn tidied(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.is_open() {
        return words_as_paths(call, &call.words[1..]);
    }
    let given = [call.values("-extra-arg"), call.values("-extra-arg-before")].concat();
    let fixes = ["-fix", "-fix-errors", "-fix-notes"].iter().any(|option| call.has(option));
    let all = call.operands.clone();
    let (sources, options) = all.split_at(call.dashes.unwrap_or(all.len()));
    for word in sources {
        operand(call, word)?;
        if fixes {
            call.write(word);
        }
        for folder in call.cx.folders {
            let Some(path) = folder.join(&word.text) else {
                return Err(call.deny(format!("`{}` is not a path below the directory", word.text)));
            };
            let above = std::iter::successors(path.parent(), RelPath::parent);
            call.out.unchanged.extend(above.filter_map(|folder| folder.child(".clang-tidy")));
        }
    }
    compiled(call, &[given.as_slice(), options].concat())
}

fn operand(call: &mut Call<'_>, word: &Word) -> Result<(), Denial> {
    let name = word.text.rsplit('/').next().unwrap_or_default();
    let is_file = name.rsplit_once('.').is_some_and(|(_, end)| named(FILES, end));
    if word.text == "/dev/null" {
        return Ok(());
    }
    if !is_file {
        return Err(call.deny(format!("`{}` is not known to be a source, an object or a library", word.text)));
    }
    call.inside(word)
}
