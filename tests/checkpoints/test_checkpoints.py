"""Every field of a Marian checkpoint is known; some are changed here, all of them every night."""

import contextlib
import dataclasses
import json
import typing

import pytest

from keras_attn_zoo.data.marian_pieces import AddedToken, AddedTokens
from keras_attn_zoo.support.errors import UserError
from keras_attn_zoo.translators import MarianTokenizer, Translator
from keras_attn_zoo.translators.marian import export_to_transformers, fields
from keras_attn_zoo.translators.marian.added_tokens import read_added_tokens
from keras_attn_zoo.translators.marian.generation import Generation

pytest.importorskip("torch")
pytest.importorskip("transformers")
from transformers import MarianConfig

from tests.checkpoints.__main__ import main
from tests.checkpoints.cases import CASES, PAD, SPARE
from tests.checkpoints.checks import EQUAL, REFUSED, TEXTS, changed, judge, write_base
from tests.checkpoints.fields import fields_of_config, fields_of_generation, fields_of_tokenizer
from tests.checkpoints.tokens import judge_tokenizer, write_tokenizer

# Transformers writes the one, and a Marian tokenizer takes the others and does nothing.
WITHOUT_A_CASE = {"_commit_hash", "add_bos_token", "add_eos_token"}
SOME = [
    ("config.json", "activation_function", "relu", EQUAL),
    ("config.json", "normalize_before", True, REFUSED),
    ("generation_config.json", "early_stopping", "never", EQUAL),
    ("generation_config.json", "num_beams", 1, EQUAL),
    ("generation_config.json", "renormalize_logits", False, EQUAL),
    ("generation_config.json", "no_repeat_ngram_size", 2, EQUAL),
    ("tokenizer_config.json", "extra_special_tokens", ["<ent>", "lo"], EQUAL),
    ("tokenizer_config.json", "eos_token", "<ent>", REFUSED),
]
TOKENIZERS = 3


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints") / "base"
    write_base(folder)
    return folder


def test_a_field_that_is_none_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--field", "d_model", "--field", "nonsense"])
    error = capsys.readouterr().err
    assert "argument --field: there is no field 'nonsense': choose one of " in error and " d_model, " in error


@pytest.mark.parametrize(
    ("file", "by_inspection", "classified"),
    [
        ("config.json", fields_of_config, fields.CONFIG),
        ("generation_config.json", fields_of_generation, fields.GENERATION),
        ("tokenizer_config.json", fields_of_tokenizer, fields.TOKENIZER),
    ],
)
def test_every_field_of_transformers_is_classified_and_tried(file, by_inspection, classified):
    """A field that a new release brings fails here: read it, or say why not, in `translators/marian/fields.py`."""
    found = by_inspection()
    assert len(found) > 30
    assert found <= classified.known
    assert found - CASES[file].keys() <= WITHOUT_A_CASE
    assert CASES[file].keys() <= classified.known


@pytest.mark.long
@pytest.mark.parametrize(("file", "field", "value", "expected"), SOME, ids=lambda value: str(value))
def test_a_changed_field_gives_what_transformers_gives_or_is_refused(base, tmp_path, file, field, value, expected):
    outcome, wrong = judge(changed(base, tmp_path / "changed", {file: {field: value}}), [field])
    assert (outcome, wrong) == (expected, None)


@pytest.mark.long
@pytest.mark.parametrize("number", range(TOKENIZERS))
def test_added_tokens_have_the_ids_of_marian_tokenizer(base, tmp_path, number):
    texts = write_tokenizer(base, tmp_path / "changed", number)
    assert judge_tokenizer(tmp_path / "changed", texts) is None


@pytest.mark.long
def test_settings_of_the_search_stand_in_config_json_where_there_is_no_other_file(base, tmp_path):
    """As in checkpoints that earlier versions of Transformers wrote."""
    settings = {"num_beams": 3, "max_length": 9, "bad_words_ids": [[PAD]], "length_penalty": 0.3}
    folder = changed(base, tmp_path / "changed", {"config.json": settings})
    assert judge(folder, ["max_length"]) == (EQUAL, None)
    (folder / "generation_config.json").unlink()
    assert Translator.from_preset(folder).search_settings["beams"] == 3
    assert judge(folder, ["max_length"]) == (EQUAL, None)


