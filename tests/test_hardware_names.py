"""Hardware names as NVML, /proc/cpuinfo and people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.hardware_names import cpu_key, gpu_key, match_gpu, matching_cpus

KNOWN = ["h100 nvl", "h100", "l40s", "a100 sxm4 80gb", "a100 sxm4 40gb", "h200"]


@pytest.mark.parametrize(
    "names",
    [
        ["NVIDIA H100 NVL", "H100 NVL", "h100-nvl", "nvidia h100_nvl".replace("_", " "), " NVIDIA  H100  NVL "],
        ["NVIDIA L40S", "L40S", "l40s"],
        ["NVIDIA H200", "H200", "NVIDIA H200 GPU"],
        ["Tesla T4", "NVIDIA T4", "t4"],
        ["NVIDIA GeForce RTX 4090", "RTX 4090", "GeForce RTX 4090"],
        ["AMD Instinct MI300X", "MI300X"],
    ],
)
def test_one_gpu_under_many_names(names: list[str]) -> None:
    assert len({gpu_key(name) for name in names}) == 1


@pytest.mark.parametrize(
    ("name", "matches"),
    [
        ("NVIDIA H100 NVL", ["h100 nvl"]),
        ("NVIDIA H100 80GB HBM3", ["h100"]),
        ("h100", ["h100"]),
        ("NVIDIA A100-SXM4-80GB", ["a100 sxm4 80gb"]),
        ("A100", ["a100 sxm4 40gb", "a100 sxm4 80gb"]),
        ("a100 sxm4", ["a100 sxm4 40gb", "a100 sxm4 80gb"]),
        ("NVIDIA", sorted(KNOWN)),
        ("B200", []),
        ("L40", []),
        ("H100 PCIe", []),
    ],
)
def test_what_a_gpu_name_can_mean(name: str, matches: list[str]) -> None:
    assert match_gpu(name, KNOWN) == matches


@pytest.mark.parametrize(
    ("names", "key"),
    [
        (["AMD EPYC 9354 32-Core Processor", "AMD EPYC 9354", "EPYC 9354", "2x AMD EPYC 9354"], "amd epyc 9354"),
        (["Intel(R) Xeon(R) Gold 6226R CPU @ 2.90GHz", "Xeon Gold 6226R"], "intel xeon gold 6226r"),
        (["AMD Ryzen Threadripper PRO 5995WX 64-Cores", "Threadripper PRO 5995WX"], None),
    ],
)
def test_one_cpu_under_many_names(names: list[str], key: str | None) -> None:
    keys = [cpu_key(name) for name in names]
    if key:
        assert set(keys) == {key}
    else:  # The longer name holds the shorter one.
        assert matching_cpus(names[1], [keys[0]]) == [keys[0]]


def test_what_a_cpu_name_can_mean() -> None:
    known = ["amd epyc 9354", "amd epyc 9654", "intel xeon gold 6226r"]
    assert matching_cpus("AMD EPYC", known) == known[:2]
    assert matching_cpus("EPYC 9354 32-Core", known) == known[:1]
    assert matching_cpus("AMD EPYC 7313", known) == []


@given(st.text(min_size=1))
def test_a_key_is_the_key_of_itself(name: str) -> None:
    assert gpu_key(gpu_key(name)) == gpu_key(name)
    assert cpu_key(cpu_key(name)) == cpu_key(name)


@given(st.text(min_size=1), st.lists(st.sampled_from(KNOWN)))
def test_a_match_is_known_and_an_exact_name_matches_itself_alone(name: str, known: list[str]) -> None:
    assert set(match_gpu(name, known)) <= set(known)
    for key in known:
        assert match_gpu(key, known) == [key]
