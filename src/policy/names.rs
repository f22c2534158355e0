//! Compares names of programs and variables.

/// Variables that may be set before a command (`NAME=value command`): they make no known program run another.
const HARMLESS: &str = "CI RUST_BACKTRACE RUST_LOG NO_COLOR FORCE_COLOR CLICOLOR TERM LANG LC_ALL LC_CTYPE LC_COLLATE LC_MESSAGES LC_NUMERIC LC_TIME TZ NODE_ENV DEBUG COLUMNS";

/// Returns the last part of a program's path.
pub(crate) fn base_name(program: &str) -> &str {
    program.trim_end_matches('/').rsplit('/').next().unwrap_or(program)
}

/// Compilers and their kin, of which systems install several versions side by side.
const VERSIONED: &str = "gcc g++ clang clang++ clang-format clang-tidy";

/// Returns the name of a program without the version that some have in it (`gcc-13`).
pub(crate) fn unversioned(name: &str) -> &str {
    let is_version = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.rsplit_once('-')
        .filter(|(plain, version)| named(VERSIONED, plain) && is_version(version))
        .map_or(name, |(plain, _)| plain)
}

/// Tells whether a word is among names that are separated by spaces.
pub(crate) fn named(names: &str, word: &str) -> bool {
    names.split_whitespace().any(|name| name == word)
}

/// Tells whether a variable may have this value before any command: it changes what is printed and loads nothing.
pub(crate) fn is_harmless_setting(name: &str, value: &str) -> bool {
    named(HARMLESS, name) && keeps_charset(name, value)
}

/// Settings of git that change only how it prints; the values are names, numbers or `cat`.
const DISPLAY: &str = "core.quotepath core.abbrev diff.noprefix diff.mnemonicprefix diff.context diff.colormoved log.date log.decorate \
    log.abbrevcommit advice.statushints status.short status.branch status.showuntrackedfiles column.ui";

/// Tells whether a setting that is given to git for one command (`core.pager=cat`) changes only how it prints.
pub(crate) fn is_display_setting(setting: &str) -> bool {
    let (name, value) = setting.split_once('=').unwrap_or((setting, "true"));
    let name = name.to_ascii_lowercase();
    let is_word = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let switches = named("false never always auto true", value);
    match name.as_str() {
        "core.pager" => value == "cat",
        "core.fsmonitor" => value == "false",
        _ if name == "color.ui" || name.starts_with("color.") && !name[6..].contains('.') => switches,
        _ if name.starts_with("pager.") => value == "false",
        _ => named(DISPLAY, &name) && is_word,
    }
}

/// Values that switch something on or off, or choose how much a build optimises.
const SWITCHES: &str =
    "on off true false yes no enabled disabled auto debug release relwithdebinfo minsizerel debugoptimized";

/// Words in names whose values, whatever they are, may be programs, code, places or hosts.
const NO_SWITCHES: &str = "cmake compiler launch launcher program command cmd exec executable toolchain linker file filename path classpath dir \
    directory root prefix plugin script source class jvm jdk agent argline arg flag repository repo url host proxy sun jndi rmi codebase token password shell groovy \
    setting extension ext insecure ssl home conf hostname";

/// Ends of such words.
const NO_ENDS: [&str; 8] = ["path", "dir", "root", "url", "flags", "args", "prefix", "class"];

/// First parts of names by which a virtual machine, or Maven itself, is set.
const OF_MACHINES: &str = "maven user sun os java javax env jdk jansi library awt line path";

/// Tells whether a setting of a project's build only switches something on or off, or gives it a number.
pub(crate) fn is_switch(name: &str, value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    let is_number = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_digit())
            && text.len() < 16
            && text.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let words = words_of(name);
    let is = |word: &str| words.iter().any(|known| known == word);
    let skips = is("skip") && named("true false", &value);
    let refused = |word: &String| {
        let singular = word.strip_suffix('s').unwrap_or(word);
        let ends = word != "curl" && NO_ENDS.iter().any(|end| word.ends_with(end));
        ends || [word, singular].iter().any(|word| named(NO_SWITCHES, word))
    };
    let of_machine = name.split_once('.').is_some_and(|(first, _)| named(OF_MACHINES, &first.to_ascii_lowercase()));
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
        && (skips || !of_machine && !name.ends_with(".debug") && !words.iter().any(refused))
        && (named(SWITCHES, &value) || is_number(&value))
}

/// The words of a name, between `_`, `.` and `-` and at capitals; what capitals separate also as a whole.
fn words_of(name: &str) -> Vec<String> {
    let is = |letter: Option<&u8>, kind: fn(&u8) -> bool| letter.is_some_and(kind);
    let mut words = Vec::new();
    for part in name.split(['_', '.', '-']) {
        let (letters, mut start) = (part.as_bytes(), 0);
        for at in 1..letters.len() {
            let after_small = !is(letters.get(at - 1), u8::is_ascii_uppercase);
            if letters[at].is_ascii_uppercase() && (after_small || is(letters.get(at + 1), u8::is_ascii_lowercase)) {
                words.extend(part.get(start..at).map(str::to_ascii_lowercase));
                start = at;
            }
        }
        words.extend(part.get(start..).into_iter().chain([part]).map(str::to_ascii_lowercase));
    }
    words
}

/// Tells whether programs go on to read UTF-8, or bytes, where a variable has this value.
pub(crate) fn keeps_charset(name: &str, value: &str) -> bool {
    let is_locale = name == "LANG" || name.starts_with("LC_");
    !is_locale || reads_plain(value)
}

/// Tells whether programs read in a locale what the policy has read: UTF-8, or bytes. In GBK, Big5 or Shift-JIS a byte that
/// looks like `\` can be the second half of a letter. A name that the C library may split in another way is none of these.
fn reads_plain(locale: &str) -> bool {
    let Some((language, charset)) = locale.split_once('.') else { return ["", "C", "POSIX"].contains(&locale) };
    let (charset, modifier) = charset.split_once('@').unwrap_or((charset, ""));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !language.is_empty()
        && language.chars().chain(modifier.chars()).all(is_plain)
        && ["utf8", "utf-8"].contains(&charset.to_ascii_lowercase().as_str())
}

// One letter or more, and dots between: no path, no list, no option.
fn is_plain_name(value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    !value.starts_with('-') && value.split('.').all(|part| !part.is_empty() && part.chars().all(plain))
}

/// Tells whether an entry of `shell.env.pass` names a variable (`NAME`), or this value of it (`NAME=VALUE`); a `*` at the
/// end of a value stands for a number, and alone for a plain name (`app.settings`).
pub(crate) fn names_setting(entry: &str, variable: &str, value: &str) -> bool {
    let Some((name, known)) = entry.split_once('=') else { return entry == variable };
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    name == variable
        && match known.strip_suffix('*') {
            Some("") => is_plain_name(value),
            Some(start) => value.strip_prefix(start).is_some_and(is_number),
            None => value == known,
        }
}
