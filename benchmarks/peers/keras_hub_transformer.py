"""KerasHub's Transformer layers as a contender; the backend is that of KERAS_BACKEND, the precision the argument."""

import sys

from protocol import optional, random_batch, serve

keras_hub = optional("keras_hub")
import keras  # noqa: E402

keras.config.set_dtype_policy("mixed_bfloat16" if sys.argv[1] == "bfloat16" else "float32")


def _prepare(task):
    if "beams" in task or task["system"] != "transformer":
        raise NotImplementedError("KerasHub's layers are for training Transformers")
    settings, vocabulary = task["settings"], task["vocabulary"]
    embedding = keras_hub.layers.ReversibleEmbedding(vocabulary, settings["width"], tie_weights=True)
    positions = keras_hub.layers.SinePositionEncoding()
    layer = {"intermediate_dim": settings["ffn_dim"], "num_heads": settings["num_heads"], "dropout": 0.1}
    source, target = (keras.Input((None,), dtype="int32") for _ in range(2))

    def embed(ids):
        embedded = embedding(ids) * settings["width"] ** 0.5
        return keras.layers.Dropout(0.1)(embedded + positions(embedded))

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
