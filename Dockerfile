# An image of dircopy and dirverify and nothing else.
#
#   docker build -t dircopy .
#   docker run --rm -v /photos:/in:ro -v /mnt/archive:/out dircopy -i /in -o /out
#
# `--entrypoint dirverify` runs the other program.
#
# The image that is handed on is the one whose tests passed: they run in the build. Tests that need
# privileges, FUSE or a file system of their own say so and skip.
FROM rust:1-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo test --locked

# Static, so that the image needs no distribution below it: nothing to update, nothing to attack.
# glibc rather than musl: it is in this builder already, where musl is one more target to download,
# and dircopy asks it for nothing (no host or user names) that a static glibc cannot do.
# `--target` although it is the builder's own: otherwise the flag reaches the proc macros as well,
# which are libraries and cannot be static.
RUN RUSTFLAGS="-C target-feature=+crt-static" cargo install --locked --path . --root /out \
        --target "$(rustc -vV | sed -n 's/^host: //p')"

FROM scratch
COPY --from=build /out/bin/ /usr/local/bin/
ENV PATH=/usr/local/bin
ENTRYPOINT ["dircopy"]
