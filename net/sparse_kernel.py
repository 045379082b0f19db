"""One evaluation of a sparse network in one compiled call: features, value, and priors of the legal actions.

    hidden = relu(sum of the rows of the active features + bias)              WIDTH
    value  = relu(hidden . V) . O            win, draw, loss                  VALUE_WIDTH, then 3
    u      = hidden . P                                                       POLICY_WIDTH
    logit of an action = u . (sum of its rows) + the sum of its rows' biases

The trick: all sums have one fixed order that no compiler may change. So an answer has the same bits alone, in
any batch, inside the search, and on any processor. The sums are written so that this order is also fast: the
inner loop runs over neighbouring numbers, the outer one over four rows or four inputs at a time.

`weights` is one vector, because each array of a kernel costs time to compile; `Layout` says where things are.
Only `net.sparse` binds and calls this module.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from azselfplay.games.bits import scratch_float32, scratch_int32
from azselfplay.games.jit import Unbound, kernel, signed
from azselfplay.games.spec import Game, SparseFeatures
from azselfplay.games.stubs import describe

FEATURES, WIDTH, VALUE_WIDTH, POLICY_WIDTH, TABLES = (Unbound() for _ in range(5))
OUT = Unbound()
"""VALUE_WIDTH + POLICY_WIDTH"""
MOST_ACTIVE, MOST_ROWS = Unbound(), Unbound()
"""Room for the active features (a multiple of FOUR), and for the rows of all legal actions."""
BIAS_AT, OUT_AT, OUT_BIAS_AT, LAST_AT, LAST_BIAS_AT, ROWS_AT, ROW_BIAS_AT = (Unbound() for _ in range(7))

FOUR = 4
"""Rows or inputs that are added at a time."""
ALIGNED = 16
"""Rows of actions begin at a multiple of this."""
ZERO = np.float32(0)


@kernel
def evaluate(
    weights: Any, packed_features: Any, history: int, actions: Any, count: int, priors: Any, wdl: Any
) -> None:
    """Evaluate one position: write `priors` float32[count] of its legal `actions` uint16[count], and `wdl`
    float32[3] for the side to move. `packed_features`: uint64[feature_words]."""
    active, rows = scratch_int32(MOST_ACTIVE), scratch_int32(MOST_ROWS)
    found = describe(packed_features, history, actions, count, active, rows)
    # Padded with rows of zeros, so that the loops below have no remainder.
    while found % FOUR != 0:
        active[found] = FEATURES  # the row of zeros
        found += 1

    hidden = scratch_float32(WIDTH)
    bias = weights[BIAS_AT : BIAS_AT + WIDTH]
    for j in range(WIDTH):
        hidden[j] = bias[j]
    # Four rows at a time, so that `hidden` is read and written a quarter as often.
    for k in range(0, found, FOUR):
        a, b = signed(active[k]) * WIDTH, signed(active[k + 1]) * WIDTH
        c, d = signed(active[k + 2]) * WIDTH, signed(active[k + 3]) * WIDTH
        row_a, row_b = weights[a : a + WIDTH], weights[b : b + WIDTH]
        row_c, row_d = weights[c : c + WIDTH], weights[d : d + WIDTH]
        for j in range(WIDTH):
            hidden[j] += (row_a[j] + row_b[j]) + (row_c[j] + row_d[j])

    out = scratch_float32(OUT)
    bias = weights[OUT_BIAS_AT : OUT_BIAS_AT + OUT]
    for i in range(OUT):
        out[i] = bias[i]
    # Value and policy vector together, because both read `hidden`; ReLU is applied on reading.
    for j in range(0, WIDTH, FOUR):
        p, q = max(hidden[j], ZERO), max(hidden[j + 1], ZERO)
        r, s = max(hidden[j + 2], ZERO), max(hidden[j + 3], ZERO)
        at = OUT_AT + j * OUT
        row_a, row_b = weights[at : at + OUT], weights[at + OUT : at + 2 * OUT]
        row_c, row_d = weights[at + 2 * OUT : at + 3 * OUT], weights[at + 3 * OUT : at + 4 * OUT]
        for i in range(OUT):
            out[i] += (p * row_a[i] + q * row_b[i]) + (r * row_c[i] + s * row_d[i])

    win, draw, loss = weights[LAST_BIAS_AT], weights[LAST_BIAS_AT + 1], weights[LAST_BIAS_AT + 2]
    for i in range(VALUE_WIDTH):
        v, at = max(out[i], ZERO), LAST_AT + 3 * i
        win += v * weights[at]
        draw += v * weights[at + 1]
        loss += v * weights[at + 2]
    # Subtract the largest logit, so that no exponential overflows.
    largest = max(win, max(draw, loss))
    win, draw, loss = math.exp(win - largest), math.exp(draw - largest), math.exp(loss - largest)
    total = win + draw + loss
    wdl[0], wdl[1], wdl[2] = win / total, draw / total, loss / total
    write_priors(weights, out[VALUE_WIDTH:OUT], rows, count, priors)


@kernel
def write_priors(weights: Any, u: Any, rows: Any, count: int, priors: Any) -> None:
    """Write `priors` float32[count], the softmax of the logits of `count` actions with these `rows`
    int32[count * TABLES], for `u` float32[POLICY_WIDTH]."""
    parts = scratch_float32(POLICY_WIDTH)
    largest = np.float32(-np.inf)
    for i in range(count):
        # Copy the first row, instead of adding it to zeros.
        row = signed(rows[i * TABLES])
        logit, at = weights[ROW_BIAS_AT + row], ROWS_AT + row * POLICY_WIDTH
        numbers = weights[at : at + POLICY_WIDTH]
        for j in range(POLICY_WIDTH):
            parts[j] = numbers[j]
        for t in range(1, TABLES):
            row = signed(rows[i * TABLES + t])
            logit += weights[ROW_BIAS_AT + row]
            at = ROWS_AT + row * POLICY_WIDTH
            numbers = weights[at : at + POLICY_WIDTH]
            for j in range(POLICY_WIDTH):
                parts[j] += numbers[j]
        logit += product(u, parts)
        priors[i] = logit
        largest = max(largest, logit)
    total = ZERO
    for i in range(count):
        # Subtract the largest, so that no exponential overflows.
        priors[i] = math.exp(priors[i] - largest)
        total += priors[i]
    for i in range(count):
        priors[i] /= total


@kernel
def product(vector: Any, parts: Any) -> np.float32:
    """Return the dot product of `vector` and `parts`, both float32[POLICY_WIDTH]; overwrites `parts`. Adds
    one half to the other again and again, as vector instructions do."""
    for j in range(POLICY_WIDTH):
        parts[j] *= vector[j]
    # Not written as a loop: so the length of each step is known to the compiler, and it takes few
    # instructions.
    for j in range(POLICY_WIDTH // 2):
        parts[j] += parts[j + POLICY_WIDTH // 2]
    for j in range(POLICY_WIDTH // 4):
        parts[j] += parts[j + POLICY_WIDTH // 4]
    for j in range(POLICY_WIDTH // 8):
        parts[j] += parts[j + POLICY_WIDTH // 8]
    for j in range(POLICY_WIDTH // 16):
        parts[j] += parts[j + POLICY_WIDTH // 16]
    total = ZERO
    for j in range(POLICY_WIDTH // 16):
        total += parts[j]
    return total


@kernel
def evaluate_all(
    weights: Any, packed_features: Any, history: int, counts: Any, actions: Any, priors: Any, wdl: Any
) -> None:
    """Evaluate a batch: `packed_features` uint64[n, feature_words], `counts` uint16[n], `actions` and
    `priors` [sum of counts], `wdl` float32[n, 3]."""
    begin = 0
    for row in range(len(counts)):
        end = begin + signed(counts[row])
        evaluate(
            weights,
            packed_features[row],
            history,
            actions[begin:end],
            end - begin,
            priors[begin:end],
            wdl[row],
        )
        begin = end


@kernel
def describe_all(
    packed_features: Any, history: int, counts: Any, actions: Any, active: Any, begins: Any, rows: Any
) -> int:
    """Describe a batch for training: writes the features of all positions to `active` int32[room], those of
    position `i` from `begins[i]` (int64[n]) on, and the rows of actions to `rows` int32[sum of counts *
    TABLES]. Returns the number of features."""
    found, begin = 0, 0
    for row in range(len(counts)):
        end = begin + signed(counts[row])
        begins[row] = found
        mine = rows[begin * TABLES : end * TABLES]
        found += describe(
            packed_features[row], history, actions[begin:end], end - begin, active[found:], mine
        )
        begin = end
    return found


@kernel
def shared_all(shared: Any, active: Any, begins: Any, found: Any, found_begins: Any) -> None:
    """Write the shared rows of all positions to `found` int32[room], those of position `i` from
    `found_begins[i]` (int64[n + 1]) on. They are the numbers >= 0 in the rows of `shared` int32[FEATURES, k]
    that belong to its active features. `active` and `begins` are as in `sum_rows`."""
    n = 0
    for i in range(len(begins) - 1):
        found_begins[i] = n
        for k in range(begins[i], begins[i + 1]):
            for row in shared[active[k]]:
                if row >= 0:
                    found[n] = row
                    n += 1
    found_begins[len(begins) - 1] = n


# ---- For training: sums of rows and their gradients, which torch computes several times slower -------------


@kernel
def sum_rows(table: Any, active: Any, begins: Any, sums: Any) -> None:
    """Write to `sums` float32[n, WIDTH] sums of rows of `table` float32[FEATURES, WIDTH]: for position `i`
    the rows that `active` int32[all] names from `begins[i]` (int64[n + 1]) to `begins[i + 1]`."""
    for i in range(len(sums)):
        total = sums[i]
        for j in range(WIDTH):
            total[j] = ZERO
        k, end = begins[i], begins[i + 1]
        # Four rows at a time, so that `total` is read and written a quarter as often.
        while k + FOUR <= end:
            row_a, row_b = table[active[k]], table[active[k + 1]]
            row_c, row_d = table[active[k + 2]], table[active[k + 3]]
            for j in range(WIDTH):
                total[j] += (row_a[j] + row_b[j]) + (row_c[j] + row_d[j])
            k += FOUR
        while k < end:
            row = table[active[k]]
            for j in range(WIDTH):
                total[j] += row[j]
            k += 1


@kernel
def spread_rows(gradients: Any, active: Any, begins: Any, of_table: Any) -> None:
    """Add the gradients of the sums, float32[n, WIDTH], to the gradients of the rows, `of_table`
    float32[FEATURES, WIDTH]. The other arguments are as in `sum_rows`."""
    for i in range(len(gradients)):
        gradient = gradients[i]
        for k in range(begins[i], begins[i + 1]):
            row = of_table[active[k]]
            for j in range(WIDTH):
                row[j] += gradient[j]


@kernel
def action_logits(vectors: Any, table: Any, biases: Any, of: Any, rows: Any, logits: Any) -> None:
    """Write to `logits` float32[entries] the products of a position's vector, `vectors[of[e]]` float32[n,
    POLICY_WIDTH], with the sum of the rows `rows[e]` (int32[entries, TABLES]) of `table` float32[action rows,
    POLICY_WIDTH], plus these rows' `biases` float32[action rows]. A row beyond the table counts as zeros."""
    parts = scratch_float32(POLICY_WIDTH)
    for e in range(len(logits)):
        bias = add_action_rows(table, biases, rows[e], parts)
        logits[e] = bias + product(vectors[of[e]], parts)


