"""The public names, pinned: a change here is a change for users; new mechanisms join by themselves."""

import ast
import importlib
from pathlib import Path

import pytest

import keras_attn_zoo

ROOT = Path(keras_attn_zoo.__file__).parent

PUBLIC = {
    "keras_attn_zoo.layers": [
        "ATTENTIONS",
        "AccumulatedWeightAttention",
        "AttentionLayer",
        "AverageAttention",
        "BahdanauAttention",
        "CoverageAttention",
        "EnergyAccumulationAttention",
        "ExpandedKeyValueAttention",
        "GaussianAttention",
        "InitialAttention",
        "FirstOrderAlignment",
        "LatentAlignmentHead",
        "LocalAttention",
        "LuongAttention",
        "MultiHeadAttention",
        "PreviousContextAttention",
        "PreviousWeightAttention",
        "RandomSynthesizerAttention",
        "RecurrentAttention",
        "RecurrentTransition",
        "UniformAttention",
        "WeightSubtractionAttention",
        "attention",
        "get_attention",
    ],
    "keras_attn_zoo.bodies": [
        "RNNBackbone",
        "RNNDecoder",
        "Readout",
        "TokenEmbedding",
        "TransformerBackbone",
        "TransformerDecoderLayer",
        "TransformerEncoderLayer",
        "TransformerLayer",
        "TranslationBackbone",
    ],
    "keras_attn_zoo.translators": [
        "Constraints",
        "ForcedDecoding",
        "Hypothesis",
        "MarianTokenizer",
        "ScoredTranslation",
        "TransformerPreprocessor",
        "TransformerTokenizer",
        "TransformerTranslator",
        "TranslationPreprocessor",
        "TranslationTokenizer",
        "Translator",
    ],
    "keras_attn_zoo.decoding": [
        "BeamSearch",
        "DiverseBeamSearch",
        "ForbiddenWords",
        "GridBeamSearch",
        "PooledBeamSearch",
        "Sampling",
        "coverage_penalty",
        "length_penalty",
    ],
}
ATTENTION_NAMES = {
    "accumulated_weight",
    "average",
    "average_without_ffn",
    "average_without_gate",
    "bahdanau",
    "bahdanau_feedback",
    "coverage",
    "energy_accumulation",
    "expanded_key_value_1",
    "expanded_key_value_2",
    "expanded_key_value_3",
    "expanded_key_value_4",
    "gaussian",
    "local_m",
    "local_p",
    "luong_concat",
    "luong_dot",
    "luong_general",
    "multi_head",
    "previous_context",
    "previous_weight",
    "random_synthesizer",
    "recurrent",
    "uniform",
    "weight_subtraction",
}
SYSTEM_NAMES = {
    "accumulated-weight",
    "bahdanau",
    "bahdanau-feedback",
    "coverage",
    "energy-accumulation",
    "expanded-key-value-1",
    "expanded-key-value-2",
    "expanded-key-value-3",
    "expanded-key-value-4",
    "gaussian",
    "local-m",
    "local-p",
    "luong-concat",
    "luong-dot",
    "luong-general",
    "previous-context",
    "previous-weight",
    "ran-all",
    "ran-d",
    "ran-e",
    "rnn-attention",
    "rnn-latent",
    "rnn-latent-hard",
    "rnn-latent-hmm",
    "rnn-latent-max",
    "rnn-latent-top-6",
    "rnn-posterior",
    "synthesizer",
    "transformer",
    "transformer-average",
    "transformer-2026",
    "transformer-latent",
    "transformer-latent-hard",
    "transformer-latent-hmm",
    "transformer-latent-max",
    "transformer-latent-one-head",
    "transformer-latent-top-6",
    "uniform",
    "weight-subtraction",
}


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names(module):
    found = importlib.import_module(module)
    if module == "keras_attn_zoo.layers":
        of_mechanisms = {entry.layer.__name__ for entry in found.ATTENTIONS.values()}
        assert sorted(set(found.__all__) - of_mechanisms) == sorted(set(PUBLIC[module]) - of_mechanisms)
        assert set(found.__all__) >= {*PUBLIC[module], *of_mechanisms}
    else:
        assert sorted(found.__all__) == PUBLIC[module]
    for name in found.__all__:
        assert getattr(found, name).__doc__, f"{name} has no docstring"


@pytest.mark.parametrize("module", PUBLIC)
def test_what_can_stand_in_a_saved_model_is_registered(module):
    import keras

    found = importlib.import_module(module)
    bases = {"AttentionLayer", "TransformerLayer", "TranslationBackbone"}
    for name in set(found.__all__) - bases:
        if hasattr(getattr(found, name), "get_config"):
            assert keras.saving.get_registered_name(getattr(found, name)) == f"keras_attn_zoo>{name}"


def public_functions(parent, of_class=False):
    """Functions and methods of public names in a module or a class, each with whether it has a self."""
    for node in parent.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node, of_class=True)
        elif isinstance(node, ast.FunctionDef) and (node.name[0] != "_" or node.name.endswith("__")):
            static = any(isinstance(x, ast.Name) and x.id == "staticmethod" for x in node.decorator_list)
            yield node, of_class and not static


def not_annotated(function, has_self):
    """What a signature says no type of: arguments, and "return"."""
    given = function.args
    arguments = [*given.posonlyargs, *given.args][has_self:] + given.kwonlyargs
    arguments += [x for x in (given.vararg, given.kwarg) if x is not None]
    return [x.arg for x in arguments if x.annotation is None] + ["return"] * (function.returns is None)


def test_what_is_not_annotated_is_found():
    source = (
        "class A:\n def f(self, x, *y, z: int = 1, **w): ...\n @staticmethod\n def g(x) -> None: ...\n"
        " def _h(x): ...\n def __exit__(self, *_): ..."
    )
    found = [not_annotated(*one) for one in public_functions(ast.parse(source))]
    assert found == [["x", "y", "w", "return"], ["x"], ["_", "return"]]


@pytest.mark.one_backend
def test_public_signatures_are_annotated():
    missing = {
        (str(path), function.name): names
        for path in ROOT.rglob("*.py")
        for function, has_self in public_functions(ast.parse(path.read_text(encoding="utf-8")))
        if (names := not_annotated(function, has_self))
    }
    assert not missing


def test_registered_names():
    from keras_attn_zoo.layers import ATTENTIONS
    from keras_attn_zoo.runs.named_systems import SYSTEMS

    assert set(ATTENTIONS) >= ATTENTION_NAMES
    assert set(SYSTEMS) == SYSTEM_NAMES


def test_the_package_gives_its_parts_when_they_are_asked_for():
    import keras_attn_zoo as kaz

    for name in kaz.__all__:
        assert name in dir(kaz)
        assert getattr(kaz, name) is not None
    assert kaz.Translator is importlib.import_module("keras_attn_zoo.translators").Translator
    assert kaz.layers.BahdanauAttention is importlib.import_module("keras_attn_zoo.layers").BahdanauAttention
    with pytest.raises(AttributeError, match="module 'keras_attn_zoo' has no attribute 'Translater'"):
        _ = kaz.Translater


@pytest.mark.parametrize("name", ["keras_attn_zoo", "keras_attn_zoo.data"])
def test_type_checkers_see_what_is_imported_on_first_use(name):
    """They do not run `__getattr__`, so these names are imported for them."""
    module = importlib.import_module(name)
    [block] = [
        node for node in ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body if isinstance(node, ast.If)
    ]
    seen = {alias.name for node in block.body for alias in node.names}
    constants = {one for one in module.__all__ if one.isupper() or one == "__version__"}
    assert seen == set(module.__all__) - constants
