"""Figures are drawn from whatever a run left: all of it, gaps, or nothing."""

import pytest

from l2e.report.figures import meta_curve, moving_average

STEP = {"step": 1, "meta_loss": 0.5}
HELDOUT = {"step": 0, "meta_loss": None, "heldout_loss/a": 0.4, "heldout_se/a": 0.1}
GAP = {"step": 2, "meta_loss": 0.4, "heldout_loss/a": None, "heldout_se/a": None}


@pytest.mark.parametrize("records", [[], [STEP], [HELDOUT], [HELDOUT, STEP, GAP]])
def test_a_curve_is_drawn(tmp_path, records):
    meta_curve(records, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_moving_average_by_hand():
    assert moving_average([1.0, 3.0, 5.0, 7.0], 2) == [1.0, 2.0, 4.0, 6.0]
