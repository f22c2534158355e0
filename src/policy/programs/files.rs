//! Tables for programs that create, copy, move, remove, pack and mark files.

use std::path::Path;

use super::Word;
use super::table::{Call, Known, Operands, Special, Style, TABLE, Table};
use super::tar::{TAR, tar};
use crate::path::{Node, RelPath};
use crate::policy::decision::Denial;
use crate::policy::effect::Effect;
use crate::policy::paths::{Place, walk};

const COPY: &str = "-a,--archive --attributes-only -b --backup=?D --copy-contents -d --debug -f,--force -i,--interactive -H -l,--link \
    -L,--dereference -n,--no-clobber -P,--no-dereference -p --preserve=?D --no-preserve=D --parents -R,--recursive -r --reflink=?D \
    --remove-destination --sparse=D --strip-trailing-slashes -s,--symbolic-link -S,--suffix=D -t,--target-directory=L \
    -T,--no-target-directory -u --update=?D -v,--verbose -x,--one-file-system -Z --context=?D --keep-directory-symlink --help --version \
    --exchange --no-copy -m,--mode=D -o,--owner=D -g,--group=D -D -C,--compare";

/// What packs single files, or unpacks them, each into one next to it.
const PACKER: Table = Table { operands: Operands::Special, writes_nothing: false, special: Some(compress), ..TABLE };

