"""Kernel files are read without running them; nothing that is wrong with one is dropped."""

from pathlib import Path

import pytest

from rungwatch.declare.literals import top_level_constants
from rungwatch.declare.registry import KernelFile, NoKernelsError, discover, select

KERNEL = """
BLK_M, BLK_N = 128, 128
PROTOCOL = 1
KERNEL = {{
    "name": "{name}", "step": {step}, "adds": "something", "operation": "gemm_nt",
    "dtypes": {{"A": "float16", "B": "float16", "D": "float16", "accumulator": "float32"}},
    "targets": ["{target}"], "tile": [2 * BLK_M, BLK_N, 64], "ring_depth": 2, "cta_group": 1,
    "l2_group": 1, "persistent": False,
    "rules": {{"M": {{"multiple_of": BLK_M}}, "N": {{}}, "K": {{"min": 64}}, "sm_count": {{}}}},
}}
{extra}
"""


def write(root: Path, file: str, name: str = "one", step: int = 1, **more: str) -> None:
    path = root / "family" / file
    path.parent.mkdir(exist_ok=True)
    fields = {"extra": "", "target": "sm_100a", **more}
    path.write_text(KERNEL.format(name=name, step=step, **fields))


def error_of(files: list[KernelFile], key: str) -> str:
    (file,) = [file for file in files if file.key == key]
    assert file.declaration is None
    assert file.error is not None
    assert "\n" not in file.error
    return file.error


def test_constants_and_arithmetic_are_resolved(tmp_path: Path) -> None:
    write(tmp_path, "a.py")
    (file,) = discover(tmp_path)
    assert file.key == "family/one"
    assert file.declaration is not None
    assert file.declaration.tile == (256, 128, 64)
    assert file.declaration.rules.M.multiple_of == 128


def test_no_code_of_a_kernel_runs(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    write(tmp_path, "a.py", extra=f"open({str(marker)!r}, 'w')\nwhile True: pass")
    assert discover(tmp_path)[0].declaration is not None
    assert not marker.exists()


def test_the_ladder_is_in_order_of_its_steps(tmp_path: Path) -> None:
    for step in (10, 9, 2):
        write(tmp_path, f"s{step}.py", name=f"step{step}", step=step)
    assert [file.name for file in discover(tmp_path)] == ["step2", "step9", "step10"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(:\n", "SyntaxError"),
        ("x = 1\n", "declares no PROTOCOL"),
        ("PROTOCOL = 1\nKERNEL = make()\n", "declares no KERNEL, or not as plain data"),
        ("PROTOCOL = 99\nKERNEL = {}\n", "protocol 99"),
        ("PROTOCOL = 1\nKERNEL = {}\n", "missing required field"),
        ("\0", "bad.py"),
        ("(" * 5000 + ")" * 5000, "bad.py"),
    ],
)
def test_a_bad_file_is_reported_and_the_others_remain(
    tmp_path: Path, text: str, expected: str
) -> None:
    write(tmp_path, "good.py", name="good")
    (tmp_path / "family" / "bad.py").write_text(text)
    files = discover(tmp_path)
    assert expected in error_of(files, "family/bad")
    assert any(file.name == "good" and file.declaration for file in files)


def test_an_unknown_field_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "a.py", extra='KERNEL = {"nmae": "x"}')
    assert "KERNEL" in error_of(discover(tmp_path), "family/a")


@pytest.mark.parametrize(
    "extra",
    ['KERNEL = {**KERNEL, "targets": []}', "KERNEL = dict(KERNEL, step=2)", "PROTOCOL = int(1)"],
)
def test_a_name_that_is_bound_again_does_not_keep_its_old_value(tmp_path: Path, extra: str) -> None:
    write(tmp_path, "a.py", extra=extra)
    assert "or not as plain data" in error_of(discover(tmp_path), "family/a")


@pytest.mark.parametrize("name", ["", "../../x", "a/b", "red\x1b[31m", "two\nlines", "x" * 65])
def test_a_name_that_could_not_be_a_file_name_is_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path, "a.py", name=name.encode("unicode_escape").decode())
    assert "KERNEL" in error_of(discover(tmp_path), "family/a")


def test_folders_behind_links_are_guarded_too_and_loops_end(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    write(outside, "a.py", name="linked")
    root = tmp_path / "kernels"
    root.mkdir()
    (root / "link").symlink_to(outside / "family")
    (root / "loop").symlink_to(root)
    assert [file.key for file in discover(root)] == ["link/linked"]


def test_what_cannot_be_read_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "a.py")
    (tmp_path / "family" / "gone.py").symlink_to(tmp_path / "nowhere")
    assert "No such file" in error_of(discover(tmp_path), "family/gone")


def test_a_name_is_given_once(tmp_path: Path) -> None:
    write(tmp_path, "a.py", name="same")
    write(tmp_path, "b.py", name="same")
    assert "taken by a.py" in error_of(discover(tmp_path), "family/b.py:duplicate")


def test_a_broken_file_does_not_hide_behind_the_name_of_another(tmp_path: Path) -> None:
    write(tmp_path, "a.py", name="b")
    (tmp_path / "family" / "b.py").write_text("def (")
    files = discover(tmp_path)
    assert {file.key for file in files} == {"family/b", "family/b.py:duplicate"}
    assert [file.error is None for file in sorted(files, key=lambda f: f.key)] == [True, False]


def test_nothing_to_guard_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NoKernelsError, match="no kernel file"):
        discover(tmp_path)
    with pytest.raises(NoKernelsError, match="no folder"):
        discover(tmp_path / "missing")


def test_select_by_name_key_and_target(tmp_path: Path) -> None:
    write(tmp_path, "a.py", name="a")
    write(tmp_path, "h.py", name="h", target="sm_90a")
    files = discover(tmp_path)
    assert [f.name for f in select(files, [], None)] == ["a", "h"]
    assert [f.name for f in select(files, ["family/h"], None)] == ["h"]
    assert [f.name for f in select(files, [], "sm_90a")] == ["h"]
    with pytest.raises(NoKernelsError, match="there are: family/a, family/h"):
        select(files, ["nope"], None)
    with pytest.raises(NoKernelsError, match="builds for target"):
        select(files, ["a"], "sm_90a")


def test_names_of_functions_are_not_constants() -> None:
    source = b"A = 3\nB = f(A)\nC = [A, 'x']\nD: int = A * 2 // 4\nE = 1 // 0\n"
    assert top_level_constants(source, "x.py") == {"A": 3, "C": [3, "x"], "D": 1}
