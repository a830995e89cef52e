from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from app.prediction.crossvalidation import folds_of

GROUPS = st.lists(st.sampled_from(["", *"abcdefgh"]), min_size=1, max_size=60)


@given(GROUPS, st.integers(1, 8))
def test_each_group_is_held_out_whole_and_once(groups: list[str], folds: int) -> None:
    held = folds_of(groups, folds)
    rows = [row for fold in held for row in fold.tolist()]
    assert sorted(rows) == [row for row, group in enumerate(groups) if group]
    of_group = {groups[row]: number for number, fold in enumerate(held) for row in fold.tolist()}
    assert all(of_group[groups[row]] == number for number, fold in enumerate(held) for row in fold.tolist())
    assert len(held) <= folds


@given(st.lists(st.tuples(st.sampled_from("abcdefghijkl"), st.integers(1, 9)), min_size=1, unique_by=lambda g: g[0]))
def test_what_is_to_stay_apart_goes_to_different_folds(sizes: list[tuple[str, int]]) -> None:
    groups = [name for name, size in sizes for _ in range(size)]
    apart = ["vowel" if name in "aei" else name for name in groups]
    held = folds_of(groups, 3, apart)
    most = Counter(number for number, fold in enumerate(held) for name in {groups[row] for row in fold} & set("aei"))
    assert not most or len(held) < 3 or max(most.values()) == 1
