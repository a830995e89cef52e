"""The probes of files: the model, its page cache, the engine's installation and its caches."""

import json
import os
from pathlib import Path

import pytest

from agent.probes import compile_cache, inspection_cache, kernel_caches, model, page_cache, tokenizer, versions
from agent.probes.base import NoData
from agent.probes.command_line import EngineArguments
from agent.probes.folders import FolderSize, folder_size
from agent.probes.model_files import ModelFiles, find_model_files, model_name, weight_files
from tests.agent.machines import context, write_machine, write_model, write_safetensors, write_tree

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def hub(home: Path, *, reference: str = "main") -> Path:
    """A hub cache below ``home`` with one snapshot of org/name, whose files are links to blobs."""
    repository = home / ".cache/huggingface/hub/models--org--name"
    folder = write_model(repository / "blobs")
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    for path in folder.iterdir():
        (snapshot / path.name).symlink_to(path)
    write_tree(repository, {f"refs/{reference}": COMMIT})
    return snapshot


def test_a_hub_id_is_found_in_the_hub_s_cache(tmp_path: Path) -> None:
    snapshot = hub(tmp_path)
    files = find_model_files(EngineArguments("org/name"), {"HOME": str(tmp_path)})
    assert (files.name, files.folder, files.snapshot, files.remote) == ("org/name", snapshot, COMMIT, False)
    assert [path.name for path in files.weights] == [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    ]


@pytest.mark.parametrize(
    "environment",
    [
        {"HF_HOME": "{home}/.cache/huggingface"},
        {"HF_HUB_CACHE": "{home}/.cache/huggingface/hub"},
        {"XDG_CACHE_HOME": "{home}/.cache"},
    ],
)
def test_the_hub_s_cache_may_lie_elsewhere(tmp_path: Path, environment: dict[str, str]) -> None:
    snapshot = hub(tmp_path)
    moved = {name: value.format(home=tmp_path) for name, value in environment.items()}
    assert find_model_files(EngineArguments("org/name"), moved | {"HOME": "/nowhere"}).folder == snapshot
    arguments = EngineArguments("org/name", {"download_dir": str(tmp_path / ".cache/huggingface/hub")})
    assert find_model_files(arguments, {"HOME": "/nowhere"}).folder == snapshot


def test_a_revision_is_a_reference_or_a_commit(tmp_path: Path) -> None:
    snapshot = hub(tmp_path, reference="v1")
    home = {"HOME": str(tmp_path)}
    assert find_model_files(EngineArguments("org/name", {"revision": "v1"}), home).folder == snapshot
    assert find_model_files(EngineArguments("org/name", {"revision": COMMIT}), home).folder == snapshot
    for revision in ("v2", "../snapshots", True):
        assert find_model_files(EngineArguments("org/name", {"revision": revision}), home).folder is None


