"""What the private names of other packages are expected to do: a new release that changes one fails here, by name."""

import pathlib
import re

import keras
import keras_hub
import numpy as np
import pytest

from keras_attn_zoo.layers.base.dense import Dense
from keras_attn_zoo.support import compat
from tests import tiny

PACKAGE = pathlib.Path(compat.__file__).parents[1]
pytestmark = pytest.mark.every_backend


class Outer(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.inner = keras.layers.Dense(2)
        self.several = [keras.layers.Dense(1), keras.Sequential([keras.layers.Dropout(0.5)])]

    def call(self, x):
        return self.several[1](self.several[0](self.inner(x)))


def test_flatten_layers_finds_layers_at_every_depth():
    outer = Outer()
    kinds = sorted(type(one).__name__ for one in compat.layers_of(outer, include_self=False))
    assert kinds == ["Dense", "Dense", "Dropout", "Sequential"]
    assert next(iter(compat.layers_of(outer))) is outer


def test_a_built_layer_gets_one_more():
    layer = Outer()
    layer(keras.ops.ones((1, 2)))
    before = len(layer.weights)
    late = keras.layers.Dense(1)
    late.build((None, 2))
    with pytest.raises(ValueError, match="add new elements of state"):
        layer.late = late
    compat.attach_layer(layer, "late", late)
    assert len(layer.weights) == before + len(late.weights)
    with pytest.raises(ValueError, match="add new elements of state"):
        layer.later = keras.layers.Dense(1)


def test_a_policy_is_replaced_without_writing_into_a_shared_map():
    policies = keras.dtype_policies.DTypePolicyMap(default_policy="float32")
    layer = keras.layers.Dense(2, dtype=policies)
    layer.build((None, 3))
    compat.replace_policy(layer, keras.DTypePolicy("bfloat16"))
    assert layer.compute_dtype == "bfloat16" and not list(policies)


def test_a_quantized_model_forgets_its_old_kernels():
    model = keras.Sequential([keras.Input((4,)), Dense(3)])
    model.predict(np.ones((1, 4)), verbose=0)
    model.layers[0].quantize("int8")
    compat.finish_quantization(model, "int8")
    assert model.predict_function is None
    if keras.config.backend() == "torch":
        assert {str(one.dtype) for one in model.parameters()} == {"torch.int8", "torch.float32"}
    assert model.predict(np.ones((1, 4)), verbose=0).shape == (1, 3)


def test_a_stateless_scope_is_noticed():
    assert compat.stateless_scope() is None
    with keras.StatelessScope() as outer, keras.StatelessScope() as inner:
        assert compat.stateless_scope() is inner and inner.original_scope is outer


class Cast(keras.layers.Layer):
    def build(self, shape):
        self.w = self.add_weight(name="w", shape=(1,))

    def call(self, x):
        self.seen = compat.stateless_scope().get_current_value(self.w).dtype, self.w.value.dtype
        return x


def test_a_stateless_scope_knows_values_that_are_not_cast():
    layer = Cast(dtype="mixed_bfloat16")
    layer.build((1,))
    with keras.StatelessScope([(layer.w, layer.w.value)]):
        layer(np.ones((1,)))
    assert [keras.backend.standardize_dtype(one) for one in layer.seen] == ["float32", "bfloat16"]


def test_special_tokens_are_looked_up_in_the_vocabulary():
    tokenizer = tiny.translator().preprocessor.source_tokenizer
    assert {"start_token_id", "end_token_id", "pad_token_id"} <= set(dir(tokenizer))
    assert [tokenizer.pad_token_id, tokenizer.start_token_id, tokenizer.end_token_id] == [0, 2, 3]
    compat.add_special_token(tokenizer, "<unk>", "mask_token")
    assert tokenizer.mask_token_id == 1


def test_no_tensorflow_operation_is_made_of_a_model():
    base = keras_hub.tokenizers.SentencePieceTokenizer
    assert "_set_proto_tf" in vars(base)
    assert getattr(tiny.translator().preprocessor.source_tokenizer, "_sentence_piece", None) is None


def test_a_file_of_a_preset_is_found(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert pathlib.Path(compat.get_preset_file(str(tmp_path), "config.json")) == tmp_path / "config.json"
    with pytest.raises(FileNotFoundError):
        compat.get_preset_file(str(tmp_path), "task.json")


@pytest.mark.skipif(keras.config.backend() != "torch", reason="of PyTorch")
def test_code_that_torch_func_transforms_is_noticed():
    import torch

    seen = []
    torch.func.grad(lambda x: (seen.append(compat.is_transformed_by_torch()), x)[1])(torch.ones(()))
    assert seen == [True] and not compat.is_transformed_by_torch()


PRIVATE = re.compile(
    r"keras\.src|keras_hub\.src|jax\._src|tensorflow\.python|torch\._C|(?<!self)(?<!cls)\._(flatten_layers|tracker)\b"
)


@pytest.mark.one_backend
def test_insides_of_other_packages_are_imported_in_one_file():
    found = {path.name for path in PACKAGE.rglob("*.py") if PRIVATE.search(path.read_text(encoding="utf-8"))}
    assert found == {"compat.py"}
