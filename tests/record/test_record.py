"""The record: written whole, read strictly, and enough to decide again from it alone."""

import importlib.resources
import os
import threading
from pathlib import Path

import msgspec
import pytest

from rungwatch.decide.exit_code import decide_run
from rungwatch.decide.verdict import Reason, Verdict, verdict_of
from rungwatch.declare.problem import Problem, Shape
from rungwatch.record import model, surroundings
from rungwatch.record.files import write_atomically


def make_record(tmp_path: Path, *reasons: Reason) -> model.Record:
    rows = tuple(
        model.Row(
            id=f"row-{index}",
            kernel="family/kernel",
            target="sm_100a",
            problem=Problem(Shape(128, 128, 64, 1), "normal"),
            check="numerics",
            verdict=verdict_of(reason),
            reason=reason,
            message="why",
            rerun="rungwatch check",
        )
        for index, reason in enumerate(reasons)
    )
    verdict, reason = decide_run(reasons)
    return model.Record(
        run=model.Run("rungwatch check", "2026-01-01T00:00:00+00:00", 1.5, "sim", None),
        environment=surroundings.environment(tmp_path),
        toolchain=model.Toolchain("0", None, None, "2", None),
        rows=rows,
        verdict=verdict,
        reason=reason,
    )


def test_the_committed_schema_is_the_codes() -> None:
    folder = importlib.resources.files("rungwatch.record")
    assert folder.joinpath("record-v3.schema.json").read_bytes() == model.json_schema()


def test_the_verdict_can_be_recomputed_from_the_json_alone(tmp_path: Path) -> None:
    record = make_record(tmp_path, Reason.OK, Reason.DEADLINE, Reason.RACECHECK)
    read = model.decode(model.encode(record))
    assert read == record
    assert decide_run(row.reason for row in read.rows) == (Verdict.FAIL, Reason.RACECHECK)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"schema_version": 3', b'"schema_version": 1'),
        (b'"verdict": "PASS"', b'"verdict": "FINE"'),
        (b'"rows":', b'"lines":'),
        (b'"seconds": 1.5', b'"seconds": NaN'),
    ],
)
def test_what_is_no_record_of_this_version_is_refused(
    tmp_path: Path, old: bytes, new: bytes
) -> None:
    data = model.encode(make_record(tmp_path, Reason.OK))
    assert old in data
    with pytest.raises(msgspec.MsgspecError):
        model.decode(data.replace(old, new))


def test_a_machine_keeps_its_id_and_gives_nothing_away(tmp_path: Path) -> None:
    first = surroundings.environment(tmp_path).machine_id
    assert surroundings.environment(tmp_path).machine_id == first
    assert surroundings.environment(tmp_path / "other").machine_id != first
    assert len(first) == 12


def test_a_missing_or_failing_command_says_nothing() -> None:
    assert surroundings.output_of("no-such-program-anywhere") is None
    assert surroundings.output_of("false") is None
    assert surroundings.output_of("echo", "hello") == "hello"


class TestWriteAtomically:
    def test_a_failed_write_leaves_what_was_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "file"
        write_atomically(path, b"old")

        def full_disk(_descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", full_disk)
        with pytest.raises(OSError, match="No space"):
            write_atomically(path, b"new")
        assert path.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [path]

    def test_a_link_is_followed_and_a_pipe_is_not_replaced(self, tmp_path: Path) -> None:
        (tmp_path / "real").write_bytes(b"old")
        (tmp_path / "link").symlink_to(tmp_path / "real")
        write_atomically(tmp_path / "link", b"new")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real").read_bytes() == b"new"
        os.mkfifo(tmp_path / "pipe")
        reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        write_atomically(tmp_path / "pipe", b"through")
        assert os.read(reader, 100) == b"through"
        os.close(reader)
        assert (tmp_path / "pipe").is_fifo()

    def test_writers_at_once_never_mix(self, tmp_path: Path) -> None:
        path = tmp_path / "deep" / "file"
        contents = [bytes([letter]) * 100_000 for letter in b"abcdefgh"]
        threads = [threading.Thread(target=write_atomically, args=(path, c)) for c in contents]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert path.read_bytes() in contents
        assert list(path.parent.iterdir()) == [path]
