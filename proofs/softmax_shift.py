"""A common shift of all logits does not change what softmax makes of them.

    softmax((W_U + 1 v) x) = softmax(W_U x)

for every row v, which adds the same number v x to the logit of every word. The hypothesis is the fact about softmax at these
logits, softmax(y + s 1) = softmax(y).
"""

from opalgebra import FEATURES, Atom, Equal, K, Space, Theorem, calc, state, theorem


@theorem
def softmax_shift() -> Theorem:
    """The sum acts pointwise, and then the hypothesis."""
    words = Space("words")
    softmax = Atom("softmax", kind="nonlinear", domain=words, codomain=words)
    unembedding = Atom("W_U", kind="linear", domain=FEATURES, codomain=words)
    ones = Atom("ones", kind="linear", domain=K, codomain=words)
    row, x = Atom("v", kind="linear", domain=FEATURES, codomain=K), state("x", codomain=FEATURES)
    shift = Equal(softmax @ (unembedding @ x + ones @ row @ x), softmax @ unembedding @ x)
    return calc(softmax @ (unembedding + ones @ row) @ x).to(shift.lhs).to(shift.rhs, by=shift).theorem
