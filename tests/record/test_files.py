"""Files are read and written so that neither a reader nor foreign code can do harm."""

import os
from pathlib import Path

import pytest

from rungwatch.backends.supervise import WorkerFiles, read_events, tail_of
from rungwatch.record.files import read_regular


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "device", "flood"])
def test_what_foreign_code_left_is_read_only_as_a_plain_file(tmp_path: Path, kind: str) -> None:
    """A pipe would be waited for without end, a link leads elsewhere, a flood fills memory."""
    path = tmp_path / "answer.json"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"secret")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(elsewhere)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.write_bytes(b"x" * 101)
    with pytest.raises(OSError, match=r"."):
        read_regular(path, 100)
    assert read_regular(elsewhere, 100) == b"secret"


def test_a_worker_that_leaves_pipes_is_not_waited_for(tmp_path: Path) -> None:
    files = WorkerFiles(tmp_path)
    for path in (files.events, files.stderr):
        os.mkfifo(path)
    assert read_events(files.events) == ()
    assert tail_of(files.stderr) == ""
