"""What the private names of other packages are expected to do: a new release that changes one fails here, by name."""

import importlib
import pathlib
import pkgutil
import re
import subprocess
import sys

import keras
import keras_hub
import numpy as np
import pytest

import keras_attn_zoo
from keras_attn_zoo.layers.base.dense import Dense
from keras_attn_zoo.support import compat
from tests import tiny

FOREIGN = ("keras", "keras_hub", "jax", "tensorflow", "torch")
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


class Kept(compat.WholeVariables, compat.BuiltForReplicas, keras.Sequential):
    called = ()

    def build_for_replicas(self):
        self.called = (*self.called, "tensorflow")
        return False

    def _make_function(self, *args, **kwargs):
        self.called = (*self.called, "jax")
        return super()._make_function(*args, **kwargs)


class Ends(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        raise KeyboardInterrupt


def test_the_hooks_of_training_are_called():
    model = Kept([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    (kernel, _), before = model.weights, keras.ops.convert_to_numpy(model.weights[0])
    with pytest.raises(KeyboardInterrupt), compat.kept_whole(model):
        model.fit(np.ones((1, 2)), np.ones((1, 1)), callbacks=[Ends()], verbose=0)
    assert abs(keras.ops.convert_to_numpy(kernel) - before).max() > 0
    assert keras.config.backend() in (*model.called, "torch")


@pytest.mark.long
@pytest.mark.skipif(keras.config.backend() != "torch", reason="of PyTorch")
def test_keras_finds_the_stand_in_for_the_compiler():
    program = (
        "import sys\nfrom keras_attn_zoo.support import compat\n"
        "with compat.without_dynamo():\n    import keras\n"
        "assert 'torch._dynamo' not in sys.modules\n"
        "print(float(keras.random.uniform((), seed=keras.random.SeedGenerator(1))) < 1, 'torch._dynamo' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said == "True True\n"


PRIVATE = re.compile(
    r"keras\.src|keras_hub\.src|jax\._src|tensorflow\.python|torch\._C|(?<!self)(?<!cls)\._(flatten_layers|tracker)\b"
)


@pytest.mark.one_backend
def test_insides_of_other_packages_are_imported_in_one_file():
    found = {path.name for path in PACKAGE.rglob("*.py") if PRIVATE.search(path.read_text(encoding="utf-8"))}
    assert found == {"compat.py"}


@pytest.mark.one_backend
def test_only_compat_overrides_private_methods_of_other_packages():
    found = []
    for module in pkgutil.walk_packages(keras_attn_zoo.__path__, "keras_attn_zoo."):
        # What divides a batch among replicas is of TensorFlow.
        if module.name.endswith(("__main__", ".replicas")):
            continue
        for one in vars(importlib.import_module(module.name)).values():
            if not isinstance(one, type) or one.__module__ != module.name:
                continue
            foreign = [base for base in one.__mro__ if base.__module__.partition(".")[0] in FOREIGN]
            private = {name for name in vars(one) if re.match("_[^_]", name)}
            found += [(one.__name__, name) for base in foreign for name in private & vars(base).keys()]
    assert not found
