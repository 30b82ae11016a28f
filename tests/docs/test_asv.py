"""The check after asv: a number that is missing is noticed, however asv stores it."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from rungwatch.cost.static_cost import TRACKED_BY_ASV as METRICS

ROOT = Path(__file__).parents[2]
COMMIT = "0123456789abcdef"
KERNELS = ("step1", "step2")


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return perf/run_asv.py, with a store of its own and two kernels."""
    spec = importlib.util.spec_from_file_location("run_asv", ROOT / "perf" / "run_asv.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "STORE", tmp_path)
    monkeypatch.setattr(module, "wanted", lambda: ((k, m) for k in KERNELS for m in METRICS))
    return module


def store(tmp_path: Path, result: list[float | None] | None, kernels: tuple[str, ...]) -> None:
    folder = tmp_path / "results" / "any"
    folder.mkdir(parents=True)
    params = [[repr(name) for name in kernels], [repr(metric) for metric in METRICS]]
    row = [result, params, "1"]
    stored = {
        "result_columns": ["result", "params", "version", "started_at"],
        "results": {"static_cost.StaticCosts.track_cost": row},
    }
    (folder / f"{COMMIT[:8]}-existing.json").write_text(json.dumps(stored), encoding="utf-8")


def test_all_numbers_there(driver: ModuleType, tmp_path: Path) -> None:
    store(tmp_path, [0.0] * (2 * len(METRICS)), KERNELS)
    assert driver.missing_numbers(COMMIT) == set()


@pytest.mark.parametrize("missing", [None, float("nan"), float("inf")], ids=str)
def test_one_number_is_none(driver: ModuleType, tmp_path: Path, missing: float | None) -> None:
    store(tmp_path, [*[1.0] * (2 * len(METRICS) - 1), missing], KERNELS)
    assert driver.missing_numbers(COMMIT) == {f"step2 {METRICS[-1]}"}


def test_a_kernel_that_asv_never_ran(driver: ModuleType, tmp_path: Path) -> None:
    store(tmp_path, [1.0] * len(METRICS), KERNELS[:1])
    assert driver.missing_numbers(COMMIT) == {f"step2 {metric}" for metric in METRICS}


def test_a_benchmark_that_failed_as_a_whole(driver: ModuleType, tmp_path: Path) -> None:
    store(tmp_path, None, KERNELS)
    assert len(driver.missing_numbers(COMMIT)) == 2 * len(METRICS)


def test_no_result_at_all(driver: ModuleType) -> None:
    assert len(driver.missing_numbers(COMMIT)) == 2 * len(METRICS)


def test_the_benchmark_has_the_name_that_the_check_looks_for(driver: ModuleType) -> None:
    module, _, name = driver.BENCHMARK.partition(".")
    source = (ROOT / "perf" / "asv" / f"{module}.py").read_text(encoding="utf-8")
    cls, _, method = name.partition(".")
    assert f"class {cls}:" in source
    assert f"def {method}(" in source


def test_the_suite_keeps_pytest_out() -> None:
    for path in (ROOT / "perf" / "asv").rglob("*.py"):
        assert "pytest" not in path.read_text(encoding="utf-8").replace("of pytest", "")


def test_the_pins_of_asv_are_those_of_the_project() -> None:
    config = (ROOT / "asv.conf.json").read_text(encoding="utf-8")
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    assert "{wheel_file}[build]" in config  # whose pins are those of pyproject.toml
    (runner,) = [line for line in constraints if line.startswith("asv_runner==")]
    assert f'"{runner.partition("==")[2]}"' in config
