"""No secret and no person leaves the node in a line of text."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.masking import is_secret, mask


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("token hf_abcdEFGH1234 refused", "token *** refused"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer ***"),
        ("headers={'Authorization': 'Basic dXNlcjpwYXNz'}", "headers={'Authorization': 'Basic ***'}"),
        ("curl -H 'authorization: sesame'", "curl -H 'authorization: ***'"),
        ("bearer xyz", "bearer ***"),
        ("api_key='sk-abc123'", "api_key='***'"),
        ("'api_key': ['first']", "'api_key': ['***']"),
        ("--api-key sesame --port 8000", "--api-key *** --port 8000"),
        ("--hf-token=sesame", "--hf-token=***"),
        ("HF_TOKEN=sesame HUGGING_FACE_HUB_TOKEN=x y", "HF_TOKEN=*** HUGGING_FACE_HUB_TOKEN=*** y"),
        ("AWS_SECRET_ACCESS_KEY=abc/def", "AWS_SECRET_ACCESS_KEY=***"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
        ("password: hunter2", "password: ***"),
        ("https://alice:pa@ss/word@host/repo", "https://***@host/repo"),
        ("postgresql://u:p@db:5432/x", "postgresql://***@db:5432/x"),
        ("GET https://host/x?token=abc&y=1", "GET https://host/x?token=***&y=1"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "***"),
        ("OSError: /home/alice/models/llama/config.json is absent", "OSError: ~/models/llama/config.json is absent"),
        ("OSError: '/data/alice/llama' does not exist", "OSError: '…/llama' does not exist"),
        ("file:///home/alice/x and /root/y", "file:~/x and ~/y"),
        ("/models/a/b:/models/c/d", "…/b:…/d"),
    ],
)
def test_secrets_and_folders_are_masked(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "max_num_batched_tokens=8192",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1.1 of 139.8 GiB free",
        "meta-llama/Llama-3.1-8B is not a local folder and is not on https://huggingface.co/models",
        "ValueError: 3/4 of the tokens",
        "RuntimeError: Engine core initialization failed. Failed core proc(s): {'EngineCore_DP0': 1}",
    ],
)
def test_what_helps_to_understand_a_failure_stays(text: str) -> None:
    assert mask(text) == text


def test_fields_with_secrets_are_known_by_name() -> None:
    assert all(map(is_secret, ("api_key", "hf_token", "PASSWORD", "aws-secret-access-key", "token")))
    plain = ("tokenizer", "max_num_batched_tokens", "num_experts_per_token", "tokens", "model", "key_value_heads")
    assert not any(map(is_secret, plain))


@given(st.text())
def test_masking_twice_changes_nothing_more(text: str) -> None:
    assert mask(mask(text)) == mask(text)


SECRET = st.text(string.ascii_letters + string.digits, min_size=20, max_size=40)
AROUND = st.text(string.ascii_lowercase + " .:,", max_size=20)


@given(
    SECRET,
    AROUND,
    AROUND,
    st.sampled_from(
        [
            "hf_{}",
            "Authorization: Bearer {}",
            '{{"api_key": "{}"}}',
            "--api-key {}",
            "--api-key={}",
            "HF_TOKEN={}",
            "https://user:{}@host/x",
            "/home/{}/models",
            "/data/{}/models",
        ]
    ),
)
def test_no_form_of_a_secret_gets_through(secret: str, before: str, after: str, form: str) -> None:
    assert secret not in mask(f"{before} {form.format(secret)} {after}")
