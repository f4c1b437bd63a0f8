"""Laws of masks that every attention layer keeps: in whatever form they are given, and as Keras carries them."""

import keras
import numpy as np
import pytest
from keras import ops

from tests.layers.calls import assert_close, compiled
from tests.layers.cases import BATCH, OF_BASES, weights_of


@pytest.mark.parametrize("case", OF_BASES, ids=str)
@pytest.mark.filterwarnings("error::UserWarning")
def test_masks(case):
    """Every call of both functions below, compiled in one piece."""
    layer, inputs = case.layer(), case.inputs()
    (in_forms, check_forms), (carried, check_carried) = forms_of_masks(case, layer), masks_of_keras(case, layer)
    forms, of_keras = compiled(lambda inputs: (in_forms(inputs), carried(inputs)))(inputs)
    check_forms(forms)
    check_carried(of_keras)


def forms_of_masks(case, layer):
    """Masks in parts, in one piece, with an axis of heads, and causal; scores are taken before dropout."""
    masks = case.masks
    # What stands for padding is said by the value's mask alone: the window of some mechanisms leaves padding out.
    value_mask = {"value_mask": masks["value_mask"]}
    whole = masks["attention_mask"] & masks["query_mask"][:, :, None] & masks["value_mask"][:, None]
    of_all = masks["attention_mask"][1]
    of_source = "key_mask" if case.cross else "value_mask"
    by_position = [ops.convert_to_tensor(x) for x in (masks["query_mask"], masks["value_mask"][:1], of_all[None])]
    by_position.insert(2, None)

    def everything(inputs):
        return {
            "parts": layer(**inputs, **masks),
            "scores": layer(**inputs, **value_mask, attention_mask=whole, return_attention_scores=True, training=True)[
                1
            ],
            "heads": layer(**inputs, **value_mask, attention_mask=whole[:, None]),
            "causal": layer(**inputs, attention_mask=masks["attention_mask"], use_causal_mask=True),
            # One column for all source positions.
            "queries": layer(**inputs, query_mask=masks["query_mask"], **case.causal),
            "column": layer(**inputs, attention_mask=masks["query_mask"][:, :, None], **case.causal),
            # As users of Keras' layer write it: by position, as lists, for all sentences alike.
            "by_position": layer(inputs["query"], inputs.get("value"), None, *by_position),
            "lists": layer(**inputs, attention_mask=of_all.tolist(), **{of_source: masks["value_mask"].tolist()}),
        }

    def check(found):
        weights, inputs = weights_of(layer), case.inputs()
        context, scores = case.expected(weights, inputs, **value_mask, attention_mask=whole)
        assert_close(found["parts"], context, "float32", "masks in parts")
        assert_close(found["scores"], scores, "float32", "scores in training")
        assert_close(found["heads"], context, "float32", "a mask with an axis of heads")
        context, _ = case.expected(weights, inputs, attention_mask=masks["attention_mask"], use_causal_mask=True)
        assert_close(found["causal"], context, "float32", "causal")
        context, _ = case.expected(weights, inputs, query_mask=masks["query_mask"], **case.causal)
        assert_close(found["queries"], context, "float32", "a mask of the query alone")
        context, _ = case.expected(weights, inputs, attention_mask=masks["query_mask"][:, :, None], **case.causal)
        assert_close(found["column"], context, "float32", "a column")
        row = {"value_mask": np.repeat(masks["value_mask"][:1], BATCH, axis=0)}
        context, _ = case.expected(weights, inputs, masks["query_mask"], **row, attention_mask=of_all)
        assert_close(found["by_position"], context, "float32", "by position")
        context, _ = case.expected(weights, inputs, value_mask=masks["value_mask"], attention_mask=of_all)
        assert_close(found["lists"], context, "float32", "lists")

    return everything, check


def masks_of_keras(case, layer):
    """Law 10: what `Embedding(mask_zero=True)` knows of padding arrives, however the tensor is given, and goes on."""
    real = {"query": np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], dtype=bool)[:, : case.target]}
    real["value"] = np.array([[1, 1, 0, 0, 0], [1, 1, 1, 1, 0]], dtype=bool)

    def carried(inputs):
        """The inputs as Keras passes them on, without padding and with its mask."""
        masking = keras.layers.Masking()
        return {
            part: masking(ops.where(ops.convert_to_tensor(real[part])[..., None], x, 0.0)) for part, x in inputs.items()
        }

    def everything(inputs):
        x = carried(inputs)
        if case.cross:
            calls = {"by_name": layer(**x, return_attention_scores=True)}
        else:
            query = x["query"]
            alone = layer(query, **case.causal, return_attention_scores=True)
            calls = {
                "alone": alone,
                "twice": layer(query, query, **case.causal, return_attention_scores=True),
                "value": layer(query, value=query, **case.causal, return_attention_scores=True),
            }
        explicit = layer(**x, query_mask=np.ones((BATCH, case.target), dtype=bool), **case.causal)
        [(context, _), *_] = calls.values()
        return calls, keras.layers.GlobalAveragePooling1D()(context), explicit

    def check(found):
        calls, pooled, explicit = found
        weights = weights_of(layer)
        inputs = {part: np.where(real[part][..., None], x, 0) for part, x in case.inputs().items()}
        value_mask = {"value_mask": real["value"]} if case.cross else {}
        wanted = case.expected(weights, inputs, real["query"], **value_mask, **case.causal)
        for form, outputs in calls.items():
            assert_close(outputs[0], wanted[0], "float32", f"context, {form}")
            assert_close(outputs[1], wanted[1], "float32", f"scores, {form}")
        of_real = wanted[0].sum(axis=1) / real["query"].sum(axis=1, keepdims=True)
        assert_close(pooled, of_real, "float32", "the mask of the query goes on")
        context, _ = case.expected(weights, inputs, **value_mask, **case.causal)
        assert_close(explicit, context, "float32", "a mask that is given wins")

    return everything, check
