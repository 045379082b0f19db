"""The arrays of one search tree. Node 0 is the root; a node owns a run of consecutive edges.

A node exists from the moment its position was evaluated, so nodes and their edges are laid down in
the order of expansion: a child always stands behind its parent. `compact` relies on that.
"""

from __future__ import annotations

import numpy as np

NODE = np.dtype([("first_edge", np.int32), ("edge_count", np.int32)])

EDGE = np.dtype(
    [
        ("prior", np.float32),  # policy of the network, with noise at the root
        ("value_sum", np.float32),  # for the side that chooses this edge
        ("visits", np.int32),
        ("child", np.int32),  # node, or UNEXPANDED or TERMINAL
        ("action", np.uint16),
        ("unused", np.uint16),  # keeps the record at 20 bytes whatever the compiler aligns to
    ]
)

UNEXPANDED = -1
"""`child` of an edge whose position has not been evaluated yet."""
TERMINAL = -2
"""`child` of an edge that ends the game; its value is value_sum / visits, whatever the visits."""

ALPHAZERO, ALPHAGO_ZERO, UCB = 0, 1, 2
"""`exploration` in CONTROL, see SelfPlaySettings."""

CONTROL = np.dtype(
    [
        # settings (protocol.settings.SelfPlaySettings)
        ("c_base", np.float64),
        ("c_init", np.float64),
        ("c_puct", np.float64),
        ("forced_playouts", np.float64),  # of this search: 0 without noise
        ("exploration", np.int32),  # ALPHAZERO, ALPHAGO_ZERO or UCB
        ("fpu_absolute", np.int32),
        ("history", np.int32),
        ("fpu_reduction", np.float64),
        ("fpu_reduction_root", np.float64),
        ("fpu_value", np.float64),
        ("max_plies", np.int32),
        ("max_legal", np.int32),
        ("gumbel_c_visit", np.float64),
        ("gumbel_c_scale", np.float64),
        # where the tree stands
        ("nodes", np.int32),  # nodes in use; 0: the root has not been evaluated
        ("edges", np.int32),  # edges in use
        ("positions", np.int32),  # length of the game's line up to the root
        ("remaining", np.int32),  # simulations still to run in this search
        ("root_visits", np.int32),  # 1 for its own evaluation, 1 for each simulation through it
        ("root_value_sum", np.float32),  # for the side to move at the root
        # the leaf that waits for its evaluation
        ("depth", np.int32),  # edges on the path to it
        ("leaf_count", np.int32),  # its legal actions
        # how far down this search's simulations went
        ("deepest", np.int32),
        ("depth_sum", np.int64),
    ],
    align=True,
)

DONE, FULL, MISFIT = 0, -1, -2
"""What `select` and `resume` come back with if not the number of legal actions of a leaf to evaluate: there
are no simulations left; the arrays must grow; the answer has not one prior for each legal action of the leaf
that waits, and nothing was changed."""
