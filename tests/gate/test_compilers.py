"""Two compilers, each really installed: equal code passes by identity, other code is named."""

import pytest

from rungwatch.artifact.toolchain import installed

from ..fakes import FakeBackend
from ..projects import Project
from .conftest import Gate

pytestmark = [pytest.mark.xdist_group("gate"), pytest.mark.slow]


def lock(**versions: str) -> str:
    pins = dict(installed().versions) | {k.replace("_", "-"): v for k, v in versions.items()}
    return "".join(f"{name}=={version}\n" for name, version in pins.items())


def test_each_side_is_built_by_the_compiler_that_its_lock_names(
    project: Project, rungwatch: Gate, simulator: FakeBackend
) -> None:
    (project.root / "rungwatch.toml").write_text('[toolchain]\nlock = "lock.txt"\n')
    (project.root / "lock.txt").write_text(lock())
    project.commit("a lock")
    (project.root / "lock.txt").write_text(lock(nvidia_cuda_runtime="13.2.51"))
    assert rungwatch.gate() == 0
    [row] = rungwatch.rows("identity")
    assert row.reason == "identical"
    assert "compiled by nvidia-cuda-runtime 13.2.75 and 13.2.51" in row.message
    (project.root / "lock.txt").write_text(lock(nvidia_cuda_nvrtc="13.1.115"))
    assert rungwatch.gate() == 3
    [row] = rungwatch.rows("identity")
    assert row.reason == "changed"
    assert "from the same file, compiled by nvidia-cuda-nvrtc 13.2.78 and 13.1.115" in row.message
    (project.root / "lock.txt").write_text(lock(nvidia_cuda_nvrtc="99.0"))
    assert rungwatch.gate() == 4
    assert rungwatch.reasons() == {"toolchain"}
    (project.root / "lock.txt").unlink()
    assert rungwatch.gate() == 4
