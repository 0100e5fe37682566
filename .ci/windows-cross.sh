#!/usr/bin/env bash
# Sets up a cross build for x86_64-pc-windows-gnu, and Wine to run what it makes, on Debian 12.
#
# Where rustup cannot download std for the target, for this machine reaches only Debian's archive and cargo's registry, it
# is built from the sources that Debian's rust-src carries for exactly the compiler in use, below $WIN: two minutes from
# nothing, seconds when it is there already.
#
#   WIN=DIR .ci/windows-cross.sh                   set up, as root
#   . $WIN/env.sh                                  then, in any shell:
#   cargo build --release --target x86_64-pc-windows-gnu
#   cargo test --target x86_64-pc-windows-gnu      runs the tests under Wine
#   $WIN/run-wine path/to/x.exe ARGS...
#
# Wine is not Windows. Seen under Wine 8.0, and not the program's fault: canonicalize of a path over
# 260 characters fails (os error 234); LC_ALL=C breaks non-ASCII names (run-wine sets C.UTF-8); root
# may write read-only files; symlink_file returns Ok and creates nothing; `a:b` becomes an ordinary
# file; error texts differ from Windows' (compare ErrorKind or the raw code). A file that a Linux shell
# redirects standard input or output to can be read and written and otherwise is no handle (os error 6); with
# `run-wine cmd /c '… < in > out'` it is.
set -euo pipefail
WIN=${WIN:-${TMPDIR:-/tmp}/windows-cross}
TOOLCHAIN=${TOOLCHAIN:-$(rustup show active-toolchain | cut -d' ' -f1)}
SUITES=${SUITES:-trixie-backports forky sid trixie} # where newer compilers' sources are
TARGET=x86_64-pc-windows-gnu
mkdir -p "$WIN" && WIN=$(realpath "$WIN") && cd "$WIN"
export DEBIAN_FRONTEND=noninteractive

VERSION=$(rustc "+$TOOLCHAIN" --version | cut -d' ' -f2)
COMMIT=$(rustc "+$TOOLCHAIN" --version -v | sed -n 's/^commit-hash: //p')
echo "rustc $VERSION ($TOOLCHAIN)"

