"""The freedom to choose a basis of the values, for each head that keys and values share.

    (W_O M^-1) (M W_V) = W_O W_V

for every invertible M; every output matrix of a group of heads changes with the value matrix that they share.
"""

from opalgebra import FEATURES, Atom, Inverse, Space, Theorem, auto, inverse, theorem


@theorem
def gauge_values() -> Theorem:
    """M^-1 M = 1 in the middle."""
    head = Space("head")
    value = Atom("W_V", kind="linear", domain=FEATURES, codomain=head)
    output = Atom("W_O", kind="linear", domain=head, codomain=FEATURES)
    M = Atom("M", kind="linear", domain=head, codomain=head)
    return auto(output @ inverse(M) @ M @ value, output @ value, facts=[Inverse(M)])