@kernel
def add_action_rows(table: Any, biases: Any, rows: Any, total: Any) -> np.float32:
    """Write the sum of the `rows` int32[TABLES] of `table` to `total` float32[POLICY_WIDTH]. Returns the sum
    of these rows' biases."""
    bias = ZERO
    for j in range(POLICY_WIDTH):
        total[j] = ZERO
    for t in range(TABLES):
        if rows[t] < len(table):
            row = table[rows[t]]
            bias += biases[rows[t]]
            for j in range(POLICY_WIDTH):
                total[j] += row[j]
    return bias


@kernel
def spread_logits(
    gradients: Any,
    vectors: Any,
    table: Any,
    of: Any,
    rows: Any,
    of_vectors: Any,
    of_table: Any,
    of_biases: Any,
) -> None:
    """Add the gradients of the logits, float32[entries], to those of vectors, table and biases. The other
    arguments are as in `action_logits`."""
    total = scratch_float32(POLICY_WIDTH)
    for e in range(len(gradients)):
        vector, of_vector, gradient = vectors[of[e]], of_vectors[of[e]], gradients[e]
        add_action_rows(table, of_biases, rows[e], total)
        for j in range(POLICY_WIDTH):
            of_vector[j] += gradient * total[j]
        for t in range(TABLES):
            if rows[e, t] < len(table):
                of_row = of_table[rows[e, t]]
                of_biases[rows[e, t]] += gradient
                for j in range(POLICY_WIDTH):
                    of_row[j] += gradient * vector[j]


