//! Describes programs without a table: which options run programs, which words list files, and which programs write
//! files that their words do not name.

use crate::policy::names::named;

/// Tells whether a program might read words from a file that a word names: `@FILE`, `--option=@FILE`, `-Wl,@FILE`.
pub(super) fn is_response_file(word: &str, is_option: bool) -> bool {
    let glued =
        word.starts_with('-') && !word.starts_with("--") && word.get(2..).is_some_and(|rest| rest.starts_with('@'));
    word.len() > 1 && word.starts_with('@')
        || is_option && (glued || [",@", "=@", ":@"].iter().any(|mark| word.contains(mark)))
}

/// Returns why a word is refused in any case.
pub(super) fn refused(program: &str, word: &str) -> Option<String> {
    if runs_program(program, word) {
        return Some(format!("`{word}` runs a program"));
    }
    if named("curl curlie", program) && makes_names(word) {
        return Some(format!("curl makes other names of `{word}`"));
    }
    let lists = is_listed_option(&LISTS, program, word) || is_list_of_7z(program, word) || is_playlist(program, word);
    lists.then(|| format!("the files that `{word}` names are not known"))
}

// curl expands `[1-3]` and `{a,b}` in addresses and in names of uploads, and `#1` in names of outputs.
fn makes_names(word: &str) -> bool {
    let numbered = word.split('#').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let is_text = word.contains(['"', ' ', ':']) || word.starts_with('[');
    word.starts_with("--proto-d") || !word.contains("://") && (numbered || !is_text && word.contains(['[', '{']))
}

// A playlist names further files.
fn is_playlist(program: &str, word: &str) -> bool {
    let ends = [".m3u8", ".m3u", ".ffconcat", ".txt"].iter().any(|end| word.to_ascii_lowercase().ends_with(end));
    named("ffmpeg ffprobe ffplay", program) && (word == "concat" || ends)
}

/// Tells whether an option runs the program in its value.
pub(super) fn runs_program(program: &str, word: &str) -> bool {
    is_listed_option(&RUN_PROGRAMS, program, word)
}

/// Options of curl and wget, as letters, that take a value; what is after such a letter is not an option.
const CURL_VALUES: &str = "AbcCdDeEFHKmoPQrtTuUwxXyYz";
const WGET_VALUES: &str = "aABDeGIloOPQRtTUwX";

/// What has wget make up the names: of what a page names, or of what the server says.
const WGET_NAMES: [&str; 7] = [
    "--recursive",
    "--mirror",
    "--page-requisites",
    "--content-disposition",
    "--trust-server-names",
    "--force-directories",
    "--input-file",
];

/// Returns the files that a download writes under the last names of addresses.
///
/// # Errors
/// What gives a name that no word tells.
pub(super) fn downloads(program: &str, words: &[&str]) -> Result<Vec<String>, String> {
    let long = |option: &str| {
        // An abbreviation counts.
        words.iter().any(|word| {
            let name = word.split('=').next().unwrap_or(word);
            name.len() > 4 && name.starts_with("--") && option.starts_with(name)
        })
    };
    let letters = |values: &str| -> String {
        let bundles = words.iter().filter_map(|word| word.strip_prefix('-')).filter(|word| !word.starts_with('-'));
        bundles
            .flat_map(|word| word.split_inclusive(|c| values.contains(c)).next().unwrap_or_default().chars())
            .collect()
    };
    match program {
        "curl" => {
            let letters = letters(CURL_VALUES);
            if letters.contains('J') || long("--remote-header-name") {
                return Err("the server gives the files their names".to_owned());
            }
            let is_list = |pair: &[&str]| pair[0] == "--url" && pair[1].starts_with('@');
            if words.windows(2).any(is_list) || words.iter().any(|word| word.starts_with("--url=@")) {
                return Err("the addresses that a file lists are not known".to_owned());
            }
            let by_address = letters.contains('O') || long("--remote-name-all");
            if by_address { names(words, "", false) } else { Ok(Vec::new()) }
        }
        "wget" | "wget2" => {
            let short = words.iter().filter(|word| !["-nc", "-nv", "-nd", "-nH", "-np"].contains(word));
            let found: String = short
                .filter_map(|word| word.strip_prefix('-'))
                .filter(|word| !word.starts_with('-'))
                .flat_map(|word| word.split_inclusive(|c| WGET_VALUES.contains(c)).next().unwrap_or_default().chars())
                .collect();
            let is_named = found.contains('O') || long("--output-document");
            if found.contains(['r', 'm', 'x', 'p']) || !is_named && found.contains('i') {
                return Err("the names of the files that it writes are not known".to_owned());
            }
            if let Some(option) = WGET_NAMES.iter().find(|option| long(option)) {
                return Err(format!("with `{option}` the names of the files that it writes are not known"));
            }
            if is_named || long("--spider") { Ok(Vec::new()) } else { names(words, "index.html", true) }
        }
        "aria2c" if !letters("od").contains('o') && !long("--out") => {
            Err("the server gives the files their names".to_owned())
        }
        "http" | "https" | "xh" if letters("o").contains('d') || long("--download") => {
            let is_named = letters("").contains('o') || long("--output");
            if is_named { Ok(Vec::new()) } else { Err("the server gives the files their names".to_owned()) }
        }
        _ => Ok(Vec::new()),
    }
}

