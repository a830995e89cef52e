"""A package `vllm` of a few small modules, with the names that the real one has, and a server that starts in no time.

It lets the hook and the launcher be tried as they run in production: in other processes, by PYTHONPATH alone.
"""

from pathlib import Path

MODULES = {
    "vllm/__init__.py": "__version__ = '0.27.1'\n",
    "vllm/logger.py": "import logging\n\n\ndef init_logger(name):\n    return logging.getLogger(name)\n",
    "vllm/platforms/__init__.py": "def resolve_current_platform_cls_qualname():\n    return 'vllm.platforms.toy'\n",
    "vllm/engine/__init__.py": "",
    "vllm/engine/arg_utils.py": """
class Section:
    def __init__(self, **fields):
        self.__dict__.update(fields)


class EngineArgs:
    def create_engine_config(self):
        '''Resolve the arguments.'''
        return Section(
            model_config=Section(model='/models/toy', max_model_len=512, enforce_eager=False, dtype='bfloat16'),
            scheduler_config=Section(max_num_seqs=8, max_num_batched_tokens=2048),
            parallel_config=Section(tensor_parallel_size=1, pipeline_parallel_size=1),
            compilation_config=Section(cudagraph_capture_sizes=[1, 2, 4]),
            load_config=Section(load_format='auto'),
        )
""",
    "vllm/tokenizers/__init__.py": "",
    "vllm/tokenizers/registry.py": """
from functools import lru_cache


def get_tokenizer(name):
    '''Load a tokenizer.'''
    if not name:
        raise ValueError('no tokenizer in hf_abcdefghijklmnopqrstuvwxyz012345')
    return name.upper()


cached_get_tokenizer = lru_cache(maxsize=7)(get_tokenizer)
""",
    "vllm/compilation/__init__.py": "",
    "vllm/compilation/monitor.py": """
import contextlib


@contextlib.contextmanager
def monitor_torch_compile(config, message='torch.compile took %.2f s in total'):
    yield config
""",
    "vllm/v1/__init__.py": "",
    "vllm/v1/engine/__init__.py": "",
    "vllm/v1/engine/core.py": """
from vllm.v1.worker.gpu_worker import CPUishWorker


class EngineCore:
    def __init__(self):
        self.worker = CPUishWorker()
        self._initialize_kv_caches()

    def _initialize_kv_caches(self):
        self.worker.load_model()
        self.worker.determine_available_memory()
        self.worker.compile_or_warm_up_model()


class EngineCoreProc(EngineCore):
    def __init__(self):
        super().__init__()
""",
    "vllm/v1/engine/async_llm.py": """
from vllm.v1.engine.core import EngineCoreProc


class AsyncLLM:
    def __init__(self):
        self.engine = EngineCoreProc()
""",
    "vllm/v1/worker/__init__.py": "",
    "vllm/v1/worker/gpu_worker.py": """
import os
import pathlib


class Worker:
    def load_model(self):
        return 'loaded'

    def determine_available_memory(self):
        return 2**30

    def initialize_from_config(self, config):
        return None

    def compile_or_warm_up_model(self):
        if 'TOY_KERNEL' in os.environ:
            path = pathlib.Path(os.environ['TRITON_CACHE_DIR'], os.environ['TOY_KERNEL'])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b'machine code')


class CPUishWorker(Worker):
    pass
""",
}

SERVER = """
import http.server
import os
import signal
import sys

from vllm.engine.arg_utils import EngineArgs
from vllm.logger import init_logger
from vllm.platforms import resolve_current_platform_cls_qualname
from vllm.tokenizers.registry import cached_get_tokenizer
from vllm.v1.engine.async_llm import AsyncLLM


class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header('content-length', '0')
        self.end_headers()

    def log_message(self, format, *args):
        pass


def main():
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(7))
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(8))
    resolve_current_platform_cls_qualname()
    EngineArgs().create_engine_config()
    cached_get_tokenizer(os.environ.get('TOY_TOKENIZER', 'toy'))
    AsyncLLM()
    print('said by the engine', flush=True)
    port = int(sys.argv[sys.argv.index('--port') + 1])
    http.server.ThreadingHTTPServer(('127.0.0.1', port), Health).serve_forever()


main()
"""


def write_toy_engine(folder: Path) -> Path:
    """Write the package and its server below ``folder``; return the server, a script that takes ``--port``."""
    for name, text in MODULES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    server = folder / "vllm_server.py"
    server.write_text(SERVER)
    return server
