from tests.layers.equations import HEADED, dot_product


def accumulated_weight(weights, *inputs):
    def change(i, n, j, past):
        return sum(past.scores[n, :i, j]) * weights["weight_kernel"][n]

    return dot_product(weights, *inputs, change=change)


REFERENCES = {"accumulated_weight": HEADED(accumulated_weight, picture=({}, {"weight_kernel": -8.0}))}
