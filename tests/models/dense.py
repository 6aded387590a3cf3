"""The Dyson series of any family by brute force: dense matrices from a model's weights and from hooks on its own forward.

Each norm, attention and feed-forward network is one matrix on (tokens * features), token-major, with a vector that it adds;
what is written down here is asserted to be what the model's own module gave. All selections of vertices are then multiplied
out one by one. Nothing of the library is used but the context in which a float64 model computes in float64.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from opalgebra.numeric.faithful import faithful

# What the oracle writes down equals what the module gave but for the rounding of two products of about 100 terms each.
SAME = 1e-12


@dataclass(frozen=True)
class Affine:
    """`x -> matrix @ x + added`."""

    matrix: np.ndarray
    added: np.ndarray

    def __call__(self, state: np.ndarray) -> np.ndarray:
        return self.matrix @ state + self.added


@dataclass(frozen=True)
class DenseBranch:
    """Vertices by name, what belongs to none of them, and the norms before and after or None."""

    vertices: dict[str, Affine]
    common: np.ndarray
    before: Affine | None
    after: Affine | None

    def carried(self, moved: np.ndarray) -> np.ndarray:
        return moved if self.after is None else self.after.matrix @ moved

    def source(self, vertex: Affine) -> np.ndarray:
        """What a vertex emits, the shift of the norm before it included."""
        return vertex.added if self.before is None else vertex(self.before.added)

    def matrix(self, names) -> np.ndarray:
        total = sum((self.vertices[name].matrix for name in names), np.zeros_like(next(iter(self.vertices.values())).matrix))
        return self.carried(total if self.before is None else total @ self.before.matrix)


@dataclass(frozen=True)
class DenseStage:
    branches: list[DenseBranch]
    after: Affine | None

    @property
    def names(self) -> list[str]:
        return [name for branch in self.branches for name in branch.vertices]

    def factor(self, chosen: str | None, counted: Callable[[str], bool]) -> np.ndarray:
        """The chosen vertex, or one plus those that are not counted; then the norm after the stage."""
        size = len(self.branches[0].common)
        if chosen is None:
            total = np.eye(size) + sum(b.matrix([n for n in b.vertices if not counted(n)]) for b in self.branches)
        else:
            total = sum(branch.matrix([chosen]) for branch in self.branches if chosen in branch.vertices)
        return total if self.after is None else self.after.matrix @ total

    def births(self, counted: Callable[[str], bool]):
        """(what is born, its order), carried to the end of the stage."""
        out = np.eye(len(self.branches[0].common)) if self.after is None else self.after.matrix
        for branch in self.branches:
            for name, vertex in branch.vertices.items():
                yield out @ branch.carried(branch.source(vertex)), int(counted(name))
            yield out @ branch.carried(branch.common), int(all(map(counted, branch.vertices)))
            if branch.after is not None:
                yield out @ branch.after.added, 0
        if self.after is not None:
            yield self.after.added, 0


def brute_force(x0: np.ndarray, stages: list[DenseStage], counted: Callable[[str], bool]) -> tuple[np.ndarray, np.ndarray]:
    """(parts, sources), each (orders, tokens * features): every selection by itself, source-born parts apart in `sources`."""
    orders = 1 + sum(any(map(counted, stage.names)) for stage in stages)
    parts, sources = np.zeros((orders, x0.size)), np.zeros((orders, x0.size))
    for order, value in _applied(x0, stages, counted):
        parts[order] += value
    for place, stage in enumerate(stages):
        for born, first in stage.births(counted):
            for order, value in _applied(born, stages[place + 1 :], counted):
                sources[first + order] += value
    return parts + sources, sources


def _applied(vector: np.ndarray, stages: list[DenseStage], counted: Callable[[str], bool]):
    choices = [(None, *filter(counted, stage.names)) for stage in stages]
    factors = [{choice: stage.factor(choice, counted) for choice in here} for stage, here in zip(stages, choices)]
    for selection in itertools.product(*choices):
        value = vector
        for known, choice in zip(factors, selection):
            value = known[choice] @ value
        yield sum(choice is not None for choice in selection), value


def array(tensor) -> np.ndarray:
    return tensor.detach().double().numpy().copy()


@dataclass(frozen=True)
class Seen:
    """What hooks saw of one row: the input and the output of each module (tokens, features), and the patterns by layer."""

    given: dict
    gave: dict
    patterns: list
    states: list


def stages_of(network, inputs: torch.Tensor, row: int = 0, *, heads: bool = False, spoiled: str = "") -> tuple:
    """(x0, stages, last state) of one row. `spoiled` plants an error in the matrices, none of which is then asserted."""
    layers, spec = _layers(network)
    watched = [module for layer in layers for module in spec(layer).values() if isinstance(module, torch.nn.Module)]
    seen = _run(network, inputs, row, watched, layers)
    stages = []
    for number, layer in enumerate(layers, start=1):
        parts = spec(layer)
        attention = _attention(network, layer, seen.patterns[number - 1], f"A{number}", heads, spoiled)
        ffn = _ffn(network, layer, seen, f"F{number}")
        both = []
        for (vertices, common), kind in ((attention, "attention"), (ffn, "ffn")):
            before, after = (_norm(parts.get(f"{where} {kind}"), seen, spoiled) for where in ("before", "after"))
            both.append(DenseBranch(vertices, common, before, after))
            read = seen.given[parts[kind]].ravel()
            value = common + sum(vertex(read) for vertex in vertices.values())
            gave = seen.gave[parts[kind]].ravel()
            assert spoiled or np.abs(value - gave).max() <= SAME * np.abs(gave).max(), (number, kind)
        lines = [_norm(parts.get(f"line {kind}"), seen, spoiled) for kind in ("attention", "ffn")]
        stages += [DenseStage(both, None)] if "parallel" in parts else [DenseStage([b], a) for b, a in zip(both, lines)]
    return seen.states[0].ravel(), stages, seen.states[1]


def _layers(network):
    """The layers, and the modules of one by what they are."""
    kind = type(network).__name__
    if kind.startswith("GPT2"):
        return network.transformer.h, lambda layer: {
            "before attention": layer.ln_1, "before ffn": layer.ln_2, "attention": layer.attn, "ffn": layer.mlp,
            "act": layer.mlp.act,
        }  # fmt: skip
    if kind.startswith("GPTNeoX"):
        return network.gpt_neox.layers, lambda layer: {
            "before attention": layer.input_layernorm, "before ffn": layer.post_attention_layernorm,
            "attention": layer.attention, "ffn": layer.mlp, "act": layer.mlp.act,
            **({"parallel": True} if layer.use_parallel_residual else {}),
        }  # fmt: skip
    if kind.startswith("Bert"):
        return network.bert.encoder.layer, lambda layer: {
            "line attention": layer.attention.output.LayerNorm, "line ffn": layer.output.LayerNorm,
            "attention": _Both(layer.attention.self, layer.attention.output.dense),
            "ffn": _Both(layer.intermediate, layer.output.dense), "act": layer.intermediate.intermediate_act_fn,
            "first": layer.attention.self, "second": layer.attention.output.dense, "third": layer.intermediate,
            "fourth": layer.output.dense,
        }  # fmt: skip
    if kind == "TransformerEncoder":
        where = "before" if network.layers[0].norm_first else "line"
        return network.layers, lambda layer: {
            f"{where} attention": layer.norm1, f"{where} ffn": layer.norm2, "attention": layer.self_attn,
            "ffn": _Both(layer.linear1, layer.linear2), "first": layer.linear1, "second": layer.linear2,
        }  # fmt: skip
    if kind.startswith("Olmo2"):
        names = {"after attention": "post_attention_layernorm", "after ffn": "post_feedforward_layernorm"}
    elif kind.startswith("Gemma"):
        names = {
            "before attention": "input_layernorm", "after attention": "post_attention_layernorm",
            "before ffn": "pre_feedforward_layernorm", "after ffn": "post_feedforward_layernorm",
        }  # fmt: skip
    else:
        names = {"before attention": "input_layernorm", "before ffn": "post_attention_layernorm"}
    return network.model.layers, lambda layer: {
        **{what: getattr(layer, name) for what, name in names.items()}, "attention": layer.self_attn, "ffn": layer.mlp,
    }  # fmt: skip


@dataclass(frozen=True)
class _Both:
    """Two modules, the input of the first and the output of the second."""

    first: torch.nn.Module
    second: torch.nn.Module


class _SeenDict(dict):
    def __init__(self, end: str) -> None:
        self.end = end

    def __missing__(self, key):
        return self[getattr(key, self.end)]


def _run(network, inputs, row, watched, layers) -> Seen:
    given, gave, states, patterns = _SeenDict("first"), _SeenDict("second"), [], []
    first = not isinstance(network, torch.nn.TransformerEncoder) or layers[0].self_attn.batch_first

    def taken(value):
        value = value[0] if isinstance(value, tuple) else value
        return array(value if first or value.shape[0] != inputs.shape[1] else value.transpose(0, 1))[row]

    def hook(module, positional, named, output):
        given[module] = taken(positional[0] if positional else named["hidden_states"])
        gave[module] = taken(output)
        if isinstance(module, torch.nn.MultiheadAttention):
            handle = handles.pop(id(module))
            handle.remove()
            state = positional[0]
            patterns.append(array(module(state, state, state, average_attn_weights=False)[1])[row])

    def layer_hook(module, positional, named, output):
        states.extend([taken(positional[0]), taken(output)] if module is layers[0] else [taken(output)])

    handles = {id(module): module.register_forward_hook(hook, with_kwargs=True) for module in watched}
    handles |= {-n: layer.register_forward_hook(layer_hook, with_kwargs=True) for n, layer in enumerate(layers, 1)}
    try:
        with faithful(network):
            if isinstance(network, torch.nn.TransformerEncoder):
                network(inputs if first else inputs.transpose(0, 1))
            else:
                output = network(input_ids=inputs, output_attentions=True, use_cache=False)
                patterns.extend(array(pattern)[row] for pattern in output.attentions)
    finally:
        for handle in handles.values():
            handle.remove()
    return Seen(given, gave, patterns, [states[0], states[-1]])


def _norm(module, seen: Seen, spoiled: str) -> Affine | None:
    """Its matrix from its input and weights: the mean square or the biased variance, written down anew."""
    if module is None:
        return None
    given = seen.given[module]
    tokens, features = given.shape
    epsilon = next(getattr(module, name) for name in ("variance_epsilon", "eps") if hasattr(module, name))
    weight = array(module.weight) + (1.0 if "Gemma" in type(module).__name__ and spoiled != "weight" else 0.0)
    added = np.zeros(features)
    if isinstance(module, torch.nn.LayerNorm):
        centring = np.eye(features) - np.full((features, features), 1 / features)
        scale = 1 / np.sqrt(given.var(-1, ddof=int(spoiled == "unbiased")) + epsilon)
        one = weight[:, None] * centring
        added = added if module.bias is None or spoiled == "shift" else array(module.bias)
    else:
        scale, one = 1 / np.sqrt((given**2).mean(-1) + epsilon), np.diag(weight)
    norm = Affine(np.kron(np.diag(scale), one), np.tile(added, tokens))
    gave = seen.gave[module].ravel()
    assert spoiled or np.abs(norm(given.ravel()) - gave).max() <= SAME * np.abs(gave).max()
    return norm


def _attention(network, layer, pattern: np.ndarray, name: str, heads: bool, spoiled: str) -> tuple:
    """({vertex: matrix and row sums times value bias}, output bias), from `A_h (x) W_O^h W_V^g(h)`."""
    weights, bias = _heads(network, layer, len(pattern), spoiled)
    tokens = pattern.shape[-1]
    common = np.tile(np.zeros(len(weights[0][1])) if bias is None else array(bias), tokens)
    found = {}
    for head, (value, output, value_bias) in enumerate(weights):
        added = np.zeros(len(common)) if value_bias is None else np.kron(pattern[head].sum(1), output @ value_bias)
        found[f"{name}_{head}"] = Affine(np.kron(pattern[head], output @ value), added)
    if heads:
        return found, common
    whole = Affine(sum(part.matrix for part in found.values()), sum(part.added for part in found.values()) + common)
    return {name: whole}, np.zeros_like(common)


def _heads(network, layer, count: int, spoiled: str) -> tuple:
    """[(W_V (size, features), W_O (features, size), b_V or None)] by head, and b_O or None."""
    kind = type(network).__name__
    if kind.startswith("GPT2"):
        inner = layer.attn
        features = inner.embed_dim
        value, value_bias = array(inner.c_attn.weight).T[2 * features :], array(inner.c_attn.bias)[2 * features :]
        output, bias = array(inner.c_proj.weight).T, inner.c_proj.bias
    elif kind.startswith("GPTNeoX"):
        inner = layer.attention
        shape = (3, count, inner.head_size) if spoiled == "order" else (count, 3, inner.head_size)
        weight = array(inner.query_key_value.weight).reshape(*shape, -1)
        own_bias = array(inner.query_key_value.bias).reshape(shape)
        value, value_bias = (w[2] if spoiled == "order" else w[:, 2] for w in (weight, own_bias))
        value, value_bias = value.reshape(-1, value.shape[-1]), value_bias.ravel()
        output, bias = array(inner.dense.weight), inner.dense.bias
    elif kind.startswith("Bert"):
        inner = layer.attention
        value, value_bias = array(inner.self.value.weight), array(inner.self.value.bias)
        output, bias = array(inner.output.dense.weight), inner.output.dense.bias
    elif kind == "TransformerEncoder":
        inner = layer.self_attn
        value, output = array(inner.in_proj_weight)[2 * inner.embed_dim :], array(inner.out_proj.weight)
        bias = inner.out_proj.bias
        value_bias = None if inner.in_proj_bias is None else array(inner.in_proj_bias)[2 * inner.embed_dim :]
    elif kind.startswith("Phi3"):
        inner, config = layer.self_attn, network.config
        first = (config.num_attention_heads + config.num_key_value_heads) * inner.head_dim
        value, value_bias, output, bias = array(inner.qkv_proj.weight)[first:], None, array(inner.o_proj.weight), None
    else:
        inner = layer.self_attn
        value, output, bias = array(inner.v_proj.weight), array(inner.o_proj.weight), inner.o_proj.bias
        value_bias = None if inner.v_proj.bias is None else array(inner.v_proj.bias)
    size = output.shape[1] // count
    groups = len(value) // size
    found = []
    for head in range(count):
        group = head % groups if spoiled == "tiled" else head // (count // groups)
        rows = slice(group * size, (group + 1) * size)
        columns = output[:, head * size : (head + 1) * size]
        found.append((value[rows], columns, None if value_bias is None else value_bias[rows]))
    return found, bias


def _ffn(network, layer, seen: Seen, name: str) -> tuple:
    """({vertex: one matrix a token, and what each token adds}, nothing): gates act(h)/h, or act of the gate, by token."""
    kind = type(network).__name__
    if kind.startswith(("GPT2", "GPTNeoX", "Bert", "TransformerEncoder")):
        up, down, act, read = _plain(kind, layer)
        state = seen.given[read]
        matrices, added = [], []
        for token in state:
            hidden = up[0] @ token + up[1]
            gate = array(act(torch.tensor(hidden))) / hidden
            matrices.append(down[0] * gate @ up[0])
            added.append(down[0] @ (gate * up[1]) + down[1])
    else:
        mlp, state = layer.mlp, seen.given[layer.mlp]
        matrices, added = zip(*(_gated(mlp, token) for token in state))
    tokens, features = len(matrices), len(matrices[0])
    whole = np.zeros((tokens, features, tokens, features))
    for token, matrix in enumerate(matrices):
        whole[token, :, token] = matrix
    return {name: Affine(whole.reshape(tokens * features, -1), np.concatenate(added))}, np.zeros(tokens * features)


def _plain(kind: str, layer) -> tuple:
    if kind.startswith("GPT2"):
        up, down, act, read, turned = layer.mlp.c_fc, layer.mlp.c_proj, layer.mlp.act, layer.mlp, True
    elif kind.startswith("GPTNeoX"):
        up, down, act, read, turned = layer.mlp.dense_h_to_4h, layer.mlp.dense_4h_to_h, layer.mlp.act, layer.mlp, False
    elif kind.startswith("Bert"):
        up, down, act, read, turned = (
            layer.intermediate.dense, layer.output.dense, layer.intermediate.intermediate_act_fn, layer.intermediate, False
        )  # fmt: skip
    else:
        up, down, act, read, turned = layer.linear1, layer.linear2, layer.activation, layer.linear1, False
    pairs = []
    for module in (up, down):
        weight = array(module.weight).T if turned else array(module.weight)
        pairs.append((weight, np.zeros(len(weight)) if module.bias is None else array(module.bias)))
    return *pairs, act, read


def _gated(mlp, token: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if hasattr(mlp, "experts"):
        logits = array(mlp.gate.weight) @ token
        chances = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        chosen = np.argsort(-chances)[: mlp.gate.top_k]
        total = np.zeros((len(token), len(token)))
        for expert in chosen:
            gate, up = np.split(array(mlp.experts.gate_up_proj[expert]), 2)
            active = array(mlp.experts.act_fn(torch.tensor(gate @ token)))
            total += chances[expert] / chances[chosen].sum() * array(mlp.experts.down_proj[expert]) * active @ up
        return total, np.zeros(len(token))
    if hasattr(mlp, "gate_up_proj"):
        (gate, up), down = np.split(array(mlp.gate_up_proj.weight), 2), array(mlp.down_proj.weight)
        return down * array(mlp.activation_fn(torch.tensor(gate @ token))) @ up, np.zeros(len(down))
    modules = (mlp.gate_proj, mlp.up_proj, mlp.down_proj)
    gate, up, down = ((array(m.weight), 0 if m.bias is None else array(m.bias)) for m in modules)
    active = array(mlp.act_fn(torch.tensor(gate[0] @ token + gate[1])))
    return down[0] * active @ up[0], down[0] @ (active * (up[1] + np.zeros(len(active)))) + down[1]
