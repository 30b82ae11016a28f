import re
import sys

import pytest

from rungwatch.decide.verdict import Reason
from rungwatch.explain.picture import ReportUnavailableError, file_name, write_report

from .factory import comparison, example, record, row, stripe

HOSTILE = [
    "../../etc/passwd",
    "..",
    "a/b",
    "a\x00b",
    "\u4e2d",
    "x" * 999,
    "-rf",
    ".hidden",
    "$x_{$",
    "\ud800",
    "[red]",
    "A",
    "a",
]


DRAWN = ["../../etc/passwd", "a\x00b", "\u4e2d", "x" * 999, "$x_{$"]


def test_names_are_safe_and_differ():
    names = [file_name(row(row_id=text)) for text in HOSTILE]
    assert all(re.fullmatch(r"tiles-[A-Za-z0-9._-]{,110}\.png", name) for name in names)
    assert len({name.lower() for name in names}) == len(HOSTILE)
    assert file_name(row(kernel="a/x", row_id="x")) != file_name(row(kernel="b/x", row_id="x"))


def test_a_missing_matplotlib_is_one_clear_line(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ReportUnavailableError, match=r"pip install 'rungwatch\[report\]'$"):
        write_report(example(), tmp_path / "new")
    assert not (tmp_path / "new").exists()


class TestFiles:
    @pytest.fixture(autouse=True)
    def _matplotlib(self):
        pytest.importorskip("matplotlib")

    def test_an_overview_and_a_map_for_each_failing_case(self, tmp_path):
        paths = write_report(example(), tmp_path / "deep" / "report")
        failing = next(each for each in example().rows if each.comparison)
        assert [path.name for path in paths] == [
            "overview.png",
            file_name(failing),
        ]
        assert sorted(paths) == sorted((tmp_path / "deep" / "report").iterdir())
        assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)

    def test_the_same_record_gives_the_same_bytes(self, tmp_path):
        first, second = (write_report(example(), tmp_path / name) for name in "ab")
        assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]

    def test_hostile_names_stay_in_the_folder(self, tmp_path):
        rows = [
            row(reason=Reason.NUMERICS, kernel=text, row_id=text, comparison=stripe())
            for text in DRAWN
        ]
        folder = tmp_path / "report"
        paths = write_report(record(*rows), folder)
        assert len(set(paths)) == len(DRAWN) + 1
        assert set(folder.iterdir()) == set(paths)
        assert list(tmp_path.iterdir()) == [folder]

    def test_a_failed_write_leaves_no_part(self, tmp_path):
        (tmp_path / "overview.png").mkdir()
        with pytest.raises(OSError, match=r"overview\.png"):
            write_report(example(), tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["overview.png"]

    def test_odd_records_can_be_drawn(self, tmp_path):
        ragged = row(reason=Reason.NUMERICS, comparison=comparison(((1, 2), (3,))))
        unread = row("odd", "load", Reason.KERNEL_LOAD, problem=None)
        assert len(write_report(record(), tmp_path / "empty")) == 1
        assert len(write_report(record(ragged, unread), tmp_path / "odd")) == 1

    def test_the_worst_verdict_of_a_cell_is_drawn(self):
        from matplotlib.colors import to_hex

        from rungwatch.explain import picture

        rows = [row(), row(reason=Reason.NUMERICS), row()]
        axes = picture._overview(record(*rows)).axes[0]
        assert [to_hex(patch.get_facecolor()).upper() for patch in axes.patches] == ["#D55E00"]
        assert "F" in [text.get_text() for text in axes.texts]

    def test_the_ladder_stands_on_its_first_rung(self):
        from rungwatch.explain import picture

        axes = picture._overview(example()).axes[0]
        names = [text.get_text() for text in axes.get_yticklabels()]
        assert names == [f"hgemm/blackwell/step{i}" for i in (4, 7, 9)]
        assert axes.get_ylim()[0] < axes.get_ylim()[1]

    def test_the_map_shows_shares_elements_and_the_worst_element(self):
        from rungwatch.explain import picture

        figure = picture._tile_picture(row(reason=Reason.NUMERICS, comparison=stripe()))
        axes = figure.axes[0]
        drawn = axes.get_images()[0].get_array()
        assert drawn.shape == (4, 6)
        assert drawn[0, 2] == 1.0
        assert drawn.mask[0, 0]
        assert (axes.get_xlim(), axes.get_ylim()) == ((0, 768), (512, 0))
        (marker,) = axes.get_lines()
        assert (marker.get_xdata()[0], marker.get_ydata()[0]) == (260.5, 131.5)
        assert "87,383 of 393,216" in figure.get_suptitle()
