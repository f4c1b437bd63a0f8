"""A tiny corpus and a tiny system, which the fixtures `corpus` and `trained` stand on."""

import contextlib
import dataclasses
import gzip

import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.corpora.corpus import Corpus
from keras_attn_zoo.data.splits import Splits
from keras_attn_zoo.evaluation.alignments import Alignment
from keras_attn_zoo.runs.loading import load_translator
from keras_attn_zoo.runs.settings import DataSettings, SearchSettings, TrainingSettings
from keras_attn_zoo.runs.system import System
from keras_attn_zoo.training.run_log import RunLog, read_log

WORDS = {"rot": "red", "blau": "blue", "haus": "house", "hund": "dog", "katze": "cat", "geht": "goes", "läuft": "runs"}


def make_pairs(count, shift=0):
    """Sentences of 2 to 5 words, the English in reverse order; no two alike among the first few hundred."""
    words, pairs = list(WORDS), []
    for i in range(shift, shift + count):
        chosen = [words[(i * 5 + i // 7 + 3 * k) % len(words)] for k in range(2 + i % 4)]
        pairs.append((" ".join(chosen), " ".join(WORDS[word] for word in reversed(chosen))))
    return pairs


def make_corpus():
    test, gold = make_pairs(6, 400), []
    for source, target in test:
        words = source.split()
        links = {(j, len(words) - 1 - j) for j in range(len(words))}
        gold.append((words, target.split(), Alignment(sure=links)))
    return Corpus(Splits(make_pairs(96), make_pairs(16, 200), test), {"train": ["a", "b"], "reverse": False}, gold)


def make_text(folder):
    """Text in files of a side each, packed too, of both sides, and with gold links."""
    folder.mkdir(parents=True)
    parts = {"train": make_pairs(96), "valid": make_pairs(16, 200), "test": make_pairs(6, 400)}
    for name, pairs in parts.items():
        for side, language in enumerate(("de", "en")):
            text = "".join(f"{pair[side]}\n" for pair in pairs).encode()
            (folder / f"{name}.{language}").write_bytes(text)
            (folder / f"{name}.{language}.gz").write_bytes(gzip.compress(text, mtime=0))
        tsv = "".join(f"{source}\t{target}\n" for source, target in pairs)
        (folder / f"{name}.tsv").write_text(tsv, encoding="utf-8")
    for side, language in enumerate(("de", "en")):
        cased = "".join(f"{pair[side].capitalize()}\n" for pair in parts["train"])
        (folder / f"cased.{language}").write_text(cased, encoding="utf-8")
    test = parts["test"]
    (folder / "test.bitext").write_text("".join(f"{s} ||| {t}\n" for s, t in test), encoding="utf-8")
    for file, pairs in (("test.gold", test), ("train.align", parts["train"])):
        links = [" ".join(f"{j}-{len(s.split()) - 1 - j}" for j in range(len(s.split()))) for s, _ in pairs]
        (folder / file).write_text("".join(f"{line}\n" for line in links))


TINY = System(
    "tiny",
    {"embedding_dim": 24, "hidden_dim": 24, "dropout": 0.2, "readout": "tanh", "cross_attention": "bahdanau"},
    data=DataSettings(vocabulary_size=None, model_type="word", max_tokens=12, sentences_per_batch=16, bucket_count=1),
    training=TrainingSettings(
        epochs=2,
        validations_per_epoch=2,
        learning_rate=1e-2,
        schedule="plateau",
        plateau_patience=0,
        patience=50,
        teacher_forcing=0.9,
    ),
    search=SearchSettings(beams=2, batch_size=8),
    seed=3,
)

TINY_TRANSFORMER = System(
    "transformer",
    {"width": 8, "num_heads": 2, "ffn_dim": 8, "encoder_layers": 1, "decoder_layers": 1},
    data=TINY.data,
    training=dataclasses.replace(TINY.training, teacher_forcing=1.0),
    search=TINY.search,
    body="transformer",
)


def weights_of(model):
    """The weights of a translator, or of one in a folder, by path."""
    model = model if hasattr(model, "backbone") else load_translator(model)
    return {weight.path: ops.convert_to_numpy(weight) for weight in model.backbone.weights}


def mean_loss(scored):
    """The loss over all tokens of sentences that were scored."""
    return sum(-one.log_probs.sum() for one in scored) / sum(len(one.log_probs) for one in scored)


def assert_same_training(run, other):
    """Logs without wall times, and states to the last bit."""
    assert numbers(run.path) == numbers(other.path)
    with np.load(run.state) as ours, np.load(other.state) as theirs:
        assert len(ours.files) == len(theirs.files)
        assert all(np.array_equal(ours[name], theirs[name]) for name in theirs.files)


def numbers(folder):
    """The log without wall times."""
    without = ("seconds", "elapsed_seconds", "shape")
    return [{k: v for k, v in line.items() if k not in without} for line in read_log(folder / "log.jsonl")]


@contextlib.contextmanager
def interrupted_after(steps):
    """Training is interrupted when a step has been logged for the `steps`th time."""
    write, taken = RunLog.on_train_batch_end, []

    def interrupt(self, batch, logs=None):
        write(self, batch, logs)
        taken.append(batch)
        if len(taken) == steps:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(RunLog, "on_train_batch_end", interrupt)
        yield
