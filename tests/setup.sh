#!/bin/sh
# Usage: sh tests/setup.sh [build]
# Installs what Ember needs on Debian 12 or later, and builds nothing. With `build` only what the build and a run
# need (python3 and xz unpack the sample corpus), without the packages of the tests. Uses sudo when not root. When everything is there it does nothing, and
# needs no network.
set -eu

build_packages='gcc libc6-dev cmake ninja-build pkg-config libhdf5-dev libyaml-dev libjansson-dev libpcre2-dev
    libutf8proc-dev libxxhash-dev libblis-serial-dev xz-utils python3'
# h5dump and h5py read what Ember wrote; git lists the tree; locales makes a decimal comma to test under.
test_packages='libcmocka-dev hdf5-tools python3-h5py git locales procps util-linux'

case ${1-} in
    '') packages="$build_packages $test_packages" ;;
    build) packages=$build_packages ;;
    *) echo "usage: sh tests/setup.sh [build]" >&2; exit 2 ;;
esac

if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
    echo "setup: no Debian here; make sure that the equivalents of these packages are installed:"
    echo "setup: " $packages
    exit 0
fi

missing=
for package in $packages; do
    # A package may be there under another name that provides this one (pkg-config and pkgconf).
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2> /dev/null || true)
    if [ "$status" != installed ]; then missing="$missing $package"; fi
done

if [ -z "$missing" ]; then
    echo "setup: every package is installed"
else
    if [ "$(id -u)" = 0 ]; then
        as_root=
    elif command -v sudo > /dev/null; then
        as_root=sudo
    else
        echo "setup: packages are missing, and this user is not root and has no sudo; as root run:" >&2
        echo "    apt-get update && apt-get install$missing" >&2
        exit 1
    fi
    echo "setup: installing$missing"
    options='-q -y --no-install-recommends -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -o Dpkg::Use-Pty=0'
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    if ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 update > "$log" 2>&1; then
        tail -n 20 "$log" >&2
        echo "setup: apt-get update failed; is there a network?" >&2
        exit 1
    fi
    if ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get $options install $missing > "$log" 2>&1; then
        tail -n 20 "$log" >&2
        echo "setup: apt-get could not install$missing" >&2
        exit 1
    fi
    echo "setup: done"
fi

version=$(cmake --version | sed -n '1s/^cmake version \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
set -- $version
if [ "${1:-0}" -lt 3 ] || { [ "$1" = 3 ] && [ "${2:-0}" -lt 25 ]; }; then
    echo "setup: CMake ${1:-?}.${2:-?} is too old; Ember needs 3.25 or later (Debian 12 has it)" >&2
    exit 1
fi
