"""Without linearity the bare series is false: the counter-theorem.

    (1 + F_2) (1 + F_1) = 1 + F_1 + F_2 F_1

when F_2 is constant, F_2 G = F_2 for every map G: the hypotheses say so of 1 + F_1 and of F_1. The bare Dyson series 1 + F_1
+ F_2 + F_2 F_1 is larger by F_2, and so it is false for every constant F_2 other than 0. A bias is such a map, and so is a
block whose output is frozen.
"""

from opalgebra import Equal, Theorem, auto, calc, family, theorem


@theorem
def bare_series() -> Theorem:
    """The sum on the left acts pointwise, and then the hypotheses: F_2 is added once, where the series adds it twice."""
    F = family("F", kind="nonlinear")
    product = (1 + F[2]) @ (1 + F[1])
    series = 1 + F[1] + F[2] + F[2] @ F[1]
    constant = [Equal(F[2] @ (1 + F[1]), F[2]), Equal(F[2] @ F[1], F[2])]
    expanded = calc(product).to(1 + F[1] + F[2] @ (1 + F[1])).to(1 + F[1] + F[2], by=constant[0])
    return expanded.to(series - F[2], by=auto(1 + F[1] + F[2], series - F[2], facts=constant[1:])).theorem
