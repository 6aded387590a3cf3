"""A network of linear layers as one resolvent: all states, and all propagators between them, at once.

    (1 - N)^-1 = sum over l >= m of inj_l G(l, m) proj_m,    G(l, m) = T_l ... T_{m+1}

where N takes the state of each depth to the next; the layers are linear, as dressed ones are. Here for three layers.
Then N^4 = 0, and (1 - N)^-1 is the finite sum 1 + N + N^2 + N^3. The hypotheses are the equations of the direct sum,
and that 1 - N has an inverse.
"""

from opalgebra import Theorem, atoms, network, network_resolvent, theorem


@theorem
def resolvent_of_layers() -> Theorem:
    """Column by column, from (1 - N) @ column = inj_m."""
    return network_resolvent(network(atoms("T1 T2 T3", kind="linear")))
