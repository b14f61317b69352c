"""eacgm query: answers of recordings and databases, as text, JSON and CSV; that it only reads, says
what is wrong in one line, and ends in time.

Needs no root. Prints TAP.
"""
import csv
import hashlib
import io
import json
import os
import re
import sqlite3
import subprocess

from cli import EACGM, RECORDINGS, ROOT, TOOLS, eacgm, main, test

SAMPLE = RECORDINGS / "v1.eacgm"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


def query(*args, status=0, **kw):
    return eacgm("query", *args, status=status, **kw)


def answer(path, sql):
    return json.loads(query(path, sql, "--json").stdout)


def refused(path, sql, says, status=1, **kw):
    done = query(path, sql, status=status, **kw)
    assert says in done.stderr and done.stderr.count("\n") == 1, (sql, done.stderr)
    assert done.stdout == "", (sql, done.stdout)


def database(folder, recording=SAMPLE, name="run.db"):
    eacgm("export", recording, "-f", "sqlite", "-o", folder / name)
    return folder / name


@test
def recordings_and_databases_answer_alike(folder):
    for sample in sorted(RECORDINGS.glob("*.eacgm")):
        db = database(folder, sample, f"{sample.stem}.db")
        for view in ("functions", "steps", "calls", "processes", "gpu_kernels", "losses"):
            sql = f"SELECT * FROM {view}"
            said = answer(sample, sql)
            assert said == answer(db, sql), (sample, view)
            con = sqlite3.connect(db)
            con.row_factory = sqlite3.Row
            assert len(said) == len(con.execute(sql).fetchall())
            for got, want in zip(said, con.execute(sql)):
                assert got.keys() == dict(want).keys()
                assert all(got[k] == want[k] or abs(got[k] - want[k]) < 1e-9 * abs(want[k])
                           for k in got), (got, dict(want))


@test
def the_table_is_aligned(_):
    text = query(SAMPLE, "SELECT name, calls, mean_ns, NULL AS x FROM functions WHERE layer = "
                 "'torch' ORDER BY name").stdout.splitlines()
    assert text == ["name            calls    mean_ns  x",
                    "AddmmBackward0      5   300000.0  NULL",
                    "MmBackward0         5   300000.0  NULL",
                    "aten::addmm        10  1500000.0  NULL",
                    "aten::empty        10    50000.0  NULL",
                    "aten::linear       10  2000000.0  NULL"], text
    many = query(SAMPLE, "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE "
                 "x < 5000) SELECT x FROM c").stdout.splitlines()
    assert [line.strip() for line in many] == ["x"] + [str(x + 1) for x in range(5000)]


@test
def json_and_csv_hold_every_kind_of_value(_):
    sql = ("SELECT 1 AS n, 2 AS n, 2.5 AS r, 'a,\"b' AS t, NULL AS none, x'00ff' AS b, "
           "9223372036854775807 AS most, 1e999 AS inf")
    assert answer(SAMPLE, sql) == [{
        "n": 1, "n:2": 2, "r": 2.5, "t": 'a,"b', "none": None, "b": "00ff",
        "most": 2**63 - 1, "inf": None}]
    said = subprocess.run([EACGM, "query", SAMPLE, sql, "--csv"], capture_output=True, check=True)
    rows = list(csv.reader(io.StringIO(said.stdout.decode(), newline=""), strict=True))
    assert rows == [["n", "n", "r", "t", "none", "b", "most", "inf"],
                    ["1", "2", "2.5", 'a,"b', "", "00ff", str(2**63 - 1), "Inf"]], rows
    assert said.stdout.count(b"\r\n") == 2
    assert answer(SAMPLE, "SELECT 1 WHERE 0") == []


@test
def a_text_of_several_lines_is_one_line_of_a_table(_):
    sql = "SELECT 'one' || char(10) || 'two' || char(10) AS t"
    assert query(SAMPLE, sql).stdout == "t\none; two\n"
    assert query(SAMPLE, sql, "--csv").stdout.splitlines() == ["t", "one; two"]
    assert answer(SAMPLE, sql) == [{"t": "one\ntwo\n"}]


@test
def without_sql_it_lists_what_there_is(folder):
    for path in (SAMPLE, database(folder)):
        rows = json.loads(query(path, "--json").stdout)
        columns = {row["name"]: row["columns"].split(", ") for row in rows}
        assert {"start_ns", "duration_ns", "pid", "tid", "layer", "name", "args"} <= set(
            columns["calls"]), columns["calls"]
        assert {"functions", "steps", "counters", "gpu_spans", "gpu_kernels", "collectives",
                "incidents", "anomalies", "losses", "processes", "recording"} <= set(columns)
        assert rows[-1]["name"].startswith("raw_") and rows[0]["type"] == "view"
        assert query(path).stdout.startswith("name ")