pub(crate) const TABLES: &[Table] = &[
    Table {
        names: "cp",
        options: COPY,
        operands: Operands::Special,
        writes_nothing: false,
        special: Some(copy),
        ..TABLE
    },
    Table {
        names: "mv",
        options: COPY,
        operands: Operands::Special,
        writes_nothing: false,
        special: Some(move_to),
        ..TABLE
    },
    Table {
        names: "install ginstall",
        options: "-d,--directory -m,--mode=D -v,--verbose -p -D -t,--target-directory=L -T,--no-target-directory -C,--compare -b -S,--suffix=D !-o,--owner=D !-g,--group=D !-s,--strip !!--strip-program=D",
        operands: Operands::Special,
        writes_nothing: false,
        special: Some(install),
        ..TABLE
    },
    Table {
        names: "rm unlink",
        options: "-f,--force -i -I --interactive=?D --one-file-system --no-preserve-root --preserve-root=?D !-r,-R,--recursive -d,--dir -v,--verbose --help --version",
        operands: Operands::Special,
        writes_nothing: false,
        special: Some(remove),
        ..TABLE
    },
    Table {
        names: "rmdir",
        options: "-p,--parents -v,--verbose --ignore-fail-on-non-empty --help --version",
        operands: Operands::Special,
        writes_nothing: false,
        special: Some(remove),
        ..TABLE
    },
    Table {
        names: "mkdir",
        options: "-m,--mode=D -p,--parents -v,--verbose !-Z --help --version",
        operands: Operands::Write,
        writes_nothing: false,
        ..TABLE
    },
    Table {
        names: "touch",
        options: "-a -c,--no-create -d,--date=D -f -h,--no-dereference -m -r,--reference=L -t=D --time=D --help --version",
        operands: Operands::Write,
        writes_nothing: false,
        ..TABLE
    },
    Table {
        names: "truncate",
        options: "-c,--no-create -o,--io-blocks -r,--reference=L -s,--size=D --help --version",
        operands: Operands::Write,
        writes_nothing: false,
        ..TABLE
    },
    Table {
        names: "chmod chown chgrp",
        options: "-c,--changes -f,--silent,--quiet -v,--verbose --dereference -h,--no-dereference --no-preserve-root --preserve-root --reference=L !-R,--recursive -H -L -P --help --version -r -w -x -X -s -t -u -g -o",
        operands: Operands::Special,
        writes_nothing: false,
        special: Some(mode),
        ..TABLE
    },
    Table {
        names: "ln",
        options: "-s,--symbolic -f,--force -n,--no-dereference -i,--interactive -r,--relative -v,--verbose -t,--target-directory=L -T,--no-target-directory -L,--logical -P,--physical -b -S,--suffix=D --backup=?D -d -F --help --version",
        operands: Operands::Special,
        writes_nothing: false,
        special: Some(link),
        ..TABLE
    },
    Table {
        names: "split",
        options: "-a,--suffix-length=D --additional-suffix=D -b,--bytes=D -C,--line-bytes=D -d --numeric-suffixes=?D -x --hex-suffixes=?D \
            -e,--elide-empty-files !!--filter=D -l,--lines=D -n,--number=D -t,--separator=D -u,--unbuffered --verbose -NUM --help --version",
        operands: Operands::Special,
        writes_nothing: false,
        special: Some(split),
        ..TABLE
    },
    Table {
        names: "csplit",
        options: "-b,--suffix-format=D -f,--prefix=D -k,--keep-files --suppress-matched -n,--digits=D -s,-q,--quiet,--silent -z,--elide-empty-files \
            --help --version",
        operands: Operands::Special,
        writes_nothing: false,
        special: Some(split),
        ..TABLE
    },
    Table {
        names: "gzip gunzip pigz unpigz",
        options: "-a,--ascii -c,--stdout,--to-stdout -d,--decompress,--uncompress -f,--force -k,--keep -l,--list -L,--license -n,--no-name -N,--name \
            -q,--quiet -r,--recursive --rsyncable --synchronous -S,--suffix=D -t,--test -v,--verbose -NUM --fast --best -p,--processes=D -h,--help \
            -V,--version",
        ..PACKER
    },
    Table {
        names: "bzip2 bunzip2",
        options: "-c,--stdout -d,--decompress -z,--compress -k,--keep -f,--force -t,--test -q,--quiet -v,--verbose -L,--license -s,--small -NUM \
            --fast --best --repetitive-fast --repetitive-best -h,--help -V,--version",
        ..PACKER
    },
    Table {
        names: "xz unxz lzma unlzma",
        options: "-z,--compress -d,--decompress,--uncompress -t,--test -l,--list -k,--keep -f,--force -c,--stdout,--to-stdout --single-stream --no-sparse \
            -S,--suffix=D !!--files=?D !!--files0=?D -F,--format=D -C,--check=D --ignore-check -NUM -e,--extreme --fast --best --block-size=D \
            -T,--threads=D -M,--memlimit,--memory=D --memlimit-compress=D --memlimit-decompress=D --no-adjust -q,--quiet -Q,--no-warn -v,--verbose \
            --robot -h,--help -H,--long-help -V,--version",
        ..PACKER
    },
    Table {
        names: "zstd unzstd zstdmt",
        options: "-NUM -z,--compress -d,--decompress,--uncompress -f,--force -k,--keep --rm -c,--stdout -o=W -t,--test -l,--list -r !!--filelist=D \
            --output-dir-flat=O --output-dir-mirror=O -D=R --patch-from=R -T=D --threads=D -q,--quiet -v,--verbose -V,--version -h,--help -H --ultra \
            --long=?D --fast=?D --adapt=?D --format=D --content-size --no-content-size --check --no-check --sparse --no-sparse --memory=D \
            --exclude-compressed --progress --no-progress --single-thread --rsyncable",
        style: Style::Last,
        ..PACKER
    },
    Table {
        names: "unzip",
        options: "-l -v -t -p -c -z -Z -T -o -n -u -f -j -q -a -b -B -C -D -L -M -s -V -W -X -P=D -O=D -I=D -d=D -x -h",
        operands: Operands::Special,
        style: Style::First,
        writes_nothing: false,
        special: Some(unzip),
        ..TABLE
    },
    Table {
        names: "tar gtar bsdtar",
        options: TAR,
        operands: Operands::Special,
        writes_nothing: false,
        special: Some(tar),
        ..TABLE
    },
    Table {
        names: "patch",
        options: "-p,--strip=D -i,--input=R -R,--reverse -N,--forward -s,--silent --dry-run -b,--backup --backup-if-mismatch \
            --no-backup-if-mismatch -z,--suffix=D !-B,--prefix=D !-Y,--basename-prefix=D -V,--version-control=D -l,--ignore-whitespace -u,--unified -c,--context \
            -n,--normal -f,--force -t,--batch -E,--remove-empty-files -F,--fuzz=D --binary --posix -Z,--set-utc -T,--set-time --read-only=D --no-strip-trailing-cr \
            --reject-format=D --merge=?D -o,--output=W -r,--reject-file=W -d,--directory=E !!-e,--ed --verbose --help -v,--version",
        operands: Operands::Special,
        writes_nothing: false,
        special: Some(patch),
        ..TABLE
    },
];

// A path inside a directory that exists: `DIR/NAME`.
fn into(folder: &str, source: &str) -> Result<String, String> {
    let name = source.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    if matches!(name, "" | "." | "..") {
        return Err(format!("the name that `{source}` gets there is unknown"));
    }
    Ok(format!("{}/{name}", folder.trim_end_matches('/')))
}

struct Pairs {
    pairs: Vec<(String, String)>,
}

