"""Write three kernels into a folder: one that hangs, one that strays, and one that is right.

    python -m tests.backends.cuda.faulty FOLDER

To see on a GPU that the first two are ended and named, and that the last is checked all the same:
docs/results/README.md has the commands.
"""

import sys
from pathlib import Path

HOPPER = Path(__file__).parents[3] / "kernels" / "hgemm" / "hopper"
# The kernel that each is made of, and what is changed in it.
FAULTY = {
    # TMA never brings that many bytes: whoever waits for them waits for ever.
    "hang": (
        "step4",
        "tiles_full.arrive(0, STAGE_BYTES)",
        "tiles_full.arrive(0, STAGE_BYTES + 16)",
    ),
    # Far past the end of D, and of whatever else the process holds.
    "stray": ("step3", "D.ptr_to([m + row, n + col])", "D.ptr_to([m + row + 2**22, n + col])"),
    "right": ("step3", "", ""),
}


def write(folder: Path) -> None:
    """Write the kernels into `folder`, one file each."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (step, old, new) in FAULTY.items():
        source = (HOPPER / f"{step}.py").read_text()
        if source.count(old) != 1 and old:
            raise ValueError(f"{step}.py does not hold '{old}' once")
        changed = source.replace(old, new) if old else source
        changed = changed.replace(f'"name": "{step}"', f'"name": "{name}"')
        (folder / f"{name}.py").write_text(changed)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