@test
def a_query_only_reads(folder):
    db = database(folder)
    before = hashlib.sha256(db.read_bytes()).hexdigest()
    there = sorted(os.listdir(folder))
    for sql in ("DROP TABLE steps", "DELETE FROM strings", "CREATE TABLE x(a)", "VACUUM", "BEGIN",
                "CREATE TEMP TABLE x(a)", "UPDATE sqlite_schema SET sql = ''", "REINDEX",
                "ANALYZE", "SAVEPOINT x", "INSERT INTO steps(pid) VALUES(1)",
                f"VACUUM INTO '{folder}/copy'", "CREATE VIRTUAL TABLE v USING fts5(a)"):
        for path in (SAMPLE, db):
            done = query(path, sql, status=1)
            assert done.stderr.count("\n") == 1 and not done.stdout, (sql, done.stderr)
    for path in (SAMPLE, db):
        refused(path, f"ATTACH '{folder}/other' AS o", "ATTACH is refused")
        refused(path, "PRAGMA journal_mode = WAL", "PRAGMA journal_mode with a value is refused")
        refused(path, "PRAGMA user_version = 7", "PRAGMA user_version with a value is refused")
        refused(path, "PRAGMA writable_schema", "PRAGMA writable_schema is refused")
        refused(path, "SELECT load_extension('/x')", "the function load_extension is refused")
        assert answer(path, "PRAGMA user_version") == [{"user_version": 1}]
        assert len(answer(path, "PRAGMA table_info(steps)")) > 9
    assert hashlib.sha256(db.read_bytes()).hexdigest() == before
    assert sorted(os.listdir(folder)) == there


@test
def what_is_wrong_is_one_line(folder):
    refused(SAMPLE, "SELEC", 'near "SELEC": syntax error')
    refused(SAMPLE, "SELECT x FROM calls", "no such column: x")
    refused(SAMPLE, "SELECT * FROM nowhere", "no such table: nowhere")
    for sql in ("SELECT 1; SELECT 2", "SELECT 1; DROP TABLE steps", "SELECT 1; what"):
        refused(SAMPLE, sql, "one statement at a time")
    for sql in ("SELECT 1;", "SELECT 1 ; -- and more", "/* first */ SELECT 1 ;; /* last */"):
        assert answer(SAMPLE, sql) == [{"1": 1}]
    for sql in ("", "  ", "/* nothing */", ";"):
        refused(SAMPLE, sql, "there is no statement in the SQL")
    refused(SAMPLE, "SELECT zeroblob(1000000000)", "too big")
    refused(SAMPLE, "SELECT '\x1b[31m' || nowhere('\x1b[31m')", "no such function: nowhere")
    for args in (("--json", "--csv"), ("--timeout", "soon"), ("--timeout", "0")):
        done = query(SAMPLE, "SELECT 1", *args, status=2)
        assert done.stderr.count("\n") == 1, done.stderr
    assert query(status=2).stderr and query(SAMPLE, "SELECT 1", "2", status=2).stderr
    refused(folder / "none", "SELECT 1", "No such file")


@test
def files_that_are_no_database_are_told(folder):
    whole = database(folder).read_bytes()
    header = whole[:100]
    for name, data, says in (
            ("noise.db", b"SQLite format 3\0" + hashlib.sha256(b"x").digest() * 300, "database"),
            ("head.db", header, "malformed"), ("short.db", whole[:3000], "malformed"),
            ("magic.db", whole[:16], ""), ("empty.db", b"", "empty"), ("text.db", b"hello", "")):
        (folder / name).write_bytes(data)
        refused(folder / name, "SELECT * FROM calls", says)
    refused(folder, "SELECT 1", "")
    torn = folder / "torn.eacgm"
    torn.write_bytes(SAMPLE.read_bytes()[:-40])
    done = query(torn, "SELECT count(*) AS n FROM calls")
    assert "the recording is damaged" in done.stderr and done.stderr.count("\n") == 1


