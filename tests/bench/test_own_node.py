"""Protocol I: what is asked for was never seen, and the rivals learn the same rows."""

from bench.own_node import I, hosts, scenarios
from bench.reference_rows import h200_rows, paper_rows
from bench.runner import OURS, PAPER, told_to


def test_what_is_asked_for_was_not_seen() -> None:
    for cases in scenarios().values():
        for seen, asked in cases:
            assert asked
            assert not {row.index for row in seen} & {row.index for row in asked}


def test_the_scenarios_are_those_of_the_issue() -> None:
    cases = scenarios()
    assert {host: len(rows) for host, rows in hosts().items()} == {"h200/a": 17, "h200/b": 19}
    for host, rows in hosts().items():
        assert [len(seen) for seen, _ in cases[host, "0 startups"]] == [0]
        assert [len(seen) for seen, _ in cases[host, "after 1 startup"]] == [1] * len(rows)
        assert [len(seen) for seen, _ in cases[host, "after 3 startups"]] == [3] * 20
        left_out = [
            ({r.model for r in seen}, {r.model for r in asked}) for seen, asked in cases[host, "model left out"]
        ]
        assert [len(asked) for _, asked in left_out] == [1] * len({row.model for row in rows})
        assert not any(seen & asked for seen, asked in left_out)


def test_only_the_last_scenario_knows_the_other_host() -> None:
    for (host, name), cases in scenarios().items():
        for seen, asked in cases:
            assert {row.host for row in asked} == {host}
            assert {row.host for row in seen} <= {host} or name == "other host known"


def test_every_method_learns_the_same_rows() -> None:
    learned: dict[str, set[frozenset[int]]] = {}
    for ask in I.asks():
        rows = frozenset((*ask.training.rows, *ask.training.own))
        learned.setdefault(ask.training.method, set()).add(rows)
    assert len(learned) == 3
    assert len({frozenset(some) for some in learned.values()}) == 1


def test_only_the_rivals_are_told_made_up_features_and_only_of_these_rows() -> None:
    row = h200_rows()[0]
    assert told_to(OURS, row) == row.measurement.spec
    assert told_to(PAPER, row).model.num_parameters == row.measurement.spec.model.weight_bytes // 2
    published = paper_rows()[0]
    assert told_to(PAPER, published) == published.measurement.spec