# ---- Where the weights are ---------------------------------------------------------------------------------


class Layout(NamedTuple):
    """Where each part of a network begins in its vector of weights. The vector begins with the rows of the
    features [features + 1, width], the last of which is zeros."""

    bias: int
    """[width]"""
    out: int
    """[width, value_width + policy_width]"""
    out_bias: int
    """[value_width + policy_width], zeros for the policy"""
    last: int
    """[value_width, 3]"""
    last_bias: int
    """[3]"""
    rows: int
    """[action_rows + 1, policy_width], the last row is zeros"""
    row_bias: int
    """[action_rows + 1], the last one is zero"""
    end: int
    """Length of the vector."""


def layout_of(features: SparseFeatures, width: int, value_width: int, policy_width: int) -> Layout:
    """Return the layout of a network of these sizes."""
    bias = (features.features + 1) * width
    out = bias + width
    out_bias = out + width * (value_width + policy_width)
    last = out_bias + value_width + policy_width
    last_bias = last + 3 * value_width
    rows = -(-(last_bias + 3) // ALIGNED) * ALIGNED
    row_bias = rows + (features.action_rows + 1) * policy_width
    return Layout(bias, out, out_bias, last, last_bias, rows, row_bias, row_bias + features.action_rows + 1)


def network_bindings(
    game: Game, features: SparseFeatures, width: int, value_width: int, policy_width: int
) -> list[tuple[Any, Any]]:
    """Return what to bind to the names of this module for a network of these sizes."""
    layout = layout_of(features, width, value_width, policy_width)
    values = (
        (FEATURES, features.features), (MOST_ACTIVE, -(-features.most_active // FOUR) * FOUR),
        (TABLES, features.tables), (MOST_ROWS, game.max_legal * features.tables),
        (WIDTH, width), (VALUE_WIDTH, value_width), (POLICY_WIDTH, policy_width),
        (OUT, value_width + policy_width),
        (BIAS_AT, layout.bias), (OUT_AT, layout.out), (OUT_BIAS_AT, layout.out_bias), (LAST_AT, layout.last),
        (LAST_BIAS_AT, layout.last_bias), (ROWS_AT, layout.rows), (ROW_BIAS_AT, layout.row_bias),
    )  # fmt: skip
    return list(values)
