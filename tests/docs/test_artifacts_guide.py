"""docs/artifacts.md: its plan and manifest are real, its example runs, its limits are right."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rungwatch.artifact import artifact, loader
from rungwatch.artifact.manifest import MANIFEST_FILE, Manifest, decode_manifest
from rungwatch.artifact.plan import LaunchPlan, Pointer, Scalar, TensorMap, decode_plan
from rungwatch.artifact.store import MOST_ARTIFACTS, Store
from rungwatch.artifact.toolchain import COMPILERS
from rungwatch.backends.simulator.cache import DEFAULT_LIMIT_GB
from rungwatch.check.verdict_cache import MOST_ROWS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "artifacts.md").read_text(encoding="utf-8")


def example(tag: str) -> str:
    (found,) = re.findall(rf"<!-- test: {tag} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the case of the page was built into `artifacts/`."""
    folder = tmp_path_factory.mktemp("guide")
    words = ["build", "-k", "hgemm/blackwell/step7", "--shape", "512x512x512", "--out", "artifacts"]
    run([sys.executable, "-m", "rungwatch", *words, "--kernels", str(ROOT / "kernels")], folder)
    return folder


def run(command: list[str], folder: Path) -> str:
    environment = os.environ | {"RUNGWATCH_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_plan_is_the_one_that_is_built(folder: Path) -> None:
    (item,) = decode_manifest((folder / "artifacts" / MANIFEST_FILE).read_bytes()).items
    assert item.artifact is not None
    built = Store(folder / "artifacts").get(item.artifact)
    assert decode_plan(example("plan").encode()) == built.plan


def test_the_manifest_is_like_the_one_that_is_built(folder: Path) -> None:
    told = decode_manifest(example("manifest").encode())
    built = decode_manifest((folder / "artifacts" / MANIFEST_FILE).read_bytes())
    (told_item,), (item,) = told.items, built.items
    assert (told_item.kernel, told_item.shape, told_item.target, told_item.reason) == (
        item.kernel, item.shape, item.target, item.reason,
    )  # fmt: skip
    assert set(told.toolchain) == set(built.toolchain) == set(COMPILERS)
    assert set(json.loads(example("manifest"))) == set(Manifest.__struct_fields__)


def test_the_example_goes_through_them(folder: Path) -> None:
    printed = run([sys.executable, "-c", example("run")], folder)
    assert printed.startswith("hgemm/blackwell/step7 512x512x512-sm148 sm_100a: ")
    assert "LaunchPlan(entry='hgemm_step7_kernel'" in printed


def test_every_field_of_a_plan_is_explained() -> None:
    table = PAGE[PAGE.index("| field | meaning |") :].partition("\n\n")[0]
    explained = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    fields = {
        name for kind in (LaunchPlan, TensorMap, Pointer, Scalar) for name in kind.__struct_fields__
    }
    assert explained == fields | {"kind"}
    kinds = {kind.__struct_config__.tag for kind in (TensorMap, Pointer, Scalar)}
    assert kinds <= set(re.findall(r"`(\w+)`", table))


@pytest.mark.parametrize(
    ("row", "limit"),
    [
        ("the code", artifact.LARGEST_CUBIN_BYTES),
        ("plan.json", artifact.LARGEST_PLAN_BYTES),
        ("CTAs of the grid", loader.MOST_CTAS),
        ("CTAs of a cluster", loader.MOST_CLUSTER_CTAS),
        ("threads of a CTA", loader.MOST_THREADS),
        ("dynamic SMEM", loader.MOST_DYNAMIC_SMEM_BYTES),
        ("parameters", loader.MOST_PARAMETERS),
        ("`artifacts/`", MOST_ARTIFACTS),
        ("`simulator/`", int(DEFAULT_LIMIT_GB)),
        ("`verdicts/`", MOST_ROWS),
    ],
)
def test_the_limits_are_those_of_the_code(row: str, limit: int) -> None:
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {row} |")]
    assert re.search(rf"(?<![\d,]){limit:,}(?!\d|,\d)", line), line
