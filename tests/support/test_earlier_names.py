"""Import paths of version 0.1."""

import importlib
import subprocess
import sys

import pytest

from keras_attn_zoo.support.earlier_names import read_table

TABLE = read_table()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", sorted(name for name, homes in TABLE.items() if len(homes) == 1))
def test_a_module_is_the_same_under_its_earlier_name(name):
    (home,) = TABLE[name]
    earlier, today = importlib.import_module(name), importlib.import_module(home)
    if earlier.__name__ == name:
        # A package of today has the names of the earlier one, and others.
        names = getattr(today, "__all__", [])
        assert [getattr(earlier, one) for one in names] == [getattr(today, one) for one in names]
    else:
        assert earlier is today
        assert today.__spec__.name == home


def in_a_new_process(code, *options):
    """What a process prints on standard output, and on standard error."""
    done = subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


@pytest.mark.long
def test_what_a_program_of_version_0_1_imports():
    said, _ = in_a_new_process(
        # It takes seconds.
        "import sys; sys.modules['tensorflow'] = sys.modules['tensorflow_text'] = None\n"
        "import keras_attn_zoo as kaz, keras_attn_zoo.models, keras\n"
        "assert keras.saving.get_registered_object('keras_attn_zoo>RNNBackbone')\n"
        "from keras_attn_zoo.experiments.named_systems import SYSTEMS\n"
        "from keras_attn_zoo.models import RNNBackbone, Translator\n"
        "from keras_attn_zoo.models.marian import MarianTokenizer\n"
        "from keras_attn_zoo.errors import UserError\n"
        "from keras_attn_zoo.synthetic import generate_corpus\n"
        "from keras_attn_zoo import analysis, files\n"
        "from keras_attn_zoo.layers.common.attention_layer import AttentionLayer\n"
        "assert kaz.models.Translator is Translator is kaz.Translator\n"
        "assert kaz.bodies.RNNBackbone is RNNBackbone and kaz.layers.AttentionLayer is AttentionLayer\n"
        "import keras_attn_zoo.support.errors as today\n"
        "print(today.UserError is UserError, 'bahdanau' in SYSTEMS, files.write_text.__module__)"
    )
    assert said == "True True keras_attn_zoo.support.files\n"


def test_a_warning_says_the_new_name_where_the_old_one_is_used():
    _, warned = in_a_new_process("import keras_attn_zoo.errors", "-W", "default")
    assert "<string>:1: DeprecationWarning: keras_attn_zoo.errors is now keras_attn_zoo.support.errors." in warned


def test_other_names_are_not_found():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'keras_attn_zoo\.modells'"):
        importlib.import_module("keras_attn_zoo.modells")
    with pytest.raises(ModuleNotFoundError, match="translater"):
        importlib.import_module("keras_attn_zoo.models.translater")
    with pytest.raises(ImportError, match="Translater"), pytest.warns(DeprecationWarning):
        sys.modules.pop("keras_attn_zoo.models", None)
        from keras_attn_zoo.models import Translater  # noqa: F401
