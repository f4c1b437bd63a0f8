"""What a translator trains, scores and translates to, for the law that several devices give the numbers of one."""

import keras
import numpy as np

from keras_attn_zoo.data.batches import TranslationBatches, as_fit_input, evaluation_batches, fit_arguments
from keras_attn_zoo.data.cache import EncodedCorpus
from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.devices import using
from tests import tiny

# Of which no number of devices is a divisor.
ROWS, PAIRS, SENTENCES = 7, 17, 5
# What is trained beside a Transformer, with the arguments of `numbers`.
OTHERS = {
    "rnn": {"body": tiny.backbone},
    "latent": {"parts": 2, "output": "latent", "max_jump": 2},
    "bfloat16": {"parts": 2, "dtype": "mixed_bfloat16"},
}
# How far numbers may differ; in bfloat16 under JAX, by 2⁻⁸. Under the others, sums in another order, which round
# otherwise, change steps in bfloat16 by 0.002, and attention by 0.03, on one device too.
ROUNDING, OF_JAX = 2e-5, 2**-8
OF_BFLOAT16 = {
    "log": 2**-8,
    "weights": 2**-8,
    "scores": 2**-6,
    "hypotheses": 2**-6,
    "attention": 2**-4,
    "search": 2**-4,
}


class Corpus:
    """Ids of sentences of one to six tokens, as an `EncodedCorpus` has them."""

    spans = EncodedCorpus.spans

    def __init__(self, count):
        rng = np.random.default_rng(3)
        for side in ("source", "target"):
            lengths = rng.integers(1, 7, count)
            setattr(self, f"{side}_lengths", lengths)
            setattr(self, f"{side}_offsets", np.concatenate([[0], np.cumsum(lengths)[:-1]]))
            setattr(self, f"{side}_ids", rng.integers(4, tiny.PIECES, lengths.sum()))
        self.lines = np.arange(count)

    def __len__(self):
        return len(self.lines)


class Links:
    """Links between these, as `SubwordLinks` has them; others for each pair."""

    def matrices(self, rows, target, source):
        return np.stack([np.random.default_rng([5, row + 1]).random((target, source)) < 0.3 for row in rows])


class Steps(keras.callbacks.Callback):
    """The logs of every step and round."""

    def __init__(self):
        super().__init__()
        self.logs = []

    def on_train_batch_end(self, batch, logs=None):
        self.logs.append({name: float(value) for name, value in logs.items()})

    def on_epoch_end(self, epoch, logs=None):
        self.logs.append({name: float(value) for name, value in logs.items()})


def numbers(devices, parts=1, body=tiny.transformer, dropout=0.0, **options):
    """Logs of steps and rounds with validation, the weights then, scores, attention and translations, as lists.

    Further options are those of the body.
    """
    corpus = Corpus(PAIRS)
    # While files are written.
    tiny.preprocessor()
    keras.utils.set_random_seed(1)
    with using(devices):
        task = tiny.translator(body=body, dropout=dropout, encoder_layers=1, decoder_layers=1, **options)
        optimizer = keras.optimizers.SGD(0.3, momentum=0.9, global_clipnorm=0.5)
        training = {"label_smoothing": 0.1, "accumulation_steps": parts, "guided_alignment": 0.5}
        task.compile(optimizer, **training, sampler=BeamSearch(2))
        batches = TranslationBatches(corpus, sentences_per_batch=ROWS, bucket_count=1, links=Links())
        valid = evaluation_batches(corpus, sentences_per_batch=5, bucket_count=1)
        steps = Steps()
        task.fit(**fit_arguments(batches), epochs=1, validation_data=as_fit_input(valid), callbacks=[steps], verbose=0)
        found = {f"log {i}": log for i, log in enumerate(steps.logs)}
        found["weights"] = {v.path: keras.ops.convert_to_numpy(v) for v in task.backbone.trainable_variables}
        tokens = _translations(task, found)
    found = {
        part: {str(name): np.asarray(value).tolist() for name, value in one.items()} for part, one in found.items()
    }
    return [found, tokens]


def _translations(task, found):
    """The tokens of translations; adds their scores and attention, and those of given ones."""
    sources, targets = tiny.sentences("source", SENTENCES), tiny.sentences("target", SENTENCES)
    found["scores"] = {i: one.log_probs for i, one in enumerate(task.score(sources, targets, batch_size=SENTENCES))}
    found["attention"] = {i: one.attention for i, one in enumerate(task.force(sources[:3], targets[:3]))}
    best = task.translate(sources, n_best=2, batch_size=SENTENCES, attention=True)
    found["hypotheses"] = {i: [one.log_prob for one in ones] for i, ones in enumerate(best)}
    found["search"] = {i: ones[0].attention for i, ones in enumerate(best)}
    return [[one.tokens for one in ones] for ones in best]


def check(ours, wanted, name=None):
    """Compare the `numbers` of several devices with those of one; `name` is one of `OTHERS`."""
    assert len(wanted[0]["log 0"]) == 6 and "val_loss" in wanted[0]["log 3"]
    assert ours[0].keys() == wanted[0].keys()
    for part, values in wanted[0].items():
        assert ours[0][part].keys() == values.keys()
        of_bfloat16 = OF_JAX if keras.config.backend() == "jax" else OF_BFLOAT16[part.split()[0]]
        rtol = of_bfloat16 if name == "bfloat16" else ROUNDING
        for key, value in values.items():
            np.testing.assert_allclose(ours[0][part][key], value, rtol=rtol, atol=rtol / 10, err_msg=f"{part} {key}")
    assert ours[1] == wanted[1]
