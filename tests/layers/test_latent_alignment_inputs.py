"""What a latent alignment takes, and what it refuses, in one line of its own."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn_zoo.layers import LatentAlignmentHead
from tests.layers.calls import compiled
from tests.layers.test_latent_alignment_head import BATCH, TARGET, TARGETS, VOCABULARY, head_of, inputs_of


@pytest.mark.one_backend
@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"prior": (2, 3)}, r"`prior` must have shape \(batch, target, source\).* Received: shape \(2, 3\)"),
        ({"embedded": (2, 4, 3)}, r"`embedded` must have shape .* = \(2, 3, .* Received: shape \(2, 4, 3\)"),
        ({"embedded": (2, 3)}, r"`embedded` must .* Received: shape \(2, 3\)"),
        ({"states": (1, 3, 7)}, r"`states` must .* Received: shape \(1, 3, 7\)"),
        ({"encoded": (2, 4, 11)}, r"`encoded` must .* = \(2, 5, .* Received: shape \(2, 4, 11\)"),
        ({"targets": (2, 3, 1)}, r"`targets` must .* = \(2, 3\). Received: shape \(2, 3, 1\)"),
        ({"targets": (3, 2)}, r"`targets` must .* Received: shape \(3, 2\)"),
    ],
)
def test_shapes_that_do_not_fit(changed, message, built):
    """Before Keras builds, or computes, anything; of symbolic tensors too."""
    inputs = {**inputs_of(), "targets": TARGETS}
    head = head_of(inputs_of()) if built else LatentAlignmentHead(VOCABULARY, width=5)
    [(name, shape)] = changed.items()
    inputs[name] = np.zeros(shape, inputs[name].dtype)
    symbolic = {key: keras.KerasTensor(x.shape, str(x.dtype)) for key, x in inputs.items()}
    for given in (inputs, symbolic):
        with pytest.raises(ValueError, match=f"^LatentAlignmentHead: {message}") as caught:
            head(**given)
        assert "\n" not in str(caught.value)


@pytest.mark.one_backend
def test_another_width_than_built_for():
    head, inputs = head_of(inputs_of()), inputs_of()
    with pytest.raises(ValueError, match=r"`states` must .* = \(2, 3, 7\). Received: shape \(2, 3, 8\)"):
        head(**{**inputs, "states": np.zeros((2, 3, 8), "float32")})


@pytest.mark.parametrize("wrong", [1.5, float("nan")])
def test_targets_that_are_not_ids(wrong):
    head, inputs = head_of(inputs_of()), inputs_of()
    targets = np.array(TARGETS, "float32")
    head(**inputs, targets=targets)
    targets[1, 2] = wrong
    with pytest.raises(ValueError, match=f"^LatentAlignmentHead: `targets` must be ids from 0 to 42. .*: {wrong}"):
        head(**inputs, targets=targets)


@pytest.mark.one_backend
@pytest.mark.parametrize("name", ["prior", "states", "targets"])
def test_inputs_that_are_no_tensors(name):
    given = {**inputs_of(), "targets": TARGETS, name: "words"}
    with pytest.raises(ValueError, match=f"^LatentAlignmentHead: `{name}` must be a tensor of shape .*: 'words'"):
        LatentAlignmentHead(VOCABULARY, width=5)(**given)


@pytest.mark.parametrize("wrong", [-1, VOCABULARY])
def test_targets_that_are_not_in_the_vocabulary(wrong):
    head, inputs = head_of(inputs_of()), inputs_of()
    targets = np.array(TARGETS)
    targets[1, 2] = wrong
    for given in (targets, ops.convert_to_tensor(targets)):
        with pytest.raises(ValueError, match=f"^LatentAlignmentHead: `targets` must be ids from 0 to 42. .*: {wrong}"):
            head(**inputs, targets=given)
    # A compiled call cannot raise: the row is NaN, and no other one is touched.
    found, clean = compiled(lambda x, y, z: [head.call(**x, targets=t) for t in (y, z)])(inputs, targets, TARGETS)
    for name in ("log_probs", "posterior"):
        assert np.isnan(found[name][1, 2]).all()
        kept = np.arange(BATCH * TARGET) != 5
        np.testing.assert_array_equal(*(x[name].reshape(BATCH * TARGET, -1)[kept] for x in (found, clean)))


@pytest.mark.one_backend
def test_steps_that_do_not_fit():
    head, inputs = head_of(inputs_of()), inputs_of()
    rows = {name: ops.convert_to_tensor(inputs[name][:, 0]) for name in ("prior", "embedded", "states")}
    memory = head.prepare(inputs["encoded"])
    with pytest.raises(ValueError, match=r"`states` of a step must .* Received: shape \(2, 3, 7\)"):
        head.step(**{**rows, "states": inputs["states"]}, memory=memory)
    with pytest.raises(ValueError, match="call the layer or `build` it first"):
        LatentAlignmentHead(VOCABULARY, width=5).prepare(inputs["encoded"])


@pytest.mark.one_backend
def test_sizes_of_numpy_and_an_initialiser_that_is_a_function():
    def ones(shape, dtype=None):
        return ops.ones(shape, dtype)

    head = LatentAlignmentHead(np.int64(9), np.int32(4), top_k=np.int16(2), kernel_initializer=ones)
    head.build(*(x.shape for x in inputs_of().values()))
    assert [type(head.get_config()[name]) for name in ("vocabulary_size", "width", "top_k")] == [int] * 3
    assert all((ops.convert_to_numpy(weight) == 1).all() for weight in head.weights)