@pytest.mark.long
@pytest.mark.parametrize("more", [{"renormalize_logits": False}, {"min_length": 8, "no_repeat_ngram_size": 2}])
def test_an_export_says_what_was_read(base, tmp_path, more):
    search = {"num_beams": 3, "length_penalty": 0.4, "early_stopping": True, **more}
    tokens = {"extra_special_tokens": ["<ent>", "lo"], "clean_up_tokenization_spaces": True}
    changes = {"generation_config.json": search, "tokenizer_config.json": tokens}
    translator = Translator.from_preset(changed(base, tmp_path / "changed", changes))
    export_to_transformers(translator, tmp_path / "exported")
    again = Translator.from_preset(tmp_path / "exported")
    assert again.search_settings == translator.search_settings
    assert again.preprocessor.tokenizer.added_tokens == translator.preprocessor.tokenizer.added_tokens
    assert again.generate(TEXTS) == translator.generate(TEXTS)
    assert judge(tmp_path / "exported", []) == (EQUAL, None)


@pytest.mark.parametrize(
    "files",
    [
        {"tokenizer_config.json": {"added_tokens_decoder": [1]}},
        {"tokenizer_config.json": {"added_tokens_decoder": "x"}},
        {"tokenizer_config.json": {"added_tokens_decoder": None}},
        {"tokenizer_config.json": {"added_tokens_decoder": {"2": {"content": "a", "lstrip": "false"}}}},
        {"tokenizer_config.json": {"extra_special_tokens": 5}},
        {"tokenizer.json": {"added_tokens": ["x"]}},
        {"tokenizer.json": {"added_tokens": 3}},
        {"special_tokens_map.json": {"additional_special_tokens": "abc"}},
        {"added_tokens.json": {"x": [1]}},
        {"tokenizer_config.json": {"added_tokens_decoder": {"9" * 5000: {"content": "a"}}}},
    ],
    ids=str,
)
def test_damaged_tokenizers_are_refused(tmp_path, files):
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    with pytest.raises(UserError, match="not texts with a number each"):
        read_added_tokens(str(tmp_path), {"</s>": 0, "<unk>": 1, "a": 2, "<pad>": 3})


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        ({}, ["a ", "<t>", " b", "<t>", "c"]),
        ({"lstrip": True}, ["a", "<t>", " b", "<t>", "c"]),
        ({"rstrip": True}, ["a ", "<t>", "b", "<t>", "c"]),
        ({"single_word": True}, ["a ", "<t>", " b<t>", "c"]),
    ],
    ids=str,
)
def test_white_space_beside_an_added_token(flags, parts):
    assert AddedTokens([AddedToken("<t>", **flags)]).split("a <t> b<t>c") == parts


def test_two_added_tokens_with_one_number_are_named(tmp_path):
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<x>": 4, "<y>": 4}))
    with pytest.raises(UserError, match=r"the added tokens <x> and <y> of .* both have the number 4"):
        read_added_tokens(str(tmp_path), {"</s>": 0, "<unk>": 1, "a": 2, "<pad>": 3})


@pytest.mark.parametrize("content", ["</s>", "<unk>", "<pad>"])
@pytest.mark.parametrize("file", ["added_tokens.json", "tokenizer_config.json"])
def test_a_named_token_with_another_number_is_refused(tmp_path, content, file):
    """Transformers ends sentences by that number."""
    named = {content: 7} if file == "added_tokens.json" else {"added_tokens_decoder": {"7": {"content": content}}}
    (tmp_path / file).write_text(json.dumps(named))
    with pytest.raises(UserError, match=f"the added token {content} .* has the number 7, but vocab.json has another"):
        read_added_tokens(str(tmp_path), {"</s>": 0, "<unk>": 1, "a": 2, "<pad>": 3})


