"""LoRA on a translator's body: it reaches the attentions, or is refused."""

import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.bodies import RNNBackbone, TransformerBackbone
from keras_attn_zoo.layers import ATTENTIONS
from keras_attn_zoo.runs.settings import TrainingSettings
from keras_attn_zoo.runs.trained_parts import choose_trained
from keras_attn_zoo.support.errors import UserError
from tests.tiny import BACKBONE, PIECES, TRANSFORMER, backbone, translator
from tests.tiny import transformer as tiny_transformer
from tests.weights import fill_weights

pytestmark = pytest.mark.one_backend


def inputs():
    ids = np.array([[2, 5, 6, 3], [2, 7, 3, 0]])
    return {"encoder_token_ids": ids, "encoder_padding_mask": ids > 0, "decoder_token_ids": ids}


def outputs_of(backbone):
    return ops.convert_to_numpy(backbone(inputs())["decoder_sequence_output"])


def test_lora_reaches_every_attention():
    backbone = TransformerBackbone(PIECES, PIECES, **TRANSFORMER)
    fill_weights(backbone)
    before = outputs_of(backbone)
    backbone.enable_lora(2)
    lora = [w.path for w in backbone.trainable_weights if "lora" in w.path]
    # Two layers a side: three attentions a layer pair, query and value, a and b.
    assert len(lora) == 2 * 3 * 2 * 2
    np.testing.assert_allclose(outputs_of(backbone), before, atol=2e-6)


def test_lora_without_projections_is_refused():
    backbone = RNNBackbone(PIECES, PIECES, **BACKBONE)
    trainable = len(backbone.trainable_weights)
    with pytest.raises(UserError, match=r"no layer of this RNNBackbone named .*query.* supports LoRA"):
        backbone.enable_lora(2)
    assert len(backbone.trainable_weights) == trainable


@pytest.mark.every_backend
def test_what_was_compiled_before_sees_what_is_added():
    model = translator(body=tiny_transformer)
    pairs = ["aber", "da"], ["so", "so da"]
    before = model.score(*pairs)
    model.backbone.enable_lora(2)
    for weight in model.backbone.trainable_weights:
        if weight.path.endswith("lora_kernel_b"):
            weight.assign(ops.ones(weight.shape))
    after = model.score(*pairs)
    again = translator(body=tiny_transformer)
    again.backbone.enable_lora(2)
    again.backbone.set_weights(model.backbone.get_weights())
    for one, other, fresh in zip(before, after, again.score(*pairs), strict=True):
        # Token by token: the changes of a sentence may cancel out.
        assert np.abs(one.log_probs - other.log_probs).max() > 1e-3
        np.testing.assert_allclose(other.log_prob, fresh.log_prob, rtol=1e-5)


@pytest.mark.parametrize("body", [RNNBackbone, TransformerBackbone])
def test_a_latent_alignment_needs_somewhere_to_attend(body):
    sizes = BACKBONE if body is RNNBackbone else TRANSFORMER
    with pytest.raises(UserError, match="always attends to some source position, which LocalAttention does not"):
        body(PIECES, PIECES, **{**sizes, "cross_attention": "local_m", "output": "latent"})
    body(PIECES, PIECES, **{**sizes, "cross_attention": "local_m"})


# Every mechanism in each of its places; by day those that share maps between layers, or have some of their own.
BY_DAY = ("encoder-recurrent", "decoder-average", "cross-multi_head")
MECHANISMS = {f"{place}-{name}": (place, name) for name, entry in ATTENTIONS.items() for place in entry.places}
BODIES = [
    *(
        pytest.param(
            tiny_transformer, {f"{place}_attention": name}, id=key, marks=() if key in BY_DAY else pytest.mark.slow
        )
        for key, (place, name) in MECHANISMS.items()
    ),
    pytest.param(backbone, {"cross_attention": "luong_general"}, id="rnn"),
    pytest.param(backbone, {"output": "latent"}, id="rnn-latent"),
    pytest.param(tiny_transformer, {"output": "latent", "tie_embeddings": "target"}, id="latent-tied"),
]


@pytest.mark.parametrize(("body", "arguments"), BODIES)
def test_what_is_saved_has_the_product_in_its_kernels(body, arguments, tmp_path):
    """W' = W + A·B, in NumPy and in float64; a body without LoRA computes the same with it."""
    made = body(**arguments)
    before = {weight.path: ops.convert_to_numpy(weight).astype("float64") for weight in made.weights}
    choose_trained(made, TrainingSettings(initial_model="a", lora_rank=2))
    rng, lora = np.random.default_rng(1), {}
    for weight in made.trainable_weights:
        if "lora" in weight.path:
            lora[weight.path] = rng.standard_normal(weight.shape) / 4
            weight.assign(lora[weight.path].astype("float32"))
    made.save_weights(tmp_path / "model.weights.h5")
    plain = type(made).from_config(made.get_config())
    plain.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_allclose(outputs_of(plain), outputs_of(made), atol=2e-5)
    for weight in plain.weights:
        layer = weight.path.removesuffix("kernel")
        product = 0.0
        if f"{layer}lora_kernel_a" in lora:
            product = lora[f"{layer}lora_kernel_a"] @ lora[f"{layer}lora_kernel_b"]
            assert np.abs(product).max() > 0.01
        np.testing.assert_allclose(ops.convert_to_numpy(weight), before[weight.path] + product, atol=1e-5)
    assert lora
