"""The Dyson series of a Llama model by brute force: dense matrices from its weights and its own forward, all selections."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from opalgebra.numeric.faithful import faithful


@dataclass(frozen=True)
class Recorded:
    """What one forward of the model computed: all float64, each list one entry a stage or a layer.

    states (batch, tokens, features), the embedding first; norms: the input and output of each norm; patterns (batch, heads,
    tokens, tokens); gates (batch, tokens, hidden); branches: what each stage adds; logits (batch, tokens, vocabulary).
    """

    states: list[np.ndarray] = field(default_factory=list)
    norms: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    patterns: list[np.ndarray] = field(default_factory=list)
    gates: list[np.ndarray] = field(default_factory=list)
    branches: list[np.ndarray] = field(default_factory=list)
    logits: np.ndarray | None = None


@dataclass(frozen=True)
class DenseStage:
    """One dressed stage of one row: vertices are matrices (tokens * features)^2 by name, token-major; each has a source."""

    vertices: dict[str, np.ndarray]
    sources: dict[str, np.ndarray]


def array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().double().numpy().copy()


def record(network, ids: torch.Tensor) -> Recorded:
    """Runs the model once and keeps what its modules were given and gave."""
    base = getattr(network, "model", network)
    found = Recorded()

    def norm_hook(module, positional, output):
        found.states.append(array(positional[0]))
        found.norms.append((array(positional[0]), array(output)))

    def gate_hook(module, positional, output):
        found.gates.append(array(output))

    def branch_hook(module, positional, output):
        found.branches.append(array(output[0] if isinstance(output, tuple) else output))

    handles = [base.norm.register_forward_hook(norm_hook)]
    for layer in base.layers:
        handles += [
            layer.input_layernorm.register_forward_hook(norm_hook),
            layer.post_attention_layernorm.register_forward_hook(norm_hook),
            layer.self_attn.register_forward_hook(branch_hook),
            layer.mlp.register_forward_hook(branch_hook),
            layer.mlp.act_fn.register_forward_hook(gate_hook),
        ]
    try:
        with faithful(network):
            output = network(input_ids=ids, output_attentions=True, use_cache=False)
    finally:
        for handle in handles:
            handle.remove()
    found.patterns.extend(array(pattern) for pattern in output.attentions)
    logits = getattr(output, "logits", None)
    return replace(found, logits=None if logits is None else array(logits))


def norm_scale(given: np.ndarray, gave: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(tokens,): the factor `s_t` of `gave = s_t * weight * given`, from the norm's own output alone."""
    direction = given * weight
    return (gave * direction).sum(-1) / (direction * direction).sum(-1)


def grouped(head: int, heads: int, key_heads: int) -> int:
    """The value head that serves a query head."""
    return head // (heads // key_heads)


def whole_operator(blocks: Sequence[np.ndarray]) -> np.ndarray:
    """`sum_t |t><t| (x) F_t` of one matrix a token."""
    tokens, rows, columns = np.shape(blocks)
    whole = np.zeros((tokens, rows, tokens, columns))
    for t, block in enumerate(blocks):
        whole[t, :, t, :] = block
    return whole.reshape(tokens * rows, tokens * columns)


def norm_matrix(norm, given: np.ndarray, gave: np.ndarray) -> np.ndarray:
    weight = array(norm.weight)
    return np.diag((norm_scale(given, gave, weight)[:, None] * weight).ravel())


def head_matrix(attention, config, head: int, pattern: np.ndarray, value_head: Callable = grouped) -> np.ndarray:
    """`A_h (x) W_O^h W_V^g(h)`."""
    return np.kron(pattern, output_columns(attention, config, head) @ value_rows(attention, config, head, value_head))


def output_columns(attention, config, head: int) -> np.ndarray:
    return array(attention.o_proj.weight)[:, head * config.head_dim : (head + 1) * config.head_dim]


def value_rows(attention, config, head: int, value_head: Callable = grouped) -> np.ndarray:
    first = value_head(head, config.num_attention_heads, config.num_key_value_heads) * config.head_dim
    return array(attention.v_proj.weight)[first : first + config.head_dim]


def head_source(attention, config, head: int, pattern: np.ndarray) -> np.ndarray:
    """`(A_h 1) (x) W_O^h b_V^g(h)`."""
    tokens = len(pattern)
    if attention.v_proj.bias is None:
        return np.zeros(tokens * config.hidden_size)
    first = grouped(head, config.num_attention_heads, config.num_key_value_heads) * config.head_dim
    bias = array(attention.v_proj.bias)[first : first + config.head_dim]
    return np.kron(pattern.sum(1), output_columns(attention, config, head) @ bias)


def ffn_matrix(mlp, gate: np.ndarray) -> np.ndarray:
    """One matrix a token, `W_down diag(gate_t) W_up`."""
    down, up = array(mlp.down_proj.weight), array(mlp.up_proj.weight)
    return whole_operator([down * gate_t @ up for gate_t in gate])


def ffn_source(mlp, gate: np.ndarray) -> np.ndarray:
    source = np.zeros((len(gate), mlp.down_proj.out_features))
    if mlp.down_proj.bias is not None:
        source = gate * array(mlp.up_proj.bias) @ array(mlp.down_proj.weight).T + array(mlp.down_proj.bias)
    return source.ravel()


