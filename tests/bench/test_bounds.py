import pytest

from bench.bounds import Bounded, line_of
from bench.runner import OURS

GROUPS = [("A1", "n1", f"model{i}") for i in range(20)]


def test_worked_figures() -> None:
    """Each group: one run inside 9 to 11 at 10.5, one outside at 12; predicted 10, residuals deviate by 1 s."""
    outcomes = [Bounded(g, measured, 10.0, 9.0, 11.0, 1.0) for g in GROUPS for measured in (10.5, 12.0)]
    figures = line_of("total", outcomes).figures[OURS]
    assert figures["coverage %"] == pytest.approx(50.0)
    assert figures["width / error"] == pytest.approx(2 / 1.25)
    # Ours: 2 inside, 2 + 20 x 1 outside, 12 on average. The rival's: 3.28 inside, 3.28 + 20 x 0.36, 6.88 on average.
    assert figures["Winkler / normal"] == pytest.approx(12 / 6.88)


@pytest.mark.parametrize(("missed", "verdict"), [(2, "aim"), (0, "reached"), (6, "missed")])
def test_coverage_must_be_consistent_with_nine_in_ten(missed: int, verdict: str) -> None:
    """Without a miss the bounds are 1.3 / 0.25 = 5.2 errors wide; 6 misses in 20 are too many for 90 %."""
    outcomes = [
        Bounded(group, 10.25 if place >= missed else 10.7, 10.0, 9.3, 10.6, 2.0) for place, group in enumerate(GROUPS)
    ]
    assert line_of("total", outcomes).verdict == verdict


def test_a_group_counts_once_however_many_runs_it_has() -> None:
    many = [Bounded(GROUPS[0], 20.0, 10.0, 9.0, 11.0, 1.0)] * 50
    few = [Bounded(group, 10.0, 10.0, 9.0, 11.0, 1.0) for group in GROUPS[1:]]
    assert line_of("total", [*many, *few]).figures[OURS]["coverage %"] == pytest.approx(95.0)
