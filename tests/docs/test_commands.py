"""The commands in README and docs exist, with the options that they are shown with."""

import re
import shlex
from pathlib import Path

import click
import pytest

from rungwatch.cli.app import app
from rungwatch.decide.exit_code import ExitCode

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
TYPED = re.compile(r"^\$ (?:\w+=\S+ )*(?:\S+/)?rungwatch +(.+)$", re.MULTILINE)
MENTIONED = re.compile(r"`rungwatch +([^`]+)`")
CONTINUED = re.compile(r"\\\n\s*")


def shown(kind: re.Pattern[str]) -> list[list[str]]:
    """Return the words after `rungwatch` wherever the pages show a command, less the comments."""
    return [
        shlex.split(command, comments=True)
        for page in PAGES
        for command in kind.findall(CONTINUED.sub("", page.read_text(encoding="utf-8")))
    ]


@pytest.mark.parametrize("words", shown(TYPED), ids=" ".join)
def test_a_command_to_type_can_be_parsed(words: list[str]) -> None:
    app.commands[words[0]].make_context(words[0], words[1:])


@pytest.mark.parametrize("words", shown(MENTIONED), ids=" ".join)
def test_a_command_that_is_mentioned_has_these_options(words: list[str]) -> None:
    options = {
        option
        for parameter in app.commands[words[0]].params
        if isinstance(parameter, click.Option)
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    bare = [word.strip("[]") for word in words[1:]]
    assert {word for word in bare if word.startswith("-")} <= options


def test_every_command_is_shown() -> None:
    assert {words[0] for words in shown(TYPED)} >= {"build", "check", "gate", "list"}
    assert {words[0] for words in shown(MENTIONED)} == set(app.commands)


def test_the_readme_explains_every_command() -> None:
    table = README.split("| command |")[1].partition("\n\n")[0]
    assert set(re.findall(r"^\| `rungwatch (\w+)", table, re.MULTILINE)) == set(app.commands)


def test_the_readme_explains_every_exit_code() -> None:
    table = README.split("| exit code |")[1].partition("\n\n")[0]
    assert re.findall(r"^\| (\d+) \|", table, re.MULTILINE) == [str(int(code)) for code in ExitCode]


def test_the_readme_leads_to_every_page() -> None:
    linked = set(re.findall(r"\]\(docs/([\w-]+\.md)", README))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - linked == set()
