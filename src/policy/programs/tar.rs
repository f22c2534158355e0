//! Judges tar: what it packs, and where it unpacks to.

use super::Word;
use super::table::{Call, Table};
use crate::policy::decision::Denial;
use crate::policy::effect::{Effect, Pattern};

pub(super) const TAR: &str = "-c,--create -x,--extract,--get -t,--list -r,--append -u,--update -d,--diff,--compare -A,--catenate,--concatenate --delete \
    --test-label -f,--file=D -C,--directory=D -v,--verbose -z,--gzip,--gunzip,--ungzip -j,--bzip2 -J,--xz --zstd --lzma --lzip --lzop -Z,--compress \
    -a,--auto-compress --no-auto-compress -k,--keep-old-files --skip-old-files --keep-newer-files --overwrite -U,--unlink-first -m,--touch \
    -p,--preserve-permissions,--same-permissions --no-same-permissions --same-owner --no-same-owner -o -s --numeric-owner --owner=D --group=D \
    --mode=D --mtime=D --strip-components=D --transform,--xform=D --wildcards --no-wildcards --anchored --no-anchored --ignore-case \
    --exclude=D -X,--exclude-from=R --exclude-vcs --exclude-vcs-ignores --exclude-caches --exclude-backups --exclude-ignore=D --no-recursion \
    --recursion -h,--dereference --hard-dereference -S,--sparse -w,--interactive --totals --format=D -H=D --posix --label=D -V=D -O,--to-stdout \
    --show-transformed-names --sort=D --full-time --utc -R,--block-number -W,--verify --warning=D --occurrence=?D --one-file-system -l \
    --no-overwrite-dir --overwrite-dir --null --no-null --add-file=T --one-top-level=?O -b,--blocking-factor=D -N,--newer=D --ignore-failed-read --xattrs \
    --acls --selinux --checkpoint=?D -i,--ignore-zeros --force-local --quoting-style=D -n --help --version -q --pax-option=D --exclude-tag=D \
    !-M,--multi-volume !-L,--tape-length=D !-K,--starting-file=D !-B,--read-full-records !-G,--incremental !--level=D !--seek !--no-seek !--check-device !--no-check-device \
    !--clamp-mtime !--exclude-ignore-recursive=D !--exclude-caches-all !--exclude-caches-under !--exclude-tag-all=D !--exclude-tag-under=D \
    !--hole-detection=D !--keep-directory-symlink !--owner-map=R !--group-map=R !--newer-mtime=D !--after-date=D !--no-ignore-command-error !--ignore-command-error \
    !--no-quote-chars=D !--quote-chars=D !--old-archive,--portability !--preserve-order !--recursive-unlink !--record-size=D !--sparse-version=D !--no-xattrs !--no-acls \
    !--no-selinux !--xattrs-include=D !--xattrs-exclude=D !--unquote !--no-unquote !--show-defaults !--show-omitted-dirs !--delay-directory-restore \
    !--no-delay-directory-restore !--wildcards-match-slash !--no-wildcards-match-slash !--no-ignore-case !--volno-file=W !!--set-mtime-command=D \
    !!--checkpoint-action=D !!-I,--use-compress-program=D !!--to-command=D !!--rsh-command=D !!--rmt-command=D \
    !!-F,--info-script,--new-volume-script=D !-P,--absolute-names -T,--files-from=F !-g,--listed-incremental=W !--index-file=W !--remove-files";

pub(super) fn tar(call: &mut Call<'_>) -> Result<(), Denial> {
    let words = call.words[1..].to_vec();
    if let Some(first) = words.first()
        && !first.text.starts_with('-')
        && first.literal
    {
        return old_style(call, &first.text, &words[1..]);
    }
    tar_read(call)
}

// `tar czf FILE …`: the first word bundles letters, and each that takes a value takes a later word in turn.
fn old_style(call: &mut Call<'_>, letters: &str, rest: &[Word]) -> Result<(), Denial> {
    let mut values = rest.iter();
    let mut words: Vec<Word> = Vec::new();
    for letter in letters.chars() {
        if !letter.is_ascii_alphabetic() {
            return Err(call.deny(format!("`{letter}` among its letters")));
        }
        words.push(Word::literal(format!("-{letter}")));
        if matches!(letter, 'f' | 'C' | 'X' | 'b' | 'H' | 'V' | 'N' | 'I' | 'F' | 'T' | 'g' | 'K' | 'L') {
            words.push(values.next().cloned().ok_or_else(|| call.deny(format!("`{letter}` needs a value")))?);
        }
    }
    words.extend(values.cloned());
    call.found.clear();
    call.operands.clear();
    call.dashes = None;
    let table = Table { special: None, ..*(call.cx.known.find)("tar").expect("tar has a table") };
    call.parse(&table, &words)?;
    tar_read(call)
}

