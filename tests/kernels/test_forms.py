"""The table of forms: which runs where, that each stands in for its operation, and the environment variable."""

import importlib
import inspect
import pkgutil

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo import kernels
from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.kernels import forms, linear, portable
from keras_attn_zoo.support.errors import UserError
from tests import tiny
from tests.layers.calls import BACKEND, compiled
from tests.layers.cases import CASES, weights_of

# Modules whose operations the table names.
MODULES = [
    importlib.import_module(f"keras_attn_zoo.kernels.portable.{module.name}")
    for module in pkgutil.iter_modules(portable.__path__)
]
OPERATIONS = {name: getattr(module, name) for module in MODULES for name in forms.FORMS if hasattr(module, name)}


@pytest.fixture(name="portable")
def _portable(monkeypatch):
    monkeypatch.setenv(forms.KERNELS, "portable")


def test_every_form_is_called_as_its_operation():
    assert OPERATIONS.keys() == forms.FORMS.keys()
    for name, entries in forms.FORMS.items():
        wanted = [*inspect.signature(forms.plain(OPERATIONS[name])).parameters]
        for form in entries:
            module, function = form.place.split(":")
            found = getattr(importlib.import_module(f"keras_attn_zoo.kernels.{module}"), function)
            assert len([*inspect.signature(found).parameters]) == len(wanted), form


def test_the_first_form_that_suits_runs(monkeypatch):
    used = []
    monkeypatch.setattr(forms, "_imported", lambda place: lambda *args, **kwargs: used.append(place))
    for suits, wanted in (((True, True), "a:x"), ((False, True), "b:x"), ((False, False), None)):
        entries = tuple(
            forms.Form(lambda one=one: one, place) for one, place in zip(suits, ("a:x", "b:x"), strict=True)
        )
        monkeypatch.setitem(forms.FORMS, "linear", entries)
        used.clear()
        linear(ops.ones((1, 2)), ops.ones((2, 3)))
        assert used == ([] if wanted is None else [wanted])


def test_portable_leaves_what_a_backend_needs(portable):
    def place(name):
        found = forms.form_of(name, forms.plain(OPERATIONS[name]))
        return found.__module__.removeprefix("keras_attn_zoo.kernels.")

    found = {name for name in forms.FORMS if not place(name).startswith("portable.")}
    needed = {"tensorflow": {"scan", "write", "at_most", "is_replica", "rows"}, "jax": {"first"}, "torch": {"dropout"}}
    assert found == needed[BACKEND]


@pytest.mark.one_backend
@pytest.mark.parametrize("given", ["", "fastest", "portable", None])
def test_the_choices(given, monkeypatch):
    monkeypatch.delenv(forms.KERNELS, raising=False)
    if given is not None:
        monkeypatch.setenv(forms.KERNELS, given)
    assert forms.choice() == (given or "fastest")


@pytest.mark.one_backend
def test_another_choice_is_an_error(monkeypatch):
    monkeypatch.setenv(forms.KERNELS, "slow")
    with pytest.raises(UserError, match=r"^ATTN_ZOO_KERNELS must be fastest or portable; received 'slow'\.$"):
        kernels.top_k(ops.ones((1, 3)), 1)


# With loops, sums over positions, and products of each kind.
SOME = ("bahdanau_feedback", "luong_general", "previous_context", "expanded_key_value_1", "energy_accumulation")


@pytest.mark.parametrize("case", [case for case in CASES if case.name in SOME], ids=str)
def test_a_call_is_its_equation_in_the_portable_form(case, portable):
    layer, inputs = case.layer(), case.inputs()
    wanted = case.expected(weights_of(layer), inputs, **case.causal)
    context, scores = compiled(lambda x: layer(**x, **case.causal, return_attention_scores=True))(inputs)
    np.testing.assert_allclose(context, wanted[0], atol=3e-6)
    np.testing.assert_allclose(scores, wanted[1], atol=1e-6)


@pytest.mark.long
@pytest.mark.slow_compiled
@pytest.mark.parametrize("body", [tiny.backbone, tiny.transformer])
def test_training_and_search_give_the_same_numbers_in_both(body, monkeypatch):
    """A step of training by each form, then translations: equal to the rounding of sums in another order."""
    found = {}
    for choice in forms.CHOICES:
        monkeypatch.setenv(forms.KERNELS, choice)
        model = tiny.translator(body=body, dropout=0.0, sampler=BeamSearch(2))
        x, y, weights = tiny.batch()
        model.compile(optimizer=keras.optimizers.SGD(0.1), sampler=model.sampler)
        logs = model.fit(x, y, sample_weight=weights, epochs=2, verbose=0, shuffle=False).history
        best = model.translate(tiny.sentences("source")[:3])
        found[choice] = [*logs["loss"], *logs["gradient_norm"], *(one.log_prob for [one] in best)]
    np.testing.assert_allclose(found["portable"], found["fastest"], rtol=2e-4)
