#!/usr/bin/env bash
# Puts a qwen program on the machine of a job and writes bin=PATH to $GITHUB_OUTPUT.
#
# Digests come from this checkout of the action, not from the server that has the archives: a digest from the same
# server would prove nothing. A wrong digest is final and never a reason to try another way.
#
# Nothing of the checkout that is worked on runs here: the script starts itself again with an environment of named
# variables and a PATH without the checkout's directories, and works in an empty directory of its own. It is written
# for bash 3.2, the one of macOS.
set -euo pipefail
umask 077

# Nothing from outside stands in these texts, so they need no escaping.
fail() { printf '::error title=qwen install::%s\n' "$1"; exit "${2:-1}"; }
note() { printf 'qwen install: %s\n' "$1" >&2; }

# Prints the absolute entries of PATH outside of the checkout, links resolved. Builtins only: no program is safe yet.
clean_path() {
  local IFS=: entry real checkout clean=''
  unset CDPATH
  checkout=$(builtin cd -P -- "${GITHUB_WORKSPACE:-.}" && builtin pwd -P)
  set -f
  for entry in $PATH; do
    [[ $entry == /* ]] || continue
    real=$(builtin cd -P -- "$entry" 2>/dev/null && builtin pwd -P) || continue
    [[ "$real/" != "$checkout/"* ]] || continue
    clean=$clean${clean:+:}$real
  done
  printf '%s' "$clean"
}

if [[ ${1:-} != clean ]]; then
  export QWEN_CHECKOUT
  QWEN_CHECKOUT=$(builtin cd -P -- "${GITHUB_WORKSPACE:-.}" && builtin pwd -P)
  keep=(PATH="$(clean_path)")
  for name in HOME RUSTUP_HOME GITHUB_OUTPUT GITHUB_PATH RUNNER_TEMP RUNNER_TOOL_CACHE \
    QWEN_ACTION_DIR QWEN_ACTION_REPOSITORY QWEN_SERVER QWEN_INSTALL QWEN_BINARY QWEN_JOB QWEN_CHECKOUT \
    http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY \
    SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE; do
    [[ -z ${!name+set} ]] || keep+=("$name=${!name}")
  done
  exec /usr/bin/env -i "${keep[@]}" "$BASH" --noprofile --norc -p "$0" clean
fi

here=$(builtin cd -P -- "${QWEN_ACTION_DIR:?the directory of the action}" && builtin pwd -P)
version=$(<"$here/VERSION")
how=${QWEN_INSTALL:-auto}
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || fail 'the VERSION of the action is not a release number'
case $how in
  auto | binary | source | none) ;;
  download) fail 'install: download is called install: binary now' 2 ;;
  cargo) fail 'install: cargo is called install: source now' 2 ;;
  *) fail 'install must be auto, binary, source or none' 2 ;;
esac

# What is made here is for this job alone: it lies in the job's temporary directory, and only its owner enters it.
kept=$(mktemp -d "${RUNNER_TEMP:?the temporary directory of the job}/qwen-program.XXXXXX")
work=$(mktemp -d "$RUNNER_TEMP/qwen-install.XXXXXX")
trap 'rm -rf "$work"; rmdir "$kept" 2>/dev/null || true' EXIT
cd "$work"
unset OLDPWD

# Prints the path of a file with all links resolved.
resolve() {
  local path=$1 target count=0
  while [[ -L $path ]]; do
    ((count += 1)) && [[ $count -le 40 ]] || return 1
    target=$(readlink "$path")
    [[ $target == /* ]] || target=$(dirname "$path")/$target
    path=$target
  done
  printf '%s/%s' "$(builtin cd -P -- "$(dirname "$path")" && builtin pwd -P)" "$(basename "$path")"
}

# Takes a program that is there, of any version.
take() {
  local program
  program=$(resolve "$1") || fail 'the path of the program ends nowhere'
  [[ $program != "$QWEN_CHECKOUT"/* ]] ||
    fail 'a program from the checkout would get the key; build it in an earlier job and hand it over below RUNNER_TEMP'
  [[ -f $program && -x $program ]] || fail 'binary is not an executable file'
  "$program" --version >&2 || fail 'the program does not run on this machine'
  finish "$program"
}

finish() {
  [[ $1 != *$'\n'* ]] || fail 'the path of the program holds a line break'
  if [[ ${QWEN_JOB:-} == install ]]; then
    printf '%s\n' "$(dirname "$1")" >>"${GITHUB_PATH:?the runner makes this file}"
  fi
  printf 'bin=%s\n' "$1" >>"${GITHUB_OUTPUT:?the runner makes this file}"
  exit 0
}

# Takes the program of this version that lies in $kept.
finish_own() {
  local said
  chmod 700 "$kept/qwen"
  said=$("$kept/qwen" --version) || fail 'the program does not run on this machine'
  [[ $said == "qwen $version" ]] || fail 'the program is of another version than the action'
  finish "$kept/qwen"
}

binary=${QWEN_BINARY:-}
if [[ -n $binary ]]; then
  [[ $binary == /* ]] || fail 'binary must be an absolute path'
  take "$binary"
fi
if [[ $how == none ]]; then
  found=$(command -v qwen) || fail 'install is none and no qwen is on PATH outside of the checkout'
  take "$found"
fi

case "$(uname -s)-$(uname -m)" in
  Linux-x86_64) target=x86_64-unknown-linux-musl ;;
  Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-musl ;;
  Darwin-arm64) target=aarch64-apple-darwin ;;
  Darwin-x86_64) target=x86_64-apple-darwin ;;
  MINGW* | MSYS* | CYGWIN* | Windows*) fail 'qwen runs on Linux and macOS; on Windows run it inside WSL 2' ;;
  *) target=none ;;
esac
name=qwen-$version-$target

sum() { if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1; }

# Prints the digest that is on record for a name, or nothing.
recorded() { awk -v name="$1" '$2 == name && length($1) == 64 && $1 !~ /[^0-9a-f]/ {print $1; exit}' "$here/SHA256SUMS"; }
archive_digest=$(recorded "$name.tar.gz")
program_digest=$(recorded "$name/qwen")

# Takes the cached program if it is the released one. Others write to the cache, too: what is checked is our own copy.
from_cache() {
  [[ -n ${RUNNER_TOOL_CACHE:-} && -f $cached ]] || return 1
  cp "$cached" "$kept/qwen" && [[ $(sum "$kept/qwen") == "$program_digest" ]] && return
  note 'the cached program is not the released one; it is fetched again'
  rm -rf "$cached" "$kept/qwen"
  return 1
}

# Puts a copy of the program into the cache at once, so that no other job sees half of it. A full or foreign cache is no error.
to_cache() {
  [[ -n ${RUNNER_TOOL_CACHE:-} ]] || return 0
  { mkdir -p "$(dirname "$cached")" && cp "$kept/qwen" "$cached.$$" && chmod 755 "$cached.$$" && mv -f "$cached.$$" "$cached"; } 2>/dev/null ||
    note 'the program was not cached'
}

# Returns 1 where the archive cannot be fetched; anything else that goes wrong ends the script.
download() {
  cached=${RUNNER_TOOL_CACHE:-}/qwen/$version/$target/qwen
  ! from_cache || return 0
  [[ -n ${QWEN_ACTION_REPOSITORY:-} ]] || { note 'nothing says where releases are'; return 1; }
  curl -q --proto '=https' --proto-redir '=https' --fail --silent --show-error --location --retry 2 --max-time 120 --max-filesize 67108864 \
    -o archive "${QWEN_SERVER:-https://github.com}/$QWEN_ACTION_REPOSITORY/releases/download/v$version/$name.tar.gz" ||
    { note 'the download failed'; return 1; }
  [[ $(sum archive) == "$archive_digest" ]] || fail "the digest of $name.tar.gz is wrong"
  tar -xzf archive "$name/qwen" || fail "$name.tar.gz holds no qwen"
  [[ $(sum "$name/qwen") == "$program_digest" ]] || fail "the digest of $name/qwen is wrong"
  mv "$name/qwen" "$kept/qwen"
  to_cache
}

# Ends the script where cargo would obey a configuration file above a directory: whoever wrote it chooses what runs.
no_configuration_above() {
  local directory=$1
  while [[ $directory == */* ]]; do
    directory=${directory%/*}
    [[ ! -e $directory/.cargo/config && ! -e $directory/.cargo/config.toml ]] ||
      fail 'cargo would obey a .cargo/config above the build directory; remove it, or give install: binary or none'
  done
}

# Compiles this action's own directory, and never something that is fetched by a name. The toolchain is named, so that
# no file of a directory chooses another one. No digest vouches for the result: it is never cached.
build() {
  command -v cargo >/dev/null || fail 'there is no cargo to compile with; install Rust, or use a release tag of the action'
  [[ -f $here/Cargo.toml ]] || fail 'the directory of the action holds no sources'
  no_configuration_above "$here"
  no_configuration_above "$work/build"
  local channel least found
  channel=$(awk -F'"' '$1 ~ /^channel *= *$/ {print $2}' "$here/.ci/rust-toolchain.toml")
  [[ $channel =~ ^[0-9]+\.[0-9]+(\.[0-9]+)?$ ]] || fail 'the action names no toolchain'
  export RUSTUP_TOOLCHAIN=$channel CARGO_HOME=$work/cargo CARGO_TARGET_DIR=$work/target TMPDIR=$work
  if command -v rustup >/dev/null; then
    rustup run "$channel" cargo --version >&2 2>/dev/null ||
      rustup toolchain install --profile minimal --no-self-update "$channel" >&2 || fail 'rustup cannot install the toolchain of the action'
  else
    least=$(awk -F'"' '$1 ~ /^rust-version *= *$/ {print $2}' "$here/Cargo.toml")
    found=$(cargo --version | awk '{print $2}')
    awk -v least="$least" -v found="$found" 'BEGIN {split(least, l, "."); split(found, f, "[.-]")
      exit !(f[1] + 0 > l[1] + 0 || (f[1] + 0 == l[1] + 0 && f[2] + 0 >= l[2] + 0))}' ||
      fail 'the cargo of this machine is older than the rust-version of the action'
  fi
  cargo install --locked --root "$work/root" --path "$here" >&2 || fail 'the action does not compile on this machine'
  mv "$work/root/bin/qwen" "$kept/qwen"
}

compile_instead() {
  printf '::notice title=qwen install::no release of this version; compiling takes minutes\n'
  build
}

if [[ -n $archive_digest && -n $program_digest ]]; then released=1; else released=; fi
case $how in
  binary)
    [[ -n $released ]] || fail 'this version of the action is not a release; use a release tag or install: source'
    download || fail 'the release cannot be fetched'
    ;;
  source) build ;;
  auto) if [[ -z $released ]] || ! download; then compile_instead; fi ;;
esac
finish_own
