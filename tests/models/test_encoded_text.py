"""Text that is encoded once, then translated, scored and decoded along; and the few programs that do it."""

import re

import keras
import numpy as np
import pytest

from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.errors import UserError
from keras_attn_zoo.models.programs import MOST_PROGRAMS, Programs
from tests import tiny
from tests.models.test_threads import assert_same

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


@pytest.mark.skipif(keras.config.backend() == "torch", reason="nothing is traced under torch")
def test_generate_has_few_shapes():
    task = tiny.translator()
    traces, start_search = [], task.backbone.start_search

    def counting(token_ids, *others):
        traces.append(tuple(token_ids.shape))
        return start_search(token_ids, *others)

    wanted = [best[0].text for best in task.translate(TEXTS)]
    task.backbone.start_search = counting
    assert [task.generate(TEXTS[:count]) for count in (2, 3, 4)] == [wanted[:count] for count in (2, 3, 4)]
    assert [rows for rows, _ in traces] == [8] * len(set(traces))


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
def test_programs_are_few():
    """Those used least recently are dropped, and their samplers with them."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile()
    programs, made = Programs(model), []

    def run(key):
        return programs.run(key, lambda: made.append(key) or (lambda x: x + key), np.ones(1, "float32"))

    for key in (*range(MOST_PROGRAMS), 0, MOST_PROGRAMS):
        assert run(key) == 1 + key
    made.clear()
    for key in (0, *range(2, MOST_PROGRAMS + 1)):
        run(key)
    assert made == []
    run(1)
    assert made == [1]


@pytest.mark.one_backend
def test_samplers_that_change_do_not_pile_up(task):
    for beams in range(1, MOST_PROGRAMS + 3):
        task.sampler = BeamSearch(beams)
        task._programs.run(("search", task.sampler), lambda: lambda x: x, np.ones(1, "float32"))
    assert len(task._programs._compiled) == MOST_PROGRAMS


@pytest.mark.skipif(keras.config.backend() != "jax", reason="the others convert arrays themselves")
def test_arrays_in_another_byte_order_are_refused(task):
    """JAX would read the bytes of such an array in the wrong order."""
    programs = Programs(task)

    def double(kind):
        return programs.run("double", lambda: lambda x: 2 * x, np.arange(3, dtype=kind))

    for kind in ("<i4", "<i8"):
        np.testing.assert_array_equal(double(kind), [0, 2, 4])
    with pytest.raises(TypeError, match="i4"):
        double(">i4")