def test_what_is_not_here_comes_over_the_network(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert find_model_files(EngineArguments("org/absent"), home) == ModelFiles("org/absent", remote=True)
    assert find_model_files(EngineArguments("s3://bucket/some/Model"), home) == ModelFiles("Model", remote=True)
    assert find_model_files(EngineArguments("/models/absent"), home) == ModelFiles("absent")
    assert find_model_files(EngineArguments(), home) == ModelFiles()
    other_hub = home | {"VLLM_USE_MODELSCOPE": "True"}
    assert find_model_files(EngineArguments("org/absent"), other_hub) == ModelFiles("org/absent")
    for weights in hub(tmp_path).glob("*.safetensors"):
        weights.unlink()
    assert find_model_files(EngineArguments("org/name"), home).remote


@pytest.mark.parametrize(
    ("path", "served", "name"),
    [
        ("org/name", None, "org/name"),
        ("/home/alice/models/Llama-3.1-8B", None, "Llama-3.1-8B"),
        ("/home/alice/models/Llama-3.1-8B/", None, "Llama-3.1-8B"),
        ("/home/alice/.cache/huggingface/hub/models--org--name/snapshots/0123", None, "org/name"),
        ("/models/1", ["org/name", "alias"], "org/name"),
        ("/models/Llama", ["chat"], "Llama"),
        ("/models/Llama", "org/name", "org/name"),
        ("gs://alice/Llama", None, "Llama"),
    ],
)
def test_a_name_never_holds_the_folders_it_lies_in(path: str, served: object, name: str) -> None:
    assert model_name(EngineArguments(path, {"served_model_name": served} if served else {})) == name


def test_weight_files_are_those_that_the_engine_loads(tmp_path: Path) -> None:
    folder = write_model(tmp_path, shards=2)
    for other in ("consolidated.safetensors", "stray.safetensors", "pytorch_model.bin", "training_args.bin"):
        (folder / other).write_bytes(b"x")
    shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert [path.name for path in weight_files(folder)] == shards
    assert [path.name for path in weight_files(folder, "mistral")] == ["consolidated.safetensors"]
    assert [path.name for path in weight_files(folder, "pt")] == ["pytorch_model.bin"]
    (folder / "model.safetensors.index.json").write_text("[]")
    assert [path.name for path in weight_files(folder)] == [*shards, "stray.safetensors"]
    assert weight_files(tmp_path / "nowhere") == ()


def test_a_single_file_is_a_model_too(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF" + bytes(96))
    found = model.probe(context(tmp_path, f"vllm serve {tmp_path}/tiny.gguf"))
    assert found.spec == {"model": {"name": "tiny.gguf", "weight_bytes": 100, "num_weight_files": 1}}


def test_the_model_s_facts_come_from_its_files(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny", config={"num_key_value_heads": 2})
    weights = [path.stat().st_size for path in folder.glob("*.safetensors")]
    found = model.probe(context(tmp_path, f"vllm serve {folder}"))
    spec = found.spec["model"]
    assert (spec["name"], spec["weight_bytes"], spec["num_weight_files"]) == ("tiny", sum(weights), 2)
    assert (spec["num_layers"], spec["num_key_value_heads"], spec["architecture"]) == (2, 2, "LlamaForCausalLM")
    assert spec["dtype"] == "bfloat16"
    assert found.facts["stored_bytes_by_dtype"] == {"BF16": 8192}


def test_a_head_that_the_engine_skips_is_told(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny", config={"tie_word_embeddings": True})
    (folder / "model.safetensors.index.json").unlink()
    command = f"vllm serve {folder}"
    assert model.probe(context(tmp_path, command)).spec["model"]["unloaded_weight_bytes"] == 0
    write_safetensors(folder / "model-00003-of-00003.safetensors", {"lm_head.weight": ("BF16", 64), "x": ("BF16", 8)})
    assert model.probe(context(tmp_path, command)).spec["model"]["unloaded_weight_bytes"] == 64
    (folder / "model-00002-of-00002.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1")
    spec = model.probe(context(tmp_path, command)).spec["model"]
    assert "unloaded_weight_bytes" not in spec
    assert spec["num_weight_files"] == 3
    untied = f'{command} --hf-overrides {{"tie_word_embeddings":false}}'
    assert "unloaded_weight_bytes" not in model.probe(context(tmp_path, untied)).spec["model"]


def test_overrides_on_the_command_line_change_the_model(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    command = f'vllm serve {folder} --hf-overrides {{"num_hidden_layers":1}}'
    assert model.probe(context(tmp_path, command)).spec["model"]["num_layers"] == 1


def test_a_config_that_is_none_is_an_error_of_this_probe(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    (folder / "config.json").write_text("[]")
    with pytest.raises(ValueError, match="JSON object"):
        model.probe(context(tmp_path, f"vllm serve {folder}"))


def test_what_is_no_safetensors_file_is_not_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(b"\xff" * 20)
    with pytest.raises(ValueError, match="safetensors"):
        model.read_header(path)
    path.write_bytes(b"")
    assert model.parse_header(model.read_header(path)) == {}
    write_safetensors(path, {"a": ("BF16", 64), "b": ("F8_E4M3", 32), "c": ("BF16", 2)})
    assert model.parse_header(model.read_header(path)) == {"BF16": 66, "F8_E4M3": 32}


def test_tokenizer_bytes_are_those_of_one_vocabulary(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    write_tree(folder, {"vocab.json": "x" * 5000, "merges.txt": "x" * 5000})
    assert tokenizer.probe(context(tmp_path, f"vllm serve {folder}")).spec == {"model": {"tokenizer_bytes": 1010}}
    (folder / "tokenizer.json").unlink()
    assert tokenizer.probe(context(tmp_path, f"vllm serve {folder}")).spec == {"model": {"tokenizer_bytes": 10010}}
    other = write_tree(tmp_path / "other", {"tokenizer.model": "x" * 7})
    command = f"vllm serve {folder} --tokenizer {other}"
    assert tokenizer.probe(context(tmp_path, command)).spec == {"model": {"tokenizer_bytes": 7}}
    hub(tmp_path)
    command = f"vllm serve {folder} --tokenizer org/name"
    found = tokenizer.probe(context(tmp_path, command, {"HOME": str(tmp_path)}))
    assert found.spec == {"model": {"tokenizer_bytes": 1010}}
    with pytest.raises(NoData):
        tokenizer.probe(context(tmp_path, "vllm serve org/absent"))


class TestPageCache:
    """The kernel's own answer about real files."""

    def test_what_was_evicted_is_no_longer_counted(self, tmp_path: Path) -> None:
        path = tmp_path / "weights"
        size = 3 * page_cache.WINDOW_BYTES + 5000
        path.write_bytes(os.urandom(size))
        assert page_cache.resident_bytes(path) == (size, size)
        if not evict(path):
            pytest.skip("this file system keeps its files in memory (tmpfs), so nothing can be evicted")
        assert page_cache.resident_bytes(path) == (0, size)
        with path.open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # No reading ahead.
            file.read(10)
        assert page_cache.resident_bytes(path) == (os.sysconf("SC_PAGESIZE"), size)

    def test_of_many_windows_a_sample_is_looked_at(self, tmp_path: Path) -> None:
        path = tmp_path / "weights"
        path.write_bytes(bytes(4 * page_cache.WINDOW_BYTES))
        assert page_cache.resident_bytes(path, step=2) == (2 * page_cache.WINDOW_BYTES, 2 * page_cache.WINDOW_BYTES)
        assert page_cache.cached_fraction([path], max_windows=1) == 1.0

    def test_the_fraction_is_over_all_bytes(self, tmp_path: Path) -> None:
        kept, evicted = tmp_path / "kept", tmp_path / "evicted"
        kept.write_bytes(bytes(1 << 20))
        evicted.write_bytes(bytes(3 << 20))
        if not evict(evicted):
            pytest.skip("this file system keeps its files in memory (tmpfs), so nothing can be evicted")
        assert page_cache.cached_fraction([kept, evicted]) == pytest.approx(0.25)

    def test_empty_files_have_no_fraction(self, tmp_path: Path) -> None:
        (tmp_path / "empty").touch()
        assert page_cache.cached_fraction([tmp_path / "empty"]) is None
        assert page_cache.cached_fraction([]) is None

    @pytest.mark.parametrize(("filesystem", "uncached"), [("ext4 /dev/sda", "disk"), ("nfs server:/x", "network")])
    def test_the_state_follows_the_fraction(self, tmp_path: Path, filesystem: str, uncached: str) -> None:
        folder = write_model(tmp_path / "tiny")
        root = write_machine(tmp_path / "root", extra={"proc/self/mountinfo": f"1 0 0:9 / / rw - {filesystem} rw\n"})
        given = context(root, f"vllm serve {folder}")
        assert page_cache.probe(given).spec["cache"] == {"weights": "page_cache", "weights_cached_fraction": 1.0}
        if all(evict(path) for path in given.files.weights):
            assert page_cache.probe(given).spec["cache"] == {"weights": uncached, "weights_cached_fraction": 0.0}

    def test_tmpfs_counts_as_page_cache(self, tmp_path: Path) -> None:
        folder = write_model(tmp_path / "tiny")
        root = write_machine(tmp_path / "root", extra={"proc/self/mountinfo": "1 0 0:9 / / rw - tmpfs tmpfs rw\n"})
        found = page_cache.probe(context(root, f"vllm serve {folder}"))
        assert found.spec["cache"] == {"weights": "page_cache", "weights_cached_fraction": 1.0}

    def test_what_will_not_be_read_has_no_state(self, tmp_path: Path) -> None:
        folder, root = write_model(tmp_path / "tiny"), write_machine(tmp_path / "root")
        with pytest.raises(NoData):
            page_cache.probe(context(root, f"vllm serve {folder} --load-format dummy"))
        assert page_cache.probe(context(root, "vllm serve org/absent")).spec == {"cache": {"weights": "network"}}


def evict(path: Path) -> bool:
    """Drop a file's clean pages from the page cache; whether that worked."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return page_cache.resident_bytes(path)[0] == 0


def test_an_empty_compile_cache_is_cold_and_a_filled_one_unknown(tmp_path: Path) -> None:
    environment = {"VLLM_CACHE_ROOT": str(tmp_path / "cache")}
    assert compile_cache.probe(context(tmp_path, environment=environment)).spec == {"cache": {"compile": "cold"}}
    write_tree(
        tmp_path / "cache",
        {
            "torch_compile_cache/0123456789/rank_0_0/backbone/computation_graph.py": "x" * 100,
            "torch_compile_cache/torch_aot_compile/abc/rank_0_0/model": "x" * 50,
            "torch_aot_compile/def/rank_0_0/model": "x" * 25,
        },
    )
    found = compile_cache.probe(context(tmp_path, environment=environment))
    assert found.spec == {}
    assert found.facts == {"compile_entries": 1, "aot_entries": 2, "bytes": 175, "files": 3}
    off = context(tmp_path, environment={**environment, "VLLM_DISABLE_COMPILE_CACHE": "1"})
    assert compile_cache.probe(off).spec == {"cache": {"compile": "disabled"}}


def test_the_compile_cache_may_be_named_by_an_option(tmp_path: Path) -> None:
    write_tree(tmp_path / "mine", {"rank_0_0/backbone/x.py": "x" * 9})
    command = f'vllm serve m --compilation-config {{"cache_dir":"{tmp_path}/mine"}}'
    found = compile_cache.probe(context(tmp_path, command, {"VLLM_CACHE_ROOT": str(tmp_path / "cache")}))
    assert found.facts["bytes"] == 9


def test_the_inspection_cache_is_warm_for_this_architecture_only(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    given = context(tmp_path, f"vllm serve {folder}", {"XDG_CACHE_HOME": str(tmp_path)})
    assert inspection_cache.probe(given).spec == {"cache": {"model_inspection": "cold"}}
    infos = tmp_path / "vllm/modelinfos"
    write_tree(infos, {"vllm-model_executor-models-qwen2-Qwen2ForCausalLM.json": "{}"})
    assert inspection_cache.probe(given).spec == {}
    write_tree(infos, {"vllm-model_executor-models-llama-LlamaForCausalLM.json": "{}"})
    assert inspection_cache.probe(given).spec == {"cache": {"model_inspection": "warm"}}


def test_kernel_caches_are_measured_where_their_variables_point(tmp_path: Path) -> None:
    write_tree(tmp_path, {"triton/a/k.cubin": "x" * 30, "home/.cache/flashinfer/0.5/k.so": "x" * 20})
    environment = {"HOME": str(tmp_path / "home"), "TRITON_CACHE_DIR": str(tmp_path / "triton")}
    facts = kernel_caches.probe(context(tmp_path, environment=environment)).facts
    assert facts["triton"] == {"bytes": 30, "files": 1}
    assert facts["flashinfer"] == {"bytes": 20, "files": 1}
    assert facts["cuda"] == {"bytes": 0, "files": 0}
    assert facts["kernels"] == {"triton": 1, "compile_cache": 0}


@pytest.mark.parametrize(
    ("before", "built", "state"),
    [
        ({}, {}, None),  # An engine that builds none.
        ({"triton/a/k.cubin": "x"}, {}, "warm"),
        ({}, {"triton/a/k.cubin": "x"}, "cold"),
        ({"triton/a/k.hsaco": "x"}, {"triton/b/l.hsaco": "x"}, "partial"),
        ({"triton/a/k.cubin": "x"}, {"triton/b/l.cubin": "x", "triton/c/m.cubin": "x"}, "cold"),
        ({"triton/a/k.cubin": "x"}, {"vllm/torch_compile_cache/1/t/k.cubin": "x"}, "cold"),
        ({"triton/a/k.cubin": "x"}, {"triton/a/k.json": "{}"}, "warm"),
    ],
)
def test_the_kernel_cache_is_as_cold_as_what_the_engine_adds(
    tmp_path: Path, before: dict[str, str], built: dict[str, str], state: str | None
) -> None:
    environment = {"TRITON_CACHE_DIR": str(tmp_path / "triton"), "VLLM_CACHE_ROOT": str(tmp_path / "vllm")}
    write_tree(tmp_path, before)
    counted = kernel_caches.kernels_built(environment)
    write_tree(tmp_path, built)
    assert kernel_caches.kernel_state(counted, kernel_caches.kernels_built(environment)) == state


def test_a_kernel_cache_too_large_to_count_has_no_state() -> None:
    assert kernel_caches.kernel_state({"triton": 1}, {"triton": 1}) is None
    assert kernel_caches.kernel_state({"triton": 1, "compile_cache": 0}, {"triton": 1}) is None


def test_a_large_folder_is_counted_in_part(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"{number}": "x" for number in range(5)})
    assert folder_size(tmp_path) == FolderSize(5, 5)
    assert folder_size(tmp_path, max_files=3) == FolderSize(3, 3, whole=False)


def environment_of(prefix: Path, *, version: str = "0.27.1", release: str = "3.12") -> Path:
    """A virtual environment below ``prefix`` with an engine in it."""
    site = prefix / f"lib/python{release}/site-packages"
    write_tree(
        site,
        {
            f"vllm-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n",
            "torch-2.13.0+cu130.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+cu130\n",
        },
    )
    write_tree(prefix, {"pyvenv.cfg": "home = /usr/bin\n", "bin/python3": ""})
    executable(prefix / "bin/vllm", f"#!{prefix}/bin/python3\nimport sys\n")
    (prefix / "bin/python3").chmod(0o755)
    return prefix


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize(
    "command",
    [
        "{venv}/bin/vllm serve m",
        "vllm serve m",
        "numactl -N 0 vllm serve m",
        "{venv}/bin/python3 -m vllm.entrypoints.openai.api_server --model m",
        "long serve m",
    ],
)
def test_versions_come_from_the_engine_s_own_environment(tmp_path: Path, command: str) -> None:
    venv = environment_of(tmp_path / "venv")
    executable(tmp_path / "bin/numactl", "\x7fELF")
    executable(tmp_path / "bin/long", f"#!/bin/sh\n'''exec' {venv}/bin/python3 \"$0\" \"$@\"\n' '''\n")
    path = {"PATH": f"{venv}/bin:{tmp_path}/bin"}
    found = versions.probe(context(tmp_path, command.format(venv=venv), path))
    assert found.spec == {"engine": {"version": "0.27.1"}, "hardware": {}}
    assert found.facts == {"vllm": "0.27.1", "torch": "2.13.0+cu130"}


def test_a_build_for_the_cpu_is_hardware_of_its_own(tmp_path: Path) -> None:
    venv = environment_of(tmp_path, version="0.27.1+cpu")
    assert versions.probe(context(tmp_path, f"{venv}/bin/vllm serve m")).spec["hardware"] == {"gpu": "CPU"}


def test_without_an_interpreter_or_an_engine_there_are_no_versions(tmp_path: Path) -> None:
    executable(tmp_path / "bin/launch", "#!/bin/sh\nexec vllm\n")
    executable(tmp_path / "bin/python3", "")
    for command in ("launch m", "python3 -m vllm serve m", "absent serve m"):
        with pytest.raises(NoData):
            versions.probe(context(tmp_path, command, {"PATH": str(tmp_path / "bin")}))


def test_folders_of_a_debian_python_and_of_the_system_are_searched(tmp_path: Path) -> None:
    (tmp_path / "venv/lib/python3.12/site-packages").mkdir(parents=True)
    (tmp_path / "base/lib/python3.12/dist-packages").mkdir(parents=True)
    (tmp_path / "base/lib/python3.11/dist-packages").mkdir(parents=True)
    executable(tmp_path / "base/bin/python3.12", "")
    (tmp_path / "venv/bin").mkdir()
    (tmp_path / "venv/bin/python").symlink_to(tmp_path / "base/bin/python3.12")
    cfg = f"home = {tmp_path}/base/bin\ninclude-system-site-packages = true\n"
    write_tree(tmp_path / "venv", {"pyvenv.cfg": cfg})
    assert versions.site_folders(tmp_path / "venv/bin/python") == [
        tmp_path / "venv/lib/python3.12/site-packages",
        tmp_path / "base/lib/python3.12/dist-packages",
    ]


def test_a_damaged_index_is_as_good_as_none(tmp_path: Path) -> None:
    folder = write_model(tmp_path, shards=1)
    for content in ("{}", '{"weight_map": 3}', "no json", json.dumps({"weight_map": {"a": "elsewhere"}})):
        (folder / "model.safetensors.index.json").write_text(content)
        assert [path.name for path in weight_files(folder)] == ["model-00001-of-00001.safetensors"]