def dense_stages(
    network,
    found: Recorded,
    row: int = 0,
    *,
    attention: str = "frozen",
    ffn: str = "gate",
    heads: bool = False,
    value_head: Callable = grouped,
    norms: Sequence[int] | None = None,
    gate_token: Callable[[int], int] | None = None,
) -> list[DenseStage]:
    """The dressed stages of one row of the input, norms inside the vertices.

    The last three arguments plant errors: which value head serves a head, at which stage each norm is frozen, and whose
    gate a token uses.
    """
    base, config = getattr(network, "model", network), network.config
    stages = []
    for index, layer in enumerate(base.layers):
        inner, mlp = layer.self_attn, layer.mlp
        places = [2 * index, 2 * index + 1]
        frozen_at = places if norms is None else [norms[place] for place in places]
        before, between = (
            norm_matrix(norm, found.states[place][row], _normed(found, norm, place, at, row))
            for norm, place, at in zip((layer.input_layernorm, layer.post_attention_layernorm), places, frozen_at)
        )
        pattern, gate = found.patterns[index][row], found.gates[index][row]
        if gate_token is not None:
            gate = gate[[gate_token(t) for t in range(len(gate))]]
        whole = f"A{index + 1}"
        size = pattern.shape[-1] * config.hidden_size
        if attention == "frozen":
            count = range(config.num_attention_heads)
            matrices = {f"{whole}_{h}": head_matrix(inner, config, h, pattern[h], value_head) @ before for h in count}
            sources = {f"{whole}_{h}": head_source(inner, config, h, pattern[h]) for h in count}
            if not heads:
                bias = 0 if inner.o_proj.bias is None else np.tile(array(inner.o_proj.bias), pattern.shape[-1])
                matrices, sources = {whole: sum(matrices.values())}, {whole: sum(sources.values()) + bias}
            stages.append(DenseStage(matrices, sources))
        else:
            stages.append(DenseStage({whole: np.zeros((size, size))}, {whole: found.branches[places[0]][row].ravel()}))
        name = f"F{index + 1}"
        if ffn == "gate":
            stages.append(DenseStage({name: ffn_matrix(mlp, gate) @ between}, {name: ffn_source(mlp, gate)}))
        else:
            stages.append(DenseStage({name: np.zeros((size, size))}, {name: found.branches[places[1]][row].ravel()}))
    return stages


def _normed(found: Recorded, norm, place: int, at: int, row: int) -> np.ndarray:
    """The output of a norm on the state at `place`, with the scale of the state at `at`, another one only to plant an error."""
    if at == place:
        return found.norms[place][1][row]
    mean = (found.states[at][row] ** 2).mean(-1, keepdims=True)
    return found.states[place][row] * array(norm.weight) / np.sqrt(mean + norm.variance_epsilon)


def factor(stage: DenseStage, counted: Callable[[str], bool], choice: str | None) -> np.ndarray:
    """The chosen vertex, or `1` plus the vertices that are not counted."""
    if choice is not None:
        return stage.vertices[choice]
    resummed = [matrix for name, matrix in stage.vertices.items() if not counted(name)]
    return sum(resummed, np.eye(len(next(iter(stage.vertices.values())))))


def product(stages: Sequence[DenseStage], counted: Callable[[str], bool], selection: Sequence[str | None]) -> np.ndarray:
    """The product of the factors of one selection, later stages to the left."""
    size = len(next(iter(stages[0].vertices.values()))) if stages else 0
    result = np.eye(size)
    for stage, choice in zip(stages, selection):
        result = factor(stage, counted, choice) @ result
    return result


def brute_force(
    x0: np.ndarray, stages: Sequence[DenseStage], counted: Callable[[str], bool], born: Callable[[bool], int] = int
) -> tuple[np.ndarray, np.ndarray]:
    """(parts, sources), each (orders, tokens * features): the sum over all selections, source-born parts apart in `sources`.

    `born` gives the order of a source at a vertex, from whether it is counted; another one plants an error.
    """
    orders = 1 + sum(any(map(counted, stage.vertices)) for stage in stages)
    parts, sources = np.zeros((orders, x0.size)), np.zeros((orders, x0.size))
    for k, value in _applied(x0.ravel(), stages, counted):
        parts[k] += value
    for s, stage in enumerate(stages):
        for name, source in stage.sources.items():
            for k, value in _applied(source, stages[s + 1 :], counted):
                sources[k + born(counted(name))] += value
    return parts + sources, sources


def _applied(vector: np.ndarray, stages: Sequence[DenseStage], counted: Callable[[str], bool]):
    """(order, value) of each selection, every one applied from the start."""
    choices = [(None, *filter(counted, stage.vertices)) for stage in stages]
    factors = [{choice: factor(stage, counted, choice) for choice in here} for stage, here in zip(stages, choices)]
    for selection in itertools.product(*choices):
        value = vector
        for matrices, choice in zip(factors, selection):
            value = matrices[choice] @ value
        yield sum(choice is not None for choice in selection), value


def recurrence(x0: np.ndarray, stages: Sequence[DenseStage], counted: Callable[[str], bool], in_place: bool) -> np.ndarray:
    """`y_k <- y_k + V y_{k-1}` for sources zero; `in_place` plants the error of reading a part that was already updated."""
    parts = [x0.ravel(), *(np.zeros(x0.size) for _ in stages)]
    for stage in stages:
        moved = sum(matrix for name, matrix in stage.vertices.items() if counted(name))
        for k in range(1, len(parts)) if in_place else reversed(range(1, len(parts))):
            parts[k] = parts[k] + moved @ parts[k - 1]
    return np.array(parts)