// The last names of addresses; `root` is that of one without a name.
fn names(words: &[&str], root: &str, decodes: bool) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for word in words.iter().filter(|word| !word.starts_with('-')) {
        let address = word.split_once("://").map_or(*word, |(_, rest)| rest);
        let path = address.split(['?', '#']).next().unwrap_or_default();
        let name = path.split_once('/').map_or("", |(_, path)| path.rsplit('/').next().unwrap_or_default());
        if name.contains(['{', '[', '*']) || decodes && name.contains('%') {
            return Err(format!("`{word}` may stand for other names"));
        }
        let name = if name.is_empty() && word.contains("://") { root } else { name };
        found.extend((!name.is_empty()).then(|| name.to_owned()));
    }
    Ok(found)
}

/// Options of programs without a table that run the program in their value; those of compilers count everywhere.
const RUN_PROGRAMS: [(&str, &str); 20] = [
    ("man mandb catman whatis apropos", "-C --config-file -P --pager -H --html"),
    (
        "ghc ghci runghc",
        "-pgmL -pgmP -pgmF -pgmc -pgmcxx -pgmlo -pgmlc -pgmlas -pgms -pgma -pgml -pgmlm -pgmdll -pgmwindres -pgminstall_name_tool -pgmi -F",
    ),
    ("dpkg apt apt-get", "--pre-invoke --post-invoke --status-logger -o --option"),
    ("", "-wrapper --wrapper -specs --specs -fplugin --use-ld --pager --post-renderer --use-compress-program --rsh"),
    ("pandoc", "--filter -F --lua-filter -L --pdf-engine --defaults -d"),
    ("protoc buf", "--plugin"),
    ("nodemon", "-x --exec"),
    ("fd fdfind", "-x -X --exec --exec-batch"),
    ("mlr", "--prepipe --prepipex --prepipe-gunzip --load --mload"),
    ("ctags etags", "--options"),
    ("rclone restic borg", "--password-command --rsh"),
    ("sqlite3", "-init"),
    ("wget wget2", "--use-askpass"),
    ("java jshell", "-XX:OnOutOfMemoryError -XX:OnError -XX:Flags -XX:VMOptionsFile"),
    ("tcpdump", "-z"),
    ("ssh scp sftp sshfs autossh", "-F -S"),
    ("sftp", "-b"),
    ("lftp", "-f -c -e"),
    ("gpg gpg2 gpgsm", "--options --agent-program --dirmngr-program --photo-viewer --exec-path"),
    (
        "yt-dlp youtube-dl gallery-dl aria2c",
        "--exec --exec-before-download --exec-after --downloader --external-downloader --on-download-complete \
         --on-download-start --on-download-stop --on-download-pause --on-download-error --on-bt-download-complete",
    ),
];

