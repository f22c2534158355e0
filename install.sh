#!/usr/bin/env bash
# Puts a qwen binary on the machine and writes bin=PATH to $GITHUB_OUTPUT.
#
# Digests come from this checkout of the action, not from the server that has the archives: a digest from the same
# server would prove nothing. A wrong digest is final and never a reason to try another way.
#
# Nothing of the checkout that is worked on runs here: the script starts itself again with an environment of named
# variables and a PATH without the checkout's directories, and works in an empty directory of its own.
set -euo pipefail

# Nothing from outside stands in these texts, so they need no escaping.
fail() { printf '::error title=qwen install::%s\n' "$1"; exit 1; }
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
  keep=(PATH="$(clean_path)")
  for name in HOME RUSTUP_HOME GITHUB_OUTPUT GITHUB_WORKSPACE RUNNER_TEMP RUNNER_TOOL_CACHE \
    QWEN_ACTION_DIR QWEN_ACTION_REPOSITORY QWEN_SERVER QWEN_VERSION QWEN_INSTALL QWEN_BINARY QWEN_RELEASE_BASE \
    http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY \
    SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE; do
    [[ -z ${!name+set} ]] || keep+=("$name=${!name}")
  done
  exec /usr/bin/env -i "${keep[@]}" "$BASH" --noprofile --norc "$0" clean
fi

here=$(builtin cd -- "${QWEN_ACTION_DIR:?the directory of the action}" && builtin pwd)
own=$(<"$here/VERSION")
want=${QWEN_VERSION:-}
want=${want#v}
[[ -n $want ]] || want=$own
how=${QWEN_INSTALL:-auto}
repository=${QWEN_SERVER:-https://github.com}/${QWEN_ACTION_REPOSITORY:-}
releases=${QWEN_RELEASE_BASE:-$repository/releases/download}

[[ $want =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || fail 'version is not a release number'
case $how in auto | download | cargo | none) ;; *) fail 'install must be auto, download, cargo or none' ;; esac

binary=${QWEN_BINARY:-}
if [[ -n $binary ]]; then
  [[ -f $binary && -x $binary ]] || fail 'binary is not an executable file'
  binary=$(cd "$(dirname "$binary")" && pwd)/$(basename "$binary")
fi

work=$(mktemp -d "${RUNNER_TEMP:-/tmp}/qwen-install.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
unset OLDPWD

finish() {
  [[ $1 != *$'\n'* ]] || fail 'the path of the binary holds a line break'
  "$1" --version >&2 || fail 'the binary does not run on this machine'
  printf 'bin=%s\n' "$1" >>"${GITHUB_OUTPUT:?the runner makes this file}"
  exit 0
}

[[ -z $binary ]] || finish "$binary"
if [[ $how == none ]]; then
  found=$(command -v qwen) || fail 'install is none and no qwen is on PATH outside of the checkout'
  finish "$found"
fi

case "$(uname -s)-$(uname -m)" in
  Linux-x86_64) target=x86_64-unknown-linux-musl ;;
  Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-musl ;;
  Darwin-arm64) target=aarch64-apple-darwin ;;
  Darwin-x86_64) target=x86_64-apple-darwin ;;
  *) target= ;;
esac
home=${RUNNER_TOOL_CACHE:-${RUNNER_TEMP:-/tmp}}/qwen/$want/${target:-source}
exe=$home/qwen

sum() { if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1; }

# Puts a finished binary in its place at once, so that no other job sees half of it.
place() {
  mkdir -p "$home"
  chmod 755 "$1"
  cp "$1" "$home/.qwen.$$"
  mv -f "$home/.qwen.$$" "$exe"
}

# 2: it cannot be had this way; anything else that goes wrong ends the script.
download() {
  [[ -n $target ]] || { note 'no release is built for this machine'; return 2; }
  local file=qwen-$want-$target.tar.gz digest
  digest=$(awk -v f="$file" '$2 == f || $2 == "*" f {print $1}' "$here/SHA256SUMS")
  [[ $digest =~ ^[0-9a-f]{64}$ ]] || { note "this action knows no digest of $file"; return 2; }
  [[ -n ${QWEN_RELEASE_BASE:-} || -n ${QWEN_ACTION_REPOSITORY:-} ]] || { note 'nothing says where releases are'; return 2; }
  curl -q --proto '=https,file' --proto-redir '=https' --fail --silent --show-error --location --retry 3 --max-time 120 \
    -o archive "$releases/v$want/$file" || { note 'the download failed'; return 2; }
  [[ $(sum archive) == "$digest" ]] || fail "the digest of $file is wrong"
  tar -xzf archive qwen || fail "$file holds no qwen"
  place qwen
}

# Ends the script where cargo would obey a configuration file above a directory: whoever wrote it chooses what runs.
no_configuration_above() {
  local directory=$1
  while [[ $directory == */* ]]; do
    directory=${directory%/*}
    [[ ! -e $directory/.cargo/config && ! -e $directory/.cargo/config.toml ]] ||
      fail 'cargo would obey a .cargo/config above the build directory; remove it, or give install: download or none'
  done
}

build() {
  command -v cargo >/dev/null || fail 'no release fits and there is no cargo to build with'
  local from
  if [[ $want == "$own" && -f $here/Cargo.toml ]]; then
    # The sources of this very version are here.
    from=(--path "$here")
    no_configuration_above "$here"
  else
    [[ -n ${QWEN_ACTION_REPOSITORY:-} ]] || fail 'nothing says where the sources of that version are'
    from=(--git "$repository" --tag "v$want" qwen-run)
  fi
  no_configuration_above "$work/build"
  # The toolchain is named: no file of a directory chooses another one.
  RUSTUP_TOOLCHAIN=stable CARGO_HOME=$work/cargo CARGO_TARGET_DIR=$work/target TMPDIR=$work \
    cargo install --locked --root "$work/root" "${from[@]}"
  place root/bin/qwen
}

if [[ ! -x $exe ]]; then
  case $how in
    download) download || fail 'a download is not possible' ;;
    cargo) build ;;
    auto) download || build ;;
  esac
fi
finish "$exe"
