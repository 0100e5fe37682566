"""Decides for random shelves whether each file of a source is covered, and holds `dircopy covered` against that.

    unshare -m python3 covered.py DIRCOPY DIRECTORY SEED SHELVES

Places are made by runs of the program itself and then spoiled. What a run left untouched shows by inode, size and times,
which are noted when it ended; all else the model reads itself. It knows nothing of how the program comes to its answer.
"""

import hashlib, json, os, random, re, shutil, subprocess, sys, time, zlib

DIRCOPY, TOP, SEED, SHELVES = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
CONTENTS = [b"", b"a", b"b", b"a" * 5000, b"b" * 5000, b"\0" * 70000, b"line\n" * 20000]
MOUNTS = ["m0", "m1", "m2", "m3"]
WEAK = ["xxh3", "xxh64", "xxh128"]


def run(*args, codes=(0,)):
    ran = subprocess.run([DIRCOPY, *args], capture_output=True, text=True, cwd=TOP)
    assert ran.returncode in codes, f"{args}: {ran.returncode}\n{ran.stdout}{ran.stderr}"
    return ran


def at(*names):
    return os.path.join(TOP, *names)


def files(top, own=False):
    """The regular files below a directory, but for what runs keep for themselves in its root."""
    found = []
    for here, dirs, names in os.walk(top):
        if here == top and not own:
            dirs[:] = [name for name in dirs if name not in (".dircopy", ".dircopy-trash")]
        dirs.sort()
        paths = [os.path.join(here, name) for name in sorted(names)]
        found += [path for path in paths if os.path.isfile(path) and not os.path.islink(path)]
    return found


def content(path):
    with open(path, "rb") as file:
        return file.read()