def test_without_a_first_token_transformers_begins_with_another(base, tmp_path):
    folder = changed(base, tmp_path / "changed", {"generation_config.json": {"bos_token_id": 0}})
    path = folder / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "decoder_start_token_id": None}))
    with pytest.raises(UserError, match="bos_token_id=0 and no decoder_start_token_id"):
        Translator.from_preset(folder)


@pytest.mark.parametrize(
    ("file", "field", "value"),
    [
        ("config.json", "scale_embedding", 1),
        ("config.json", "vocab_size", 10**10),
        ("generation_config.json", "eos_token_id", False),
        ("tokenizer_config.json", "separate_vocabs", 1),
        ("vocab.json", "\ud800z", SPARE),
    ],
)
def test_values_of_another_type_or_size_are_refused(base, tmp_path, file, field, value):
    folder = changed(base, tmp_path / "changed", {file: {field: value}})
    for cls in (MarianTokenizer, Translator):
        with pytest.raises(UserError, match="not a character" if file == "vocab.json" else field):
            cls.from_preset(folder)


@pytest.mark.parametrize(("field", "value"), [("d_model", 15), ("d_model", 10**5), ("max_position_embeddings", 1)])
def test_sizes_are_called_by_their_names_in_config_json(base, tmp_path, field, value):
    folder = changed(base, tmp_path / "changed", {"config.json": {field: value}})
    with pytest.raises(UserError, match=f"config.json of .* says {field}={value:,}"):
        Translator.from_preset(folder)


@pytest.mark.parametrize("classified", [fields.CONFIG, fields.GENERATION, fields.TOKENIZER])
def test_every_field_that_is_read_has_the_types_of_json_that_it_may_have(classified):
    values = (True, 7, 2.0, "x", [], {}, None)
    for field, types in classified.read.items():
        for value in values:
            right = type(value) in types
            wrong = pytest.raises(UserError, match=f"FILE of P says {field}=.*, not .*: correct it")
            with contextlib.nullcontext() if right else wrong:
                classified.check("FILE", {field: value}, "P")


def test_types_of_fields_are_those_of_marian_config():
    """A size is a number of JSON, and so is a rate; Transformers raises for others."""
    annotated = {field.name: field.type for field in dataclasses.fields(MarianConfig)}
    for field, types in fields.CONFIG.read.items():
        if field in annotated:
            expected = {list if typing.get_origin(one) is list else one for one in typing.get_args(annotated[field])}
            assert set(types) == (expected or {annotated[field]}), field


@pytest.mark.long
def test_a_field_that_is_not_read_is_seen(base, tmp_path, monkeypatch):
    """The harness fails where translations differ."""
    monkeypatch.setattr(Generation, "longest", lambda self, positions: positions)
    outcome, wrong = judge(changed(base, tmp_path / "changed", {}), ["max_length"])
    assert outcome == "different" and "translations of" in wrong


def test_unknown_fields_are_said_and_adapters_refused(tmp_path, caplog):
    found = [("config.json", fields.CONFIG, {"novelty": 3, "other_novelty": False, "d_model": 8})]
    fields.check_fields(str(tmp_path), found)
    (said,) = caplog.messages
    assert "novelty in config.json" in said and "other_novelty" not in said
    (tmp_path / "adapter_config.json").touch()
    with pytest.raises(UserError, match="has adapter_config"):
        fields.check_fields(str(tmp_path), found)


def test_special_tokens_that_are_written_out_are_text(base):
    """Transformers takes them for what they name: the one difference, of which the guide tells."""
    for subwords in Translator.from_preset(base).preprocessor.subwords:
        special = {subwords.vocabulary.index(piece) for piece in ("</s>", "<pad>")}
        for text in ("ka </s> lo", "ka</s>lo", "</s>", "<pad>", "ka <pad>", "<s>", "<unk> lo", "</s></s>"):
            [ids] = subwords.encode([text])
            assert ids and not special & set(ids), text
