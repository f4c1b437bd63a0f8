"""The translator of a run folder or of a preset, and what is damaged."""

import shutil

import pytest

from keras_attn_zoo.errors import UserError
from keras_attn_zoo.experiments.loading import load_translator
from keras_attn_zoo.experiments.run_folder import RunFolder
from keras_attn_zoo.experiments.table import read_results


def test_a_preset_stands_for_itself(trained, tmp_path):
    preset = shutil.copytree(trained / "best", tmp_path / "preset")
    sentences = ["kalo", "mi fi do"]
    # A preset has no settings of a search: they are given.
    found, wanted = (load_translator(path, 3, 0.5).translate(sentences, n_best=3) for path in (preset, trained))
    assert [[(h.text, h.score) for h in one] for one in found] == [[(h.text, h.score) for h in one] for one in wanted]
    with pytest.raises(UserError, match="is not a run folder"):
        RunFolder(preset).system()
    with pytest.raises(UserError, match="is not a run folder"):
        RunFolder(preset).check_free()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", b"{", "/config.json is damaged: it is not JSON"),
        ("model.weights.h5", b"nothing", "/model.weights.h5 is damaged or not a file of weights"),
        ("config.json", None, " is not a preset: it has no config.json. Check the path."),
    ],
)
def test_a_damaged_preset_is_one_line(trained, tmp_path, name, content, message):
    preset = tmp_path / "preset"
    shutil.copytree(trained / "best", preset)
    # As one from before there were checksums, which would tell at once.
    (preset / "checksums.json").unlink()
    if content is None:
        (preset / name).unlink()
    else:
        (preset / name).write_bytes(content)
    with pytest.raises(UserError) as error:
        load_translator(preset)
    assert str(error.value).startswith(f"{preset}{message}")
    assert "\n" not in str(error.value)


def test_what_is_no_run_is_said(tmp_path):
    with pytest.raises(UserError, match=r"no folder or published preset .*nowhere: check the path"):
        load_translator(tmp_path / "nowhere")
    with pytest.raises(UserError, match="is not a run folder"):
        RunFolder(tmp_path).system()
    with pytest.raises(UserError, match="no run has been scored on 'test'"):
        read_results([tmp_path])


def test_settings_of_a_search_are_checked(trained):
    with pytest.raises(UserError, match="search_top_k must be an integer from 0 to 10,000 or None; received -1"):
        load_translator(trained, search_top_k=-1)
    with pytest.raises(UserError, match="beams must be an integer from 1 to 1,000; received 0"):
        load_translator(trained, beams=0)
