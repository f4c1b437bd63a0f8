"""KerasHub's Transformer layers as a contender; the backend is that of KERAS_BACKEND."""

import sys

from protocol import optional, random_batch, refuse_cpu, serve

keras_hub = optional("keras_hub")
import keras  # noqa: E402

PRECISION, DEVICE, _ = sys.argv[1:]
refuse_cpu(DEVICE, str(keras.ops.zeros(1).device))
keras.config.set_dtype_policy("mixed_bfloat16" if PRECISION == "bfloat16" else "float32")


class _Hidden(keras.layers.Dropout):
    """ReLU and dropout of a hidden layer; the layers themselves have no dropout there, as those of others do."""

    def call(self, inputs, training=None):
        return super().call(keras.ops.relu(inputs), training=training)


def _prepare(task):
    if "beams" in task or task["system"] != "transformer":
        raise NotImplementedError("KerasHub's layers are for training Transformers")
    settings, vocabulary = task["settings"], task["vocabulary"]
    embedding = keras_hub.layers.ReversibleEmbedding(vocabulary, settings["width"], tie_weights=True)
    positions = keras_hub.layers.SinePositionEncoding()
    # Of weights of attention and of outputs.
    layer = {"num_heads": settings["num_heads"], "dropout": settings["dropout"]}
    layer |= {"intermediate_dim": settings["ffn_dim"], "activation": _Hidden(settings["activation_dropout"])}
    source, target = (keras.Input((None,), dtype="int32") for _ in range(2))

    def embed(ids):
        embedded = embedding(ids) * settings["width"] ** 0.5
        return keras.layers.Dropout(settings["dropout"])(embedded + positions(embedded))

    encoded, states = embed(source), embed(target)
    for _ in range(settings["encoder_layers"]):
        encoded = keras_hub.layers.TransformerEncoder(**layer)(encoded)
    for _ in range(settings["decoder_layers"]):
        states = keras_hub.layers.TransformerDecoder(**layer)(states, encoded)
    logits = keras.layers.Activation("linear", dtype="float32")(embedding(states, reverse=True))
    model = keras.Model([source, target], logits)
    # XLA makes TensorFlow slower on a CPU.
    compiled = keras.config.backend() == "jax"
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3), loss, jit_compile=compiled)
    *inputs, labels = (x.astype("int32") for x in random_batch(task))
    return lambda: float(model.train_on_batch(inputs, labels)), model.count_params()


if __name__ == "__main__":
    backend = keras.config.backend()
    serve(_prepare, f"keras-hub {keras_hub.__version__} on {backend}")
