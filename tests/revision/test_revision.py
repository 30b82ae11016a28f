"""Any commit is read as it is, and nothing of the user's repository changes by reading it."""

import hashlib
import os
from pathlib import Path, PurePosixPath

import pytest

from rungwatch.revision.git import GitError, Repository
from rungwatch.revision.revision import WORKTREE, RevisionError, open_revision

from ..projects import Project

RIGHT = "PROTOCOL = 1\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project.make(tmp_path / "project")
    project.write("one", RIGHT)
    project.write("two", RIGHT + "# two\n")
    project.commit("two kernels")
    return project


def files_of(project: Project, name: str) -> dict[str, str]:
    with open_revision(name, project.kernels) as revision:
        return {
            path.relative_to(revision.kernels).as_posix(): path.read_text()
            for path in sorted(revision.kernels.rglob("*.py"))
        }


def test_a_commit_gives_its_own_files_and_the_work_tree_those_that_are_there(
    project: Project,
) -> None:
    project.write("one", "changed\n")
    project.path("two").unlink()
    project.write("three", "untracked\n")
    assert files_of(project, "HEAD") == {
        "hgemm/blackwell/one.py": RIGHT,
        "hgemm/blackwell/two.py": RIGHT + "# two\n",
    }
    assert files_of(project, WORKTREE) == {
        "hgemm/blackwell/one.py": "changed\n",
        "hgemm/blackwell/three.py": "untracked\n",
    }


def test_the_files_of_a_commit_are_gone_when_it_is_closed(project: Project) -> None:
    with open_revision("HEAD", project.kernels) as revision:
        place = revision.kernels
        assert (place / "hgemm" / "blackwell" / "one.py").is_file()
        assert not place.is_relative_to(project.root)
    assert not place.exists()


def test_labels_tell_a_clean_tree_from_a_changed_one(project: Project) -> None:
    commit = project.git("rev-parse", "HEAD")
    with open_revision(WORKTREE, project.kernels) as clean:
        assert clean.label == commit
    project.write("one", "changed\n")
    with (
        open_revision(WORKTREE, project.kernels) as changed,
        open_revision("main", project.kernels) as named,
    ):
        assert changed.label == f"{commit}+dirty"
        assert named.label == commit


def test_other_files_are_read_from_the_same_revision(project: Project) -> None:
    (project.root / "lock.txt").write_text("old")
    project.commit("a lock")
    (project.root / "lock.txt").write_text("new")
    lock = PurePosixPath("lock.txt")
    with (
        open_revision("HEAD", project.kernels) as old,
        open_revision(WORKTREE, project.kernels) as new,
    ):
        assert old.file(lock) == b"old"
        assert new.file(lock) == b"new"
        assert old.file(PurePosixPath("none.txt")) is None
        assert new.file(PurePosixPath("none.txt")) is None
        for outside in ("../x", "/etc/passwd"):
            for revision in (old, new):
                with pytest.raises(RevisionError, match="not a path inside"):
                    revision.file(PurePosixPath(outside))


def state(root: Path) -> dict[str, tuple[str, int]]:
    return {
        path.relative_to(root).as_posix(): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mtime_ns,
        )
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_reading_changes_nothing(project: Project) -> None:
    project.write("one", "changed\n")
    os.utime(project.path("two"))  # what makes `git status` want to refresh the index
    before = state(project.root)
    for name in ("HEAD", "HEAD~1", WORKTREE):
        with open_revision(name, project.kernels) as revision:
            assert revision.label is not None
    assert state(project.root) == before


def test_a_commits_own_attributes_hide_nothing(project: Project) -> None:
    (project.root / ".gitattributes").write_text("kernels/** export-ignore\n")
    project.commit("hide")
    assert set(files_of(project, "HEAD")) == {"hgemm/blackwell/one.py", "hgemm/blackwell/two.py"}


@pytest.mark.parametrize("name", ["nowhere", "HEAD~99", "--help", "-n", "", "HEAD:kernels"])
def test_what_is_no_commit_is_refused(project: Project, name: str) -> None:
    with pytest.raises(RevisionError), open_revision(name, project.kernels):
        pass


def test_links_and_submodules_are_refused_by_name(project: Project) -> None:
    project.path("link").symlink_to("/etc/passwd")
    project.commit("a link")
    with (
        pytest.raises(RevisionError, match=r"link\.py is a link"),
        open_revision("HEAD", project.kernels),
    ):
        pass


def test_a_file_that_is_no_kernels_size_is_refused(project: Project) -> None:
    project.write("big", "#" * (5 * 2**20))
    project.commit("big")
    with pytest.raises(RevisionError, match="too many"), open_revision("HEAD", project.kernels):
        pass


def test_a_name_that_nobody_can_print_is_refused(project: Project) -> None:
    (project.kernels / os.fsdecode(b"\xff.py")).write_text("")
    project.commit("odd")
    with pytest.raises(RevisionError, match="no UTF-8"), open_revision("HEAD", project.kernels):
        pass


def test_variables_of_git_lead_to_no_other_repository(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Project.make(tmp_path / "other")
    other.write("foreign", RIGHT)
    other.commit("another project")
    monkeypatch.setenv("GIT_DIR", str(other.root / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.root))
    assert set(files_of(project, "HEAD")) == {"hgemm/blackwell/one.py", "hgemm/blackwell/two.py"}


def test_a_revision_without_kernels_has_none(project: Project) -> None:
    with open_revision("HEAD~1", project.kernels) as revision:
        assert revision.kernel_files() == []


def test_the_work_tree_needs_no_git(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    (kernels / "one.py").write_text(RIGHT)
    with open_revision(WORKTREE, kernels) as revision:
        assert revision.label is None
        assert not revision.includes("HEAD")
        assert [file.name for file in revision.kernel_files()] == ["one"]
    with pytest.raises(RevisionError), open_revision("HEAD", kernels):
        pass


def test_history_holds_what_touches_the_paths(project: Project) -> None:
    repository = Repository(project.kernels)
    start = repository.commit("HEAD")
    project.write("one", "1\n")
    first = project.commit("kernel")
    (project.root / "other.txt").write_text("x")
    project.commit("other")
    project.write("one", "2\n")
    last = project.commit("kernel again")
    history = repository.history(start, last, ["kernels"])
    assert [commit.id for commit in history] == [first, last]
    assert [commit.subject for commit in history] == ["kernel", "kernel again"]
    assert repository.includes(last, first)
    assert not repository.includes(first, last)
    assert not repository.includes(last, "0" * 40)
    with pytest.raises(GitError):
        Repository(project.root.parent)


def test_a_merge_counts_as_one_commit_of_history(project: Project) -> None:
    start = project.git("rev-parse", "HEAD")
    project.git("checkout", "--quiet", "-b", "side")
    for text in ("1\n", "2\n"):
        project.write("one", text)
        project.commit(f"side {text}")
    project.git("checkout", "--quiet", "main")
    project.write("two", "other\n")
    before = project.commit("main goes on")
    project.git("merge", "--quiet", "--no-ff", "--message", "merge the side", "side")
    merge = project.git("rev-parse", "HEAD")
    history = Repository(project.kernels).history(start, merge, ["kernels"])
    assert [commit.id for commit in history] == [before, merge]
    assert history[-1].subject == "merge the side"