fn tar_read(call: &mut Call<'_>) -> Result<(), Denial> {
    if let Some(word) = call.operands.iter().find(|word| !word.literal) {
        return Err(call.deny(format!("the word `{}` is not known", word.text)));
    }
    if call.unknown {
        return Err(call.deny("an option of it is not known"));
    }
    for time in call.values("--mtime").iter().filter(|time| time.text.starts_with(['/', '.'])) {
        call.read(time);
    }
    let makes = ["-c", "-r", "-u", "-A", "--delete"].iter().any(|name| call.has(name));
    let (extracts, compares) = (call.has("-x"), call.has("-d"));
    if compares && !call.is_open() {
        return Err(call.deny("`-d` reads the files that the archive names"));
    }
    if extracts && !call.is_open() && call.has("--transform") {
        return Err(call.deny("`--transform` changes where the files go"));
    }
    archives(call, makes)?;
    if makes || compares {
        packs(call);
    }
    if extracts && !call.has("-O") {
        unpacks(call);
    } else if !makes && !extracts && !compares && !call.has("-t") && !call.has("--test-label") {
        return Err(call.deny("what it is to do is not known"));
    }
    if call.has("-t") || call.has("-O") || compares {
        call.out.writes |= makes || extracts && !call.has("-O");
    }
    Ok(())
}

fn archives(call: &mut Call<'_>, makes: bool) -> Result<(), Denial> {
    let archives = call.values("-f");
    // `host:file` is an archive elsewhere, fetched by another program.
    if let Some(archive) = archives.iter().find(|archive| archive.text.contains(':') && !call.has("--force-local")) {
        return Err(call.deny(format!("the archive `{}` is on another machine", archive.text)));
    }
    for archive in archives.iter().filter(|archive| archive.text != "-") {
        if makes {
            call.write(archive);
        }
        if !makes || call.has("-r") || call.has("-u") || call.has("-A") {
            call.read(archive);
        }
    }
    Ok(())
}

// `-C` moves along among the operands, each from where the one before led.
fn moves(call: &Call<'_>) -> Vec<(usize, String)> {
    let moves = call.found.iter().filter(|found| found.name == "-C");
    moves.filter_map(|found| Some((found.at, found.value.as_ref()?.text.clone()))).collect()
}

fn folder_at(moves: &[(usize, String)], operand: usize) -> String {
    let before = moves.iter().filter(|(at, _)| *at <= operand);
    before.fold(String::new(), |folder, (_, next)| join(&folder, next))
}

fn packs(call: &mut Call<'_>) {
    let moves = moves(call);
    for (index, word) in call.operands.clone().iter().enumerate() {
        let folder = folder_at(&moves, index);
        call.out.effects.push(Effect::ReadTree {
            path: join(&folder, word.text.trim_start_matches('@')),
            follow_links: call.has("-h"),
            left_out: left_out(call, !folder.is_empty()),
            only: Vec::new(),
            skips_hidden: false,
        });
    }
}

fn unpacks(call: &mut Call<'_>) {
    let moves = moves(call);
    for index in 0..=call.operands.len() {
        let folder = folder_at(&moves, index);
        let target = Effect::WriteTree(if folder.is_empty() { ".".to_owned() } else { folder });
        let starts_here = index == 0 || moves.iter().any(|(at, _)| *at == index);
        if starts_here && !call.out.effects.contains(&target) {
            call.out.effects.push(target);
        }
    }
}

// What `--exclude` leaves out: only where it is before every operand, and as tar reads patterns by default. After `-C`
// tar does not see the directory as part of a path: there a pattern counts for single names.
fn left_out(call: &Call<'_>, moved: bool) -> Vec<Pattern> {
    let otherwise = ["--anchored", "--no-wildcards", "--no-wildcards-match-slash"].iter().any(|name| call.has(name));
    let before = call.found.iter().filter(|found| found.name == "--exclude" && found.at == 0 && !otherwise);
    let texts = before.filter_map(|found| Some(found.value.as_ref()?.text.clone()));
    texts
        .filter(|text| !(text.ends_with('/') || moved && text.contains('/')))
        .map(if moved { Pattern::Name } else { Pattern::PathEnd })
        .collect()
}

fn join(folder: &str, path: &str) -> String {
    if path.starts_with('/') || folder.is_empty() {
        path.to_owned()
    } else {
        format!("{}/{path}", folder.trim_end_matches('/'))
    }
}
