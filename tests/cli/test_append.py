"""``atoll append``: files, stdin and arguments; what was refused; exit codes."""

import gzip
import io
import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from atoll.cli import client
from atoll.client.asking import calls

ROWS = [{"v": number} for number in range(1_000)]


def lines(rows):
    """JSONL."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def test_arguments(atoll, url, app):
    """Records as JSON arguments, however laid out."""
    done = atoll("append", "key-pairs", "numbers", '{"v": 1}', '{"v":\n 2}')
    assert (done.code, done.out) == (0, "arguments: 2 appended\n")
    assert app.depot("numbers").rows == [{"v": 1}, {"v": 2}]


def test_wait(atoll, url, app):
    """For the offsets behind all that was appended; too long is told apart from not stored."""
    appended = ("append", "key-pairs", "numbers", '{"v": 1}', '{"v": 2}', "--wait")
    assert atoll(*appended).code == 0
    assert app.waited == ("numbers", {0: 2}, 60.0)
    done = atoll(*appended, "--timeout", "0.5")
    assert (done.code, done.out) == (5, "arguments: 2 appended\n")
    assert done.err.startswith("2 records are stored: do not append them again\nerror: not reached")
    assert app.depot("numbers").rows == [{"v": 1}, {"v": 2}] * 2


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "csv", "csv.gz", "parquet", "arrow"])
def test_files(atoll, url, app, tmp_path, suffix):
    """Each format by the file's name, packed or not; all rows arrive in order."""
    file = tmp_path / f"rows.{suffix}"
    table = pa.table({"v": [row["v"] for row in ROWS]})
    packed = gzip.compress if suffix.endswith(".gz") else bytes
    match suffix.removesuffix(".gz"):
        case "jsonl":
            file.write_bytes(packed(lines(ROWS)))
        case "csv":
            text = "v\n" + "".join(f"{row['v']}\n" for row in ROWS)
            file.write_bytes(packed(text.encode()))
        case "parquet":
            pq.write_table(table, file, row_group_size=300)
        case "arrow":
            with pa.ipc.new_file(str(file), table.schema) as writer:
                writer.write_table(table, max_chunksize=100)
    done = atoll("append", "key-pairs", "numbers", "--file", file, "-o", "json")
    assert done.code == 0, done.err
    assert json.loads(done.out)[0]["appended"] == 1_000
    assert app.depot("numbers").rows == ROWS


def test_several_files_and_a_told_format(atoll, url, app, tmp_path):
    """--file may be given again; --format overrules names."""
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(lines([{"v": 1}]))
    files = ["--file", tmp_path / "one", "-f", tmp_path / "two"]
    done = atoll("append", "key-pairs", "numbers", *files, "--format", "jsonl")
    assert (done.code, len(app.depot("numbers").rows)) == (0, 2)
    assert len(done.out.splitlines()) == 2


def test_an_arrow_stream_file(atoll, url, app, tmp_path):
    """A stream without the file's frame is read as well."""
    file = tmp_path / "rows.arrows"
    with pa.ipc.new_stream(str(file), pa.schema({"v": pa.int64()})) as writer:
        writer.write_table(pa.table({"v": [1, 2]}))
    assert atoll("append", "key-pairs", "numbers", "-f", file).code == 0
    assert app.depot("numbers").rows == [{"v": 1}, {"v": 2}]


