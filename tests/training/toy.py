"""A model whose gradient fits in a few lines, and that gradient in NumPy float64."""

import keras
import numpy as np

from keras_attn_zoo.bodies import TokenEmbedding
from keras_attn_zoo.training.train_step import PerTokenTraining
from tests.bodies.reference import log_softmax
from tests.weights import fill_weights

VOCABULARY, WIDTH = 11, 4


class Toy(PerTokenTraining, keras.Model):
    """Logits from the embedding of the current token alone: its gradient fits in a few lines."""

    def __init__(self, unused=False, penalty=0.0, activity=0.0):
        tokens = keras.Input((None,), dtype="int32", name="tokens")
        embedded = TokenEmbedding(VOCABULARY, WIDTH, name="embedding")(tokens)
        embedded = keras.layers.ActivityRegularization(l2=activity)(embedded)
        regularizer = keras.regularizers.L2(penalty) if penalty else None
        logits = keras.layers.Dense(VOCABULARY, kernel_regularizer=regularizer, name="projection")(embedded)
        super().__init__(inputs={"tokens": tokens}, outputs={"logits": logits})
        if unused:
            self.unused = keras.layers.Dense(2, name="unused")
            self.unused.build((None, WIDTH))


def toy(optimizer, unused=False, penalty=0.0, activity=0.0, **training):
    model = Toy(unused, penalty, activity)
    fill_weights(model, seed=1)
    model.compile(optimizer=optimizer)
    model.compile_training(**training)
    return model


def toy_batch(seed=0, rows=6, target=5):
    """Tokens that come up again and again, weights of unequal rows, one of them empty."""
    rng = np.random.default_rng([5, seed])
    tokens = rng.integers(1, 4, (rows, target)).astype("int32")
    labels = rng.integers(1, VOCABULARY, (rows, target)).astype("int32")
    lengths = np.array([target, *rng.integers(1, target, rows - 2), 0])[:, None]
    return {"tokens": tokens}, labels, (np.arange(target) < lengths).astype("float32")


def weights_of(model):
    return [keras.ops.convert_to_numpy(v.value).astype("float64") for v in model.trainable_variables]


def toy_gradients(weights, batch, smoothing=0.0):
    """Loss per token, its gradients, and the plain negative log-likelihood per token."""
    table, kernel, bias = weights
    x, labels, w = batch
    embedded = table[x["tokens"]]
    log_p = log_softmax(embedded @ kernel + bias)
    goal = (1 - smoothing) * np.eye(VOCABULARY)[labels] + smoothing / VOCABULARY
    share = (w / w.sum())[..., None]
    error = (np.exp(log_p) - goal) * share
    into = error @ kernel.T
    d_table = np.zeros_like(table)
    np.add.at(d_table, x["tokens"], into)
    d_kernel = np.einsum("btd,btv->dv", embedded, error)
    loss, nll = -(goal * log_p * share).sum(), -(np.eye(VOCABULARY)[labels] * log_p * share).sum()
    return loss, [d_table, d_kernel, error.sum((0, 1))], nll


def fit_once(model, batch):
    """Take one step on one batch; return the logs."""
    x, y, w = batch
    return model.fit(x, y, sample_weight=w, batch_size=len(y), shuffle=False, verbose=0).history


def global_norm(arrays):
    return float(np.sqrt(sum((a**2).sum() for a in arrays)))
