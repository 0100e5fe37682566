"""Fills random shelves and their catalogues, and holds what `dircopy catalog` says against a model of them.

    unshare -m python3 catalog.py DIRCOPY DIRECTORY SEED SHELVES

The model knows what was added: of a tree the files that are as a run left them, by inode, size and times; of a list what it
lists. The program is asked through `export`, `find` and `status`, and the database itself by Python's own SQLite.
"""

import fnmatch, hashlib, json, os, random, re, shutil, sqlite3, subprocess, sys

DIRCOPY, TOP, SEED, SHELVES = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
MOUNTS, PLACES = ["m0", "m1", "m2"], {}
CATALOG = os.path.join(TOP, "catalog.sqlite")
DIRS, NAMES = ["", "d/", "d/e/", "f/"], ["p.mov", "q.mov", "r.txt", "s", "t.mov"]


def run(*args, codes=(0,)):
    ran = subprocess.run([DIRCOPY, *args], capture_output=True, text=True, cwd=TOP)
    assert ran.returncode in codes, f"{args}: {ran.returncode}\n{ran.stdout}{ran.stderr}"
    return ran


def catalog(what, *args, codes=(0,)):
    return run("catalog", what, "--catalog", CATALOG, *args, codes=codes)


def at(*names):
    return os.path.join(TOP, *names)