/// Options of programs without a table, and whole programs, that take the names of the files they read from a list.
const LISTS: [(&str, &str); 16] = [
    (
        "ar nm objdump objcopy strip ranlib size readelf addr2line ld as gcc g++ cc c++ clang clang++ lld javac javadoc java jar protoc \
         swiftc kotlinc csc scalac",
        "@",
    ),
    ("", "--files-from --files0-from --filelist --file-list --files-list --list-file --listfile --filesfromfile"),
    ("zip 7z 7za 7zr 7zz arj", "-@ -i@ -x@ @"),
    ("ctags cscope", "-L -i"),
    ("pax", "-w"),
    ("curl curlie", "-K --config"),
    ("wget wget2", "-i --input-file -e --execute --config"),
    ("aria2c", "-i --input-file --conf-path"),
    ("gallery-dl", "-i -c --input-file --config"),
    ("yt-dlp youtube-dl", "-a --batch-file --config-location --config-locations --load-info-json"),
    ("ffmpeg ffprobe ffplay", "-filter_complex_script -filter_script"),
    ("nmap masscan", "-iL --excludefile"),
    ("dig", "-f"),
    (
        "convert mogrify identify montage magick compare composite display import animate conjure stream gm sox rec play",
        "@",
    ),
    ("rar unrar", "@ -n@ -x@"),
    ("mkisofs genisoimage xorriso xorrisofs", "-path-list --path-list"),
];

/// Programs without a table that unpack files under the names that an archive gives; after which words. None: always.
const UNPACKS: [(&str, &str); 7] = [
    ("7z 7za 7zr 7zz unrar rar arj lha lzh zoo xar", "x e"),
    ("jar", "x --extract"),
    ("ar llvm-ar", "x"),
    ("zipfile tarfile", "-e --extract"),
    ("dpkg", "-x --extract -X --vextract"),
    ("dpkg-deb", "-x --extract -X --vextract -R --raw-extract -e --control"),
    (
        "cabextract unar unp dtrx atool aunpack patool unace unsquashfs bsdcpio pax uudecode unshar munpack ripmime rpm2archive lz4 unlz4 lzip \
         lunzip plzip lzop unlzop brotli unbrotli pbzip2 lbzip2 pixz rzip lrzip lrunzip uncompress compress ditto",
        "",
    ),
];

// Tells whether a program gives files names that its words do not tell. `ar xv`, `jar -xf`: the verb is in a bundle.
pub(super) fn unpacks(program: &str, words: &[&str]) -> bool {
    UNPACKS.iter().filter(|(programs, _)| named(programs, program)).any(|(programs, verbs)| {
        let bundled = matches!(*programs, "jar" | "ar llvm-ar");
        let is = |word: &&str| {
            let first = word.trim_start_matches('-');
            verbs.split(' ').any(|verb| *word == verb || bundled && verb.len() == 1 && first.contains(verb))
        };
        let place = if bundled { 1 } else { words.len() };
        verbs.is_empty() || words.iter().take(place).any(is)
    })
}

/// Programs that leave work or settings behind outside the workspace.
const LEAVES_WORK: &str = "crontab systemctl launchctl loginctl at atq atrm batch anacron schtasks gsettings dconf defaults chsh chfn \
    update-alternatives ldconfig sysctl xcode-select hostnamectl timedatectl localectl";

/// Verbs after which a program of [`KEEPS_SETTINGS`] shows its settings; every other one changes them.
const LOOKS: &str = "list ls get show view dump check validate doctor debug describe explain help";

/// Words after which a program with subcommands keeps settings of the user.
const KEEPS_SETTINGS: &str = "config c conf settings configure";

/// Words with which a program with subcommands signs in or out, as its first word or the second.
const SIGNS_IN: &str = "login logout adduser add-user signin signout whoami-set";

