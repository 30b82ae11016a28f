"""A tox plugin, found by tox beside tox.ini: let environments share one installed folder.

tox deletes a shared `env_dir` whenever an environment of another name used it last. Here that
folder takes 1.3 GB and minutes to fill, and what is installed is the same for all of them, so
the name is dropped from tox's note. Whatever else the note holds (the interpreter, the
dependencies) still makes tox install anew when it changes.
"""

import json

from tox.plugin import impl
from tox.tox_env.api import ToxEnv


@impl
def tox_env_teardown(tox_env: ToxEnv) -> None:
    """Drop the name of the last user from the note in a folder that is not its own."""
    note = tox_env.env_dir / ".tox-info.json"
    if tox_env.env_dir.name == tox_env.conf.name or not note.is_file():
        return
    facts = json.loads(note.read_text(encoding="utf-8"))
    if facts.pop("ToxEnv", None) is not None:
        note.write_text(json.dumps(facts, indent=2), encoding="utf-8")
