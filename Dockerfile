# An image of dircopy and dirverify and nothing else:
#
#   docker build -t dircopy .
#   docker run --rm -v /photos:/in:ro -v /mnt/archive:/out dircopy -i /in -o /out
#
# `--entrypoint dirverify` runs the other program. And everything that can be handed on, as files: the
# programs for Linux and Windows, man pages, completions, and a list of digests:
#
#   docker build --target artefacts --output out .
#
# `--build-arg LAST=build` leaves Windows out of them.
ARG LAST=windows

# Linux. The programs are handed on only if the tests passed, built with the same libc. Tests that
# need privileges, FUSE or a file system of their own say so and skip.
#
# Static, so that neither the image nor the machine they run on needs any distribution below them.
# musl rather than glibc: a static glibc still wants its own version's shared parts for some calls,
# and its licence asks more of those who hand it on. BLAKE3's assembly needs musl-gcc, and so does a
# test's C code.
FROM rust:1-slim-bookworm AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends musl-tools \
 && rm -rf /var/lib/apt/lists/* \
 && rustup target add "$(uname -m)-unknown-linux-musl"
WORKDIR /src
COPY . .
RUN target="$(uname -m)-unknown-linux-musl" \
 && cargo test --locked --target "$target" \
 && cargo run --locked --target "$target" --example documents -- /out \
 && cargo install --locked --target "$target" --path . --root /installed \
 && mkdir "/out/linux-$(uname -m)" \
 && cp /installed/bin/* "/out/linux-$(uname -m)/" \
 && cp -r README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE-* docs contrib /out/ \
 && rm -rf target

# Windows.
FROM build AS windows
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc-mingw-w64-x86-64 \
 && rm -rf /var/lib/apt/lists/* \
 && rustup target add x86_64-pc-windows-gnu
RUN cargo install --locked --target x86_64-pc-windows-gnu --path . --root /installed-windows \
 && mkdir /out/windows-x86_64 \
 && cp /installed-windows/bin/*.exe /out/windows-x86_64/ \
 && rm -rf target

FROM ${LAST} AS gathered
RUN cd /out \
 && find . -type f -printf '%P\0' | sort -z | xargs -0 sha256sum >/dircopy.sha256sum \
 && mv /dircopy.sha256sum .

FROM scratch AS artefacts
COPY --from=gathered /out/ /

FROM scratch
COPY --from=build /installed/bin/ /usr/local/bin/
ENV PATH=/usr/local/bin
ENTRYPOINT ["dircopy"]
