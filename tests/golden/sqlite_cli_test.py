"""Databases of recordings: what is in them is what the other exports have, and every kind of row is
there. Reads them with Python's own SQLite. tests/golden/sample.h says what is in the samples.

Needs no root. Prints TAP.
"""
import json
import os
import re
import resource
import sqlite3
import subprocess

from cli import EACGM, RECORDINGS, ROOT, TOOLS, eacgm, job, main, test

SAMPLES = sorted(RECORDINGS.glob("*.eacgm"))


def database(folder, recording):
    path = folder / f"{recording.stem}.db"
    eacgm("export", recording, "-f", "sqlite", "-o", path)
    db = sqlite3.connect(path)
    return db


def lines(recording):
    said = eacgm("export", recording, "-f", "jsonl", "-o", "-").stdout
    rows = {}
    for row in map(json.loads, said.splitlines()):
        rows.setdefault(row["type"], []).append(row)
    return rows


def rows(db, sql):
    said = db.execute(sql)
    return [dict(zip((column[0] for column in said.description), row)) for row in said]


def kinds():
    """Each kind of row by the list of the sources, with its fields."""
    text = (ROOT / "src/events/kinds.h").read_text() + (ROOT / "src/events/kinds.c").read_text()
    for stem in re.findall(r"X\(\d+, \w+, (\w+), \w+\)", text):
        if stem != "stem":
            table = re.search(rf"\b{stem}_fields\[\] = {{(.*?)\n}};", text, re.S).group(1)
            table = table.replace("OF_FEATURE(", "X(anomaly, ").replace("OF_CALL(", "X(anomaly, ")
            yield stem, re.findall(r"\w+\(\w+, (\w+),", table)


@test
def every_kind_of_row_has_a_table_with_its_fields(folder):
    db = database(folder, SAMPLES[0])
    found = list(kinds())
    assert len(found) > 30, found
    for stem, fields in found:
        columns = [row[1] for row in db.execute(f"PRAGMA table_info(raw_{stem})")]
        assert columns, f"there is no table of {stem}"
        for field in fields:
            assert field in columns or f"{field}_7" in columns, f"{stem} has no {field}: {columns}"


@test
def every_view_can_be_read(folder):
    for sample in SAMPLES:
        db = database(folder, sample)
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert db.execute("PRAGMA user_version").fetchone()[0] == 1
        about, = rows(db, "SELECT * FROM eacgm")
        assert about["schema_version"] == 1 and about["damage"] is None, about
        assert about["version"] == eacgm("--version").stdout.split()[1]
        db.execute("PRAGMA trusted_schema=OFF")
        for view in rows(db, "SELECT name FROM sqlite_schema WHERE type = 'view'"):
            db.execute(f"SELECT * FROM {view['name']}").fetchall()
        db.close()