def put(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def trace(path):
    stat = os.lstat(path)
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def files(top):
    found = []
    for here, dirs, names in os.walk(top):
        if here == top:
            dirs[:] = [name for name in dirs if name != ".dircopy"]
            names = [name for name in names if not name.startswith("dircopy-")]
        found += [os.path.relpath(os.path.join(here, name), top) for name in names]
    return sorted(found)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Shelf:
    def __init__(self, rng):
        self.rng = rng
        self.known = {}  # of each tree: what a run left under a path, and its digest
        self.entries = {}  # (place, below): {path: digest}
        self.times = {}  # of what a list said: as of when
        for name in MOUNTS + ["src", "lists"]:
            shutil.rmtree(at(name), ignore_errors=True) if name in ("src", "lists") else self.empty(at(name))
        for name in os.listdir(TOP):
            if name.startswith("catalog.sqlite"):
                os.remove(at(name))

    def empty(self, top):
        for name in os.listdir(top):
            shutil.rmtree(os.path.join(top, name))

    def data(self):
        return b"content %d" % self.rng.randrange(6)

    def copy(self):
        rng, tree = self.rng, f"{self.rng.choice(MOUNTS)}/{self.rng.choice(['', 'x/'])}t{self.rng.randrange(2)}"
        shutil.rmtree(at("src"), ignore_errors=True)
        put(at("src", "first"), self.data())
        for _ in range(rng.randrange(6)):
            put(at("src", rng.choice(DIRS) + rng.choice(NAMES)), self.data())
        os.makedirs(os.path.dirname(at(tree)), exist_ok=True)
        runs_catalog = rng.random() < 0.3
        args = [f"--catalog={CATALOG}"] if runs_catalog else []
        # 4: a file that is no longer in the source was spoiled. Such an output is not added.
        ran = run("-q", "src", tree, "--overwrite-policy", "always", *args, codes=(0, 4))
        known = self.known.setdefault(tree, {})
        for name in files(at("src")):
            known[name] = (trace(at(tree, name)), sha256(content(at("src", name))))
        if runs_catalog and ran.returncode == 0:
            self.take(tree)

    def spoil(self):
        if not self.known:
            return
        tree = self.rng.choice(sorted(self.known))
        all = files(at(tree))
        if not all:
            return
        path = at(tree, self.rng.choice(all))
        what = self.rng.randrange(4)
        if what == 0:
            stat, data = os.lstat(path), content(path)
            with open(path, "r+b") as file:
                file.write(bytes([data[0] ^ 1]))
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        elif what == 1:
            os.rename(path, path + ".renamed")
        elif what == 2:
            os.remove(path)
        else:
            put(path + ".new", b"new")

    def untouched(self, tree):
        return {
            name: digest
            for name, (was, digest) in self.known[tree].items()
            if os.path.lexists(at(tree, name)) and trace(at(tree, name)) == was
        }

    def take(self, tree):
        mount, below = tree.split("/", 1)
        self.entries[PLACES[mount], below] = self.untouched(tree)
        self.times.pop((PLACES[mount], below), None)

    def add_tree(self):
        if not self.known:
            return
        tree = self.rng.choice(sorted(self.known))
        there = self.untouched(tree)
        # What is there and is not known, and what is known and is gone, are named.
        is_all = set(files(at(tree))) == set(there) == set(self.known[tree])
        gone = [name for name in self.known[tree] if not os.path.lexists(at(tree, name))]
        is_taken = bool(there or gone)
        catalog("add", tree, codes=(2,) if not is_taken else (0,) if is_all else (1,))
        if is_taken:
            self.take(tree)

    def add_list(self):
        rng = self.rng
        names = {rng.choice(DIRS) + rng.choice(NAMES) for _ in range(rng.randrange(1, 6))}
        listed = {name: sha256(self.data()) for name in names}
        when = rng.choice([None, 1, 2, 3])
        name = f"list{rng.randrange(3)}" if when is None else f"dircopy-2020010{when}T000000Z.sha256sum"
        put(at("lists", name), "".join(f"{it[1]}  {it[0]}\n" for it in sorted(listed.items())).encode())
        place, below = rng.choice(["drawer", name]), rng.choice(["", "b", "b/c"])
        args = [] if place == name else ["--place", place]
        args += ["--below", below] if below else []
        known = self.times.get((place, below))
        is_older = known is not None and when is not None and when < known
        catalog("add", f"lists/{name}", *args, codes=(2,) if is_older else (0,))
        if not is_older:
            self.entries[place, below], self.times[place, below] = listed, when

    def forget(self):
        places = sorted({place for place, _ in self.entries})
        if not places or self.rng.random() < 0.2:
            if os.path.exists(CATALOG):
                catalog("forget", "no such place", codes=(2,))
            return
        place = self.rng.choice(places)
        catalog("forget", place)
        for key in [key for key in self.entries if key[0] == place]:
            del self.entries[key]
            self.times.pop(key, None)

    def all(self):
        """Each file: its place, its path there, its name's path in its tree, and its digest."""
        for (place, below), entries in self.entries.items():
            for path, digest in entries.items():
                yield place, "/".join(filter(None, [below, path])), digest

    def judge(self):
        if not os.path.exists(CATALOG):
            catalog("status", codes=(2,))
            return
        mine = sorted(self.all())
        lines = [json.loads(line) for line in catalog("export").stdout.splitlines()]
        assert sorted((it["place"], it["path"], it["digest"]) for it in lines) == mine, (lines, mine)
        rows = sqlite3.connect(CATALOG).execute(
            "SELECT p.name, t.below, d.path, f.name, lower(hex(f.digest)) FROM file f JOIN directory d ON d.id = f.directory "
            "JOIN tree t ON t.id = d.tree JOIN place p ON p.id = t.place")
        rows = sorted((row[0], "/".join(filter(None, row[1:4])), row[4]) for row in rows)
        assert rows == mine, (rows, mine)
        for _ in range(3):
            self.judge_find(mine)
        self.judge_status(mine)

    def judge_find(self, mine):
        rng, what = self.rng, self.rng.randrange(5)
        name = rng.choice(NAMES)
        path = rng.choice(DIRS[1:]) + name
        if what == 0:
            word, is_it = name, lambda it: it[1].split("/")[-1] == name
        elif what == 1:
            word, is_it = path, lambda it: ("/" + it[1]).endswith("/" + path)
        elif what == 2:
            word = rng.choice(["*", "*.mov", "?.txt", "[p-r].mov", "nothing*"])
            is_it = lambda it: fnmatch.fnmatchcase(it[1].split("/")[-1], word)
        elif what == 3:
            word = rng.choice(["d/*", "e/*.mov", "b/*/?", "x/t*"])
            above, last = word.rsplit("/", 1)
            split = lambda it: ("/" + it[1]).rsplit("/", 1)
            match = fnmatch.fnmatchcase
            is_it = lambda it: match(split(it)[0], "*/" + above) and match(split(it)[1], last)
        else:
            digest = sha256(self.data())
            word = rng.choice([digest, digest.upper(), "sha256:" + digest])
            is_it = lambda it: it[2] == digest
        wanted = sorted(it[:2] for it in mine if is_it(it))
        ran = catalog("find", word, codes=(0,) if wanted else (4,))
        told = [re.fullmatch(r"(\S+): (\S+) \(.*\)", line).groups() for line in ran.stdout.splitlines()]
        assert sorted(told) == wanted, (word, told, wanted)

    def is_unnamed(self, place):
        return place != "drawer" and place not in PLACES.values()

    def judge_status(self, mine):
        copies = self.rng.choice([1, 2, 3])
        at_places = {}
        for place, _, digest in mine:
            at_places.setdefault(digest, set()).add(place)
        # A list whose place was not named may be of any disk: all of these are none beside others, and one together.
        at_all = {digest: max(1, sum(not self.is_unnamed(it) for it in at)) for digest, at in at_places.items()}
        lacking = {digest: number for digest, number in at_all.items() if number < copies}
        is_stale = any(key in self.times for key in self.entries)
        ran = catalog("status", "--copies", str(copies), "--not-since", "2d", codes=(4,) if lacking or is_stale else (0,))
        told = re.findall(r"^at (\d+) of \d+ places?: (\S+) \((\S+)\)$", ran.stdout, re.M)
        digests = {(place, path): digest for place, path, digest in mine}
        told = {digests[place, path]: int(number) for number, path, place in told}
        assert told == lacking, (copies, told, lacking, ran.stdout)
        for place in {it[0] for it in mine}:
            line = re.search(rf"^{re.escape(place)}: (\d+) files?(?:; (\d+) at too few places)?(.*)$", ran.stdout, re.M)
            of_it = [it for it in mine if it[0] == place]
            few = sum(it[2] in lacking for it in of_it)
            assert (int(line[1]), int(line[2] or 0)) == (len(of_it), few), (line[0], len(of_it), few)


def main():
    for mount in MOUNTS:
        os.makedirs(at(mount), exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", at(mount)], check=True)
        # Some systems give every mount a UUID, and some have only its path to call it by.
        put(at("src/first"), b"")
        run("-q", "src", f"{mount}/t", f"--catalog={CATALOG}")
        place = sqlite3.connect(CATALOG).execute("SELECT name FROM place WHERE mount = ?", [at(mount)])
        PLACES[mount] = place.fetchone()[0]
    for number in range(SHELVES):
        rng = random.Random(SEED * 100_000 + number)
        shelf = Shelf(rng)
        steps = []
        try:
            for _ in range(rng.randrange(3, 12)):
                step = rng.choice([shelf.copy, shelf.copy, shelf.spoil, shelf.add_tree, shelf.add_tree, shelf.add_list,
                                   shelf.add_list, shelf.forget])
                steps.append(step.__name__)
                step()
            shelf.judge()
        except BaseException:
            print(f"shelf {number} of seed {SEED}: {steps}")
            raise
    print(f"{SHELVES} shelves agree")


main()
