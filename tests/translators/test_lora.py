"""LoRA on a translator's body: it reaches the attentions, or is refused."""

import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.bodies import RNNBackbone, TransformerBackbone
from keras_attn_zoo.support.errors import UserError
from tests.tiny import BACKBONE, PIECES, TRANSFORMER, translator
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
        assert abs(one.log_prob - other.log_prob) > 1e-3
        np.testing.assert_allclose(other.log_prob, fresh.log_prob, rtol=1e-5)


@pytest.mark.parametrize("body", [RNNBackbone, TransformerBackbone])
def test_a_latent_alignment_needs_somewhere_to_attend(body):
    sizes = BACKBONE if body is RNNBackbone else TRANSFORMER
    with pytest.raises(UserError, match="always attends to some source position, which LocalAttention does not"):
        body(PIECES, PIECES, **{**sizes, "cross_attention": "local_m", "output": "latent"})
    body(PIECES, PIECES, **{**sizes, "cross_attention": "local_m"})
