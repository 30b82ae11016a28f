"""A project under git with real kernels, for tests that compare revisions."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
KERNELS = ROOT / "kernels" / "hgemm" / "blackwell"
HOPPER = ROOT / "kernels" / "hgemm" / "hopper"
SETTINGS = "[toolchain]\n"


@dataclass(frozen=True)
class Project:
    """A git repository with a folder `kernels/hgemm/blackwell/`."""

    root: Path

    @classmethod
    def make(cls, root: Path, *rungs: str) -> "Project":
        """Return a new project that guards copies of these rungs, in one commit on `main`."""
        root.mkdir(parents=True)
        project = cls(root)
        project.git("init", "--quiet", "--initial-branch=main")
        for rung in rungs:
            project.write(rung, (KERNELS / f"{rung}.py").read_text(encoding="utf-8"))
        (root / "rungwatch.toml").write_text(SETTINGS, encoding="utf-8")
        project.commit("the kernels")
        return project

    @property
    def kernels(self) -> Path:
        """The folder that is guarded."""
        return self.root / "kernels"

    def path(self, rung: str) -> Path:
        """Return the file of a rung."""
        return self.kernels / "hgemm" / "blackwell" / f"{rung}.py"

    def write(self, rung: str, source: str) -> None:
        """Write the file of a rung."""
        self.path(rung).parent.mkdir(parents=True, exist_ok=True)
        self.path(rung).write_text(source, encoding="utf-8")

    def edit(self, rung: str, old: str, new: str) -> None:
        """Replace the one place in a rung's file where `old` is."""
        source = self.path(rung).read_text(encoding="utf-8")
        assert source.count(old) == 1, f"{old!r} is {source.count(old)} times in {rung}"
        self.write(rung, source.replace(old, new))

    def commit(self, message: str) -> str:
        """Commit everything and return the commit."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD")

    def git(self, *arguments: str) -> str:
        """Run git in the project, with nobody's settings."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_AUTHOR_NAME": "A",
            "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_COMMITTER_NAME": "A",
            "GIT_COMMITTER_EMAIL": "a@example.org",
        }
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()
