#!/usr/bin/python3
"""A copier that is right when BROKEN is 0 and has one known defect when BROKEN is its number.

It exists to be caught: check.sh runs the defect tests against it. It knows only what those tests
need, and it is slow and simple on purpose.
"""
import errno, hashlib, os, re, stat, sys, threading, time

BROKEN = os.environ.get("BROKEN", "0")
SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20}


def broken(number):
    return BROKEN == str(number)


def usage(why):
    print(f"dircopy: {why}", file=sys.stderr)
    sys.exit(0 if broken(8) else 2)


def size(text):
    match = re.fullmatch(r"([0-9]+)([KM]?)", text)
    if match and int(match[1]):
        return int(match[1]) * SUFFIXES[match[2]]
    return 0 if broken(3) else usage(f"not a size: {text}")


def arguments(words):
    values = {"--block-size": "64K", "--overwrite-policy": "default", "--jobs": "1", "--queue-size": "1"}
    names = {"-i": "-i", "--input": "-i", "-o": "-o", "--output": "-o"} | {name: name for name in values}
    words = iter(words)
    for word in words:
        if word not in names:
            usage(f"unknown: {word}")
        values[names[word]] = next(words, "")
    if not values.get("-i") or not values.get("-o"):
        usage("-i and -o are needed")
    return values


def line(name, digest):
    if broken(6):
        return f"{digest}  {name.decode('utf-8', 'replace')}\n".encode()
    escaped = name.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
    return (b"\\" if escaped != name else b"") + digest.encode() + b"  " + escaped + b"\n"


class Copier:
    def __init__(self, src, dst, block, policy):
        self.src, self.dst, self.block, self.policy = src, dst, block, policy
        self.lines, self.failed = [], 0

    def fail(self, deed, name, why):
        self.failed += 1
        print(f"dircopy: cannot {deed} {ascii(name)[2:-1]}: {why}", file=sys.stderr)

    def blocks(self, file):
        while self.block:
            try:
                block = file.read(self.block)
            except OSError:
                if broken(2):
                    return
                raise
            if not block:
                return
            yield block

    def decide(self, source, there):
        """keep, replace or leave; `there` is what stands at the output."""
        if not stat.S_ISREG(there.st_mode):
            if broken(7):
                return "replace"
            return "replace" if stat.S_ISLNK(there.st_mode) and self.policy == "always" else "leave"
        if self.policy == "always":
            return "replace"
        if broken(4):
            source, there = there, source
        if (source.st_size, source.st_mtime_ns) == (there.st_size, there.st_mtime_ns):
            return "keep"
        newer = there.st_mtime_ns > source.st_mtime_ns
        cut_off = there.st_size < source.st_size and not newer
        replace = {"default": cut_off, "update": cut_off or not newer, "never": False}
        return "replace" if replace[self.policy] else "leave"

    def file(self, name):
        source, target = os.path.join(self.src, name), os.path.join(self.dst, name)
        part = target if broken(7) else os.path.join(os.path.dirname(target), b"xY3.dircopy-part")
        try:
            wanted = os.stat(source)
            if os.path.lexists(target):
                fate = self.decide(wanted, os.lstat(target))
                if fate == "leave":
                    return self.fail("copy", name, "left as it is, it differs")
                if fate == "keep":
                    with open(target, "rb") as file:
                        kept = hashlib.sha256(file.read()).hexdigest()
                    return None if broken(5) else self.lines.append(line(name, kept))
            digest = hashlib.sha256()
            with open(source, "rb", buffering=0) as file, open(part, "wb", buffering=0) as out:
                for block in self.blocks(file):
                    digest.update(block)
                    try:
                        while block:
                            block = block[out.write(block):]
                    except OSError:
                        if not broken(1):
                            raise
                os.fsync(out.fileno())
            os.chmod(part, stat.S_IMODE(wanted.st_mode))
            os.utime(part, ns=(wanted.st_mtime_ns, wanted.st_mtime_ns))
            os.replace(part, target)
            self.lines.append(line(name, digest.hexdigest()))
        except OSError as error:
            if part != target and os.path.exists(part):
                os.unlink(part)
            self.fail("copy", name, error.strerror)

    def tree(self, below=b"", depth=0):
        target = os.path.join(self.dst, below)
        os.makedirs(target, exist_ok=True)
        for entry in sorted(os.listdir(os.path.join(self.src, below))):
            name = os.path.join(below, entry)
            source, copy = os.path.join(self.src, name), os.path.join(self.dst, name)
            follow = broken(7) and depth < 5
            mode = (os.stat if follow else os.lstat)(source).st_mode
            if stat.S_ISLNK(mode):
                os.path.lexists(copy) or os.symlink(os.readlink(source), copy)
            elif stat.S_ISDIR(mode):
                self.tree(name, depth + 1)
            elif broken(9):
                thread = threading.Thread(target=self.file, args=(name,))
                thread.start()
                thread.join()
            else:
                self.file(name)
        times = os.stat(os.path.join(self.src, below))
        os.utime(target, ns=(times.st_mtime_ns, times.st_mtime_ns))


def manifest(dst, lines):
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()).encode()
    path, number = os.path.join(dst, b"dircopy-" + stamp + b".sha256sum"), 0
    while os.path.lexists(path):
        number += 1
        path = os.path.join(dst, b"dircopy-%s-%d.sha256sum" % (stamp, number))
    with open(path + b".part", "wb") as file:
        file.writelines(lines)
    os.rename(path + b".part", path)


def main():
    values = arguments(sys.argv[1:])
    src, dst = os.fsencode(values["-i"]), os.fsencode(values["-o"])
    block = size(values["--block-size"])
    if not os.path.isdir(src):
        usage("the source is not there")
    real = os.path.realpath
    inside = (real(dst) + b"/").startswith(real(src) + b"/")
    if inside and not broken(7):
        usage("the output is inside the source")
    copier = Copier(src, dst, block, values["--overwrite-policy"])
    copier.tree()
    manifest(dst, copier.lines)
    try:
        print(f"{len(copier.lines)} files", flush=True)
    except OSError as error:
        os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
        sys.exit(101 if broken(8) else 3 if error.errno == errno.EPIPE else 1)
    sys.exit(1 if copier.failed else 0)


main()