// Which source goes where.
fn pairs(call: &Call<'_>) -> Result<Pairs, Denial> {
    let mut words = Vec::new();
    for word in &call.operands {
        if !word.literal {
            return Err(call.deny("a word of it is not known"));
        }
        words.push(word.text.clone());
    }
    let parents = call.has("--parents");
    let place = |folder: &str, source: &str| {
        if parents { Ok(format!("{}/{source}", folder.trim_end_matches('/'))) } else { into(folder, source) }
    };
    let failed = |what: String| call.deny(what);
    if let Some(folder) = call.values("-t").last() {
        let pairs: Result<Vec<_>, String> =
            words.iter().map(|source| Ok((source.clone(), place(&folder.text, source)?))).collect();
        return Ok(Pairs { pairs: pairs.map_err(failed)? });
    }
    let Some(last) = words.pop() else { return Err(call.deny("the operands are missing")) };
    if words.is_empty() {
        return Err(call.deny("the destination is missing"));
    }
    let node = call.node(&last)?;
    let named = last.ends_with('/') || matches!(last.rsplit('/').next(), Some("." | ".."));
    let made = node.is_none() && call.may_be_made(&last)?;
    // A directory that is removed before, or a link to one that `ln -n` replaces.
    let replaced = node == Some(Node::Dir)
        && (call.may_be_replaced(&last)? || call.name == "ln" && call.has("-n") && call.is_link(&last)?);
    let folder = !call.has("-T") && (node == Some(Node::Dir) || words.len() > 1 || named || parents || made);
    // From one of several directories the destination may be a directory, from another a file; one that is made may
    // fail to be.
    let doubtful = folder && (call.cx.folders.len() > 1 || made || replaced) && words.len() == 1;
    let plain = doubtful.then(|| (words[0].clone(), last.clone()));
    let pairs: Result<Vec<_>, String> = words
        .iter()
        .map(|source| Ok((source.clone(), if folder { place(&last, source)? } else { last.clone() })))
        .collect();
    let mut pairs = pairs.map_err(failed)?;
    pairs.extend(plain);
    Ok(Pairs { pairs })
}

// Everything that a copy of a source makes, path by path.
fn written(call: &mut Call<'_>, source: &str, target: &str) -> Result<(), Denial> {
    call.write(&Word::literal(target));
    if call.node(source)? != Some(Node::Dir) {
        return Ok(());
    }
    for folder in call.cx.folders {
        let resolved = call.cx.paths.resolve(folder, Path::new(source))?;
        let Some(Place::Workspace(start)) = call.cx.paths.place(&resolved.absolute) else { continue };
        let mut left = 2_000;
        let mut below = Vec::new();
        let mut visit = |path: &RelPath, _: &Node| {
            below.push(path.clone());
            Ok(true)
        };
        walk(call.cx.paths.tree(), call.cx.root, &start, &mut left, &mut visit)?;
        for path in below.iter().filter(|path| **path != start) {
            let tail = path.to_string_lossy();
            let tail = tail.strip_prefix(&start.to_string_lossy()).unwrap_or(&tail).trim_start_matches('/').to_owned();
            call.write(&Word::literal(format!("{}/{tail}", target.trim_end_matches('/'))));
        }
    }
    Ok(())
}

fn suffixes(call: &mut Call<'_>, target: &str) {
    if call.has("-b") || call.has("--backup") || call.has("-S") {
        let suffix = call.values("-S").last().map_or("~".to_owned(), |word| word.text.clone());
        call.write(&Word::literal(format!("{target}{suffix}")));
    }
}

fn copy(call: &mut Call<'_>) -> Result<(), Denial> {
    let recursive = call.has("-r") || call.has("-R") || call.has("-a");
    let links = call.has("-s") || call.has("-l");
    for (source, target) in pairs(call)?.pairs {
        if links {
            linked(call, &source, &target)?;
            continue;
        }
        if recursive {
            call.read_tree(&Word::literal(source.clone()), call.has("-L"));
            written(call, &source, &target)?;
        } else {
            call.read(&Word::literal(source));
            call.write(&Word::literal(target.clone()));
        }
        suffixes(call, &target);
    }
    Ok(())
}

/// Moves each source: it is removed and the destination written.
pub(crate) fn move_to(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.name.starts_with("git") {
        call.out.writes_git = true;
    }
    for (source, target) in pairs(call)?.pairs {
        if call.node(&source)? == Some(Node::Dir) {
            call.out.effects.push(Effect::tree(&source, false));
            call.out.effects.push(Effect::DeleteTree(source.clone()));
        } else {
            call.read(&Word::literal(source.clone()));
            call.out.effects.push(Effect::Delete(source.clone()));
        }
        written(call, &source, &target)?;
        suffixes(call, &target);
    }
    Ok(())
}