/// Programs, a word, and the words after it that change what the user has everywhere; none: any.
const USERS: [(&str, &str, &str); 26] = [
    ("go", "env", "-w -u --w --u"),
    ("npm pnpm yarn bun", "set", ""),
    ("npm pnpm yarn", "token", ""),
    ("npm pnpm yarn", "profile", ""),
    ("npm pnpm bun", "link ln", ""),
    ("yarn composer deno", "global", ""),
    ("poetry pdm", "self", "add remove update install"),
    ("rustup", "default override set toolchain target component self update", ""),
    (
        "nvm fnm nodenv pyenv rbenv goenv jenv asdf mise volta sdk",
        "alias default global use-global install uninstall pin",
        "",
    ),
    ("gem", "sources", "-a -r -u -c --add --remove --update --clear-all"),
    ("conda mamba micromamba", "config", ""),
    ("dotnet nuget", "nuget sources", "add remove update enable disable setapikey"),
    ("dotnet", "new workload", "install uninstall update"),
    ("mise", "use", "-g --global"),
    ("flutter", "config", ""),
    ("helm", "repo plugin registry", "add remove update install uninstall login"),
    ("kubectl oc", "config", ""),
    ("gcloud az aws heroku flyctl fly vercel netlify firebase", "auth config configure login", ""),
    ("git", "lfs", "install uninstall"),
    ("git", "credential credential-store credential-cache", ""),
    ("uv", "tool python", "install uninstall upgrade update-shell pin"),
    (
        "pipx",
        "install install-all uninstall uninstall-all inject uninject upgrade upgrade-all reinstall reinstall-all ensurepath pin unpin",
        "",
    ),
    ("brew", "install uninstall reinstall remove rm upgrade update autoremove cleanup bundle", ""),
    ("brew", "services tap untap link unlink pin unpin", ""),
    ("terraform tofu pulumi", "login logout", ""),
    ("pre-commit", "init-templatedir", ""),
];

/// Options by which a package manager works for the user and not for the project.
const FOR_USER: [(&str, &str); 6] = [
    ("npm pnpm bun", "-g --global --location=global --location=user"),
    ("dotnet", "-g --global"),
    ("deno", "-g --global"),
    ("git", "--global --system"),
    ("composer", "-g --global"),
    ("code codium cursor", "--install-extension --uninstall-extension"),
];

/// Tells whether a command changes what runs, or what is set, outside the workspace; the words follow the program.
/// `has_verbs`: the program has subcommands, or is not known.
pub(super) fn leaves_work(program: &str, words: &[&str], has_verbs: bool) -> bool {
    if named(LEAVES_WORK, program) {
        return true;
    }
    let is_word = |word: &&&str| !word.starts_with('-');
    let verbs: Vec<&str> = words.iter().filter(is_word).copied().collect();
    // What follows an option may be its value, or the verb.
    let skipped = words.first().is_some_and(|word| word.starts_with('-') && !word.contains('='));
    (0..=usize::from(skipped))
        .any(|at| changes_settings(program, words, verbs.get(at..).unwrap_or_default(), has_verbs))
}

fn changes_settings(program: &str, words: &[&str], verbs: &[&str], has_verbs: bool) -> bool {
    let verb = |at: usize| verbs.get(at).copied().unwrap_or_default();
    let (first, second) = (verb(0), verb(1));
    // With a name alone these show the value.
    let shows = named("bundle composer poetry pdm", program)
        && verbs.len() < 3
        && !words.iter().any(|word| matches!(*word, "--unset" | "--delete" | "-e" | "--editor"));
    let keeps = has_settings(program)
        && (named(KEEPS_SETTINGS, first) || program == "npm" && first.len() > 2 && "config".starts_with(first))
        && !(second.is_empty() || named(LOOKS, second) || shows || words.contains(&"--local"));
    let signs_in = has_verbs && (named(SIGNS_IN, first) || first == "auth" && named(SIGNS_IN, second));
    let users = USERS.iter().any(|(programs, verb, after)| {
        named(programs, program)
            && named(verb, first)
            && (after.is_empty() || words.iter().any(|word| named(after, word.split('=').next().unwrap_or(word))))
    });
    let looks = named("list ls ll la view info outdated root bin prefix show search why explain", first)
        || matches!((program, second), ("dotnet", "list" | "search" | "run"));
    let options = FOR_USER.iter().filter(|(programs, _)| named(programs, program));
    let bundles = named("npm pnpm bun", program)
        && words
            .iter()
            .any(|word| word.len() < 5 && word.starts_with('-') && !word.starts_with("--") && word.contains('g'));
    let is = |option: &str| {
        let own = words.iter().take_while(|word| **word != "--");
        words.iter().any(|word| *word == option || word.strip_suffix("=true") == Some(option))
            || (program != "git" || first == "config") && own.into_iter().any(|word| abbreviates(word, option))
    };
    let for_user = !looks && (bundles || options.flat_map(|(_, options)| options.split(' ')).any(is));
    keeps || signs_in || users || for_user
}

