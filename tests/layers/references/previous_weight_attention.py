from tests.layers.equations import HEADED, dot_product


def previous_weight(weights, *inputs):
    def change(i, n, j, past):
        return past.scores[n, i - 1, j] * weights["weight_kernel"][n] if i else 0

    return dot_product(weights, *inputs, change=change)


REFERENCES = {"previous_weight": HEADED(previous_weight, picture=({}, {"weight_kernel": 8.0}))}
