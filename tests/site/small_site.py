"""A small site: two presets of the checkout, and a guide of three pages that Sphinx builds in a second."""

import contextlib
import json
from pathlib import Path

import pytest

from keras_attn_zoo.layers import ATTENTIONS
from keras_attn_zoo.presets import preset_registry
from keras_attn_zoo.site import site_builder
from keras_attn_zoo.translators import live_folder

NAMES = ("transformer_average_tatoeba_de_en", "uniform_tatoeba_de_en")
REAL_DOCS = site_builder.DOCS


@contextlib.contextmanager
def few_presets(folder):
    """Publish two presets alone, while the context lasts."""
    presets = json.loads(preset_registry.REGISTRY.read_text(encoding="utf-8"))["presets"]
    registry = Path(folder) / "presets.json"
    registry.write_text(json.dumps({"presets": {name: presets[name] for name in NAMES}}), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preset_registry, "REGISTRY", registry)
        preset_registry.published.cache_clear()
        yield
    preset_registry.published.cache_clear()


def write_no_libraries(folder):
    """Write empty files in place of the libraries of a demonstration."""
    folder.mkdir()
    for name in (live_folder.ONNXRUNTIME, live_folder.WASM, live_folder.SENTENCEPIECE):
        (folder / name).write_bytes(b"")


@contextlib.contextmanager
def small_parts(docs):
    """Build small documentation, and a demonstration without models and libraries, while the context lasts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site_builder, "DOCS", docs)
        patch.setattr(site_builder, "live_models", dict)
        patch.setattr(live_folder, "write_libraries", write_no_libraries)
        yield


def write_docs(folder):
    """Write documentation with the anchors that the gallery leads to, and the settings of the real one."""
    classes = "\n\n".join(
        f".. py:class:: {one}" for one in sorted({entry.layer.__name__ for entry in ATTENTIONS.values()})
    )
    real = str(REAL_DOCS / "conf.py")
    pages = {
        "conf.py": f"__file__ = {real!r}\nexec(compile(open(__file__).read(), __file__, 'exec'))\n",
        "index.md": "# Guide\n\n```{toctree}\nreference/layers\nreference/presets\napi/layers\n```\n",
        "reference/layers.md": "# Layers\n\n## Cost\n\nNone.\n",
        "reference/presets.md": "# Presets\n\n[Layers](layers.md)\n",
        "api/layers.md": f"# API\n\n```{{eval-rst}}\n.. py:currentmodule:: keras_attn_zoo.layers\n\n{classes}\n```\n",
    }
    for name, text in pages.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Path(folder)
