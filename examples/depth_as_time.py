# %% [markdown]
# # Depth as time
# A Transformer is an ordered product of maps, a layer is 1 + V, and expanding the product gives a Dyson series.

# %%
import opalgebra as oa

V, F, x = oa.family("V", kind="linear"), oa.family("F", kind="nonlinear"), oa.state("x")
l, n, L, M = map(oa.symbol, "l n L M".split())

# %% Three linear layers, expanded: later factors stand to the left.
U = oa.ordered_product(1 + V[depth] for depth in (1, 2, 3))
print(oa.expand(U))

# %% Matrices do not commute, and nothing here pretends that they do.
A, B = oa.atoms("A B", kind="linear")
print(oa.expand((A + B) @ (A - B)))
print(oa.collect(A @ B + B @ B, B, side="right"))
print(oa.substitute(A @ B @ A, {A @ B: V[1]}), "but", oa.substitute(A @ B @ A, {A @ A: V[1]}))

# %% A nonlinear map is not distributed; on a state it is dressed by what it reads.
print(oa.expand(F[1] @ (A + B)))
print(oa.expand((1 + F[2]) @ (1 + F[1]) @ x))

# %% Any depth: the product is one object, splits anywhere, and unfolds at its ends.
P = oa.ordered_product(1 + V[l], l, 1, L + M)
print(oa.split(P, L))
print(oa.unfold(oa.ordered_product(1 + V[l], l, 1, L + 1)))

# %% Its Dyson series is a theorem, proved by induction over the depth.
theorem = oa.dyson_theorem(V, L)
print(theorem)
print(oa.latex(theorem.rhs))
print("words of order 3:", oa.binomial(L, 3))


# %% The same for nonlinear layers of any depth, each dressed by the state before it.
def vertex(depth):
    return oa.dressed(F[depth], oa.ordered_product(1 + F[n], n, 1, depth - 1) @ x)


print(oa.expand(oa.ordered_product(1 + F[l], l, 1, L) @ x))
print(oa.dyson_theorem(vertex, L))

# %% A real architecture: norms are operators, heads are vertices, and the counts are instant.
T = oa.transformer(layers=96, heads=96, norm="sandwich")
print(oa.transformer(1, norm="sandwich").operator)
print(T.dyson(counting="attention"))
print(oa.transformer(2, norm="post").dyson().term(2, 0))