# 1. The linker, and Wine, from bookworm itself.
need=()
for package in gcc-mingw-w64-x86-64 wine wine64; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || need+=("$package")
done
if [ ${#need[@]} -gt 0 ]; then
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${need[@]}" >/dev/null
fi

# std's sources of this very version. Private apt state: the system's own sources stay as they are.
sources_of_std() {
    local archive private found debian
    if [ ! -f "src-$VERSION/library/std/Cargo.toml" ]; then
        # shellcheck disable=SC2016 # apt's own placeholders
        archive=$(apt-get indextargets --format '$(REPO_URI)|$(CODENAME)|$(COMPONENT)|$(ORIGIN)' \
            'Created-By: Packages' | awk -F'|' '$2 == "bookworm" && $3 == "main" && $4 == "Debian" {
                print $1; exit }')
        [ -n "$archive" ] || { echo "no Debian bookworm main in the machine's apt sources" >&2 && exit 1; }
        mkdir -p apt/lists/partial apt/cache/archives/partial
        for suite in $SUITES; do
            echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $suite main"
        done >apt/sources.list
        private=(-o Dir::Etc::sourcelist="$WIN/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
            -o Dir::State::lists="$WIN/apt/lists" -o Dir::Cache="$WIN/apt/cache"
            -o APT::Sandbox::User=root -o Acquire::Languages=none)
        apt-get "${private[@]}" -qq update
        found=$(apt-cache "${private[@]}" madison rust-src | awk -F'|' '{ gsub(/ /, "", $2); print $2 }')
        debian=$(awk -v v="$VERSION+" 'index($0, v) == 1 { print; exit }' <<<"$found")
        [ -n "$debian" ] || { echo "no rust-src $VERSION in $SUITES, only:" "$found" >&2 && exit 1; }
        rm -rf unpack "src-$VERSION" && mkdir -p unpack "src-$VERSION"
        (cd unpack && apt-get "${private[@]}" -qq download "rust-src=$debian" &&
            dpkg-deb --fsys-tarfile rust-src_*.deb | tar -x "./usr/src/rustc-$VERSION/library")
        mv "unpack/usr/src/rustc-$VERSION/library" "src-$VERSION/"
        rm -rf unpack
        echo "rust-src $debian"
    fi
}

# std for the target, built once (about 75 s on two slow cores).
build_std() {
    LIB=$WIN/sysroot/lib/rustlib/$TARGET/lib
    if [ "$(cat "$LIB/.stamp" 2>/dev/null)" != "$COMMIT" ]; then
        rm -rf mkstd "$LIB" && mkdir -p mkstd/src "$LIB"
        cat >mkstd/Cargo.toml <<'TOML'
cargo-features = ["profile-rustflags"]
[package]
name = "mkstd"
version = "0.0.0"
edition = "2021"
[workspace]
# As in library/Cargo.toml: these two must be built so.
[profile.release.package.panic_abort]
rustflags = ["-Cpanic=abort"]
[profile.release.package.compiler_builtins]
codegen-units = 10000
TOML
        : >mkstd/src/lib.rs
        (
            cd mkstd
            unset CARGO_TARGET_DIR CARGO_BUILD_TARGET
            # __CARGO_TESTS_ONLY_SRC_ROOT: cargo's own switch for where std's workspace is.
            # embed-bitcode: so that crates built against it may use lto.
            __CARGO_TESTS_ONLY_SRC_ROOT=$WIN/src-$VERSION/library RUSTC_BOOTSTRAP=1 \
                RUSTFLAGS="-Cembed-bitcode=yes --remap-path-prefix=$WIN/src-$VERSION=/rustc/$COMMIT" \
                cargo "+$TOOLCHAIN" build -q --release --target $TARGET \
                -Z build-std=std,panic_abort,panic_unwind,proc_macro,test
        )
        cp mkstd/target/$TARGET/release/deps/*.rlib "$LIB/"
        rm -rf "$LIB"/libmkstd-* mkstd
        echo "$COMMIT" >"$LIB/.stamp"
    fi
}

# 2. std for the target.
FLAGS=
if ! timeout 120 rustup target add --toolchain "$TOOLCHAIN" $TARGET 2>/dev/null; then
    sources_of_std
    build_std
    # Only the target's crates see this; build scripts and proc macros keep rustup's own.
    FLAGS="--sysroot=$WIN/sysroot"
fi

# 3. A Wine prefix. Wine 8.0 lacks bcryptprimitives.dll, which Rust's std imports since 1.78.
export WINEPREFIX=$WIN/wine WINEDEBUG=-all LC_ALL=C.UTF-8
DLL=$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll
if [ ! -f "$DLL" ]; then
    wineboot -i >/dev/null 2>&1
    wineserver -w || true
    cat >bcryptprimitives.c <<'C'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);          /* = RtlGenRandom */
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE p, SIZE_T n)
{
    while (n) {
        ULONG k = n > 0x40000000 ? 0x40000000 : (ULONG)n;
        if (!SystemFunction036(p, k)) return FALSE;
        p += k; n -= k;
    }
    return TRUE;
}
C
    x86_64-w64-mingw32-gcc -O2 -s -shared -o "$DLL" bcryptprimitives.c -ladvapi32
fi

# 4. What a shell needs.
cat >env.sh <<ENV
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUSTFLAGS="$FLAGS"
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUSTDOCFLAGS="$FLAGS" # doc tests
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER="$WIN/run-wine"
ENV
cat >run-wine <<RUN
#!/bin/bash
export WINEPREFIX="$WIN/wine" WINEDEBUG="\${WINEDEBUG:--all}" LC_ALL=C.UTF-8
exec /usr/lib/wine/wine64 "\$@"
RUN
chmod +x run-wine
echo "ready: . $WIN/env.sh; cargo +$TOOLCHAIN build --release --target $TARGET"
