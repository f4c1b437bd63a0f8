"""How a translator takes a sampler: by name, as an object, changed at any time."""

import keras_hub
import pytest

from keras_attn_zoo.decoding import BeamSearch
from keras_attn_zoo.support.errors import UserError
from tests import tiny

TEXTS = tiny.sentences("source")[:6]


@pytest.mark.one_backend
def test_sampler_names():
    task = tiny.translator(sampler="greedy")
    assert isinstance(task.sampler, BeamSearch) and task.sampler.num_beams == 1
    task.compile(loss="auto")
    assert task.sampler.num_beams == 1
    task.compile(sampler="beam")
    assert (task.sampler.num_beams, task.sampler.length_penalty) == (5, 1.0)
    task.compile(sampler="top_k")
    translations = task.generate(TEXTS[:2])
    assert len(translations) == 2 and all(isinstance(text, str) for text in translations)
    with pytest.raises(UserError, match=r"there is no sampler 'beem': did you mean beam\?"):
        task.compile(sampler="beem")


@pytest.mark.slow_compiled
def test_a_sampler_may_be_set_and_changed_at_any_time():
    changing = tiny.translator()
    few = changing.translate(TEXTS, n_best=3)
    assert changing.generate(TEXTS) == [best[0].text for best in few]
    changing.sampler = BeamSearch(5, length_penalty=1.0)
    many = changing.translate(TEXTS, n_best=5)
    made = tiny.translator(sampler=BeamSearch(5, length_penalty=1.0))
    assert tiny.plain(many) == tiny.plain(made.translate(TEXTS, n_best=5)) != tiny.plain(few)
    assert changing.generate(TEXTS) == [best[0].text for best in many]
    changing.sampler.num_beams, changing.sampler.length_penalty = 3, 0.6
    assert tiny.plain(changing.translate(TEXTS, n_best=3)) == tiny.plain(few)
    changing.sampler = keras_hub.samplers.TopKSampler(k=1, seed=0)
    assert changing.generate(TEXTS[:2]) == tiny.translator(sampler="greedy").generate(TEXTS[:2])
