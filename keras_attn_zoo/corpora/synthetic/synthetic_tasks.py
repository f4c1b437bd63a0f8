"""English text for other tasks than translation, from the same grammar: documents to summarise, questions to answer.

Both can be done without knowing the language: the words of a summary or an answer stand in what is read, and what
chooses among them is a mark or their place. Attention is what they need.
"""

from collections.abc import Callable
from itertools import islice

from keras_attn_zoo.corpora.synthetic.grammar import comma, finish, gloss, join
from keras_attn_zoo.corpora.synthetic.sentences import SentenceSampler
from keras_attn_zoo.corpora.synthetic.synthetic_corpus import check_count
from keras_attn_zoo.support.errors import UserError

# What stands before the sentence that is the summary.
MARK = "In short:"
# How many sentences a document has, at least and at most, and how many of them may be the summary, from the first.
_SENTENCES, _LEAD = (3, 5), 2
# A question in these words is answered in others.
_PERSONAL = frozenset(
    ["i", "me", "my", "myself", "we", "us", "our", "ourselves", "you", "your", "yourself", "yourselves"]
)
# Consecutive texts that were drawn before, until a request is considered impossible.
_NO_TEXT = 2000


class TaskSampler(SentenceSampler):
    """Draws pairs of texts; its public methods are the tasks.

    Args:
        seed, words_per_kind: see `generate_corpus`.
        max_words: maximum words per sentence, punctuation included.
    """

    def __init__(self, seed: int, max_words: int, words_per_kind: int | None = None) -> None:
        super().__init__(seed, words_per_kind)
        self._max_words = max_words

    def document(self) -> tuple[str, str]:
        """Draw a document, and its summary: the one sentence after "In short:", among the first two."""
        sentences = [self._statement(self._short_clause()) for _ in range(self._between(*_SENTENCES))]
        chosen = self._between(0, _LEAD - 1)
        summary = sentences[chosen]
        sentences[chosen] = f"{MARK} {summary}"
        return " ".join(sentences), summary

    def dialogue(self) -> tuple[str, str]:
        """Draw a remark and a question on something else, and the answer: yes, and the question as a statement."""
        remark, asked = self._statement(self._short_clause()), self._short_clause(of_others=True)
        answer = finish(join(gloss("ja|yes"), comma(english=True), asked.main()))
        return f"{remark} {finish(asked.question(), '?').target}", answer.target

    def _short_clause(self, of_others=False):
        """A clause that fits; `of_others` leaves out those about the speakers."""
        for _ in range(_NO_TEXT):
            clause = self._clause(self._any_time(), light=True, deep=False)
            words = finish(clause.question(), "?").target_words
            if len(words) <= self._max_words and not (of_others and _PERSONAL & {word.lower() for word in words}):
                return clause
        raise UserError(f"found no sentence of at most {self._max_words} words: raise max_words.")

    def _statement(self, clause):
        return finish(clause.main()).target


_TASKS: dict[str, Callable[[TaskSampler], tuple[str, str]]] = {
    "summarization": TaskSampler.document,
    "dialogue": TaskSampler.dialogue,
}


def _stream(task, seed, max_words, words_per_kind):
    """Yield pairs endlessly, no source twice."""
    sampler, seen, failures = TaskSampler(seed, max_words, words_per_kind), set(), 0
    while failures < _NO_TEXT:
        source, target = _TASKS[task](sampler)
        if source in seen:
            failures += 1
            continue
        seen.add(source)
        failures = 0
        yield source, target
    raise UserError(f"found no more texts with max_words={max_words}, words_per_kind={words_per_kind}: raise them.")


def generate_task(
    task: str, train: int, valid: int, test: int, seed: int = 0, max_words: int = 25, words_per_kind: int | None = None
) -> dict[str, list[tuple[str, str]]]:
    """Generate a corpus for another task than translation, in three splits that share no source.

    Args:
        task: "summarization": a document and the sentence of it that is marked. "dialogue": a remark with a question,
            and the answer.
        train, valid, test: number of pairs. As in `generate_splits`, the test set is drawn first.
        seed, words_per_kind: see `generate_corpus`.
        max_words: maximum words per sentence, punctuation included.

    Returns:
        Dictionary of lists of `(source, target)` under "train", "valid" and "test".

    Raises:
        UserError: an unknown task, an invalid number, or too few texts of this length.

    Example:
        >>> source, target = generate_task("summarization", 1, 0, 0)["train"][0]
        >>> f"In short: {target}" in source
        True
    """
    if task not in _TASKS:
        raise UserError(f"no text can be generated for the task {task!r}: choose from {', '.join(_TASKS)}.")
    for name, size in (("train", train), ("valid", valid), ("test", test), ("seed", seed)):
        check_count(name, size, 0)
    check_count("max_words", max_words, 1)
    if words_per_kind is not None:
        check_count("words_per_kind", words_per_kind, 1)
    pairs = list(islice(_stream(task, seed, max_words, words_per_kind), train + valid + test))
    return {"train": pairs[test + valid :], "valid": pairs[test : test + valid], "test": pairs[:test]}
