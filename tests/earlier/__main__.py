"""Write presets and runs of this version, and what they give, for later ones: `python -m tests.earlier FILE`."""

import argparse
import json
import os
import tempfile
import zipfile
from pathlib import Path


def save_presets(folder):
    """One of every mechanism, of both bodies, latent or not, and quantized."""
    from tests import tiny

    made = {
        "rnn": lambda: tiny.translator(seed=5, cell="lstm", decoder_layers=2, readout="tanh", input_feeding=True),
        "rnn_latent": lambda: tiny.translator(seed=5, cross_attention="luong_general", output="latent"),
        "rnn_int8": lambda: quantized(tiny.translator(seed=5, cross_attention="coverage")),
        **{name: lambda name=name: tiny.mixed_transformer(name) for name in tiny.EVERY_MECHANISM},
        "transformer_int8": lambda: quantized(tiny.translator(seed=5, body=tiny.transformer, tie_embeddings="target")),
    }
    for name, make in made.items():
        task = make()
        task.save_to_preset(folder / name)
        found = tiny.hypotheses(task, tiny.sentences("source")[:4])
        (folder / f"{name}.json").write_text(json.dumps(found), encoding="utf-8")


def quantized(task):
    task.quantize("int8")
    return task


def train_runs(folder):
    """A run of each body: one that is done and scored, one that was interrupted; and the text of both."""
    import dataclasses

    from keras_attn_zoo.runs.loading import load_translator
    from keras_attn_zoo.runs.scoring import score_run
    from keras_attn_zoo.runs.training import train_system
    from tests import tiny_run

    corpus = tiny_run.make_corpus()
    train_system(tiny_run.TINY.override(epochs=25, dropout=0.0), corpus, folder / "rnn")
    score_run(folder / "rnn", load_translator(folder / "rnn"), corpus.test)
    sizes = {"width": 8, "num_heads": 2, "ffn_dim": 11, "encoder_layers": 1, "decoder_layers": 1}
    training = dataclasses.replace(tiny_run.TINY.training, teacher_forcing=1.0)
    transformer = dataclasses.replace(
        tiny_run.TINY, name="transformer", body="transformer", backbone=sizes, training=training
    )
    with tiny_run.interrupted_after(5):
        train_system(transformer, corpus, folder / "transformer")


def main():
    """Write the archive."""
    parser = argparse.ArgumentParser(prog="python -m tests.earlier", description=__doc__)
    parser.add_argument("archive", type=Path)
    options = parser.parse_args()
    os.environ["KERAS_BACKEND"] = "torch"
    import tests.conftest  # noqa: F401 the same settings as for the other tests

    with tempfile.TemporaryDirectory() as root:
        for name, write in (("presets", save_presets), ("runs", train_runs)):
            (Path(root) / name).mkdir()
            write(Path(root) / name)
        for path in Path(root).rglob("environment.json"):
            # Of the machine and its folders, nothing.
            known = json.loads(path.read_text(encoding="utf-8"))
            path.write_text(json.dumps({**known, "platform": "Linux", "command": ["attn-zoo", "train"]}))
        with zipfile.ZipFile(options.archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for path in sorted(Path(root).rglob("*")):
                if path.is_file():
                    # Without the time of day, the same content is the same file.
                    name = zipfile.ZipInfo(path.relative_to(root).as_posix())
                    archive.writestr(name, path.read_bytes(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main()
