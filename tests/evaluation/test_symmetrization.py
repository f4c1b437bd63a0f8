import numpy as np
import pytest

from keras_attn_zoo.evaluation.symmetrization import SYMMETRIZATIONS, symmetrize
from keras_attn_zoo.support.errors import UserError


def links(text):
    return {tuple(map(int, link.split("-"))) for link in text.split()}


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("intersection", "0-0 1-1"),
        ("union", "0-0 1-1 1-2 2-2 3-0 5-4"),
        # 1-2 and 2-2 are beside 1-1 and one of these; 3-0 and 5-4 are beside none.
        ("grow-diag", "0-0 1-1 1-2 2-2"),
        ("grow-diag-final", "0-0 1-1 1-2 2-2 3-0 5-4"),
        # The target word 0 has a link.
        ("grow-diag-final-and", "0-0 1-1 1-2 2-2 5-4"),
    ],
)
def test_links_found_by_hand(method, expected):
    assert symmetrize(links("0-0 1-1 1-2 5-4"), links("0-0 1-1 2-2 3-0"), method) == links(expected)


@pytest.mark.parametrize(
    ("forward", "reverse", "expected"),
    [
        # Both candidates are beside 1-1: the one beside it in the row of its target word comes before the one across.
        ("1-1 2-2", "1-1 2-1", "1-1 2-1 2-2"),
        # 0-1 comes first, by which the source word 0 is covered; 0-2 is beside it, and its target word is not.
        ("0-0 0-1 0-2", "0-0", "0-0 0-1 0-2"),
        # Nothing to begin with: nothing grows.
        ("0-0", "1-1", ""),
    ],
)
def test_growing_by_hand(forward, reverse, expected):
    assert symmetrize(links(forward), links(reverse), "grow-diag") == links(expected)


def test_the_final_step_takes_forward_links_first():
    assert symmetrize(links("0-0"), links("0-1"), "grow-diag-final-and") == links("0-0")
    assert symmetrize(links("0-1"), links("0-0"), "grow-diag-final-and") == links("0-1")


def naive(forward, reverse, method):
    """Koehn's pseudo-code on matrices of target and source positions."""
    size = max((max(link) for link in forward | reverse), default=0) + 1
    f2e, e2f = (np.zeros((size, size), bool) for _ in range(2))
    for j, i in forward:
        f2e[i, j] = True
    for j, i in reverse:
        e2f[i, j] = True
    union, chosen = f2e | e2f, f2e & e2f
    if method == "intersection":
        return chosen
    if method == "union":
        return union
    grown = True
    while grown:
        grown = False
        for i in range(size):
            for j in range(size):
                if not chosen[i, j]:
                    continue
                for di, dj in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)):
                    y, x = i + di, j + dj
                    if not (0 <= y < size and 0 <= x < size and union[y, x]):
                        continue
                    if not chosen[y].any() or not chosen[:, x].any():
                        chosen[y, x] = grown = True
    for direction in (f2e, e2f) if "final" in method else ():
        for i in range(size):
            for j in range(size):
                free = [not chosen[i].any(), not chosen[:, j].any()]
                if direction[i, j] and (all(free) if method.endswith("and") else any(free)):
                    chosen[i, j] = True
    return chosen


@pytest.mark.parametrize("method", SYMMETRIZATIONS)
def test_random_links_are_those_of_the_pseudo_code(method):
    rng = np.random.default_rng(5)
    for _ in range(150):
        sources, targets = rng.integers(1, 9, 2)
        forward = {(int(rng.integers(sources)), i) for i in range(targets) if rng.random() < 0.9}
        reverse = {(j, min(targets - 1, j + int(rng.integers(3)))) for j in range(sources) if rng.random() < 0.9}
        expected = {(int(j), int(i)) for i, j in np.argwhere(naive(forward, reverse, method))}
        assert symmetrize(forward, reverse, method) == expected


def test_an_unknown_method_names_the_nearest():
    with pytest.raises(UserError, match="no symmetrisation 'grow-diagonal': did you mean grow-diag"):
        symmetrize([], [], "grow-diagonal")
