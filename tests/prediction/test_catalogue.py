import pytest

from app.prediction.catalogue import Catalogue, Names, choose
from app.prediction.spec_facts import states_of
from app.schemas.spec import Spec
from tests.prediction.startups import spec, startup

NAMES = Names(["llama3.1-8b-instruct", "acme/rocket", "bare"], {"meta-llama/llama-3.1-8b": "llama3.1-8b-instruct"})


@pytest.mark.parametrize(
    ("written", "known"),
    [
        ("Meta-Llama/Llama-3.1-8B", "llama3.1-8b-instruct"),
        ("llama-3.1-8b", "llama3.1-8b-instruct"),
        ("ROCKET", "acme/rocket"),
        ("other/bare", "bare"),
        ("other/rocket", "other/rocket"),
        ("unknown", "unknown"),
    ],
)
def test_names(written: str, known: str) -> None:
    assert NAMES.canonical(written) == known


def test_a_field_left_out_matches_any() -> None:
    known = {(None, "bfloat16", None): 3, (None, "bfloat16", "awq"): 9}
    assert choose((None, None, None), known) == (None, "bfloat16", None)
    assert choose((None, None, "awq"), known) == (None, "bfloat16", "awq")
    assert choose((None, "float16", None), known) is None


def test_most_reporters_decide_a_fact() -> None:
    def report(key: str, reporter: str, layers: int) -> None:
        rows.append(startup(key, of=spec({"name": "m", "num_layers": layers}), reporter=reporter))

    rows: list = []
    for i in range(5):
        report(f"loud/{i}", "loud", 99)
    report("a/1", "a", 32)
    report("b/1", "b", 32)
    (model,) = Catalogue.of(rows, {}).models
    assert model.facts["num_layers"] == 32
    assert model.measurements == 7


@pytest.mark.parametrize(
    ("cache", "kernels"),
    [
        ({"compile": "warm", "kernels": "cold"}, "cold"),
        ({"compile": "warm"}, "unknown"),
        ({"kernels": "partial"}, "partial"),
        ({"compile": "cold", "kernels": "cold"}, "unknown"),  # It says nothing of a start with a warm compile cache.
    ],
)
def test_the_kernel_cache_is_not_counted_beside_a_cold_compile_cache(cache: dict[str, str], kernels: str) -> None:
    assert states_of(Spec.of("m", "GPU", cache=cache))[3] == kernels


def test_without_torch_compile_the_kernel_cache_counts_whatever_the_compile_cache() -> None:
    cache = {"compile": "cold", "kernels": "warm"}
    assert states_of(Spec.of("m", "GPU", engine={"enforce_eager": True}, cache=cache))[3] == "warm"
