# %% [markdown]
# # Propagators
# Resolvents, self-energies and tensor products: what many-body physics does on paper, with its hypotheses written down.

# %%
import opalgebra as oa

A, B, C, D, P = oa.atoms("A B C D P", kind="linear")
F, G, H = oa.atoms("F G H", kind="nonlinear")
g, t = oa.parameter("g"), oa.parameter("t")

# %% The resolvent identity holds for every map; its mirror image and the Neumann series need a linear one.
print(oa.resolvent_identity(F))
print(oa.resolvent_identity(A, mirror=True))
print(oa.neumann(A, 3, nilpotent=True))

# %% Chosen vertices summed to all orders: Dyson's equation, and the self-energy as a Schur complement.
print(oa.dyson_equation(A, P))
print(oa.self_energy(A, B, C, D).rhs)

# %% A network is one resolvent: all states of a forward pass at once, for nonlinear layers too.
net = oa.network([F, G, H])
print(oa.network_states(net).rhs)
print(oa.network_resolvent(oa.network([A, B])).rhs)

# %% Declared facts rewrite words, and become hypotheses.
print(oa.simplify(P @ (A + P) @ P, facts=[oa.Idempotent(P)]))
print(oa.simplify(oa.commutator(A @ B, A), facts=[oa.Commute(A, B)]))

# %% Frozen attention is a tensor product. What commutes follows from the factors alone.
T = oa.transformer(1, heads=2)
stack = oa.dressed(T.operator, T.x[0])
forms = oa.frozen_forms(stack, tokens=2, centered=False)
by_name = {form.dressing.operator.name: form.dressing for form in forms if isinstance(form, oa.Form)}
attention, ffn, norm = by_name["A1_0"], by_name["F1"], by_name["N1"]
print(oa.simplify(attention @ norm, facts=forms).rhs)
print(oa.simplify(ffn @ attention - attention @ ffn, facts=forms).rhs)

# %% The product rule keeps its order, and so does a power series; a grading is no coupling.
print(oa.derivative(oa.inverse(1 - t * A) @ B, t).value)
print(*oa.coefficients(oa.inverse(1 - g * A) @ (1 + g * B), g, 2).terms, sep="; ")
x = oa.state("x")
print(oa.grading(oa.dressed(F, G @ x) @ x, g, [F, G]), "but", oa.coupling(oa.dressed(F, G @ x) @ x, g, [F, G]))

# %% Traces are cyclic, and a trace over the features leaves an operator on the positions.
print(oa.trace(A @ B) - oa.trace(B @ A) == oa.Zero(oa.K, oa.K))
(pattern, weight) = oa.simplify(attention, facts=forms).rhs.blocks
print(oa.trace(oa.tensor(pattern @ pattern, weight), "features"))
