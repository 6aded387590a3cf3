"""What is asked of a binding of a decoder, each in one line: for tests that ask all of it on another device."""

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

import opalgebra as oa
from opalgebra import analysis
from opalgebra.facts import Form
from opalgebra.numeric.orders import undressed
from opalgebra.testing import check_model, plant

PADDED = [[0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1]]


def _again(M, **options):
    return oa.bind(M.model, M.ids, **options)


def _terms(M):
    S, x = M.T.dyson(counting="attention"), M.T.x[0]
    sources = [source for source, _ in zip(S.sources(1), range(3))]
    return [M.evaluate(state) for state in (S.term(1, 0) @ x, S.term(2, 0) @ x, M.T.operator @ x, M.T.x[-1], *sources)]


def _forms(M):
    M = _again(M, heads=True)
    forms = oa.frozen_forms(_dressed(M.T), tokens=2, centered=False)
    return [oa.verify(oa.equation(form.dressing, form.form), M).residual for form in forms if isinstance(form, Form)]


def _dressed(T):
    dressings = []
    for stage in T.stages:
        for branch in stage.branches:
            norm = oa.dressed(branch.before, T.x[stage.number - 1])
            dressings += [oa.dressed(vertex, branch.before @ T.x[stage.number - 1]) @ norm for vertex in branch.vertices]
    return sum(dressings, start=0 * oa.Identity(oa.X))


USES = {
    "terms": _terms,
    "forms": _forms,
    "equation": lambda M: oa.verify(oa.equation(M.T.x[2], M.T.stages[1].factor @ M.T.x[1]), M).residual,
    "theorem": lambda M: oa.verify(oa.expand(M.T.stages[0].factor @ M.T.x[0]), M).residual,
    "heads": lambda M: _again(M, heads=True).orders(counting="attention").norms,
    "source": lambda M: _again(M, split={"attention": "source", "ffn": "source"}).orders().norms,
    "tangent": lambda M: _again(M, split="tangent").orders(order=1).norms,
    "half": lambda M: _again(M, gated="half").orders(counting="ffn").norms,
    "accumulated": lambda M: _again(M, accumulate="float64").orders().rounding,
    "padded": lambda M: _again(M, mask=PADDED).orders().norms,
    "undressed": lambda M: undressed(M).norms,
    "planted": lambda M: oa.verify(M.T.dyson(), plant(M, M.T.attention[2], 0.1)).residual,
    "check_model": lambda M: [part.residual for part in check_model(M.model, M.ids).agreements],
    "logits": lambda M: M.orders().logits(5, minus=7).orders,
    "to_dict": lambda M: M.orders().to_dict()["norms"],
    "measurement": lambda M: analysis.measurement(M).by_order,
    "logit_lens": analysis.logit_lens,
    "frozen_logits": analysis.frozen_logits,
    "saturation": lambda M: analysis.saturation(M).entropy,
    "resum": lambda M: analysis.resum(M.orders(), method="rre", orders=4).value,
    "regulated": lambda M: [analysis.regulated(M, **{how: what}).norms for how, what in analysis.REGULATORS],
    "head_spectra": lambda M: analysis.head_spectra(M, draws=9).statistics,
    "channels": lambda M: analysis.channels(M, 1, 2).virtual,
    "attention_kernel": lambda M: analysis.attention_kernel(M, 2, 1, 1).kernel,
    "gram": lambda M: analysis.gram(M).spectrum,
}
ONE_ROW = {
    "rank_collapse": lambda M: analysis.rank_collapse(M).dobrushin,
    "token_flow": lambda M: analysis.token_flow(M, oa.Diagram(M.T.dyson().term(2, 1)), 5).contribution,
    "strongest_diagrams": lambda M: analysis.strongest_diagrams(M, 5, minus=7, order=2).contributions,
    "strongest_worldlines": lambda M: analysis.strongest_worldlines(M, 5, order=2).total,
    "exponents": lambda M: analysis.model_exponents(M, 3, draws=1, sweeps=2).own.exponents,
    "token_blocks": analysis.token_blocks,
    "pseudospectrum": lambda M: analysis.krylov_pseudospectrum(analysis.dressed_layer(M, 1), n=4).sigma_min,
}
DIFFERENTIATED = {"jacobian": lambda M: _again(M, split="jacobian").orders(order=1).norms}


def numbers(result):
    """The arrays of a result, on the CPU."""
    leaves = (leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf for leaf in tree_leaves(result))
    return [np.asarray(leaf) for leaf in leaves if leaf is not None]
