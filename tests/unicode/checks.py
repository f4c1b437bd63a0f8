"""What holds for a sentence pair of any characters: no error, every piece in a word, every word with its letters."""

import contextlib
import http.client
import io
import itertools
import json
import unicodedata
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from keras_attn_zoo.cli import main
from keras_attn_zoo.data.marian_pieces import MarianPieces
from keras_attn_zoo.data.text_files import read_lines
from keras_attn_zoo.data.words import as_sentence, join_words, normalise, split_words
from keras_attn_zoo.runs.word_alignment import align_words, sentence_picture
from keras_attn_zoo.support.files import write_text
from keras_attn_zoo.translators.exploration import explore
from keras_attn_zoo.viewing.attention_pictures import plot_attentions
from keras_attn_zoo.viewing.page_server import PageServer, serving
from keras_attn_zoo.viewing.word_attention import group_pieces
from tests.unicode.models import translator
from tests.unicode.sentences import pair, sentence

END = "</s>"


def check(kind, numbers):
    """Hold cases to the laws, with one kind of tokenizer; return what is wrong, by number."""
    return _faults(_check, kind, numbers)


def check_uses(kind, numbers, folder):
    """Hand cases to commands, pictures and the server; return what is wrong, by number."""
    return _faults(lambda *given: _check_uses(*given, folder), kind, numbers)


def _faults(function, kind, numbers):
    try:
        function(kind, numbers)
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]
        if len(numbers) == 1:
            return {numbers[0]: reason}
        found = {}
        for number in numbers:
            found |= _faults(function, kind, [number])
        # Each may be right alone.
        return found or {numbers[0]: f"with the {len(numbers) - 1} behind it: {reason}"}
    return {}


def _check(kind, numbers):
    task = translator(kind)
    pairs, texts = [pair(number) for number in numbers], [sentence(number) for number in numbers]
    for words in (words for one in pairs for words in one):
        _check_sentence(words)
        _check_places(task.preprocessor.source_tokenizer.subwords, words)
    _check_alignments(task, pairs)
    _check_page(task, texts, pairs)
    if kind != "marian":
        # Its text is that of Transformers, which leave it as it is.
        _check_decoding(task, numbers)
    for one in task.score(texts, [as_sentence(target) for _, target in pairs]):
        assert np.isfinite(one.log_prob), "a score that is no number"


def _check_uses(kind, numbers, folder):
    _check_commands(kind, numbers, Path(folder))
    _check_server(kind, numbers)
    # They take as long as all else.
    _check_pictures(kind, numbers[:1], Path(folder))


def letters(words):
    """Which word each letter of a sentence is of, and the letters."""
    found = [(i, letter) for i, word in enumerate(words) for letter in unicodedata.normalize("NFC", word)]
    found = [(i, letter) for i, letter in found if not letter.isspace()]
    while found and found[0][1] == "\ufeff":
        found.pop(0)
    return [i for i, _ in found], "".join(letter for _, letter in found)


def _check_sentence(words):
    text = as_sentence(words)
    assert normalise(text) == text, "a sentence that is not normalised"
    owners, spelled = letters(words)
    assert text.replace(" ", "") == spelled, "a sentence that has not its words' letters"
    assert [i for i, c in zip(join_words(words)[1], text, strict=True) if c != " "] == owners, "letters of other words"
    split = split_words(text)
    assert "".join(split) == spelled and all(split), "words without letters"


def _check_places(subwords, words):
    """Every piece is in the word that has its first letter, as SentencePiece itself cuts the sentence."""
    [ids] = subwords.encode([as_sentence(words)])
    pieces = subwords.pieces(ids)
    found = group_pieces([*pieces, END], words)
    assert found.pop() == -1, "the end in a word"
    assert found == sorted(found) and all(0 <= i < len(words) for i in found), "pieces out of order, or in no word"
    if isinstance(subwords, MarianPieces) and ("<unk>" in pieces or as_sentence(words).startswith(">>")):
        # It knows letters of unknown pieces elsewhere; and the code of a language is no piece of the model.
        return
    expected = _places(subwords, words)
    if subwords._processor.normalize("\ufb01").endswith("fi"):
        # Words that its normalisation deletes may be what an unknown piece stands for.
        known = [piece not in ("<unk>", "\u2581") for piece in pieces]
        pieces, found, expected = (list(itertools.compress(side, known)) for side in (pieces, found, expected))
    assert found == expected, _difference(pieces, found, expected, words)


