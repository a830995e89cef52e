"""Taking secrets, people and places out of text before it leaves the node. Pure."""

import re

__all__ = ["MASK", "is_secret", "mask"]

MASK = "***"

_WORD = r"(?:api[_-]?key|access[_-]?key(?:[_-]?id)?|secret(?:[_-]?\w+)?|token|passw(?:or)?d|pwd|credentials?|signature)"
_VALUE = r"[^\s'\",;&)\]}]+"
_SECRET_NAME = re.compile(rf"(?i)(?:^|(?<!per)[_-]){_WORD}$")
_RULES = [
    # Tokens by their well-known beginnings: Hugging Face, OpenAI and alike, GitHub, GitLab, NVIDIA, Slack, AWS, Google,
    # JSON web tokens.
    (re.compile(r"hf_[A-Za-z0-9]{4,}"), MASK),
    (re.compile(r"\bsk-[A-Za-z0-9_-]{4,}"), MASK),
    (re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|nvapi-|xox[abprs]-)[A-Za-z0-9_-]{4,}"), MASK),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}|\bAIza[A-Za-z0-9_-]{20,}"), MASK),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]+)*"), MASK),
    # What follows the word that announces it: headers, then fields, parameters and variables, then options.
    (re.compile(rf"(?i)(authorization['\"]?\s*[=:]\s*['\"]?(?:[a-z]+\s+)?){_VALUE}"), rf"\1{MASK}"),
    (re.compile(rf"(?i)\b(bearer\s+){_VALUE}"), rf"\1{MASK}"),
    (re.compile(rf"(?i)({_WORD}['\"]?\s*[=:]\s*['\"\[(]*){_VALUE}"), rf"\1{MASK}"),
    (re.compile(rf"(?i)(--[\w-]*{_WORD}\s+['\"]?){_VALUE}"), rf"\1{MASK}"),
    # User and password in a URL; up to the last @, since a password may hold one of its own.
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s'\"]*@"), rf"\1{MASK}@"),
    # Home folders name a person; of any other path, the folders may.
    (re.compile(r"(?i)\bfile://(?=/)"), "file:"),
    (re.compile(r"/(?:home|Users)/[^/\s'\",:;)\]}]+|/root(?=[/\s'\",:;)\]}]|$)"), "~"),
    (re.compile(r"(?<![\w./~…-])/(?!/)(?:[^/\s'\",:;)\]}]+/)+"), "…/"),
]


def mask(text: str) -> str:
    """Return ``text`` with tokens, keys and passwords masked and paths cut down to their last component."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def is_secret(name: str) -> bool:
    """Whether a field of this name holds a secret: ``hf_token`` does, ``max_num_batched_tokens`` does not."""
    return _SECRET_NAME.search(name) is not None