def argument(value):
    """As the database has it."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, list):
        return None  # of dimensions and shapes: text of their own
    return value


@test
def calls_are_those_of_jsonl(folder):
    for sample in SAMPLES:
        calls, want = rows(database(folder, sample), "SELECT * FROM calls ORDER BY id"), \
            lines(sample)["call"]
        assert len(calls) == len(want) > 0, sample
        for got, call in zip(calls, want):
            for key in ("start_ns", "duration_ns", "pid", "tid", "layer", "name", "depth"):
                assert got[key] == call[key], (key, got, call)
            for key in ("role", "file", "line"):
                assert got[key] == call.get(key), (key, got, call)
            assert got["flags"] == ";".join(call["flags"]), (got, call)
            args = json.loads(got["args"])
            assert args.keys() == call["args"].keys(), (got, call)
            for name, value in call["args"].items():
                assert args[name] == argument(value) or isinstance(value, list), (got, call)
                if isinstance(value, list):
                    assert re.findall(r"\d+", args[name]) == list(map(str, value)), (got, call)


def digits(value):
    """JSON has fifteen of them."""
    return float(f"{value:.15g}") if isinstance(value, float) else value


@test
def counters_and_tables_are_those_of_jsonl(folder):
    same = {
        "process": ("processes", "pid comm command start_ns end_ns exit_code rank cpu_limit"),
        "thread": ("threads", "pid tid comm"),
        "note": ("notes", "subject reason"),
        "gpu": ("gpus", "index parent uuid name bus_id driver memory_bytes power_limit_w seen_ns"),
        "comm": ("comms", "pid rank size device start_ns end_ns"),
        "event": ("events", "time_ns entity name text"),
        "counter": ("counters", "time_ns entity name value"),
        "wait": ("waits", "pid tid reason start_ns duration_ns runnable_ns syscall waker_tid"),
        "wait_total": ("wait_totals", "pid tid reason since_ns until_ns count waited_ns"),
        "stall": ("stalls", "pid tid kind start_ns duration_ns own_ns cpu"),
        "disk_io": ("disk_io", "disk pid comm since_ns reads read_bytes longest_ns"),
        "connection": ("connections", "pid source destination bytes_sent retransmits"),
    }
    seen = set()
    for sample in SAMPLES:
        db, want = database(folder, sample), lines(sample)
        for kind, (view, keys) in same.items():
            keys = keys.split()
            got = [[digits(row[k]) for k in keys] for row in rows(db, f"SELECT * FROM {view}")]
            assert got == [[digits(row[k]) for k in keys] for row in want.get(kind, [])], \
                (sample, kind, got[:3], want.get(kind, [])[:3])
            seen.update(got and [kind])
        about = want["recording"][0]
        lost = {row["cause"]: row["n"] for row in rows(
            db, "SELECT cause, sum(count) AS n FROM losses GROUP BY cause")}
        assert lost == about["lost_by_cause"], lost
        for row in rows(db, "SELECT * FROM recording"):
            assert about[row["key"]] == row["value"], row
        counted = [(r["pid"], r["layer"], r["name"], r["count"], r["total_ns"])
                   for r in rows(db, "SELECT * FROM histograms")]
        assert counted == [(r["pid"], r["layer"], r["name"], r["calls"], r["total_ns"])
                           for r in want.get("histogram", [])], counted
    assert {"process", "thread", "note", "gpu", "comm", "event", "counter"} <= seen, seen


@test
def functions_add_up(folder):
    for sample in SAMPLES:
        db, totals = database(folder, sample), {}
        for call in lines(sample)["call"]:
            total = totals.setdefault((call["layer"], call["name"]), [0, 0, 0, 0])
            total[0] += 1
            total[1] += call["duration_ns"]
            total[2] = max(total[2], call["duration_ns"])
            total[3] += "error" in call["flags"]
        got = {(r["layer"], r["name"]): [r["calls"], r["total_ns"], r["max_ns"], r["errors"]]
               for r in rows(db, "SELECT * FROM functions")}
        assert got == totals, (sample, got, totals)


@test
def steps_and_gpu_work_are_there(folder):
    db = database(folder, RECORDINGS / "v1.eacgm")
    steps = rows(db, "SELECT * FROM steps ORDER BY step")
    assert [s["step"] for s in steps] == list(range(10)), steps
    assert all(s["duration_ns"] == s["load_ns"] + s["forward_ns"] for s in steps), steps
    db = database(folder, RECORDINGS / "v1_ranks.eacgm")
    count, names, missed = db.execute(
        "SELECT count(*), group_concat(DISTINCT name), sum(duration_ns <> end_ns - start_ns) "
        "FROM gpu_kernels").fetchone()
    assert count == 1108 and missed == 0
    assert "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)" in names, names
    assert db.execute("SELECT count(*) FROM collectives").fetchone()[0] == 1108
    db = database(folder, RECORDINGS / "v1_profile.eacgm")
    assert db.execute("SELECT kind, reason, count(*) FROM samples GROUP BY 1, 2 ORDER BY 1, 2"
                      ).fetchall() == [("cpu", None, 1000), ("offcpu", "disk", 5),
                                       ("offcpu", "gil", 20)]


@test
def failures_leave_nothing(folder):
    def fails(*args, says, status=1, **kw):
        done = eacgm("export", *args, status=status, cwd=folder, **kw)
        assert says in done.stderr and done.stderr.count("\n") == 1, done.stderr
        assert not done.stdout

    sample, form = SAMPLES[0], ("-f", "sqlite")
    fails(sample, *form, says="sqlite needs a file to write: --output FILE", status=2)
    fails(sample, *form, "-o", "-", says="sqlite needs a file to write", status=2)
    for path in ("/dev/stdout", "/dev/full"):
        fails(sample, *form, "-o", path, says="sqlite is written to a file alone")
    fails(sample, *form, "-o", "none/out", says="cannot write 'none/out': No such file")
    fails(sample, *form, "-o", "out", "--counters", says="--counters is for csv", status=2)
    fails(sample, *form, "-o", "out", "--detect", says="no place for --detect", status=2)
    (folder / "out").write_text("what was there")
    for size in (0, 4096, 65536):
        fails(sample, *form, "-o", "out", says="cannot write 'out': File too large",
              preexec_fn=lambda size=size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
    assert os.listdir(folder) == ["out"] and (folder / "out").read_text() == "what was there"


def calls_of(recording):
    return eacgm("export", recording, "-f", "csv", "-o", "-").stdout.count("\ncall,")


@test
def damage_is_told_and_what_can_be_read_is_there(folder):
    whole = job(folder / "job.eacgm", 3, 300)
    all_calls = calls_of(whole)
    torn = folder / "torn.eacgm"
    torn.write_bytes(whole.read_bytes()[:whole.stat().st_size * 2 // 3])
    said = eacgm("export", torn, "-f", "sqlite", "-o", folder / "torn.db").stderr
    assert "damaged" in said or "cut short" in said, said
    db = sqlite3.connect(folder / "torn.db")
    calls, = db.execute("SELECT count(*) FROM calls").fetchone()
    assert 0 < calls < all_calls and calls == calls_of(torn)
    damage, = db.execute("SELECT value FROM recording WHERE key = 'damage'").fetchone()
    assert damage and damage in said, (damage, said)
    (folder / "text").write_text("no recording at all")
    assert "text" in eacgm("export", folder / "text", "-f", "sqlite", "-o", folder / "x",
                           status=1).stderr
    assert not (folder / "x").exists()


@test
def hostile_names_are_texts_without_controls(folder):
    for kind in ("plain", "gpu", "profile", "timeline"):
        path = folder / f"{kind}.eacgm"
        subprocess.run([TOOLS / "make_hostile", kind, path], check=True, timeout=60)
        db = database(folder, path)
        for text, in db.execute("SELECT text FROM strings"):
            assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", text), repr(text)
        for view in rows(db, "SELECT name FROM sqlite_schema WHERE type = 'view'"):
            db.execute(f"SELECT * FROM {view['name']}").fetchall()
    db = sqlite3.connect(folder / "plain.db")
    assert db.execute("SELECT count(*) FROM calls WHERE name LIKE 'aten::linear?[31m%'"
                      ).fetchone()[0] == 10


@test
def crafted_recordings_are_read_within_bounds(folder):
    for name in ("notes", "layers_called", "losses_by_cause", "counters"):
        path, out = folder / f"{name}.eacgm", folder / f"{name}.db"
        subprocess.run([TOOLS / "make_crafted", name, "60000", path], check=True, timeout=60)
        done = subprocess.run(
            [EACGM, "export", path, "-f", "sqlite", "-o", out], capture_output=True, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (30, 30)))
        assert done.returncode == 0, (name, done.stderr)
        assert sqlite3.connect(out).execute("PRAGMA integrity_check").fetchone()[0] == "ok"


main()
