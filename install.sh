#!/usr/bin/env bash
# Puts a qwen binary on the machine and writes bin=PATH to $GITHUB_OUTPUT.
#
# Digests come from this checkout of the action, not from the server that has the archives: a digest from the same
# server would prove nothing. A wrong digest is final and never a reason to try another way.
set -euo pipefail

here=${QWEN_ACTION_DIR:?the folder of the action}
own=$(<"$here/VERSION")
want=${QWEN_VERSION:-}
want=${want#v}
[[ -n $want ]] || want=$own
how=${QWEN_INSTALL:-auto}
repository=${QWEN_SERVER:-https://github.com}/${QWEN_ACTION_REPOSITORY:-}
releases=${QWEN_RELEASE_BASE:-$repository/releases/download}

# Nothing from outside stands in these texts, so they need no escaping.
fail() { printf '::error title=qwen install::%s\n' "$1"; exit 1; }
note() { printf 'qwen install: %s\n' "$1" >&2; }

[[ $want =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || fail 'version is not a release number'
case $how in auto | download | cargo | none) ;; *) fail 'install must be auto, download, cargo or none' ;; esac

finish() {
  [[ $1 != *$'\n'* ]] || fail 'the path of the binary holds a line break'
  "$1" --version >&2 || fail 'the binary does not run on this machine'
  printf 'bin=%s\n' "$1" >>"${GITHUB_OUTPUT:?the runner makes this file}"
  exit 0
}

if [[ -n ${QWEN_BINARY:-} ]]; then
  [[ -f $QWEN_BINARY && -x $QWEN_BINARY ]] || fail 'binary is not an executable file'
  finish "$(cd "$(dirname "$QWEN_BINARY")" && pwd)/$(basename "$QWEN_BINARY")"
fi
if [[ $how == none ]]; then
  found=$(command -v qwen) || fail 'install is none and no qwen is on PATH'
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
  mv -f "$1" "$exe"
}

# 2: it cannot be had this way; anything else that goes wrong ends the script.
download() {
  [[ -n $target ]] || { note 'no release is built for this machine'; return 2; }
  local file=qwen-$want-$target.tar.gz digest
  digest=$(awk -v f="$file" '$2 == f || $2 == "*" f {print $1}' "$here/SHA256SUMS")
  [[ $digest =~ ^[0-9a-f]{64}$ ]] || { note "this action knows no digest of $file"; return 2; }
  [[ -n ${QWEN_RELEASE_BASE:-} || -n ${QWEN_ACTION_REPOSITORY:-} ]] || { note 'nothing says where releases are'; return 2; }
  mkdir -p "$home"
  temporary=$(mktemp -d "$home/download.XXXXXX")
  trap 'rm -rf "$temporary"' EXIT
  curl --proto '=https,file' --proto-redir '=https' --fail --silent --show-error --location --retry 3 --max-time 120 \
    -o "$temporary/archive" "$releases/v$want/$file" || { note 'the download failed'; return 2; }
  [[ $(sum "$temporary/archive") == "$digest" ]] || fail "the digest of $file is wrong"
  tar -xzf "$temporary/archive" -C "$temporary" qwen || fail "$file holds no qwen"
  place "$temporary/qwen"
}

build() {
  command -v cargo >/dev/null || fail 'no release fits and there is no cargo to build with'
  local root=$home/build
  if [[ $want == "$own" && -f $here/Cargo.toml ]]; then
    # The sources of this very version are here.
    cargo install --locked --path "$here" --root "$root"
  else
    [[ -n ${QWEN_ACTION_REPOSITORY:-} ]] || fail 'nothing says where the sources of that version are'
    cargo install --locked --git "$repository" --tag "v$want" --root "$root" qwen-run
  fi
  place "$root/bin/qwen"
}

if [[ ! -x $exe ]]; then
  case $how in
    download) download || fail 'a download is not possible' ;;
    cargo) build ;;
    auto) download || build ;;
  esac
fi
finish "$exe"
