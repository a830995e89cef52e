"""Writes a random Llama of two narrow layers, which a real vLLM can start: ``python tiny_model.py FOLDER``.

Runs under the engine's interpreter, since it needs torch, safetensors and tokenizers.
"""

import json
import string
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import LlamaConfig, LlamaForCausalLM

WORDS = ["<unk>", "<s>", "</s>", *string.ascii_lowercase]


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=1024,
        dtype="bfloat16",
        architectures=["LlamaForCausalLM"],
    )
    torch.manual_seed(0)
    weights = LlamaForCausalLM(config).to(torch.bfloat16).state_dict()
    save_file(
        {name: tensor.contiguous() for name, tensor in weights.items()}, folder / "model.safetensors", {"format": "pt"}
    )
    config.save_pretrained(folder)
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": "{{ messages[0].content }}", **special}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