fn install(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.has("-d") {
        for word in call.operands.clone() {
            call.write(&word);
        }
        return Ok(());
    }
    copy(call)
}

fn remove(call: &mut Call<'_>) -> Result<(), Denial> {
    let recursive = call.has("-r") && call.name != "rmdir";
    for word in call.operands.clone() {
        if !word.literal {
            return Err(call.deny("what it removes is not known"));
        }
        call.effect(if recursive { Effect::DeleteTree } else { Effect::Delete }, &word);
        if call.name == "rmdir" && call.has("-p") {
            let mut path = word.text.as_str();
            while let Some((parent, _)) = path.trim_end_matches('/').rsplit_once('/') {
                call.effect(Effect::Delete, &Word::literal(parent));
                path = parent;
            }
        }
    }
    Ok(())
}

fn mode(call: &mut Call<'_>) -> Result<(), Denial> {
    // `-x` as a mode begins like an option; then every operand is a file.
    let mode_is_option = ["-r", "-w", "-x", "-X", "-s", "-t", "-u", "-g", "-o"].iter().any(|name| call.has(name))
        || call.has("--reference");
    let recursive = call.has("-R");
    for word in call.operands.clone().iter().skip(usize::from(!mode_is_option)) {
        if !word.literal {
            return Err(call.deny("what it changes is not known"));
        }
        if recursive {
            call.effect(Effect::WriteTree, word);
        }
        call.write(word);
    }
    Ok(())
}

// What a link points to can be reached through it: it must be readable, and writable as well for another name.
fn linked(call: &mut Call<'_>, target: &str, link: &str) -> Result<(), Denial> {
    let symbolic = call.has("-s");
    let seen_from = if symbolic && !target.starts_with('/') && !call.has("-r") && call.name != "cp" {
        match link.rsplit_once('/') {
            Some((folder, _)) => format!("{folder}/{target}"),
            None => target.to_owned(),
        }
    } else {
        target.to_owned()
    };
    call.read_tree(&Word::literal(seen_from.clone()), false);
    if !symbolic {
        call.write(&Word::literal(seen_from));
    }
    if !call.cx.paths.allows_links() && symbolic {
        return Err(call.deny("links may not be made (`paths.write.symlinks`)"));
    }
    call.write(&Word::literal(link));
    Ok(())
}

fn link(call: &mut Call<'_>) -> Result<(), Denial> {
    if call.operands.len() == 1 && !call.has("-t") {
        let target = call.operands[0].text.clone();
        let link = into(".", &target).map_err(|what| call.deny(what))?;
        return linked(call, &target, &link);
    }
    for (target, link) in pairs(call)?.pairs {
        linked(call, &target, &link)?;
    }
    Ok(())
}

// The parts are named by a start that is known and an end that is counted.
fn split(call: &mut Call<'_>) -> Result<(), Denial> {
    let operands = call.operands.clone();
    if let Some(word) = operands.iter().find(|word| !word.literal) {
        return Err(call.deny(format!("the word `{}` is not known", word.text)));
    }
    if let Some(input) = operands.first() {
        call.read(input);
    }
    let (given, default) = match call.name.as_str() {
        "csplit" => (call.values("-f").last().cloned(), "xx"),
        _ => (operands.get(1).cloned(), "x"),
    };
    let start = given.map_or_else(|| default.to_owned(), |word| word.text);
    let format = call.values("-b").last().filter(|_| call.name == "csplit").cloned();
    let tail = call.values("--additional-suffix").last().cloned();
    if let Some(word) = [&format, &tail].into_iter().flatten().find(|word| word.text.contains('/')) {
        return Err(call.deny(format!("`{}` points to another directory", word.text)));
    }
    for folder in call.cx.folders {
        call.cx.paths.write_beginning(folder, &start, format.is_none() && tail.is_none())?;
    }
    let tail = tail.map_or_else(String::new, |word| word.text);
    for part in ["aa", "ab", "00"] {
        call.write(&Word::literal(format!("{start}{part}{tail}")));
    }
    Ok(())
}

/// What packed files end in; a file without its ending gets the other name.
const PACKED: [&str; 15] =
    ["gz", "z", "tgz", "taz", "bz2", "bz", "tbz", "tbz2", "xz", "lzma", "txz", "tlz", "zst", "tzst", "lz4"];

