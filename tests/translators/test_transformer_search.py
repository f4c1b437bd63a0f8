"""Search with caches against a literal beam search that computes everything anew for every token."""

import functools

import keras
import numpy as np
import pytest

from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.layers import ATTENTIONS
from tests import tiny
from tests.bodies.reference import log_softmax
from tests.decoding.literal_search import literal_beam_search

START, END = 2, 3
BEAMS = 12
# Of unequal lengths: a batch is padded.
TEXTS = sorted(tiny.sentences("source")[:12], key=len)[::5]

EVERY_STATE = tiny.EVERY_STATE
GREEDY_AND_WIDE = ((1, 0.0), (12, 0.6))
# At night all: by day `test_transformer_backbone.py` has the steps of every mechanism, the laws have rows that change
# places, and `test_beam_search.py` has all widths.
BY_DAY = (*EVERY_STATE[:2], "latent")


@functools.cache
def translator(name):
    """A translator, and a function that calls its whole model on the beginnings of one translation."""
    # With these weights, each of `EVERY_STATE` ends some translations before the limit.
    task = tiny.mixed_transformer(name, seed=8)

    def run(x):
        outputs = task.backbone(x)
        return outputs["attention_scores"], task.backbone.logits(outputs)

    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        run = tf.function(run, autograph=False)
    call = tiny.compiled(task.backbone, run)

    def recompute(source, prefixes):
        rows = [prefixes[min(i, len(prefixes) - 1)] for i in range(BEAMS)]
        # A compiled backend would compile for each length.
        room = len(rows[0]) if keras.config.backend() == "torch" else tiny.LENGTH
        source_ids = np.zeros((BEAMS, tiny.LENGTH), "int32")
        source_ids[:, : len(source)] = source
        x = {
            "encoder_token_ids": source_ids,
            "encoder_padding_mask": np.arange(tiny.LENGTH)[None] < np.full((BEAMS, 1), len(source)),
            "decoder_token_ids": np.array([[*row, *[0] * (room - len(row))] for row in rows], "int32"),
        }
        attention, logits = call(x)
        return attention[: len(prefixes)], logits[: len(prefixes)]

    return task, recompute


def test_every_mechanism_of_a_decoder_is_here():
    for place in ("decoder", "cross"):
        used = [arguments.get(f"{place}_attention", "multi_head") for arguments in tiny.EVERY_MECHANISM.values()]
        of_layers = [layer for one in used for layer in ([one] if isinstance(one, str) else one)]
        names = {layer["attention"] if isinstance(layer, dict) else layer for layer in of_layers}
        assert names == {name for name, mechanism in ATTENTIONS.items() if place in mechanism.places}


@pytest.mark.parametrize(
    ("name", "beams", "alpha"),
    [
        *((name, 4, 0.6) for name in BY_DAY),
        *(pytest.param(name, 4, 0.6, marks=pytest.mark.slow) for name in tiny.EVERY_MECHANISM if name not in BY_DAY),
        *(
            pytest.param(name, beams, alpha, marks=pytest.mark.slow)
            for name in EVERY_STATE
            for beams, alpha in GREEDY_AND_WIDE
        ),
    ],
)
@pytest.mark.long
def test_search_equals_recomputation_token_for_token(name, beams, alpha):
    task, recompute = translator(name)
    task.compile(sampler=BeamSearch(beams, length_penalty=alpha))
    found = task.translate(TEXTS, n_best=beams, attention=True)
    lengths = set()
    for text, hypotheses in zip(TEXTS, found, strict=True):
        source = [*task.preprocessor.source_tokenizer.tokenize([text])[0], END]

        def log_probs_of(prefixes, source=source):
            _, logits = recompute(source, prefixes)
            last = [one[len(tokens) - 1] for one, tokens in zip(logits, prefixes, strict=True)]
            return [log_softmax(x.astype("float64")) for x in last]

        prompt = [START, *[0] * (tiny.LENGTH - 1)]
        expected = literal_beam_search(log_probs_of, prompt, beams, alpha, stop=(END,))
        wanted = {
            tokens[1 : tokens.index(END) + 1] if ended else tokens[1:]: (score, log_prob)
            for score, log_prob, tokens, ended in expected
        }
        ids = [tuple(task.preprocessor.tokenizer.token_to_id(piece) for piece in h.tokens) for h in hypotheses]
        # By tokens, not by place: two that are as likely but for rounding may stand in either order.
        assert set(ids) == set(wanted) and len(ids) == len(expected)
        scores = [(h.score, h.log_prob) for h in hypotheses]
        np.testing.assert_allclose(scores, [wanted[i] for i in ids], rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose([h.score for h in hypotheses], [e[0] for e in expected], rtol=0, atol=1e-4)
        lengths |= {len(i) for i in ids}
        # The attention has followed its hypothesis through the beams.
        attention, _ = recompute(source, [(START, *ids[-1][:-1])])
        of_last = attention[0][:, : len(ids[-1]), : len(source)]
        np.testing.assert_allclose(hypotheses[-1].attention, of_last, rtol=0, atol=2e-5)
    # Some have ended before the limit, some not.
    assert beams == 1 or name not in EVERY_STATE or len(lengths) > 1