@test
def changed_databases_end_with_a_sentence(folder):
    """A page after the other is broken: an answer or one line, and no crash."""
    whole = bytearray(database(folder).read_bytes())
    path = folder / "changed.db"
    for at in range(30, len(whole), len(whole) // 60):
        changed = bytearray(whole)
        for i in range(at, min(at + 40, len(whole)), 3):
            changed[i] ^= 0xA5
        path.write_bytes(changed)
        for sql in ("SELECT * FROM calls", "SELECT * FROM functions", "PRAGMA integrity_check"):
            done = subprocess.run([EACGM, "query", path, sql, "--json"], capture_output=True,
                                  timeout=60, check=False)
            assert done.returncode in (0, 1), (at, sql, done.returncode, done.stderr)
            assert done.stderr.count(b"\n") == done.returncode, (at, sql, done.stderr)


@test
def hostile_databases_do_nothing_but_compute(folder):
    path = folder / "hostile.db"
    con = sqlite3.connect(path)
    con.executescript(
        "CREATE TABLE t(\"a\x1b[31m\" TEXT); INSERT INTO t VALUES('\x1b[31m\x9b\r\n\u202e,\"');"
        "CREATE VIEW loads AS SELECT load_extension('/tmp/x');"
        "CREATE VIEW big AS SELECT zeroblob(2000000000);"
        "CREATE VIEW endless AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
        "SELECT count(*) FROM c;")
    con.close()
    refused(path, "SELECT * FROM loads", "load_extension")
    refused(path, "SELECT * FROM big", "too big")
    for args in ((), ("--csv",)):
        said = query(path, "SELECT * FROM t", *args).stdout
        assert not CONTROL.search(said) and "a?[31m" in said, repr(said)
    assert answer(path, "SELECT * FROM t")[0]["a?[31m"].startswith("\x1b[31m")
    assert not CONTROL.search(query(path, "SELECT * FROM t", "--json").stdout)
    done = query(path, "SELECT * FROM endless", "--timeout", "300ms", status=1)
    assert "--timeout" in done.stderr and done.stderr.count("\n") == 1 and not done.stdout
    for kind in ("plain", "gpu"):
        recording = folder / f"{kind}\x1b[31m.eacgm"
        subprocess.run([TOOLS / "make_hostile", kind, recording], check=True, timeout=60)
        for args in ((), ("--csv",), ("--json",)):
            said = query(recording, "SELECT * FROM calls", *args)
            assert not CONTROL.search(said.stdout.replace("\r\n", "\n") + said.stderr)


@test
def memory_is_bounded(folder):
    path = folder / "layers.eacgm"
    subprocess.run([TOOLS / "make_crafted", "layers_called", "60000", path], check=True,
                   timeout=60)
    large = ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 45) "
             "SELECT hex(zeroblob(8000000)) FROM c")
    for sql in ("SELECT count(*) FROM functions", "SELECT count(*) FROM calls c JOIN calls d",
                large):
        with subprocess.Popen([EACGM, "query", path, sql, "--timeout", "2s"], text=True,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
            said = child.stderr.read()
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 0 or "--timeout" in said, said
        assert used.ru_maxrss < 600 << 10, (sql, used.ru_maxrss)


@test
def a_full_disk_and_a_closed_pipe_end_it(_):
    done = subprocess.run(f"{EACGM} query {SAMPLE} 'SELECT * FROM calls' > /dev/full", shell=True,
                          capture_output=True, check=False)
    assert done.returncode == 1 and b"cannot write to the standard output" in done.stderr
    endless = ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
               "SELECT x FROM c")
    done = subprocess.run(f"{EACGM} query {SAMPLE} '{endless}' --csv | head -3", shell=True,
                          capture_output=True, check=True, timeout=60)
    assert done.stdout.split() == [b"x", b"1", b"2"], done


@test
def the_queries_of_the_page_have_their_answers(_):
    gpu = RECORDINGS / "v1_gpu.eacgm"
    page = (ROOT / "docs/export.md").read_text()
    part = page[page.index("\n## sqlite"):page.index("\n## Bytes")]
    said = [answer(gpu, sql) for sql in re.findall(r"```sql\n(.*?)```", part, re.S)]
    assert len(said) == 5, len(said)
    functions, slowest, errors, allreduce, power = said
    assert functions[0] == {"layer": "python", "name": "train", "calls": 20, "total_ms": 18.0}, \
        functions
    assert len(slowest) == 3 and slowest[0] == {
        "pid": 100, "kind": "inference", "step": 1, "ms": 2.0, "load_ms": 1.92}, slowest
    assert errors == [{"name": "cuMemAlloc_v2", "result": "CUDA_ERROR_OUT_OF_MEMORY", "n": 2}], \
        errors
    assert allreduce == [{"pid": 100, "n": 10, "bytes": 10 << 22},
                         {"pid": 101, "n": 10, "bytes": 10 << 22}], allreduce
    assert power == [{"entity": f"gpu {i}", "mean": 440.0, "most": 480.0} for i in (0, 1)], power


main()
