"""Text that is encoded once, then translated, scored and decoded along; and the few programs that do it."""

import gc
import re
import weakref

import keras
import numpy as np
import pytest

from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.runtime import compiled_functions
from keras_attn_zoo.runtime.compiled_functions import MOST_FUNCTIONS, MOST_PROGRAMS, Programs
from keras_attn_zoo.support.errors import UserError
from tests import tiny
from tests.runtime.test_threads import assert_same

TEXTS, TARGETS = tiny.sentences("source")[:4], tiny.sentences("target")[:4]


@pytest.fixture(scope="module")
def task():
    return tiny.translator()


@pytest.mark.slow_compiled
def test_encoded_text_stands_for_strings(task, encodings):
    wanted = task.translate(TEXTS), task.score(TEXTS, TARGETS), task.force(TEXTS, TARGETS)
    encodings.clear()
    text = task.encode(TEXTS, TARGETS)
    found = task.translate(text), task.score(text), task.force(text)
    assert set(encodings.values()) == {1} and len(encodings) == 8
    assert_same(list(found), list(wanted))
    sources = task.encode(TEXTS)
    [one] = task.force(sources.select([2]), TARGETS[2:3])
    assert one.tokens == wanted[2][2].tokens
    np.testing.assert_allclose(one.attention, wanted[2][2].attention, atol=1e-6)
    assert text.select([3, 1]) == task.encode([TEXTS[3], TEXTS[1]], [TARGETS[3], TARGETS[1]])
    assert task.encode(text) == text and len(text) == 4


@pytest.mark.one_backend
def test_encoded_text_that_does_not_fit(task):
    text = task.encode(TEXTS, TARGETS)
    with pytest.raises(UserError, match="encoded with other subword models"):
        tiny.translator(joint=True).translate(text)
    with pytest.raises(UserError, match=r"sentence 1 has .* more than the 4"):
        tiny.translator(length=4).translate(task.encode(["kalomi " * 3]))
    with pytest.raises(UserError, match="targets must be a list of strings; received None"):
        task.score(task.encode(TEXTS))
    with pytest.raises(UserError, match="with its translations already: leave targets out"):
        task.force(text, TARGETS)
    with pytest.raises(UserError, match="4 sources but 2 targets"):
        task.encode(TEXTS, TARGETS[:2])
    with pytest.raises(UserError, match=re.escape("sources must be a list of strings; received 'kalo'")):
        task.encode("kalo")


def test_generate_searches_a_long_list_a_few_sentences_at_a_time(monkeypatch):
    task = tiny.translator()
    wanted, rows, generate_step = task.generate([*TEXTS, ""]), [], task.generate_step

    def counting(inputs, **others):
        rows.append(inputs["decoder_token_ids"].shape[0])
        return generate_step(inputs, **others)

    monkeypatch.setattr("keras_attn_zoo.data.shapes.GENERATED_ROWS", 2)
    task._programs = Programs(task)
    task.generate_step = counting
    assert task.generate([*TEXTS, ""]) == wanted and wanted[-1] == ""
    assert set(rows) <= {1, 2}