def _difference(pieces, found, expected, words):
    """The first piece that is in another word."""
    at = next((i for i, (one, other) in enumerate(zip(found, expected, strict=False)) if one != other), len(found))
    near = pieces[max(0, at - 4) : at + 3]
    return f"piece {at} in word {found[at:][:1]}, not {expected[at:][:1]}: {near!a} of {words!a}"


def _places(subwords, words):
    text, (owners, _) = as_sentence(words), letters(words)
    if getattr(subwords, "truecaser", None) is not None:
        cased = subwords.truecaser.truecase(text)
        # What composes in another case is of the same word.
        if len(cased) != len(text):
            return group_pieces(subwords.pieces(subwords.encode([text])[0]), words)
        text = cased
    if subwords.whole_words:
        starts = [sum(map(len, text.split()[:i])) for i in range(len(text.split()))]
        return [owners[start] for start in starts]
    found = []
    for span in subwords._processor.encode_as_proto(text).pieces:
        surface, before = text.encode()[span.begin : span.end].decode(), text.encode()[: span.begin].decode()
        if surface.strip():
            # What the model makes a space of, or nothing, is in front of the first letter.
            gone = itertools.takewhile(lambda c: not subwords._processor.normalize(c).strip(" \u2581"), surface)
            gone = "".join(gone)
            before += gone if gone != surface or "\u2581" not in surface else ""
        before = len(before.replace(" ", ""))
        found.append(owners[min(before, len(owners) - 1)])
    return found


def _check_alignments(task, pairs):
    links, matrices = align_words(task, pairs, leave_out=("end", "full_stop"))
    for one, matrix, (source, target) in zip(links, matrices, pairs, strict=True):
        assert matrix.shape == (len(target), len(source)), "a matrix of other words"
        assert all(0 <= j < len(source) and 0 <= i < len(target) for j, i in one), "links outside of the words"


def _check_page(task, texts, pairs):
    targets = [as_sentence(target) for _, target in pairs]
    assert task.explore(texts, targets).html()
    words = [source for source, _ in pairs if all(one.strip() for one in source)]
    assert not words or task.explore(words).html()


def _check_decoding(task, numbers):
    """What is decoded stays as it is when it is written to a file and read back."""
    subwords = task.preprocessor.tokenizer.subwords
    rng = np.random.default_rng(numbers[0] + 2**20)
    lines = [subwords.decode(rng.integers(subwords.vocabulary_size, size=rng.integers(9))) for _ in numbers]
    assert [normalise(line) for line in lines] == lines, "what is decoded is not normalised"


def _check_pictures(kind, numbers, folder):
    for number in numbers:
        matrix, *axes = sentence_picture(translator(kind), sentence(number), as_sentence(pair(number)[1]))
        for suffix in ("png", "svg", "pdf"):
            plot_attentions([(None, matrix)], *axes, folder / f"picture.{suffix}")
        # No reader of XML takes a picture with characters that it does not allow.
        ElementTree.parse(folder / "picture.svg")


def _check_commands(kind, numbers, folder):
    """Write cases to files, and align and explore them; draw the first."""
    preset = folder / "preset"
    if not preset.exists():
        translator(kind).save_to_preset(preset)
    pairs = [[as_sentence(words) for words in pair(number)] for number in numbers]
    files = [folder / "source", folder / "target"]
    for side, file in enumerate(files):
        write_text(file, "".join(one[side] + "\n" for one in pairs))
        assert list(read_lines(file)) == [one[side] for one in pairs], "a file that is read back is another"
    _run("align", preset, "--source", files[0], "--target", files[1], "--output", folder / "links")
    assert len((folder / "links").read_text().splitlines()) == len(numbers), "a sentence without its line of links"
    _run("explore", preset, "--text", files[0], "--force", files[1], "--output", folder / "page.html")
    _run("plot", "attention", preset, sentence(numbers[0]), "--target", pairs[0][1], "--output", folder / "one.png")


def _run(*arguments):
    with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()):
        status = main([str(argument) for argument in arguments])
    assert not status, said.getvalue()


def _check_server(kind, numbers):
    """Send cases to a served page."""

    def examine(text, target):
        return explore({kind: translator(kind)}, [text], [target])

    with serving(PageServer(explore({kind: translator(kind)}, [], may_be_empty=True), examine, port=0)) as server:
        for number in numbers:
            body = json.dumps({"sentence": sentence(number), "target": as_sentence(pair(number)[1])})
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            with contextlib.closing(connection):
                connection.request("POST", "/explore", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                said = answer.read()
            assert answer.status == 200 and "packed" in json.loads(said), f"{number}: {answer.status} {said[:300]}"