// Git, npm and others take the beginning of a long option for the whole.
fn abbreviates(word: &str, option: &str) -> bool {
    let word = word.strip_suffix("=true").unwrap_or(word);
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    let (known, wanted) = option.split_once('=').unwrap_or((option, ""));
    name.len() > 4 && name.starts_with("--") && known.starts_with(name) && value == wanted
}

/// Programs whose settings are the user's.
fn has_settings(program: &str) -> bool {
    named(
        "npm pnpm yarn yarnpkg bun pip pip3 uv poetry pdm pipenv hatch rye conda mamba bundle gem composer dotnet nuget luarocks opam stack \
         gh glab hub helm gcloud aws az heroku firebase vercel netlify flutter dart deno rustup mise asdf brew raco cabal ddev",
        program,
    )
}

// Tells whether a word is one of the options that a list gives a program, with its value or without.
fn is_listed_option(lists: &[(&str, &str)], program: &str, word: &str) -> bool {
    // Other short options may stand before one in the same word.
    let values = match program {
        "curl" | "curlie" => CURL_VALUES,
        "wget" | "wget2" => WGET_VALUES,
        _ => "",
    };
    let bundle = word.strip_prefix('-').filter(|rest| !values.is_empty() && !rest.starts_with('-'));
    let bundle = bundle.and_then(|rest| rest.split_inclusive(|c| values.contains(c)).next()).unwrap_or_default();
    let is = |option: &str| {
        let is_long = option.starts_with("--") || option.len() > 2;
        let is_glued = !is_long || option.ends_with('@');
        word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || is_glued || rest.starts_with(['=', ':']))
            || !is_long && option.strip_prefix('-').is_some_and(|letter| bundle.contains(letter))
    };
    // Most programs take the beginning of a long option for the whole.
    let begins = |option: &str| {
        let name = word.split('=').next().unwrap_or_default();
        name.len() > 3 && option.starts_with("--") && option.starts_with(name)
    };
    lists.iter().any(|(programs, options)| {
        let mut options = options.split_whitespace();
        match *programs {
            "" => options.any(is),
            programs => named(programs, program) && options.any(|option| is(option) || begins(option)),
        }
    })
}

// `-ir@LIST`, `-x0@LIST`: letters may be before the mark. After `-p` is a password.
fn is_list_of_7z(program: &str, word: &str) -> bool {
    named("7z 7za 7zr 7zz", program) && word.starts_with('-') && !word.starts_with("-p") && word.contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_writes_what_its_words_tell_or_is_refused() {
        let names = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            downloads(words[0], &words[1..]).map(|names| names.join(" "))
        };
        for (line, wanted) in [
            ("curl -sSLO https://x.example/a/b.txt?c", "b.txt"),
            ("curl -fsS https://x.example/a", ""),
            ("curl -o OJ https://x.example/a", ""),
            ("wget https://x.example", "index.html"),
            ("wget -nv https://x.example/QWEN.md", "QWEN.md"),
            ("wget -qO- https://x.example/QWEN.md", ""),
            ("aria2c -o a https://x.example", ""),
        ] {
            assert_eq!(names(line).as_deref(), Ok(wanted), "{line}");
        }
        for line in [
            "curl -OJ https://x.example/",
            "curl -sJLO https://x.example/",
            "curl --remote-header -O https://x.example/",
            "curl -O https://x.example/{a,QWEN}.md",
            "wget -qr https://x.example",
            "wget -np -m https://x.example",
            "wget --page-req https://x.example",
            "wget -i list.txt",
            "wget https://x.example/%51WEN.md",
            "aria2c https://x.example",
            "http -d https://x.example",
        ] {
            assert!(names(line).is_err(), "{line}");
        }
    }
}