@pytest.mark.one_backend
def test_functions_are_few():
    """Those used least recently are dropped, and their samplers with them."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile()
    kept, made = Programs(model), []

    def run(key):
        return kept.run(key, lambda: made.append(key) or (lambda x: x + key), np.ones(1, "float32"))

    for key in (*range(MOST_FUNCTIONS), 0, MOST_FUNCTIONS):
        assert run(key) == 1 + key
    made.clear()
    for key in (0, *range(2, MOST_FUNCTIONS + 1)):
        run(key)
    assert made == []
    run(1)
    assert made == [1]


def test_programs_of_all_shapes_are_few(monkeypatch):
    """One is kept for each shape, that of the shape used least recently is dropped, and its memory with it."""
    monkeypatch.setattr(compiled_functions, "MOST_PROGRAMS", 3)
    monkeypatch.setattr(compiled_functions, "MOST_OF_TENSORFLOW", 0)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile()
    kept, traced = Programs(model), []

    def double(x):
        traced.append(tuple(x.shape))
        return 2 * x

    def run(length):
        np.testing.assert_array_equal(kept.run("double", lambda: double, np.ones(length, "float32")), [2.0] * length)

    for length in (1, 2, 3, 1, 4):
        run(length)
    compiles = keras.config.backend() != "torch"
    assert len(kept._compiled) == (3 if compiles else 1)
    traced.clear()
    for length in (3, 1, 4):
        run(length)
    assert not (compiles and traced)
    run(2)
    assert traced[-1] == (2,)
    dropped = weakref.ref(next(iter(kept._compiled.values()))[0])
    for length in (5, 6, 7):
        run(length)
    gc.collect()
    assert not compiles or dropped() is None


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="of TensorFlow alone")
def test_tensorflow_compiles_the_first_shapes_alone(monkeypatch):
    """What XLA has compiled for it is never freed."""
    monkeypatch.setattr(compiled_functions, "MOST_OF_TENSORFLOW", 2)
    monkeypatch.setattr(compiled_functions, "MOST_PROGRAMS", 3)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(jit_compile=True)
    kept = Programs(model)
    for length in (1, 2, 3, 4, 1, 3):
        found = kept.run("double", lambda: lambda x: 2 * x, np.ones(length, "float32"))
        np.testing.assert_array_equal(found, [2.0] * length)
    lasting, dropped = ([one._jit_compile for one, _ in made.values()] for made in (kept._lasting, kept._compiled))
    assert (lasting, dropped) == ([True, True], [False])


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="of TensorFlow alone")
@pytest.mark.parametrize(
    "choices",
    [
        {"cross_attention": "bahdanau"},
        {"cross_attention": "bahdanau", "output": "latent", "marginalization": "exact"},
        {"cross_attention": {"attention": "bahdanau", "normalizer": "entmax15"}},
        pytest.param({"body": tiny.transformer, "cross_attention": "expanded_key_value_1"}, marks=pytest.mark.slow),
    ],
    ids=["recomputed", "mixture", "sparse", "recurrent"],
)
def test_dropped_graphs_are_freed(monkeypatch, choices):
    """TensorFlow keeps hand-written gradients, and what is computed again for them, for ever: searches have none."""
    from tensorflow.python.framework.func_graph import FuncGraph

    monkeypatch.setattr(compiled_functions, "MOST_OF_TENSORFLOW", 0)
    monkeypatch.setattr(compiled_functions, "MOST_PROGRAMS", 1)
    task = tiny.translator(**choices)

    def graphs():
        gc.collect()
        return sum(isinstance(one, FuncGraph) for one in gc.get_objects())

    before = graphs()
    source, target = tiny.sentences("source")[0], tiny.sentences("target")[0]
    task.translate([source])
    task.score([source], [target])
    task.force([source], [target])
    assert graphs() > before
    task._programs._compiled.clear()
    assert graphs() == before


@pytest.mark.one_backend
def test_samplers_that_change_do_not_pile_up(task):
    for beams in range(1, MOST_PROGRAMS + 3):
        task.sampler = BeamSearch(beams)
        task._programs.run(("search", task.sampler), lambda: lambda x: x, np.ones(1, "float32"))
    assert len(task._programs._functions) == MOST_FUNCTIONS
    assert len(task._programs._compiled) + len(task._programs._lasting) == MOST_PROGRAMS


@pytest.mark.skipif(keras.config.backend() != "jax", reason="the others convert arrays themselves")
def test_arrays_in_another_byte_order_are_refused(task):
    """JAX would read the bytes of such an array in the wrong order."""
    compiled_functions = Programs(task)

    def double(kind):
        return compiled_functions.run("double", lambda: lambda x: 2 * x, np.arange(3, dtype=kind))

    for kind in ("<i4", "<i8"):
        np.testing.assert_array_equal(double(kind), [0, 2, 4])
    with pytest.raises(TypeError, match="i4"):
        double(">i4")
