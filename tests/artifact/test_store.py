"""A store gives back what was put into it, or says that it can't: never half of something."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from rungwatch.artifact import store as store_module
from rungwatch.artifact.artifact import Artifact, Metadata
from rungwatch.artifact.plan import encode_plan
from rungwatch.artifact.store import Entry, Store, StoreError

from .samples import PLAN, SHAPE, artifact

META = Metadata("family/k", "0" * 64, 1, SHAPE, "sm_100a", {"apache-tvm": "1"})


def entry_of(identity: str) -> Entry:
    return Entry(identity, "c" * 64, "d" * 64, META)


def test_what_is_put_comes_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    identity = store.put(artifact())
    assert identity == artifact().id
    assert store.get(identity) == artifact()
    store.remember("ab" * 32, entry_of(identity))
    assert store.recall("ab" * 32) == entry_of(identity)
    assert store.recall("cd" * 32) is None


def test_another_plan_or_other_code_has_another_id() -> None:
    ids = {
        artifact().id,
        artifact(replace(PLAN, grid=(8, 1, 1))).id,
        artifact(code=b"other").id,
    }
    assert len(ids) == 3


@pytest.mark.parametrize("name", ["kernel.cubin", "plan.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "link", "grow"])
def test_a_damaged_artifact_is_found_by_its_hash_and_made_anew(
    tmp_path: Path, name: str, damage: str
) -> None:
    store = Store(tmp_path / "store")
    identity = store.put(artifact())
    store.remember("ab" * 32, entry_of(identity))
    [path] = (tmp_path / "store").rglob(name)
    data = bytearray(path.read_bytes())
    path.chmod(0o644)
    if damage == "flip":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "grow":
        path.write_bytes(bytes(data) + b"x" * 2**25)
    else:
        path.unlink()
        if damage == "link":
            elsewhere = tmp_path / "elsewhere"
            elsewhere.write_bytes(data)
            path.symlink_to(elsewhere)
    with pytest.raises(StoreError):
        store.get(identity)
    assert store.recall("ab" * 32) is None
    assert store.put(artifact()) == identity
    assert store.get(identity) == artifact()


@pytest.mark.parametrize(
    "name", ["", "..", "../" * 8 + "etc", "A" * 64, "a" * 63, "a" * 65, "/" + "a" * 63, "\0" * 64]
)
def test_a_name_that_is_no_id_reads_no_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="no artifact id"):
        Store(tmp_path).get(name)


def test_a_full_disk_leaves_no_half_artifact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = store_module.write_atomically

    def full(path: Path, data: bytes) -> None:
        if path.name == store_module.PLAN_FILE:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, data)

    monkeypatch.setattr(store_module, "write_atomically", full)
    store = Store(tmp_path)
    with pytest.raises(OSError, match="No space"):
        store.put(artifact())
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    monkeypatch.undo()
    assert store.get(store.put(artifact())) == artifact()


PUT_MANY = """
import itertools, sys
from pathlib import Path
from rungwatch.artifact.artifact import Artifact
from rungwatch.artifact.plan import decode_plan
from rungwatch.artifact.store import Store

folder, plan, count = Path(sys.argv[1]), decode_plan(sys.argv[2].encode()), int(sys.argv[3])
for number in itertools.islice(itertools.count(), count or None):
    Store(folder).put(Artifact(b"%d" % number * 50_000, plan))
"""


def put_many(folder: Path, count: int) -> subprocess.Popen[bytes]:
    """Start a process that stores `count` artifacts, without end where that is 0."""
    plan = encode_plan(PLAN).decode()
    return subprocess.Popen([sys.executable, "-c", PUT_MANY, str(folder), plan, str(count)])


def test_a_killed_build_leaves_only_whole_artifacts(tmp_path: Path) -> None:
    for wanted in (3, 6, 9):
        process = put_many(tmp_path, 0)
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("objects/*/*"))) < wanted and time.monotonic() < deadline:
            time.sleep(0.005)
        process.kill()
        process.wait()
    names = [p.name for p in tmp_path.glob("objects/*/*") if not p.name.startswith(".")]
    assert len(names) >= 3
    for name in names:
        assert Store(tmp_path).get(name).id == name


def test_two_builds_at_once_both_end_right(tmp_path: Path) -> None:
    processes = [put_many(tmp_path, 20) for _ in range(3)]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    places = list(tmp_path.glob("objects/*/*"))
    assert len(places) == 20
    for place in places:
        assert Store(tmp_path).get(place.name).id == place.name


def test_the_oldest_are_forgotten_first(tmp_path: Path) -> None:
    store = Store(tmp_path)
    ids = [store.put(Artifact(b"%d" % number, PLAN)) for number in range(5)]
    for age, identity in enumerate(ids):
        os.utime(tmp_path / "objects" / identity[:2] / identity, (age, age))
    store.prune(most=2)
    left = {path.name for path in tmp_path.glob("objects/*/*")}
    assert left == set(ids[3:])