/// Programs that unpack, by their names.
const UNPACKERS: &str = "gunzip bunzip2 unxz unzstd unlzma unpigz";

/// Tells whether a word is a program that makes the names of its results out of those of its files.
pub(crate) fn names_result(known: &Known, word: &Word) -> bool {
    let name = crate::policy::names::base_name(&word.text);
    (known.find)(name)
        .is_some_and(|table| table.special.is_some_and(|special| std::ptr::fn_addr_eq(special, compress as Special)))
}

fn compress(call: &mut Call<'_>) -> Result<(), Denial> {
    let shows = ["-c", "-l", "-t", "-o"].iter().any(|name| call.has(name));
    let unpacks = call.has("-d") || crate::policy::names::named(UNPACKERS, &call.name);
    if !shows && (call.has("-S") || unpacks && call.has("-N")) {
        return Err(call.deny("the names of its results are not known").hint("leave `-S` and `-N` out, or use `-c`"));
    }
    for word in call.operands.clone() {
        if !word.literal {
            return Err(call.deny("the files are not known"));
        }
        if call.has("-r") {
            call.read_tree(&word, false);
            if !shows {
                call.effect(Effect::WriteTree, &word);
            }
            continue;
        }
        call.read(&word);
        if shows {
            continue;
        }
        if !call.has("-k") {
            call.effect(Effect::Delete, &word);
        }
        if unpacks {
            // `FILE` stands for `FILE.gz` where that is all there is.
            let mut results = vec![format!("{}.out", word.text)];
            results.extend(call.node(&word.text)?.is_none().then(|| word.text.clone()));
            for suffix in PACKED {
                let stem = word.text.to_ascii_lowercase().strip_suffix(suffix).map_or(0, str::len);
                if let Some(stem) = word.text.get(..stem).and_then(|stem| stem.strip_suffix(['.', '-', '_'])) {
                    results.extend([stem.to_owned(), format!("{stem}.tar")]);
                }
            }
            results.iter().for_each(|result| call.write(&Word::literal(result.as_str())));
        } else {
            for suffix in ["gz", "bz2", "xz", "lzma", "zst"] {
                call.write(&Word::literal(format!("{}.{suffix}", word.text)));
            }
        }
    }
    Ok(())
}

// After the archive only `-d` and `-x` are options, and every other word is the name of a file in it; other versions take
// options there, too.
fn unzip(call: &mut Call<'_>) -> Result<(), Denial> {
    let operands = call.operands.clone();
    let Some((archive, rest)) = operands.split_first() else { return Ok(()) };
    if operands.iter().any(|word| !word.literal) {
        return Err(call.deny("a word of it is not known"));
    }
    if archive.text.contains(['*', '?', '[']) {
        return Err(call.deny(format!("`{}` is expanded by unzip itself: name one archive", archive.text)));
    }
    call.read(archive);
    let mut folders: Vec<String> = call.values("-d").into_iter().map(|word| word.text).collect();
    let mut rest = rest.iter().map(|word| word.text.as_str());
    while let Some(word) = rest.next() {
        match word.strip_prefix("-d") {
            Some("") => folders.extend(rest.next().map(str::to_owned)),
            Some(folder) => folders.push(folder.to_owned()),
            None if word.starts_with('-') && word != "-x" => {
                let denial = call.deny(format!("`{word}` after the archive may be an option or a name in it"));
                return Err(denial.hint("write the options before the archive"));
            }
            None => {}
        }
    }
    if !["-l", "-v", "-t", "-p", "-c", "-z", "-Z"].iter().any(|name| call.has(name)) {
        folders.extend(folders.is_empty().then(|| ".".to_owned()));
        call.out.effects.extend(folders.into_iter().map(Effect::WriteTree));
    }
    Ok(())
}

fn patch(call: &mut Call<'_>) -> Result<(), Denial> {
    let operands = call.operands.clone();
    match operands.as_slice() {
        [] => {
            // The patch names the files: what it may touch is everything here.
            call.write(&Word::literal("."));
            call.out.effects.push(Effect::WriteTree(".".to_owned()));
        }
        [file, rest @ ..] => {
            call.write(file);
            if call.has("-B") || call.has("-Y") {
                return Err(call.deny("the name of the backup is not known").hint("use only `-b`"));
            }
            for suffix in call.values("-z") {
                call.write(&Word::literal(format!("{}{}", file.text, suffix.text)));
            }
            rest.iter().for_each(|word| call.read(word));
        }
    }
    Ok(())
}