def test_stdin(atoll, url, app, monkeypatch):
    """A dash reads stdin."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"v": 5}\n')))
    assert atoll("append", "key-pairs", "numbers", "-").code == 0
    assert app.depot("numbers").rows == [{"v": 5}]


def test_nothing_kept(atoll, url, app, tmp_path):
    """By default one refused record refuses the file: exit code 2, lines and reasons on stderr."""
    file = tmp_path / "bad.jsonl"
    file.write_bytes(b'{"v": 1}\n{"v": "x"}\n')
    done = atoll("append", "key-pairs", "numbers", "--file", file)
    assert done.code == 2
    assert f"{file}, line 2: column v: expected int" in done.err
    assert done.out == f"{file}: 0 appended, 1 refused\n"
    assert app.depot("numbers").rows == []


def test_some_refused(atoll, url, app, tmp_path):
    """With keep the good ones stay: exit code 3, 20 refusals and the count of the rest."""
    file = tmp_path / "mixed.jsonl"
    file.write_bytes(b'{"v": 1}\n' + b'{"v": "x"}\n' * 30)
    done = atoll("append", "key-pairs", "numbers", "--file", file, "--on-invalid", "keep")
    assert done.code == 3
    assert len(done.err.splitlines()) == 21
    assert "10 more refused" in done.err
    assert done.out == f"{file}: 1 appended, 30 refused\n"
    assert app.depot("numbers").rows == [{"v": 1}]


def test_all_refused_with_keep(atoll, url):
    """When nothing could be kept the exit code is 2 all the same."""
    done = atoll("append", "key-pairs", "numbers", '{"v": "x"}', "--on-invalid", "keep")
    assert done.code == 2


def test_one_of_two_files_refused(atoll, url, app, tmp_path):
    """Each file is a call of its own: the good file stays, the exit code is 3."""
    (tmp_path / "good.jsonl").write_bytes(b'{"v": 1}\n')
    (tmp_path / "bad.jsonl").write_bytes(b'{"v": "x"}\n')
    files = ["-f", tmp_path / "bad.jsonl", "-f", tmp_path / "good.jsonl"]
    assert atoll("append", "key-pairs", "numbers", *files).code == 3
    assert app.depot("numbers").rows == [{"v": 1}]


def test_progress_is_shown_to_a_person(atoll, url, app, tmp_path, monkeypatch):
    """A large file shows a bar when stderr is a terminal; the data on stdout stays clean."""
    file = tmp_path / "rows.jsonl"
    file.write_bytes(lines(ROWS) * 150)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    done = atoll("append", "key-pairs", "numbers", "-f", file)
    assert done.out == f"{file}: 150,000 appended\n"
    assert "MB" in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["numbers"], "nothing to append"),
        (["numbers", "{"], "argument 1 is no record"),
        (["numbers", "[1]"], "argument 1 is no record"),
        (["numbers", "--file", "no-such.jsonl"], "there is no file"),
        (["numbers", '{"v": 1}', "--on-invalid", "some"], "cannot be 'some'"),
        (["other", '{"v": 1}'], "no depot 'other'"),
        (["numbers", "-", "--format", "parquet"], "Parquet cannot be read from stdin"),
    ],
)
def test_mistakes(atoll, url, arguments, words):
    """Each says what, what to do, and a code."""
    done = atoll("append", "key-pairs", *arguments)
    assert done.code == 1
    assert done.out == ""
    assert words in done.err
    assert "to do: " in done.err
    assert "code: E-" in done.err


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("rows.txt", b"x", "does not tell its format"),
        ("rows.parquet", b"x", "is no Parquet file"),
        ("rows.arrow", b"nonsense", "is no Arrow file"),
        ("rows.csv.gz", b"\x1f\x8bnonsense", "cannot read"),
        ("half.jsonl.gz", gzip.compress(lines(ROWS), mtime=0)[:-50], "cannot read"),
        ("rows.parquet.gz", b"x", "is no Parquet file"),
        ("rows.csv", b"w\n1\n", "CSV header"),
    ],
)
def test_files_that_cannot_be_read(atoll, url, app, tmp_path, name, content, words):
    """The file is named, nothing is kept."""
    (tmp_path / name).write_bytes(content)
    done = atoll("append", "key-pairs", "numbers", "--file", tmp_path / name)
    assert done.code == 1
    assert words in done.err
    assert app.depot("numbers").rows == []


def test_a_producer(atoll, url, app, tmp_path):
    """Each source is sent under the next number; half a producer is refused."""
    file = tmp_path / "more.jsonl"
    file.write_bytes(b'{"v": 2}\n')
    named = ["--producer-id", "p", "--sequence", "4", "--producer-epoch", "2"]
    done = atoll("append", "key-pairs", "numbers", '{"v": 1}', "--file", file, *named)
    assert done.code == 0, done.err
    sent = [(each.id, each.sequence, each.epoch) for each in app.depot("numbers").producers]
    assert sent == [("p", 4, 2), ("p", 5, 2)]
    assert atoll("append", "key-pairs", "numbers", '{"v": 1}', "--sequence", "1").code == 1


def test_an_append_between_two_versions_of_the_module(atoll, url, app, monkeypatch):
    """Nothing of it was stored, so it is sent again, with a producer or without; not for ever."""
    import httpx

    request, left = httpx.Client.request, [2]
    problem = {"code": "E-STOPPED", "detail": "depot 'numbers' is closed", "hint": "append again"}

    def closed(self, method, path, **arguments):
        if method == "POST" and left[0]:
            left[0] -= 1
            return httpx.Response(503, json=problem)
        return request(self, method, path, **arguments)

    monkeypatch.setattr(httpx.Client, "request", closed)
    monkeypatch.setattr(calls, "_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(calls, "_PAUSE_SECONDS_MAX", 0.001)
    monkeypatch.setattr(client, "_INSIST_SECONDS", 0.3)
    done = atoll("append", "key-pairs", "numbers", '{"v": 1}')
    assert (done.code, left) == (0, [0])
    left[0] = 100_000
    done = atoll("append", "key-pairs", "numbers", '{"v": 1}')
    assert done.code == 1
    assert left[0] < 99_999
    assert "is closed" in done.err


@pytest.mark.parametrize("named", [True, False])
def test_a_lost_answer(atoll, url, app, monkeypatch, named):
    """With a producer the append is sent again; without one it fails, as it may be stored."""
    import httpx

    request, calls = httpx.Client.request, []

    def losing(self, method, path, **arguments):
        answer = request(self, method, path, **arguments)
        if method == "POST":
            calls.append(arguments["headers"])
            if len(calls) <= 2:
                raise httpx.ReadError("connection reset")
        return answer

    monkeypatch.setattr(httpx.Client, "request", losing)
    options = ["--producer-id", "p", "--sequence", "1"] if named else []
    done = atoll("append", "key-pairs", "numbers", '{"v": 1}', *options)
    assert (done.code, len(calls)) == ((0, 3) if named else (1, 1))
    assert len({str(each) for each in calls}) == 1
