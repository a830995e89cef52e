"""That nothing of what is asked for was learned: the leak tests."""

import pytest

from bench.accuracy import PROTOCOLS
from bench.nodes import c_asks, g_asks
from bench.reference_rows import FITTED, h200_rows, load_rows
from bench.runner import OURS, Ask
from bench.table import record


def learned_rows(ask: Ask) -> list[int]:
    return [*ask.training.rows, *ask.training.own]


@pytest.mark.parametrize("name", ["A1", "A2", "D", "F", "H"])
def test_the_asked_model_is_in_no_row_that_was_learned(name: str) -> None:
    rows = load_rows()
    asks = PROTOCOLS[name].asks()
    assert {ask.training.method for ask in asks} >= {OURS}
    learned = {ask.training: {rows[index].model for index in learned_rows(ask)} for ask in asks}
    assert all(rows[ask.row].model not in learned[ask.training] for ask in asks)


def test_no_protocol_but_i_knows_the_own_startups() -> None:
    own = {row.index for row in h200_rows()}
    asks = [ask for name, protocol in PROTOCOLS.items() if name not in ("E", "I") for ask in protocol.asks()]
    assert own
    assert not own & {ask.row for ask in asks}
    assert not any(own & set(learned_rows(ask)) for ask in {ask.training: ask for ask in asks}.values())


def test_quantized_variants_are_left_out_with_their_base() -> None:
    rows = load_rows()
    training = next(
        a.training for a in PROTOCOLS["A1"].asks() if a.training.method == OURS and rows[a.row].model == "mistral-7b"
    )
    names = {rows[index].measurement.spec.model.name for index in training.rows}
    assert "mistral-7b-awq" not in names
    assert "llama2-7b-hf-awq" in names


def test_an_unstarted_model_has_no_graph_size() -> None:
    asks = PROTOCOLS["A2"].asks()
    assert asks
    assert all(ask.spec.model.compiled_graph_bytes is None for ask in asks)
    assert all(ask.spec.model.weight_bytes for ask in asks)


def test_a1_asks_for_every_warm_run_of_22_models() -> None:
    asked = [ask.row for ask in PROTOCOLS["A1"].asks() if ask.training.method == OURS]
    assert len(asked) == len(set(asked)) == 22 * 5


def test_the_papers_split_learns_the_nine_models_alone() -> None:
    rows = load_rows()
    for ask in PROTOCOLS["B"].asks():
        assert {rows[index].model for index in learned_rows(ask)} == set(FITTED)
        assert rows[ask.row].model not in FITTED


@pytest.mark.parametrize("count", [0, 1, 3])
def test_an_unseen_node_shows_the_chosen_startups_alone(count: int) -> None:
    rows = load_rows()
    for ask in c_asks(count):
        if ask.training.method == OURS:
            asked, own = rows[ask.row], [rows[index] for index in ask.training.own]
            assert asked.node not in {rows[index].node for index in ask.training.rows}
            assert len(own) == count
            assert {row.node for row in own} <= {asked.node}
            assert asked.model not in {row.model for row in own}


def test_the_learning_curve_predicts_before_it_learns() -> None:
    rows = load_rows()
    curves = g_asks(OURS)
    assert len(curves) == 20
    assert len({tuple(ask.row for ask in curve) for curve in curves}) == 20
    for curve in curves:
        for arrived, ask in enumerate(curve):
            assert {rows[index].node for index in ask.training.rows} == {"n1"}
            assert ask.training.own == tuple(before.row for before in curve[:arrived])
            assert rows[ask.row].model not in {rows[index].model for index in ask.training.own}


def test_a_record_says_what_was_left_out() -> None:
    ask = next(ask for ask in PROTOCOLS["A1"].asks() if ask.training.method == OURS)
    found = record("A1", ask, None)
    assert found["learned"]["models_left_out"] == [found["model"]]
    assert found["measured"]["total"] == load_rows()[ask.row].measurement.total_seconds
