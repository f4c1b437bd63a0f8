"""What comes before training, as a terminal shows it."""

from keras_attn_zoo.runs.preparation import prepare_data
from keras_attn_zoo.support.messages import shown
from tests.support.test_messages import terminal
from tests.tiny_run import TINY


def test_reading_and_encoding_have_bars(corpus, tmp_path):
    with terminal() as read, shown():
        data = prepare_data(corpus, TINY.data, tmp_path)
        sent = read()
    assert len(data.train) > 0
    for bar in ("reading the training text:", "encoding the train text:", "encoding the valid text:"):
        assert bar in sent
