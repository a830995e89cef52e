import json
from contextlib import redirect_stdout
from io import StringIO

import numpy as np
import pytest

from bench.accuracy import main
from bench.runner import METHODS, OURS


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict]:
    """What one run of protocol B printed, and what it wrote."""
    file = tmp_path_factory.mktemp("bench") / "b.json"
    with redirect_stdout(StringIO()) as printed:
        main(["--only", "B", "--processes", "1", "--markdown", "--json", str(file)])
    return printed.getvalue(), json.loads(file.read_text())


@pytest.fixture(scope="module")
def document(run: tuple[str, dict]) -> dict:
    return run[1]


@pytest.mark.parametrize("method", METHODS)
def test_the_figures_can_be_recomputed_from_the_rows(document: dict, method: str) -> None:
    """The first line of B: each model's prediction against the median of its runs 3 to 5."""
    line = document["lines"][0]["figures"][method]
    rows = [row for row in document["rows"] if row["method"] == method]
    strict = [row for row in rows if row["learned"]["measurements"] == rows[0]["learned"]["measurements"]]
    models = {row["model"] for row in strict}
    assert len(models) == 5
    errors = np.array(
        [
            next(row["predicted"]["total"] for row in strict if row["model"] == model)
            - np.median([row["measured"]["total"] for row in strict if row["model"] == model])
            for model in models
        ]
    )
    assert line["MSE s²"] == pytest.approx((errors**2).mean())
    assert line["max s"] == pytest.approx(np.abs(errors).max())


def test_every_prediction_of_ours_has_seven_stages_that_sum_and_bounds_around_each(document: dict) -> None:
    ours = [row for row in document["rows"] if row["method"] == OURS]
    assert len(ours) == 2 * 5 * 3
    for row in ours:
        stages = [seconds for name, seconds in row["predicted"].items() if name != "total"]
        assert len(stages) == 7
        assert sum(stages) == pytest.approx(row["predicted"]["total"])
        assert all(low <= row["predicted"][name] <= high for name, (low, high) in row["bounds"].items())


def test_an_unknown_protocol_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "Z9"])
    assert "Z9: not one of A1" in capsys.readouterr().err


def test_it_prints_a_table_with_the_verdict(run: tuple[str, dict]) -> None:
    heading, _, first, *_ = run[0].splitlines()
    assert heading == "|  | what is asked | paper | paper + state | ours | must reach | aim | verdict |"
    assert first.rstrip(" |").endswith(("aim", "reached", "missed"))