def put(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def trace(path):
    stat = os.lstat(path)
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


class Place:
    def __init__(self, path, trees=()):
        self.path, self.trees, self.known, self.listed = path, list(trees), {}, None
        self.top = path
        self.is_malformed, self.is_old = False, False

    def note(self, tree, source):
        """A run ended: what of its tree is as in the source is known as it is now."""
        for path in files(at(source)):
            copy = at(tree, os.path.relpath(path, at(source)))
            self.known[copy] = (trace(copy), content(copy))

    def contents(self, job):
        """What counts here."""
        if self.listed is not None:
            return self.listed if job["trust"] and not (self.is_old and job["recent"]) else set()
        if job["read"]:
            return {content(path) for tree in self.trees for path in files(at(tree))}
        return {
            data
            for path, (was, data) in self.known.items()
            if data is not None and os.path.lexists(path) and trace(path) == was
        }


def names(rng):
    return rng.choice(["", "d/", "d/e/"]) + rng.choice("pqrstuvw")


def spoil_source(rng, number):
    for _ in range(number):
        all = files(at("src/card"))
        path, new = rng.choice(all), at("src/card", names(rng))
        if os.path.isdir(new) or any(os.path.isfile(new[:end.start()]) for end in re.finditer("/", new)):
            continue
        what = rng.randrange(6)
        if what == 0:
            put(new, rng.choice(CONTENTS))
        elif what == 1 and not os.path.exists(new):
            os.makedirs(os.path.dirname(new), exist_ok=True)
            os.rename(path, new)
        elif what == 2 and new != path:
            put(new, content(path))
        elif what == 3 and not os.path.exists(new):
            os.makedirs(os.path.dirname(new), exist_ok=True)
            os.link(path, new)
        elif what == 4 and len(all) > 1:
            os.remove(path)
        else:
            put(path, b"new %d" % rng.randrange(3))


def spoil_tree(rng, tree, number):
    for _ in range(number):
        all = [path for path in files(at(tree)) if "/dircopy-" not in path and "/bag" not in path]
        if not all:
            return
        path, what = rng.choice(all), rng.randrange(7)
        stat, data = os.lstat(path), content(path)
        if what == 0 and data:  # rots
            rotten = bytes([data[0] ^ 1]) + data[1:]
            with open(path, "r+b") as file:
                file.write(rotten)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        elif what == 1:
            os.rename(path, path + ".renamed")
        elif what == 2:
            os.remove(path)
        elif what == 3:
            put(path + ".twice", data)
        elif what == 4:
            with open(path, "ab") as file:
                file.write(b"more")
        elif what == 5:
            os.utime(path)
        else:
            os.chmod(path, 0o600 if stat.st_mode & 0o077 else 0o644)


def copy(rng, path):
    """An output of plain runs."""
    place = Place(path, [path])
    by = rng.choice(["sha256"] * 5 + ["blake3", "sha256,md5", "md5", "sha512"] + WEAK[:1])
    args = ["--hash", by] + rng.choice([[], [], ["--verify"], ["--hard-links"], ["--format", "mhl", "--no-links"]])
    for turn in range(rng.choice([1, 1, 2])):
        if turn:
            spoil_source(rng, 2)
        run("-q", "src/card", path, "--overwrite-policy", "always", *args, codes=(0, 4) if "mhl" in args else (0,))
        place.note(path, "src/card")
    if by in WEAK:
        place.known = {}
    return place


def generations(rng, path):
    place = Place(path)
    for turn in range(rng.choice([1, 2, 3])):
        if turn:
            spoil_source(rng, 1)
        run("-q", "src/card", path, "--generations")
        place.trees = sorted(os.path.join(path, it) for it in os.listdir(at(path)) if it[0] == "2")
        place.note(place.trees[-1], "src/card")
    return place


def bag(rng, path):
    place = Place(path, [path])
    run("-q", "src/card", path, "--bag", "--no-links")
    place.note(path + "/data", "src/card")
    return place


def plain(rng, path):
    """What another program copied, or a stranger left, with a manifest that says whatever it likes."""
    place = Place(path, [path])
    shutil.copytree(at("src/card"), at(path), symlinks=True)
    if rng.random() < 0.6:
        lines = ""
        for file in files(at("src/card")):
            name, data = os.path.relpath(file, at("src/card")), content(file)
            lines += f"{hashlib.sha256(data).hexdigest()}  {name}\n"
            if rng.random() < 0.5:
                put(at(path, name), b"something else")
        put(at(path, "dircopy-20261101T000000Z.sha256sum"), lines.encode())
    return place


def cloned(rng, path, other):
    """An output that was copied elsewhere with everything that runs keep for themselves."""
    place = Place(path, [path])
    subprocess.run(["cp", "-a", os.path.realpath(at(other.path)), at(path)], check=True)
    place.trees = [path + tree[len(other.top):] for tree in other.trees]
    return place


def a_list(rng, number, places):
    """A list of what is, or was, at a place."""
    tree = rng.choice([tree for place in places for tree in place.trees] or ["src/card"])
    manifests = [it for it in sorted(os.listdir(at(tree))) if re.fullmatch(r"dircopy-.*sum", it)]
    kind = rng.choice(["manifest", "manifest", "json", "md5", "sfv"])
    if kind == "manifest" and manifests:
        name = rng.choice(manifests)
        when = rng.choice(["dircopy-20200102T030405Z", "dircopy-29990102T030405Z", f"list{number}", None, None])
        place = Place(re.sub("^dircopy-.*Z", when, name) if when else name)
        # The name of a list says of which of two algorithms it is.
        place.is_old = not re.match(time.strftime("dircopy-%Y%m%d", time.gmtime()), place.path)
        os.makedirs(at(f"lists{number}"), exist_ok=True)
        shutil.copy(at(tree, name), at(f"lists{number}", place.path))
        place.path = f"lists{number}/{place.path}"
        by = name.rsplit(".", 1)[1].removesuffix("sum").replace("b3", "blake3")
        listed = {line.split(" ", 1)[0] for line in content(at(tree, name)).decode().splitlines()}
        of = {"xxh3": None, "xxh64": None, "xxh128": None}.get(by, by)
        digest = (lambda data: None) if of is None else of_name(of)
        place.listed = {data for data in every() if digest(data) in listed}
        return place
    place = Place(f"list{number}.{kind}")
    place.is_old = True
    all = [path for path in files(at(tree)) if rng.random() < 0.9] or files(at(tree))
    place.listed = {content(path) for path in all}
    if not all:
        return None
    names = [(os.path.relpath(path, at(tree)), content(path)) for path in all]
    if kind == "json":
        entry = lambda name, data: {"Path": name, "Name": os.path.basename(name), "Size": len(data), "IsDir": False,
                                    "Hashes": {"sha256": hashlib.sha256(data).hexdigest()}}
        text = json.dumps([entry(*it) for it in names])
    elif kind == "sfv":
        text = "".join(f"{name} {zlib.crc32(data):08x}\n" for name, data in names)
        place.listed = set()
    else:
        text = "".join(f"{hashlib.md5(data).hexdigest()}  {name}\n" for name, data in names)
    if kind != "json" and rng.random() < 0.1:
        text, place.is_malformed = text + "\x01 no line\n", True
    put(at(place.path), text.encode())
    return place


def of_name(name):
    if name == "blake3":
        ask = lambda data: subprocess.run(["b3sum"], input=data, capture_output=True).stdout[:64].decode()
        known = {}
        return lambda data: known.setdefault(data, None) or known.update({data: ask(data)}) or known[data]
    return lambda data: getattr(hashlib, name)(data).hexdigest()


def every():
    return {content(path) for path in files(at("src/card"))}


def same(one, other, job):
    """True if a list may be another one, or that of a tree."""
    if one.listed is not None:
        is_same_file = os.path.samefile(at(one.path), at(other.path))
        is_same = content(at(one.path)) == content(at(other.path))
        run = lambda place: re.match(r"dircopy-\d{8}T\d{6}Z(-\d+)?\.", os.path.basename(place.path))
        is_of_run = run(one) and run(other) and run(one)[0] == run(other)[0]
        return is_same_file or not job["apart"] and bool(is_same or is_of_run)
    manifests = [at(top, it) for top in one.trees for it in os.listdir(at(top)) if it.startswith("dircopy-2")]
    return not job["apart"] and any(content(path) == content(at(other.path)) for path in manifests)


def expect(places, job):
    """At how many places each file of the source is."""
    trees, lists = [it for it in places if it.listed is None], [it for it in places if it.listed is not None]
    device = lambda place: os.stat(at(place.path)).st_dev
    card = os.stat(at("src")).st_dev
    may_be = {a_list: {device(tree) for tree in trees if same(tree, a_list, job)} for a_list in lists}
    joined = [{a_list} for a_list in set(lists)]
    for one in lists:
        for other in lists:
            if same(one, other, job) or may_be[one] & may_be[other]:
                both = next(it for it in joined if one in it) | next(it for it in joined if other in it)
                joined = [it for it in joined if not it & both] + [both]
    contents = {place: place.contents(job) for place in places}
    counts = {}
    for path in files(at("src/card")):
        data = content(path)
        disks = {device(tree) for tree in trees if data in contents[tree]} - {card}
        number = len(disks)
        for some in joined:
            disks_of = set().union(*(may_be[it] for it in some))
            if any(data in contents[it] for it in some) and not disks_of:
                number += 1
        counts[os.path.relpath(path, at("src/card"))] = number
    return counts


def shelf(rng):
    for mount in ["src", *MOUNTS]:
        for name in os.listdir(at(mount)):
            shutil.rmtree(at(mount, name))
    for name in os.listdir(TOP):
        if name.startswith("list") or name.startswith("link"):
            shutil.rmtree(at(name)) if os.path.isdir(at(name)) and not os.path.islink(at(name)) else os.remove(at(name))
    os.mkdir(at("src/card"))
    put(at("src/card/first"), rng.choice(CONTENTS))
    spoil_source(rng, rng.randrange(8))
    os.symlink("first", at("src/card/link"))
    places = []
    for number in range(rng.choice([1, 2, 2, 3, 4])):
        trees = [place for place in places if place.trees and not place.path.startswith("src/")]
        path = rng.choice(["src", *MOUNTS * 3]) + f"/place{number}"
        kind = rng.choice([copy, copy, copy, copy, generations, bag, plain, cloned, a_list, a_list, "link", "twice"])
        if kind is a_list:
            places += filter(None, [a_list(rng, number, trees)])
        elif kind is cloned and trees:
            places.append(cloned(rng, path, rng.choice(trees)))
        elif kind == "link" and trees:
            other = rng.choice(trees)
            link = Place(f"link{number}")
            os.symlink(at(other.path), at(link.path))
            link.trees, link.known, link.top = other.trees, other.known, other.top
            places.append(link)
        elif kind == "twice" and places:
            places.append(rng.choice(places))
        else:
            places.append((kind if kind in (generations, bag, plain) else copy)(rng, path))
    if rng.random() < 0.5:
        spoil_source(rng, rng.randrange(1, 3))
    if rng.random() < 0.6:
        for tree in [tree for place in places for tree in place.trees if rng.random() < 0.5]:
            spoil_tree(rng, tree, rng.randrange(1, 3))
    return places


def judge(rng, places):
    job = {"copies": rng.choice([1, 2, 2, 3])}
    options = {"read": 0.4, "trust": 0.6, "apart": 0.4, "recent": 0.3}
    job |= {name: rng.random() < chance for name, chance in options.items()}
    job["apart"] &= job["trust"]
    args = ["covered", "src/card", "--count-memory", *(place.path for place in places), "--copies", str(job["copies"])]
    args += ["--read"] * job["read"] + ["--trust-lists"] * job["trust"] + ["--lists-apart"] * job["apart"]
    args += ["--not-older", "2d"] * job["recent"]
    before = [(path, trace(path)) for path in files(TOP, own=True)]
    ran = run(*args, codes=(0, 4, 5))
    assert before == [(path, trace(path)) for path in files(TOP, own=True)], "something was changed"
    counts = expect(places, job)
    wanted = {name: number for name, number in counts.items() if number < job["copies"]}
    told = re.findall(r"^at (\d+) of \d+ places?: (\S+) \(", ran.stdout, re.M)
    told = {name: int(number) for number, name in told}
    code = 4 if wanted else 5 if any(place.is_malformed for place in places) else 0
    assert (told, ran.returncode) == (wanted, code), (
        f"{args}\n{ran.stdout}{ran.stderr}\n{ran.returncode}, expected {code} and {wanted}"
    )
    assert (code == 0) == ("may be erased" in ran.stdout), ran.stdout
    return code


def main():
    tally = {}
    for mount in ["src", *MOUNTS]:
        os.makedirs(at(mount), exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "none", at(mount)], check=True)
    for number in range(SEED, SEED + SHELVES):
        rng = random.Random(number)
        try:
            places = shelf(rng)
            if not places:
                continue
            for _ in range(3):
                code = judge(rng, places)
                tally[code] = tally.get(code, 0) + 1
        except BaseException:
            print(f"shelf {number}", flush=True)
            raise
    print(f"{SHELVES} shelves: " + ", ".join(f"{tally[code]} answers {code}" for code in sorted(tally)))
    assert tally.get(0) and tally.get(4), "it is no test if one answer is never right"


main()
