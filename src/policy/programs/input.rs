//! Says which programs take their standard input for data. To every other one it may be commands, code, or answers to
//! what it asks.

use crate::policy::names::named;

/// Programs that read, check, convert or print the text on their standard input and do nothing else with it. Those of
/// the tables that are not of build tools are not repeated here.
const READERS: &str = "prettier eslint eslint_d stylelint standard xo black isort flake8 pylint autoflake yamllint autopep8 yapf \
    codespell pyupgrade json.tool rubocop standardrb erblint reek rustfmt gofmt goimports gofumpt clang-format \
    shfmt hadolint actionlint markdownlint markdownlint-cli2 cspell typos taplo dprint swiftlint swiftformat \
    ktlint scalafmt phpcs phpcbf esbuild terser sass sqlformat yq gojq jaq xq dasel gron jo fx mlr xsv csvcut \
    csvgrep csvsort csvstat csvlook csvjson in2csv xmllint tidy pandoc cmark markdown glow dot iconv dos2unix \
    unix2dos bzcat xzcat zstdcat lz4cat bat batcat delta colordiff diffstat lsdiff less more most pg lv ts pv \
    fzf sk exiftool curl b3sum crc32 xxhsum figlet cowsay lolcat c++filt addr2line llvm-cxxfilt gcc g++ cc c++ \
    clang clang++ sponge pygmentize highlight pbcopy wl-copy xclip xsel pdftotext rsvg-convert";

/// Programs of which that is true of these subcommands, or with one of these options. `run` starts the project's own
/// program, to which its input is data.
const PARTS: [(&str, &str); 14] = [
    ("biome", "check lint format ci"),
    ("ruff", "check format"),
    ("golangci-lint", "fmt"),
    ("dart", "format"),
    ("deno", "fmt lint"),
    ("mix", "format"),
    ("terraform tofu", "fmt"),
    ("buf", "format"),
    ("cargo go dotnet", "run"),
    ("node nodejs ruby", "-c"),
    ("php", "-l"),
    ("openssl", "dgst base64 enc x509 req rsa pkey asn1parse md5 sha1 sha256 sha384 sha512"),
    ("aspell hunspell", "list -l"),
    ("gpg gpg2", "--verify --list-packets --show-keys --dearmor --enarmor"),
];

/// Tells whether a program takes its input for data: by its name, its subcommand, or an option that `has` knows of.
pub(super) fn is_data_to(name: &str, verb: &str, has: impl Fn(&str) -> bool) -> bool {
    let is_part = |part: &str| part == verb || part.starts_with('-') && has(part);
    let mut parts = PARTS.iter().filter(|(programs, _)| named(programs, name));
    let takes_commands = name == "xmllint" && (has("--shell") || has("-shell"));
    named(READERS, name) && !takes_commands || parts.any(|(_, parts)| parts.split(' ').any(is_part))
}
