# %% [markdown]
# # Non-normality
# What eigenvalues do not say: pseudospectra of dressed layers, growth along depth, every head against a null model; two real
# models, each on a page of figures in build/non_normality.

# %%
from pathlib import Path

import numpy as np

import opalgebra as oa
from opalgebra import analysis
from opalgebra.plot import save_figure
from opalgebra.plot_spectra import non_normality_figure

FOLDER = Path("build/non_normality")
FOLDER.mkdir(parents=True, exist_ok=True)

# %% A matrix first: its eigenvalues promise decay, and its powers grow before they decay.
A = np.array([[0.9, 10.0], [0.0, 0.8]])
growth, kreiss = analysis.transient_growth(A), analysis.kreiss_constant(A)
print(f"spectral radius 0.9, but ||A^{growth.k}|| = {growth.lower:.2f}, Kreiss constant {kreiss.value:.2f}")
print(f"a perturbation of norm {analysis.distance_to_instability(A, 'discrete').value:.1e} makes it unstable")


# %% The same questions to a model, on the states of all its tokens at once: no layer is written as a matrix.
def page(name, prompt, layers):
    bound = oa.bind(oa.load(name), prompt)
    print(f"\n{name}: {len(bound.frozen)} stages on {bound.tokens} tokens of {bound.states.shape[-1]} features")

    spectra = {}
    for layer in layers:
        found = analysis.krylov_pseudospectrum(analysis.dressed_layer(bound, layer), n=30, dimension=80)
        spectra[f"layer {layer}, dressed: $\\sigma_\\min(z - A)$"] = found
        rightmost, reach = found.eigenvalues.real.max(), found.z.real[found.sigma_min < 1].max()
        print(f"layer {layer}: eigenvalues to Re z = {rightmost:.1f}, the set of eps = 1 to {reach:.1f} at least")

    exponents = analysis.model_exponents(bound, 6, draws=3)
    first, twins = exponents.own.exponents[0], exponents.baseline[:, 0]
    print(f"largest exponent {first:.2f} nats per stage, of Gaussian twins {twins.mean():.2f}")

    heads = tuple(analysis.head_spectra(bound, kind) for kind in ("ov", "qk"))
    for found in heads:
        p_values = found.p_values[..., 0]
        print(f"{found.kind}: the spectral radius of {(p_values <= 0.01).mean():.0%} of {p_values.size} heads has p <= 0.01")

    along, collapse = analysis.saturation(bound), analysis.rank_collapse(bound)
    print(f"last step {along.step[-1, -1]:.2f} of the state; least residual to rank one {collapse.residual.min():.2f}")
    return non_normality_figure(spectra, exponents, heads, along, collapse, title=f"{name}, “{prompt}”")


PAGES = (("smollm2", "The capital of France is", (3, 15, 30)), ("minilm", "The capital of France", (1, 3, 6)))
for name, prompt, layers in PAGES:
    figure = page(name, prompt, layers)
    figure.set_dpi(200)
    for ending in ("pdf", "png"):
        save_figure(figure, FOLDER / f"{name}.{ending}")
