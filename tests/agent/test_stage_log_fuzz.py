import io
import json
import random

from hypothesis import given
from hypothesis import strategies as st

from agent.stage_log import LogOutcome, NotAVllmLog, ParsedLog, parse_lines, read_lines
from app.schemas.measurement import PartSeconds, StageSeconds
from app.schemas.spec import CacheSpec, EngineSpec, HardwareSpec, ModelSpec
from tests.agent.startup_lines import WRAPPERS, record, startup

SECTIONS = {"model": ModelSpec, "hardware": HardwareSpec, "engine": EngineSpec, "cache": CacheSpec}
# Pieces that the patterns look for, so that fuzzing reaches behind them.
PIECES = st.sampled_from(
    [
        *startup(),
        "INFO 13-45 99:99:99 [x.py:1] ",
        '{"log":"',
        '{"message": {"a": ',
        '{"message": "Loading weights took 1.0 seconds", "levelname": "INFO", "time": "2026-13-99T00:00:00"}',
        "2026-99-99T99:99:99Z stdout P ",
        "(Worker_TP99999 pid=9999999999, ip=::1) ",
        "Loading weights took 99999999.999999999 seconds",
        "Initializing a V1 LLM engine (vX) with config: model='\ud800', tensor_parallel_size=999999999, dtype=torch.",
        "'cudagraph_capture_sizes': [,,,]",
        "Checkpoint size: 1.2.3 GiB",
        "Checkpoint size: ... GiB. (1.2.3/4.5.6 GiB)",
        "Free memory on device (1/.... GiB)",
        "Capturing CUDA graphs (",
        "Traceback (most recent call last)",
        "torch.compile took 0.10 s in total",
        "\x1b[",
        "│",
        "[   1.5] ",
        "Feb 31 10:00:00 ",
        "\x00",
        " | ",
    ]
)


def checked(parsed: ParsedLog) -> ParsedLog:
    """Everything that is printed is plain JSON, and every section of the spec is one that the service takes."""
    json.loads(json.dumps(parsed.as_json(), allow_nan=False))
    StageSeconds.model_validate({name: min(s, 86400.0) for name, s in parsed.stages.items()})
    PartSeconds.model_validate({name: min(s, 86400.0) for name, s in parsed.parts.items()})
    for section, schema in SECTIONS.items():
        required = {name: "x" for name, field in schema.model_fields.items() if field.is_required()}
        schema.model_validate(required | parsed.spec[section])
    assert (parsed.outcome is LogOutcome.FAILED) == (parsed.failed_stage is not None)
    return parsed


def parse_bytes(data: bytes) -> ParsedLog | None:
    try:
        return checked(parse_lines(read_lines(io.BytesIO(data))))
    except NotAVllmLog:
        return None


@given(st.binary(max_size=2000))
def test_no_bytes_break_the_parser(data: bytes) -> None:
    parse_bytes(data)


@given(st.lists(st.one_of(st.text(max_size=40), PIECES, st.just("\n")), max_size=60))
def test_no_text_breaks_the_parser(pieces: list[str]) -> None:
    parse_bytes("".join(pieces).encode("utf-8", "surrogatepass"))


@given(st.lists(PIECES, min_size=1, max_size=30))
def test_lines_with_lone_surrogates_do_not_break_the_parser(lines: list[str]) -> None:
    try:
        checked(parse_lines(lines))
    except NotAVllmLog:
        return


@given(st.integers(0, 2**32), st.sampled_from(sorted(WRAPPERS)), st.integers(1, 30))
def test_no_damage_to_a_real_shape_breaks_the_parser(seed: int, wrapper: str, flips: int) -> None:
    chance = random.Random(seed)
    data = bytearray("\n".join(WRAPPERS[wrapper](startup())).encode())
    for _ in range(flips):
        at = chance.randrange(len(data))
        data[at : at + chance.randrange(4)] = chance.randbytes(chance.randrange(4))
    parse_bytes(bytes(data))


@given(st.floats(0, 80_000), st.floats(0, 80_000))
def test_printed_seconds_come_out_as_printed(weights: float, more: float) -> None:
    lines = [
        record(14, f"Loading weights took {weights:.2f} seconds"),
        record(16, f"Model loading took 6.10 GiB and {weights + more:.6f} seconds"),
    ]
    parsed = parse_lines(lines)
    assert parsed.parts["weight_loading"] == round(weights, 2)
    assert abs(parsed.stages["model_loading"] - (weights + more)) < 0.01


@given(st.lists(st.sampled_from(startup()), max_size=8), st.integers(0, 2**32))
def test_repeated_and_shuffled_lines_never_give_a_negative_second(again: list[str], seed: int) -> None:
    lines = [*startup()[:-1], *again]
    random.Random(seed).shuffle(lines)
    parsed = checked(parse_lines(lines))
    assert all(seconds >= 0 for seconds in (*parsed.stages.values(), *parsed.parts.values()))
