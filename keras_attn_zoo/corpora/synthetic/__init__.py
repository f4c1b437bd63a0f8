"""A synthetic German-English corpus with gold word alignments.

Sentence pairs are drawn at random from a synchronous grammar with its own lexicon. They have what attention is needed
for: verbs at the end of subordinate clauses, separable verbs, verbs in two parts, inversion, compounds that need
several English words, relative clauses moved to the end, do-support.

The same grammar gives English text for other tasks: `generate_task`.
"""

from keras_attn_zoo.corpora.synthetic.grammar import SyntheticPair
from keras_attn_zoo.corpora.synthetic.synthetic_corpus import generate_corpus, generate_splits, write_corpus
from keras_attn_zoo.corpora.synthetic.synthetic_tasks import generate_task

__all__ = ["SyntheticPair", "generate_corpus", "generate_splits", "generate_task", "write_corpus"]
