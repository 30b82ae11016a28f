"""The picture and the tables of docs/architecture.md match the tree."""

import configparser
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PICTURE = PAGE.split("```mermaid")[1].split("```")[0]
FOLDER = re.compile(r"(?:rungwatch|perf|kernels|tests)(?:/\w+)*/?")


def packages() -> set[str]:
    """Return the packages of the tool, and those inside them."""
    return {
        path.parent.relative_to(ROOT).as_posix()
        for path in (ROOT / "rungwatch").rglob("__init__.py")
    } - {"rungwatch"}


def named_in(text: str) -> set[str]:
    return {name.rstrip("/") for name in re.findall(r"[\"`]([a-z_/]+)[\"`]", text)}


def folders_named_in(text: str) -> set[str]:
    return {name for name in named_in(text) if FOLDER.fullmatch(name)}


def test_the_picture_shows_every_package() -> None:
    assert packages() - folders_named_in(PICTURE) == set()


def test_the_table_explains_every_package() -> None:
    rows = {line.split("|")[1].strip() for line in PAGE.splitlines() if line.startswith("| `")}
    assert {f"`{package}/`" for package in packages()} - rows == set()


def test_every_folder_that_is_named_exists() -> None:
    named = folders_named_in(PICTURE) | folders_named_in(PAGE)
    assert len(named) > len(packages())
    assert [name for name in sorted(named) if not (ROOT / name).is_dir()] == []


def test_every_tox_environment_is_explained_and_no_other() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    declared = {name.removeprefix("testenv:") for name in tox.sections() if ":" in name}
    declared |= set(tox["tox"]["env_list"].split())
    table = PAGE.split("## tox environments")[1]
    explained = re.findall(r"^\| `([\w-]+)` \|.*\| `\.tox/(\w+)` \|$", table, re.MULTILINE)
    assert {name for name, _ in explained} == declared
    for name, folder in explained:
        section = tox[f"testenv:{name}"] if f"testenv:{name}" in tox else tox["testenv"]
        own = section.get("env_dir", tox["testenv"]["env_dir"])
        assert own == f"{{work_dir}}/{folder}"
